// SPDX-License-Identifier: Apache-2.0
#include "plan/element_cost.h"

#include "plan/element_program.h"

namespace krafla::plan {

double ElementCost(Opcode op, ElementType type) {
  if (HasTrait(op, op_trait::kDataMovement))
    return op == Opcode::kGather ? 4 : op == Opcode::kDynamicUpdateSlice ? 4 : 0;
  if (IsOneOf(op, {Opcode::kReal, Opcode::kImag, Opcode::kComplex, Opcode::kBitcastConvert})) return 0;
  // Formulas of complex numbers are made of several real ones.
  if (IsComplex(type) && GetOpInfo(op).lowering == Lowering::kFormula) return 200;
  if (IsComplex(type) && op == Opcode::kDivide) return 30;
  if (op == Opcode::kDivide) return IsIntegral(type) ? 8 : 5;
  if (op == Opcode::kRemainder) return IsIntegral(type) ? 8 : 40;
#define KRAFLA_FORMULA(Enum, Function, cost, ...) \
  if (op == Opcode::Enum) return cost;
#include "ir/ops.def"
  return 1;
}

double ProgramCost(const ElementProgram& program) {
  double cost = 0;
  for (const Node& n : program.nodes)
    if (n.op == NodeOp::kHlo) cost += ElementCost(n.opcode, n.type);
    else if (n.op == NodeOp::kLoad) cost += 1;
  return cost;
}

}  // namespace krafla::plan
