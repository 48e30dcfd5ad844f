// SPDX-License-Identifier: Apache-2.0
// Number formats: every code, the rounding of every midpoint and its neighbours, the GPU's algorithms against the
// CPU's.
#include "numerics/formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "numerics/formulas_formats.h"
#include "numerics/scalar_ops.h"
#include "test_ops.h"

namespace krafla {
namespace {

struct Named {
  const char* name;
  MiniFloat format;
};
const Named kFormats[] = {{"f16", kF16Format},
                          {"bf16", kBF16Format},
                          {"f8e5m2", kF8E5M2Format},
                          {"f8e4m3fn", kF8E4M3FNFormat},
                          {"f8e4m3", kF8E4M3Format},
                          {"f8e3m4", kF8E3M4Format},
                          {"f8e4m3b11fnuz", kF8E4M3B11FNUZFormat},
                          {"f8e5m2fnuz", kF8E5M2FNUZFormat},
                          {"f8e4m3fnuz", kF8E4M3FNUZFormat},
                          {"f4e2m1fn", kF4E2M1FNFormat},
                          {"f8e8m0fnu", kF8E8M0FNUFormat}};

uint32_t CodeCount(const MiniFloat& f) { return 1u << (f.magnitude_bits() + (f.has_sign() ? 1 : 0)); }

// The value of a code by the definition of the format, not by the code under test.
double Definition(uint32_t code, const MiniFloat& f) {
  if (f.specials == FloatSpecials::kPowersOfTwo) return std::ldexp(1.0, static_cast<int>(code) - 127);
  const int mantissa = static_cast<int>(code & ((1u << f.mantissa_bits) - 1));
  const int exponent = static_cast<int>(code >> f.mantissa_bits) & ((1 << f.exponent_bits) - 1);
  const double sign = (code >> f.magnitude_bits()) != 0 ? -1 : 1;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - f.bias - f.mantissa_bits);
  return sign * std::ldexp((1 << f.mantissa_bits) + mantissa, exponent - f.bias - f.mantissa_bits);
}
bool IsNumber(uint32_t code, const MiniFloat& f) {
  const uint32_t magnitude = code & f.magnitude_mask();
  return magnitude <= f.max_finite() && !(f.specials == FloatSpecials::kNegZeroNan && code == f.nan());
}

bool SameFloat(float a, float b) {
  return (a != a && b != b) || std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

TEST(Formats, KnownValues) {
  EXPECT_EQ(F16ToFloat(0x7bff), 65504.0f);
  EXPECT_EQ(F16ToFloat(0x0001), 0x1p-24f);
  EXPECT_EQ(F8E5M2ToFloat(0x7b), 57344.0f);
  EXPECT_EQ(F8E4M3FNToFloat(0x7e), 448.0f);
  EXPECT_EQ(F8E4M3ToFloat(0x77), 240.0f);
  EXPECT_EQ(F8E3M4ToFloat(0x6f), 15.5f);
  EXPECT_EQ(F8E4M3B11FNUZToFloat(0x7f), 30.0f);
  EXPECT_EQ(F8E5M2FNUZToFloat(0x7f), 57344.0f);
  EXPECT_EQ(F8E4M3FNUZToFloat(0x7f), 240.0f);
  EXPECT_EQ(F4E2M1FNToFloat(0x7), 6.0f);
  EXPECT_EQ(F8E8M0FNUToFloat(0x00), 0x1p-127f);
  EXPECT_EQ(F8E8M0FNUToFloat(0xfe), 0x1p127f);
  EXPECT_TRUE(std::isnan(F8E8M0FNUToFloat(0xff)));
  EXPECT_TRUE(std::isnan(F8E4M3FNUZToFloat(0x80)));
  EXPECT_TRUE(std::isinf(F8E5M2ToFloat(0x7c)));

  EXPECT_EQ(FloatToF16(65519.996f), 0x7bff);
  EXPECT_EQ(FloatToF16(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToF16(2.98023224e-8f), 0x0000);  // half the smallest
  EXPECT_EQ(FloatToF16(2.98023259e-8f), 0x0001);
  EXPECT_EQ(FloatToF8E4M3FN(464.0f), 0x7e);
  EXPECT_EQ(FloatToF8E4M3FN(464.00003f), 0x7f);
  EXPECT_EQ(FloatToF8E4M3FN(-INFINITY), 0xff);
  EXPECT_EQ(FloatToF8E5M2(61440.0f), 0x7c);
  EXPECT_EQ(FloatToF8E5M2(-61439.996f), 0xfb);
  EXPECT_EQ(FloatToF8E4M3FNUZ(-0.0f), 0x00);
  EXPECT_EQ(FloatToF8E4M3FNUZ(-1e-9f), 0x00);
  EXPECT_EQ(FloatToF8E4M3FNUZ(INFINITY), 0x80);
  EXPECT_EQ(FloatToF4E2M1FN(100.0f), 0x7);
  EXPECT_EQ(FloatToF4E2M1FN(-0.25f), 0x8);
  EXPECT_EQ(FloatToF4E2M1FN(0.75f), 0x2);
  EXPECT_EQ(FloatToF8E8M0FNU(0.0f), 0xff);
  EXPECT_EQ(FloatToF8E8M0FNU(-1.0f), 0xff);
  EXPECT_EQ(FloatToF8E8M0FNU(1.5f), 0x80);
  EXPECT_EQ(FloatToF8E8M0FNU(0x1.7ffffep0f), 0x7f);
  EXPECT_EQ(FloatToBF16(1.00390625f), 0x3f80);  // a tie, to even
  EXPECT_EQ(FloatToBF16(1.01171875f), 0x3f82);
  EXPECT_EQ(FloatToBF16(3.4e38f), 0x7f80);
}

TEST(Formats, EveryCodeRoundTrips) {
  for (const auto& [name, f] : kFormats) {
    for (uint32_t code = 0; code < CodeCount(f); ++code) {
      const float value = DecodeMiniFloat(code, f);
      if (!IsNumber(code, f)) {
        const bool inf = f.has_inf() && (code & f.magnitude_mask()) == f.overflow();
        ASSERT_TRUE(inf ? std::isinf(value) : std::isnan(value)) << name << " " << code;
        if (inf) ASSERT_EQ(EncodeMiniFloat(value, f), code) << name;
        else ASSERT_FALSE(IsNumber(EncodeMiniFloat(value, f), f)) << name << " " << code;
        continue;
      }
      ASSERT_EQ(static_cast<double>(value), Definition(code, f)) << name << " " << code;
      ASSERT_EQ(EncodeMiniFloat(value, f), code) << name;
      ASSERT_EQ(EncodeMiniFloat(static_cast<double>(value), f), code) << name;
    }
  }
}

// Between two neighbouring codes: the midpoint goes to the even code, what is next to it to the nearer one. In double,
// so that a conversion by way of f32 would round twice and be caught.
TEST(Formats, RoundsToNearestEven) {
  for (const auto& [name, f] : kFormats) {
    const bool powers = f.specials == FloatSpecials::kPowersOfTwo;
    for (uint32_t code = 0; code < f.max_finite(); ++code) {
      const double low = Definition(code, f), high = Definition(code + 1, f);
      const double middle = (low + high) / 2;
      const uint32_t even = powers ? code + 1 : code + code % 2;
      ASSERT_EQ(EncodeMiniFloat(middle, f), even) << name << " " << middle;
      ASSERT_EQ(EncodeMiniFloat(std::nextafter(middle, 0.0), f), code) << name << " " << middle;
      ASSERT_EQ(EncodeMiniFloat(std::nextafter(middle, 1e300), f), code + 1) << name << " " << middle;
      const float near = static_cast<float>(middle);
      if (static_cast<double>(near) == middle) {
        ASSERT_EQ(EncodeMiniFloat(near, f), even) << name << " " << near;
        ASSERT_EQ(EncodeMiniFloat(std::nextafter(near, 0.0f), f), code) << name << " " << near;
        ASSERT_EQ(EncodeMiniFloat(std::nextafter(near, INFINITY), f), code + 1) << name << " " << near;
      }
      if (f.has_sign()) {
        const uint32_t negative = EncodeMiniFloat(-middle, f);
        const bool lost = f.specials == FloatSpecials::kNegZeroNan && even == 0;
        ASSERT_EQ(negative, lost ? 0 : even | f.sign_mask()) << name << " " << -middle;
      }
    }
    // Past the largest value by half a step.
    const double largest = Definition(f.max_finite(), f);
    const double step = largest - Definition(f.max_finite() - 1, f);
    const uint32_t beyond = EncodeMiniFloat(largest + step * (powers ? 1 : 0.5000001), f);
    EXPECT_EQ(beyond, f.specials == FloatSpecials::kFinite ? f.max_finite() : f.overflow()) << name;
    EXPECT_EQ(EncodeMiniFloat(largest + step * 0.4999999, f), f.max_finite()) << name;
    EXPECT_EQ(EncodeMiniFloat(1e300, f), f.overflow()) << name;
    EXPECT_EQ(EncodeMiniFloat(5e-324, f), 0u) << name;
  }
}

TEST(Formats, OpsGiveTheSameCodes) {
  const TestOps flush(true);
  const ScalarOps o;
  for (const auto& [name, f] : kFormats) {
    for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 8'191) {
      const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
      ASSERT_EQ(EncodeFloat(o, x, f), EncodeMiniFloat(x, f)) << name << " " << x;
      ASSERT_EQ(EncodeFloat(flush, TestOps::F{x}, f).v, EncodeMiniFloat(x, f)) << name << " " << x;
    }
    for (uint32_t code = 0; code < CodeCount(f); ++code) {
      const float want = DecodeMiniFloat(code, f);
      ASSERT_TRUE(SameFloat(DecodeFloat(o, code, f), want)) << name << " " << code;
      ASSERT_TRUE(SameFloat(DecodeFloat(flush, TestOps::I{code}, f).v, want)) << name << " " << code;
      if (want != want) continue;
      for (float x : {want, std::nextafter(want, 1e38f), std::nextafter(want, -1e38f), want * 1.03125f}) {
        ASSERT_EQ(EncodeFloat(o, x, f), EncodeMiniFloat(x, f)) << name << " " << x;
      }
    }
  }
  EXPECT_FALSE(flush.broke_a_precondition());
}

TEST(Formats, ReducePrecision) {
  EXPECT_EQ(ReducePrecision(1.5f, 8, 0), 2.0f);  // a tie, to even
  EXPECT_EQ(ReducePrecision(65520.0f, 5, 10), INFINITY);
  EXPECT_EQ(ReducePrecision(-65519.0f, 5, 10), -65504.0f);
  EXPECT_EQ(ReducePrecision(0x1p-15f, 5, 10), 0.0f);  // f16 would have a subnormal
  EXPECT_TRUE(std::signbit(ReducePrecision(-0x1p-15f, 5, 10)));
  EXPECT_TRUE(std::isnan(ReducePrecision(std::numeric_limits<float>::quiet_NaN(), 2, 1)));
  EXPECT_EQ(ReducePrecision(1.0 + 0x1p-30, 11, 23), 1.0);
  EXPECT_EQ(ReducePrecision(0.1, 11, 52), 0.1);
  const ScalarOps o;
  std::mt19937 random(3);
  for (int e = 1; e <= 11; ++e) {
    for (int m = 0; m <= 24; ++m) {
      for (int i = 0; i < 2000; ++i) {
        const float x = std::bit_cast<float>(static_cast<uint32_t>(random()));
        ASSERT_TRUE(SameFloat(ReducePrecision(o, x, e, m), ReducePrecision(x, e, m))) << x << " e" << e << " m" << m;
      }
      // Where f16's range and mantissa are asked for, the normal results are f16's.
      if (e == 5 && m == 10) {
        for (uint32_t i = 0; i < 200'000; ++i) {
          const float x = std::bit_cast<float>(0x38800000u + i * 641u);
          if (std::abs(x) > 70000) break;
          ASSERT_EQ(ReducePrecision(x, 5, 10), F16ToFloat(FloatToF16(x))) << x;
        }
      }
    }
  }
}

}  // namespace
}  // namespace krafla
