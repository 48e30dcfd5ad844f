// SPDX-License-Identifier: Apache-2.0
#include "compile.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "api/compiled/bind_parameters.h"
#include "api/compiled/compiled_model.h"
#include "api/front_end.h"
#include "api/vulkan/emitted_kernels.h"
#include "arguments.h"
#include "ir/verifier.h"
#include "module_kinds.h"
#include "recorded/array_archive.h"

namespace krafla::cli {
namespace {

// The parameters that the archive names become constants.
Result<int> BindWeights(Module& module, const std::string& path) {
  KRAFLA_ASSIGN(ArrayArchive archive, ArrayArchive::Open(path));
  std::map<std::string, int64_t> numbers;
  for (const Instruction* p : module.entry()->parameters()) {
    if (!p->shape().IsArray()) continue;
    numbers.emplace(p->name(), p->attr<ParameterAttributes>().number);
  }
  const std::vector<Parameter> leaves = ParametersOf(module);
  if (leaves.size() == module.entry()->parameters().size())
    for (std::size_t n = 0; n < leaves.size(); ++n)
      for (const std::string& name : leaves[n].names) numbers.emplace(name, static_cast<int64_t>(n));
  std::map<int64_t, std::shared_ptr<const Literal>> bound;
  for (std::size_t a = 0; a < archive.arrays().size(); ++a) {
    const std::string& name = archive.arrays()[a].name;
    const auto at = numbers.find(name);
    if (at == numbers.end()) continue;
    KRAFLA_ASSIGN(Literal literal, archive.Read(a));
    if (!bound.emplace(at->second, std::make_shared<const Literal>(std::move(literal))).second)
      return InvalidArgument("{}: Two arrays are for the parameter '{}'.", path, name);
  }
  if (bound.empty())
    return InvalidArgument(
        "{}: None of its {} arrays has the name of a parameter of the program (krafla inspect lists "
        "those).",
        path, archive.arrays().size());
  if (bound.size() < archive.arrays().size())
    Warn(Format("{}: {} of {} arrays have the name of no parameter.", path, archive.arrays().size() - bound.size(),
                archive.arrays().size()));
  KRAFLA_TRY(BindParameters(module, bound));
  return static_cast<int>(bound.size());
}

// The weights that were given stay as they are.
Result<> CheckWeightsOut(const CompileCommand& command) {
  const std::filesystem::path out = std::filesystem::path(command.output).parent_path() / command.weights_out;
  for (const std::string& given : {command.weights, command.model}) {
    std::error_code ignored;
    if (!given.empty() && std::filesystem::equivalent(out, given, ignored))
      return InvalidArgument("'{}' is a file to read, and --weights-out would write it.", given);
  }
  if (out == std::filesystem::path(command.output))
    return InvalidArgument("'{}' is the compiled model itself; its weights are another file.", command.output);
  return {};
}

Result<CompiledModelSize> Compile(const CompileCommand& command, int& bound) {
  if (!command.weights_out.empty()) KRAFLA_TRY(CheckWeightsOut(command));
  std::vector<CompileTarget> targets;
  for (const CompileTarget& target : CompiledModelTargets())
    if (command.targets.empty() || std::ranges::find(command.targets, target.name) != command.targets.end())
      targets.push_back(target);
  CompileOptions options;
  options.disabled.insert(command.disabled.begin(), command.disabled.end());
  KRAFLA_ASSIGN(const std::unique_ptr<Module> module, LoadModule(command.model, command.shapes));
  KRAFLA_TRY(Verify(*module));
  if (!command.weights.empty()) { KRAFLA_ASSIGN(bound, BindWeights(*module, command.weights)); }
  return WriteCompiledModel(*module, targets, options, command.output, command.weights_out);
}

}  // namespace

void CompileCommand::AddTo(CLI::App& app, int& code) {
  CLI::App* cmd = app.add_subcommand("compile", "make a module ready ahead of time, for apps that load it");
  cmd->add_option("model", model, kModuleHelp)->required();
  cmd->add_option("-o,--output", output, "the compiled model to write, NAME.krafla")->required();
  std::vector<std::string> names;
  for (const CompileTarget& target : CompiledModelTargets()) names.emplace_back(target.name);
  cmd->add_option("--for", targets, "the back ends that it is for (default: all)")
      ->check(CLI::IsMember(names))
      ->delimiter(',')
      ->allow_extra_args(false);
  cmd->add_option("--weights", weights,
                  "an .npz or a .safetensors: its arrays become constants in the place of the parameters that have "
                  "their names")
      ->type_name("FILE");
  cmd->add_option("--weights-out", weights_out,
                  "a name: weights go to this safetensors file beside the output, and not into it")
      ->type_name("NAME");
  AddShapeOption(*cmd, shapes);
  cmd->add_option("--disable", disabled, "passes to switch off, by name (an unknown name lists them all)")
      ->type_name("NAMES")
      ->delimiter(',')
      ->allow_extra_args(false);
  cmd->add_flag("--json", json, "print one JSON object");
  cmd->callback([this, &code] { code = Run(); });
}

int CompileCommand::Run() const {
  int bound = 0;
  const auto done = Compile(*this, bound);
  if (!done) return Fail(InFile(model, done.error()));
  if (json) {
    nlohmann::json out = {{"model", model},
                          {"output", output},
                          {"bytes", done->file_bytes},
                          {"weight_bytes", done->weight_bytes},
                          {"programs", done->programs},
                          {"bound", bound}};
    if (!weights_out.empty()) out["weights_out"] = {{"name", weights_out}, {"bytes", done->weights_file_bytes}};
    std::printf("%s\n", out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    return kRight;
  }
  if (weights_out.empty())
    Remark(Format("{}: {} bytes, of these {} of weights", output, done->file_bytes, done->weight_bytes));
  else
    Remark(Format("{}: {} bytes; {} beside it: {} bytes of weights", output, done->file_bytes, weights_out,
                  done->weights_file_bytes));
  return kRight;
}

}  // namespace krafla::cli
