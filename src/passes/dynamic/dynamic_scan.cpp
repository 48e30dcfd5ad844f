// SPDX-License-Identifier: Apache-2.0
// Scans of arrays of bounded dynamic shape. What a scan gives for an element depends on the elements before it only, so
// that the bound's last elements do no harm to those that count; what it carries out must stop at the size.
#include <algorithm>

#include "base/index.h"
#include "passes/dynamic/dynamic_values.h"
#include "passes/expand/expansions.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

// The sizes without that of `dim`.
DimensionSizes Across(const DimensionSizes& sizes, int64_t dim) {
  DimensionSizes out = sizes;
  out.erase(out.begin() + dim);
  return out;
}

// The last of `turns` results along `dim`, or `init` where there is none.
Instruction* LastOf(DynamicOp& op, Instruction* results, int64_t dim, Instruction* turns, Instruction* init) {
  Rewriter& rewrite = op.rewrite();
  const Shape& shape = results->shape();
  std::vector<Instruction*> operands = {results};
  for (int64_t d = 0; d < shape.rank(); ++d) operands.push_back(d == dim ? op.Add(turns, -1) : op.Number(0));
  DynamicSliceAttributes one;
  one.slice_sizes = shape.dims();
  one.slice_sizes[At(dim)] = 1;
  Instruction* slice =
      rewrite.Add(Opcode::kDynamicSlice, ArrayShape(shape.element_type(), one.slice_sizes), std::move(operands), one);
  slice = rewrite.Reshape(slice, init->shape().dims());
  Instruction* any = rewrite.Compare(ComparisonDirection::kGt, turns, op.Number(0));
  return rewrite.Select(rewrite.Broadcast(any, init->shape().dims(), {}), slice, init);
}

}  // namespace

Result<> TakeSizesOutOfScanBody(Computation& c) {
  for (const auto& i : c.instructions()) {
    const bool splat = i->opcode() == Opcode::kBroadcast && i->operand(0)->shape().rank() == 0;
    if (!splat && !IsElementwise(i->opcode()) &&
        !IsOneOf(i->opcode(), {Opcode::kParameter, Opcode::kTuple, Opcode::kGetTupleElement, Opcode::kConstant}))
      return Unimplemented(
          "{} is not supported in a scan of slices of dynamic shape, which takes elementwise operations only.",
          OpcodeName(i->opcode()));
    i->set_shape(i->shape().WithStaticDims());
  }
  return {};
}

Lowered LowerDynamicScan(DynamicOp& op) {
  if (op.instruction().opcode() != Opcode::kScan || !op.shape().IsTuple()) return std::nullopt;
  const auto& a = op.attr<ScanAttributes>();
  const std::size_t carries = At(a.num_carries), inputs = op.operand_count() - carries;
  const std::size_t outputs = op.shape().tuple_elements().size() - carries;
  Instruction* turns = nullptr;
  for (std::size_t n = 0; n < inputs; ++n) turns = op.Merge(turns, op.operand(n).size(a.dimension));
  // Elementwise on slices: a result has no more elements than each thing that it is made of.
  DimensionSizes across;
  auto meet = [&](const DimensionSizes& sizes) {
    if (across.size() < sizes.size()) across.resize(sizes.size(), nullptr);
    for (std::size_t d = 0; d < sizes.size(); ++d) across[d] = op.Merge(across[d], sizes[d]);
  };
  for (std::size_t n = 0; n < inputs; ++n)
    if (op.operand(n).IsSized()) meet(Across(op.operand(n).leaves[0], a.dimension));
  for (std::size_t n = inputs; n < op.operand_count(); ++n)
    if (op.operand(n).IsSized()) meet(op.operand(n).leaves[0]);

  Instruction* whole = op.Same({}).value;
  BoundedValue out{whole, {}};
  if (turns != nullptr) {
    Rewriter& rewrite = op.rewrite();
    if (IsRunningCombination(*whole) && !a.is_reverse) {
      Instruction* results = rewrite.Element(whole, 0);
      out.value = rewrite.Tuple({results, LastOf(op, results, a.dimension, turns, whole->operand(1))});
    } else {
      KRAFLA_ASSIGN(out.value, ExpandScan(whole, turns));
      if (out.value == nullptr) return std::nullopt;
    }
  }
  for (std::size_t n = 0; n < outputs + carries; ++n) {
    const bool carry = n >= outputs;
    DimensionSizes sizes(At(op.shape().tuple_elements()[n].rank()), nullptr);
    for (std::size_t d = 0, from = 0; d < sizes.size(); ++d) {
      if (!carry && static_cast<int64_t>(d) == a.dimension) sizes[d] = turns;
      else if (from < across.size()) sizes[d] = across[from++];
    }
    out.leaves.push_back(std::move(sizes));
  }
  return out;
}

}  // namespace krafla
