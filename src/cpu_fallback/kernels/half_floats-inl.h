// SPDX-License-Identifier: Apache-2.0
// Between narrow floats and f32.
#if defined(KRAFLA_CPU_HALF_FLOATS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef KRAFLA_CPU_HALF_FLOATS_INL
#undef KRAFLA_CPU_HALF_FLOATS_INL
#else
#define KRAFLA_CPU_HALF_FLOATS_INL
#endif

#include <hwy/highway.h>

#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Where the processor has no instructions for f16, Highway widens its largest exponent as that of a number, so that an
// infinity is 65536 and a NaN something larger, and narrows a NaN to one of all mantissa bits.
#if HWY_ARCH_X86
inline constexpr bool kConvertsF16 = HWY_TARGET <= HWY_AVX2;
#else
inline constexpr bool kConvertsF16 = HWY_ARCH_ARM_A64;
#endif

template <class D, class V>
HWY_INLINE hn::Vec<D> WidenFloats(D d, V narrow) {
  const auto x = hn::PromoteTo(d, narrow);
  if constexpr (std::is_same_v<hn::TFromV<V>, hwy::float16_t> && !kConvertsF16) {
    const hn::RebindToUnsigned<D> du;
    const auto is_special = hn::Ge(hn::Abs(x), hn::Set(d, 65536.0f));
    return hn::Or(x, hn::IfThenElseZero(is_special, hn::BitCast(d, hn::Set(du, 0x7f800000u))));
  } else {
    return x;
  }
}

template <class D>
HWY_INLINE hn::Vec<D> NarrowToF16(D dh, hn::Vec<hn::Rebind<float, D>> x) {
  const auto narrow = hn::DemoteTo(dh, x);
  if constexpr (kConvertsF16) {
    return narrow;
  } else {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, narrow);
    const auto is_nan = hn::Gt(hn::And(bits, hn::Set(du, 0x7fff)), hn::Set(du, 0x7c00));
    return hn::BitCast(dh, hn::IfThenElse(is_nan, hn::And(bits, hn::Set(du, 0xfe00)), bits));
  }
}

// Rounded to the nearest, of two to the even one; a NaN keeps its sign.
template <class D>
HWY_INLINE hn::Vec<D> NarrowToBf16(D dn, hn::Vec<hn::Rebind<float, D>> x) {
  const hn::Rebind<uint32_t, D> du;
  const hn::RebindToUnsigned<D> d16;
  const auto bits = hn::BitCast(du, x);
  const auto half = hn::Add(hn::Set(du, 0x7fff), hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1)));
  const auto nan = hn::Or(hn::And(bits, hn::Set(du, 0x80000000u)), hn::Set(du, 0x7fc00000u));
  const auto is_nan = hn::RebindMask(du, hn::IsNaN(x));
  const auto rounded = hn::ShiftRight<16>(hn::IfThenElse(is_nan, nan, hn::Add(bits, half)));
  return hn::BitCast(dn, hn::TruncateTo(d16, rounded));
}
template <class D>
HWY_INLINE hn::Vec<D> NarrowFloats(D dn, hn::Vec<hn::Rebind<float, D>> x) {
  if constexpr (std::is_same_v<hn::TFromD<D>, hwy::float16_t>) return NarrowToF16(dn, x);
  else return NarrowToBf16(dn, x);
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
