// SPDX-License-Identifier: Apache-2.0
// Any bytes give a module that passes or fails the verifier, or an error; also as a module that checks itself.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hlo_io/hlo_text/hlo_text.h"
#include "hlo_io/stablehlo/to_module.h"
#include "hlo_io/stablehlo_text/stablehlo_text.h"
#include "ir/verifier.h"
#include "recorded/self_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto tree = krafla::stablehlo::ParseText(text, "fuzz");
  if (tree) {
    auto module = krafla::stablehlo::ToModule(**tree);
    if (module && krafla::Verify(**module)) krafla::PrintModule(**module);
  }
  if (!krafla::HasChecks(text)) return 0;
  for (auto& part : krafla::ReadSelfChecks(text, "fuzz"))
    if (part.check) (void)krafla::Verify(*part.check->module);
  return 0;
}
