// SPDX-License-Identifier: Apache-2.0
// Dots and convolutions in terms of those that back ends have kernels for:
//   complex           four real ones: (a + bi)(c + di) = (ac - bd) + (ad + bc)i, summed part by part
//   pred              of 0 and 1, counted in 32 bits: any product is true where the count is not 0
//   bytes             widened to 32 bits before a sum of 32 bits: the bytes themselves, which fast kernels exist for
//   many contracted dimensions that the operands do not hold side by side and in the same order: transposed before
// Runs after everything that moves transposes into dots.
#include <algorithm>
#include <limits>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {

namespace {

ElementType PartType(ElementType type) {
  return type == ElementType::kC64 ? ElementType::kF32 : type == ElementType::kC128 ? ElementType::kF64 : type;
}

Instruction* Part(Rewriter& rewrite, Opcode opcode, Instruction* x) {
  return rewrite.Add(opcode, x->shape().WithElementType(PartType(x->shape().element_type())), {x});
}

// `i`, both of whose operands are complex, as contractions of real and imaginary parts.
Instruction* ExpandComplex(Instruction* i) {
  Rewriter rewrite(*i);
  const Shape part = i->shape().WithElementType(PartType(i->shape().element_type()));
  Instruction *re[2], *im[2];
  for (std::size_t n = 0; n < 2; ++n) {
    re[n] = Part(rewrite, Opcode::kReal, i->operand(n));
    im[n] = Part(rewrite, Opcode::kImag, i->operand(n));
  }
  auto product = [&](Instruction* a, Instruction* b) {
    return rewrite.Add(i->opcode(), part, {a, b}, i->attributes());
  };
  Instruction* real = rewrite.Binary(Opcode::kSubtract, product(re[0], re[1]), product(im[0], im[1]));
  Instruction* imaginary = rewrite.Binary(Opcode::kAdd, product(re[0], im[1]), product(im[0], re[1]));
  return rewrite.Add(Opcode::kComplex, i->shape(), {real, imaginary});
}

Instruction* ExpandPred(Instruction* i) {
  Rewriter rewrite(*i);
  const ElementType result = i->shape().element_type();
  std::vector<Instruction*> sides;
  for (Instruction* x : i->operands()) {
    // A count that could pass 2^32 could be 0 where it is not.
    if (x->shape().element_count() > std::numeric_limits<int32_t>::max()) return nullptr;
    const bool pred = x->shape().element_type() == ElementType::kPred;
    sides.push_back(!pred ? x : rewrite.Convert(x, IsFloat(result) ? result : ElementType::kS8));
  }
  const ElementType count = result == ElementType::kPred ? ElementType::kS32 : result;
  Instruction* sum = rewrite.Add(i->opcode(), i->shape().WithElementType(count), std::move(sides), i->attributes());
  return rewrite.Convert(sum, result);
}

// The bytes that `x`, of 32-bit integers, widens, moved as x moves them; null: it is something else.
Instruction* Bytes(Rewriter& rewrite, Instruction* x, int depth = 0) {
  auto is_byte = [](ElementType t) { return t == ElementType::kS8 || t == ElementType::kU8; };
  if (is_byte(x->shape().element_type())) return x;
  if (x->opcode() == Opcode::kConvert) return is_byte(x->operand(0)->shape().element_type()) ? x->operand(0) : nullptr;
  const bool moves = x->opcode() == Opcode::kReshape || x->opcode() == Opcode::kTranspose || x->opcode() == Opcode::kBroadcast;
  if (!moves || depth > 4) return nullptr;
  Instruction* from = Bytes(rewrite, x->operand(0), depth + 1);
  if (from == nullptr) return nullptr;
  return rewrite.Add(x->opcode(), x->shape().WithElementType(from->shape().element_type()), {from}, x->attributes());
}

Instruction* NarrowBytes(Instruction* i) {
  auto wide = [](const Instruction* x) {
    return x->shape().element_type() == ElementType::kS32 || x->shape().element_type() == ElementType::kU32;
  };
  if (!wide(i) || !std::ranges::any_of(i->operands(), wide)) return nullptr;
  Rewriter rewrite(*i);
  Instruction* lhs = Bytes(rewrite, i->operand(0));
  Instruction* rhs = lhs != nullptr ? Bytes(rewrite, i->operand(1)) : nullptr;
  if (rhs == nullptr || lhs->shape().element_type() != rhs->shape().element_type()) return nullptr;
  return rewrite.Add(i->opcode(), i->shape(), {lhs, rhs}, i->attributes());
}

// Whether `contracting` lie side by side in this order, dimensions of one element aside.
bool SideBySide(const Shape& shape, const Dims& contracting) {
  int64_t last = -1;
  for (int64_t d : contracting) {
    if (shape.dim(d) == 1) continue;
    for (int64_t between = last + 1; last >= 0 && between < d; ++between)
      if (shape.dim(between) != 1) return false;
    if (d < last) return false;
    last = d;
  }
  return true;
}

// The operand as [batch, free, contracted]; `contracting` and `batch` follow.
Instruction* Arrange(Rewriter& rewrite, Instruction* x, Dims& contracting, Dims& batch) {
  if (SideBySide(x->shape(), contracting)) return x;
  auto among = [](const Dims& dims, int64_t d) { return std::ranges::find(dims, d) != dims.end(); };
  Dims permutation(batch.begin(), batch.end());
  for (int64_t d = 0; d < x->shape().rank(); ++d)
    if (!among(batch, d) && !among(contracting, d)) permutation.push_back(d);
  const int64_t first = permutation.ssize();
  for (int64_t d : contracting) permutation.push_back(d);
  for (std::size_t n = 0; n < contracting.size(); ++n) contracting[n] = first + static_cast<int64_t>(n);
  for (std::size_t n = 0; n < batch.size(); ++n) batch[n] = static_cast<int64_t>(n);
  return rewrite.Transpose(x, permutation);
}

Instruction* ArrangeContracted(Instruction* i) {
  DotAttributes a = i->attr<DotAttributes>();
  if (a.lhs_contracting.size() < 2) return nullptr;
  Rewriter rewrite(*i);
  Instruction* lhs = Arrange(rewrite, i->operand(0), a.lhs_contracting, a.lhs_batch);
  Instruction* rhs = Arrange(rewrite, i->operand(1), a.rhs_contracting, a.rhs_batch);
  if (lhs == i->operand(0) && rhs == i->operand(1)) return nullptr;
  return rewrite.Add(Opcode::kDot, i->shape(), {lhs, rhs}, a);
}

Instruction* Expand(Instruction* i) {
  if (i->opcode() != Opcode::kDot && i->opcode() != Opcode::kConvolution) return nullptr;
  const ElementType type = i->shape().element_type();
  auto complex = [](const Instruction* x) { return IsComplex(x->shape().element_type()); };
  if (IsComplex(type)) return std::ranges::all_of(i->operands(), complex) ? ExpandComplex(i) : nullptr;
  auto pred = [](const Instruction* x) { return x->shape().element_type() == ElementType::kPred; };
  if (std::ranges::any_of(i->operands(), pred)) return ExpandPred(i);
  if (Instruction* narrow = NarrowBytes(i)) return narrow;
  return i->opcode() == Opcode::kDot ? ArrangeContracted(i) : nullptr;
}

}  // namespace

Result<bool> ContractionExpander(Module& module, const PassOptions&) { return SweepModule(module, Expand); }

}  // namespace krafla
