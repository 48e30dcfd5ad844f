// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "api/front_end.h"
#include "command.h"
#include "hlo_io/data/corpus.h"

namespace krafla::cli {
namespace {

struct Timing {
  std::string name;
  double compile_ms = 0, first_ms = 0, median_ms = 0, min_ms = 0, p90_ms = 0;
  int64_t peak_bytes = 0;
  int kernels = 0, launches = 0;
  std::string placement;
};

Result<Timing> Time(const std::string& name, const std::string& module_path, const RecordedCase* recorded, Client& client,
                    const CompileOptions& compile_options, const BenchOptions& options) {
  Timing out;
  out.name = name;
  KRAFLA_ASSIGN(std::unique_ptr<Module> module, LoadModule(module_path));
  Stopwatch compile;
  KRAFLA_ASSIGN(std::unique_ptr<Executable> executable, client.Compile(std::move(module), compile_options));
  double whole = compile.Milliseconds();
  out.compile_ms = executable->report().compile_ms();
  out.kernels = executable->report().kernels;
  out.launches = executable->report().launches;
  out.placement = executable->PlacementLine();
  {
    std::vector<Literal> arguments;
    if (recorded != nullptr) {
      KRAFLA_ASSIGN(RecordedArrays arrays,
                    ReadArrays(*recorded, executable->arguments(), executable->results(), RecordedPart::kInputs));
      arguments = std::move(arrays.inputs[0]);
    } else {
      KRAFLA_ASSIGN(arguments, RandomArguments(executable->arguments(), 0));
    }
    KRAFLA_TRY(executable->ShareArguments(ToShared(std::move(arguments))));
  }
  Stopwatch first;
  KRAFLA_TRY(executable->Execute());
  out.first_ms = first.Milliseconds() + whole - out.compile_ms;
  KRAFLA_TRY(executable->Execute());
  std::vector<double> times;
  Stopwatch total;
  while (options.iterations > 0 ? static_cast<int>(times.size()) < options.iterations
                                : (times.size() < 3 || total.Milliseconds() < options.min_time * 1000) && times.size() < 100000) {
    Stopwatch one;
    KRAFLA_TRY(executable->Execute());
    times.push_back(one.Milliseconds());
  }
  std::sort(times.begin(), times.end());
  out.min_ms = times.front();
  out.median_ms = times[times.size() / 2];
  out.p90_ms = times[std::min(times.size() - 1, times.size() * 9 / 10)];
  out.peak_bytes = PeakBytes();
  return out;
}

}  // namespace

int Bench(const BenchOptions& options) {
  auto compile_options = options.device.ToCompileOptions();
  if (!compile_options) return Fail(compile_options.error()), kUsage;
  auto client = Client::Create(options.device.selector);
  if (!client) return FailDevice(client.error());
  int code = kRight;
  if (!options.device.json)
    std::printf("%-28s %10s %10s %10s %10s %10s %8s %8s\n", "case", "compile ms", "first ms", "median ms", "min ms", "p90 ms",
                "peak MB", "launches");
  for (const std::string& path : options.paths) {
    std::vector<RecordedCase> cases;
    bool is_file = std::filesystem::is_regular_file(path);
    if (!is_file) {
      auto found = FindCases(path);
      if (!found) return Fail(found.error());
      cases = std::move(found->cases);
    }
    std::size_t count = is_file ? 1 : cases.size();
    for (std::size_t n = 0; n < count; ++n) {
      if (!is_file && cases[n].replicas * cases[n].partitions > 1) continue;
      auto timing = is_file ? Time(path, path, nullptr, **client, *compile_options, options)
                            : Time(cases[n].name, cases[n].module_path, &cases[n], **client, *compile_options, options);
      if (!timing) {
        code = Fail(timing.error());
        continue;
      }
      if (options.device.json) {
        nlohmann::ordered_json line = {{"case", timing->name}, {"device", (*client)->device().selector},
                                       {"compile_ms", timing->compile_ms}, {"first_ms", timing->first_ms},
                                       {"median_ms", timing->median_ms}, {"min_ms", timing->min_ms}, {"p90_ms", timing->p90_ms},
                                       {"peak_bytes", timing->peak_bytes}, {"kernels", timing->kernels},
                                       {"launches", timing->launches}};
        std::printf("%s\n", line.dump().c_str());
      } else {
        std::printf("%-28s %10.2f %10.2f %10.3f %10.3f %10.3f %8.0f %8d\n", timing->name.c_str(), timing->compile_ms,
                    timing->first_ms, timing->median_ms, timing->min_ms, timing->p90_ms,
                    static_cast<double>(timing->peak_bytes) / 1e6, timing->launches);
        std::fprintf(stderr, "krafla: %s\n", timing->placement.c_str());
      }
      std::fflush(stdout);
    }
  }
  return code;
}

}  // namespace krafla::cli
