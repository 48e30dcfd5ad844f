// SPDX-License-Identifier: Apache-2.0
// How PlanFusion works, with a file for each step: classify.cpp, keep.cpp (with cuts.cpp, updates.cpp), groups.cpp,
// merge.cpp and order.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "plan/fusion/fusion.h"
#include "plan/fusion/ready_groups.h"
#include "plan/group_graph.h"
#include "plan/plan_log.h"

namespace krafla::plan {

// Identifies a kernel while it is decided which values are kept: the kernel of a root or hero, or one of the kernels of
// a concatenate.
struct KernelId {
  int instruction = -1;
  int operand = -1;  // of a concatenate: the one that the kernel writes
  friend bool operator==(const KernelId&, const KernelId&) = default;
};
struct KernelIdHash {
  std::size_t operator()(const KernelId& k) const {
    return std::hash<int64_t>()(int64_t{k.instruction} * 1000003 + k.operand);
  }
};

// Identifies the map from a point of a kernel to the index at which it reads a value. Maps that are not known to be
// equal have different ids.
struct MapId {
  int instruction = -1;                               // the last on the way that does not keep the index
  int operand = 0;                                    // which of its operands is read
  static constexpr MapId Own() { return {-1, 0}; }    // the kernel's own index, or an index that is always the same
  static constexpr MapId Input() { return {-1, 1}; }  // where a hero reads what it reduces or takes in
  friend bool operator==(const MapId&, const MapId&) = default;
};

// Works out one FusionPlan; Run() has the steps in their order.
class FusionPlanner {
 public:
  FusionPlanner(const Computation& computation, const FusionOptions& options, EffectFacts& effects)
      : computation_(computation), options_(options), limits_(options.limits), effects_(effects) {}

  Result<FusionPlan> Run();

 private:
  using Kind = FusionGroup::Kind;

  enum class Class : uint8_t { kStructural, kFusible, kHero };
  // A place where an inlined value is evaluated: in `kernel`, at the indices of `map`, `evals` times. The kernel's
  // program contains it `copies` times, once for each way in which it comes to the value's index.
  struct Context {
    KernelId kernel;
    MapId map;
    double evals;
    int64_t copies = 1;
    int dilations = 0;  // pads that lay elements apart on the way there, and windows
  };
  struct Uses {
    bool keep = false;
    bool many = false;  // more places than it could be inlined into; a place may be listed several times
    std::vector<Context> contexts;
  };
  // How much is inlined into a kernel, and how many evaluations of it the kernel's program has.
  struct KernelSize {
    int nodes = 0;
    int64_t evaluations = 0;
    double formulas = 0;  // FusionLimits::formulas
    // Something found no room: nothing that is made of formulas is inlined any more. `cut`: the value that was kept
    // for that and whose kernel makes others too, `cut_with` with it.
    bool is_closed = false;
    const Instruction* cut = nullptr;
    std::size_t cut_with = 0;
    // Where the device limits a kernel's buffers: the values that it reads if nothing more is inlined, and those that
    // it writes.
    std::unordered_set<ValueRef, ValueRefHash> reads;
    int64_t results = 1;
  };
  std::optional<Kind> HeroKind(const Instruction& i) const;

  // Of an instruction whose HeroKind is kHost.
  HostWhy WhyHost(const Instruction& i) const;

  // Whether a concatenate is better written piece by piece than by a choice for each element.
  bool IsManyPieces(const Instruction& i) const;

  // Whether a concatenate only puts the components of gathers' index vectors side by side, and the gathers read each no
  // more than once. Every reader knows then which operand it reads, and the concatenate needs no kernel.
  static bool HoldsIndexVectors(const Instruction& i);

  // Whether the computation has static shapes only. Others, into which dynamic_padder puts what it has no rule for, are
  // run by the evaluator.
  static bool IsStaticComputation(const Computation& c);

  // Element offsets are 32-bit in kernels.
  bool FitsIndex(const Instruction& i) const;

  static bool IsStructural(Opcode op);

  KernelId KernelOf(const Instruction& i) const {
    const auto joint = joint_.find(i.id());
    return {joint == joint_.end() ? i.id() : joint->second};
  }
  std::size_t Index(const Instruction* i) const { return static_cast<std::size_t>(i->id()); }

  void Classify();

  // ---- kept or inlined ------------------------------------------------------------------------------------------

  // `reader`: who takes it from memory; null: it is the result.
  void Keep(std::vector<Uses>& uses, const Instruction* i, const Instruction* reader) {
    uses[Index(i)].keep = true;
    if (options_.log != nullptr) options_.log->kept.try_emplace(i, KeptValue{KeptWhy::kWanted, reader});
  }

  void AddContext(Uses& uses, const Context& c);

  void DecideKept();

  bool HasBufferLimit() const { return options_.buffer_limit < std::numeric_limits<int>::max(); }

  // Finds holds_formula_.
  void FindFormulas();
  // Of a value that is kept because the one kernel that reads it is full: has it made by the kernel of the others of
  // which that holds, so that what they share is computed once.
  void JoinCut(const Instruction& i, const Uses& mine);

  void StartGroup(const Instruction& i);

  // Adds the values with buffers that `i` reads; not those that every kernel computes for itself.
  void AddReads(const Instruction& i, std::unordered_set<ValueRef, ValueRefHash>& reads) const;

  bool FitsBuffers(const Instruction& i, const KernelSize& group) const;

  // The bindings that a merged kernel may have.
  int MostBindings() const { return std::min(limits_.bindings, options_.buffer_limit); }

  bool IsMadeOfIndices(const Instruction& i) const;
  // Whether the kernel computes a single element.
  bool IsOfOneElement(const KernelId& kernel) const;
  bool IsOfWindows(const KernelId& kernel) const;
  bool OrdersRowsOfDot(const Instruction& i) const;
  // Whether the readers of `i` compute it (KeptWhy::kInlined), else why not.
  KeptValue Inline(const Instruction& i, const Uses& mine);

  // The part of Inline that asks for the room in each kernel, with the copies that it would hold, and takes it.
  KeptWhy TakeRoom(const Instruction& i, double cost, const std::vector<std::pair<KernelId, int64_t>>& kernels);

  // Writes down why `i` is kept. What is wanted in memory stays so.
  void LogKept(const Instruction& i, const KeptValue& kept) {
    if (options_.log == nullptr) return;
    KeptValue& have = options_.log->kept[&i];
    if (have.why != KeptWhy::kWanted || kept.why == KeptWhy::kHero) have = kept;
  }

  static bool IsDilation(const Instruction& i);
  static bool IsGatheredPad(const Instruction& i);

  // Adds to `uses` where an inlined or kept fusible instruction evaluates its operands, given where it is evaluated
  // itself.
  void FusibleUses(const Instruction& i, const Uses& mine, std::vector<Uses>& uses);

  // The values that a dot's kernel reads.
  static std::array<ValueRef, 2> DotBases(const Instruction& dot);

  // Whether a dot had better compute this operand where it reads it than read it from a buffer: quantised weights,
  // which are smaller as they are stored, and a slice of an array at an index that is only known when it runs.
  bool ComputedByDot(const Instruction& operand, const Instruction& dot) const;
  // Whether a concatenate is read by nothing but dots that compute it.
  bool IsPartOfOperand(const Instruction& i, const Uses& mine) const;

  // What a kernel of the instruction reads at the most: of a dynamic-update-slice one that computes what it puts in.
  struct ArrayReads {
    // Heroes, parameters and everything on the way to them.
    std::unordered_set<ValueRef, ValueRefHash> arrays;
    bool is_own = false;        // of an update: its own array is among them,
    bool is_elsewhere = false;  // and elements of it other than those that it replaces, or the search went too far
  };
  // A search that goes beyond FusionLimits::update_search is ended.
  const ArrayReads& ReadsOf(const Instruction& of);
  // Finds first_overwriting_.
  void FindFirstOverwriting();
  // Whether a dynamic-update-slice computes what it puts into its array while it does so, and can do so in place. It
  // cannot if it reads other elements of that array, or arrays that others overwrite which must come before it. What
  // it puts in has a kernel of its own then.
  bool ComputesWhatItPutsIn(const Instruction& update);

  void HeroUses(const Instruction& i, std::vector<Uses>& uses);

  // ---- groups -----------------------------------------------------------------------------------------------------

  void MakeGroups();

  int GroupOf(const Instruction* i) const { return group_of_[Index(i)]; }

  // Sets values_[g], the buffers that group `g` reads, and inputs_[g], the kept instructions of other groups that it
  // reads or has to follow.
  void FindReads(std::size_t g);

  // Makes group `b` part of group `a`, which is `merged` from now on.
  void Merge(int a, int b, FusionGroup merged);

  FusionGroup Joined(int a, int b) const;

  // Writes down why two groups stay apart; false, for the caller to return.
  bool Refuse(int a, int b, Unmerged why) const;
  void RefuseReaders(int group, Unmerged why) const;
  // Whether `reader` becomes part of the reduction `n`; `refused` counts the kernels that were built in vain.
  bool MergeReader(std::size_t n, int reader, int& refused);
  // Whether loops m < n become one.
  bool MergeSibling(std::size_t m, std::size_t n);
  bool MergeEpilogue(std::size_t n);

  // Finds FusionGroup::internal.
  void FindInternal(FusionGroup& g) const;

  // Whether `i` is the result of the computation or is read by a kernel that has none of `own`.
  bool ReadOutside(const Instruction* i, const std::unordered_set<const Instruction*>& own) const;

  // Builds the group's kernel and leaves it in the group; false where its members cannot be one kernel.
  bool Build(FusionGroup& g) const;

  // Whether it has more instructions than a kernel may, or dearer formulas (FusionLimits::merged, formulas).
  bool IsTooFull(const FusionGroup& g) const;

  // Whether the program of a merged group has few more evaluations than the programs of its members. What a member
  // reads of another one at an index that is not its own is evaluated there again.
  bool EvaluatesLittleMore(const FusionGroup& g) const;

  void MergeReduceRegions();

  void MergeEpilogues();

  void MergeSiblings();

  // The number of bindings of `merged`, the loop of groups a and b: the values that either reads and neither makes, and
  // the results that are read outside. Two loops over the same dimensions can always be built as one, so that this
  // count is all that has to be asked.
  int LoopBindings(std::size_t a, std::size_t b, const FusionGroup& merged) const;

  bool SharesInput(std::size_t a, std::size_t b) const;

  // In the body of a loop: calls visit(state, made) for each array of the state and the value of the next turn.
  void ForEachNextState(auto visit) const {
    const auto& parameters = computation_.parameters();
    if (parameters.size() != 1 || !parameters[0]->shape().IsTuple() ||
        parameters[0]->shape() != computation_.root()->shape())
      return;
    for (int leaf = 0; leaf < static_cast<int>(parameters[0]->shape().leaf_count()); ++leaf)
      visit(ValueRef{parameters[0], leaf}, ResolveValue({computation_.root(), leaf}, true));
  }

  // Which groups may write their results in the place of a value, and which other readers of that value should run
  // before them.
  struct Overwrites {
    struct Value {
      std::vector<int> writers;
      int readers = 0;  // groups that read it and have not run
    };
    std::vector<Value> values;
    // The values that each group reads, in rising order, and writes in the place of.
    std::vector<std::vector<int>> read, written;

    // Whether no group but `g` itself reads what it overwrites any more.
    bool MayRun(int g) const;
  };
  Overwrites FindOverwrites() const;

  // Whether a group is a collective that may go on while others run.
  bool GoesOn(std::size_t g) const;
  std::vector<ReadyGroups::Facts> FactsOfGroups() const;

  Result<> OrderGroups();

  const Computation& computation_;
  const FusionOptions& options_;
  const FusionLimits& limits_;
  EffectFacts& effects_;
  FusionPlan plan_;
  std::vector<Class> class_;
  std::vector<Kind> hero_kind_;
  // For each instruction that keeps its place, the one of these before it.
  std::unordered_map<const Instruction*, const Instruction*> before_;
  std::vector<int> position_, group_of_;
  std::vector<const Instruction*> made_;  // by id
  std::vector<FusionGroup> groups_;
  std::vector<std::vector<const Instruction*>> inputs_;
  std::vector<std::vector<ValueRef>> values_;
  std::unordered_map<KernelId, KernelSize, KernelIdHash> size_of_;
  // Of what dots read, which may be behind views: the dots.
  std::unordered_map<const Instruction*, std::vector<const Instruction*>> dots_of_;
  std::vector<bool> holds_formula_;     // by id: it is a formula, or made of one that could be inlined
  std::unordered_map<int, int> joint_;  // of values that are made beside others (JoinCut): of which one, by id
  std::unordered_map<const Instruction*, ArrayReads> reads_of_;
  // Of values in whose place others are written: the first instruction that makes one of these.
  std::unordered_map<ValueRef, const Instruction*, ValueRefHash> first_overwriting_;
  std::unordered_map<std::size_t, Uses> asked_;  // for kept instructions that could have been inlined
  std::optional<GroupGraph> graph_;
};

}  // namespace krafla::plan
