// SPDX-License-Identifier: Apache-2.0
// Every operation made through the builder: the module is verified, printed, read again, run on the CPU and by the
// evaluator, and its values are compared with known ones.
#include <cmath>
#include <iostream>
#include <set>

#include "cases.h"
#include "evaluator/evaluator.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "ir/module.h"
#include "ir/verifier.h"
#include "krafla/status.h"
#include "numerics/formats.h"

namespace krafla::testing {
namespace {

double Number(const Literal& literal, std::size_t i) {
  switch (literal.shape().element_type()) {
    case ElementType::kPred: return literal.data<uint8_t>()[i];
    case ElementType::kS8: return literal.data<int8_t>()[i];
    case ElementType::kS16: return literal.data<int16_t>()[i];
    case ElementType::kS32: return literal.data<int32_t>()[i];
    case ElementType::kS64: return static_cast<double>(literal.data<int64_t>()[i]);
    case ElementType::kU8: return literal.data<uint8_t>()[i];
    case ElementType::kU16: return literal.data<uint16_t>()[i];
    case ElementType::kU32: return literal.data<uint32_t>()[i];
    case ElementType::kU64: return static_cast<double>(literal.data<uint64_t>()[i]);
    case ElementType::kF32: return literal.data<float>()[i];
    case ElementType::kF64: return literal.data<double>()[i];
    case ElementType::kF16: return DecodeMiniFloat(literal.data<uint16_t>()[i], kF16Format);
    case ElementType::kBF16: return DecodeMiniFloat(literal.data<uint16_t>()[i], kBF16Format);
    case ElementType::kF8E4M3FN: return DecodeMiniFloat(literal.data<uint8_t>()[i], kF8E4M3FNFormat);
    case ElementType::kF8E5M2: return DecodeMiniFloat(literal.data<uint8_t>()[i], kF8E5M2Format);
    case ElementType::kF8E8M0FNU: return DecodeMiniFloat(literal.data<uint8_t>()[i], kF8E8M0FNUFormat);
    case ElementType::kC64:
    case ElementType::kC128:
    case ElementType::kInvalid:
    case ElementType::kTuple:
    case ElementType::kOpaque:
    case ElementType::kToken:
    case ElementType::kF8E4M3B11FNUZ:
    case ElementType::kF8E5M2FNUZ:
    case ElementType::kF8E4M3FNUZ:
    case ElementType::kF8E4M3:
    case ElementType::kF8E3M4:
    case ElementType::kF4E2M1FN:
    case ElementType::kS1:
    case ElementType::kS2:
    case ElementType::kS4:
    case ElementType::kU1:
    case ElementType::kU2:
    case ElementType::kU4: break;
  }
  ADD_FAILURE() << "no number of type " << ElementTypeName(literal.shape().element_type());
  return NAN;
}

}  // namespace

std::vector<double> Numbers(const Literal& literal) {
  std::vector<double> out;
  for (const Literal* leaf : literal.ArrayLeaves()) {
    if (leaf->shape().element_type() == C64) {
      for (std::complex<float> z : leaf->data<std::complex<float>>()) {
        out.push_back(z.real());
        out.push_back(z.imag());
      }
      continue;
    }
    auto count = static_cast<std::size_t>(leaf->shape().element_count());
    for (std::size_t i = 0; i < count; ++i) out.push_back(Number(*leaf, i));
  }
  return out;
}

namespace {

// Opcodes that any case made, for the last test.
std::set<Opcode>& Seen() {
  static auto* seen = new std::set<Opcode>;
  return *seen;
}

void ExpectNumbers(const char* who, const std::vector<double>& got, const OpCase& c) {
  ASSERT_EQ(got.size(), c.expected.size()) << who;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(c.expected[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << who << ", element " << i << ": " << got[i];
    } else if (std::isinf(c.expected[i])) {
      EXPECT_EQ(got[i], c.expected[i]) << who << ", element " << i;
    } else {
      EXPECT_NEAR(got[i], c.expected[i], c.tolerance * std::max(1.0, std::abs(c.expected[i])))
          << who << ", element " << i;
    }
  }
}

void Check(const OpCase& c) {
  SCOPED_TRACE(c.name);
  Program p;
  c.build(p);
  auto built = p.builder().Build();
  ASSERT_TRUE(built.has_value()) << built.error().ToString();
  for (const auto& computation : built->module()->computations())
    for (const auto& i : computation->instructions()) Seen().insert(i->opcode());

  std::string text = ToHloText(*built);
  auto again = ParseHloText(text);
  ASSERT_TRUE(again.has_value()) << again.error().ToString() << "\n" << text;
  auto verified = Verify(**again);
  ASSERT_TRUE(verified.has_value()) << verified.error().ToString() << "\n" << text;
  EXPECT_EQ(PrintModule(**again), text);

  if (c.check == OpCase::kBuildOnly) return;
  std::vector<const Literal*> arguments;
  for (const Literal& a : p.arguments()) arguments.push_back(&a);
  auto reference = Evaluate(*built->module()->entry(), arguments);
  ASSERT_TRUE(reference.has_value()) << reference.error().ToString() << "\n" << text;
  static auto client = LocalClient::Create("cpu");
  ASSERT_TRUE(client.has_value());
  auto executable = client->Compile(*built);
  ASSERT_TRUE(executable.has_value()) << executable.error().ToString() << "\n" << text;
  auto result = executable->Run(std::span<const Literal* const>(arguments));
  ASSERT_TRUE(result.has_value()) << result.error().ToString() << "\n" << text;
  std::vector<double> evaluator = Numbers(*reference), cpu = Numbers(*result);
  if (c.check == OpCase::kSize) {
    EXPECT_EQ(cpu.size(), evaluator.size());
    return;
  }
  ExpectNumbers("evaluator", evaluator, c);
  ExpectNumbers("cpu", cpu, c);
}

TEST(BuilderOps, Elementwise) {
  for (const OpCase& c : ElementwiseCases()) Check(c);
}
TEST(BuilderOps, Formulas) {
  for (const OpCase& c : FormulaCases()) Check(c);
}
TEST(BuilderOps, Movement) {
  for (const OpCase& c : MovementCases()) Check(c);
}
TEST(BuilderOps, Compute) {
  for (const OpCase& c : ComputeCases()) Check(c);
}
TEST(BuilderOps, Control) {
  for (const OpCase& c : ControlCases()) Check(c);
}

// A view of the table: an opcode without a call of the builder fails here. Runs after the others of this suite.
TEST(BuilderOps, ReachEveryOpcode) {
  if (Seen().empty()) GTEST_SKIP() << "the other tests of the suite did not run";
  for (const OpInfo& op : AllOps()) EXPECT_TRUE(Seen().contains(op.opcode)) << op.name << " is in no case";
}

}  // namespace
}  // namespace krafla::testing
