// SPDX-License-Identifier: Apache-2.0
// Every pass, one a source file of the same name. All have the signature of PassInfo::run; what each does is told in
// its file and, in one line, in pipeline.cpp.
#pragma once

#include "passes/pipeline.h"

namespace krafla {

#define KRAFLA_PASS(Function) Result<bool> Function(Module& module, const PassOptions& options)

KRAFLA_PASS(AlgebraicSimplifier);
KRAFLA_PASS(CallInliner);
KRAFLA_PASS(ConstantFolding);
KRAFLA_PASS(Cse);
KRAFLA_PASS(Dce);
KRAFLA_PASS(MovementSimplifier);
KRAFLA_PASS(StructuralSimplifier);
KRAFLA_PASS(TupleSimplifier);

#undef KRAFLA_PASS

}  // namespace krafla
