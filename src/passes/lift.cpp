// SPDX-License-Identifier: Apache-2.0
#include "passes/lift.h"

#include <unordered_map>

namespace krafla {

namespace {

bool CanLift(const Instruction& i, const LiftedCallee& callee) {
  Opcode op = i.opcode();
  if (!i.shape().IsScalar()) return false;
  if (op == Opcode::kCall) return callee && callee(*i.called(0)) != nullptr;
  if (op == Opcode::kParameter || op == Opcode::kConstant) return true;
  bool passes_on = op == Opcode::kBroadcast || op == Opcode::kReshape || op == Opcode::kCopy;
  if (!passes_on && !IsElementwise(op)) return false;
  for (const Instruction* operand : i.operands())
    if (!operand->shape().IsScalar()) return false;
  return true;
}

}  // namespace

std::vector<Instruction*> LiftResultsInto(Rewriter& rewrite, const Computation& scalar_function,
                                          std::span<Instruction* const> arguments, std::span<const int64_t> dims,
                                          const LiftedCallee& callee) {
  const Instruction* root = scalar_function.root();
  const bool several = root->opcode() == Opcode::kTuple;
  for (const auto& i : scalar_function.instructions())
    if (!(several && i.get() == root) && !CanLift(*i, callee)) return {};
  std::unordered_map<const Instruction*, Instruction*> lifted;
  for (const auto& i : scalar_function.instructions()) {
    if (several && i.get() == root) continue;
    Instruction*& out = lifted[i.get()];
    Opcode op = i->opcode();
    if (op == Opcode::kParameter) {
      out = arguments[static_cast<std::size_t>(i->attr<ParameterAttributes>().number)];
    } else if (op == Opcode::kConstant) {
      out = rewrite.Broadcast(rewrite.Add(op, i->shape(), {}, i->attributes()), dims, {});
    } else if (op != Opcode::kCall && !IsElementwise(op)) {
      out = lifted.at(i->operand(0));
    } else {
      std::vector<Instruction*> operands;
      for (const Instruction* operand : i->operands()) operands.push_back(lifted.at(operand));
      std::vector<Computation*> called;
      if (op == Opcode::kCall) called.push_back(callee(*i->called(0)));
      out = rewrite.Add(op, ArrayShape(i->shape().element_type(), dims), std::move(operands), i->attributes(),
                        std::move(called));
    }
  }
  if (!several) return {lifted.at(root)};
  std::vector<Instruction*> out;
  for (const Instruction* element : root->operands()) out.push_back(lifted.at(element));
  return out;
}

Instruction* LiftInto(Rewriter& rewrite, const Computation& scalar_function, std::span<Instruction* const> arguments,
                      std::span<const int64_t> dims, const LiftedCallee& callee) {
  std::vector<Instruction*> out = LiftResultsInto(rewrite, scalar_function, arguments, dims, callee);
  return out.size() == 1 ? out[0] : nullptr;
}

std::optional<Opcode> BinaryOpcode(const Computation& computation) {
  const Instruction* root = computation.root();
  auto parameters = computation.parameters();
  if (parameters.size() != 2 || root->operand_count() != 2 || !IsElementwise(root->opcode())) return std::nullopt;
  bool straight = root->operand(0) == parameters[0] && root->operand(1) == parameters[1];
  bool crossed = root->operand(0) == parameters[1] && root->operand(1) == parameters[0];
  if (straight || (crossed && HasTrait(root->opcode(), op_trait::kCommutative))) return root->opcode();
  return std::nullopt;
}

}  // namespace krafla
