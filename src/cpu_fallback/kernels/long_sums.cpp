// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/long_sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/long_sums.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void AddF32ToF64(const float* HWY_RESTRICT values, std::size_t n, double* HWY_RESTRICT totals) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::Add(hn::LoadU(d, totals + i), hn::PromoteTo(d, hn::LoadU(half, values + i))), d, totals + i);
  for (; i < n; ++i) totals[i] += static_cast<double>(values[i]);
}
void RoundF64(const double* HWY_RESTRICT totals, std::size_t n, float* HWY_RESTRICT to) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::DemoteTo(half, hn::LoadU(d, totals + i)), half, to + i);
  for (; i < n; ++i) to[i] = static_cast<float>(totals[i]);
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(AddF32ToF64);
HWY_EXPORT(RoundF64);

void AddF32(const float* values, std::size_t n, double* totals) {
  HWY_DYNAMIC_DISPATCH(AddF32ToF64)(values, n, totals);
}
void RoundTotals(const double* totals, std::size_t n, float* to) { HWY_DYNAMIC_DISPATCH(RoundF64)(totals, n, to); }
}  // namespace krafla::cpu
#endif
