// SPDX-License-Identifier: Apache-2.0
// A StableHLO program as a Module: the function "main" is the entry, other functions become computations that are
// called, composites their decompositions. Operations with run-time shapes are taken where the shapes are constants.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hlo_io/stablehlo/op_tree.h"
#include "ir/module.h"
#include "krafla/program_inputs.h"
#include "krafla/status.h"

namespace krafla {
struct CheckRule;
}

namespace krafla::stablehlo {

struct Conversion {
  std::string entry = "main";
  // The entry takes and gives arrays only: tokens are made where they are taken.
  bool arrays_only = false;
  // How many devices run it, where the module does not say.
  int64_t replicas = 1, partitions = 1;
  // Where the entry's comparisons go (hlo_io/check_rule.h). Their values are then what it gives, in pairs. Without
  // it operations that compare are UNIMPLEMENTED.
  std::vector<CheckRule>* checks = nullptr;
  // All sizes of arguments of the entry, by name or by number ("0"): what a program that leaves sizes open is refined
  // for. Sizes that the program states must be equal.
  std::map<std::string, std::vector<int64_t>> shapes = {};
};

// INVALID_ARGUMENT, naming the operation and its place, for programs that mean nothing; UNIMPLEMENTED for what the IR
// cannot hold. The module is not verified.
Result<std::unique_ptr<Module>> ToModule(const Tree& tree, const Conversion& conversion = {});
// The arguments of "main", as it states them.
Result<std::vector<ProgramInput>> EntryInputs(const Tree& tree);

}  // namespace krafla::stablehlo
