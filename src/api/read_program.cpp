// SPDX-License-Identifier: Apache-2.0
#include "api/read_program.h"

#include "api/front_end.h"
#include "hlo_io/hlo_proto/hlo_proto.h"
#include "ir/verifier.h"
#include "krafla/onnx.h"

namespace krafla {

Result<std::unique_ptr<Module>> ReadProgram(std::string_view bytes, std::string_view name, const ArgumentSizes& sizes,
                                            const std::string& path) {
  return WithoutExceptions([&]() -> Result<std::unique_ptr<Module>> {
    if (!LooksLikeOnnx(bytes)) return ReadModule(bytes, name, sizes);
    const OnnxOptions options{.shapes = sizes, .dimensions = {}, .constants = {}, .progress = {}};
    auto model = path.empty() ? ImportOnnx(bytes, options) : ImportOnnxFile(path, options);
    if (!model && path.empty())
      return Failure(std::move(model).error().WithContext(Format("while importing {}", name)));
    if (!model) return Failure(std::move(model).error());
    return model->computation.module()->Clone();
  });
}

Result<XlaComputation> ReadComputation(std::string_view bytes, std::string_view name, const ArgumentSizes& sizes,
                                       const std::string& path) {
  KRAFLA_ASSIGN(std::unique_ptr<Module> module, ReadProgram(bytes, name, sizes, path));
  return WithoutExceptions([&]() -> Result<XlaComputation> {
    KRAFLA_TRY(Verify(*module));
    return XlaComputation(std::shared_ptr<const Module>(std::move(module)));
  });
}

Result<std::string> SerializeProgram(const Module& module) {
  return WithoutExceptions([&] { return SerializeHloProto(module, true); });
}

}  // namespace krafla
