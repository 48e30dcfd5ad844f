// SPDX-License-Identifier: Apache-2.0
// bitcast is about bytes in memory, so it is the one instruction that layouts mean something to. It becomes transpose
// (to the order in memory), reshape or bitcast-convert, and transpose (back from the order in memory); then the
// layouts have nothing more to say and are dropped from all instructions. What the entry computation's caller was
// promised stays in the module's entry layout.
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {

namespace {

bool PlainBytes(const Shape& shape) {
  return shape.IsArray() && shape.layout().tail.empty() && shape.element_type() != ElementType::kPred &&
         BitWidth(shape.element_type()) == 8 * StorageBytes(shape.element_type());
}

// The bytes of `x`, dense in the order of memory, as a one-dimensional array of `type`.
Result<Instruction*> Reinterpret(Rewriter& rewrite, Instruction* flat, ElementType type) {
  int64_t from = StorageBytes(flat->shape().element_type()), to = StorageBytes(type);
  int64_t bytes = flat->shape().byte_size();
  Dims result;
  if (from > to) {
    result = {flat->shape().dim(0), from / to};
  } else {
    if (to > from) flat = rewrite.Reshape(flat, {bytes / to, to / from});
    result = {bytes / to};
  }
  KRAFLA_ASSIGN(Shape declared, Shape::MakeArray(type, result));
  KRAFLA_ASSIGN(Instruction * out, rewrite.Infer(Opcode::kBitcastConvert, {flat}, NoAttributes(), {}, &declared));
  return rewrite.Reshape(out, {bytes / to});
}

// `source`: the shape of the operand as it was written. By now another instruction may stand in for it, with the same
// elements but in a layout that nobody chose.
Result<Instruction*> ExpandBitcast(Instruction* i, const Shape& source) {
  Instruction* x = i->operand(0);
  if (!IsStatic(*i) || !source.IsArray() || !i->shape().IsArray()) return nullptr;
  ElementType from = source.element_type(), to = i->shape().element_type();
  if (!source.layout().tail.empty() || !i->shape().layout().tail.empty()) return nullptr;
  if (from != to && (!PlainBytes(source) || !PlainBytes(i->shape()) || IsComplex(from) || IsComplex(to)))
    return nullptr;
  if (source.byte_size() != i->shape().byte_size()) return nullptr;

  Rewriter rewrite(*i);
  const Dims& order = source.layout().minor_to_major;
  Dims to_memory(order.rbegin(), order.rend());
  Instruction* memory = rewrite.Transpose(x, to_memory);
  if (from != to) {
    KRAFLA_ASSIGN(memory, Reinterpret(rewrite, rewrite.Reshape(memory, {source.element_count()}), to));
  }
  const Dims& result_order = i->shape().layout().minor_to_major;
  Dims memory_dims, from_memory(result_order.size(), 0);
  for (std::size_t n = 0; n < result_order.size(); ++n) {
    int64_t d = result_order[result_order.size() - 1 - n];
    memory_dims.push_back(i->shape().dim(d));
    from_memory[static_cast<std::size_t>(d)] = static_cast<int64_t>(n);
  }
  return rewrite.Transpose(rewrite.Reshape(memory, memory_dims), from_memory);
}

Shape WithoutLayout(Shape shape) {
  shape.ClearLayout();
  return shape;
}

bool DropLayouts(Module& module) {
  bool changed = false;
  for (const auto& c : module.computations())
    for (const auto& i : c->instructions())
      if (i->opcode() == Opcode::kBitcast && IsStatic(*i)) return false;
  if (!module.entry_layout_result) {
    const Computation& entry = *module.entry();
    bool promised = entry.root()->shape() != WithoutLayout(entry.root()->shape());
    for (const Instruction* p : entry.parameters()) promised |= p->shape() != WithoutLayout(p->shape());
    if (promised) {
      module.entry_layout_result = entry.root()->shape();
      module.entry_layout_parameters.clear();
      for (const Instruction* p : entry.parameters()) module.entry_layout_parameters.push_back(p->shape());
      changed = true;
    }
  }
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      Shape plain = WithoutLayout(i->shape());
      if (plain == i->shape()) continue;
      i->set_shape(std::move(plain));
      changed = true;
    }
  }
  return changed;
}

}  // namespace

Result<bool> BitcastExpander(Module& module, const PassOptions&) {
  std::unordered_map<const Instruction*, Shape> sources;
  for (const auto& c : module.computations())
    for (const auto& i : c->instructions())
      if (i->opcode() == Opcode::kBitcast) sources.emplace(i.get(), i->operand(0)->shape());
  KRAFLA_ASSIGN(bool expanded,
                RewriteAll(module, Opcode::kBitcast, [&](Instruction* i) { return ExpandBitcast(i, sources.at(i)); }));
  bool dropped = DropLayouts(module);
  return expanded || dropped;
}

}  // namespace krafla
