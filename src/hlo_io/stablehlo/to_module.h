// SPDX-License-Identifier: Apache-2.0
// A StableHLO program as a Module: the function "main" is the entry, other functions become computations that are
// called, composites their decompositions. Operations with run-time shapes are taken where the shapes are constants.
#pragma once

#include <memory>
#include <string_view>

#include "base/status.h"
#include "hlo_io/stablehlo/op_tree.h"
#include "ir/module.h"

namespace krafla::stablehlo {

// INVALID_ARGUMENT, naming the operation and its place, for programs that mean nothing; UNIMPLEMENTED for what the IR
// cannot hold. The module is not verified.
Result<std::unique_ptr<Module>> ToModule(const Tree& tree);

}  // namespace krafla::stablehlo
