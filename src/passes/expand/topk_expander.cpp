// SPDX-License-Identifier: Apache-2.0
// topk as a stable sort of the values with their positions, of which the first k are taken (XLA: topk_rewriter.cc,
// TopkDecomposer). Stability puts the lower position first among equal values. Floats are compared in total order, in
// which -0 is below +0 and every NaN has its place.
#include <utility>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {

namespace {

// Whether the first value comes before the second; the positions take no part.
Computation* AddComparator(Module& module, ElementType type, bool largest) {
  Computation* c = module.AddComputation("topk_order");
  const Shape value = Shape::MakeScalar(type), position = Shape::MakeScalar(ElementType::kS32);
  Instruction* a = c->Add(Opcode::kParameter, value, {}, ParameterAttributes{0, {}}, {}, "a");
  Instruction* b = c->Add(Opcode::kParameter, value, {}, ParameterAttributes{1, {}}, {}, "b");
  c->Add(Opcode::kParameter, position, {}, ParameterAttributes{2, {}}, {}, "a_at");
  c->Add(Opcode::kParameter, position, {}, ParameterAttributes{3, {}}, {}, "b_at");
  CompareAttributes attributes;
  attributes.direction = largest ? ComparisonDirection::kGt : ComparisonDirection::kLt;
  if (IsFloat(type)) attributes.type = ComparisonType::kTotalOrder;
  c->set_root(c->Add(Opcode::kCompare, Shape::MakeScalar(ElementType::kPred), {a, b}, attributes));
  return c;
}

Result<Instruction*> ExpandTopK(Instruction* i) {
  Instruction* x = i->operand(0);
  const Shape& shape = x->shape();
  // Complex numbers have no order.
  if (!IsStatic(*i) || !shape.IsArray() || shape.rank() == 0 || IsComplex(shape.element_type())) return nullptr;
  const auto& a = i->attr<TopKAttributes>();
  const int64_t last = shape.rank() - 1;
  Rewriter rewrite(*i);
  Instruction* positions =
      rewrite.Add(Opcode::kIota, ArrayShape(ElementType::kS32, shape.dims()), {}, IotaAttributes{last});
  SortAttributes sort;
  sort.dimension = last;
  sort.is_stable = true;
  Computation* order = AddComparator(*i->parent()->parent(), shape.element_type(), a.largest);
  KRAFLA_ASSIGN(Instruction * sorted, rewrite.Infer(Opcode::kSort, {x, positions}, sort, {order}));
  SliceAttributes first;
  first.starts = Dims(shape.dims().size(), 0);
  first.strides = Dims(shape.dims().size(), 1);
  first.limits = shape.dims();
  first.limits.back() = a.k;
  Instruction* values = rewrite.Slice(rewrite.Element(sorted, 0), first);
  return rewrite.Tuple({values, rewrite.Slice(rewrite.Element(sorted, 1), first)});
}

}  // namespace

Result<bool> TopKExpander(Module& module, const PassOptions&) { return RewriteAll(module, Opcode::kTopK, ExpandTopK); }

}  // namespace krafla
