// SPDX-License-Identifier: Apache-2.0
// Elementary functions: the formulas of numerics on vectors.
#include "cpu_fallback/kernels/block_families.h"

namespace krafla::cpu {

BlockFn FindF32Formula(Opcode opcode);
BlockFn FindF64Formula(Opcode opcode);
BlockFn FindFloatRemainder(ElementType type, unsigned uniform);

BlockFn FindFormulaBlock(const BlockKey& key) {
  if (key.type != ElementType::kF32 && key.type != ElementType::kF64) return nullptr;
  if (key.opcode == Opcode::kRemainder) return FindFloatRemainder(key.type, key.uniform);
  if (key.uniform != 0) return nullptr;
  return key.type == ElementType::kF64 ? FindF64Formula(key.opcode) : FindF32Formula(key.opcode);
}

}  // namespace krafla::cpu
