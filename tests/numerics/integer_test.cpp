// SPDX-License-Identifier: Apache-2.0
// Integer operations over a lattice of corner values, the Ops versions against 64-bit arithmetic, and the exact f32
// division and root made from inexact ones.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "formula_table.h"
#include "numerics/formulas_exact.h"
#include "numerics/formulas_int.h"
#include "numerics/rng.h"

namespace krafla {
namespace {

const int32_t kLattice[] = {0,
                            1,
                            -1,
                            2,
                            -2,
                            3,
                            -3,
                            7,
                            -7,
                            31,
                            32,
                            33,
                            -31,
                            -32,
                            -33,
                            100,
                            -100,
                            2147483647,
                            -2147483647 - 1,
                            -2147483647,
                            1 << 30,
                            -(1 << 30),
                            0x55555555,
                            -0x55555556,
                            63,
                            64,
                            -64,
                            127,
                            -128,
                            255,
                            256,
                            32767,
                            -32768,
                            65535,
                            65536,
                            12345,
                            -12345};

TEST(Integers, DivisionAndShiftsOnOps) {
  const TestOps o;
  const auto i = [](int32_t x) { return TestOps::I{static_cast<uint32_t>(x)}; };
  for (int32_t x : kLattice) {
    for (int32_t y : kLattice) {
      const auto ux = static_cast<uint32_t>(x), uy = static_cast<uint32_t>(y);
      const int64_t quotient = y == 0 ? -1 : int64_t{x} / y;
      const int64_t remainder = y == 0 ? x : int64_t{x} % y;
      EXPECT_EQ(DivideS32(o, i(x), i(y)).v, static_cast<uint32_t>(quotient)) << x << " " << y;
      EXPECT_EQ(RemainderS32(o, i(x), i(y)).v, static_cast<uint32_t>(remainder)) << x << " " << y;
      EXPECT_EQ(DivideU32(o, i(x), i(y)).v, y == 0 ? ~0u : ux / uy);
      EXPECT_EQ(RemainderU32(o, i(x), i(y)).v, y == 0 ? ux : ux % uy);
      EXPECT_EQ(ShiftLeft(o, i(x), i(y), 32, true).v, uy < 32 ? ux << uy : 0u) << x << " " << y;
      EXPECT_EQ(ShiftRightLogical(o, i(x), i(y), 32, false).v, uy < 32 ? ux >> uy : 0u);
      EXPECT_EQ(ShiftRightArithmetic(o, i(x), i(y), 32, true).v, static_cast<uint32_t>(x >> (uy < 32 ? uy : 31)));
      EXPECT_EQ(SMulHi(o, i(x), i(y)).v, static_cast<uint32_t>((int64_t{x} * y) >> 32));
      EXPECT_EQ(MulhiInt<int32_t>(x, y), static_cast<int32_t>((int64_t{x} * y) >> 32));
      EXPECT_EQ(DivideInt<int32_t>(x, y), static_cast<int32_t>(quotient));
      EXPECT_EQ(RemainderInt<int32_t>(x, y), static_cast<int32_t>(remainder));
      EXPECT_EQ(IntPow(o, i(x), i(y), 32, true).v, static_cast<uint32_t>(PowInt<int32_t>(x, y))) << x << " " << y;
      EXPECT_EQ(IntPow(o, i(x), i(y), 32, false).v, PowInt<uint32_t>(ux, uy)) << ux << " " << uy;
    }
  }
  EXPECT_FALSE(o.broke_a_precondition());
  EXPECT_EQ((PowInt<int32_t>(3, 5)), 243);
  EXPECT_EQ((PowInt<int64_t>(2, 64)), 1);
  EXPECT_EQ((PowInt<int32_t>(2, -1)), 0);
  EXPECT_EQ((PowInt<int32_t>(-1, -3)), -1);
}

// Every pair of 8-bit values: the 32-bit formulas with a width against the scalar functions of that width.
TEST(Integers, EightBitsExhaustively) {
  const ScalarOps o;
  for (int a = -128; a < 128; ++a) {
    for (int b = -128; b < 128; ++b) {
      const auto x = static_cast<int8_t>(a), y = static_cast<int8_t>(b);
      const auto u = static_cast<uint8_t>(a), v = static_cast<uint8_t>(b);
      const auto sx = static_cast<uint32_t>(a), sy = static_cast<uint32_t>(b);
      const auto s = [](uint32_t r) { return static_cast<int8_t>(static_cast<int32_t>(r)); };
      ASSERT_EQ(s(DivideS(o, sx, sy, 8)), DivideInt(x, y)) << a << " " << b;
      ASSERT_EQ(s(RemainderS32(o, sx, sy)), RemainderInt(x, y)) << a << " " << b;
      ASSERT_EQ(s(ShiftLeft(o, sx, sy, 8, true)), ShiftLeftInt(x, y)) << a << " " << b;
      ASSERT_EQ(s(ShiftRightLogical(o, sx, sy, 8, true)), ShiftRightLogicalInt(x, y)) << a << " " << b;
      ASSERT_EQ(s(ShiftRightArithmetic(o, sx, sy, 8, true)), ShiftRightArithmeticInt(x, y)) << a << " " << b;
      ASSERT_EQ(s(IntPow(o, sx, sy, 8, true)), PowInt(x, y)) << a << " " << b;
      ASSERT_EQ(DivideU(o, u, v, 8), DivideInt(u, v));
      ASSERT_EQ(ShiftLeft(o, u, v, 8, false), ShiftLeftInt(u, v));
      ASSERT_EQ(ShiftRightLogical(o, u, v, 8, false), ShiftRightLogicalInt(u, v));
      ASSERT_EQ(ShiftRightArithmetic(o, u, v, 8, false), ShiftRightArithmeticInt(u, v));
      ASSERT_EQ(IntPow(o, u, v, 8, false), PowInt(u, v)) << +u << " " << +v;
      // Truth, not agreement alone.
      ASSERT_EQ(DivideInt(x, y), static_cast<int8_t>(b == 0 ? -1 : a / b));
      ASSERT_EQ(ShiftLeftInt(x, y), static_cast<int8_t>(v < 8 ? u << v : 0));
      ASSERT_EQ(ShiftRightLogicalInt(x, y), static_cast<int8_t>(v < 8 ? u >> v : 0));
      ASSERT_EQ(ShiftRightArithmeticInt(x, y), static_cast<int8_t>(a >> (v < 8 ? v : 7)));
    }
    const auto u = static_cast<uint8_t>(a);
    ASSERT_EQ(Clz(o, u, 8), static_cast<uint32_t>(std::countl_zero(u)));
    ASSERT_EQ(ClzInt(u), std::countl_zero(u));
    ASSERT_EQ(Popcnt(o, static_cast<uint32_t>(a), 8), static_cast<uint32_t>(std::popcount(u)));
    ASSERT_EQ(PopcntInt(u), std::popcount(u));
  }
  // Four bits in a byte.
  for (int a = -8; a < 8; ++a) {
    for (int b = -8; b < 8; ++b) {
      const auto x = static_cast<int8_t>(a), y = static_cast<int8_t>(b);
      const unsigned amount = static_cast<uint8_t>(y);
      ASSERT_EQ(ShiftLeftInt(x, y, 4), WrapInt(static_cast<int8_t>(amount < 4 ? a * (1 << amount) : 0), 4))
          << a << " " << b;
      ASSERT_EQ(ShiftRightLogicalInt(x, y, 4), WrapInt(static_cast<int8_t>(amount < 4 ? (a & 15) >> amount : 0), 4));
      ASSERT_EQ(static_cast<int8_t>(ShiftRightLogical(o, static_cast<uint32_t>(a), static_cast<uint32_t>(b), 4, true)),
                ShiftRightLogicalInt(x, y, 4));
    }
  }
}

TEST(Integers, WideWords) {
  const ScalarOps o;
  std::mt19937_64 random(5);
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t a = random() >> (random() % 64), b = random() >> (random() % 64);
    __extension__ using U128 = unsigned __int128;
    __extension__ using S128 = __int128;
    ASSERT_EQ(MulhiInt(a, b), static_cast<uint64_t>((U128{a} * b) >> 64));
    const auto sa = static_cast<int64_t>(a), sb = static_cast<int64_t>(b);
    ASSERT_EQ(MulhiInt(sa, sb), static_cast<int64_t>((S128{sa} * sb) >> 64));
    const auto low = static_cast<uint32_t>(a);
    ASSERT_EQ(Clz(o, low), static_cast<uint32_t>(std::countl_zero(low)));
    ASSERT_EQ(Popcnt(o, low), static_cast<uint32_t>(std::popcount(low)));
    ASSERT_EQ(ClzInt(a), static_cast<uint64_t>(std::countl_zero(a)));
  }
  EXPECT_EQ(Clz(o, 0u), 32u);
  EXPECT_EQ(ClzInt<uint64_t>(0), 64u);
  const int64_t least = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(DivideInt<int64_t>(least, -1), least);
  EXPECT_EQ(RemainderInt<int64_t>(least, -1), 0);
  EXPECT_EQ(ShiftLeftInt<int64_t>(1, 64), 0);
  EXPECT_EQ(ShiftRightArithmeticInt<int64_t>(-5, -1), -1);
}

// A division 2.5 ULP off, as Vulkan allows, and 8 ULP off, becomes the correctly rounded one.
TEST(Exact, DivideFromApproximate) {
  std::mt19937_64 random(11);
  const auto off = [&](float exact) {
    return std::bit_cast<float>(std::bit_cast<uint32_t>(exact) + static_cast<uint32_t>(random() % 17) - 8);
  };
  for (int i = 0; i < 2'000'000; ++i) {
    auto a = static_cast<uint32_t>(random()), b = static_cast<uint32_t>(random() >> 20);
    if (i % 4 == 1) a = (a & 0xff800000u) | (0x7fffffu - (a & 15)), b = (b & 0xff800000u) | (b & 15);
    if (i % 4 == 2) a = (a & 0x807fffffu) | 0x3f800000u, b = (b & 0x807fffffu) | 0x3f800000u;
    if (i % 4 == 3) b = (b & 0xff800000u) | (0x7fffffu - (b & 15));
    const float x = std::bit_cast<float>(a), y = std::bit_cast<float>(b);
    if (IsSubnormal(x) || IsSubnormal(y)) continue;
    const float want = x / y;
    const float got = DivideFrom(ScalarOps{}, x, y, [&](float p, float q) { return off(p / q); });
    if (IsSubnormal(want)) {
      ASSERT_EQ(std::abs(got), 0.0f) << x << " / " << y;
      continue;
    }
    ASSERT_TRUE((want != want && got != got) || std::bit_cast<uint32_t>(want) == std::bit_cast<uint32_t>(got))
        << x << " / " << y << ": got " << got << ", not " << want;
  }
  const float corners[] = {0, 1, 3, 0x1p-126f, 0x1p127f, 3.4028235e38f, INFINITY, NAN, 0x1.fffffep-126f};
  for (float a : corners) {
    for (float b : corners) {
      for (float x : {a, -a}) {
        for (float y : {b, -b}) {
          const TestOps o(true);
          const float want = x / y;
          const float got =
              DivideFrom(o, TestOps::F{x}, TestOps::F{y}, [&](TestOps::F p, TestOps::F q) { return o.Div(p, q); }).v;
          const bool same =
              (want != want && got != got) || std::bit_cast<uint32_t>(want) == std::bit_cast<uint32_t>(got);
          EXPECT_TRUE(same || (IsSubnormal(want) && got == 0)) << x << " / " << y << ": " << got;
          EXPECT_FALSE(o.broke_a_precondition());
        }
      }
    }
  }
}

TEST(Exact, SqrtFromApproximate) {
  std::mt19937_64 random(12);
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 2003) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (IsSubnormal(x)) continue;
    const float want = std::sqrt(x);
    const float got = SqrtFrom(ScalarOps{}, x, [&](float p) {
      return std::bit_cast<float>(std::bit_cast<uint32_t>(std::sqrt(p)) + static_cast<uint32_t>(random() % 17) - 8);
    });
    ASSERT_TRUE((want != want && got != got) || std::bit_cast<uint32_t>(want) == std::bit_cast<uint32_t>(got)) << x;
  }
}

TEST(Exact, RemainderIsFmod) {
  std::mt19937_64 random(13);
  std::uniform_real_distribution<float> unit(-1, 1);
  for (int i = 0; i < 500'000; ++i) {
    float x = std::bit_cast<float>(static_cast<uint32_t>(random()));
    float y = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (i % 4 == 1) x = unit(random) * 1e9f, y = unit(random) * 9;
    if (i % 4 == 2) x = static_cast<float>(i), y = x;
    if (i % 4 == 3) x = std::round(unit(random) * 1000), y = std::round(unit(random) * 30);
    const float want = std::fmod(x, y), got = Remainder(ScalarOps{}, x, y);
    ASSERT_TRUE((want != want && got != got) || std::bit_cast<uint32_t>(want) == std::bit_cast<uint32_t>(got))
        << x << " rem " << y << ": got " << got << ", not " << want;
  }
  EXPECT_EQ(Remainder(ScalarOps{}, 33.0f, 33.0f), 0.0f);
  EXPECT_EQ(Remainder(ScalarOps{}, 3.4028235e38f, 0x1p-149f), 0.0f);
}

}  // namespace
}  // namespace krafla
