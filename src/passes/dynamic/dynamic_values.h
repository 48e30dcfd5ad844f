// SPDX-License-Identifier: Apache-2.0
// How a value of bounded dynamic shape is represented once dimensions are static: an array as large as the bound, whose
// leading part is valid, and an s32[] for the size of each dynamic dimension. Elements behind the leading part are
// unspecified, so an operation whose result would depend on them masks them first.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "passes/rewrite.h"

namespace krafla {

// Of sizes, strides and offsets that sizes are computed with in 32 bits: twice it does not overflow.
inline constexpr int64_t kLargest = int64_t{1} << 29;

// s32[]: the shape of a size.
const Shape& SizeShape();

// How many dimensions of all leaves are dynamic: so many sizes a value of the shape has.
int64_t DynamicDimensions(const Shape& shape);

// By dimension of one array; null, or no entry at all: the dimension is as large as its bound.
using DimensionSizes = std::vector<Instruction*>;

struct BoundedValue {
  Instruction* value = nullptr;        // no dimension of its shape is dynamic
  std::vector<DimensionSizes> leaves;  // one per leaf of the shape, depth first

  bool IsSized() const;
  // Of an array.
  Instruction* size(int64_t dim) const;
  bool IsSized(int64_t dim) const { return size(dim) != nullptr; }
};

// The size scalars of one computation. Equal ones are one instruction.
class SizeScalars {
 public:
  // s32[] clamp(0, size, bound), or null where that is a constant equal to the bound.
  Instruction* Clamped(Rewriter& rewrite, Instruction* size, int64_t bound);
  Instruction* Smaller(Rewriter& rewrite, Instruction* a, Instruction* b);

 private:
  std::map<std::pair<const Instruction*, int64_t>, Instruction*> clamped_;
  std::map<const Instruction*, int64_t> within_;  // results of Clamped with their bounds
  std::map<std::pair<const Instruction*, const Instruction*>, Instruction*> smaller_;
};

// An instruction with dynamic operands or result, on its way out.
class DynamicOp {
 public:
  // `operands` are those of `instruction`, in order.
  DynamicOp(const Instruction& instruction, std::vector<const BoundedValue*> operands, SizeScalars& sizes)
      : instruction_(instruction), operands_(std::move(operands)), sizes_(sizes), rewrite_(instruction) {}

  const Instruction& instruction() const { return instruction_; }
  const Shape& shape() const { return instruction_.shape(); }
  template <typename T>
  const T& attr() const {
    return instruction_.attr<T>();
  }
  const BoundedValue& operand(std::size_t n) const { return *operands_[n]; }
  std::size_t operand_count() const { return operands_.size(); }
  Instruction* value(std::size_t n) const { return operands_[n]->value; }
  Rewriter& rewrite() { return rewrite_; }

  // Scalars of s32.
  Instruction* Number(int64_t value);
  Instruction* Add(Instruction* a, int64_t b);
  Instruction* Scalar(Opcode opcode, Instruction* a, Instruction* b) { return rewrite_.Binary(opcode, a, b); }
  // The size, or the bound as a constant.
  Instruction* SizeOr(const BoundedValue& x, int64_t dim);
  // The smaller of two sizes of which either may be null.
  Instruction* Merge(Instruction* a, Instruction* b);
  Instruction* Clamped(Instruction* size, int64_t bound) { return sizes_.Clamped(rewrite_, size, bound); }

  // pred[dims]: whether an element is within the size in every dimension that has one.
  Instruction* Mask(std::span<const int64_t> dims, const DimensionSizes& sizes);
  // `x` with the scalar `fill` behind the sizes.
  Instruction* Masked(Instruction* x, const DimensionSizes& sizes, Instruction* fill);
  // The sizes of `x` in those of `dims` only.
  DimensionSizes SizesIn(const BoundedValue& x, std::span<const int64_t> dims) const;

  // The instruction on the operands' values, with its own shape made static. One set of sizes for every leaf.
  BoundedValue Same(const DimensionSizes& sizes);
  BoundedValue SameOn(std::vector<Instruction*> values, const DimensionSizes& sizes);
  BoundedValue Array(Instruction* value, DimensionSizes sizes) const { return {value, {std::move(sizes)}}; }
  std::vector<Instruction*> Values() const;

 private:
  const Instruction& instruction_;
  std::vector<const BoundedValue*> operands_;
  SizeScalars& sizes_;
  Rewriter rewrite_;
};

// The rules, by opcode. No value: the operation with these operands is not known to be expressible, and the evaluator
// has to run it.
using Lowered = Result<std::optional<BoundedValue>>;
Lowered LowerDynamicElementwise(DynamicOp& op);
Lowered LowerDynamicMovement(DynamicOp& op);     // dynamic_movement.cpp
Lowered LowerDynamicIndexing(DynamicOp& op);     // dynamic_indexing.cpp: slices and updates, gather, scatter
Lowered LowerDynamicCombination(DynamicOp& op);  // dynamic_combination.cpp: reductions, contractions, sort
Lowered LowerDynamicScan(DynamicOp& op);         // dynamic_scan.cpp
Lowered LowerDynamicProduct(DynamicOp& op);      // dynamic_product.cpp: ragged and scaled dots
Lowered LowerDynamicCollective(DynamicOp& op);   // dynamic_collective.cpp
Lowered LowerDynamicChannel(DynamicOp& op);      // dynamic_channel.cpp: send and recv between devices

// INVALID_ARGUMENT where the two ends of a channel do not agree on dynamic dimensions.
Result<> CheckDynamicChannels(const Module& module);

// A scan's computation works on slices of dynamic shape. Those of elementwise arithmetic do it alike on slices as large
// as the bound; others are UNIMPLEMENTED.
Result<> TakeSizesOutOfScanBody(Computation& c);

// out[..., i, ...] = x[..., places[i], ...] along `dim`; `places` is s32[n], kept within x.
Result<Instruction*> TakeAlong(DynamicOp& op, Instruction* x, int64_t dim, Instruction* places);

// The elements of `x` that count, in row-major order, under other dimensions: `sizes` of the bounds `dims`.
Instruction* Relinearize(DynamicOp& op, const BoundedValue& x, std::span<const int64_t> dims,
                         const DimensionSizes& sizes);

}  // namespace krafla
