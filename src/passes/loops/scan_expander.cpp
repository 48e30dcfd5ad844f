// SPDX-License-Identifier: Apache-2.0
// scan as a counted loop over slices, where it is more than a running combination of one array: several arrays or
// carries, results that are not the carry, computations on whole slices, a length that is known at run time only.
#include "passes/expand/expansions.h"
#include "passes/loops/loop.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

bool IsRunningCombination(const Instruction& i) {
  const Computation& c = *i.called(0);
  const Instruction* root = c.root();
  if (i.operand_count() != 2 || root->opcode() != Opcode::kTuple || root->operand_count() != 2) return false;
  if (root->operand(0) != root->operand(1) || IsComplex(i.operand(0)->shape().element_type())) return false;
  if (i.operand(0)->shape().element_type() != i.operand(1)->shape().element_type()) return false;
  for (const auto& step : c.instructions())
    if (!IsElementwise(step->opcode()) &&
        !IsOneOf(step->opcode(), {Opcode::kParameter, Opcode::kTuple, Opcode::kConstant, Opcode::kBroadcast}))
      return false;
  return true;
}

namespace {

class ScanLoop {
 public:
  ScanLoop(Instruction* i, Instruction* turns) : i_(i), turns_(turns), rewrite_(*i), a_(i->attr<ScanAttributes>()) {}

  Result<Instruction*> Run() {
    const auto carries = static_cast<std::size_t>(a_.num_carries);
    if (!IsStatic(*i_) || !i_->shape().IsTuple() || carries > i_->operand_count()) return nullptr;
    const std::size_t inputs = i_->operand_count() - carries;
    const std::size_t outputs = i_->shape().tuple_elements().size() - carries;
    if (inputs == 0 && outputs == 0) return nullptr;
    const Shape& whole = inputs > 0 ? i_->operand(0)->shape() : i_->shape().tuple_elements()[0];
    const int64_t length = whole.dims()[static_cast<std::size_t>(a_.dimension)];

    // State: the turn, the carries, the outputs, the inputs, and how many turns there are if that is not the length.
    std::vector<Instruction*> state = {rewrite_.Constant(ScalarOfInt(ElementType::kS32, 0))};
    for (std::size_t n = 0; n < carries; ++n) state.push_back(i_->operand(inputs + n));
    for (std::size_t n = 0; n < outputs; ++n) {
      const Shape& shape = i_->shape().tuple_elements()[n];
      state.push_back(rewrite_.Splat(ScalarZero(shape.element_type()), shape.dims()));
    }
    for (std::size_t n = 0; n < inputs; ++n) state.push_back(i_->operand(n));
    if (turns_ != nullptr) state.push_back(turns_);
    Instruction* start = rewrite_.Tuple(state);

    KRAFLA_ASSIGN(Computation * body, Body(start->shape(), length, carries, outputs, inputs));
    WhileAttributes counted;
    if (turns_ == nullptr) counted.known_trip_count = length;
    Instruction* loop = rewrite_.Add(
        Opcode::kWhile, start->shape(), {start}, counted,
        {AddTurnsCondition(*i_->parent()->parent(), "scan_condition", start->shape(), counted.known_trip_count), body});
    std::vector<Instruction*> results;
    for (std::size_t n = 0; n < outputs; ++n)
      results.push_back(rewrite_.Element(loop, static_cast<int64_t>(1 + carries + n)));
    for (std::size_t n = 0; n < carries; ++n) results.push_back(rewrite_.Element(loop, static_cast<int64_t>(1 + n)));
    return rewrite_.Tuple(results);
  }

 private:
  // The number of turns, in the condition or the body.
  Instruction* Turns(Computation* c, Instruction* state, int64_t length) const {
    return turns_ == nullptr ? LoopNumber(*c, length)
                             : LoopElement(*c, state, state->shape().tuple_elements().size() - 1);
  }

  Result<Computation*> Body(const Shape& shape, int64_t length, std::size_t carries, std::size_t outputs,
                            std::size_t inputs) {
    KRAFLA_TRY(i_->called(0)->SortTopologically());
    Computation* c = i_->parent()->parent()->AddComputation("scan_body");
    Instruction* state = c->Add(Opcode::kParameter, shape, {}, ParameterAttributes{0, {}}, {}, "state");
    const Shape s32 = Shape::MakeScalar(ElementType::kS32);
    Instruction* turn = LoopElement(*c, state, 0);
    Instruction* at = turn;
    if (a_.is_reverse) {
      Instruction* left = c->Add(Opcode::kSubtract, s32, {Turns(c, state, length), turn});
      at = c->Add(Opcode::kSubtract, s32, {left, LoopNumber(*c, 1)});
    }
    Instruction* zero = LoopNumber(*c, 0);
    auto starts = [&](const Shape& of) {
      std::vector<Instruction*> out(of.dims().size(), zero);
      out[static_cast<std::size_t>(a_.dimension)] = at;
      return out;
    };
    auto slice_dims = [&](const Shape& of) {
      Dims dims = of.dims();
      dims[static_cast<std::size_t>(a_.dimension)] = 1;
      return dims;
    };
    std::vector<Instruction*> arguments;
    for (std::size_t n = 0; n < inputs; ++n) {
      Instruction* x = LoopElement(*c, state, 1 + carries + outputs + n);
      std::vector<Instruction*> operands = {x};
      for (Instruction* s : starts(x->shape())) operands.push_back(s);
      DynamicSliceAttributes sizes;
      sizes.slice_sizes = slice_dims(x->shape());
      Instruction* slice =
          c->Add(Opcode::kDynamicSlice, ArrayShape(x->shape().element_type(), sizes.slice_sizes), operands, sizes);
      arguments.push_back(c->Add(Opcode::kReshape, i_->called(0)->parameters()[n]->shape(), {slice}));
    }
    for (std::size_t n = 0; n < carries; ++n) arguments.push_back(LoopElement(*c, state, 1 + n));
    Instruction* made = InlineInto(*c, *i_->called(0), arguments);
    std::vector<Instruction*> next = {c->Add(Opcode::kAdd, s32, {turn, LoopNumber(*c, 1)})};
    for (std::size_t n = 0; n < carries; ++n) next.push_back(LoopElement(*c, made, outputs + n));
    for (std::size_t n = 0; n < outputs; ++n) {
      Instruction* all = LoopElement(*c, state, 1 + carries + n);
      Instruction* one = LoopElement(*c, made, n);
      Instruction* slice =
          c->Add(Opcode::kReshape, ArrayShape(all->shape().element_type(), slice_dims(all->shape())), {one});
      std::vector<Instruction*> operands = {all, slice};
      for (Instruction* s : starts(all->shape())) operands.push_back(s);
      next.push_back(c->Add(Opcode::kDynamicUpdateSlice, all->shape(), operands));
    }
    for (std::size_t n = 0; n < inputs; ++n) next.push_back(LoopElement(*c, state, 1 + carries + outputs + n));
    if (turns_ != nullptr) next.push_back(Turns(c, state, length));
    c->set_root(c->Add(Opcode::kTuple, shape, next));
    return c;
  }

  Instruction *i_, *turns_;
  Rewriter rewrite_;
  ScanAttributes a_;
};

}  // namespace

Result<Instruction*> ExpandScan(Instruction* scan, Instruction* turns) { return ScanLoop(scan, turns).Run(); }

Result<bool> ScanExpander(Module& module, const PassOptions&) {
  return RewriteAll(module, Opcode::kScan, [](Instruction* i) -> Result<Instruction*> {
    if (IsRunningCombination(*i)) return nullptr;
    return ExpandScan(i, nullptr);
  });
}

}  // namespace krafla
