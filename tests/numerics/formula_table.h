// SPDX-License-Identifier: Apache-2.0
// Test only: every f32 formula of ops.def with its truth in double and its accuracy budget.
#pragma once

#include <cmath>
#include <vector>

#include "accuracy_truth.h"
#include "ir/opcode.h"
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

namespace formula_table {
inline double Budget(const accuracy::Truth& truth) {
  return truth.budget < 0 ? GetOpInfo(truth.opcode).ulp : truth.budget;
}
}  // namespace formula_table

#define KRAFLA_UNARY(Enum, Function)                                                                          \
  UnaryFormula {                                                                                              \
    #Function, [](float x) { return Function(ScalarOps{}, x); },                                              \
        [](const TestOps& o, TestOps::F x) { return Function(o, x); }, accuracy::TruthOf(Opcode::Enum).unary, \
        formula_table::Budget(accuracy::TruthOf(Opcode::Enum))                                                \
  }
#define KRAFLA_BINARY(Enum, Function)                                                                  \
  BinaryFormula {                                                                                      \
    #Function, [](float x, float y) { return Function(ScalarOps{}, x, y); },                           \
        [](const TestOps& o, TestOps::F x, TestOps::F y) { return Function(o, x, y); },                \
        accuracy::TruthOf(Opcode::Enum).binary, formula_table::Budget(accuracy::TruthOf(Opcode::Enum)) \
  }
// By the number of operands.
#define KRAFLA_UNARY_OF_1(...) KRAFLA_UNARY(__VA_ARGS__),
#define KRAFLA_UNARY_OF_2(...)
#define KRAFLA_BINARY_OF_1(...)
#define KRAFLA_BINARY_OF_2(...) KRAFLA_BINARY(__VA_ARGS__),

inline std::vector<UnaryFormula> UnaryFormulas() {
  return {
#define KRAFLA_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) KRAFLA_UNARY_OF_##arity(Enum, Function)
#include "ir/ops.def"
      KRAFLA_UNARY(kSign, Sign),
      KRAFLA_UNARY(kFloor, Floor),
      KRAFLA_UNARY(kCeil, Ceil),
      KRAFLA_UNARY(kRoundNearestEven, RoundNearestEven),
      KRAFLA_UNARY(kRoundNearestAfz, RoundNearestAfz),
      UnaryFormula{"Trunc", [](float x) { return Trunc(ScalarOps{}, x); },
                   [](const TestOps& o, TestOps::F x) { return Trunc(o, x); },
                   [](double x) -> double { return std::trunc(x); }, 0},
  };
}
inline std::vector<BinaryFormula> BinaryFormulas() {
  return {
#define KRAFLA_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) KRAFLA_BINARY_OF_##arity(Enum, Function)
#include "ir/ops.def"
      KRAFLA_BINARY(kRemainder, Remainder),
  };
}
#undef KRAFLA_UNARY
#undef KRAFLA_BINARY
#undef KRAFLA_UNARY_OF_1
#undef KRAFLA_UNARY_OF_2
#undef KRAFLA_BINARY_OF_1
#undef KRAFLA_BINARY_OF_2

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
