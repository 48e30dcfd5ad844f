// SPDX-License-Identifier: Apache-2.0
#include "api/read_program.h"

#include "api/compiled/compiled_model.h"
#include "base/file.h"
#include "base/without_exceptions.h"
#include "hlo_io/hlo_proto/hlo_proto.h"
#include "ir/verifier.h"
#include "krafla/onnx.h"

namespace krafla {

namespace {

// By the first bytes of a regular file; what is wrong with any other is for ReadFile to say.
bool IsCompiledModel(const std::string& path) {
  const auto file = InputFile::Open(path);
  char begin[16];
  return file && file->size() >= static_cast<int64_t>(sizeof(begin)) && file->ReadAt(0, begin, sizeof(begin)) &&
         LooksLikeCompiledModel({begin, sizeof(begin)});
}

Result<XlaComputation> Verified(Result<std::unique_ptr<Module>> module) {
  if (!module) return Failure(std::move(module).error());
  return WithoutExceptions([&]() -> Result<XlaComputation> {
    KRAFLA_TRY(Verify(**module));
    return XlaComputation(std::shared_ptr<const Module>(*std::move(module)));
  });
}

}  // namespace

Result<std::unique_ptr<Module>> ReadProgram(std::string_view bytes, std::string_view name, const ReadOptions& options) {
  return WithoutExceptions([&]() -> Result<std::unique_ptr<Module>> {
    if (LooksLikeCompiledModel(bytes)) {
      if (!options.sizes.empty())
        return InvalidArgument("{} is a compiled model: the sizes of its arguments are known.", name);
      return ReadCompiledModel(bytes, name, options.owner, options.path.empty() ? "" : FolderOf(options.path));
    }
    if (!LooksLikeOnnx(bytes)) return ReadModule(bytes, name, options.sizes);
    OnnxOptions onnx;
    onnx.shapes = options.sizes;
    if (!options.path.empty()) onnx.folder = FolderOf(options.path);
    auto model = ImportOnnx(bytes, onnx);
    if (!model) return Failure(std::move(model).error().WithContext(Format("while importing {}", name)));
    return model->computation.module()->Clone();
  });
}

Result<std::unique_ptr<Module>> ReadProgramFile(const std::string& path, const ArgumentSizes& sizes) {
  return WithoutExceptions([&]() -> Result<std::unique_ptr<Module>> {
    if (!IsCompiledModel(path)) {
      KRAFLA_ASSIGN(const std::string bytes, ReadFile(path));
      return ReadProgram(bytes, path, {.sizes = sizes, .path = path});
    }
    KRAFLA_ASSIGN(MappedFile mapped, MappedFile::Open(path));
    const auto file = std::make_shared<const MappedFile>(std::move(mapped));
    return ReadProgram(file->bytes(), path, {.sizes = sizes, .path = path, .owner = file});
  });
}

Result<XlaComputation> ReadComputation(std::string_view bytes, std::string_view name, const ReadOptions& options) {
  return Verified(ReadProgram(bytes, name, options));
}

Result<XlaComputation> ReadComputationFile(const std::string& path, const ArgumentSizes& sizes) {
  return Verified(ReadProgramFile(path, sizes));
}

Result<std::string> SerializeProgram(const Module& module) {
  return WithoutExceptions([&] { return SerializeHloProto(module, true); });
}

}  // namespace krafla
