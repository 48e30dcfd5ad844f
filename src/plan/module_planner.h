// SPDX-License-Identifier: Apache-2.0
// How PlanProgram works. module_planner.cpp goes through the computations, pieces.cpp makes their kernels, allocate.cpp
// says where bytes lie, place.cpp which values share them, control.cpp plans loops, branches and calls.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "plan/arena.h"
#include "plan/planner.h"

namespace krafla::plan {

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

  // More than any machine has, and far from where sums would overflow.
  static constexpr int64_t kMaxTemporaries = int64_t{1} << 56;

  // Packs the temporaries among the allocations from `begin` on that are no parts of a frame. Of a shared computation
  // they make one allocation, its frame (those of computations that it calls are not in it: others call them too); of
  // the program, the arena.
  enum class Frames : uint8_t { kAreTemporaries, kHavePlaces };
  Result<ArenaSize> Pack(std::size_t begin, Frames frames);

  Result<> PackTemporaries();

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

  Result<> BuildPieces(Scope& scope);

  static bool IsControl(FusionGroup::Kind kind);

  static bool ReadsBinding(const Piece&, const BuiltKernel& kernel, std::size_t b);

  // The dynamic-update-slice or scatter of a piece that updates its first operands in place.
  static const Instruction* UpdatedOperand(const Piece& piece);
  static std::size_t UpdatedCount(const Instruction& i);

  int CountInstructions(const FusionPlan& fusion, const FusionGroup& group,
                        std::unordered_set<const Instruction*>& counted);

  // Plans `c` with its parameters' array leaves in `arguments`, leaving its result's array leaves in `results`.
  Result<> PlanComputation(const Computation& c, std::span<const Slice> arguments, std::span<const Slice> results,
                           StepList& steps, bool is_entry);

  // Root values that are not yet where they must be. All sources are read before any is overwritten.
  void CopyRoots(Scope& scope, std::span<const ValueRef> roots, std::span<const Slice> results, StepList& steps);

  void AddCopy(const Slice& from, const Slice& to, StepList& steps);

  Slice SliceOf(Scope& scope, const ValueRef& v);

  // Whether a piece after `piece` reads `v`. Results are not asked for here.
  static bool ReadAfter(const Scope& scope, const ValueRef& v, int piece);

  // What `v` is where an update in place makes it of that value, which nothing needs afterwards.
  std::optional<ValueRef> UpdatedInPlace(const Scope& scope, const ValueRef& v);

  // The update's own kernel reads the array that it writes, elsewhere than where it writes.
  static bool ReadsWhileUpdating(const Scope& scope, int piece, const ValueRef& from);

  void AliasDonated(Scope& scope, std::span<const ValueRef> parameters, std::span<const ValueRef> roots,
                    std::span<const Slice> results);

  // Lets the maker of result `v` write straight to its destination where nothing still needs what is there. `held`: the
  // parameters by their places.
  void Preassign(Scope& scope, const std::unordered_map<Slice, std::vector<ValueRef>, SliceHash>& held,
                 const ValueRef& v, const Slice& destination);

  static bool SafeToShare(const Scope& scope, int piece, const ValueRef& read, const ValueRef& written);

  Result<> PlanPiece(Scope& scope, int number, StepList& steps);

  // Loops over nothing (an update of no elements) launch nothing.
  static bool EmptyIteration(const KernelPlan& kernel);

  int KernelNumber(KernelPlan kernel);

  // Gives the result of an in-place update the buffer of what it starts from, or a copy of it.
  void PlaceUpdated(Scope& scope, int piece, const Instruction& update, StepList& steps);

  // No other value that is still read lies in the same slice.
  static bool OnlyNameOf(const Scope& scope, const ValueRef& v, const Slice& slice);

  // Temporaries from before a loop that it touches live to its end. touched_in_loop_ lists what the loops that are
  // being planned touch, from `begin` on what this one does; what began within it is no concern of the loops around it.
  void ExtendOverLoop(int start, std::size_t begin);

  Result<> PlanWhile(Scope& scope, int number, StepList& steps);

  Result<> PlanConditional(Scope& scope, int number, StepList& steps);

  // A computation that several call: its steps work on fixed slices of a frame of its own, which callers copy to and
  // from. (Nothing calls itself, so one frame is enough.)
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

}  // namespace krafla::plan
