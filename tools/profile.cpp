// SPDX-License-Identifier: Apache-2.0
// krafla profile: what the time of a run goes into, by kernel or by operation.
#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "api/front_end.h"
#include "command.h"
#include "prepare.h"
#include "profile_files.h"
#include "results.h"

namespace krafla::cli {
namespace {

std::string Dimensions(const std::array<uint32_t, 3>& size) {
  if (size[0] == 0) return "";
  if (size[2] != 1) return Format("{}x{}x{}", size[0], size[1], size[2]);
  return size[1] != 1 ? Format("{}x{}", size[0], size[1]) : Format("{}", size[0]);
}

// Steps that are one line of the table.
struct Line {
  std::string name;
  const ProfiledStep* first = nullptr;
  bool is_one_variant = true;
  double ms = 0, flops = 0, bytes = 0;
  int64_t times = 0;
};

std::string NameOf(const ProfiledStep& step, const std::string& by) {
  const auto either = [&](const std::string& wanted) { return wanted.empty() ? "(" + step.kernel + ")" : wanted; };
  if (by == "family") return step.variant.empty() ? step.family : step.variant;
  if (by == "instruction") return either(step.instruction);
  if (by == "op") return either(step.op_name);
  if (by == "source") return either(step.source);
  return step.kernel;
}

std::vector<Line> LinesOf(const RunProfile& profile, const std::string& by) {
  std::map<std::string, Line> found;
  for (const ProfiledStep& step : profile.steps) {
    // Kernels of one name may be different ones.
    std::string key = NameOf(step, by);
    if (by == "kernel") key += "\n" + step.variant + "\n" + step.place;
    Line& line = found[key];
    if (line.first == nullptr) line.first = &step, line.name = NameOf(step, by);
    line.is_one_variant = line.is_one_variant && line.first->variant == step.variant && line.first->place == step.place;
    line.ms += step.ms;
    line.times += step.times;
    line.flops += step.flops * static_cast<double>(step.times);
    line.bytes += step.bytes * static_cast<double>(step.times);
  }
  std::vector<Line> out;
  for (auto& [key, line] : found) out.push_back(std::move(line));
  std::ranges::stable_sort(out, std::greater<>(), &Line::ms);
  return out;
}

void PrintTable(const ProfileDocument& document, const ProfileOptions& options) {
  const RunProfile& profile = document.profile;
  const Roof& roof = document.roof;
  double all = 0;
  for (const ProfiledStep& step : profile.steps) all += step.ms;
  const std::vector<Line> lines = LinesOf(profile, options.by);
  std::printf("%10s %6s %6s %9s %8s %6s  %-24s %s\n", "ms", "share", "times", "GFLOP/s", "GB/s", "roof", "variant",
              options.by.c_str());
  std::size_t printed = 0;
  for (const Line& line : lines) {
    if (options.top > 0 && printed == static_cast<std::size_t>(options.top)) break;
    ++printed;
    const ProfiledStep& first = *line.first;
    std::string variant = !line.is_one_variant ? "several" : first.variant.empty() ? first.family : first.variant;
    if (first.place == "cpu" && document.device != "cpu") variant += " on cpu";
    std::printf("%10.3f %5.1f%% %6lld %9.1f %8.1f %5.0f%%  %-24s %s\n", line.ms, all > 0 ? 100 * line.ms / all : 0,
                static_cast<long long>(line.times), line.flops / line.ms * 1e-6, line.bytes / line.ms * 1e-6,
                100 * roof.ShareOf(line.flops, line.bytes, line.ms), variant.c_str(), line.name.c_str());
    if (!options.verbose || !line.is_one_variant) continue;
    if (first.grid[0] != 0)
      std::printf("%19sgrid %s of %s invocations\n", "", Dimensions(first.grid).c_str(),
                  Dimensions(first.local_size).c_str());
    if (!first.reason.empty()) std::printf("%19s%s\n", "", first.reason.c_str());
    if (!first.op_name.empty() || !first.source.empty())
      std::printf("%19sfrom %s %s\n", "", first.op_name.c_str(), first.source.c_str());
  }
  if (printed < lines.size()) std::printf("%10s and %zu more; --top 0 prints all\n", "", lines.size() - printed);
  std::printf(
      "\na run: %.3f ms; its steps, measured one by one: %.3f ms (%.0f %%); with the host between them: %.3f ms\n",
      profile.run_ms, all, profile.run_ms > 0 ? 100 * all / profile.run_ms : 0, profile.profiled_ms);
  if (options.roof)
    std::printf("roof, by krafla's own kernels: %.1f GFLOP/s in f32, %.1f GB/s\n", roof.flops_per_s * 1e-9,
                roof.bytes_per_s * 1e-9);
}

Result<> Profile(const ProfileOptions& options, DeviceGroup& group, const CompileOptions& compile_options) {
  KRAFLA_ASSIGN(const Subject subject, FindSubject(options.module));
  KRAFLA_ASSIGN(std::unique_ptr<Module> module, LoadModule(subject.module_path, options.shapes));
  if (module->replica_count > 1 || module->num_partitions > 1)
    return Unimplemented("A program for several devices cannot be profiled.");
  Client& client = group.client(0);
  KRAFLA_ASSIGN(Prepared prepared, PrepareAlone(std::move(module), subject.recorded ? &*subject.recorded : nullptr,
                                                client, compile_options));
  Remark(prepared.placement);
  const RunLimit limit = options.device.ToRunLimit();
  prepared.alone->SetLimit(&limit);
  auto profile = prepared.alone->Profile(options.runs);
  prepared.alone->SetLimit(&kUnlimited);
  if (!profile) return Failure(std::move(profile).error());
  Roof roof;
  if (!options.known_roof.empty()) {
    roof = {options.known_roof[0], options.known_roof[1]};
  } else if (options.roof) {
    CompileOptions plain = compile_options;
    plain.for_profile = false;
    KRAFLA_ASSIGN(roof, MeasureRoof(client, plain));
  }
  const ProfileDocument document{subject.name, prepared.alone->device_description(), *profile, roof};
  if (!options.trace.empty()) KRAFLA_TRY(WriteTrace(document, options.trace));
  if (!options.html.empty()) KRAFLA_TRY(WriteHtml(document, options.html));
  if (options.device.json) {
    for (const nlohmann::ordered_json& line : JsonLines(document)) PrintJsonLine(line);
  } else {
    PrintTable(document, options);
  }
  return {};
}

}  // namespace

int ProfileModule(const ProfileOptions& options) {
  auto compile_options = options.device.ToCompileOptions();
  if (!compile_options) return Fail(compile_options.error()), kUsage;
  compile_options->transfers = HostTransfers::WithoutHost();
  compile_options->for_profile = true;
  auto group = DeviceGroup::Create(options.device.selector);
  if (!group) return FailDevice(group.error());
  Result<> done = Profile(options, **group, *compile_options);
  return done ? kRight : Fail(InFile(options.module, done.error()));
}

}  // namespace krafla::cli
