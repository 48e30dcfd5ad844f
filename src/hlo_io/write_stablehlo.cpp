// SPDX-License-Identifier: Apache-2.0
#include "hlo_io/write_stablehlo.h"

#include "hlo_io/stablehlo/from_module.h"
#include "hlo_io/stablehlo_bytecode/stablehlo_bytecode.h"
#include "hlo_io/stablehlo_text/stablehlo_text.h"

namespace krafla {

Result<std::string> WriteStablehloText(const Module& module) {
  KRAFLA_ASSIGN(const std::unique_ptr<stablehlo::Tree> tree,
                stablehlo::FromModule(module, stablehlo::Dialects::kStablehloAndChlo));
  return stablehlo::PrintText(*tree);
}

Result<std::string> WriteStablehloBytecode(const Module& module) {
  KRAFLA_ASSIGN(const std::unique_ptr<stablehlo::Tree> tree,
                stablehlo::FromModule(module, stablehlo::Dialects::kStablehloAlone));
  return stablehlo::WriteBytecode(*tree);
}

}  // namespace krafla
