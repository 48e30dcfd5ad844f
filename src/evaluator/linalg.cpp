// SPDX-License-Identifier: Apache-2.0
// Dense linear algebra on the last two dimensions, in f64 or c128.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>

#include "base/host_memory.h"
#include "base/interruption.h"
#include "evaluator/context.h"
#include "evaluator/wide_matrix.h"

namespace krafla::evaluator {

namespace {

using C = WideComplex;

double Square(double x) { return x * x; }
double Square(C x) { return x.real() * x.real() + x.imag() * x.imag(); }
double Product(double a, double b) { return a * b; }
C Product(C a, C b) { return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()}; }

Result<> ExpectMatrix(const Shape& shape) {
  if (shape.rank() < 2) return InvalidArgument("{} is not a matrix.", shape.ToString(false));
  return {};
}

// The factor of a (row-major, n x n); reads and writes one triangle, the other one becomes zeros. NaN throughout for a
// matrix that is not positive definite.
template <class T>
void CholeskyFactor(T* a, int64_t n, bool lower) {
  if (!lower) {  // work on the transpose
    for (int64_t r = 0; r < n; ++r)
      for (int64_t c = r; c < n; ++c) a[c * n + r] = Conj(a[r * n + c]);
  }
  bool positive = true;
  InterruptionPoll poll;
  for (int64_t c = 0; c < n && positive; ++c) {
    double diagonal = Real(a[c * n + c]);
    for (int64_t k = 0; k < c; ++k) diagonal -= Square(a[c * n + k]);
    positive = diagonal > 0;
    const double root = std::sqrt(diagonal);
    a[c * n + c] = root;
    for (int64_t r = c + 1; r < n; ++r) {
      if (poll.Ends(c + 1)) return;
      T sum = a[r * n + c];
      for (int64_t k = 0; k < c; ++k) sum -= Product(a[r * n + k], Conj(a[c * n + k]));
      a[r * n + c] = sum / root;
    }
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (int64_t r = 0; r < n; ++r) {
    for (int64_t c = 0; c <= r; ++c) {
      if (!positive) a[r * n + c] = nan;
      if (c == r) continue;
      if (!lower) a[c * n + r] = Conj(a[r * n + c]);
      a[lower ? c * n + r : r * n + c] = 0;
    }
  }
}

// Solves op(a) x = b in place: a n x n, b n x m, row-major.
template <class T>
void Solve(const T* a, T* b, int64_t n, int64_t m, bool lower, bool unit, TriangularTranspose transpose) {
  auto element = [&](int64_t r, int64_t c) -> T {
    if (transpose == TriangularTranspose::kNoTranspose) return a[r * n + c];
    return transpose == TriangularTranspose::kAdjoint ? Conj(a[c * n + r]) : a[c * n + r];
  };
  InterruptionPoll poll;
  const bool forward = lower == (transpose == TriangularTranspose::kNoTranspose);
  for (int64_t step = 0; step < n; ++step) {
    const int64_t r = forward ? step : n - 1 - step;
    T* row = b + r * m;
    const int64_t begin = forward ? 0 : r + 1, end = forward ? r : n;
    for (int64_t c = begin; c < end; ++c) {
      if (poll.Ends(m)) return;
      const T v = element(r, c);
      const T* other = b + c * m;
      for (int64_t k = 0; k < m; ++k) row[k] -= Product(v, other[k]);
    }
    if (unit) continue;
    const T d = element(r, r);
    for (int64_t k = 0; k < m; ++k) row[k] /= d;
  }
}

}  // namespace

Result<Value> EvalCholesky(Context& context, const Instruction& i, Operands operands) {
  const Literal& in = operands[0].array();
  KRAFLA_TRY(ExpectMatrix(in.shape()));
  KRAFLA_ASSIGN(Literal out, NewResult(context, i, operands));
  const int64_t n = in.shape().dims().back();
  KRAFLA_TRY(context.SpendProduct(in.shape().element_count(), n + 1));
  if (out.shape().element_count() == 0) return Value::Own(std::move(out));
  const bool lower = i.attr<CholeskyAttributes>().lower;
  WithWide(in.shape().element_type(), [&]<class T>(T) {
    HostVector<T> a = LoadMatrices<T>(in);
    InterruptionPoll poll;
    for (std::size_t at = 0; at < a.size() && !poll.Ends(n * n); at += At(n * n))
      CholeskyFactor(a.data() + at, n, lower);
    StoreMatrices(a, out);
  });
  return Value::Own(std::move(out));
}

namespace {

Result<Value> SolveAll(Context& context, const Literal& a_in, const Literal& b_in,
                       const TriangularSolveAttributes& attr) {
  KRAFLA_TRY(ExpectMatrix(a_in.shape()));
  KRAFLA_TRY(ExpectMatrix(b_in.shape()));
  KRAFLA_ASSIGN(Literal out, NewLiteral(context, b_in.shape()));
  if (out.shape().element_count() == 0) return Value::Own(std::move(out));
  const int64_t n = a_in.shape().dims().back();
  const int64_t rows = b_in.shape().dim(b_in.shape().rank() - 2), columns = b_in.shape().dims().back();
  if ((attr.left_side ? rows : columns) != n || a_in.shape().dim(a_in.shape().rank() - 2) != n ||
      a_in.shape().element_count() / (n * n) != b_in.shape().element_count() / (rows * columns))
    return InvalidArgument("{} cannot be solved with {}.", b_in.shape().ToString(false), a_in.shape().ToString(false));
  KRAFLA_TRY(context.SpendProduct(b_in.shape().element_count(), n));
  WithWide(b_in.shape().element_type(), [&]<class T>(T) {
    const HostVector<T> a = LoadMatrices<T>(a_in);
    HostVector<T> b = LoadMatrices<T>(b_in);
    InterruptionPoll poll;
    for (std::size_t k = 0; k * At(n * n) < a.size() && !poll.Ends(n * n); ++k) {
      const T* matrix = a.data() + k * At(n * n);
      T* right = b.data() + k * At(rows * columns);
      if (attr.left_side) {
        Solve(matrix, right, n, columns, attr.lower, attr.unit_diagonal, attr.transpose_a);
        continue;
      }
      // x op(a) = b: op(a)^T x^T = b^T.
      HostVector<T> turned(At(rows * columns));
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) turned[At(c * rows + r)] = right[r * columns + c];
      HostVector<T> conjugate;
      if (attr.transpose_a == TriangularTranspose::kNoTranspose) {
        Solve(matrix, turned.data(), n, rows, attr.lower, attr.unit_diagonal, TriangularTranspose::kTranspose);
      } else {
        // The transpose of a^T is a, of a^H the conjugate of a.
        conjugate.assign(matrix, matrix + n * n);
        if (attr.transpose_a == TriangularTranspose::kAdjoint)
          for (T& v : conjugate) v = Conj(v);
        Solve(conjugate.data(), turned.data(), n, rows, attr.lower, attr.unit_diagonal,
              TriangularTranspose::kNoTranspose);
      }
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) right[r * columns + c] = turned[At(c * rows + r)];
    }
    StoreMatrices(b, out);
  });
  return Value::Own(std::move(out));
}

// The character code that a backend_config gives `key`: "{diag = 78 : ui8, ...}".
char ConfigCharacter(std::string_view config, std::string_view key) {
  for (std::size_t at = config.find(key); at != std::string_view::npos; at = config.find(key, at + 1)) {
    std::size_t from = at + key.size();
    while (from < config.size() && (config[from] == ' ' || config[from] == '=')) ++from;
    int code = 0;
    for (; from < config.size() && config[from] >= '0' && config[from] <= '9' && code < 128; ++from)
      code = code * 10 + (config[from] - '0');
    if (code > 0 && code < 128) return static_cast<char>(code);
  }
  return '?';
}

}  // namespace

Result<Value> EvalTriangularSolve(Context& context, const Instruction& i, Operands operands) {
  return SolveAll(context, operands[0].array(), operands[1].array(), i.attr<TriangularSolveAttributes>());
}

// JAX's lowering of triangular-solve for the CPU: lapack_strsm_ffi and its kin.
Result<Value> LapackTriangularSolve(Context& context, const Instruction& i, Operands operands) {
  const std::string& config = i.metadata().backend_config;
  const char side = ConfigCharacter(config, "side"), uplo = ConfigCharacter(config, "uplo");
  const char trans = ConfigCharacter(config, "trans_x"), diag = ConfigCharacter(config, "diag");
  if ((side != 'L' && side != 'R') || (uplo != 'L' && uplo != 'U') || (diag != 'N' && diag != 'U') ||
      (trans != 'N' && trans != 'T' && trans != 'C'))
    return InvalidArgument("The backend_config {} does not say how to solve.", config);
  TriangularSolveAttributes attr;
  attr.left_side = side == 'L';
  attr.lower = uplo == 'L';
  attr.unit_diagonal = diag == 'U';
  attr.transpose_a = trans == 'N'   ? TriangularTranspose::kNoTranspose
                     : trans == 'T' ? TriangularTranspose::kTranspose
                                    : TriangularTranspose::kAdjoint;
  return SolveAll(context, operands[0].array(), operands[1].array(), attr);
}

// The custom call "LuDecomposition": L and U in one matrix, the rows that each row was exchanged with, and where each
// row of the factors comes from. XLA: lu_decomposition.cc; pivots as LAPACK's getrf chooses them.
Result<Value> LuDecomposition(Context& context, const Instruction& i, Operands operands) {
  const Literal& in = operands[0].array();
  KRAFLA_TRY(ExpectMatrix(in.shape()));
  if (i.shape().tuple_elements().size() != 3)
    return InvalidArgument("The result of LuDecomposition is a tuple (lu, pivots, permutation).");
  const int64_t m = in.shape().dim(in.shape().rank() - 2), n = in.shape().dims().back(), least = std::min(m, n);
  Dims dims(in.shape().dims().begin(), in.shape().dims().end() - 1);
  KRAFLA_ASSIGN(Shape permutation_shape, Shape::MakeArray(ElementType::kS32, dims));
  dims.back() = least;
  KRAFLA_ASSIGN(Shape pivots_shape, Shape::MakeArray(ElementType::kS32, dims));
  KRAFLA_ASSIGN(Literal lu_out, NewLiteral(context, in.shape()));
  KRAFLA_ASSIGN(Literal pivots_out, NewLiteral(context, pivots_shape));
  KRAFLA_ASSIGN(Literal permutation_out, NewLiteral(context, permutation_shape));
  KRAFLA_TRY(context.SpendProduct(in.shape().element_count() + permutation_shape.element_count(), least + 1));
  const int64_t batch = m == 0 ? 0 : permutation_shape.element_count() / m;
  WithWide(in.shape().element_type(), [&]<class T>(T) {
    HostVector<T> a = LoadMatrices<T>(in);
    InterruptionPoll poll;
    for (int64_t b = 0; b < batch; ++b) {
      T* x = a.data() + b * m * n;
      int32_t* pivots = pivots_out.data<int32_t>().data() + b * least;
      int32_t* permutation = permutation_out.data<int32_t>().data() + b * m;
      for (int64_t r = 0; r < m; ++r) permutation[r] = static_cast<int32_t>(r);
      const auto magnitude = [](T v) {
        if constexpr (std::is_same_v<T, C>) return std::abs(v.real()) + std::abs(v.imag());
        else return std::abs(v);
      };
      for (int64_t k = 0; k < least && !poll.Ends(m); ++k) {
        int64_t pivot = k;
        for (int64_t r = k + 1; r < m; ++r)
          if (magnitude(x[r * n + k]) > magnitude(x[pivot * n + k])) pivot = r;
        pivots[k] = static_cast<int32_t>(pivot);
        std::swap(permutation[k], permutation[pivot]);
        if (pivot != k) std::swap_ranges(x + k * n, x + (k + 1) * n, x + pivot * n);
        if (x[k * n + k] == T(0)) continue;
        for (int64_t r = k + 1; r < m && !poll.Ends(n); ++r) {
          const T quotient = x[r * n + k] /= x[k * n + k];
          for (int64_t c = k + 1; c < n; ++c) x[r * n + c] -= Product(quotient, x[k * n + c]);
        }
      }
    }
    StoreMatrices(a, lu_out);
  });
  std::vector<Value> elements;
  elements.push_back(Value::Own(std::move(lu_out)));
  elements.push_back(Value::Own(std::move(pivots_out)));
  elements.push_back(Value::Own(std::move(permutation_out)));
  return Value::Tuple(std::move(elements));
}

// The custom call "Qr": (a, taus) as LAPACK's geqrf gives them. XLA: qr_expander.cc.
Result<Value> HouseholderQr(Context& context, const Instruction& i, Operands operands) {
  const Literal& in = operands[0].array();
  KRAFLA_TRY(ExpectMatrix(in.shape()));
  if (i.shape().tuple_elements().size() != 2) return InvalidArgument("The result of Qr is a tuple (a, taus).");
  KRAFLA_ASSIGN(Literal a_out, NewLiteral(context, in.shape()));
  KRAFLA_ASSIGN(Literal taus_out, NewLiteral(context, i.shape().tuple_elements()[1].WithStaticDims()));
  const int64_t m = in.shape().dim(in.shape().rank() - 2), n = in.shape().dims().back();
  const int64_t count = std::min(m, n);
  KRAFLA_TRY(context.SpendProduct(in.shape().element_count(), count));
  const int64_t batch = m * n == 0 ? 0 : in.shape().element_count() / (m * n);
  if (taus_out.shape().element_count() != batch * count || taus_out.shape().element_type() != in.shape().element_type())
    return InvalidArgument("Qr of {} returns {} taus per matrix.", in.shape().ToString(false), count);
  WithWide(in.shape().element_type(), [&]<class T>(T) {
    HostVector<T> a = LoadMatrices<T>(in), taus(At(batch * count));
    InterruptionPoll poll;
    for (int64_t b = 0; b < batch; ++b) {
      T* x = a.data() + b * m * n;
      for (int64_t k = 0; k < count && !poll.Ends(m); ++k) {
        // The reflector H = I - tau v v^H with v[k] = 1 that turns column k into beta e_k, beta real.
        double norm = 0;
        for (int64_t r = k + 1; r < m; ++r) norm += Square(x[r * n + k]);
        const T alpha = x[k * n + k];
        double imaginary = 0;
        if constexpr (std::is_same_v<T, C>) imaginary = alpha.imag();
        T tau = 0;
        if (norm != 0 || imaginary != 0) {
          const double beta = -std::copysign(std::sqrt(norm + Square(alpha)), Real(alpha));
          if constexpr (std::is_same_v<T, C>) tau = C((beta - alpha.real()) / beta, -alpha.imag() / beta);
          else tau = (beta - alpha) / beta;
          for (int64_t r = k + 1; r < m; ++r) x[r * n + k] /= alpha - beta;
          x[k * n + k] = beta;
        }
        taus[At(b * count + k)] = tau;
        // H^H on the columns that follow.
        for (int64_t c = k + 1; c < n && !poll.Ends(m); ++c) {
          T sum = x[k * n + c];
          for (int64_t r = k + 1; r < m; ++r) sum += Product(Conj(x[r * n + k]), x[r * n + c]);
          sum = Product(sum, Conj(tau));
          x[k * n + c] -= sum;
          for (int64_t r = k + 1; r < m; ++r) x[r * n + c] -= Product(x[r * n + k], sum);
        }
      }
    }
    StoreMatrices(a, a_out);
    StoreMatrices(taus, taus_out);
  });
  std::vector<Value> elements;
  elements.push_back(Value::Own(std::move(a_out)));
  elements.push_back(Value::Own(std::move(taus_out)));
  return Value::Tuple(std::move(elements));
}

// The custom call "ProductOfElementaryHouseholderReflectors": the first columns of H1 H2 ... Hk, as LAPACK's orgqr.
Result<Value> HouseholderProduct(Context& context, const Instruction& i, Operands operands) {
  const Literal &in = operands[0].array(), &taus_in = operands[1].array();
  KRAFLA_TRY(ExpectMatrix(in.shape()));
  if (taus_in.shape().rank() < 1) return InvalidArgument("The reflectors have no taus.");
  KRAFLA_ASSIGN(Literal out, NewResult(context, i, operands));
  const int64_t m = in.shape().dim(in.shape().rank() - 2), n = in.shape().dims().back();
  const int64_t count = taus_in.shape().dims().back();
  const int64_t batch = m * n == 0 ? 0 : in.shape().element_count() / (m * n);
  if (count > std::min(m, n) || taus_in.shape().element_count() != batch * count ||
      taus_in.shape().element_type() != in.shape().element_type() || out.shape().byte_size() != in.shape().byte_size())
    return InvalidArgument("{} reflectors do not fit {}.", taus_in.shape().ToString(false), in.shape().ToString(false));
  KRAFLA_TRY(context.SpendProduct(in.shape().element_count(), count + 1));
  WithWide(in.shape().element_type(), [&]<class T>(T) {
    const HostVector<T> a = LoadMatrices<T>(in), taus = LoadMatrices<T>(taus_in);
    HostVector<T> q(a.size(), T(0));
    InterruptionPoll poll;
    for (int64_t b = 0; b < batch; ++b) {
      const T* v = a.data() + b * m * n;
      T* x = q.data() + b * m * n;
      for (int64_t d = 0; d < std::min(m, n); ++d) x[d * n + d] = 1;
      for (int64_t k = count - 1; k >= 0; --k) {
        const T tau = taus[At(b * count + k)];
        for (int64_t c = k; c < n && !poll.Ends(m); ++c) {
          T sum = x[k * n + c];
          for (int64_t r = k + 1; r < m; ++r) sum += Product(Conj(v[r * n + k]), x[r * n + c]);
          sum = Product(sum, tau);
          x[k * n + c] -= sum;
          for (int64_t r = k + 1; r < m; ++r) x[r * n + c] -= Product(v[r * n + k], sum);
        }
      }
    }
    StoreMatrices(q, out);
  });
  return Value::Own(std::move(out));
}

}  // namespace krafla::evaluator
