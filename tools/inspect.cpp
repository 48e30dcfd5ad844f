// SPDX-License-Identifier: Apache-2.0
#include "inspect.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/explain.h"
#include "api/input_sizes.h"
#include "api/program_cost.h"
#include "arguments.h"
#include "ir/verifier.h"
#include "krafla/program_inputs.h"
#include "prepare.h"
#include "results.h"

namespace krafla::cli {
namespace {

struct Contents {
  std::vector<Parameter> inputs;
  std::vector<const Shape*> outputs;
  std::vector<std::pair<std::string, int64_t>> operators;  // most frequent first
  int64_t instructions = 0, constant_bytes = 0;
  ProgramCost cost;
  std::vector<std::string> compiled_for;  // of a compiled model: the back ends
};

Contents ContentsOf(const Module& module) {
  Contents out;
  out.inputs = ParametersOf(module);
  out.outputs = TupleLeaves(module.entry()->root()->shape());
  // Of a compiled model, what it holds.
  for (const OptimisedModule& o : module.optimised)
    out.compiled_for.insert(out.compiled_for.end(), o.targets.begin(), o.targets.end());
  const Module& program = module.optimised.empty() ? module : *module.optimised.front().module;
  for (const OpInfo& op : AllOps()) {
    const int64_t count = program.CountOf(op.opcode);
    if (count == 0) continue;
    out.operators.emplace_back(op.name, count);
    out.instructions += count;
  }
  std::ranges::stable_sort(out.operators, std::greater<>(), &std::pair<std::string, int64_t>::second);
  for (const auto& computation : program.computations())
    for (const auto& i : computation->instructions())
      if (i->IsConstant() && i->shape().IsArray()) out.constant_bytes += i->shape().byte_size();
  out.cost = CostOf(program);
  return out;
}

int64_t BytesOf(const Shape& shape) { return shape.IsArray() ? shape.byte_size() : 0; }

std::string SizeText(double bytes) {
  if (bytes >= 1e9) return Format("{:.2f} GB", bytes / 1e9);
  if (bytes >= 1e6) return Format("{:.1f} MB", bytes / 1e6);
  if (bytes >= 1e3) return Format("{:.1f} kB", bytes / 1e3);
  return Format("{:.0f} bytes", bytes);
}

void PrintContents(const Module& module, const Contents& c, const Explanation& e) {
  std::printf("%s: %lld instructions", module.name().c_str(), static_cast<long long>(c.instructions));
  if (module.replica_count > 1 || module.num_partitions > 1)
    std::printf(", for %lld replicas of %lld partitions", static_cast<long long>(module.replica_count),
                static_cast<long long>(module.num_partitions));
  std::string targets;
  for (const std::string& target : c.compiled_for) targets += Format("{}{}", targets.empty() ? "" : ", ", target);
  if (!targets.empty()) std::printf(", compiled for %s", targets.c_str());
  int64_t input_bytes = 0;
  std::printf("\n\ninputs\n");
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    const Parameter& p = c.inputs[i];
    std::printf("  %3zu  %-28s %-24s %s\n", i, p.name.c_str(), p.shape.ToString(false).c_str(),
                SizeText(static_cast<double>(BytesOf(p.shape))).c_str());
    input_bytes += BytesOf(p.shape);
  }
  std::printf("outputs\n");
  for (std::size_t i = 0; i < c.outputs.size(); ++i)
    std::printf("  %3zu  %-28s %-24s %s\n", i, "", c.outputs[i]->ToString(false).c_str(),
                SizeText(static_cast<double>(BytesOf(*c.outputs[i]))).c_str());
  std::printf("\ninputs of %s; constants of %s; about %.3g operations a run\noperators:",
              SizeText(static_cast<double>(input_bytes)).c_str(),
              SizeText(static_cast<double>(c.constant_bytes)).c_str(), c.cost.flops + c.cost.transcendentals);
  std::size_t column = 10;
  for (const auto& [name, count] : c.operators) {
    const std::string text = Format(" {} {}", name, count);
    column += text.size();
    if (column > 110) column = 4 + text.size(), std::printf("\n   ");
    std::printf("%s", text.c_str());
  }
  std::printf("\n\non %s: %lld of %lld instructions run there; %d launches; an arena of %s\n", e.device.c_str(),
              static_cast<long long>(e.device_instructions), static_cast<long long>(e.instructions), e.launches,
              SizeText(static_cast<double>(e.arena_bytes)).c_str());
  for (const Explanation::Kernel& k : e.kernels)
    if (!k.reason.empty())
      std::printf("  %s runs on %s: %s\n", k.name.c_str(), k.place == "host" ? "the host" : k.place.c_str(),
                  k.reason.c_str());
}

void PrintContentsAsJson(const Module& module, const Contents& c, const Explanation& e) {
  const auto array = [](std::string name, const Shape& shape) {
    nlohmann::ordered_json out;
    if (!name.empty()) out["name"] = std::move(name);
    out["shape"] = shape.ToString(false);
    if (shape.IsArray()) {
      out["type"] = ElementTypeName(shape.element_type());
      out["dimensions"] = std::vector<int64_t>(shape.dims().begin(), shape.dims().end());
    }
    out["bytes"] = BytesOf(shape);
    return out;
  };
  using Object = nlohmann::ordered_json;
  Object inputs = Object::array(), outputs = Object::array(), operators = Object::object();
  Object elsewhere = Object::array();
  for (const Parameter& p : c.inputs) {
    inputs.push_back(array(p.name, p.shape));
    inputs.back()["names"] = p.names;
  }
  for (const Shape* shape : c.outputs) outputs.push_back(array("", *shape));
  for (const auto& [name, count] : c.operators) operators[name] = count;
  for (const Explanation::Kernel& k : e.kernels)
    if (!k.reason.empty()) elsewhere.push_back({{"kernel", k.name}, {"place", k.place}, {"reason", k.reason}});
  PrintJsonLine({{"module", module.name()},
                 {"replicas", module.replica_count},
                 {"partitions", module.num_partitions},
                 {"compiled_for", c.compiled_for},
                 {"inputs", inputs},
                 {"outputs", outputs},
                 {"instructions", c.instructions},
                 {"operators", operators},
                 {"constant_bytes", c.constant_bytes},
                 {"flops", c.cost.flops},
                 {"transcendentals", c.cost.transcendentals},
                 {"device", e.device},
                 {"instructions_compiled", e.instructions},
                 {"instructions_on_device", e.device_instructions},
                 {"launches", e.launches},
                 {"arena_bytes", e.arena_bytes},
                 {"not_on_device", elsewhere}});
}

// What a module takes that leaves sizes open; nothing where it does not, or cannot be read that far.
std::optional<std::vector<ProgramInput>> OpenInputsOf(const std::string& module) {
  if (module == "-") return std::nullopt;  // it has been read
  const auto subject = FindSubject(module);
  if (!subject) return std::nullopt;
  auto inputs = ReadProgramInputsFile(subject->module_path);
  const auto is_open = [](const ProgramInput& input) {
    return !input.has_rank || std::ranges::any_of(input.dimensions, [](const auto& d) { return d.size < 0; });
  };
  if (!inputs || std::ranges::none_of(*inputs, is_open)) return std::nullopt;
  return *std::move(inputs);
}

void PrintOpenInputs(const std::vector<ProgramInput>& inputs, bool as_json) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  std::string text;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ProgramInput& input = inputs[i];
    const std::string_view type = input.type == ElementType::kInvalid ? "?" : ElementTypeName(input.type);
    std::string shape;
    for (const auto& [size, name] : input.dimensions)
      shape += Format("{}{}", shape.empty() ? "" : ",", size >= 0 ? std::to_string(size) : name.empty() ? "?" : name);
    text += Format("  {:3}  {:28} {}[{}]\n", i, input.name, type, input.has_rank ? shape : "...");
    list.push_back({{"name", input.name}, {"type", type}, {"dimensions", SizesAsJson(input)}});
  }
  if (as_json) return PrintJsonLine({{"inputs", list}, {"open", true}});
  std::printf("inputs\n%s", text.c_str());
}

}  // namespace

void InspectCommand::AddTo(CLI::App& app, int& code) {
  CLI::App* cmd = app.add_subcommand("inspect", "say what a module takes, gives and holds, and where it would run");
  cmd->add_option("module", module, kModuleHelp)->required();
  AddShapeOption(*cmd, shapes);
  AddDeviceCounts(*cmd, replicas, partitions);
  device.AddTo(*cmd, {.runs = false});
  cmd->callback([this, &code] { code = Run(); });
}

int InspectCommand::Run() const {
  auto options = device.ToCompileOptions();
  if (!options) return Fail(options.error()), kUsage;
  auto read = LoadSubject(module, shapes, replicas, partitions);
  if (!read) {
    if (const auto open = shapes.empty() ? OpenInputsOf(module) : std::nullopt; open)
      PrintOpenInputs(*open, device.json);
    return Fail(read.error());
  }
  if (auto verified = Verify(**read); !verified) return Fail(InFile(module, verified.error()));
  const Contents contents = ContentsOf(**read);
  const auto client = OpenDevice(device.selector);
  if (!client) return FailDevice(client.error());
  options->for_group = true;  // of a program of several devices each has it
  const auto explained = Explain((*read)->Clone(), (*client)->device(), {*options, ""});
  if (!explained) return Fail(InFile(module, explained.error()));
  (device.json ? PrintContentsAsJson : PrintContents)(**read, contents, *explained);
  if (device.strict && explained->device_instructions < explained->instructions) return kBadInput;
  return kRight;
}

}  // namespace krafla::cli
