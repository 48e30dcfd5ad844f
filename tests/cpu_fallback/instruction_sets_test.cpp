// SPDX-License-Identifier: Apache-2.0
// Kernels by each instruction set that they are compiled for and this processor has: without this test the best one
// alone would be seen.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <bit>
#include <vector>

#include "base/subnormals.h"
#include "cpu_fallback/kernels/block_ops.h"
#include "numerics/formats.h"

namespace krafla {
namespace {

template <class Check>
void ForEachInstructionSet(const Check& check) {
  hwy::SetSupportedTargetsForTest(0);
  for (int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1) {
    const int64_t set = left & -left;
    hwy::SetSupportedTargetsForTest(set);
    check(hwy::TargetName(set));
  }
  hwy::SetSupportedTargetsForTest(0);
}

// Every f16, with infinities and NaNs, to f32 and back.
TEST(InstructionSets, WidenAndNarrowF16) {
  std::vector<uint16_t> halves(65536), back(65536), kept(65536);
  std::vector<float> floats(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  ForEachInstructionSet([&](const char* set) {
    cpu::FindWiden(ElementType::kF16)(halves.data(), floats.data(), 65536);
    cpu::FindRoundNarrow(ElementType::kF16)(floats.data(), back.data(), 65536);
    cpu::FindNarrow(ElementType::kF16)(floats.data(), kept.data(), 65536);
    for (std::size_t i = 0; i < halves.size(); ++i) {
      const float want = F16ToFloat(halves[i]);
      ASSERT_EQ(std::bit_cast<uint32_t>(floats[i]), std::bit_cast<uint32_t>(want)) << set << ' ' << i;
      ASSERT_EQ(back[i], FloatToF16(want)) << set << ' ' << i;
      ASSERT_EQ(kept[i], FloatToF16(want)) << set << ' ' << i;
    }
  });
}

// Of two subnormal numbers that arithmetic takes for zeros the extremum is the right one or a zero, not the bits of
// both.
TEST(InstructionSets, ExtremaOfSubnormals) {
  const std::vector<float> x(40, 1e-39f), y(40, 2e-39f);
  ForEachInstructionSet([&](const char* set) {
    const Subnormals as(Subnormals::As::kZeros);
    for (const Opcode op : {Opcode::kMaximum, Opcode::kMinimum}) {
      std::vector<float> out(40, 1);
      const cpu::BlockFn run = cpu::FindBlockFn({.opcode = op});
      ASSERT_NE(run, nullptr);
      run({.out = out.data(), .in = {x.data(), y.data(), nullptr}, .n = 40, .bits = 0});
      const uint32_t right = std::bit_cast<uint32_t>(op == Opcode::kMaximum ? y[0] : x[0]);
      for (const float value : out) {
        const uint32_t bits = std::bit_cast<uint32_t>(value);
        EXPECT_TRUE(bits == 0 || bits == right) << set << ' ' << bits;
      }
    }
  });
}

}  // namespace
}  // namespace krafla
