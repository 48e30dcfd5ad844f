// SPDX-License-Identifier: Apache-2.0
// StableHLO modules that know the right answers, as StableHLO's own tests are.
#include <algorithm>
#include <filesystem>

#include "api/front_end.h"
#include "api/host/host_transfers.h"
#include "base/file.h"
#include "check_outcome.h"
#include "command.h"
#include "recorded/self_check.h"

namespace krafla::cli {
namespace {

namespace fs = std::filesystem;

// Runs a module without arguments on one device; its results.
Result<std::vector<Literal>> RunPlain(std::unique_ptr<Module> module, DeviceGroup& group,
                                      const CompileOptions& options) {
  KRAFLA_ASSIGN(auto executable, group.client(0).Compile(std::move(module), options));
  KRAFLA_TRY(executable->Execute());
  return executable->TakeResults();
}

// What the program has sent to the host is for the next one to receive.
Result<> PassOn(std::span<const int64_t> channels, HostTransfers& transfers) {
  for (int64_t channel : channels) {
    KRAFLA_ASSIGN(HostTransfers::Item item, transfers.PopFromDevice(channel, std::chrono::seconds(1)));
    transfers.PushToDevice(channel, std::move(item));
  }
  return {};
}

// Programs one after the other.
Result<std::vector<Literal>> RunAlone(std::vector<std::unique_ptr<Module>> programs, std::vector<const Literal*> inputs,
                                      DeviceGroup& group, const CompileOptions& options) {
  std::vector<Literal> out;
  std::span<const Literal* const> left = inputs;
  for (auto& program : programs) {
    std::vector<int64_t> channels;
    for (const auto& i : program->entry()->instructions())
      if (i->opcode() == Opcode::kSend) channels.push_back(i->attr<ChannelAttributes>().channel_id.value_or(0));
    KRAFLA_ASSIGN(auto executable, group.client(0).Compile(std::move(program), options));
    const std::size_t count = executable->arguments().size();
    if (count > left.size())
      return InvalidArgument("{} arguments were given to programs that take more.", inputs.size());
    KRAFLA_TRY(executable->SetArguments(left.first(count)));
    left = left.subspan(count);
    KRAFLA_TRY(executable->Execute());
    KRAFLA_ASSIGN(std::vector<Literal> results, executable->TakeResults());
    for (Literal& result : results) out.push_back(std::move(result));
    KRAFLA_TRY(PassOn(channels, *options.transfers));
  }
  return out;
}

// Runs the program on its devices; the arrays that they give, device by device.
Result<std::vector<Literal>> RunParallel(ParallelProgram program, DeviceGroup& group, const CompileOptions& options,
                                         const GroupOptions& group_options) {
  KRAFLA_ASSIGN(std::vector<Literal> inputs, RunPlain(std::move(program.inputs), group, options));
  for (auto& item : program.infeed) {
    KRAFLA_ASSIGN(std::vector<Literal> arrays, RunPlain(std::move(item), group, options));
    options.transfers->PushInfeed(std::move(arrays));
  }
  std::vector<const Literal*> pointers;
  for (const Literal& input : inputs) pointers.push_back(&input);
  if (program.module == nullptr) return RunAlone(std::move(program.alone), std::move(pointers), group, options);
  const int64_t devices = program.module->replica_count * program.module->num_partitions;
  if (pointers.size() % static_cast<std::size_t>(devices) != 0)
    return InvalidArgument("{} arguments were given for {} devices.", pointers.size(), devices);
  const std::size_t each = pointers.size() / static_cast<std::size_t>(devices);
  if (devices == 1) {
    KRAFLA_ASSIGN(auto executable, group.client(0).Compile(std::move(program.module), options));
    KRAFLA_TRY(executable->SetArguments(pointers));
    KRAFLA_TRY(executable->Execute());
    return executable->TakeResults();
  }
  KRAFLA_ASSIGN(auto executable, group.Compile(std::move(program.module), options, group_options));
  for (int64_t d = 0; d < devices; ++d)
    KRAFLA_TRY(executable->SetArguments(d, std::span(pointers).subspan(static_cast<std::size_t>(d) * each, each)));
  KRAFLA_TRY(executable->Execute());
  std::vector<Literal> out;
  for (int64_t d = 0; d < devices; ++d) {
    KRAFLA_ASSIGN(std::vector<Literal> results, executable->Results(d));
    for (Literal& result : results) out.push_back(std::move(result));
  }
  return out;
}

Outcome RunOne(SelfCheck check, DeviceGroup& group, const CompileOptions& options, const GroupOptions& group_options) {
  Outcome out;
  options.transfers->Reset();
  std::vector<Literal> arguments;
  if (check.parallel) {
    auto results = RunParallel(std::move(*check.parallel), group, options, group_options);
    if (!results) return Error(results.error());
    arguments = std::move(*results);
  }
  if (check.rules.empty()) {
    out.kind = Outcome::Kind::kSkipped;
    out.reason = "nothing is compared";
    return out;
  }
  auto executable = group.client(0).Compile(std::move(check.module), options);
  if (!executable) return Error(executable.error());
  out.report = (*executable)->report();
  std::vector<const Literal*> pointers;
  for (const Literal& argument : arguments) pointers.push_back(&argument);
  if (auto set = (*executable)->SetArguments(pointers); !set) return Error(set.error());
  Stopwatch run;
  if (auto done = (*executable)->Execute(); !done) return Error(done.error());
  out.run_ms = run.Milliseconds();
  auto results = (*executable)->TakeResults();
  if (!results) return Error(results.error());
  if (results->size() != 2 * check.rules.size())
    return Error(Status(StatusCode::kInternal,
                        Format("The program has {} values for {} comparisons.", results->size(), check.rules.size())));
  out.kind = Outcome::Kind::kPassed;
  for (std::size_t i = 0; i < check.rules.size(); ++i) {
    Comparison comparison = CompareByRule((*results)[2 * i], (*results)[2 * i + 1], check.rules[i]);
    out.worst.max_abs = std::max(out.worst.max_abs, comparison.max_abs);
    out.worst.max_rel = std::max(out.worst.max_rel, comparison.max_rel);
    out.worst.max_ulp = std::max(out.worst.max_ulp, comparison.max_ulp);
    if (comparison.passed || out.kind != Outcome::Kind::kPassed) continue;
    out.kind = Outcome::Kind::kFailed;
    out.reason = std::move(comparison.reason);
  }
  return out;
}

}  // namespace

std::vector<std::string> FindSelfChecks(const std::string& path) {
  std::vector<std::string> out;
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    const fs::path file(path);
    const bool recorded = fs::exists(file.parent_path() / "manifest.json", error);
    if (file.extension() == ".mlir" && fs::exists(file, error) && !recorded) out.push_back(path);
    return out;
  }
  if (fs::exists(fs::path(path) / "meta.json", error) || fs::exists(fs::path(path) / "manifest.json", error))
    return out;
  std::vector<std::string> entries;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error))
    entries.push_back(it->path().string());
  std::sort(entries.begin(), entries.end());
  for (const std::string& entry : entries) {
    // Links are not followed into folders: they may lead in circles.
    if (fs::is_symlink(entry, error) && fs::is_directory(entry, error)) continue;
    for (std::string& found : FindSelfChecks(entry)) out.push_back(std::move(found));
  }
  return out;
}

std::vector<std::pair<std::string, Outcome>> RunSelfChecks(const std::string& file, DeviceGroup& group,
                                                           const CompileOptions& options,
                                                           const GroupOptions& group_options) {
  std::vector<std::pair<std::string, Outcome>> out;
  const std::string name = fs::path(file).filename().string();
  // These programs have constants for arguments: without this the compiler would compute them whole.
  CompileOptions unfolded = options;
  unfolded.disabled.insert("constant_folding");
  auto text = ReadFile(file);
  if (!text) {
    out.emplace_back(name, Error(text.error()));
    return out;
  }
  if (!HasChecks(*text)) {
    Outcome none;
    none.kind = Outcome::Kind::kSkipped;
    none.reason = "nothing is compared";
    out.emplace_back(name, std::move(none));
    return out;
  }
  std::vector<SelfCheckPart> parts = ReadSelfChecks(*text, name);
  for (SelfCheckPart& part : parts) {
    const std::string full = parts.size() == 1 ? name : name + "#" + part.name;
    out.emplace_back(
        full, part.check ? RunOne(std::move(*part.check), group, unfolded, group_options) : Error(part.check.error()));
  }
  return out;
}

}  // namespace krafla::cli
