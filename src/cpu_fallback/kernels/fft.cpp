// SPDX-License-Identifier: Apache-2.0
// Passes as in C. Van Loan, "Computational Frameworks for the Fast Fourier Transform", 1992, section 1.7 (Stockham).
// Loops over points are unrolled, which keeps the points in registers.
// The butterflies are templates that no target attribute reaches: see formula_lanes-inl.h.
#include "cpu_fallback/kernels/fft.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <utility>

#include "base/checked_math.h"
#include "base/index.h"
#include "cpu_fallback/kernels/fft_prime.h"
#include "cpu_fallback/kernels/unroll.h"
#define KRAFLA_POINT_LOOP KRAFLA_UNROLL(16)
#include "numerics/butterfly.h"
#include "numerics/roots_of_unity.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/fft.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu_fallback/kernels/tails-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, int R>
struct PointOps {
  using T = hn::TFromD<D>;
  struct V {
    hn::Vec<D> v;
    V() = default;
    V(hn::Vec<D> x) : v(x) {}  // NOLINT: a vector is one of these
    V(const V& other) : v(other.v) {}
    V& operator=(const V& other) {
      v = other.v;
      return *this;
    }
  };
  const T* roots;
  static V Add(const V& a, const V& b) { return hn::Add(a.v, b.v); }
  static V Sub(const V& a, const V& b) { return hn::Sub(a.v, b.v); }
  static V Mul(const V& a, const V& b) { return hn::Mul(a.v, b.v); }
  static V Neg(const V& a) { return hn::Neg(a.v); }
  static V MulAdd(const V& a, const V& b, const V& c) { return hn::MulAdd(a.v, b.v, c.v); }
  static V NegMulAdd(const V& a, const V& b, const V& c) { return hn::NegMulAdd(a.v, b.v, c.v); }
  ComplexValue<V> Root(int k, int n) const {
    const T* at = roots + 2 * (k * (R / n));
    return {V(hn::Set(D(), at[0])), V(hn::Set(D(), at[1]))};
  }
};

// Part of a vector amid others in registers, which a function's call would store: by a mask or in place.
template <class D>
HWY_INLINE hn::Vec<D> LoadPart(D d, const Tail<D>& tail, const hn::TFromD<D>* from) {
  if constexpr (Tail<D>::kByMask) return tail.Load(d, from);
  else return hn::LoadN(d, from, tail.count);
}
template <class D>
HWY_INLINE void StorePart(hn::Vec<D> v, D d, const Tail<D>& tail, hn::TFromD<D>* to) {
  if constexpr (Tail<D>::kByMask) tail.Store(v, d, to);
  else hn::StoreN(v, d, to, tail.count);
}

// Vectors along q. The last one lies over the one before it where s is no multiple of a vector; where s is less than
// one, there is only a part.
template <int R, bool kIsPart, class T>
__attribute__((flatten)) void AlongColumns(const FftPassArgs<T>& a) {
  const hn::ScalableTag<T> d;
  using O = PointOps<decltype(d), R>;
  using V = typename O::V;
  O ops{a.roots};
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Tail part(d, static_cast<std::size_t>(a.s));
  const auto load = [&](const T* from) HWY_ATTR { return kIsPart ? LoadPart(d, part, from) : hn::LoadU(d, from); };
  const auto store = [&](const V& v, T* to)
                         HWY_ATTR { kIsPart ? StorePart(v.v, d, part, to) : hn::StoreU(v.v, d, to); };
  const int64_t plane = (R - 1) * a.rest;
  for (int64_t p = 0; p < a.rest; ++p) {
    for (int64_t begin = 0; begin < a.s; begin += lanes) {
      const int64_t q = kIsPart ? 0 : std::min(begin, a.s - lanes);
      ComplexValue<V> x[R];
      KRAFLA_POINT_LOOP
      for (int i = 0; i < R; ++i) {
        const int64_t at = q + a.s * (p + a.rest * i);
        x[i] = {V(load(a.x.re + at)), V(load(a.x.im + at))};
      }
      Butterfly<R>(ops, x, -1);
      T* re = a.y.re + q + a.s * R * p;
      T* im = a.y.im + q + a.s * R * p;
      store(x[0].re, re);
      store(x[0].im, im);
      KRAFLA_POINT_LOOP
      for (int j = 1; j < R; ++j) {
        const T* w = a.twiddles + (j - 1) * a.rest + p;
        const ComplexValue<V> v = ComplexProduct<O, V>(ops, x[j], {V(hn::Set(d, w[0])), V(hn::Set(d, w[plane]))});
        store(v.re, re + a.s * j);
        store(v.im, im + a.s * j);
      }
    }
  }
}

// `count` elements of each of R vectors, which are those of x[i] from element `m` on, to their places in y.
template <int R, int kS, class T>
HWY_INLINE void SpreadRuns(const T* from, int64_t lanes, int64_t m, T* y) {
  if constexpr (kS <= hn::MaxLanes(hn::ScalableTag<T>())) {
    const hn::CappedTag<T, kS> d;
    for (int64_t k = 0; k < lanes; k += kS)
      for (int j = 0; j < R; ++j) hn::StoreU(hn::LoadU(d, from + j * lanes + k), d, y + R * (m + k) + kS * j);
  }
}
template <int R, class T>
HWY_INLINE void Spread(const T* from, int64_t lanes, int64_t count, int64_t s, int64_t m, T* y) {
  if (count == lanes && lanes % s == 0) {
    if (s == 2) return SpreadRuns<R, 2>(from, lanes, m, y);
    if (s == 4) return SpreadRuns<R, 4>(from, lanes, m, y);
    if (s == 8) return SpreadRuns<R, 8>(from, lanes, m, y);
  }
  int64_t p = m / s, q = m % s;
  for (int64_t l = 0; l < count; ++l) {
    for (int j = 0; j < R; ++j) y[q + s * (R * p + j)] = from[j * lanes + l];
    if (++q == s) q = 0, ++p;
  }
}

// Vectors along p and q together, which lie side by side: s is less than a vector. The results are runs of s each.
template <int R, class T>
__attribute__((flatten)) void AlongRows(const FftPassArgs<T>& a) {
  const hn::ScalableTag<T> d;
  using O = PointOps<decltype(d), R>;
  using V = typename O::V;
  O ops{a.roots};
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t all = a.rest * a.s, plane = (R - 1) * all, count = std::min(all, lanes);
  const bool is_part = all < lanes;
  const Tail part(d, static_cast<std::size_t>(count));
  const auto load = [&](const T* from) HWY_ATTR { return is_part ? LoadPart(d, part, from) : hn::LoadU(d, from); };
  for (int64_t begin = 0; begin < all; begin += lanes) {
    const int64_t m = std::min(begin, all - count);
    ComplexValue<V> x[R];
    KRAFLA_POINT_LOOP
    for (int i = 0; i < R; ++i) x[i] = {V(load(a.x.re + m + all * i)), V(load(a.x.im + m + all * i))};
    Butterfly<R>(ops, x, -1);
    KRAFLA_POINT_LOOP
    for (int j = 1; j < R; ++j) {
      const T* w = a.spread + (j - 1) * all + m;
      x[j] = ComplexProduct<O, V>(ops, x[j], {V(load(w)), V(load(w + plane))});
    }
    if constexpr (R == 4) {
      if (a.s == 1 && !is_part) {
        hn::StoreInterleaved4(x[0].re.v, x[1].re.v, x[2].re.v, x[3].re.v, d, a.y.re + 4 * m);
        hn::StoreInterleaved4(x[0].im.v, x[1].im.v, x[2].im.v, x[3].im.v, d, a.y.im + 4 * m);
        continue;
      }
    }
    HWY_ALIGN T re[R * hn::MaxLanes(d)], im[R * hn::MaxLanes(d)];
    KRAFLA_POINT_LOOP
    for (int j = 0; j < R; ++j) {
      hn::Store(x[j].re.v, d, re + j * lanes);
      hn::Store(x[j].im.v, d, im + j * lanes);
    }
    Spread<R>(re, lanes, count, a.s, m, a.y.re);
    Spread<R>(im, lanes, count, a.s, m, a.y.im);
  }
}

template <int R, class T>
void PassOf(const FftPassArgs<T>& a) {
  if (a.s >= static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()))) return AlongColumns<R, false>(a);
  if (a.spread != nullptr) return AlongRows<R>(a);
  AlongColumns<R, true>(a);
}

template <class T>
void AnyPass(const FftPassArgs<T>& a) {
  switch (a.radix) {
    case 2: return PassOf<2>(a);
    case 3: return PassOf<3>(a);
    case 4: return PassOf<4>(a);
    case 5: return PassOf<5>(a);
    case 7: return PassOf<7>(a);
    case 8: return PassOf<8>(a);
    case 11: return PassOf<11>(a);
    case 13: return PassOf<13>(a);
    default: return;
  }
}
void PassFloat(const FftPassArgs<float>& a) { AnyPass(a); }
void PassDouble(const FftPassArgs<double>& a) { AnyPass(a); }

template <class T>
HWY_INLINE void SplitLoop(const T* pairs, int64_t n, SplitLine<T> to) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::Vec<decltype(d)> re, im;
    hn::LoadInterleaved2(d, pairs + 2 * i, re, im);
    hn::StoreU(re, d, to.re + i);
    hn::StoreU(im, d, to.im + i);
  }
  for (; i < n; ++i) to.re[i] = pairs[2 * i], to.im[i] = pairs[2 * i + 1];
}
template <class T>
HWY_INLINE void JoinLoop(SplitLine<T> from, int64_t n, T scale, T* pairs) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto by = hn::Set(d, scale);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreInterleaved2(hn::Mul(hn::LoadU(d, from.re + i), by), hn::Mul(hn::LoadU(d, from.im + i), by), d,
                          pairs + 2 * i);
  for (; i < n; ++i) pairs[2 * i] = from.re[i] * scale, pairs[2 * i + 1] = from.im[i] * scale;
}

// With e = (z[k] + conj z[h-k]) / 2 and o = (z[k] - conj z[h-k]) / 2i: x[k] = e + w o, x[h-k] = conj(e - w o), where
// w = exp(-2 pi i k / 2h).
template <class T, class D>
HWY_INLINE void HalfStep(D d, SplitLine<T> z, int64_t h, int64_t k, const T* roots, int64_t table, T* pairs) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t mirror = h - k - lanes + 1;
  const auto half = hn::Set(d, T(0.5));
  const auto ar = hn::LoadU(d, z.re + k), ai = hn::LoadU(d, z.im + k);
  const auto br = hn::Reverse(d, hn::LoadU(d, z.re + mirror)), bi = hn::Reverse(d, hn::LoadU(d, z.im + mirror));
  const auto er = hn::Mul(half, hn::Add(ar, br)), ei = hn::Mul(half, hn::Sub(ai, bi));
  const auto or_ = hn::Mul(half, hn::Add(ai, bi)), oi = hn::Mul(half, hn::Sub(br, ar));
  const auto c = hn::LoadU(d, roots + k), s = hn::LoadU(d, roots + table + k);  // w = c - i s
  const auto wr = hn::Add(hn::Mul(or_, c), hn::Mul(oi, s)), wi = hn::Sub(hn::Mul(oi, c), hn::Mul(or_, s));
  hn::StoreInterleaved2(hn::Add(er, wr), hn::Add(ei, wi), d, pairs + 2 * k);
  hn::StoreInterleaved2(hn::Reverse(d, hn::Sub(er, wr)), hn::Reverse(d, hn::Sub(wi, ei)), d, pairs + 2 * mirror);
}
template <class T>
HWY_INLINE void HalfLoop(SplitLine<T> z, int64_t h, const T* roots, T* pairs) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t table = h / 2 + 1;
  pairs[0] = z.re[0] + z.im[0], pairs[1] = 0;
  pairs[2 * h] = z.re[0] - z.im[0], pairs[2 * h + 1] = 0;
  int64_t k = 1;
  for (; k + lanes <= h / 2; k += lanes) HalfStep(d, z, h, k, roots, table, pairs);
  for (; 2 * k <= h; ++k) HalfStep(hn::CappedTag<T, 1>(), z, h, k, roots, table, pairs);
}

// The other way, times 2: z[k] = e + i o, z[h-k] = conj(e) + i conj(o), with e = x[k] + conj x[h-k] and
// o = (x[k] - conj x[h-k]) / w.
template <class T, class D>
HWY_INLINE void FromHalfStep(D d, const T* pairs, int64_t h, int64_t k, const T* roots, int64_t table, SplitLine<T> z) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t mirror = h - k - lanes + 1;
  hn::Vec<D> ar, ai, br, bi;
  hn::LoadInterleaved2(d, pairs + 2 * k, ar, ai);
  hn::LoadInterleaved2(d, pairs + 2 * mirror, br, bi);
  br = hn::Reverse(d, br), bi = hn::Reverse(d, bi);
  const auto er = hn::Add(ar, br), ei = hn::Sub(ai, bi), dr = hn::Sub(ar, br), di = hn::Add(ai, bi);
  const auto c = hn::LoadU(d, roots + k), s = hn::LoadU(d, roots + table + k);  // 1 / w = c + i s
  const auto or_ = hn::Sub(hn::Mul(dr, c), hn::Mul(di, s)), oi = hn::Add(hn::Mul(di, c), hn::Mul(dr, s));
  hn::StoreU(hn::Sub(er, oi), d, z.re + k);
  hn::StoreU(hn::Add(ei, or_), d, z.im + k);
  hn::StoreU(hn::Reverse(d, hn::Add(er, oi)), d, z.re + mirror);
  hn::StoreU(hn::Reverse(d, hn::Sub(or_, ei)), d, z.im + mirror);
}
template <class T>
HWY_INLINE void FromHalfLoop(const T* pairs, int64_t h, const T* roots, SplitLine<T> z) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t table = h / 2 + 1;
  // The ends are taken for real.
  z.re[0] = pairs[0] + pairs[2 * h], z.im[0] = pairs[0] - pairs[2 * h];
  int64_t k = 1;
  for (; k + lanes <= h / 2; k += lanes) FromHalfStep(d, pairs, h, k, roots, table, z);
  for (; 2 * k <= h; ++k) FromHalfStep(hn::CappedTag<T, 1>(), pairs, h, k, roots, table, z);
}

// to[r, c] = from[r, c] times factor r. Of one column vectors run along r.
template <class T>
HWY_INLINE void MultiplyLoop(SplitLine<T> from, const T* re, const T* im, int64_t rows, int64_t columns,
                             SplitLine<T> to) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto some = [&](int64_t at, int64_t n, auto u, auto v) HWY_ATTR {
    const auto count = static_cast<std::size_t>(n);
    const auto p = hn::LoadN(d, from.re + at, count), q = hn::LoadN(d, from.im + at, count);
    hn::StoreN(hn::Sub(hn::Mul(p, u), hn::Mul(q, v)), d, to.re + at, count);
    hn::StoreN(hn::Add(hn::Mul(p, v), hn::Mul(q, u)), d, to.im + at, count);
  };
  if (columns == 1) {
    for (int64_t r = 0; r < rows; r += lanes) {
      const int64_t n = std::min(lanes, rows - r);
      some(r, n, hn::LoadN(d, re + r, static_cast<std::size_t>(n)), hn::LoadN(d, im + r, static_cast<std::size_t>(n)));
    }
    return;
  }
  for (int64_t r = 0; r < rows; ++r) {
    const auto u = hn::Set(d, re[r]), v = hn::Set(d, im[r]);
    for (int64_t c = 0; c < columns; c += lanes) some(r * columns + c, std::min(lanes, columns - c), u, v);
  }
}
void MultiplyFloat(SplitLine<float> from, const float* re, const float* im, int64_t rows, int64_t columns,
                   SplitLine<float> to) {
  MultiplyLoop(from, re, im, rows, columns, to);
}
void MultiplyDouble(SplitLine<double> from, const double* re, const double* im, int64_t rows, int64_t columns,
                    SplitLine<double> to) {
  MultiplyLoop(from, re, im, rows, columns, to);
}

void SplitFloat(const float* p, int64_t n, SplitLine<float> to) { SplitLoop(p, n, to); }
void SplitDouble(const double* p, int64_t n, SplitLine<double> to) { SplitLoop(p, n, to); }
void JoinFloat(SplitLine<float> x, int64_t n, float scale, float* p) { JoinLoop(x, n, scale, p); }
void JoinDouble(SplitLine<double> x, int64_t n, double scale, double* p) { JoinLoop(x, n, scale, p); }
void HalfFloat(SplitLine<float> z, int64_t h, const float* roots, float* p) { HalfLoop(z, h, roots, p); }
void HalfDouble(SplitLine<double> z, int64_t h, const double* roots, double* p) { HalfLoop(z, h, roots, p); }
void FromHalfFloat(const float* p, int64_t h, const float* roots, SplitLine<float> z) { FromHalfLoop(p, h, roots, z); }
void FromHalfDouble(const double* p, int64_t h, const double* roots, SplitLine<double> z) {
  FromHalfLoop(p, h, roots, z);
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {

HWY_EXPORT(PassFloat);
HWY_EXPORT(PassDouble);
HWY_EXPORT(MultiplyFloat);
HWY_EXPORT(MultiplyDouble);
HWY_EXPORT(SplitFloat);
HWY_EXPORT(SplitDouble);
HWY_EXPORT(JoinFloat);
HWY_EXPORT(JoinDouble);
HWY_EXPORT(HalfFloat);
HWY_EXPORT(HalfDouble);
HWY_EXPORT(FromHalfFloat);
HWY_EXPORT(FromHalfDouble);

namespace {

constexpr int kMostPrime = 13;
constexpr int kMostPaddedPrime = 7;  // of lengths that are chosen, as larger ones cost more a point
constexpr int64_t kMostLanes = 16;

std::vector<int> PassRadices(int64_t n) {
  std::vector<int> out;
  auto take = [&](int radix) {
    out.push_back(radix);
    n /= radix;
  };
  // The first pass of a single line is best at 4, whose results one instruction or two put beside each other; after a
  // large second one the runs are vectors.
  if (n % 4 == 0) take(4);
  while (n % 8 == 0 && n != 16) take(8);
  for (int p : {13, 11, 7, 5})
    while (n % p == 0) take(p);
  while (n % 4 == 0) take(4);
  while (n % 3 == 0) take(3);
  while (n % 2 == 0) take(2);
  // Other primes last: of a single line the passes before them make runs of vectors.
  for (int p = kMostPrime + 2; n > 1 && p <= kMostPrimeRadix; p += 2)
    while (n % p == 0) take(p);
  return n == 1 ? out : std::vector<int>();
}

// Whether passes alone are less work than Bluestein's convolution.
bool TakesPasses(int64_t n) {
  if (LargestPrimeFactor(n) <= kMostPrime) return true;
  constexpr double kProductsOfPoint = 8;  // that the convolution is worth, for each halving of the points
  const std::vector<int> radices = PassRadices(n);
  int64_t products = 0, s = 1;
  for (int radix : radices) {
    if (radix > kMostPrime) products += PrimePassProducts(radix, n / (s * radix), s, kMostLanes);
    s *= radix;
  }
  const double halvings = std::log2(2.0 * static_cast<double>(n));
  return !radices.empty() && static_cast<double>(products) <= kProductsOfPoint * static_cast<double>(n) * halvings;
}

// The least number of points at or above `least` that takes passes alone, and begins with one of 4.
int64_t PaddedPoints(int64_t least) {
  int64_t n = RoundUp(least, 4);
  while (LargestPrimeFactor(n) > kMostPaddedPrime) n += 4;
  return n;
}

template <class T>
void Append(const std::vector<std::complex<double>>& from, std::vector<T>& re, std::vector<T>& im) {
  for (const std::complex<double>& v : from) {
    re.push_back(static_cast<T>(v.real()));
    im.push_back(static_cast<T>(v.imag()));
  }
}

void RunPass(const FftPassArgs<float>& a) {
  a.radix > kMostPrime ? RunPrimePass(a) : HWY_DYNAMIC_DISPATCH(PassFloat)(a);
}
void RunPass(const FftPassArgs<double>& a) {
  a.radix > kMostPrime ? RunPrimePass(a) : HWY_DYNAMIC_DISPATCH(PassDouble)(a);
}
void MultiplyRows(SplitLine<float> from, const float* re, const float* im, int64_t rows, int64_t columns,
                  SplitLine<float> to) {
  HWY_DYNAMIC_DISPATCH(MultiplyFloat)(from, re, im, rows, columns, to);
}
void MultiplyRows(SplitLine<double> from, const double* re, const double* im, int64_t rows, int64_t columns,
                  SplitLine<double> to) {
  HWY_DYNAMIC_DISPATCH(MultiplyDouble)(from, re, im, rows, columns, to);
}

// As ChirpFilter, of any number of points that takes passes alone.
std::vector<std::complex<double>> TransformedFilter(const std::vector<std::complex<double>>& chirp, int64_t padded) {
  const std::size_t count = At(padded);
  std::vector<double> numbers(4 * count, 0);
  const SplitLine<double> x{numbers.data(), numbers.data() + count}, spare{x.im + count, x.im + 2 * count};
  const std::vector<std::complex<double>> around = AroundChirp(chirp, padded);
  for (std::size_t k = 0; k < count; ++k) x.re[k] = around[k].real(), x.im[k] = around[k].imag();
  const SplitLine<double> done = LineFft<double>(padded, -1).Run(x, spare, 1, nullptr);
  std::vector<std::complex<double>> out(count);
  for (std::size_t k = 0; k < count; ++k) out[k] = std::complex(done.re[k], done.im[k]) / static_cast<double>(padded);
  return out;
}

template <class T>
SplitLine<T> Swapped(SplitLine<T> x) {
  return {x.im, x.re};
}

}  // namespace

template <class T>
LineFft<T>::LineFft(int64_t n, int sign) : n_(n), is_backward_(sign > 0) {
  if (!TakesPasses(n)) {
    padded_ = PaddedPoints(2 * n - 1);
    const std::vector<std::complex<double>> chirp = Chirp(n, -1);
    Append(chirp, chirp_re_, chirp_im_);
    Append(TransformedFilter(chirp, padded_), filter_re_, filter_im_);
    inner_ = std::make_unique<LineFft>(padded_, -1);
    return;
  }
  int64_t current = n, s = 1;
  for (int radix : PassRadices(n)) {
    Pass pass;
    pass.radix = radix;
    pass.rest = current / radix;
    const bool is_prime = radix > kMostPrime;
    const int64_t copies = s < kMostLanes && !is_prime ? s : 0;
    for (int part = 0; part < 2; ++part)
      for (int64_t j = 1; j < radix; ++j)
        for (int64_t p = 0; p < pass.rest; ++p) {
          const std::complex<double> w = RootOfUnity(p * j, current, -1);
          pass.twiddles.push_back(static_cast<T>(part == 0 ? w.real() : w.imag()));
          pass.spread.insert(pass.spread.end(), At(copies), pass.twiddles.back());
        }
    if (is_prime)
      for (double root : PrimeRoots(radix)) pass.roots.push_back(static_cast<T>(root));
    for (int k = 0; k < radix && !is_prime; ++k) {
      const std::complex<double> w = RootOfUnity(k, radix, 1);
      pass.roots.push_back(static_cast<T>(w.real()));
      pass.roots.push_back(static_cast<T>(w.imag()));
    }
    current = pass.rest;
    s *= radix;
    passes_.push_back(std::move(pass));
  }
}

template <class T>
int64_t LineFft<T>::scratch_numbers(int64_t columns) const {
  return padded_ == 0 ? 0 : 4 * padded_ * columns;
}

// With the parts of all numbers swapped, the transform forward is the one backward.
template <class T>
SplitLine<T> LineFft<T>::Run(SplitLine<T> x, SplitLine<T> spare, int64_t columns, T* scratch) const {
  return is_backward_ ? Swapped(Forward(Swapped(x), Swapped(spare), columns, scratch))
                      : Forward(x, spare, columns, scratch);
}

template <class T>
SplitLine<T> LineFft<T>::Forward(SplitLine<T> x, SplitLine<T> spare, int64_t columns, T* scratch) const {
  if (padded_ == 0) {
    int64_t s = columns;
    for (const Pass& pass : passes_) {
      const T* spread = columns == 1 && !pass.spread.empty() ? pass.spread.data() : nullptr;
      RunPass({pass.radix, pass.rest, s, pass.twiddles.data(), spread, pass.roots.data(), x, spare});
      std::swap(x, spare);
      s *= pass.radix;
    }
    return x;
  }
  const int64_t count = padded_ * columns;
  const SplitLine<T> a{scratch, scratch + count}, b{scratch + 2 * count, scratch + 3 * count};
  auto multiply = [&](SplitLine<T> from, const std::vector<T>& re, const std::vector<T>& im, int64_t rows,
                      SplitLine<T> to) { MultiplyRows(from, re.data(), im.data(), rows, columns, to); };
  multiply(x, chirp_re_, chirp_im_, n_, a);
  for (T* part : {a.re, a.im}) std::fill(part + n_ * columns, part + count, T(0));
  const SplitLine<T> spectrum = inner_->Forward(a, b, columns, nullptr);
  multiply(spectrum, filter_re_, filter_im_, padded_, spectrum);
  const SplitLine<T> other = spectrum.re == a.re ? b : a;
  const SplitLine<T> done = Swapped(inner_->Forward(Swapped(spectrum), Swapped(other), columns, nullptr));
  multiply(done, chirp_re_, chirp_im_, n_, x);
  return x;
}

template class LineFft<float>;
template class LineFft<double>;

template <>
void SplitPairs<float>(const float* pairs, int64_t n, SplitLine<float> to) {
  HWY_DYNAMIC_DISPATCH(SplitFloat)(pairs, n, to);
}
template <>
void SplitPairs<double>(const double* pairs, int64_t n, SplitLine<double> to) {
  HWY_DYNAMIC_DISPATCH(SplitDouble)(pairs, n, to);
}
template <>
void JoinPairs<float>(SplitLine<float> from, int64_t n, float scale, float* pairs) {
  HWY_DYNAMIC_DISPATCH(JoinFloat)(from, n, scale, pairs);
}
template <>
void JoinPairs<double>(SplitLine<double> from, int64_t n, double scale, double* pairs) {
  HWY_DYNAMIC_DISPATCH(JoinDouble)(from, n, scale, pairs);
}
template <>
void HalfSpectrum<float>(SplitLine<float> z, int64_t h, const float* roots, float* pairs) {
  HWY_DYNAMIC_DISPATCH(HalfFloat)(z, h, roots, pairs);
}
template <>
void HalfSpectrum<double>(SplitLine<double> z, int64_t h, const double* roots, double* pairs) {
  HWY_DYNAMIC_DISPATCH(HalfDouble)(z, h, roots, pairs);
}
template <>
void FromHalfSpectrum<float>(const float* pairs, int64_t h, const float* roots, SplitLine<float> z) {
  HWY_DYNAMIC_DISPATCH(FromHalfFloat)(pairs, h, roots, z);
}
template <>
void FromHalfSpectrum<double>(const double* pairs, int64_t h, const double* roots, SplitLine<double> z) {
  HWY_DYNAMIC_DISPATCH(FromHalfDouble)(pairs, h, roots, z);
}

}  // namespace krafla::cpu
#endif
