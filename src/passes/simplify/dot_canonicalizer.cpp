// SPDX-License-Identifier: Apache-2.0
// Transposes next to a dot go into its dimension numbers, which cost nothing: of an operand, where its free
// dimensions keep their order; of the result, where it swaps the sides. Contracting dimensions come in the order of
// the left operand, and a vector for each index of a batch stands on the left, so that equal problems look equal. No
// product or sum changes.
#include <algorithm>
#include <numeric>

#include "ir/dims.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {

namespace {

// Takes a transpose off one side. True if it did.
bool Absorb(Instruction*& side, Dims& contracting, Dims& batch) {
  if (side->opcode() != Opcode::kTranspose || !IsStatic(*side)) return false;
  const Dims& permutation = side->attr<DimensionsAttributes>().dimensions;
  auto source = [&](int64_t d) { return permutation[static_cast<std::size_t>(d)]; };
  int64_t last = -1;
  for (int64_t d : FreeDims(side->shape().rank(), contracting, batch)) {
    if (source(d) < last) return false;
    last = source(d);
  }
  for (int64_t& d : contracting) d = source(d);
  for (int64_t& d : batch) d = source(d);
  side = side->operand(0);
  return true;
}

bool SortContracting(DotAttributes& a) {
  if (std::ranges::is_sorted(a.lhs_contracting)) return false;
  Dims order(a.lhs_contracting.size(), 0);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](int64_t x, int64_t y) {
    return a.lhs_contracting[static_cast<std::size_t>(x)] < a.lhs_contracting[static_cast<std::size_t>(y)];
  });
  Dims lhs, rhs;
  for (int64_t n : order) {
    lhs.push_back(a.lhs_contracting[static_cast<std::size_t>(n)]);
    rhs.push_back(a.rhs_contracting[static_cast<std::size_t>(n)]);
  }
  a.lhs_contracting = lhs;
  a.rhs_contracting = rhs;
  return true;
}

int64_t FreeElements(const Instruction& side, const Dims& contracting, const Dims& batch) {
  int64_t out = 1;
  for (int64_t d : FreeDims(side.shape().rank(), contracting, batch)) out *= side.shape().dim(d);
  return out;
}

DotAttributes Exchanged(const DotAttributes& a) {
  DotAttributes out = a;
  std::swap(out.lhs_contracting, out.rhs_contracting);
  std::swap(out.lhs_batch, out.rhs_batch);
  if (out.precision.size() == 2) std::swap(out.precision[0], out.precision[1]);
  return out;
}

// dot(x, v) where v has one vector for each index of the batch as dot(v, x), whose elements lie in the same order: the
// weights of one query's attention are then rows, as those of many queries are.
Instruction* VectorToTheLeft(Instruction* i) {
  const DotAttributes& a = i->attr<DotAttributes>();
  Instruction *x = i->operand(0), *v = i->operand(1);
  // An algorithm may treat the sides differently.
  if (a.lhs_batch.empty() || !a.algorithm.empty() || !IsStatic(*i) || !IsStatic(*x) || !IsStatic(*v)) return nullptr;
  if (FreeElements(*v, a.rhs_contracting, a.rhs_batch) != 1 || FreeElements(*x, a.lhs_contracting, a.lhs_batch) <= 1)
    return nullptr;
  Dims dims;
  for (int64_t d : a.rhs_batch) dims.push_back(v->shape().dim(d));
  dims.resize(dims.size() + FreeDims(v->shape().rank(), a.rhs_contracting, a.rhs_batch).size(), 1);
  for (int64_t d : FreeDims(x->shape().rank(), a.lhs_contracting, a.lhs_batch)) dims.push_back(x->shape().dim(d));
  Rewriter rewrite(*i);
  Instruction* exchanged = rewrite.Add(Opcode::kDot, ArrayShape(i->shape().element_type(), dims), {v, x}, Exchanged(a));
  return rewrite.Reshape(exchanged, i->shape().dims());
}

Instruction* CanonicalizeDot(Instruction* i) {
  if (Instruction* exchanged = VectorToTheLeft(i)) return exchanged;
  DotAttributes a = i->attr<DotAttributes>();
  Instruction *lhs = i->operand(0), *rhs = i->operand(1);
  bool changed = Absorb(lhs, a.lhs_contracting, a.lhs_batch);
  changed |= Absorb(rhs, a.rhs_contracting, a.rhs_batch);
  changed |= SortContracting(a);
  if (!changed) return nullptr;
  return Rewriter(*i).Add(Opcode::kDot, i->shape(), {lhs, rhs}, a);
}

// A transpose whose last dimension is a free one of x in dot(x, y) becomes one of dot(y, x), whose rows are then rows
// of the result; often nothing is left of it.
Instruction* SimplifyTransposedDot(Instruction* i) {
  Instruction* dot = i->operand(0);
  if (dot->opcode() != Opcode::kDot || dot->users().size() != 1 || !IsStatic(*dot)) return nullptr;
  const DotAttributes& a = dot->attr<DotAttributes>();
  if (!a.algorithm.empty()) return nullptr;  // may treat the sides differently
  auto batches = a.lhs_batch.ssize();
  int64_t lhs_free = dot->operand(0)->shape().rank() - batches - a.lhs_contracting.ssize();
  int64_t rhs_free = dot->operand(1)->shape().rank() - batches - a.rhs_contracting.ssize();
  int64_t last = -1, rhs_elements = 1;
  for (int64_t d : i->attr<DimensionsAttributes>().dimensions)
    if (dot->shape().dim(d) != 1) last = d;
  for (int64_t d = batches + lhs_free; d < dot->shape().rank(); ++d) rhs_elements *= dot->shape().dim(d);
  if (last < batches || last >= batches + lhs_free || rhs_elements == 1) return nullptr;

  Dims dims, permutation;
  for (int64_t d = 0; d < batches; ++d) dims.push_back(dot->shape().dim(d));
  for (int64_t d = 0; d < rhs_free; ++d) dims.push_back(dot->shape().dim(batches + lhs_free + d));
  for (int64_t d = 0; d < lhs_free; ++d) dims.push_back(dot->shape().dim(batches + d));
  for (int64_t d : i->attr<DimensionsAttributes>().dimensions)
    permutation.push_back(d < batches ? d : d < batches + lhs_free ? d + rhs_free : d - lhs_free);
  Rewriter rewrite(*i);
  Instruction* swapped = rewrite.Add(Opcode::kDot, ArrayShape(i->shape().element_type(), dims),
                                     {dot->operand(1), dot->operand(0)}, Exchanged(a));
  return rewrite.Transpose(swapped, permutation);
}

Instruction* Canonicalize(Instruction* i) {
  if (i->opcode() == Opcode::kDot) return CanonicalizeDot(i);
  if (i->opcode() == Opcode::kTranspose) return SimplifyTransposedDot(i);
  return nullptr;
}

}  // namespace

Result<bool> DotCanonicalizer(Module& module, const PassOptions&) { return SweepModule(module, Canonicalize); }

}  // namespace krafla
