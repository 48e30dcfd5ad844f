// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "onnx/model.h"

namespace krafla::onnx {

// What no operator looks at: names that are made twice, attributes that are given twice, an opset of the future.
// INVALID_ARGUMENT, and UNIMPLEMENTED for the opset.
Result<> CheckModel(const Model& model);

}  // namespace krafla::onnx
