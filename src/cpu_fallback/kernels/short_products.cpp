// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/short_products.h"

#include <algorithm>

#include "base/interruption.h"
#include "cpu_fallback/kernels/tiny_products.h"
#include "cpu_fallback/kernels/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/short_products.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_HAVE_FLOAT64
// to[r, 0..columns) = sum over k of lhs[r, k] * rhs[k, 0..columns), for r < kRows; columns <= kVectors vectors.
template <int kRows, int kVectors>
void RowsTimesShort(const GemmProblem& p, const double* lhs, const double* rhs, double* to) {
  const hn::CappedTag<double, 8> d;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(hn::CappedTag<double, 8>()));
  using V = hn::Vec<decltype(d)>;
  V sums[kRows * kVectors];
  const auto last = static_cast<std::size_t>(p.n - (kVectors - 1) * kLanes);
  for (V& sum : sums) sum = hn::Zero(d);
  const bool is_exact = p.k <= kTinyDepth;
  for (int64_t k = 0; k < p.k; ++k) {
    V b[kVectors];
    KRAFLA_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) {
      const double* at = rhs + k * p.rhs_k_stride + v * kLanes;
      b[v] = v + 1 < kVectors || last == hn::Lanes(d) ? hn::LoadU(d, at) : hn::LoadN(d, at, last);
    }
    KRAFLA_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const V a = hn::Set(d, lhs[r * p.lhs_m_stride + k * p.lhs_k_stride]);
      KRAFLA_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) {
        V& sum = sums[r * kVectors + v];
        // Products of few terms are rounded one by one, as in XLA.
        sum = is_exact ? hn::Add(sum, hn::Mul(a, b[v])) : hn::MulAdd(a, b[v], sum);
      }
    }
  }
  KRAFLA_UNROLL(8)
  for (int r = 0; r < kRows; ++r) KRAFLA_UNROLL(4)
  for (int v = 0; v < kVectors; ++v) {
    double* at = to + r * p.result_m_stride + v * kLanes;
    if (v + 1 < kVectors || last == hn::Lanes(d)) hn::StoreU(sums[r * kVectors + v], d, at);
    else hn::StoreN(sums[r * kVectors + v], d, at, last);
  }
}
template <int kVectors>
void ProductOf(const GemmProblem& p, const double* lhs, const double* rhs, double* to) {
  int64_t i = 0;
  const auto rows = [&](auto run, int64_t count) {
    for (; i + count <= p.m; i += count) run(p, lhs + i * p.lhs_m_stride, rhs, to + i * p.result_m_stride);
  };
  if constexpr (kVectors <= 2) rows(&RowsTimesShort<8, kVectors>, 8);
  rows(&RowsTimesShort<4, kVectors>, 4);
  rows(&RowsTimesShort<1, kVectors>, 1);
}
void RunShortProducts(const GemmProblem& p, int64_t begin, int64_t end, const double* lhs, const double* rhs,
                      double* to) {
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(hn::CappedTag<double, 8>()));
  const int64_t vectors = (p.n + kLanes - 1) / kLanes;
  const auto run = vectors == 1   ? &ProductOf<1>
                   : vectors == 2 ? &ProductOf<2>
                   : vectors == 3 ? &ProductOf<3>
                                  : &ProductOf<4>;
  for (int64_t b = begin; b < end; ++b)
    run(p, lhs + BatchOffset(b, p.batch, p.lhs_batch_strides), rhs + BatchOffset(b, p.batch, p.rhs_batch_strides),
        to + BatchOffset(b, p.batch, p.result_batch_strides));
}
// Columns that the registers hold.
int64_t MostColumns() {
  return std::min<int64_t>(16, static_cast<int64_t>(4 * hn::MaxLanes(hn::CappedTag<double, 8>())));
}
#else
void RunShortProducts(const GemmProblem&, int64_t, int64_t, const double*, const double*, double*) {}
int64_t MostColumns() { return 0; }
#endif

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(RunShortProducts);
HWY_EXPORT(MostColumns);

bool ShortProducts::Takes(const GemmProblem& p) {
  constexpr int64_t kMostDepth = 64, kMostRows = 64, kLeastCount = 4;
  constexpr ElementType t = ElementType::kF64;
  return p.lhs_type == t && p.rhs_type == t && p.accumulate_type == t && p.n > 1 && p.m > 1 && p.k > 0 &&
         p.k <= kMostDepth && p.m <= kMostRows && p.n <= HWY_DYNAMIC_DISPATCH(MostColumns)() && p.rhs_n_stride == 1 &&
         BatchCount(p) >= kLeastCount;
}

void ShortProducts::Run(const std::byte* lhs, const std::byte* rhs, std::byte* result, ThreadPool& pool) const {
  const GemmProblem& p = problem_;
  const int64_t grain = std::max<int64_t>(1, 16384 / (p.m * p.n * p.k));
  pool.ParallelFor((BatchCount(p) + grain - 1) / grain, 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end && !IsInterrupted(); ++t)
      HWY_DYNAMIC_DISPATCH(RunShortProducts)(p, t * grain, std::min(BatchCount(p), (t + 1) * grain),
                                             reinterpret_cast<const double*>(lhs), reinterpret_cast<const double*>(rhs),
                                             reinterpret_cast<double*>(result));
  });
}

}  // namespace krafla::cpu
#endif
