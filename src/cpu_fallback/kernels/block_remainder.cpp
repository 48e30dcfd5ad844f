// SPDX-License-Identifier: Apache-2.0
// The remainder of floats, C's fmod: an exact function, so every way to it gives the same bits.
#include <cmath>

#include "cpu_fallback/kernels/block_families.h"
#include "numerics/scalar_f64.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/block_remainder.cpp"
#include <hwy/foreach_target.h>

#include "cpu_fallback/kernels/block_loops-inl.h"

#ifndef KRAFLA_CPU_REMAINDER_OF_ONE
#define KRAFLA_CPU_REMAINDER_OF_ONE
namespace krafla::cpu {
inline float RemainderOfOne(float x, float y) { return std::fmod(x, y); }
inline double RemainderOfOne(double x, double y) { return scalar::Remainder(x, y); }
}  // namespace krafla::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

// Lane by lane, where `which` says so.
template <class D, class V = hn::Vec<D>>
HWY_NOINLINE V RemaindersApart(D d, V x, V y, V otherwise, hn::Mask<D> which) {
  using T = hn::TFromD<D>;
  HWY_ALIGN T xs[HWY_MAX_LANES_D(D)], ys[HWY_MAX_LANES_D(D)], out[HWY_MAX_LANES_D(D)];
  HWY_ALIGN uint8_t is_wanted[HWY_MAX(HWY_MAX_LANES_D(D), size_t{8})];
  hn::Store(x, d, xs), hn::Store(y, d, ys), hn::Store(otherwise, d, out);
  hn::StoreU(BytesFromMask(d, which), ByteTag<D>(), is_wanted);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i)
    if (is_wanted[i] != 0) out[i] = RemainderOfOne(xs[i], ys[i]);
  return hn::Load(d, out);
}

// A quotient of fewer bits than a number has, rounded and cut, is the whole number below x / y or the one above that:
// no whole number lies between the two, and those are numbers. x less so many y, of which the product is not rounded,
// is then the remainder or less than that by y, and both are numbers. Where the quotient has more bits: number by
// number. So is it where that remainder could be subnormal, which a run takes for zero (base/subnormals.h).
struct FloatRemainder {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Do(D d, V x, V y) {
    using T = hn::TFromD<D>;
    const auto zero = hn::Zero(d), infinity = hn::Inf(d);
    const auto ax = hn::Abs(x), ay = hn::Abs(y);
    const auto quotient = hn::Trunc(hn::Div(ax, ay));
    auto rest = hn::NegMulAdd(quotient, ay, ax);
    rest = hn::IfThenElse(hn::Lt(rest, zero), hn::Add(rest, ay), rest);
    rest = hn::IfThenElse(hn::Lt(ax, ay), ax, rest);  // y may be infinite
    const hn::RebindToUnsigned<D> du;
    const auto is_zero = hn::RebindMask(d, hn::Eq(hn::BitCast(du, ay), hn::Zero(du)));
    const auto is_valid = hn::AndNot(is_zero, hn::And(hn::Lt(ax, infinity), hn::Le(ay, infinity)));
    const auto is_short = hn::And(hn::Lt(quotient, hn::Set(d, sizeof(T) == 4 ? T(0x1p23) : T(0x1p52))),
                                  hn::Ge(ay, hn::Set(d, sizeof(T) == 4 ? T(0x1p-102) : T(0x1p-969))));
    auto out = hn::CopySign(rest, x);
    const auto is_long = hn::AndNot(is_short, is_valid);
    if (HWY_UNLIKELY(!hn::AllFalse(d, is_long))) out = RemaindersApart(d, x, y, out, is_long);
    return hn::IfThenElse(is_valid, out, hn::Set(d, NanOf<T>()));
  }
};

template <class T>
struct RemainderNumberByNumber {
  static T Do(T x, T y) { return Settled(RemainderOfOne(x, y)); }
};

template <class T>
BlockFn PickRemainder(unsigned uniform) {
#if HWY_NATIVE_FMA
  return PickBinary<T, FloatRemainder>(uniform);
#else
  return PickScalarBinary<T, RemainderNumberByNumber<T>>(uniform);
#endif
}
BlockFn FindRemainder(ElementType type, unsigned uniform) {
  return type == ElementType::kF64 ? PickRemainder<double>(uniform) : PickRemainder<float>(uniform);
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindRemainder);
BlockFn FindFloatRemainder(ElementType type, unsigned uniform) {
  return HWY_DYNAMIC_DISPATCH(FindRemainder)(type, uniform);
}
}  // namespace krafla::cpu
#endif
