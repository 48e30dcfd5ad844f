// SPDX-License-Identifier: Apache-2.0
// Products of quantised weights with a few vectors, whose numbers are rounded to eight bits in blocks along the depth
// (CpuKernelOptions::int_dot).
#pragma once

#include <optional>

#include "cpu_fallback/executor/computed_operand.h"
#include "cpu_fallback/executor/group_factors.h"
#include "cpu_fallback/kernels/gemm.h"
#include "plan/kernel_plan.h"

namespace krafla::cpu {

class IntDotProduct {
 public:
  // Nothing where neither operand is quantised weights, or the other one is more than a few vectors. `problem`: of
  // `kernel`, with the strides of the result.
  static std::optional<IntDotProduct> Make(const plan::DotKernel& kernel, const GemmProblem& problem, int threads);

  int64_t scratch_bytes() const { return scratch_bytes_; }
  // `vectors`: where the other operand begins.
  void Run(std::span<std::byte* const> bindings, const std::byte* vectors, std::byte* result, ThreadPool& pool,
           std::byte* scratch) const;

 private:
  // The operand of the vectors, and how the result is written.
  struct Vectors {
    int64_t count = 1, stride = 0, depth_stride = 0;
    ElementType type = ElementType::kF32;
    Dims batch_strides;
    int64_t line_result_stride = 1, vector_result_stride = 1;
  };
  // Scales or zero points, and where in the scratch they may be computed.
  struct Factors {
    std::optional<GroupFactors> of_groups;
    int64_t offset = 0;
  };
  // Lines of one batch, whose sums are in one worker's memory.
  struct Task {
    int64_t batch = 0, begin = 0, count = 0;
    int panel = -1;  // of computed codes: which part
  };
  struct Worker;

  bool PlaceFactors(const plan::ElementProgram& program, std::optional<ElementType> type, Factors& factors) const;
  bool PlaceCodes(const QuantisedWeights& weights);
  void PlaceScratch();
  int64_t BlocksOfGroup() const { return (group_ + kRoundedBlock - 1) / kRoundedBlock; }
  void RoundVectors(const std::byte* vectors, std::byte* scratch) const;
  void ComputeFactors(const Factors& factors, std::span<std::byte* const> bindings, ThreadPool& pool,
                      std::byte* scratch) const;
  const std::byte* FactorsOf(const Factors& factors, const Worker& worker, int64_t group) const;
  void AddTurn(const Worker& worker, IntDotFn dot, IntDotTurn turn, int64_t begin, int64_t end) const;
  void AddRows(const Worker& worker, const std::byte* rows, int64_t stride, int64_t begin, int64_t end) const;
  void AddCodes(const Worker& worker) const;
  void PlaceSums(const Worker& worker, std::byte* result) const;

  GemmProblem problem_;
  bool is_rhs_ = true;  // which operand is weights
  int threads_ = 1;
  int64_t batches_ = 1, lines_ = 1, depth_ = 1, group_ = 1;
  Vectors vectors_;
  CodeForm form_;
  std::optional<CodesInMemory> in_memory_;
  std::optional<ComputedOperand> computed_;
  ElementType scale_type_ = ElementType::kF32;
  Factors scales_, zeros_;
  IntDotFn dot_ = nullptr, upper_dot_ = nullptr;
  int64_t most_lines_ = 1;  // of a task
  // Of the scratch, which begins with the vectors' codes: their steps, a vector as it is stored and widened, and the
  // workers' memory.
  int64_t steps_offset_ = 0, wide_offset_ = 0, workers_offset_ = 0, scratch_bytes_ = 0;
  // Of a worker's memory, which begins with the sums: a row of scales, the frame of what is computed, a panel of codes,
  // and that by rows.
  int64_t scales_offset_ = 0, frame_offset_ = 0, panel_offset_ = 0, rows_offset_ = 0, worker_bytes_ = 0;
};

}  // namespace krafla::cpu
