// SPDX-License-Identifier: Apache-2.0
// Slices, updates, gather and scatter on values of bounded dynamic shape. Starts are clamped by the sizes at run time,
// not by the bounds.
#include <algorithm>

#include "base/index.h"
#include "passes/dynamic/dynamic_values.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

Lowered Slice(DynamicOp& op) {
  const BoundedValue& x = op.operand(0);
  const auto& a = op.attr<SliceAttributes>();
  DimensionSizes sizes(At(op.shape().rank()), nullptr);
  for (int64_t d = 0; d < op.shape().rank(); ++d) {
    Instruction* n = x.size(d);
    if (n == nullptr) continue;
    const int64_t start = a.starts[At(d)], limit = a.limits[At(d)], bound = x.value->shape().dim(d);
    const int64_t stride = a.strides.empty() ? 1 : a.strides[At(d)];
    if (bound > kLargest || stride > kLargest) return std::nullopt;
    // One element taken out of a dynamic dimension is static (XLA: HandleSlice).
    if (op.shape().dim(d) <= 1 && !op.shape().IsDynamicDim(d)) continue;
    if (limit < bound) n = op.Merge(n, op.Number(limit));
    n = op.Add(n, -start);
    if (start != 0) n = op.Scalar(Opcode::kMaximum, n, op.Number(0));
    if (stride != 1) n = op.Scalar(Opcode::kDivide, op.Add(n, stride - 1), op.Number(stride));
    sizes[At(d)] = n;
  }
  return op.Same(std::move(sizes));
}

// `start` of a window of `width` (s32, or null for `fixed`) where the dimension has `size`: no further than it fits.
Instruction* ClampedStart(DynamicOp& op, Instruction* start, Instruction* size, Instruction* width, int64_t fixed) {
  Instruction* room = width != nullptr ? op.Scalar(Opcode::kSubtract, size, width) : op.Add(size, -fixed);
  room = op.Scalar(Opcode::kMaximum, room, op.Number(0));
  const ElementType type = start->shape().element_type();
  if (BitWidth(type) < 32) start = op.rewrite().Convert(start, ElementType::kS32);
  return op.Scalar(Opcode::kMinimum, start, op.rewrite().Convert(room, start->shape().element_type()));
}

// One type for all starts, as the operation wants it.
void Unify(DynamicOp& op, std::vector<Instruction*>& operands, std::size_t first) {
  for (std::size_t n = first; n < operands.size(); ++n)
    if (BitWidth(operands[n]->shape().element_type()) < 32)
      operands[n] = op.rewrite().Convert(operands[n], ElementType::kS32);
}

bool StartsAreScalars(const DynamicOp& op, std::size_t first, int64_t rank) {
  if (op.operand_count() != first + At(rank)) return false;
  for (std::size_t n = first; n < op.operand_count(); ++n)
    if (!op.value(n)->shape().IsScalar()) return false;
  return true;
}

Lowered DynamicSlice(DynamicOp& op) {
  const BoundedValue& x = op.operand(0);
  const int64_t rank = op.shape().rank();
  DimensionSizes sizes(At(rank), nullptr);
  std::vector<Instruction*> operands = op.Values();
  bool partial = false;
  for (int64_t d = 0; d < rank; ++d) {
    Instruction* n = x.size(d);
    if (n == nullptr) continue;
    const int64_t width = op.shape().dim(d);
    if (width == x.value->shape().dim(d)) {
      sizes[At(d)] = n;
      continue;
    }
    if (!StartsAreScalars(op, 1, rank)) return std::nullopt;
    partial = true;
    operands[At(d) + 1] = ClampedStart(op, operands[At(d) + 1], n, nullptr, width);
    if (width > 1) sizes[At(d)] = op.Merge(n, op.Number(width));
  }
  if (partial) Unify(op, operands, 1);
  return op.SameOn(std::move(operands), std::move(sizes));
}

Lowered DynamicUpdateSlice(DynamicOp& op) {
  const BoundedValue &x = op.operand(0), &update = op.operand(1);
  const Dims &dims = x.value->shape().dims(), &widths = update.value->shape().dims();
  const int64_t rank = op.shape().rank();
  std::vector<Instruction*> operands = op.Values();
  bool covers = true;  // what lies behind the update's sizes lies behind those of the operand too
  bool adjusts = false;
  for (int64_t d = 0; d < rank; ++d) {
    Instruction *n = x.size(d), *w = update.size(d);
    if (dims[At(d)] > kLargest) return std::nullopt;
    const bool whole = widths[At(d)] == dims[At(d)];
    covers = covers && (w == nullptr || (whole && n == w));
    if ((n == nullptr && w == nullptr) || (whole && n == w)) continue;
    if (!StartsAreScalars(op, 2, rank)) return std::nullopt;
    adjusts = true;
    operands[At(d) + 2] = ClampedStart(op, operands[At(d) + 2], op.SizeOr(x, d), w, widths[At(d)]);
  }
  if (adjusts) Unify(op, operands, 2);
  DimensionSizes sizes = op.SizesIn(x, {});
  for (int64_t d = 0; d < rank; ++d) sizes[At(d)] = x.size(d);
  if (covers) return op.SameOn(std::move(operands), std::move(sizes));
  // Only a part of the update counts: what it would cover beyond that is put back. With room behind the operand no
  // start is clamped again by the update's bound.
  if (!StartsAreScalars(op, 2, rank)) return std::nullopt;
  Rewriter& rewrite = op.rewrite();
  const ElementType type = op.shape().element_type();
  PadAttributes pad;
  SliceAttributes cut;
  Dims roomy = dims;
  for (int64_t d = 0; d < rank; ++d) {
    if (update.IsSized(d)) roomy[At(d)] += widths[At(d)];
    pad.low.push_back(0);
    pad.interior.push_back(0);
    pad.high.push_back(roomy[At(d)] - dims[At(d)]);
    cut.starts.push_back(0);
    cut.strides.push_back(1);
    cut.limits.push_back(dims[At(d)]);
  }
  KRAFLA_ASSIGN(Instruction * base, rewrite.Infer(Opcode::kPad, {x.value, rewrite.Constant(ScalarZero(type))}, pad));
  std::vector<Instruction*> slice_operands = {base};
  for (int64_t d = 0; d < rank; ++d) {
    Instruction* start = operands[At(d) + 2];
    // XLA clamps a start below 0 to 0.
    const ElementType index = start->shape().element_type();
    if (!IsUnsigned(index)) start = op.Scalar(Opcode::kMaximum, start, rewrite.Constant(ScalarZero(index)));
    slice_operands.push_back(start);
    operands[At(d) + 2] = start;
  }
  DynamicSliceAttributes window;
  window.slice_sizes = widths;
  Instruction* old = rewrite.Add(Opcode::kDynamicSlice, ArrayShape(type, widths), std::move(slice_operands), window);
  operands[0] = base;
  operands[1] = rewrite.Select(op.Mask(widths, update.leaves[0]), update.value, old);
  Instruction* made = rewrite.Add(Opcode::kDynamicUpdateSlice, base->shape(), std::move(operands));
  return op.Array(rewrite.Slice(made, cut), std::move(sizes));
}

// Where the dimensions of the indices other than that of the index vector lie, in order.
Dims BatchDims(const Shape& indices, int64_t index_vector_dim) {
  Dims out;
  for (int64_t d = 0; d < indices.rank(); ++d)
    if (d != index_vector_dim) out.push_back(d);
  return out;
}

Lowered Gather(DynamicOp& op) {
  const BoundedValue &x = op.operand(0), &indices = op.operand(1);
  const auto& a = op.attr<GatherAttributes>();
  if (indices.IsSized(a.index_vector_dim)) return std::nullopt;
  for (int64_t d : a.operand_batching_dims)
    if (x.IsSized(d)) return std::nullopt;
  Rewriter& rewrite = op.rewrite();
  DimensionSizes sizes(At(op.shape().rank()), nullptr);
  // Window dimensions.
  std::size_t next = 0;
  for (int64_t d = 0; d < x.value->shape().rank(); ++d) {
    if (std::ranges::find(a.collapsed_slice_dims, d) != a.collapsed_slice_dims.end() ||
        std::ranges::find(a.operand_batching_dims, d) != a.operand_batching_dims.end())
      continue;
    if (a.slice_sizes[At(d)] == x.value->shape().dim(d)) sizes[At(a.offset_dims[next])] = x.size(d);
    ++next;
  }
  const Dims batch = BatchDims(indices.value->shape(), a.index_vector_dim);
  next = 0;
  for (int64_t d = 0; d < op.shape().rank(); ++d) {
    if (std::ranges::find(a.offset_dims, d) != a.offset_dims.end()) continue;
    sizes[At(d)] = indices.size(batch[next++]);
  }
  // Starts are clamped by the sizes.
  std::vector<Instruction*> room;
  bool clamps = false;
  const ElementType type = indices.value->shape().element_type();
  for (int64_t d : a.start_index_map) {
    const int64_t width = a.slice_sizes[At(d)], bound = x.value->shape().dim(d);
    if (bound > kLargest) return std::nullopt;
    Instruction* n = width == bound ? nullptr : x.size(d);
    clamps |= n != nullptr;
    room.push_back(n != nullptr ? op.Scalar(Opcode::kMaximum, op.Add(n, -width), op.Number(0))
                                : op.Number(bound - width));
  }
  std::vector<Instruction*> values = op.Values();
  if (clamps) {
    if (BitWidth(type) < 32) return std::nullopt;
    const Shape& shape = indices.value->shape();
    Instruction* limit;
    if (room.size() == 1) {
      limit = rewrite.Broadcast(rewrite.Convert(room[0], type), shape.dims(), {});
    } else {
      std::vector<Instruction*> parts;
      for (Instruction* r : room) parts.push_back(rewrite.Reshape(rewrite.Convert(r, type), {1}));
      KRAFLA_ASSIGN(limit, rewrite.Infer(Opcode::kConcatenate, std::move(parts), DimensionsAttributes{Dims{0}}));
      limit = rewrite.Broadcast(limit, shape.dims(), {&a.index_vector_dim, 1});
    }
    values[1] = rewrite.Binary(Opcode::kMinimum, indices.value, limit);
  }
  return op.SameOn(std::move(values), std::move(sizes));
}

// An update that does not count gets an index that lies nowhere, so that it is skipped.
Lowered Scatter(DynamicOp& op) {
  const auto& a = op.attr<ScatterAttributes>();
  const std::size_t arrays = (op.operand_count() - 1) / 2;
  const BoundedValue& indices = op.operand(arrays);
  if (indices.IsSized(a.index_vector_dim)) return std::nullopt;
  const Shape& shape = indices.value->shape();
  DimensionSizes counts(At(shape.rank()), nullptr);
  const Dims batch = BatchDims(shape, a.index_vector_dim);
  for (int64_t d : batch) counts[At(d)] = indices.size(d);
  for (std::size_t n = 0; n < arrays; ++n) {
    const BoundedValue &x = op.operand(n), &update = op.operand(arrays + 1 + n);
    std::size_t next = 0;
    for (int64_t d = 0; d < update.value->shape().rank(); ++d) {
      if (std::ranges::find(a.update_window_dims, d) == a.update_window_dims.end()) {
        const std::size_t at = At(batch[next++]);
        counts[at] = op.Merge(counts[at], update.size(d));
      }
    }
    // A window that is partly there may only cover what does not count either.
    std::vector<int64_t> window_dims;
    for (int64_t d = 0; d < x.value->shape().rank(); ++d)
      if (std::ranges::find(a.inserted_window_dims, d) == a.inserted_window_dims.end() &&
          std::ranges::find(a.input_batching_dims, d) == a.input_batching_dims.end())
        window_dims.push_back(d);
    for (std::size_t w = 0; w < a.update_window_dims.size(); ++w) {
      Instruction* n_update = update.size(a.update_window_dims[w]);
      const int64_t d = window_dims[w];
      if (n_update != nullptr &&
          (n_update != x.size(d) || update.value->shape().dim(a.update_window_dims[w]) != x.value->shape().dim(d)))
        return std::nullopt;
    }
  }
  std::vector<Instruction*> values = op.Values();
  bool masks = std::ranges::any_of(counts, [](const Instruction* s) { return s != nullptr; });
  if (masks) {
    if (a.scatter_dims_to_operand_dims.empty()) return std::nullopt;
    const ElementType type = shape.element_type();
    // Of unsigned types this is the largest number.
    Instruction* nowhere = op.rewrite().Constant(ScalarFromBits(type, ~uint64_t{0}));
    if (IsUnsigned(type) && BitWidth(type) < 32) return std::nullopt;
    values[arrays] = op.Masked(indices.value, counts, nowhere);
  }
  BoundedValue out = op.SameOn(std::move(values), {});
  for (std::size_t n = 0; n < arrays; ++n) {
    const BoundedValue& x = op.operand(n);
    for (int64_t d = 0; d < x.value->shape().rank(); ++d) out.leaves[n].push_back(x.size(d));
  }
  return out;
}

}  // namespace

Lowered LowerDynamicIndexing(DynamicOp& op) {
  const Opcode opcode = op.instruction().opcode();
  if (opcode == Opcode::kSlice) return Slice(op);
  if (opcode == Opcode::kDynamicSlice) return DynamicSlice(op);
  if (opcode == Opcode::kDynamicUpdateSlice) return DynamicUpdateSlice(op);
  if (opcode == Opcode::kGather) return Gather(op);
  if (opcode == Opcode::kScatter) return Scatter(op);
  return std::nullopt;
}

}  // namespace krafla
