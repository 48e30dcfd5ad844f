// SPDX-License-Identifier: Apache-2.0
// The walk over a program that makes it the program of one device, instruction by instruction.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/sdy_sharding.h"
#include "passes/pipeline.h"
#include "passes/spmd/spmd_emitter.h"
#include "passes/spmd/spmd_rules.h"

namespace krafla::spmd {

class Walk {
 public:
  Walk(Module& module, const PassOptions& options, SdyMeshes meshes)
      : module_(module), options_(options), meshes_(std::move(meshes)) {
    channels_.least_bytes_by_turns = options.least_bytes_by_turns;
  }

  // Emits `from` on `arguments` into the emitter's computation; calls are put in their place.
  // `region`: of what has no operands. `results`: how the leaves of the result are wanted; empty: nobody says.
  Result<Value> Run(const Computation& from, std::vector<Value> arguments, const Region* region, Emitter& emitter,
                    std::span<const Sharding> results = {});
  Channels* channels() { return &channels_; }
  int64_t devices() const { return module_.num_partitions; }

 private:
  // How all that reads a value wants it to be cut; only of those values that are.
  using Wanted = std::unordered_map<const Instruction*, std::vector<Split>>;
  // One computation on its way.
  struct Scope {
    std::unordered_map<const Instruction*, Value> values;
    std::vector<Value> arguments;
    const Region* region = nullptr;
    Emitter& emitter;
    // The groups that an instruction is in, and the instructions of a group, in order.
    std::unordered_map<const Instruction*, std::vector<std::string>> groups;
    std::map<std::string, std::vector<const Instruction*>> members;
    Wanted wanted;
  };

  Result<Value> Step(const Instruction& i, Scope& scope);
  Result<Value> Plain(const Instruction& i, std::vector<Value> operands, const Region* region, const Wanted& wanted,
                      Emitter& emitter);
  // By blocks where there is a rule for it, else on whole arrays.
  Result<Value> OnBlocks(const Instruction& i, std::vector<Value> operands, const Region* region, const Wishes& wishes,
                         Emitter& emitter);
  Result<Value> Barrier(const Instruction& i, std::vector<Value> operands, Emitter& emitter);

  // spmd_backward.cpp
  Result<Wanted> FindWanted(const Computation& from, std::span<const Sharding> results) const;
  Result<std::optional<std::vector<Split>>> WantedBy(const Instruction& user, std::size_t operand,
                                                     const Wanted& wanted) const;
  // Cuts operands that are whole as the result is wanted.
  Result<> CutBefore(const Instruction& i, const Wanted& wanted, std::vector<Value>& operands, const Region* region,
                     Emitter& emitter) const;

  // spmd_control_flow.cpp
  class Called;
  Result<Value> Call(const Instruction& i, std::vector<Value> operands, Scope& scope);
  Result<Value> While(const Instruction& i, Value init, const Region* region, Emitter& emitter);
  // The state with arrays that no turn changes where turns read their rows without asking other devices.
  Result<Value> RowsAtHand(const Computation& body, Value init, Emitter& emitter);
  // The state as a loop starts with it.
  Result<Value> StateOf(const Computation& body, Value init, const Region* region, Emitter& emitter);
  Result<Value> Conditional(const Instruction& i, std::vector<Value> operands, const Region* region, Emitter& emitter);
  Result<Value> InRegion(Value value, const Region* region, Emitter& emitter);

  // spmd_annotations.cpp: the custom calls that say how arrays are sharded. Nothing for other
  // instructions.
  Result<std::optional<Value>> Annotation(const Instruction& i, Scope& scope);
  // Tells who asks how an array is cut.
  Result<> Inspect(const Instruction& i, const Value& value, const Scope& scope) const;
  // The sharding that a constraint asks for; none where it says nothing.
  Result<std::optional<Sharding>> ConstraintOf(const Instruction& i) const;
  // Where all that is made of the instruction is a sum in parts: along which devices.
  Result<std::vector<Split>> PartsWanted(const Instruction& i) const;
  // Dimensions that a constraint, which is all that reads the instruction, leaves open.
  static std::vector<int64_t> OpenDims(const Instruction& i);
  Result<Value> Constrain(const Instruction& i, Value value, Emitter& emitter);

  // spmd_custom.cpp: calls with a partitioner of their own. Nothing for others.
  Result<std::optional<Value>> CustomPartition(const Instruction& i, Scope& scope);

  // spmd_groups.cpp: values that a program wants to be cut alike (xla.sdy.ShardingGroup).
  // Where the arguments of a computation lie decides first, then what is made first.
  Result<> FindGroups(const Computation& from, Scope& scope);
  // `made` of `i`, as its groups have it; what was made before where the group learns of a cut only now.
  Result<> CutAlike(const Instruction& i, Value& made, Scope& scope);
  // As `dims` say where that gives every block to a device; else as it is.
  Result<Value> CutLike(Value value, const std::vector<Split>& dims, Emitter& emitter) const;

  Result<Value> GlobalToLocal(const Instruction& i, Scope& scope);
  Result<Value> LocalToGlobal(const Instruction& i, Scope& scope);
  std::vector<Split> FreeSplits(const Value& value, const SdySharding& sdy, const Sharding& manual,
                                const Region* inside, const Region* outside) const;
  Result<Value> FullToShard(const Instruction& i, Value value, Scope& scope);
  Result<Value> ShardToFull(const Instruction& i, Value value, Scope& scope);
  // The region along the manual axes of an annotation, within `parent`.
  Result<const Region*> ManualRegion(const Instruction& annotation, const Region* parent,
                                     std::vector<std::string>* axes);
  const Region* RegionAlong(const Region* parent, const std::vector<Split>& splits);
  // The region of a body that takes nothing: where its results go says it.
  Result<const Region*> RegionOfBody(const Instruction& call, const Region* parent);

  Module& module_;
  const PassOptions& options_;
  SdyMeshes meshes_;
  std::deque<Region> regions_;
  std::map<std::string, std::vector<Split>> groups_;  // how the values of a group are cut, once that is known
  Channels channels_;
  int depth_ = 0;
  int tried_loops_ = 0;  // around what is being walked: loops whose body is walked to see what a turn makes
};

// The value of a frontend attribute, as written between its quotes; empty where there is none.
std::string_view FrontendAttribute(const InstructionMetadata& metadata, std::string_view key);

}  // namespace krafla::spmd
