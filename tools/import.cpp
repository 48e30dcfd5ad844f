// SPDX-License-Identifier: Apache-2.0
#include "import.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "api/compiled/compiled_model.h"
#include "krafla/literal_util.h"
#include "krafla/onnx.h"
#include "module_kinds.h"

namespace krafla::cli {
namespace {

// "sr=16000" or "use_cache=true": an input whose value is known. Whole numbers keep all their digits.
Result<> AddValue(const std::string& text, OnnxOptions& options) {
  const std::size_t equals = text.rfind('=');
  const Failure wrong = InvalidArgument(
      "'{}' is not a value of an argument; expected NAME=NUMBERS, such as sr=16000 or use_cache=true.", text);
  if (equals == std::string::npos || equals == 0) return wrong;
  std::vector<double> numbers;
  std::vector<int64_t> integers;
  for (std::size_t at = equals + 1; at < text.size();) {
    const std::size_t stop = std::min(text.find(',', at), text.size());
    std::string_view word = std::string_view(text).substr(at, stop - at);
    if (word == "true") word = "1";
    if (word == "false") word = "0";
    const char *begin = word.data(), *end = word.data() + word.size();
    double number = 0;
    if (auto read = std::from_chars(begin, end, number); read.ec != std::errc() || read.ptr != end) return wrong;
    numbers.push_back(number);
    int64_t integer = 0;
    if (auto read = std::from_chars(begin, end, integer); read.ec == std::errc() && read.ptr == end)
      integers.push_back(integer);
    at = stop + 1;
  }
  std::vector<int64_t> dims;
  if (numbers.size() != 1) dims.push_back(static_cast<int64_t>(numbers.size()));
  KRAFLA_ASSIGN(options.constants[text.substr(0, equals)], integers.size() == numbers.size()
                                                               ? LiteralUtil::CreateFromArray<int64_t>(integers, dims)
                                                               : LiteralUtil::CreateFromArray<double>(numbers, dims));
  return {};
}

// As the kinds of module files, or compiled for every back end.
Result<> WriteImported(const Module& module, const std::string& output) {
  if (IsCompiledModelFile(output)) {
    KRAFLA_TRY(WriteCompiledModel(module, CompiledModelTargets(), CompileOptions(), output));
    return {};
  }
  const ModuleKind* kind = ModuleKindOfFile(output);
  if (kind == nullptr)
    return InvalidArgument("'{}': import writes {} and compiled models (.krafla), chosen by the file's name.", output,
                           DescribeModuleKinds());
  KRAFLA_ASSIGN(const std::string bytes, kind->print(module));
  return WriteFile(output, bytes);
}

nlohmann::json ToJson(const std::vector<OnnxUnsupported>& list) {
  nlohmann::json out = nlohmann::json::array();
  for (const OnnxUnsupported& one : list)
    out.push_back({{"node", one.node}, {"operator", one.op}, {"opset", one.opset}, {"reason", one.reason}});
  return out;
}

Result<> Import(const ImportCommand& command, const OnnxOptions& options, std::vector<OnnxUnsupported>& unsupported) {
  KRAFLA_ASSIGN(const OnnxModel model, ImportOnnxFile(command.model, options, &unsupported));
  const Module& module = *model.computation.module();
  if (!command.output.empty()) KRAFLA_TRY(WriteImported(module, command.output));
  KRAFLA_ASSIGN(const ProgramShape shape, model.computation.GetProgramShape());
  const std::vector<Shape>& results = shape.result.tuple_elements();
  if (command.json) {
    nlohmann::json out = {{"model", command.model}, {"output", command.output}};
    for (std::size_t i = 0; i < model.inputs.size(); ++i)
      out["inputs"].push_back({{"name", model.inputs[i]}, {"shape", shape.parameters[i].ToString(false)}});
    for (std::size_t i = 0; i < model.outputs.size(); ++i)
      out["outputs"].push_back({{"name", model.outputs[i]}, {"shape", results[i].ToString(false)}});
    out["instructions"] = module.entry()->instructions().size();
    std::printf("%s\n", out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    return {};
  }
  for (std::size_t i = 0; i < model.inputs.size(); ++i)
    std::printf("input  %s %s\n", model.inputs[i].c_str(), shape.parameters[i].ToString(false).c_str());
  for (std::size_t i = 0; i < model.outputs.size(); ++i)
    std::printf("output %s %s\n", model.outputs[i].c_str(), results[i].ToString(false).c_str());
  return {};
}

}  // namespace

void ImportCommand::AddTo(CLI::App& app, int& code) {
  CLI::App* cmd = app.add_subcommand("import", "make a module of an ONNX model");
  cmd->add_option("model", model, "the ONNX file; external data is read from its folder")->required();
  cmd->add_option("-o", output,
                  Format("write the module to this file: {}, or compiled for every back end (.krafla); without it, say "
                         "what the model takes and gives",
                         DescribeModuleKinds()));
  AddShapeOption(*cmd, shapes);
  cmd->add_option("--value", values, "the value of an input, sr=16000, which becomes a constant (repeatable)");
  cmd->add_flag("--json", json, "print one JSON object");
  cmd->callback([this, &code] { code = Run(); });
}

int ImportCommand::Run() const {
  OnnxOptions options;
  for (const std::string& shape : shapes) {
    auto parsed = ParseShapeOption(shape);
    if (!parsed) return Fail(parsed.error()), kUsage;
    options.shapes.insert(*std::move(parsed));
  }
  for (const std::string& value : values)
    if (auto added = AddValue(value, options); !added) return Fail(added.error()), kUsage;
  if (StderrIsTerminal())
    options.progress = [](std::size_t done, std::size_t count) {
      if (done == count) std::fprintf(stderr, "\r\x1b[K");
      else if (done % 16 == 1) std::fprintf(stderr, "\r\x1b[Kkrafla: node %zu of %zu", done, count);
    };
  std::vector<OnnxUnsupported> unsupported;
  auto done = Import(*this, options, unsupported);
  if (done) return kRight;
  if (json) {
    const nlohmann::json out = {
        {"model", model}, {"error", done.error().message()}, {"unsupported", ToJson(unsupported)}};
    std::printf("%s\n", out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  }
  return Fail(done.error());
}

}  // namespace krafla::cli
