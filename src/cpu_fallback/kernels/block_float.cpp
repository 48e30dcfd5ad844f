// SPDX-License-Identifier: Apache-2.0
// Float ops that need no formula. XLA's rules: the larger and the smaller of a NaN and anything is the NaN, +0 is
// larger than -0; rounding keeps the sign of zero; sign keeps zeros and NaN.
#include "cpu_fallback/kernels/block_families.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/block_float.cpp"
#include <hwy/foreach_target.h>

#include "cpu_fallback/kernels/block_loops-inl.h"
#include "cpu_fallback/kernels/float_extrema-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

KRAFLA_BINARY(FloatAdd, hn::Add(x, y))
KRAFLA_BINARY(FloatSubtract, hn::Sub(x, y))
KRAFLA_BINARY(FloatMultiply, hn::Mul(x, y))
KRAFLA_BINARY(FloatDivide, hn::Div(x, y))
KRAFLA_UNARY(FloatAbs, hn::Abs(x))
KRAFLA_UNARY(FloatNegate, hn::Neg(x))
KRAFLA_UNARY(FloatFloor, hn::Or(hn::Floor(x), hn::And(x, hn::SignBit(d))))
KRAFLA_UNARY(FloatCeil, hn::Or(hn::Ceil(x), hn::And(x, hn::SignBit(d))))
KRAFLA_UNARY(FloatRoundEven, hn::Or(hn::Round(x), hn::And(x, hn::SignBit(d))))

struct FloatSign {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Do(D d, V x) {
    const V one = hn::Or(hn::Set(d, 1), hn::And(x, hn::SignBit(d)));
    const V zero = hn::Zero(d);
    // A subnormal number that is neither less nor greater becomes a zero.
    const V other = AsArithmeticHasIt(d, x);
    return hn::IfThenElse(hn::Or(hn::Lt(x, zero), hn::Gt(x, zero)), one, other);
  }
};
struct FloatRoundAway {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Do(D d, V x) {
    const V sign = hn::And(x, hn::SignBit(d));
    const V whole = hn::Trunc(x);  // x - whole is exact
    const auto up = hn::Ge(hn::Abs(hn::Sub(x, whole)), hn::Set(d, static_cast<hn::TFromD<D>>(0.5)));
    const V one = hn::Or(hn::Set(d, 1), sign);
    return hn::Or(hn::MaskedAddOr(whole, up, whole, one), sign);
  }
};

template <class T>
BlockFn FindOfType(const BlockKey& key) {
  if (key.opcode == Opcode::kAdd) return PickBinary<T, Arithmetic<FloatAdd>, true>(key.uniform);
  if (key.opcode == Opcode::kSubtract) return PickBinary<T, Arithmetic<FloatSubtract>>(key.uniform);
  if (key.opcode == Opcode::kMultiply) return PickBinary<T, Arithmetic<FloatMultiply>, true>(key.uniform);
  if (key.opcode == Opcode::kDivide) return PickBinary<T, Arithmetic<FloatDivide>>(key.uniform);
  if (key.opcode == Opcode::kMaximum) return PickBinary<T, SettledExtremum<FloatMaximum>>(key.uniform);
  if (key.opcode == Opcode::kMinimum) return PickBinary<T, SettledExtremum<FloatMinimum>>(key.uniform);
  if (key.opcode == Opcode::kAbs) return PickUnary<T, FloatAbs>(key.uniform);
  if (key.opcode == Opcode::kNegate) return PickUnary<T, FloatNegate>(key.uniform);
  if (key.opcode == Opcode::kFloor) return PickUnary<T, Arithmetic<FloatFloor>>(key.uniform);
  if (key.opcode == Opcode::kCeil) return PickUnary<T, Arithmetic<FloatCeil>>(key.uniform);
  if (key.opcode == Opcode::kRoundNearestEven) return PickUnary<T, Arithmetic<FloatRoundEven>>(key.uniform);
  if (key.opcode == Opcode::kRoundNearestAfz) return PickUnary<T, Arithmetic<FloatRoundAway>>(key.uniform);
  if (key.opcode == Opcode::kSign) return PickUnary<T, Arithmetic<FloatSign>>(key.uniform);
  if (key.opcode == Opcode::kClamp && key.uniform == 0) return &ClampLoop<T, false, FloatMaximum, FloatMinimum>;
  if (key.opcode == Opcode::kClamp && key.uniform == 5) return &ClampLoop<T, true, FloatMaximum, FloatMinimum>;
  return nullptr;
}

BlockFn FindFloat(const BlockKey& key) {
  if (key.type == ElementType::kF32) return FindOfType<float>(key);
#if HWY_HAVE_FLOAT64
  if (key.type == ElementType::kF64) return FindOfType<double>(key);
#endif
  return nullptr;
}

template <class T>
void SettleOf(T* values, std::size_t n) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    // Nothing is written where there is none.
    const auto x = hn::LoadU(d, values + i);
    if (!hn::AllFalse(d, hn::IsNaN(x))) [[unlikely]]
      hn::StoreU(SettledNan(d, x), d, values + i);
  }
  for (; i < n; ++i) values[i] = Settled(values[i]);
}
void Settle(ElementType type, void* values, int64_t n) {
  if (type == ElementType::kF32) SettleOf(static_cast<float*>(values), static_cast<std::size_t>(n));
#if HWY_HAVE_FLOAT64
  if (type == ElementType::kF64) SettleOf(static_cast<double*>(values), static_cast<std::size_t>(n));
#endif
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindFloat);
HWY_EXPORT(Settle);
void SettleNans(ElementType type, void* values, int64_t n) { HWY_DYNAMIC_DISPATCH(Settle)(type, values, n); }
BlockFn FindFloatBlock(const BlockKey& key) { return HWY_DYNAMIC_DISPATCH(FindFloat)(key); }
}  // namespace krafla::cpu
#endif
