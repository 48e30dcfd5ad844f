// SPDX-License-Identifier: Apache-2.0
// What the Ops of f32 and of f64 formulas on vectors share, and the loops that run a formula over a block.
//
// The formulas are templates that no target attribute reaches; their loops are marked `flatten`, so that everything
// ends up inside the loop, under its attribute. Values travel as classes with a copy constructor of their own: those
// are passed by reference where a call is left, which no vector calling convention can break.
#if defined(KRAFLA_CPU_FORMULA_LANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef KRAFLA_CPU_FORMULA_LANES_INL
#undef KRAFLA_CPU_FORMULA_LANES_INL
#else
#define KRAFLA_CPU_FORMULA_LANES_INL
#endif

#include <array>

#include "cpu_fallback/kernels/block_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// T: the numbers; a word and a truth value lie in a lane of U, which is as wide.
template <class T, class U>
struct FormulaLanes {
  using Number = T;
  using DF = hn::ScalableTag<T>;
  using DI = hn::ScalableTag<U>;
  using DS = hn::RebindToSigned<DI>;
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

  static F Const(T x) { return hn::Set(DF(), x); }
  static I ConstI(uint32_t x) { return hn::Set(DI(), U{x}); }

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

  static I And(const I& a, const I& b) { return hn::And(a.v, b.v); }
  static I Or(const I& a, const I& b) { return hn::Or(a.v, b.v); }
  static I Xor(const I& a, const I& b) { return hn::Xor(a.v, b.v); }
  static I Shr(const I& a, const I& b) { return hn::Shr(a.v, b.v); }
  static B IEq(const I& a, const I& b) { return hn::Eq(a.v, b.v); }
  static B INe(const I& a, const I& b) { return hn::Ne(a.v, b.v); }

  static B BAnd(const B& a, const B& b) { return hn::And(a.v, b.v); }
  static B BOr(const B& a, const B& b) { return hn::Or(a.v, b.v); }
  static B BNot(const B& a) { return hn::Not(a.v); }
  static F Select(const B& c, const F& a, const F& b) { return hn::IfThenElse(hn::RebindMask(DF(), c.v), a.v, b.v); }
  static I SelectI(const B& c, const I& a, const I& b) { return hn::IfThenElse(c.v, a.v, b.v); }

  template <std::size_t N, class Body>
  static std::array<I, N> When(const B& condition, const std::array<I, N>& state, Body body) {
    if (hn::AllFalse(DI(), condition.v)) [[likely]]
      return state;
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
};

// The last vector of a block may have fewer than all lanes; loads and stores of some lanes are slow on some machines.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadUpTo(D d, const T* from, std::size_t count) {
  return count == hn::Lanes(d) ? hn::LoadU(d, from) : LoadSome(d, from, count);
}
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void StoreUpTo(hn::Vec<D> v, D d, T* to, std::size_t count) {
  if (count == hn::Lanes(d)) {
    hn::StoreU(v, d, to);
  } else {
    StoreSome(v, d, to, count);
  }
}

// The formula is in the code once: it is long.
template <class Ops, class Formula, int kOperands>
HWY_FLATTEN void FormulaLoop(const BlockArgs& args) {
  const Ops ops;
  const typename Ops::DF d;
  using T = typename Ops::Number;
  const std::size_t lanes = hn::Lanes(d), n = static_cast<std::size_t>(args.n);
  const T* a = static_cast<const T*>(args.in[0]);
  T* out = static_cast<T*>(args.out);
  for (std::size_t i = 0; i < n; i += lanes) {
    const std::size_t count = n - i < lanes ? n - i : lanes;
    const typename Ops::F x(LoadUpTo(d, a + i, count));
    typename Ops::F result;
    if constexpr (kOperands == 1) {
      result = Formula::Do(ops, x);
    } else {
      const typename Ops::F y(LoadUpTo(d, static_cast<const T*>(args.in[1]) + i, count));
      result = Formula::Do(ops, x, y);
    }
    StoreUpTo(SettledNan(d, result.v), d, out + i, count);
  }
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
