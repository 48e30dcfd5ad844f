// SPDX-License-Identifier: Apache-2.0
#include "accuracy_samples.h"

#include <bit>
#include <cmath>
#include <initializer_list>

namespace krafla::accuracy {
namespace {

// splitmix64 (Steele, Lea, Flood 2014), a stream a block.
class Stream {
 public:
  explicit Stream(uint64_t block) : state_(block * 0xd1342543de82ef95u + 1) {}
  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  double Unit() { return static_cast<double>(static_cast<int64_t>(Next())) * 0x1p-63; }  // [-1, 1)

 private:
  uint64_t state_;
};

}  // namespace

void MakePairs(uint64_t block, float* x, float* y, int64_t n) {
  Stream s(block);
  auto any = [&] { return std::bit_cast<float>(static_cast<uint32_t>(s.Next() >> 32)); };
  auto narrow = [](double v) { return static_cast<float>(v); };
  for (int64_t i = 0; i < n; ++i) {
    float a = any(), b = any();
    switch (i % 10) {
      case 0: break;
      case 1: a = narrow(8 * s.Unit()), b = narrow(8 * s.Unit()); break;
      case 2: a = std::round(narrow(8 * s.Unit())), b = std::round(narrow(64 * s.Unit())); break;
      case 3: a = narrow(static_cast<double>(b) * s.Unit()); break;
      case 4: b = 1; break;
      case 5:
      case 6:
      case 7: {
        // Powers of every size of result: of any base, of bases near 1, of bases of a few binades.
        const double near = i % 10 == 6 ? 1 + 0.05 * s.Unit() : std::exp2(2 * s.Unit());
        a = i % 10 == 5 ? std::abs(a) : narrow(near);
        b = narrow(150 * s.Unit() / std::log2(static_cast<double>(a)));
        break;
      }
      case 8: a = narrow(1e9 * s.Unit()), b = narrow(8 * s.Unit()); break;
      case 9: a = narrow(static_cast<double>(b) * (1 + 1e-6 * s.Unit())); break;
    }
    x[i] = a, y[i] = b;
  }
}

// Plain intervals, every exponent, and any bits in turn.
void MakeDoubles(uint64_t block, double* x, int64_t n) {
  Stream s(~block);
  for (int64_t i = 0; i < n; ++i) {
    switch (i % 6) {
      case 0: x[i] = s.Unit(); break;
      case 1: x[i] = 10 * s.Unit(); break;
      case 2: x[i] = 745 * s.Unit(); break;
      case 3: x[i] = std::ldexp(s.Unit(), static_cast<int>(s.Next() % 45) - 30); break;
      case 4: x[i] = std::ldexp(s.Unit(), static_cast<int>(s.Next() % 2040) - 1015); break;
      case 5: x[i] = std::bit_cast<double>(s.Next()); break;
    }
    // Subnormal doubles are for the tests of special operands.
    if (x[i] != 0 && std::abs(x[i]) < 0x1p-1022) x[i] = std::copysign(0.0, x[i]);
  }
}

void MakeDoublePairs(uint64_t block, double* x, double* y, int64_t n) {
  MakeDoubles(2 * block, x, n);
  MakeDoubles(2 * block + 1, y, n);
  Stream s(block ^ 0x5555555555555555u);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t kind = static_cast<int64_t>(s.Next() % 6);
    if (kind == 0) x[i] = std::abs(x[i]), y[i] = 1070 * s.Unit() / std::log2(x[i]);
    if (kind == 1) x[i] = 1 + 0.01 * s.Unit(), y[i] = 1000 * s.Unit() / std::log2(x[i]);
    if (kind == 2) x[i] = std::rint(8 * x[i]), y[i] = std::rint(16 * s.Unit());
    if (kind == 3) x[i] = y[i] * s.Unit();
    for (double* v : {&x[i], &y[i]})
      if (*v != 0 && std::abs(*v) < 0x1p-1022) *v = std::copysign(0.0, *v);
  }
}

}  // namespace krafla::accuracy
