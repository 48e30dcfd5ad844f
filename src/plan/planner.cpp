// SPDX-License-Identifier: Apache-2.0
#include "plan/planner.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "numerics/rng.h"
#include "plan/arena.h"
#include "plan/kernel_builder.h"

namespace krafla::plan {
namespace {

using SliceMap = std::unordered_map<ValueRef, Slice, ValueRefHash>;

std::vector<ValueRef> ArrayLeaves(const Instruction* i) {
  std::vector<ValueRef> out;
  int leaf = 0;
  for (const Shape* s : TupleLeaves(i->shape())) {
    if (s->IsArray()) out.push_back({i, leaf});
    ++leaf;
  }
  return out;
}

// Reads of binding `read` and the store to `written` touch the same element in each point, so the two may share bytes.
bool SafeInPlace(const KernelPlan& kernel, int read, int written) {
  const auto* loop = std::get_if<LoopKernel>(&kernel.body);
  if (loop == nullptr || loop->program.stores.size() != 1) return false;
  const Store& store = loop->program.stores[0];
  if (store.buffer != written || store.mask != kNoNode) return false;
  for (const Node& n : loop->program.nodes)
    if (n.op == NodeOp::kLoad && n.buffer == read && (n.index != store.index || n.storage != store.storage)) return false;
  return true;
}

// One computation's kernels, made before any buffer is chosen.
struct Piece {
  const FusionGroup* group = nullptr;
  std::vector<BuiltKernel> kernels;   // several for a concatenate; none for control flow
  int instructions = 0;
};

class Planner {
 public:
  Planner(std::unique_ptr<Module> module, const PlanOptions& options) : options_(options) { plan_.module = std::move(module); }

  Result<ProgramPlan> Run() {
    const Computation& entry = *plan_.module->entry();
    std::vector<Slice> arguments, results;
    int number = 0;
    for (const Instruction* p : entry.parameters())
      for (const Shape* s : TupleLeaves(p->shape())) {
        plan_.arguments.push_back(*s);
        if (s->IsArray()) arguments.push_back(NewAllocation(Allocation::Kind::kArgument, number, s->byte_size()));
        ++number;
      }
    number = 0;
    for (const Shape* s : TupleLeaves(entry.root()->shape())) {
      plan_.results.push_back(*s);
      if (s->IsArray()) results.push_back(NewAllocation(Allocation::Kind::kResult, number, s->byte_size()));
      ++number;
    }
    plan_.result_aliases.assign(plan_.results.size(), -1);
    KRAFLA_TRY(PlanComputation(entry, arguments, results, plan_.steps, /*is_entry=*/true));
    KRAFLA_TRY(PackTemporaries());
    return std::move(plan_);
  }

 private:
  // ---- allocations ------------------------------------------------------------------------------------------------

  Slice NewAllocation(Allocation::Kind kind, int number, int64_t size) {
    plan_.allocations.push_back({kind, number, 0, size});
    touched_.push_back({-1, -1});
    return {static_cast<int>(plan_.allocations.size()) - 1, 0, size};
  }
  Slice NewTemporary(int64_t size) { return NewAllocation(Allocation::Kind::kArena, 0, size); }

  Slice ConstantSlice(const Instruction* constant) {
    auto it = constants_.find(constant);
    if (it != constants_.end()) return it->second;
    const Literal& literal = constant->literal();
    plan_.constants.push_back(&literal);
    Slice out = NewAllocation(Allocation::Kind::kConstant, static_cast<int>(plan_.constants.size()) - 1,
                              literal.shape().byte_size());
    constants_.emplace(constant, out);
    return out;
  }

  Slice DeviceIdSlice(Opcode opcode) {
    const int number = opcode == Opcode::kReplicaId ? 0 : 1;
    std::optional<Slice>& slice = device_ids_[static_cast<std::size_t>(number)];
    if (!slice) slice = NewAllocation(Allocation::Kind::kDeviceId, number, 4);
    return *slice;
  }

  // The 128-bit counter of an rng-get-and-update-state, low word first.
  Slice StateSlice(const Instruction* i) {
    auto it = states_.find(i);
    if (it != states_.end()) return it->second;
    std::vector<std::byte> bytes(16);
    const uint64_t first[2] = {kInitialRngState, 0};
    std::memcpy(bytes.data(), first, bytes.size());
    plan_.states.push_back(std::move(bytes));
    Slice out = NewAllocation(Allocation::Kind::kState, static_cast<int>(plan_.states.size()) - 1, 16);
    states_.emplace(i, out);
    return out;
  }

  void Touch(const Slice& s) {
    auto& [first, last] = touched_[static_cast<std::size_t>(s.allocation)];
    if (first < 0) first = now_;
    last = std::max(last, now_);
  }

  // More than any machine has, and far from where sums would overflow.
  static constexpr int64_t kMaxTemporaries = int64_t{1} << 56;

  Result<> PackTemporaries() {
    std::vector<LiveRange> ranges(plan_.allocations.size());
    int64_t total = 0;
    for (std::size_t a = 0; a < ranges.size(); ++a) {
      if (plan_.allocations[a].kind != Allocation::Kind::kArena || touched_[a].first < 0) continue;
      const int64_t size = plan_.allocations[a].size;
      if (size > kMaxTemporaries - total)
        return ResourceExhausted("The program's intermediate values take more than {} bytes; one has {}.", kMaxTemporaries,
                                 size);
      total += size;
      ranges[a] = {size, touched_[a].first, touched_[a].second, 0};
    }
    ArenaSize size = PackArena(ranges);
    for (std::size_t a = 0; a < ranges.size(); ++a)
      if (plan_.allocations[a].kind == Allocation::Kind::kArena) plan_.allocations[a].offset = ranges[a].offset;
    plan_.arena_size = size.bytes;
    plan_.peak_live_bytes = size.largest_live_set;
    return {};
  }

  // ---- one computation ----------------------------------------------------------------------------------------------

  struct Scope {
    const Computation* computation = nullptr;
    FusionPlan fusion;
    std::vector<Piece> pieces;
    SliceMap slices;                                                          // values that have a place
    std::unordered_map<ValueRef, std::vector<int>, ValueRefHash> readers;     // pieces that read a value
    std::unordered_map<ValueRef, int, ValueRefHash> maker;                    // the piece that makes a value
  };

  Result<> BuildPieces(Scope& scope) {
    std::unordered_set<const Instruction*> counted;
    for (const FusionGroup& group : scope.fusion.groups()) {
      Piece piece;
      piece.group = &group;
      piece.instructions = CountInstructions(scope.fusion, group, counted);
      if (group.kind == FusionGroup::Kind::kConcatenate) {
        for (std::size_t n = 0; n < group.heroes[0]->operand_count(); ++n) {
          if (group.heroes[0]->operand(n)->shape().element_count() == 0) continue;
          KernelBuilder builder(scope.fusion, group);
          KRAFLA_ASSIGN(BuiltKernel kernel, builder.BuildConcatenatePiece(n));
          piece.kernels.push_back(std::move(kernel));
        }
      } else if (group.kind == FusionGroup::Kind::kRng && group.heroes[0]->opcode() == Opcode::kRngGetAndUpdateState) {
        KernelBuilder counter(scope.fusion, group);
        KRAFLA_ASSIGN(BuiltKernel made, counter.BuildRngCounter());
        piece.kernels.push_back(std::move(made));
      } else if (group.kind == FusionGroup::Kind::kRng) {
        KernelBuilder bits(scope.fusion, group), state(scope.fusion, group);
        KRAFLA_ASSIGN(BuiltKernel made, bits.BuildRngBits());
        piece.kernels.push_back(std::move(made));
        KRAFLA_ASSIGN(made, state.BuildRngState());
        piece.kernels.push_back(std::move(made));
      } else if (group.kind != FusionGroup::Kind::kWhile && group.kind != FusionGroup::Kind::kConditional) {
        KernelBuilder builder(scope.fusion, group);
        KRAFLA_ASSIGN(BuiltKernel kernel, builder.Build());
        piece.kernels.push_back(std::move(kernel));
      }
      scope.pieces.push_back(std::move(piece));
    }
    for (std::size_t n = 0; n < scope.pieces.size(); ++n) {
      const Piece& piece = scope.pieces[n];
      int at = static_cast<int>(n);
      for (const BuiltKernel& kernel : piece.kernels)
        for (std::size_t b = 0; b < kernel.values.size(); ++b) {
          if (kernel.kernel.bindings[b].written) scope.maker.emplace(kernel.values[b], at);
          if (ReadsBinding(piece, kernel, b)) scope.readers[kernel.values[b]].push_back(at);
        }
      if (piece.kernels.empty() && !piece.group->heroes.empty()) {
        const Instruction* hero = piece.group->heroes[0];
        if (hero->opcode() == Opcode::kWhile || hero->opcode() == Opcode::kConditional) {
          for (const Instruction* o : hero->operands())
            for (const ValueRef& v : ArrayLeaves(o)) scope.readers[ResolveValue(v, true)].push_back(at);
          for (const ValueRef& v : ArrayLeaves(hero)) scope.maker.emplace(v, at);
        }
      }
      // In-place updates read what they start from.
      if (const Instruction* base = UpdatedOperand(piece)) {
        for (std::size_t k = 0; k < UpdatedCount(*base); ++k)
          scope.readers[ResolveValue({base->operand(k), 0}, true)].push_back(at);
      }
    }
    return {};
  }

  static bool ReadsBinding(const Piece&, const BuiltKernel& kernel, std::size_t b) {
    // A scatter's outputs are read and written; what they start from counts as the read.
    return kernel.kernel.bindings[b].read && !kernel.kernel.bindings[b].written;
  }

  // The dynamic-update-slice or scatter of a piece that updates its first operands in place.
  static const Instruction* UpdatedOperand(const Piece& piece) {
    if (piece.group->kind == FusionGroup::Kind::kDynamicUpdate || piece.group->kind == FusionGroup::Kind::kScatter)
      return piece.group->heroes[0];
    return nullptr;
  }
  static std::size_t UpdatedCount(const Instruction& i) {
    return i.opcode() == Opcode::kScatter ? (i.operand_count() - 1) / 2 : 1;
  }

  int CountInstructions(const FusionPlan& fusion, const FusionGroup& group, std::unordered_set<const Instruction*>& counted) {
    int out = 0;
    std::vector<const Instruction*> stack(group.heroes.begin(), group.heroes.end());
    stack.insert(stack.end(), group.roots.begin(), group.roots.end());
    std::unordered_set<const Instruction*> own(stack.begin(), stack.end());
    while (!stack.empty()) {
      const Instruction* i = stack.back();
      stack.pop_back();
      if (!own.contains(i) && fusion.HasBuffer({i, 0})) continue;
      if (!counted.insert(i).second) continue;
      if (!IsOneOf(i->opcode(), {Opcode::kParameter, Opcode::kConstant, Opcode::kTuple, Opcode::kGetTupleElement})) ++out;
      stack.insert(stack.end(), i->operands().begin(), i->operands().end());
    }
    plan_.instruction_count += out;
    return out;
  }

  // Plans `c` with its parameters' array leaves in `arguments`, leaving its result's array leaves in `results`.
  Result<> PlanComputation(const Computation& c, std::span<const Slice> arguments, std::span<const Slice> results,
                           StepList& steps, bool is_entry) {
    Scope scope;
    scope.computation = &c;
    KRAFLA_ASSIGN(scope.fusion, FusionPlan::Make(c, options_.fusion));
    KRAFLA_TRY(BuildPieces(scope));

    std::size_t n = 0;
    std::vector<ValueRef> parameters;
    for (const Instruction* p : c.parameters())
      for (const ValueRef& v : ArrayLeaves(p)) {
        parameters.push_back(v);
        scope.slices[v] = arguments[n++];
      }
    std::vector<ValueRef> roots;
    for (const ValueRef& v : ArrayLeaves(c.root())) roots.push_back(ResolveValue(v, true));

    if (is_entry && options_.alias_donated) AliasDonated(scope, parameters, roots, results);
    for (std::size_t r = 0; r < roots.size(); ++r) Preassign(scope, parameters, roots, r, results[r]);

    for (std::size_t p = 0; p < scope.pieces.size(); ++p) KRAFLA_TRY(PlanPiece(scope, static_cast<int>(p), steps));

    CopyRoots(scope, roots, results, steps);
    return {};
  }

  // Root values that are not yet where they must be. All sources are read before any is overwritten.
  void CopyRoots(Scope& scope, std::span<const ValueRef> roots, std::span<const Slice> results, StepList& steps) {
    std::vector<Slice> sources;
    for (const ValueRef& v : roots) sources.push_back(SliceOf(scope, v));
    for (std::size_t r = 0; r < roots.size(); ++r) {
      if (sources[r] == results[r]) continue;
      bool overwritten = false;
      for (std::size_t o = 0; o < roots.size(); ++o)
        overwritten = overwritten || (o != r && results[o] == sources[r] && !(sources[o] == results[o]));
      if (!overwritten) continue;
      Slice saved = NewTemporary(sources[r].size);
      AddCopy(sources[r], saved, steps);
      sources[r] = saved;
    }
    for (std::size_t r = 0; r < roots.size(); ++r)
      if (!(sources[r] == results[r])) AddCopy(sources[r], results[r], steps);
    // Results that were written early stay alive to the end.
    for (const Slice& s : results) Touch(s);
  }

  void AddCopy(const Slice& from, const Slice& to, StepList& steps) {
    if (from.size == 0) return;
    ++now_;
    Touch(from);
    Touch(to);
    steps.steps.push_back(CopyStep{from, to});
  }

  Slice SliceOf(Scope& scope, const ValueRef& v) {
    if (v.instruction->opcode() == Opcode::kConstant) return ConstantSlice(v.instruction);
    if (IsOneOf(v.instruction->opcode(), {Opcode::kReplicaId, Opcode::kPartitionId}))
      return DeviceIdSlice(v.instruction->opcode());
    if (v.instruction->opcode() == Opcode::kRngGetAndUpdateState && v.leaf == 1) return StateSlice(v.instruction);
    auto it = scope.slices.find(v);
    if (it != scope.slices.end()) return it->second;
    Slice made = NewTemporary(LeafShape(v).byte_size());
    scope.slices.emplace(v, made);
    return made;
  }

  // The last reader of `v`, or -1. Results count as readers after everything.
  static bool ReadAfter(const Scope& scope, const ValueRef& v, int piece) {
    auto it = scope.readers.find(v);
    if (it == scope.readers.end()) return false;
    for (int r : it->second)
      if (r > piece) return true;
    return false;
  }

  // The values from `v` down that are updated in place one after the other, `v` first, ending with the value that the
  // chain starts from.
  std::vector<ValueRef> UpdateChain(const Scope& scope, ValueRef v) {
    std::vector<ValueRef> out = {v};
    while (true) {
      auto it = scope.maker.find(v);
      if (it == scope.maker.end()) return out;
      const Instruction* update = UpdatedOperand(scope.pieces[static_cast<std::size_t>(it->second)]);
      if (update == nullptr || update != v.instruction) return out;
      ValueRef from = ResolveValue({update->operand(static_cast<std::size_t>(v.leaf)), 0}, true);
      // Whoever else reads what is overwritten must have done so.
      if (ReadAfter(scope, from, it->second)) return out;
      if (ReadsWhileUpdating(scope, it->second, from)) return out;
      out.push_back(from);
      v = from;
    }
  }

  // The update's own kernel reads the array that it writes.
  static bool ReadsWhileUpdating(const Scope& scope, int piece, const ValueRef& from) {
    for (const BuiltKernel& k : scope.pieces[static_cast<std::size_t>(piece)].kernels)
      for (std::size_t b = 0; b < k.values.size(); ++b)
        if (k.values[b] == from && k.kernel.bindings[b].read && !k.kernel.bindings[b].written) return true;
    return false;
  }

  static bool IsResult(std::span<const ValueRef> roots, const ValueRef& v, std::size_t except) {
    for (std::size_t r = 0; r < roots.size(); ++r)
      if (r != except && roots[r] == v) return true;
    return false;
  }

  void AliasDonated(Scope& scope, std::span<const ValueRef> parameters, std::span<const ValueRef> roots,
                    std::span<const Slice> results) {
    std::vector<ValueRef> result_leaves = ArrayLeaves(scope.computation->root());
    std::unordered_set<int> taken;
    for (const InputOutputAlias& alias : plan_.module->input_output_aliases) {
      if (alias.output_index.size() > 1 || !alias.parameter_index.empty()) continue;
      int64_t wanted = alias.output_index.empty() ? 0 : alias.output_index[0];
      for (std::size_t r = 0; r < roots.size(); ++r) {
        if (result_leaves[r].leaf != wanted) continue;
        const Instruction* p = scope.computation->parameters()[static_cast<std::size_t>(alias.parameter)];
        ValueRef from{p, 0};
        std::vector<ValueRef> chain = UpdateChain(scope, roots[r]);
        if (chain.size() < 2 || !(chain.back() == from) || !taken.insert(static_cast<int>(alias.parameter)).second) continue;
        if (IsResult(roots, from, r)) continue;
        int argument = 0;
        for (std::size_t q = 0; q < parameters.size(); ++q)
          if (parameters[q] == from) argument = static_cast<int>(q);
        plan_.result_aliases[static_cast<std::size_t>(wanted)] =
            plan_.allocations[static_cast<std::size_t>(scope.slices[parameters[static_cast<std::size_t>(argument)]].allocation)].number;
        scope.slices[from] = results[r];
      }
    }
  }

  // Lets the maker of root `r` write straight to its destination where nothing still needs what is there.
  void Preassign(Scope& scope, std::span<const ValueRef> parameters, std::span<const ValueRef> roots, std::size_t r,
                 const Slice& destination) {
    const ValueRef& v = roots[r];
    if (scope.slices.contains(v) || !scope.maker.contains(v)) return;
    std::vector<ValueRef> chain = UpdateChain(scope, v);
    // Of the chain only what is made here moves to the destination.
    std::vector<ValueRef> moved;
    for (const ValueRef& c : chain) {
      if (!scope.maker.contains(c) || scope.slices.contains(c) || IsResult(roots, c, r)) break;
      moved.push_back(c);
    }
    if (moved.empty()) {
      if (IsResult(roots, v, r) && !scope.slices.contains(v)) moved.push_back(v);
      else return;
    }
    int first_write = scope.maker.at(moved.back());
    // Who holds the destination now? (The state of a loop: its parameter.)
    for (const ValueRef& p : parameters) {
      if (!(scope.slices.at(p) == destination)) continue;
      bool in_place = moved.size() < chain.size() && chain[moved.size()] == p;
      for (std::size_t o = 0; o < roots.size(); ++o)
        if (o != r && roots[o] == p) return;
      auto it = scope.readers.find(p);
      if (it == scope.readers.end()) continue;
      for (int reader : it->second) {
        if (reader < first_write) continue;
        if (reader == first_write && (in_place || SafeToShare(scope, reader, p, moved.back()))) continue;
        return;
      }
    }
    for (const ValueRef& m : moved) scope.slices[m] = destination;
  }

  static bool SafeToShare(const Scope& scope, int piece, const ValueRef& read, const ValueRef& written) {
    const Piece& p = scope.pieces[static_cast<std::size_t>(piece)];
    if (p.kernels.size() != 1) return false;
    int r = -1, w = -1;
    for (std::size_t b = 0; b < p.kernels[0].values.size(); ++b) {
      if (p.kernels[0].values[b] == read) r = static_cast<int>(b);
      if (p.kernels[0].values[b] == written) w = static_cast<int>(b);
    }
    return r >= 0 && w >= 0 && SafeInPlace(p.kernels[0].kernel, r, w);
  }

  Result<> PlanPiece(Scope& scope, int number, StepList& steps) {
    Piece& piece = scope.pieces[static_cast<std::size_t>(number)];
    if (piece.group->kind == FusionGroup::Kind::kWhile) return PlanWhile(scope, number, steps);
    if (piece.group->kind == FusionGroup::Kind::kConditional) return PlanConditional(scope, number, steps);
    if (const Instruction* update = UpdatedOperand(piece)) PlaceUpdated(scope, number, *update, steps);
    for (BuiltKernel& built : piece.kernels) {
      bool empty = !std::holds_alternative<HostKernel>(built.kernel.body);
      for (const Binding& b : built.kernel.bindings)
        if (b.written && b.element_count > 0) empty = false;
      if (empty || EmptyIteration(built.kernel)) continue;
      LaunchStep launch;
      ++now_;
      for (const ValueRef& v : built.values) {
        launch.bindings.push_back(SliceOf(scope, v));
        Touch(launch.bindings.back());
      }
      launch.instruction = !piece.group->roots.empty() ? piece.group->roots.back() : piece.group->heroes.back();
      launch.instruction_count = piece.instructions;
      piece.instructions = 0;
      launch.kernel = KernelNumber(std::move(built.kernel));
      steps.steps.push_back(std::move(launch));
    }
    return {};
  }

  // Loops over nothing (an update of no elements) launch nothing.
  static bool EmptyIteration(const KernelPlan& kernel) {
    const auto* loop = std::get_if<LoopKernel>(&kernel.body);
    if (loop == nullptr) return false;
    for (int64_t d : loop->program.space.dims())
      if (d == 0) return true;
    return false;
  }

  int KernelNumber(KernelPlan kernel) {
    uint64_t hash = HashProblem(kernel);
    auto [first, last] = kernels_by_hash_.equal_range(hash);
    for (auto it = first; it != last; ++it)
      if (KernelPlan::SameProblem(plan_.kernels[static_cast<std::size_t>(it->second)], kernel)) return it->second;
    plan_.kernels.push_back(std::move(kernel));
    int number = static_cast<int>(plan_.kernels.size()) - 1;
    kernels_by_hash_.emplace(hash, number);
    return number;
  }

  // Gives the result of an in-place update the buffer of what it starts from, or a copy of it.
  void PlaceUpdated(Scope& scope, int piece, const Instruction& update, StepList& steps) {
    for (std::size_t k = 0; k < UpdatedCount(update); ++k) {
      ValueRef made{&update, update.shape().IsTuple() ? static_cast<int>(k) : 0};
      ValueRef from = ResolveValue({update.operand(k), 0}, true);
      Slice source = SliceOf(scope, from);
      if (!scope.slices.contains(made)) {
        bool temporary = plan_.allocations[static_cast<std::size_t>(source.allocation)].kind == Allocation::Kind::kArena &&
                         scope.maker.contains(from);
        bool results_need_it = false;
        for (const ValueRef& v : ArrayLeaves(scope.computation->root()))
          results_need_it = results_need_it || ResolveValue(v, true) == from;
        if (temporary && !results_need_it && !ReadAfter(scope, from, piece) && !ReadsWhileUpdating(scope, piece, from) &&
            OnlyNameOf(scope, from, source))
          scope.slices[made] = source;
      }
      Slice destination = SliceOf(scope, made);
      if (!(destination == source)) AddCopy(source, destination, steps);
    }
  }

  // No other value that is still read lies in the same slice.
  static bool OnlyNameOf(const Scope& scope, const ValueRef& v, const Slice& slice) {
    for (const auto& [value, s] : scope.slices)
      if (!(value == v) && s == slice && value.instruction->opcode() == Opcode::kWhile) return false;
    return true;
  }

  // Temporaries from before a loop that it touches live to its end.
  void ExtendOverLoop(int start) {
    for (std::size_t a = 0; a < touched_.size(); ++a)
      if (touched_[a].first >= 0 && touched_[a].first < start && touched_[a].second >= start)
        touched_[a].second = std::max(touched_[a].second, now_);
  }

  Result<> PlanWhile(Scope& scope, int number, StepList& steps) {
    const Instruction& loop = *scope.pieces[static_cast<std::size_t>(number)].group->heroes[0];
    const Computation& condition = *loop.called(0);
    const Computation& body = *loop.called(1);
    std::vector<ValueRef> inits, states = ArrayLeaves(&loop), parameters = ArrayLeaves(body.parameters()[0]);
    for (const ValueRef& v : ArrayLeaves(loop.operand(0))) inits.push_back(ResolveValue(v, true));
    std::vector<ValueRef> next = ArrayLeaves(body.root());
    std::vector<Slice> slices;
    for (std::size_t k = 0; k < states.size(); ++k) {
      Slice init = SliceOf(scope, inits[k]);
      bool invariant = ResolveValue(next[k], true) == parameters[k];
      if (invariant && !scope.slices.contains(states[k])) {
        slices.push_back(init);
        scope.slices[states[k]] = init;
        continue;
      }
      if (!scope.slices.contains(states[k])) {
        int uses = static_cast<int>(std::count(inits.begin(), inits.end(), inits[k]));
        bool temporary = plan_.allocations[static_cast<std::size_t>(init.allocation)].kind == Allocation::Kind::kArena &&
                         scope.maker.contains(inits[k]);
        bool results_need_it = false;
        for (const ValueRef& v : ArrayLeaves(scope.computation->root()))
          results_need_it = results_need_it || ResolveValue(v, true) == inits[k];
        if (temporary && uses == 1 && !results_need_it && !ReadAfter(scope, inits[k], number) && OnlyNameOf(scope, inits[k], init))
          scope.slices[states[k]] = init;
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
    for (const Slice& s : slices) Touch(s);
    step.predicate = NewTemporary(1);
    Touch(step.predicate);
    Slice predicate[] = {step.predicate};
    KRAFLA_TRY(PlanComputation(condition, slices, predicate, *step.condition, false));
    KRAFLA_TRY(PlanComputation(body, slices, slices, *step.body, false));
    ++now_;
    for (const Slice& s : slices) Touch(s);
    Touch(step.predicate);
    ExtendOverLoop(start);
    plan_.instruction_count += 1;
    steps.steps.push_back(std::move(step));
    return {};
  }

  Result<> PlanConditional(Scope& scope, int number, StepList& steps) {
    const Instruction& i = *scope.pieces[static_cast<std::size_t>(number)].group->heroes[0];
    ConditionalStep step;
    step.instruction = &i;
    step.index = SliceOf(scope, ResolveValue({i.operand(0), 0}, true));
    step.index_is_pred = i.operand(0)->shape().element_type() == ElementType::kPred;
    ++now_;
    Touch(step.index);
    std::vector<Slice> results;
    for (const ValueRef& v : ArrayLeaves(&i)) {
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

  const PlanOptions& options_;
  ProgramPlan plan_;
  int now_ = 0;
  std::vector<std::pair<int, int>> touched_;  // by allocation: first and last step
  std::array<std::optional<Slice>, 2> device_ids_;
  std::unordered_map<const Instruction*, Slice> constants_, states_;
  std::unordered_multimap<uint64_t, int> kernels_by_hash_;
};

}  // namespace

Result<ProgramPlan> PlanProgram(VerifiedModule module, const PlanOptions& options) {
  return Planner(std::move(module).Release(), options).Run();
}

}  // namespace krafla::plan
