// SPDX-License-Identifier: Apache-2.0
#include "plan/element_cost.h"

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

}  // namespace krafla::plan
