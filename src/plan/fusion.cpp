// SPDX-License-Identifier: Apache-2.0
#include "plan/fusion.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/work.h"
#include "plan/families/dot_operands.h"
#include "plan/group_graph.h"
#include "plan/kernel_builder.h"

namespace krafla::plan {

bool FusionPlan::HasBuffer(const ValueRef& v) const {
  const Instruction& i = *v.instruction;
  if (i.opcode() == Opcode::kConstant) return i.shape().element_count() != 1;
  // The ids of the device lie ready like arguments.
  if (IsOneOf(i.opcode(), {Opcode::kParameter, Opcode::kReplicaId, Opcode::kPartitionId})) return true;
  return kept_.contains(&i);
}

// Works out one FusionPlan. Steps in Run(), in order.
class FusionPlanner {
 public:
  FusionPlanner(const Computation& computation, const FusionOptions& options, EffectFacts& effects)
      : computation_(computation), options_(options), effects_(effects) {}

  Result<FusionPlan> Run() {
    Classify();
    DecideKept();
    MakeGroups();
    if (options_.fuse) {
      if (options_.reduce_regions) MergeReduceRegions();
      if (options_.dot_epilogues) MergeEpilogues();
      if (options_.multi_output) MergeSiblings();
    }
    KRAFLA_TRY(OrderGroups());
    return std::move(plan_);
  }

 private:
  using Kind = FusionGroup::Kind;

  enum class Class : uint8_t { kStructural, kFusible, kHero };
  // A place where an inlined value is evaluated: kernel `group`, by index map `map`, `evals` times. Its program has it
  // `copies` times, once for each way in which it reaches the value's index.
  struct Context {
    int group, map;
    double evals;
    int64_t copies = 1;
    int dilations = 0;  // pads that lay elements apart on the way there, and windows
  };
  struct Uses {
    bool keep = false;
    bool many = false;  // more places than it could be inlined into; a place may be listed several times
    std::vector<Context> contexts;
  };
  // What is inlined into a kernel, and how often its program evaluates that in all.
  struct GroupSize {
    int nodes = 0;
    int64_t evaluations = 0;
    // Where the device limits a kernel's buffers: the values that it reads, if nothing more is inlined, and writes.
    std::unordered_set<ValueRef, ValueRefHash> reads;
    int64_t results = 1;
  };
  static constexpr int64_t kFewEvaluations = 128, kMostCopiesEach = 4;  // the latter on average
  static constexpr std::size_t kMostContexts = 12;
  static constexpr int64_t kMostCopies = int64_t{1} << 20;
  // Of merged kernels: reductions, reductions and roots, and how many failed merges are tried for one reduction.
  static constexpr std::size_t kMostReductions = 8, kMostMembers = 24;
  static constexpr int kMostRefusals = 16;

  std::optional<Kind> HeroKind(const Instruction& i) const {
    const Opcode op = i.opcode();
    if (op == Opcode::kReduce) return KernelBuilder::TakesReduce(i) ? Kind::kReduce : Kind::kHost;
    if (op == Opcode::kReduceWindow) return KernelBuilder::TakesReduceWindow(i) ? Kind::kReduce : Kind::kHost;
    if (op == Opcode::kDot) return KernelBuilder::TakesDot(i) ? Kind::kDot : Kind::kHost;
    if (op == Opcode::kConvolution) return KernelBuilder::TakesConvolution(i) ? Kind::kConvolution : Kind::kHost;
    if (op == Opcode::kSort) return KernelBuilder::TakesSort(i) ? Kind::kSort : Kind::kHost;
    if (op == Opcode::kScan) return KernelBuilder::TakesScan(i) ? Kind::kScan : Kind::kHost;
    if (op == Opcode::kScatter) return KernelBuilder::TakesScatter(i) ? Kind::kScatter : Kind::kHost;
    if (op == Opcode::kRngBitGenerator) return KernelBuilder::TakesRngBitGenerator(i) ? Kind::kRng : Kind::kHost;
    if (op == Opcode::kFft) return KernelBuilder::TakesFft(i) ? Kind::kFft : Kind::kHost;
    if (IsOneOf(op, {Opcode::kCholesky, Opcode::kTriangularSolve, Opcode::kCustomCall}))
      return KernelBuilder::TakesLinalg(i) ? Kind::kLinalg : Kind::kHost;
    if (op == Opcode::kRngGetAndUpdateState) return Kind::kRng;
    if (op == Opcode::kWhile) return Kind::kWhile;
    if (op == Opcode::kConditional) return Kind::kConditional;
    if (op == Opcode::kCall) return IsStaticComputation(*i.called(0)) ? Kind::kCall : Kind::kHost;
    if (op == Opcode::kDynamicUpdateSlice) return IsEmittable(i) && FitsIndex(i) ? Kind::kDynamicUpdate : Kind::kHost;
    if (op == Opcode::kConcatenate && IsManyPieces(i) && !HoldsIndexVectors(i)) return Kind::kConcatenate;
    if (IsEmittable(i) && FitsIndex(i)) return std::nullopt;
    return Kind::kHost;
  }

  // Whether a concatenate is better written piece by piece than by a choice for each element.
  static bool IsManyPieces(const Instruction& i) {
    return IsEmittable(i) && FitsIndex(i) && (i.shape().element_count() >= 4096 || i.operand_count() > 4);
  }

  // Whether a concatenate puts the components of the index vectors of gathers side by side, and they read each no more
  // than once: then every reader knows which piece it reads, and nothing has to be put anywhere.
  static bool HoldsIndexVectors(const Instruction& i) {
    std::vector<const Instruction*> names = {&i};
    for (std::size_t n = 0; n < names.size(); ++n) {
      for (const Instruction* user : names[n]->users()) {
        if (user->opcode() == Opcode::kCopy) {
          names.push_back(user);
          continue;
        }
        if (user->opcode() != Opcode::kGather || user->operand(0) == names[n] || !IsEmittable(*user)) return false;
        const auto& a = user->attr<GatherAttributes>();
        if (a.index_vector_dim != i.attr<DimensionsAttributes>().dimensions[0]) return false;
        if (user->shape().element_count() > i.shape().element_count()) return false;
      }
    }
    return !i.users().empty();
  }

  // The evaluator runs the computations into which dynamic_padder puts what it has no rule for.
  static bool IsStaticComputation(const Computation& c) {
    return std::ranges::none_of(c.instructions(), [](const auto& i) { return i->shape().IsDynamic(); });
  }

  // Element offsets are 32-bit in kernels.
  static bool FitsIndex(const Instruction& i) {
    constexpr int64_t kLimit = int64_t{1} << 30;
    if (i.shape().element_count() > kLimit) return false;
    for (const Instruction* o : i.operands())
      if (o->shape().IsArray() && o->shape().element_count() > kLimit) return false;
    return true;
  }

  static bool IsStructural(Opcode op) {
    return IsOneOf(op, {Opcode::kParameter, Opcode::kConstant, Opcode::kTuple, Opcode::kGetTupleElement, Opcode::kCopy,
                        Opcode::kReshape, Opcode::kOptimizationBarrier, Opcode::kAddDependency, Opcode::kAfterAll,
                        Opcode::kDomain, Opcode::kReplicaId, Opcode::kPartitionId});
  }

  std::size_t Index(const Instruction* i) const { return static_cast<std::size_t>(i->id()); }

  void Classify() {
    std::size_t bound = 0;
    for (const auto& i : computation_.instructions()) bound = std::max(bound, Index(i.get()) + 1);
    class_.resize(bound, Class::kStructural);
    hero_kind_.resize(bound, Kind::kLoop);
    position_.resize(bound, 0);
    group_of_.resize(bound, -1);
    int n = 0;
    for (const auto& i : computation_.instructions()) {
      position_[Index(i.get())] = n++;
      if (IsStructural(i->opcode())) continue;
      if (auto kind = HeroKind(*i)) {
        class_[Index(i.get())] = Class::kHero;
        hero_kind_[Index(i.get())] = *kind;
      } else {
        class_[Index(i.get())] = Class::kFusible;
      }
    }
  }

  // ---- kept or inlined ------------------------------------------------------------------------------------------

  void Keep(std::vector<Uses>& uses, const Instruction* i) { uses[Index(i)].keep = true; }

  static void AddContext(Uses& uses, const Context& c) {
    if (!uses.many)
      for (Context& have : uses.contexts)
        if (have.group == c.group && have.map == c.map) {
          have.evals = std::max(have.evals, c.evals);
          have.copies = std::max(have.copies, c.copies);
          have.dilations = std::max(have.dilations, c.dilations);
          return;
        }
    if (uses.contexts.size() == kMostContexts) uses.many = true;
    uses.contexts.push_back(c);
  }

  void DecideKept() {
    std::vector<Uses> uses(class_.size());
    const auto& all = computation_.instructions();
    Keep(uses, computation_.root());
    for (auto it = all.rbegin(); it != all.rend(); ++it) {
      const Instruction& i = **it;
      Uses& mine = uses[Index(&i)];
      // Nothing reads it: dead, or the root.
      if (!mine.keep && !mine.many && mine.contexts.empty() && !effects_.HasEffect(i)) continue;
      switch (class_[Index(&i)]) {
        case Class::kStructural:
          // Other names of one value pass on what is asked of them.
          for (const Instruction* o : i.operands()) {
            bool one_value = IsOneOf(i.opcode(), {Opcode::kCopy, Opcode::kReshape, Opcode::kOptimizationBarrier,
                                                  Opcode::kAddDependency, Opcode::kDomain});
            if (!one_value || mine.keep) {
              Keep(uses, o);
            } else {
              for (const Context& c : mine.contexts) AddContext(uses[Index(o)], c);
            }
          }
          break;
        case Class::kHero:
          plan_.kept_.insert(&i);
          StartGroup(i);
          HeroUses(i, uses);
          break;
        case Class::kFusible:
          if (mine.keep || !options_.fuse || !Inline(i, mine)) {
            plan_.kept_.insert(&i);
            if (i.opcode() == Opcode::kConcatenate && IsManyPieces(i)) {
              class_[Index(&i)] = Class::kHero;
              hero_kind_[Index(&i)] = Kind::kConcatenate;
              HeroUses(i, uses);
              break;
            }
            StartGroup(i);
            asked_[Index(&i)] = std::move(mine);
            mine = {};
            mine.contexts = {{i.id(), 0, static_cast<double>(i.shape().element_count())}};
          }
          FusibleUses(i, mine, uses);
          break;
      }
    }
  }

  bool HasBufferLimit() const { return options_.buffer_limit < std::numeric_limits<int>::max(); }

  void StartGroup(const Instruction& i) {
    if (!HasBufferLimit()) return;
    GroupSize& group = size_of_group_[i.id()];
    AddReads(i, group.reads);
    group.results = std::max<int64_t>(i.shape().leaf_count(), 1);
  }

  // The values that are read for `i`; not those that every kernel makes for itself.
  void AddReads(const Instruction& i, std::unordered_set<ValueRef, ValueRefHash>& reads) const {
    for (const Instruction* o : i.operands()) {
      const ValueRef v = ResolveValue({o, 0}, true);
      const Instruction& read = *v.instruction;
      const auto is_constant = [](const Instruction* p) { return p->opcode() == Opcode::kConstant; };
      if (is_constant(&read) && read.shape().element_count() == 1) continue;
      if (class_[Index(&read)] == Class::kFusible && std::ranges::all_of(read.operands(), is_constant))
        AddReads(read, reads);
      else reads.insert(v);
    }
  }

  bool FitsBuffers(const Instruction& i, const GroupSize& group) const {
    std::unordered_set<ValueRef, ValueRefHash> reads = group.reads;
    reads.erase({&i, 0});
    AddReads(i, reads);
    return static_cast<int64_t>(reads.size()) + group.results <= options_.buffer_limit;
  }

  // Of merged kernels.
  int MostBindings() const { return std::min(options_.max_bindings, options_.buffer_limit); }

  bool Inline(const Instruction& i, const Uses& mine) {
    double elements = static_cast<double>(std::max<int64_t>(i.shape().element_count(), 1));
    double cost = ElementCost(i.opcode(), i.shape().element_type());
    if (mine.many) return cost == 0 && i.operand_count() == 0;
    // To decide for every index whether it is that of an element costs more than an array of zeros and elements.
    if (IsDilation(i))
      for (const Context& c : mine.contexts)
        if (c.dilations > 0) return false;
    double evals = 0;
    std::vector<std::pair<int, int64_t>> groups;  // and the copies in each
    for (const Context& c : mine.contexts) {
      evals += c.evals;
      auto at = std::ranges::find(groups, c.group, &std::pair<int, int64_t>::first);
      if (at == groups.end()) groups.push_back({c.group, c.copies});
      else at->second += c.copies;
    }
    double factor = evals / elements;
    int operands = 0;
    for (const Instruction* o : i.operands())
      if (o->opcode() != Opcode::kConstant) ++operands;
    bool take;
    if (operands == 0) {
      take = true;  // iota, broadcasts of constants
    } else if (cost == 0) {
      // Views: free but for concatenates, which cost a select a piece.
      take = i.opcode() != Opcode::kConcatenate || (factor <= 2 && i.operand_count() <= 4) || HoldsIndexVectors(i);
    } else if (groups.size() == 1) {
      take = factor <= 1.01 || (cost <= 2 && factor <= 64) || (cost <= 4 && factor <= 2);
    } else {
      take = cost <= 1 && operands == 1 && factor <= 2.01;
    }
    if (!take) return false;
    // What a kernel reaches on several ways it evaluates several times: a chain that doubles at each step is cut.
    for (const auto& [g, copies] : groups) {
      const GroupSize& have = size_of_group_[g];
      if (have.nodes >= options_.max_nodes) return false;
      if (have.evaluations + copies > std::max<int64_t>(kFewEvaluations, kMostCopiesEach * (have.nodes + 1)))
        return false;
      if (HasBufferLimit() && !FitsBuffers(i, have)) return false;
    }
    for (const auto& [g, copies] : groups) {
      GroupSize& group = size_of_group_[g];
      ++group.nodes;
      group.evaluations += copies;
      if (!HasBufferLimit()) continue;
      group.reads.erase({&i, 0});
      AddReads(i, group.reads);
    }
    return true;
  }

  static bool IsDilation(const Instruction& i) {
    return i.opcode() == Opcode::kPad &&
           std::ranges::any_of(i.attr<PadAttributes>().interior, [](int64_t n) { return n > 0; });
  }

  // What an inlined or kept fusible instruction asks of its operands, given where it is evaluated.
  void FusibleUses(const Instruction& i, const Uses& mine, std::vector<Uses>& uses) {
    bool same_map = IsElementwise(i.opcode()) ||
                    (i.opcode() == Opcode::kBitcastConvert && i.shape().rank() == i.operand(0)->shape().rank());
    for (std::size_t n = 0; n < i.operand_count(); ++n) {
      const Instruction* o = i.operand(n);
      double ratio_cap = static_cast<double>(std::max<int64_t>(o->shape().element_count(), 1));
      bool scalar = o->shape().element_count() == 1;
      std::vector<Context> asked;  // by group and map
      for (Context c : mine.contexts) {
        if (scalar) c.evals = 1, c.map = 0;  // hoisted out of every loop
        if (o->shape().rank() == 0) c.copies = 1;
        if (!same_map && !scalar) c.map = i.id() * 8 + static_cast<int>(std::min<std::size_t>(n, 7)) + 1;
        if (i.opcode() == Opcode::kConcatenate) c.evals = std::min(c.evals, ratio_cap);
        if (n == 0 && IsDilation(i)) ++c.dilations;
        auto same = [&](const Context& have) { return have.group == c.group && have.map == c.map; };
        auto at = std::ranges::find_if(asked, same);
        if (at == asked.end()) {
          asked.push_back(c);
        } else {
          at->evals = std::max(at->evals, c.evals);
          at->dilations = std::max(at->dilations, c.dilations);
          if (o->shape().rank() > 0) at->copies = std::min(at->copies + c.copies, kMostCopies);
        }
      }
      for (const Context& c : asked) AddContext(uses[Index(o)], c);
    }
  }

  // The values that a dot's kernel reads.
  static std::array<ValueRef, 2> DotBases(const Instruction& dot) {
    std::optional<DotOperands> o = ChooseDotOperands(dot);
    KRAFLA_CHECK(o.has_value());
    return {o->lhs.base, o->rhs.base};
  }

  // Whether the update of a dynamic-update-slice is made of elements of the array other than those that it takes the
  // place of. In a kernel of its own it leaves the array free to be updated in place. What is far away counts as such.
  bool ReadsWhatItUpdates(const Instruction& update) const {
    constexpr std::size_t kFar = 64;
    const ValueRef array = ResolveValue({update.operand(0), 0}, true);
    std::vector<const Instruction*> stack = {update.operand(1)};
    std::unordered_set<const Instruction*> seen;
    while (!stack.empty()) {
      const Instruction* i = stack.back();
      stack.pop_back();
      if (!seen.insert(i).second) continue;
      CountWork(1);
      if (seen.size() > kFar) return true;
      if (ResolveValue({i, 0}, true) == array) return true;
      if (class_[Index(i)] == Class::kHero || IsOneOf(i->opcode(), {Opcode::kParameter, Opcode::kGetTupleElement}))
        continue;
      if (i->opcode() == Opcode::kDynamicSlice && ResolveValue({i->operand(0), 0}, true) == array &&
          i->attr<DynamicSliceAttributes>().slice_sizes == update.operand(1)->shape().dims() &&
          std::ranges::equal(i->operands().subspan(1), update.operands().subspan(2)))
        continue;
      for (const Instruction* o : i->operands()) stack.push_back(o);
    }
    return false;
  }

  void HeroUses(const Instruction& i, std::vector<Uses>& uses) {
    Kind kind = hero_kind_[Index(&i)];
    auto context = [&](const Instruction* o, int map, double evals) {
      AddContext(uses[Index(o)], {i.id(), map, o->shape().element_count() == 1 ? 1 : evals});
    };
    if (kind == Kind::kReduce) {
      std::size_t inputs = i.operand_count() / 2;
      double evals = static_cast<double>(i.operand(0)->shape().element_count());
      if (i.opcode() == Opcode::kReduceWindow) {
        evals = static_cast<double>(i.shape().leaf(0).element_count());
        for (const WindowDim& w : i.attr<WindowAttributes>().window) evals *= static_cast<double>(w.size);
      }
      for (std::size_t n = 0; n < i.operand_count(); ++n)
        AddContext(uses[Index(i.operand(n))],
                   {i.id(), n < inputs ? -1 : 0, i.operand(n)->shape().element_count() == 1 ? 1 : evals, 1,
                    i.opcode() == Opcode::kReduceWindow && n < inputs ? 1 : 0});
      return;
    }
    if (kind == Kind::kDot) {
      for (const ValueRef& o : DotBases(i)) Keep(uses, o.instruction);
      return;
    }
    if (kind == Kind::kDynamicUpdate) {
      Keep(uses, i.operand(0));
      if (ReadsWhatItUpdates(i)) Keep(uses, i.operand(1));
      else context(i.operand(1), -1, static_cast<double>(i.operand(1)->shape().element_count()));
      for (std::size_t n = 2; n < i.operand_count(); ++n) context(i.operand(n), 0, 1);
      return;
    }
    if (kind == Kind::kConcatenate) {
      // Each piece is a kernel of its own; a context each keeps their sharing honest.
      for (std::size_t n = 0; n < i.operand_count(); ++n)
        AddContext(uses[Index(i.operand(n))], {-1 - i.id() * 64 - static_cast<int>(n % 64), 0,
                                               static_cast<double>(i.operand(n)->shape().element_count())});
      return;
    }
    if (kind == Kind::kSort) {
      for (std::size_t n = 0; n < i.operand_count(); ++n)
        if (!KernelBuilder::IsCarriedPosition(i, n)) Keep(uses, i.operand(n));
      return;
    }
    if (kind == Kind::kScan) {
      Keep(uses, i.operand(0));
      Keep(uses, KernelBuilder::ScanStart(i));
      return;
    }
    for (const Instruction* o : i.operands()) Keep(uses, o);
  }

  // ---- groups -----------------------------------------------------------------------------------------------------

  void MakeGroups() {
    const Instruction* before = nullptr;
    for (const auto& owned : computation_.instructions()) {
      const Instruction* i = owned.get();
      if (!plan_.kept_.contains(i)) continue;
      if (effects_.KeepsItsPlace(*i)) before_[i] = std::exchange(before, i);
      FusionGroup g;
      if (class_[Index(i)] == Class::kHero) {
        g.kind = hero_kind_[Index(i)];
        g.heroes = {i};
      } else {
        g.kind = Kind::kLoop;
        g.roots = {i};
      }
      group_of_[Index(i)] = static_cast<int>(groups_.size());
      groups_.push_back(std::move(g));
    }
    graph_.emplace(groups_.size());
    inputs_.resize(groups_.size());
    values_.resize(groups_.size());
    for (std::size_t g = 0; g < groups_.size(); ++g) FindReads(g);
    for (std::size_t g = 0; g < groups_.size(); ++g)
      for (const Instruction* i : inputs_[g]) graph_->AddReader(GroupOf(i), static_cast<int>(g));
  }

  int GroupOf(const Instruction* i) const { return group_of_[Index(i)]; }

  // values_: the buffers that group `g` reads. inputs_: kept instructions that it reads or follows, of others.
  void FindReads(std::size_t g) {
    std::vector<const Instruction*>& made = inputs_[g];
    std::vector<ValueRef>& values = values_[g];
    made.clear(), values.clear();
    std::vector<ValueRef> stack;
    std::unordered_set<ValueRef, ValueRefHash> seen;
    std::unordered_set<const Instruction*> own(groups_[g].heroes.begin(), groups_[g].heroes.end());
    own.insert(groups_[g].roots.begin(), groups_[g].roots.end());
    auto push = [&](const Instruction* o) {
      for (int64_t leaf = 0; leaf < o->shape().leaf_count(); ++leaf) stack.push_back({o, static_cast<int>(leaf)});
    };
    auto push_operands = [&](const Instruction* i) {
      if (auto it = before_.find(i); it != before_.end() && it->second != nullptr) made.push_back(it->second);
      if (class_[Index(i)] == Class::kHero && i->opcode() == Opcode::kDot && hero_kind_[Index(i)] == Kind::kDot) {
        for (const ValueRef& o : DotBases(*i)) stack.push_back(o);
        return;
      }
      for (const Instruction* o : i->operands()) push(o);
    };
    for (const Instruction* i : groups_[g].heroes) push_operands(i);
    for (const Instruction* i : groups_[g].roots) push_operands(i);
    while (!stack.empty()) {
      const ValueRef v = ResolveValue(stack.back(), true);
      stack.pop_back();
      const Instruction* i = v.instruction;
      if (own.contains(i) || !seen.insert(v).second) continue;
      const bool kept = plan_.kept_.contains(i);
      if (kept) made.push_back(i);
      if (kept || plan_.HasBuffer(v)) {
        if (LeafShape(v).IsArray()) values.push_back(v);
      } else {
        push_operands(i);
      }
    }
    std::ranges::sort(made, {}, &Instruction::id);
    made.erase(std::unique(made.begin(), made.end()), made.end());
    std::erase_if(made, [&](const Instruction* i) { return own.contains(i); });
  }

  // b becomes part of a.
  void Merge(int a, int b, FusionGroup merged) {
    auto ga = static_cast<std::size_t>(a), gb = static_cast<std::size_t>(b);
    for (const Instruction* i : groups_[gb].heroes) group_of_[Index(i)] = a;
    for (const Instruction* i : groups_[gb].roots) group_of_[Index(i)] = a;
    for (const Instruction* i : inputs_[gb]) graph_->RemoveReader(GroupOf(i), b);
    groups_[ga] = std::move(merged);
    groups_[gb] = FusionGroup();
    inputs_[gb].clear();
    values_[gb].clear();
    FindReads(ga);
    for (const Instruction* i : inputs_[ga])
      if (GroupOf(i) != a) graph_->AddReader(GroupOf(i), a);
    graph_->Merge(a, b);
  }

  FusionGroup Joined(int a, int b) const {
    const FusionGroup& x = groups_[static_cast<std::size_t>(a)];
    const FusionGroup& y = groups_[static_cast<std::size_t>(b)];
    FusionGroup out;
    out.kind = x.kind;
    out.heroes = x.heroes;
    out.heroes.insert(out.heroes.end(), y.heroes.begin(), y.heroes.end());
    out.roots = x.roots;
    out.roots.insert(out.roots.end(), y.roots.begin(), y.roots.end());
    auto by_position = [&](auto* p, auto* q) { return position_[Index(p)] < position_[Index(q)]; };
    std::sort(out.heroes.begin(), out.heroes.end(), by_position);
    std::sort(out.roots.begin(), out.roots.end(), by_position);
    return out;
  }

  // Members that nothing outside reads.
  void FindInternal(FusionGroup& g) const {
    g.internal.clear();
    std::unordered_set<const Instruction*> own(g.heroes.begin(), g.heroes.end());
    own.insert(g.roots.begin(), g.roots.end());
    for (const Instruction* i : own)
      if (!ReadOutside(i, own)) g.internal.insert(i);
  }

  // Whether `i` is the result of the computation or is read by a kernel that has none of `own`.
  bool ReadOutside(const Instruction* i, const std::unordered_set<const Instruction*>& own) const {
    std::vector<const Instruction*> stack = {i};
    std::unordered_set<const Instruction*> seen;
    while (!stack.empty()) {
      const Instruction* at = stack.back();
      stack.pop_back();
      if (at == computation_.root()) return true;
      for (const Instruction* user : at->users()) {
        CountWork(1);
        if (own.contains(user) || !seen.insert(user).second) continue;
        if (plan_.kept_.contains(user)) return true;
        stack.push_back(user);
      }
    }
    return false;
  }

  bool Buildable(const FusionGroup& g) const {
    KernelBuilder builder(plan_, g);
    auto built = builder.Build();
    return built.has_value() && static_cast<int>(built->kernel.bindings.size()) <= MostBindings();
  }

  // Whether the program of a merged group evaluates little more than its members' own would: what one member reads of
  // another at an index that is not its own is evaluated there again.
  bool EvaluatesLittleMore(const FusionGroup& g) const {
    std::unordered_map<int, double> copies;  // by the member's id
    double own = 0, total = 0;
    auto evaluations = [&](const Instruction* i) {
      auto it = size_of_group_.find(i->id());
      return it == size_of_group_.end() ? 1.0 : static_cast<double>(it->second.evaluations + 1);
    };
    for (const Instruction* hero : g.heroes) {
      copies[hero->id()] = 1;
      own += evaluations(hero);
    }
    total = own;
    for (auto r = g.roots.rbegin(); r != g.roots.rend(); ++r) {
      double mine = 1;
      if (auto asked = asked_.find(Index(*r)); asked != asked_.end())
        for (const Context& c : asked->second.contexts) {
          auto member = copies.find(c.group);
          if (member == copies.end()) continue;
          mine += c.map == 0 ? member->second - 1 : static_cast<double>(c.copies) * member->second;
        }
      copies[(*r)->id()] = mine;
      own += evaluations(*r);
      total += mine * evaluations(*r);
    }
    return total <= 2 * own + static_cast<double>(kFewEvaluations);
  }

  void MergeReduceRegions() {
    for (std::size_t n = 0; n < groups_.size(); ++n) {
      bool changed = true;
      int refused = 0;
      while (changed && groups_[n].kind == Kind::kReduce && groups_[n].heroes[0]->opcode() == Opcode::kReduce) {
        changed = false;
        const int me = static_cast<int>(n);
        std::vector<int> readers(graph_->readers(me).begin(), graph_->readers(me).end());
        std::sort(readers.begin(), readers.end());
        for (int r : readers) {
          const FusionGroup& other = groups_[static_cast<std::size_t>(r)];
          if (other.kind != Kind::kLoop && other.kind != Kind::kReduce) continue;
          const std::size_t heroes = groups_[n].heroes.size() + other.heroes.size();
          const std::size_t members = heroes + groups_[n].roots.size() + other.roots.size();
          if (heroes > kMostReductions || members > kMostMembers) continue;
          FusionGroup merged = Joined(me, r);
          merged.kind = Kind::kReduce;
          if (!KernelBuilder::RegionFits(merged) || graph_->PathAround(me, r)) continue;
          if (refused >= kMostRefusals) break;
          FindInternal(merged);
          if (!EvaluatesLittleMore(merged) || !Buildable(merged)) {
            ++refused;
            continue;
          }
          Merge(me, r, std::move(merged));
          changed = true;
          break;
        }
      }
    }
  }

  void MergeEpilogues() {
    for (std::size_t n = 0; n < groups_.size(); ++n) {
      if (groups_[n].kind != Kind::kDot && groups_[n].kind != Kind::kConvolution) continue;
      const int me = static_cast<int>(n);
      if (graph_->readers(me).size() != 1) continue;
      int r = *graph_->readers(me).begin();
      const FusionGroup& other = groups_[static_cast<std::size_t>(r)];
      if (other.kind != Kind::kLoop || other.roots.size() != 1) continue;
      const Instruction* hero = groups_[n].heroes[0];
      if (other.roots[0]->shape().element_count() != hero->shape().element_count()) continue;
      std::unordered_set<const Instruction*> own = {hero, other.roots[0]};
      if (ReadOutside(hero, own)) continue;
      FusionGroup merged = Joined(me, r);
      FindInternal(merged);
      if (!Buildable(merged)) continue;
      Merge(me, r, std::move(merged));
    }
  }

  void MergeSiblings() {
    // Neighbours by position that run over the same dimensions and share an input.
    for (std::size_t n = 0; n < groups_.size(); ++n) {
      if (groups_[n].kind != Kind::kLoop || groups_[n].roots.empty()) continue;
      const Instruction* root = groups_[n].roots[0];
      bool merged_away = false;
      for (std::size_t m = n; m-- > 0 && n - m < 24 && !merged_away;) {
        const FusionGroup& other = groups_[m];
        if (other.kind != Kind::kLoop || other.roots.empty() || other.roots.size() >= 6) continue;
        if (other.roots[0]->shape().dims() != root->shape().dims()) continue;
        if (root->shape().element_count() > 65536 && !SharesInput(m, n)) continue;
        auto a = static_cast<int>(m), b = static_cast<int>(n);
        if (graph_->Reads(a, b) || graph_->PathAround(a, b) || graph_->PathAround(b, a)) continue;
        FusionGroup merged = Joined(a, b);
        FindInternal(merged);
        if (LoopBindings(m, n, merged) > MostBindings() || !EvaluatesLittleMore(merged)) continue;
        Merge(a, b, std::move(merged));
        merged_away = true;
      }
    }
  }

  // The bindings of `merged`, the loop of groups a and b: what either reads and neither makes, and what is read
  // outside. Loops over the same dimensions that can be built can be built as one, so that no more need be asked.
  int LoopBindings(std::size_t a, std::size_t b, const FusionGroup& merged) const {
    std::unordered_set<ValueRef, ValueRefHash> read(values_[a].begin(), values_[a].end());
    read.insert(values_[b].begin(), values_[b].end());
    for (const Instruction* root : merged.roots) read.erase({root, 0});
    return static_cast<int>(read.size() + merged.roots.size() - merged.internal.size());
  }

  bool SharesInput(std::size_t a, std::size_t b) const {
    auto x = inputs_[a].begin(), y = inputs_[b].begin();
    while (x != inputs_[a].end() && y != inputs_[b].end()) {
      if (*x == *y && (*x)->shape().IsArray() && (*x)->shape().element_count() > 1) return true;
      if ((*x)->id() < (*y)->id()) ++x;
      else if ((*y)->id() < (*x)->id()) ++y;
      else ++x, ++y;
    }
    return graph_->Reads(static_cast<int>(b), static_cast<int>(a));
  }

  // Groups whose result may take the place of a value, and that value's other readers, which had better run before.
  struct Overwrites {
    std::vector<int> readers_before;              // how many, for each group
    std::vector<std::vector<int>> writers_after;  // of each group
  };
  Overwrites FindOverwrites() const {
    std::unordered_map<ValueRef, std::vector<int>, ValueRefHash> writers;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].kind != Kind::kDynamicUpdate && groups_[g].kind != Kind::kScatter) continue;
      if (!groups_[g].heroes.empty())
        writers[ResolveValue({groups_[g].heroes[0]->operand(0), 0}, true)].push_back(static_cast<int>(g));
    }
    // Of a loop's body: what becomes the next turn's state.
    const auto& parameters = computation_.parameters();
    if (parameters.size() == 1 && parameters[0]->shape().IsTuple() &&
        parameters[0]->shape() == computation_.root()->shape()) {
      for (int64_t leaf = 0; leaf < parameters[0]->shape().leaf_count(); ++leaf) {
        const ValueRef made = ResolveValue({computation_.root(), static_cast<int>(leaf)}, true);
        const int g = GroupOf(made.instruction);
        if (g >= 0) writers[{parameters[0], static_cast<int>(leaf)}].push_back(g);
      }
    }
    Overwrites out{std::vector<int>(groups_.size(), 0), std::vector<std::vector<int>>(groups_.size())};
    if (writers.empty()) return out;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].heroes.empty() && groups_[g].roots.empty()) continue;
      for (const ValueRef& read : values_[g]) {
        const auto found = writers.find(read);
        if (found == writers.end()) continue;
        for (int w : found->second) {
          if (w == static_cast<int>(g)) continue;
          out.writers_after[g].push_back(w);
          ++out.readers_before[static_cast<std::size_t>(w)];
        }
      }
    }
    return out;
  }

  Result<> OrderGroups() {
    std::vector<int> waiting(groups_.size(), 0);
    // A group goes where its last member stands; among the ready ones the earliest first.
    auto place = [&](int g) {
      int out = 0;
      for (const Instruction* i : groups_[static_cast<std::size_t>(g)].heroes) out = std::max(out, position_[Index(i)]);
      for (const Instruction* i : groups_[static_cast<std::size_t>(g)].roots) out = std::max(out, position_[Index(i)]);
      return out;
    };
    std::vector<std::pair<int, int>> ready;  // (-place, group): a max-heap by that is a min-heap by place
    std::set<std::pair<int, int>> held;      // (place, group): ready, but others still read what it overwrites
    Overwrites overwrites = FindOverwrites();
    const auto make_ready = [&](int g) {
      if (overwrites.readers_before[static_cast<std::size_t>(g)] > 0) {
        held.emplace(place(g), g);
      } else {
        ready.push_back({-place(g), g});
        std::push_heap(ready.begin(), ready.end());
      }
    };
    std::size_t alive = 0;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].heroes.empty() && groups_[g].roots.empty()) continue;
      ++alive;
      std::unordered_set<int> before;
      for (const Instruction* i : inputs_[g]) before.insert(GroupOf(i));
      before.erase(static_cast<int>(g));
      waiting[g] = static_cast<int>(before.size());
      if (before.empty()) make_ready(static_cast<int>(g));
    }
    while (!ready.empty() || !held.empty()) {
      int g;
      if (!ready.empty()) {
        std::pop_heap(ready.begin(), ready.end());
        g = ready.back().second;
        ready.pop_back();
      } else {
        g = held.begin()->second;
        held.erase(held.begin());
      }
      for (int r : graph_->readers(g))
        if (--waiting[static_cast<std::size_t>(r)] == 0) make_ready(r);
      for (int w : overwrites.writers_after[static_cast<std::size_t>(g)]) {
        if (--overwrites.readers_before[static_cast<std::size_t>(w)] > 0) continue;
        if (auto at = held.find({place(w), w}); at != held.end()) {
          held.erase(at);
          ready.push_back({-place(w), w});
          std::push_heap(ready.begin(), ready.end());
        }
      }
      FindInternal(groups_[static_cast<std::size_t>(g)]);
      plan_.groups_.push_back(std::move(groups_[static_cast<std::size_t>(g)]));
      --alive;
    }
    if (alive != 0)
      return Internal("The kernels of computation '{}' depend on each other in a cycle.", computation_.name());
    return {};
  }

  const Computation& computation_;
  const FusionOptions& options_;
  EffectFacts& effects_;
  FusionPlan plan_;
  std::vector<Class> class_;
  std::vector<Kind> hero_kind_;
  std::unordered_map<const Instruction*, const Instruction*> before_;  // of those that keep their place: the one before
  std::vector<int> position_, group_of_;
  std::vector<FusionGroup> groups_;
  std::vector<std::vector<const Instruction*>> inputs_;
  std::vector<std::vector<ValueRef>> values_;
  std::unordered_map<int, GroupSize> size_of_group_;  // by the id of its root, of its hero, or a piece's number
  std::unordered_map<std::size_t, Uses> asked_;       // of kept instructions that could have been inlined
  std::optional<GroupGraph> graph_;
};

Result<FusionPlan> FusionPlan::Make(const Computation& computation, const FusionOptions& options,
                                    EffectFacts* effects) {
  EffectFacts own;
  return FusionPlanner(computation, options, effects != nullptr ? *effects : own).Run();
}

}  // namespace krafla::plan
