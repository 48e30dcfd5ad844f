// SPDX-License-Identifier: Apache-2.0
// Complex functions against the C++ library's in a wider type, where that has a wider one, and where intermediate
// values overflow or cancel.
#include <gtest/gtest.h>

#include <complex>
#include <random>

#include "numerics/complex_math.h"

namespace krafla {
namespace {

using C32 = std::complex<float>;
using C64 = std::complex<double>;
using Wide = std::complex<long double>;

template <class T>
double RelativeError(std::complex<T> got, Wide want) {
  const Wide difference = Wide(static_cast<long double>(got.real()), static_cast<long double>(got.imag())) - want;
  return static_cast<double>(std::abs(difference) / (std::abs(want) + 1e-300L));
}

template <class T>
struct ComplexRow {
  const char* name;
  std::complex<T> (*f)(std::complex<T>);
  Wide (*truth)(Wide);
};

template <class T>
void CheckAll(double epsilons) {
  const ComplexRow<T> rows[] = {{"exp", ComplexExp<T>, [](Wide z) { return std::exp(z); }},
                                {"log", ComplexLog<T>, [](Wide z) { return std::log(z); }},
                                {"sqrt", ComplexSqrt<T>, [](Wide z) { return std::sqrt(z); }},
                                {"rsqrt", ComplexRsqrt<T>, [](Wide z) { return 1.0L / std::sqrt(z); }},
                                {"sin", ComplexSin<T>, [](Wide z) { return std::sin(z); }},
                                {"cos", ComplexCos<T>, [](Wide z) { return std::cos(z); }},
                                {"tan", ComplexTan<T>, [](Wide z) { return std::tan(z); }},
                                {"tanh", ComplexTanh<T>, [](Wide z) { return std::tanh(z); }},
                                {"sinh", ComplexSinh<T>, [](Wide z) { return std::sinh(z); }},
                                {"cosh", ComplexCosh<T>, [](Wide z) { return std::cosh(z); }},
                                {"logistic", ComplexLogistic<T>, [](Wide z) { return 1.0L / (1.0L + std::exp(-z)); }},
                                {"sign", ComplexSign<T>, [](Wide z) { return z / std::abs(z); }},
                                {"asin", ComplexAsin<T>, [](Wide z) { return std::asin(z); }},
                                {"acos", ComplexAcos<T>, [](Wide z) { return std::acos(z); }},
                                {"asinh", ComplexAsinh<T>, [](Wide z) { return std::asinh(z); }},
                                {"acosh", ComplexAcosh<T>, [](Wide z) { return std::acosh(z); }},
                                {"atanh", ComplexAtanh<T>, [](Wide z) { return std::atanh(z); }}};
  std::mt19937 random(9);
  std::uniform_real_distribution<double> unit(-1, 1);
  const double limit = epsilons * static_cast<double>(std::numeric_limits<T>::epsilon());
  for (const ComplexRow<T>& row : rows) {
    for (int i = 0; i < 3000; ++i) {
      const double scale = std::exp2(unit(random) * 5);
      const std::complex<T> z(static_cast<T>(unit(random) * scale), static_cast<T>(unit(random) * scale));
      const Wide want = row.truth(Wide(static_cast<long double>(z.real()), static_cast<long double>(z.imag())));
      ASSERT_LE(RelativeError(row.f(z), want), limit) << row.name << " of " << z << " is " << row.f(z);
    }
  }
}

TEST(Complex, FunctionsOfFloats) { CheckAll<float>(8); }
TEST(Complex, FunctionsOfDoubles) { CheckAll<double>(8); }

TEST(Complex, Log1pAndExpm1KeepSmallNumbers) {
  std::mt19937 random(10);
  std::uniform_real_distribution<double> unit(-1, 1);
  for (int i = 0; i < 3000; ++i) {
    const double scale = std::exp2(unit(random) * 20 - 16);
    const C32 z(static_cast<float>(unit(random) * scale), static_cast<float>(unit(random) * scale));
    const Wide w(static_cast<long double>(z.real()), static_cast<long double>(z.imag()));
    if (std::abs(w) > 1e-3L) {
      ASSERT_LE(RelativeError(ComplexLog1p(z), std::log(1.0L + w)), 1e-6) << z;
      ASSERT_LE(RelativeError(ComplexExpm1(z), std::exp(w) - 1.0L), 1e-6) << z;
    } else {
      ASSERT_LE(RelativeError(ComplexLog1p(z), w - w * w / 2.0L + w * w * w / 3.0L), 1e-6) << z;
      ASSERT_LE(RelativeError(ComplexExpm1(z), w + w * w / 2.0L + w * w * w / 6.0L), 1e-6) << z;
    }
  }
}

TEST(Complex, IntermediateValuesDoNotOverflow) {
  EXPECT_FLOAT_EQ(ComplexAbs(C32(3e38f, 1e38f)), std::hypot(3e38f, 1e38f));
  EXPECT_FLOAT_EQ(ComplexAbs(C32(3e-38f, 4e-38f)), 5e-38f);
  EXPECT_LE(RelativeError(ComplexSqrt(C32(3e38f, 3e38f)), std::sqrt(Wide(3e38L, 3e38L))), 1e-6);
  EXPECT_LE(RelativeError(ComplexSqrt(C64(-1.5e308, 1e308)), std::sqrt(Wide(-1.5e308L, 1e308L))), 1e-15);
  EXPECT_LE(RelativeError(ComplexDivide(C32(1e38f, 1e38f), C32(1e38f, 1e38f)), Wide(1, 0)), 1e-6);
  EXPECT_LE(RelativeError(ComplexLog(C32(3e38f, 3e38f)), std::log(Wide(3e38L, 3e38L))), 1e-6);
  // |z| is within 1e-7 of 1: the real part of the logarithm is all cancellation.
  const C32 near_one(0.6f, 0.8f);
  const Wide want = std::log(Wide(static_cast<long double>(0.6f), static_cast<long double>(0.8f)));
  EXPECT_NEAR(ComplexLog(near_one).real(), static_cast<double>(want.real()),
              1e-6 * std::abs(static_cast<double>(want.real())));
  // exp(89) overflows a float, its products with cos(0.78) and sin(0.78) do not.
  EXPECT_LE(RelativeError(ComplexExp(C32(89.0f, 0.78f)), std::exp(Wide(89.0L, static_cast<long double>(0.78f)))), 1e-5);
  EXPECT_EQ(ComplexTanh(C32(100, 1)), C32(1, 0));
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(ComplexTanh(C32(inf, inf)), C32(1, 0));
  EXPECT_TRUE(std::isnan(ComplexTanh(C32(1e30f, inf)).real()));
  EXPECT_TRUE(std::isnan(ComplexTan(C32(-inf, 1e8f)).imag()));
  EXPECT_EQ(ComplexTan(C32(1, inf)), C32(0, 1));
  EXPECT_EQ(ComplexLogistic(C32(-200, 1)), C32(0, 0));
  EXPECT_EQ(ComplexLogistic(C32(200, 1)).real(), 1.0f);
  EXPECT_EQ(ComplexPow(C32(0, 0), C32(2, 0)), C32(0, 0));
  EXPECT_EQ(ComplexPow(C32(0, 0), C32(0, 0)), C32(1, 0));
  EXPECT_TRUE(std::isnan(ComplexPow(C32(0, 0), C32(1, 1)).real()));
}

// C17, G.6.2.4 and G.6.2.5: also where the real part is infinite, overflows or is NaN, the imaginary part stays zero.
template <class T>
void CheckHyperbolicOfReals() {
  using C = std::complex<T>;
  constexpr T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  for (const T zero : {T{0}, -T{0}}) {
    for (const T x : {inf, -inf, T{1e4}, T{-1e4}}) {
      EXPECT_EQ(ComplexCosh(C(x, zero)), C(inf, 0)) << x;
      EXPECT_EQ(ComplexSinh(C(x, zero)), C(std::copysign(inf, x), 0)) << x;
      EXPECT_EQ(std::signbit(ComplexSinh(C(x, zero)).imag()), std::signbit(zero)) << x;
      EXPECT_EQ(std::signbit(ComplexCosh(C(x, zero)).imag()), std::signbit(zero) != std::signbit(x)) << x;
    }
    for (const T x : {T{0}, -T{0}})
      EXPECT_EQ(std::signbit(ComplexCosh(C(x, zero)).imag()), std::signbit(zero) != std::signbit(x)) << x;
    EXPECT_TRUE(std::isnan(ComplexCosh(C(nan, zero)).real()));
    EXPECT_TRUE(std::isnan(ComplexSinh(C(nan, zero)).real()));
    EXPECT_EQ(ComplexCosh(C(nan, zero)).imag(), T{0});
    EXPECT_EQ(ComplexSinh(C(nan, zero)).imag(), T{0});
  }
}
TEST(Complex, HyperbolicFunctionsOfRealsAreReal) {
  CheckHyperbolicOfReals<float>();
  CheckHyperbolicOfReals<double>();
}

// Bits but for those of NaNs.
template <class T>
void ExpectSame(std::complex<T> got, std::complex<T> want, const char* name, std::complex<T> of) {
  const auto same = [](T a, T b) {
    if (std::isnan(b)) return std::isnan(a);
    return std::signbit(a) == std::signbit(b) &&
           (a == b || std::abs(a - b) <= 8 * std::numeric_limits<T>::epsilon() * std::abs(b));
  };
  EXPECT_TRUE(same(got.real(), want.real()) && same(got.imag(), want.imag()))
      << name << " of " << of << " is " << got << ", not " << want;
}

// What XLA's CPU back end has where a part of z is -0, so small that its square is 0, so large that its square is
// infinite, infinite or NaN.
template <class T>
void CheckSpecials() {
  using C = std::complex<T>;
  constexpr T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  constexpr T tiny = sizeof(T) == 4 ? T(1e-30) : T(1e-200), root = sizeof(T) == 4 ? T(1e-15) : T(1e-100);
  constexpr T large = sizeof(T) == 4 ? T(1e18) : T(1e160);
  const T half_pi = std::acos(T{0}), pi = 2 * half_pi;
  const T log2 = T(0.962423650119206894995517826848736846L);  // log(1.5 + sqrt(1.25))
  const struct {
    const char* name;
    C (*f)(C);
    C z, want;
  } rows[] = {
      {"asin", ComplexAsin<T>, {T(-1.5), -T{0}}, {-half_pi, log2}},
      {"asin", ComplexAsin<T>, {T(-1.5), T{0}}, {-half_pi, log2}},
      {"asin", ComplexAsin<T>, {0, tiny}, {0, tiny}},
      {"asin", ComplexAsin<T>, {inf, -T{0}}, {half_pi, inf}},
      {"acos", ComplexAcos<T>, {T(-1.5), -T{0}}, {pi, -log2}},
      {"acos", ComplexAcos<T>, {1, -tiny}, {root, root}},
      {"acos", ComplexAcos<T>, {1.5, tiny}, {tiny / std::sqrt(T(1.25)), -log2}},
      {"asinh", ComplexAsinh<T>, {-T{0}, T(1.5)}, {log2, half_pi}},
      {"asinh", ComplexAsinh<T>, {tiny, 0}, {tiny, 0}},
      {"acosh", ComplexAcosh<T>, {T(-1.5), -T{0}}, {log2, pi}},
      {"acosh", ComplexAcosh<T>, {1, tiny}, {root, root}},
      {"atanh", ComplexAtanh<T>, {-large, -T{0}}, {-1 / large, half_pi}},
      {"atanh", ComplexAtanh<T>, {0, nan}, {nan, -half_pi}},
      {"atanh", ComplexAtanh<T>, {nan, 0}, {nan, half_pi}},
      {"atanh", ComplexAtanh<T>, {large, nan}, {nan, -half_pi}},
      {"atanh", ComplexAtanh<T>, {large, large}, {T(0.5) / large, half_pi}},
      {"atanh", ComplexAtanh<T>, {inf, -inf}, {0, -half_pi}},
      {"rsqrt", ComplexRsqrt<T>, {-inf, 1}, {-T{0}, -T{0}}},
      {"rsqrt", ComplexRsqrt<T>, {1, -inf}, {0, 0}},
      {"expm1", ComplexExpm1<T>, {-T{0}, -T{0}}, {0, 0}},
      {"sinh", ComplexSinh<T>, {-inf, tiny}, {-inf, inf}},
      {"cosh", ComplexCosh<T>, {T{1e5}, tiny}, {inf, inf}},
  };
  for (const auto& row : rows) ExpectSame(row.f(row.z), row.want, row.name, row.z);
  // e^90 and e^715 overflow, their products with the least normal numbers do not.
  const T normal = std::numeric_limits<T>::min(), past = sizeof(T) == 4 ? T{90} : T{715};
  const long double product = std::exp(static_cast<long double>(past)) * static_cast<long double>(normal) / 2;
  EXPECT_LE(std::abs(static_cast<double>(ComplexSinh(C(past, normal)).imag()) / static_cast<double>(product) - 1),
            1e-5);
}
TEST(Complex, SpecialsAreThoseOfXla) {
  CheckSpecials<float>();
  CheckSpecials<double>();
}

template <class T>
void CheckSpecialsOfTwo() {
  using C = std::complex<T>;
  constexpr T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  const T most = std::numeric_limits<T>::max(), least = std::numeric_limits<T>::min();
  const struct {
    C x, y, want;
  } powers[] = {{{1, 0}, {0, inf}, {1, 0}},      {{1, 0}, {nan, 1}, {1, 0}},     {{nan, inf}, {0, 0}, {1, 0}},
                {{inf, 0}, {inf, 0}, {inf, 0}},  {{inf, 0}, {-2, 0}, {0, 0}},    {{0, inf}, {1, 0}, {nan, nan}},
                {{-inf, 1}, {2, 0}, {nan, nan}}, {{most, 0}, {1, 0}, {most, 0}}, {{least, 0}, {1, 0}, {least, 0}},
                {{0, 0}, {-1, 0}, {nan, nan}}};
  for (const auto& row : powers) ExpectSame(ComplexPow(row.x, row.y), row.want, "pow", row.x);
  const struct {
    C x, y, want;
  } quotients[] = {
      {{1, 0}, {-inf, -T{0}}, {-T{0}, -T{0}}}, {{1, 0}, {0, -inf}, {-T{0}, 0}}, {{1, -1}, {-T{0}, 0}, {-inf, inf}},
      {{inf, 1}, {2, 1}, {inf, -inf}},         {{0, 0}, {0, 0}, {nan, nan}},    {{inf, 0}, {0, inf}, {nan, nan}}};
  for (const auto& row : quotients) ExpectSame(ComplexDivide(row.x, row.y), row.want, "quotient", row.x);
}
TEST(Complex, SpecialsOfTwoAreThoseOfXla) {
  CheckSpecialsOfTwo<float>();
  CheckSpecialsOfTwo<double>();
}

// The error of exp(c log|x|) grows with the logarithm.
TEST(Complex, PowersOfLargeAndSmallNumbersAreAccurate) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> unit(-1, 1);
  for (int i = 0; i < 2000; ++i) {
    const double scale = std::exp2(unit(random) * 40);
    const C32 z(static_cast<float>(unit(random) * scale), static_cast<float>(unit(random) * scale));
    const Wide w(static_cast<long double>(z.real()), static_cast<long double>(z.imag()));
    ASSERT_LE(RelativeError(ComplexPow(z, C32(3, 0)), w * w * w), 1e-6) << z;
    ASSERT_LE(RelativeError(ComplexPow(z, C32(-2, 0)), 1.0L / (w * w)), 1e-6) << z;
  }
}

TEST(Complex, Atan2OfRealsIsAtan2) {
  EXPECT_EQ(ComplexAtan2(C64(1, 0), C64(-1, 0)), C64(std::atan2(1, -1), 0));
  const C64 got = ComplexAtan2(C64(0.5, 0.25), C64(1.5, -0.5));
  const Wide want = std::atan(Wide(0.5L, 0.25L) / Wide(1.5L, -0.5L));
  EXPECT_LE(RelativeError(got, want), 1e-14);
}

}  // namespace
}  // namespace krafla
