// SPDX-License-Identifier: Apache-2.0
// Arrays between memories that order them differently.
#pragma once

#include <cstddef>
#include <span>

#include "krafla/literal.h"
#include "krafla/shape.h"
#include "krafla/status.h"
#include "plugins/pjrt/abi/pjrt_types.h"

namespace krafla::pjrt {

// Strides in bytes, of any sign.
void CopyStrided(std::byte* to, std::span<const int64_t> to_strides, const std::byte* from,
                 std::span<const int64_t> from_strides, std::span<const int64_t> dims, std::size_t element_bytes);

// Row-major, in bytes.
Dims DenseStrides(const Shape& shape);
// In the order of the shape's layout.
Dims StridesInMemory(const Shape& shape);
// The row-major array that lies in memory as `shape` does in its layout: what devices know of a buffer.
Result<Shape> InMemory(const Shape& shape);
// What the layout says of such a shape. INVALID_ARGUMENT for one that is not an order of its dimensions, UNIMPLEMENTED
// for tiles.
Result<Dims> StridesOf(const PJRT_Buffer_MemoryLayout& layout, const Shape& shape);

// The shape in that order; strides are taken for what they are read with only and say nothing of it.
Result<Shape> WithLayout(Shape shape, const PJRT_Buffer_MemoryLayout* layout);

// Types below eight bits have one byte per element, with anything in the other bits; booleans as any byte. Makes them
// what literals hold (krafla/literal.h).
void Normalize(ElementType type, std::span<std::byte> bytes);

// The caller's array as it lies in the memory of a buffer of that shape. INVALID_ARGUMENT where there is none.
Result<Literal> LiteralFrom(const void* data, const Shape& shape, std::span<const int64_t> strides);

}  // namespace krafla::pjrt
