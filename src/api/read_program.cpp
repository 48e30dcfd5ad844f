// SPDX-License-Identifier: Apache-2.0
#include "api/read_program.h"

#include "api/front_end.h"
#include "hlo_io/hlo_proto/hlo_proto.h"
#include "hlo_io/read_module.h"
#include "krafla/onnx.h"

namespace krafla {

Result<std::unique_ptr<Module>> ReadProgram(std::string_view bytes, std::string_view name) {
  if (LooksLikeOnnx(bytes)) {
    auto model = ImportOnnx(bytes);
    if (!model) return Failure(std::move(model).error().WithContext(Format("while importing {}", name)));
    return WithoutExceptions([&]() -> Result<std::unique_ptr<Module>> { return model->computation.module()->Clone(); });
  }
  return WithoutExceptions([&] { return ReadModule(bytes, name); });
}

Result<std::string> SerializeProgram(const Module& module) {
  return WithoutExceptions([&] { return SerializeHloProto(module, true); });
}

}  // namespace krafla
