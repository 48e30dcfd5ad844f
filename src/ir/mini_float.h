// SPDX-License-Identifier: Apache-2.0
// The narrow float formats by element type.
#pragma once

#include "krafla/element_type.h"
#include "numerics/formats.h"

namespace krafla {

// The format of a float narrower than f32; null for every other type.
inline const MiniFloat* FindMiniFloat(ElementType type) {
  switch (type) {
    case ElementType::kF16: return &kF16Format;
    case ElementType::kBF16: return &kBF16Format;
    case ElementType::kF8E5M2: return &kF8E5M2Format;
    case ElementType::kF8E4M3FN: return &kF8E4M3FNFormat;
    case ElementType::kF8E4M3: return &kF8E4M3Format;
    case ElementType::kF8E3M4: return &kF8E3M4Format;
    case ElementType::kF8E4M3B11FNUZ: return &kF8E4M3B11FNUZFormat;
    case ElementType::kF8E5M2FNUZ: return &kF8E5M2FNUZFormat;
    case ElementType::kF8E4M3FNUZ: return &kF8E4M3FNUZFormat;
    case ElementType::kF4E2M1FN: return &kF4E2M1FNFormat;
    case ElementType::kF8E8M0FNU: return &kF8E8M0FNUFormat;
    case ElementType::kInvalid:
    case ElementType::kPred:
    case ElementType::kS1:
    case ElementType::kS2:
    case ElementType::kS4:
    case ElementType::kS8:
    case ElementType::kS16:
    case ElementType::kS32:
    case ElementType::kS64:
    case ElementType::kU1:
    case ElementType::kU2:
    case ElementType::kU4:
    case ElementType::kU8:
    case ElementType::kU16:
    case ElementType::kU32:
    case ElementType::kU64:
    case ElementType::kF32:
    case ElementType::kF64:
    case ElementType::kC64:
    case ElementType::kC128:
    case ElementType::kTuple:
    case ElementType::kOpaque:
    case ElementType::kToken: return nullptr;
  }
  return nullptr;
}

}  // namespace krafla
