// SPDX-License-Identifier: Apache-2.0
// How PlanProgram works. module_planner.cpp goes through the computations, pieces.cpp builds their kernels,
// allocate.cpp decides where bytes lie and place.cpp which values share them, control.cpp plans loops, branches and
// calls.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "plan/arena.h"
#include "plan/carried_values.h"
#include "plan/plan_log.h"
#include "plan/planner.h"

namespace krafla::plan {

struct RowGroup;
struct RowBlocks;
struct BlockKernels;
struct RowChainMember;
struct RowSumMembers;
struct GroupBlocks;

using SliceMap = std::unordered_map<ValueRef, Slice, ValueRefHash>;

struct SliceHash {
  std::size_t operator()(const Slice& s) const {
    return std::hash<int64_t>()(s.offset * 1000003 + s.allocation) ^ std::hash<int64_t>()(s.size * 31);
  }
};

// The leaves of a result that are arrays.
std::vector<ValueRef> ArrayLeaves(const Instruction* i);

// One computation's kernels, made before any buffer is chosen.
struct Piece {
  const FusionGroup* group = nullptr;
  std::vector<BuiltKernel> kernels;  // several for a concatenate; none for control flow
  int instructions = 0;
};

class ModulePlanner {
 public:
  ModulePlanner(std::unique_ptr<Module> module, const PlanOptions& options) : options_(options) {
    plan_.module = std::move(module);
  }

  Result<ProgramPlan> Run();

 private:
  // ---- allocations ------------------------------------------------------------------------------------------------

  Slice NewAllocation(Allocation::Kind kind, int number, int64_t size);
  Slice NewTemporary(int64_t size) { return NewAllocation(Allocation::Kind::kArena, 0, size); }

  Slice ConstantSlice(const Instruction* constant);

  Slice DeviceIdSlice(Opcode opcode);

  // The 128-bit counter of an rng-get-and-update-state, low word first.
  Slice StateSlice(const Instruction* i);

  void Touch(const Slice& s);

  // The bytes that temporaries may take: more than any machine has, and far from where sums of sizes would overflow.
  static constexpr int64_t kMaxTemporaries = int64_t{1} << 56;

  // Packs the temporaries among the allocations from `begin` on that are not part of a frame already. Those of the
  // program become the arena. Those of a computation that several call become one allocation, its frame; it does not
  // contain the frames of the computations that it calls, because others call these too.
  enum class Frames : uint8_t { kAreTemporaries, kHavePlaces };
  Result<ArenaSize> Pack(std::size_t begin, Frames frames);

  Result<> PackTemporaries();

  // ---- one computation ----------------------------------------------------------------------------------------------

  struct Scope {
    const Computation* computation = nullptr;
    FusionPlan fusion;
    std::vector<Piece> pieces;
    SliceMap slices;  // values that have a place
    // By their slices: the results of whiles, and what they begin with where it lies there too.
    std::unordered_map<Slice, std::vector<ValueRef>, SliceHash> loop_states;
    std::unordered_map<ValueRef, std::vector<int>, ValueRefHash> readers;  // the pieces that read a value, rising
    std::unordered_map<ValueRef, int, ValueRefHash> results;               // how many of the results a value is

    PlanLog* log = nullptr;  // PlanOptions::fusion.log

    // The number (now_) of each launch, by its place in the list of steps.
    std::unordered_map<std::size_t, int> launched;

    void Place(const ValueRef& v, const Slice& slice) {
      if (log != nullptr) log->places.push_back({v, slice});
      slices[v] = slice;
      if (v.instruction->opcode() == Opcode::kWhile) loop_states[slice].push_back(v);
    }
    // Whether `v` is a result, or one beside the result that `except` is.
    bool IsResult(const ValueRef& v) const { return results.contains(v); }
    bool IsResult(const ValueRef& v, const ValueRef& except) const {
      auto it = results.find(v);
      return it != results.end() && it->second > (v == except ? 1 : 0);
    }
    std::unordered_map<ValueRef, int, ValueRefHash> maker;  // the piece that makes a value
  };

  Result<> BuildPieces(Scope& scope);

  // Writes down what a group computes and reads.
  void LogGroup(const FusionPlan& fusion, const FusionGroup& group);

  static bool IsControl(FusionGroup::Kind kind);

  static bool ReadsBinding(const Piece&, const BuiltKernel& kernel, std::size_t b);

  // The dynamic-update-slice or scatter by which a piece updates its first operands in place; null where it has none.
  static const Instruction* UpdatedOperand(const Piece& piece);
  static std::size_t UpdatedCount(const Instruction& i);

  int CountInstructions(const FusionPlan& fusion, const FusionGroup& group,
                        std::unordered_set<const Instruction*>& counted);

  // Plans `c`, whose parameters' array leaves lie in `arguments` and whose result's array leaves belong in `results`.
  Result<> PlanComputation(const Computation& c, std::span<const Slice> arguments, std::span<const Slice> results,
                           StepList& steps, bool is_entry);

  // Copies the root values that do not lie in their results yet. Every source is read before it is overwritten.
  void CopyRoots(Scope& scope, std::span<const ValueRef> roots, std::span<const Slice> results, StepList& steps);

  void AddCopy(const Slice& from, const Slice& to, StepList& steps);

  Slice SliceOf(Scope& scope, const ValueRef& v);

  // Whether a piece after `piece` reads `v`. That `v` may be a result does not count.
  static bool ReadAfter(const Scope& scope, const ValueRef& v, int piece);

  // The value that `v` is an update in place of, where nothing needs that value afterwards.
  std::optional<ValueRef> UpdatedInPlace(const Scope& scope, const ValueRef& v);

  // Whether the kernel of an update reads the array that it writes at other places than those that it writes.
  static bool ReadsWhileUpdating(const Scope& scope, int piece, const ValueRef& from);

  void AliasDonated(Scope& scope, std::span<const ValueRef> parameters, std::span<const ValueRef> roots,
                    std::span<const Slice> results);

  // Lets the pieces that make results write them straight to their destinations, where nothing needs what is there any
  // more. `held`: the parameters, by the slices in which they lie.
  void Preassign(Scope& scope, const std::unordered_map<Slice, std::vector<ValueRef>, SliceHash>& held,
                 const ValueRef& v, const Slice& destination);

  static bool SafeToShare(const Scope& scope, int piece, const ValueRef& read, const ValueRef& written);

  Result<> PlanPiece(Scope& scope, int number, StepList& steps);

  // Whether a kernel's loop has no points, as that of an update of no elements: it is not launched.
  static bool EmptyIteration(const KernelPlan& kernel);

  int KernelNumber(KernelPlan kernel);

  // Gives the result of an update the buffer of the array that it updates, or a copy of that array.
  void PlaceUpdated(Scope& scope, int piece, const Instruction& update, StepList& steps);

  // Gives the result `v` of the conditional `piece` the memory of what its branches pass on as it, if nothing needs
  // that afterwards.
  void PlaceCarried(Scope& scope, int piece, const ValueRef& v);

  // Whether no other value that a piece from `piece` on reads lies in the same slice.
  static bool OnlyNameOf(const Scope& scope, const ValueRef& v, const Slice& slice, int piece);

  // Keeps the temporaries alive to the end of a loop that touches them, if they were made before its step `start`.
  // touched_in_loop_ lists what the loops that are being planned touch, this one from entry `begin` on. A temporary
  // that is made within the loop does not concern the loops around it.
  void ExtendOverLoop(int start, std::size_t begin);

  Result<> PlanWhile(Scope& scope, int number, StepList& steps);

  Result<> PlanConditional(Scope& scope, int number, StepList& steps);

  // Parts collectives among the steps from `begin` on from what waits for them (plan/overlap.cpp). `ends`: the number
  // (now_) at which each of these steps has ended.
  void OverlapExchanges(Scope& scope, std::size_t begin, std::vector<int> ends, StepList& steps);

  // Makes row groups of launches among the steps from `begin` on (plan/rows/group_rows.cpp). `arguments`, `results`:
  // where others look for the computation's.
  void GroupRows(const Scope& scope, std::span<const Slice> arguments, std::span<const Slice> results,
                 std::size_t begin, StepList& steps);
  // Whether a chain may begin with the step.
  bool MayStart(const StepList& steps, std::size_t step) const;
  // `is_wide`: with sums over the rows, and with launches beside the chain whose rows it reads.
  RowGroup GroupFrom(const Scope& scope, const std::set<int>& kept, const StepList& steps, std::size_t step,
                     bool is_wide) const;
  // Adds a group that begins with the launch `step` to `out`, and gives its last step.
  std::optional<std::size_t> MakeRowGroupFrom(const Scope& scope, const std::set<int>& kept, StepList& steps,
                                              std::size_t step, StepList& out);
  // Which of the arrays that the group writes are needed by nobody else.
  void FindShrunk(const Scope& scope, const std::set<int>& kept, RowGroup& group) const;
  // Adds the launch `step` and the two that go with it to `out` as one, and gives the step behind them.
  std::optional<std::size_t> MakeAttention(const Scope& scope, const std::set<int>& kept, StepList& steps,
                                           std::size_t step, StepList& out);
  // Adds the group to `out`, with the steps that run before it; false, and nothing done, where it is no gain.
  bool MakeRowGroup(const Scope& scope, RowGroup& group, StepList& steps, StepList& out);
  // `widths`: of arrays of which rows have fewer elements than the chain says, by allocation.
  bool IsAligned(const RowGroup& group, std::span<const RowChainMember> launches, const BlockKernels& part,
                 const std::map<int, int64_t>& widths) const;
  void PlaceSums(const Scope& scope, const RowGroup& group, RowSumMembers& sums, StepList& out);
  void FinishSumsOf(const RowGroup& group, const RowSumMembers& sums, StepList& out);
  // By allocation; -1: of the block's place in the grid.
  std::map<int, Slice> PlaceBlocks(const RowGroup& group, const RowBlocks& blocks);
  // `widths`: of the arrays' rows, where these are not the group's.
  RowGroupStep RowGroupOf(const RowGroup& group, std::span<const RowChainMember> members, BlockKernels part,
                          const GroupBlocks& blocks, const std::map<int, int64_t>& widths, bool is_first);
  // The group with fewer columns where only these count, a check that the others do not, and `whole` for the case that
  // they do. False, and nothing added: `whole` is to run.
  bool AddBounded(const Scope& scope, RowGroup& group, const GroupBlocks& blocks, StepList& whole, StepList& out);
  void EndRowGroup(const Scope& scope, const RowGroup& group);
  // The kernels that no launch has: of whole arrays, of launches that became one.
  void DropUnusedKernels();

  // Makes one launch of several among the steps from `begin` on, where none depends on another one
  // (plan/fuse_launches.cpp). `times`: of the launches; `least_bytes`: what the launches move together at the
  // least.
  void FuseHorizontally(const std::unordered_map<const Instruction*, int>& times, double least_bytes, std::size_t begin,
                        StepList& steps);
  std::vector<std::size_t> LaunchesWith(const StepList& steps, std::size_t first, const std::vector<bool>& gone,
                                        bool asks);
  // The launch of all of them, if the device takes them together: its kernel and its bindings.
  std::optional<LaunchStep> Joined(std::span<const LaunchStep* const> launches, bool begins_with_rows = false);
  // Leaves out launches of few rows that the products behind them can compute for themselves (plan/fuse_rows.cpp).
  void PutRowsIntoProducts(const std::unordered_map<const Instruction*, int>& times, std::size_t begin,
                           StepList& steps);
  // The launch that reads what the reduction `rows` makes, if nobody else does and they can be one.
  std::optional<std::size_t> ProductOfRows(const std::unordered_map<const Instruction*, int>& times,
                                           const StepList& steps, std::size_t rows);
  static std::unordered_map<const Instruction*, int> LaunchTimes(const Scope& scope, std::size_t begin,
                                                                 const StepList& steps);

  // A computation that several call. Its steps work on fixed slices of a frame of its own, to which callers copy the
  // arguments and from which they copy the results. One frame is enough, because no computation calls itself.
  struct Callee {
    std::vector<Slice> parameters, results;
    int frame = 0;           // the allocation
    std::vector<int> calls;  // the computations that it calls
  };

  Result<int> PlanCallee(const Computation& c);

  Result<> PlanCall(Scope& scope, int number, StepList& steps);

  const PlanOptions& options_;
  ProgramPlan plan_;
  EffectFacts effects_;
  CarriedValues carried_;
  int now_ = 0;
  std::vector<int> loop_starts_;  // for each loop that is being planned: the step before its first one
  std::vector<int> touched_in_loop_;
  std::vector<int> frame_of_;  // for each allocation: the allocation that it is a part of, or -1
  std::unordered_set<int> is_frame_;
  std::vector<Callee> callees_;
  std::unordered_map<const Computation*, int> callee_of_;
  std::vector<int> calls_;                    // what the computation that is being planned calls
  std::vector<std::pair<int, int>> touched_;  // for each allocation: the first and the last step that touch it
  std::array<std::optional<Slice>, 2> device_ids_;
  std::unordered_map<const Instruction*, Slice> constants_, states_;
  std::unordered_multimap<uint64_t, int> kernels_by_hash_;
  bool has_unused_kernels_ = false;
  std::map<int, bool> takes_horizontal_;  // by kernel
};

}  // namespace krafla::plan
