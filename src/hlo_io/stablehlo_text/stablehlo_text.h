// SPDX-License-Identifier: Apache-2.0
// StableHLO as MLIR text: the generic form of any operation, and the pretty forms that stablehlo prints. Comments and
// locations are passed over, but for the names of arguments. Input is untrusted: any bytes give a tree or an error with
// its line, in linear time.
#pragma once

#include <memory>
#include <string_view>

#include "hlo_io/stablehlo/op_tree.h"
#include "krafla/status.h"

namespace krafla::stablehlo {

// `file` is for messages: "model.mlir:12:8: ...".
Result<std::unique_ptr<Tree>> ParseText(std::string_view text, std::string_view file = "<text>");

// Whether the bytes look like MLIR rather than HLO text.
bool LooksLikeMlir(std::string_view text);

}  // namespace krafla::stablehlo
