// SPDX-License-Identifier: Apache-2.0
// Puts the body of every call, fusion and asynchronous computation in the place of the call (JAX outlines every jit
// within a jit; XLA does the same in xla/service/call_inliner.cc), and gives each while, conditional and branch a
// computation of its own, so that later passes may rewrite it without looking at other callers
// (xla/service/flatten_call_graph.cc). A computation with several callers of which copies would make the module too
// large stays as it is: all of its callers become calls, those of a while or conditional within a computation of their
// own that does nothing but call.
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {

namespace {

class Inliner {
 public:
  Inliner(Module& module, const PassOptions& options) : module_(module), options_(options) {
    for (const auto& c : module.computations()) size_ += static_cast<int64_t>(c->instructions().size());
    budget_ = options.inline_growth + 4 * size_;
  }

  Result<bool> Run() {
    bool changed = false;
    const std::vector<Computation*> order = ReachableComputations(module_);
    std::unordered_map<const Computation*, int64_t> copies;  // that its callers ask for
    for (const Computation* c : order)
      for (const auto& i : c->instructions())
        if (IsCall(i->opcode()) || IsControl(i->opcode()))
          for (const Computation* callee : i->called()) ++copies[callee];
    for (Computation* c : order) {
      KRAFLA_TRY(c->SortTopologically());
      KRAFLA_ASSIGN(bool inlined, InlineCallsOf(*c));
      changed |= inlined;
      // What follows a copy sees its operands first.
      if (inlined) KRAFLA_TRY(c->SortTopologically());
      Decide(*c, copies[c]);
    }
    KRAFLA_ASSIGN(bool cloned, Unshare());
    return changed || cloned;
  }

 private:
  static bool IsCall(Opcode op) { return op == Opcode::kCall || op == Opcode::kFusion || op == Opcode::kAsyncStart; }
  static bool IsControl(Opcode op) { return op == Opcode::kWhile || op == Opcode::kConditional; }

  // Whether the callers of `c`, which calls nothing any more but what stays, get copies of it.
  void Decide(const Computation& c, int64_t copies) {
    int64_t whole = static_cast<int64_t>(c.instructions().size());
    for (const auto& i : c.instructions())
      if (IsControl(i->opcode()))
        for (const Computation* callee : i->called()) whole += outlined_.contains(callee) ? 4 : whole_.at(callee);
    whole_[&c] = whole;
    if (copies <= 1) return;
    // The first copy takes the place of the original.
    if (whole <= budget_ / (copies - 1)) {
      budget_ -= whole * (copies - 1);
    } else {
      outlined_.insert(&c);
    }
  }

  Result<> Grow(const Computation& by) {
    size_ += static_cast<int64_t>(by.instructions().size());
    if (size_ <= options_.max_instructions) return {};
    return ResourceExhausted("Inlining the calls of computation '{}' would make more than {} instructions.", by.name(),
                             options_.max_instructions);
  }

  Result<bool> InlineCallsOf(Computation& c) {
    std::vector<Instruction*> order;
    for (const auto& i : c.instructions()) order.push_back(i.get());
    std::unordered_map<const Instruction*, Instruction*> async_results;
    bool changed = false;
    // Instructions are added at the end, so where a copied one has a side effect, control edges keep its place among
    // the others of its computation.
    Instruction* last_effect = nullptr;
    bool moved_effects = false;
    auto follow_effects = [&](Instruction* i) {
      if (last_effect != nullptr && moved_effects) i->AddControlPredecessor(last_effect);
      last_effect = i;
    };
    std::vector<Instruction*> gone;
    for (Instruction* i : order) {
      Opcode op = i->opcode();
      bool done = op == Opcode::kAsyncDone || op == Opcode::kAsyncUpdate;
      if (IsCall(op) && !(op == Opcode::kCall && outlined_.contains(i->called(0)))) {
        const Computation& callee = *i->called(0);
        std::size_t before = c.instructions().size();
        moved_effects |= effects_.Has(callee);
        Instruction* result = nullptr;
        if (outlined_.contains(&callee)) {
          Rewriter rewrite(*i);
          result = rewrite.Add(Opcode::kCall, callee.root()->shape(), {i->operands().begin(), i->operands().end()},
                               CallAttributes{}, {i->called(0)});
        } else {
          KRAFLA_TRY(Grow(callee));
          result = InlineInto(c, callee, i->operands());
        }
        if (effects_.Has(callee)) {
          for (std::size_t n = before; n < c.instructions().size(); ++n)
            if (effects_.Has(*c.instructions()[n])) follow_effects(c.instructions()[n].get());
        }
        if (op == Opcode::kAsyncStart) async_results[i] = result;
        else Replace(i, result);
        gone.push_back(i);
        changed = true;
        continue;
      }
      if (done) {
        auto it = async_results.find(i->operand(0));
        if (it == async_results.end()) continue;
        Instruction* result = it->second;
        if (op == Opcode::kAsyncUpdate) async_results[i] = result;
        else Replace(i, result);
        gone.push_back(i);
        continue;
      }
      if (effects_.Has(*i)) follow_effects(i);
    }
    if (changed) RemoveInlined(c, gone);
    return changed;
  }

  // The calls themselves have no users left, but look as if they had side effects.
  void RemoveInlined(Computation& c, std::span<Instruction* const> gone) {
    std::unordered_set<const Instruction*> set(gone.begin(), gone.end());
    std::vector<Instruction*> removable;
    for (Instruction* i : gone) {
      bool free = !i->IsRoot();
      for (const Instruction* user : i->users()) free &= set.contains(user);
      if (free) removable.push_back(i);
    }
    size_ -= static_cast<int64_t>(removable.size());
    c.RemoveAll(removable);
  }

  Result<bool> Unshare() {
    bool changed = false;
    std::unordered_map<const Computation*, int64_t> sites;
    for (const Computation* c : ReachableComputations(module_))
      for (const auto& i : c->instructions())
        for (const Computation* callee : i->called()) ++sites[callee];
    // Callers first, so that what a copy calls is unshared in its turn.
    std::vector<Computation*> work = {module_.entry()};
    std::unordered_set<const Computation*> visited = {module_.entry()};
    while (!work.empty()) {
      Computation* c = work.back();
      work.pop_back();
      for (const auto& i : c->instructions()) {
        const bool control = IsControl(i->opcode());
        std::vector<Computation*> called(i->called().begin(), i->called().end());
        for (Computation*& callee : called) {
          if (control && outlined_.contains(callee)) {
            callee = CallOf(*callee);
            changed = true;
          } else if (control && sites[callee] > 1) {
            KRAFLA_TRY(Grow(*callee));
            --sites[callee];
            callee = CloneComputation(*callee);
            sites[callee] = 1;
            for (const auto& inner : callee->instructions())
              for (const Computation* c2 : inner->called()) ++sites[c2];
            changed = true;
          }
          if (visited.insert(callee).second) work.push_back(callee);
        }
        i->set_called(std::move(called));
      }
    }
    return changed;
  }

  // A computation that calls `callee`.
  Computation* CallOf(Computation& callee) {
    Computation* out = module_.AddComputation(callee.name());
    out->set_execution_thread(callee.execution_thread());
    std::vector<Instruction*> parameters;
    for (const Instruction* p : callee.parameters()) parameters.push_back(out->AddClone(*p, {}));
    out->set_root(out->Add(Opcode::kCall, callee.root()->shape(), std::move(parameters), CallAttributes{}, {&callee}));
    size_ += static_cast<int64_t>(out->instructions().size());
    return out;
  }

  Module& module_;
  const PassOptions& options_;
  int64_t size_ = 0, budget_ = 0;
  std::unordered_map<const Computation*, int64_t> whole_;  // instructions, with those of what it owns
  std::unordered_set<const Computation*> outlined_;
  SideEffects effects_;
};

}  // namespace

Result<bool> CallInliner(Module& module, const PassOptions& options) {
  int64_t callers = 0;
  for (Opcode op : {Opcode::kCall, Opcode::kFusion, Opcode::kAsyncStart, Opcode::kWhile, Opcode::kConditional})
    callers += module.CountOf(op);
  return callers == 0 ? false : Inliner(module, options).Run();
}

}  // namespace krafla
