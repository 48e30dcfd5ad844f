// SPDX-License-Identifier: Apache-2.0
// Every f32 formula against the truth, over samples of all exponents and signs; KRAFLA_EXHAUSTIVE=1 takes all 2^32
// numbers, KRAFLA_STRIDE=n every n-th.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>

#include "formula_table.h"

namespace krafla {
namespace {

struct Worst {
  double error = -1;
  float x = 0, y = 0;
  uint64_t inputs = 0;
  void Take(double e, float at_x, float at_y = 0) {
    ++inputs;
    if (e > error) {
      error = e;
      x = at_x;
      y = at_y;
    }
  }
  void Join(const Worst& other) {
    const uint64_t total = inputs + other.inputs;
    if (other.error > error) *this = other;
    inputs = total;
  }
};

uint64_t Stride() {
  if (std::getenv("KRAFLA_EXHAUSTIVE") != nullptr) return 1;
  if (const char* stride = std::getenv("KRAFLA_STRIDE"))
    return std::max<uint64_t>(1, std::strtoull(stride, nullptr, 10));
  return 4001;
}

TEST(Accuracy, UnaryFormulas) {
  const uint64_t stride = Stride();
  const unsigned threads = stride < 100 ? std::max(1u, std::thread::hardware_concurrency()) : 1;
  for (const UnaryFormula& f : UnaryFormulas()) {
    Worst worst;
    std::mutex mutex;
    const auto part = [&](uint64_t first, uint64_t last) {
      Worst mine;
      for (uint64_t bits = first; bits < last; bits += stride) {
        const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
        if (IsSubnormal(x)) continue;
        mine.Take(UlpError(f.scalar(x), f.truth(static_cast<double>(x))), x);
      }
      const std::lock_guard lock(mutex);
      worst.Join(mine);
    };
    std::vector<std::thread> workers;
    const uint64_t slice = (uint64_t{1} << 32) / threads / stride * stride;
    for (unsigned t = 0; t < threads; ++t) {
      workers.emplace_back(part, t * slice, t + 1 == threads ? uint64_t{1} << 32 : (t + 1) * slice);
    }
    for (std::thread& w : workers) w.join();
    std::printf("  %-16s worst %.3f ULP at %a (%llu inputs, budget %g)\n", f.name, worst.error,
                static_cast<double>(worst.x), static_cast<unsigned long long>(worst.inputs), f.budget);
    std::fflush(stdout);
    EXPECT_LE(worst.error, f.budget) << f.name << " at " << worst.x;
  }
}

// Random operands of many kinds: any bits, moderate numbers, near 1, small integers, equal operands.
TEST(Accuracy, BinaryFormulas) {
  const int count = Stride() < 4001 ? 40'000'000 : 400'000;
  for (const BinaryFormula& f : BinaryFormulas()) {
    std::mt19937_64 random(1);
    std::uniform_real_distribution<double> unit(-1, 1);
    const auto any = [&] { return std::bit_cast<float>(static_cast<uint32_t>(random())); };
    const auto moderate = [&] { return static_cast<float>(unit(random) * 8); };
    Worst worst;
    for (int i = 0; i < count; ++i) {
      float x = any(), y = any();
      switch (i % 8) {
        case 0: break;
        case 1: x = moderate(), y = moderate(); break;
        case 2: x = std::round(moderate()), y = std::round(moderate() * 8); break;
        case 3: x = static_cast<float>(y * unit(random)); break;
        case 4: y = 1; break;
        case 5:  // powers over the whole range of results
          x = std::abs(i % 16 == 5 ? x : static_cast<float>(1 + unit(random) * 0.05));
          y = static_cast<float>(unit(random) * 128 / std::log2(static_cast<double>(x)));
          break;
        case 6: x = static_cast<float>(unit(random) * 1e9), y = moderate(); break;
        case 7: x = static_cast<float>(static_cast<double>(y) * (1 + unit(random) * 1e-6)); break;
      }
      if (IsSubnormal(x) || IsSubnormal(y)) continue;
      worst.Take(UlpError(f.scalar(x, y), f.truth(static_cast<double>(x), static_cast<double>(y))), x, y);
    }
    std::printf("  %-16s worst %.3f ULP at %a, %a (%llu inputs, budget %g)\n", f.name, worst.error,
                static_cast<double>(worst.x), static_cast<double>(worst.y),
                static_cast<unsigned long long>(worst.inputs), f.budget);
    EXPECT_LE(worst.error, f.budget) << f.name << " at " << worst.x << ", " << worst.y;
  }
}

// Arguments next to multiples of pi/2, where the reduction cancels most.
TEST(Accuracy, TrigonometryNearMultiplesOfHalfPi) {
  const long double half_pi = 1.57079632679489661923132169163975144L;
  for (const UnaryFormula& f : UnaryFormulas()) {
    const std::string name = f.name;
    if (name != "Sin" && name != "Cos" && name != "Tan") continue;
    Worst worst;
    for (int64_t k = 1; k < 300'000; ++k) {
      const float near = static_cast<float>(half_pi * static_cast<long double>(k));
      for (float x : {near, std::nextafter(near, 0.0f), std::nextafter(near, 1e30f)}) {
        worst.Take(UlpError(f.scalar(x), f.truth(static_cast<double>(x))), x);
        worst.Take(UlpError(f.scalar(-x), f.truth(static_cast<double>(-x))), -x);
      }
    }
    // The f32 closest to a multiple of pi/2 relative to the exponent range.
    for (float x : {0x1.f37a36p+95f, 16367173.0f * 0x1p72f, 0x1.6ac5b2p+88f, 0x1p127f, 0x1.fffffep+127f}) {
      worst.Take(UlpError(f.scalar(x), f.truth(static_cast<double>(x))), x);
    }
    EXPECT_LE(worst.error, f.budget) << f.name << " at " << worst.x;
  }
}

}  // namespace
}  // namespace krafla
