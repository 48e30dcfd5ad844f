// SPDX-License-Identifier: Apache-2.0
#include "numerics/roots_of_unity.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <utility>

#include "base/index.h"

namespace krafla {

using C = std::complex<double>;

namespace {

C Product(C a, C b) { return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()}; }

// In place, n a power of two, forward.
void Radix2(std::vector<C>& x) {
  const auto n = static_cast<int64_t>(x.size());
  std::vector<C> roots(At(std::max<int64_t>(1, n / 2)));
  for (int64_t k = 0; k < n / 2; ++k) roots[At(k)] = RootOfUnity(k, n, -1);
  for (int64_t i = 1, j = 0; i < n; ++i) {
    int64_t bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(x[At(i)], x[At(j)]);
  }
  for (int64_t half = 1; half < n; half *= 2) {
    for (int64_t base = 0; base < n; base += 2 * half) {
      for (int64_t k = 0; k < half; ++k) {
        const C odd = Product(x[At(base + k + half)], roots[At(k * (n / (2 * half)))]), even = x[At(base + k)];
        x[At(base + k)] = even + odd;
        x[At(base + k + half)] = even - odd;
      }
    }
  }
}

std::vector<int> Primes(int64_t n) {
  std::vector<int> out;
  for (int64_t p = 2; p * p <= n; ++p)
    for (; n % p == 0; n /= p) out.push_back(static_cast<int>(p));
  if (n > 1) out.push_back(static_cast<int>(n));
  return out;
}

}  // namespace

C RootOfUnity(int64_t k, int64_t n, int sign) {
  k %= n;
  const int64_t eighth = 8 * k / n;
  auto turn = [&](int64_t numerator) {  // the angle 2 pi numerator / (8 n)
    return 2 * std::numbers::pi * static_cast<double>(numerator) / (8 * static_cast<double>(n));
  };
  double c, s;
  if (eighth == 0) {
    c = std::cos(turn(8 * k)), s = std::sin(turn(8 * k));
  } else if (eighth <= 2) {
    c = -std::sin(turn(8 * k - 2 * n)), s = std::cos(turn(8 * k - 2 * n));
  } else if (eighth <= 4) {
    c = -std::cos(turn(8 * k - 4 * n)), s = -std::sin(turn(8 * k - 4 * n));
  } else if (eighth <= 6) {
    c = std::sin(turn(8 * k - 6 * n)), s = -std::cos(turn(8 * k - 6 * n));
  } else {
    c = std::cos(turn(8 * k - 8 * n)), s = std::sin(turn(8 * k - 8 * n));
  }
  return {c, sign * s};
}

C ChirpAt(int64_t k, int64_t n, int sign) {
  const auto wide = static_cast<unsigned __int128>(k);
  return RootOfUnity(static_cast<int64_t>(wide * wide % static_cast<unsigned __int128>(2 * n)), 2 * n, sign);
}

std::vector<C> Chirp(int64_t n, int sign) {
  std::vector<C> out(At(n));
  for (int64_t k = 0; k < n; ++k) out[At(k)] = ChirpAt(k, n, sign);
  return out;
}

std::vector<C> AroundChirp(const std::vector<C>& chirp, int64_t padded) {
  std::vector<C> out(At(padded), C(0));
  const auto n = static_cast<int64_t>(chirp.size());
  for (int64_t k = 0; k < n; ++k) {
    out[At(k)] = std::conj(chirp[At(k)]);
    if (k > 0) out[At(padded - k)] = std::conj(chirp[At(k)]);
  }
  return out;
}

std::vector<C> ChirpFilter(const std::vector<C>& chirp, int64_t padded) {
  std::vector<C> out = AroundChirp(chirp, padded);
  Radix2(out);
  for (C& v : out) v /= static_cast<double>(padded);
  return out;
}

std::vector<int> Radices(int64_t n, int most) {
  std::vector<int> primes = Primes(n), out;
  std::sort(primes.begin(), primes.end(), std::greater<int>());
  for (int p : primes) {
    auto bin = std::find_if(out.begin(), out.end(), [&](int have) { return have <= most / p; });
    if (bin == out.end()) out.push_back(p);
    else *bin *= p;
  }
  // A last radix of 2 beside a first of 16 costs as much traffic as two of 8 and 4 and saves nothing.
  std::sort(out.begin(), out.end(), std::greater<int>());
  if (out.size() > 1 && out.back() == 2 && out.front() % 4 == 0) {
    out.front() /= 2;
    out.back() *= 2;
    std::sort(out.begin(), out.end(), std::greater<int>());
  }
  return out;
}

int64_t LargestPrimeFactor(int64_t n) {
  const std::vector<int> primes = Primes(n);
  return primes.empty() ? 1 : *std::max_element(primes.begin(), primes.end());
}

}  // namespace krafla
