// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/few_rows.h"

#include <algorithm>
#include <utility>

#include "base/checked_math.h"
#include "base/interruption.h"
#include "cpu_fallback/kernels/gemv.h"
#include "cpu_fallback/kernels/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/few_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu_fallback/kernels/narrow_loads-inl.h"

#ifndef KRAFLA_CPU_FEW_ROWS
#define KRAFLA_CPU_FEW_ROWS
namespace krafla::cpu {
constexpr int64_t kMostFewRows = 8;
// Rows of the matrix side by side, and columns: streams that a processor foresees.
constexpr int kDepthAtOnce = 8, kColumnsAtOnce = 4;
// Lanes sum so many products before they are added to what was there: that bounds the error.
constexpr int64_t kFewRowsTurns = 128;
// So many products where a lane has a sum of its own, for the same reason.
constexpr int64_t kFewRowsDepth = 512;
inline void FetchRow(const void* p) { __builtin_prefetch(p, 0, 2); }
}  // namespace krafla::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// sums += kDepth rows of the matrix. `ahead`: elements from here to what is read next.
template <class S, int kDepth>
HWY_INLINE void AddDepth(const float* left, int64_t left_stride, int64_t rows, const S* matrix, int64_t stride,
                         int64_t ahead, int64_t n, float* sums) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto piece = [&](int64_t j, std::size_t count) HWY_ATTR {
    V b[kDepth];
    KRAFLA_UNROLL(8)
    for (int i = 0; i < kDepth; ++i) b[i] = LoadAs(d, matrix + i * stride + j, count);
    float* own = sums + j * rows;
    const float* a = left;
    for (int64_t r = 0; r < rows; ++r, own += lanes, a += left_stride) {
      V even = hn::LoadU(d, own), odd = hn::Zero(d);
      KRAFLA_UNROLL(8)
      for (int i = 0; i < kDepth; i += 2) {
        even = hn::MulAdd(hn::Set(d, a[i]), b[i], even);
        if (i + 1 < kDepth) odd = hn::MulAdd(hn::Set(d, a[i + 1]), b[i + 1], odd);
      }
      hn::StoreU(hn::Add(even, odd), d, own);
    }
  };
  int64_t j = 0;
  constexpr int64_t kLine = 64 / sizeof(S);
  for (const int64_t line = std::max(lanes, kLine); j + line <= n; j += line) {
    if (ahead != 0) {
      KRAFLA_UNROLL(8)
      for (int i = 0; i < kDepth; ++i) FetchRow(matrix + i * stride + j + ahead);
    }
    for (int64_t i = 0; i < line; i += lanes) piece(j + i, hn::Lanes(d));
  }
  for (; j + lanes <= n; j += lanes) piece(j, hn::Lanes(d));
  if (j < n) piece(j, static_cast<std::size_t>(n - j));
}

// The matrix dense along n. Sums are [n / lanes][rows][lanes]: rows of a result are often so far apart that they would
// drive each other out of the nearest cache.
template <class S>
void RowsTimesDenseRows(const float* left, int64_t left_stride, int64_t rows, const void* matrix_pointer,
                        int64_t stride, int64_t k, int64_t n, float* sums, float* to, int64_t to_stride) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const S* matrix = static_cast<const S*>(matrix_pointer);
  for (int64_t first = 0; first < k; first += kFewRowsDepth) {
    std::fill_n(sums, (n + lanes - 1) / lanes * lanes * rows, 0.0F);
    const int64_t end = std::min(first + kFewRowsDepth, k);
    int64_t p = first;
    for (; p + kDepthAtOnce <= end; p += kDepthAtOnce)
      AddDepth<S, kDepthAtOnce>(left + p, left_stride, rows, matrix + p * stride, stride,
                                p + 2 * kDepthAtOnce <= k ? kDepthAtOnce * stride : 0, n, sums);
    for (; p < end; ++p) AddDepth<S, 1>(left + p, left_stride, rows, matrix + p * stride, stride, 0, n, sums);
    for (int64_t j = 0; j < n; j += lanes)
      for (int64_t r = 0; r < rows; ++r) {
        const float* made = sums + j * rows + r * lanes;
        float* out = to + r * to_stride + j;
        if (first == 0) std::copy_n(made, std::min(lanes, n - j), out);
        else
          for (int64_t i = 0; i < std::min(lanes, n - j); ++i) out[i] += made[i];
      }
  }
}

// to[r, c] (+)= sum over [0, k) of left[r] * column c, for kRows rows and kColumns columns. `ahead` as for AddDepth.
template <class S, int kRows, int kColumns>
HWY_INLINE void AddDots(const float* left, int64_t left_stride, const S* matrix, int64_t stride, int64_t ahead,
                        int64_t k, float* to, int64_t to_stride, bool fresh) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V sums[kRows][kColumns];
  KRAFLA_UNROLL(4)
  for (int r = 0; r < kRows; ++r) KRAFLA_UNROLL(4)
  for (int c = 0; c < kColumns; ++c) sums[r][c] = hn::Zero(d);
  const auto turn = [&](int64_t p, std::size_t count) HWY_ATTR {
    V b[kColumns];
    KRAFLA_UNROLL(4)
    for (int c = 0; c < kColumns; ++c) {
      if (ahead != 0) FetchRow(matrix + c * stride + p + ahead);
      b[c] = LoadAs(d, matrix + c * stride + p, count);
    }
    KRAFLA_UNROLL(4)
    for (int r = 0; r < kRows; ++r) {
      const V a = LoadAs(d, left + r * left_stride + p, count);
      KRAFLA_UNROLL(4)
      for (int c = 0; c < kColumns; ++c) sums[r][c] = hn::MulAdd(a, b[c], sums[r][c]);
    }
  };
  int64_t p = 0;
  for (; p + lanes <= k; p += lanes) turn(p, hn::Lanes(d));
  if (p < k) turn(p, static_cast<std::size_t>(k - p));
  KRAFLA_UNROLL(4)
  for (int r = 0; r < kRows; ++r) {
    float* out = to + r * to_stride;
    if (fresh) {
      StoreSums(d, sums[r], out);
      continue;
    }
    float made[kColumns];
    StoreSums(d, sums[r], made);
    KRAFLA_UNROLL(4)
    for (int c = 0; c < kColumns; ++c) out[c] += made[c];
  }
}

template <class S, int kColumns>
HWY_INLINE void DotsOfRows(const float* left, int64_t left_stride, int64_t rows, const S* matrix, int64_t stride,
                           int64_t ahead, int64_t k, float* to, int64_t to_stride, bool fresh) {
  // Sums of as many rows as registers hold beside the columns.
  constexpr bool kHasManyRegisters = !HWY_ARCH_X86 || HWY_TARGET < HWY_AVX2;
  int64_t r = 0;
  const auto take = [&]<int kRows>() HWY_ATTR {
    AddDots<S, kRows, kColumns>(left + r * left_stride, left_stride, matrix, stride, r == 0 ? ahead : 0, k,
                                to + r * to_stride, to_stride, fresh);
    r += kRows;
  };
  if constexpr (kHasManyRegisters)
    while (r + 4 <= rows) take.template operator()<4>();
  if constexpr (kHasManyRegisters)
    if (r + 3 <= rows) take.template operator()<3>();
  while (r + 2 <= rows) take.template operator()<2>();
  if (r < rows) take.template operator()<1>();
}

// The matrix dense along k.
template <class S>
void RowsTimesDenseColumns(const float* left, int64_t left_stride, int64_t rows, const void* matrix_pointer,
                           int64_t stride, int64_t k, int64_t n, float*, float* to, int64_t to_stride) {
  const hn::ScalableTag<float> d;
  const S* matrix = static_cast<const S*>(matrix_pointer);
  const int64_t step = kFewRowsTurns * static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  for (; j + kColumnsAtOnce <= n; j += kColumnsAtOnce)
    for (int64_t p = 0; p < k; p += step)
      DotsOfRows<S, kColumnsAtOnce>(left + p, left_stride, rows, matrix + j * stride + p, stride,
                                    j + 2 * kColumnsAtOnce <= n ? kColumnsAtOnce * stride : 0, std::min(step, k - p),
                                    to + j, to_stride, p == 0);
  for (; j < n; ++j)
    for (int64_t p = 0; p < k; p += step)
      DotsOfRows<S, 1>(left + p, left_stride, rows, matrix + j * stride + p, stride, 0, std::min(step, k - p), to + j,
                       to_stride, p == 0);
}

template <class S>
FewRowsLoops FewRowsLoopsOf() {
  return {&RowsTimesDenseRows<S>, &RowsTimesDenseColumns<S>};
}
// Nulls where there are none.
FewRowsLoops FindFewRowsLoops(ElementType matrix) {
  using enum ElementType;
  if (matrix == kF32) return FewRowsLoopsOf<float>();
  if (matrix == kF16) return FewRowsLoopsOf<hwy::float16_t>();
  if (matrix == kBF16) return FewRowsLoopsOf<Bf16>();
  return {};
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindFewRowsLoops);

namespace {
constexpr int64_t kLeastElements = 16384;  // of the matrices: less is in a near cache
constexpr int64_t kLeastSide = 16;
constexpr int64_t kColumnsOfTask = 64;
constexpr int64_t kFewColumns = 2048;
constexpr int64_t kLeastChunk = 512, kMostChunks = 64;
// Rows of f32 lie so far apart, and a line more, that they do not drive each other out of the nearest cache.
constexpr int64_t kLineFloats = 16;
constexpr int64_t kMostSums = 6144;  // of all rows, which stay in the nearest cache
// Of more rows the products take longer than the memory. Processors multiply bf16 themselves, which oneDNN makes use
// of: there its own order of the matrix is worth it sooner.
int64_t MostRows(const GemmProblem& p) {
  if (p.rhs_type != ElementType::kBF16 || p.lhs_type != ElementType::kBF16) return kMostFewRows;
  return p.rhs_n_stride == 1 ? 6 : 4;
}
bool LieBetween(const GemmProblem& p) {
  return RowsLieBetween(p.batch, p.rhs_batch_strides, std::max(p.rhs_k_stride, p.rhs_n_stride));
}
}  // namespace

bool FewRows::Takes(const GemmProblem& p) {
  int64_t rows = p.m, matrices = 1;
  for (std::size_t d = 0; d < p.batch.size(); ++d) (p.rhs_batch_strides[d] == 0 ? rows : matrices) *= p.batch[d];
  if (rows > MostRows(p) || (p.m == 1 && !LieBetween(p)) || p.k < kLeastSide || p.n < kLeastSide) return false;
  if (matrices * p.k * p.n < kLeastElements) return false;
  return p.accumulate_type == ElementType::kF32 && (p.rhs_n_stride == 1 || p.rhs_k_stride == 1) &&
         CanWiden(p.lhs_type, ElementType::kF32) &&
         HWY_DYNAMIC_DISPATCH(FindFewRowsLoops)(p.rhs_type).by_rows != nullptr;
}

FewRows::FewRows(const GemmProblem& problem, int threads)
    : problem_(problem),
      loops_(HWY_DYNAMIC_DISPATCH(FindFewRowsLoops)(problem.rhs_type)),
      batches_(BatchCount(problem)),
      along_depth_(problem.rhs_n_stride != 1),
      batches_inside_(LieBetween(problem)) {
  const GemmProblem& p = problem_;
  constexpr auto kWidth = static_cast<int64_t>(sizeof(float));
  // Chunks of a fixed size, so that results do not depend on the threads.
  if (!along_depth_ && batches_ * p.n < kFewColumns) chunks_ = std::clamp<int64_t>(p.k / kLeastChunk, 1, kMostChunks);
  direct_ = p.lhs_type == ElementType::kF32 && p.lhs_k_stride == 1;
  const int64_t depth = CeilDiv(p.k, chunks_);
  most_columns_ = along_depth_ ? kColumnsOfTask : kMostSums / p.m / kColumnsOfTask * kColumnsOfTask;
  left_stride_ = direct_ ? p.lhs_m_stride : RoundUp(depth, kLineFloats) + kLineFloats;
  if (!direct_) left_bytes_ = p.m * left_stride_ * kWidth;
  if (p.lhs_k_stride != 1) raw_bytes_ = RoundUp(depth * StorageBytes(p.lhs_type), 64);
  const int64_t sums = RoundUp(p.m * RoundUp(std::min(most_columns_, p.n), kColumnsOfTask) * kWidth, 64);
  if (chunks_ > 1) {
    partial_bytes_ = RoundUp(chunks_ * batches_ * p.m * p.n * kWidth, 64);
    worker_bytes_ = left_bytes_ + raw_bytes_ + sums;
    scratch_bytes_ = partial_bytes_ + threads * worker_bytes_;
  } else {
    worker_bytes_ = sums;
    scratch_bytes_ = batches_ * left_bytes_ + std::max(raw_bytes_, threads * worker_bytes_);
  }
}

const float* FewRows::Widen(const std::byte* lhs, int64_t b, int64_t begin, int64_t end, std::byte* left,
                            std::byte* raw) const {
  const GemmProblem& p = problem_;
  const int64_t width = StorageBytes(p.lhs_type), count = end - begin;
  const std::byte* from = lhs + (BatchOffset(b, p.batch, p.lhs_batch_strides) + begin * p.lhs_k_stride) * width;
  if (direct_) return reinterpret_cast<const float*>(from);
  for (int64_t r = 0; r < p.m; ++r, from += p.lhs_m_stride * width)
    WidenLine(p.lhs_type, ElementType::kF32, from, p.lhs_k_stride, left + r * left_stride_ * int64_t{sizeof(float)},
              raw, count);
  return reinterpret_cast<const float*>(left);
}

// Task `task` of all batches' `parts`, so that the memory is gone through as it lies.
FewRows::Part FewRows::PartAt(int64_t task, int64_t parts) const {
  if (batches_inside_) return {task % batches_, task / batches_};
  return {task / parts, task % parts};
}

void FewRows::RunColumns(const std::byte* lhs, const std::byte* rhs, std::byte* result, ThreadPool& pool,
                         std::byte* scratch) const {
  const GemmProblem& p = problem_;
  const int64_t width = StorageBytes(p.rhs_type);
  std::byte* workers = scratch + batches_ * left_bytes_;
  for (int64_t b = 0; b < batches_ && !direct_; ++b) Widen(lhs, b, 0, p.k, scratch + b * left_bytes_, workers);
  const int64_t unit =
      along_depth_ ? most_columns_ : ColumnsOfPart(p.n, width, pool.threads(), kColumnsOfTask, most_columns_);
  const int64_t units = CeilDiv(p.n, unit);
  const auto run = along_depth_ ? loops_.by_columns : loops_.by_rows;
  const double time = static_cast<double>(std::min(p.n, unit) * p.k * width) / 8;  // ns
  pool.ParallelItems(batches_ * units, time, [&](int64_t begin, int64_t end, int worker) {
    auto* sums = reinterpret_cast<float*>(workers + worker * worker_bytes_);
    for (int64_t t = begin; t < end && !IsInterrupted(); ++t) {
      const auto [b, number] = PartAt(t, units);
      const int64_t j = number * unit;
      const std::byte* matrix = rhs + (BatchOffset(b, p.batch, p.rhs_batch_strides) + j * p.rhs_n_stride) * width;
      auto* to = reinterpret_cast<float*>(result) + BatchOffset(b, p.batch, p.result_batch_strides) + j;
      const float* left =
          direct_ ? Widen(lhs, b, 0, p.k, nullptr, nullptr) : reinterpret_cast<const float*>(scratch + b * left_bytes_);
      run(left, left_stride_, p.m, matrix, along_depth_ ? p.rhs_n_stride : p.rhs_k_stride, p.k, std::min(unit, p.n - j),
          sums, to, p.result_m_stride);
    }
  });
}

void FewRows::RunChunks(const std::byte* lhs, const std::byte* rhs, std::byte* result, ThreadPool& pool,
                        std::byte* scratch) const {
  const GemmProblem& p = problem_;
  const int64_t width = StorageBytes(p.rhs_type), size = p.m * p.n;
  auto* partial = reinterpret_cast<float*>(scratch);
  const double time = static_cast<double>(batches_ * p.n * p.k * width) / 8;  // ns
  pool.ParallelParts(batches_ * chunks_, time, [&](int64_t begin, int64_t end, int worker) {
    std::byte* memory = scratch + partial_bytes_ + worker * worker_bytes_;
    auto* sums = reinterpret_cast<float*>(memory + left_bytes_ + raw_bytes_);
    for (int64_t t = begin; t < end && !IsInterrupted(); ++t) {
      const auto [b, number] = PartAt(t, chunks_);
      const int64_t first = p.k * number / chunks_, last = p.k * (number + 1) / chunks_;
      const float* left = Widen(lhs, b, first, last, memory, memory + left_bytes_);
      const std::byte* matrix = rhs + (BatchOffset(b, p.batch, p.rhs_batch_strides) + first * p.rhs_k_stride) * width;
      float* to = partial + (b * chunks_ + number) * size;
      for (int64_t j = 0; j < p.n; j += most_columns_)
        loops_.by_rows(left, left_stride_, p.m, matrix + j * width, p.rhs_k_stride, last - first,
                       std::min(most_columns_, p.n - j), sums, to + j, p.n);
    }
  });
  for (int64_t b = 0; b < batches_; ++b) {
    float* sums = partial + b * chunks_ * size;
    for (int64_t c = 1; c < chunks_; ++c)
      for (int64_t i = 0; i < size; ++i) sums[i] += sums[c * size + i];
    auto* to = reinterpret_cast<float*>(result) + BatchOffset(b, p.batch, p.result_batch_strides);
    for (int64_t r = 0; r < p.m; ++r) std::copy_n(sums + r * p.n, p.n, to + r * p.result_m_stride);
  }
}

void FewRows::Run(const std::byte* lhs, const std::byte* rhs, std::byte* result, ThreadPool& pool,
                  std::byte* scratch) const {
  if (chunks_ > 1) RunChunks(lhs, rhs, result, pool, scratch);
  else RunColumns(lhs, rhs, result, pool, scratch);
}

}  // namespace krafla::cpu
#endif
