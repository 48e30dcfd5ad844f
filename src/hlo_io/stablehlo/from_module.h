// SPDX-License-Identifier: Apache-2.0
// A Module as a StableHLO program: the inverse of to_module.h. Tuples are taken apart: functions take and give the
// leaves of those of their computations, as JAX's do. Called computations become regions where StableHLO has them
// there, and functions where they are called; fusions are written out.
#pragma once

#include <cstdint>
#include <memory>

#include "hlo_io/stablehlo/op_tree.h"
#include "ir/module.h"
#include "krafla/status.h"

namespace krafla::stablehlo {

// Whether CHLO's operations may be used: StableHLO's text may have them, VHLO has none.
enum class Dialects : uint8_t { kStablehloAndChlo, kStablehloAlone };

// The tree has each attribute that VHLO's newest version of an operation has, but for those of which the absence means
// a default: result_accuracy, and what makes a dot's algorithm. UNIMPLEMENTED, naming the instruction, for what
// StableHLO has no form of.
Result<std::unique_ptr<Tree>> FromModule(const Module& module, Dialects dialects);

}  // namespace krafla::stablehlo
