// SPDX-License-Identifier: Apache-2.0
#include "krafla/onnx.h"

namespace krafla {
namespace {

Failure NoImporter() {
  return Unimplemented("This build of krafla (KRAFLA_RUNTIME_ONLY) imports no ONNX models: make a compiled model.");
}

}  // namespace

// ReadModule says the same of all that is no compiled model.
bool LooksLikeOnnx(std::string_view) { return false; }
Result<OnnxModel> ImportOnnx(std::string_view, const OnnxOptions&, std::vector<OnnxUnsupported>*) {
  return NoImporter();
}
Result<OnnxModel> ImportOnnxFile(const std::string&, const OnnxOptions&, std::vector<OnnxUnsupported>*) {
  return NoImporter();
}
Result<std::vector<ProgramInput>> ReadOnnxInputs(std::string_view) { return NoImporter(); }

}  // namespace krafla
