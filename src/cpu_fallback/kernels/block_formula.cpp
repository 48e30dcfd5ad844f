// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/block_families.h"

namespace krafla::cpu {
BlockFn FindFormulaBlock(const BlockKey&) { return nullptr; }
}  // namespace krafla::cpu
