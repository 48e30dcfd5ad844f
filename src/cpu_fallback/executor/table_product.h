// SPDX-License-Identifier: Apache-2.0
// Products of a vector of bf16 with weights of four bits that are rounded to bf16 (kernels/table_dot.h): the numbers
// that the program says, without an operation for each. And with bytes, in lines along the depth
// (kernels/byte_lines.h) or in rows (kernels/byte_columns.h).
#pragma once

#include <array>
#include <optional>

#include "cpu_fallback/executor/group_factors.h"
#include "cpu_fallback/kernels/byte_columns.h"
#include "cpu_fallback/kernels/byte_lines.h"
#include "cpu_fallback/kernels/table_dot.h"
#include "plan/kernel_plan.h"

namespace krafla::cpu {

class TableProduct {
 public:
  // Nothing where the product is another. `problem`: of `kernel`, with the strides of the result.
  static std::optional<TableProduct> Make(const plan::DotKernel& kernel, const GemmProblem& problem, int threads);

  int64_t scratch_bytes() const { return scratch_bytes_; }
  bool is_along_depth() const { return codes_.form.is_along_depth(); }
  // `vector`: where the other operand begins.
  void Run(std::span<std::byte* const> bindings, const std::byte* vector, std::byte* result, ThreadPool& pool,
           std::byte* scratch) const;

 private:
  // Some of a batch's lines, all of their depth.
  struct Task {
    std::span<std::byte* const> bindings;
    const std::byte* scratch = nullptr;
    int64_t batch = 0, begin = 0, count = 0;
  };

  bool MakeRows(const QuantisedWeights& weights);
  bool MakeLines(const QuantisedWeights& weights);
  bool MakeLinesOfBytes(const QuantisedWeights& weights);
  bool MakeColumnsOfBytes(const QuantisedWeights& weights);
  void SetTurn(int64_t rows_of_group, int64_t most);
  bool AreSignedBytes(const QuantisedWeights& weights) const;
  bool PlaceFactors(const QuantisedWeights& weights);
  void PlaceScratch(int threads);
  void PlaceVector(const std::byte* vector, int64_t batch, std::byte* scratch) const;
  void AddRows(const Task& task, float* sums) const;
  void AddLines(const Task& task, float* sums) const;
  const std::byte* CodesOf(const Task& task) const;

  GemmProblem problem_;
  bool is_rhs_ = true;  // which operand is weights
  TableForm form_ = TableForm::kColumnPairs;
  int64_t batches_ = 1, lines_ = 1, group_ = 1;
  int64_t depth_stride_ = 1, line_result_stride_ = 1;
  Dims vector_batch_strides_;
  CodesInMemory codes_;
  std::optional<GroupFactors> scales_, zeros_;
  std::optional<ScalesInMemory> line_scales_;  // of lines along the depth, which have no others
  TableKind kind_ = TableKind::kProducts;
  std::array<int32_t, 16> table_{};
  TableDotFn dot_ = nullptr;
  TableLinesFn lines_dot_ = nullptr;
  ByteLinesFn bytes_dot_ = nullptr;
  ByteColumnsFn columns_dot_ = nullptr;
  int64_t turn_ = kTableTurn;  // rows of memory
  int64_t most_lines_ = 1;     // of a task
  // Of the scratch, which begins with the vector.
  int64_t scales_offset_ = 0, zeros_offset_ = 0, workers_offset_ = 0, worker_bytes_ = 0, frame_offset_ = 0,
          scratch_bytes_ = 0;
};

}  // namespace krafla::cpu
