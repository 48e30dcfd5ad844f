// SPDX-License-Identifier: Apache-2.0
// A collective prepared to run: who takes part, and what each member does in which phase, over plain bytes. Members
// read each other's operands in place; nothing is gathered in between. Sums go in the order of ranks, element by
// element, so that every run gives the same bits on every member.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/participants.h"
#include "ir/module.h"
#include "krafla/status.h"

namespace krafla {

// A reduction computation applied to arrays. Several threads may use one.
class Combiner {
 public:
  virtual ~Combiner() = default;
  // accumulator[i] = f(accumulator[i], value[i]) for i in [0, elements).
  virtual Result<> Combine(std::byte* accumulator, const std::byte* value, int64_t elements) const = 0;
};

// The arrays of one member: the array leaves of its operands and of its result (of a -start: of what its -done gives),
// dense and row-major. Results do not overlap operands.
struct Contribution {
  std::span<const std::byte* const> operands;
  std::span<std::byte* const> results;
  // Instead of both, where the devices do the work: what who does it knows of the member's arrays.
  const void* on_device = nullptr;
};

// Rows of bytes from a leaf of one member's operands to a leaf of another's results.
struct CollectiveMove {
  std::size_t source = 0;  // rank of the member that has them
  std::size_t from_leaf = 0, to_leaf = 0;
  int64_t from = 0, from_stride = 0, to = 0, to_stride = 0;
  int64_t bytes = 0, rows = 1;  // bytes of a row
};

class Collective {
 public:
  // `combiner`: of an all-reduce or a reduce-scatter. UNIMPLEMENTED for arrays of dynamic dimensions.
  static Result<std::unique_ptr<const Collective>> Make(const Instruction& instruction, const DeviceGrid& grid,
                                                        std::shared_ptr<const Combiner> combiner);

  // "all-reduce 'r.1' (line 12)"
  const std::string& description() const { return description_; }

  // A device's group; -1 where it is in none.
  int GroupOf(int64_t device) const { return group_of_[static_cast<std::size_t>(device)]; }
  int RankOf(int64_t device) const { return rank_of_[static_cast<std::size_t>(device)]; }
  int groups() const { return static_cast<int>(groups_.size()); }
  // In the order of ranks.
  std::span<const int64_t> Members(int group) const { return groups_[static_cast<std::size_t>(group)]; }

  std::size_t operand_leaves() const { return operands_.size(); }
  std::size_t result_leaves() const { return results_.size(); }
  // Of a member's operands and results.
  int64_t bytes() const;
  Opcode opcode() const { return opcode_; }
  int64_t operand_bytes(std::size_t leaf) const { return operands_[leaf].bytes; }
  int64_t result_bytes(std::size_t leaf) const { return results_[leaf].bytes; }
  // What is done on several processes as moves, or sums of what is moved: whether the collective is one of these, ...
  bool Moves() const;
  bool Reduces() const { return combiner_ != nullptr; }
  // ... what of each member's operands goes into `rank`'s results (of a reduce-scatter: of every member's, here from
  // `source` 0), ...
  std::vector<CollectiveMove> MovesTo(int group, std::size_t rank) const;
  // ... and accumulator = f(accumulator, value), bytes of whole elements.
  Result<> Combine(std::byte* accumulator, const std::byte* value, int64_t bytes) const {
    return combiner_->Combine(accumulator, value, bytes / operands_[0].element_bytes);
  }
  // Of a collective-permute: who sends to the device, -1 for nobody.
  int64_t SourceOf(int64_t device) const { return source_of_[static_cast<std::size_t>(device)]; }

  // Member `rank` does its share of the work, given what all members brought. No member may take its contribution back
  // before all are through.
  Result<> Run(int group, std::size_t rank, std::span<const Contribution> members) const;
  // There is so little to do that one member does it for all: to wake the others costs more.
  bool IsSmall() const { return bytes() <= kSmallBytes; }
  // Of a device that is in no group: zeros where XLA says so (collective-broadcast, collective-permute), else an error.
  Result<> RunOutside(int64_t device, const Contribution& own) const;
  // Of who receives nothing.
  void ZeroResults(const Contribution& own) const;

 private:
  static constexpr int64_t kSmallBytes = 128 * 1024;
  struct Leaf {
    ElementType type;
    Dims dims;
    int64_t elements = 0, bytes = 0, element_bytes = 0;
  };
  // An array seen along one dimension: `outer` rows of `count` blocks of `chunk` elements.
  struct Blocks {
    int64_t outer = 1, chunk = 1;
  };

  Collective() = default;
  Result<> FindLeaves(const Instruction& instruction);
  Result<> FindGroups(const Instruction& instruction, const DeviceGrid& grid);
  Blocks BlocksOf(const Leaf& leaf, int64_t count) const;
  Result<> Reduce(std::byte* out, std::span<const Contribution> members, std::size_t leaf, int64_t from,
                  int64_t elements) const;
  Result<> AllReduce(std::size_t rank, std::span<const Contribution> members) const;
  Result<> ReduceScatter(std::size_t rank, std::span<const Contribution> members) const;
  void AllGather(std::size_t rank, std::span<const Contribution> members) const;
  void AllToAll(std::size_t rank, std::span<const Contribution> members) const;
  void Permute(int group, std::size_t rank, std::span<const Contribution> members) const;
  void RaggedAllToAll(std::size_t rank, std::span<const Contribution> members) const;

  Opcode opcode_ = Opcode::kAllReduce;
  std::string description_;
  std::vector<Leaf> operands_, results_;
  int64_t dimension_ = -1;  // of all-gather, all-to-all (array form), reduce-scatter
  std::vector<std::vector<int64_t>> groups_;
  std::vector<int> group_of_, rank_of_;
  std::vector<int64_t> source_of_;  // collective-permute: by device, -1 for none
  std::shared_ptr<const Combiner> combiner_;
};

}  // namespace krafla
