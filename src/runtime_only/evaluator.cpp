// SPDX-License-Identifier: Apache-2.0
#include "evaluator/evaluator.h"

namespace krafla {

bool EvaluatesInstructions() { return false; }

Result<Literal> Evaluate(const Computation& computation, std::span<const Literal* const>, const EvaluatorOptions&) {
  return Unimplemented("'{}' is for the evaluator, which this build of krafla (KRAFLA_RUNTIME_ONLY) has not.",
                       computation.name());
}

// What the application itself computes.
Result<Literal> EvaluateInstruction(const Instruction& instruction, std::span<const Literal* const> operands,
                                    const EvaluatorOptions& options) {
  if (instruction.opcode() == Opcode::kCustomCall && options.host != nullptr && options.host->custom_call)
    return options.host->custom_call(instruction, operands);
  return Unimplemented("{} is for the evaluator, which this build of krafla (KRAFLA_RUNTIME_ONLY) has not.",
                       Describe(instruction));
}

}  // namespace krafla
