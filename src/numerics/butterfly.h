// SPDX-License-Identifier: Apache-2.0
// The discrete Fourier transform of a few points in registers, written once: on vectors of numbers it is CPU code, on
// SPIR-V values it emits a shader. O supplies the type V and Add, Sub, Mul, Neg, MulAdd(a, b, c) = c + a b,
// NegMulAdd(a, b, c) = c - a b, each rounded once or twice, and Root(k, n), the pair exp(2 pi i k / n).
#pragma once

// Before every loop over points; on vectors it must unroll them, which keeps the points in registers.
#ifndef KRAFLA_POINT_LOOP
#define KRAFLA_POINT_LOOP
#endif

namespace krafla {

template <class V>
struct ComplexValue {
  V re, im;
};

template <class O, class V>
ComplexValue<V> ComplexProduct(O& o, ComplexValue<V> a, ComplexValue<V> b) {
  return {o.NegMulAdd(a.im, b.im, o.Mul(a.re, b.re)), o.MulAdd(a.im, b.re, o.Mul(a.re, b.im))};
}

// Transforms x[0..R) in place, natural order to natural order, with exp(sign 2 pi i / R). R is 1, a prime, or a
// product of primes.
template <int R, class O, class V = typename O::V>
inline void Butterfly(O& o, ComplexValue<V>* x, int sign);

namespace butterfly_internal {

constexpr int Factor(int r) {
  if (r % 4 == 0) return 4;
  for (int p = 2; p <= r; ++p)
    if (r % p == 0) return p;
  return 1;
}

template <class O, class V>
inline ComplexValue<V> Plus(O& o, ComplexValue<V> a, ComplexValue<V> b) {
  return {o.Add(a.re, b.re), o.Add(a.im, b.im)};
}
template <class O, class V>
inline ComplexValue<V> Minus(O& o, ComplexValue<V> a, ComplexValue<V> b) {
  return {o.Sub(a.re, b.re), o.Sub(a.im, b.im)};
}
// a + sign i b
template <class O, class V>
inline ComplexValue<V> PlusTurned(O& o, ComplexValue<V> a, ComplexValue<V> b, int sign) {
  return sign > 0 ? ComplexValue<V>{o.Sub(a.re, b.im), o.Add(a.im, b.re)}
                  : ComplexValue<V>{o.Add(a.re, b.im), o.Sub(a.im, b.re)};
}

// x times exp(sign 2 pi i k / n).
template <class O, class V>
inline ComplexValue<V> Turn(O& o, ComplexValue<V> x, int k, int n, int sign) {
  k %= n;
  if (k == 0) return x;
  if (2 * k == n) return {o.Neg(x.re), o.Neg(x.im)};
  if (4 * k == n || 4 * k == 3 * n) {
    const bool plus = (4 * k == n) == (sign > 0);
    return plus ? ComplexValue<V>{o.Neg(x.im), x.re} : ComplexValue<V>{x.im, o.Neg(x.re)};
  }
  const ComplexValue<V> w = o.Root(k, n);
  if (sign > 0) return ComplexProduct<O, V>(o, x, w);
  return {o.MulAdd(x.im, w.im, o.Mul(x.re, w.re)), o.NegMulAdd(x.re, w.im, o.Mul(x.im, w.re))};
}

template <int P, class O, class V>
inline void Prime(O& o, ComplexValue<V>* x, int sign) {
  if constexpr (P == 2) {
    const ComplexValue<V> a = x[0], b = x[1];
    x[0] = Plus(o, a, b);
    x[1] = Minus(o, a, b);
  } else if constexpr (P == 4) {
    const ComplexValue<V> a = Plus(o, x[0], x[2]), b = Minus(o, x[0], x[2]), c = Plus(o, x[1], x[3]),
                          d = Minus(o, x[1], x[3]);
    x[0] = Plus(o, a, c);
    x[1] = PlusTurned(o, b, d, sign);
    x[2] = Minus(o, a, c);
    x[3] = PlusTurned(o, b, d, -sign);
  } else if constexpr (P > 2) {
    // Pairs of points on either side: sums take cosines, differences sines.
    constexpr int kHalf = P / 2;
    ComplexValue<V> sums[kHalf], differences[kHalf];
    const ComplexValue<V> first = x[0];
    ComplexValue<V> all = first;
    KRAFLA_POINT_LOOP
    for (int j = 0; j < kHalf; ++j) {
      sums[j] = Plus(o, x[j + 1], x[P - 1 - j]);
      differences[j] = Minus(o, x[j + 1], x[P - 1 - j]);
      all = Plus(o, all, sums[j]);
    }
    x[0] = all;
    KRAFLA_POINT_LOOP
    for (int k = 1; k <= kHalf; ++k) {
      ComplexValue<V> even = first, odd = first;
      KRAFLA_POINT_LOOP
      for (int j = 0; j < kHalf; ++j) {
        const ComplexValue<V> w = o.Root((j + 1) * k % P, P);
        const V c = w.re, s = w.im;
        even = {o.MulAdd(sums[j].re, c, even.re), o.MulAdd(sums[j].im, c, even.im)};
        const ComplexValue<V> d = differences[j];
        odd = j == 0 ? ComplexValue<V>{o.Mul(d.re, s), o.Mul(d.im, s)}
                     : ComplexValue<V>{o.MulAdd(d.re, s, odd.re), o.MulAdd(d.im, s, odd.im)};
      }
      x[k] = PlusTurned(o, even, odd, sign);
      x[P - k] = PlusTurned(o, even, odd, -sign);
    }
  }
}

}  // namespace butterfly_internal

template <int R, class O, class V>
inline void Butterfly(O& o, ComplexValue<V>* x, int sign) {
  namespace in = butterfly_internal;
  constexpr int kP = in::Factor(R), kQ = R / kP;
  if constexpr (kQ == 1) {
    in::Prime<kP, O, V>(o, x, sign);
  } else {
    // x[s + p j] for each s: q points. Then over s with twiddles.
    ComplexValue<V> parts[kP][kQ];
    KRAFLA_POINT_LOOP
    for (int s = 0; s < kP; ++s) {
      KRAFLA_POINT_LOOP
      for (int j = 0; j < kQ; ++j) parts[s][j] = x[s + kP * j];
      Butterfly<kQ, O, V>(o, parts[s], sign);
    }
    KRAFLA_POINT_LOOP
    for (int k = 0; k < kQ; ++k) {
      ComplexValue<V> across[kP];
      KRAFLA_POINT_LOOP
      for (int s = 0; s < kP; ++s) across[s] = in::Turn(o, parts[s][k], s * k, R, sign);
      in::Prime<kP, O, V>(o, across, sign);
      KRAFLA_POINT_LOOP
      for (int t = 0; t < kP; ++t) x[k + kQ * t] = across[t];
    }
  }
}

}  // namespace krafla
