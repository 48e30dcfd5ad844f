// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "api/host/host_transfers.h"
#include "arguments.h"
#include "command.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "ir/verifier.h"
#include "prepare.h"
#include "recorded/npz.h"
#include "results.h"

namespace krafla::cli {
namespace {

// One result of device `device` (-1: there is one device); `file`: where it was saved, and its name there.
void PrintResult(const Literal& result, std::size_t number, int64_t device, bool json, const std::string& file = "") {
  const std::string shape = result.shape().ToString(false);
  if (json) {
    nlohmann::ordered_json line;
    if (device >= 0) line["device"] = device;
    line["result"] = number;
    line["shape"] = shape;
    if (!file.empty()) {
      line["file"] = file;
      line["name"] = Format("out{:04}", number);
      PrintJsonLine(line);
      return;
    }
    const std::string begin = line.dump();
    std::printf("%.*s,\"value\":%s}\n", static_cast<int>(begin.size()) - 1, begin.c_str(), JsonOf(result).c_str());
  } else if (!file.empty()) {
    return;
  } else if (device >= 0) {
    std::printf("device %lld: %s %s\n", static_cast<long long>(device), shape.c_str(), PrintLiteral(result).c_str());
  } else {
    std::printf("%s %s\n", shape.c_str(), PrintLiteral(result).c_str());
  }
}

// Prints the results of a device, or saves them.
int Deliver(const RunOptions& options, std::vector<Literal> results, int64_t device) {
  const std::string path = options.save.empty() ? "" : ForDevice(options.save, std::max<int64_t>(device, 0));
  if (std::ranges::any_of(results, IsAllNan) &&
      std::ranges::all_of(results, [](const Literal& r) { return !IsFloat(r.shape().element_type()) || IsAllNan(r); }))
    Warn(options.arguments.random
             ? "Every floating-point result is NaN. --random-range LOW HIGH gives other random arguments."
             : "Every floating-point result is NaN.");
  std::vector<NamedLiteral> named;
  for (std::size_t r = 0; r < results.size(); ++r) named.push_back({Format("out{:04}", r), std::move(results[r])});
  if (!path.empty())
    if (auto written = WriteNpz(path, named); !written) return Fail(written.error());
  for (std::size_t r = 0; r < named.size(); ++r) PrintResult(named[r].literal, r, device, options.device.json, path);
  return kRight;
}

void RemarkPeak() { Remark(Format("peak {:.0f} MB", static_cast<double>(PeakBytes()) / 1e6)); }

// Every device gets the same arguments, or those of the file that the path names for it.
int RunTogether(const RunOptions& options, DeviceGroup& group, std::unique_ptr<Module> module,
                const CompileOptions& compile_options) {
  if (!options.save.empty() && options.save.find("{}") == std::string::npos)
    return Fail(InvalidArgument("Each device has results: the file name needs a place for the device's number, as in "
                                "--save out{{}}.npz, not {}.",
                                options.save)
                    .error());
  const std::vector<Parameter> parameters = ParametersOf(*module);
  auto executable = group.Compile(std::move(module), compile_options, options.device.ToGroupOptions());
  if (!executable) return Fail(InFile(options.module, executable.error()));
  Remark((*executable)->PlacementLine());
  for (const int64_t d : (*executable)->local_devices()) {
    const auto given = GivenArguments::Find(options.arguments, parameters, d, false);
    if (!given) return Fail(given.error());
    auto arguments = given->Read((*executable)->arguments());
    if (!arguments) return Fail(arguments.error());
    std::vector<const Literal*> pointers;
    for (const Literal& a : *arguments) pointers.push_back(&a);
    if (auto set = (*executable)->SetArguments(d, pointers); !set) return Fail(set.error());
  }
  const RunLimit limit = options.device.ToRunLimit();
  (*executable)->SetLimit(&limit);
  if (auto done = (*executable)->Execute(); !done) return Fail(done.error());
  RemarkPeak();
  for (const int64_t d : (*executable)->local_devices()) {
    auto results = (*executable)->Results(d);
    if (!results) return Fail(results.error());
    if (int code = Deliver(options, std::move(*results), d); code != kRight) return code;
  }
  return kRight;
}

int RunAlone(const RunOptions& options, Client& client, std::unique_ptr<Module> module, const GivenArguments& given,
             const CompileOptions& compile_options) {
  auto executable = client.Compile(std::move(module), compile_options);
  if (!executable) return Fail(InFile(options.module, executable.error()));
  Remark((*executable)->PlacementLine());
  auto arguments = given.Read((*executable)->arguments());
  if (!arguments) return Fail(arguments.error());
  auto results = (*executable)->RunShared(ToShared(std::move(*arguments)), options.device.ToRunLimit());
  if (!results) return Fail(results.error());
  RemarkPeak();
  if (const DeviceWork work = (*executable)->device_work(); work.longest_ms > 0)
    Remark(Format("{} submissions of {}, the longest of {}", work.submissions, FormatMs(work.measured_ms),
                  FormatMs(work.longest_ms)));
  return Deliver(options, std::move(*results), -1);
}

// A model folder brings its arguments, and says for how many devices it is.
Result<> AddRecorded(RunOptions& options) {
  std::error_code error;
  if (!std::filesystem::exists(options.module + "/meta.json", error)) return {};
  KRAFLA_ASSIGN(const Subject subject, FindSubject(options.module));
  if (!subject.recorded) return {};
  const int64_t devices = subject.recorded->replicas * subject.recorded->partitions;
  if (options.replicas == 0 && options.partitions == 0) {
    options.replicas = subject.recorded->replicas;
    options.partitions = subject.recorded->partitions;
  }
  if (!options.arguments.IsEmpty()) return {};
  const std::string folder = subject.recorded->folder;
  const std::string path = folder + (devices > 1 ? "/inputs_dev{}.npz" : "/inputs.npz");
  if (!std::filesystem::exists(ForDevice(path, 0), error)) return {};
  options.arguments.archive = path;
  options.module = subject.module_path;
  Remark("arguments from " + path);
  return {};
}

// A module may leave sizes open, which then are those of the arrays that are given.
Result<std::unique_ptr<Module>> LoadForArguments(const RunOptions& options) {
  auto module = LoadModule(options.module, options.shapes);
  if (module || options.module == "-") return module;
  for (const bool in_order : {false, true}) {
    std::vector<std::string> shapes = options.shapes;
    std::string list;
    for (const std::string& shape : ShapesOfGiven(options.arguments, in_order)) {
      const auto is_of = [&](const std::string& s) { return s.starts_with(shape.substr(0, shape.rfind('=') + 1)); };
      if (std::ranges::any_of(options.shapes, is_of)) continue;
      shapes.push_back(shape);
      list += Format(" {}", shape);
    }
    if (list.empty()) continue;
    auto sized = LoadModule(options.module, shapes);
    // What it cannot do with sizes is the answer, and not that it has none.
    if (!sized && sized.error().code() == StatusCode::kUnimplemented) return sized;
    if (!sized) continue;
    Remark("shapes of the arrays given:" + list);
    return sized;
  }
  return module;
}

}  // namespace

int Run(const RunOptions& given_options) {
  RunOptions options = given_options;
  auto compile_options = options.device.ToCompileOptions();
  if (!compile_options) return Fail(compile_options.error()), kUsage;
  if (auto can = CheckTunable(options.tune, options.device.selector); !can) return Fail(can.error()), kUsage;
  if (auto recorded = AddRecorded(options); !recorded) return Fail(recorded.error());
  auto module = LoadForArguments(options);
  if (!module) return Fail(module.error());
  if (options.replicas > 0) (*module)->replica_count = options.replicas;
  if (options.partitions > 0) (*module)->num_partitions = options.partitions;
  const bool alone = (*module)->replica_count == 1 && (*module)->num_partitions == 1;
  if (auto verified = Verify(**module); !verified) return Fail(InFile(options.module, verified.error()));
  const auto given = GivenArguments::Find(options.arguments, ParametersOf(**module), 0, alone);
  if (!given) return Fail(given.error());
  // Nobody feeds a program that is run from here.
  compile_options->transfers = HostTransfers::WithoutHost();
  auto group = OpenGroup(options.device);
  if (!group) return FailDevice(group.error());
  if (alone)
    if (auto tuned = TuneFirst(options.tune, options.device.selector, **module, *compile_options); !tuned)
      return Fail(InFile(options.module, tuned.error()));
  const int code = alone ? RunAlone(options, (*group)->client(0), std::move(*module), *given, *compile_options)
                         : RunTogether(options, **group, std::move(*module), *compile_options);
  // Under KRAFLA_VALIDATE a right answer got in a wrong way is a failure too.
  const std::vector<std::string> messages = (*group)->TakeValidationMessages();
  for (const std::string& message : messages) Warn("validation: " + message);
  return code == kRight && !messages.empty() ? kCheckFailed : code;
}

}  // namespace krafla::cli
