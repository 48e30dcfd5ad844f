// SPDX-License-Identifier: Apache-2.0
#include "numerics/rng.h"

#include <cmath>
#include <numbers>

#include "base/checked_math.h"
#include "numerics/scalar_math.h"

namespace krafla {

Result<RngPlan> PlanRng(RngMethod algorithm, int64_t state_words, std::span<const int64_t> dimensions, int bits) {
  const bool philox = algorithm == RngMethod::kPhilox;
  if (state_words != 2 && !(philox && state_words == 3)) {
    return InvalidArgument("The state of {} has {} words of 64 bits; it must have {}.",
                           philox ? "rng_philox" : "rng_three_fry", state_words, philox ? "2 or 3" : "2");
  }
  if (bits < 1 || bits > 64) return InvalidArgument("Random elements of {} bits; the limit is 64.", bits);

  RngPlan plan;
  plan.algorithm = algorithm;
  plan.state_words = static_cast<int>(state_words);
  plan.bits = bits;
  int64_t count = 1;
  for (const int64_t d : dimensions) {
    const auto product = CheckedMul(count, d);
    if (!product || d < 0)
      return InvalidArgument("The random array's dimensions, one of which is {}, do not fit 63 bits.", d);
    count = *product;
  }
  const auto elements = static_cast<uint64_t>(count);
  if (philox) {
    const uint64_t words = bits > 32 ? elements * 2 : elements;
    plan.blocks = (words + 3) / 4;
    return plan;
  }
  if (bits > 32) {
    plan.blocks = elements;
    return plan;
  }
  if (dimensions.empty()) {
    plan.blocks = 1;
    return plan;
  }
  // XLA: prng.cc SplitShapeIntoHalves: the first even dimension, else the first of the greatest.
  std::size_t split = dimensions.size();
  for (std::size_t i = 0; i < dimensions.size() && split == dimensions.size(); ++i) {
    if (dimensions[i] % 2 == 0) split = i;
  }
  if (split == dimensions.size()) {
    split = 0;
    for (std::size_t i = 1; i < dimensions.size(); ++i) {
      if (dimensions[i] > dimensions[split]) split = i;
    }
  }
  plan.blocks = 1;
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    const auto d = static_cast<uint64_t>(dimensions[i]);
    plan.blocks *= i == split ? (d + 1) / 2 : d;
    if (i > split) plan.inner *= d;
  }
  plan.size = static_cast<uint64_t>(dimensions[split]);
  plan.half = (plan.size + 1) / 2;
  return plan;
}

RngStart StartOf(const RngPlan& plan, std::span<const uint64_t> state) {
  KRAFLA_CHECK(state.size() == static_cast<std::size_t>(plan.state_words));
  if (plan.algorithm == RngMethod::kThreeFry) return {state[0], state[1], 0};
  // With two words the key is the upper half of the counter too (XLA reverses the state).
  if (plan.state_words == 2) return {state[0], state[1], state[0]};
  return {state[0], state[1], state[2]};
}

namespace {

std::array<uint32_t, 2> Halves(uint64_t x) { return {static_cast<uint32_t>(x), static_cast<uint32_t>(x >> 32)}; }
uint64_t Join(uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; }

std::array<uint32_t, 4> PhiloxBlock(const RngStart& start, uint64_t block) {
  const uint64_t low = start.counter_low + block;
  const uint64_t high = start.counter_high + (low < start.counter_low ? 1 : 0);
  const auto l = Halves(low), h = Halves(high);
  return Philox4x32(ScalarOps{}, {l[0], l[1], h[0], h[1]}, Halves(start.key));
}
std::array<uint32_t, 2> ThreeFryBlock(const RngStart& start, uint64_t block) {
  return ThreeFry2x32(ScalarOps{}, Halves(start.counter_low + block), Halves(start.key));
}
uint64_t LowBits(uint64_t x, int bits) { return bits == 64 ? x : x & ((uint64_t{1} << bits) - 1); }

}  // namespace

uint64_t RngElement(const RngPlan& plan, const RngStart& start, uint64_t index) {
  if (plan.algorithm == RngMethod::kPhilox) {
    if (plan.bits > 32) {
      const auto block = PhiloxBlock(start, index / 2);
      const std::size_t word = index % 2 * 2;
      return Join(block[word], block[word + 1]);
    }
    return LowBits(PhiloxBlock(start, index / 4)[index % 4], plan.bits);
  }
  if (plan.bits > 32) {
    const auto block = ThreeFryBlock(start, index);
    return Join(block[0], block[1]);
  }
  const uint64_t j = index % plan.inner;
  const uint64_t c = index / plan.inner % plan.size;
  const uint64_t outer = index / plan.inner / plan.size;
  const auto block = ThreeFryBlock(start, (outer * plan.half + c / 2) * plan.inner + j);
  return LowBits(block[c % 2], plan.bits);
}

std::array<uint64_t, 3> NextState(const RngPlan& plan, std::span<const uint64_t> state) {
  const RngStart start = StartOf(plan, state);
  const uint64_t low = start.counter_low + plan.blocks;
  const uint64_t high = start.counter_high + (low < start.counter_low ? 1 : 0);
  return {start.key, low, plan.state_words == 3 ? high : 0};
}

float UniformFloat(uint32_t bits, float low, float high) {
  const float unit = static_cast<float>(bits >> 9) * 0x1p-23f;
  return unit * (high - low) + low;
}
double UniformDouble(uint64_t bits, double low, double high) {
  const double unit = static_cast<double>(bits >> 12) * 0x1p-52;
  return unit * (high - low) + low;
}
uint32_t UniformInt32(uint32_t bits, uint32_t low, uint32_t high) {
  return low == high ? low : low + bits % (high - low);
}
uint64_t UniformInt64(uint64_t bits, uint64_t low, uint64_t high) {
  return low == high ? low : low + bits % (high - low);
}

namespace {
template <class T>
std::array<T, 2> BoxMuller(T u0, T u1) {
  const T safe = scalar::Max(u0, T{1.0e-7f});  // log of a really small number is not wanted
  const T angle = T{2.0f} * std::numbers::pi_v<T> * u1;
  const T radius = scalar::Sqrt(T{-2} * scalar::Log(safe));
  return {scalar::Sin(angle) * radius, scalar::Cos(angle) * radius};
}
}  // namespace

std::array<float, 2> NormalPair(float u0, float u1) { return BoxMuller(u0, u1); }
std::array<double, 2> NormalPair(double u0, double u1) { return BoxMuller(u0, u1); }

}  // namespace krafla
