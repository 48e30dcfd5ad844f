// SPDX-License-Identifier: Apache-2.0
// Reductions whose elements lie in short runs between those of other results, as group normalisation has them with the
// channels behind the positions: [batch, height, width, groups, channels] over height, width and channels. First over
// all but the runs, which leaves vectors of all groups' channels, then over the runs. Sums come in another order; those
// of floats of 16 bits stay, as what lies between would be rounded.
#include "ir/dims.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

constexpr int64_t kLongestRun = 64, kFewestRuns = 16;  // elements of a run, and runs of a result

bool IsExtremum(Opcode opcode) { return opcode == Opcode::kMaximum || opcode == Opcode::kMinimum; }

// Whether nothing changes if it begins so a second time, and no value between is rounded.
bool MayBeTwo(const Instruction& reduce) {
  const ElementType type = reduce.shape().element_type();
  const Instruction* init = reduce.operand(1);
  const std::optional<Literal> identity = IdentityOf(*reduce.called(0), type);
  if (!init->IsConstant() || !identity || IsComplex(type)) return false;
  const Opcode combiner = reduce.called(0)->root()->opcode();
  if (IsFloat(type) && BitWidth(type) < 32 && !IsExtremum(combiner)) return false;
  const uint64_t bits = ScalarBits(init->literal());
  return bits == ScalarBits(*identity) || (combiner == Opcode::kAdd && bits == 0);
}

Instruction* ReduceOver(const Instruction& like, Instruction* x, const Dims& dimensions) {
  Dims sizes;
  for (int64_t d = 0; d < x->shape().rank(); ++d)
    if (!Contains(dimensions, d)) sizes.push_back(x->shape().dim(d));
  return Rewriter(like).Add(Opcode::kReduce, ArrayShape(like.shape().element_type(), sizes), {x, like.operand(1)},
                            DimensionsAttributes{dimensions}, {like.called(0)});
}

Result<Instruction*> RunsLast(Instruction* reduce) {
  if (reduce->operand_count() != 2 || !reduce->shape().IsArray() || !IsStatic(*reduce)) return nullptr;
  Instruction* x = reduce->operand(0);
  const Dims& reduced = reduce->attr<DimensionsAttributes>().dimensions;
  // From the last dimension on: those of a run, then those of other results, then at least one that is reduced.
  Dims runs, others;
  int64_t run = 1, results = 1, rest = 1;
  for (int64_t d = x->shape().rank(); d-- > 0;) {
    const int64_t size = x->shape().dim(d);
    if (!Contains(reduced, d)) {
      results *= size;
    } else if (results == 1) {
      runs.push_back(d);
      run *= size;
    } else {
      others.push_back(d);
      rest *= size;
    }
  }
  if (run < 2 || run > kLongestRun || rest < kFewestRuns || !MayBeTwo(*reduce)) return nullptr;
  for (int64_t& d : runs) d -= static_cast<int64_t>(others.size());  // all of which come before
  return ReduceOver(*reduce, ReduceOver(*reduce, x, others), runs);
}

}  // namespace

Result<bool> InterleavedReductionExpander(Module& module, const PassOptions&) {
  return RewriteAll(module, Opcode::kReduce, RunsLast);
}

}  // namespace krafla
