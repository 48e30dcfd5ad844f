// SPDX-License-Identifier: Apache-2.0
#include "passes/entry_layouts.h"

#include <algorithm>

#include "base/index.h"
#include "ir/attributes.h"

namespace krafla {
namespace {

bool IsFixedArray(const Shape& shape) { return !shape.IsTuple() && !shape.IsDynamic(); }

Dims MajorToMinor(const Layout& layout) {
  const Dims& order = layout.minor_to_major;
  return Dims(order.rbegin(), order.rend());
}

Result<Shape> InMemory(const Shape& shape, const Dims& major_to_minor) {
  Dims dims;
  for (int64_t d : major_to_minor) dims.push_back(shape.dim(d));
  return Shape::MakeArray(shape.element_type(), dims);
}

Result<> LayOutParameter(Computation& entry, Instruction& p, const Layout& layout) {
  const Dims order = MajorToMinor(layout);
  const Shape logical = p.shape();
  KRAFLA_ASSIGN(Shape memory, InMemory(logical, order));
  Dims back(order.size(), 0);
  for (std::size_t n = 0; n < order.size(); ++n) back[At(order[n])] = static_cast<int64_t>(n);
  p.set_shape(std::move(memory));
  // It was about other dimensions.
  InstructionMetadata metadata = p.metadata();
  metadata.sharding.clear();
  p.set_metadata(std::move(metadata));
  const std::vector<Instruction*> users(p.users().begin(), p.users().end());
  const bool is_root = entry.root() == &p;
  Instruction* const out = entry.Add(Opcode::kTranspose, logical, {&p}, DimensionsAttributes{std::move(back)});
  for (Instruction* user : users)
    for (std::size_t o = 0; o < user->operand_count(); ++o)
      if (user->operand(o) == &p) user->ReplaceOperand(o, out);
  if (is_root) entry.set_root(out);
  return {};
}

Result<Instruction*> LayOutResult(Computation& entry, Instruction* value, const Layout& layout) {
  Dims order = MajorToMinor(layout);
  KRAFLA_ASSIGN(Shape memory, InMemory(value->shape(), order));
  return entry.Add(Opcode::kTranspose, std::move(memory), {value}, DimensionsAttributes{std::move(order)});
}

bool IsOrdered(const Shape& shape) { return shape.IsArray() && !shape.layout().IsRowMajor(); }

// Orders of dimensions, nothing of memories or tiles.
void KeepOrdersAlone(std::vector<Shape>& leaves) {
  for (Shape& shape : leaves) {
    if (!shape.IsArray()) continue;
    Layout layout = shape.layout();
    layout.tail.clear();
    KRAFLA_CHECK(shape.SetLayout(std::move(layout)).has_value());
  }
}

// Leaves are the parameters, and the result or its elements.
bool IsFlat(const Computation& entry) {
  const Shape& result = entry.root()->shape();
  return std::ranges::all_of(entry.parameters(), [](const Instruction* p) { return IsFixedArray(p->shape()); }) &&
         (result.IsTuple() ? std::ranges::all_of(result.tuple_elements(), IsFixedArray) : IsFixedArray(result));
}

// Of a root that is a tuple.
Result<Instruction*> LayOutElements(Computation& entry, Instruction* tuple, const std::vector<Shape>& results) {
  std::vector<Instruction*> values;
  std::vector<Shape> shapes;
  for (std::size_t n = 0; n < results.size(); ++n) {
    Instruction* value = tuple->opcode() == Opcode::kTuple
                             ? tuple->operand(n)
                             : entry.Add(Opcode::kGetTupleElement, tuple->shape().tuple_elements()[n], {tuple},
                                         TupleIndexAttributes{static_cast<int64_t>(n)});
    if (IsOrdered(results[n])) { KRAFLA_ASSIGN(value, LayOutResult(entry, value, results[n].layout())); }
    shapes.push_back(value->shape());
    values.push_back(value);
  }
  KRAFLA_ASSIGN(Shape shape, Shape::MakeTuple(std::move(shapes)));
  return entry.Add(Opcode::kTuple, std::move(shape), std::move(values));
}

}  // namespace

Result<EntryInterface> LayOutEntry(Module& module) {
  EntryInterface out = EntryInterface::Of(module);
  module.entry_layout_result.reset();
  module.entry_layout_parameters.clear();
  Computation& entry = *module.entry();
  KeepOrdersAlone(out.arguments);
  KeepOrdersAlone(out.results);
  const bool orders_results = std::ranges::any_of(out.results, IsOrdered);
  if (!IsFlat(entry) || (!orders_results && !std::ranges::any_of(out.arguments, IsOrdered))) {
    for (std::vector<Shape>* leaves : {&out.arguments, &out.results})
      for (Shape& shape : *leaves) shape.ClearLayout();
    return out;
  }

  out.has_own_transposes = true;
  for (std::size_t n = 0; n < out.arguments.size(); ++n)
    if (IsOrdered(out.arguments[n]))
      KRAFLA_TRY(LayOutParameter(entry, *entry.parameters()[n], out.arguments[n].layout()));
  if (orders_results) {
    KRAFLA_ASSIGN(Instruction* const root, entry.root()->shape().IsTuple()
                                               ? LayOutElements(entry, entry.root(), out.results)
                                               : LayOutResult(entry, entry.root(), out.results[0].layout()));
    entry.set_root(root);
  }
  KRAFLA_TRY(entry.SortTopologically());

  // A result takes a parameter's place only where both are one array in memory.
  std::erase_if(module.input_output_aliases, [&](const InputOutputAlias& a) {
    const Shape& root = entry.root()->shape();
    const Shape& to = root.IsTuple() ? root.tuple_elements()[At(a.output_index[0])] : root;
    return !Shape::Compatible(entry.parameters()[At(a.parameter)]->shape(), to);
  });
  return out;
}

}  // namespace krafla
