// SPDX-License-Identifier: Apache-2.0
// What a process holds, and whether it holds more and more of it.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "krafla/status.h"

namespace krafla {

enum class Holding { kMemory, kDescriptors, kMappings, kThreads };
inline constexpr std::array kHoldings = {Holding::kMemory, Holding::kDescriptors, Holding::kMappings,
                                         Holding::kThreads};
const char* HoldingName(Holding holding);

struct Sample {
  double seconds = 0;                              // since the start
  std::array<double, kHoldings.size()> held = {};  // kilobytes of resident memory, numbers of the others

  double of(Holding holding) const { return held[static_cast<std::size_t>(holding)]; }
};
// Of this process, after malloc has given back what is free. Threads that have ended stay listed for a moment: waits up
// to a second for their number to come down to `threads`.
Result<Sample> TakeSample(double seconds, double threads);

enum class GrowthRule {
  kAnHour,  // what the line over the second half would give in an hour
  kAsItIs,  // what it gives from the middle to the end, within wider limits: for runs that are too short for the other
};

struct Growth {
  Holding holding;
  double middle = 0, end = 0;        // of the line; of descriptors and threads the highest number of each half
  double growth = 0, deviation = 0;  // of the line's slope, with its standard deviation
  double limit = 0;
  // More than is allowed, and more than noise.
  bool grows() const { return growth > limit && growth > 2 * deviation; }
};
// The first half is for warming up. Over the second one a line is fitted to memory and mappings; descriptors and
// threads may never be more than they were at some time in the first half. Wants kFewestSamples.
inline constexpr std::size_t kFewestSamples = 8;
std::vector<Growth> JudgeGrowth(std::span<const Sample> samples, GrowthRule rule);

}  // namespace krafla
