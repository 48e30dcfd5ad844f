// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/short_products.h"

#include <algorithm>
#include <type_traits>

#include "base/checked_math.h"
#include "base/interruption.h"
#include "cpu_fallback/kernels/move.h"
#include "cpu_fallback/kernels/tiny_products.h"
#include "cpu_fallback/kernels/unroll.h"

#ifndef KRAFLA_CPU_SHORT_PRODUCTS
#define KRAFLA_CPU_SHORT_PRODUCTS
namespace krafla::cpu {
using ShortProductFn = void (*)(const GemmProblem&, const void*, const void*, void*);
constexpr int64_t kProductsBetweenLooks = 64;
}  // namespace krafla::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/short_products.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The columns of a product are at most two vectors of 64 bytes, as four of what is shorter.
template <class T>
using ShortTag = hn::CappedTag<T, 64 / sizeof(T)>;

// to[r, 0..columns) = sum over k of lhs[r, k] * rhs[k, 0..columns), for r < kRows; columns <= kVectors vectors.
// kIsExact: products of few terms are rounded one by one, as in XLA.
template <class T, int kRows, int kVectors, bool kIsExact>
void RowsTimesShort(const GemmProblem& p, const T* lhs, const T* rhs, T* to) {
  const ShortTag<T> d;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(ShortTag<T>()));
  using V = hn::Vec<decltype(d)>;
  V sums[kRows * kVectors];
  const auto last = static_cast<std::size_t>(p.n - (kVectors - 1) * kLanes);
  for (V& sum : sums) sum = hn::Zero(d);
  const T* rows[kRows];
  for (int r = 0; r < kRows; ++r) rows[r] = lhs + r * p.lhs_m_stride;
  for (int64_t k = 0; k < p.k; ++k) {
    V b[kVectors];
    KRAFLA_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) {
      const T* at = rhs + k * p.rhs_k_stride + v * kLanes;
      b[v] = v + 1 < kVectors || last == hn::Lanes(d) ? hn::LoadU(d, at) : hn::LoadN(d, at, last);
    }
    KRAFLA_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const V a = hn::Set(d, rows[r][k * p.lhs_k_stride]);
      KRAFLA_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) {
        V& sum = sums[r * kVectors + v];
        if constexpr (kIsExact) sum = hn::Add(sum, hn::Mul(a, b[v]));
        else sum = hn::MulAdd(a, b[v], sum);
      }
    }
  }
  KRAFLA_UNROLL(8)
  for (int r = 0; r < kRows; ++r) KRAFLA_UNROLL(4)
  for (int v = 0; v < kVectors; ++v) {
    T* at = to + r * p.result_m_stride + v * kLanes;
    if (v + 1 < kVectors || last == hn::Lanes(d)) hn::StoreU(sums[r * kVectors + v], d, at);
    else hn::StoreN(sums[r * kVectors + v], d, at, last);
  }
}
template <class T, int kVectors, bool kIsExact>
void ShortProductOf(const GemmProblem& p, const void* lhs, const void* rhs, void* to) {
  const T* left = static_cast<const T*>(lhs);
  const T* right = static_cast<const T*>(rhs);
  T* out = static_cast<T*>(to);
  int64_t i = 0;
  const auto rows = [&](auto run, int64_t count) {
    for (; i + count <= p.m; i += count) run(p, left + i * p.lhs_m_stride, right, out + i * p.result_m_stride);
  };
  if constexpr (kVectors <= 2) rows(&RowsTimesShort<T, 8, kVectors, kIsExact>, 8);
  rows(&RowsTimesShort<T, 4, kVectors, kIsExact>, 4);
  rows(&RowsTimesShort<T, 1, kVectors, kIsExact>, 1);
}
template <class T, bool kIsExact>
ShortProductFn PickShortProduct(int64_t columns) {
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(ShortTag<T>()));
  if (columns > 2 * 64 / static_cast<int64_t>(sizeof(T))) return nullptr;
  switch ((columns + kLanes - 1) / kLanes) {
    case 1: return &ShortProductOf<T, 1, kIsExact>;
    case 2: return &ShortProductOf<T, 2, kIsExact>;
    case 3: return &ShortProductOf<T, 3, kIsExact>;
    case 4: return &ShortProductOf<T, 4, kIsExact>;
    default: return nullptr;
  }
}
template <class T>
ShortProductFn PickFloatProduct(int64_t columns, int64_t depth) {
  return depth <= kTinyDepth ? PickShortProduct<T, true>(columns) : PickShortProduct<T, false>(columns);
}
ShortProductFn FindShortProduct(ElementType type, int64_t columns, int64_t depth) {
  using enum ElementType;
#if HWY_HAVE_FLOAT64
  if (type == kF64) return PickFloatProduct<double>(columns, depth);
#endif
  if (type == kF32) return PickFloatProduct<float>(columns, depth);
  // Integers wrap, whatever their signs.
  if (type == kS32 || type == kU32) return PickShortProduct<int32_t, false>(columns);
  return nullptr;
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindShortProduct);

bool ShortProducts::Takes(const GemmProblem& p) {
  constexpr int64_t kMostDepth = 64, kMostRows = 64, kLeastCount = 4;
  // Of more products oneDNN makes more, as processors multiply narrow floats themselves.
  constexpr int64_t kMostF32Products = 1500, kMostNarrowProducts = 600;
  if (p.accumulate_type == ElementType::kF32) {
    const bool is_narrow = p.lhs_type != ElementType::kF32 || p.rhs_type != ElementType::kF32;
    if (p.m * p.n * p.k > (is_narrow ? kMostNarrowProducts : kMostF32Products)) return false;
  }
  return p.n > 1 && p.m > 1 && p.k > 0 && p.k <= kMostDepth && p.m <= kMostRows && BatchCount(p) >= kLeastCount &&
         HWY_DYNAMIC_DISPATCH(FindShortProduct)(p.accumulate_type, p.n, p.k) != nullptr &&
         CanWiden(p.lhs_type, p.accumulate_type) && CanWiden(p.rhs_type, p.accumulate_type);
}

ShortProducts::ShortProducts(const GemmProblem& problem, int threads) : problem_(problem) {
  GemmProblem& p = problem_;
  const ElementType sums = p.accumulate_type;
  const int width = StorageBytes(sums);
  // Integers of the same width hold the same bits.
  const auto widens = [&](ElementType type) {
    return type != sums && !(IsIntegral(type) && IsIntegral(sums) && StorageBytes(type) == width);
  };
  lhs_ = {.type = p.lhs_type,
          .lines = p.m,
          .columns = p.k,
          .line_stride = p.lhs_m_stride,
          .column_stride = p.lhs_k_stride,
          .copies = false,
          .widens = widens(p.lhs_type)};
  rhs_ = {.type = p.rhs_type,
          .lines = p.k,
          .columns = p.n,
          .line_stride = p.rhs_k_stride,
          .column_stride = p.rhs_n_stride,
          .copies = false,
          .widens = widens(p.rhs_type)};
  lhs_.copies = lhs_.widens;
  rhs_.copies = rhs_.widens || p.rhs_n_stride != 1;
  if (lhs_.copies) p.lhs_m_stride = p.k, p.lhs_k_stride = 1;
  if (rhs_.copies) p.rhs_k_stride = p.n, p.rhs_n_stride = 1;
  rhs_copy_ = lhs_.copies ? RoundUp(p.m * p.k * width, 64) : 0;
  narrow_ = rhs_copy_ + (rhs_.copies ? RoundUp(p.k * p.n * width, 64) : 0);
  worker_bytes_ = narrow_ + (lhs_.widens || rhs_.widens ? RoundUp(p.k * std::max(p.m, p.n) * width, 64) : 0);
  scratch_bytes_ = worker_bytes_ * threads;
}

const std::byte* ShortProducts::Side::Prepare(const std::byte* from, ElementType sums, std::byte* to,
                                              std::byte* narrow) const {
  if (!copies) return from;
  const int width = StorageBytes(type);
  if (!widens) {
    MoveTile(width, from, {line_stride, column_stride}, to, {columns, 1}, lines, columns);
    return to;
  }
  const bool is_dense = column_stride == 1 && line_stride == columns;
  if (!is_dense) MoveTile(width, from, {line_stride, column_stride}, narrow, {columns, 1}, lines, columns);
  WidenElements(type, sums, is_dense ? from : narrow, to, lines * columns);
  return to;
}

void ShortProducts::Run(const std::byte* lhs, const std::byte* rhs, std::byte* result, ThreadPool& pool,
                        std::byte* scratch) const {
  const GemmProblem& p = problem_;
  const auto run = HWY_DYNAMIC_DISPATCH(FindShortProduct)(p.accumulate_type, p.n, p.k);
  const int width = StorageBytes(p.accumulate_type);
  const int64_t batches = BatchCount(p), lhs_width = StorageBytes(p.lhs_type), rhs_width = StorageBytes(p.rhs_type);
  constexpr double kNanosecondsOfProduct = 30;
  const double nanoseconds = kNanosecondsOfProduct + static_cast<double>(p.m * p.n * p.k) / kProductsPerNanosecond;
  pool.ParallelItems(batches, nanoseconds, [&](int64_t begin, int64_t end, int worker) {
    std::byte* memory = scratch + worker * worker_bytes_;
    int64_t lhs_before = -1, rhs_before = -1;  // what was put in order
    const std::byte *left = nullptr, *right = nullptr;
    for (int64_t b = begin; b < end; ++b) {
      if ((b - begin) % kProductsBetweenLooks == 0 && IsInterrupted()) return;
      const int64_t lhs_at = BatchOffset(b, p.batch, p.lhs_batch_strides) * lhs_width,
                    rhs_at = BatchOffset(b, p.batch, p.rhs_batch_strides) * rhs_width;
      if (lhs_at != lhs_before) left = lhs_.Prepare(lhs + lhs_at, p.accumulate_type, memory, memory + narrow_);
      if (rhs_at != rhs_before)
        right = rhs_.Prepare(rhs + rhs_at, p.accumulate_type, memory + rhs_copy_, memory + narrow_);
      lhs_before = lhs_at, rhs_before = rhs_at;
      run(p, left, right, result + BatchOffset(b, p.batch, p.result_batch_strides) * width);
    }
  });
}

}  // namespace krafla::cpu
#endif
