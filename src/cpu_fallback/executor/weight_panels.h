// SPDX-License-Identifier: Apache-2.0
// Panels of an operand that is quantised weights whose codes lie in rows in memory, by kernels that make bf16 of codes
// (kernels/weight_panel.h), where many rows are multiplied with them.
#pragma once

#include <array>
#include <functional>
#include <optional>

#include "cpu_fallback/executor/group_factors.h"
#include "cpu_fallback/kernels/weight_panel.h"

namespace krafla::cpu {

class WeightPanels {
 public:
  // Nothing where the operand is another, or its panels are not of bf16. `extents`: of the batch and the lines, and the
  // depth in the place of the groups.
  static std::optional<WeightPanels> Make(const plan::ElementProgram& program, bool is_rhs,
                                          GroupFactors::Extents extents, ElementType type);

  // Of a run, and of each worker.
  int64_t scratch_bytes() const { return scratch_bytes_; }
  int64_t frame_bytes() const;
  // Once a run, before the panels.
  void Start(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch,
             const std::function<std::byte*(int worker)>& frame_of) const;
  // Places [begin, end) of the depth, multiples of kPlacesOfPart but for the last end, of lines [first, first + count)
  // of a batch: place `begin` at `to`, and the others behind it, so many elements apart.
  static constexpr int64_t kPlacesOfPart = 64;
  struct Lines {
    int64_t batch = 0, first = 0, count = 0;
  };
  void Make(std::span<std::byte* const> bindings, const std::byte* scratch, const Lines& lines, int64_t begin,
            int64_t end, uint16_t* to, int64_t stride) const;

 private:
  int64_t depth_ = 1, group_ = 1;
  Dims batch_;
  CodesInMemory codes_;
  ElementType scale_type_ = ElementType::kF32;
  std::optional<GroupFactors> scales_, zeros_;
  std::array<WeightPanelFn, 2> panels_{};  // the second one is that of the second half of the depth
  int64_t zeros_offset_ = 0, scratch_bytes_ = 0;
};

}  // namespace krafla::cpu
