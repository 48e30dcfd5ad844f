// SPDX-License-Identifier: Apache-2.0
#include "hlo_io/read_module.h"

#include <algorithm>
#include <span>

#include "hlo_io/hlo_proto/hlo_proto.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "hlo_io/other_formats.h"
#include "hlo_io/stablehlo/to_module.h"
#include "hlo_io/stablehlo_bytecode/stablehlo_bytecode.h"
#include "hlo_io/stablehlo_text/stablehlo_text.h"

namespace krafla {
namespace {

bool IsBytecode(std::string_view bytes) { return bytes.starts_with("ML\xefR"); }

// HLO states every size.
Result<> CompareShapes(const Module& module, const ArgumentSizes& shapes) {
  const auto parameters = module.entry()->parameters();
  for (const auto& [name, sizes] : shapes) {
    const Instruction* found = nullptr;
    for (std::size_t p = 0; p < parameters.size(); ++p)
      if (name == parameters[p]->name() || name == std::to_string(p)) found = parameters[p];
    if (found == nullptr) return InvalidArgument("A shape is given for '{}', which is not an argument.", name);
    const Shape& shape = found->shape();
    if (!shape.IsArray() || !std::ranges::equal(shape.dims(), sizes))
      return InvalidArgument("Argument '{}' is {}, and HLO has no open sizes that could be given.", name,
                             shape.ToString(false));
  }
  return {};
}

// Of bytes that are no HloModuleProto. A file that is named as HLO text is held to that.
bool IsStableHlo(std::string_view bytes, std::string_view file) {
  return IsBytecode(bytes) || (stablehlo::LooksLikeMlir(bytes) && !file.ends_with(".hlo"));
}

Result<std::unique_ptr<stablehlo::Tree>> ReadTree(std::string_view bytes, std::string_view file) {
  return IsBytecode(bytes) ? stablehlo::ReadBytecode(bytes) : stablehlo::ParseText(bytes, file);
}

}  // namespace

Result<std::optional<std::vector<ProgramInput>>> ReadOpenInputs(std::string_view bytes, std::string_view file) {
  if (LooksLikeHloProto(bytes) || !IsStableHlo(bytes, file)) return std::nullopt;
  KRAFLA_ASSIGN(const auto tree, ReadTree(bytes, file));
  KRAFLA_ASSIGN(auto inputs, stablehlo::EntryInputs(*tree));
  return inputs;
}

Result<std::unique_ptr<Module>> ReadModule(std::string_view bytes, std::string_view file, const ArgumentSizes& shapes) {
  // Before text is thought of: the length of a name may be the sign that MLIR's aliases begin with.
  const bool is_proto = LooksLikeHloProto(bytes);
  if (!is_proto && IsStableHlo(bytes, file)) {
    auto tree = ReadTree(bytes, file);
    auto module = tree ? stablehlo::ToModule(**tree, {.shapes = shapes})
                       : Result<std::unique_ptr<Module>>(Failure(std::move(tree).error()));
    if (!module) return Failure(std::move(module).error().WithContext(Format("while reading {}", file)));
    return module;
  }
  if (!is_proto)
    if (const OtherFormat other = RecognizeOther(bytes); !other.what.empty())
      return InvalidArgument("'{}' is {}, not a module. {}.", file, other.what, other.advice);
  auto module = is_proto ? ParseHloProto(std::as_bytes(std::span(bytes)), file) : ParseHloText(bytes, file);
  if (module) KRAFLA_TRY(CompareShapes(**module, shapes));
  return module;
}

}  // namespace krafla
