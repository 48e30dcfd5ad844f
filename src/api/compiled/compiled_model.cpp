// SPDX-License-Identifier: Apache-2.0
#include "api/compiled/compiled_model.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "api/compiled/model_file.h"
#include "api/compiled/weights.h"
#include "api/compiled/weights_file.h"
#include "api/front_end.h"
#include "base/file.h"
#include "base/system.h"
#include "hlo_io/hlo_proto/hlo_proto.h"
#include "krafla/version.h"

namespace krafla {

using compiled::Section;
using compiled::SectionKind;

namespace {

// In the interface, what lies between the parameters and the result.
constexpr std::string_view kCompiledTarget = "krafla.compiled";

// The program as callers see it: its header, its parameters and its result.
std::unique_ptr<Module> InterfaceOf(const Module& module) {
  auto out = std::make_unique<Module>(module.name());
  out->input_output_aliases = module.input_output_aliases;
  out->buffer_donors = module.buffer_donors;
  out->entry_layout_result = module.entry_layout_result;
  out->entry_layout_parameters = module.entry_layout_parameters;
  out->other_attributes = module.other_attributes;
  Computation* entry = out->AddComputation(module.entry()->name());
  std::vector<Instruction*> parameters;
  for (const Instruction* p : module.entry()->parameters()) parameters.push_back(entry->AddClone(*p, {}));
  CustomCallAttributes call;
  call.target = kCompiledTarget;
  entry->set_root(
      entry->Add(Opcode::kCustomCall, module.entry()->root()->shape(), std::move(parameters), std::move(call)));
  out->set_entry(entry);
  return out;
}

Result<std::unique_ptr<Module>> ParseSection(const Section& section, std::string_view name) {
  return ParseHloProto(std::as_bytes(std::span(section.bytes)), name);
}

struct Manifest {
  std::vector<std::vector<std::string>> targets;      // of each program
  std::optional<compiled::WeightsFile> weights_file;  // without: weights are a section
};

using nlohmann::json;

Result<compiled::WeightsFile> ReadWeightsFile(const json& entry, std::string_view name) {
  compiled::WeightsFile out;
  const auto number = [&](const char* key, uint64_t& to) {
    const auto at = entry.find(key);
    if (at == entry.end() || !at->is_number_unsigned()) return false;
    to = at->get<uint64_t>();
    return true;
  };
  const auto file = entry.is_object() ? entry.find("file") : entry.end();
  if (file == entry.end() || !file->is_string() || !number("header_bytes", out.header_bytes) ||
      !number("weight_bytes", out.weight_bytes) || !number("header_checksum", out.header_checksum))
    return DataLoss("'{}' is damaged: its manifest does not say where its weights are.", name);
  out.name = file->get<std::string>();
  return out;
}

Result<Manifest> ReadManifest(std::string_view text, std::string_view name) {
  const json manifest = json::parse(text, nullptr, false);
  const auto damaged = [&] { return DataLoss("'{}' is damaged: its manifest says nothing of its programs.", name); };
  if (!manifest.is_object()) return damaged();
  const auto version = manifest.find("krafla"), programs = manifest.find("programs");
  if (version == manifest.end() || !version->is_string() || programs == manifest.end() || !programs->is_array())
    return damaged();
  // What the passes leave and the planner takes changes from version to version.
  if (version->get_ref<const std::string&>() != KRAFLA_VERSION_STRING)
    return FailedPrecondition("'{}' was compiled by krafla {}, and this is krafla {}: compile the model again with it.",
                              name, version->get_ref<const std::string&>(), KRAFLA_VERSION_STRING);
  Manifest out;
  for (const json& targets : *programs) {
    if (!targets.is_array()) return damaged();
    std::vector<std::string>& of_one = out.targets.emplace_back();
    for (const json& target : targets) {
      if (!target.is_string()) return damaged();
      of_one.push_back(target.get<std::string>());
    }
  }
  if (const auto weights = manifest.find("weights"); weights != manifest.end()) {
    KRAFLA_ASSIGN(out.weights_file, ReadWeightsFile(*weights, name));
  }
  return out;
}

std::string WriteManifest(std::span<const OptimisedModule> programs,
                          const std::optional<compiled::WeightsFile>& weights) {
  json out = {{"krafla", KRAFLA_VERSION_STRING}, {"programs", json::array()}};
  for (const OptimisedModule& p : programs) out["programs"].push_back(p.targets);
  if (weights)
    out["weights"] = {{"file", weights->name},
                      {"header_bytes", weights->header_bytes},
                      {"weight_bytes", weights->weight_bytes},
                      {"header_checksum", weights->header_checksum}};
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

// One for each target, those that are the same together.
struct Programs {
  std::vector<OptimisedModule> modules;  // without weights
  std::vector<std::string> protos;
  compiled::WeightTable weights;
};

Result<Programs> OptimiseFor(const Module& module, std::span<const CompileTarget> targets, CompileOptions options) {
  options.ahead_of_time = true;
  Programs out;
  for (const CompileTarget& target : targets) {
    CompileReport report;
    FrontEnd front_end(module.Clone(), options, report, target);
    KRAFLA_TRY(front_end.Optimize());
    std::unique_ptr<Module> optimised = front_end.module().Clone();
    KRAFLA_TRY(compiled::TakeOutWeights(*optimised, out.weights));
    KRAFLA_ASSIGN(std::string proto, SerializeHloProto(*optimised));
    const auto same = std::ranges::find(out.protos, proto);
    if (same != out.protos.end()) {
      out.modules[static_cast<std::size_t>(same - out.protos.begin())].targets.emplace_back(target.name);
      continue;
    }
    out.modules.push_back({{std::string(target.name)}, std::move(optimised)});
    out.protos.push_back(std::move(proto));
  }
  return out;
}

Result<> WriteWhole(const std::string& path, std::string_view front,
                    std::span<const compiled::WeightTable::Weight> weights) {
  return WriteWholeFile(path, [&](const std::string& to) -> Result<> {
    std::ofstream out(to, std::ios::binary | std::ios::trunc);
    out.write(front.data(), static_cast<std::streamsize>(front.size()));
    uint64_t at = 0;
    constexpr char kZeros[AlignedBytes::kAlignment] = {};
    for (const auto& weight : weights) {
      out.write(kZeros, static_cast<std::streamsize>(weight.offset - at));
      const std::span<const std::byte> bytes = weight.literal->bytes();
      out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
      at = weight.offset + bytes.size();
      if (!out) break;
    }
    out.close();
    if (out) return {};
    return DataLoss("'{}' cannot be written: the folder is not there, not yours to write, or full.", path);
  });
}

}  // namespace

bool LooksLikeCompiledModel(std::string_view bytes) { return bytes.starts_with(compiled::kMagic); }

Result<std::unique_ptr<Module>> ReadCompiledModel(std::string_view bytes, std::string_view name,
                                                  std::shared_ptr<const void> owner, const std::string& folder) {
  KRAFLA_ASSIGN(const std::vector<Section> sections, compiled::ReadSections(bytes, name));
  std::unique_ptr<Module> out;
  Manifest manifest;
  std::vector<std::shared_ptr<Module>> programs;
  std::string_view weights;
  for (const Section& section : sections) {
    switch (section.kind) {
      case SectionKind::kManifest: {
        KRAFLA_ASSIGN(manifest, ReadManifest(section.bytes, name));
        break;
      }
      case SectionKind::kInterface: {
        KRAFLA_ASSIGN(out, ParseSection(section, name));
        break;
      }
      case SectionKind::kProgram: {
        KRAFLA_ASSIGN(std::unique_ptr<Module> program, ParseSection(section, name));
        programs.push_back(std::move(program));
        break;
      }
      case SectionKind::kWeights: weights = section.bytes; break;
      default:
        return DataLoss("'{}' is damaged: it has a section of kind {}.", name, static_cast<uint32_t>(section.kind));
    }
  }
  if (out == nullptr || programs.empty() || programs.size() != manifest.targets.size())
    return DataLoss("'{}' is damaged: it has {} programs for {} sets of devices.", name, programs.size(),
                    manifest.targets.size());
  if (manifest.weights_file) {
    if (folder.empty())
      return FailedPrecondition("The weights of '{}' are in '{}' beside it: load the model by its path, not its bytes.",
                                name, manifest.weights_file->name);
    KRAFLA_ASSIGN(const std::shared_ptr<const MappedFile> file,
                  compiled::OpenWeightsFile(*manifest.weights_file, folder, name));
    weights = file->bytes().substr(manifest.weights_file->header_bytes);
    owner = file;
  }
  for (std::size_t p = 0; p < programs.size(); ++p) {
    if (programs[p]->entry() == nullptr) return DataLoss("'{}' is damaged: a program has no entry.", name);
    KRAFLA_TRY(compiled::PutInWeights(*programs[p], weights, owner));
    out->optimised.push_back({std::move(manifest.targets[p]), std::move(programs[p])});
  }
  return out;
}

Result<CompiledModelSize> WriteCompiledModel(const Module& module, std::span<const CompileTarget> targets,
                                             const CompileOptions& options, const std::string& path,
                                             const std::string& weights_name) {
  if (!module.optimised.empty()) return FailedPrecondition("The model '{}' is compiled already.", module.name());
  if (targets.empty()) return InvalidArgument("A model is compiled for one back end at least.");
  KRAFLA_ASSIGN(const Programs programs, OptimiseFor(module, targets, options));
  KRAFLA_ASSIGN(const std::string interface, SerializeHloProto(*InterfaceOf(module)));
  std::optional<compiled::WeightsFile> weights_file;
  std::span<const compiled::WeightTable::Weight> inside = programs.weights.weights();
  CompiledModelSize size = {0, programs.weights.bytes(), static_cast<int>(programs.protos.size())};
  if (!weights_name.empty()) {
    if (!compiled::IsFileName(weights_name))
      return InvalidArgument("'{}' is a path; weights are a file beside the compiled model, of a name alone.",
                             weights_name);
    const std::string header = compiled::WriteWeightsHeader(programs.weights);
    // First, as the model is nothing without it.
    KRAFLA_TRY(WriteWhole(Format("{}/{}", FolderOf(path), weights_name), header, inside));
    weights_file = compiled::DescribeWeightsFile(weights_name, header, programs.weights);
    size.weights_file_bytes = header.size() + programs.weights.bytes();
    inside = {};
  }
  const std::string manifest = WriteManifest(programs.modules, weights_file);
  std::vector<Section> sections = {{SectionKind::kManifest, manifest}, {SectionKind::kInterface, interface}};
  for (const std::string& proto : programs.protos) sections.push_back({SectionKind::kProgram, proto});
  const uint64_t inside_bytes = weights_file ? 0 : programs.weights.bytes();
  const std::string front = compiled::WriteSections(sections, inside_bytes);
  KRAFLA_TRY(WriteWhole(path, front, inside));
  size.file_bytes = front.size() + inside_bytes;
  return size;
}

}  // namespace krafla
