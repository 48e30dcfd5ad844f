// SPDX-License-Identifier: Apache-2.0
#include "evaluator/float_kernels.h"

namespace krafla::evaluator {

BlockFn FindDoubleKernel(Opcode opcode) { return FindRealKernel<double>(opcode); }

}  // namespace krafla::evaluator
