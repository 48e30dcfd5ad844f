// SPDX-License-Identifier: Apache-2.0
// What StableHLO itself has no operation for and CHLO has. Where CHLO may not stand, in bytecode, it is a composite
// with CHLO's name, as StableHLO's chlo-legalize passes leave those that a compiler may know
// (stablehlo/transforms/ChloDecompositionUtils): who knows the name takes it, others what it is made of.
#include "hlo_io/stablehlo/tree_builder.h"
#include "ir/builder.h"
#include "ir/chlo/functions.h"

namespace krafla::stablehlo {
namespace {

// Of two elements and of their places, which a sort takes along, the element that goes first.
Result<Computation*> AddOrder(Module& module, ElementType type, bool descending) {
  Computation* order = module.AddComputation("order");
  Instruction* a = AddParameter(*order, 0, Shape::MakeScalar(type));
  Instruction* b = AddParameter(*order, 1, Shape::MakeScalar(type));
  for (int64_t place = 2; place < 4; ++place) AddParameter(*order, place, Shape::MakeScalar(ElementType::kS32));
  CompareAttributes compare;
  compare.direction = descending ? ComparisonDirection::kGt : ComparisonDirection::kLt;
  if (IsFloat(type)) compare.type = ComparisonType::kTotalOrder;
  KRAFLA_ASSIGN(Instruction * first, AddInferred(*order, Opcode::kCompare, {a, b}, compare));
  order->set_root(first);
  return order;
}

Result<Computation*> SortedTopK(Module& module, const Instruction& i) {
  const Shape& shape = i.operand(0)->shape();
  const auto& a = i.attr<TopKAttributes>();
  KRAFLA_ASSIGN(Computation * order, AddOrder(module, shape.element_type(), a.largest));
  Computation* out = module.AddComputation("top_k");
  Instruction* x = AddParameter(*out, 0, shape);
  const Shape places = shape.WithElementType(ElementType::kS32);
  KRAFLA_ASSIGN(Instruction * place,
                AddInferred(*out, Opcode::kIota, {}, IotaAttributes{shape.rank() - 1}, {}, &places));
  KRAFLA_ASSIGN(Instruction * sorted,
                AddInferred(*out, Opcode::kSort, {x, place}, SortAttributes{shape.rank() - 1, true}, {order}));
  std::vector<Instruction*> results;
  for (int64_t n = 0; n < 2; ++n) {
    KRAFLA_ASSIGN(Instruction * all, AddGetTupleElement(*out, sorted, n));
    SliceAttributes kept{Dims(shape.dims().size(), 0), shape.dims(), Dims(shape.dims().size(), 1)};
    kept.limits.back() = i.shape().tuple_elements()[0].dims().back();
    KRAFLA_ASSIGN(Instruction * first, AddInferred(*out, Opcode::kSlice, {all}, std::move(kept)));
    results.push_back(first);
  }
  KRAFLA_ASSIGN(Instruction * both, AddTuple(*out, std::move(results)));
  out->set_root(both);
  return out;
}

Result<Computation*> DecompositionOf(Module& module, const Instruction& i) {
  if (i.opcode() == Opcode::kTopK) return SortedTopK(module, i);
  Computation* out = module.AddComputation("formula");
  chlo::Formula formula(*out);
  const auto no_form = [&] {
    return Unimplemented("Only StableHLO's text has a form for '{}' of {}; its bytecode has none.",
                         OpcodeName(i.opcode()), i.shape().ToString(false));
  };
  if (i.operand_count() != 1) return no_form();
  const auto made = chlo::Decomposed(i.opcode(), formula.Of(AddParameter(*out, 0, i.operand(0)->shape())));
  if (!made) return no_form();
  KRAFLA_ASSIGN(Instruction * root, formula.Take(*made));
  out->set_root(root);
  return out;
}

}  // namespace

Result<> WriteTopKAsSort(TreeBuilder& b, const Instruction& i, Scope& scope) {
  Module scratch("top_k");
  KRAFLA_ASSIGN(const Computation* sorted, SortedTopK(scratch, i));
  const Leaves argument = b.LeavesOf(scope, i.operand(0));
  KRAFLA_ASSIGN(Leaves leaves, b.WriteOut(*sorted, std::span(&argument, 1), *scope.region));
  b.Bind(i, scope, std::move(leaves));
  return {};
}

Result<> WriteChlo(TreeBuilder& b, const Instruction& i, Scope& scope, std::string_view name,
                   AttributeList attributes) {
  if (b.dialects() == Dialects::kStablehloAndChlo)
    return b.Emit(i, scope, name, b.OperandLeaves(i, scope), std::move(attributes));
  Module scratch("composite");
  KRAFLA_ASSIGN(const Computation* decomposition, DecompositionOf(scratch, i));
  KRAFLA_ASSIGN(const std::string symbol, b.AddFunction(*decomposition, Format("{}.impl", name)));
  return b.Emit(i, scope, "composite", b.OperandLeaves(i, scope),
                {{"composite_attributes", b.Dictionary(std::move(attributes))},
                 {"decomposition", b.Text(symbol)},
                 {"name", b.Text(name)},
                 {"version", b.Integer(1, ElementType::kS32)}});
}

}  // namespace krafla::stablehlo
