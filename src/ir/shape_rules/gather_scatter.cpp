// SPDX-License-Identifier: Apache-2.0
// XLA: shape_inference.cc ValidateGatherDimensionNumbers, InferGatherShape, ValidateScatterDimensionNumbers,
// InferScatterShape.
#include "ir/shape_rules/checks.h"

namespace krafla::shape_rules {
namespace {

// What gather and scatter have in common: which operand dimensions are indexed, taken away and batched.
struct Indexing {
  const Shape& operand;
  const Shape& indices;
  int64_t index_vector_dim;
  const Dims& index_map;    // start_index_map, scatter_dims_to_operand_dims
  const Dims& window_dims;  // offset_dims, update_window_dims: dimensions of the result or of the updates
  const Dims& removed;      // collapsed_slice_dims, inserted_window_dims
  const Dims& operand_batching;
  const Dims& indices_batching;
  const char *index_map_name, *window_dims_name, *removed_name;
};

// The dimensions of the indices array without the index vector.
DimList BatchDims(const Indexing& g) {
  DimList out;
  for (int64_t i = 0; i < g.indices.rank(); ++i)
    if (i != g.index_vector_dim) out.AddFrom(g.indices, i);
  return out;
}

Result<> CheckIndexing(const Indexing& g) {
  if (!IsIntegral(g.indices.element_type()))
    return InvalidArgument("The indices must be integers, they are {}.", Brief(g.indices));
  if (g.index_vector_dim < 0 || g.index_vector_dim > g.indices.rank())
    return InvalidArgument("index_vector_dim must lie in [0, {}], it is {}.", g.indices.rank(), g.index_vector_dim);
  int64_t vector = g.index_vector_dim == g.indices.rank() ? 1 : g.indices.dim(g.index_vector_dim);
  int64_t batch_rank = g.indices.rank() - (g.index_vector_dim < g.indices.rank() ? 1 : 0);
  int64_t rank = g.operand.rank();
  if (g.index_map.ssize() != vector)
    return InvalidArgument("{}={} must have as many entries as an index vector, {}.", g.index_map_name,
                           Brief(g.index_map), vector);
  KRAFLA_TRY(CheckDimensionNumbers(g.index_map_name, g.index_map, rank));
  KRAFLA_TRY(CheckDimensionNumbers(g.window_dims_name, g.window_dims, batch_rank + g.window_dims.ssize()));
  KRAFLA_TRY(CheckDimensionNumbers(g.removed_name, g.removed, rank));
  KRAFLA_TRY(CheckDimensionNumbers("The batching dimensions of the operand", g.operand_batching, rank));
  KRAFLA_TRY(CheckDimensionNumbers("The batching dimensions of the indices", g.indices_batching, g.indices.rank()));
  if (!IsAscending(g.window_dims) || !IsAscending(g.removed) || !IsAscending(g.operand_batching))
    return InvalidArgument("{}={}, {}={} and the operand's batching dimensions {} must be ascending.",
                           g.window_dims_name, Brief(g.window_dims), g.removed_name, Brief(g.removed),
                           Brief(g.operand_batching));
  for (int64_t d : g.operand_batching)
    if (Contains(g.removed, d) || Contains(g.index_map, d))
      return InvalidArgument("Batching dimension {} of the operand is also in {} or {}.", d, g.removed_name,
                             g.index_map_name);
  if (g.window_dims.ssize() + g.removed.ssize() + g.operand_batching.ssize() != rank)
    return InvalidArgument("{}={}, {}={} and {} batching dimensions must add up to the operand's {} dimensions.",
                           g.window_dims_name, Brief(g.window_dims), g.removed_name, Brief(g.removed),
                           g.operand_batching.size(), rank);
  if (g.operand_batching.size() != g.indices_batching.size())
    return InvalidArgument("The operand has {} batching dimensions, the indices have {}.", g.operand_batching.size(),
                           g.indices_batching.size());
  for (std::size_t i = 0; i < g.indices_batching.size(); ++i) {
    if (g.indices_batching[i] == g.index_vector_dim)
      return InvalidArgument("Dimension {} of the indices is both the index vector and a batching dimension.",
                             g.index_vector_dim);
    if (g.indices.dim(g.indices_batching[i]) != g.operand.dim(g.operand_batching[i]))
      return InvalidArgument("Batching dimension {} of the operand {} and {} of the indices {} must be equal.",
                             g.operand_batching[i], Brief(g.operand), g.indices_batching[i], Brief(g.indices));
  }
  return {};
}

}  // namespace

Result<Shape> Gather(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const Shape* x, ArrayOperand(in, 0));
  KRAFLA_ASSIGN(const Shape* indices, ArrayOperand(in, 1));
  const auto& a = Attr<GatherAttributes>(in);
  Indexing g{*x,
             *indices,
             a.index_vector_dim,
             a.start_index_map,
             a.offset_dims,
             a.collapsed_slice_dims,
             a.operand_batching_dims,
             a.start_indices_batching_dims,
             "start_index_map",
             "offset_dims",
             "collapsed_slice_dims"};
  KRAFLA_TRY(CheckIndexing(g));
  if (a.slice_sizes.ssize() != x->rank())
    return InvalidArgument("slice_sizes={} must have one entry for each dimension of {}.", Brief(a.slice_sizes),
                           Brief(*x));
  DimList window;
  for (int64_t i = 0; i < x->rank(); ++i) {
    int64_t size = a.slice_sizes[static_cast<std::size_t>(i)];
    if (size < 0 || size > x->dim(i))
      return InvalidArgument("slice_sizes has {} for dimension {}, which must lie in [0, {}].", size, i, x->dim(i));
    if (!Contains(a.collapsed_slice_dims, i) && !Contains(a.operand_batching_dims, i)) {
      window.Add(size, x->IsDynamicDim(i) && size == x->dim(i));
    } else if (size > 1) {
      return InvalidArgument("Dimension {} is collapsed or batched; its slice size must be at most 1, it is {}.", i,
                             size);
    }
  }
  DimList batch = BatchDims(g), out;
  std::size_t next_window = 0, next_batch = 0;
  int64_t rank = batch.sizes.ssize() + window.sizes.ssize();
  for (int64_t i = 0; i < rank; ++i) {
    bool in_window = Contains(a.offset_dims, i);
    const DimList& from = in_window ? window : batch;
    std::size_t& next = in_window ? next_window : next_batch;
    out.Add(from.sizes[next], from.dynamic[next]);
    ++next;
  }
  return out.Make(x->element_type());
}

Result<Shape> Scatter(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectAtLeast(in, 3));
  KRAFLA_TRY(ExpectAllArrays(in));
  if (in.operands.size() % 2 == 0)
    return InvalidArgument("Scatter takes n arrays, the indices and n updates; {} operands were given.",
                           in.operands.size());
  std::size_t n = in.operands.size() / 2;
  const Shape& x = *in.operands[0];
  const Shape& indices = *in.operands[n];
  const Shape& updates = *in.operands[n + 1];
  std::vector<ElementType> types;
  std::vector<Shape> results;
  for (std::size_t i = 0; i < n; ++i) {
    const Shape& array = *in.operands[i];
    const Shape& update = *in.operands[n + 1 + i];
    if (!Shape::SameDims(array, x) || !Shape::SameDims(update, updates))
      return InvalidArgument(
          "All arrays of a scatter have equal dimensions, and so have all updates; array {} "
          "is {}, its "
          "update {}.",
          i, Brief(array), Brief(update));
    if (array.element_type() != update.element_type())
      return InvalidArgument("Array {} of the scatter is {}, its update is {}; their element types must be equal.", i,
                             Brief(array), Brief(update));
    types.push_back(array.element_type());
    results.push_back(array);
    results.back().ClearLayout();
  }
  const auto& a = Attr<ScatterAttributes>(in);
  Indexing g{x,
             indices,
             a.index_vector_dim,
             a.scatter_dims_to_operand_dims,
             a.update_window_dims,
             a.inserted_window_dims,
             a.input_batching_dims,
             a.scatter_indices_batching_dims,
             "scatter_dims_to_operand_dims",
             "update_window_dims",
             "inserted_window_dims"};
  KRAFLA_TRY(CheckIndexing(g));
  DimList batch = BatchDims(g);
  if (updates.rank() != batch.sizes.ssize() + a.update_window_dims.ssize())
    return InvalidArgument("The updates must have {} dimensions, they are {}.",
                           batch.sizes.ssize() + a.update_window_dims.ssize(), Brief(updates));
  Dims window;  // the operand's dimensions that updates span
  for (int64_t i = 0; i < x.rank(); ++i)
    if (!Contains(a.inserted_window_dims, i) && !Contains(a.input_batching_dims, i)) window.push_back(i);
  std::size_t next_window = 0, next_batch = 0;
  for (int64_t i = 0; i < updates.rank(); ++i) {
    if (Contains(a.update_window_dims, i)) {
      int64_t d = window[next_window++];
      if (updates.dim(i) > x.dim(d))
        return InvalidArgument("Dimension {} of the updates {} is larger than dimension {} of the operand {}.", i,
                               Brief(updates), d, Brief(x));
    } else if (updates.dim(i) != batch.sizes[next_batch++]) {
      return InvalidArgument("Dimension {} of the updates {} must be {}, as in the indices {}.", i, Brief(updates),
                             batch.sizes[next_batch - 1], Brief(indices));
    }
  }
  KRAFLA_TRY(ExpectCalled(in, 1));
  KRAFLA_TRY(CheckReducer(in, 0, types));
  return SingleOrTuple(std::move(results));
}

}  // namespace krafla::shape_rules
