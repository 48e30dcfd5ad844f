// SPDX-License-Identifier: Apache-2.0
// What the partitioner knows of a value on its way from the whole program to that of one device,
// and how a value is resharded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/module.h"
#include "ir/sharding.h"
#include "krafla/status.h"

namespace krafla::spmd {

// A manual computation: devices that differ in one of these splits hold values of their own, and
// only devices that agree in all of them may be asked to put a value together.
struct Region {
  const Region* parent = nullptr;
  int depth = 1;
  std::vector<Split> splits;  // of the regions around it too
};
// Null: no manual computation. One of two regions of which the other is around it.
const Region* Deepest(const Region* a, const Region* b);
inline int DepthOf(const Region* region) { return region == nullptr ? 0 : region->depth; }

// Rows of a block of a dimension of `size`: that divided by the number of blocks, rounded up.
inline int64_t BlockSize(int64_t size, const Split& split) {
  return size / split.count + (size % split.count != 0 ? 1 : 0);
}
// Whether a dimension may be cut so: evenly, or with more rows than blocks.
inline bool MayBeCutInto(int64_t size, const Split& split) { return size % split.count == 0 || size > split.count; }

// An array: `local` is the block that this device has. What lies behind the end of a dimension that is not cut evenly,
// in the last blocks, is anything. A tuple: its elements, and the instruction that gives them where one does and they
// are as it gave them.
struct Value {
  Instruction* local = nullptr;
  Dims sizes;                    // of the array as a whole; empty: as large as its blocks together
  std::vector<Split> dims;       // one per dimension of an array
  std::vector<Split> unreduced;  // devices that differ in these have parts of a sum
  const Region* region = nullptr;
  std::vector<Value> elements;
  bool is_tuple = false;

  bool IsArray() const { return !is_tuple && local->shape().IsArray(); }
  bool IsWhole() const;
  int64_t blocks() const;
  int64_t size(std::size_t d) const { return sizes.empty() ? local->shape().dims()[d] * dims[d].count : sizes[d]; }
  // Whether blocks have rows behind the end of a dimension.
  bool IsPadded(std::size_t d) const { return size(d) % dims[d].count != 0; }
};
inline bool Holds(const Dims& list, int64_t d) { return std::ranges::find(list, d) != list.end(); }
std::vector<Split> WholeDims(int64_t rank);
bool AnyCut(std::span<const Split> dims);
// The block of `shape` that a device has, in its layout; `dims` may be of the first dimensions only.
Result<Shape> BlockShape(const Shape& shape, std::span<const Split> dims);
// The sizes of an array, or of a tuple's arrays, as `shape` has them.
void SetSizes(Value& value, const Shape& shape);
// All splits of an array that is cut by `dims` and in parts of a sum: those that a device's place depends on.
std::vector<Split> Together(std::span<const Split> dims, std::span<const Split> unreduced);
// A tuple whose elements have gone through `change`.
Result<Value> ForElements(Value tuple, const std::function<Result<Value>(Value)>& change);
// The leaves of a tuple, depth first, to be changed.
void Leaves(Value& value, std::vector<Value*>& out);
const Region* RegionOf(const Value& value);

// Whether every block is somewhere, and each equally often: what a collective over the devices
// needs. `region`: within each of its parts.
bool Covers(std::span<const Split> dims, const Region* region, int64_t devices);

// Devices by where they lie along all of `splits` and in a region: equal numbers, equal places.
std::vector<int64_t> Places(std::span<const Split> splits, const Region* region, int64_t devices);

// Whether two devices differ in one of `a` exactly where they differ in one of `b`.
bool SamePlaces(std::span<const Split> a, std::span<const Split> b, int64_t devices);

// What cuts `coarse` into `fine`: fine == Combine(coarse, that). Nothing where no split does.
std::optional<Split> Finer(const Split& coarse, const Split& fine);

// A step from one sharding of an array to another.
struct ReshardStep {
  enum class Kind {
    kCut,       // dimension `to` is cut by `along` besides
    kPermute,   // blocks change their devices
    kAllToAll,  // dimension `to` is cut by `along` besides, and `from` no more
    kGather,    // dimension `from` is put together along `along`
  };
  Kind kind;
  std::size_t from, to;
  Split along;
  std::vector<Split> after;  // how the array is cut then
};
// In order. All blocks of both shardings are somewhere.
std::vector<ReshardStep> PlanReshard(const Value& value, std::span<const Split> dims, int64_t devices);
// The bytes that these steps bring to each device; of a block of `bytes`, which need not be there.
double ReshardBytes(const Value& value, std::span<const Split> dims, int64_t devices);
double ReshardBytes(const Value& value, std::span<const Split> dims, int64_t devices, double bytes);

// Dimension `d` becomes whole, and cut in its place the largest of those of `sizes` that are `free` and whole, one that
// is cut evenly before others: a device gets a block for a block then, and not everything. False where there is none,
// or nothing is cut.
bool MoveAway(std::vector<Split>& dims, std::size_t d, const Dims& sizes, const std::vector<bool>& free);

// What a reshape does to one run of dimensions: [from, from_end) melt and part into [to, to_end), as many elements. A
// cut goes through along the slowest of each side, the first that is not 1; the end of the run where there is none.
struct ReshapeGroup {
  std::size_t from_end, slowest_from;
  std::size_t to, to_end, slowest_to;
};
// Of shapes that have elements.
std::vector<ReshapeGroup> ReshapeGroups(const Dims& from, const Dims& to);
// Whether a cut of the slowest dimension of one side of a group gives the blocks that it gives of the other side.
bool GoesThrough(const ReshapeGroup& group, const Dims& from, const Dims& to, const Split& split);
// How the operand of a reshape has to be cut for its result to be cut by `dims`; nothing where no cut does that. A cut
// dimension is the slowest of those that it melts or parts with.
std::optional<std::vector<Split>> ThroughReshape(const Dims& from, const Dims& to, std::span<const Split> dims);

// The channels of the collectives that are emitted for a module.
struct Channels {
  int64_t next = 1;
  std::vector<int64_t> gathers;      // those of all-gathers that put an array together
  int64_t least_bytes_by_turns = 0;  // PassOptions
};

// Emits into one computation.
class Emitter {
 public:
  Emitter(Module& module, Computation& out, Channels* channels) : module_(module), out_(out), channels_(*channels) {}

  Computation& out() { return out_; }
  const Channels& channels() const { return channels_; }
  // Where new instructions say they are from.
  void set_origin(const Instruction* origin) { origin_ = origin; }

  Result<Instruction*> Infer(Opcode opcode, std::vector<Instruction*> operands, Attributes attributes = {},
                             std::vector<Computation*> called = {});
  // An instruction like `like`, on local operands, of a local shape.
  Instruction* Clone(const Instruction& like, Shape shape, std::vector<Instruction*> operands);

  // `value` in another sharding of the same dimensions.
  Result<Value> Reshard(Value value, std::span<const Split> dims);
  Result<Value> Whole(Value value);
  // Without parts of sums; and the other way: zeros but on the first device along each of `along`.
  Result<Value> Settle(Value value);
  Result<Value> Unsettle(Value value, const std::vector<Split>& along);
  // A sum in parts of which each device's is its block, with zeros around it: in place of putting dimension `d`
  // together.
  Result<Value> BlocksAsParts(Value value, std::size_t d, const std::vector<Split>& along);
  // All of that: settled, unless that is what is wanted, cut by `dims`, and in parts of a sum along `unreduced`.
  Result<Value> ReshardTo(Value value, std::span<const Split> dims, const std::vector<Split>& unreduced);
  // All-reduce of partial results over the devices that differ in `along`, by `computation`; null: their sum.
  Result<Instruction*> Sum(Instruction* partial, const Split& along, std::span<const Split> dims, const Region* region,
                           Computation* computation = nullptr);
  // Puts the blocks of dimension `d` together.
  Result<Instruction*> Gather(Instruction* local, int64_t d, const Split& along, std::span<const Split> others,
                              const Region* region);
  // The arrays of the devices that differ in `along`, in a new first dimension.
  Result<Instruction*> SideBySide(const Value& value, const Split& along);
  // The blocks that this device has of a whole array (spmd_cut.cpp).
  Result<Instruction*> Cut(Instruction* whole, std::span<const Split> dims);
  // Where this device's block of a dimension begins, an s32.
  Result<Instruction*> Offset(const Split& split, int64_t block_size);
  // The blocks of an array that is cut by `dims` in place of those that devices have (spmd_reshard.cpp).
  Result<Instruction*> Permute(const Value& value, std::span<const Split> dims);
  // Cuts dimension `to` by `along` in place of `from`. `others`: what the array is cut by before and after.
  Result<Instruction*> AllToAll(Instruction* local, std::size_t from, std::size_t to, const Split& along,
                                std::span<const Split> others, const Region* region);
  // `value` with `fill`, a scalar, in place of what lies behind the ends of the dimensions `which`.
  Result<Value> Masked(Value value, std::span<const std::size_t> which, Instruction* fill);
  Result<Value> MaskedWithZeros(Value value, std::span<const std::size_t> which);
  // At the end of the computation: sums of sums are taken once, and those of which a device keeps a block are no sums
  // of everything.
  Result<> FinishSums();
  // The number that `of_block` has for this device's block, an s32; of numbers below 0 any.
  Result<Instruction*> NumberOf(const Split& split, std::span<const int64_t> of_block);
  // From devices with some blocks along `along` to those with others, by pairs of blocks; zeros to who gets nothing.
  Result<Instruction*> Send(Instruction* local, const Split& along, std::span<const Split> others, const Region* region,
                            std::span<const std::pair<int64_t, int64_t>> blocks);
  // From the device with the block in front of it along `along` to each; `forward` false: from the one behind. Zeros
  // where there is none.
  Result<Instruction*> Shift(Instruction* local, const Split& along, std::span<const Split> others,
                             const Region* region, bool forward);
  // Whether an array is made of positions, scalars and constants, element by element: any block of it can be made
  // without the others (spmd_cut.cpp).
  bool IsMadeOfNothing(const Instruction* i) { return MadeOfNothing(i, 0); }
  // From one device to all.
  Result<Instruction*> Broadcast(Instruction* value, int64_t device);
  Result<Instruction*> Zero(ElementType type);
  // The first `count` rows of dimension `d`.
  Result<Instruction*> FirstRows(Instruction* value, std::size_t d, int64_t count);
  // Zeros in front of and behind dimension `d`; of less than none these are taken away.
  Result<Instruction*> Pad(Instruction* value, std::size_t d, int64_t low, int64_t high);
  // `count` elements of dimension `d` from `start` on, an s32, and all of the others.
  Result<Instruction*> RowsFrom(Instruction* value, std::size_t d, Instruction* start, int64_t count);

  // A tuple's instruction, and the other way: with the shardings and regions of `like`.
  Result<Instruction*> Materialize(const Value& value);
  Result<Value> TakeApart(Instruction* instruction, const Value& like);
  // Of one instruction: whole arrays in `region`.
  Result<Value> TakeApartWhole(Instruction* instruction, const Region* region);

 private:
  Result<Instruction*> AllGather(Instruction* local, CollectiveAttributes attributes);
  Result<> AddUpSums();
  void ScatterSums();
  Result<CollectiveAttributes> Groups(const Split& along, std::span<const Split> others, const Region* region);
  bool MadeOfNothing(const Instruction* i, int depth);
  // The block of an array, made of the blocks of its operands; null where it has to be cut out of the array.
  Result<Instruction*> Made(Instruction* whole, const Shape& block, std::span<const Split> dims);
  Result<Instruction*> IotaBlock(const Instruction& iota, const Shape& block, const Split& split);
  void SayOrigin(Instruction* made) const;

  Module& module_;
  Computation& out_;
  Channels& channels_;
  const Instruction* origin_ = nullptr;
  Instruction* partition_id_ = nullptr;
  struct KnownOffset {
    Split split;
    int64_t block_size;
    Instruction* offset;
  };
  std::vector<KnownOffset> offsets_;
  struct Block {
    std::vector<Split> dims;
    Instruction* made;
    Instruction* padded;  // what it is cut out of: the array, with rows behind its end
  };
  std::unordered_map<const Instruction*, std::vector<Block>> blocks_;
  std::unordered_map<const Instruction*, bool> of_nothing_;
  // Blocks that were cut out of whole arrays: zeros lie behind the end.
  std::unordered_set<const Instruction*> zeros_behind_;
  struct Resharded {
    Dims sizes;
    std::vector<Split> from, to;
    Instruction* made;
  };
  std::unordered_map<const Instruction*, std::vector<Resharded>> resharded_;
  struct SumOfParts {
    Instruction* made;
    Split along;
  };
  std::vector<SumOfParts> sums_;
};

}  // namespace krafla::spmd
