// SPDX-License-Identifier: Apache-2.0
// XLA's maximum and minimum of floats: a NaN wins, +0 is larger than -0.
#if defined(KRAFLA_CPU_FLOAT_EXTREMA_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef KRAFLA_CPU_FLOAT_EXTREMA_INL
#undef KRAFLA_CPU_FLOAT_EXTREMA_INL
#else
#define KRAFLA_CPU_FLOAT_EXTREMA_INL
#endif

#include <hwy/highway.h>

#include "numerics/nan.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// x, but a zero of its sign where it is subnormal and arithmetic takes such for zeros (base/subnormals.h). It is a
// multiply-add because compilers remove a product with 1, and a sum with +0 where there is none.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V AsArithmeticHasIt(D d, V x) {
#if HWY_NATIVE_FMA
  using T = hn::TFromD<D>;
  return hn::MulAdd(x, hn::Set(d, T{1}), hn::Set(d, T{-0.0}));
#else
  return hn::CopySign(hn::Add(x, hn::Zero(d)), x);
#endif
}

// Zeros are equal with different bits, which these settle by and or or. So are two subnormal numbers that are taken for
// zeros, whose bits together are those of neither: what is seen of the result goes through SettledExtremum.
struct FloatMaximum {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Do(D d, V x, V y) {
    V larger = hn::IfThenElse(hn::Gt(x, y), x, y);
    larger = hn::IfThenElse(hn::Eq(x, y), hn::And(x, y), larger);
    return hn::IfThenElse(hn::IsEitherNaN(x, y), hn::Set(d, NanOf<hn::TFromD<D>>()), larger);
  }
};
struct FloatMinimum {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Do(D d, V x, V y) {
    V smaller = hn::IfThenElse(hn::Lt(x, y), x, y);
    smaller = hn::IfThenElse(hn::Eq(x, y), hn::Or(x, y), smaller);
    return hn::IfThenElse(hn::IsEitherNaN(x, y), hn::Set(d, NanOf<hn::TFromD<D>>()), smaller);
  }
};
// The same with a zero for a subnormal result, where such are taken for zeros.
template <class Extremum>
struct SettledExtremum {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Do(D d, V x, V y) {
    return AsArithmeticHasIt(d, Extremum::Do(d, x, y));
  }
};

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
