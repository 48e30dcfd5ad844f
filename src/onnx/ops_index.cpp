// SPDX-License-Identifier: Apache-2.0
// Gather and scatter.
#include <algorithm>

#include "onnx/call.h"

namespace krafla::onnx {

Outputs OnGather(Call& c) {
  const XlaOp x = c.In(0);
  const Shape shape = ShapeOf(x);
  const int64_t axis = Axis(c.Int("axis", 0), shape.rank()), size = shape.dim(axis);
  // One known place, or known ones at equal distances, is a slice.
  if (c.IsKnown(1) && c.ShapeOf(1).element_count() <= 4096) {
    Ints places = c.KnownInts(1, "the indices");
    for (int64_t& at : places) {
      if (at < -size || at >= size) Reject("The index {} is outside of {} elements.", at, size);
      if (at < 0) at += size;
    }
    if (!places.empty() && !shape.IsDynamicDim(axis)) {
      Ints out = DimsOf(shape);
      const Ints index = DimsOf(c.ShapeOf(1));
      out.erase(out.begin() + axis);
      out.insert(out.begin() + axis, index.begin(), index.end());
      return {Reshaped(TakeAt(x, axis, places), out)};
    }
  }
  const XlaOp indices = c.In(1);
  if (!shape.IsDynamicDim(axis)) return {TakeAlong(x, WrapIndices(indices, size), axis)};
  const XlaOp from_end = Add(indices, Convert(GetDimensionSize(x, axis), TypeOf(indices)));
  return {TakeAlong(RemoveDynamicDimension(x, axis),
                    IsSigned(TypeOf(indices)) ? Select(Lt(indices, Like(indices, 0)), from_end, indices) : indices,
                    axis)};
}
namespace {
// The full index of each element of `indices`, with `axis` taken from them: [..., rank].
XlaOp PointsAlong(XlaOp indices, int64_t axis, int64_t size) {
  const Shape shape = ShapeOf(indices).WithElementType(S64);
  Ints one = DimsOf(shape);
  one.push_back(1);
  Outputs parts;
  for (int64_t d = 0; d < shape.rank(); ++d)
    parts.push_back(
        Reshape(d == axis ? WrapIndices(Convert(indices, S64), size) : Iota(indices.builder(), shape, d), one));
  return ConcatInDim(indices.builder(), parts, shape.rank());
}
}  // namespace
Outputs OnGatherElements(Call& c) {
  const XlaOp x = c.In(0), indices = c.In(1);
  const Shape shape = ShapeOf(x);
  if (RankOf(indices) != shape.rank()) Reject("The indices have {} dimensions.", RankOf(indices));
  const int64_t axis = Axis(c.Int("axis", 0), shape.rank());
  return {TakePoints(x, PointsAlong(indices, axis, shape.dim(axis)))};
}
namespace {
// Negative parts of points count from the end of the dimensions of x, which begin at `first`.
XlaOp WrapPoints(XlaOp points, XlaOp x, int64_t first) {
  const Ints dims = DimsOf(points);
  const Shape shape = ShapeOf(x);
  Outputs sizes;
  for (int64_t i = first; i < first + dims.back(); ++i)
    sizes.push_back(shape.IsDynamicDim(i) ? Reshape(Convert(GetDimensionSize(x, i), S64), {1})
                                          : IntList(x.builder(), Ints{shape.dim(i)}));
  const XlaOp list = sizes.empty() ? IntList(x.builder(), {}) : ConcatInDim(x.builder(), sizes, 0);
  const XlaOp wide = BroadcastInDim(list, dims, {static_cast<int64_t>(dims.size()) - 1});
  return Select(Lt(points, Like(points, 0)), Add(points, wide), points);
}
}  // namespace
Outputs OnGatherNd(Call& c) {
  XlaOp x = c.In(0), points = Convert(c.In(1), S64);
  const Shape shape = ShapeOf(x);
  const Ints index = DimsOf(points);
  const int64_t batch = c.Int("batch_dims", 0), index_rank = static_cast<int64_t>(index.size());
  if (index.empty() || batch < 0 || batch >= index_rank || index.back() > shape.rank() - batch)
    Reject("The indices do not fit the data.");
  points = WrapPoints(points, x, batch);
  for (int64_t d = 0; d < shape.rank(); ++d)
    if (shape.IsDynamicDim(d) && (d < batch || d >= batch + index.back()))
      Refuse("Of {} a dimension that is not indexed has a size that depends on the data.", shape.ToString(false));
  x = WholeOf(x);
  GatherDimensionNumbers numbers;
  Dims sizes;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    const bool indexed = d >= batch && d < batch + index.back();
    sizes.push_back(d < batch || indexed ? 1 : shape.dim(d));
    if (d < batch) {
      numbers.operand_batching_dims.push_back(d);
      numbers.start_indices_batching_dims.push_back(d);
    } else if (indexed) {
      numbers.collapsed_slice_dims.push_back(d);
      numbers.start_index_map.push_back(d);
    } else numbers.offset_dims.push_back(index_rank - 1 + d - batch - index.back());
  }
  numbers.index_vector_dim = index_rank - 1;
  return {Gather(x, points, numbers, sizes)};
}
namespace {}  // namespace
XlaComputation Combiner(const std::string& reduction, ElementType type) {
  XlaBuilder b("combine");
  const XlaOp x = Parameter(&b, 0, Shape::MakeScalar(type), "old"),
              y = Parameter(&b, 1, Shape::MakeScalar(type), "new");
  if (reduction == "add") return Need(b.Build(Add(x, y)));
  if (reduction == "mul") return Need(b.Build(Mul(x, y)));
  if (reduction == "max") return Need(b.Build(Max(x, y)));
  if (reduction == "min") return Need(b.Build(Min(x, y)));
  if (reduction != "none") Refuse("The reduction '{}' is unknown.", reduction);
  return Need(b.Build(y));
}
XlaOp PutAt(XlaOp into, XlaOp at, XlaOp values, bool unique) {
  ScatterDimensionNumbers numbers;
  numbers.inserted_window_dims = {0};
  numbers.scatter_dims_to_operand_dims = {0};
  numbers.index_vector_dim = 1;
  return Scatter(into, at, values, Combiner("none", TypeOf(into)), numbers, /*indices_are_sorted=*/false, unique);
}
Outputs OnScatterElements(Call& c) {
  const XlaOp x = c.In(0), updates = c.In(2);
  XlaOp indices = c.In(1);
  const Shape shape = ShapeOf(x), index_shape = ShapeOf(indices);
  if (index_shape.rank() != shape.rank()) Reject("The indices have {} dimensions.", index_shape.rank());
  const int64_t axis = Axis(c.Int("axis", 0), shape.rank());
  // Arrays of run-time sizes as large as they can be: what lies behind a size is put outside, which does nothing.
  const Outputs sizes = SizesOf(x);
  if (const XlaOp size = sizes[static_cast<std::size_t>(axis)]; !size.IsUninitialized()) {
    const XlaOp from_end = Add(indices, Convert(size, index_shape.element_type()));
    indices = Select(Lt(indices, Like(indices, 0)), from_end, indices);
  }
  const XlaOp outside = Like(indices, static_cast<double>(shape.dim(axis)));
  for (int64_t d = 0; d < shape.rank(); ++d) indices = FilledBehind(indices, d, outside);
  ScatterDimensionNumbers numbers;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    numbers.inserted_window_dims.push_back(d);
    numbers.scatter_dims_to_operand_dims.push_back(d);
  }
  numbers.index_vector_dim = shape.rank();
  return {WithSizes(Scatter(WholeOf(x), PointsAlong(indices, axis, shape.dim(axis)), WholeOf(updates),
                            Combiner(c.Text("reduction", "none"), shape.element_type()), numbers),
                    sizes)};
}
Outputs OnScatterNd(Call& c) {
  const XlaOp x = c.In(0), updates = c.In(2);
  XlaOp points = Convert(c.In(1), S64);
  const Shape shape = ShapeOf(x);
  const Ints index = DimsOf(points);
  if (index.empty() || index.back() > shape.rank()) Reject("The indices do not fit the data.");
  if (shape.IsDynamic()) Refuse("The size of {} depends on the data.", shape.ToString(false));
  points = WrapPoints(points, x, 0);
  ScatterDimensionNumbers numbers;
  for (int64_t d = 0; d < index.back(); ++d) {
    numbers.inserted_window_dims.push_back(d);
    numbers.scatter_dims_to_operand_dims.push_back(d);
  }
  const int64_t rank = RankOf(updates), lead = static_cast<int64_t>(index.size()) - 1;
  for (int64_t d = lead; d < rank; ++d) numbers.update_window_dims.push_back(d);
  numbers.index_vector_dim = lead;
  return {Scatter(x, points, updates, Combiner(c.Text("reduction", "none"), shape.element_type()), numbers)};
}
Outputs OnOneHot(Call& c) {
  const Ints depth_input = c.KnownInts(1, "the depth");
  if (depth_input.size() != 1 || depth_input[0] < 0) Reject("The depth must be one number.");
  const int64_t depth = depth_input[0];
  XlaOp indices = c.In(0);
  indices = Convert(indices, S64);
  indices = WrapIndices(indices, depth);
  Ints dims = DimsOf(indices);
  const int64_t axis = Axis(c.Int("axis", -1), static_cast<int64_t>(dims.size()) + 1);
  dims.insert(dims.begin() + axis, depth);
  Ints places = Range(0, static_cast<int64_t>(dims.size()));
  places.erase(places.begin() + axis);
  const XlaOp hit = Eq(Iota(c.b, MakeShape(S64, dims), axis), BroadcastInDim(indices, dims, places));
  const XlaOp values = c.In(2);
  const XlaOp off = Reshape(SliceInDim(values, 0, 1, 1, 0), {}), on = Reshape(SliceInDim(values, 1, 2, 1, 0), {});
  return {Select(hit, BroadcastTo(on, dims), BroadcastTo(off, dims))};
}

}  // namespace krafla::onnx
