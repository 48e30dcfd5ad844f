// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "krafla/op_enums.h"
#include "krafla/status.h"

namespace krafla {

// With b `Mirrored(d)` a for a `d` b.
inline ComparisonDirection Mirrored(ComparisonDirection d) {
  switch (d) {
    case ComparisonDirection::kEq:
    case ComparisonDirection::kNe: return d;
    case ComparisonDirection::kGe: return ComparisonDirection::kLe;
    case ComparisonDirection::kLt: return ComparisonDirection::kGt;
    case ComparisonDirection::kGt: return ComparisonDirection::kLt;
    case ComparisonDirection::kLe: return ComparisonDirection::kGe;
  }
  KRAFLA_UNREACHABLE();
}

}  // namespace krafla
