// SPDX-License-Identifier: Apache-2.0
// Sorts of complex numbers in terms of their parts, which back ends have kernels for: two operands for one, and a
// comparator that puts together what it looks at. The bits stay.
#include <algorithm>
#include <unordered_set>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {

namespace {

bool IsComplexArray(const Instruction* x) { return x->shape().IsArray() && IsComplex(x->shape().element_type()); }

// The comparator of parts. Complex numbers that the old one does not look at are not put together.
Computation* ComparatorOfParts(const Instruction& sort) {
  Computation& old = *sort.called(0);
  Computation* c = sort.parent()->parent()->AddComputation(Format("{}_of_parts", old.name()));
  std::unordered_set<const Instruction*> used = {old.root()};
  for (const auto& i : old.instructions()) used.insert(i->operands().begin(), i->operands().end());
  int64_t number = 0;
  auto parameter = [&](ElementType type) {
    return c->Add(Opcode::kParameter, Shape::MakeScalar(type), {}, ParameterAttributes{number++, {}});
  };
  std::vector<Instruction*> arguments;
  for (std::size_t n = 0; n < sort.operand_count(); ++n) {
    const ElementType type = sort.operand(n)->shape().element_type(), part = RealPart(type);
    Instruction *left = parameter(part), *right = parameter(part);
    if (!IsComplex(type)) {
      arguments.insert(arguments.end(), {left, right});
      continue;
    }
    Instruction *left_im = parameter(part), *right_im = parameter(part);
    const Shape whole = Shape::MakeScalar(type);
    for (auto [re, im] : {std::pair(left, left_im), std::pair(right, right_im)}) {
      const bool is_used = used.contains(old.parameters()[arguments.size()]);
      arguments.push_back(is_used ? c->Add(Opcode::kComplex, whole, {re, im}) : re);
    }
  }
  c->set_root(InlineInto(*c, old, arguments));
  return c;
}

Result<Instruction*> ExpandSort(Instruction* i) {
  Rewriter rewrite(*i);
  KRAFLA_TRY(i->called(0)->SortTopologically());
  std::vector<Instruction*> operands;
  for (Instruction* x : i->operands()) {
    if (!IsComplexArray(x)) {
      operands.push_back(x);
      continue;
    }
    operands.push_back(rewrite.Part(Opcode::kReal, x));
    operands.push_back(rewrite.Part(Opcode::kImag, x));
  }
  KRAFLA_ASSIGN(Instruction * made,
                rewrite.Infer(Opcode::kSort, std::move(operands), i->attributes(), {ComparatorOfParts(*i)}));
  std::vector<Instruction*> results;
  int64_t next = 0;
  for (const Instruction* x : i->operands()) {
    Instruction* result = rewrite.Element(made, next++);
    if (IsComplexArray(x)) {
      Instruction* imaginary = rewrite.Element(made, next++);
      result = rewrite.Add(Opcode::kComplex, result->shape().WithElementType(x->shape().element_type()),
                           {result, imaginary});
    }
    results.push_back(result);
  }
  return i->shape().IsTuple() ? rewrite.Tuple(std::move(results)) : results[0];
}

}  // namespace

Result<bool> ComplexExpander(Module& module, const PassOptions&) {
  return RewriteAll(module, Opcode::kSort, [](Instruction* i) -> Result<Instruction*> {
    if (!IsStatic(*i) || !std::ranges::any_of(i->operands(), IsComplexArray)) return nullptr;
    return ExpandSort(i);
  });
}

}  // namespace krafla
