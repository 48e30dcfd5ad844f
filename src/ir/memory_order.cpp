// SPDX-License-Identifier: Apache-2.0
#include "ir/memory_order.h"

#include <algorithm>
#include <cstring>

#include "base/index.h"

namespace krafla {

namespace {

// One dimension of a copy, strides in bytes.
struct Axis {
  int64_t size = 1, from = 0, to = 0;
};

template <std::size_t kBytes>
void CopyPlane(const std::byte* from, std::byte* to, const Axis& outer, const Axis& inner) {
  // Squares that fit the nearest cache: one side of a transposition is always the slow one.
  constexpr int64_t kSquare = 32;
  for (int64_t i0 = 0; i0 < outer.size; i0 += kSquare)
    for (int64_t j0 = 0; j0 < inner.size; j0 += kSquare)
      for (int64_t i = i0; i < std::min(i0 + kSquare, outer.size); ++i)
        for (int64_t j = j0; j < std::min(j0 + kSquare, inner.size); ++j)
          std::memcpy(to + i * outer.to + j * inner.to, from + i * outer.from + j * inner.from, kBytes);
}

void CopyPlane(const std::byte* from, std::byte* to, const Axis& outer, const Axis& inner, int element) {
  if (element == 1) CopyPlane<1>(from, to, outer, inner);
  if (element == 2) CopyPlane<2>(from, to, outer, inner);
  if (element == 4) CopyPlane<4>(from, to, outer, inner);
  if (element == 8) CopyPlane<8>(from, to, outer, inner);
  if (element == 16) CopyPlane<16>(from, to, outer, inner);
}

// Strides in bytes by dimension of a dense array in the order of `layout`.
Dims StridesOf(const Shape& shape, const Layout& layout) {
  Dims out(At(shape.rank()), 0);
  int64_t stride = StorageBytes(shape.element_type());
  for (int64_t d : layout.minor_to_major) {
    out[At(d)] = stride;
    stride *= shape.dim(d);
  }
  return out;
}

void CopyBetween(const Shape& shape, const Layout& from_layout, const std::byte* from, const Layout& to_layout,
                 std::byte* to) {
  if (shape.element_count() == 0) return;
  const int element = StorageBytes(shape.element_type());
  const Dims from_strides = StridesOf(shape, from_layout), to_strides = StridesOf(shape, to_layout);
  // Dimensions of 1 say nothing; neighbours in both orders are one.
  std::vector<Axis> axes;
  for (std::size_t n = to_layout.minor_to_major.size(); n-- > 0;) {
    const int64_t d = to_layout.minor_to_major[n];
    Axis axis{shape.dim(d), from_strides[At(d)], to_strides[At(d)]};
    if (axis.size == 1) continue;
    if (!axes.empty() && axes.back().from == axis.size * axis.from && axes.back().to == axis.size * axis.to) {
      axes.back() = {axes.back().size * axis.size, axis.from, axis.to};
      continue;
    }
    axes.push_back(axis);
  }
  if (axes.empty() || (axes.size() == 1 && axes[0].from == element)) {
    std::memcpy(to, from, static_cast<std::size_t>(shape.byte_size()));
    return;
  }
  const Axis inner = axes.back();
  axes.pop_back();
  // The dimension along which reading is cheap makes the plane with the one along which writing is.
  std::size_t best = 0;
  for (std::size_t a = 1; a < axes.size(); ++a)
    if (axes[a].from < axes[best].from) best = a;
  Axis outer;
  if (!axes.empty()) {
    outer = axes[best];
    axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(best));
  }
  Dims sizes, at(axes.size(), 0);
  for (const Axis& a : axes) sizes.push_back(a.size);
  do {
    int64_t read = 0, write = 0;
    for (std::size_t a = 0; a < axes.size(); ++a) {
      read += at[a] * axes[a].from;
      write += at[a] * axes[a].to;
    }
    CopyPlane(from + read, to + write, outer, inner, element);
  } while (NextIndex(at, sizes));
}

}  // namespace

Result<> CheckPlainLayout(const Shape& shape) {
  if (!shape.IsArray()) return InvalidArgument("Only an array has a layout, not {}.", shape.ToString(false));
  // A memory space does not change the order.
  const std::string& tail = shape.layout().tail;
  if (!tail.empty() && !(tail.starts_with("S(") && tail.find(')') + 1 == tail.size()))
    return Unimplemented("The layout of {} has more than an order of dimensions, such as tiles.", shape.ToString());
  return {};
}

Result<> WriteInLayout(const Literal& literal, const Layout& layout, std::span<std::byte> bytes) {
  Shape target = literal.shape();
  KRAFLA_TRY(target.SetLayout(layout));
  KRAFLA_TRY(CheckPlainLayout(target));
  if (bytes.size() != literal.bytes().size())
    return InvalidArgument("{} has {} bytes; there is room for {}.", target.ToString(), literal.bytes().size(),
                           bytes.size());
  CopyBetween(target, Layout::RowMajor(target.rank()), literal.bytes().data(), layout, bytes.data());
  return {};
}

Result<Literal> ReadInLayout(std::span<const std::byte> bytes, const Shape& shape) {
  KRAFLA_TRY(CheckPlainLayout(shape));
  if (static_cast<int64_t>(bytes.size()) != shape.byte_size())
    return InvalidArgument("{} has {} bytes, {} were given.", shape.ToString(), shape.byte_size(), bytes.size());
  Shape dense = shape.WithStaticDims();
  dense.ClearLayout();
  KRAFLA_ASSIGN(Literal out, Literal::CreateUninitialized(dense));
  CopyBetween(dense, shape.layout(), bytes.data(), Layout::RowMajor(shape.rank()), out.bytes().data());
  return out;
}

}  // namespace krafla
