// SPDX-License-Identifier: Apache-2.0
// A scatter of one window (x.at[i].set(y), x.at[i, :].add(y), ...) as a dynamic-update-slice: of what the combiner
// makes of the window as it is and the update. A window that is not wholly inside changes nothing; the slices are
// clamped, so that it is then some other place that keeps what it has.
#include <algorithm>
#include <array>

#include "passes/lift.h"
#include "passes/passes.h"
#include "passes/simplify/integer_range.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

// Where the window starts, one scalar a dimension of the operand.
Result<std::vector<Instruction*>> WindowStarts(Rewriter& rewrite, const Instruction& scatter, Instruction* indices) {
  const auto& attributes = scatter.attr<ScatterAttributes>();
  const auto count = static_cast<int64_t>(attributes.scatter_dims_to_operand_dims.size());
  Instruction* zero = rewrite.Constant(ScalarZero(indices->shape().element_type()));
  std::vector<Instruction*> starts(static_cast<std::size_t>(scatter.operand(0)->shape().rank()), zero);
  Instruction* flat = rewrite.Reshape(indices, {count});
  for (int64_t k = 0; k < count; ++k) {
    SliceAttributes one;
    one.starts = {k}, one.limits = {k + 1}, one.strides = {1};
    starts[static_cast<std::size_t>(attributes.scatter_dims_to_operand_dims[static_cast<std::size_t>(k)])] =
        rewrite.Reshape(rewrite.Slice(flat, one), std::span<const int64_t>());
  }
  return starts;
}

// Whether the whole window is inside; null: it always is.
Instruction* IsInside(Rewriter& rewrite, std::span<Instruction* const> starts, const Shape& operand,
                      const Dims& window) {
  Instruction* inside = nullptr;
  const auto both = [&](Instruction* p) { inside = inside == nullptr ? p : rewrite.Binary(Opcode::kAnd, inside, p); };
  for (std::size_t d = 0; d < starts.size(); ++d) {
    Instruction* start = starts[d];
    const ElementType type = start->shape().element_type();
    const int64_t last = operand.dims()[d] - window[d];
    const auto bound = UpperBound(*start);
    if (bound && *bound <= static_cast<uint64_t>(last)) continue;
    if (IsSigned(type)) both(rewrite.Compare(ComparisonDirection::kGe, start, rewrite.Constant(ScalarZero(type))));
    if (LargestOf(type) > static_cast<uint64_t>(last))
      both(rewrite.Compare(ComparisonDirection::kLe, start, rewrite.Constant(ScalarOfInt(type, last))));
  }
  return inside;
}

Result<Instruction*> ToUpdate(Instruction* i) {
  if (i->operand_count() != 3 || !IsStatic(*i) || i->shape().IsTuple()) return nullptr;
  const auto& attributes = i->attr<ScatterAttributes>();
  Instruction *operand = i->operand(0), *indices = i->operand(1), *updates = i->operand(2);
  const auto components = static_cast<int64_t>(attributes.scatter_dims_to_operand_dims.size());
  if (indices->shape().element_count() != components || components == 0 || operand->shape().rank() == 0) return nullptr;
  if (updates->shape().element_count() == 0 || updates->shape().element_type() != operand->shape().element_type() ||
      i->shape().element_type() != operand->shape().element_type())
    return nullptr;
  Dims window;
  std::size_t next = 0;
  for (int64_t d = 0; d < operand->shape().rank(); ++d) {
    const auto is_in = [&](const Dims& dims) { return std::find(dims.begin(), dims.end(), d) != dims.end(); };
    if (is_in(attributes.inserted_window_dims) || is_in(attributes.input_batching_dims)) window.push_back(1);
    else window.push_back(updates->shape().dims()[static_cast<std::size_t>(attributes.update_window_dims[next++])]);
  }
  // No place of an array without elements holds a window of one.
  for (std::size_t d = 0; d < window.size(); ++d)
    if (window[d] > operand->shape().dims()[d]) return operand;
  Rewriter rewrite(*i);
  KRAFLA_ASSIGN(std::vector<Instruction*> starts, WindowStarts(rewrite, *i, indices));
  std::vector<Instruction*> slice_operands = {operand};
  slice_operands.insert(slice_operands.end(), starts.begin(), starts.end());
  DynamicSliceAttributes slice;
  slice.slice_sizes = window;
  KRAFLA_ASSIGN(Instruction * current, rewrite.Infer(Opcode::kDynamicSlice, slice_operands, slice));
  Instruction* update = rewrite.Reshape(updates, window);
  Instruction* combined = LiftInto(rewrite, *i->called(0), std::array{current, update}, window);
  if (combined == nullptr || combined->shape().element_type() != operand->shape().element_type()) return nullptr;
  if (Instruction* inside = IsInside(rewrite, starts, operand->shape(), window))
    combined = rewrite.Select(rewrite.Broadcast(inside, window, Dims{}), combined, current);
  std::vector<Instruction*> update_operands = {operand, combined};
  update_operands.insert(update_operands.end(), starts.begin(), starts.end());
  return rewrite.Infer(Opcode::kDynamicUpdateSlice, update_operands);
}

}  // namespace

Result<bool> ScatterSimplifier(Module& module, const PassOptions&) {
  return RewriteAll(module, Opcode::kScatter, ToUpdate);
}

}  // namespace krafla
