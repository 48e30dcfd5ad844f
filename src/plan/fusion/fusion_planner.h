// SPDX-License-Identifier: Apache-2.0
// How PlanFusion works. A file per step: classify.cpp, keep.cpp, groups.cpp, merge.cpp, order.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "plan/fusion/fusion.h"
#include "plan/group_graph.h"

namespace krafla::plan {

// A kernel, while values are kept or inlined: that of its root or hero, or one of the kernels of a concatenate.
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

// By which map a kernel's point leads to the index at which a value is read. Maps that are not known to be equal have
// different ids.
struct MapId {
  int instruction = -1;                               // the last on the way that does not keep the index
  int operand = 0;                                    // which of its operands is read
  static constexpr MapId Own() { return {-1, 0}; }    // the kernel's own index, or an index that is always the same
  static constexpr MapId Input() { return {-1, 1}; }  // where a hero reads what it reduces or takes in
  friend bool operator==(const MapId&, const MapId&) = default;
};

// Works out one FusionPlan. Steps in Run(), in order.
class FusionPlanner {
 public:
  FusionPlanner(const Computation& computation, const FusionOptions& options, EffectFacts& effects)
      : computation_(computation), options_(options), limits_(options.limits), effects_(effects) {}

  Result<FusionPlan> Run();

 private:
  using Kind = FusionGroup::Kind;

  enum class Class : uint8_t { kStructural, kFusible, kHero };
  // A place where an inlined value is evaluated: `kernel`, by index map `map`, `evals` times. Its program has it
  // `copies` times, once for each way in which it reaches the value's index.
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
  // What is inlined into a kernel, and how often its program evaluates that in all.
  struct KernelSize {
    int nodes = 0;
    int64_t evaluations = 0;
    // Where the device limits a kernel's buffers: the values that it reads, if nothing more is inlined, and writes.
    std::unordered_set<ValueRef, ValueRefHash> reads;
    int64_t results = 1;
  };
  std::optional<Kind> HeroKind(const Instruction& i) const;

  // Whether a concatenate is better written piece by piece than by a choice for each element.
  bool IsManyPieces(const Instruction& i) const;

  // Whether a concatenate puts the components of the index vectors of gathers side by side, and they read each no more
  // than once: then every reader knows which piece it reads, and nothing has to be put anywhere.
  static bool HoldsIndexVectors(const Instruction& i);

  // The evaluator runs the computations into which dynamic_padder puts what it has no rule for.
  static bool IsStaticComputation(const Computation& c);

  // Element offsets are 32-bit in kernels.
  bool FitsIndex(const Instruction& i) const;

  static bool IsStructural(Opcode op);

  static KernelId KernelOf(const Instruction& i) { return {i.id()}; }
  std::size_t Index(const Instruction* i) const { return static_cast<std::size_t>(i->id()); }

  void Classify();

  // ---- kept or inlined ------------------------------------------------------------------------------------------

  void Keep(std::vector<Uses>& uses, const Instruction* i) { uses[Index(i)].keep = true; }

  void AddContext(Uses& uses, const Context& c);

  void DecideKept();

  bool HasBufferLimit() const { return options_.buffer_limit < std::numeric_limits<int>::max(); }

  void StartGroup(const Instruction& i);

  // The values that are read for `i`; not those that every kernel makes for itself.
  void AddReads(const Instruction& i, std::unordered_set<ValueRef, ValueRefHash>& reads) const;

  bool FitsBuffers(const Instruction& i, const KernelSize& group) const;

  // Of merged kernels.
  int MostBindings() const { return std::min(limits_.bindings, options_.buffer_limit); }

  bool Inline(const Instruction& i, const Uses& mine);

  static bool IsDilation(const Instruction& i);

  // What an inlined or kept fusible instruction asks of its operands, given where it is evaluated.
  void FusibleUses(const Instruction& i, const Uses& mine, std::vector<Uses>& uses);

  // The values that a dot's kernel reads.
  static std::array<ValueRef, 2> DotBases(const Instruction& dot);

  // Whether the update of a dynamic-update-slice is made of elements of the array other than those that it takes the
  // place of. In a kernel of its own it leaves the array free to be updated in place. What is far away counts as such.
  bool ReadsWhatItUpdates(const Instruction& update) const;

  void HeroUses(const Instruction& i, std::vector<Uses>& uses);

  // ---- groups -----------------------------------------------------------------------------------------------------

  void MakeGroups();

  int GroupOf(const Instruction* i) const { return group_of_[Index(i)]; }

  // values_: the buffers that group `g` reads. inputs_: kept instructions that it reads or follows, of others.
  void FindReads(std::size_t g);

  // b becomes part of a.
  void Merge(int a, int b, FusionGroup merged);

  FusionGroup Joined(int a, int b) const;

  // Members that nothing outside reads.
  void FindInternal(FusionGroup& g) const;

  // Whether `i` is the result of the computation or is read by a kernel that has none of `own`.
  bool ReadOutside(const Instruction* i, const std::unordered_set<const Instruction*>& own) const;

  // Builds the group's kernel, which it then has. False where its members cannot be one.
  bool Build(FusionGroup& g) const;

  // Whether the program of a merged group evaluates little more than its members' own would: what one member reads of
  // another at an index that is not its own is evaluated there again.
  bool EvaluatesLittleMore(const FusionGroup& g) const;

  void MergeReduceRegions();

  void MergeEpilogues();

  void MergeSiblings();

  // The bindings of `merged`, the loop of groups a and b: what either reads and neither makes, and what is read
  // outside. Loops over the same dimensions that can be built can be built as one, so that no more need be asked.
  int LoopBindings(std::size_t a, std::size_t b, const FusionGroup& merged) const;

  bool SharesInput(std::size_t a, std::size_t b) const;

  // Groups whose result may take the place of a value, and that value's other readers, which had better run before.
  struct Overwrites {
    std::vector<int> readers_before;              // how many, for each group
    std::vector<std::vector<int>> writers_after;  // of each group
  };
  Overwrites FindOverwrites() const;

  Result<> OrderGroups();

  const Computation& computation_;
  const FusionOptions& options_;
  const FusionLimits& limits_;
  EffectFacts& effects_;
  FusionPlan plan_;
  std::vector<Class> class_;
  std::vector<Kind> hero_kind_;
  std::unordered_map<const Instruction*, const Instruction*> before_;  // of those that keep their place: the one before
  std::vector<int> position_, group_of_;
  std::vector<FusionGroup> groups_;
  std::vector<std::vector<const Instruction*>> inputs_;
  std::vector<std::vector<ValueRef>> values_;
  std::unordered_map<KernelId, KernelSize, KernelIdHash> size_of_;
  std::unordered_map<std::size_t, Uses> asked_;  // of kept instructions that could have been inlined
  std::optional<GroupGraph> graph_;
};

}  // namespace krafla::plan
