// SPDX-License-Identifier: Apache-2.0
#include "krafla/program_inputs.h"

#include <memory>
#include <utility>

#include "api/read_program.h"
#include "base/file.h"
#include "base/without_exceptions.h"
#include "ir/value_names.h"
#include "krafla/onnx.h"

namespace krafla {
namespace {

// Of a program that leaves nothing open.
std::vector<ProgramInput> InputsOf(const Module& module) {
  std::vector<ProgramInput> out;
  std::vector<std::string> names = ArgumentNames(module);
  std::size_t leaves = 0;
  for (const Instruction* parameter : module.entry()->parameters())
    for (const Shape* leaf : TupleLeaves(parameter->shape())) {
      std::string& name = names[leaves++];
      if (!leaf->IsArray()) continue;
      ProgramInput& input = out.emplace_back();
      input.name = std::move(name);
      input.type = leaf->element_type();
      for (const int64_t size : leaf->dims()) input.dimensions.push_back({size, ""});
    }
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
