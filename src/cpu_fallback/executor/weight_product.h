// SPDX-License-Identifier: Apache-2.0
// Products of quantised weights with a few vectors, by kernels that read codes as they lie or in panels of bytes: with
// the vectors as they are (kernels/weight_dot.h), or rounded to eight bits in blocks along the depth
// (kernels/int_dot.h, CpuKernelOptions::int_dot).
#pragma once

#include <array>
#include <optional>

#include "cpu_fallback/executor/computed_operand.h"
#include "cpu_fallback/executor/group_factors.h"
#include "cpu_fallback/kernels/gemm.h"
#include "cpu_fallback/kernels/weight_dot.h"
#include "plan/kernel_plan.h"

namespace krafla::cpu {

class WeightProduct {
 public:
  // Nothing where neither operand is quantised weights, or the other one is more than a few vectors, or where another
  // way is faster. `problem`: of `kernel`, with the strides of the result.
  static std::optional<WeightProduct> Make(const plan::DotKernel& kernel, const GemmProblem& problem, int threads,
                                           bool rounds_vectors);

  bool rounds_vectors() const { return rounds_vectors_; }
  bool reads_codes_in_memory() const { return in_memory_.has_value(); }

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
  int64_t LinesOfTask() const;
  bool PlaceCodes(const QuantisedWeights& weights);
  void PlaceScratch();
  bool FindKernels(const QuantisedWeights& weights);
  bool MakeLines(const QuantisedWeights& weights);
  int64_t BlocksOfGroup() const { return (group_ + kRoundedBlock - 1) / kRoundedBlock; }
  // Of a place of a vector.
  int64_t VectorBytes() const { return rounds_vectors_ ? 1 : int64_t{sizeof(float)}; }
  // Places of the depth that a turn has at the most.
  int64_t PlacesOfTurn() const { return rounds_vectors_ ? kRoundedBlock : kWeightRows * form_.places(); }
  void PlaceVectors(const std::byte* vectors, std::byte* scratch) const;
  void ComputeFactors(const Factors& factors, std::span<std::byte* const> bindings, ThreadPool& pool,
                      std::byte* scratch) const;
  const std::byte* FactorsOf(const Factors& factors, const Worker& worker, int64_t group) const;
  // Rows of memory of one turn, which have places [begin, end) of the depth; `is_upper`: of kHalves, the second half.
  struct Rows {
    const std::byte* first = nullptr;
    int64_t stride = 0, ahead = 0, begin = 0, end = 0;
    bool is_upper = false;
  };
  void AddRoundedTurn(const Worker& worker, const Rows& rows) const;
  void AddExactTurn(const Worker& worker, const Rows& rows) const;
  template <class Turn, class Add>
  void ForColumns(const Worker& worker, const Rows& rows, const std::byte* scales, const float* zeros, Turn turn,
                  Add add) const;
  void AddRows(const Worker& worker, const std::byte* rows, int64_t stride, int64_t begin, int64_t end) const;
  void AddCodes(const Worker& worker) const;
  void AddLines(const Worker& worker) const;
  void PlaceSums(const Worker& worker, std::byte* result) const;

  GemmProblem problem_;
  bool is_rhs_ = true;  // which operand is weights
  bool rounds_vectors_ = false;
  int threads_ = 1;
  int64_t batches_ = 1, lines_ = 1, depth_ = 1, group_ = 1;
  Vectors vectors_;
  CodeForm form_;
  std::optional<CodesInMemory> in_memory_;
  std::optional<ComputedOperand> computed_;
  ElementType scale_type_ = ElementType::kF32;
  Factors scales_, zeros_;
  std::array<IntDotFn, 2> int_dots_{};  // the second one is that of the second half of the depth
  std::array<WeightDotFn, 2> weight_dots_{};
  // Of lines along the depth, which lie in memory, as their scales do.
  WeightLinesFn lines_dot_ = nullptr;
  std::optional<ScalesInMemory> line_scales_;
  int64_t most_lines_ = 1;  // of a task
  // Of the scratch, which begins with the vectors, widened or rounded: then the steps of their codes, a vector as it is
  // stored and widened, and the workers' memory.
  int64_t steps_offset_ = 0, wide_offset_ = 0, workers_offset_ = 0, scratch_bytes_ = 0;
  // Of a worker's memory, which begins with the sums: a row of scales, the frame of what is computed, a panel of codes,
  // and that by rows.
  int64_t scales_offset_ = 0, frame_offset_ = 0, panel_offset_ = 0, rows_offset_ = 0, worker_bytes_ = 0;
};

}  // namespace krafla::cpu
