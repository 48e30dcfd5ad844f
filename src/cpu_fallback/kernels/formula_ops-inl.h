// SPDX-License-Identifier: Apache-2.0
// The Ops of numerics/ops_concept.h on vectors, for every target.
#if defined(KRAFLA_CPU_FORMULA_OPS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef KRAFLA_CPU_FORMULA_OPS_INL
#undef KRAFLA_CPU_FORMULA_OPS_INL
#else
#define KRAFLA_CPU_FORMULA_OPS_INL
#endif

#include "cpu_fallback/kernels/formula_lanes-inl.h"
#include "numerics/formulas.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

struct VectorOps : FormulaLanes<float, uint32_t> {
  static F Floor(const F& a) { return hn::Floor(a.v); }
  static F RoundEven(const F& a) { return hn::Round(a.v); }
  static F Trunc(const F& a) { return hn::Trunc(a.v); }

  static I Bits(const F& a) { return hn::BitCast(DI(), a.v); }
  static F FromBits(const I& a) { return hn::BitCast(DF(), a.v); }
  static I ToIntS(const F& a) { return hn::BitCast(DI(), hn::ConvertTo(DS(), a.v)); }
  static I ToIntU(const F& a) { return hn::ConvertTo(DI(), a.v); }
  static F FromIntS(const I& a) { return hn::ConvertTo(DF(), hn::BitCast(DS(), a.v)); }
  static F FromIntU(const I& a) { return hn::ConvertTo(DF(), a.v); }

  static I IAdd(const I& a, const I& b) { return hn::Add(a.v, b.v); }
  static I ISub(const I& a, const I& b) { return hn::Sub(a.v, b.v); }
  static I IMul(const I& a, const I& b) { return hn::Mul(a.v, b.v); }
  static I UMulHi(const I& a, const I& b) {
    const VI even = hn::BitCast(DI(), hn::ShiftRight<32>(hn::MulEven(a.v, b.v)));
    const VI odd = hn::BitCast(DI(), hn::MulOdd(a.v, b.v));
    return hn::OddEven(odd, even);
  }
  static I Not(const I& a) { return hn::Not(a.v); }
  static I Shl(const I& a, const I& b) { return hn::Shl(a.v, b.v); }
  static I Sar(const I& a, const I& b) {
    return hn::BitCast(DI(), hn::Shr(hn::BitCast(DS(), a.v), hn::BitCast(DS(), b.v)));
  }
  static I UDiv(const I& a, const I& b) {
    return EachLane(a, b, [](uint32_t x, uint32_t y) { return x / y; });
  }
  static I SDiv(const I& a, const I& b) {
    return EachLane(a, b, [](uint32_t x, uint32_t y) {
      return static_cast<uint32_t>(static_cast<int32_t>(x) / static_cast<int32_t>(y));
    });
  }

  static B ULt(const I& a, const I& b) { return hn::Lt(a.v, b.v); }
  static B ULe(const I& a, const I& b) { return hn::Le(a.v, b.v); }
  static B SLt(const I& a, const I& b) {
    return hn::RebindMask(DI(), hn::Lt(hn::BitCast(DS(), a.v), hn::BitCast(DS(), b.v)));
  }
  static B SLe(const I& a, const I& b) {
    return hn::RebindMask(DI(), hn::Le(hn::BitCast(DS(), a.v), hn::BitCast(DS(), b.v)));
  }

 private:
  template <class Function>
  static I EachLane(const I& a, const I& b, Function function) {
    HWY_ALIGN uint32_t x[HWY_MAX_BYTES / 4], y[HWY_MAX_BYTES / 4];
    hn::Store(a.v, DI(), x);
    hn::Store(b.v, DI(), y);
    for (std::size_t i = 0; i < hn::Lanes(DI()); ++i) x[i] = function(x[i], y[i]);
    return hn::Load(DI(), x);
  }
};

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
