// SPDX-License-Identifier: Apache-2.0
#include "ir/packed_elements.h"

#include <bit>
#include <cstring>

#include "base/checked_math.h"

namespace krafla {
namespace {

// The eight nibbles of eight bytes of a word, side by side; and the other way.
uint32_t Nibbles(uint64_t bytes) {
  bytes &= 0x0f0f0f0f0f0f0f0f;
  bytes = (bytes | bytes >> 4) & 0x00ff00ff00ff00ff;
  bytes = (bytes | bytes >> 8) & 0x0000ffff0000ffff;
  return static_cast<uint32_t>(bytes | bytes >> 16);
}
uint64_t Spread(uint32_t nibbles) {
  uint64_t out = nibbles;
  out = (out | out << 16) & 0x0000ffff0000ffff;
  out = (out | out << 8) & 0x00ff00ff00ff00ff;
  return (out | out << 4) & 0x0f0f0f0f0f0f0f0f;
}

// kBits of each element.
template <int kBits>
void Pack(const uint8_t* from, int64_t count, uint8_t* to) {
  constexpr int kPer = 8 / kBits;
  constexpr unsigned kMask = (1U << kBits) - 1;
  const int64_t whole = count / kPer;
  int64_t i = 0;
  if constexpr (kBits == 4 && std::endian::native == std::endian::little) {
    for (; i + 4 <= whole; i += 4) {
      uint64_t bytes = 0;
      std::memcpy(&bytes, from + i * kPer, sizeof(bytes));
      const uint32_t nibbles = Nibbles(bytes);
      std::memcpy(to + i, &nibbles, sizeof(nibbles));
    }
  }
  for (; i < whole; ++i) {
    unsigned byte = 0;
    for (int e = 0; e < kPer; ++e) byte |= (from[i * kPer + e] & kMask) << (e * kBits);
    to[i] = static_cast<uint8_t>(byte);
  }
  if (whole * kPer == count) return;
  unsigned byte = 0;
  for (int64_t e = 0; e < count - whole * kPer; ++e) byte |= (from[whole * kPer + e] & kMask) << (e * kBits);
  to[whole] = static_cast<uint8_t>(byte);
}

// The sign's bit goes into all bits above it: (x ^ sign) - sign.
template <int kBits>
void Unpack(const uint8_t* from, int64_t count, bool is_signed, uint8_t* to) {
  constexpr int kPer = 8 / kBits;
  constexpr unsigned kMask = (1U << kBits) - 1;
  const unsigned sign = is_signed ? 1U << (kBits - 1) : 0;
  const int64_t whole = count / kPer;
  int64_t i = 0;
  if constexpr (kBits == 4 && std::endian::native == std::endian::little) {
    for (; i + 4 <= whole; i += 4) {
      uint32_t nibbles = 0;
      std::memcpy(&nibbles, from + i, sizeof(nibbles));
      uint64_t bytes = Spread(nibbles);
      // Bit 3 times 30: the four bits above it.
      if (is_signed) bytes |= (bytes & 0x0808080808080808) * 30;
      std::memcpy(to + i * kPer, &bytes, sizeof(bytes));
    }
  }
  for (; i < whole; ++i)
    for (int e = 0; e < kPer; ++e)
      to[i * kPer + e] = static_cast<uint8_t>((((from[i] >> (e * kBits)) & kMask) ^ sign) - sign);
  for (int64_t e = whole * kPer; e < count; ++e)
    to[e] = static_cast<uint8_t>((((from[whole] >> ((e - whole * kPer) * kBits)) & kMask) ^ sign) - sign);
}

}  // namespace

bool IsPackable(const Shape& shape) {
  return shape.IsArray() && ElementsPerByte(shape.element_type()) > 1 && shape.rank() > 0 && !shape.IsDynamic() &&
         shape.element_count() > 0;
}

Shape PackedShape(const Shape& shape) {
  const int64_t per = ElementsPerByte(shape.element_type());
  Dims dims = shape.dims();
  if (dims.back() % per == 0) dims.back() /= per;
  else dims = {CeilDiv(shape.element_count(), per)};
  auto out = Shape::MakeArray(ElementType::kU8, dims);
  KRAFLA_CHECK(out.has_value());  // smaller than one that exists
  return *std::move(out);
}

int64_t DeviceBytes(const Shape& shape) {
  return IsPackable(shape) ? CeilDiv(shape.element_count(), ElementsPerByte(shape.element_type())) : shape.byte_size();
}

void PackElements(ElementType type, std::span<const std::byte> from, std::span<std::byte> to) {
  const auto* source = reinterpret_cast<const uint8_t*>(from.data());
  auto* target = reinterpret_cast<uint8_t*>(to.data());
  const auto count = static_cast<int64_t>(from.size());
  switch (BitWidth(type)) {
    case 1: return Pack<1>(source, count, target);
    case 2: return Pack<2>(source, count, target);
    default: return Pack<4>(source, count, target);
  }
}

void UnpackElements(ElementType type, std::span<const std::byte> from, std::span<std::byte> to) {
  const auto* source = reinterpret_cast<const uint8_t*>(from.data());
  auto* target = reinterpret_cast<uint8_t*>(to.data());
  const auto count = static_cast<int64_t>(to.size());
  switch (BitWidth(type)) {
    case 1: return Unpack<1>(source, count, IsSigned(type), target);
    case 2: return Unpack<2>(source, count, IsSigned(type), target);
    default: return Unpack<4>(source, count, IsSigned(type), target);
  }
}

Result<Literal> PackedLiteral(const Literal& literal) {
  KRAFLA_ASSIGN(Literal out, Literal::CreateUninitialized(PackedShape(literal.shape())));
  PackElements(literal.shape().element_type(), literal.bytes(), out.bytes());
  return out;
}

Result<Literal> UnpackedLiteral(const Literal& packed, const Shape& shape) {
  KRAFLA_ASSIGN(Literal out, Literal::CreateUninitialized(shape));
  UnpackElements(shape.element_type(), packed.bytes(), out.bytes());
  return out;
}

}  // namespace krafla
