// SPDX-License-Identifier: Apache-2.0
// Large constants of elements of fewer than 8 bits are packed as those of parameters are (passes/entry_packing.h).
// Small ones that count in even steps and are broadcast (the shifts that take codes out of a word) become what an iota
// makes: no kernel has to read them, or to store what is broadcast from them. After all that computes with constants.
#include <algorithm>
#include <cstdlib>

#include "ir/packed_elements.h"
#include "passes/entry_packing.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

// Fewer elements are not worth the bits that are moved.
constexpr int64_t kFewElements = 4096;
constexpr int64_t kShortCount = 64;

int64_t ElementAt(const Literal& literal, int64_t n) {
  return literal.shape().element_type() == ElementType::kS32 ? literal.data<int32_t>()[static_cast<std::size_t>(n)]
                                                             : literal.data<uint32_t>()[static_cast<std::size_t>(n)];
}

// Null: it counts in no even steps, or nothing broadcasts it.
Instruction* AsIota(Instruction* i) {
  const Shape& shape = i->shape();
  const ElementType type = shape.element_type();
  if ((type != ElementType::kS32 && type != ElementType::kU32) || shape.rank() != 1 || shape.element_count() < 2 ||
      shape.element_count() > kShortCount ||
      std::ranges::none_of(i->users(), [](const Instruction* u) { return u->opcode() == Opcode::kBroadcast; }))
    return nullptr;
  const int64_t first = ElementAt(i->literal(), 0), step = ElementAt(i->literal(), 1) - first;
  constexpr int64_t kMost = int64_t{1} << 24;
  if (std::abs(first) > kMost || std::abs(step) > kMost) return nullptr;
  for (int64_t n = 2; n < shape.element_count(); ++n)
    if (ElementAt(i->literal(), n) != first + n * step) return nullptr;
  Rewriter rewrite(*i);
  Instruction* out = rewrite.Add(Opcode::kIota, shape, {}, IotaAttributes{0});
  if (step != 1) out = rewrite.Binary(Opcode::kMultiply, out, rewrite.Splat(ScalarOfInt(type, step), shape.dims()));
  if (first != 0) out = rewrite.Binary(Opcode::kAdd, out, rewrite.Splat(ScalarOfInt(type, first), shape.dims()));
  return out;
}

}  // namespace

Result<bool> ConstantPacker(Module& module, const PassOptions&) {
  return RewriteAll(module, Opcode::kConstant, [](Instruction* i) -> Result<Instruction*> {
    if (Instruction* iota = AsIota(i)) return iota;
    if (!IsPackable(i->shape()) || i->shape().element_count() < kFewElements) return nullptr;
    KRAFLA_ASSIGN(Literal packed, PackedLiteral(i->literal()));
    return AddUnpacked(Rewriter(*i).Constant(std::move(packed)), i->shape());
  });
}

}  // namespace krafla
