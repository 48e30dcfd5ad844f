// SPDX-License-Identifier: Apache-2.0
// Sums of products in a wide type, under dot and its relatives: f64 for every real float, c128 for complex numbers,
// u32 or u64 for integers (which wrap). The result is rounded or wrapped once.
#pragma once

#include <span>

#include "base/host_memory.h"
#include "krafla/literal.h"
#include "krafla/status.h"

namespace krafla::evaluator {

// A c128 whose products are plain, as XLA's: those of std::complex look for infinities.
struct PlainComplex {
  double re = 0, im = 0;
  PlainComplex& operator+=(PlainComplex o) {
    re += o.re;
    im += o.im;
    return *this;
  }
  friend PlainComplex operator+(PlainComplex a, PlainComplex b) { return {a.re + b.re, a.im + b.im}; }
  friend PlainComplex operator*(PlainComplex a, PlainComplex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
};

// What a contraction computes in.
ElementType AccumulatorType(ElementType lhs, ElementType rhs, ElementType result);

// out[m, n] += sum over k of lhs[lhs_m[m] + lhs_k[k]] * rhs[rhs_k[k] + rhs_n[n]], offsets in elements. `out` is dense,
// of the accumulator type, and starts as given.
struct Gemm {
  const std::byte* lhs = nullptr;
  const std::byte* rhs = nullptr;
  ElementType lhs_type, rhs_type, accumulator;
  std::span<const int64_t> lhs_m, lhs_k, rhs_k, rhs_n;
  // A run that is to end (base/interruption.h) leaves the rest as it is.
  void Run(std::byte* out) const;
};

// `n` elements of type `from`, as the accumulator type.
void ToAccumulator(const std::byte* in, ElementType from, std::byte* out, ElementType accumulator, int64_t n);
// ... and back, rounded or wrapped once. Predicates: not zero.
void FromAccumulator(const std::byte* in, ElementType accumulator, std::byte* out, ElementType to, int64_t n);

// The offsets of all index tuples over `dimensions` of a row-major array of `shape`, in order.
HostVector<int64_t> OffsetsOf(const Shape& shape, std::span<const int64_t> dimensions);

}  // namespace krafla::evaluator
