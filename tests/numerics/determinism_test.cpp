// SPDX-License-Identifier: Apache-2.0
// The promise of ops_concept.h: a machine that flushes subnormals gives the bits of one that does not, for normal
// operands with normal results; and no formula breaks a precondition of an operation, whatever its operands.
#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "formula_table.h"
#include "numerics/rng.h"

namespace krafla {
namespace {

bool SameOrBothSmall(float plain, float flushed) {
  if (plain != plain) return flushed != flushed;
  if (IsSubnormal(plain) || plain == 0) return flushed == 0 || std::abs(flushed) <= 0x1p-126f;
  return std::bit_cast<uint32_t>(plain) == std::bit_cast<uint32_t>(flushed);
}

std::vector<float> Corners() {
  std::vector<float> values;
  for (float x : {0.0f,
                  0x1p-149f,
                  0x1p-130f,
                  0x1p-126f,
                  0x1.8p-126f,
                  0x1p-120f,
                  0x1p-64f,
                  1e-20f,
                  0x1p-25f,
                  0x1p-24f,
                  0x1p-12f,
                  0.1f,
                  0.49999997f,
                  0.5f,
                  0.50000006f,
                  0.625f,
                  0.99999994f,
                  1.0f,
                  1.0000001f,
                  1.5f,
                  2.0f,
                  2.5f,
                  3.0f,
                  4.0f,
                  17.0f,
                  33.0f,
                  87.3f,
                  87.33654f,
                  87.33655f,
                  88.72283f,
                  88.72284f,
                  89.4f,
                  89.5f,
                  100.0f,
                  127.5f,
                  128.9f,
                  3071.9f,
                  3072.0f,
                  65520.0f,
                  8388607.5f,
                  8388608.0f,
                  16777216.0f,
                  2147483520.0f,
                  2147483648.0f,
                  4294967040.0f,
                  4294967296.0f,
                  1e10f,
                  1e20f,
                  1e30f,
                  0x1p126f,
                  0x1p127f,
                  3.4028235e38f,
                  std::numeric_limits<float>::infinity(),
                  std::numeric_limits<float>::quiet_NaN()}) {
    values.push_back(x);
    values.push_back(-x);
  }
  return values;
}

TEST(Determinism, UnaryFormulas) {
  for (const UnaryFormula& f : UnaryFormulas()) {
    int wrong = 0, broken = 0;
    const auto check = [&](float x) {
      const TestOps keep(false), flush(true);
      const float scalar = f.scalar(x);
      const float plain = f.checked(keep, {x}).v, flushed = f.checked(flush, {x}).v;
      const bool same_code =
          std::bit_cast<uint32_t>(scalar) == std::bit_cast<uint32_t>(plain) || (scalar != scalar && plain != plain);
      broken += keep.broke_a_precondition() || flush.broke_a_precondition();
      if (same_code && (IsSubnormal(x) || SameOrBothSmall(plain, flushed))) return;
      if (++wrong <= 3) {
        ADD_FAILURE() << f.name << " at " << x << ": scalar " << scalar << ", plain " << plain << ", flushing "
                      << flushed;
      }
    };
    for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 20'011) {
      check(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    }
    for (float x : Corners()) check(x);
    EXPECT_EQ(wrong, 0) << f.name;
    EXPECT_EQ(broken, 0) << f.name;
    const TestOps counter;
    f.checked(counter, {0.75f});
    std::printf("  %-16s %3d operations, of which divisions and roots %d\n", f.name, counter.count(),
                counter.divisions());
  }
}

TEST(Determinism, BinaryFormulas) {
  for (const BinaryFormula& f : BinaryFormulas()) {
    int wrong = 0, broken = 0;
    const auto check = [&](float x, float y) {
      const TestOps keep(false), flush(true);
      const float scalar = f.scalar(x, y);
      const float plain = f.checked(keep, {x}, {y}).v, flushed = f.checked(flush, {x}, {y}).v;
      const bool same_code =
          std::bit_cast<uint32_t>(scalar) == std::bit_cast<uint32_t>(plain) || (scalar != scalar && plain != plain);
      broken += keep.broke_a_precondition() || flush.broke_a_precondition();
      if (same_code && (IsSubnormal(x) || IsSubnormal(y) || SameOrBothSmall(plain, flushed))) return;
      if (++wrong <= 3) {
        ADD_FAILURE() << f.name << " at " << x << ", " << y << ": scalar " << scalar << ", plain " << plain
                      << ", flushing " << flushed;
      }
    };
    std::mt19937_64 random(7);
    for (int i = 0; i < 100'000; ++i) {
      const float x = std::bit_cast<float>(static_cast<uint32_t>(random()));
      const float y = std::bit_cast<float>(static_cast<uint32_t>(random()));
      check(x, y);
      check(std::abs(x), static_cast<float>(static_cast<int>(random() % 600) - 300) * 0.37f);
      check(1 + static_cast<float>(random() % 1000) * 1e-4f, static_cast<float>(random() % 100'000) - 50'000.0f);
    }
    for (float x : Corners()) {
      for (float y : Corners()) check(x, y);
    }
    EXPECT_EQ(wrong, 0) << f.name;
    EXPECT_EQ(broken, 0) << f.name;
    const TestOps counter;
    f.checked(counter, {0.75f}, {1.5f});
    std::printf("  %-16s %3d operations, of which divisions and roots %d\n", f.name, counter.count(),
                counter.divisions());
  }
}

TEST(Determinism, GeneratorsOnOps) {
  const TestOps o;
  const auto a = ThreeFry2x32(o, {TestOps::I{1}, TestOps::I{2}}, {TestOps::I{3}, TestOps::I{4}});
  const auto b = ThreeFry2x32(ScalarOps{}, {1, 2}, {3, 4});
  EXPECT_EQ(a[0].v, b[0]);
  EXPECT_EQ(a[1].v, b[1]);
  const auto c =
      Philox4x32(o, {TestOps::I{1}, TestOps::I{2}, TestOps::I{3}, TestOps::I{4}}, {TestOps::I{5}, TestOps::I{6}});
  const auto d = Philox4x32(ScalarOps{}, {1, 2, 3, 4}, {5, 6});
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(c[i].v, d[i]);
}

}  // namespace
}  // namespace krafla
