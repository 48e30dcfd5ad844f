// SPDX-License-Identifier: Apache-2.0
// Roots of unity for Fourier transforms, right to the last place of a double.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

namespace krafla {

// exp(sign 2 pi i k / n) for k >= 0, n > 0. The common angles are exact.
std::complex<double> RootOfUnity(int64_t k, int64_t n, int sign);

// w[j] = exp(sign pi i j**2 / n) for j < n: Bluestein's chirp, by which a transform of n points is a convolution.
std::complex<double> ChirpAt(int64_t k, int64_t n, int sign);
std::vector<std::complex<double>> Chirp(int64_t n, int sign);

// The chirp's conjugate, laid around `padded` points, at least 2 n - 1: what the signal is convolved with.
std::vector<std::complex<double>> AroundChirp(const std::vector<std::complex<double>>& chirp, int64_t padded);
// The transform of that, of a power of two points, divided by `padded`: what the transformed signal is multiplied by.
std::vector<std::complex<double>> ChirpFilter(const std::vector<std::complex<double>>& chirp, int64_t padded);

// The factors of n as radices of at most `most` each (a prime above stands alone), larger ones first. Of 1: none.
std::vector<int> Radices(int64_t n, int most);
int64_t LargestPrimeFactor(int64_t n);

}  // namespace krafla
