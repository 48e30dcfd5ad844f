// SPDX-License-Identifier: Apache-2.0
// Does again and again in one process what applications do, and looks at whether the process holds more and more.
//
//   soak MODELS [-d DEVICE] [--seconds N | --rounds N] [--json] [--leak memory_kb|descriptors|mappings|threads]
//
// With --seconds growth is judged by what it would be in an hour; with --rounds, which is for short runs, by what it
// is, within wider limits. Descriptors and threads may not grow at all. --leak loses something on purpose in each
// round. Exit: 0 where nothing grows, 1 where something does or a round goes wrong, 2 for wrong usage, 77 where there
// is no such device.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <thread>

#include <nlohmann/json.hpp>

#include "growth.h"
#include "workload.h"

namespace krafla {
namespace {

constexpr const char* kUsage =
    "soak MODELS [-d DEVICE] [--seconds N | --rounds N] [--json] [--leak memory_kb|descriptors|mappings|threads]\n";
constexpr int kExitUsage = 2, kExitNoDevice = 77;
constexpr std::size_t kMostSamples = 400, kRowsShown = 12;

struct SoakOptions {
  std::string models, device = "cpu";
  std::optional<int64_t> seconds, rounds;
  std::optional<Holding> leak;
  bool json = false;
};

// Nothing for what cannot be understood.
std::optional<SoakOptions> ReadArguments(int argc, char** argv) {
  SoakOptions out;
  auto number = [](std::string_view text) -> std::optional<int64_t> {
    int64_t value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size() || value < 1 || value > 100'000'000) return {};
    return value;
  };
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (word == "--json") {
      out.json = true;
    } else if (!word.starts_with("-") && out.models.empty()) {
      out.models = word;
    } else if (value == nullptr) {
      return {};
    } else if (++i; word == "-d") {
      out.device = value;
    } else if (word == "--seconds") {
      if (out.seconds = number(value); !out.seconds) return {};
    } else if (word == "--rounds") {
      if (out.rounds = number(value); !out.rounds) return {};
    } else if (word == "--leak") {
      for (const Holding holding : kHoldings)
        if (std::string_view(HoldingName(holding)) == value) out.leak = holding;
      if (!out.leak) return {};
    } else {
      return {};
    }
  }
  if (out.models.empty() || out.seconds.has_value() == out.rounds.has_value()) return {};
  return out;
}

// Loses a little for good.
void Leak(Holding holding) {
  switch (holding) {
    case Holding::kMemory: {
      static std::vector<std::string> lost;
      lost.emplace_back(1 << 20, 'x');
      return;
    }
    case Holding::kDescriptors: (void)!open("/dev/null", O_RDONLY); return;
    case Holding::kMappings:
      // Of different rights, so that neighbours do not become one.
      for (int rights : {PROT_READ, PROT_NONE, PROT_READ, PROT_NONE})
        (void)mmap(nullptr, 4096, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      return;
    case Holding::kThreads: std::thread([] { pause(); }).detach(); return;
  }
}

struct Soaked {
  std::string device;
  int64_t rounds = 0;
  std::vector<Sample> samples;
  Result<> outcome;  // of the first round that went wrong
};

Soaked Soak(Workload& workload, const SoakOptions& options) {
  Soaked out;
  out.device = workload.device_description();
  const auto start = std::chrono::steady_clock::now();
  auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  const double between = options.seconds ? static_cast<double>(*options.seconds) / kMostSamples : 0;
  double threads = 1e9;  // of the last sample
  while (options.rounds ? out.rounds < *options.rounds : seconds() < static_cast<double>(*options.seconds)) {
    if (out.outcome = workload.Round(out.rounds); !out.outcome) return out;
    ++out.rounds;
    if (options.leak) Leak(*options.leak);
    // After whole cycles, as each of its rounds leaves something else in free lists; short runs have too few of them.
    if (options.seconds && out.rounds % Workload::kCycle != 0) continue;
    if (!out.samples.empty() && seconds() < out.samples.back().seconds + between) continue;
    auto sample = TakeSample(seconds(), threads);
    if (!sample) {
      out.outcome = Failure(sample.error());
      return out;
    }
    threads = sample->of(Holding::kThreads);
    out.samples.push_back(*sample);
  }
  return out;
}

void PrintTable(const Soaked& soaked, const std::vector<Growth>& growths, GrowthRule rule) {
  std::printf("%s: %lld rounds\n%10s", soaked.device.c_str(), static_cast<long long>(soaked.rounds), "seconds");
  for (const Holding holding : kHoldings) std::printf(" %12s", HoldingName(holding));
  std::printf("\n");
  const std::size_t last = soaked.samples.size() - 1, rows = std::min(kRowsShown, last);
  for (std::size_t row = 0; row <= rows; ++row) {
    const Sample& s = soaked.samples[rows == 0 ? 0 : row * last / rows];
    std::printf("%10.1f", s.seconds);
    for (const Holding holding : kHoldings) std::printf(" %12.0f", s.of(holding));
    std::printf("\n");
  }
  for (const Growth& g : growths)
    std::printf("%-12s %+.1f (deviation %.1f) %s, allowed %.1f: %s\n", HoldingName(g.holding), g.growth, g.deviation,
                g.limit > 0 && rule == GrowthRule::kAnHour ? "an hour" : "in the second half", g.limit,
                g.grows() ? "GROWS" : "good");
}

void PrintJson(const Soaked& soaked, const std::vector<Growth>& growths, GrowthRule rule) {
  nlohmann::ordered_json line = {{"device", soaked.device},
                                 {"rounds", soaked.rounds},
                                 {"rule", rule == GrowthRule::kAnHour ? "an hour" : "as it is"}};
  for (const Sample& s : soaked.samples) {
    nlohmann::ordered_json row = {{"seconds", s.seconds}};
    for (const Holding holding : kHoldings) row[HoldingName(holding)] = s.of(holding);
    line["samples"].push_back(std::move(row));
  }
  for (const Growth& g : growths)
    line["growth"][HoldingName(g.holding)] = {{"middle", g.middle},       {"end", g.end},       {"growth", g.growth},
                                              {"deviation", g.deviation}, {"allowed", g.limit}, {"grows", g.grows()}};
  std::printf("%s\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

int Main(int argc, char** argv) {
  const std::optional<SoakOptions> options = ReadArguments(argc, argv);
  if (!options) return std::fprintf(stderr, "%s", kUsage), kExitUsage;
  std::string folder = (std::filesystem::temp_directory_path() / "krafla-soak-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return std::perror("soak: a folder for the cache"), 1;
  const std::string cache = folder + "/cache";
  setenv("KRAFLA_CACHE_DIR", cache.c_str(), 1);
  auto workload = Workload::Create(options->models, options->device, cache);
  int code = 0;
  if (!workload) {
    const bool absent = workload.error().code() == StatusCode::kNotFound && options->device != "cpu";
    std::fprintf(stderr, "%s: %s\n", absent ? "skipped" : "soak", workload.error().ToString().c_str());
    code = absent ? kExitNoDevice : 1;
  } else {
    const Soaked soaked = Soak(**workload, *options);
    const GrowthRule rule = options->seconds ? GrowthRule::kAnHour : GrowthRule::kAsItIs;
    if (!soaked.outcome) {
      std::fprintf(stderr, "soak: round %lld: %s\n", static_cast<long long>(soaked.rounds),
                   soaked.outcome.error().ToString().c_str());
      code = 1;
    } else if (soaked.samples.size() < kFewestSamples) {
      std::fprintf(stderr, "soak: %zu samples are too few to judge; %zu are needed\n", soaked.samples.size(),
                   kFewestSamples);
      code = 1;
    } else {
      const std::vector<Growth> growths = JudgeGrowth(soaked.samples, rule);
      (options->json ? PrintJson : PrintTable)(soaked, growths, rule);
      for (const Growth& g : growths)
        if (g.grows()) code = 1;
    }
  }
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  std::fflush(stdout);
  // Threads lost on purpose would outlive what main() takes down.
  if (options->leak) _exit(code);
  return code;
}

}  // namespace
}  // namespace krafla

int main(int argc, char** argv) { return krafla::Main(argc, argv); }
