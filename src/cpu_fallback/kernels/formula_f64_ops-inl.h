// SPDX-License-Identifier: Apache-2.0
// The Ops of numerics/f64_ops.h on vectors, for every target that has doubles. A word is the low half of a 64-bit lane
// whose upper half is zero, so that words, doubles and truth values have as many lanes.
#if defined(KRAFLA_CPU_FORMULA_F64_OPS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef KRAFLA_CPU_FORMULA_F64_OPS_INL
#undef KRAFLA_CPU_FORMULA_F64_OPS_INL
#else
#define KRAFLA_CPU_FORMULA_F64_OPS_INL
#endif

#include "cpu_fallback/kernels/formula_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

#if HWY_HAVE_FLOAT64

struct VectorF64Ops : FormulaLanes<double, uint64_t> {
  using DW = hn::ScalableTag<uint32_t>;

  static I High(const F& a) { return hn::ShiftRight<32>(hn::BitCast(DI(), a.v)); }
  static I Low(const F& a) { return Word(hn::BitCast(DI(), a.v)); }
  static F Join(const I& low, const I& high) { return hn::BitCast(DF(), hn::Or(hn::ShiftLeft<32>(high.v), low.v)); }
  static F FromIntU(const I& a) { return hn::ConvertTo(DF(), hn::BitCast(DS(), a.v)); }

  static I IAdd(const I& a, const I& b) { return Word(hn::Add(a.v, b.v)); }
  static I ISub(const I& a, const I& b) { return Word(hn::Sub(a.v, b.v)); }
  static I IMul(const I& a, const I& b) { return Word(Product(a, b)); }
  static I UMulHi(const I& a, const I& b) { return hn::ShiftRight<32>(Product(a, b)); }
  static I Not(const I& a) { return Word(hn::Not(a.v)); }
  static I Shl(const I& a, const I& b) { return Word(hn::Shl(a.v, b.v)); }
  static I Sar(const I& a, const I& b) { return Word(hn::BitCast(DI(), hn::Shr(Signed(a), hn::BitCast(DS(), b.v)))); }

  // Both are below 2^32.
  static B ULt(const I& a, const I& b) { return Rebound(hn::Lt(hn::BitCast(DS(), a.v), hn::BitCast(DS(), b.v))); }
  static B ULe(const I& a, const I& b) { return Rebound(hn::Le(hn::BitCast(DS(), a.v), hn::BitCast(DS(), b.v))); }
  static B SLt(const I& a, const I& b) { return Rebound(hn::Lt(Signed(a), Signed(b))); }
  static B SLe(const I& a, const I& b) { return Rebound(hn::Le(Signed(a), Signed(b))); }

 private:
  static VI Word(VI x) { return hn::And(x, hn::Set(DI(), uint64_t{0xffffffff})); }
  static VI Product(const I& a, const I& b) { return hn::MulEven(hn::BitCast(DW(), a.v), hn::BitCast(DW(), b.v)); }
  static hn::Vec<DS> Signed(const I& a) {
    const auto sign = hn::Set(DS(), int64_t{0x80000000});
    return hn::Sub(hn::Xor(hn::BitCast(DS(), a.v), sign), sign);
  }
  static M Rebound(hn::Mask<DS> m) { return hn::RebindMask(DI(), m); }
};

#endif

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
