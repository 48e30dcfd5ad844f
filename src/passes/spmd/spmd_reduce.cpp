// SPDX-License-Identifier: Apache-2.0
// Reductions over dimensions that are cut: each device reduces its block, and the devices' results are reduced.
#include <algorithm>

#include "base/index.h"
#include "ir/builder.h"
#include "passes/lift.h"
#include "passes/spmd/spmd_parts.h"
#include "passes/spmd/spmd_rule.h"

namespace krafla::spmd {
namespace {

// Whether `init` changes nothing under the operation of `computation`, so that parts may start
// from it each.
bool IsNeutral(const Computation& computation, const Instruction* init) {
  const std::optional<Opcode> opcode = BinaryOpcode(computation);
  if (!opcode || !init->IsConstant()) return false;
  const ElementType type = init->shape().element_type();
  auto is = [&](double value) { return init->literal() == ScalarLiteral(type, value); };
  const Opcode op = *opcode;
  if (op == Opcode::kAdd) return is(0) || (IsFloat(type) && is(-0.0));
  if (op == Opcode::kMultiply) return is(1);
  if (op == Opcode::kOr) return is(0);
  if (op == Opcode::kAnd) return type == ElementType::kPred && is(1);
  // The larger of the parts' maxima is the maximum whatever they start from.
  return op == Opcode::kMaximum || op == Opcode::kMinimum;
}

// Whether a computation gives elements of its parameters and computes none: what finds a maximum and its place does. In
// blocks that takes an initial value that stands for nothing, as HLO demands of all reductions.
bool OnlyChooses(const Computation& computation) {
  constexpr Opcode kChoosing[] = {Opcode::kParameter, Opcode::kConstant, Opcode::kTuple,  Opcode::kCompare,
                                  Opcode::kSelect,    Opcode::kMaximum,  Opcode::kMinimum};
  constexpr Opcode kLogical[] = {Opcode::kAnd, Opcode::kOr, Opcode::kNot};
  return std::ranges::all_of(computation.instructions(), [&](const auto& i) {
    if (std::ranges::find(kChoosing, i->opcode()) != std::end(kChoosing)) return true;
    return std::ranges::find(kLogical, i->opcode()) != std::end(kLogical) &&
           i->shape().element_type() == ElementType::kPred;
  });
}

class ReduceRule : public Rule {
 public:
  using Rule::Rule;

  Out Apply() {
    const Dims& reduced = i_.attr<DimensionsAttributes>().dimensions;
    const std::size_t count = operands_.size() / 2;
    Splits dims = Common(FirstOperands(count));
    const Computation& computation = *i_.called(0);
    const bool adds_up = count == 1 && !i_.shape().IsTuple() && IsNeutral(computation, i_.operand(1)),
               in_parts = adds_up || OnlyChooses(computation);
    Split along;
    Splits out;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (std::ranges::find(reduced, static_cast<int64_t>(d)) == reduced.end()) out.push_back(dims[d]);
      else if (in_parts) along = Combine(along, dims[d]);
      else dims[d] = Split();
    }
    if (!AnyCut(dims)) return std::nullopt;
    std::vector<Instruction*> made, starts;
    for (std::size_t o = count; o < operands_.size(); ++o) {
      KRAFLA_ASSIGN(Instruction * one, WholeOperand(o));
      starts.push_back(one);
    }
    // Each part starts from the initial value, so that it may come any number of times.
    std::vector<std::size_t> which;
    for (const int64_t d : reduced) which.push_back(At(d));
    for (std::size_t o = 0; o < count; ++o) {
      KRAFLA_ASSIGN(Instruction * one, Operand(o, dims, which, starts[o]));
      made.push_back(one);
    }
    made.insert(made.end(), starts.begin(), starts.end());
    KRAFLA_ASSIGN(std::optional<Value> value, Finish(std::move(made), std::move(out)));
    if (along.whole()) return value;
    if (!adds_up) return Chosen(std::move(*value), starts, along);
    if (StaysInParts(along) && AddsTwo(computation) && IsNumber(i_.shape().element_type())) {
      value->unreduced = wishes_.parts;
      return value;
    }
    KRAFLA_ASSIGN(value->local, emitter_.Sum(value->local, along, value->dims, region_, i_.called(0)));
    return value;
  }

 private:
  // What the blocks' results give, side by side.
  Out Chosen(Value parts, const std::vector<Instruction*>& starts, const Split& along) {
    std::vector<Instruction*> operands;
    for (const Value& part : parts.is_tuple ? std::span(parts.elements) : std::span(&parts, 1)) {
      KRAFLA_ASSIGN(Instruction * all, emitter_.SideBySide(part, along));
      operands.push_back(all);
    }
    operands.insert(operands.end(), starts.begin(), starts.end());
    KRAFLA_ASSIGN(Instruction * made,
                  emitter_.Infer(Opcode::kReduce, std::move(operands), DimensionsAttributes{{0}}, {i_.called(0)}));
    return emitter_.TakeApart(made, parts);
  }
};

}  // namespace

Result<std::optional<Value>> ReduceInBlocks(const Instruction& instruction, std::span<const Value> operands,
                                            const Region* region, const Wishes& wishes, Emitter& emitter) {
  return ReduceRule(instruction, operands, region, wishes, emitter).Apply();
}

}  // namespace krafla::spmd
