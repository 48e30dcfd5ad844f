// SPDX-License-Identifier: Apache-2.0
// The narrow float formats by element type.
#pragma once

#include "ir/element_type.h"
#include "numerics/formats.h"

namespace krafla::cpu {

// Null for a type that is not a narrow float.
inline const MiniFloat* FindMiniFloat(ElementType type) {
  if (type == ElementType::kF16) return &kF16Format;
  if (type == ElementType::kBF16) return &kBF16Format;
  if (type == ElementType::kF8E5M2) return &kF8E5M2Format;
  if (type == ElementType::kF8E4M3FN) return &kF8E4M3FNFormat;
  if (type == ElementType::kF8E4M3) return &kF8E4M3Format;
  if (type == ElementType::kF8E3M4) return &kF8E3M4Format;
  if (type == ElementType::kF8E4M3B11FNUZ) return &kF8E4M3B11FNUZFormat;
  if (type == ElementType::kF8E5M2FNUZ) return &kF8E5M2FNUZFormat;
  if (type == ElementType::kF8E4M3FNUZ) return &kF8E4M3FNUZFormat;
  if (type == ElementType::kF4E2M1FN) return &kF4E2M1FNFormat;
  if (type == ElementType::kF8E8M0FNU) return &kF8E8M0FNUFormat;
  return nullptr;
}

}  // namespace krafla::cpu
