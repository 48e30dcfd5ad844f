// SPDX-License-Identifier: Apache-2.0
// Any bytes give a computation or an error; what is a computation verifies.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "hlo_io/hlo_text/hlo_text.h"
#include "ir/module.h"
#include "ir/verifier.h"
#include "krafla/onnx.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  // What it takes is read before a shape is known, of models that are refused too.
  if (auto inputs = krafla::ReadOnnxInputs(bytes); !inputs && inputs.error().message().empty()) std::abort();
  auto model = krafla::ImportOnnx(bytes);
  if (!model) return 0;
  const std::unique_ptr<krafla::Module> module = model->computation.module()->Clone();
  if (auto verified = krafla::Verify(*module); !verified) {
    std::fprintf(stderr, "%s\n%s\n", krafla::PrintModule(*module).c_str(), verified.error().ToString().c_str());
    std::abort();
  }
  return 0;
}
