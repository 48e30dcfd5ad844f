// SPDX-License-Identifier: Apache-2.0
// The public calls.
#include <protozero/pbf_reader.hpp>

#include "base/file.h"
#include "base/without_exceptions.h"
#include "onnx/check_model.h"
#include "onnx/importer.h"

namespace krafla {
bool LooksLikeOnnx(std::string_view bytes) {
  // ir_version comes first in every writer, as a varint; in HloModuleProto field 1 is a text.
  if (!bytes.starts_with('\x08')) return false;
  try {
    protozero::pbf_reader r(bytes.data(), bytes.size());
    bool has_graph = false;
    while (r.next()) {
      has_graph |= r.tag() == 7 && r.wire_type() == protozero::pbf_wire_type::length_delimited;
      r.skip();
    }
    return has_graph;
  } catch (const protozero::exception&) { return false; }
}

Result<OnnxModel> ImportOnnx(std::string_view bytes, const OnnxOptions& options,
                             std::vector<OnnxUnsupported>* unsupported) {
  return WithoutExceptions([&]() -> Result<OnnxModel> {
    KRAFLA_ASSIGN(const onnx::Model model, onnx::ReadModel(bytes));
    KRAFLA_TRY(onnx::CheckModel(model));
    onnx::Importer importer(model, options);
    auto out = importer.Import();
    if (unsupported != nullptr) *unsupported = importer.unsupported();
    return out;
  });
}

Result<std::vector<ProgramInput>> ReadOnnxInputs(std::string_view bytes) {
  return WithoutExceptions([&]() -> Result<std::vector<ProgramInput>> {
    KRAFLA_ASSIGN(const onnx::Model model, onnx::ReadModel(bytes));
    std::vector<ProgramInput> out;
    for (const onnx::ValueInfo* info : onnx::GivenInputs(model.graph)) {
      ProgramInput& input = out.emplace_back();
      input.name = info->name;
      input.type = onnx::ToElementType(info->type);
      input.has_rank = info->has_dims;
      for (const onnx::Dimension& d : info->dims) input.dimensions.push_back({d.value < 0 ? -1 : d.value, d.name});
    }
    return out;
  });
}

Result<OnnxModel> ImportOnnxFile(const std::string& path, const OnnxOptions& options,
                                 std::vector<OnnxUnsupported>* unsupported) {
  KRAFLA_ASSIGN(const std::string bytes, ReadFile(path));
  OnnxOptions here = options;
  here.folder = FolderOf(path);
  auto out = ImportOnnx(bytes, here, unsupported);
  if (!out) return Failure(std::move(out).error().WithContext(Format("while importing {}", path)));
  return out;
}

}  // namespace krafla
