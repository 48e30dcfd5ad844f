// SPDX-License-Identifier: Apache-2.0
#include "plan/rows/column_window.h"

namespace krafla::plan {
namespace {

// A program over [window, ..., column], with all columns, over those of a window.
ElementProgram InWindow(const ElementProgram& p, int64_t width, int64_t step) {
  Dims dims = p.space.dims();
  std::vector<DimImage> images;
  for (std::size_t d = 0; d < dims.size(); ++d) images.push_back(DimImage::Of(static_cast<int>(d)));
  images.back().terms.push_back({0, step});
  dims.back() = width;
  return Reindex(p, dims, images);
}

}  // namespace

int64_t ColumnWindows(int64_t columns, int64_t width, int64_t step) { return (columns - width) / step + 1; }

std::vector<KernelPlan> WithColumnWindows(std::span<const KernelPlan> parts, int64_t width, int64_t step) {
  const int64_t windows = ColumnWindows(std::get<DotKernel>(parts.front().body).n, width, step);
  std::vector<KernelPlan> out;
  for (const KernelPlan& part : parts) {
    const bool is_scores = out.empty();
    Dims free = {windows};
    std::vector<DimImage> images;
    const Dims of_part = *FreeDims(part);
    for (const int64_t extent : of_part) {
      images.push_back(DimImage::Of(static_cast<int>(free.size())));
      free.push_back(extent);
    }
    KernelPlan& made = out.emplace_back(ReindexFree(part, free, images));
    if (auto* reduce = std::get_if<ReduceKernel>(&made.body)) {
      reduce->element_dims = Dims({width});
      for (ReduceStage& stage : reduce->stages)
        if (stage.scope == ReduceStage::Scope::kElement) stage.program = InWindow(stage.program, width, step);
    }
    auto* dot = std::get_if<DotKernel>(&made.body);
    if (dot == nullptr) continue;
    dot->rhs_batch_strides[0] = step * (is_scores ? dot->rhs_n_stride : dot->rhs_k_stride);
    if (is_scores) {
      dot->n = width;
      dot->epilogue = InWindow(dot->epilogue, width, step);
    } else {
      dot->k = width;
      dot->lhs_batch_strides[0] = step * dot->lhs_k_stride;
    }
    made.flops = FlopsOf(*dot);
  }
  return out;
}

}  // namespace krafla::plan
