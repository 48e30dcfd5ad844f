// SPDX-License-Identifier: Apache-2.0
// The names that the safetensors format has for types of elements (github.com/huggingface/safetensors).
#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "krafla/element_type.h"

namespace krafla {

inline constexpr std::pair<std::string_view, ElementType> kSafetensorsDtypes[] = {
    {"F64", ElementType::kF64},
    {"F32", ElementType::kF32},
    {"F16", ElementType::kF16},
    {"BF16", ElementType::kBF16},
    {"I64", ElementType::kS64},
    {"I32", ElementType::kS32},
    {"I16", ElementType::kS16},
    {"I8", ElementType::kS8},
    {"U64", ElementType::kU64},
    {"U32", ElementType::kU32},
    {"U16", ElementType::kU16},
    {"U8", ElementType::kU8},
    {"BOOL", ElementType::kPred},
    {"C64", ElementType::kC64},
    {"F8_E4M3", ElementType::kF8E4M3FN},
    {"F8_E5M2", ElementType::kF8E5M2},
    {"F8_E4M3FNUZ", ElementType::kF8E4M3FNUZ},
    {"F8_E5M2FNUZ", ElementType::kF8E5M2FNUZ},
    {"F8_E8M0", ElementType::kF8E8M0FNU}};

constexpr std::optional<ElementType> TypeOfDtype(std::string_view name) {
  for (const auto& [dtype, type] : kSafetensorsDtypes)
    if (dtype == name) return type;
  return std::nullopt;
}

// Empty: the format has no name for it.
constexpr std::string_view DtypeOf(ElementType type) {
  for (const auto& [dtype, of] : kSafetensorsDtypes)
    if (of == type) return dtype;
  return {};
}

}  // namespace krafla
