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

}  // namespace

Result<> LayOutEntry(Module& module) {
  if (!module.entry_layout_result) return {};
  Computation& entry = *module.entry();
  const Shape result = *module.entry_layout_result;
  const std::vector<Shape> parameters = std::move(module.entry_layout_parameters);
  module.entry_layout_result.reset();
  module.entry_layout_parameters.clear();

  const auto& results = result.tuple_elements();
  const bool plain = std::ranges::all_of(parameters, IsFixedArray) &&
                     (result.IsTuple() ? std::ranges::all_of(results, IsFixedArray) : IsFixedArray(result));
  if (!plain) return Unimplemented("Tuples and dynamic dimensions of an entry computation are kept row-major only.");

  for (std::size_t n = 0; n < parameters.size(); ++n)
    if (parameters[n].IsArray() && !parameters[n].layout().IsRowMajor())
      KRAFLA_TRY(LayOutParameter(entry, *entry.parameters()[n], parameters[n].layout()));
  if (!result.IsTuple()) {
    if (result.IsArray() && !result.layout().IsRowMajor()) {
      KRAFLA_ASSIGN(Instruction* const root, LayOutResult(entry, entry.root(), result.layout()));
      entry.set_root(root);
    }
  } else if (std::ranges::any_of(results, [](const Shape& s) { return s.IsArray() && !s.layout().IsRowMajor(); })) {
    Instruction* const tuple = entry.root();
    std::vector<Instruction*> values;
    std::vector<Shape> shapes;
    for (std::size_t n = 0; n < results.size(); ++n) {
      Instruction* value = tuple->opcode() == Opcode::kTuple
                               ? tuple->operand(n)
                               : entry.Add(Opcode::kGetTupleElement, tuple->shape().tuple_elements()[n], {tuple},
                                           TupleIndexAttributes{static_cast<int64_t>(n)});
      if (results[n].IsArray() && !results[n].layout().IsRowMajor()) {
        KRAFLA_ASSIGN(value, LayOutResult(entry, value, results[n].layout()));
      }
      shapes.push_back(value->shape());
      values.push_back(value);
    }
    KRAFLA_ASSIGN(Shape shape, Shape::MakeTuple(std::move(shapes)));
    entry.set_root(entry.Add(Opcode::kTuple, std::move(shape), std::move(values)));
  }
  KRAFLA_TRY(entry.SortTopologically());

  // A result takes a parameter's place only where both are one array in memory.
  std::erase_if(module.input_output_aliases, [&](const InputOutputAlias& a) {
    const Shape& root = entry.root()->shape();
    const Shape& to = root.IsTuple() ? root.tuple_elements()[At(a.output_index[0])] : root;
    return !Shape::Compatible(entry.parameters()[At(a.parameter)]->shape(), to);
  });
  return {};
}

}  // namespace krafla
