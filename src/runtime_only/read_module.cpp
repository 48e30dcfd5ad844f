// SPDX-License-Identifier: Apache-2.0
#include "hlo_io/read_module.h"

namespace krafla {

Result<std::optional<std::vector<ProgramInput>>> ReadOpenInputs(std::string_view, std::string_view) {
  return std::nullopt;
}

Result<std::unique_ptr<Module>> ReadModule(std::string_view, std::string_view file, const ArgumentSizes&) {
  return Unimplemented(
      "{} is not a compiled model, and this build of krafla (KRAFLA_RUNTIME_ONLY) loads nothing else: make one by krafla "
      "compile.",
      file);
}

}  // namespace krafla
