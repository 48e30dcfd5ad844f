// SPDX-License-Identifier: Apache-2.0
// Conversions between f32 and narrow floats: the algorithms of numerics/formats.h on shader values, by integer
// arithmetic except where the device converts f16 with a rounding that it promises.
#include "base/status.h"
#include "numerics/formats.h"
#include "spirv_codegen/float_ops.h"

namespace krafla::spirv {
namespace {

MiniFloat FormatOf(ElementType t) {
  switch (t) {
    case ElementType::kF16: return kF16Format;
    case ElementType::kBF16: return kBF16Format;
    case ElementType::kF8E5M2: return kF8E5M2Format;
    case ElementType::kF8E4M3FN: return kF8E4M3FNFormat;
    case ElementType::kF8E4M3B11FNUZ: return kF8E4M3B11FNUZFormat;
    case ElementType::kF8E5M2FNUZ: return kF8E5M2FNUZFormat;
    case ElementType::kF8E4M3FNUZ: return kF8E4M3FNUZFormat;
    case ElementType::kF8E4M3: return kF8E4M3Format;
    case ElementType::kF8E3M4: return kF8E3M4Format;
    case ElementType::kF4E2M1FN: return kF4E2M1FNFormat;
    case ElementType::kF8E8M0FNU: return kF8E8M0FNUFormat;
    case ElementType::kInvalid:
    case ElementType::kPred:
    case ElementType::kS1:
    case ElementType::kS2:
    case ElementType::kS4:
    case ElementType::kS8:
    case ElementType::kS16:
    case ElementType::kS32:
    case ElementType::kS64:
    case ElementType::kU1:
    case ElementType::kU2:
    case ElementType::kU4:
    case ElementType::kU8:
    case ElementType::kU16:
    case ElementType::kU32:
    case ElementType::kU64:
    case ElementType::kF32:
    case ElementType::kF64:
    case ElementType::kTuple:
    case ElementType::kOpaque:
    case ElementType::kToken:
    case ElementType::kC64:
    case ElementType::kC128: break;
  }
  KRAFLA_UNREACHABLE();
}

bool NativeF16(const Builder& b) {
  const DeviceFeatures& f = b.m.profile().features;
  return f.float16 && f.int16;
}
bool NativeF16Rounding(const Builder& b) {
  return b.m.profile().features.float16 && b.m.profile().float16_controls.rounding_rte;
}

// (significand + half - 1 + last kept bit) >> shift: to nearest, ties to even.
Value RoundShift(Builder& b, Value significand, Value shift) {
  const Value last = b.And(b.Shr(significand, shift), b.U32(1));
  const Value half = b.Shl(b.U32(1), b.Sub(shift, b.U32(1)));
  return b.Shr(b.Add(b.Add(significand, b.Sub(half, b.U32(1))), last), shift);
}

Value EncodePowerOfTwo(Builder& b, Value bits, const MiniFloat& f) {
  const Value magnitude = b.And(bits, b.U32(0x7fffffffu));
  const Value fraction = b.And(bits, b.U32(0x7fffffu));
  const Value raw = b.Shr(magnitude, b.U32(23));
  const Value normal = b.Add(raw, b.And(b.Shr(fraction, b.U32(22)), b.U32(1)));
  // Subnormals of f32: 2^-127 has code 0, everything from 1.5 * 2^-127 rounds up to code 1.
  const Value low = b.Select(b.Compare(Cmp::kUGe, fraction, b.U32(0x400000u)),
                             b.And(b.Shr(fraction, b.U32(21)), b.U32(1)), b.U32(0));
  const Value code = b.Select(b.Compare(Cmp::kEq, raw, b.U32(0)), low, normal);
  Value bad = b.LOr(b.Compare(Cmp::kEq, magnitude, b.U32(0)), b.Compare(Cmp::kUGe, bits, b.U32(0x7f800000u)));
  bad = b.LOr(bad, b.Compare(Cmp::kUGt, code, b.U32(254)));
  return b.Select(bad, b.U32(f.nan()), code);
}

Value EncodeBf16(Builder& b, Value bits, bool exact) {
  if (exact) return b.Shr(bits, b.U32(16));
  const Value last = b.And(b.Shr(bits, b.U32(16)), b.U32(1));
  const Value rounded = b.Shr(b.Add(b.Add(bits, b.U32(0x7fff)), last), b.U32(16));
  const Value is_nan = b.Compare(Cmp::kUGt, b.And(bits, b.U32(0x7fffffffu)), b.U32(0x7f800000u));
  const Value nan = b.Or(b.And(b.Shr(bits, b.U32(16)), b.U32(0x8000)), b.U32(0x7fc0));
  return b.Select(is_nan, nan, rounded);
}

Value EncodeGeneric(Builder& b, Value bits, const MiniFloat& f) {
  const auto mantissa = static_cast<uint32_t>(f.mantissa_bits);
  const Value magnitude = b.And(bits, b.U32(0x7fffffffu));
  const Value sign = b.Select(b.Compare(Cmp::kNe, b.And(bits, b.U32(0x80000000u)), b.U32(0)), b.U32(f.sign_mask()),
                              b.U32(0));
  const Value exponent = b.Shr(magnitude, b.U32(23));
  const uint32_t rebias = static_cast<uint32_t>(127 - f.bias);
  // Normal in the target: round the f32 pattern itself; a carry moves into the exponent.
  const Value normal = b.Sub(RoundShift(b, magnitude, b.U32(23 - mantissa)), b.U32(rebias << mantissa));
  // Below: the significand moves right until the exponent is the target's smallest.
  const Value significand = b.Or(b.And(magnitude, b.U32(0x7fffffu)), b.U32(0x800000u));
  const Value shift = b.Min(b.Sub(b.U32(23 - mantissa + rebias + 1), exponent), b.U32(25));
  const Value is_normal = b.Compare(Cmp::kUGt, exponent, b.U32(rebias));
  const Value small = RoundShift(b, significand, b.Select(is_normal, b.U32(1), shift));
  Value code = b.Select(is_normal, normal, small);
  const Value over = b.Compare(Cmp::kUGt, code, b.U32(f.max_finite()));
  const Value is_nan = b.Compare(Cmp::kUGt, magnitude, b.U32(0x7f800000u));
  if (f.specials == FloatSpecials::kNegZeroNan) {
    const Value signed_code = b.Select(b.Compare(Cmp::kEq, code, b.U32(0)), b.U32(0), b.Or(code, sign));
    return b.Select(b.LOr(over, is_nan), b.U32(f.nan()), signed_code);
  }
  code = b.Or(b.Select(over, b.U32(f.overflow()), code), sign);
  return b.Select(is_nan, b.Xor(b.U32(f.nan()), sign), code);
}

Value DecodeGeneric(Builder& b, Value code, const MiniFloat& f) {
  const auto mantissa = static_cast<uint32_t>(f.mantissa_bits);
  const Value nan = b.U32(0x7fc00000u);
  const Value magnitude = b.And(code, b.U32(f.magnitude_mask()));
  if (f.specials == FloatSpecials::kPowersOfTwo) {
    const Value bits = b.Select(b.Compare(Cmp::kEq, magnitude, b.U32(0)), b.U32(0x00400000u), b.Shl(magnitude, b.U32(23)));
    return b.Bitcast(b.Select(b.Compare(Cmp::kEq, magnitude, b.U32(f.nan())), nan, bits), Kind::kF32);
  }
  const Value sign = b.Select(b.Compare(Cmp::kNe, b.And(code, b.U32(f.sign_mask())), b.U32(0)), b.U32(0x80000000u),
                              b.U32(0));
  const auto rebias = static_cast<uint32_t>(127 - f.bias);
  const Value shifted = b.Shl(magnitude, b.U32(23 - mantissa));
  const Value normal = b.Add(shifted, b.U32(rebias << 23));
  // A subnormal is (1 + fraction) * 2^min less 2^min: an exact subtraction of normal numbers.
  const Value one = b.U32((rebias + 1) << 23);
  const Value lifted = b.Add(shifted, one);
  const Value small = b.Bitcast(b.FSub(b.Bitcast(lifted, Kind::kF32), b.Bitcast(one, Kind::kF32)), Kind::kU32);
  Value bits = b.Select(b.Compare(Cmp::kULt, magnitude, b.U32(1u << mantissa)), small, normal);
  if (f.has_inf()) {
    const Value is_inf = b.Compare(Cmp::kEq, magnitude, b.U32(f.overflow()));
    bits = b.Select(is_inf, b.U32(0x7f800000u), bits);
    bits = b.Select(b.Compare(Cmp::kUGt, magnitude, b.U32(f.overflow())), nan, bits);
  } else if (f.specials == FloatSpecials::kNanAllOnes) {
    bits = b.Select(b.Compare(Cmp::kEq, magnitude, b.U32(f.magnitude_mask())), nan, bits);
  }
  bits = b.Or(bits, sign);
  if (f.specials == FloatSpecials::kNegZeroNan) {
    bits = b.Select(b.Compare(Cmp::kEq, b.And(code, b.U32(f.sign_mask() | f.magnitude_mask())), b.U32(f.nan())), nan,
                    bits);
  }
  return b.Bitcast(bits, Kind::kF32);
}

// f64 -> f32 so that a second rounding to a narrower float gives the same as one: towards zero, with the last bit set
// if anything was lost.
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
  // A nearest value of zero keeps its sign; its odd neighbour is the smallest subnormal.
  return b.Bitcast(b.Select(lost, odd, bits), Kind::kF32);
}

}  // namespace

Value EncodeFloat(Builder& b, ElementType narrow, Value v, bool exact) {
  const MiniFloat format = FormatOf(narrow);
  if (narrow == ElementType::kF16 && NativeF16(b) && (exact || NativeF16Rounding(b))) {
    b.m.Require(spv::Capability::Float16);
    b.m.Require(spv::Capability::Int16);
    return b.UConvert(b.Bitcast(b.FConvert(v, Kind::kF16), Kind::kU16), Kind::kU32);
  }
  const Value bits = b.Bitcast(v, Kind::kU32);
  if (narrow == ElementType::kBF16) return EncodeBf16(b, bits, exact);
  if (narrow == ElementType::kF8E8M0FNU) return EncodePowerOfTwo(b, bits, format);
  return EncodeGeneric(b, bits, format);
}

Value DecodeFloat(Builder& b, ElementType narrow, Value code) {
  if (narrow == ElementType::kBF16) return b.Bitcast(b.Shl(code, b.U32(16)), Kind::kF32);
  if (narrow == ElementType::kF16 && NativeF16(b)) {
    b.m.Require(spv::Capability::Float16);
    b.m.Require(spv::Capability::Int16);
    return b.FConvert(b.Bitcast(b.UConvert(code, Kind::kU16), Kind::kF16), Kind::kF32);
  }
  return DecodeGeneric(b, code, FormatOf(narrow));
}

Value RoundFloat(Builder& b, ElementType narrow, Value v) {
  if (v.kind == Kind::kF64) v = RoundToOdd(b, v);
  if (narrow == ElementType::kF16 && NativeF16Rounding(b)) {
    b.m.Require(spv::Capability::Float16);
    return b.FConvert(b.FConvert(v, Kind::kF16), Kind::kF32);
  }
  if (narrow == ElementType::kF32) return v;
  return DecodeFloat(b, narrow, EncodeFloat(b, narrow, v, /*exact=*/false));
}

Value ReducePrecision(Builder& b, Value v, int exponent_bits, int mantissa_bits) {
  const bool wide = v.kind == Kind::kF64;
  const Kind kind = wide ? Kind::kU64 : Kind::kU32;
  const int source_exponent = wide ? 11 : 8, source_mantissa = wide ? 52 : 23;
  auto c = [&](uint64_t bits) { return b.Const(kind, bits); };
  const uint64_t sign_mask = uint64_t{1} << (source_exponent + source_mantissa);
  const uint64_t inf = ((uint64_t{1} << source_exponent) - 1) << source_mantissa;
  const Value bits = b.Bitcast(v, kind);
  const Value sign = b.And(bits, c(sign_mask));
  const Value source = b.And(bits, c(sign_mask - 1));
  Value magnitude = source;
  if (mantissa_bits < source_mantissa) {
    const auto drop = static_cast<uint64_t>(source_mantissa - mantissa_bits);
    const Value last = b.And(b.Shr(magnitude, c(drop)), c(1));
    magnitude = b.Add(magnitude, b.Add(c((uint64_t{1} << (drop - 1)) - 1), last));
    magnitude = b.Shl(b.Shr(magnitude, c(drop)), c(drop));
  }
  if (exponent_bits < source_exponent) {
    const uint64_t source_bias = (uint64_t{1} << (source_exponent - 1)) - 1;
    const uint64_t bias = (uint64_t{1} << (exponent_bits - 1)) - 1;
    const Value exponent = b.And(magnitude, c(inf));
    const Value over = b.Compare(Cmp::kUGt, exponent, c((source_bias + bias) << source_mantissa));
    const Value under = b.Compare(Cmp::kULe, exponent, c((source_bias - bias) << source_mantissa));
    magnitude = b.Select(over, c(inf), b.Select(under, c(0), magnitude));
  }
  const Value is_nan = b.Compare(Cmp::kUGt, source, c(inf));
  return b.Bitcast(b.Select(is_nan, bits, b.Or(sign, magnitude)), v.kind);
}

}  // namespace krafla::spirv
