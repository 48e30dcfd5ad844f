// SPDX-License-Identifier: Apache-2.0
// Large constants of elements of fewer than 8 bits are packed as those of parameters are (passes/entry_packing.h).
// After all that computes with constants.
#include "ir/packed_elements.h"
#include "passes/entry_packing.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {

namespace {

// Fewer elements are not worth the bits that are moved.
constexpr int64_t kFewElements = 4096;

}  // namespace

Result<bool> ConstantPacker(Module& module, const PassOptions&) {
  return RewriteAll(module, Opcode::kConstant, [](Instruction* i) -> Result<Instruction*> {
    if (!IsPackable(i->shape()) || i->shape().element_count() < kFewElements) return nullptr;
    KRAFLA_ASSIGN(Literal packed, PackedLiteral(i->literal()));
    return AddUnpacked(Rewriter(*i).Constant(std::move(packed)), i->shape());
  });
}

}  // namespace krafla
