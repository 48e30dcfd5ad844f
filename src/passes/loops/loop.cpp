// SPDX-License-Identifier: Apache-2.0
#include "passes/loops/loop.h"

#include "ir/comparison.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

bool TakesApart(const Computation& c) {
  const Instruction* state = c.parameters()[0];
  if (state->IsRoot()) return false;
  for (const Instruction* user : state->users())
    if (user->opcode() != Opcode::kGetTupleElement) return false;
  return true;
}

// The parameter of `c` gets the shape `state`; elements keep their users under their new numbers (`place`: -1 gone).
Instruction* ChangeState(Computation& c, const Shape& state, const std::vector<int64_t>& place) {
  Instruction* old = c.parameters()[0];
  std::vector<Instruction*> users(old->users().begin(), old->users().end());
  Instruction* fresh = c.Add(Opcode::kParameter, state, {}, ParameterAttributes{0, {}}, {}, old->name());
  fresh->set_location(old->location());
  for (Instruction* element : users) {
    int64_t to = place[*Loop::ElementOf(*element)];
    if (to < 0) continue;
    element->ReplaceOperand(0, fresh);
    element->set_attributes(TupleIndexAttributes{to});
  }
  return old;
}

}  // namespace

Instruction* LoopNumber(Computation& computation, int64_t value) {
  return computation.Add(Opcode::kConstant, Shape::MakeScalar(ElementType::kS32), {},
                         ConstantAttributes{std::make_shared<const Literal>(ScalarOfInt(ElementType::kS32, value))});
}

Instruction* LoopElement(Computation& computation, Instruction* tuple, std::size_t n) {
  return computation.Add(Opcode::kGetTupleElement, tuple->shape().tuple_elements()[n], {tuple},
                         TupleIndexAttributes{static_cast<int64_t>(n)});
}

Computation* AddTurnsCondition(Module& module, std::string_view name, const Shape& state,
                               std::optional<int64_t> turns) {
  Computation& c = *module.AddComputation(name);
  Instruction* parameter = c.Add(Opcode::kParameter, state, {}, ParameterAttributes{0, {}}, {}, "state");
  CompareAttributes less;
  less.direction = ComparisonDirection::kLt;
  Instruction* turn = LoopElement(c, parameter, 0);
  Instruction* bound = turns ? LoopNumber(c, *turns) : LoopElement(c, parameter, state.tuple_elements().size() - 1);
  c.set_root(c.Add(Opcode::kCompare, Shape::MakeScalar(ElementType::kPred), {turn, bound}, less));
  return &c;
}

std::optional<Loop> Loop::Of(Instruction* i) {
  if (i->opcode() != Opcode::kWhile || !i->shape().IsTuple() || i->called().size() != 2) return std::nullopt;
  Loop loop(i);
  if (!TakesApart(loop.condition()) || !TakesApart(loop.body())) return std::nullopt;
  if (loop.body().root()->opcode() != Opcode::kTuple) return std::nullopt;
  return loop;
}

Instruction* Loop::Initial(std::size_t n) const {
  Instruction* initial = while_->operand(0);
  return initial->opcode() == Opcode::kTuple ? initial->operand(n) : nullptr;
}

std::optional<std::size_t> Loop::ElementOf(const Instruction& i) {
  if (i.opcode() != Opcode::kGetTupleElement || i.operand(0)->opcode() != Opcode::kParameter) return std::nullopt;
  return static_cast<std::size_t>(i.attr<TupleIndexAttributes>().index);
}

bool Loop::IsInvariant(std::size_t n) const { return ElementOf(*Next(n)) == n; }

bool Loop::ResultTakenApart() const {
  if (while_->IsRoot()) return false;
  for (const Instruction* user : while_->users())
    if (user->opcode() != Opcode::kGetTupleElement) return false;
  return true;
}

Loop::Rebuilt Loop::Rebuild(const std::vector<std::size_t>& kept, const std::vector<Instruction*>& added) {
  Rewriter rewrite(*while_);
  std::vector<int64_t> place(size(), -1);
  std::vector<Instruction*> initial, next;
  for (std::size_t n : kept) {
    place[n] = static_cast<int64_t>(initial.size());
    initial.push_back(rewrite.Element(while_->operand(0), static_cast<int64_t>(n)));
    next.push_back(Next(n));
  }
  initial.insert(initial.end(), added.begin(), added.end());
  Instruction* start = rewrite.Tuple(initial);
  const Shape& state = start->shape();

  Instruction* old_condition_state = ChangeState(condition(), state, place);
  Instruction* old_body_state = ChangeState(body(), state, place);
  Instruction* body_state = body().parameters()[0];
  Rebuilt out{nullptr, {}, {}};
  for (std::size_t n = 0; n < added.size(); ++n) {
    auto index = static_cast<int64_t>(kept.size() + n);
    out.added.push_back(
        body().Add(Opcode::kGetTupleElement, added[n]->shape(), {body_state}, TupleIndexAttributes{index}));
    next.push_back(out.added.back());
  }
  Rewriter body_rewrite(*body().root());
  body().set_root(body_rewrite.Tuple(std::move(next)));

  out.instruction = while_->parent()->AddClone(*while_, {start});
  out.instruction->set_shape(state);
  std::vector<Instruction*> users(while_->users().begin(), while_->users().end());
  for (Instruction* element : users) {
    int64_t to = place[static_cast<std::size_t>(element->attr<TupleIndexAttributes>().index)];
    KRAFLA_CHECK(to >= 0 || element->users().empty());
    if (to < 0) {
      out.gone.push_back(element);
      continue;
    }
    element->ReplaceOperand(0, out.instruction);
    element->set_attributes(TupleIndexAttributes{to});
  }
  out.gone.push_back(std::exchange(while_, out.instruction));
  SideEffects effects;
  RemoveDead(condition(), effects);
  RemoveDead(body(), effects);
  condition().Remove(old_condition_state);
  body().Remove(old_body_state);
  return out;
}

namespace {

using Wide = __int128;

struct Counter {
  std::size_t element = 0;
  Wide initial, step, bound;
  ComparisonDirection direction;
  ElementType type;
};

std::optional<Wide> ConstantInt(const Instruction* i) {
  if (i == nullptr || !i->shape().IsScalar() || !IsIntegral(i->shape().element_type())) return std::nullopt;
  const Literal* value = SplatOf(i);
  if (value == nullptr) return std::nullopt;
  if (IsUnsigned(i->shape().element_type())) return Wide{ScalarBits(*value)};
  return Wide{ScalarInt(*value)};
}

// A state that is one scalar counts as its own element 0.
std::optional<std::size_t> StateElement(const Instruction& i) {
  if (i.opcode() == Opcode::kParameter) return i.shape().IsTuple() ? std::nullopt : std::optional<std::size_t>(0);
  return Loop::ElementOf(i);
}

std::optional<Counter> FindCounter(const Instruction& loop) {
  const Instruction* test = loop.called(0)->root();
  if (test->opcode() != Opcode::kCompare) return std::nullopt;
  bool tuple = loop.shape().IsTuple();
  const Instruction* body_root = loop.called(1)->root();
  if (tuple && (body_root->opcode() != Opcode::kTuple || loop.operand(0)->opcode() != Opcode::kTuple))
    return std::nullopt;
  auto initial = [&](std::size_t n) { return tuple ? loop.operand(0)->operand(n) : loop.operand(0); };
  auto next = [&](std::size_t n) { return tuple ? body_root->operand(n) : body_root; };

  for (std::size_t side = 0; side < 2; ++side) {
    const Instruction *counted = test->operand(side), *limit = test->operand(1 - side);
    auto n = StateElement(*counted);
    if (!n) continue;
    Counter out;
    out.element = *n;
    out.type = counted->shape().element_type();
    out.direction = test->attr<CompareAttributes>().direction;
    if (side == 1) out.direction = Mirrored(out.direction);
    auto bound = ConstantInt(limit);
    if (!bound) {
      // A bound that the loop carries along.
      auto m = StateElement(*limit);
      if (!m || !tuple || StateElement(*next(*m)) != m) continue;
      bound = ConstantInt(initial(*m));
    }
    auto start = ConstantInt(initial(*n));
    const Instruction* step = next(*n);
    bool add = step->opcode() == Opcode::kAdd, subtract = step->opcode() == Opcode::kSubtract;
    if (!bound || !start || (!add && !subtract)) continue;
    std::optional<Wide> by;
    if (StateElement(*step->operand(0)) == n) by = ConstantInt(step->operand(1));
    if (!by && add && StateElement(*step->operand(1)) == n) by = ConstantInt(step->operand(0));
    if (!by) continue;
    out.initial = *start;
    out.bound = *bound;
    out.step = subtract ? -*by : *by;
    // Adding the largest unsigned number is subtracting one.
    if (IsUnsigned(out.type) && add && *by > (Wide{1} << (BitWidth(out.type) - 1)))
      out.step = *by - (Wide{1} << BitWidth(out.type));
    return out;
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> TripCount(const Instruction& instruction) {
  auto counter = FindCounter(instruction);
  if (!counter) return std::nullopt;
  Counter c = *counter;
  if (c.direction == ComparisonDirection::kEq) {
    if (c.initial != c.bound) return 0;
    return c.step != 0 ? std::optional<int64_t>(1) : std::nullopt;
  }
  Wide turns = 0;
  if (c.direction == ComparisonDirection::kNe) {
    Wide distance = c.bound - c.initial;
    if (distance == 0) return 0;
    if (c.step == 0 || distance % c.step != 0 || distance / c.step < 0) return std::nullopt;
    turns = distance / c.step;
  } else {
    // One form: counting up while below.
    if (c.direction == ComparisonDirection::kGt || c.direction == ComparisonDirection::kGe) {
      c.initial = -c.initial;
      c.bound = -c.bound;
      c.step = -c.step;
    }
    bool inclusive = c.direction == ComparisonDirection::kLe || c.direction == ComparisonDirection::kGe;
    Wide bound = c.bound + (inclusive ? 1 : 0);
    if (c.initial >= bound) return 0;
    if (c.step <= 0) return std::nullopt;
    turns = (bound - c.initial + c.step - 1) / c.step;
  }
  // The counter must reach its last value without wrapping around.
  Wide last = counter->initial + turns * counter->step;
  int bits = BitWidth(c.type);
  Wide low = IsSigned(c.type) ? -(Wide{1} << (bits - 1)) : Wide{0};
  Wide high = IsSigned(c.type) ? (Wide{1} << (bits - 1)) - 1 : (Wide{1} << bits) - 1;
  if (last < low || last > high || turns > INT64_MAX) return std::nullopt;
  return static_cast<int64_t>(turns);
}

std::optional<std::size_t> TurnNumber(const Instruction& instruction) {
  const auto counter = FindCounter(instruction);
  if (!counter || counter->initial != 0 || counter->step != 1) return std::nullopt;
  return counter->element;
}

bool IsRowAt(const Instruction& slice, std::size_t first, const Dims& row) {
  const Dims& dims = slice.operand(0)->shape().dims();
  if (row.ssize() != dims.ssize() || dims.ssize() == 0 || row[0] != 1) return false;
  for (std::size_t d = 1; d < dims.size(); ++d)
    if (row[d] != dims[d]) return false;
  return slice.operand_count() == first + dims.size();
}

std::vector<Instruction*> LoopsOf(const Computation& computation) {
  std::vector<Instruction*> out;
  for (const auto& i : computation.instructions())
    if (i->opcode() == Opcode::kWhile) out.push_back(i.get());
  return out;
}

Result<bool> RewriteLoops(
    Module& module, SideEffects& effects,
    const std::function<Result<bool>(Instruction* loop, std::vector<Instruction*>& gone)>& rewrite) {
  bool changed = false;
  if (module.CountOf(Opcode::kWhile) == 0) return changed;
  for (Computation* c : ReachableComputations(module)) {
    bool here = false;
    std::vector<Instruction*> gone;
    for (Instruction* i : LoopsOf(*c)) {
      KRAFLA_ASSIGN(bool rewritten, rewrite(i, gone));
      here |= rewritten;
    }
    if (!here) continue;
    changed = true;
    c->RemoveAll(gone);
    RemoveDead(*c, effects);
    KRAFLA_TRY(c->SortTopologically());
  }
  return changed;
}

}  // namespace krafla
