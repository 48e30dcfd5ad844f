// SPDX-License-Identifier: Apache-2.0
#include "accuracy_truth.h"

#include <cmath>

#include "krafla/status.h"

namespace krafla::accuracy {
namespace {

// One expression of x (and y) for both precisions.
#define KRAFLA_TRUTH(Op, budget, double_budget, expression)                           \
  Truth {                                                                             \
    Opcode::Op, budget, double_budget, [](double x) -> double { return expression; }, \
        [](long double x) -> long double { return expression; }, nullptr, nullptr     \
  }
#define KRAFLA_TRUTH_OF_TWO(Op, budget, double_budget, expression)                                                \
  Truth {                                                                                                         \
    Opcode::Op, budget, double_budget, nullptr, nullptr, [](double x, double y) -> double { return expression; }, \
        [](long double x, long double y) -> long double { return expression; }                                    \
  }

constexpr Truth kTruths[] = {
    KRAFLA_TRUTH(kAcos, -1, 1, std::acos(x)),
    KRAFLA_TRUTH(kAcosh, -1, 3, std::acosh(x)),
    KRAFLA_TRUTH(kAsin, -1, 1, std::asin(x)),
    KRAFLA_TRUTH(kAsinh, -1, 2, std::asinh(x)),
    KRAFLA_TRUTH(kAtanh, -1, 3, std::atanh(x)),
    KRAFLA_TRUTH(kCbrt, -1, 1, std::cbrt(x)),
    KRAFLA_TRUTH(kCeil, 0, 0, std::ceil(x)),
    KRAFLA_TRUTH(kCos, -1, 1, std::cos(x)),
    KRAFLA_TRUTH(kCosh, -1, 2, std::cosh(x)),
    KRAFLA_TRUTH(kErf, -1, 2, std::erf(x)),
    KRAFLA_TRUTH(kExp, -1, 1, std::exp(x)),
    KRAFLA_TRUTH(kExpm1, -1, 2, std::expm1(x)),
    KRAFLA_TRUTH(kFloor, 0, 0, std::floor(x)),
    KRAFLA_TRUTH(kLog, -1, 1, std::log(x)),
    KRAFLA_TRUTH(kLog1p, -1, 1, std::log1p(x)),
    KRAFLA_TRUTH(kLogistic, -1, 3, 1 / (1 + std::exp(-x))),
    KRAFLA_TRUTH(kRoundNearestAfz, 0, 0, std::round(x)),
    KRAFLA_TRUTH(kRoundNearestEven, 0, 0, std::nearbyint(x)),
    KRAFLA_TRUTH(kRsqrt, -1, 2, 1 / std::sqrt(x)),
    KRAFLA_TRUTH(kSign, 0, 0,
                 (x > 0   ? 1
                  : x < 0 ? -1
                          : x)),
    KRAFLA_TRUTH(kSin, -1, 1, std::sin(x)),
    KRAFLA_TRUTH(kSinh, -1, 3, std::sinh(x)),
    KRAFLA_TRUTH(kSqrt, 0.5, 0.5, std::sqrt(x)),
    KRAFLA_TRUTH(kTan, -1, 2, std::tan(x)),
    KRAFLA_TRUTH(kTanh, -1, 3, std::tanh(x)),
    KRAFLA_TRUTH_OF_TWO(kAtan2, -1, 1, std::atan2(x, y)),
    KRAFLA_TRUTH_OF_TWO(kPower, -1, 2, std::pow(x, y)),
    KRAFLA_TRUTH_OF_TWO(kRemainder, 0, 0, std::fmod(x, y)),
};

constexpr const Truth* Find(Opcode opcode) {
  for (const Truth& t : kTruths)
    if (t.opcode == opcode) return &t;
  return nullptr;
}

// What a formula should give is written here, and nowhere else in the tests.
#define KRAFLA_FORMULA(Enum, Function, cost, hlo, ...) \
  static_assert(Find(Opcode::Enum) != nullptr, "accuracy_truth.cpp does not say what " hlo " should give");
#include "ir/ops.def"

}  // namespace

const Truth* FindTruth(Opcode opcode) { return Find(opcode); }
const Truth& TruthOf(Opcode opcode) {
  const Truth* truth = Find(opcode);
  KRAFLA_CHECK(truth != nullptr);
  return *truth;
}

}  // namespace krafla::accuracy
