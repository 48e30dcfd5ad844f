// SPDX-License-Identifier: Apache-2.0
// Convolutions of many groups of few output channels: depthwise ones, whose groups are of features, and the gradients
// of their kernels, whose groups are of the batch. The groups are the lanes of vectors. Taken apart group by group each
// would be a convolution of next to nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"
#include "cpu_fallback/kernels/convolution_problem.h"

namespace krafla::cpu {

class GroupConv {
 public:
  // One spatial dimension; steps are in elements.
  struct Spatial {
    int64_t extent = 1, taps = 1, outputs = 1;
    int64_t stride = 1, dilation = 1, padding_low = 0;
    int64_t input_step = 0, kernel_step = 0, result_step = 0;
  };
  // What one group has, whose elements lie in memory beside those of the next group.
  struct Shape {
    std::array<Spatial, 3> spatial;
    int64_t features = 1, input_feature_step = 0, kernel_feature_step = 0;
  };

  // Whether group g has range g of the input's batch or of its features.
  enum class Of : uint8_t { kBatch, kFeatures };
  // Input [groups * images, features, spatial...] or [images, groups * features, spatial...], kernel [groups *
  // channels, features, spatial...], result [images, groups * channels, spatial...]; all of `type`, f32 or f64. False:
  // it does not pay, or there is no code.
  static bool Takes(const ConvolutionProblem& problem, Of of, int64_t groups, ElementType type);
  GroupConv(const ConvolutionProblem& problem, Of of, int64_t groups, int threads);

  int64_t scratch_bytes() const { return scratch_bytes_; }
  void Run(const std::byte* input, const std::byte* kernel, std::byte* result, ThreadPool& pool,
           std::byte* scratch) const;

 private:
  // An operand with the groups side by side: where it lies, or a copy.
  struct Operand {
    TensorView view;
    int64_t members = 1;     // images or channels of a group
    int64_t features = 1;    // of a group
    int64_t group_step = 0;  // in the view
    int64_t member_step = 0;
    int64_t copy = -1;  // in the scratch; -1: none

    const std::byte* Prepare(const std::byte* from, int64_t groups, int width, ThreadPool& pool,
                             std::byte* scratch) const;
  };
  void Place(Operand& operand, int64_t& feature_step, int64_t Spatial::* step);

  int64_t groups_;
  ElementType type_;
  int width_;
  Operand input_, kernel_;
  Shape shape_;
  TensorView result_;
  int64_t lanes_ = 1, rows_ = 1, task_rows_ = 1, tasks_ = 1;
  double task_flops_ = 0;
  int64_t totals_ = 0, worker_bytes_ = 0, scratch_bytes_ = 0;
};

}  // namespace krafla::cpu
