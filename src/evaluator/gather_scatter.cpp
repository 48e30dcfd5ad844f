// SPDX-License-Identifier: Apache-2.0
// XLA: hlo_evaluator.cc HandleGather, HandleScatter. Gather clamps the start of each slice so that it fits; scatter
// skips a window that is not wholly inside.
#include <algorithm>
#include <cstring>

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

Result<Value> EvalScatter(Context& context, const Instruction& i, Operands operands) {
  const auto& a = i.attr<ScatterAttributes>();
  const std::size_t n = operands.size() / 2;
  const Literal& indices = operands[n].array();
  const Computation& computation = *i.called(0);
  ScalarFunction f(context, computation);
  const Shape updates_shape = operands[n + 1].shape();
  KRAFLA_TRY(context.SpendProduct(updates_shape.element_count() + 1, f.cost()));
  if (operands.size() != 2 * n + 1 || f.parameter_count() != 2 * n)
    return InvalidArgument("A scatter into {} arrays cannot have {} operands.", n, operands.size());
  std::vector<Literal> outs;
  for (std::size_t o = 0; o < n; ++o) {
    KRAFLA_ASSIGN(Literal out, std::move(operands[o]).TakeMutable());
    outs.push_back(std::move(out));
  }
  const Shape shape = outs[0].shape();
  const IndexSpace space = MakeIndexSpace(indices.shape(), a.index_vector_dim);
  const Dims out_strides = RowMajorStrides(shape.dims()), update_strides = RowMajorStrides(updates_shape.dims());
  Dims window_dims, window_strides, window_update_strides, batch_strides;
  Dims window_sizes(At(shape.rank()), 1);
  std::size_t window_dim = 0;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    if (Contains(a.inserted_window_dims, d) || Contains(a.input_batching_dims, d)) continue;
    const int64_t u = a.update_window_dims[window_dim++];
    window_sizes[At(d)] = updates_shape.dim(u);
    window_dims.push_back(updates_shape.dim(u));
    window_strides.push_back(out_strides[At(d)]);
    window_update_strides.push_back(update_strides[At(u)]);
  }
  for (int64_t d = 0; d < updates_shape.rank(); ++d)
    if (!Contains(a.update_window_dims, d)) batch_strides.push_back(update_strides[At(d)]);

  // Elements of one window are distinct, so they go through the computation in blocks; windows go in order.
  const bool overwrite = n == 1 && ReturnsParameter(computation, 1);
  constexpr int64_t kBlock = ScalarProgram::kBlock;
  std::vector<AlignedBytes> old_values, updates;
  for (std::size_t o = 0; o < n; ++o) {
    old_values.emplace_back(At(f.parameter_bytes(o) * kBlock), false);
    updates.emplace_back(At(f.parameter_bytes(n + o) * kBlock), false);
  }
  std::vector<const void*> in(2 * n);
  std::vector<void*> out(n);
  for (std::size_t o = 0; o < n; ++o) {
    in[o] = out[o] = old_values[o].data();
    in[n + o] = updates[o].data();
  }
  std::vector<int64_t> places(At(kBlock));
  Odometer<2> batch(space.dims, {space.strides, batch_strides});
  // Windows may be many and all of them empty.
  const int64_t windows = updates_shape.element_count() == 0 ? 0 : batch.count();
  InterruptionPoll poll;
  for (int64_t b = 0; b < windows && !poll.Ends(); ++b, batch.Next()) {
    int64_t base = 0;
    bool inside = true;
    for (std::size_t c = 0; c < a.scatter_dims_to_operand_dims.size(); ++c) {
      const int64_t d = a.scatter_dims_to_operand_dims[c];
      const int64_t start = IntegerAt(indices, batch.offset(0) + static_cast<int64_t>(c) * space.component_stride);
      inside = inside && start >= 0 && start <= shape.dim(d) - window_sizes[At(d)];
      if (inside) base += start * out_strides[At(d)];
    }
    for (std::size_t k = 0; k < a.input_batching_dims.size(); ++k) {
      const int64_t d = a.input_batching_dims[k];
      const int64_t at = batch.index()[BatchPosition(a.scatter_indices_batching_dims[k], a.index_vector_dim)];
      inside = inside && at < shape.dim(d);
      base += at * out_strides[At(d)];
    }
    if (!inside) continue;
    const int64_t from = batch.offset(1);
    if (overwrite) {
      CopyView(window_dims, static_cast<int>(f.parameter_bytes(0)), operands[n + 1].array().bytes().data(),
               {from, window_update_strides}, outs[0].bytes().data(), {base, window_strides});
      continue;
    }
    Odometer<2> window(window_dims, {window_strides, window_update_strides});
    for (int64_t at = 0; at < window.count(); at += kBlock) {
      const int64_t count = std::min(kBlock, window.count() - at);
      if (poll.Ends(count)) break;
      for (int64_t k = 0; k < count; ++k, window.Next()) {
        places[At(k)] = base + window.offset(0);
        const int64_t source = from + window.offset(1);
        for (std::size_t o = 0; o < n; ++o) {
          const int64_t bytes = f.parameter_bytes(o);
          std::memcpy(old_values[o].data() + k * bytes, outs[o].bytes().data() + places[At(k)] * bytes, At(bytes));
          std::memcpy(updates[o].data() + k * bytes, operands[n + 1 + o].array().bytes().data() + source * bytes,
                      At(bytes));
        }
      }
      KRAFLA_TRY(f.Run(in, out, count));
      for (std::size_t o = 0; o < n; ++o) {
        const int64_t bytes = f.parameter_bytes(o);
        for (int64_t k = 0; k < count; ++k)
          std::memcpy(outs[o].bytes().data() + places[At(k)] * bytes, old_values[o].data() + k * bytes, At(bytes));
      }
    }
  }
  if (n == 1 && !i.shape().IsTuple()) return Value::Own(std::move(outs[0]));
  std::vector<Value> elements;
  for (Literal& o : outs) elements.push_back(Value::Own(std::move(o)));
  return Value::Tuple(std::move(elements));
}

}  // namespace krafla::evaluator
