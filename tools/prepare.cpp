// SPDX-License-Identifier: Apache-2.0
#include "prepare.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "api/front_end.h"
#include "ir/packed_elements.h"

namespace krafla::cli {
namespace {

std::vector<const Literal*> Pointers(const std::vector<Literal>& literals) {
  std::vector<const Literal*> out;
  for (const Literal& l : literals) out.push_back(&l);
  return out;
}

Result<Prepared> Compiled(std::unique_ptr<Module> module, Client& client, const CompileOptions& options) {
  Prepared out;
  Stopwatch compile;
  KRAFLA_ASSIGN(out.alone, client.Compile(std::move(module), options));
  out.compile_wall_ms = compile.Milliseconds();
  out.report = out.alone->report();
  out.placement = out.alone->PlacementLine();
  return out;
}

Result<std::vector<std::shared_ptr<const Literal>>> ArgumentsOf(const Executable& executable,
                                                                const RecordedCase* recorded) {
  std::vector<Literal> arguments;
  if (recorded != nullptr) {
    KRAFLA_ASSIGN(RecordedArrays arrays,
                  ReadArrays(*recorded, executable.arguments(), executable.results(), RecordedPart::kInputs));
    arguments = std::move(arrays.inputs[0]);
  } else {
    KRAFLA_ASSIGN(arguments, RandomArguments(executable.arguments(), 0));
  }
  return ToShared(std::move(arguments));
}

}  // namespace

Result<> Prepared::Execute(const DeviceOptions& options) {
  const RunLimit limit = options.ToRunLimit();
  if (together) together->SetLimit(&limit);
  if (alone) alone->SetLimit(&limit);
  Result<> done = together ? together->Execute() : alone->Execute();
  if (together) together->SetLimit(&kUnlimited);
  if (alone) alone->SetLimit(&kUnlimited);
  return done;
}

Result<> Prepared::ExecuteDonating(const DeviceOptions& options) {
  if (arguments_.empty()) return Execute(options);
  const RunLimit limit = options.ToRunLimit();
  alone->SetLimit(&limit);
  Result<> done = [&]() -> Result<> {
    KRAFLA_ASSIGN(auto results, alone->RunOnBuffers(arguments_));
    // A run is done with when its results are there.
    for (const auto& r : results) KRAFLA_TRY(r->Wait());
    for (const Donated& d : donated_) arguments_[d.argument].buffer = std::move(results[d.result]);
    return {};
  }();
  alone->SetLimit(&kUnlimited);
  return done;
}

Result<> Prepared::Renew() {
  for (const Donated& d : donated_) {
    KRAFLA_ASSIGN(Literal copy, CopyOf(*d.at_first));
    KRAFLA_ASSIGN(arguments_[d.argument].buffer, client_->ToDevice(std::make_shared<const Literal>(std::move(copy))));
  }
  return {};
}

Result<Prepared> PrepareAlone(std::unique_ptr<Module> module, const RecordedCase* recorded, Client& client,
                              const CompileOptions& options) {
  KRAFLA_ASSIGN(Prepared out, Compiled(std::move(module), client, options));
  KRAFLA_ASSIGN(auto arguments, ArgumentsOf(*out.alone, recorded));
  KRAFLA_TRY(out.alone->ShareArguments(std::move(arguments)));
  return out;
}

Result<Prepared> PrepareDonating(std::unique_ptr<Module> module, const RecordedCase* recorded, Client& client,
                                 const CompileOptions& options) {
  KRAFLA_ASSIGN(Prepared out, Compiled(std::move(module), client, options));
  const std::span<const int> aliases = out.alone->result_aliases();
  const std::vector<Shape>& shapes = out.alone->arguments();
  if (std::ranges::all_of(aliases, [](int a) { return a < 0; }) && std::ranges::none_of(shapes, IsPackable)) {
    KRAFLA_ASSIGN(auto arguments, ArgumentsOf(*out.alone, recorded));
    KRAFLA_TRY(out.alone->ShareArguments(std::move(arguments)));
    return out;
  }
  std::vector<std::shared_ptr<const Literal>> given;
  if (recorded != nullptr) { KRAFLA_ASSIGN(given, ArgumentsOf(*out.alone, recorded)); }
  out.client_ = &client;
  out.arguments_.resize(shapes.size());
  for (std::size_t r = 0; r < aliases.size(); ++r) {
    if (aliases[r] < 0) continue;
    const auto a = static_cast<std::size_t>(aliases[r]);
    out.donated_.push_back({a, r, nullptr});
    out.arguments_[a].donated = true;
  }
  // Arrays that are packed on the device are not all there at once as literals, which are larger.
  RandomArrays random(0);
  for (std::size_t a = 0; a < shapes.size(); ++a) {
    std::shared_ptr<const Literal> argument;
    if (recorded != nullptr) {
      argument = std::move(given[a]);
    } else {
      KRAFLA_ASSIGN(Literal made, random.Next(shapes[a]));
      argument = std::make_shared<const Literal>(std::move(made));
    }
    if (const auto donated = std::ranges::find(out.donated_, a, &Prepared::Donated::argument);
        donated != out.donated_.end()) {
      donated->at_first = std::move(argument);
    } else {
      KRAFLA_ASSIGN(out.arguments_[a].buffer, client.ToDevice(std::move(argument)));
    }
  }
  KRAFLA_TRY(out.Renew());
  return out;
}

Result<Prepared> PrepareTogether(std::unique_ptr<Module> module, const RecordedCase* recorded, DeviceGroup& group,
                                 const CompileOptions& options, const GroupOptions& group_options) {
  Prepared out;
  Stopwatch compile;
  KRAFLA_ASSIGN(out.together, group.Compile(std::move(module), options, group_options));
  out.compile_wall_ms = compile.Milliseconds();
  out.report = out.together->report();
  out.placement = out.together->PlacementLine();
  std::vector<std::vector<Literal>> arguments(static_cast<std::size_t>(out.together->device_count()));
  if (recorded != nullptr) {
    KRAFLA_ASSIGN(RecordedArrays arrays,
                  ReadArrays(*recorded, out.together->arguments(), out.together->results(), RecordedPart::kInputs));
    if (arrays.inputs.size() != arguments.size())
      return InvalidArgument("The case records arrays of {} devices, not of {}.", arrays.inputs.size(),
                             arguments.size());
    arguments = std::move(arrays.inputs);
  } else {
    for (std::size_t d = 0; d < arguments.size(); ++d) {
      KRAFLA_ASSIGN(arguments[d], RandomArguments(out.together->arguments(), d));
    }
  }
  for (const int64_t d : out.together->local_devices())
    KRAFLA_TRY(out.together->SetArguments(d, Pointers(arguments[static_cast<std::size_t>(d)])));
  return out;
}

Result<Subject> FindSubject(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return Subject{path, path, std::nullopt};
  KRAFLA_ASSIGN(auto found, FindCases(path));
  // A module in a folder of its own, with nothing recorded.
  if (found.cases.empty()) return Subject{path, path, std::nullopt};
  if (found.cases.size() != 1)
    return InvalidArgument("{} holds {} recorded cases; this command is about one module.", path, found.cases.size());
  return Subject{found.cases[0].name, ModuleOf(found.cases[0]), found.cases[0]};
}

Result<std::unique_ptr<Module>> LoadSubject(const std::string& path, const std::vector<std::string>& shapes,
                                            int64_t replicas, int64_t partitions) {
  KRAFLA_ASSIGN(const Subject subject, FindSubject(path));
  KRAFLA_ASSIGN(std::unique_ptr<Module> module, LoadModule(subject.module_path, shapes));
  if (subject.recorded) {
    module->replica_count = subject.recorded->replicas;
    module->num_partitions = subject.recorded->partitions;
  }
  if (replicas > 0) module->replica_count = replicas;
  if (partitions > 0) module->num_partitions = partitions;
  return module;
}

const std::string& ModuleOf(const RecordedCase& c) {
  return c.replicas * c.partitions > 1 && !c.module_path_spmd.empty() ? c.module_path_spmd : c.module_path;
}

}  // namespace krafla::cli
