// SPDX-License-Identifier: Apache-2.0
// Test only: every f32 formula with its truth in double and its accuracy budget.
#pragma once

#include <cmath>
#include <vector>

#include "numerics/formulas.h"
#include "numerics/scalar_ops.h"
#include "test_ops.h"

namespace krafla {

struct UnaryFormula {
  const char* name;
  float (*scalar)(float);
  TestOps::F (*checked)(const TestOps&, TestOps::F);
  double (*truth)(double);  // the C library's double, within an ULP of its own: 2^-28 of one of ours
  double budget;            // ULP
};
struct BinaryFormula {
  const char* name;
  float (*scalar)(float, float);
  TestOps::F (*checked)(const TestOps&, TestOps::F, TestOps::F);
  double (*truth)(double, double);
  double budget;
};

#define KRAFLA_UNARY_FORMULA(Name, expression, budget)                                                              \
  UnaryFormula {                                                                                                    \
    #Name, [](float x) { return Name(ScalarOps{}, x); }, [](const TestOps& o, TestOps::F x) { return Name(o, x); }, \
        [](double x) -> double { return expression; }, budget                                                       \
  }
#define KRAFLA_BINARY_FORMULA(Name, expression, budget)                             \
  BinaryFormula {                                                                   \
    #Name, [](float x, float y) { return Name(ScalarOps{}, x, y); },                \
        [](const TestOps& o, TestOps::F x, TestOps::F y) { return Name(o, x, y); }, \
        [](double x, double y) -> double { return expression; }, budget             \
  }

inline std::vector<UnaryFormula> UnaryFormulas() {
  return {KRAFLA_UNARY_FORMULA(Exp, std::exp(x), 1),
          KRAFLA_UNARY_FORMULA(Expm1, std::expm1(x), 2),
          KRAFLA_UNARY_FORMULA(Log, std::log(x), 1),
          KRAFLA_UNARY_FORMULA(Log1p, std::log1p(x), 2),
          KRAFLA_UNARY_FORMULA(Logistic, 1 / (1 + std::exp(-x)), 2),
          KRAFLA_UNARY_FORMULA(Sin, std::sin(x), 1),
          KRAFLA_UNARY_FORMULA(Cos, std::cos(x), 1),
          KRAFLA_UNARY_FORMULA(Tan, std::tan(x), 2),
          KRAFLA_UNARY_FORMULA(Tanh, std::tanh(x), 2),
          KRAFLA_UNARY_FORMULA(Sinh, std::sinh(x), 3),
          KRAFLA_UNARY_FORMULA(Cosh, std::cosh(x), 3),
          KRAFLA_UNARY_FORMULA(Asin, std::asin(x), 2),
          KRAFLA_UNARY_FORMULA(Acos, std::acos(x), 2),
          KRAFLA_UNARY_FORMULA(Asinh, std::asinh(x), 3),
          KRAFLA_UNARY_FORMULA(Acosh, std::acosh(x), 3),
          KRAFLA_UNARY_FORMULA(Atanh, std::atanh(x), 3),
          KRAFLA_UNARY_FORMULA(Cbrt, std::cbrt(x), 1),
          KRAFLA_UNARY_FORMULA(Erf, std::erf(x), 3),
          KRAFLA_UNARY_FORMULA(Rsqrt, 1 / std::sqrt(x), 1),
          KRAFLA_UNARY_FORMULA(Sqrt, std::sqrt(x), 0.5),
          KRAFLA_UNARY_FORMULA(Sign,
                               (x > 0   ? 1
                                : x < 0 ? -1
                                        : x),
                               0),
          KRAFLA_UNARY_FORMULA(Floor, std::floor(x), 0),
          KRAFLA_UNARY_FORMULA(Ceil, std::ceil(x), 0),
          KRAFLA_UNARY_FORMULA(Trunc, std::trunc(x), 0),
          KRAFLA_UNARY_FORMULA(RoundNearestEven, std::nearbyint(x), 0),
          KRAFLA_UNARY_FORMULA(RoundNearestAfz, std::round(x), 0)};
}
inline std::vector<BinaryFormula> BinaryFormulas() {
  return {KRAFLA_BINARY_FORMULA(Pow, std::pow(x, y), 1), KRAFLA_BINARY_FORMULA(Atan2, std::atan2(x, y), 1),
          KRAFLA_BINARY_FORMULA(Remainder, std::fmod(x, y), 0)};
}

inline bool IsSubnormal(float x) { return x != 0 && std::abs(x) < 0x1p-126f; }

// The distance of `got` from the truth in ULP of the truth. A subnormal truth allows anything from zero to the smallest
// normal number of its sign; inf stands for 2^128. 1e30: wrong altogether.
inline double UlpError(float got, double truth) {
  constexpr double kWrong = 1e30;
  if (truth != truth) return got != got ? 0 : kWrong;
  if (got != got) return kWrong;
  if (truth == 0) return got == 0 && std::signbit(got) == std::signbit(truth) ? 0 : kWrong;
  if (std::signbit(got) != std::signbit(truth)) return kWrong;
  const double size = std::abs(truth);
  if (size < 0x1p-126) return std::abs(got) <= 0x1p-126f ? 0 : kWrong;
  if (size >= 0x1p128) return std::isinf(got) ? 0 : (0x1p128 - std::abs(static_cast<double>(got))) * 0x1p-104;
  const double ulp = std::ldexp(1.0, std::ilogb(size) - 23);
  const double value = std::isinf(got) ? 0x1p128 : std::abs(static_cast<double>(got));
  return std::abs(value - size) / ulp;
}

}  // namespace krafla
