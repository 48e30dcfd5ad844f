// SPDX-License-Identifier: Apache-2.0
// Dots that are no matrix products. Where nothing is contracted, of numbers for which back ends have no kernel of outer
// products, the two sides are multiplied element by element, and what follows reads them where they are. A matrix times
// a vector for each of many batches that lie side by side in memory is a sum of products of whole rows of batches:
// products of matrices would gather each row and column, element by element. Of complex numbers any product with
// vectors is a sum of products, which reads the matrix once and where it lies: products of real matrices need its
// parts.
#include <algorithm>

#include "ir/dims.h"
#include "passes/dot_sides.h"
#include "passes/passes.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

constexpr int64_t kManyBatches = 16;  // side by side
constexpr int64_t kFewProducts = 4;   // which contraction_expander adds up one by one
constexpr int64_t kFewVectors = 2;    // for each of which the matrix is read

// One side of a dot: its dimensions that are neither of the batch nor contracted, and how many elements these have.
struct DotSide {
  Instruction* x;
  const Dims &batch, &contracting;
  Dims free;
  int64_t free_elements = 1, contracted = 1;

  DotSide(Instruction* operand, const Dims& batch_dims, const Dims& contracting_dims)
      : x(operand), batch(batch_dims), contracting(contracting_dims) {
    for (int64_t d = 0; d < x->shape().rank(); ++d) {
      if (Contains(contracting, d)) contracted *= x->shape().dim(d);
      else if (!Contains(batch, d)) free.push_back(d), free_elements *= x->shape().dim(d);
    }
  }
  // The dimension whose elements lie side by side, -1: there is one element.
  int64_t Last() const {
    int64_t last = x->shape().rank() - 1;
    while (last >= 0 && x->shape().dim(last) == 1) --last;
    return last;
  }
  bool EndsInBatch() const { return Last() >= 0 && Contains(batch, Last()) && x->shape().dim(Last()) >= kManyBatches; }
  bool EndsInContracted() const { return Contains(contracting, Last()); }
  bool EndsInAnyBatch() const { return Contains(batch, Last()); }
};

// The dimensions of both sides: contracted ones, then as the result has them.
Dims DimsOfProducts(const DotSide& lhs, const DotSide& rhs) {
  Dims out;
  for (int64_t d : lhs.contracting) out.push_back(lhs.x->shape().dim(d));
  for (int64_t d : lhs.batch) out.push_back(lhs.x->shape().dim(d));
  for (int64_t d : lhs.free) out.push_back(lhs.x->shape().dim(d));
  for (int64_t d : rhs.free) out.push_back(rhs.x->shape().dim(d));
  return out;
}

Instruction* OverAll(Rewriter& rewrite, const DotSide& side, const Dims& all, int64_t free_at) {
  Dims shared = side.contracting;
  for (int64_t d : side.batch) shared.push_back(d);
  return OverProducts(rewrite, side.x, shared, all, free_at);
}

Result<Instruction*> MultiplyElements(Instruction* i) {
  if (!IsStatic(*i) || i->shape().element_count() == 0) return nullptr;
  const DotAttributes& a = i->attr<DotAttributes>();
  const ElementType type = i->shape().element_type();
  if (!a.algorithm.empty() || i->operand(0)->shape().element_type() != type ||
      i->operand(1)->shape().element_type() != type)
    return nullptr;
  const DotSide lhs(i->operand(0), a.lhs_batch, a.lhs_contracting), rhs(i->operand(1), a.rhs_batch, a.rhs_contracting);
  const bool is_plain = type == ElementType::kF32 || type == ElementType::kF64 || IsIntegral(type);
  const bool is_outer =
      lhs.contracting.empty() && (IsComplex(type) || type == ElementType::kBF16 || type == ElementType::kF16);
  const int64_t vectors = std::min(lhs.free_elements, rhs.free_elements);
  // Sums that run along what one side has side by side and the other one far apart.
  const bool is_crossed =
      (lhs.EndsInContracted() && rhs.EndsInAnyBatch()) || (rhs.EndsInContracted() && lhs.EndsInAnyBatch());
  const bool is_of_vectors =
      (is_plain && vectors == 1 && lhs.EndsInBatch() && rhs.EndsInBatch()) ||
      (IsComplex(type) && vectors <= kFewVectors && !is_crossed && lhs.contracted > kFewProducts);
  if (!is_outer && (!is_of_vectors || lhs.contracted == 0)) return nullptr;

  Rewriter rewrite(*i);
  const Dims all = DimsOfProducts(lhs, rhs);
  const int64_t batches = lhs.contracting.ssize() + lhs.batch.ssize();
  Instruction* product = rewrite.Binary(Opcode::kMultiply, OverAll(rewrite, lhs, all, batches),
                                        OverAll(rewrite, rhs, all, batches + lhs.free.ssize()));
  if (lhs.contracting.empty()) return product;
  Dims reduced;
  for (int64_t d = 0; d < lhs.contracting.ssize(); ++d) reduced.push_back(d);
  return rewrite.Reduce(Opcode::kAdd, product, ScalarZero(type), reduced);
}

}  // namespace

Result<bool> SmallDotExpander(Module& module, const PassOptions&) {
  return RewriteAll(module, Opcode::kDot, MultiplyElements);
}

}  // namespace krafla
