// SPDX-License-Identifier: Apache-2.0
// What a program's instructions may ask of the host, bound for the evaluator: custom calls, infeed and outfeed, host
// channels.
#pragma once

#include <memory>
#include <string>

#include "api/client.h"
#include "evaluator/evaluator.h"
#include "krafla/custom_call.h"

namespace krafla {

class HostServices {
 public:
  HostServices(const CustomCallRegistry& custom_calls, std::shared_ptr<HostTransfers> transfers);
  HostServices(const HostServices&) = delete;
  HostServices& operator=(const HostServices&) = delete;

  // The same for a member of a group of devices: `member` says which it is, and does what lies between devices.
  std::unique_ptr<HostServices> For(const EvaluatorHost& member) const;

  // Good as long as this object.
  EvaluatorOptions evaluator_options() const { return {.host = &host_}; }
  // What ends the waits of the run that is about to begin; must outlive it.
  void SetLimit(const RunLimit* limit) { limit_ = limit; }

 private:
  Result<Literal> Call(const Instruction& call, std::span<const Literal* const> operands) const;
  Result<Literal> Transfer(const Instruction& transfer, std::span<const Literal* const> operands) const;

  const CustomCallRegistry& custom_calls_;
  std::shared_ptr<HostTransfers> transfers_;
  EvaluatorHost host_;
  const RunLimit* limit_ = &kUnlimited;
};

// The registry that `options` means.
const CustomCallRegistry& CustomCallsOf(const CompileOptions& options);

// INVALID_ARGUMENT for the first custom call that krafla computes itself whose shapes are not what the call gives.
Result<> CheckBuiltInCalls(const Module& module, const CustomCallRegistry& custom_calls);

// NOT_FOUND for the first custom call of the module that nobody has: names the target, and those that there are.
Result<> CheckCustomCalls(const Module& module, const CustomCallRegistry& custom_calls, bool runs_spirv);

}  // namespace krafla
