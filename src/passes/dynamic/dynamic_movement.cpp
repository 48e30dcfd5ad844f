// SPDX-License-Identifier: Apache-2.0
// Data movement on values of bounded dynamic shape. XLA: dynamic_dimension_inference.cc has the sizes of results,
// dynamic_padder.cc what happens to the elements.
#include <algorithm>

#include "base/index.h"
#include "passes/dynamic/dynamic_values.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

// Numbers in an attribute beyond this would let the arithmetic of sizes leave s32.

Lowered Broadcast(DynamicOp& op) {
  DimensionSizes sizes(At(op.shape().rank()), nullptr);
  const Dims& to = op.attr<DimensionsAttributes>().dimensions;
  for (std::size_t d = 0; d < to.size(); ++d) sizes[At(to[d])] = op.operand(0).size(static_cast<int64_t>(d));
  return op.Same(std::move(sizes));
}

Lowered Transpose(DynamicOp& op) {
  DimensionSizes sizes;
  for (int64_t from : op.attr<DimensionsAttributes>().dimensions) sizes.push_back(op.operand(0).size(from));
  return op.Same(std::move(sizes));
}

// Reversing puts the elements that count at the end of the bound; they are fetched from there.
Lowered Reverse(DynamicOp& op) {
  const BoundedValue& x = op.operand(0);
  const Dims& dims = x.value->shape().dims();
  DimensionSizes sizes(dims.size(), nullptr);
  for (std::size_t d = 0; d < dims.size(); ++d) sizes[d] = x.size(static_cast<int64_t>(d));
  BoundedValue reversed = op.Same(sizes);
  PadAttributes pad;
  std::vector<Instruction*> slice_operands = {nullptr};
  Dims padded = dims;
  bool moved = false;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const Dims& along = op.attr<DimensionsAttributes>().dimensions;
    const bool shifts = sizes[d] != nullptr && std::ranges::find(along, static_cast<int64_t>(d)) != along.end();
    moved |= shifts;
    if (shifts && dims[d] > kLargest) return std::nullopt;
    pad.low.push_back(0);
    pad.interior.push_back(0);
    pad.high.push_back(shifts ? dims[d] : 0);
    padded[d] += pad.high.back();
    slice_operands.push_back(shifts ? op.Scalar(Opcode::kSubtract, op.Number(dims[d]), sizes[d]) : op.Number(0));
  }
  if (!moved) return reversed;
  Rewriter& rewrite = op.rewrite();
  const ElementType type = x.value->shape().element_type();
  KRAFLA_ASSIGN(slice_operands[0],
                rewrite.Infer(Opcode::kPad, {reversed.value, rewrite.Constant(ScalarZero(type))}, pad));
  DynamicSliceAttributes whole;
  whole.slice_sizes = dims;
  return op.Array(rewrite.Add(Opcode::kDynamicSlice, ArrayShape(type, dims), std::move(slice_operands), whole), sizes);
}

// Both sides fall into groups of equal bounds. In a group that begins, on either side, with its only sized dimension,
// the elements that count come first in both, and the ordinary reshape moves none of them. As in XLA, the first
// dynamic dimension of the result takes up what the operand has.
Lowered Reshape(DynamicOp& op) {
  const BoundedValue& x = op.operand(0);
  const Shape &from = x.value->shape(), &to = op.shape();
  DimensionSizes sizes(At(to.rank()), nullptr);
  if (!x.IsSized() || from.element_count() == 0) return op.Same(std::move(sizes));
  if (from.element_count() > INT32_MAX) return std::nullopt;
  bool in_place = true;
  int64_t f = 0, t = 0;
  while (f < from.rank() || t < to.rank()) {
    int64_t from_product = 1, to_product = 1, fixed = 1;
    const int64_t first = t;
    Instruction* live = nullptr;  // product of the sizes that there are; the rest is `fixed`
    bool leads = true;            // nothing but dimensions of 1 comes before the size
    do {
      if ((from_product <= to_product && f < from.rank()) || t >= to.rank()) {
        if (x.IsSized(f)) {
          leads = leads && live == nullptr && from_product == 1;
          live = live == nullptr ? x.size(f) : op.Scalar(Opcode::kMultiply, live, x.size(f));
        } else {
          fixed *= from.dim(f);
        }
        from_product *= from.dim(f++);
      } else {
        to_product *= to.dim(t++);
      }
    } while (from_product != to_product && (f < from.rank() || t < to.rank()));
    if (live == nullptr) continue;
    int64_t varies = -1, rest = 1, before = 1;
    for (int64_t d = first; d < t; ++d) {
      if (varies < 0 && to.IsDynamicDim(d)) {
        varies = d;
        before = rest;
      } else {
        rest *= to.dim(d);
      }
    }
    // The declared result has no place for the size; a dimension as large as the whole group can still take it.
    for (int64_t d = first; d < t && varies < 0; ++d)
      if (to.dim(d) == to_product) varies = d, rest = 1;
    if (varies < 0) return std::nullopt;
    in_place = in_place && leads && before == 1;
    if (fixed != rest) {
      if (fixed != 1) live = op.Scalar(Opcode::kMultiply, live, op.Number(fixed));
      if (rest != 1) live = op.Scalar(Opcode::kDivide, live, op.Number(rest));
    }
    sizes[At(varies)] = live;
  }
  if (in_place) return op.Same(std::move(sizes));
  return op.Array(Relinearize(op, x, to.dims(), sizes), sizes);
}

Lowered DynamicReshape(DynamicOp& op) {
  const Shape& to = op.shape();
  if (to.element_count() > INT32_MAX) return std::nullopt;
  DimensionSizes sizes;
  for (int64_t d = 0; d < to.rank(); ++d) sizes.push_back(op.Clamped(op.value(At(d) + 1), to.dim(d)));
  return op.Array(Relinearize(op, op.operand(0), to.dims(), sizes), sizes);
}

// Each operand is written where the elements of those before it end; what lies behind its own is overwritten by the
// next.
Lowered Concatenate(DynamicOp& op) {
  const Dims& dims = op.shape().dims();
  const int64_t along = op.attr<DimensionsAttributes>().dimensions[0];
  DimensionSizes sizes(dims.size(), nullptr);
  bool shifts = false;
  for (std::size_t n = 0; n < op.operand_count(); ++n) {
    shifts |= op.operand(n).IsSized(along);
    for (int64_t d = 0; d < op.shape().rank(); ++d)
      if (d != along) sizes[At(d)] = op.Merge(sizes[At(d)], op.operand(n).size(d));
  }
  if (!shifts) return op.Same(std::move(sizes));
  Rewriter& rewrite = op.rewrite();
  Instruction* out = op.Same({}).value;
  Instruction* offset = nullptr;  // null: the operands so far have their full size, `fixed` together
  int64_t fixed = 0;
  for (std::size_t n = 0; n < op.operand_count(); ++n) {
    const BoundedValue& x = op.operand(n);
    if (offset != nullptr && x.value->shape().element_count() > 0) {
      std::vector<Instruction*> operands = {out, x.value};
      for (int64_t d = 0; d < op.shape().rank(); ++d)
        operands.push_back(d == along ? op.Add(offset, fixed) : op.Number(0));
      out = rewrite.Add(Opcode::kDynamicUpdateSlice, out->shape(), std::move(operands));
    }
    if (x.IsSized(along)) offset = offset == nullptr ? x.size(along) : op.Scalar(Opcode::kAdd, offset, x.size(along));
    else fixed += x.value->shape().dim(along);
  }
  sizes[At(along)] = op.Add(offset, fixed);
  return op.Array(out, sizes);
}

Lowered Pad(DynamicOp& op) {
  const BoundedValue& x = op.operand(0);
  const auto& a = op.attr<PadAttributes>();
  DimensionSizes sizes(At(op.shape().rank()), nullptr);
  for (int64_t d = 0; d < op.shape().rank(); ++d) {
    Instruction* n = x.size(d);
    if (n == nullptr) continue;
    const int64_t low = a.low[At(d)], high = a.high[At(d)], interior = a.interior[At(d)];
    if (low < -kLargest || low > kLargest || high < -kLargest || high > kLargest || op.shape().dim(d) > kLargest ||
        x.value->shape().dim(d) * (interior + 1) > kLargest)
      return std::nullopt;
    Instruction* gaps = op.Scalar(Opcode::kMaximum, op.Add(n, -1), op.Number(0));
    Instruction* size = n;
    if (interior != 0) size = op.Scalar(Opcode::kAdd, size, op.Scalar(Opcode::kMultiply, gaps, op.Number(interior)));
    size = op.Add(size, low + high);
    sizes[At(d)] = low + high < 0 ? op.Scalar(Opcode::kMaximum, size, op.Number(0)) : size;
  }
  // Where an element does not count, padding may come to lie that does.
  Dims covered;
  for (int64_t d = 0; d < op.shape().rank(); ++d)
    if (a.high[At(d)] > 0) covered.push_back(d);
  Instruction* value = op.Masked(x.value, op.SizesIn(x, covered), op.value(1));
  return op.SameOn({value, op.value(1)}, std::move(sizes));
}

}  // namespace

Result<Instruction*> TakeAlong(DynamicOp& op, Instruction* x, int64_t dim, Instruction* places) {
  GatherAttributes a;
  a.collapsed_slice_dims = {dim};
  a.start_index_map = {dim};
  a.index_vector_dim = 1;
  a.slice_sizes = x->shape().dims();
  a.slice_sizes[At(dim)] = 1;
  for (int64_t d = 0; d < x->shape().rank(); ++d)
    if (d != dim) a.offset_dims.push_back(d);
  return op.rewrite().Infer(Opcode::kGather, {x, places}, a);
}

Instruction* Relinearize(DynamicOp& op, const BoundedValue& x, std::span<const int64_t> dims,
                         const DimensionSizes& sizes) {
  Rewriter& rewrite = op.rewrite();
  const Shape& from = x.value->shape();
  if (from.element_count() == 0) return rewrite.Reshape(x.value, dims);
  auto spread = [&](Instruction* s) { return rewrite.Broadcast(s, dims, {}); };
  // The place of each element of the result in the order of those that count...
  Instruction* linear = spread(op.Number(0));
  for (std::size_t d = 0; d < dims.size(); ++d) {
    Instruction* size = d < sizes.size() && sizes[d] != nullptr ? sizes[d] : op.Number(dims[d]);
    Instruction* at =
        rewrite.Add(Opcode::kIota, ArrayShape(ElementType::kS32, dims), {}, IotaAttributes{static_cast<int64_t>(d)});
    linear = rewrite.Binary(Opcode::kAdd, rewrite.Binary(Opcode::kMultiply, linear, spread(size)), at);
  }
  // ... and where in the operand that one lies. Past the last, anything: gather keeps to the array.
  Instruction* place = spread(op.Number(0));
  const Dims strides = RowMajorStrides(from.dims());
  for (int64_t d = from.rank(); d-- > 0;) {
    Instruction* size = spread(op.SizeOr(x, d));
    Instruction* at = rewrite.Binary(Opcode::kRemainder, linear, size);
    if (d > 0) linear = rewrite.Binary(Opcode::kDivide, linear, size);
    at = rewrite.Binary(Opcode::kMultiply, at, spread(op.Number(strides[At(d)])));
    place = rewrite.Binary(Opcode::kAdd, place, at);
  }
  GatherAttributes a;
  a.collapsed_slice_dims = {0};
  a.start_index_map = {0};
  a.index_vector_dim = static_cast<int64_t>(dims.size());
  a.slice_sizes = {1};
  Instruction* flat = rewrite.Reshape(x.value, {from.element_count()});
  return rewrite.Add(Opcode::kGather, ArrayShape(from.element_type(), dims), {flat, place}, a);
}

Lowered LowerDynamicMovement(DynamicOp& op) {
  const Opcode opcode = op.instruction().opcode();
  if (opcode == Opcode::kBroadcast) return Broadcast(op);
  if (opcode == Opcode::kTranspose) return Transpose(op);
  if (opcode == Opcode::kReverse) return Reverse(op);
  if (opcode == Opcode::kReshape) return Reshape(op);
  if (opcode == Opcode::kDynamicReshape) return DynamicReshape(op);
  if (opcode == Opcode::kConcatenate) return Concatenate(op);
  if (opcode == Opcode::kPad) return Pad(op);
  return std::nullopt;
}

}  // namespace krafla
