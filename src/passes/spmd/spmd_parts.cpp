// SPDX-License-Identifier: Apache-2.0
#include "passes/spmd/spmd_parts.h"

#include <algorithm>

#include "ir/builder.h"
#include "passes/lift.h"

namespace krafla::spmd {
namespace {

bool IsZeroConstant(const Instruction& i) {
  return i.IsConstant() && i.shape().IsScalar() && i.literal() == ScalarLiteral(i.shape().element_type(), 0);
}

// What XLA's partitioner takes unreduced values through, as far as it is linear to the last bit of each part.
bool IsLinear(const Instruction& i, const std::vector<bool>& parts) {
  const Opcode op = i.opcode();
  const auto count = std::ranges::count(parts, true);
  const bool all = count == std::ssize(parts), first = count == 1 && parts[0];
  const ElementType type = i.shape().element_type();
  if (op == Opcode::kNegate || op == Opcode::kCopy || op == Opcode::kTranspose || op == Opcode::kReshape ||
      op == Opcode::kSlice || op == Opcode::kReverse || op == Opcode::kBroadcast)
    return all;
  if (op == Opcode::kConvert) return IsFloat(type) && IsFloat(i.operand(0)->shape().element_type());
  if (op == Opcode::kAdd || op == Opcode::kSubtract || op == Opcode::kConcatenate) return all;
  if (op == Opcode::kMultiply || op == Opcode::kDot) return count == 1;
  if (op == Opcode::kDivide) return first && (IsFloat(type) || IsComplex(type));
  if (op == Opcode::kSelect) return !parts[0] && parts[1] && parts[2];
  if (op == Opcode::kDynamicSlice || op == Opcode::kGather) return first;
  if (op == Opcode::kDynamicUpdateSlice) return count == 2 && parts[0] && parts[1];
  if (op == Opcode::kPad) return first && IsZeroConstant(*i.operand(1));
  if (op == Opcode::kReduce)
    return first && parts.size() == 2 && AddsTwo(*i.called(0)) && IsZeroConstant(*i.operand(1));
  return false;
}

}  // namespace

std::vector<Split> PartsThrough(const Instruction& instruction, std::span<const Value> operands) {
  if (!instruction.shape().IsArray() || instruction.shape().IsDynamic() ||
      !IsNumber(instruction.shape().element_type()))
    return {};
  std::vector<bool> parts;
  const std::vector<Split>* along = nullptr;
  for (const Value& v : operands) {
    if (!v.IsArray() || v.local->shape().IsDynamic()) return {};
    parts.push_back(!v.unreduced.empty());
    if (!parts.back()) continue;
    if (along != nullptr && !(*along == v.unreduced)) return {};
    along = &v.unreduced;
  }
  if (along == nullptr || !IsLinear(instruction, parts)) return {};
  return *along;
}

bool AddsTwo(const Computation& computation) { return BinaryOpcode(computation) == Opcode::kAdd; }

bool IsNumber(ElementType type) {
  return IsFloat(type) || IsComplex(type) || (IsIntegral(type) && type != ElementType::kPred);
}

}  // namespace krafla::spmd
