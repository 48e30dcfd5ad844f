// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/running_sum.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/running_sum.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
void SumBlock(T* HWY_RESTRICT values, int64_t steps, int64_t step, int64_t lanes, T* HWY_RESTRICT sums,
              T* HWY_RESTRICT lost) {
  const auto run = [&](auto d, int64_t lane) HWY_ATTR {
    const auto before = hn::LoadU(d, sums + lane), small = hn::LoadU(d, lost + lane);
    auto sum = hn::LoadU(d, values + lane);
    hn::StoreU(hn::Add(hn::Add(sum, small), before), d, values + lane);
    for (int64_t s = 1; s < steps; ++s) {
      T* at = values + s * step + lane;
      sum = hn::Add(sum, hn::LoadU(d, at));
      hn::StoreU(hn::Add(hn::Add(sum, small), before), d, at);
    }
    const auto after = hn::Add(before, sum), added = hn::Sub(after, before);
    const auto rest = hn::Add(hn::Sub(before, hn::Sub(after, added)), hn::Sub(sum, added));
    hn::StoreU(after, d, sums + lane);
    // Infinities lose nothing.
    hn::StoreU(hn::Add(small, hn::IfThenElseZero(hn::IsFinite(after), rest)), d, lost + lane);
  };
  const hn::ScalableTag<T> d;
  const auto width = static_cast<int64_t>(hn::Lanes(d));
  int64_t lane = 0;
  for (; lane + width <= lanes; lane += width) run(d, lane);
  for (; lane < lanes; ++lane) run(hn::CappedTag<T, 1>(), lane);
}
void SumBlockF32(float* values, int64_t steps, int64_t step, int64_t lanes, float* sums, float* lost) {
  SumBlock(values, steps, step, lanes, sums, lost);
}
void SumBlockF64(double* values, int64_t steps, int64_t step, int64_t lanes, double* sums, double* lost) {
  SumBlock(values, steps, step, lanes, sums, lost);
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(SumBlockF32);
HWY_EXPORT(SumBlockF64);

namespace {

void SumBlockOf(float* values, int64_t steps, int64_t step, int64_t lanes, float* sums, float* lost) {
  HWY_DYNAMIC_DISPATCH(SumBlockF32)(values, steps, step, lanes, sums, lost);
}
void SumBlockOf(double* values, int64_t steps, int64_t step, int64_t lanes, double* sums, double* lost) {
  HWY_DYNAMIC_DISPATCH(SumBlockF64)(values, steps, step, lanes, sums, lost);
}

}  // namespace

template <class T>
RunningSum<T>::RunningSum(T* memory, const T* start, int64_t lanes)
    : sum_(memory), lost_(memory + lanes), lanes_(lanes) {
  std::copy_n(start, lanes, sum_);
  // -0 is what changes nothing when it is added.
  std::fill_n(lost_, lanes, T(-0.0));
}

template <class T>
void RunningSum<T>::AddBlock(T* values, int64_t steps, int64_t step) {
  SumBlockOf(values, steps, step, lanes_, sum_, lost_);
}

template class RunningSum<float>;
template class RunningSum<double>;

}  // namespace krafla::cpu
#endif
