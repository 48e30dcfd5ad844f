// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/gemv.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/checked_math.h"
#include "base/interruption.h"
#include "cpu_fallback/kernels/unroll.h"
#include "krafla/status.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/gemv.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu_fallback/kernels/narrow_loads-inl.h"

#ifndef KRAFLA_CPU_GEMV_TURNS
#define KRAFLA_CPU_GEMV_TURNS
namespace krafla::cpu {
constexpr int64_t kGemvTurns = 128;
constexpr int64_t kSmallBytes = 32768;  // a matrix that one thread goes through
constexpr int64_t kUnitsBetweenLooks = 64;
constexpr int64_t kLineBytes = 64;
constexpr int64_t kLongPiece = 8192;  // bytes of a row
// Rows of a matrix that are read side by side: so many streams, each of which ends with its row, are more than a
// processor foresees. What comes next is fetched into the L2 cache meanwhile.
constexpr int64_t kRowsAtOnce = 8;
inline void FetchAhead(const void* p) { __builtin_prefetch(p, 0, 2); }
// The last dimension of the batch at once: rows by rows of its own.
void Gemv::RunByRows(const std::byte* lhs, const std::byte* rhs, std::byte* result, ThreadPool& pool) const {
  constexpr int64_t kPieceBytes = 16384;
  const GemmProblem& p = problem_;
  const int rhs_width = StorageBytes(p.rhs_type), width = StorageBytes(p.accumulate_type);
  const int64_t count = p.batch.back(), piece = std::max<int64_t>(4, kPieceBytes / (p.k * rhs_width) / 4 * 4);
  const int64_t pieces = CeilDiv(count, piece);
  const int64_t lhs_stride = direct_ ? p.lhs_batch_strides.back() : p.k;
  pool.ParallelFor(batches_ / count * pieces, 2, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end && !IsInterrupted(); ++t) {
      const int64_t first = t % pieces * piece, b = t / pieces * count + first;
      const std::byte* vectors = lhs + (direct_ ? BatchOffset(b, p.batch, p.lhs_batch_strides) : b * p.k) * width;
      loops_.rows_by_rows(vectors, lhs_stride, rhs + BatchOffset(b, p.batch, p.rhs_batch_strides) * rhs_width,
                          p.rhs_batch_strides.back(), p.k, std::min(piece, count - first),
                          result + BatchOffset(b, p.batch, p.result_batch_strides) * width);
    }
  });
}

}  // namespace krafla::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// to[0, n) (+)= sum over kRows rows of vector[r] * matrix[r, 0..n). `ahead`: elements from here to what is read next.
template <class T, class S, int kRows>
HWY_INLINE void AddRows(const T* vector, const S* matrix, int64_t stride, int64_t ahead, int64_t n, T* to, bool fresh) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto piece = [&](int64_t j, std::size_t count) HWY_ATTR {
    auto sum = fresh ? hn::Zero(d) : hn::LoadN(d, to + j, count);
    auto sum2 = hn::Zero(d);
    KRAFLA_UNROLL(8)
    for (int r = 0; r < kRows; r += 2) {
      sum = hn::MulAdd(hn::Set(d, vector[r]), LoadAs(d, matrix + r * stride + j, count), sum);
      if (r + 1 < kRows)
        sum2 = hn::MulAdd(hn::Set(d, vector[r + 1]), LoadAs(d, matrix + (r + 1) * stride + j, count), sum2);
    }
    hn::StoreN(hn::Add(sum, sum2), d, to + j, count);
  };
  int64_t j = 0;
  if (ahead != 0) {
    const int64_t line = std::max<int64_t>(lanes, kLineBytes / static_cast<int64_t>(sizeof(S)));
    for (; j + line <= n; j += line) {
      KRAFLA_UNROLL(8)
      for (int r = 0; r < kRows; ++r) FetchAhead(matrix + r * stride + j + ahead);
      for (int64_t i = 0; i < line; i += lanes) piece(j + i, hn::Lanes(d));
    }
  }
  for (; j + lanes <= n; j += lanes) piece(j, hn::Lanes(d));
  if (j < n) piece(j, static_cast<std::size_t>(n - j));
}

// to[0, n) = vector[0, k) * matrix[k, n], the matrix dense along n.
template <class T, class S>
void VectorTimesRows(const void* vector_pointer, const void* matrix_pointer, int64_t k, int64_t stride, int64_t n,
                     void* result) {
  const T* vector = static_cast<const T*>(vector_pointer);
  const S* matrix = static_cast<const S*>(matrix_pointer);
  T* to = static_cast<T*>(result);
  bool fresh = true;
  int64_t p = 0;
  for (; p + kRowsAtOnce <= k; p += kRowsAtOnce, fresh = false)
    AddRows<T, S, kRowsAtOnce>(vector + p, matrix + p * stride, stride,
                               p + 2 * kRowsAtOnce <= k ? kRowsAtOnce * stride : 0, n, to, fresh);
  for (; p < k; ++p, fresh = false) AddRows<T, S, 1>(vector + p, matrix + p * stride, stride, 0, n, to, fresh);
}

// kVectorEach: row r with a vector of its own, the one at vector + r * vector_stride. `ahead` as for AddRows.
template <class T, class S, int kRows, bool kVectorEach>
HWY_INLINE void DotRows(const T* vector, int64_t vector_stride, const S* matrix, int64_t stride, int64_t ahead,
                        int64_t k, T* to) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V total[kRows];
  KRAFLA_UNROLL(4)
  for (int r = 0; r < kRows; ++r) total[r] = hn::Zero(d);
  int64_t p = 0;
  while (p + 2 * lanes <= k) {
    // Lanes sum so many products before they are added to what was there: that bounds the error.
    const int64_t end = std::min(k, p + kGemvTurns * 2 * lanes);
    V s0[kRows], s1[kRows];
    KRAFLA_UNROLL(4)
    for (int r = 0; r < kRows; ++r) s0[r] = s1[r] = hn::Zero(d);
    for (; p + 2 * lanes <= end; p += 2 * lanes) {
      V a = hn::LoadU(d, vector + p), b = hn::LoadU(d, vector + p + lanes);
      KRAFLA_UNROLL(4)
      for (int r = 0; r < kRows; ++r) {
        if constexpr (kVectorEach) {
          const T* own = vector + r * vector_stride + p;
          if (r > 0) a = hn::LoadU(d, own), b = hn::LoadU(d, own + lanes);
        }
        if (ahead != 0) FetchAhead(matrix + r * stride + p + ahead);
        s0[r] = hn::MulAdd(a, LoadAs(d, matrix + r * stride + p, hn::Lanes(d)), s0[r]);
        s1[r] = hn::MulAdd(b, LoadAs(d, matrix + r * stride + p + lanes, hn::Lanes(d)), s1[r]);
      }
    }
    KRAFLA_UNROLL(4)
    for (int r = 0; r < kRows; ++r) total[r] = hn::Add(total[r], hn::Add(s0[r], s1[r]));
  }
  for (; p < k; p += lanes) {
    const auto count = static_cast<std::size_t>(std::min(lanes, k - p));
    V a = hn::LoadN(d, vector + p, count);
    KRAFLA_UNROLL(4)
    for (int r = 0; r < kRows; ++r) {
      if constexpr (kVectorEach) {
        if (r > 0) a = hn::LoadN(d, vector + r * vector_stride + p, count);
      }
      total[r] = hn::MulAdd(a, LoadAs(d, matrix + r * stride + p, count), total[r]);
    }
  }
  StoreSums(d, total, to);
}

// The matrix dense along k.
template <class T, class S>
void VectorTimesColumns(const void* vector_pointer, const void* matrix_pointer, int64_t k, int64_t stride, int64_t n,
                        void* result) {
  const T* vector = static_cast<const T*>(vector_pointer);
  const S* matrix = static_cast<const S*>(matrix_pointer);
  T* to = static_cast<T*>(result);
  int64_t j = 0;
  for (; j + 4 <= n; j += 4)
    DotRows<T, S, 4, false>(vector, 0, matrix + j * stride, stride, j + 8 <= n ? 4 * stride : 0, k, to + j);
  for (; j + 2 <= n; j += 2) DotRows<T, S, 2, false>(vector, 0, matrix + j * stride, stride, 0, k, to + j);
  for (; j < n; ++j) DotRows<T, S, 1, false>(vector, 0, matrix + j * stride, stride, 0, k, to + j);
}

// to[i] = the product of row i of one matrix with row i of another one, both dense along k.
template <class T, class S>
void RowsTimesRows(const void* lhs_pointer, int64_t lhs_stride, const void* rhs_pointer, int64_t rhs_stride, int64_t k,
                   int64_t count, void* result) {
  const T* lhs = static_cast<const T*>(lhs_pointer);
  const S* rhs = static_cast<const S*>(rhs_pointer);
  T* to = static_cast<T*>(result);
  int64_t i = 0;
  for (; i + 4 <= count; i += 4)
    DotRows<T, S, 4, true>(lhs + i * lhs_stride, lhs_stride, rhs + i * rhs_stride, rhs_stride, 0, k, to + i);
  for (; i < count; ++i)
    DotRows<T, S, 1, true>(lhs + i * lhs_stride, lhs_stride, rhs + i * rhs_stride, rhs_stride, 0, k, to + i);
}

template <class T, class S>
GemvLoops LoopsOf() {
  return {&VectorTimesColumns<T, S>, &VectorTimesRows<T, S>, &RowsTimesRows<T, S>};
}
// Nulls where there are none.
GemvLoops FindLoops(ElementType sum, ElementType matrix) {
  using enum ElementType;
  if (sum == kF32) {
    if (matrix == kF32) return LoopsOf<float, float>();
    if (matrix == kF16) return LoopsOf<float, hwy::float16_t>();
    if (matrix == kBF16) return LoopsOf<float, Bf16>();
  }
  if (sum == kF64 && matrix == kF64) return LoopsOf<double, double>();
  // Integers wrap: signs do not matter once widened.
  if (sum == kS32 || sum == kU32) {
    if (matrix == kS32 || matrix == kU32) return LoopsOf<int32_t, int32_t>();
    if (matrix == kS8) return LoopsOf<int32_t, int8_t>();
    if (matrix == kU8) return LoopsOf<int32_t, uint8_t>();
    if (matrix == kS16) return LoopsOf<int32_t, int16_t>();
    if (matrix == kU16) return LoopsOf<int32_t, uint16_t>();
  }
  return {};
}

// to = the sum of `rows` dense rows of n.
template <class T>
void SumRowsOf(const void* rows_pointer, int64_t rows, int64_t n, void* to_pointer) {
  const T* from = static_cast<const T*>(rows_pointer);
  T* to = static_cast<T*>(to_pointer);
  std::copy_n(from, n, to);
  for (int64_t r = 1; r < rows; ++r)
    for (int64_t i = 0; i < n; ++i) to[i] += from[r * n + i];
}
void SumRows(ElementType type, const void* rows_pointer, int64_t rows, int64_t n, void* to) {
  if (type == ElementType::kF32) SumRowsOf<float>(rows_pointer, rows, n, to);
  else if (type == ElementType::kF64) SumRowsOf<double>(rows_pointer, rows, n, to);
  else SumRowsOf<uint32_t>(rows_pointer, rows, n, to);
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindLoops);
HWY_EXPORT(SumRows);

int64_t ColumnsOfPart(int64_t columns, int64_t bytes, int threads, int64_t least, int64_t most) {
  if (threads == 1) return std::min(columns, most);
  const int64_t parts = columns * bytes >= 2 * threads * kLongPiece ? 2 * int64_t{threads} : threads;
  return std::min(most, std::max(least, RoundUp(CeilDiv(columns, parts), 16)));
}

GemvLoops FindGemvLoops(ElementType sum, ElementType matrix) { return HWY_DYNAMIC_DISPATCH(FindLoops)(sum, matrix); }

bool Gemv::Takes(const GemmProblem& p) {
  if ((p.m != 1 && p.n != 1) || p.k == 0) return false;
  const ElementType matrix = p.m == 1 ? p.rhs_type : p.lhs_type, vector = p.m == 1 ? p.lhs_type : p.rhs_type;
  if (HWY_DYNAMIC_DISPATCH(FindLoops)(p.accumulate_type, matrix).by_columns == nullptr) return false;
  if (!CanWiden(vector, p.accumulate_type)) return false;
  if (p.m == 1) return p.rhs_k_stride == 1 || p.rhs_n_stride == 1 || p.n == 1;
  return p.result_m_stride == 1 && (p.lhs_k_stride == 1 || p.lhs_m_stride == 1);
}

Gemv::Gemv(const GemmProblem& problem) : problem_(problem), batches_(BatchCount(problem)) {
  GemmProblem& p = problem_;
  if (p.m != 1) {
    exchanged_ = true;
    std::swap(p.lhs_batch_strides, p.rhs_batch_strides);
    std::swap(p.lhs_type, p.rhs_type);
    std::swap(p.m, p.n);
    std::swap(p.lhs_k_stride, p.rhs_k_stride);
    p.rhs_n_stride = p.lhs_m_stride;
    p.lhs_m_stride = 0;
  }
  const int width = StorageBytes(p.accumulate_type);
  // Integers of the same width hold the same bits.
  const bool same = p.lhs_type == p.accumulate_type || (IsIntegral(p.lhs_type) && StorageBytes(p.lhs_type) == width);
  direct_ = same && (p.lhs_k_stride == 1 || p.k == 1);
  // Few, long columns: k is cut into chunks of a fixed size, so that results do not depend on the threads.
  if (p.rhs_k_stride != 1 && batches_ * p.n < 2048 && p.k >= 2048) chunks_ = std::min<int64_t>(16, p.k / 1024);
  if (!direct_) vector_bytes_ = RoundUp(batches_ * p.k * width, 64);
  if (chunks_ > 1) partial_bytes_ = RoundUp(chunks_ * batches_ * p.n * width, 64);
  loops_ = HWY_DYNAMIC_DISPATCH(FindLoops)(p.accumulate_type, p.rhs_type);
  is_by_rows_ = p.n == 1 && chunks_ == 1 && (p.rhs_k_stride == 1 || p.k == 1) && !p.batch.empty() &&
                p.result_batch_strides.back() == 1;
  // And one vector as it is stored.
  scratch_bytes_ = vector_bytes_ + partial_bytes_ + (direct_ ? 0 : RoundUp(p.k * StorageBytes(p.lhs_type), 64));
}

void Gemv::Run(const std::byte* lhs, const std::byte* rhs, std::byte* result, ThreadPool& pool,
               std::byte* scratch) const {
  const GemmProblem& p = problem_;
  if (exchanged_) std::swap(lhs, rhs);
  const int lhs_width = StorageBytes(p.lhs_type), rhs_width = StorageBytes(p.rhs_type),
            width = StorageBytes(p.accumulate_type);
  const bool dense_along_k = p.rhs_k_stride == 1;
  const auto run = dense_along_k ? loops_.by_columns : loops_.by_rows;
  std::byte* vectors = scratch;
  std::byte* partial = scratch + vector_bytes_;
  std::byte* raw = partial + partial_bytes_;
  if (!direct_) {
    for (int64_t b = 0; b < batches_; ++b) {
      const std::byte* from = lhs + BatchOffset(b, p.batch, p.lhs_batch_strides) * lhs_width;
      std::byte* to = vectors + b * p.k * width;
      WidenLine(p.lhs_type, p.accumulate_type, from, p.lhs_k_stride, to, raw, p.k);
    }
  }
  const auto vector = [&](int64_t b) {
    return direct_ ? lhs + BatchOffset(b, p.batch, p.lhs_batch_strides) * lhs_width : vectors + b * p.k * width;
  };
  if (is_by_rows_) return RunByRows(direct_ ? lhs : vectors, rhs, result, pool);
  // Blocks of columns: rows as long as can be, of which the sums stay near.
  const int64_t columns = dense_along_k ? 16 : 8192;
  const int64_t blocks = CeilDiv(p.n, columns);
  const int64_t block_columns = RoundUp(CeilDiv(p.n, blocks), 16);
  const auto column_tasks = [&](int64_t k_begin, int64_t k_end, int64_t b, int64_t j, int64_t count, std::byte* to) {
    const std::byte* matrix =
        rhs +
        (BatchOffset(b, p.batch, p.rhs_batch_strides) + j * p.rhs_n_stride + k_begin * p.rhs_k_stride) * rhs_width;
    run(vector(b) + k_begin * width, matrix, k_end - k_begin, dense_along_k ? p.rhs_n_stride : p.rhs_k_stride, count,
        to);
  };
  if (chunks_ == 1) {
    // Finer than blocks, so that threads can share.
    const bool is_small = p.n * p.k * rhs_width < kSmallBytes;
    const int64_t unit = dense_along_k ? (is_small ? p.n : block_columns)
                                       : ColumnsOfPart(p.n, rhs_width, pool.threads(), 64, block_columns);
    const int64_t units = CeilDiv(p.n, unit);
    const double unit_time = static_cast<double>(std::min(p.n, unit) * p.k * rhs_width) / 8;  // ns
    pool.ParallelItems(batches_ * units, unit_time, [&](int64_t begin, int64_t end, int) {
      // Units of columns that are dense along k in one go: what comes next is fetched ahead.
      const int64_t most = dense_along_k ? kUnitsBetweenLooks : 1;
      for (int64_t t = begin, done = 0; t < end; t += done) {
        if ((t - begin) % kUnitsBetweenLooks == 0 && IsInterrupted()) return;
        const int64_t b = t / units, first = t % units, j = first * unit;
        done = std::min({end - t, units - first, most - (t - begin) % most});
        column_tasks(0, p.k, b, j, std::min(done * unit, p.n - j),
                     result + (BatchOffset(b, p.batch, p.result_batch_strides) + j) * width);
      }
    });
    return;
  }
  const double time = static_cast<double>(batches_ * p.n * p.k * rhs_width) / 8;  // ns
  pool.ParallelParts(batches_ * chunks_, time, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t b = t / chunks_, c = t % chunks_;
      column_tasks(p.k * c / chunks_, p.k * (c + 1) / chunks_, b, 0, p.n, partial + t * p.n * width);
    }
  });
  for (int64_t b = 0; b < batches_; ++b)
    HWY_DYNAMIC_DISPATCH(SumRows)(p.accumulate_type, partial + b * chunks_ * p.n * width, chunks_, p.n,
                                  result + BatchOffset(b, p.batch, p.result_batch_strides) * width);
}

}  // namespace krafla::cpu
#endif
