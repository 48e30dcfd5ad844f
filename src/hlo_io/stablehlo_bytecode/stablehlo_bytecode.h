// SPDX-License-Identifier: Apache-2.0
// StableHLO portable artifacts: MLIR bytecode of the dialect VHLO, versions 0.9 to 1.20, with what of the dialects
// builtin and sdy comes along. Input is untrusted: any bytes give a tree or an error, in linear time; every count is
// bounded by the bytes that are left.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "hlo_io/stablehlo/op_tree.h"
#include "krafla/status.h"

namespace krafla::stablehlo {

// INVALID_ARGUMENT for damaged bytes, UNIMPLEMENTED for operations, attributes and types of later versions.
Result<std::unique_ptr<Tree>> ReadBytecode(std::string_view bytes);

// A tree that FromModule made, in the lowest version of VHLO, 1.0.0 or later, that has all of it. UNIMPLEMENTED for
// operations that VHLO does not have, as those of CHLO.
Result<std::string> WriteBytecode(const Tree& tree);

}  // namespace krafla::stablehlo
