// SPDX-License-Identifier: Apache-2.0
#include "krafla/program_inputs.h"

#include <memory>

#include "api/read_program.h"
#include "base/file.h"
#include "base/without_exceptions.h"
#include "ir/value_names.h"
#include "krafla/onnx.h"

namespace krafla {
namespace {

void AppendLeaves(const Shape& shape, std::vector<ProgramInput>& out) {
  if (shape.IsTuple())
    for (const Shape& element : shape.tuple_elements()) AppendLeaves(element, out);
  if (!shape.IsArray()) return;
  ProgramInput& input = out.emplace_back();
  input.type = shape.element_type();
  for (const int64_t size : shape.dims()) input.dimensions.push_back({size, ""});
}

// Of a program that leaves nothing open.
std::vector<ProgramInput> InputsOf(const Module& module) {
  std::vector<ProgramInput> out;
  for (const Instruction* parameter : module.entry()->parameters()) AppendLeaves(parameter->shape(), out);
  const std::vector<std::string> names = ArgumentNames(module);
  for (std::size_t i = 0; i < out.size() && names.size() == out.size(); ++i) out[i].name = names[i];
  return out;
}

Result<std::vector<ProgramInput>> InputsOf(std::string_view bytes, const std::string& name,
                                           const ReadOptions& options) {
  return WithoutExceptions([&]() -> Result<std::vector<ProgramInput>> {
    if (LooksLikeOnnx(bytes)) return ReadOnnxInputs(bytes);
    KRAFLA_ASSIGN(auto open, ReadOpenInputs(bytes, name));
    if (open) return *std::move(open);
    KRAFLA_ASSIGN(const std::unique_ptr<Module> module, ReadProgram(bytes, name, options));
    return InputsOf(*module);
  });
}

}  // namespace

Result<std::vector<ProgramInput>> ReadProgramInputs(std::string_view bytes) { return InputsOf(bytes, "<bytes>", {}); }

Result<std::vector<ProgramInput>> ReadProgramInputsFile(const std::string& path) {
  KRAFLA_ASSIGN(const std::string bytes, ReadFile(path));
  return InputsOf(bytes, path, {.path = path});
}

}  // namespace krafla
