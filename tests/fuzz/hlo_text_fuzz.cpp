// SPDX-License-Identifier: Apache-2.0
// Any bytes give a module or an error; a module survives a round trip through the printer.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "hlo_io/hlo_text/hlo_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  krafla::HloTextLimits limits;
  limits.max_constant_bytes = 1 << 20;
  limits.max_instructions = 10000;
  auto module = krafla::ParseHloText(text, "fuzz", limits);
  if (!module) return 0;
  std::string printed = krafla::PrintModule(**module);
  // What the text gives in short form may print longer: "{...}", and iota groups.
  limits.max_instructions *= 2;
  auto again = krafla::ParseHloText(printed, "printed", limits);
  if (!again || !krafla::SameModule(**module, **again)) {
    std::fprintf(stderr, "%s\n%s\n", printed.c_str(), again ? "the modules differ" : again.error().ToString().c_str());
    std::abort();
  }
  return 0;
}
