// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/float_to_int.h"

#include <bit>
#include <cmath>

#include "spirv/unified1/GLSL.std.450.h"
#include "spirv_codegen/scalar_ops.h"

namespace krafla::spirv {
namespace {

constexpr double kSmall = 4194304;  // 2^22

// A whole number of at most 2^22 from its sum with 1.5 x 2^23, whose bits are integers in a row around it.
Value WholeByAddition(Builder& b, Value whole) {
  constexpr float kCentre = 12582912.0f;
  return b.Sub(b.Bitcast(b.FAdd(whole, b.F32(kCentre)), Kind::kU32), b.U32(std::bit_cast<uint32_t>(kCentre)));
}

Value Truncated(Builder& b, Value v) { return b.Glsl(GLSLstd450Trunc, {v}, v.kind, v.width); }

bool IsConstantWithin(const plan::Node& n, double least, double most) {
  if (n.op != plan::NodeOp::kConstant) return false;
  const double x = n.type == ElementType::kF64
                       ? std::bit_cast<double>(n.bits)
                       : static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(n.bits)));
  return x >= least && x <= most;
}

// Whether the node is a number with another one in the place of NaN: select(x != x, constant, x).
bool IsNumber(const plan::ElementProgram& program, plan::NodeId id) {
  const auto node = [&](plan::NodeId n) -> const plan::Node& { return program.nodes[static_cast<std::size_t>(n)]; };
  const plan::Node& n = node(id);
  if (n.op != plan::NodeOp::kHlo || n.opcode != Opcode::kSelect) return false;
  const plan::Node& condition = node(n.operands[0]);
  return condition.op == plan::NodeOp::kCompare && condition.direction == ComparisonDirection::kNe &&
         !condition.total_order && condition.operands[0] == n.operands[2] && condition.operands[1] == n.operands[2] &&
         IsConstantWithin(node(n.operands[1]), -HUGE_VAL, HUGE_VAL);
}

// Whether the whole part of `v` is not zero; not so for NaN. Conversions have 0 in the place of the others: drivers
// take an integer that is made a float again for what truncation gives, which would be -0 for them (Mesa).
Value HasWholePart(Builder& b, Value v, bool is_signed) {
  return b.FCompare(FCmp::kGe, is_signed ? b.Glsl(GLSLstd450FAbs, {v}, v.kind, v.width) : v, b.Float(v.kind, 1));
}

}  // namespace

bool IsSmallNumber(const plan::ElementProgram& program, plan::NodeId id, ElementType to) {
  const auto node = [&](plan::NodeId n) -> const plan::Node& { return program.nodes[static_cast<std::size_t>(n)]; };
  const plan::Node& n = node(id);
  const double least = IsSigned(to) ? -kSmall : 0;
  const auto is_bound = [&](plan::NodeId bound) { return IsConstantWithin(node(bound), least, kSmall); };
  return n.op == plan::NodeOp::kHlo && n.opcode == Opcode::kClamp && is_bound(n.operands[0]) &&
         is_bound(n.operands[2]) && IsNumber(program, n.operands[1]);
}

Value TruncateByAddition(Builder& b, Value v) {
  // By halves of 16 bits, of which the lower one is not negative: both are exact.
  const Value whole = Truncated(b, v);
  const Value high = b.Glsl(GLSLstd450Floor, {b.FMul(whole, b.F32(0x1p-16f))}, Kind::kF32, v.width);
  const Value low = b.FSub(whole, b.FMul(high, b.F32(65536.0f)));
  return b.Add(b.Shl(WholeByAddition(b, high), b.U32(16)), WholeByAddition(b, low));
}

Value SmallFloatToInt(Builder& b, Value v, ElementType to) {
  const Kind kind = ComputeKind(to);
  if (b.m.conversion().integers_by_addition && v.kind == Kind::kF32 && kind == Kind::kU32)
    return WholeByAddition(b, Truncated(b, v));
  const Value whole = b.Select(HasWholePart(b, v, IsSigned(to)), v, b.Float(v.kind, 0));
  return IsSigned(to) ? b.FToS(whole, kind) : b.FToU(whole, kind);
}

// OpConvertFTo* is undefined out of range, so the operand is brought into range first.
Value FloatToInt(Builder& b, Value v, ElementType to) {
  const Kind kind = ComputeKind(to);
  const int bits = KindBits(kind);
  const bool is_signed = IsSigned(to);
  const auto constant = [&](double x) { return b.Float(v.kind, x); };
  const double limit = std::ldexp(1.0, is_signed ? bits - 1 : bits);  // the first value too large
  const double lowest = is_signed ? -limit : 0.0;
  const Value too_big = b.FCompare(FCmp::kGe, v, constant(limit));
  Value in_range = b.LAnd(HasWholePart(b, v, is_signed), b.LNot(too_big));
  if (is_signed) in_range = b.LAnd(in_range, b.FCompare(FCmp::kGe, v, constant(lowest)));
  const Value safe = b.Select(in_range, v, constant(0));
  const Value converted = is_signed ? b.FToS(safe, kind) : b.FToU(safe, kind);
  const uint64_t lowest_bits = is_signed ? uint64_t{1} << (bits - 1) : 0;
  Value out = b.Select(too_big, b.Const(kind, is_signed ? lowest_bits - 1 : ~uint64_t{0}), converted);
  if (is_signed) out = b.Select(b.FCompare(FCmp::kLt, v, constant(lowest)), b.Const(kind, lowest_bits), out);
  return out;
}

}  // namespace krafla::spirv
