// SPDX-License-Identifier: Apache-2.0
// stochastic-convert: float to signed integer, rounded up with the probability that the fraction says. XLA:
// hlo_evaluator_typed_visitor.h HandleStochasticConvert.
#include <algorithm>
#include <cmath>

#include "plan/program_emitter.h"

namespace krafla::plan {

NodeId ProgramEmitter::EmitStochasticConvert(NodeId value, ElementType from, NodeId random, ElementType to) {
  const ElementType real = ComputeType(from);
  const int random_bits = 8 * StorageBytes(from), width = BitWidth(to);
  const ElementType random_type = random_bits == 64 ? ElementType::kU64 : ElementType::kU32;
  const ElementType count_type = width == 64 ? ElementType::kU64 : ElementType::kU32;
  auto hlo = [&](Opcode op, ElementType type, std::initializer_list<NodeId> n) { return b_.Hlo(op, type, n); };
  const NodeId magnitude = hlo(Opcode::kAbs, real, {value});
  const NodeId floor = hlo(Opcode::kFloor, real, {magnitude});
  // The fraction in units of the last place of the random number, which is exact; 0 where there is none.
  const NodeId rest = hlo(Opcode::kSubtract, real, {magnitude, floor});
  const NodeId scaled = hlo(Opcode::kMultiply, real, {rest, b_.ConstantFloat(real, std::ldexp(1.0, random_bits))});
  const NodeId up = b_.Compare(ComparisonDirection::kLt, random, b_.Convert(scaled, real, random_type));
  const NodeId bounded = hlo(Opcode::kMinimum, real, {floor, b_.ConstantFloat(real, std::ldexp(1.0, width - 1))});
  const NodeId count = hlo(Opcode::kAdd, count_type,
                           {b_.Convert(bounded, real, count_type), b_.Convert(up, ElementType::kPred, count_type)});
  const auto top = static_cast<int64_t>((uint64_t{1} << (width - 1)) - 1);
  const NodeId above = hlo(Opcode::kMinimum, count_type, {count, b_.ConstantInt(count_type, top)});
  const NodeId limit = b_.ConstantInt(count_type, static_cast<int64_t>(static_cast<uint64_t>(top) + 1));
  const NodeId below = hlo(Opcode::kNegate, count_type, {hlo(Opcode::kMinimum, count_type, {count, limit})});
  const NodeId zero = b_.ConstantFloat(real, 0);
  NodeId out = b_.Select(b_.Compare(ComparisonDirection::kGt, value, zero), above, below);
  out = b_.Select(b_.Compare(ComparisonDirection::kNe, value, value), b_.ConstantInt(count_type, 0), out);
  return b_.BitcastConvert(out, count_type, ComputeType(to));
}

}  // namespace krafla::plan
