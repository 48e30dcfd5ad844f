// SPDX-License-Identifier: Apache-2.0
// A pass of a transform (fft.cpp) whose radix is a prime that has no butterfly: sums of products. With the points i and
// radix - i added and subtracted first, each of them is of half as many points, and gives two results.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu_fallback/kernels/fft.h"

namespace krafla::cpu {

inline constexpr int kMostPrimeRadix = 127;

// y[q + s (radix p + j)] = w^(p j) times point j of the transform forward of x[q + s (p + rest i)], for all p < rest,
// q < s.
template <class T>
struct FftPassArgs {
  int radix;
  int64_t rest, s;
  const T* twiddles;  // [re or im][radix - 1][rest]
  const T* spread;    // the same for every q: [re or im][radix - 1][rest][s]; null where they are not needed
  const T* roots;
  SplitLine<T> x, y;
};

// The numbers of the products, which are the pass's `roots`.
std::vector<double> PrimeRoots(int radix);
void RunPrimePass(const FftPassArgs<float>& a);
void RunPrimePass(const FftPassArgs<double>& a);
// How many vectors of so many lanes are multiplied and added, roughly.
int64_t PrimePassProducts(int radix, int64_t rest, int64_t s, int64_t lanes);

}  // namespace krafla::cpu
