// SPDX-License-Identifier: Apache-2.0
// HLO ops on f64: direct instructions where Vulkan's promise is enough, the formulas of numerics otherwise.
#include <bit>

#include "numerics/call_formula.h"
#include "numerics/f64_formulas.h"
#include "spirv_codegen/f64_ops.h"
#include "spirv_codegen/scalar_ops.h"

namespace krafla::spirv {
namespace {

using F = SpirvOps::F;

Value Formula(Builder& b, Opcode opcode, Value a, Value c) {
  const SpirvF64Ops o(b);
  const F x{a}, y{c};
  if (opcode == Opcode::kRemainder) return f64::Remainder(o, x, y).v;
#define KRAFLA_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) \
  if (opcode == Opcode::Enum) return CallFormula<arity>([&](auto... at) { return f64::Function(o, at...); }, x, y).v;
#include "ir/ops.def"
  return {};
}

}  // namespace

Value LowerF64(Builder& b, Opcode opcode, std::span<const Value> v) {
  const Value x = v[0];
  const Value zero = b.Const(Kind::kF64, 0);
  auto constant = [&](double d) { return b.Float(Kind::kF64, d); };
  auto rounded = [&](Value result) {
    const Value magnitude = b.Glsl(GLSLstd450FAbs, {x}, Kind::kF64, x.width);
    // GLSL.std.450 promises nothing for -0 and NaN, so zeros and large numbers are left as they are. The zero that a
    // number in (-1, 0) rounds to must be -0, which a zero times the number is.
    const Value signed_result = b.Select(b.FCompare(FCmp::kEq, result, zero), b.FMul(x, zero), result);
    return b.Select(b.FCompare(FCmp::kLt, magnitude, constant(0x1p52)), signed_result, x);
  };
  if (opcode == Opcode::kAdd) return b.FAdd(x, v[1]);
  if (opcode == Opcode::kSubtract) return b.FSub(x, v[1]);
  if (opcode == Opcode::kMultiply) return b.FMul(x, v[1]);
  if (opcode == Opcode::kDivide) return b.FDiv(x, v[1]);
  if (opcode == Opcode::kMaximum) return FloatMax(b, x, v[1]);
  if (opcode == Opcode::kMinimum) return FloatMin(b, x, v[1]);
  if (opcode == Opcode::kClamp) return FloatMin(b, FloatMax(b, x, v[1]), v[2]);
  if (opcode == Opcode::kAbs) return b.Glsl(GLSLstd450FAbs, {x}, Kind::kF64, x.width);
  if (opcode == Opcode::kNegate) return b.FNeg(x);
  if (opcode == Opcode::kSign) {
    // Like SignF32 right for denormals too, on devices whose comparisons take them for zeros.
    const auto bits_of = [&](uint64_t bits) { return b.Const(Kind::kU64, bits); };
    const Value bits = b.Bitcast(x, Kind::kU64);
    const Value magnitude = b.And(bits, bits_of(0x7fffffffffffffffu));
    const Value counts = b.Compare(Cmp::kULt, b.Sub(magnitude, bits_of(1)), bits_of(0x7ff0000000000000u));
    const Value one = b.Or(b.And(bits, bits_of(uint64_t{1} << 63)), bits_of(0x3ff0000000000000u));
    return b.Select(counts, b.Bitcast(one, Kind::kF64), x);
  }
  // Other roundings are made of these: without AVX-512 llvmpipe's RoundEven and Trunc leave doubles from 2^24 on as
  // they are (Mesa 26.1, found by comparing bits).
  auto floor = [&](Value of) { return b.Glsl(GLSLstd450Floor, {of}, Kind::kF64, of.width); };
  auto ceil = [&](Value of) { return b.Glsl(GLSLstd450Ceil, {of}, Kind::kF64, of.width); };
  if (opcode == Opcode::kFloor) return rounded(floor(x));
  if (opcode == Opcode::kCeil) return rounded(ceil(x));
  if (opcode == Opcode::kRoundNearestEven) {
    const Value below = floor(x), rest = b.FSub(x, below), half = constant(0.5);
    const Value is_odd = b.FCompare(FCmp::kNeUnordered, b.FMul(floor(b.FMul(below, half)), constant(2.0)), below);
    const Value goes_up = b.LOr(b.FCompare(FCmp::kGt, rest, half), b.LAnd(b.FCompare(FCmp::kEq, rest, half), is_odd));
    return rounded(b.Select(goes_up, b.FAdd(below, constant(1.0)), below));
  }
  if (opcode == Opcode::kRoundNearestAfz) {
    const Value whole = rounded(b.Select(b.FCompare(FCmp::kLt, x, zero), ceil(x), floor(x)));
    const Value rest = b.Glsl(GLSLstd450FAbs, {b.FSub(x, whole)}, Kind::kF64, x.width);
    const Value one = b.Select(b.FCompare(FCmp::kLt, x, zero), constant(-1.0), constant(1.0));
    return b.Select(b.FCompare(FCmp::kGe, rest, constant(0.5)), b.FAdd(whole, one), whole);
  }
  if (opcode == Opcode::kIsFinite) {
    const Value difference = b.FSub(x, x);  // NaN for infinities and NaN
    return b.FCompare(FCmp::kEq, difference, zero);
  }
  if (opcode == Opcode::kSqrt) return b.Glsl(GLSLstd450Sqrt, {x}, Kind::kF64, x.width);
  // One lane at a time, because vectors of doubles and of their words have different numbers of lanes.
  Values lanes;
  const int width = v.size() > 1 ? std::max(x.width, v[1].width) : x.width;
  for (int i = 0; i < width; ++i) {
    lanes.push_back(Formula(b, opcode, b.Extract(x, i), v.size() > 1 ? b.Extract(v[1], i) : Value{}));
    if (!lanes.back()) return {};
  }
  return b.Composite(lanes);
}

}  // namespace krafla::spirv
