// SPDX-License-Identifier: Apache-2.0
#include "hlo_io/read_module.h"

#include "hlo_io/hlo_proto/hlo_proto.h"
#include "hlo_io/hlo_text/hlo_text.h"

namespace krafla {

Result<std::unique_ptr<Module>> ReadModule(std::string_view bytes, std::string_view file) {
  if (bytes.starts_with("ML\xefR"))
    return Unimplemented("{} is StableHLO bytecode, which this version does not read; give it as HLO text", file);
  if (LooksLikeHloProto(bytes)) return ParseHloProto(std::as_bytes(std::span(bytes)), file);
  return ParseHloText(bytes, file);
}

}  // namespace krafla
