// SPDX-License-Identifier: Apache-2.0
// Loops, branches and calls.
#include <algorithm>

#include "plan/module_planner.h"

namespace krafla::plan {

Result<> ModulePlanner::PlanWhile(Scope& scope, int number, StepList& steps) {
  const Instruction& loop = *scope.pieces[static_cast<std::size_t>(number)].group->heroes[0];
  const Computation& condition = *loop.called(0);
  const Computation& body = *loop.called(1);
  std::vector<ValueRef> inits, states = ArrayLeaves(&loop), parameters = ArrayLeaves(body.parameters()[0]);
  for (const ValueRef& v : ArrayLeaves(loop.operand(0))) inits.push_back(ResolveValue(v, true));
  std::vector<ValueRef> next = ArrayLeaves(body.root());
  std::unordered_map<ValueRef, int, ValueRefHash> uses;
  for (const ValueRef& v : inits) ++uses[v];
  std::vector<Slice> slices;
  for (std::size_t k = 0; k < states.size(); ++k) {
    Slice init = SliceOf(scope, inits[k]);
    bool invariant = ResolveValue(next[k], true) == parameters[k];
    if (invariant && !scope.slices.contains(states[k])) {
      slices.push_back(init);
      scope.Place(states[k], init);
      scope.loop_states[init].push_back(inits[k]);
      continue;
    }
    if (!scope.slices.contains(states[k])) {
      bool temporary = plan_.allocations[static_cast<std::size_t>(init.allocation)].kind == Allocation::Kind::kArena &&
                       scope.maker.contains(inits[k]);
      if (temporary && uses[inits[k]] == 1 && !scope.IsResult(inits[k]) && !ReadAfter(scope, inits[k], number) &&
          OnlyNameOf(scope, inits[k], init, number))
        scope.Place(states[k], init);
    }
    Slice state = SliceOf(scope, states[k]);
    if (!(state == init)) AddCopy(init, state, steps);
    slices.push_back(state);
  }
  WhileStep step;
  step.instruction = &loop;
  if (const auto* a = std::get_if<WhileAttributes>(&loop.attributes())) step.trip_count = a->known_trip_count;
  step.condition = std::make_unique<StepList>();
  step.body = std::make_unique<StepList>();
  int start = ++now_;
  loop_starts_.push_back(start);
  const std::size_t begin = touched_in_loop_.size();
  for (const Slice& s : slices) Touch(s);
  step.predicate = NewTemporary(1);
  Touch(step.predicate);
  Slice predicate[] = {step.predicate};
  KRAFLA_TRY(PlanComputation(condition, slices, predicate, *step.condition, false));
  KRAFLA_TRY(PlanComputation(body, slices, slices, *step.body, false));
  ++now_;
  for (const Slice& s : slices) Touch(s);
  Touch(step.predicate);
  ExtendOverLoop(start, begin);
  plan_.instruction_count += 1;
  steps.steps.push_back(std::move(step));
  return {};
}

Result<> ModulePlanner::PlanConditional(Scope& scope, int number, StepList& steps) {
  const Instruction& i = *scope.pieces[static_cast<std::size_t>(number)].group->heroes[0];
  ConditionalStep step;
  step.instruction = &i;
  step.index = SliceOf(scope, ResolveValue({i.operand(0), 0}, true));
  step.index_is_pred = i.operand(0)->shape().element_type() == ElementType::kPred;
  ++now_;
  Touch(step.index);
  std::vector<Slice> results;
  for (const ValueRef& v : ArrayLeaves(&i)) {
    if (!scope.slices.contains(v)) PlaceCarried(scope, number, v);
    results.push_back(SliceOf(scope, v));
    Touch(results.back());
  }
  for (std::size_t b = 0; b < i.called().size(); ++b) {
    std::vector<Slice> arguments;
    for (const ValueRef& v : ArrayLeaves(i.operand(b + 1))) {
      arguments.push_back(SliceOf(scope, ResolveValue(v, true)));
      Touch(arguments.back());
    }
    auto branch = std::make_unique<StepList>();
    KRAFLA_TRY(PlanComputation(*i.called(b), arguments, results, *branch, false));
    step.branches.push_back(std::move(branch));
  }
  ++now_;
  for (const Slice& s : results) Touch(s);
  plan_.instruction_count += 1;
  steps.steps.push_back(std::move(step));
  return {};
}

Result<int> ModulePlanner::PlanCallee(const Computation& c) {
  if (auto known = callee_of_.find(&c); known != callee_of_.end()) return known->second;
  Callee callee;
  const std::size_t begin = plan_.allocations.size();
  const int began = ++now_;
  for (const Instruction* p : c.parameters())
    for (const ValueRef& v : ArrayLeaves(p)) {
      callee.parameters.push_back(NewTemporary(LeafShape(v).byte_size()));
      Touch(callee.parameters.back());
    }
  for (const ValueRef& v : ArrayLeaves(c.root())) callee.results.push_back(NewTemporary(LeafShape(v).byte_size()));
  // The loops around the call do not concern the callee, whose steps touch its own frame only.
  std::vector<int> loop_starts, touched_in_loop, calls;
  loop_starts.swap(loop_starts_), touched_in_loop.swap(touched_in_loop_), calls.swap(calls_);
  StepList steps;
  KRAFLA_TRY(PlanComputation(c, callee.parameters, callee.results, steps, false));
  loop_starts.swap(loop_starts_), touched_in_loop.swap(touched_in_loop_), calls.swap(calls_);
  callee.calls = std::move(calls);
  ++now_;
  for (const Slice& s : callee.results) Touch(s);
  KRAFLA_ASSIGN(ArenaSize size, Pack(begin, Frames::kHavePlaces));
  const std::size_t end = plan_.allocations.size();
  callee.frame = NewTemporary(size.bytes).allocation;
  touched_[static_cast<std::size_t>(callee.frame)] = {began, now_};
  for (std::size_t a = begin; a < end; ++a)
    if (plan_.allocations[a].kind == Allocation::Kind::kArena && frame_of_[a] < 0 &&
        !is_frame_.contains(static_cast<int>(a)))
      frame_of_[a] = callee.frame;
  is_frame_.insert(callee.frame);
  plan_.callees.push_back(std::move(steps));
  callees_.push_back(std::move(callee));
  const int number = static_cast<int>(callees_.size()) - 1;
  callee_of_.emplace(&c, number);
  return number;
}

Result<> ModulePlanner::PlanCall(Scope& scope, int number, StepList& steps) {
  const Instruction& i = *scope.pieces[static_cast<std::size_t>(number)].group->heroes[0];
  std::vector<Slice> given;
  for (const Instruction* o : i.operands())
    for (const ValueRef& v : ArrayLeaves(o)) {
      given.push_back(SliceOf(scope, ResolveValue(v, true)));
      Touch(given.back());
    }
  KRAFLA_ASSIGN(const int called, PlanCallee(*i.called(0)));
  calls_.push_back(called);
  const Callee& callee = callees_[static_cast<std::size_t>(called)];
  const Slice frame{callee.frame, 0, 0};
  Touch(frame);
  for (std::size_t k = 0; k < given.size(); ++k) AddCopy(given[k], callee.parameters[k], steps);
  ++now_;
  steps.steps.push_back(CallStep{{called}, &i});
  std::size_t k = 0;
  for (const ValueRef& v : ArrayLeaves(&i)) AddCopy(callee.results[k++], SliceOf(scope, v), steps);
  Touch(frame);
  plan_.instruction_count += 1;
  return {};
}

}  // namespace krafla::plan
