// SPDX-License-Identifier: Apache-2.0
// XLA: hlo_evaluator.cc HandleGather, HandleScatter. Gather clamps the start of each slice so that it fits; scatter
// skips a window that is not wholly inside.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "base/index.h"
#include "base/interruption.h"
#include "evaluator/context.h"
#include "evaluator/odometer.h"
#include "evaluator/scalar_program.h"
#include "evaluator/strided.h"
#include "ir/dims.h"

namespace krafla::evaluator {

namespace {

// The dimensions of the indices array without index_vector_dim, and where an index vector's components lie.
struct IndexSpace {
  Dims dims, strides;  // of the batch of index vectors
  int64_t component_stride = 0;
};
IndexSpace MakeIndexSpace(const Shape& indices, int64_t vector_dim) {
  IndexSpace out;
  const Dims strides = RowMajorStrides(indices.dims());
  for (int64_t d = 0; d < indices.rank(); ++d) {
    if (d == vector_dim) continue;
    out.dims.push_back(indices.dim(d));
    out.strides.push_back(strides[At(d)]);
  }
  if (vector_dim < indices.rank()) out.component_stride = strides[At(vector_dim)];
  return out;
}

// Position among the batch dimensions of an indices dimension.
std::size_t BatchPosition(int64_t indices_dim, int64_t vector_dim) {
  return At(indices_dim - (indices_dim > vector_dim ? 1 : 0));
}

}  // namespace

Result<Value> EvalGather(Context& context, const Instruction& i, Operands operands) {
  const auto& a = i.attr<GatherAttributes>();
  const Literal &in = operands[0].array(), &indices = operands[1].array();
  KRAFLA_ASSIGN(Literal out, NewResult(context, i, operands));
  if (out.shape().element_count() == 0) return Value::Own(std::move(out));
  const Shape& shape = in.shape();
  const int bytes = StorageBytes(shape.element_type());
  // Slices of an operand that is empty, or smaller than its bound at run time, have nothing to read in places.
  FillZeros(out.bytes());
  if (shape.element_count() == 0) return Value::Own(std::move(out));
  const IndexSpace space = MakeIndexSpace(indices.shape(), a.index_vector_dim);
  const Dims in_strides = RowMajorStrides(shape.dims()), out_strides = RowMajorStrides(out.shape().dims());
  // The slice: operand dimensions that are neither collapsed nor batching, in order, are the offset dimensions.
  Dims slice_dims;
  View from, to;
  std::size_t offset_dim = 0;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    if (Contains(a.collapsed_slice_dims, d) || Contains(a.operand_batching_dims, d)) continue;
    slice_dims.push_back(std::min(a.slice_sizes[At(d)], shape.dim(d)));
    from.strides.push_back(in_strides[At(d)]);
    to.strides.push_back(out_strides[At(a.offset_dims[offset_dim++])]);
  }
  Dims batch_strides;  // of the result
  for (int64_t d = 0; d < out.shape().rank(); ++d)
    if (!Contains(a.offset_dims, d)) batch_strides.push_back(out_strides[At(d)]);
  Odometer<2> batch(space.dims, {space.strides, batch_strides});
  InterruptionPoll poll;
  for (int64_t b = 0; b < batch.count() && !poll.Ends(); ++b, batch.Next()) {
    from.offset = 0;
    for (std::size_t c = 0; c < a.start_index_map.size(); ++c) {
      const int64_t d = a.start_index_map[c];
      const int64_t start = IntegerAt(indices, batch.offset(0) + static_cast<int64_t>(c) * space.component_stride);
      // A collapsed dimension gives one element, also where its slice size is written as 0.
      const int64_t size = std::max<int64_t>(1, a.slice_sizes[At(d)]);
      from.offset += std::clamp<int64_t>(start, 0, std::max<int64_t>(0, shape.dim(d) - size)) * in_strides[At(d)];
    }
    for (std::size_t k = 0; k < a.operand_batching_dims.size(); ++k) {
      const int64_t d = a.operand_batching_dims[k];
      const int64_t at = batch.index()[BatchPosition(a.start_indices_batching_dims[k], a.index_vector_dim)];
      from.offset += std::min(at, shape.dim(d) - 1) * in_strides[At(d)];
    }
    to.offset = batch.offset(1);
    CopyView(slice_dims, bytes, in.bytes().data(), from, out.bytes().data(), to);
  }
  return Value::Own(std::move(out));
}

namespace {

// How the windows of a scatter lie in an array that is scattered into, and in the updates.
struct WindowLayout {
  WindowLayout(const ScatterAttributes& a, const Shape& shape, const Shape& updates)
      : sizes(At(shape.rank()), 1), array_strides(RowMajorStrides(shape.dims())) {
    const Dims update_strides = RowMajorStrides(updates.dims());
    std::size_t window_dim = 0;
    for (int64_t d = 0; d < shape.rank(); ++d) {
      if (Contains(a.inserted_window_dims, d) || Contains(a.input_batching_dims, d)) continue;
      const int64_t u = a.update_window_dims[window_dim++];
      sizes[At(d)] = updates.dim(u);
      dims.push_back(updates.dim(u));
      strides.push_back(array_strides[At(d)]);
      from_strides.push_back(update_strides[At(u)]);
    }
    for (int64_t d = 0; d < updates.rank(); ++d)
      if (!Contains(a.update_window_dims, d)) batch_strides.push_back(update_strides[At(d)]);
  }

  Dims sizes;                        // of a window, for each dimension of the array
  Dims array_strides;                // of the array
  Dims dims, strides, from_strides;  // of a window: sizes, strides in the array, strides in the updates
  Dims batch_strides;                // of the updates
};

// Where in the array the window of an index vector begins; nothing where it is not wholly inside.
std::optional<int64_t> PlaceOf(const ScatterAttributes& a, const Literal& indices, const IndexSpace& space,
                               const Odometer<2>& batch, const Shape& shape, const WindowLayout& layout) {
  int64_t base = 0;
  for (std::size_t c = 0; c < a.scatter_dims_to_operand_dims.size(); ++c) {
    const int64_t d = a.scatter_dims_to_operand_dims[c];
    const int64_t start = IntegerAt(indices, batch.offset(0) + static_cast<int64_t>(c) * space.component_stride);
    if (start < 0 || start > shape.dim(d) - layout.sizes[At(d)]) return std::nullopt;
    base += start * layout.array_strides[At(d)];
  }
  for (std::size_t k = 0; k < a.input_batching_dims.size(); ++k) {
    const int64_t d = a.input_batching_dims[k];
    const int64_t at = batch.index()[BatchPosition(a.scatter_indices_batching_dims[k], a.index_vector_dim)];
    if (at >= shape.dim(d)) return std::nullopt;
    base += at * layout.array_strides[At(d)];
  }
  return base;
}

// Combines windows of the updates into the arrays. Elements of one window are distinct, so they go through the
// computation in blocks; windows go in order.
class WindowCombiner {
 public:
  WindowCombiner(ScalarFunction& f, std::vector<Literal>& arrays, Operands updates, const WindowLayout& layout)
      : f_(f),
        arrays_(arrays),
        updates_(updates),
        layout_(layout),
        in_(2 * arrays.size()),
        out_(arrays.size()),
        places_(At(kBlock)) {
    for (std::size_t o = 0; o < arrays.size(); ++o) {
      old_values_.emplace_back(At(f.parameter_bytes(o) * kBlock), false);
      taken_.emplace_back(At(f.parameter_bytes(arrays.size() + o) * kBlock), false);
    }
    for (std::size_t o = 0; o < arrays.size(); ++o) {
      in_[o] = out_[o] = old_values_[o].data();
      in_[arrays.size() + o] = taken_[o].data();
    }
  }

  // The window that begins at element `from` of the updates and `base` of the arrays.
  Result<> Combine(int64_t from, int64_t base, InterruptionPoll& poll) {
    Odometer<2> window(layout_.dims, {layout_.strides, layout_.from_strides});
    for (int64_t at = 0; at < window.count(); at += kBlock) {
      const int64_t count = std::min(kBlock, window.count() - at);
      if (poll.Ends(count)) break;
      Take(window, from, base, count);
      KRAFLA_TRY(f_.Run(in_, out_, count));
      for (std::size_t o = 0; o < arrays_.size(); ++o) {
        const int64_t bytes = f_.parameter_bytes(o);
        for (int64_t k = 0; k < count; ++k)
          std::memcpy(arrays_[o].bytes().data() + places_[At(k)] * bytes, old_values_[o].data() + k * bytes, At(bytes));
      }
    }
    return {};
  }

 private:
  static constexpr int64_t kBlock = ScalarProgram::kBlock;

  void Take(Odometer<2>& window, int64_t from, int64_t base, int64_t count) {
    for (int64_t k = 0; k < count; ++k, window.Next()) {
      places_[At(k)] = base + window.offset(0);
      const int64_t source = from + window.offset(1);
      for (std::size_t o = 0; o < arrays_.size(); ++o) {
        const int64_t bytes = f_.parameter_bytes(o);
        std::memcpy(old_values_[o].data() + k * bytes, arrays_[o].bytes().data() + places_[At(k)] * bytes, At(bytes));
        std::memcpy(taken_[o].data() + k * bytes, updates_[o].array().bytes().data() + source * bytes, At(bytes));
      }
    }
  }

  ScalarFunction& f_;
  std::vector<Literal>& arrays_;
  Operands updates_;
  const WindowLayout& layout_;
  std::vector<AlignedBytes> old_values_, taken_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
  std::vector<int64_t> places_;
};

}  // namespace

Result<Value> EvalScatter(Context& context, const Instruction& i, Operands operands) {
  const auto& a = i.attr<ScatterAttributes>();
  const std::size_t n = operands.size() / 2;
  const Computation& computation = *i.called(0);
  ScalarFunction f(context, computation);
  if (operands.size() != 2 * n + 1 || n == 0 || f.parameter_count() != 2 * n)
    return InvalidArgument("A scatter into {} arrays cannot have {} operands.", n, operands.size());
  const Literal& indices = operands[n].array();
  const Shape updates_shape = operands[n + 1].shape();
  KRAFLA_TRY(context.SpendProduct(updates_shape.element_count() + 1, f.cost()));
  std::vector<Literal> outs;
  for (std::size_t o = 0; o < n; ++o) {
    KRAFLA_ASSIGN(Literal out, std::move(operands[o]).TakeMutable());
    outs.push_back(std::move(out));
  }
  const Shape shape = outs[0].shape();
  const IndexSpace space = MakeIndexSpace(indices.shape(), a.index_vector_dim);
  const WindowLayout layout(a, shape, updates_shape);
  WindowCombiner combiner(f, outs, operands.subspan(n + 1), layout);
  const bool overwrite = n == 1 && ReturnsParameter(computation, 1);
  Odometer<2> batch(space.dims, {space.strides, layout.batch_strides});
  // Windows may be many and all of them empty.
  const int64_t windows = updates_shape.element_count() == 0 ? 0 : batch.count();
  InterruptionPoll poll;
  for (int64_t b = 0; b < windows && !poll.Ends(); ++b, batch.Next()) {
    const std::optional<int64_t> base = PlaceOf(a, indices, space, batch, shape, layout);
    if (!base) continue;
    if (overwrite) {
      CopyView(layout.dims, static_cast<int>(f.parameter_bytes(0)), operands[n + 1].array().bytes().data(),
               {batch.offset(1), layout.from_strides}, outs[0].bytes().data(), {*base, layout.strides});
    } else {
      KRAFLA_TRY(combiner.Combine(batch.offset(1), *base, poll));
    }
  }
  if (n == 1 && !i.shape().IsTuple()) return Value::Own(std::move(outs[0]));
  std::vector<Value> elements;
  for (Literal& o : outs) elements.push_back(Value::Own(std::move(o)));
  return Value::Tuple(std::move(elements));
}

}  // namespace krafla::evaluator
