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

// An attribute as MLIR prints it, which the tree keeps.
Result<AttributeRef> ParseAttributeText(std::string_view text, Tree& tree);

// What ParseText and StableHLO's own parser read: operations that compute element by element in their short form, all
// others in MLIR's generic one.
std::string PrintText(const Tree& tree);

// Whether the bytes look like MLIR rather than HLO text.
bool LooksLikeMlir(std::string_view text);

}  // namespace krafla::stablehlo
