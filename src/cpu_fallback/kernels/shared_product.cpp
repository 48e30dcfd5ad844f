// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/shared_product.h"

#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "base/interruption.h"
#include "cpu_fallback/kernels/move.h"

namespace krafla::cpu {

namespace {
constexpr int64_t kMostNarrow = 16, kLeastShared = 16, kRowsTogether = 24, kPanelVectors = 3;
}  // namespace

bool SharedProduct::Takes(const GemmProblem& p) {
  if (p.k == 0 || p.n > kMostNarrow || p.m < kLeastShared || p.rhs_k_stride <= 0 || p.rhs_n_stride < 0) return false;
  const int64_t batches = BatchCount(p);
  if (batches < 2 || batches * p.n < kPointerRows) return false;
  for (std::size_t d = 0; d < p.batch.size(); ++d)
    if (p.batch[d] > 1 && p.lhs_batch_strides[d] != 0) return false;
  if (!CanWiden(p.lhs_type, p.accumulate_type)) return false;
  // Others are widened a matrix at a time.
  return p.rhs_type == p.accumulate_type ||
         (p.rhs_k_stride == p.n && p.rhs_n_stride == 1 && CanWiden(p.rhs_type, p.accumulate_type));
}

SharedProduct::SharedProduct(const GemmProblem& problem, int threads)
    : problem_(problem), tile_(FindPointerTile(problem.accumulate_type)), batches_(BatchCount(problem)) {
  const GemmProblem& p = problem_;
  const int width = StorageBytes(p.accumulate_type);
  group_ = kPanelVectors * tile_.lanes;
  together_ = std::max<int64_t>(1, kRowsTogether / p.n);
  packed_bytes_ = RoundUp(RoundUp(p.m, group_) * p.k * width, 64);
  if (p.rhs_type != p.accumulate_type) wide_bytes_ = RoundUp(together_ * p.k * p.n * width, 64);
  worker_bytes_ = RoundUp(together_ * p.n * p.m * width, 64) + wide_bytes_;
  const int64_t staging = p.lhs_type == p.accumulate_type ? 0 : 2 * RoundUp(p.k * group_ * 8, 64);
  scratch_bytes_ = packed_bytes_ + std::max(staging, worker_bytes_ * threads);
}

// Panels of `group_` rows of the shared matrix, each [k][group_], zeros after the last row.
void SharedProduct::Pack(const std::byte* lhs, std::byte* packed, std::byte* staging) const {
  const GemmProblem& p = problem_;
  const int width = StorageBytes(p.accumulate_type), raw_width = StorageBytes(p.lhs_type);
  for (int64_t i = 0; i < p.m; i += group_, packed += group_ * p.k * width) {
    const int64_t count = std::min(group_, p.m - i);
    if (count < group_) std::memset(packed, 0, static_cast<std::size_t>(group_ * p.k * width));
    const std::byte* from = lhs + i * p.lhs_m_stride * raw_width;
    if (p.lhs_type == p.accumulate_type) {
      MoveTile(width, from, {p.lhs_k_stride, p.lhs_m_stride}, packed, {group_, 1}, p.k, count);
      continue;
    }
    std::byte* wide = staging + RoundUp(p.k * group_ * 8, 64);
    MoveTile(raw_width, from, {p.lhs_k_stride, p.lhs_m_stride}, staging, {count, 1}, p.k, count);
    WidenElements(p.lhs_type, p.accumulate_type, staging, wide, p.k * count);
    MoveTile(width, wide, {count, 1}, packed, {group_, 1}, p.k, count);
  }
}

void SharedProduct::Run(const std::byte* lhs, const std::byte* rhs, std::byte* result, ThreadPool& pool,
                        std::byte* scratch) const {
  const GemmProblem& p = problem_;
  const int width = StorageBytes(p.accumulate_type), rhs_width = StorageBytes(p.rhs_type);
  std::byte* packed = scratch;
  std::byte* workers = scratch + packed_bytes_;
  Pack(lhs, packed, workers);
  const int64_t tasks = CeilDiv(batches_, together_);
  const double task_time =
      static_cast<double>(together_ * p.n * p.m) * static_cast<double>(p.k) / kProductsPerNanosecond;
  pool.ParallelItems(tasks, task_time, [&](int64_t begin, int64_t end, int worker) {
    std::byte* wide = workers + worker * worker_bytes_;
    std::byte* sums = wide + wide_bytes_;
    for (int64_t t = begin; t < end && !IsInterrupted(); ++t) {
      const int64_t first = t * together_, matrices = std::min(together_, batches_ - first), rows = matrices * p.n;
      const auto matrix = [&](int64_t b) -> const std::byte* {
        const std::byte* at = rhs + BatchOffset(first + b, p.batch, p.rhs_batch_strides) * rhs_width;
        if (wide_bytes_ == 0) return at;
        std::byte* to = wide + b * p.k * p.n * width;
        WidenElements(p.rhs_type, p.accumulate_type, at, to, p.k * p.n);
        return to;
      };
      const std::byte* at = nullptr;
      RowSegment segment;
      segment.stride = p.rhs_k_stride;
      for (int64_t r = 0; r < rows; r += kPointerRows) {
        const int64_t count = std::min(kPointerRows, rows - r);
        for (int64_t i = 0; i < kPointerRows; ++i) {
          // Rows past the last repeat it.
          const int64_t row = r + std::min(i, count - 1);
          if (i < count && row % p.n == 0) at = matrix(row / p.n);
          segment.rows[i] = at + row % p.n * p.rhs_n_stride * width;
        }
        for (int64_t c = 0; c < p.m; c += group_)
          tile_.run({&segment, 1}, p.k, packed + c * p.k * width, kPanelVectors, count, std::min(group_, p.m - c),
                    sums + (r * p.m + c) * width, p.m, false);
      }
      for (int64_t b = 0; b < matrices; ++b)
        MoveTile(width, sums + b * p.n * p.m * width, {1, p.m},
                 result + BatchOffset(first + b, p.batch, p.result_batch_strides) * width, {p.result_m_stride, 1}, p.m,
                 p.n);
    }
  });
}

}  // namespace krafla::cpu
