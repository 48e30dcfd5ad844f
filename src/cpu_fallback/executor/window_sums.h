// SPDX-License-Identifier: Apache-2.0
// Sums of windows over long rows, as of pools over pictures with the channels in front: convolutions of one channel
// with a kernel of ones (row_conv.h). Rows lie between zeros in a copy, so that no element of the window is a call of
// its own for what the borders leave of it. Products with one are exact: the sums are those of the elements in turn.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "cpu_fallback/executor/window_fold.h"
#include "cpu_fallback/kernels/row_conv.h"

namespace krafla::cpu {

class WindowSums {
 public:
  // Of `fold`, whose sums are stored at `target`. Nothing where it is none of these.
  static std::optional<WindowSums> Find(const WindowFold& fold, const WindowFold::Target& target,
                                        const plan::Reduction& reduction, std::span<const int64_t> row_dims,
                                        int threads);
  int64_t scratch_bytes() const { return conv_.scratch_bytes(); }
  void Run(std::span<std::byte* const> buffers, ThreadPool& pool, std::byte* scratch) const;

 private:
  WindowSums(const ConvolutionProblem& problem, int from, int to, int threads);
  static std::optional<ConvolutionProblem> ProblemOf(const WindowFold& fold, const WindowFold::Target& target,
                                                     ElementType type, std::span<const int64_t> row_dims);

  ConvolutionProblem problem_;
  RowConv conv_;
  std::vector<std::byte> ones_;
  int from_ = 0, to_ = 0;
};

}  // namespace krafla::cpu
