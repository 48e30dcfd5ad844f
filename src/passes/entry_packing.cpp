// SPDX-License-Identifier: Apache-2.0
#include "passes/entry_packing.h"

#include <algorithm>

#include "ir/packed_elements.h"
#include "passes/entry_interface.h"
#include "passes/rewrite.h"

namespace krafla {
namespace {

bool HoldsPackable(const Shape& shape) {
  return std::ranges::any_of(TupleLeaves(shape), [](const Shape* leaf) { return IsPackable(*leaf); });
}

Result<Shape> PackedForm(const Shape& shape) {
  if (IsPackable(shape)) return PackedShape(shape);
  if (!shape.IsTuple()) return shape;
  std::vector<Shape> elements;
  for (const Shape& s : shape.tuple_elements()) {
    KRAFLA_ASSIGN(Shape element, PackedForm(s));
    elements.push_back(std::move(element));
  }
  return Shape::MakeTuple(std::move(elements));
}

// `x` in the other form: of the elements of `shape`, or packed. Tuples are taken apart and put together again.
Result<Instruction*> Converted(Instruction* x, const Shape& shape, bool to_packed) {
  if (IsPackable(shape)) {
    if (to_packed) return AddPacked(x);
    Instruction* const out = AddUnpacked(x, shape);
    out->set_shape(shape);  // with its layout, which bitcasts see
    return out;
  }
  if (!HoldsPackable(shape)) return x;
  Rewriter rewrite(*x);
  std::vector<Instruction*> elements;
  for (std::size_t n = 0; n < shape.tuple_elements().size(); ++n) {
    Instruction* element = x->opcode() == Opcode::kTuple ? x->operand(n) : rewrite.Element(x, static_cast<int64_t>(n));
    KRAFLA_ASSIGN(element, Converted(element, shape.tuple_elements()[n], to_packed));
    elements.push_back(element);
  }
  return rewrite.Tuple(std::move(elements));
}

Result<> PackParameter(Instruction& p) {
  const Shape declared = p.shape();
  KRAFLA_ASSIGN(Shape packed, PackedForm(declared));
  const std::vector<Instruction*> users(p.users().begin(), p.users().end());
  const bool is_root = p.IsRoot();
  p.set_shape(std::move(packed));
  // It was about other dimensions.
  InstructionMetadata metadata = p.metadata();
  metadata.sharding.clear();
  p.set_metadata(std::move(metadata));
  KRAFLA_ASSIGN(Instruction* const out, Converted(&p, declared, false));
  for (Instruction* user : users)
    for (std::size_t o = 0; o < user->operand_count(); ++o)
      if (user->operand(o) == &p) user->ReplaceOperand(o, out);
  if (is_root) p.parent()->set_root(out);
  return {};
}

}  // namespace

Instruction* AddUnpacked(Instruction* packed, const Shape& shape) {
  Rewriter rewrite(*packed);
  Dims dims = packed->shape().dims();
  const int64_t per = ElementsPerByte(shape.element_type());
  dims.push_back(per);
  Instruction* out = rewrite.Add(Opcode::kBitcastConvert, ArrayShape(shape.element_type(), dims), {packed});
  const int64_t count = packed->shape().element_count() * per;
  if (count == shape.element_count()) return rewrite.Reshape(out, shape.dims());
  // The last byte is not full.
  out = rewrite.Reshape(out, {count});
  out = rewrite.Slice(out, {.starts = {0}, .limits = {shape.element_count()}, .strides = {1}});
  return rewrite.Reshape(out, shape.dims());
}

Instruction* AddPacked(Instruction* value) {
  Rewriter rewrite(*value);
  const Shape packed = PackedShape(value->shape());
  const ElementType type = value->shape().element_type();
  const int64_t per = ElementsPerByte(type);
  const int64_t missing = packed.element_count() * per - value->shape().element_count();
  Dims dims = packed.dims();
  dims.push_back(per);
  if (missing > 0) {
    value = rewrite.Reshape(value, {value->shape().element_count()});
    Result<Literal> zero_literal = Literal::Create(Shape::MakeScalar(type));
    KRAFLA_CHECK(zero_literal.has_value());
    Instruction* zero = rewrite.Constant(*std::move(zero_literal));
    value = rewrite.Add(Opcode::kPad, ArrayShape(type, Dims{packed.element_count() * per}), {value, zero},
                        PadAttributes{.low = {0}, .high = {missing}, .interior = {0}});
  }
  return rewrite.Add(Opcode::kBitcastConvert, packed, {rewrite.Reshape(value, dims)});
}

Instruction* PackedSourceOf(const Instruction& i) {
  const Instruction* x = &i;
  if (!IsPackable(x->shape())) return nullptr;
  if (x->opcode() == Opcode::kReshape) x = x->operand(0);
  if (x->opcode() != Opcode::kBitcastConvert || x->operand(0)->shape().element_type() != ElementType::kU8)
    return nullptr;
  return x->operand(0);
}

Result<> PackEntry(Module& module) {
  Computation& entry = *module.entry();
  const Shape result = entry.root()->shape();
  const bool packs_parameters =
      std::ranges::any_of(entry.parameters(), [](const Instruction* p) { return HoldsPackable(p->shape()); });
  if (!packs_parameters && !HoldsPackable(result)) return {};
  if (EntryInterface::Of(module).IsDynamic()) return {};
  module.entry_layout_result.reset();
  module.entry_layout_parameters.clear();
  const std::vector<Instruction*> parameters(entry.parameters().begin(), entry.parameters().end());
  for (Instruction* p : parameters)
    if (HoldsPackable(p->shape())) KRAFLA_TRY(PackParameter(*p));
  KRAFLA_ASSIGN(Instruction* const root, Converted(entry.root(), result, true));
  entry.set_root(root);
  return entry.SortTopologically();
}

}  // namespace krafla
