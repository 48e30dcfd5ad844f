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

struct SliceHash {
  std::size_t operator()(const Slice& s) const {
    return std::hash<int64_t>()(s.offset * 1000003 + s.allocation) ^ std::hash<int64_t>()(s.size * 31);
  }
};

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
// Executors evaluate a point's values before its stores, but a value that is only read they may read as late as they
// store it: such a one must not go elsewhere.
bool SafeInPlace(const KernelPlan& kernel, int read, int written) {
  const auto* loop = std::get_if<LoopKernel>(&kernel.body);
  if (loop == nullptr) return false;
  const auto node = [&](NodeId id) -> const Node& { return loop->program.nodes[static_cast<std::size_t>(id)]; };
  const Store* store = nullptr;
  for (const Store& s : loop->program.stores) {
    if (s.buffer == written) {
      if (store != nullptr || s.mask != kNoNode) return false;
      store = &s;
      continue;
    }
    const Node* source = &node(s.node);
    while ((source->op == NodeOp::kBitcast || source->op == NodeOp::kConvert) && source->operands[0] != kNoNode)
      source = &node(source->operands[0]);
    if ((source->op == NodeOp::kLoad && source->buffer == read) || s.mask != kNoNode) return false;
  }
  if (store == nullptr) return false;
  for (const Node& n : loop->program.nodes)
    if (n.op == NodeOp::kLoad && n.buffer == read && (n.index != store->index || n.storage != store->storage))
      return false;
  return true;
}

// One computation's kernels, made before any buffer is chosen.
struct Piece {
  const FusionGroup* group = nullptr;
  std::vector<BuiltKernel> kernels;  // several for a concatenate; none for control flow
  int instructions = 0;
};

class Planner {
 public:
  Planner(std::unique_ptr<Module> module, const PlanOptions& options) : options_(options) {
    plan_.module = std::move(module);
  }

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
    frame_of_.push_back(-1);
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
    if (!loop_starts_.empty() && last < loop_starts_.back()) touched_in_loop_.push_back(s.allocation);
    if (first < 0) first = now_;
    last = std::max(last, now_);
  }

  // More than any machine has, and far from where sums would overflow.
  static constexpr int64_t kMaxTemporaries = int64_t{1} << 56;

  // Packs the temporaries among the allocations from `begin` on that are no parts of a frame. Of a shared computation
  // they make one allocation, its frame (those of computations that it calls are not in it: others call them too); of
  // the program, the arena.
  enum class Frames : uint8_t { kAreTemporaries, kHavePlaces };
  Result<ArenaSize> Pack(std::size_t begin, Frames frames) {
    std::vector<LiveRange> ranges;
    std::vector<std::size_t> packed;
    int64_t total = 0;
    for (std::size_t a = begin; a < plan_.allocations.size(); ++a) {
      if (plan_.allocations[a].kind != Allocation::Kind::kArena || touched_[a].first < 0 || frame_of_[a] >= 0) continue;
      if (frames == Frames::kHavePlaces && is_frame_.contains(static_cast<int>(a))) continue;
      const int64_t size = plan_.allocations[a].size;
      if (size > kMaxTemporaries - total)
        return ResourceExhausted("The program's intermediate values take more than {} bytes; one has {}.",
                                 kMaxTemporaries, size);
      total += size;
      ranges.push_back({size, touched_[a].first, touched_[a].second, 0});
      packed.push_back(a);
    }
    const ArenaSize size = PackArena(ranges);
    for (std::size_t n = 0; n < packed.size(); ++n) plan_.allocations[packed[n]].offset = ranges[n].offset;
    return size;
  }

  Result<> PackTemporaries() {
    // A computation that is called again calls again what it calls. Callees are done before their callers.
    for (std::size_t c = callees_.size(); c-- > 0;)
      for (int inner : callees_[c].calls) {
        auto& [first, last] = touched_[static_cast<std::size_t>(callees_[static_cast<std::size_t>(inner)].frame)];
        last = std::max(last, touched_[static_cast<std::size_t>(callees_[c].frame)].second);
      }
    KRAFLA_ASSIGN(ArenaSize size, Pack(0, Frames::kAreTemporaries));
    for (std::size_t a = 0; a < plan_.allocations.size(); ++a)
      if (frame_of_[a] >= 0)
        plan_.allocations[a].offset += plan_.allocations[static_cast<std::size_t>(frame_of_[a])].offset;
    plan_.arena_size = size.bytes;
    plan_.peak_live_bytes = size.largest_live_set;
    return {};
  }

  // ---- one computation ----------------------------------------------------------------------------------------------

  struct Scope {
    const Computation* computation = nullptr;
    FusionPlan fusion;
    std::vector<Piece> pieces;
    SliceMap slices;  // values that have a place
    std::unordered_map<Slice, std::vector<ValueRef>, SliceHash>
        loop_states;                                                       // those that a while makes, by their place
    std::unordered_map<ValueRef, std::vector<int>, ValueRefHash> readers;  // pieces that read a value, rising
    std::unordered_map<ValueRef, int, ValueRefHash> results;               // how many results a value is

    void Place(const ValueRef& v, const Slice& slice) {
      slices[v] = slice;
      if (v.instruction->opcode() == Opcode::kWhile) loop_states[slice].push_back(v);
    }
    // Whether `v` is a result beside the result `except`, or any.
    bool IsResult(const ValueRef& v) const { return results.contains(v); }
    bool IsResult(const ValueRef& v, const ValueRef& except) const {
      auto it = results.find(v);
      return it != results.end() && it->second > (v == except ? 1 : 0);
    }
    std::unordered_map<ValueRef, int, ValueRefHash> maker;  // the piece that makes a value
  };

  Result<> BuildPieces(Scope& scope) {
    std::unordered_set<const Instruction*> counted;
    for (const FusionGroup& group : scope.fusion.groups()) {
      Piece piece;
      piece.group = &group;
      piece.instructions = CountInstructions(scope.fusion, group, counted);
      if (group.kind == FusionGroup::Kind::kConcatenate) {
        KRAFLA_ASSIGN(piece.kernels, KernelBuilder(scope.fusion, group).BuildConcatenate());
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
      } else if (!IsControl(group.kind)) {
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
        if (IsControl(piece.group->kind)) {
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

  static bool IsControl(FusionGroup::Kind kind) {
    return kind == FusionGroup::Kind::kWhile || kind == FusionGroup::Kind::kConditional ||
           kind == FusionGroup::Kind::kCall;
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

  int CountInstructions(const FusionPlan& fusion, const FusionGroup& group,
                        std::unordered_set<const Instruction*>& counted) {
    int out = 0;
    std::vector<const Instruction*> stack(group.heroes.begin(), group.heroes.end());
    stack.insert(stack.end(), group.roots.begin(), group.roots.end());
    std::unordered_set<const Instruction*> own(stack.begin(), stack.end());
    while (!stack.empty()) {
      const Instruction* i = stack.back();
      stack.pop_back();
      if (!own.contains(i) && fusion.HasBuffer({i, 0})) continue;
      if (!counted.insert(i).second) continue;
      if (!IsOneOf(i->opcode(), {Opcode::kParameter, Opcode::kConstant, Opcode::kTuple, Opcode::kGetTupleElement}))
        ++out;
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
    KRAFLA_ASSIGN(scope.fusion, FusionPlan::Make(c, options_.fusion, &effects_));
    KRAFLA_TRY(BuildPieces(scope));

    std::size_t n = 0;
    std::vector<ValueRef> parameters;
    for (const Instruction* p : c.parameters())
      for (const ValueRef& v : ArrayLeaves(p)) {
        parameters.push_back(v);
        scope.Place(v, arguments[n++]);
      }
    std::vector<ValueRef> roots;
    for (const ValueRef& v : ArrayLeaves(c.root())) {
      roots.push_back(ResolveValue(v, true));
      ++scope.results[roots.back()];
    }

    if (is_entry && options_.alias_donated) AliasDonated(scope, parameters, roots, results);
    std::unordered_map<Slice, std::vector<ValueRef>, SliceHash> held;
    for (const ValueRef& p : parameters) held[scope.slices.at(p)].push_back(p);
    for (std::size_t r = 0; r < roots.size(); ++r) Preassign(scope, held, roots[r], results[r]);

    for (std::size_t p = 0; p < scope.pieces.size(); ++p) KRAFLA_TRY(PlanPiece(scope, static_cast<int>(p), steps));

    CopyRoots(scope, roots, results, steps);
    return {};
  }

  // Root values that are not yet where they must be. All sources are read before any is overwritten.
  void CopyRoots(Scope& scope, std::span<const ValueRef> roots, std::span<const Slice> results, StepList& steps) {
    std::vector<Slice> sources;
    for (const ValueRef& v : roots) sources.push_back(SliceOf(scope, v));
    std::unordered_set<Slice, SliceHash> overwritten;
    for (std::size_t r = 0; r < roots.size(); ++r)
      if (!(sources[r] == results[r])) overwritten.insert(results[r]);
    for (std::size_t r = 0; r < roots.size(); ++r) {
      if (sources[r] == results[r] || !overwritten.contains(sources[r])) continue;
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
    scope.Place(v, made);
    return made;
  }

  // Whether a piece after `piece` reads `v`. Results are not asked for here.
  static bool ReadAfter(const Scope& scope, const ValueRef& v, int piece) {
    auto it = scope.readers.find(v);
    return it != scope.readers.end() && it->second.back() > piece;
  }

  // What `v` is where an update in place makes it of that value, which nothing needs afterwards.
  std::optional<ValueRef> UpdatedInPlace(const Scope& scope, const ValueRef& v) {
    auto it = scope.maker.find(v);
    if (it == scope.maker.end()) return std::nullopt;
    const Instruction* update = UpdatedOperand(scope.pieces[static_cast<std::size_t>(it->second)]);
    if (update == nullptr || update != v.instruction) return std::nullopt;
    ValueRef from = ResolveValue({update->operand(static_cast<std::size_t>(v.leaf)), 0}, true);
    // Whoever else reads what is overwritten must have done so.
    if (ReadAfter(scope, from, it->second) || ReadsWhileUpdating(scope, it->second, from)) return std::nullopt;
    return from;
  }

  // The update's own kernel reads the array that it writes, elsewhere than where it writes.
  static bool ReadsWhileUpdating(const Scope& scope, int piece, const ValueRef& from) {
    for (const BuiltKernel& k : scope.pieces[static_cast<std::size_t>(piece)].kernels) {
      const auto written = std::ranges::find_if(k.kernel.bindings, &Binding::written) - k.kernel.bindings.begin();
      for (std::size_t b = 0; b < k.values.size(); ++b)
        if (k.values[b] == from && k.kernel.bindings[b].read && !k.kernel.bindings[b].written &&
            !SafeInPlace(k.kernel, static_cast<int>(b), static_cast<int>(written)))
          return true;
    }
    return false;
  }

  void AliasDonated(Scope& scope, std::span<const ValueRef> parameters, std::span<const ValueRef> roots,
                    std::span<const Slice> results) {
    std::unordered_map<int64_t, std::size_t> root_of_leaf;
    std::vector<ValueRef> result_leaves = ArrayLeaves(scope.computation->root());
    for (std::size_t r = 0; r < roots.size(); ++r) root_of_leaf.emplace(result_leaves[r].leaf, r);
    std::unordered_map<ValueRef, std::size_t, ValueRefHash> argument_of;
    for (std::size_t q = 0; q < parameters.size(); ++q) argument_of.emplace(parameters[q], q);
    // Where the updates that end in a value begin.
    std::unordered_map<ValueRef, ValueRef, ValueRefHash> start_of;
    auto start = [&](ValueRef v) {
      std::vector<ValueRef> chain;
      while (!start_of.contains(v)) {
        chain.push_back(v);
        std::optional<ValueRef> from = UpdatedInPlace(scope, v);
        if (!from) break;
        v = *from;
      }
      auto known = start_of.find(v);
      const ValueRef first = known != start_of.end() ? known->second : v;
      for (const ValueRef& c : chain) start_of.emplace(c, first);
      return first;
    };
    std::unordered_set<int> taken;
    for (const InputOutputAlias& alias : plan_.module->input_output_aliases) {
      if (alias.output_index.size() > 1 || !alias.parameter_index.empty()) continue;
      int64_t wanted = alias.output_index.empty() ? 0 : alias.output_index[0];
      auto at = root_of_leaf.find(wanted);
      if (at == root_of_leaf.end()) continue;
      const std::size_t r = at->second;
      ValueRef from{scope.computation->parameters()[static_cast<std::size_t>(alias.parameter)], 0};
      if (roots[r] == from || !(start(roots[r]) == from) || !taken.insert(static_cast<int>(alias.parameter)).second)
        continue;
      if (scope.IsResult(from, roots[r])) continue;
      auto argument = argument_of.find(from);
      const ValueRef& given = parameters[argument == argument_of.end() ? 0 : argument->second];
      plan_.result_aliases[static_cast<std::size_t>(wanted)] =
          plan_.allocations[static_cast<std::size_t>(scope.slices[given].allocation)].number;
      scope.Place(from, results[r]);
    }
  }

  // Lets the maker of result `v` write straight to its destination where nothing still needs what is there. `held`: the
  // parameters by their places.
  void Preassign(Scope& scope, const std::unordered_map<Slice, std::vector<ValueRef>, SliceHash>& held,
                 const ValueRef& v, const Slice& destination) {
    if (scope.slices.contains(v) || !scope.maker.contains(v)) return;
    // Of the values that are updated in place to become `v`, those that are made here move to the destination.
    std::vector<ValueRef> moved;
    std::optional<ValueRef> from = v;
    while (from && scope.maker.contains(*from) && !scope.slices.contains(*from) && !scope.IsResult(*from, v)) {
      moved.push_back(*from);
      from = UpdatedInPlace(scope, *from);
    }
    if (moved.empty()) {
      if (!scope.IsResult(v, v)) return;
      moved.push_back(v);
      from = UpdatedInPlace(scope, v);
    }
    int first_write = scope.maker.at(moved.back());
    // Who holds the destination now? (The state of a loop: its parameter.)
    if (auto holders = held.find(destination); holders != held.end()) {
      for (const ValueRef& p : holders->second) {
        bool in_place = from == p;
        if (scope.IsResult(p, v)) return;
        auto it = scope.readers.find(p);
        if (it == scope.readers.end()) continue;
        for (auto reader = it->second.rbegin(); reader != it->second.rend() && *reader >= first_write; ++reader) {
          if (*reader == first_write && (in_place || SafeToShare(scope, *reader, p, moved.back()))) continue;
          return;
        }
      }
    }
    for (const ValueRef& m : moved) scope.Place(m, destination);
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
    if (piece.group->kind == FusionGroup::Kind::kCall) return PlanCall(scope, number, steps);
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
        bool temporary =
            plan_.allocations[static_cast<std::size_t>(source.allocation)].kind == Allocation::Kind::kArena &&
            scope.maker.contains(from);
        if (temporary && !scope.IsResult(from) && !ReadAfter(scope, from, piece) &&
            !ReadsWhileUpdating(scope, piece, from) && OnlyNameOf(scope, from, source))
          scope.Place(made, source);
      }
      Slice destination = SliceOf(scope, made);
      if (!(destination == source)) AddCopy(source, destination, steps);
    }
  }

  // No other value that is still read lies in the same slice.
  static bool OnlyNameOf(const Scope& scope, const ValueRef& v, const Slice& slice) {
    auto states = scope.loop_states.find(slice);
    if (states == scope.loop_states.end()) return true;
    return std::ranges::all_of(states->second, [&](const ValueRef& state) { return state == v; });
  }

  // Temporaries from before a loop that it touches live to its end. touched_in_loop_ lists what the loops that are
  // being planned touch, from `begin` on what this one does; what began within it is no concern of the loops around it.
  void ExtendOverLoop(int start, std::size_t begin) {
    std::size_t kept = begin;
    for (std::size_t n = begin; n < touched_in_loop_.size(); ++n) {
      auto& [first, last] = touched_[static_cast<std::size_t>(touched_in_loop_[n])];
      if (first >= start) continue;
      last = std::max(last, now_);
      touched_in_loop_[kept++] = touched_in_loop_[n];
    }
    touched_in_loop_.resize(kept);
    loop_starts_.pop_back();
  }

  Result<> PlanWhile(Scope& scope, int number, StepList& steps) {
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
        continue;
      }
      if (!scope.slices.contains(states[k])) {
        bool temporary =
            plan_.allocations[static_cast<std::size_t>(init.allocation)].kind == Allocation::Kind::kArena &&
            scope.maker.contains(inits[k]);
        if (temporary && uses[inits[k]] == 1 && !scope.IsResult(inits[k]) && !ReadAfter(scope, inits[k], number) &&
            OnlyNameOf(scope, inits[k], init))
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

  // A computation that several call: its steps work on fixed slices of a frame of its own, which callers copy to and
  // from. (Nothing calls itself, so one frame is enough.)
  struct Callee {
    std::vector<Slice> parameters, results;
    int frame = 0;           // the allocation
    std::vector<int> calls;  // the computations that it calls
  };

  Result<int> PlanCallee(const Computation& c) {
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
    // Loops around the call do not reach into it: all that it touches is its own.
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

  Result<> PlanCall(Scope& scope, int number, StepList& steps) {
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
    steps.steps.push_back(CallStep{called, &i});
    std::size_t k = 0;
    for (const ValueRef& v : ArrayLeaves(&i)) AddCopy(callee.results[k++], SliceOf(scope, v), steps);
    Touch(frame);
    plan_.instruction_count += 1;
    return {};
  }

  const PlanOptions& options_;
  ProgramPlan plan_;
  EffectFacts effects_;
  int now_ = 0;
  std::vector<int> loop_starts_;  // of the loops that are being planned: the step before their first
  std::vector<int> touched_in_loop_;
  std::vector<int> frame_of_;  // by allocation: the allocation that it is a part of, or -1
  std::unordered_set<int> is_frame_;
  std::vector<Callee> callees_;
  std::unordered_map<const Computation*, int> callee_of_;
  std::vector<int> calls_;                    // of the computation that is being planned
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
