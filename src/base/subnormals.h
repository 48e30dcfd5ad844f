// SPDX-License-Identifier: Apache-2.0
// Arithmetic on subnormal numbers costs x86 processors some 150 cycles for each vector that has one, and a state that
// decays has nothing else in the end. Programs may not tell them from zeros (docs/decisions/0003-same-bits.md), so runs
// take them for zeros, arguments and results. Other processors are as fast with them, and nothing changes there.
#pragma once

#include <cstdint>

namespace krafla {

// What this thread's arithmetic takes subnormal numbers for, until the end of its life.
class Subnormals {
 public:
  enum class As : uint8_t { kNumbers, kZeros };
  static As OfThisThread();

  explicit Subnormals(As as);
  ~Subnormals();
  Subnormals(const Subnormals&) = delete;
  Subnormals& operator=(const Subnormals&) = delete;

 private:
  As before_;
};

}  // namespace krafla
