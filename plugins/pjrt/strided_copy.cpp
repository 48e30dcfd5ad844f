// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/strided_copy.h"

#include <algorithm>
#include <cstring>

namespace krafla::pjrt {
namespace {

struct Loop {
  int64_t count = 1, to = 0, from = 0;
};

template <typename T>
void CopyRow(std::byte* to, const std::byte* from, const Loop& loop) {
  for (int64_t i = 0; i < loop.count; ++i) std::memcpy(to + i * loop.to, from + i * loop.from, sizeof(T));
}

void CopyRow(std::byte* to, const std::byte* from, const Loop& loop, std::size_t element) {
  struct Wide {
    uint64_t halves[2];
  };
  const auto dense = static_cast<int64_t>(element);
  if (loop.to == dense && loop.from == dense) {
    std::memcpy(to, from, static_cast<std::size_t>(loop.count) * element);
    return;
  }
  switch (element) {
    case 1: return CopyRow<uint8_t>(to, from, loop);
    case 2: return CopyRow<uint16_t>(to, from, loop);
    case 4: return CopyRow<uint32_t>(to, from, loop);
    case 8: return CopyRow<uint64_t>(to, from, loop);
    case 16: return CopyRow<Wide>(to, from, loop);
    default:
      for (int64_t i = 0; i < loop.count; ++i) std::memcpy(to + i * loop.to, from + i * loop.from, element);
  }
}

}  // namespace

void CopyStrided(std::byte* to, std::span<const int64_t> to_strides, const std::byte* from,
                 std::span<const int64_t> from_strides, std::span<const int64_t> dims, std::size_t element_bytes) {
  // Dimensions of one element go, and neighbours that are one run in both memories become one.
  InlineVector<Loop, 8> loops;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 0) return;
    if (dims[d] == 1) continue;
    const Loop next{dims[d], to_strides[d], from_strides[d]};
    if (!loops.empty() && loops.back().to == next.to * next.count && loops.back().from == next.from * next.count) {
      loops.back() = {loops.back().count * next.count, next.to, next.from};
    } else {
      loops.push_back(next);
    }
  }
  const auto dense = static_cast<int64_t>(element_bytes);
  if (loops.empty()) return CopyRow(to, from, {1, dense, dense}, element_bytes);

  const Loop inner = loops.back();
  loops.pop_back();
  InlineVector<int64_t, 8> index;
  for (std::size_t d = 0; d < loops.size(); ++d) index.push_back(0);
  while (true) {
    CopyRow(to, from, inner, element_bytes);
    std::size_t d = loops.size();
    for (; d > 0; --d) {
      const Loop& loop = loops[d - 1];
      to += loop.to;
      from += loop.from;
      if (++index[d - 1] < loop.count) break;
      to -= loop.to * loop.count;
      from -= loop.from * loop.count;
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

Dims DenseStrides(const Shape& shape) {
  Dims strides = RowMajorStrides(shape.dims());
  for (int64_t& s : strides) s *= StorageBytes(shape.element_type());
  return strides;
}

Dims StridesInMemory(const Shape& shape) {
  Dims strides(shape.dims().size(), 0);
  // Beside a dimension of none others may be so large that their product overflows.
  if (shape.element_count() == 0) return strides;
  int64_t step = StorageBytes(shape.element_type());
  for (int64_t d : shape.layout().minor_to_major) {
    strides[static_cast<std::size_t>(d)] = step;
    step *= std::max<int64_t>(1, shape.dim(d));
  }
  return strides;
}

Result<Shape> InMemory(const Shape& shape) {
  if (!shape.IsArray() || shape.layout().IsRowMajor()) return shape;
  Dims dims;
  const Dims& order = shape.layout().minor_to_major;
  for (std::size_t n = order.size(); n > 0; --n) dims.push_back(shape.dim(order[n - 1]));
  return Shape::MakeArray(shape.element_type(), dims);
}

Result<Shape> WithLayout(Shape shape, const PJRT_Buffer_MemoryLayout* layout) {
  if (layout == nullptr || layout->type != kPjrtTiledLayout) return shape;
  KRAFLA_TRY(StridesOf(*layout, shape));
  const PJRT_Buffer_MemoryLayout_Tiled& tiled = layout->tiled;
  KRAFLA_TRY(shape.SetLayout({Dims(tiled.minor_to_major, tiled.minor_to_major + tiled.minor_to_major_size), {}}));
  return shape;
}

Result<Dims> StridesOf(const PJRT_Buffer_MemoryLayout& layout, const Shape& shape) {
  const auto rank = static_cast<std::size_t>(shape.rank());
  Dims strides;
  if (layout.type == kPjrtStridesLayout) {
    if (layout.strides.num_byte_strides != rank)
      return InvalidArgument("The layout has {} strides, the array {} dimensions.", layout.strides.num_byte_strides,
                             rank);
    for (std::size_t d = 0; d < rank; ++d) strides.push_back(layout.strides.byte_strides[d]);
    return strides;
  }
  if (layout.type != kPjrtTiledLayout) return InvalidArgument("There is no kind of layout {}.", +layout.type);
  const PJRT_Buffer_MemoryLayout_Tiled& tiled = layout.tiled;
  if (tiled.num_tiles != 0)
    return Unimplemented("Layouts with tiles are not supported; this one has {}.", tiled.num_tiles);
  if (tiled.minor_to_major_size != rank)
    return InvalidArgument("The layout orders {} dimensions, the array has {}.", tiled.minor_to_major_size, rank);
  for (std::size_t d = 0; d < rank; ++d) strides.push_back(-1);
  int64_t step = StorageBytes(shape.element_type());
  for (std::size_t i = 0; i < rank; ++i) {
    const int64_t d = tiled.minor_to_major[i];
    if (d < 0 || d >= shape.rank() || strides[static_cast<std::size_t>(d)] != -1)
      return InvalidArgument("The layout is no order of {} dimensions: it names {} at place {}.", rank, d, i);
    strides[static_cast<std::size_t>(d)] = step;
    step *= std::max<int64_t>(1, shape.dim(d));
  }
  return strides;
}

void Normalize(ElementType type, std::span<std::byte> bytes) {
  if (type == ElementType::kPred) {
    for (std::byte& b : bytes) b = std::byte{b != std::byte{0}};
    return;
  }
  const int bits = BitWidth(type);
  if (bits >= 8) return;
  const auto mask = static_cast<unsigned>((1 << bits) - 1), sign = 1u << (bits - 1);
  const bool is_signed = IsSigned(type);
  for (std::byte& b : bytes) {
    unsigned value = std::to_integer<unsigned>(b) & mask;
    if (is_signed) value = (value ^ sign) - sign;
    b = static_cast<std::byte>(value);
  }
}

Result<Literal> LiteralFrom(const void* data, const Shape& shape, std::span<const int64_t> strides) {
  KRAFLA_ASSIGN(const Shape memory, InMemory(shape));
  KRAFLA_ASSIGN(Literal literal, Literal::CreateUninitialized(memory));
  if (data == nullptr && shape.byte_size() > 0)
    return InvalidArgument("There is no data for {}.", shape.ToString(false));
  CopyStrided(literal.bytes().data(), StridesInMemory(shape), static_cast<const std::byte*>(data), strides,
              shape.dims(), static_cast<std::size_t>(StorageBytes(shape.element_type())));
  Normalize(shape.element_type(), literal.bytes());
  return literal;
}

}  // namespace krafla::pjrt
