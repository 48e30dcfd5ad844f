// SPDX-License-Identifier: Apache-2.0
// The Ops of numerics/f64_ops.h on vectors, for every target that has doubles, and loops that run a formula over a block.
// A word is the low half of a 64-bit lane whose upper half is zero, so that words, doubles and truth values have as many
// lanes. The rest is as in formula_ops-inl.h.
#if defined(KRAFLA_CPU_FORMULA_F64_OPS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef KRAFLA_CPU_FORMULA_F64_OPS_INL
#undef KRAFLA_CPU_FORMULA_F64_OPS_INL
#else
#define KRAFLA_CPU_FORMULA_F64_OPS_INL
#endif

#include <array>
#include <hwy/highway.h>

#include "cpu_fallback/kernels/block_ops.h"
#include "numerics/nan.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_HAVE_FLOAT64

struct VectorF64Ops {
  using DF = hn::ScalableTag<double>;
  using DI = hn::ScalableTag<uint64_t>;
  using DS = hn::ScalableTag<int64_t>;
  using DW = hn::ScalableTag<uint32_t>;
  using VF = hn::Vec<DF>;
  using VI = hn::Vec<DI>;
  using M = hn::Mask<DI>;

  template <class V>
  struct Held {
    V v;
    Held() = default;
    Held(V x) : v(x) {}  // NOLINT: a vector is one of these
    Held(const Held& other) : v(other.v) {}
    Held& operator=(const Held& other) {
      v = other.v;
      return *this;
    }
  };
  using F = Held<VF>;
  using I = Held<VI>;
  using B = Held<M>;

  static F Const(double x) { return hn::Set(DF(), x); }
  static I ConstI(uint32_t x) { return hn::Set(DI(), uint64_t{x}); }

  static F Add(const F& a, const F& b) { return hn::Add(a.v, b.v); }
  static F Sub(const F& a, const F& b) { return hn::Sub(a.v, b.v); }
  static F Mul(const F& a, const F& b) { return hn::Mul(a.v, b.v); }
  static F Div(const F& a, const F& b) { return hn::Div(a.v, b.v); }
  static F Sqrt(const F& a) { return hn::Sqrt(a.v); }
  static F Neg(const F& a) { return hn::Neg(a.v); }
  static F Abs(const F& a) { return hn::Abs(a.v); }

  static M OfFloat(hn::Mask<DF> m) { return hn::RebindMask(DI(), m); }
  static B Lt(const F& a, const F& b) { return OfFloat(hn::Lt(a.v, b.v)); }
  static B Le(const F& a, const F& b) { return OfFloat(hn::Le(a.v, b.v)); }
  static B Gt(const F& a, const F& b) { return OfFloat(hn::Gt(a.v, b.v)); }
  static B Ge(const F& a, const F& b) { return OfFloat(hn::Ge(a.v, b.v)); }
  static B Eq(const F& a, const F& b) { return OfFloat(hn::Eq(a.v, b.v)); }
  static B Ne(const F& a, const F& b) { return hn::Not(OfFloat(hn::Eq(a.v, b.v))); }  // true for NaN
  static F Select(const B& c, const F& a, const F& b) { return hn::IfThenElse(hn::RebindMask(DF(), c.v), a.v, b.v); }

  static I High(const F& a) { return hn::ShiftRight<32>(hn::BitCast(DI(), a.v)); }
  static I Low(const F& a) { return Word(hn::BitCast(DI(), a.v)); }
  static F Join(const I& low, const I& high) { return hn::BitCast(DF(), hn::Or(hn::ShiftLeft<32>(high.v), low.v)); }
  static F FromIntU(const I& a) { return hn::ConvertTo(DF(), hn::BitCast(DS(), a.v)); }

  static I IAdd(const I& a, const I& b) { return Word(hn::Add(a.v, b.v)); }
  static I ISub(const I& a, const I& b) { return Word(hn::Sub(a.v, b.v)); }
  static I IMul(const I& a, const I& b) { return Word(Product(a, b)); }
  static I UMulHi(const I& a, const I& b) { return hn::ShiftRight<32>(Product(a, b)); }
  static I And(const I& a, const I& b) { return hn::And(a.v, b.v); }
  static I Or(const I& a, const I& b) { return hn::Or(a.v, b.v); }
  static I Xor(const I& a, const I& b) { return hn::Xor(a.v, b.v); }
  static I Not(const I& a) { return Word(hn::Not(a.v)); }
  static I Shl(const I& a, const I& b) { return Word(hn::Shl(a.v, b.v)); }
  static I Shr(const I& a, const I& b) { return hn::Shr(a.v, b.v); }
  static I Sar(const I& a, const I& b) {
    return Word(hn::BitCast(DI(), hn::Shr(Signed(a), hn::BitCast(DS(), b.v))));
  }

  static B IEq(const I& a, const I& b) { return hn::Eq(a.v, b.v); }
  static B INe(const I& a, const I& b) { return hn::Ne(a.v, b.v); }
  // Both are below 2^32.
  static B ULt(const I& a, const I& b) { return Rebound(hn::Lt(hn::BitCast(DS(), a.v), hn::BitCast(DS(), b.v))); }
  static B ULe(const I& a, const I& b) { return Rebound(hn::Le(hn::BitCast(DS(), a.v), hn::BitCast(DS(), b.v))); }
  static B SLt(const I& a, const I& b) { return Rebound(hn::Lt(Signed(a), Signed(b))); }
  static B SLe(const I& a, const I& b) { return Rebound(hn::Le(Signed(a), Signed(b))); }

  static B BAnd(const B& a, const B& b) { return hn::And(a.v, b.v); }
  static B BOr(const B& a, const B& b) { return hn::Or(a.v, b.v); }
  static B BNot(const B& a) { return hn::Not(a.v); }
  static I SelectI(const B& c, const I& a, const I& b) { return hn::IfThenElse(c.v, a.v, b.v); }

  template <std::size_t N, class Body>
  static std::array<I, N> When(const B& condition, const std::array<I, N>& state, Body body) {
    if (hn::AllFalse(DI(), condition.v)) [[likely]] return state;
    return Blend(condition, body(state), state);
  }
  template <std::size_t N, class Condition, class Body>
  static std::array<I, N> Loop(int max_trips, std::array<I, N> state, Condition condition, Body body) {
    for (int trip = 0; trip < max_trips; ++trip) {
      const B more = condition(state);
      if (hn::AllFalse(DI(), more.v)) break;
      state = Blend(more, body(state), state);
    }
    return state;
  }

 private:
  static VI Word(VI x) { return hn::And(x, hn::Set(DI(), uint64_t{0xffffffff})); }
  static VI Product(const I& a, const I& b) { return hn::MulEven(hn::BitCast(DW(), a.v), hn::BitCast(DW(), b.v)); }
  static hn::Vec<DS> Signed(const I& a) {
    const auto sign = hn::Set(DS(), int64_t{0x80000000});
    return hn::Sub(hn::Xor(hn::BitCast(DS(), a.v), sign), sign);
  }
  static M Rebound(hn::Mask<DS> m) { return hn::RebindMask(DI(), m); }
  template <std::size_t N>
  static std::array<I, N> Blend(const B& c, const std::array<I, N>& a, const std::array<I, N>& b) {
    std::array<I, N> out = b;
    for (std::size_t i = 0; i < N; ++i) out[i] = SelectI(c, a[i], b[i]);
    return out;
  }
};

// A NaN is the one that arithmetic gives.
HWY_INLINE VectorF64Ops::VF SettledResult(const VectorF64Ops::F& x) {
  return hn::IfThenElse(hn::IsNaN(x.v), hn::Set(VectorF64Ops::DF(), NanOf<double>()), x.v);
}

template <class Formula>
HWY_FLATTEN void FormulaF64Loop(const BlockArgs& args) {
  const VectorF64Ops ops;
  const VectorF64Ops::DF d;
  const std::size_t lanes = hn::Lanes(d), n = static_cast<std::size_t>(args.n);
  const double* a = static_cast<const double*>(args.in[0]);
  double* out = static_cast<double*>(args.out);
  for (std::size_t i = 0; i < n; i += lanes) {
    const std::size_t count = n - i < lanes ? n - i : lanes;
    hn::StoreN(SettledResult(Formula::Do(ops, VectorF64Ops::F(hn::LoadN(d, a + i, count)))), d, out + i, count);
  }
}
template <class Formula>
HWY_FLATTEN void Formula2F64Loop(const BlockArgs& args) {
  const VectorF64Ops ops;
  const VectorF64Ops::DF d;
  const std::size_t lanes = hn::Lanes(d), n = static_cast<std::size_t>(args.n);
  const double* a = static_cast<const double*>(args.in[0]);
  const double* b = static_cast<const double*>(args.in[1]);
  double* out = static_cast<double*>(args.out);
  for (std::size_t i = 0; i < n; i += lanes) {
    const std::size_t count = n - i < lanes ? n - i : lanes;
    const VectorF64Ops::F x(hn::LoadN(d, a + i, count)), y(hn::LoadN(d, b + i, count));
    hn::StoreN(SettledResult(Formula::Do(ops, x, y)), d, out + i, count);
  }
}

#define KRAFLA_F64_FORMULA(Name)                                                        \
  struct Name##F64Formula {                                                             \
    template <class... Operands>                                                        \
    static VectorF64Ops::F Do(const VectorF64Ops& ops, const Operands&... operands) {   \
      return krafla::f64::Name(ops, operands...);                                       \
    }                                                                                   \
  };

#endif

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
