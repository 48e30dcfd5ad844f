// SPDX-License-Identifier: Apache-2.0
// What new_op_test.py links with the operation that it has added: softsign, by the builder, as HLO text and as
// StableHLO text, gives the evaluator's bits on every device that is named, wholly run by the device, and is the
// function that it should be. Not part of the build: there is no softsign in this tree.
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "evaluator/evaluator.h"
#include "ir/module.h"
#include "ir/opcode.h"
#include "krafla/krafla.hpp"

namespace {

using namespace krafla;  // NOLINT: a program

int failures = 0;
void Fail(const std::string& what) {
  std::printf("FAILED: %s\n", what.c_str());
  ++failures;
}
template <class T>
T Take(Result<T> result, const std::string& what) {
  if (result) return std::move(*result);
  Fail(what + ": " + result.error().ToString());
  std::exit(1);
}

// Numbers of every exponent that f16 has, both signs; infinities and NaN.
std::vector<double> Values() {
  std::vector<double> out = {0.0, -0.0, 1.0, -1.0, HUGE_VAL, -HUGE_VAL, NAN};
  for (int exponent = -14; exponent <= 15; ++exponent)
    for (double m = 1; m < 2; m += 1.0 / 64) out.insert(out.end(), {std::ldexp(m, exponent), -std::ldexp(m, exponent)});
  return out;
}
Literal Argument(ElementType type) {
  const std::vector<double> values = Values();
  const auto count = static_cast<int64_t>(values.size());
  Literal wide = Take(LiteralUtil::CreateFromArray<double>(values, {count}), "the argument");
  XlaBuilder b("narrow");
  ConvertElementType(Parameter(&b, 0, wide.shape(), "x"), type);
  XlaComputation narrow = Take(b.Build(), "the conversion");
  const Literal* arguments[] = {&wide};
  return Take(Evaluate(*narrow.module()->entry(), arguments), "the conversion");
}

std::vector<XlaComputation> Programs(const Literal& x) {
  XlaBuilder b("built");
  Softsign(Parameter(&b, 0, x.shape(), "x"));
  std::vector<XlaComputation> out = {Take(b.Build(), "the builder")};
  out.push_back(Take(LoadHlo(ToHloText(out[0])), "HLO text"));
  const std::string type(ElementTypeName(x.shape().element_type())), size = std::to_string(x.shape().dim(0));
  const std::string tensor = "tensor<" + size + "x" + type + ">";
  out.push_back(Take(LoadHlo("func.func public @main(%x: " + tensor + ") -> " + tensor +
                             " {\n  %0 = stablehlo.softsign %x : " + tensor + "\n  return %0 : " + tensor + "\n}\n"),
                     "StableHLO text"));
  return out;
}

void CheckTruth(const Literal& x, const Literal& got) {
  const std::span<const double> arguments = x.data<double>(), results = got.data<double>();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const double a = arguments[i], truth = std::isinf(a) ? std::copysign(1, a) : a / (1 + std::fabs(a));
    const bool is_right = std::isnan(truth) ? std::isnan(results[i])
                                            : std::fabs(results[i] - truth) <= 4e-16 * std::fabs(truth) &&
                                                  std::signbit(results[i]) == std::signbit(truth);
    if (!is_right) Fail("the evaluator: softsign of " + std::to_string(a) + " is " + std::to_string(results[i]));
  }
}

}  // namespace

int main(int argc, char** argv) {
  BuildOptions options;
  options.strict = true;
  int compared = 0;
  for (ElementType type : {ElementType::kF64, ElementType::kF32, ElementType::kF16, ElementType::kBF16}) {
    const Literal x = Argument(type);
    const Literal* arguments[] = {&x};
    const std::vector<XlaComputation> programs = Programs(x);
    const Literal want = Take(Evaluate(*programs[0].module()->entry(), arguments), "the evaluator");
    if (type == ElementType::kF64) CheckTruth(x, want);
    for (int device = 1; device < argc; ++device) {
      LocalClient client = Take(LocalClient::Create(argv[device]), argv[device]);
      for (const XlaComputation& program : programs) {
        const std::string what = std::string(argv[device]) + ", " + std::string(ElementTypeName(type));
        LocalExecutable executable = Take(client.Compile(program, options), what);
        const Literal got = Take(executable.Run(std::span<const Literal* const>(arguments)), what);
        ++compared;
        if (got.bytes().size() != want.bytes().size() ||
            std::memcmp(got.bytes().data(), want.bytes().data(), want.bytes().size()) != 0)
          Fail(what + ": other bits than the evaluator's");
      }
    }
  }
  const OpInfo& row = GetOpInfo(Opcode::kSoftsign);
  if (row.name != "softsign" || OpcodeFromName("softsign") != row.opcode) Fail("the row is not the operation's");
  std::printf("%d runs compared, %d failed\n", compared, failures);
  return failures == 0 ? 0 : 1;
}
