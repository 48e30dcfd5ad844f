// SPDX-License-Identifier: Apache-2.0
// Matrices in the types that the evaluator's linear algebra computes with: f64, and c128 for complex ones.
#pragma once

#include <complex>
#include <type_traits>

#include "base/host_memory.h"
#include "base/index.h"
#include "evaluator/gemm.h"
#include "krafla/literal.h"

namespace krafla::evaluator {

using WideComplex = std::complex<double>;

inline double Conj(double x) { return x; }
inline WideComplex Conj(WideComplex x) { return std::conj(x); }
inline double Real(double x) { return x; }
inline double Real(WideComplex x) { return x.real(); }

template <class T>
constexpr ElementType kWideType = std::is_same_v<T, WideComplex> ? ElementType::kC128 : ElementType::kF64;

template <class T>
HostVector<T> LoadMatrices(const Literal& in) {
  HostVector<T> out(At(in.shape().element_count()));
  ToAccumulator(in.bytes().data(), in.shape().element_type(), reinterpret_cast<std::byte*>(out.data()), kWideType<T>,
                in.shape().element_count());
  return out;
}
template <class T>
void StoreMatrices(const HostVector<T>& in, Literal& out) {
  FromAccumulator(reinterpret_cast<const std::byte*>(in.data()), kWideType<T>, out.bytes().data(),
                  out.shape().element_type(), out.shape().element_count());
}

// Calls f(double{}) or f(WideComplex{}).
template <class F>
auto WithWide(ElementType type, F f) {
  return IsComplex(type) ? f(WideComplex{}) : f(double{});
}

}  // namespace krafla::evaluator
