// SPDX-License-Identifier: Apache-2.0
// ONNX models (https://onnx.ai) as computations. Weights become constants, inputs parameters under their names. Shapes
// are fixed while importing: what a model leaves open has to be given.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "krafla/export.h"
#include "krafla/literal.h"
#include "krafla/program_inputs.h"
#include "krafla/status.h"
#include "krafla/xla_computation.h"

KRAFLA_EXPORT_BEGIN
namespace krafla {

struct OnnxOptions {
  // The shape of an input, by its name or, where no input is called so, its number ("0"). Must agree with the
  // dimensions that the model fixes.
  std::map<std::string, std::vector<int64_t>> shapes;
  // Sizes of named dimensions, "batch"; for all inputs that have them.
  std::map<std::string, int64_t> dimensions;
  // Inputs whose values are known, by name: constants of the program, no parameters. Converted to the input's type.
  std::map<std::string, Literal> constants;
  // Where files of external data lie, and no others; empty: there are none. ImportOnnxFile takes the model's folder.
  std::string folder;
  // Called with how many nodes of how many are done.
  std::function<void(std::size_t done, std::size_t count)> progress;
};

// What the importer cannot do.
struct OnnxUnsupported {
  std::string node, op, reason;  // op: "NonMaxSuppression", or "com.microsoft.Attention"
  int64_t opset = 0;
};

struct OnnxModel {
  XlaComputation computation;  // the result is a tuple, in the order of the names
  std::vector<std::string> inputs, outputs;
};

// Whether the bytes look like a serialized ModelProto.
bool LooksLikeOnnx(std::string_view bytes);

// Errors: bytes that are no ONNX model (INVALID_ARGUMENT); an input without a shape, all of them named
// (INVALID_ARGUMENT); nodes that are not supported, all of them named (UNIMPLEMENTED), which also go to `unsupported`
// where it is not null.
Result<OnnxModel> ImportOnnx(std::string_view bytes, const OnnxOptions& options = {},
                             std::vector<OnnxUnsupported>* unsupported = nullptr);
// External data is read from the folder of the file, and from nowhere else.
Result<OnnxModel> ImportOnnxFile(const std::string& path, const OnnxOptions& options = {},
                                 std::vector<OnnxUnsupported>* unsupported = nullptr);

// What a model takes, with the dimensions that it leaves open.
Result<std::vector<ProgramInput>> ReadOnnxInputs(std::string_view bytes);

}  // namespace krafla
KRAFLA_EXPORT_END
