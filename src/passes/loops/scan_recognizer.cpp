// SPDX-License-Identifier: Apache-2.0
// A reduce-window whose window is as long as the array and padded on one side only (jnp.cumsum, cumprod, cummax, ...)
// becomes a scan, which takes n steps instead of n * n. Combining init once rather than once a padded element is what
// XLA:CPU does too; it shows only where init is not the identity. Sums of floats keep their order when they run
// forwards; backwards they are added from the other end, within the bound of reduce-window, and so are logarithms of
// sums of exponentials. Any other combiner keeps its order: it becomes a scan forwards only.
#include <array>

#include "ir/builder.h"
#include "ir/window_order.h"
#include "passes/lift.h"
#include "passes/loops/cumulation.h"
#include "passes/passes.h"

namespace krafla {

namespace {

// max(a, b) + log1p(exp(-|a - b|)), as jnp.logaddexp writes it; where a - b is NaN, a + b.
bool IsLogAddExp(const Computation& c) {
  const auto is = [](const Instruction* i, Opcode op) { return i->opcode() == op; };
  const auto of_both = [&](const Instruction* i, Opcode op) {
    return is(i, op) && i->operand(0) != i->operand(1) && is(i->operand(0), Opcode::kParameter) &&
           is(i->operand(1), Opcode::kParameter);
  };
  const Instruction* root = c.root();
  if (!is(root, Opcode::kSelect) || !of_both(root->operand(1), Opcode::kAdd) || !is(root->operand(2), Opcode::kAdd))
    return false;
  const Instruction *test = root->operand(0), *sum = root->operand(2);
  if (!is(test, Opcode::kCompare) || test->operand(0) != test->operand(1) ||
      !of_both(test->operand(0), Opcode::kSubtract) ||
      test->attr<CompareAttributes>().direction != ComparisonDirection::kNe)
    return false;
  const Instruction* log = sum->operand(1);
  if (!of_both(sum->operand(0), Opcode::kMaximum) || !is(log, Opcode::kLog1p)) return false;
  const Instruction* exp = log->operand(0);
  if (!is(exp, Opcode::kExp) || !is(exp->operand(0), Opcode::kNegate)) return false;
  const Instruction* size = exp->operand(0)->operand(0);
  return is(size, Opcode::kAbs) && size->operand(0) == test->operand(0);
}

Result<Instruction*> ToScan(Instruction* i);

// Sums of complex numbers: those of their parts.
Result<Instruction*> ScansOfParts(Instruction* i) {
  const Shape part = i->shape().WithElementType(RealPart(i->shape().element_type()));
  Rewriter rewrite(*i);
  Computation* add = AddBinaryComputation(*i->parent()->parent(), Opcode::kAdd, Shape::MakeScalar(part.element_type()));
  std::vector<Instruction*> parts;
  for (Opcode op : {Opcode::kReal, Opcode::kImag}) {
    Instruction* window =
        rewrite.Add(Opcode::kReduceWindow, part, {rewrite.Part(op, i->operand(0)), rewrite.Part(op, i->operand(1))},
                    i->attributes(), {add});
    KRAFLA_ASSIGN(Instruction * scan, ToScan(window));
    parts.push_back(scan != nullptr ? scan : window);
  }
  return rewrite.Add(Opcode::kComplex, i->shape(), parts);
}

Result<Instruction*> ToScan(Instruction* i) {
  if (i->operand_count() != 2 || !IsStatic(*i) || !i->operand(1)->shape().IsScalar()) return nullptr;
  auto run = FindCumulation(*i);
  if (!run || i->called(0)->root()->shape().element_type() != i->shape().element_type()) return nullptr;
  auto opcode = BinaryOpcode(*i->called(0));
  if (opcode && !HasTrait(*opcode, op_trait::kAssociative)) opcode.reset();
  if (opcode && run->reverse && !HasTrait(*opcode, op_trait::kCommutative)) return nullptr;
  if (opcode == Opcode::kAdd && IsComplex(i->shape().element_type())) return ScansOfParts(i);
  if (!opcode) {
    KRAFLA_TRY(i->called(0)->SortTopologically());
    if (DimensionVisitedLast(i->attr<WindowAttributes>().window, i->operand(0)->shape().dims(), i->shape().dims()) &&
        !IsLogAddExp(*i->called(0)))
      return nullptr;
    if (run->reverse && !IsLogAddExp(*i->called(0))) return nullptr;
  }
  Dims dims = i->shape().dims();
  dims.erase(dims.begin() + run->dimension);
  Shape slice = ArrayShape(i->shape().element_type(), dims);

  Computation* step =
      i->parent()->parent()->AddComputation(Format("scan_{}", opcode ? OpcodeName(*opcode) : i->called(0)->name()));
  Instruction* x = step->Add(Opcode::kParameter, slice, {}, ParameterAttributes{0, {}}, {}, "x");
  Instruction* carry = step->Add(Opcode::kParameter, slice, {}, ParameterAttributes{1, {}}, {}, "carry");
  Rewriter inside(*x);
  Instruction* next =
      opcode ? step->Add(*opcode, slice, {carry, x}) : LiftInto(inside, *i->called(0), std::array{carry, x}, dims);
  if (next == nullptr) {
    step->set_root(x);  // nothing calls it
    return nullptr;
  }
  KRAFLA_ASSIGN(Shape pair, Shape::MakeTuple({slice, slice}));
  step->set_root(step->Add(Opcode::kTuple, pair, {next, next}));

  ScanAttributes attributes;
  attributes.dimension = static_cast<int64_t>(run->dimension);
  attributes.num_carries = 1;
  attributes.is_reverse = run->reverse;
  attributes.is_associative = opcode.has_value();
  Rewriter rewrite(*i);
  Instruction* init = rewrite.Broadcast(i->operand(1), dims, {});
  KRAFLA_ASSIGN(Instruction * scan, rewrite.Infer(Opcode::kScan, {i->operand(0), init}, attributes, {step}));
  return rewrite.Element(scan, 0);
}

}  // namespace

Result<bool> ScanRecognizer(Module& module, const PassOptions&) {
  return RewriteAll(module, Opcode::kReduceWindow, ToScan);
}

}  // namespace krafla
