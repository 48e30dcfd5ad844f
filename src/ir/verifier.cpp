// SPDX-License-Identifier: Apache-2.0
#include "ir/verifier.h"

#include "ir/builder.h"
#include "ir/shape_rules/checks.h"
#include "ir/verifier/checks.h"

namespace krafla {
namespace {

using verifier::At;

int64_t CountLeaves(const Shape& shape) {
  if (!shape.IsTuple()) return 1;
  int64_t out = 1;
  for (const Shape& element : shape.tuple_elements()) out += CountLeaves(element);
  return out;
}

struct Callee {
  ComputationSignature signature;
  int64_t leaves = 0;
};

class InstructionChecker {
 public:
  explicit InstructionChecker(const Module& module) : module_(module) {
    for (const auto& c : module.computations()) {
      Callee callee{SignatureOf(*c), 0};
      for (const Shape& s : callee.signature.parameters) callee.leaves += CountLeaves(s);
      callee.leaves += CountLeaves(callee.signature.result);
      callees_.emplace(c.get(), std::move(callee));
    }
  }

  Result<> Check(const Instruction& i) {
    KRAFLA_ASSIGN(std::span<const ComputationSignature> called, Signatures(i));
    operands_.clear();
    for (const Instruction* operand : i.operands()) {
      operands_.push_back(&operand->shape());
      // A get-tuple-element looks at one element only, however large the tuple.
      if (operand->shape().IsTuple() && i.opcode() != Opcode::kGetTupleElement)
        visits_ += CountLeaves(operand->shape());
    }
    if (visits_ > verifier::kMaxLeafVisits)
      return At(i, Status(StatusCode::kResourceExhausted,
                          Format("Up to here the module passes tuples of more than {} leaves in all around.",
                                 verifier::kMaxLeafVisits)));
    auto inferred = InferShape({.opcode = i.opcode(),
                                .operands = operands_,
                                .attributes = i.attributes(),
                                .called = called,
                                .declared = &i.shape(),
                                .replica_count = module_.replica_count,
                                .num_partitions = module_.num_partitions});
    if (!inferred) return At(i, std::move(inferred).error());
    if (!Shape::Compatible(*inferred, i.shape()))
      return At(i, Status(StatusCode::kInvalidArgument,
                          Format("It is declared as {}; from its operands, attributes and computations "
                                 "follows {}.",
                                 shape_rules::Brief(i.shape()), shape_rules::Brief(*inferred))));
    return verifier::CheckAsyncPair(i);
  }

 private:
  // The signatures of what `i` calls, side by side.
  Result<std::span<const ComputationSignature>> Signatures(const Instruction& i) {
    if (i.called().empty()) return std::span<const ComputationSignature>();
    int64_t leaves = 0;
    for (const Computation* c : i.called()) leaves += callees_.at(c).leaves;
    visits_ += leaves;
    if (i.called().size() == 1) return std::span(&callees_.at(i.called(0)).signature, 1);
    if (leaves > verifier::kMaxSignatureLeaves)
      return At(i, Status(StatusCode::kResourceExhausted,
                          Format("The computations it calls have {} parameters and results in all, past the limit "
                                 "of {}.",
                                 leaves, verifier::kMaxSignatureLeaves)));
    called_.clear();
    for (const Computation* c : i.called()) called_.push_back(callees_.at(c).signature);
    return std::span<const ComputationSignature>(called_);
  }

  const Module& module_;
  std::unordered_map<const Computation*, Callee> callees_;
  std::vector<const Shape*> operands_;
  std::vector<ComputationSignature> called_;
  int64_t visits_ = 0;
};

}  // namespace

Result<> Verify(Module& module, CallDepth depth) {
  KRAFLA_TRY(verifier::CheckStructure(module));
  for (const auto& c : module.computations()) KRAFLA_TRY(c->SortTopologically());
  KRAFLA_TRY(verifier::CheckCallGraph(
      module, depth == CallDepth::kOfInput ? verifier::kMaxCallDepth : 2 * verifier::kMaxCallDepth));
  InstructionChecker checker(module);
  for (const auto& c : module.computations())
    for (const auto& i : c->instructions()) KRAFLA_TRY(checker.Check(*i));
  return verifier::CheckModuleConfig(module);
}

}  // namespace krafla
