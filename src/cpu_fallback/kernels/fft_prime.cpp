// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/fft_prime.h"

#include <algorithm>
#include <complex>

#include "base/checked_math.h"
#include "numerics/roots_of_unity.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/fft_prime.cpp"
#include <hwy/foreach_target.h>

#include "cpu_fallback/kernels/tails-inl.h"
#include "cpu_fallback/kernels/unroll.h"

#ifndef KRAFLA_CPU_PRIME_PASS
#define KRAFLA_CPU_PRIME_PASS
namespace krafla::cpu {
inline constexpr int kPrimePairs = 4;  // pairs of results that are made at once
inline constexpr int kMostPrimeHalf = (kMostPrimeRadix - 1) / 2;
}  // namespace krafla::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A vector along q, or part of one, of each point.
template <bool kIsPart, class T>
struct PrimeColumns {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  const FftPassArgs<T>& a;
  int64_t p, q;
  std::size_t count;

  HWY_INLINE V Load(const T* from) const {
    if constexpr (kIsPart) return hn::LoadN(D(), from, count);
    else return hn::LoadU(D(), from);
  }
  // Result j, times its twiddle.
  HWY_INLINE void Store(int j, V re, V im) const {
    const D d;
    if (a.rest > 1 && j > 0) {
      const T* w = a.twiddles + (j - 1) * a.rest + p;
      const V c = hn::Set(d, w[0]), s = hn::Set(d, w[(a.radix - 1) * a.rest]);
      const V turned = hn::Sub(hn::Mul(re, c), hn::Mul(im, s));
      im = hn::Add(hn::Mul(re, s), hn::Mul(im, c));
      re = turned;
    }
    const int64_t at = q + a.s * (a.radix * p + j);
    if constexpr (kIsPart) {
      hn::StoreN(re, d, a.y.re + at, count);
      hn::StoreN(im, d, a.y.im + at, count);
    } else {
      hn::StoreU(re, d, a.y.re + at);
      hn::StoreU(im, d, a.y.im + at);
    }
  }

  // With the sums S and the differences D of points i and radix - i, and the sums A = x[0] + sum S cos and
  // B = sum D sin over i, of the angles 2 pi i j / radix: result j is A - iB, result radix - j is A + iB.
  HWY_INLINE void Run() const {
    const D d;
    const auto lanes = hn::Lanes(d);
    const int half = (a.radix - 1) / 2;
    HWY_ALIGN T parts[4 * kMostPrimeHalf * HWY_MAX_LANES_D(D)];
    const int64_t first = q + a.s * p, step = a.s * a.rest;
    const V re0 = Load(a.x.re + first), im0 = Load(a.x.im + first);
    V re = re0, im = im0;
    for (int i = 1; i <= half; ++i) {
      const int64_t at = first + step * i, other = first + step * (a.radix - i);
      const V xr = Load(a.x.re + at), xi = Load(a.x.im + at), yr = Load(a.x.re + other), yi = Load(a.x.im + other);
      T* to = parts + 4 * lanes * static_cast<std::size_t>(i - 1);
      const V sum_re = hn::Add(xr, yr), sum_im = hn::Add(xi, yi);
      hn::Store(sum_re, d, to);
      hn::Store(sum_im, d, to + lanes);
      hn::Store(hn::Sub(xr, yr), d, to + 2 * lanes);
      hn::Store(hn::Sub(xi, yi), d, to + 3 * lanes);
      re = hn::Add(re, sum_re), im = hn::Add(im, sum_im);
    }
    Store(0, re, im);
    const T* roots = a.roots;
    for (int j = 1; j <= half; j += kPrimePairs) {
      V ar[kPrimePairs], ai[kPrimePairs], br[kPrimePairs], bi[kPrimePairs];
      KRAFLA_UNROLL(4)
      for (int k = 0; k < kPrimePairs; ++k) ar[k] = re0, ai[k] = im0, br[k] = hn::Zero(d), bi[k] = hn::Zero(d);
      const T* from = parts;
      for (int i = 0; i < half; ++i, from += 4 * lanes, roots += 2 * kPrimePairs) {
        const V sr = hn::Load(d, from), si = hn::Load(d, from + lanes), dr = hn::Load(d, from + 2 * lanes),
                di = hn::Load(d, from + 3 * lanes);
        KRAFLA_UNROLL(4)
        for (int k = 0; k < kPrimePairs; ++k) {
          const V c = hn::Set(d, roots[k]), s = hn::Set(d, roots[kPrimePairs + k]);
          ar[k] = hn::MulAdd(sr, c, ar[k]), ai[k] = hn::MulAdd(si, c, ai[k]);
          br[k] = hn::MulAdd(dr, s, br[k]), bi[k] = hn::MulAdd(di, s, bi[k]);
        }
      }
      KRAFLA_UNROLL(4)
      for (int k = 0; k < kPrimePairs; ++k) {
        if (j + k > half) continue;
        Store(j + k, hn::Add(ar[k], bi[k]), hn::Sub(ai[k], br[k]));
        Store(a.radix - j - k, hn::Sub(ar[k], bi[k]), hn::Add(ai[k], br[k]));
      }
    }
  }
};

template <class T>
void PrimePass(const FftPassArgs<T>& a) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  for (int64_t p = 0; p < a.rest; ++p) {
    if (a.s < lanes) {
      PrimeColumns<true, T>{a, p, 0, static_cast<std::size_t>(a.s)}.Run();
      continue;
    }
    // The last vector lies over the one before it where s is no multiple of one.
    for (int64_t begin = 0; begin < a.s; begin += lanes)
      PrimeColumns<false, T>{a, p, std::min(begin, a.s - lanes), static_cast<std::size_t>(lanes)}.Run();
  }
}
void PrimePassFloat(const FftPassArgs<float>& a) { PrimePass(a); }
void PrimePassDouble(const FftPassArgs<double>& a) { PrimePass(a); }

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {

HWY_EXPORT(PrimePassFloat);
HWY_EXPORT(PrimePassDouble);

// Cosines, then sines of kPrimePairs results, of one point after the other.
std::vector<double> PrimeRoots(int radix) {
  const int half = (radix - 1) / 2;
  std::vector<double> out;
  for (int j = 1; j <= half; j += kPrimePairs)
    for (int i = 1; i <= half; ++i)
      for (int part = 0; part < 2; ++part)
        for (int k = 0; k < kPrimePairs; ++k) {
          const std::complex<double> w = RootOfUnity(int64_t{i} * (j + k) % radix, radix, 1);
          out.push_back(j + k > half ? 0 : part == 0 ? w.real() : w.imag());
        }
  return out;
}

void RunPrimePass(const FftPassArgs<float>& a) { HWY_DYNAMIC_DISPATCH(PrimePassFloat)(a); }
void RunPrimePass(const FftPassArgs<double>& a) { HWY_DYNAMIC_DISPATCH(PrimePassDouble)(a); }

int64_t PrimePassProducts(int radix, int64_t rest, int64_t s, int64_t lanes) {
  return int64_t{radix - 1} * (radix - 1) * rest * CeilDiv(s, lanes);
}

}  // namespace krafla::cpu
#endif
