// SPDX-License-Identifier: Apache-2.0
// The Ops of numerics/ops_concept.h on vectors, for every target, and loops that run a formula over a block.
//
// The formulas are templates that no target attribute reaches; their loops are marked `flatten`, so that everything
// ends up inside the loop, under its attribute. Values travel as classes with a copy constructor of their own: those
// are passed by reference where a call is left, which no vector calling convention can break.
#if defined(KRAFLA_CPU_FORMULA_OPS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef KRAFLA_CPU_FORMULA_OPS_INL
#undef KRAFLA_CPU_FORMULA_OPS_INL
#else
#define KRAFLA_CPU_FORMULA_OPS_INL
#endif

#include <array>
#include <hwy/highway.h>

#include "cpu_fallback/kernels/block_ops.h"
#include "numerics/formulas.h"
#include "numerics/nan.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct VectorOps {
  using DF = hn::ScalableTag<float>;
  using DI = hn::ScalableTag<uint32_t>;
  using DS = hn::ScalableTag<int32_t>;
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

  static F Const(float x) { return hn::Set(DF(), x); }
  static I ConstI(uint32_t x) { return hn::Set(DI(), x); }

  static F Add(const F& a, const F& b) { return hn::Add(a.v, b.v); }
  static F Sub(const F& a, const F& b) { return hn::Sub(a.v, b.v); }
  static F Mul(const F& a, const F& b) { return hn::Mul(a.v, b.v); }
  static F Div(const F& a, const F& b) { return hn::Div(a.v, b.v); }
  static F Sqrt(const F& a) { return hn::Sqrt(a.v); }
  static F Neg(const F& a) { return hn::Neg(a.v); }
  static F Abs(const F& a) { return hn::Abs(a.v); }
  static F Floor(const F& a) { return hn::Floor(a.v); }
  static F RoundEven(const F& a) { return hn::Round(a.v); }
  static F Trunc(const F& a) { return hn::Trunc(a.v); }

  static M OfFloat(hn::Mask<DF> m) { return hn::RebindMask(DI(), m); }
  static B Lt(const F& a, const F& b) { return OfFloat(hn::Lt(a.v, b.v)); }
  static B Le(const F& a, const F& b) { return OfFloat(hn::Le(a.v, b.v)); }
  static B Gt(const F& a, const F& b) { return OfFloat(hn::Gt(a.v, b.v)); }
  static B Ge(const F& a, const F& b) { return OfFloat(hn::Ge(a.v, b.v)); }
  static B Eq(const F& a, const F& b) { return OfFloat(hn::Eq(a.v, b.v)); }
  static B Ne(const F& a, const F& b) { return hn::Not(OfFloat(hn::Eq(a.v, b.v))); }  // true for NaN

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
    const hn::RepartitionToWide<DI> d64;
    const VI even = hn::BitCast(DI(), hn::ShiftRight<32>(hn::MulEven(a.v, b.v)));
    const VI odd = hn::BitCast(DI(), hn::MulOdd(a.v, b.v));
    (void)d64;
    return hn::OddEven(odd, even);
  }
  static I And(const I& a, const I& b) { return hn::And(a.v, b.v); }
  static I Or(const I& a, const I& b) { return hn::Or(a.v, b.v); }
  static I Xor(const I& a, const I& b) { return hn::Xor(a.v, b.v); }
  static I Not(const I& a) { return hn::Not(a.v); }
  static I Shl(const I& a, const I& b) { return hn::Shl(a.v, b.v); }
  static I Shr(const I& a, const I& b) { return hn::Shr(a.v, b.v); }
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

  static B IEq(const I& a, const I& b) { return hn::Eq(a.v, b.v); }
  static B INe(const I& a, const I& b) { return hn::Ne(a.v, b.v); }
  static B ULt(const I& a, const I& b) { return hn::Lt(a.v, b.v); }
  static B ULe(const I& a, const I& b) { return hn::Le(a.v, b.v); }
  static B SLt(const I& a, const I& b) {
    return hn::RebindMask(DI(), hn::Lt(hn::BitCast(DS(), a.v), hn::BitCast(DS(), b.v)));
  }
  static B SLe(const I& a, const I& b) {
    return hn::RebindMask(DI(), hn::Le(hn::BitCast(DS(), a.v), hn::BitCast(DS(), b.v)));
  }

  static B BAnd(const B& a, const B& b) { return hn::And(a.v, b.v); }
  static B BOr(const B& a, const B& b) { return hn::Or(a.v, b.v); }
  static B BNot(const B& a) { return hn::Not(a.v); }
  static F Select(const B& c, const F& a, const F& b) {
    return hn::IfThenElse(hn::RebindMask(DF(), c.v), a.v, b.v);
  }
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
  template <std::size_t N>
  static std::array<I, N> Blend(const B& c, const std::array<I, N>& a, const std::array<I, N>& b) {
    std::array<I, N> out = b;
    for (std::size_t i = 0; i < N; ++i) out[i] = SelectI(c, a[i], b[i]);
    return out;
  }
  template <class Function>
  static I EachLane(const I& a, const I& b, Function function) {
    HWY_ALIGN uint32_t x[HWY_MAX_BYTES / 4], y[HWY_MAX_BYTES / 4];
    hn::Store(a.v, DI(), x);
    hn::Store(b.v, DI(), y);
    for (std::size_t i = 0; i < hn::Lanes(DI()); ++i) x[i] = function(x[i], y[i]);
    return hn::Load(DI(), x);
  }
};

// A NaN is the one that arithmetic gives.
HWY_INLINE VectorOps::VF SettledResult(const VectorOps::F& x) {
  return hn::IfThenElse(hn::IsNaN(x.v), hn::Set(VectorOps::DF(), NanOf<float>()), x.v);
}

template <class Formula>
HWY_FLATTEN void FormulaLoop(const BlockArgs& args) {
  const VectorOps ops;
  const VectorOps::DF d;
  const std::size_t lanes = hn::Lanes(d), n = static_cast<std::size_t>(args.n);
  const float* a = static_cast<const float*>(args.in[0]);
  float* out = static_cast<float*>(args.out);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(SettledResult(Formula::Do(ops, VectorOps::F(hn::LoadU(d, a + i)))), d, out + i);
  if (i < n) hn::StoreN(SettledResult(Formula::Do(ops, VectorOps::F(hn::LoadN(d, a + i, n - i)))), d, out + i, n - i);
}
template <class Formula>
HWY_FLATTEN void Formula2Loop(const BlockArgs& args) {
  const VectorOps ops;
  const VectorOps::DF d;
  const std::size_t lanes = hn::Lanes(d), n = static_cast<std::size_t>(args.n);
  const float* a = static_cast<const float*>(args.in[0]);
  const float* b = static_cast<const float*>(args.in[1]);
  float* out = static_cast<float*>(args.out);
  for (std::size_t i = 0; i < n; i += lanes) {
    const std::size_t count = n - i < lanes ? n - i : lanes;
    const VectorOps::F x(hn::LoadN(d, a + i, count)), y(hn::LoadN(d, b + i, count));
    hn::StoreN(SettledResult(Formula::Do(ops, x, y)), d, out + i, count);
  }
}

#define KRAFLA_FORMULA(Name)                                                          \
  struct Name##Formula {                                                              \
    template <class... Operands>                                                      \
    static VectorOps::F Do(const VectorOps& ops, const Operands&... operands) {       \
      return krafla::Name(ops, operands...);                                          \
    }                                                                                 \
  };

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
