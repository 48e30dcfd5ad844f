// SPDX-License-Identifier: Apache-2.0
// A call of every formula of ops.def, and what the C library gives.
#include "accuracy_truth.h"
#include "cases.h"

namespace krafla::testing {
namespace {

// In the domain of every formula but acosh is the first, and of acosh the second.
constexpr float kFirst = 0.25F, kSecond = 2;

std::vector<double> Expected(Opcode opcode) {
  const accuracy::Truth& truth = accuracy::TruthOf(opcode);
  if (truth.unary != nullptr) return {truth.unary(kFirst), truth.unary(kSecond)};
  return {truth.binary(kFirst, kSecond), truth.binary(kSecond, kFirst)};
}

}  // namespace

std::vector<OpCase> FormulaCases() {
  constexpr double kFew = 4e-7;  // a few units in the last place of f32
  return {
#define KRAFLA_ARGUMENTS_1 p.F({kFirst, kSecond})
#define KRAFLA_ARGUMENTS_2 p.F({kFirst, kSecond}), p.F({kSecond, kFirst})
#define KRAFLA_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) \
  {#Function, [](Program& p) { Function(KRAFLA_ARGUMENTS_##arity); }, Expected(Opcode::Enum), kFew},
#include "ir/ops.def"
#undef KRAFLA_ARGUMENTS_1
#undef KRAFLA_ARGUMENTS_2
  };
}

}  // namespace krafla::testing
