// SPDX-License-Identifier: Apache-2.0
// Conversions between f32 and narrow floats: by the integer arithmetic of numerics/formulas_formats.h, except where the
// device converts f16 with a rounding that it promises.
#include "ir/mini_float.h"
#include "krafla/status.h"
#include "numerics/formulas_formats.h"
#include "spirv_codegen/float_ops.h"
#include "spirv_codegen/scalar_ops.h"
#include "spirv_codegen/spirv_ops.h"

namespace krafla::spirv {
namespace {

bool NativeF16(const Builder& b) {
  const DeviceFeatures& f = b.m.profile().features;
  return f.float16 && f.int16;
}
// Whether the device's conversion from f32 to f16 is the faster way; and, of numbers that are none of f16, rounds.
bool NativeF16Encoding(const Builder& b, bool exact) {
  const DeviceProfile& p = b.m.profile();
  return p.features.float16 && !b.m.conversion().halves_by_bits &&
         (exact ? p.features.int16 : p.float16_controls.rounding_rte);
}

Value CodeOfHalf(Builder& b, Value half) {
  b.m.Require(spv::Capability::Int16);
  return b.UConvert(b.Bitcast(half, Kind::kU16), Kind::kU32);
}

Value DecodeByBits(Builder& b, ElementType narrow, Value code) {
  const SpirvOps o{b, code.width};
  return krafla::DecodeFloat(o, SpirvOps::I{code}, *FindMiniFloat(narrow)).v;
}

// The f32 of a narrow float: a half, or a code.
Value Widened(Builder& b, ElementType narrow, Value from) {
  const Value out = from.kind == Kind::kF16 ? b.FConvert(from, Kind::kF32) : DecodeFloat(b, narrow, from);
  b.m.SetNarrow(out, narrow, from);
  return out;
}

// Rounds an f64 to odd: to the f32 towards zero, with the last bit set if anything was lost. Rounding that to a
// narrower float gives the same as one rounding of the f64.
Value RoundToOdd(Builder& b, Value v) {
  const Value near = b.FConvert(v, Kind::kF32);
  const Value back = b.FConvert(near, Kind::kF64);
  const Value bits = b.Bitcast(near, Kind::kU32);
  const Value lost = b.LAnd(b.FCompare(FCmp::kNeUnordered, back, v), b.LNot(b.IsNan(v)));
  const Value zero = b.Const(Kind::kF64, 0);
  const Value positive = b.FCompare(FCmp::kGt, v, zero);
  const Value away = b.Select(positive, b.Select(b.FCompare(FCmp::kGt, back, v), b.U32(1), b.U32(0)),
                              b.Select(b.FCompare(FCmp::kLt, back, v), b.U32(1), b.U32(0)));
  const Value odd = b.Or(b.Sub(bits, away), b.U32(1));
  // Where the nearest value is a zero, its odd neighbour is the smallest subnormal of the same sign.
  return b.Bitcast(b.Select(lost, odd, bits), Kind::kF32);
}

}  // namespace

Value EncodeFloat(Builder& b, ElementType narrow, Value v, bool exact) {
  if (const Value from = exact ? b.m.NarrowOf(v, narrow) : Value{}) {
    if (from.kind != Kind::kF16) return from;
    if (b.m.profile().features.int16) return CodeOfHalf(b, from);
  }
  if (narrow == ElementType::kF16 && b.m.profile().features.int16 && NativeF16Encoding(b, exact)) {
    b.m.Require(spv::Capability::Float16);
    return CodeOfHalf(b, b.FConvert(v, Kind::kF16));
  }
  if (narrow == ElementType::kBF16 && exact) return b.Shr(b.Bitcast(v, Kind::kU32), b.U32(16));
  const SpirvOps o{b, v.width};
  return krafla::EncodeFloat(o, SpirvOps::F{v}, *FindMiniFloat(narrow)).v;
}

Value DecodeFloat(Builder& b, ElementType narrow, Value code) {
  if (narrow == ElementType::kBF16) return b.Bitcast(b.Shl(code, b.U32(16)), Kind::kF32);
  if (narrow == ElementType::kF16 && NativeF16(b)) {
    b.m.Require(spv::Capability::Float16);
    b.m.Require(spv::Capability::Int16);
    const Value out = b.FConvert(b.Bitcast(b.UConvert(code, Kind::kU16), Kind::kF16), Kind::kF32);
    b.m.SetNarrow(out, narrow, code);
    return out;
  }
  return DecodeByBits(b, narrow, code);
}

Value NotAWidenedHalf(Builder& b, Value v, Value other) {
  if (!b.m.conversion().halves_by_bits) return v;
  const Value code = b.m.NarrowOf(v, ElementType::kF16);
  // With a number that is no half it is compared as it is.
  if (!code || !(b.m.IsConstant(other) || b.m.NarrowOf(other, ElementType::kF16))) return v;
  return DecodeByBits(b, ElementType::kF16, code);
}

Value RoundFloat(Builder& b, ElementType narrow, Value v) {
  if (v.kind == Kind::kF64) v = RoundToOdd(b, v);
  if (narrow == ElementType::kF32) return v;
  if (narrow == ElementType::kF16 && NativeF16Encoding(b, /*exact=*/false)) {
    b.m.Require(spv::Capability::Float16);
    return Widened(b, narrow, b.FConvert(v, Kind::kF16));
  }
  return Widened(b, narrow, EncodeFloat(b, narrow, v, /*exact=*/false));
}

Value SettledRound(Builder& b, ElementType narrow, Value rounded, Value from) {
  const Value half = b.m.NarrowOf(rounded, narrow);
  // By its bits a number is rounded to this NaN already.
  return half.kind == Kind::kF16 ? Widened(b, narrow, SettledConversion(b, half, from)) : rounded;
}

Value ReducePrecision(Builder& b, Value v, int exponent_bits, int mantissa_bits) {
  if (v.kind == Kind::kF32) {
    const SpirvOps o{b, v.width};
    return krafla::ReducePrecision(o, SpirvOps::F{v}, exponent_bits, mantissa_bits).v;
  }
  // ReducePrecisionBits of numerics/formats.h on 64 bits.
  constexpr int kExponent = 11, kMantissa = 52;
  auto c = [&](uint64_t bits) { return b.Const(Kind::kU64, bits); };
  const uint64_t inf = ((uint64_t{1} << kExponent) - 1) << kMantissa;
  const Value bits = b.Bitcast(v, Kind::kU64);
  const Value sign = b.And(bits, c(uint64_t{1} << 63));
  const Value source = b.And(bits, c(~uint64_t{0} >> 1));
  Value magnitude = source;
  if (mantissa_bits < kMantissa) {
    const auto drop = static_cast<uint64_t>(kMantissa - mantissa_bits);
    const Value last = b.And(b.Shr(magnitude, c(drop)), c(1));
    magnitude = b.Add(magnitude, b.Add(c((uint64_t{1} << (drop - 1)) - 1), last));
    magnitude = b.Shl(b.Shr(magnitude, c(drop)), c(drop));
  }
  if (exponent_bits < kExponent) {
    const uint64_t source_bias = (uint64_t{1} << (kExponent - 1)) - 1;
    const uint64_t bias = (uint64_t{1} << (exponent_bits - 1)) - 1;
    const Value exponent = b.And(magnitude, c(inf));
    const Value over = b.Compare(Cmp::kUGt, exponent, c((source_bias + bias) << kMantissa));
    const Value under = b.Compare(Cmp::kULe, exponent, c((source_bias - bias) << kMantissa));
    magnitude = b.Select(over, c(inf), b.Select(under, c(0), magnitude));
  }
  const Value is_nan = b.Compare(Cmp::kUGt, source, c(inf));
  return b.Bitcast(b.Select(is_nan, bits, b.Or(sign, magnitude)), Kind::kF64);
}

}  // namespace krafla::spirv
