// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/magnitudes.h"

#include <algorithm>
#include <bit>

#include "numerics/formats.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/magnitudes.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Without their signs floats are in the order of their bits.
template <typename T>
T LargestBits(const T* from, int64_t count) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto mask = hn::Set(d, hwy::LimitsMax<T>());
  auto a = hn::Zero(d), b = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    a = hn::Max(a, hn::And(hn::LoadU(d, from + i), mask));
    b = hn::Max(b, hn::And(hn::LoadU(d, from + i + lanes), mask));
  }
  for (; i < count; i += lanes)
    a = hn::Max(a, hn::And(hn::LoadN(d, from + i, static_cast<std::size_t>(std::min(lanes, count - i))), mask));
  return hn::ReduceMax(d, hn::Max(a, b));
}
int32_t LargestOf32(const int32_t* from, int64_t count) { return LargestBits(from, count); }
int16_t LargestOf16(const int16_t* from, int64_t count) { return LargestBits(from, count); }

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(LargestOf32);
HWY_EXPORT(LargestOf16);

float LargestMagnitude(ElementType type, const std::byte* from, int64_t count) {
  if (type == ElementType::kF32)
    return std::bit_cast<float>(HWY_DYNAMIC_DISPATCH(LargestOf32)(reinterpret_cast<const int32_t*>(from), count));
  const auto bits =
      static_cast<uint16_t>(HWY_DYNAMIC_DISPATCH(LargestOf16)(reinterpret_cast<const int16_t*>(from), count));
  return type == ElementType::kF16 ? F16ToFloat(bits) : BF16ToFloat(bits);
}

}  // namespace krafla::cpu
#endif
