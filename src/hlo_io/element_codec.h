// SPDX-License-Identifier: Apache-2.0
// Real numbers in and out of the storage of an element type, for text and for comparisons.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/unaligned.h"
#include "ir/mini_float.h"
#include "krafla/element_type.h"

namespace krafla {

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
  if (const MiniFloat* format = FindMiniFloat(type)) return DecodeMiniFloat(static_cast<uint32_t>(bits), *format);
  if (type == ElementType::kF64) return std::bit_cast<double>(bits);
  return std::bit_cast<float>(static_cast<uint32_t>(bits));
}
inline uint64_t EncodeReal(ElementType type, double value) {
  if (const MiniFloat* format = FindMiniFloat(type)) return EncodeMiniFloat(value, *format);
  if (type == ElementType::kF64) return std::bit_cast<uint64_t>(value);
  return std::bit_cast<uint32_t>(static_cast<float>(value));
}

static_assert(std::endian::native == std::endian::little, "literals are little endian");

}  // namespace krafla
