// SPDX-License-Identifier: Apache-2.0
// Eigenvalues of Hermitian matrices and singular values by Jacobi's rotations, in f64 or c128.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numeric>
#include <type_traits>

#include "base/host_memory.h"
#include "base/index.h"
#include "base/interruption.h"
#include "evaluator/context.h"
#include "evaluator/wide_matrix.h"
#include "ir/eigh_config.h"

namespace krafla::evaluator {

namespace {

using Complex = WideComplex;
constexpr int kMostSweeps = 60;
constexpr double kRounding = std::numeric_limits<double>::epsilon();

// The rotation (c, s) and the phase f with |f| = 1 that make [[p, x], [conj x, q]] diagonal:
// columns (c p - s conj(f) q, s f p + c q).
template <class T>
struct JacobiRotation {
  double c, s;
  T phase;
};
template <class T>
JacobiRotation<T> RotationFor(double p, double q, T x) {
  const double size = std::abs(x), ratio = (q - p) / (2 * size);
  const double tangent = std::copysign(1.0, ratio) / (std::abs(ratio) + std::sqrt(1 + ratio * ratio));
  const double c = 1 / std::sqrt(1 + tangent * tangent);
  return {c, tangent * c, x / size};
}
// Columns p and q of m, `rows` rows with `stride` between them.
template <class T>
void RotateColumns(T* m, int64_t rows, int64_t stride, int64_t p, int64_t q, const JacobiRotation<T>& j) {
  for (int64_t r = 0; r < rows; ++r) {
    const T x = m[r * stride + p], y = m[r * stride + q];
    m[r * stride + p] = j.c * x - j.s * Conj(j.phase) * y;
    m[r * stride + q] = j.s * j.phase * x + j.c * y;
  }
}

// An order of all numbers: finite matrices too may give NaNs, by an overflow.
bool IsBelow(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

template <class T>
bool AllFinite(const T* m, int64_t count) {
  const auto* parts = reinterpret_cast<const double*>(m);
  return std::all_of(parts, parts + count * static_cast<int64_t>(sizeof(T) / sizeof(double)),
                     [](double v) { return std::isfinite(v); });
}

// Sweeps over all pairs of n columns until a sweep rotates none: rotate(p, q) gives whether it has, and costs `cost`
// operations.
template <typename Rotate>
void JacobiSweeps(int64_t n, int64_t cost, Rotate rotate) {
  InterruptionPoll poll;
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    bool rotated = false;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        if (poll.Ends(cost)) return;
        rotated |= rotate(p, q);
      }
    if (!rotated) return;
  }
}

template <class T>
void SetIdentity(HostVector<T>& m, int64_t n) {
  for (int64_t i = 0; i < n; ++i) m[At(i * n + i)] = 1;
}

// a (n x n, Hermitian) becomes diagonal, v its eigenvectors in columns.
template <class T>
void JacobiEigen(HostVector<T>& a, HostVector<T>& v, int64_t n) {
  SetIdentity(v, n);
  JacobiSweeps(n, 6 * n, [&](int64_t p, int64_t q) {
    const T x = a[At(p * n + q)];
    const double here = Real(a[At(p * n + p)]), there = Real(a[At(q * n + q)]);
    if (std::abs(x) <= kRounding * 1e-3 * (std::abs(here) + std::abs(there)) || std::abs(x) < 1e-290) return false;
    const auto j = RotationFor(here, there, x);
    RotateColumns(a.data(), n, n, p, q, j);
    // The rows by the conjugate.
    for (int64_t c = 0; c < n; ++c) {
      const T y = a[At(p * n + c)], z = a[At(q * n + c)];
      a[At(p * n + c)] = j.c * y - j.s * j.phase * z;
      a[At(q * n + c)] = j.s * Conj(j.phase) * y + j.c * z;
    }
    RotateColumns(v.data(), n, n, p, q, j);
    return true;
  });
}

// The columns of a (m x n, m >= n) become orthogonal; v (n x n) takes the same rotations.
template <class T>
void JacobiColumns(HostVector<T>& a, HostVector<T>& v, int64_t m, int64_t n) {
  SetIdentity(v, n);
  JacobiSweeps(n, 6 * m, [&](int64_t p, int64_t q) {
    double here = 0, there = 0;
    T x = 0;
    for (int64_t r = 0; r < m; ++r) {
      const T y = a[At(r * n + p)], z = a[At(r * n + q)];
      here += std::norm(y);
      there += std::norm(z);
      x += Conj(y) * z;
    }
    if (std::abs(x) <= kRounding * std::sqrt(here * there) || std::abs(x) < 1e-290) return false;
    const auto j = RotationFor(here, there, x);
    RotateColumns(a.data(), m, n, p, q, j);
    RotateColumns(v.data(), n, n, p, q, j);
    return true;
  });
}

// u (m x count): its first columns are those of `columns` over their lengths, the others are added to them.
template <class T>
void OrthonormalColumns(const HostVector<T>& columns, const std::vector<double>& lengths, int64_t m, int64_t n,
                        HostVector<T>& u, int64_t count) {
  const double least = lengths.empty() ? 0 : lengths[0] * kRounding * static_cast<double>(m);
  int64_t unit = 0;
  InterruptionPoll poll;
  for (int64_t c = 0; c < count; ++c) {
    bool made = c < n && lengths[At(c)] > least;
    for (int64_t r = 0; made && r < m; ++r) u[At(r * count + c)] = columns[At(r * n + c)] / lengths[At(c)];
    for (; !made && unit < m; ++unit) {
      HostVector<T> x(At(m), T(0));
      x[At(unit)] = 1;
      for (int again = 0; again < 2; ++again)
        for (int64_t k = 0; k < c && !poll.Ends(2 * m); ++k) {
          T product = 0;
          for (int64_t r = 0; r < m; ++r) product += Conj(u[At(r * count + k)]) * x[At(r)];
          for (int64_t r = 0; r < m; ++r) x[At(r)] -= product * u[At(r * count + k)];
        }
      double length = 0;
      for (const T& y : x) length += std::norm(y);
      // Some unit vector has that much outside of the columns before, as long as there are fewer than m.
      if (length < 0.5 / static_cast<double>(m)) continue;
      for (int64_t r = 0; r < m; ++r) u[At(r * count + c)] = x[At(r)] / std::sqrt(length);
      made = true;
    }
  }
}

// The singular values of a matrix, descending, and its vectors in columns: u (m x long_count), v (n x n).
template <class T>
struct SingularTriple {
  std::vector<double> lengths;
  HostVector<T> u, v;
};
// Of `a` (m x n, m >= n); NaNs where it is not finite.
template <class T>
SingularTriple<T> SingularTriples(HostVector<T> a, int64_t m, int64_t n, bool finite, int64_t long_count) {
  HostVector<T> v(At(n * n), T(0));
  if (finite) JacobiColumns(a, v, m, n);
  std::vector<int64_t> order(At(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::vector<double> lengths(At(n), std::numeric_limits<double>::quiet_NaN());
  if (finite) {
    for (int64_t c = 0; c < n; ++c) {
      double sum = 0;
      for (int64_t r = 0; r < m; ++r) sum += std::norm(a[At(r * n + c)]);
      lengths[At(c)] = std::sqrt(sum);
    }
    std::ranges::sort(
        order, [](double x, double y) { return IsBelow(y, x); }, [&](int64_t k) { return lengths[At(k)]; });
  }
  HostVector<T> sorted(a.size());
  SingularTriple<T> out{std::vector<double>(At(n)), HostVector<T>(At(m * long_count), T(0)), HostVector<T>(v.size())};
  for (int64_t c = 0; c < n; ++c) {
    out.lengths[At(c)] = lengths[At(order[At(c)])];
    for (int64_t r = 0; r < m; ++r) sorted[At(r * n + c)] = a[At(r * n + order[At(c)])];
    for (int64_t r = 0; r < n; ++r) out.v[At(r * n + c)] = v[At(r * n + order[At(c)])];
  }
  if (finite) OrthonormalColumns(sorted, out.lengths, m, n, out.u, long_count);
  return out;
}

}  // namespace

// The custom call "Eigh": eigenvectors in columns and ascending eigenvalues. XLA: self_adjoint_eig.cc.
Result<Value> HermitianEigen(Context& context, const Instruction& i, Operands operands) {
  const Literal& in = operands[0].array();
  const int64_t n = in.shape().dims().back();
  KRAFLA_ASSIGN(Literal vectors, NewLiteral(context, in.shape()));
  KRAFLA_ASSIGN(Shape values_shape, Shape::MakeArray(RealPart(in.shape().element_type()),
                                                     Dims(in.shape().dims().begin(), in.shape().dims().end() - 1)));
  KRAFLA_ASSIGN(Literal values, NewLiteral(context, values_shape));
  KRAFLA_TRY(context.SpendProduct(in.shape().element_count(), 16 * (n + 1)));
  const bool lower = EighReadsLower(i.metadata().backend_config);
  const auto run = [&]<class T>(T) {
    const HostVector<T> all = LoadMatrices<T>(in);
    HostVector<T> all_vectors(all.size());
    HostVector<double> all_values(At(values_shape.element_count()));
    for (int64_t b = 0; b * n < values_shape.element_count(); ++b) {
      HostVector<T> a(At(n * n)), v(At(n * n), T(0));
      for (int64_t r = 0; r < n; ++r)
        for (int64_t c = 0; c <= r; ++c) {
          const T* matrix = all.data() + b * n * n;
          const T x = lower ? matrix[r * n + c] : Conj(matrix[c * n + r]);
          a[At(r * n + c)] = r == c ? T(Real(x)) : x;
          a[At(c * n + r)] = r == c ? T(Real(x)) : Conj(x);
        }
      const bool finite = AllFinite(a.data(), n * n);
      if (finite) JacobiEigen(a, v, n);
      std::vector<int64_t> order(At(n));
      std::iota(order.begin(), order.end(), int64_t{0});
      const auto value = [&](int64_t k) {
        return finite ? Real(a[At(k * n + k)]) : std::numeric_limits<double>::quiet_NaN();
      };
      if (finite) std::ranges::sort(order, IsBelow, value);
      for (int64_t c = 0; c < n; ++c) {
        all_values[At(b * n + c)] = value(order[At(c)]);
        for (int64_t r = 0; r < n; ++r)
          all_vectors[At((b * n + r) * n + c)] =
              finite ? v[At(r * n + order[At(c)])] : T(std::numeric_limits<double>::quiet_NaN());
      }
    }
    StoreMatrices(all_vectors, vectors);
    StoreMatrices(all_values, values);
  };
  if (IsComplex(in.shape().element_type())) run(Complex());
  else run(double());
  std::vector<Value> elements;
  elements.push_back(Value::Own(std::move(vectors)));
  elements.push_back(Value::Own(std::move(values)));
  return Value::Tuple(std::move(elements));
}

// The custom call "krafla_svd": descending singular values, or a tuple of them, u and the adjoint of v: all of their
// columns and rows or the first min(m, n), as the shapes say.
Result<Value> SingularValues(Context& context, const Instruction& i, Operands operands) {
  const Literal& in = operands[0].array();
  const int64_t rank = in.shape().rank(), rows = in.shape().dim(rank - 2), columns = in.shape().dim(rank - 1);
  const int64_t m = std::max(rows, columns), n = std::min(rows, columns);
  const bool wide = rows < columns, vectors = i.shape().IsTuple();
  const auto shape_of = [&](const Dims& tail, ElementType type) {
    Dims dims(in.shape().dims().begin(), in.shape().dims().end() - 2);
    for (int64_t d : tail) dims.push_back(d);
    return Shape::MakeArray(type, dims);
  };
  const auto full_of = [&](std::size_t leaf, int64_t axis, int64_t all) {
    const Shape& s = i.shape().tuple_elements()[leaf];
    return !s.IsDynamicDim(s.rank() - axis) ? s.dim(s.rank() - axis) == all : false;
  };
  const bool full = vectors && full_of(1, 1, rows) && full_of(2, 2, columns);
  const int64_t u_columns = full ? rows : n, v_rows = full ? columns : n, long_count = full ? m : n;
  KRAFLA_ASSIGN(Shape values_shape, shape_of({n}, RealPart(in.shape().element_type())));
  KRAFLA_ASSIGN(Shape u_shape, shape_of({rows, u_columns}, in.shape().element_type()));
  KRAFLA_ASSIGN(Shape v_shape, shape_of({v_rows, columns}, in.shape().element_type()));
  KRAFLA_ASSIGN(Literal values, NewLiteral(context, values_shape));
  KRAFLA_ASSIGN(Literal u, NewLiteral(context, u_shape));
  KRAFLA_ASSIGN(Literal vh, NewLiteral(context, v_shape));
  KRAFLA_TRY(context.SpendProduct(in.shape().element_count() + u_shape.element_count() + v_shape.element_count(),
                                  16 * (m + 1)));
  int64_t batch = 1;
  for (int64_t d = 0; d + 2 < rank; ++d) batch *= in.shape().dim(d);
  const auto run = [&]<class T>(T) {
    const HostVector<T> all = LoadMatrices<T>(in);
    HostVector<T> all_u(At(u_shape.element_count())), all_v(At(v_shape.element_count()));
    HostVector<double> all_values(At(values_shape.element_count()));
    for (int64_t b = 0; b < batch; ++b) {
      const T* matrix = all.data() + b * m * n;
      const bool finite = AllFinite(matrix, m * n);
      HostVector<T> a(At(m * n));
      for (int64_t r = 0; r < m; ++r)
        for (int64_t c = 0; c < n; ++c) a[At(r * n + c)] = wide ? Conj(matrix[c * m + r]) : matrix[r * n + c];
      SingularTriple<T> found = SingularTriples(std::move(a), m, n, finite, long_count);
      for (int64_t c = 0; c < n; ++c) all_values[At(b * n + c)] = found.lengths[At(c)];
      const T nan = T(std::numeric_limits<double>::quiet_NaN());
      // The matrix is long diag adjoint(v), or the adjoint of that.
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < u_columns; ++c)
          all_u[At((b * rows + r) * u_columns + c)] = !finite ? nan
                                                      : wide  ? found.v[At(r * n + c)]
                                                              : found.u[At(r * long_count + c)];
      for (int64_t r = 0; r < v_rows; ++r)
        for (int64_t c = 0; c < columns; ++c)
          all_v[At((b * v_rows + r) * columns + c)] =
              !finite ? nan : Conj(wide ? found.u[At(c * long_count + r)] : found.v[At(c * n + r)]);
    }
    StoreMatrices(all_values, values);
    StoreMatrices(all_u, u);
    StoreMatrices(all_v, vh);
  };
  if (IsComplex(in.shape().element_type())) run(Complex());
  else run(double());
  if (!vectors) return Value::Own(std::move(values));
  std::vector<Value> elements;
  elements.push_back(Value::Own(std::move(values)));
  elements.push_back(Value::Own(std::move(u)));
  elements.push_back(Value::Own(std::move(vh)));
  return Value::Tuple(std::move(elements));
}

}  // namespace krafla::evaluator
