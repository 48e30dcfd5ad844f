// SPDX-License-Identifier: Apache-2.0
// A combiner (params 0..n-1 what is there, n..2n-1 what comes) applied to arrays.
#pragma once

#include <optional>

#include "cpu_fallback/executor/block_program.h"
#include "plan/kernel_plan.h"

namespace krafla::cpu {

// What a combiner of one value comes down to.
struct SimpleCombiner {
  enum class Kind : uint8_t { kReplace, kKeep, kOp } kind = Kind::kOp;
  BlockFn op = nullptr;  // kOp: of two arrays
  Opcode opcode = Opcode::kAdd;
  BlockFn round = nullptr;  // what the narrow type does to the result
};
std::optional<SimpleCombiner> FindSimpleCombiner(const plan::ElementProgram& combiner);

// A reduction of several values (a sum of complex numbers, a minimum and a maximum) each of which is combined by a
// plain op with itself alone, as reductions of one value each, in that order. Else nothing.
std::vector<plan::Reduction> IndependentParts(const plan::Reduction& reduction);

}  // namespace krafla::cpu
