// SPDX-License-Identifier: Apache-2.0
#include "evaluator/float_kernels.h"

namespace krafla::evaluator {

BlockFn FindFloatKernel(Opcode opcode) { return FindRealKernel<float>(opcode); }

}  // namespace krafla::evaluator
