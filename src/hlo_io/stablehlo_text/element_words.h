// SPDX-License-Identifier: Apache-2.0
// What MLIR calls the element types. Of several words for a type the first is written; "index" is kInvalid here.
#pragma once

#include <string_view>
#include <utility>

#include "krafla/element_type.h"

namespace krafla::stablehlo {

inline constexpr std::pair<std::string_view, ElementType> kElementWords[] = {
    {"i1", ElementType::kPred},
    {"i2", ElementType::kS2},
    {"i4", ElementType::kS4},
    {"i8", ElementType::kS8},
    {"i16", ElementType::kS16},
    {"i32", ElementType::kS32},
    {"i64", ElementType::kS64},
    {"si4", ElementType::kS4},
    {"si8", ElementType::kS8},
    {"si16", ElementType::kS16},
    {"si32", ElementType::kS32},
    {"si64", ElementType::kS64},
    {"ui2", ElementType::kU2},
    {"ui4", ElementType::kU4},
    {"ui8", ElementType::kU8},
    {"ui16", ElementType::kU16},
    {"ui32", ElementType::kU32},
    {"ui64", ElementType::kU64},
    {"bf16", ElementType::kBF16},
    {"f16", ElementType::kF16},
    {"f32", ElementType::kF32},
    {"f64", ElementType::kF64},
    {"f8E5M2", ElementType::kF8E5M2},
    {"f8E4M3FN", ElementType::kF8E4M3FN},
    {"f8E4M3", ElementType::kF8E4M3},
    {"f8E3M4", ElementType::kF8E3M4},
    {"f8E4M3B11FNUZ", ElementType::kF8E4M3B11FNUZ},
    {"f8E5M2FNUZ", ElementType::kF8E5M2FNUZ},
    {"f8E4M3FNUZ", ElementType::kF8E4M3FNUZ},
    {"f4E2M1FN", ElementType::kF4E2M1FN},
    {"f8E8M0FNU", ElementType::kF8E8M0FNU},
    {"index", ElementType::kInvalid},
};

}  // namespace krafla::stablehlo
