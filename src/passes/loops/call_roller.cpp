// SPDX-License-Identifier: Apache-2.0
// Rolls up loops that were written out: calls of one small computation, each of which takes results of the one before,
// become a loop with one call. JAX writes a scan with `unroll=n` so, the substitutions of a tridiagonal solver among
// them (32 steps, and the rest of 32): a call a step, whose other operands are the same for all or neighbouring slices
// of an array. On a device a step is a launch or more, or code that the driver has to compile; a loop is a kernel.
#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "passes/loops/loop.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

constexpr std::size_t kFewestCalls = 8;
// Of an array in the computation: what is larger is worth a launch of its own, which a loop would not save.
constexpr int64_t kMostStepElements = 1 << 14;
// A chain looks through what follows from it, in a computation of any size.
constexpr int kMostChains = 256;

// Whether a step is small and has no effects: element by element, or moving a few elements.
bool IsSmallStep(const Computation& c) {
  const auto is_array = [](const Shape& s) { return s.IsArray() && s.rank() < Shape::kMaxRank; };
  const Shape& results = c.root()->shape();
  if (!(results.IsTuple() ? std::ranges::all_of(results.tuple_elements(), is_array) : is_array(results))) return false;
  for (const Instruction* p : c.parameters())
    if (!is_array(p->shape())) return false;
  return std::ranges::all_of(c.instructions(), [](const auto& i) {
    if (!IsStatic(*i) || !i->control_predecessors().empty()) return false;
    if (!i->shape().IsTuple() && i->shape().element_count() > kMostStepElements) return false;
    return IsElementwise(i->opcode()) ||
           IsOneOf(i->opcode(), {Opcode::kParameter, Opcode::kTuple, Opcode::kGetTupleElement, Opcode::kConstant,
                                 Opcode::kBroadcast, Opcode::kReshape, Opcode::kSlice, Opcode::kConcatenate,
                                 Opcode::kTranspose, Opcode::kIota, Opcode::kReduce, Opcode::kPad, Opcode::kReverse});
  });
}

// Results of a call: elements of its tuple, or itself.
std::optional<std::size_t> CallResultOf(const Instruction& i, const Instruction& call) {
  if (&i == &call) return call.shape().IsTuple() ? std::nullopt : std::optional<std::size_t>(0);
  if (i.opcode() != Opcode::kGetTupleElement || i.operand(0) != &call) return std::nullopt;
  return static_cast<std::size_t>(i.attr<TupleIndexAttributes>().index);
}
const Shape& CallResultShape(const Instruction& call, std::size_t n) {
  return call.shape().IsTuple() ? call.shape().tuple_elements()[n] : call.shape();
}

// A slice of an array without steps, reshaped or not.
struct CallWindow {
  Instruction* array = nullptr;
  Dims starts, sizes;
};
std::optional<CallWindow> CallWindowOf(Instruction* i) {
  while (i->opcode() == Opcode::kReshape) i = i->operand(0);
  if (i->opcode() != Opcode::kSlice) return std::nullopt;
  const auto& a = i->attr<SliceAttributes>();
  if (std::ranges::any_of(a.strides, [](int64_t s) { return s != 1; })) return std::nullopt;
  return CallWindow{i->operand(0), a.starts, i->shape().dims()};
}

// What calls get for one operand, one after the other.
struct CallOperand {
  enum class Kind : uint8_t { kCarried, kSame, kWindow } kind = Kind::kSame;
  std::size_t result = 0;        // kCarried: of the call before
  Instruction* value = nullptr;  // kSame: this; kWindow: the array
  Dims starts, sizes;            // kWindow: of the first call
  std::size_t dimension = 0;     // kWindow: along which windows go on ...
  int64_t step = 0;              // ... by this
};

bool AreSameValue(const Instruction* a, const Instruction* b) {
  return a == b || (a->IsConstant() && b->IsConstant() && a->shape() == b->shape() &&
                    std::ranges::equal(a->literal().bytes(), b->literal().bytes()));
}

std::optional<CallOperand> CallOperandOf(const Instruction& first, const Instruction& second, std::size_t n) {
  Instruction *a = first.operand(n), *b = second.operand(n);
  CallOperand out;
  if (const auto result = CallResultOf(*b, first)) {
    if (!Shape::Compatible(CallResultShape(first, *result), a->shape())) return std::nullopt;
    out.kind = CallOperand::Kind::kCarried;
    out.result = *result;
    return out;
  }
  out.value = a;
  if (AreSameValue(a, b)) return out;
  const auto x = CallWindowOf(a), y = CallWindowOf(b);
  if (!x || !y || x->array != y->array || x->sizes != y->sizes || !Shape::Compatible(a->shape(), b->shape()))
    return std::nullopt;
  out.kind = CallOperand::Kind::kWindow;
  out.value = x->array, out.starts = x->starts, out.sizes = x->sizes;
  int moved = 0;
  for (std::size_t d = 0; d < x->starts.size(); ++d) {
    if (x->starts[d] == y->starts[d]) continue;
    ++moved;
    out.dimension = d;
    out.step = y->starts[d] - x->starts[d];
  }
  if (moved != 1) return std::nullopt;
  return out;
}

// Whether `call`, the `number`-th of a chain whose operands are these, goes on as the calls before it did.
bool GoesOn(const std::vector<CallOperand>& operands, const Instruction& before, const Instruction& call,
            int64_t number) {
  for (std::size_t n = 0; n < operands.size(); ++n) {
    const CallOperand& o = operands[n];
    Instruction* x = call.operand(n);
    if (o.kind == CallOperand::Kind::kCarried) {
      if (CallResultOf(*x, before) != o.result) return false;
    } else if (o.kind == CallOperand::Kind::kSame) {
      if (!AreSameValue(o.value, x)) return false;
    } else {
      const auto w = CallWindowOf(x);
      if (!w || w->array != o.value || w->sizes != o.sizes) return false;
      for (std::size_t d = 0; d < o.starts.size(); ++d)
        if (w->starts[d] != o.starts[d] + (d == o.dimension ? number * o.step : 0)) return false;
    }
  }
  return true;
}

struct CallChain {
  std::vector<Instruction*> calls;
  std::vector<CallOperand> operands;
};

// All that takes values of `from`, directly or not.
std::unordered_set<const Instruction*> DependentsOf(const Instruction* from) {
  std::unordered_set<const Instruction*> out = {from};
  std::vector<const Instruction*> work = {from};
  while (!work.empty()) {
    const Instruction* i = work.back();
    work.pop_back();
    for (const Instruction* user : i->users())
      if (out.insert(user).second) work.push_back(user);
  }
  return out;
}

// Whether a loop can stand in the place of the calls: nothing that all of them take is made of what they give.
bool CanRoll(const CallChain& chain) {
  if (chain.calls.size() < kFewestCalls) return false;
  bool moves = false;
  for (const CallOperand& o : chain.operands) moves = moves || o.kind == CallOperand::Kind::kWindow;
  if (!moves) return false;
  const auto behind = DependentsOf(chain.calls.front());
  return std::ranges::all_of(chain.operands, [&](const CallOperand& o) {
    return o.kind == CallOperand::Kind::kCarried || !behind.contains(o.value);
  });
}

class Roller {
 public:
  explicit Roller(const CallChain& chain)
      : chain_(chain),
        first_(*chain.calls.front()),
        rewrite_(first_),
        turns_(std::ssize(chain.calls)),
        chained_(chain.calls.begin(), chain.calls.end()) {
    const auto moved = std::ranges::find(chain.operands, CallOperand::Kind::kWindow, &CallOperand::kind);
    is_backward_ = moved != chain.operands.end() && moved->step < 0;
  }

  void Run() {
    const auto results = first_.shape().IsTuple() ? first_.shape().tuple_elements().size() : std::size_t{1};
    for (std::size_t r = 0; r < results; ++r) LookAtResult(r);
    // State: the turn, the operands (arrays for windows of them), and for each result that is read the results of all
    // turns.
    std::vector<Instruction*> state = {rewrite_.Constant(ScalarOfInt(ElementType::kS32, 0))};
    for (std::size_t n = 0; n < chain_.operands.size(); ++n)
      state.push_back(chain_.operands[n].kind == CallOperand::Kind::kCarried ? first_.operand(n)
                                                                             : chain_.operands[n].value);
    for (const std::size_t r : stacked_)
      state.push_back(rewrite_.Splat(ScalarZero(CallResultShape(first_, r).element_type()), StackDims(r)));
    Instruction* start = rewrite_.Tuple(state);
    WhileAttributes counted;
    counted.known_trip_count = turns_;
    Instruction* loop =
        rewrite_.Add(Opcode::kWhile, start->shape(), {start}, counted,
                     {AddTurnsCondition(*first_.parent()->parent(), "rolled_condition", start->shape(), turns_),
                      Body(start->shape())});
    for (std::size_t n = 0; n < stacked_.size(); ++n) UnstackFrom(loop, n);
    for (const auto& [result, place] : carried_)
      for (Instruction* i : UsesOf(*chain_.calls.back(), result))
        Replace(i, rewrite_.Element(loop, static_cast<int64_t>(1 + place)));
  }

 private:
  // The instructions that are the result: its elements, or the call.
  static std::vector<Instruction*> UsesOf(Instruction& call, std::size_t result) {
    if (!call.shape().IsTuple()) return {&call};
    std::vector<Instruction*> out;
    for (Instruction* user : call.users())
      if (CallResultOf(*user, call) == result) out.push_back(user);
    return out;
  }
  bool IsChained(const Instruction* user) const { return chained_.contains(user); }
  // Whether what is read of a result is more than the next call's operand.
  void LookAtResult(std::size_t r) {
    for (std::size_t n = 0; n < chain_.operands.size(); ++n)
      if (chain_.operands[n].kind == CallOperand::Kind::kCarried && chain_.operands[n].result == r)
        carried_.emplace(r, n);
    const std::size_t all = chain_.calls.size() - (carried_.contains(r) ? 1 : 0);  // the last one's is what is carried
    for (std::size_t c = 0; c < all; ++c)
      for (const Instruction* i : UsesOf(*chain_.calls[c], r))
        if (i->IsRoot() || std::ranges::any_of(i->users(), [&](const Instruction* u) { return !IsChained(u); })) {
          stacked_.push_back(r);
          return;
        }
  }
  Dims StackDims(std::size_t r) const {
    Dims out = {turns_};
    for (const int64_t d : CallResultShape(first_, r).dims()) out.push_back(d);
    return out;
  }

  Computation* Body(const Shape& shape) {
    Computation* c = first_.parent()->parent()->AddComputation("rolled_body");
    Instruction* state = c->Add(Opcode::kParameter, shape, {}, ParameterAttributes{0, {}}, {}, "state");
    const Shape s32 = Shape::MakeScalar(ElementType::kS32);
    Instruction *turn = LoopElement(*c, state, 0), *zero = LoopNumber(*c, 0);
    std::vector<Instruction*> arguments;
    for (std::size_t n = 0; n < chain_.operands.size(); ++n) {
      const CallOperand& o = chain_.operands[n];
      Instruction* x = LoopElement(*c, state, 1 + n);
      if (o.kind == CallOperand::Kind::kWindow) {
        Instruction* at = c->Add(Opcode::kMultiply, s32, {turn, LoopNumber(*c, o.step)});
        std::vector<Instruction*> operands = {x};
        for (std::size_t d = 0; d < o.starts.size(); ++d) {
          Instruction* begin = LoopNumber(*c, o.starts[d]);
          operands.push_back(d == o.dimension ? c->Add(Opcode::kAdd, s32, {at, begin}) : begin);
        }
        DynamicSliceAttributes sizes;
        sizes.slice_sizes = o.sizes;
        x = c->Add(Opcode::kDynamicSlice, ArrayShape(x->shape().element_type(), o.sizes), operands, sizes);
        x = c->Add(Opcode::kReshape, first_.operand(n)->shape(), {x});
      }
      arguments.push_back(x);
    }
    Instruction* made = c->AddClone(first_, arguments);
    const auto result = [&](std::size_t r) { return made->shape().IsTuple() ? LoopElement(*c, made, r) : made; };
    std::vector<Instruction*> next = {c->Add(Opcode::kAdd, s32, {turn, LoopNumber(*c, 1)})};
    Instruction* row = is_backward_ ? c->Add(Opcode::kSubtract, s32, {LoopNumber(*c, turns_ - 1), turn}) : turn;
    for (std::size_t n = 0; n < chain_.operands.size(); ++n)
      next.push_back(chain_.operands[n].kind == CallOperand::Kind::kCarried ? result(chain_.operands[n].result)
                                                                            : LoopElement(*c, state, 1 + n));
    for (std::size_t n = 0; n < stacked_.size(); ++n) {
      Instruction* all = LoopElement(*c, state, 1 + chain_.operands.size() + n);
      Dims one = all->shape().dims();
      one[0] = 1;
      std::vector<Instruction*> operands = {
          all, c->Add(Opcode::kReshape, ArrayShape(all->shape().element_type(), one), {result(stacked_[n])})};
      operands.resize(2 + one.size(), zero);
      operands[2] = row;
      next.push_back(c->Add(Opcode::kDynamicUpdateSlice, all->shape(), operands));
    }
    c->set_root(c->Add(Opcode::kTuple, shape, next));
    return c;
  }

  // Lets what reads a result of a call read its row of what the loop has stacked.
  void UnstackFrom(Instruction* loop, std::size_t n) {
    const std::size_t r = stacked_[n];
    Instruction* all = rewrite_.Element(loop, static_cast<int64_t>(1 + chain_.operands.size() + n));
    const Dims dims = all->shape().dims();
    for (int64_t turn = 0; turn < turns_; ++turn) {
      Instruction* row = nullptr;
      for (Instruction* i : UsesOf(*chain_.calls[static_cast<std::size_t>(turn)], r)) {
        if (row == nullptr) {
          SliceAttributes at;
          at.starts.resize(dims.size(), 0);
          at.strides.resize(dims.size(), 1);
          at.limits = dims;
          at.starts[0] = is_backward_ ? turns_ - 1 - turn : turn;
          at.limits[0] = at.starts[0] + 1;
          row = rewrite_.Reshape(rewrite_.Slice(all, at), i->shape().dims().span());
        }
        Replace(i, row);
      }
    }
  }

  const CallChain& chain_;
  const Instruction& first_;
  Rewriter rewrite_;
  int64_t turns_;
  std::unordered_set<const Instruction*> chained_;
  bool is_backward_ = false;                    // rows are stacked in the order in which windows lie, as a scan does
  std::map<std::size_t, std::size_t> carried_;  // results, and the operands that they become
  std::vector<std::size_t> stacked_;            // results
};

// The calls of each small computation that follow one another, in order.
std::vector<CallChain> CallChainsOf(const Computation& c, std::unordered_map<const Computation*, bool>& small) {
  std::unordered_map<const Computation*, std::vector<Instruction*>> calls;
  std::vector<const Computation*> order;
  for (const auto& i : c.instructions()) {
    if (i->opcode() != Opcode::kCall || i->called().size() != 1 || !i->control_predecessors().empty()) continue;
    std::vector<Instruction*>& of_callee = calls[i->called(0)];
    if (of_callee.empty()) order.push_back(i->called(0));
    of_callee.push_back(i.get());
  }
  std::vector<CallChain> out;
  for (const Computation* callee : order) {
    const std::vector<Instruction*>& all = calls[callee];
    if (all.size() < kFewestCalls) continue;
    const auto known = small.find(callee);
    if (!(known != small.end() ? known->second : small.emplace(callee, IsSmallStep(*callee)).first->second)) continue;
    CallChain chain;
    for (std::size_t n = 0; n < all.size(); ++n) {
      const auto number = static_cast<int64_t>(chain.calls.size());
      if (number > 1 && !GoesOn(chain.operands, *all[n - 1], *all[n], number)) {
        out.push_back(std::exchange(chain, {}));
      } else if (number == 1) {
        chain.operands.clear();
        for (std::size_t o = 0; o < all[n]->operand_count(); ++o)
          if (const auto operand = CallOperandOf(*all[n - 1], *all[n], o)) chain.operands.push_back(*operand);
        const bool carries = std::ranges::any_of(
            chain.operands, [](const CallOperand& o) { return o.kind == CallOperand::Kind::kCarried; });
        if (!carries || chain.operands.size() != all[n]->operand_count()) chain = {};
      }
      chain.calls.push_back(all[n]);
    }
    out.push_back(std::move(chain));
  }
  return out;
}

}  // namespace

Result<bool> CallRoller(Module& module, const PassOptions&) {
  if (module.CountOf(Opcode::kCall) < static_cast<int64_t>(kFewestCalls)) return false;
  bool changed = false;
  int left = kMostChains;
  std::unordered_map<const Computation*, bool> small;
  for (Computation* c : ReachableComputations(module)) {
    KRAFLA_TRY(c->SortTopologically());
    bool here = false;
    for (const CallChain& chain : CallChainsOf(*c, small)) {
      if (left == 0 || chain.calls.size() < kFewestCalls) continue;
      --left;
      if (!CanRoll(chain)) continue;
      Roller(chain).Run();
      here = true;
    }
    if (here) {
      SideEffects effects;
      RemoveDead(*c, effects);
      KRAFLA_TRY(c->SortTopologically());
    }
    changed |= here;
  }
  return changed;
}

}  // namespace krafla
