// SPDX-License-Identifier: Apache-2.0
// Real numbers in and out of the storage of an element type, for text and for comparisons.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ir/element_type.h"
#include "numerics/formats.h"

namespace krafla {

// The format of a float narrower than f32; null for every other type.
inline const MiniFloat* NarrowFormat(ElementType type) {
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

template <typename T>
T LoadAs(const std::byte* from) {
  T out;
  std::memcpy(&out, from, sizeof(T));
  return out;
}
template <typename T>
void StoreAs(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

// Real floating point, any width: the value and the bit pattern of the element at `from`.
inline uint64_t LoadBits(const std::byte* from, int storage_bytes) {
  uint64_t out = 0;
  std::memcpy(&out, from, static_cast<std::size_t>(storage_bytes));  // little endian
  return out;
}
inline void StoreBits(std::byte* to, uint64_t bits, int storage_bytes) {
  std::memcpy(to, &bits, static_cast<std::size_t>(storage_bytes));
}
inline double DecodeReal(ElementType type, uint64_t bits) {
  if (const MiniFloat* format = NarrowFormat(type)) return DecodeMiniFloat(static_cast<uint32_t>(bits), *format);
  if (type == ElementType::kF64) return std::bit_cast<double>(bits);
  return std::bit_cast<float>(static_cast<uint32_t>(bits));
}
inline uint64_t EncodeReal(ElementType type, double value) {
  if (const MiniFloat* format = NarrowFormat(type)) return EncodeMiniFloat(value, *format);
  if (type == ElementType::kF64) return std::bit_cast<uint64_t>(value);
  return std::bit_cast<uint32_t>(static_cast<float>(value));
}

static_assert(std::endian::native == std::endian::little, "literals are little endian");

}  // namespace krafla
