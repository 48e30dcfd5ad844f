// SPDX-License-Identifier: Apache-2.0
// The gate between what was read and everything that computes. Planners and back ends take a VerifiedModule only.
#pragma once

#include <memory>
#include <vector>

#include "ir/module.h"
#include "krafla/status.h"

namespace krafla {

// Every rule of the language: each instruction's arity, attributes and shape agree with its row of ops.def, graphs
// are acyclic and in topological order, computations do not call themselves, parameters are numbered 0..n-1, called
// computations have the signatures that their callers need, async pairs match, aliases name what exists, collectives
// name devices that exist where the module says how many there are. Sorts each computation topologically.
// Errors: INVALID_ARGUMENT with the instruction and its line; UNIMPLEMENTED for legal programs that nothing here runs
// (unbounded dynamic dimensions).
// Passes insert computations that only call another between a loop and a body that it shares, so that calls may then be
// twice as deep.
enum class CallDepth : uint8_t { kOfInput, kAfterPasses };
Result<> Verify(Module& module, CallDepth depth = CallDepth::kOfInput);

// Of a verified module that is about to be compiled for replica_count times num_partitions devices: whether these can
// serve it. Verify accepts any replica groups and pairs where a count is 1, as texts often omit the counts; here they
// must name the devices that there are, and shapes follow from those. INVALID_ARGUMENT names the instruction.
Result<> VerifyDevices(const Module& module);

class VerifiedModule {
 public:
  static Result<VerifiedModule> Make(std::unique_ptr<Module> module) {
    KRAFLA_TRY(Verify(*module, CallDepth::kAfterPasses));
    return VerifiedModule(std::move(module));
  }
  const Module& module() const { return *module_; }
  const Module* operator->() const { return module_.get(); }
  // For passes, which keep a valid module valid.
  std::unique_ptr<Module> Release() && { return std::move(module_); }

 private:
  explicit VerifiedModule(std::unique_ptr<Module> module) : module_(std::move(module)) {}
  std::unique_ptr<Module> module_;
};

}  // namespace krafla
