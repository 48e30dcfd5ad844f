// SPDX-License-Identifier: Apache-2.0
// Fourier transforms of lines: Stockham's algorithm on real and imaginary parts apart, so that every pass is vectors
// side by side; Bluestein's convolution where a prime factor is so large that sums of products are more work. T is
// float or double.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace krafla::cpu {

template <class T>
struct SplitLine {
  T* re = nullptr;
  T* im = nullptr;
};

// Transforms of n points with exp(sign 2 pi i / n), not scaled. Immutable once made.
template <class T>
class LineFft {
 public:
  LineFft(int64_t n, int sign);

  int64_t points() const { return n_; }
  // Numbers of T that Run needs beyond its data, for `columns` columns.
  int64_t scratch_numbers(int64_t columns) const;
  // Each column of x[n][columns]. Uses `x` and `spare` (as large) in turns; returns the one that holds the result.
  SplitLine<T> Run(SplitLine<T> x, SplitLine<T> spare, int64_t columns, T* scratch) const;

 private:
  struct Pass {
    int radix = 1;
    int64_t rest = 1;         // n / (radices so far and this one)
    std::vector<T> twiddles;  // re[radix - 1][rest] then im[radix - 1][rest]
    std::vector<T> spread;    // of a single line whose runs are shorter than a vector: the same, once for each of a run
    std::vector<T> roots;     // pairs exp(2 pi i k / radix)
  };
  SplitLine<T> Forward(SplitLine<T> x, SplitLine<T> spare, int64_t columns, T* scratch) const;

  int64_t n_;
  bool is_backward_;
  std::vector<Pass> passes_;
  // Bluestein: a convolution of padded_ points.
  int64_t padded_ = 0;
  std::unique_ptr<LineFft> inner_;
  std::vector<T> chirp_re_, chirp_im_, filter_re_, filter_im_;
};

// Complex pairs to parts and back. `scale` multiplies.
template <class T>
void SplitPairs(const T* pairs, int64_t n, SplitLine<T> to);
template <class T>
void JoinPairs(SplitLine<T> from, int64_t n, T scale, T* pairs);

// The real transform of 2 h points from the complex one of h: `z` transforms the pairs (x[2 j], x[2 j + 1]). Writes
// h + 1 pairs. `roots`: cos and sin of 2 pi k / (2 h) for k <= h / 2, as two arrays one after the other.
template <class T>
void HalfSpectrum(SplitLine<T> z, int64_t h, const T* roots, T* pairs);
// And back: what transforms backward, with h points, to the pairs (x[2 j], x[2 j + 1]) times 2 h.
template <class T>
void FromHalfSpectrum(const T* pairs, int64_t h, const T* roots, SplitLine<T> z);

}  // namespace krafla::cpu
