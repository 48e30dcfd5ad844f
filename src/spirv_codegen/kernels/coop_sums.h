// SPDX-License-Identifier: Apache-2.0
// The sums of a workgroup's block of a product as cooperative matrices, of which each subgroup has some, in variables.
// Operands lie in the workgroup's memory, as CoopOperand stages them.
#pragma once

#include <vector>

#include "spirv_codegen/cooperative_matrix.h"
#include "spirv_codegen/kernels/coop_operand.h"

namespace krafla::spirv {

// A block of sums, and how the workgroup's subgroups share it.
struct CoopBlock {
  CooperativeMatrixShape shape;
  int rows = 64, columns = 64;
  int subgroup_rows = 2, subgroup_columns = 2;
  uint32_t subgroup = 32;  // the size of subgroups

  uint32_t local() const { return static_cast<uint32_t>(subgroup_rows * subgroup_columns) * subgroup; }
  // Matrices of a subgroup.
  int tall() const { return rows / subgroup_rows / static_cast<int>(shape.m); }
  int wide() const { return columns / subgroup_columns / static_cast<int>(shape.n); }
  // Whether each subgroup has whole matrices.
  bool Divides() const;
};

// How finished sums go through memory: `strip` matrices that lie side by side at once, those of each subgroup in a
// place of their own.
struct CoopStrips {
  int strip = 1;
  int64_t stride = 0;  // chunks from row to row
  int64_t chunks = 0;  // of all subgroups
};
// Strips for which `room` chunks suffice, if there are any such.
CoopStrips StripsOf(const CoopBlock& block, int64_t room, int chunk_bytes);

ComponentType ComponentOf(ElementType type);  // kOther: no operand of products by matrices
Kind ComponentKind(ComponentType type);       // of matrices' operands
// Whether matrices of `c` and `result` are sums in `accumulate`, and CooperativeMatrices::Signed of their products.
bool AddsUpIn(ComponentType c, ComponentType result, ElementType accumulate);
uint32_t SignedOperands(ElementType stored, ElementType accumulate, ComponentType c);
inline int ElementBytes(const CooperativeMatrixShape& shape) { return KindBits(ComponentKind(shape.a)) / 8; }

class CoopSums {
 public:
  // `stored`: the type of both operands. Where the sums are zero begins here.
  CoopSums(Builder& b, CooperativeMatrices& matrices, const CoopBlock& block, ElementType stored,
           ElementType accumulate, const CoopMemory& memory);
  void Clear();

  // Adds products of the block's rows, which lie from chunk `rows` on, and its columns, from chunk `columns` on.
  void Add(const CoopPart& row_part, Value rows, const CoopPart& column_part, Value columns);
  // The sums as rows of the block, `stride` chunks from each other, from chunk `at` on.
  void Put(Value at, int64_t stride);
  // Gives the sums to `operands.finish`, with the block's first row and column; `rows`: of the whole result. They go
  // through the memory's first chunks.
  void Finish(const CoopStrips& strips, const TileOperands& operands, Value batch, Value row0, Value column0,
              int64_t rows);

 private:
  Value U(int64_t v) const { return b_.U32(static_cast<uint32_t>(v)); }
  Value Quad(Value at) const;
  int ChunkBytes() const { return memory_.width * 4; }

  Builder& b_;
  CooperativeMatrices& matrices_;
  const CoopBlock block_;
  const CoopMemory memory_;
  Kind sum_kind_;
  uint32_t signed_ = 0;
  Id a_type_ = 0, b_type_ = 0, sum_type_ = 0;
  std::vector<Id> sums_;
  Value subgroup_, lane_, subgroup_row_, subgroup_column_;
};

}  // namespace krafla::spirv
