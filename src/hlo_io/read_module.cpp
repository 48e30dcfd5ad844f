// SPDX-License-Identifier: Apache-2.0
#include "hlo_io/read_module.h"

#include "hlo_io/hlo_proto/hlo_proto.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "hlo_io/stablehlo/to_module.h"
#include "hlo_io/stablehlo_bytecode/stablehlo_bytecode.h"
#include "hlo_io/stablehlo_text/stablehlo_text.h"

namespace krafla {

Result<std::unique_ptr<Module>> ReadModule(std::string_view bytes, std::string_view file) {
  const bool bytecode = bytes.starts_with("ML\xefR");
  // A file that is named as HLO text is held to that.
  if (bytecode || (stablehlo::LooksLikeMlir(bytes) && !file.ends_with(".hlo"))) {
    auto tree = bytecode ? stablehlo::ReadBytecode(bytes) : stablehlo::ParseText(bytes, file);
    auto module =
        tree ? stablehlo::ToModule(**tree) : Result<std::unique_ptr<Module>>(Failure(std::move(tree).error()));
    if (!module) return Failure(std::move(module).error().WithContext(Format("while reading {}", file)));
    return module;
  }
  if (LooksLikeHloProto(bytes)) return ParseHloProto(std::as_bytes(std::span(bytes)), file);
  return ParseHloText(bytes, file);
}

}  // namespace krafla
