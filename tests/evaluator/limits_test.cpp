// SPDX-License-Identifier: Apache-2.0
// A run's limit reaches into the evaluator's loops, and memory is refused before it is taken. What is counted is work:
// of arrays that would be written whole, all but the first pieces keep what they held before.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/host_memory.h"
#include "base/interruption.h"
#include "evaluator/block_op.h"
#include "evaluator/evaluator.h"
#include "evaluator/gemm.h"
#include "evaluator/strided.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "ir/verifier.h"

namespace krafla {
namespace {

using namespace evaluator;
using std::chrono_literals::operator""ms;

const RunLimit kPast{.deadline = RunLimit::Clock::now() - 1ms};
constexpr int64_t kMany = 8 * InterruptionPoll::kPiece;

std::byte* BytesOf(std::vector<float>& v) { return reinterpret_cast<std::byte*>(v.data()); }

// Calls fill(to) under a limit that has passed, and gives how much of `to` it wrote.
template <class Fill>
int64_t Written(Fill&& fill) {
  std::vector<float> to(kMany, -1);
  const LimitedWork work(kPast);
  fill(to);
  EXPECT_FALSE(work.Outcome().has_value());
  return std::ranges::count_if(to, [](float x) { return x != -1; });
}

TEST(EvaluatorLimits, LoopsAreLeftAfterAPiece) {
  const std::vector<float> from(kMany, 1);
  const auto* in = reinterpret_cast<const std::byte*>(from.data());
  EXPECT_LE(Written([&](auto& to) { CopyView(Dims{kMany}, 4, in, {0, Dims{1}}, BytesOf(to), {0, Dims{1}}); }),
            InterruptionPoll::kPiece);
  // Rows, and a transposition.
  EXPECT_LE(
      Written([&](auto& to) { CopyView(Dims{kMany / 8, 4}, 4, in, {0, Dims{8, 1}}, BytesOf(to), {0, Dims{4, 1}}); }),
      InterruptionPoll::kPiece);
  EXPECT_LE(Written([&](auto& to) {
              CopyView(Dims{1024, 1024}, 4, in, {0, Dims{1, 1024}}, BytesOf(to), {0, Dims{1024, 1}});
            }),
            InterruptionPoll::kPiece);
  EXPECT_LE(Written([&](auto& to) { FillElements(BytesOf(to), kMany, 4, in); }), InterruptionPoll::kPiece);
  const BlockOp negate = *MakeBlockOp(Opcode::kAbs, ElementType::kF32, ElementType::kF32);
  EXPECT_LE(Written([&](auto& to) {
              const void* operands[] = {in};
              negate.Run(operands, to.data(), kMany);
            }),
            InterruptionPoll::kPiece);
  const std::vector<double> wide(kMany, 2);
  EXPECT_LE(Written([&](auto& to) {
              FromAccumulator(reinterpret_cast<const std::byte*>(wide.data()), ElementType::kF64, BytesOf(to),
                              ElementType::kF32, kMany);
            }),
            InterruptionPoll::kPiece);
  // A product of 512 x 512 x 512 over blocks of 64 x 256 x 128.
  std::vector<int64_t> rows(512), columns(512);
  for (int64_t k = 0; k < 512; ++k)
    rows[static_cast<std::size_t>(k)] = 512 * k, columns[static_cast<std::size_t>(k)] = k;
  const auto product = [&](std::vector<double>& sums) {
    Gemm gemm{.lhs = in,
              .rhs = in,
              .lhs_type = ElementType::kF32,
              .rhs_type = ElementType::kF32,
              .accumulator = ElementType::kF64,
              .lhs_m = rows,
              .lhs_k = columns,
              .rhs_k = rows,
              .rhs_n = columns};
    gemm.Run(reinterpret_cast<std::byte*>(sums.data()));
    return std::ranges::count_if(sums, [](double x) { return x != 0; });
  };
  std::vector<double> sums(512 * 512, 0);
  {
    const LimitedWork work(kPast);
    EXPECT_LE(product(sums), 64 * 256);
  }
  // Without a limit all of it is done.
  EXPECT_EQ(product(sums), 512 * 512);
}

Result<Literal> EvaluateText(const std::string& text) {
  auto module = ParseHloText(text, "limits");
  if (!module) return Failure(module.error());
  KRAFLA_TRY(Verify(**module));
  return Evaluate(*(*module)->entry(), {});
}

// Each would take days.
TEST(EvaluatorLimits, EndlessWorkEndsByDeadline) {
  const std::string add =
      "HloModule m\nadd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b) }\n";
  for (const char* entry : {
           // 2^40 places between the elements, each of which a tap looks at.
           "ENTRY e { x = f32[1025] iota(), iota_dimension=0\n z = f32[] constant(0)\n"
           "ROOT r = f32[1] reduce-window(x, z), window={size=1099511627777 lhs_dilate=1073741824}, to_apply=add }",
           "ENTRY e { z = f32[] constant(0)\n ROOT l = f32[] while(z), condition=forever, body=same }",
       }) {
    std::string text = add;
    text +=
        "forever { p = f32[] parameter(0)\n ROOT t = pred[] constant(true) }\nsame { ROOT p = f32[] parameter(0) }\n";
    const RunLimit limit{.deadline = RunLimit::Clock::now() + 20ms};
    const LimitedWork work(limit);
    const auto late = EvaluateText(text + entry);
    ASSERT_FALSE(late.has_value()) << entry;
    EXPECT_EQ(late.error().code(), StatusCode::kDeadlineExceeded) << late.error().ToString();
  }
}

// A window that is larger than its operand: only taps that can be inside are looked at, so no limit is needed.
TEST(EvaluatorLimits, TapsOutsideAreNotWalked) {
  const std::string add =
      "HloModule m\nadd { a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT r = s32[] add(a, b) }\n";
  const auto sums = EvaluateText(
      add +
      "ENTRY e { x = s32[4] iota(), iota_dimension=0\n z = s32[] constant(0)\n"
      "ROOT r = s32[3] reduce-window(x, z), window={size=1099511627776 pad=1099511627774_0}, to_apply=add }");
  ASSERT_TRUE(sums.has_value()) << sums.error().ToString();
  EXPECT_EQ(std::vector<int32_t>(sums->data<int32_t>().begin(), sums->data<int32_t>().end()),
            (std::vector<int32_t>{1, 3, 6}));
  // Strides and dilations: only every third place of the operand's is a number, every fifth tap's place is looked at.
  const auto spread =
      EvaluateText(add +
                   "ENTRY e { x = s32[4] iota(), iota_dimension=0\n z = s32[] constant(0)\n ROOT r = s32[4] "
                   "reduce-window(x, z), window={size=1000000000 stride=3 pad=4999999990_6 lhs_dilate=3 "
                   "rhs_dilate=5}, to_apply=add }");
  ASSERT_TRUE(spread.has_value()) << spread.error().ToString();
  // Places 0, 3, 6 and 9 hold 0 to 3; the last taps of window p are on 3 p + 5, 3 p, 3 p - 5.
  EXPECT_EQ(std::vector<int32_t>(spread->data<int32_t>().begin(), spread->data<int32_t>().end()),
            (std::vector<int32_t>{0, 1, 2, 3}));
}

TEST(EvaluatorLimits, MemoryBesidesTheResultIsRefusedFirst) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "The sanitizer writes to its shadow of every block.";
#endif
  // The numbers are made in eight bytes each and kept in two.
  const uint64_t n = HostMemoryLimit() / 9;
  if (!HostHasRoom(2 * n)) GTEST_SKIP() << "The machine has no ninth of its memory left.";
  const auto out =
      EvaluateText(Format("HloModule m\nENTRY e {{ a = f16[] constant(0)\n b = f16[] constant(1)\n"
                          "ROOT r = f16[{}] rng(a, b), distribution=rng_uniform }}",
                          n));
  ASSERT_FALSE(out.has_value());
  EXPECT_EQ(out.error().code(), StatusCode::kResourceExhausted) << out.error().ToString();
  EXPECT_NE(out.error().message().find("besides its operands and its result"), std::string::npos)
      << out.error().ToString();
}

}  // namespace
}  // namespace krafla
