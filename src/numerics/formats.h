// SPDX-License-Identifier: Apache-2.0
// Number formats narrower than f32: conversions by integer arithmetic with one correct rounding (to nearest, ties to
// even). The rules for infinities, NaN, overflow and zero are those of XLA and ml_dtypes (float8.h, mxfloat.h).
//
//   uint16_t FloatToF16(float)      uint16_t DoubleToF16(double)      float F16ToFloat(uint16_t)
//   and the same for BF16 F8E5M2 F8E4M3FN F8E4M3 F8E3M4 F8E4M3B11FNUZ F8E5M2FNUZ F8E4M3FNUZ F4E2M1FN F8E8M0FNU.
//
// A code is the bit pattern in the low bits of an unsigned integer; f4e2m1fn codes are 0..15.
// formulas_formats.h has the same algorithms for the GPU.
#pragma once

#include <bit>
#include <cstdint>

namespace krafla {

// What stands at the top of a format's range, and so what an overflow and a NaN become.
enum class FloatSpecials : uint8_t {
  kInfAndNan,    // IEEE: overflow -> inf
  kNanAllOnes,   // "fn": no inf, NaN is all ones; inf and overflow -> NaN
  kNegZeroNan,   // "fnuz": no inf, no -0, NaN is the pattern of -0; inf and overflow -> NaN
  kFinite,       // neither: inf and overflow -> the largest value; NaN -> the zero of the other sign
  kPowersOfTwo,  // e8m0: no sign, no zero, NaN is all ones; zero, negatives, overflow -> NaN; ties round up
};

struct MiniFloat {
  int exponent_bits = 0;
  int mantissa_bits = 0;
  int bias = 0;
  FloatSpecials specials = FloatSpecials::kInfAndNan;

  constexpr bool has_inf() const { return specials == FloatSpecials::kInfAndNan; }
  constexpr bool has_nan() const { return specials != FloatSpecials::kFinite; }
  constexpr bool has_sign() const { return specials != FloatSpecials::kPowersOfTwo; }
  // All below leave the sign out.
  constexpr int magnitude_bits() const { return exponent_bits + mantissa_bits; }
  constexpr uint32_t sign_mask() const { return has_sign() ? 1u << magnitude_bits() : 0u; }
  constexpr uint32_t magnitude_mask() const { return (1u << magnitude_bits()) - 1; }
  constexpr uint32_t exponent_mask() const { return magnitude_mask() & ~((1u << mantissa_bits) - 1); }
  constexpr uint32_t max_finite() const {
    if (specials == FloatSpecials::kInfAndNan) return exponent_mask() - 1;
    if (specials == FloatSpecials::kNanAllOnes || specials == FloatSpecials::kPowersOfTwo) return magnitude_mask() - 1;
    return magnitude_mask();
  }
  constexpr uint32_t overflow() const {
    if (specials == FloatSpecials::kInfAndNan) return exponent_mask();
    if (specials == FloatSpecials::kNegZeroNan) return sign_mask();
    return magnitude_mask();
  }
  constexpr uint32_t nan() const {
    if (specials == FloatSpecials::kInfAndNan) return exponent_mask() | 1u << (mantissa_bits - 1);
    if (specials == FloatSpecials::kNegZeroNan || specials == FloatSpecials::kFinite) return sign_mask();
    return magnitude_mask();
  }
  friend constexpr bool operator==(const MiniFloat&, const MiniFloat&) = default;
};

inline constexpr MiniFloat kF16Format{5, 10, 15, FloatSpecials::kInfAndNan};
inline constexpr MiniFloat kBF16Format{8, 7, 127, FloatSpecials::kInfAndNan};
inline constexpr MiniFloat kF8E5M2Format{5, 2, 15, FloatSpecials::kInfAndNan};
inline constexpr MiniFloat kF8E4M3FNFormat{4, 3, 7, FloatSpecials::kNanAllOnes};
inline constexpr MiniFloat kF8E4M3Format{4, 3, 7, FloatSpecials::kInfAndNan};
inline constexpr MiniFloat kF8E3M4Format{3, 4, 3, FloatSpecials::kInfAndNan};
inline constexpr MiniFloat kF8E4M3B11FNUZFormat{4, 3, 11, FloatSpecials::kNegZeroNan};
inline constexpr MiniFloat kF8E5M2FNUZFormat{5, 2, 16, FloatSpecials::kNegZeroNan};
inline constexpr MiniFloat kF8E4M3FNUZFormat{4, 3, 8, FloatSpecials::kNegZeroNan};
inline constexpr MiniFloat kF4E2M1FNFormat{2, 1, 1, FloatSpecials::kFinite};
inline constexpr MiniFloat kF8E8M0FNUFormat{8, 0, 127, FloatSpecials::kPowersOfTwo};

namespace formats_internal {

// The code of the IEEE number with bit pattern `bits`, kMantissa mantissa bits and exponent bias kBias.
template <class U, int kMantissa, int kBias>
constexpr uint32_t EncodeBits(U bits, const MiniFloat& f) {
  constexpr int kWidth = static_cast<int>(sizeof(U)) * 8;
  constexpr U kInf = static_cast<U>(2 * kBias + 1) << kMantissa;
  const bool negative = (bits >> (kWidth - 1)) != 0;
  const U magnitude = bits & (~U{0} >> 1);
  const int raw_exponent = static_cast<int>(magnitude >> kMantissa);
  const U fraction = magnitude & ((U{1} << kMantissa) - 1);

  if (f.specials == FloatSpecials::kPowersOfTwo) {
    if (magnitude == 0 || magnitude > kInf || negative) return f.nan();
    // 2^-127, the smallest value, is subnormal in f32 and normal in f64.
    if (raw_exponent == 0) return kBias == 127 && fraction >= U{3} << (kMantissa - 2) ? 1u : 0u;
    const int exponent = raw_exponent - kBias + f.bias;
    if (exponent < 0) return 0u;
    const int code = exponent + static_cast<int>(fraction >> (kMantissa - 1));
    return code > 254 ? f.nan() : static_cast<uint32_t>(code);
  }

  const uint32_t sign = negative ? f.sign_mask() : 0u;
  if (magnitude > kInf) {
    if (f.specials == FloatSpecials::kNegZeroNan) return f.nan();
    return f.nan() ^ sign;
  }
  // The significand keeps its leading one; what is added below is therefore the biased exponent less one, and a carry
  // out of the rounding moves into the exponent by itself.
  const U significand = raw_exponent == 0 ? fraction : fraction | U{1} << kMantissa;
  const int exponent = (raw_exponent == 0 ? 1 : raw_exponent) - kBias + f.bias - 1;
  int shift = kMantissa - f.mantissa_bits + (exponent < 0 ? -exponent : 0);
  if (shift > kMantissa + 2) shift = kMantissa + 2;  // enough to round anything to zero
  U rounded = significand;
  if (shift > 0) rounded = (significand + (U{1} << (shift - 1)) - 1 + ((significand >> shift) & 1)) >> shift;
  if (exponent > (1 << f.exponent_bits) || magnitude == kInf) {
    rounded = U{f.max_finite()} + 1;
  } else if (exponent > 0) {
    rounded += static_cast<U>(exponent) << f.mantissa_bits;
  }
  if (rounded > f.max_finite()) {
    return f.specials == FloatSpecials::kNegZeroNan ? f.overflow() : f.overflow() | sign;
  }
  const uint32_t code = static_cast<uint32_t>(rounded);
  if (f.specials == FloatSpecials::kNegZeroNan && code == 0) return 0;
  return code | sign;
}

}  // namespace formats_internal

constexpr uint32_t EncodeMiniFloat(float x, const MiniFloat& f) {
  return formats_internal::EncodeBits<uint32_t, 23, 127>(std::bit_cast<uint32_t>(x), f);
}
constexpr uint32_t EncodeMiniFloat(double x, const MiniFloat& f) {
  return formats_internal::EncodeBits<uint64_t, 52, 1023>(std::bit_cast<uint64_t>(x), f);
}

// Exact: every format here is a subset of f32.
constexpr float DecodeMiniFloat(uint32_t code, const MiniFloat& f) {
  constexpr uint32_t kNan = 0x7fc00000u;
  const uint32_t magnitude = code & f.magnitude_mask();
  const uint32_t sign = (code & f.sign_mask()) != 0 ? 0x80000000u : 0u;
  if (f.specials == FloatSpecials::kPowersOfTwo) {
    if (magnitude == f.nan()) return std::bit_cast<float>(kNan);
    return std::bit_cast<float>(magnitude == 0 ? 0x00400000u : magnitude << 23);
  }
  if (f.specials == FloatSpecials::kNegZeroNan && code == f.nan()) return std::bit_cast<float>(kNan);
  if (magnitude > f.max_finite()) {
    if (f.has_inf() && magnitude == f.overflow()) return std::bit_cast<float>(sign | 0x7f800000u);
    return std::bit_cast<float>(sign | kNan);
  }
  uint32_t significand = magnitude & ((1u << f.mantissa_bits) - 1);
  int exponent = static_cast<int>(magnitude >> f.mantissa_bits);
  if (exponent == 0) {
    if (significand == 0) return std::bit_cast<float>(sign);
    if (f.bias == 127) return std::bit_cast<float>(sign | significand << (23 - f.mantissa_bits));  // bf16
    const int up = std::countl_zero(significand) - (31 - f.mantissa_bits);
    significand = (significand << up) & ((1u << f.mantissa_bits) - 1);
    exponent = 1 - up;
  }
  const uint32_t biased = static_cast<uint32_t>(exponent + 127 - f.bias);
  return std::bit_cast<float>(sign | biased << 23 | significand << (23 - f.mantissa_bits));
}

#define KRAFLA_FORMAT(Name, Code)                                                                            \
  constexpr Code FloatTo##Name(float x) { return static_cast<Code>(EncodeMiniFloat(x, k##Name##Format)); }   \
  constexpr Code DoubleTo##Name(double x) { return static_cast<Code>(EncodeMiniFloat(x, k##Name##Format)); } \
  constexpr float Name##ToFloat(Code code) { return DecodeMiniFloat(code, k##Name##Format); }
KRAFLA_FORMAT(F16, uint16_t)
KRAFLA_FORMAT(F8E5M2, uint8_t)
KRAFLA_FORMAT(F8E4M3FN, uint8_t)
KRAFLA_FORMAT(F8E4M3, uint8_t)
KRAFLA_FORMAT(F8E3M4, uint8_t)
KRAFLA_FORMAT(F8E4M3B11FNUZ, uint8_t)
KRAFLA_FORMAT(F8E5M2FNUZ, uint8_t)
KRAFLA_FORMAT(F8E4M3FNUZ, uint8_t)
KRAFLA_FORMAT(F4E2M1FN, uint8_t)
KRAFLA_FORMAT(F8E8M0FNU, uint8_t)
#undef KRAFLA_FORMAT

constexpr float BF16ToFloat(uint16_t code) { return std::bit_cast<float>(uint32_t{code} << 16); }
constexpr uint16_t FloatToBF16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16 & 0x8000u) | 0x7fc0u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
constexpr uint16_t DoubleToBF16(double x) { return static_cast<uint16_t>(EncodeMiniFloat(x, kBF16Format)); }

// HLO reduce-precision on the bit pattern of an IEEE format with `source_exponent` and `source_mantissa` bits: the
// mantissa is rounded to nearest even; beyond the narrower exponent range values become infinities and zeros (there
// are no subnormals in the reduced format); NaN stays.  XLA: elemental_ir_emitter.cc EmitReducePrecisionIR.
template <class U>
constexpr U ReducePrecisionBits(U bits, int source_exponent, int source_mantissa, int exponent_bits,
                                int mantissa_bits) {
  const U sign_mask = static_cast<U>(U{1} << (source_exponent + source_mantissa));
  const U inf = static_cast<U>(((U{1} << source_exponent) - 1) << source_mantissa);
  const U sign = bits & sign_mask;
  U magnitude = bits & static_cast<U>(sign_mask - 1);
  if (magnitude > inf) return bits;
  if (mantissa_bits < source_mantissa) {
    const int drop = source_mantissa - mantissa_bits;
    const U last = static_cast<U>((magnitude >> drop) & 1);
    magnitude = static_cast<U>(magnitude + (U{1} << (drop - 1)) - 1 + last);
    magnitude = static_cast<U>((magnitude >> drop) << drop);
  }
  if (exponent_bits < source_exponent) {
    const int source_bias = (1 << (source_exponent - 1)) - 1;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const U exponent = magnitude & inf;
    if (exponent > static_cast<U>(static_cast<U>(source_bias + bias) << source_mantissa)) {
      magnitude = inf;
    } else if (exponent <= static_cast<U>(static_cast<U>(source_bias - bias) << source_mantissa)) {
      magnitude = 0;
    }
  }
  return sign | magnitude;
}

constexpr float ReducePrecision(float x, int exponent_bits, int mantissa_bits) {
  return std::bit_cast<float>(
      ReducePrecisionBits<uint32_t>(std::bit_cast<uint32_t>(x), 8, 23, exponent_bits, mantissa_bits));
}
constexpr double ReducePrecision(double x, int exponent_bits, int mantissa_bits) {
  return std::bit_cast<double>(
      ReducePrecisionBits<uint64_t>(std::bit_cast<uint64_t>(x), 11, 52, exponent_bits, mantissa_bits));
}

}  // namespace krafla
