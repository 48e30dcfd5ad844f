// SPDX-License-Identifier: Apache-2.0
// The vector loops for the remainder of floats beside C's fmod: to the bit.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "cpu_fallback/kernels/block_ops.h"
#include "numerics/nan.h"

namespace krafla::cpu {
namespace {

template <class T>
using WordOf = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

template <class T>
void ExpectRemainders(const std::vector<T>& x, const std::vector<T>& y, unsigned uniform) {
  const ElementType type = sizeof(T) == 4 ? ElementType::kF32 : ElementType::kF64;
  const BlockFn loop = FindBlockFn(
      {.op = plan::NodeOp::kHlo, .opcode = Opcode::kRemainder, .type = type, .operand = type, .uniform = uniform});
  ASSERT_NE(loop, nullptr);
  std::vector<T> out(x.size());
  loop({out.data(), {x.data(), y.data(), nullptr}, static_cast<int64_t>(x.size()), 0});
  for (std::size_t i = 0; i < x.size(); ++i) {
    const T divisor = uniform == 2 ? y[0] : y[i], want = Settled(std::fmod(x[i], divisor));
    ASSERT_EQ(std::bit_cast<WordOf<T>>(out[i]), std::bit_cast<WordOf<T>>(want))
        << x[i] << " rem " << divisor << ": got " << out[i] << ", not " << want;
  }
}

template <class T>
class FloatRemainders : public testing::Test {};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(FloatRemainders, Floats);

TYPED_TEST(FloatRemainders, OfAnyBits) {
  using T = TypeParam;
  std::mt19937_64 random(3);
  std::vector<T> x, y;
  for (int i = 0; i < 100'003; ++i) {
    x.push_back(std::bit_cast<T>(static_cast<WordOf<T>>(random())));
    y.push_back(std::bit_cast<T>(static_cast<WordOf<T>>(random())));
  }
  ExpectRemainders(x, y, 0);
}

// Just below and just above whole multiples, where the quotient is rounded to a whole number.
TYPED_TEST(FloatRemainders, NearMultiples) {
  using T = TypeParam;
  std::mt19937_64 random(4);
  std::uniform_real_distribution<T> unit(1, 2);
  const int bits = std::numeric_limits<T>::digits;
  std::vector<T> x, y;
  for (int i = 0; i < 100'003; ++i) {
    const T divisor = std::ldexp(unit(random), static_cast<int>(random() % 60) - 30);
    const T times = std::trunc(std::ldexp(unit(random), static_cast<int>(random() % static_cast<unsigned>(bits + 2))));
    T dividend = divisor * times;
    for (uint64_t step = random() % 3; step > 0; --step)
      dividend = std::nextafter(dividend, random() % 2 == 0 ? std::numeric_limits<T>::infinity() : T(0));
    x.push_back(random() % 2 == 0 ? dividend : -dividend);
    y.push_back(random() % 2 == 0 ? divisor : -divisor);
  }
  ExpectRemainders(x, y, 0);
}

TYPED_TEST(FloatRemainders, OfEdgesByEdges) {
  using T = TypeParam;
  using Limits = std::numeric_limits<T>;
  const T edges[] = {T(0),
                     T(1),
                     Limits::min(),
                     Limits::denorm_min(),
                     Limits::max(),
                     T(3),
                     T(0.1),
                     std::ldexp(T(1), Limits::digits - 1),
                     Limits::infinity(),
                     Limits::quiet_NaN()};
  std::vector<T> x, y;
  for (const T a : edges)
    for (const T b : edges)
      for (const T sign : {T(1), T(-1)}) x.push_back(sign * a), y.push_back(b);
  ExpectRemainders(x, y, 0);
  for (const T b : edges) ExpectRemainders<T>(x, {b}, 2);
}

}  // namespace
}  // namespace krafla::cpu
