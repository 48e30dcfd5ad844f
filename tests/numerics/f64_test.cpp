// SPDX-License-Identifier: Apache-2.0
// The f64 formulas against the C library's long double: worst errors over samples of every exponent, and the specials.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "accuracy_truth.h"
#include "numerics/scalar_f64.h"

namespace krafla {
namespace {

constexpr double kInfinity64 = std::numeric_limits<double>::infinity();
constexpr double kWrong = 1e30;

double UlpError(double got, long double truth) {
  if (truth != truth) return got != got ? 0 : kWrong;
  if (got != got) return kWrong;
  const double nearest = static_cast<double>(truth);
  if (std::isinf(nearest) || std::isinf(got)) return got == nearest ? 0 : std::abs(nearest) > 1.79e308 ? 1 : kWrong;
  if (std::abs(truth) < 2.3e-308L)
    return static_cast<double>(std::abs(static_cast<long double>(got) - truth) / 5e-324L);
  int exponent;
  std::frexp(truth, &exponent);
  return static_cast<double>(std::abs(static_cast<long double>(got) - truth) / std::ldexp(1.0L, exponent - 53));
}

struct Function {
  std::string_view name;
  double (*mine)(double);
  long double (*truth)(long double);
  double budget;
};
std::vector<Function> Functions() {
  const auto make = [](Opcode opcode, double (*mine)(double)) {
    const accuracy::Truth& truth = accuracy::TruthOf(opcode);
    return Function{OpcodeName(opcode), mine, truth.long_unary, truth.double_budget};
  };
  return {
#define KRAFLA_UNARY_OF_1(Enum, Function) make(Opcode::Enum, scalar::Function),
#define KRAFLA_UNARY_OF_2(Enum, Function)
#define KRAFLA_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) KRAFLA_UNARY_OF_##arity(Enum, Function)
#include "ir/ops.def"
#undef KRAFLA_UNARY_OF_1
#undef KRAFLA_UNARY_OF_2
  };
}

// Plain intervals, every exponent, and every bit pattern in turn.
double Sample(std::mt19937_64& random, int kind) {
  std::uniform_real_distribution<double> unit(-1, 1);
  if (kind == 0) return unit(random);
  if (kind == 1) return 10 * unit(random);
  if (kind == 2) return 745 * unit(random);
  if (kind == 3) return std::ldexp(unit(random), static_cast<int>(random() % 45) - 30);
  if (kind == 4) return std::ldexp(unit(random), static_cast<int>(random() % 2040) - 1015);
  return std::bit_cast<double>(random());
}

TEST(F64, UnaryFormulas) {
  std::mt19937_64 random(4);
  for (const Function& f : Functions()) {
    double worst = 0, at = 0;
    for (int i = 0; i < 60000; ++i) {
      const double x = Sample(random, i % 6);
      const double error = UlpError(f.mine(x), f.truth(static_cast<long double>(x)));
      if (error > worst) worst = error, at = x;
    }
    EXPECT_LE(worst, f.budget) << f.name << " of " << at << " is " << f.mine(at);
    for (double x :
         {0.0, -0.0, kInfinity64, -kInfinity64, std::nan(""), 1.0, -1.0, 5e-324, -5e-324, 1.7976931348623157e308}) {
      const double got = f.mine(x);
      const long double truth = f.truth(static_cast<long double>(x));
      EXPECT_LE(UlpError(got, truth), f.budget) << f.name << " of " << x << " is " << got;
      if (truth == 0) { EXPECT_EQ(std::signbit(got), std::signbit(truth)) << f.name << " of " << x; }
    }
  }
}

TEST(F64, BinaryFormulas) {
  std::mt19937_64 random(5);
  double pow_worst = 0, atan_worst = 0;
  for (int i = 0; i < 200000; ++i) {
    const double x = Sample(random, i % 5), y = Sample(random, i / 5 % 4);
    const double base = i % 4 == 0 ? x : std::abs(x), exponent = i % 4 == 0 ? std::rint(y) : y;
    pow_worst =
        std::max(pow_worst, UlpError(scalar::Pow(base, exponent),
                                     std::pow(static_cast<long double>(base), static_cast<long double>(exponent))));
    atan_worst = std::max(atan_worst, UlpError(scalar::Atan2(y, x),
                                               std::atan2(static_cast<long double>(y), static_cast<long double>(x))));
    ASSERT_EQ(std::bit_cast<uint64_t>(scalar::Remainder(x, y) + 0.0), std::bit_cast<uint64_t>(std::fmod(x, y) + 0.0))
        << x << " " << y;
  }
  EXPECT_LE(pow_worst, 2);
  EXPECT_LE(atan_worst, 1);
}

TEST(F64, SpecialsOfTwo) {
  const double numbers[] = {
      0.0, -0.0,  1,      -1,     kInfinity64, -kInfinity64,       std::nan(""),      2, -2, 0.5, -0.5, 3,
      -3,  1e300, -1e300, 1e-300, 5e-324,      4503599627370497.0, 9007199254740993.0};
  auto same = [](double got, double want) {
    return (got != got && want != want) || (std::bit_cast<uint64_t>(got) == std::bit_cast<uint64_t>(want));
  };
  for (double x : numbers) {
    for (double y : numbers) {
      EXPECT_TRUE(same(scalar::Remainder(x, y), std::fmod(x, y))) << "remainder of " << x << ", " << y;
      const double power = std::pow(x, y), angle = std::atan2(x, y);
      const double got = scalar::Pow(x, y);
      EXPECT_TRUE(same(got, power) || UlpError(got, static_cast<long double>(power)) < 8)
          << x << " to the " << y << " is " << got;
      if (got == 0) { EXPECT_EQ(std::signbit(got), std::signbit(power)) << x << " to the " << y; }
      const double turned = scalar::Atan2(x, y);
      EXPECT_TRUE(same(turned, angle) || UlpError(turned, static_cast<long double>(angle)) < 2)
          << "atan2 of " << x << ", " << y << " is " << turned;
    }
  }
}

}  // namespace
}  // namespace krafla
