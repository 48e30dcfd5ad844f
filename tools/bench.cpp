// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "api/front_end.h"
#include "command.h"
#include "prepare.h"
#include "recorded/corpus.h"
#include "results.h"

namespace krafla::cli {
namespace {

struct Timing {
  std::string name;
  double compile_ms = 0, first_ms = 0, median_ms = 0, min_ms = 0, p90_ms = 0, p99_ms = 0;
  double cpu_ms = 0;  // processor time a run, of all threads
  int64_t peak_bytes = 0;
  int kernels = 0, launches = 0;
  DeviceWork work;
  ExchangeTimes exchanges;  // a run
  std::string placement;
};

Result<Timing> Time(const std::string& name, const std::string& module_path, const RecordedCase* recorded,
                    DeviceGroup& group, const CompileOptions& compile_options, const BenchOptions& options) {
  Timing out;
  out.name = name;
  KRAFLA_ASSIGN(std::unique_ptr<Module> module, LoadModule(module_path, options.shapes));
  if (recorded != nullptr) {
    module->replica_count = recorded->replicas;
    module->num_partitions = recorded->partitions;
  }
  const bool several = module->replica_count > 1 || module->num_partitions > 1;
  if (!several) KRAFLA_TRY(TuneFirst(options.tune, options.device.selector, *module, compile_options));
  KRAFLA_ASSIGN(
      Prepared prepared,
      several ? PrepareTogether(std::move(module), recorded, group, compile_options, options.device.ToGroupOptions())
              : PrepareDonating(std::move(module), recorded, group.client(0), compile_options));
  out.compile_ms = prepared.report.compile_ms();
  out.kernels = prepared.report.kernels;
  out.launches = prepared.report.launches;
  out.placement = prepared.placement;
  Stopwatch first;
  KRAFLA_TRY(prepared.ExecuteDonating(options.device));
  out.first_ms = first.Milliseconds() + prepared.compile_wall_ms - out.compile_ms;
  KRAFLA_TRY(prepared.ExecuteDonating(options.device));
  std::vector<double> times;
  // Processes run equally often.
  int64_t iterations = options.iterations;
  if (group.world() != nullptr) {
    Stopwatch third;
    KRAFLA_TRY(prepared.ExecuteDonating(options.device));
    const double fit = options.min_time * 1000 / std::max(1e-3, third.Milliseconds());
    KRAFLA_ASSIGN(
        iterations,
        AsRankZero(group, iterations > 0 ? iterations : std::clamp<int64_t>(static_cast<int64_t>(fit), 3, 100000)));
  }
  const ExchangeTimes before = prepared.together ? prepared.together->exchange_times() : ExchangeTimes();
  Stopwatch total;
  std::clock_t cpu = 0;
  while (iterations > 0
             ? std::ssize(times) < iterations
             : (times.size() < 3 || total.Milliseconds() < options.min_time * 1000) && times.size() < 100000) {
    // A state that is updated again and again may leave the range of normal numbers, which would be another benchmark.
    constexpr std::size_t kRunsOfAState = 100;
    if (times.size() % kRunsOfAState == 0) KRAFLA_TRY(prepared.Renew());
    const std::clock_t began = std::clock();
    Stopwatch one;
    KRAFLA_TRY(prepared.ExecuteDonating(options.device));
    times.push_back(one.Milliseconds());
    cpu += std::clock() - began;
    if (options.every_ms > one.Milliseconds())
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(options.every_ms - one.Milliseconds()));
  }
  out.cpu_ms = static_cast<double>(cpu) * 1e3 / CLOCKS_PER_SEC / static_cast<double>(times.size());
  std::sort(times.begin(), times.end());
  out.min_ms = times.front();
  out.median_ms = times[times.size() / 2];
  out.p90_ms = times[times.size() * 90 / 100];
  out.p99_ms = times[times.size() * 99 / 100];
  out.peak_bytes = PeakBytes();
  if (prepared.alone) out.work = prepared.alone->device_work();
  if (prepared.together) {
    const ExchangeTimes after = prepared.together->exchange_times();
    const auto runs = static_cast<double>(times.size());
    out.exchanges = {(after.waited_ms - before.waited_ms) / runs, (after.on_lane_ms - before.on_lane_ms) / runs};
  }
  return out;
}

}  // namespace

int Bench(const BenchOptions& options) {
  auto compile_options = options.device.ToCompileOptions();
  if (!compile_options) return Fail(compile_options.error()), kUsage;
  if (auto can = CheckTunable(options.tune, options.device.selector); !can) return Fail(can.error()), kUsage;
  compile_options->transfers = HostTransfers::WithoutHost();
  auto group = OpenGroup(options.device);
  if (!group) return FailDevice(group.error());
  int code = kRight;
  if (!options.device.json)
    std::printf("%-28s %10s %10s %10s %10s %10s %8s %8s\n", "case", "compile ms", "first ms", "median ms", "min ms",
                "p90 ms", "peak MB", "launches");
  for (const std::string& path : options.paths) {
    std::vector<RecordedCase> cases;
    std::error_code error;
    const bool is_file = path == "-" || HoldsModuleAlone(path) ||
                         (std::filesystem::exists(path, error) && !std::filesystem::is_directory(path, error));
    if (!is_file) {
      auto found = FindCases(path);
      if (!found) return Fail(found.error());
      cases = std::move(found->cases);
      if (cases.empty()) {
        std::fprintf(stderr, "krafla: There is no recorded case under %s.\n", path.c_str());
        return kUsage;
      }
    }
    std::size_t count = is_file ? 1 : cases.size();
    for (std::size_t n = 0; n < count; ++n) {
      auto timing = is_file ? Time(path, path, nullptr, **group, *compile_options, options)
                            : Time(cases[n].name, ModuleOf(cases[n]), &cases[n], **group, *compile_options, options);
      if (!timing) {
        code = Fail(InFile(is_file ? path : cases[n].name, timing.error()));
        continue;
      }
      if (options.device.json) {
        nlohmann::ordered_json line = {{"case", timing->name},
                                       {"device", (*group)->selector()},
                                       {"compile_ms", timing->compile_ms},
                                       {"first_ms", timing->first_ms},
                                       {"median_ms", timing->median_ms},
                                       {"min_ms", timing->min_ms},
                                       {"p90_ms", timing->p90_ms},
                                       {"p99_ms", timing->p99_ms},
                                       {"cpu_ms", timing->cpu_ms},
                                       {"peak_bytes", timing->peak_bytes},
                                       {"kernels", timing->kernels},
                                       {"launches", timing->launches},
                                       {"submissions", timing->work.submissions},
                                       {"longest_submission_ms", timing->work.longest_ms},
                                       {"exchange_ms", timing->exchanges.waited_ms},
                                       {"exchange_beside_ms", timing->exchanges.on_lane_ms}};
        PrintJsonLine(line);
      } else {
        std::printf("%-28s %10.2f %10.2f %10.3f %10.3f %10.3f %8.0f %8d\n", timing->name.c_str(), timing->compile_ms,
                    timing->first_ms, timing->median_ms, timing->min_ms, timing->p90_ms,
                    static_cast<double>(timing->peak_bytes) / 1e6, timing->launches);
        Remark(timing->placement);
      }
      std::fflush(stdout);
    }
  }
  return code;
}

}  // namespace krafla::cli
