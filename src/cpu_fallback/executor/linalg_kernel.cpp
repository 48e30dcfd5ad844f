// SPDX-License-Identifier: Apache-2.0
// Cholesky, triangular solve and Householder QR, by rows: every inner loop subtracts combinations of rows from rows.
// Matrices of a batch go to the threads; a single matrix shares its trailing rows among them.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/checked_math.h"
#include "cpu_fallback/executor/kernel_families.h"
#include "cpu_fallback/kernels/block_ops.h"
#include "cpu_fallback/kernels/row_update.h"
#include "ir/mini_float.h"
#include "numerics/complex_math.h"

namespace krafla::cpu {

namespace {

using plan::LinalgKernel;
using Op = LinalgKernel::Op;

constexpr int64_t kBlock = 32;

template <class T>
struct RealOf {
  using Type = T;
};
template <class T>
struct RealOf<std::complex<T>> {
  using Type = T;
};
template <class T>
constexpr bool kIsComplex = !std::is_same_v<typename RealOf<T>::Type, T>;

template <class T>
T Conj(T x) {
  if constexpr (kIsComplex<T>) return std::conj(x);
  else return x;
}
template <class T>
auto Real(T x) {
  if constexpr (kIsComplex<T>) return x.real();
  else return x;
}
template <class T>
auto Square(T x) {
  if constexpr (kIsComplex<T>) return x.real() * x.real() + x.imag() * x.imag();
  else return x * x;
}
// Without the checks for infinities of std::complex's operator.
template <class T>
T Mul(T a, T b) {
  if constexpr (kIsComplex<T>)
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  else
    return a * b;
}
template <class T>
T Divide(T a, T b) {
  if constexpr (kIsComplex<T>) return ComplexDivide(a, b);
  else return a / b;
}

template <class T>
void Update(const T* coefficients, const T* from, int64_t from_stride, int64_t depth, T* to, int64_t to_stride,
            int64_t rows, int64_t columns) {
  using R = typename RealOf<T>::Type;
  UpdateRows<R>(kIsComplex<T>, reinterpret_cast<const R*>(coefficients), reinterpret_cast<const R*>(from), from_stride,
                depth, reinterpret_cast<R*>(to), to_stride, rows, columns);
}

// Calls f(first row, rows) for groups of at most kUpdateRows rows of [begin, end).
template <class F>
void ForRowGroups(ThreadPool& pool, int64_t begin, int64_t end, int64_t work_a_group, F&& f) {
  const int64_t groups = CeilDiv(end - begin, kUpdateRows);
  const int64_t grain = std::max<int64_t>(1, 20000 / std::max<int64_t>(work_a_group, 1));
  pool.ParallelFor(groups, grain, [&](int64_t from, int64_t to, int) {
    for (int64_t g = from; g < to; ++g) {
      const int64_t first = begin + g * kUpdateRows;
      f(first, std::min(kUpdateRows, end - first));
    }
  });
}

// The upper factor u of a = u^H u, in place in the upper triangle. False where a is not positive definite.
template <class T>
bool FactorUpper(T* u, int64_t n, ThreadPool& pool) {
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t end = std::min(n, at + kBlock);
    for (int64_t k = at; k < end; ++k) {
      T coefficients[kBlock * kUpdateRows] = {};
      for (int64_t p = at; p < k; ++p) coefficients[(p - at) * kUpdateRows] = Conj(u[p * n + k]);
      Update(coefficients, u + at * n + k, n, k - at, u + k * n + k, n, 1, n - k);
      const auto diagonal = Real(u[k * n + k]);
      if (!(diagonal > 0)) return false;
      const auto root = std::sqrt(diagonal);
      u[k * n + k] = root;
      for (int64_t c = k + 1; c < n; ++c) u[k * n + c] /= root;
    }
    ForRowGroups(pool, end, n, (n - end) * kBlock * kUpdateRows / 8, [&](int64_t first, int64_t rows) {
      T coefficients[kBlock * kUpdateRows] = {};
      for (int64_t p = at; p < end; ++p)
        for (int64_t r = 0; r < rows; ++r) coefficients[(p - at) * kUpdateRows + r] = Conj(u[p * n + first + r]);
      Update(coefficients, u + at * n + first, n, end - at, u + first * n + first, n, rows, n - first);
    });
  }
  return true;
}

template <class T>
void Cholesky(const LinalgKernel& k, const T* a, T* out, T* work, ThreadPool& pool) {
  const int64_t n = k.rows;
  for (int64_t r = 0; r < n; ++r)
    for (int64_t c = r; c < n; ++c) work[r * n + c] = k.lower ? Conj(a[c * n + r]) : a[r * n + c];
  const bool good = FactorUpper(work, n, pool);
  const T nan = std::numeric_limits<typename RealOf<T>::Type>::quiet_NaN();
  for (int64_t r = 0; r < n; ++r)
    for (int64_t c = 0; c < n; ++c) {
      const bool inside = k.lower ? c <= r : c >= r;
      T v = !inside ? T(0) : k.lower ? Conj(work[c * n + r]) : work[r * n + c];
      if (inside && !good) v = nan;
      out[r * n + c] = v;
    }
}

// m y = b in place for the triangular matrix m(r, c).
template <class T, class M>
void Substitute(const M& m, bool forward, bool unit, T* y, int64_t n, int64_t sides, ThreadPool& pool) {
  const int64_t blocks = CeilDiv(n, kBlock);
  for (int64_t step = 0; step < blocks; ++step) {
    const int64_t at = (forward ? step : blocks - 1 - step) * kBlock, end = std::min(n, at + kBlock);
    for (int64_t i = 0; i < end - at; ++i) {
      const int64_t row = forward ? at + i : end - 1 - i, first = forward ? at : row + 1;
      T coefficients[kBlock * kUpdateRows] = {};
      for (int64_t p = 0; p < i; ++p) coefficients[p * kUpdateRows] = m(row, first + p);
      Update(coefficients, y + first * sides, sides, i, y + row * sides, sides, 1, sides);
      if (unit) continue;
      const T diagonal = m(row, row);
      for (int64_t s = 0; s < sides; ++s) y[row * sides + s] = Divide(y[row * sides + s], diagonal);
    }
    const int64_t left_begin = forward ? end : 0, left_end = forward ? n : at;
    ForRowGroups(pool, left_begin, left_end, (sides + 16) * kBlock * kUpdateRows / 8, [&](int64_t first, int64_t rows) {
      T coefficients[kBlock * kUpdateRows] = {};
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t p = at; p < end; ++p) coefficients[(p - at) * kUpdateRows + r] = m(first + r, p);
      Update(coefficients, y + at * sides, sides, end - at, y + first * sides, sides, rows, sides);
    });
  }
}

template <class T>
void TriangularSolve(const LinalgKernel& k, const T* a, const T* b, T* x, T* work, ThreadPool& pool) {
  const int64_t n = k.left_side ? k.rows : k.columns, sides = k.left_side ? k.columns : k.rows;
  // x op(a) = b is op(a)^T x^T = b^T.
  T* y = k.left_side ? x : work;
  if (k.left_side) {
    std::memcpy(static_cast<void*>(y), b, static_cast<std::size_t>(n * sides) * sizeof(T));
  } else {
    for (int64_t s = 0; s < sides; ++s)
      for (int64_t r = 0; r < n; ++r) y[r * sides + s] = b[s * n + r];
  }
  const bool turned = k.left_side != (k.transpose == TriangularTranspose::kNoTranspose);
  const bool forward = k.lower != turned;
  if (k.transpose == TriangularTranspose::kAdjoint && turned)
    Substitute([&](int64_t r, int64_t c) { return Conj(a[c * n + r]); }, forward, k.unit_diagonal, y, n, sides, pool);
  else if (k.transpose == TriangularTranspose::kAdjoint)
    Substitute([&](int64_t r, int64_t c) { return Conj(a[r * n + c]); }, forward, k.unit_diagonal, y, n, sides, pool);
  else if (turned)
    Substitute([&](int64_t r, int64_t c) { return a[c * n + r]; }, forward, k.unit_diagonal, y, n, sides, pool);
  else
    Substitute([&](int64_t r, int64_t c) { return a[r * n + c]; }, forward, k.unit_diagonal, y, n, sides, pool);
  if (!k.left_side)
    for (int64_t s = 0; s < sides; ++s)
      for (int64_t r = 0; r < n; ++r) x[s * n + r] = y[r * sides + s];
}

// a[k.., c..] -= v conj(tau) (v^H a) for the reflector v with v[0] = 1 (`v` holds it, `row` is scratch for a row).
template <class T>
void Reflect(const T* v, T tau, T* a, int64_t stride, int64_t rows, int64_t columns, T* row) {
  std::fill(row, row + columns, T(0));
  T coefficients[kBlock * kUpdateRows] = {};
  for (int64_t at = 0; at < rows; at += kBlock) {
    const int64_t depth = std::min(kBlock, rows - at);
    for (int64_t p = 0; p < depth; ++p) coefficients[p * kUpdateRows] = -Conj(v[at + p]);
    Update(coefficients, a + at * stride, stride, depth, row, columns, 1, columns);
  }
  for (int64_t r = 0; r < rows; r += kUpdateRows) {
    const int64_t count = std::min(kUpdateRows, rows - r);
    for (int64_t i = 0; i < count; ++i) coefficients[i] = Mul(tau, v[r + i]);
    Update(coefficients, row, columns, 1, a + r * stride, stride, count, columns);
  }
}

// `work`: rows + columns numbers.
template <class T>
void Qr(const LinalgKernel& k, const T* in, T* a, T* taus, T* work) {
  const int64_t m = k.rows, n = k.columns;
  std::memcpy(static_cast<void*>(a), in, static_cast<std::size_t>(m * n) * sizeof(T));
  using R = typename RealOf<T>::Type;
  for (int64_t c = 0; c < k.reflectors; ++c) {
    R tail = 0;
    for (int64_t r = c + 1; r < m; ++r) tail += Square(a[r * n + c]);
    const T alpha = a[c * n + c];
    R imaginary = 0;
    if constexpr (kIsComplex<T>) imaginary = alpha.imag();
    T tau = 0;
    if (tail != 0 || imaginary != 0) {
      const R beta = -std::copysign(std::sqrt(tail + Square(alpha)), Real(alpha));
      if constexpr (kIsComplex<T>) tau = T((beta - alpha.real()) / beta, -alpha.imag() / beta);
      else tau = (beta - alpha) / beta;
      const T scale = T(1) / (alpha - beta);
      for (int64_t r = c + 1; r < m; ++r) a[r * n + c] = Mul(a[r * n + c], scale);
      a[c * n + c] = beta;
    }
    taus[c] = tau;
    if (c + 1 == n || tau == T(0)) continue;
    work[0] = 1;
    for (int64_t r = c + 1; r < m; ++r) work[r - c] = a[r * n + c];
    Reflect(work, Conj(tau), a + c * n + c + 1, n, m - c, n - c - 1, work + m);
  }
}

template <class T>
void HouseholderProduct(const LinalgKernel& k, const T* a, const T* taus, T* q, T* work) {
  const int64_t m = k.rows, n = k.columns;
  std::fill(q, q + m * n, T(0));
  for (int64_t d = 0; d < std::min(m, n); ++d) q[d * n + d] = 1;
  for (int64_t c = k.reflectors - 1; c >= 0; --c) {
    work[0] = 1;
    for (int64_t r = c + 1; r < m; ++r) work[r - c] = a[r * n + c];
    Reflect(work, taus[c], q + c * n + c, n, m - c, n - c, work + m);
  }
}

class LinalgRun final : public CpuKernel {
 public:
  LinalgRun(const plan::KernelPlan& plan, const LinalgKernel& body, int threads) : body_(body) {
    for (const plan::Binding& b : plan.bindings) counts_.push_back(b.element_count / std::max<int64_t>(body.batch, 1));
    widen_ = FindWiden(body.type);
    if (widen_ != nullptr) format_ = FindMiniFloat(body.type);
    const ElementType wide = IsComplex(body.type) ? RealPart(body.type) : plan::ComputeType(body.type);
    is_double_ = wide == ElementType::kF64;
    const int64_t number = (is_double_ ? 8 : 4) * (IsComplex(body.type) ? 2 : 1);
    const bool one_vector = body.op == Op::kQr || body.op == Op::kHouseholderProduct;
    work_bytes_ = RoundUp((one_vector ? body.rows + body.columns : body.rows * body.columns) * number, 64);
    worker_bytes_ = work_bytes_;
    // Wide copies of a matrix of each binding.
    if (widen_ != nullptr)
      for (int64_t c : counts_) worker_bytes_ += RoundUp(c * 4, 64);
    scratch_bytes_ = worker_bytes_ * threads;
    element_bytes_ = StorageBytes(IsComplex(body.type) ? RealPart(body.type) : body.type);
  }

  Result<> Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const override {
    if (IsComplex(body_.type)) {
      if (is_double_) RunAs<std::complex<double>>(bindings, pool, scratch);
      else RunAs<std::complex<float>>(bindings, pool, scratch);
    } else {
      if (is_double_) RunAs<double>(bindings, pool, scratch);
      else RunAs<float>(bindings, pool, scratch);
    }
    return {};
  }

 private:
  template <class T>
  void RunAs(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const {
    const auto size = static_cast<double>(body_.rows * body_.columns) * static_cast<double>(std::min(body_.rows, body_.columns));
    const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(50000 / std::max(size, 1.0)));
    pool.ParallelFor(body_.batch, grain, [&](int64_t begin, int64_t end, int worker) {
      std::byte* own = scratch + worker * worker_bytes_;
      for (int64_t b = begin; b < end; ++b) RunMatrix<T>(bindings, b, own, pool);
    });
  }

  template <class T>
  void RunMatrix(std::span<std::byte* const> bindings, int64_t matrix, std::byte* own, ThreadPool& pool) const {
    const std::size_t inputs = body_.op == Op::kCholesky || body_.op == Op::kQr ? 1 : 2;
    std::byte* next = own + work_bytes_;
    T* at[3] = {};
    for (std::size_t i = 0; i < bindings.size(); ++i) {
      std::byte* here = bindings[i] + matrix * counts_[i] * element_bytes_;
      if (widen_ != nullptr) {
        if (i < inputs) widen_(here, next, counts_[i]);
        at[i] = reinterpret_cast<T*>(next);
        next += RoundUp(counts_[i] * 4, 64);
      } else {
        at[i] = reinterpret_cast<T*>(here);
      }
    }
    T* work = reinterpret_cast<T*>(own);
    switch (body_.op) {
      case Op::kCholesky: Cholesky(body_, at[0], at[1], work, pool); break;
      case Op::kTriangularSolve: TriangularSolve(body_, at[0], at[1], at[2], work, pool); break;
      case Op::kQr: Qr(body_, at[0], at[1], at[2], work); break;
      case Op::kHouseholderProduct: HouseholderProduct(body_, at[0], at[1], at[2], work); break;
    }
    if constexpr (std::is_same_v<T, float>) {
      if (format_ == nullptr) return;
      for (std::size_t i = inputs; i < bindings.size(); ++i) {
        auto* to = reinterpret_cast<uint16_t*>(bindings[i]) + matrix * counts_[i];
        for (int64_t e = 0; e < counts_[i]; ++e) to[e] = static_cast<uint16_t>(EncodeMiniFloat(at[i][e], *format_));
      }
    }
  }

  LinalgKernel body_;
  std::vector<int64_t> counts_;  // elements of each binding that belong to one matrix
  ConvertFn widen_ = nullptr;           // of f16 and bf16
  const MiniFloat* format_ = nullptr;
  bool is_double_ = false;
  int64_t work_bytes_ = 0, worker_bytes_ = 0, element_bytes_ = 4;
};

}  // namespace

KernelResult MakeLinalgKernel(const plan::KernelPlan& plan, const LinalgKernel& body, const CpuKernelOptions& options) {
  return std::make_unique<LinalgRun>(plan, body, options.threads);
}

}  // namespace krafla::cpu
