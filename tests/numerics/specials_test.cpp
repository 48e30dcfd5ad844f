// SPDX-License-Identifier: Apache-2.0
// Infinities, NaN, zeros, domain borders: XLA's answers, which for the elementary functions are C's.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "formula_table.h"
#include "numerics/scalar_math.h"

namespace krafla {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNaN = std::numeric_limits<float>::quiet_NaN();

bool Same(float a, float b) { return (a != a && b != b) || std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

struct Row {
  const char* name;
  float (*f)(float);
  float x, want;
};

TEST(Specials, Unary) {
  namespace s = scalar;
  const auto pi_2 = 0x1.921fb6p+0f;
  const Row rows[] = {{"exp", s::Exp, 0, 1},
                      {"exp", s::Exp, -0.0f, 1},
                      {"exp", s::Exp, kInfinity, kInfinity},
                      {"exp", s::Exp, -kInfinity, 0},
                      {"exp", s::Exp, kNaN, kNaN},
                      {"exp", s::Exp, 88.722839f, kInfinity},
                      {"exp", s::Exp, -104, 0},
                      {"exp", s::Exp, 3e38f, kInfinity},
                      {"exp", s::Exp, -3e38f, 0},
                      {"expm1", s::Expm1, 0, 0},
                      {"expm1", s::Expm1, -0.0f, -0.0f},
                      {"expm1", s::Expm1, kInfinity, kInfinity},
                      {"expm1", s::Expm1, -kInfinity, -1},
                      {"expm1", s::Expm1, kNaN, kNaN},
                      {"expm1", s::Expm1, 1e-30f, 1e-30f},
                      {"expm1", s::Expm1, -3e38f, -1},
                      {"log", s::Log, 1, 0},
                      {"log", s::Log, 0, -kInfinity},
                      {"log", s::Log, -0.0f, -kInfinity},
                      {"log", s::Log, kInfinity, kInfinity},
                      {"log", s::Log, -1, kNaN},
                      {"log", s::Log, -kInfinity, kNaN},
                      {"log", s::Log, kNaN, kNaN},
                      {"log1p", s::Log1p, 0, 0},
                      {"log1p", s::Log1p, -0.0f, -0.0f},
                      {"log1p", s::Log1p, -1, -kInfinity},
                      {"log1p", s::Log1p, -1.5f, kNaN},
                      {"log1p", s::Log1p, kInfinity, kInfinity},
                      {"log1p", s::Log1p, kNaN, kNaN},
                      {"log1p", s::Log1p, 1e-30f, 1e-30f},
                      {"log1p", s::Log1p, -kInfinity, kNaN},
                      {"logistic", s::Logistic, 0, 0.5f},
                      {"logistic", s::Logistic, kInfinity, 1},
                      {"logistic", s::Logistic, -kInfinity, 0},
                      {"logistic", s::Logistic, kNaN, kNaN},
                      {"logistic", s::Logistic, 1e30f, 1},
                      {"logistic", s::Logistic, -1e30f, 0},
                      {"sin", s::Sin, 0, 0},
                      {"sin", s::Sin, -0.0f, -0.0f},
                      {"sin", s::Sin, kInfinity, kNaN},
                      {"sin", s::Sin, -kInfinity, kNaN},
                      {"sin", s::Sin, kNaN, kNaN},
                      {"sin", s::Sin, 1e-30f, 1e-30f},
                      {"cos", s::Cos, 0, 1},
                      {"cos", s::Cos, -0.0f, 1},
                      {"cos", s::Cos, kInfinity, kNaN},
                      {"cos", s::Cos, kNaN, kNaN},
                      {"cos", s::Cos, 1e-30f, 1},
                      {"tan", s::Tan, -0.0f, -0.0f},
                      {"tan", s::Tan, kInfinity, kNaN},
                      {"tan", s::Tan, kNaN, kNaN},
                      {"tanh", s::Tanh, 0, 0},
                      {"tanh", s::Tanh, -0.0f, -0.0f},
                      {"tanh", s::Tanh, kInfinity, 1},
                      {"tanh", s::Tanh, -kInfinity, -1},
                      {"tanh", s::Tanh, kNaN, kNaN},
                      {"tanh", s::Tanh, 1e-30f, 1e-30f},
                      {"tanh", s::Tanh, 3e38f, 1},
                      {"sinh", s::Sinh, -0.0f, -0.0f},
                      {"sinh", s::Sinh, kInfinity, kInfinity},
                      {"sinh", s::Sinh, -kInfinity, -kInfinity},
                      {"sinh", s::Sinh, kNaN, kNaN},
                      {"sinh", s::Sinh, 89.5f, kInfinity},
                      {"sinh", s::Sinh, -3e38f, -kInfinity},
                      {"cosh", s::Cosh, 0, 1},
                      {"cosh", s::Cosh, -kInfinity, kInfinity},
                      {"cosh", s::Cosh, kNaN, kNaN},
                      {"cosh", s::Cosh, 3e38f, kInfinity},
                      {"asin", s::Asin, -0.0f, -0.0f},
                      {"asin", s::Asin, 1, pi_2},
                      {"asin", s::Asin, -1, -pi_2},
                      {"asin", s::Asin, 1.0000001f, kNaN},
                      {"asin", s::Asin, kInfinity, kNaN},
                      {"asin", s::Asin, kNaN, kNaN},
                      {"acos", s::Acos, 1, 0},
                      {"acos", s::Acos, -1, 2 * pi_2},
                      {"acos", s::Acos, 0, pi_2},
                      {"acos", s::Acos, -1.0000001f, kNaN},
                      {"acos", s::Acos, kNaN, kNaN},
                      {"asinh", s::Asinh, -0.0f, -0.0f},
                      {"asinh", s::Asinh, kInfinity, kInfinity},
                      {"asinh", s::Asinh, -kInfinity, -kInfinity},
                      {"asinh", s::Asinh, kNaN, kNaN},
                      {"asinh", s::Asinh, 1e-30f, 1e-30f},
                      {"acosh", s::Acosh, 1, 0},
                      {"acosh", s::Acosh, 0.99999994f, kNaN},
                      {"acosh", s::Acosh, -2, kNaN},
                      {"acosh", s::Acosh, kInfinity, kInfinity},
                      {"acosh", s::Acosh, -kInfinity, kNaN},
                      {"acosh", s::Acosh, kNaN, kNaN},
                      {"atanh", s::Atanh, -0.0f, -0.0f},
                      {"atanh", s::Atanh, 1, kInfinity},
                      {"atanh", s::Atanh, -1, -kInfinity},
                      {"atanh", s::Atanh, 1.0000001f, kNaN},
                      {"atanh", s::Atanh, kInfinity, kNaN},
                      {"atanh", s::Atanh, kNaN, kNaN},
                      {"cbrt", s::Cbrt, -0.0f, -0.0f},
                      {"cbrt", s::Cbrt, -8, -2},
                      {"cbrt", s::Cbrt, kInfinity, kInfinity},
                      {"cbrt", s::Cbrt, -kInfinity, -kInfinity},
                      {"cbrt", s::Cbrt, kNaN, kNaN},
                      {"cbrt", s::Cbrt, 0x1p-126f, 0x1p-42f},
                      {"erf", s::Erf, -0.0f, -0.0f},
                      {"erf", s::Erf, kInfinity, 1},
                      {"erf", s::Erf, -kInfinity, -1},
                      {"erf", s::Erf, kNaN, kNaN},
                      {"sqrt", s::Sqrt, -0.0f, -0.0f},
                      {"sqrt", s::Sqrt, kInfinity, kInfinity},
                      {"sqrt", s::Sqrt, -1, kNaN},
                      {"sqrt", s::Sqrt, kNaN, kNaN},
                      {"rsqrt", s::Rsqrt, 0, kInfinity},
                      {"rsqrt", s::Rsqrt, -0.0f, -kInfinity},
                      {"rsqrt", s::Rsqrt, kInfinity, 0},
                      {"rsqrt", s::Rsqrt, -1, kNaN},
                      {"rsqrt", s::Rsqrt, -kInfinity, kNaN},
                      {"rsqrt", s::Rsqrt, kNaN, kNaN},
                      {"rsqrt", s::Rsqrt, 4, 0.5f},
                      {"rsqrt", s::Rsqrt, 0x1p-126f, 0x1p63f},
                      {"sign", s::Sign, -0.0f, -0.0f},
                      {"sign", s::Sign, 0, 0},
                      {"sign", s::Sign, kNaN, kNaN},
                      {"sign", s::Sign, -kInfinity, -1},
                      {"sign", s::Sign, 3, 1},
                      {"ceil", s::Ceil, -0.2f, -0.0f},
                      {"ceil", s::Ceil, 0.2f, 1},
                      {"ceil", s::Ceil, kInfinity, kInfinity},
                      {"ceil", s::Ceil, kNaN, kNaN},
                      {"ceil", s::Ceil, 8388609, 8388609},
                      {"ceil", s::Ceil, -0.0f, -0.0f},
                      {"floor", s::Floor, -0.2f, -1},
                      {"floor", s::Floor, 0.2f, 0},
                      {"floor", s::Floor, -0.0f, -0.0f},
                      {"floor", s::Floor, -kInfinity, -kInfinity},
                      {"floor", s::Floor, kNaN, kNaN},
                      {"trunc", s::Trunc, -0.9f, -0.0f},
                      {"trunc", s::Trunc, -1.9f, -1},
                      {"trunc", s::Trunc, kNaN, kNaN},
                      {"round_even", s::RoundNearestEven, 2.5f, 2},
                      {"round_even", s::RoundNearestEven, -0.5f, -0.0f},
                      {"round_even", s::RoundNearestEven, 3.5f, 4},
                      {"round_even", s::RoundNearestEven, kNaN, kNaN},
                      {"round_afz", s::RoundNearestAfz, 0.5f, 1},
                      {"round_afz", s::RoundNearestAfz, -2.5f, -3},
                      {"round_afz", s::RoundNearestAfz, 0.49999997f, 0},
                      {"round_afz", s::RoundNearestAfz, -0.49999997f, -0.0f},
                      {"round_afz", s::RoundNearestAfz, 8388607.5f, 8388608},
                      {"round_afz", s::RoundNearestAfz, kInfinity, kInfinity},
                      {"round_afz", s::RoundNearestAfz, kNaN, kNaN},
                      {"round_afz", s::RoundNearestAfz, 4194305.5f, 4194306}};
  for (const Row& r : rows) {
    EXPECT_TRUE(Same(r.f(r.x), r.want)) << r.name << "(" << r.x << ") = " << r.f(r.x) << ", not " << r.want;
  }
}

// Over a lattice of special operands C's float functions are the truth; numbers may be an ULP away.
TEST(Specials, PowAtan2RemainderOverALattice) {
  const float lattice[] = {
      0,        1,          0.5f,          2,     3, 0.99999994f, 1.0000001f, 1e-30f, 1e30f,         0x1p-126f,
      16777215, 16777216,   2147483648.0f, 33.0f, 7, 1.5f,        2.5f,       1e10f,  3.4028235e38f, kInfinity,
      kNaN,     0.33333334f};
  for (float a : lattice) {
    for (float b : lattice) {
      for (float x : {a, -a}) {
        for (float y : {b, -b}) {
          const auto close = [](float got, float want) {
            if (want != want) return got != got;
            if (want == 0 || IsSubnormal(want)) {
              return std::abs(got) <= (want == 0 ? 0 : 0x1p-126f) && std::signbit(got) == std::signbit(want);
            }
            if (std::isinf(want) || std::isinf(got)) return got == want;
            return std::abs(got - want) <= std::abs(want) * 0x1p-22f;
          };
          EXPECT_TRUE(close(scalar::Pow(x, y), std::pow(x, y))) << "pow " << x << " " << y << " " << scalar::Pow(x, y);
          EXPECT_TRUE(close(scalar::Atan2(x, y), std::atan2(x, y)))
              << "atan2 " << x << " " << y << " " << scalar::Atan2(x, y);
          EXPECT_TRUE(Same(scalar::Remainder(x, y), std::fmod(x, y)))
              << "rem " << x << " " << y << " " << scalar::Remainder(x, y);
        }
      }
    }
  }
  EXPECT_EQ(scalar::Pow(-8.0f, 3.0f), -512.0f);
  EXPECT_EQ(scalar::Pow(kNaN, 0.0f), 1.0f);
  EXPECT_EQ(scalar::Pow(-1.0f, kInfinity), 1.0f);
  EXPECT_TRUE(std::isnan(scalar::Pow(-2.0f, 0.5f)));
}

TEST(Specials, MaxMinClamp) {
  namespace s = scalar;
  EXPECT_TRUE(Same(s::Max(0.0f, -0.0f), 0.0f));
  EXPECT_TRUE(Same(s::Max(-0.0f, 0.0f), 0.0f));
  EXPECT_TRUE(Same(s::Min(0.0f, -0.0f), -0.0f));
  EXPECT_TRUE(Same(s::Min(-0.0f, 0.0f), -0.0f));
  EXPECT_TRUE(std::isnan(s::Max(kNaN, 1.0f)));
  EXPECT_TRUE(std::isnan(s::Max(1.0f, kNaN)));
  EXPECT_TRUE(std::isnan(s::Min(kNaN, 1.0f)));
  EXPECT_TRUE(std::isnan(s::Min(1.0f, kNaN)));
  EXPECT_EQ(s::Max(1.0f, -kInfinity), 1.0f);
  EXPECT_EQ(s::Min(2.0f, kInfinity), 2.0f);
  EXPECT_EQ(s::Clamp(0.0f, 5.0f, 1.0f), 1.0f);
  EXPECT_EQ(s::Clamp(3.0f, 2.0f, 1.0f), 1.0f);  // low > high
  EXPECT_TRUE(std::isnan(s::Clamp(0.0f, kNaN, 1.0f)));
  EXPECT_TRUE(std::isnan(s::Clamp(kNaN, 0.5f, 1.0f)));
  EXPECT_TRUE(Same(static_cast<float>(s::Max(0.0, -0.0)), 0.0f));
  EXPECT_TRUE(std::isnan(s::Min(1.0, std::numeric_limits<double>::quiet_NaN())));
  EXPECT_TRUE(s::IsFinite(3e38f));
  EXPECT_FALSE(s::IsFinite(kInfinity));
  EXPECT_FALSE(s::IsFinite(kNaN));
}

TEST(Specials, FloatToInteger) {
  const ScalarOps o;
  EXPECT_EQ(FloatToIntS(o, kNaN), 0u);
  EXPECT_EQ(FloatToIntS(o, kInfinity), 0x7fffffffu);
  EXPECT_EQ(FloatToIntS(o, -kInfinity), 0x80000000u);
  EXPECT_EQ(FloatToIntS(o, 2147483648.0f), 0x7fffffffu);
  EXPECT_EQ(FloatToIntS(o, 2147483520.0f), 2147483520u);
  EXPECT_EQ(FloatToIntS(o, -1.9f), 0xffffffffu);
  EXPECT_EQ(FloatToIntS(o, 127.5f, 8), 127u);
  EXPECT_EQ(FloatToIntS(o, 128.0f, 8), 127u);
  EXPECT_EQ(FloatToIntS(o, -128.9f, 8), 0xffffff80u);
  EXPECT_EQ(FloatToIntS(o, -1e30f, 16), 0xffff8000u);
  EXPECT_EQ(FloatToIntS(o, 7.9f, 4), 7u);
  EXPECT_EQ(FloatToIntU(o, kNaN), 0u);
  EXPECT_EQ(FloatToIntU(o, -1.0f), 0u);
  EXPECT_EQ(FloatToIntU(o, -0.9f), 0u);
  EXPECT_EQ(FloatToIntU(o, 4294967296.0f), 0xffffffffu);
  EXPECT_EQ(FloatToIntU(o, 4294967040.0f), 4294967040u);
  EXPECT_EQ(FloatToIntU(o, 255.9f, 8), 255u);
  EXPECT_EQ(FloatToIntU(o, 256.0f, 8), 255u);
  EXPECT_EQ(FloatToIntU(o, kInfinity, 16), 65535u);
  // The same through double, for every width, and no precondition broken.
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 50'021) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    const double d = static_cast<double>(x);
    const TestOps checked(true);
    ASSERT_EQ(static_cast<int32_t>(FloatToIntS(checked, {x}, 32).v), scalar::FloatToInteger<int32_t>(d)) << x;
    ASSERT_EQ(static_cast<int8_t>(FloatToIntS(checked, {x}, 8).v), scalar::FloatToInteger<int8_t>(d)) << x;
    ASSERT_EQ(FloatToIntU(checked, {x}, 32).v, scalar::FloatToInteger<uint32_t>(d)) << x;
    ASSERT_EQ(FloatToIntU(checked, {x}, 16).v, scalar::FloatToInteger<uint16_t>(d)) << x;
    ASSERT_EQ(static_cast<int32_t>(FloatToIntS(checked, {x}, 4).v), scalar::FloatToInteger<int8_t>(d, 4)) << x;
    ASSERT_FALSE(checked.broke_a_precondition()) << x;
  }
  EXPECT_EQ(scalar::FloatToInteger<int64_t>(1e300), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(scalar::FloatToInteger<int64_t>(-1e300), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(scalar::FloatToInteger<uint64_t>(1.8446744073709552e19), ~uint64_t{0});
}

}  // namespace
}  // namespace krafla
