// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/element_types.h"

#include <array>
#include <span>

namespace krafla::pjrt {
namespace {

using enum ElementType;

// By PJRT_Buffer_Type, from 0.
constexpr std::array kTypes = {
    kInvalid, kPred,  kS8,   kS16, kS32,    kS64,    kU8,        kU16,           kU32,        kU64,        kF16,
    kF32,     kF64,   kBF16, kC64, kC128,   kF8E5M2, kF8E4M3FN,  kF8E4M3B11FNUZ, kF8E5M2FNUZ, kF8E4M3FNUZ, kS4,
    kU4,      kToken, kS2,   kU2,  kF8E4M3, kF8E3M4, kF8E8M0FNU, kF4E2M1FN,      kS1,         kU1,
};
static_assert(kTypes.size() == 32);

}  // namespace

Result<ElementType> FromPjrtType(PJRT_Buffer_Type type) {
  if (type >= kTypes.size() || !IsArrayType(kTypes[type]))
    return Unimplemented("There are no arrays of the element type that PJRT numbers {}.", type);
  return kTypes[type];
}

PJRT_Buffer_Type ToPjrtType(ElementType type) {
  for (std::size_t i = 0; i < kTypes.size(); ++i)
    if (kTypes[i] == type) return static_cast<PJRT_Buffer_Type>(i);
  return kPjrtInvalidType;
}

Result<Shape> ShapeFrom(PJRT_Buffer_Type type, const int64_t* dims, std::size_t rank) {
  KRAFLA_ASSIGN(const ElementType element, FromPjrtType(type));
  return Shape::MakeArray(element, std::span(dims, rank));
}

}  // namespace krafla::pjrt
