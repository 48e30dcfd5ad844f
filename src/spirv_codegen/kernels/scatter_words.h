// SPDX-License-Identifier: Apache-2.0
// A scatter whose windows are rows of elements that lie side by side, by words of 8 bytes that hold several. An
// invocation owns words of the operand by their addresses, whichever windows they are in, and takes the updates in
// their order. So windows may overlap and begin anywhere in words.
#pragma once

#include "spirv_codegen/kernels/scatter_problem.h"

namespace krafla::spirv {

Refusal RefusesScatterWords(const ScatterProblem& p);
Result<EmittedProgram> EmitScatterWords(const ScatterProblem& p, std::string reason);

}  // namespace krafla::spirv
