// SPDX-License-Identifier: Apache-2.0
// Dots and convolutions in terms of those that back ends have kernels for:
//   complex           four real ones: (a + bi)(c + di) = (ac - bd) + (ad + bc)i, summed part by part; small dots of few
//                     products as those products, added up in their order
//   pred              of 0 and 1, counted in 32 bits: any product is true where the count is not 0
//   bytes             widened to 32 bits before a sum of 32 bits: the bytes themselves, which fast kernels exist for
//   many contracted dimensions that the operands do not hold side by side and in the same order: transposed before
// Runs after everything that moves transposes into dots.
#include <algorithm>
#include <limits>
#include <numeric>

#include "ir/builder.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {

namespace {

// `i`, both of whose operands are complex, as contractions of real and imaginary parts.
Instruction* ExpandComplex(Instruction* i) {
  Rewriter rewrite(*i);
  const Shape part = i->shape().WithElementType(RealPart(i->shape().element_type()));
  Instruction *re[2], *im[2];
  for (std::size_t n = 0; n < 2; ++n) {
    re[n] = rewrite.Part(Opcode::kReal, i->operand(n));
    im[n] = rewrite.Part(Opcode::kImag, i->operand(n));
  }
  auto product = [&](Instruction* a, Instruction* b) {
    return rewrite.Add(i->opcode(), part, {a, b}, i->attributes());
  };
  Instruction* real = rewrite.Binary(Opcode::kSubtract, product(re[0], re[1]), product(im[0], im[1]));
  Instruction* imaginary = rewrite.Binary(Opcode::kAdd, product(re[0], im[1]), product(im[0], re[1]));
  return rewrite.Add(Opcode::kComplex, i->shape(), {real, imaginary});
}

// One side of product number `index` of a dot's sums, over the result's dimensions.
Instruction* Factor(Rewriter& rewrite, const Instruction* dot, std::size_t side, const Dims& index) {
  const DotAttributes& a = dot->attr<DotAttributes>();
  const Dims& contracting = side == 0 ? a.lhs_contracting : a.rhs_contracting;
  const Dims& batch = side == 0 ? a.lhs_batch : a.rhs_batch;
  Instruction* x = dot->operand(side);
  const int64_t rank = x->shape().rank();
  SliceAttributes slice{Dims(static_cast<std::size_t>(rank), 0), x->shape().dims(),
                        Dims(static_cast<std::size_t>(rank), 1)};
  std::vector<bool> dropped(static_cast<std::size_t>(rank), false);
  for (std::size_t c = 0; c < contracting.size(); ++c) {
    const auto d = static_cast<std::size_t>(contracting[c]);
    slice.starts[d] = index[c];
    slice.limits[d] = index[c] + 1;
    dropped[d] = true;
  }
  // Result dimensions: batch, those of the left side, those of the right.
  int64_t next = side == 0 ? batch.ssize() : dot->shape().rank() - (rank - contracting.ssize() - batch.ssize());
  Dims kept, mapping;
  for (int64_t d = 0; d < rank; ++d) {
    if (dropped[static_cast<std::size_t>(d)]) continue;
    const auto at = std::ranges::find(batch, d);
    kept.push_back(x->shape().dim(d));
    mapping.push_back(at != batch.end() ? at - batch.begin() : next++);
  }
  Instruction* one = rewrite.Reshape(rewrite.Slice(x, std::move(slice)), kept);
  return rewrite.Broadcast(one, dot->shape().dims(), mapping);
}

// A small dot of few complex products, added up in XLA's order: where few cancel, the order counts.
Instruction* UnrollComplexDot(Instruction* i) {
  constexpr int64_t kMostProducts = 4, kMostWork = 4096;
  if (i->opcode() != Opcode::kDot) return nullptr;
  for (const Instruction* x : i->operands())
    if (x->shape().element_type() != i->shape().element_type()) return nullptr;
  Dims dims;
  int64_t depth = 1;
  for (int64_t d : i->attr<DotAttributes>().lhs_contracting) {
    dims.push_back(i->operand(0)->shape().dim(d));
    if (dims.back() < 1 || dims.back() > kMostProducts) return nullptr;
    depth *= dims.back();
    if (depth > kMostProducts) return nullptr;
  }
  if (i->shape().element_count() > kMostWork / depth) return nullptr;
  Rewriter rewrite(*i);
  Instruction* sum = rewrite.Splat(ScalarLiteral(i->shape().element_type(), 0), i->shape().dims());
  Dims index(dims.size(), 0);
  for (int64_t n = 0; n < depth; ++n) {
    Instruction* product =
        rewrite.Binary(Opcode::kMultiply, Factor(rewrite, i, 0, index), Factor(rewrite, i, 1, index));
    sum = rewrite.Binary(Opcode::kAdd, sum, product);
    NextIndex(std::span<int64_t>(index.data(), index.size()), dims);
  }
  return sum;
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
  const bool moves =
      x->opcode() == Opcode::kReshape || x->opcode() == Opcode::kTranspose || x->opcode() == Opcode::kBroadcast;
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

// Contracted dimensions in the order of the larger operand, so that the smaller one is moved, if any.
void OrderContracted(const Instruction* i, DotAttributes& a) {
  const bool by_lhs = i->operand(0)->shape().element_count() >= i->operand(1)->shape().element_count();
  const Dims& by = by_lhs ? a.lhs_contracting : a.rhs_contracting;
  Dims order(by.size(), 0), lhs, rhs;
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](int64_t n) { return by[static_cast<std::size_t>(n)]; });
  for (int64_t n : order) {
    lhs.push_back(a.lhs_contracting[static_cast<std::size_t>(n)]);
    rhs.push_back(a.rhs_contracting[static_cast<std::size_t>(n)]);
  }
  a.lhs_contracting = std::move(lhs);
  a.rhs_contracting = std::move(rhs);
}

Instruction* ArrangeContracted(Instruction* i) {
  DotAttributes a = i->attr<DotAttributes>();
  if (a.lhs_contracting.size() < 2) return nullptr;
  if (SideBySide(i->operand(0)->shape(), a.lhs_contracting) && SideBySide(i->operand(1)->shape(), a.rhs_contracting))
    return nullptr;
  OrderContracted(i, a);
  Rewriter rewrite(*i);
  Instruction* lhs = Arrange(rewrite, i->operand(0), a.lhs_contracting, a.lhs_batch);
  Instruction* rhs = Arrange(rewrite, i->operand(1), a.rhs_contracting, a.rhs_batch);
  return rewrite.Add(Opcode::kDot, i->shape(), {lhs, rhs}, a);
}

Instruction* ExpandContraction(Instruction* i) {
  if (i->opcode() != Opcode::kDot && i->opcode() != Opcode::kConvolution) return nullptr;
  const ElementType type = i->shape().element_type();
  auto complex = [](const Instruction* x) { return IsComplex(x->shape().element_type()); };
  if (IsComplex(type)) {
    if (!std::ranges::all_of(i->operands(), complex)) return nullptr;
    Instruction* unrolled = UnrollComplexDot(i);
    return unrolled != nullptr ? unrolled : ExpandComplex(i);
  }
  auto pred = [](const Instruction* x) { return x->shape().element_type() == ElementType::kPred; };
  if (std::ranges::any_of(i->operands(), pred)) return ExpandPred(i);
  if (Instruction* narrow = NarrowBytes(i)) return narrow;
  return i->opcode() == Opcode::kDot ? ArrangeContracted(i) : nullptr;
}

}  // namespace

Result<bool> ContractionExpander(Module& module, const PassOptions&) { return SweepModule(module, ExpandContraction); }

}  // namespace krafla
