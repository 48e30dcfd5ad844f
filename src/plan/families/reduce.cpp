// SPDX-License-Identifier: Apache-2.0
// Decides which reductions are kernels, and which of them run over the same rows.
#include <algorithm>

#include "plan/families/accepts.h"
#include "plan/families/reduce_split.h"
#include "plan/program_emitter.h"

namespace krafla::plan {
namespace {

bool StaticArrays(const Instruction& i) {
  for (const Instruction* o : i.operands())
    if (!o->shape().IsArray() || o->shape().IsDynamic()) return false;
  return true;
}

// Whether the combiner can be written as nodes on scalars. This is cheap and builds nothing.
bool EmittableComputation(const Computation& c) {
  for (const auto& i : c.instructions()) {
    if (IsOneOf(i->opcode(), {Opcode::kParameter, Opcode::kTuple})) continue;
    if (!IsEmittable(*i) || i->shape().rank() != 0) return false;
  }
  return true;
}

constexpr int64_t kLongestRegionRow = int64_t{1} << 22;

Dims WithoutOnes(const Dims& dims) {
  Dims out;
  for (int64_t d : dims)
    if (d != 1) out.push_back(d);
  return out;
}

// Whether the elements of a row are contiguous: the reduced dimensions come last, dimensions of 1 aside.
bool RowsContiguous(const ReduceSplit& s) {
  int last_row = -1, first_element = 1 << 20;
  for (int d : s.row)
    if (s.operand_dims[static_cast<std::size_t>(d)] != 1) last_row = std::max(last_row, d);
  for (int d : s.element)
    if (s.operand_dims[static_cast<std::size_t>(d)] != 1) first_element = std::min(first_element, d);
  return last_row < first_element;
}

}  // namespace

ReduceSplit SplitOf(const Instruction& reduce) {
  ReduceSplit out;
  out.operand_dims = reduce.operand(0)->shape().dims();
  const Dims& reduced = reduce.attr<DimensionsAttributes>().dimensions;
  for (std::size_t d = 0; d < out.operand_dims.size(); ++d) {
    int64_t extent = out.operand_dims[d];
    if (std::find(reduced.begin(), reduced.end(), static_cast<int64_t>(d)) == reduced.end()) {
      out.row.push_back(static_cast<int>(d));
      out.row_dims.push_back(extent);
      out.rows *= extent;
    } else {
      out.element.push_back(static_cast<int>(d));
      out.element_dims.push_back(extent);
      out.elements *= extent;
    }
  }
  return out;
}

bool IsOfTwoParameters(const Instruction& step) {
  const auto is_parameter = [](const Instruction* i) { return i->opcode() == Opcode::kParameter; };
  return step.operand_count() == 2 && step.operand(0) != step.operand(1) &&
         std::ranges::all_of(step.operands(), is_parameter);
}

bool MultipliesComplex(const Computation& combiner) {
  const Instruction& root = *combiner.root();
  return root.opcode() == Opcode::kMultiply && IsComplex(root.shape().element_type()) &&
         combiner.parameters().size() == 2 && IsOfTwoParameters(root);
}

bool TakesReduce(const Instruction& i, int64_t elements) {
  // The signs of the zeros in a complex product depend on the order, which kernels keep of plain ones.
  const Instruction* root = i.called(0)->root();
  if (root->shape().IsArray() && IsComplex(root->shape().element_type()) && root->opcode() == Opcode::kMultiply &&
      !MultipliesComplex(*i.called(0)))
    return false;

  return StaticArrays(i) && i.operand(0)->shape().element_count() <= elements && EmittableComputation(*i.called(0));
}

bool TakesReduceWindow(const Instruction& i) {
  if (!StaticArrays(i) || !EmittableComputation(*i.called(0))) return false;
  double work = static_cast<double>(TupleLeaves(i.shape())[0]->element_count());
  for (const WindowDim& w : i.attr<WindowAttributes>().window) work *= static_cast<double>(w.size);
  return work < 1e11;
}

bool RegionFits(const FusionGroup& g) {
  if (g.heroes[0]->opcode() != Opcode::kReduce) return false;
  ReduceSplit first = SplitOf(*g.heroes[0]);
  if (first.rows == 0 || first.elements == 0) return false;
  // Stages that wait for each other run in one workgroup. Where rows are few or very long, the stages stay kernels of
  // their own, which share a row among workgroups.
  const bool is_long = (first.rows < 8 && first.rows * first.elements > 65536) || first.elements > kLongestRegionRow;
  if (g.heroes.size() > 1 && is_long) return false;
  // Groups of sums would part what is multiplied in turn.
  const auto in_turn = [](const Instruction* hero) { return MultipliesComplex(*hero->called(0)); };
  if (g.heroes.size() > 1 && std::ranges::any_of(g.heroes, in_turn)) return false;
  bool contiguous = RowsContiguous(first);
  for (std::size_t n = 1; n < g.heroes.size(); ++n) {
    if (g.heroes[n]->opcode() != Opcode::kReduce) return false;
    ReduceSplit s = SplitOf(*g.heroes[n]);
    if (WithoutOnes(s.operand_dims) != WithoutOnes(first.operand_dims) ||
        WithoutOnes(s.row_dims) != WithoutOnes(first.row_dims))
      return false;
    // Rows of equal extents may be different dimensions. They are the same where the rows of both come first.
    if (!contiguous || !RowsContiguous(s)) return false;
  }
  for (const Instruction* root : g.roots) {
    int64_t count = root->shape().element_count();
    if (count == first.rows) continue;
    if (count != first.rows * first.elements) return false;
    // Another pass over the elements pays only where rows are contiguous and there are enough of them for all
    // workgroups.
    if (!contiguous || is_long) return false;
  }
  return true;
}

}  // namespace krafla::plan
