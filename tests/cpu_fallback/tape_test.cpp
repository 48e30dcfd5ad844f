// SPDX-License-Identifier: Apache-2.0
// Ops on single values against the loops over blocks, over values where they could differ.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/run_limit.h"
#include "cpu_fallback/executor/tape.h"
#include "cpu_fallback/kernels/tape_op.h"
#include "kernel_fixture.h"

namespace krafla {
namespace {

using cpu::BlockKey;
using plan::NodeOp;

template <class T>
uint64_t BitsOfValue(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  return bits;
}

template <class T>
std::vector<uint64_t> NumbersOf() {
  using Limits = std::numeric_limits<T>;
  std::vector<uint64_t> out;
  for (T v : {T(0), T(1), T(2), T(3), T(7), T(31), T(32), T(63), T(64), T(100), static_cast<T>(-1), static_cast<T>(-2),
              static_cast<T>(-100), Limits::max(), Limits::lowest()})
    out.push_back(BitsOfValue(v));
  if constexpr (!Limits::is_integer) {
    for (T v :
         {T(-0.0), T(0.5), T(-1.5), Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), Limits::denorm_min()})
      out.push_back(BitsOfValue(v));
  }
  return out;
}
std::vector<uint64_t> ValuesOf(ElementType type) {
  if (type == ElementType::kPred) return {0, 1};
  if (type == ElementType::kS32) return NumbersOf<int32_t>();
  if (type == ElementType::kU32) return NumbersOf<uint32_t>();
  if (type == ElementType::kS64) return NumbersOf<int64_t>();
  if (type == ElementType::kU64) return NumbersOf<uint64_t>();
  if (type == ElementType::kF32) return NumbersOf<float>();
  return NumbersOf<double>();
}

// Runs both on each combination of values; how many there were.
int Compare(const BlockKey& key, std::span<const ElementType> operands) {
  const cpu::TapeOp::Fn single = cpu::FindScalarOp(key);
  if (single == nullptr) return 0;
  const cpu::BlockFn block = cpu::FindBlockFn(key);
  EXPECT_NE(block, nullptr);
  if (block == nullptr) return 0;
  ThreadPool pool(1);
  cpu::TapeRun run{.pool = pool, .scratch = nullptr, .limit = kUnlimited};
  int count = 0;
  std::array<uint64_t, 3> in = {};
  auto each = [&](auto& self, std::size_t i) -> void {
    if (i < operands.size()) {
      for (uint64_t v : ValuesOf(operands[i])) in[i] = v, self(self, i + 1);
      return;
    }
    uint64_t expected = 0, got = 0;
    block({&expected, {&in[0], &in[1], &in[2]}, 1, 0});
    std::array<cpu::TapeOp, 2> tape;
    tape[0] = {.run = single, .out = reinterpret_cast<std::byte*>(&got)};
    tape[1].run = [](const cpu::TapeOp*, cpu::TapeRun&) -> const cpu::TapeOp* { return nullptr; };
    for (std::size_t k = 0; k < 3; ++k) tape[0].in[k] = reinterpret_cast<const std::byte*>(&in[k]);
    tape[0].run(tape.data(), run);
    ++count;
    const bool is_nan = IsFloat(key.type) &&
                        (key.type == ElementType::kF32
                             ? std::isnan(std::bit_cast<float>(static_cast<uint32_t>(expected))) &&
                                   std::isnan(std::bit_cast<float>(static_cast<uint32_t>(got)))
                             : std::isnan(std::bit_cast<double>(expected)) && std::isnan(std::bit_cast<double>(got)));
    if (!is_nan) {
      EXPECT_EQ(got, expected) << OpcodeName(key.opcode) << " of " << ElementTypeName(key.operand) << " to "
                               << ElementTypeName(key.type) << ": " << in[0] << ", " << in[1] << ", " << in[2];
    }
  };
  each(each, 0);
  return count;
}

constexpr ElementType kTypes[] = {ElementType::kPred, ElementType::kS32, ElementType::kU32, ElementType::kS64,
                                  ElementType::kU64,  ElementType::kF32, ElementType::kF64};

TEST(ScalarOp, ArithmeticIsThatOfBlocks) {
  constexpr Opcode kUnaries[] = {Opcode::kNegate, Opcode::kAbs, Opcode::kNot};
  constexpr Opcode kBinaries[] = {Opcode::kAdd,
                                  Opcode::kSubtract,
                                  Opcode::kMultiply,
                                  Opcode::kDivide,
                                  Opcode::kRemainder,
                                  Opcode::kMaximum,
                                  Opcode::kMinimum,
                                  Opcode::kAnd,
                                  Opcode::kOr,
                                  Opcode::kXor,
                                  Opcode::kShiftLeft,
                                  Opcode::kShiftRightLogical,
                                  Opcode::kShiftRightArithmetic};
  int count = 0;
  for (ElementType t : kTypes) {
    for (Opcode o : kUnaries) count += Compare({.opcode = o, .type = t, .operand = t}, std::array{t});
    for (Opcode o : kBinaries) count += Compare({.opcode = o, .type = t, .operand = t}, std::array{t, t});
    if (t != ElementType::kPred)
      count += Compare({.opcode = Opcode::kClamp, .type = t, .operand = t}, std::array{t, t, t});
    count += Compare({.opcode = Opcode::kSelect, .type = t, .operand = t}, std::array{ElementType::kPred, t, t});
  }
  EXPECT_GT(count, 20000);
}

TEST(ScalarOp, ComparisonsAndConversionsAreThoseOfBlocks) {
  int count = 0;
  for (ElementType t : kTypes) {
    for (ComparisonDirection d : {ComparisonDirection::kEq, ComparisonDirection::kNe, ComparisonDirection::kGe,
                                  ComparisonDirection::kGt, ComparisonDirection::kLe, ComparisonDirection::kLt})
      count +=
          Compare({.op = NodeOp::kCompare, .type = ElementType::kPred, .operand = t, .direction = d}, std::array{t, t});
    for (ElementType to : kTypes) count += Compare({.op = NodeOp::kConvert, .type = to, .operand = t}, std::array{t});
  }
  EXPECT_GT(count, 5000);
}

TEST(SmallOp, ArraysAreThoseOfBlocks) {
  ThreadPool pool(1);
  cpu::TapeRun run{.pool = pool, .scratch = nullptr, .limit = kUnlimited};
  std::array<cpu::TapeOp, 2> tape;
  tape[1].run = [](const cpu::TapeOp*, cpu::TapeRun&) -> const cpu::TapeOp* { return nullptr; };
  int count = 0;
  for (ElementType t : kTypes) {
    const std::vector<uint64_t> values = ValuesOf(t);
    const auto width = static_cast<std::size_t>(StorageBytes(t));
    for (Opcode o : {Opcode::kAdd, Opcode::kSubtract, Opcode::kMultiply, Opcode::kDivide, Opcode::kAnd, Opcode::kOr,
                     Opcode::kXor}) {
      for (unsigned uniform : {0u, 1u, 2u}) {
        const BlockKey key{.opcode = o, .type = t, .operand = t, .uniform = uniform};
        const cpu::TapeOp::Fn small = cpu::FindSmallOp(key);
        if (small == nullptr) continue;
        const cpu::BlockFn block = cpu::FindBlockFn(key);
        for (std::size_t n = 1; n * width <= static_cast<std::size_t>(cpu::kSmallBytes); ++n) {
          std::array<std::byte, 80> a{}, b{}, expected{}, got{};
          for (std::size_t i = 0; i < n; ++i) {
            std::memcpy(a.data() + i * width, &values[(i + n) % values.size()], width);
            std::memcpy(b.data() + i * width, &values[(i * 5 + n) % values.size()], width);
          }
          block({expected.data(), {a.data(), b.data(), nullptr}, static_cast<int64_t>(n), 0});
          tape[0] = {
              .run = small, .out = got.data(), .in = {a.data(), b.data(), nullptr}, .n = static_cast<int64_t>(n)};
          tape[0].run(tape.data(), run);
          ++count;
          if (!IsFloat(t)) {
            EXPECT_EQ(got, expected) << OpcodeName(o) << " of " << n << " " << ElementTypeName(t);
            continue;
          }
          for (std::size_t i = 0; i < got.size() / width; ++i)
            EXPECT_TRUE(SameElement(t, got.data(), expected.data(), static_cast<int64_t>(i)))
                << OpcodeName(o) << " of " << n;
        }
      }
    }
  }
  EXPECT_GT(count, 500);
}

// A loop of many turns needs no stack.
TEST(Tape, LongLoopsComeToTheirEnd) {
  plan::ProgramPlan program;
  constexpr int64_t kTurns = 3'000'000;
  program.allocations.push_back({.kind = plan::Allocation::Kind::kArena, .size = 64});
  plan::WhileStep loop;
  loop.trip_count = kTurns;
  loop.body = std::make_unique<plan::StepList>();
  for (int64_t k = 0; k < 4; ++k) loop.body->steps.push_back(plan::CopyStep{{0, 8 * k, 8}, {0, 8 * (k + 1), 8}});
  cpu::TapeBuilder builder(program);
  ASSERT_TRUE(builder.AddLoop(loop, {}));
  cpu::Tape tape = std::move(builder).Finish();
  ThreadPool pool(1);
  cpu::TapeRun run{.pool = pool, .scratch = nullptr, .limit = kUnlimited};
  std::array<uint64_t, 8> memory = {42};
  std::byte* base = reinterpret_cast<std::byte*>(memory.data());
  ASSERT_TRUE(tape.Run({&base, 1}, run));
  EXPECT_EQ(memory[4], 42u);
  EXPECT_EQ(run.turns, static_cast<uint64_t>(kTurns));
}

}  // namespace
}  // namespace krafla
