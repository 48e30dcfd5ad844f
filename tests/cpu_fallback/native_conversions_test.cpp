// SPDX-License-Identifier: Apache-2.0
// Conversions of native code that take several steps round once.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cpu_fallback/kernels/block_ops.h"
#include "cpu_fallback/native/lane_builder.h"
#include "cpu_fallback/native/native_code.h"

namespace krafla::cpu::native {
namespace {

class NativeConversions : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    UseNarrowVectors(GetParam());
    if (!HasNativeCode()) GTEST_SKIP() << "no native code in this build or on this processor";
  }
  void TearDown() override { UseNarrowVectors(false); }
};

// Between two floats and next to it, where a number that was rounded to f64 first would be rounded again.
TEST_P(NativeConversions, LongIntegersAreRoundedOnce) {
  for (const ElementType type : {ElementType::kS64, ElementType::kU64}) {
    LaneBuilder b;
    b.AddStream({.width = 8}), b.AddStream({.width = 4});
    const int x = b.Add({LaneOp::kLoad, type, -1, -1, -1, 0});
    b.graph().stores.push_back({1, b.Add(LaneOp::kIntToFloat, ElementType::kF32, x), -1});
    const auto code = Compile(b.graph());
    ASSERT_NE(code, nullptr);
    std::vector<uint64_t> numbers;
    for (int bit = 24; bit < 64; ++bit)
      for (uint64_t even : {0, 1})
        for (int off = -2; off <= 2; ++off)
          for (uint64_t sign : {0, 1}) {
            const uint64_t ulp = uint64_t{1} << (bit - 23);
            const uint64_t n = (uint64_t{1} << bit) + even * ulp + ulp / 2 + static_cast<uint64_t>(int64_t{off});
            numbers.push_back(sign != 0 ? 0 - n : n);
          }
    std::vector<float> got(numbers.size());
    const StreamArgument streams[] = {{reinterpret_cast<std::byte*>(numbers.data()), 0},
                                      {reinterpret_cast<std::byte*>(got.data()), 0}};
    code->Run(streams, 1, static_cast<int64_t>(numbers.size()));
    for (std::size_t i = 0; i < got.size(); ++i) {
      const float want = type == ElementType::kU64 ? static_cast<float>(numbers[i])
                                                   : static_cast<float>(static_cast<int64_t>(numbers[i]));
      ASSERT_EQ(got[i], want) << numbers[i];
    }
  }
}

// Halfway between two numbers of the storage and next to it, of normal and of subnormal ones, and at the ends.
TEST_P(NativeConversions, DoublesAreRoundedOnce) {
  for (const ElementType storage : {ElementType::kBF16, ElementType::kF16}) {
    const BlockKey key{
        .op = plan::NodeOp::kRound, .type = ElementType::kF32, .operand = ElementType::kF64, .storage = storage};
    LaneBuilder b;
    b.AddStream({.width = 8}), b.AddStream({.width = 4});
    const LaneBuilder::Value x{b.Add({LaneOp::kLoad, ElementType::kF64, -1, -1, -1, 0})};
    const std::optional<LaneBuilder::Value> rounded = b.Apply(key, 0, std::span(&x, 1));
    ASSERT_TRUE(rounded);
    b.graph().stores.push_back({1, b.Seen(*rounded), -1});
    const auto code = Compile(b.graph());
    ASSERT_NE(code, nullptr);
    std::vector<double> numbers;
    const bool is_half = storage == ElementType::kF16;
    const int smallest = is_half ? -24 : -133, largest = is_half ? 15 : 127, digits = is_half ? 11 : 8;
    for (int exponent = smallest - 2; exponent <= largest; ++exponent)
      for (int place : {0, 1, 2, 3, 2 * digits})
        for (double off : {0.0, 0x1p-40, -0x1p-40, 0x1p-51})
          for (double sign : {1.0, -1.0}) {
            const double half_ulp = std::ldexp(0.5, std::max(exponent - digits + 1, smallest));
            const double n = std::ldexp(1.0, exponent) + place * half_ulp;
            numbers.push_back(sign * (n + off * n));
          }
    for (double n : {std::ldexp(2.0 - std::ldexp(1.0, -digits), largest), std::ldexp(2.0, largest), 1e300, 0.0, -0.0,
                     std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(), 5e-324})
      numbers.insert(numbers.end(), {n, -n, std::nextafter(n, 0.0), std::nextafter(-n, 0.0)});
    std::vector<uint32_t> got(numbers.size()), want(numbers.size());
    const StreamArgument streams[] = {{reinterpret_cast<std::byte*>(numbers.data()), 0},
                                      {reinterpret_cast<std::byte*>(got.data()), 0}};
    code->Run(streams, 1, static_cast<int64_t>(numbers.size()));
    BlockArgs args{want.data(), {numbers.data(), nullptr, nullptr}, static_cast<int64_t>(numbers.size()), 0};
    FindBlockFn(key)(args);
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(got[i], want[i]) << std::hexfloat << numbers[i] << " to " << ElementTypeName(storage);
  }
}

INSTANTIATE_TEST_SUITE_P(Vectors, NativeConversions, testing::Bool(),
                         [](const auto& param) { return param.param ? "Avx2" : "Widest"; });

}  // namespace
}  // namespace krafla::cpu::native
