// SPDX-License-Identifier: Apache-2.0
// Eigenvalues and singular values on every device: the values against the evaluator's, which finds them by another
// algorithm in double; vectors by what they have to do, as they are given up to their phases.
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>

#include "api_fixture.h"
#include "evaluator/evaluator.h"

namespace krafla::testing {
namespace {

using Number = std::complex<double>;

struct Matrices {
  int64_t batch = 1, rows = 0, columns = 0;
  std::vector<Number> numbers;
  Number At(int64_t matrix, int64_t r, int64_t c) const {
    return numbers[static_cast<std::size_t>((matrix * rows + r) * columns + c)];
  }
};

std::vector<Number> ReadNumbers(const Literal& l) {
  std::vector<Number> out;
  const ElementType type = l.shape().element_type();
  const auto read = [&]<class N>(N) {
    const auto* p = reinterpret_cast<const N*>(l.bytes().data());
    for (std::size_t i = 0; i < l.bytes().size() / sizeof(N); ++i) out.emplace_back(p[i]);
  };
  if (type == ElementType::kF32) read(float());
  else if (type == ElementType::kF64) read(double());
  else if (type == ElementType::kC64) read(std::complex<float>());
  else read(std::complex<double>());
  return out;
}
Matrices ReadMatrices(const Literal& l) {
  const Shape& s = l.shape();
  return {s.dim(0), s.dim(1), s.dim(2), ReadNumbers(l)};
}

class EigenTest : public DeviceTest {
 protected:
  struct Sides {
    std::vector<Literal> arguments, got;
    std::optional<Literal> want;
  };
  Sides RunBoth(std::string_view text, const Literal& argument) {
    Sides out;
    auto module = ParseHloText(text);
    EXPECT_TRUE(module.has_value()) << module.error().ToString();
    out.arguments.push_back(Literal::FromBytes(argument.shape(), argument.bytes()).value());
    auto want = Evaluate(*(*module)->entry(), Pointers(out.arguments));
    EXPECT_TRUE(want.has_value()) << want.error().ToString();
    out.want = std::move(*want);
    out.got = Run(text, out.arguments);
    return out;
  }

  // Of magnitudes that fall by `decay` a column; with `rank` less than all the other columns repeat.
  Literal Make(std::string_view type, int64_t batch, int64_t rows, int64_t columns, bool hermitian, double decay = 1,
               int64_t rank = 1 << 20) {
    std::normal_distribution<double> normal;
    std::vector<Number> a(static_cast<std::size_t>(batch * rows * columns));
    const bool complex = type.starts_with("c");
    for (int64_t m = 0; m < batch; ++m)
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) {
          Number& v = a[static_cast<std::size_t>((m * rows + r) * columns + c)];
          v = c >= rank
                  ? a[static_cast<std::size_t>((m * rows + r) * columns + c % rank)]
                  : Number(normal(random_), complex ? normal(random_) : 0) * std::pow(decay, static_cast<double>(c));
          if (hermitian && c <= r) {
            Number& mirror = a[static_cast<std::size_t>((m * rows + c) * columns + r)];
            v = std::conj(mirror);
            if (r == c) v = v.real(), mirror = v;
          }
        }
    Literal out = Literal::Create(ParseShape(Format("{}[{},{},{}]", type, batch, rows, columns)).value()).value();
    const auto write = [&]<class N>(N) {
      auto* p = reinterpret_cast<N*>(out.bytes().data());
      for (std::size_t i = 0; i < a.size(); ++i) {
        if constexpr (std::is_floating_point_v<N>) p[i] = static_cast<N>(a[i].real());
        else p[i] = N(a[i]);
      }
    };
    if (type == "f32") write(float());
    else if (type == "f64") write(double());
    else if (type == "c64") write(std::complex<float>());
    else write(std::complex<double>());
    return out;
  }

  static void ExpectOrthonormalColumns(const Matrices& m, double bound) {
    for (int64_t b = 0; b < m.batch; ++b)
      for (int64_t i = 0; i < m.columns; ++i)
        for (int64_t j = 0; j < m.columns; ++j) {
          Number sum = 0;
          for (int64_t r = 0; r < m.rows; ++r) sum += std::conj(m.At(b, r, i)) * m.At(b, r, j);
          ASSERT_LT(std::abs(sum - (i == j ? 1.0 : 0.0)), bound)
              << "columns " << i << " and " << j << " of matrix " << b;
        }
  }
  static void ExpectValues(const std::vector<Number>& got, const std::vector<Number>& want, double bound) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i].real(), want[i].real(), bound) << "value " << i;
  }
  static double Largest(const std::vector<Number>& values) {
    double out = std::numeric_limits<double>::min();
    for (Number v : values) out = std::max(out, std::abs(v));
    return out;
  }
  static double Rounding(std::string_view type, int64_t n) {
    return 5 * static_cast<double>(n) * (type == "f32" || type == "c64" ? 0x1p-23 : 0x1p-52);
  }

  void CheckEigh(std::string_view type, const Literal& a, bool lower) {
    const int64_t batch = a.shape().dim(0), n = a.shape().dim(1);
    const std::string_view real = type == "c64" ? "f32" : type == "c128" ? "f64" : type;
    const Sides s = RunBoth(
        Format(
            "HloModule m\nENTRY main {{\n  a = {0}[{1},{2},{2}] parameter(0)\n  ROOT e = ({0}[{1},{2},{2}], {3}[{1},{2}]) "
            "custom-call(a), custom_call_target=\"Eigh\", backend_config=\"{4},1,100,1e-6\"\n}}\n",
            type, batch, n, real, lower ? 1 : 0),
        a);
    ASSERT_EQ(s.got.size(), 2u);
    const Matrices matrix = ReadMatrices(a), v = ReadMatrices(s.got[0]);
    const std::vector<Number> w = ReadNumbers(s.got[1]);
    const double bound = Rounding(type, n), size = Largest(w);
    ExpectValues(w, ReadNumbers(*s.want->ArrayLeaves()[1]), bound * size);
    ExpectOrthonormalColumns(v, bound);
    ExpectOrthonormalColumns(ReadMatrices(*s.want->ArrayLeaves()[0]), bound);
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t r = 0; r < n; ++r)
        for (int64_t c = 0; c < n; ++c) {
          Number sum = -v.At(b, r, c) * w[static_cast<std::size_t>(b * n + c)];
          for (int64_t k = 0; k < n; ++k) sum += matrix.At(b, r, k) * v.At(b, k, c);
          ASSERT_LT(std::abs(sum), bound * size) << "row " << r << " of vector " << c;
        }
  }

  void CheckSvd(std::string_view type, const Literal& a, bool full) {
    const int64_t batch = a.shape().dim(0), m = a.shape().dim(1), n = a.shape().dim(2), k = std::min(m, n);
    const std::string_view real = type == "c64" ? "f32" : type == "c128" ? "f64" : type;
    const std::string head = Format("HloModule m\nENTRY main {{\n  a = {}[{},{},{}] parameter(0)\n", type, batch, m, n);
    const Sides s = RunBoth(
        Format(
            "{}  ROOT s = ({}[{},{}], {}[{},{},{}], {}[{},{},{}]) custom-call(a), custom_call_target=\"krafla_svd\"\n}}\n",
            head, real, batch, k, type, batch, m, full ? m : k, type, batch, full ? n : k, n),
        a);
    ASSERT_EQ(s.got.size(), 3u);
    const std::vector<Number> values = ReadNumbers(s.got[0]), want = ReadNumbers(*s.want->ArrayLeaves()[0]);
    const Matrices matrix = ReadMatrices(a), u = ReadMatrices(s.got[1]);
    const double bound = Rounding(type, std::max(m, n)), size = Largest(values);
    ExpectValues(values, want, bound * size);
    for (const Literal* leaf : {&s.got[1], s.want->ArrayLeaves()[1]})
      ExpectOrthonormalColumns(ReadMatrices(*leaf), bound);
    const Matrices vh = ReadMatrices(s.got[2]);
    for (const Literal* leaf : {&s.got[2], s.want->ArrayLeaves()[2]}) {
      const Matrices rows = ReadMatrices(*leaf);
      Matrices v{rows.batch, rows.columns, rows.rows, std::vector<Number>(rows.numbers.size())};
      for (int64_t b = 0; b < v.batch; ++b)
        for (int64_t r = 0; r < v.rows; ++r)
          for (int64_t c = 0; c < v.columns; ++c)
            v.numbers[static_cast<std::size_t>((b * v.rows + r) * v.columns + c)] = std::conj(rows.At(b, c, r));
      ExpectOrthonormalColumns(v, bound);
    }
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t r = 0; r < m; ++r)
        for (int64_t c = 0; c < n; ++c) {
          Number sum = -matrix.At(b, r, c);
          for (int64_t i = 0; i < k; ++i)
            sum += u.At(b, r, i) * values[static_cast<std::size_t>(b * k + i)] * vh.At(b, i, c);
          ASSERT_LT(std::abs(sum), bound * size) << "row " << r << " column " << c;
        }
    const Sides alone = RunBoth(
        Format("{}  ROOT s = {}[{},{}] custom-call(a), custom_call_target=\"krafla_svd\"\n}}\n", head, real, batch, k),
        a);
    ASSERT_EQ(alone.got.size(), 1u);
    ExpectValues(ReadNumbers(alone.got[0]), want, bound * size);
  }

  std::mt19937 random_{11};
};

TEST_P(EigenTest, HermitianMatrices) {
  for (std::string_view type : {"f32", "f64", "c64", "c128"})
    for (int n : {1, 2, 3, 8, 33, 70}) {
      SCOPED_TRACE(Format("{} of {}", type, n));
      const Literal a = Make(type, n > 8 ? 1 : 5, n, n, true);
      CheckEigh(type, a, n != 3);
    }
}

// Equal eigenvalues, zeros, and magnitudes whose squares are no numbers any more.
TEST_P(EigenTest, OddHermitianMatrices) {
  for (std::string_view type : {"f32", "c128"}) {
    CheckEigh(type, Make(type, 1, 12, 12, true, 0), true);
    CheckEigh(type, Make(type, 1, 40, 40, true, type == "f32" ? 0.1 : 1e-8), true);
    CheckEigh(type, Make(type, 1, 40, 40, true, type == "f32" ? 0.1 : 1e-8), false);
  }
}

TEST_P(EigenTest, SingularValues) {
  for (std::string_view type : {"f32", "f64", "c64", "c128"})
    for (auto [m, n] : {std::pair{1, 1}, {2, 2}, {8, 8}, {5, 3}, {3, 7}, {33, 30}, {64, 9}, {9, 64}})
      for (bool full : {false, true}) {
        SCOPED_TRACE(Format("{} of {} x {}, full {}", type, m, n, full));
        CheckSvd(type, Make(type, m > 8 ? 1 : 4, m, n, false), full);
      }
}

TEST_P(EigenTest, OddSingularValues) {
  for (std::string_view type : {"f32", "c128"})
    for (auto [m, n] : {std::pair{30, 30}, {50, 20}, {10, 12}}) {
      SCOPED_TRACE(Format("{} of {} x {}", type, m, n));
      CheckSvd(type, Make(type, 1, m, n, false, 0), true);
      CheckSvd(type, Make(type, 1, m, n, false, 1, 2), true);
      CheckSvd(type, Make(type, 1, m, n, false, type == "f32" ? 0.1 : 1e-9), true);
    }
}

// The second of two matrices is not finite: its results are NaN, those of the first are not.
TEST_P(EigenTest, NaNStaysInItsMatrix) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<Literal> arguments;
  arguments.push_back(MakeLiteral<float>("f32[2,2,2]", {2, 0, 0, 3, 1, nan, nan, 1}));
  for (std::string_view call :
       {R"(ROOT e = (f32[2,2,2], f32[2,2]) custom-call(a), custom_call_target="Eigh")",
        R"(ROOT e = (f32[2,2], f32[2,2,2], f32[2,2,2]) custom-call(a), custom_call_target="krafla_svd")"}) {
    for (const Literal& l :
         Run(Format("HloModule m\nENTRY main {{\n  a = f32[2,2,2] parameter(0)\n  {}\n}}\n", call), arguments)) {
      const std::vector<float> values = Values<float>(l);
      for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(std::isnan(values[i]), i >= values.size() / 2) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, EigenTest, ::testing::ValuesIn(DeviceCases()), CaseName);

}  // namespace
}  // namespace krafla::testing
