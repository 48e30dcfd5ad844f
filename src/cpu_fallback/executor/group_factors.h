// SPDX-License-Identifier: Apache-2.0
// Scales and zero points of quantised weights (quantised_weights.h), one for each line and group of the depth: as they
// lie in memory, or computed once a run.
#pragma once

#include <functional>
#include <optional>

#include "cpu_fallback/executor/computed_operand.h"
#include "cpu_fallback/executor/weights_in_memory.h"
#include "cpu_fallback/kernels/gemm.h"

namespace krafla::cpu {

class GroupFactors {
 public:
  struct Extents {
    Dims batch;
    int64_t lines = 1, groups = 1;
  };
  // Of `program`, which is over the batch, the groups and the lines (of a right operand) or the lines and the groups.
  // `type`: f32 or s32; none: whoever reads them takes f32, f16 and bf16. Nothing: there is no loop for them.
  static std::optional<GroupFactors> Make(const plan::ElementProgram& program, bool is_rhs, Extents extents,
                                          std::optional<ElementType> type);

  // As they are read, side by side along the lines, so many elements from group to group.
  ElementType type() const { return in_memory_ ? in_memory_->type : type_; }
  int64_t stride() const { return in_memory_ ? in_memory_->stride : extents_.lines; }
  // Of the run, and of each worker.
  int64_t scratch_bytes() const;
  int64_t frame_bytes() const { return computed_ ? computed_->frame_bytes() : 0; }
  // `frame_of`: a worker's memory.
  void Compute(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch,
               const std::function<std::byte*(int worker)>& frame_of) const;
  const std::byte* Of(std::span<std::byte* const> bindings, const std::byte* scratch, int64_t batch, int64_t group,
                      int64_t line) const;

 private:
  int64_t elements() const { return extents_.groups * extents_.lines; }

  Extents extents_;
  ElementType type_ = ElementType::kF32;
  std::optional<ScalesInMemory> in_memory_;
  std::optional<ComputedOperand> computed_;
};

// The indices of number `b` of a batch along its dimensions.
Dims BatchIndex(int64_t b, std::span<const int64_t> dims);

}  // namespace krafla::cpu
