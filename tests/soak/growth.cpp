// SPDX-License-Identifier: Apache-2.0
#include "growth.h"

#include <dirent.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "base/file.h"
#include "base/host_blocks.h"

namespace krafla {
namespace {

// Of a folder in /proc, without what the reading itself holds open.
Result<double> EntriesOf(const char* folder) {
  DIR* const open = opendir(folder);
  if (open == nullptr) return NotFound("'{}' cannot be listed", folder);
  const std::string own = std::to_string(dirfd(open));
  const bool descriptors = std::string_view(folder).ends_with("/fd");
  double count = 0;
  while (const dirent* entry = readdir(open))
    count += entry->d_name[0] != '.' && !(descriptors && own == entry->d_name);
  closedir(open);
  return count;
}

struct Line {
  double begin, end;
  double a_second, deviation;  // the slope, and how far noise alone may have moved it
};

// By least squares. What follows a high sample is often high too: the noise counts as of so many samples fewer.
Line FitLine(std::span<const Sample> samples, Holding holding) {
  const double n = static_cast<double>(samples.size());
  double mean_x = 0, mean_y = 0, xx = 0, xy = 0;
  for (const Sample& s : samples) mean_x += s.seconds / n, mean_y += s.of(holding) / n;
  for (const Sample& s : samples) {
    xx += (s.seconds - mean_x) * (s.seconds - mean_x);
    xy += (s.seconds - mean_x) * (s.of(holding) - mean_y);
  }
  const double slope = xx > 0 ? xy / xx : 0;
  double squares = 0, neighbours = 0, last = 0;
  for (const Sample& s : samples) {
    const double rest = s.of(holding) - mean_y - slope * (s.seconds - mean_x);
    squares += rest * rest, neighbours += rest * last, last = rest;
  }
  const double correlation = squares > 0 ? std::clamp(neighbours / squares, 0.0, 0.9) : 0;
  const double deviation =
      xx > 0 && n > 2 ? std::sqrt(squares / (n - 2) / xx * (1 + correlation) / (1 - correlation)) : 0;
  auto at = [&](const Sample& s) { return mean_y + slope * (s.seconds - mean_x); };
  return {at(samples.front()), at(samples.back()), slope, deviation};
}

double Highest(std::span<const Sample> samples, Holding holding) {
  double highest = 0;
  for (const Sample& s : samples) highest = std::max(highest, s.of(holding));
  return highest;
}

// By a line: more than this share of what is held, and more than this much.
struct Limit {
  double share, least;
};
Limit LimitOf(Holding holding, GrowthRule rule) {
  switch (holding) {
    case Holding::kMemory: return rule == GrowthRule::kAnHour ? Limit{0.01, 2048} : Limit{0.1, 4096};
    case Holding::kMappings: return rule == GrowthRule::kAnHour ? Limit{0.01, 16} : Limit{0.05, 16};
    case Holding::kDescriptors:
    case Holding::kThreads: return {0, 0};
  }
  return {0, 0};
}

}  // namespace

const char* HoldingName(Holding holding) {
  switch (holding) {
    case Holding::kMemory: return "memory_kb";
    case Holding::kDescriptors: return "descriptors";
    case Holding::kMappings: return "mappings";
    case Holding::kThreads: return "threads";
  }
  return "";
}

Result<Sample> TakeSample(double seconds, double threads) {
  Sample out{.seconds = seconds};
  auto set = [&](Holding holding, double value) { out.held[static_cast<std::size_t>(holding)] = value; };
  for (int look = 0; look < 100; ++look) {
    if (look > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    KRAFLA_ASSIGN(const double now, EntriesOf("/proc/self/task"));
    set(Holding::kThreads, now);
    if (now <= threads) break;
  }
  KRAFLA_ASSIGN(const double descriptors, EntriesOf("/proc/self/fd"));
  set(Holding::kDescriptors, descriptors);
  KRAFLA_ASSIGN(const std::string maps, ReadFile("/proc/self/maps"));
  set(Holding::kMappings, static_cast<double>(std::ranges::count(maps, '\n')));
  // What is free and kept for later goes up and down by megabytes, as threads come to share arenas or not.
  DropKeptBlocks();
#ifdef __GLIBC__
  malloc_trim(0);
#endif
  KRAFLA_ASSIGN(const std::string statm, ReadFile("/proc/self/statm"));
  const std::size_t second = statm.find(' ');
  if (second == std::string::npos) return DataLoss("/proc/self/statm is '{}'", statm);
  set(Holding::kMemory,
      std::strtod(statm.c_str() + second, nullptr) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1024);
  return out;
}

std::vector<Growth> JudgeGrowth(std::span<const Sample> samples, GrowthRule rule) {
  const auto first = samples.first(samples.size() / 2), second = samples.subspan(samples.size() / 2);
  std::vector<Growth> out;
  for (const Holding holding : kHoldings) {
    Growth g{.holding = holding};
    if (holding == Holding::kDescriptors || holding == Holding::kThreads) {
      g.middle = Highest(first, holding), g.end = Highest(second, holding);
      g.growth = g.end - g.middle;
    } else {
      const Line line = FitLine(second, holding);
      const Limit limit = LimitOf(holding, rule);
      const double seconds = rule == GrowthRule::kAnHour ? 3600 : second.back().seconds - second.front().seconds;
      g.middle = line.begin, g.end = line.end;
      g.growth = line.a_second * seconds, g.deviation = line.deviation * seconds;
      g.limit = std::max(limit.share * line.begin, limit.least);
    }
    out.push_back(g);
  }
  return out;
}

}  // namespace krafla
