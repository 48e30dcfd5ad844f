// SPDX-License-Identifier: Apache-2.0
// Any bytes give a module or an error; a valid module survives a round trip through the writer.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "hlo_io/hlo_proto/hlo_proto.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "ir/verifier.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  krafla::HloProtoLimits limits;
  limits.max_constant_bytes = 1 << 20;
  limits.max_instructions = 10000;
  auto module = krafla::ParseHloProto({reinterpret_cast<const std::byte*>(data), size}, "fuzz", limits);
  if (!module || !krafla::Verify(**module)) return 0;
  auto written = krafla::SerializeHloProto(**module);
  if (!written) return 0;
  // What the input says in short form is written in full.
  limits.max_constant_bytes *= 2;
  auto again = krafla::ParseHloProto(std::as_bytes(std::span(*written)), "written", limits);
  if (!again || krafla::PrintModule(**module) != krafla::PrintModule(**again)) {
    std::fprintf(stderr, "%s\n%s\n", krafla::PrintModule(**module).c_str(),
                 again ? krafla::PrintModule(**again).c_str() : again.error().ToString().c_str());
    std::abort();
  }
  return 0;
}
