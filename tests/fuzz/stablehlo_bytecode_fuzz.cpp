// SPDX-License-Identifier: Apache-2.0
// Any bytes give a module that passes or fails the verifier, or an error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hlo_io/hlo_text/hlo_text.h"
#include "hlo_io/stablehlo/to_module.h"
#include "hlo_io/stablehlo_bytecode/stablehlo_bytecode.h"
#include "ir/verifier.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  auto tree = krafla::stablehlo::ReadBytecode({reinterpret_cast<const char*>(data), size});
  if (!tree) return 0;
  auto module = krafla::stablehlo::ToModule(**tree);
  if (module && krafla::Verify(**module)) krafla::PrintModule(**module);
  return 0;
}
