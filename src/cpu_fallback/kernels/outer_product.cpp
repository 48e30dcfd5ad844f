// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/outer_product.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/interruption.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/outer_product.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
void OuterLoop(const GemmProblem& p, const std::byte* lhs_bytes, const std::byte* rhs_bytes, int64_t rows,
               std::byte* result) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const T* lhs = reinterpret_cast<const T*>(lhs_bytes);
  const T* rhs = reinterpret_cast<const T*>(rhs_bytes);
  T* to = reinterpret_cast<T*>(result);
  const auto zero = hn::Zero(d);  // a sum begins with it: -0 alone is +0
  for (int64_t i = 0; i < rows; ++i, lhs += p.lhs_m_stride, to += p.result_m_stride) {
    const auto a = hn::Set(d, *lhs);
    int64_t j = 0;
    for (; j + lanes <= p.n; j += lanes) hn::StoreU(hn::Add(hn::Mul(a, hn::LoadU(d, rhs + j)), zero), d, to + j);
    const auto left = static_cast<std::size_t>(p.n - j);
    if (left > 0) hn::StoreN(hn::Add(hn::Mul(a, hn::LoadN(d, rhs + j, left)), zero), d, to + j, left);
  }
}
void RunOuter(const GemmProblem& p, const std::byte* lhs, const std::byte* rhs, int64_t rows, std::byte* result) {
  if (p.accumulate_type == ElementType::kF32) OuterLoop<float>(p, lhs, rhs, rows, result);
  else OuterLoop<double>(p, lhs, rhs, rows, result);
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(RunOuter);

bool IsOuterProduct(const GemmProblem& p) {
  if (p.accumulate_type != ElementType::kF32 && p.accumulate_type != ElementType::kF64) return false;
  return p.k == 1 && p.m > 1 && p.n > 1 && p.rhs_n_stride == 1 && p.lhs_type == p.accumulate_type &&
         p.rhs_type == p.accumulate_type;
}

void RunOuterProduct(const GemmProblem& p, const std::byte* lhs, const std::byte* rhs, std::byte* result,
                     ThreadPool& pool) {
  constexpr int64_t kPieceElements = 16384;
  const int64_t width = StorageBytes(p.accumulate_type);
  const int64_t rows = std::clamp<int64_t>(kPieceElements / p.n, 1, p.m), pieces = CeilDiv(p.m, rows);
  constexpr double kNanosecondsOfElement = 0.3;
  const double piece_time = static_cast<double>(rows * p.n) * kNanosecondsOfElement;
  pool.ParallelItems(BatchCount(p) * pieces, piece_time, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end && !IsInterrupted(); ++t) {
      const int64_t b = t / pieces, i = t % pieces * rows;
      HWY_DYNAMIC_DISPATCH(RunOuter)(
          p, lhs + (BatchOffset(b, p.batch, p.lhs_batch_strides) + i * p.lhs_m_stride) * width,
          rhs + BatchOffset(b, p.batch, p.rhs_batch_strides) * width, std::min(rows, p.m - i),
          result + (BatchOffset(b, p.batch, p.result_batch_strides) + i * p.result_m_stride) * width);
    }
  });
}

}  // namespace krafla::cpu
#endif
