// SPDX-License-Identifier: Apache-2.0
// The evaluator: runs a module on the host one instruction at a time, slowly and obviously. It is the reference for
// the tests, the constant folder, and the variant of every kernel that always accepts. It shares only ir, base and
// numerics with the rest, so that it can judge the rest.
//
// The limit of this thread's work (base/interruption.h) reaches into it: CANCELLED or DEADLINE_EXCEEDED.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/module.h"
#include "krafla/literal.h"
#include "krafla/status.h"

namespace krafla {

// Where the exchanges of a device go on while the device does something else. They begin, and run, in the order in
// which they were given.
class ExchangeLane {
 public:
  virtual ~ExchangeLane() = default;
  // `exchange` is EvaluatorHost::exchange of one instruction, or what goes with it. Gives its number.
  virtual uint64_t Start(std::function<Result<>()> exchange) = 0;
  // Waits until the exchange of that number is done.
  virtual Result<> Await(uint64_t number) = 0;
  // The run has failed: those that the exchanges wait for are told, and this waits until none is under way any more.
  virtual void GiveUp(const Result<>& why) = 0;
};

// What an instruction may ask of the world outside its module.
struct EvaluatorHost {
  int64_t replica = 0, partition = 0, replica_count = 1, num_partitions = 1;
  // Collectives, send and recv-done. Called with the instruction and its operands' values; returns the instruction's
  // result, for a -start form what its -done gives. recv-done: no operands, returns the data; send: what it returns is
  // ignored, and it should not wait for the other side. Operands have their run-time dimensions. Null: with one
  // replica and one partition a collective is what it means there, else UNIMPLEMENTED.
  std::function<Result<Literal>(const Instruction&, std::span<const Literal* const>)> collective;
  // Does what `collective` does, over bytes: one pointer an array leaf of the operands, then of what `collective` would
  // return. Used where it is set and `collective` is not.
  std::function<Result<>(const Instruction&, std::span<const std::byte* const>, std::span<std::byte* const>)> exchange;
  // Null: exchanges are done where they stand.
  ExchangeLane* lane = nullptr;
  // Custom calls by target; null or NOT_FOUND: an error that names the target.
  std::function<Result<Literal>(const Instruction&, std::span<const Literal* const>)> custom_call;
  std::function<Result<Literal>(const Shape&)> infeed;
  std::function<Result<>(const Literal&)> outfeed;
  // Shared by all rng and rng-get-and-update-state instructions of a run.
  uint64_t rng_seed = 0;
};

struct EvaluatorOptions {
  const EvaluatorHost* host = nullptr;
  // Gives up with DEADLINE_EXCEEDED after about this many scalar operations; 0: no limit. The constant folder sets it.
  int64_t work_limit = 0;
};

// Whether there is an evaluator in this build; without one (KRAFLA_RUNTIME_ONLY) only custom calls of the host can be
// made, and everything else is UNIMPLEMENTED.
bool EvaluatesInstructions();

// The result of `computation` on `arguments` (one a parameter, shapes checked). Where a parameter or the result is
// bounded-dynamic, the literal has the run-time dimensions.
Result<Literal> Evaluate(const Computation& computation, std::span<const Literal* const> arguments,
                         const EvaluatorOptions& options = {});

// One instruction on given operand values. Not for parameter.
Result<Literal> EvaluateInstruction(const Instruction& instruction, std::span<const Literal* const> operands,
                                    const EvaluatorOptions& options = {});

}  // namespace krafla
