// SPDX-License-Identifier: Apache-2.0
// Elements of fewer than 8 bits as devices keep them: as many to a byte as it has room for, the first one in its lowest
// bits (XLA's element_size_in_bits). Literals have a byte for each: these are the two copies at the edge, and what the
// packed arrays are to a program.
#pragma once

#include <span>

#include "krafla/literal.h"
#include "krafla/shape.h"
#include "krafla/status.h"

namespace krafla {

// How many elements a byte of a device's memory holds.
inline int ElementsPerByte(ElementType type) {
  const int bits = BitWidth(type);
  return bits > 0 && bits < 8 ? 8 / bits : 1;
}

// Whether devices keep the array in another form than a literal: elements of fewer than 8 bits, of known sizes.
bool IsPackable(const Shape& shape);
// The array of u8 that a device keeps: of the same dimensions with the last one shorter, or of one dimension where the
// elements of the last one do not fill whole bytes. Of packable shapes.
Shape PackedShape(const Shape& shape);
// What the array takes in a device's memory.
int64_t DeviceBytes(const Shape& shape);

// `from` has a byte an element of `type`, `to` as many bytes as they take. The bits behind the last one are zeros.
void PackElements(ElementType type, std::span<const std::byte> from, std::span<std::byte> to);
// The other way.
void UnpackElements(ElementType type, std::span<const std::byte> from, std::span<std::byte> to);
// The literal of PackedShape. Of packable shapes.
Result<Literal> PackedLiteral(const Literal& literal);
Result<Literal> UnpackedLiteral(const Literal& packed, const Shape& shape);

}  // namespace krafla
