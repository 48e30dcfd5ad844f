// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/float_ops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "krafla/status.h"
#include "numerics/call_formula.h"
#include "numerics/formulas.h"
#include "spirv/unified1/GLSL.std.450.h"
#include "spirv_codegen/scalar_ops.h"
#include "spirv_codegen/spirv_ops.h"

namespace krafla::spirv {
namespace {

using F = SpirvOps::F;

// Max, Min, Sign and Tanh of numerics/formulas_basic.h, with the same answers on devices that take denormals for zeros
// in comparisons and arithmetic: numbers that compare equal are compared as integers too.
Value Extreme(Builder& b, const SpirvOps& o, F x, F y, bool smallest) {
  const Value bx = o.Bits(x).v, by = o.Bits(y).v;
  const Value greater = b.SMax(bx, by), less = b.SMin(bx, by);
  const Value both_negative = b.Compare(Cmp::kSLt, b.And(bx, by), b.U32(0));
  const Value tie = smallest ? b.Select(both_negative, greater, less) : b.Select(both_negative, less, greater);
  Value r = b.Select(smallest ? o.Lt(x, y).v : o.Gt(x, y).v, x.v, y.v);
  r = b.Select(o.Eq(x, y).v, o.FromBits({tie}).v, r);
  return b.Select(o.Ne(x, x).v, x.v, r);
}
Value ExtremeF32(Builder& b, const SpirvOps& o, F x, F y, bool smallest) {
  if (const Value v = ExtremeOfConstant(b, x.v, y.v, smallest)) return v;
  return Extreme(b, o, x, y, smallest);
}
Value SignF32(Builder& b, const SpirvOps& o, F x) {
  const Value bits = o.Bits(x).v;
  const Value magnitude = b.And(bits, b.U32(0x7fffffffu));
  // Neither zero nor NaN.
  const Value counts = b.Compare(Cmp::kULt, b.Sub(magnitude, b.U32(1)), b.U32(0x7f800000u));
  return b.Select(counts, o.FromBits({b.Or(b.And(bits, b.U32(0x80000000u)), b.U32(0x3f800000u))}).v, x.v);
}
Value TanhF32(Builder& b, const SpirvOps& o, F x) {
  const Value magnitude = b.And(o.Bits(x).v, b.U32(0x7fffffffu));
  return b.Select(b.Compare(Cmp::kULt, magnitude, b.U32(0x00800000u)), x.v, Tanh(o, x).v);
}

Value LowerF32(Builder& b, Opcode opcode, std::span<const Value> v) {
  if (b.m.profile().fast_functions) {
    if (const Value fast = LowerFastF32(b, opcode, v)) return fast;
  }
  int width = 1;
  for (Value x : v) width = std::max(width, static_cast<int>(x.width));
  const SpirvOps o{b, width};
  const F x{v[0]};
  const F y{v.size() > 1 ? v[1] : Value{}};
  if (opcode == Opcode::kAdd) return b.FAdd(v[0], v[1]);
  if (opcode == Opcode::kSubtract) return b.FSub(v[0], v[1]);
  if (opcode == Opcode::kMultiply) return b.FMul(v[0], v[1]);
  if (opcode == Opcode::kDivide) return DivideFloat(b, v[0], v[1]);
  if (opcode == Opcode::kMaximum) return ExtremeF32(b, o, x, y, false);
  if (opcode == Opcode::kMinimum) return ExtremeF32(b, o, x, y, true);
  if (opcode == Opcode::kClamp) return ExtremeF32(b, o, {ExtremeF32(b, o, x, y, false)}, {v[2]}, true);
  // Not the And of SpirvOps: LLVM 19 (lavapipe) takes the sign bit of -inf - x to be zero and removes the And.
  if (opcode == Opcode::kAbs) return b.Glsl(GLSLstd450FAbs, {v[0]}, Kind::kF32, width);
  if (opcode == Opcode::kNegate) return o.Neg(x).v;
  if (opcode == Opcode::kSign) return SignF32(b, o, x);
  if (opcode == Opcode::kFloor) return Floor(o, x).v;
  if (opcode == Opcode::kCeil) return Ceil(o, x).v;
  if (opcode == Opcode::kRoundNearestAfz) return RoundNearestAfz(o, x).v;
  if (opcode == Opcode::kRoundNearestEven) return RoundNearestEven(o, x).v;
  if (opcode == Opcode::kIsFinite) return IsFinite(o, x).v;
  if (opcode == Opcode::kRemainder) return Remainder(o, x, y).v;
  if (opcode == Opcode::kTanh) return TanhF32(b, o, x);
#define KRAFLA_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) \
  if (opcode == Opcode::Enum) return CallFormula<arity>([&](auto... at) { return Function(o, at...); }, x, y).v;
#include "ir/ops.def"
  return {};
}

}  // namespace

Value ExtremeOfConstant(Builder& b, Value x, Value y, bool smallest) {
  uint64_t bits;
  if (b.m.IsConstant(x)) std::swap(x, y);
  if (b.m.IsConstant(x) || !b.m.IsConstant(y, &bits)) return {};
  const bool is_double = y.kind == Kind::kF64;
  const double constant = is_double ? std::bit_cast<double>(bits) : std::bit_cast<float>(static_cast<uint32_t>(bits));
  const double least = is_double ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
  if (!(std::abs(constant) >= least || constant == 0)) return {};
  // Of zeros the one with a sign is the lesser: the constant, if it is as small, or as great, as a zero can be.
  const bool is_last = std::signbit(constant) == smallest;
  const FCmp order = smallest ? (is_last ? FCmp::kGe : FCmp::kGt) : (is_last ? FCmp::kLe : FCmp::kLt);
  return b.Select(b.FCompare(order, x, y), y, x);
}

Value LowerFloat(Builder& b, Opcode opcode, std::span<const Value> operands) {
  return operands[0].kind == Kind::kF64 ? LowerF64(b, opcode, operands) : LowerF32(b, opcode, operands);
}

Value IntToFloat(Builder& b, Value v, bool is_signed, Kind kind) {
  // Halves are exact, and their sum is rounded once.
  if (!is_signed && v.kind == Kind::kU32 && kind == Kind::kF32 && b.m.workarounds().u32_to_f32_in_halves) {
    const Value high = b.UToF(b.Shr(v, b.U32(16)), kind), low = b.UToF(b.And(v, b.U32(0xffff)), kind);
    return b.FAdd(b.FMul(high, b.F32(65536.0f)), low);
  }
  return is_signed ? b.SToF(v, kind) : b.UToF(v, kind);
}

namespace {

// The square root of a positive number; GLSL.std.450 defines it for no other.
Value NativeSqrt(Builder& b, Value x) { return b.Glsl(GLSLstd450Sqrt, {x}, Kind::kF32, x.width); }

}  // namespace

Value DivideFloat(Builder& b, Value x, Value y) {
  if (!b.m.workarounds().corrects_division || !b.strict) return b.FDiv(x, y);
  const SpirvOps o{b, std::max(x.width, y.width)};
  return DivideFrom(o, F{x}, F{y}, [&](F a, F c) { return F{b.FDiv(a.v, c.v)}; }).v;
}

Value SqrtFloat(Builder& b, Value x) {
  const SpirvOps o{b, x.width};
  if (b.m.workarounds().corrects_division) return SqrtFrom(o, F{x}, [&](F a) { return F{NativeSqrt(b, a.v)}; }).v;
  const Value zero = b.F32(0.0f);
  const Value positive = b.FCompare(FCmp::kGt, x, zero);
  const Value root = NativeSqrt(b, b.Select(positive, x, b.F32(1.0f)));
  const Value special = b.Select(b.FCompare(FCmp::kLt, x, zero), b.Const(Kind::kF32, 0x7fc00000u), x);
  return b.Select(positive, root, special);
}

}  // namespace krafla::spirv
