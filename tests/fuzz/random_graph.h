// SPDX-License-Identifier: Apache-2.0
// Well-typed random modules whose results do not depend on the order of a sum: floats are made small whole numbers
// before they are contracted, so that every back end must give the same bits.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ir/module.h"
#include "krafla/literal.h"

namespace krafla::fuzz {

// splitmix64 (Steele, Lea, Flood 2014): one stream a seed, the same on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  int64_t Below(int64_t n) { return static_cast<int64_t>(Next() % static_cast<uint64_t>(n)); }
  int64_t Between(int64_t low, int64_t high) { return low + Below(high - low + 1); }  // both included
  bool Chance(int percent) { return Below(100) < percent; }

 private:
  uint64_t state_;
};

struct RandomGraphOptions {
  int max_operations = 24;
  int64_t max_elements = 1 << 12;  // of most arrays
  int64_t max_large = 1 << 17;     // of a few
  bool devices = true;             // some are programs of several devices
};

// A verified module; the same for a seed on every machine.
std::unique_ptr<Module> MakeRandomModule(uint64_t seed, const RandomGraphOptions& options = {});

// One value a leaf of the entry's parameters, infinities, NaNs and extremes among them, but no denormals.
std::vector<Literal> MakeArguments(const Module& module, uint64_t seed);

}  // namespace krafla::fuzz
