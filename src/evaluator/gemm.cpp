// SPDX-License-Identifier: Apache-2.0
#include "evaluator/gemm.h"

#include <algorithm>
#include <complex>
#include <cstring>

#include "base/index.h"
#include "base/interruption.h"
#include "evaluator/block_op.h"

namespace krafla::evaluator {

namespace {

void Convert(const std::byte* in, ElementType from, std::byte* out, ElementType to, int64_t n) {
  const void* operands[] = {in};
  BlockParams params;
  params.from = from;
  params.to = to;
  ConvertBlock(operands, out, n, params);
}

// Collects elements at base + offsets[k], then widens them.
void Gather(const std::byte* in, ElementType type, int64_t base, std::span<const int64_t> offsets, std::byte* out,
            ElementType accumulator) {
  constexpr int64_t kNear = 256;
  const int64_t bytes = StorageBytes(type), wide = StorageBytes(accumulator);
  const int64_t n = static_cast<int64_t>(offsets.size());
  alignas(16) std::byte near[kNear * 16];
  for (int64_t at = 0; at < n; at += kNear) {
    const int64_t count = std::min(kNear, n - at);
    const int64_t* o = offsets.data() + at;
    bool together = true;
    for (int64_t k = 0; k < count; ++k) together = together & (o[k] == o[0] + k);
    if (together) {
      ToAccumulator(in + (base + o[0]) * bytes, type, out + at * wide, accumulator, count);
      continue;
    }
    auto run = [&]<class T>(T) {
      const T* x = reinterpret_cast<const T*>(in) + base;
      T* y = reinterpret_cast<T*>(near);
      for (int64_t k = 0; k < count; ++k) y[k] = x[o[k]];
    };
    switch (bytes) {
      case 1: run(uint8_t{}); break;
      case 2: run(uint16_t{}); break;
      case 4: run(uint32_t{}); break;
      case 8: run(uint64_t{}); break;
      default: run(std::complex<double>{}); break;
    }
    ToAccumulator(near, type, out + at * wide, accumulator, count);
  }
}

// c[m, n] += a[m, k] * b[k, n], all dense. Four rows at a time, so that each row of b is read once for four.
template <class T>
void Block(const T* a, const T* b, T* c, int64_t m, int64_t n, int64_t k, int64_t ldc) {
  int64_t i = 0;
  for (; i + 4 <= m; i += 4) {
    T *c0 = c + i * ldc, *c1 = c0 + ldc, *c2 = c1 + ldc, *c3 = c2 + ldc;
    for (int64_t p = 0; p < k; ++p) {
      const T a0 = a[i * k + p], a1 = a[(i + 1) * k + p], a2 = a[(i + 2) * k + p], a3 = a[(i + 3) * k + p];
      const T* row = b + p * n;
      for (int64_t j = 0; j < n; ++j) {
        const T v = row[j];
        c0[j] += a0 * v;
        c1[j] += a1 * v;
        c2[j] += a2 * v;
        c3[j] += a3 * v;
      }
    }
  }
  for (; i < m; ++i) {
    T* row_c = c + i * ldc;
    for (int64_t p = 0; p < k; ++p) {
      const T v = a[i * k + p];
      const T* row = b + p * n;
      for (int64_t j = 0; j < n; ++j) row_c[j] += v * row[j];
    }
  }
}

template <class T>
void RunGemm(const Gemm& g, T* out) {
  const int64_t m = static_cast<int64_t>(g.lhs_m.size()), n = static_cast<int64_t>(g.rhs_n.size()),
                k = static_cast<int64_t>(g.lhs_k.size());
  constexpr int64_t kN = 256, kK = 128, kM = 64;
  InterruptionPoll poll;
  std::vector<T> a(At(std::min(m, kM) * std::min(k, kK))), b(At(std::min(n, kN) * std::min(k, kK)));
  for (int64_t n0 = 0; n0 < n; n0 += kN) {
    const int64_t nn = std::min(kN, n - n0);
    for (int64_t k0 = 0; k0 < k; k0 += kK) {
      const int64_t kk = std::min(kK, k - k0);
      for (int64_t p = 0; p < kk; ++p)
        Gather(g.rhs, g.rhs_type, g.rhs_k[At(k0 + p)], g.rhs_n.subspan(At(n0), At(nn)),
               reinterpret_cast<std::byte*>(b.data() + p * nn), g.accumulator);
      for (int64_t m0 = 0; m0 < m; m0 += kM) {
        const int64_t mm = std::min(kM, m - m0);
        if (poll.Ends(mm * nn * kk)) return;
        for (int64_t i = 0; i < mm; ++i)
          Gather(g.lhs, g.lhs_type, g.lhs_m[At(m0 + i)], g.lhs_k.subspan(At(k0), At(kk)),
                 reinterpret_cast<std::byte*>(a.data() + i * kk), g.accumulator);
        Block(a.data(), b.data(), out + m0 * n + n0, mm, nn, kk, n);
      }
    }
  }
}

}  // namespace

ElementType AccumulatorType(ElementType lhs, ElementType rhs, ElementType result) {
  if (IsComplex(lhs) || IsComplex(rhs) || IsComplex(result)) return ElementType::kC128;
  if (IsFloat(lhs) || IsFloat(rhs) || IsFloat(result)) return ElementType::kF64;
  // Predicates count in 64 bits, so that a count never wraps to zero.
  return result != ElementType::kPred && StorageBytes(result) <= 4 ? ElementType::kU32 : ElementType::kU64;
}

void ToAccumulator(const std::byte* in, ElementType from, std::byte* out, ElementType accumulator, int64_t n) {
  Convert(in, from, out, accumulator, n);
}

void FromAccumulator(const std::byte* in, ElementType accumulator, std::byte* out, ElementType to, int64_t n) {
  Convert(in, accumulator, out, to, n);
}

void Gemm::Run(std::byte* out) const {
  if (lhs_m.empty() || rhs_n.empty() || lhs_k.empty()) return;
  if (accumulator == ElementType::kF64) return RunGemm(*this, reinterpret_cast<double*>(out));
  if (accumulator == ElementType::kC128) return RunGemm(*this, reinterpret_cast<PlainComplex*>(out));
  if (accumulator == ElementType::kU32) return RunGemm(*this, reinterpret_cast<uint32_t*>(out));
  return RunGemm(*this, reinterpret_cast<uint64_t*>(out));
}

HostVector<int64_t> OffsetsOf(const Shape& shape, std::span<const int64_t> dimensions) {
  const Dims strides = RowMajorStrides(shape.dims());
  HostVector<int64_t> out = {0};
  for (int64_t d : dimensions) {
    HostVector<int64_t> next;
    next.reserve(out.size() * At(shape.dim(d)));
    for (int64_t o : out)
      for (int64_t k = 0; k < shape.dim(d); ++k) next.push_back(o + k * strides[At(d)]);
    out = std::move(next);
  }
  return out;
}

}  // namespace krafla::evaluator
