// SPDX-License-Identifier: Apache-2.0
// krafla tune: the fastest settings of kernels on this device.
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "api/front_end.h"
#include "base/file.h"
#include "command.h"
#include "prepare.h"
#include "results.h"
#ifdef KRAFLA_HAVE_VULKAN
#include "api/vulkan/vulkan_tuned.h"
#endif

namespace krafla::cli {

Result<> CheckTunable(const std::string& how, const std::string& selector) {
  if (!how.empty() && selector.starts_with("cpu"))
    return InvalidArgument("Kernels are tuned on Vulkan devices only, not on '{}'.", selector);
  return {};
}

#ifdef KRAFLA_HAVE_VULKAN
namespace {

// Of --tune first-run: settings that are timed, whatever time they take, so that two first runs try the same.
constexpr int kFirstRunCandidates = 48;

void ShowProgress(int kernel, int of, const std::string& name) {
  if (StderrIsTerminal()) std::fprintf(stderr, "\r\33[Kkrafla: kernel %d of %d, %s", kernel, of, name.c_str());
}

void PrintTuneReport(const std::string& name, const TuneReport& report, bool json) {
  if (StderrIsTerminal()) std::fprintf(stderr, "\r\33[K");
  for (const std::string& note : report.notes) std::fprintf(stderr, "krafla: %s\n", note.c_str());
  if (json) {
    const nlohmann::ordered_json line = {{"module", name},
                                         {"kernels", report.kernels},
                                         {"known", report.known},
                                         {"timed", report.done},
                                         {"candidates", report.candidates},
                                         {"faster", report.faster},
                                         {"other_sums", report.other_sums},
                                         {"wrong", report.wrong},
                                         {"out_of_budget", report.out_of_budget}};
    PrintJsonLine(line);
  } else {
    std::printf("%-28s %d kernels, %d known, %d timed with %d settings: %d faster%s\n", name.c_str(), report.kernels,
                report.known, report.done, report.candidates, report.faster,
                report.out_of_budget ? "; out of the budget" : "");
  }
  std::fflush(stdout);
}

void PrintStored(const TunedKernels& tuned, bool json) {
  for (const auto& [problem, kernel] : tuned.kernels) {
    if (json) {
      const nlohmann::ordered_json line = {{"problem", problem},
                                           {"name", kernel.name},
                                           {"family", kernel.family},
                                           {"tuning", kernel.tuning},
                                           {"default_variant", kernel.default_variant},
                                           {"variant", kernel.variant},
                                           {"default_ms", kernel.default_ms},
                                           {"ms", kernel.ms},
                                           {"other_sums", kernel.other_sums}};
      PrintJsonLine(line);
      continue;
    }
    std::printf("%9.3f ms, %9.3f by default  %-24s %s%s  %s\n", kernel.ms, kernel.default_ms, kernel.variant.c_str(),
                kernel.tuning.empty() ? "the default" : kernel.tuning.c_str(), kernel.other_sums ? " (other sums)" : "",
                kernel.name.c_str());
  }
}

// A name for people and the module's file, for each module that is asked for.
Result<std::vector<std::pair<std::string, std::string>>> ModulesToTune(const TuneCommandOptions& options) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const std::string& path : options.paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      out.emplace_back(path, path);
      continue;
    }
    KRAFLA_ASSIGN(auto found, FindCases(path));
    if (found.cases.empty()) return NotFound("There is no recorded case under {}.", path);
    if (found.cases.size() != 1 && !options.all)
      return InvalidArgument("{} holds {} models; with --all every one is tuned.", path, found.cases.size());
    for (const RecordedCase& c : found.cases)
      if (c.replicas * c.partitions == 1) out.emplace_back(c.name, ModuleOf(c));
  }
  return out;
}

// Of a group its first device.
Result<std::string> DeviceToTune(const std::string& selector) {
  if (selector.find_first_of("*,") == std::string::npos) return selector.empty() ? "vulkan" : selector;
  KRAFLA_ASSIGN(const std::shared_ptr<Client> client, OpenDevice(selector));
  return client->device().selector;
}

Result<int> TuneAll(const TuneCommandOptions& options, const CompileOptions& compile_options) {
  KRAFLA_ASSIGN(const std::string selector, DeviceToTune(options.device.selector));
  const auto opened = TestedProfile(selector);
  if (!opened) return FailDevice(opened.error());
  const DeviceProfile& profile = *opened;
  Remark(Format("{}, {}", profile.name, profile.driver_info));
  if (options.clear) KRAFLA_TRY(WriteTuned({}, profile));
  StoredTuned stored = ReadTuned(profile);
  if (!stored.ignored.empty()) std::fprintf(stderr, "krafla: stored tuning is not used: %s\n", stored.ignored.c_str());
  if (!options.import_file.empty()) {
    KRAFLA_ASSIGN(const std::string text, ReadFile(options.import_file));
    auto read = ParseTuned(text, profile);
    if (!read) return Failure(InFile(options.import_file, read.error()));
    for (auto& [problem, kernel] : read->kernels) stored.tuned.kernels[problem] = std::move(kernel);
    KRAFLA_TRY(WriteTuned(stored.tuned, profile));
  }
  KRAFLA_ASSIGN(const auto modules, ModulesToTune(options));
  const Stopwatch all;
  int code = kRight;
  for (const auto& [name, path] : modules) {
    TuneOptions tune;
    tune.budget_ms = std::max(0.0, options.budget * 1e3 - all.Milliseconds());
    tune.allow_other_sums = options.allow_other_sums;
    tune.again = options.again;
    tune.progress = ShowProgress;
    auto module = LoadModule(path, options.shapes);
    if (!module) {
      code = Fail(module.error());
      continue;
    }
    auto report = TuneModule(selector, std::move(*module), compile_options, tune, stored.tuned);
    if (!report) {
      code = Fail(InFile(path, report.error()));
      continue;
    }
    PrintTuneReport(name, *report, options.device.json);
    if (report->wrong > 0 && code == kRight) code = kCheckFailed;
    // After each: what was found so far stays where the next one fails.
    if (report->done > 0) KRAFLA_TRY(WriteTuned(stored.tuned, profile));
  }
  if (!options.export_file.empty()) KRAFLA_TRY(WriteFile(options.export_file, TunedToJson(stored.tuned, profile)));
  if (options.list) PrintStored(stored.tuned, options.device.json);
  return code;
}

}  // namespace

int Tune(const TuneCommandOptions& options) {
  auto compile_options = options.device.ToCompileOptions();
  if (!compile_options) return Fail(compile_options.error()), kUsage;
  const bool has_work = options.list || options.clear || !options.export_file.empty() || !options.import_file.empty();
  if (options.paths.empty() && !has_work) {
    std::fprintf(stderr, "krafla: The command tune needs a module, or one of --list, --clear, --export, --import.\n");
    return kUsage;
  }
  if (auto can = CheckTunable("tune", options.device.selector); !can) return Fail(can.error()), kUsage;
  auto code = TuneAll(options, *compile_options);
  return code ? *code : Fail(code.error());
}

Result<> TuneFirst(const std::string& how, const std::string& selector, const Module& module,
                   const CompileOptions& options) {
  if (how.empty()) return {};
  KRAFLA_ASSIGN(const std::string device, DeviceToTune(selector));
  KRAFLA_ASSIGN(const DeviceProfile profile, TestedProfile(device));
  StoredTuned stored = ReadTuned(profile);
  TuneOptions tune;
  tune.most_candidates = kFirstRunCandidates;
  tune.progress = ShowProgress;
  KRAFLA_ASSIGN(const TuneReport report, TuneModule(device, module.Clone(), options, tune, stored.tuned));
  if (StderrIsTerminal()) std::fprintf(stderr, "\r\33[K");
  if (report.done == 0) return {};
  Remark(Format("{} of {} kernels timed with {} settings: {} faster", report.done, report.kernels, report.candidates,
                report.faster));
  return WriteTuned(stored.tuned, profile);
}
#else

int Tune(const TuneCommandOptions& options) {
  if (auto can = CheckTunable("tune", options.device.selector); !can) return Fail(can.error()), kUsage;
  return FailDevice(
      Status(StatusCode::kUnimplemented, "This krafla was built without Vulkan, so that there is no device to tune."));
}

Result<> TuneFirst(const std::string& how, const std::string&, const Module&, const CompileOptions&) {
  if (how.empty()) return {};
  return Unimplemented("This krafla was built without Vulkan, so that there is no device to tune.");
}
#endif

}  // namespace krafla::cli
