// SPDX-License-Identifier: Apache-2.0
// The parts of Verify, in the order in which it runs them. Each may rely on what the ones before it checked.
#pragma once

#include <unordered_map>

#include "ir/module.h"
#include "ir/shape_rules.h"
#include "krafla/status.h"

namespace krafla::verifier {

// How deeply computations may call each other: executors follow calls on the stack.
inline constexpr int kMaxCallDepth = 256;
// Tuple leaves looked at while comparing operands with called computations. A real program stays far below; a text
// that names one huge tuple a million times does not get to cost hours.
inline constexpr int64_t kMaxLeafVisits = 100'000'000;
// Leaves of all signatures that one instruction calls, copied together.
inline constexpr int64_t kMaxSignatureLeaves = 1 << 20;

// Adds the instruction and its computation to an error.
Failure At(const Instruction& instruction, const Status& error);

// Pointers, owners, roots, parameters, device counts.
Result<> CheckStructure(const Module& module);
// No computation calls itself; depth; nothing that talks to the world inside a reducer or comparator.
Result<> CheckCallGraph(const Module& module, int max_depth);
// Starts, updates and dones.
Result<> CheckAsyncPair(const Instruction& instruction);
// Input-output aliases, donors, the layout of the entry.
Result<> CheckModuleConfig(const Module& module);

}  // namespace krafla::verifier
