// SPDX-License-Identifier: Apache-2.0
#include "plan/value_ref.h"

#include "base/work.h"

namespace krafla::plan {

const Shape& LeafShape(const ValueRef& v) { return v.instruction->shape().leaf(v.leaf); }

ValueRef ResolveValue(ValueRef v, bool through_reshape) {
  while (true) {
    CountWork(1);
    const Instruction& i = *v.instruction;
    Opcode op = i.opcode();
    if (op == Opcode::kGetTupleElement) {
      const auto element = static_cast<std::size_t>(i.attr<TupleIndexAttributes>().index);
      v = {i.operand(0), v.leaf + static_cast<int>(i.operand(0)->shape().FirstLeaf(element))};
    } else if (op == Opcode::kTuple) {
      const std::size_t n = i.shape().ElementOfLeaf(v.leaf);
      v = {i.operand(n), v.leaf - static_cast<int>(i.shape().FirstLeaf(n))};
    } else if (op == Opcode::kOptimizationBarrier && i.operand_count() == 1) {
      v = {i.operand(0), v.leaf};
    } else if (IsOneOf(op, {Opcode::kCopy, Opcode::kDomain, Opcode::kAddDependency})) {
      v = {i.operand(0), v.leaf};
    } else if (op == Opcode::kReshape && through_reshape) {
      v = {i.operand(0), 0};
    } else {
      return v;
    }
  }
}

}  // namespace krafla::plan
