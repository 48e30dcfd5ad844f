// SPDX-License-Identifier: Apache-2.0
#include "bundle.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "api/front_end.h"
#include "api/vulkan/emitted_kernels.h"
#include "base/file.h"
#include "base/system.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "ir/verifier.h"
#include "prepare.h"
#include "recorded/npz.h"
#include "recorded/zip_file.h"
#include "spirv_files.h"
#include "subprocess.h"

namespace krafla::cli {
namespace {

using Json = nlohmann::ordered_json;

bool IsOfWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; }

// Replaces `what` where it is no part of a longer word.
void ReplaceWord(std::string& text, std::string_view what, std::string_view with) {
  if (what.empty()) return;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos;) {
    const std::size_t end = at + what.size();
    const bool is_part =
        (at > 0 && IsOfWord(what.front()) && IsOfWord(text[at - 1])) || (end < text.size() && IsOfWord(text[end]));
    if (is_part) {
      at = end;
      continue;
    }
    text.replace(at, what.size(), with);
    at += with.size();
  }
}

// Takes out who and where this is: home folders, the user's name, the host's.
class Privacy {
 public:
  Privacy() {
    if (const char* home = std::getenv("HOME"); home != nullptr && std::string_view(home).size() > 1)
      homes_.emplace_back(home);
    if (std::string home = os::UserHome(); home.size() > 1) homes_.push_back(std::move(home));
    user_ = os::UserName();
    host_ = os::HostName();
  }

  std::string Clean(std::string text) const {
    for (const std::string& home : homes_) ReplaceWord(text, home, "~");
    // Of others, as paths of source files have them.
    for (std::string_view homes : {"/home/", "/Users/"})
      for (std::size_t at = 0; (at = text.find(homes, at)) != std::string::npos;) {
        std::size_t end = at + homes.size();
        while (end < text.size() && (IsOfWord(text[end]) || text[end] == '.')) ++end;
        text.replace(at, end - at, "~");
        ++at;
      }
    ReplaceWord(text, user_, "USER");
    if (host_ != "localhost") ReplaceWord(text, host_, "HOST");
    return text;
  }

 private:
  std::vector<std::string> homes_;
  std::string user_, host_;
};

class Bundle {
 public:
  explicit Bundle(const BundleOptions& options) : options_(options) {}

  Result<> Collect() {
    KRAFLA_TRY(AddDoctor());
    AddOptions();
    if (!options_.module.empty()) KRAFLA_TRY(AddModule());
    AddText("log.txt", log_);
    std::string list =
        "What `krafla doctor --bundle` put together. Paths of homes, the user and the host are left out.\n\n";
    for (const auto& [name, bytes] : files_) list += Format("{} ({} bytes)\n", name, bytes.size());
    AddText("README.txt", list);
    return {};
  }

  Result<> Write() const {
    std::vector<ZipEntry> entries;
    for (const auto& [name, bytes] : files_) entries.push_back({name, bytes, {}, true});
    return WriteZip(options_.file, entries);
  }

  std::size_t files() const { return files_.size(); }
  // The status that the run ended with, in words; empty: it ran, or nothing was run.
  const std::string& failure() const { return failure_; }

 private:
  void AddText(std::string name, std::string text) {
    files_.emplace_back(std::move(name), privacy_.Clean(std::move(text)));
  }
  void AddBytes(std::string name, std::string bytes) { files_.emplace_back(std::move(name), std::move(bytes)); }
  void Log(const std::string& line) { log_ += line + "\n"; }

  Result<> AddDoctor() {
    KRAFLA_ASSIGN(const ScratchFolder folder, ScratchFolder::Make());
    for (const bool json : {false, true}) {
      const std::string path = folder.File("doctor");
      std::FILE* file = std::fopen(path.c_str(), "wb");
      if (file == nullptr) return DataLoss("'{}' cannot be written.", path);
      Examine({json, file});
      if (std::fclose(file) != 0) return DataLoss("'{}' cannot be written.", path);
      KRAFLA_ASSIGN(std::string text, ReadFile(path));
      AddText(json ? "doctor.jsonl" : "doctor.txt", std::move(text));
    }
    return {};
  }

  void AddOptions() {
    const DeviceOptions& d = options_.device;
    Json out = {{"krafla", KRAFLA_VERSION},        {"device", d.selector}, {"strict", d.strict},
                {"disabled", d.disabled},          {"enabled", d.enabled}, {"threads", d.threads},
                {"submission_ms", d.submission_ms}};
    if (d.time_limit) out["time_limit"] = *d.time_limit;
    AddText("options.json", out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  }

  Result<> AddModule() {
    KRAFLA_ASSIGN(const Subject subject, FindSubject(options_.module));
    KRAFLA_ASSIGN(const std::unique_ptr<Module> module, LoadModule(subject.module_path));
    AddText("module.hlo", PrintModule(*module));
    KRAFLA_TRY(Verify(*module));
    std::vector<Shape> parameters, results;
    for (const Instruction* p : module->entry()->parameters())
      for (const Shape* leaf : TupleLeaves(p->shape())) parameters.push_back(*leaf);
    for (const Shape* leaf : TupleLeaves(module->entry()->root()->shape())) results.push_back(*leaf);
    std::string shapes;
    for (const Shape& shape : parameters) shapes += shape.ToString() + "\n";
    AddText("arguments.txt", shapes + (subject.recorded ? "recorded\n" : Format("random, seed {}\n", options_.seed)));
    if ((subject.recorded && subject.recorded->replicas * subject.recorded->partitions > 1) ||
        module->replica_count > 1 || module->num_partitions > 1) {
      Log("A program for several devices: it was not planned or run for the bundle.");
      return {};
    }
    std::vector<Literal> arguments;
    if (subject.recorded) {
      KRAFLA_ASSIGN(RecordedArrays arrays, ReadArrays(*subject.recorded, parameters, results, RecordedPart::kInputs));
      arguments = std::move(arrays.inputs[0]);
    } else {
      KRAFLA_ASSIGN(arguments, RandomArguments(parameters, options_.seed));
    }
    if (options_.with_arguments) KRAFLA_TRY(AddArguments(arguments));
    // What fails from here on is what the report is about.
    if (auto done = PlanAndRun(*module, std::move(arguments)); !done) {
      failure_ = done.error().ToString();
      Log("failed: " + failure_);
    }
    return {};
  }

  Result<> AddArguments(const std::vector<Literal>& arguments) {
    KRAFLA_ASSIGN(const ScratchFolder folder, ScratchFolder::Make());
    std::vector<NamedLiteral> named;
    for (std::size_t a = 0; a < arguments.size(); ++a) {
      KRAFLA_ASSIGN(Literal copy, CopyOf(arguments[a]));
      named.push_back({Format("arg_{}", a), std::move(copy)});
    }
    KRAFLA_TRY(WriteNpz(folder.File("arguments.npz"), named));
    KRAFLA_ASSIGN(std::string bytes, ReadFile(folder.File("arguments.npz")));
    AddBytes("arguments.npz", std::move(bytes));
    return {};
  }

  Result<> PlanAndRun(const Module& module, std::vector<Literal> arguments) {
    KRAFLA_ASSIGN(CompileOptions compile, options_.device.ToCompileOptions());
    compile.transfers = HostTransfers::WithoutHost();
    KRAFLA_ASSIGN(const std::shared_ptr<Client> client, OpenDevice(options_.device.selector));
    Log("device: " + client->device().description);
    KRAFLA_TRY(AddPlan(module, client->device(), compile));
    KRAFLA_ASSIGN(const std::unique_ptr<Executable> executable, client->Compile(module.Clone(), compile));
    Log(executable->PlacementLine());
    const RunLimit limit = options_.device.ToRunLimit();
    const Stopwatch time;
    KRAFLA_ASSIGN(const std::vector<Literal> results, executable->RunShared(ToShared(std::move(arguments)), limit));
    Log(Format("ran once, in {}; {} results", FormatMs(time.Milliseconds()), results.size()));
    for (const std::string& message : client->TakeValidationMessages()) Log("validation: " + message);
    return {};
  }

  Result<> AddPlan(const Module& module, const DeviceDescription& device, const CompileOptions& compile) {
    CompileReport report;
    FrontEnd front_end(module.Clone(), compile, report, device.target);
    KRAFLA_TRY(front_end.Optimize());
    AddText("optimized.hlo", PrintModule(front_end.module()));
    std::optional<DeviceProfile> profile;
    if (device.profile) {
      KRAFLA_ASSIGN(profile, device.profile->WithDisabled(FeaturesOff(front_end.module(), compile)));
    }
    KRAFLA_ASSIGN(const plan::ProgramPlan plan, front_end.Plan(profile ? &*profile : nullptr));
    AddText("plan.txt", plan::ToString(plan));
    if (!profile) return {};
    KRAFLA_ASSIGN(const SpirvFiles spirv, MakeSpirvFiles(plan, *profile, compile));
    AddText("kernels.txt", spirv.list);
    AddText("spirv/kernels.json", spirv.kernels);
    KRAFLA_ASSIGN(const ScratchFolder folder, ScratchFolder::Make());
    bool disassembles = true;
    for (const SpirvFiles::File& file : spirv.files) {
      const std::string bytes(reinterpret_cast<const char*>(file.words.data()), file.words.size() * 4);
      AddBytes("spirv/" + file.name, bytes);
      if (!disassembles) continue;
      KRAFLA_TRY(WriteFile(folder.File("kernel.spv"), bytes));
      const auto done = RunProgram({"spirv-dis", folder.File("kernel.spv")}, folder.File("out"), folder.File("err"));
      if (!done) {
        disassembles = false;
        Log("no disassembly: " + done.error().message());
        continue;
      }
      KRAFLA_ASSIGN(std::string text, ReadFile(folder.File("out")));
      AddText("spirv/" + file.name + ".txt", std::move(text));
    }
    return {};
  }

  const BundleOptions& options_;
  const Privacy privacy_;
  std::vector<std::pair<std::string, std::string>> files_;
  std::string log_, failure_;
};

}  // namespace

void BundleOptions::AddTo(CLI::App& doctor) {
  CLI::Option* bundle =
      doctor.add_option("--bundle", file, "write all that a report of a failure needs to this file, FILE.zip");
  doctor.add_option("module", module, "for the bundle: a model folder, or a module file (run on random arguments)")
      ->needs(bundle);
  doctor
      .add_flag("--with-arguments", with_arguments, "put the arguments' values into the bundle, not only their shapes")
      ->needs(bundle);
  doctor.add_option("--seed", seed, "of random arguments")->needs(bundle);
  device.AddTo(doctor, {.json = false});
}

bool BundleOptions::AreIdle() const {
  // KRAFLA_DEVICE may be set for other commands.
  const char* wish = std::getenv("KRAFLA_DEVICE");
  return file.empty() && (device.selector != (wish == nullptr ? "" : wish) || device.strict || device.threads > 0 ||
                          !device.disabled.empty() || !device.enabled.empty() || device.time_limit);
}

int WriteBundle(const BundleOptions& options) {
  if (auto known = options.device.ToCompileOptions(); !known) return Fail(known.error()), kUsage;
  // A device that fails is what a report may be about; words that name none are not.
  if (const auto device = OpenDevice(options.device.selector);
      !device && device.error().code() == StatusCode::kInvalidArgument)
    return FailDevice(device.error());
  Bundle bundle(options);
  if (auto collected = bundle.Collect(); !collected) return Fail(collected.error());
  if (auto written = bundle.Write(); !written) return Fail(written.error());
  std::printf("%s: %zu files\n", options.file.c_str(), bundle.files());
  if (!bundle.failure().empty())
    std::fprintf(stderr, "krafla: The program fails, and the bundle says how: %s\n", bundle.failure().c_str());
  return kRight;
}

}  // namespace krafla::cli
