// SPDX-License-Identifier: Apache-2.0
// Fourier transforms and dense linear algebra on every device, against the evaluator's definitions in double.
#include <bit>
#include <cmath>
#include <cstring>
#include <format>
#include <limits>
#include <random>

#include "api_fixture.h"
#include "evaluator/evaluator.h"

namespace krafla::testing {
namespace {

enum class Fill : uint8_t { kAny, kTriangular, kPositive };

class LinalgTest : public DeviceTest {
 protected:
  // Runs `text` on made-up arguments here and by the evaluator; results differ by at most `bound` of the largest.
  void Compare(std::string_view text, double bound, Fill fill = Fill::kAny) {
    SCOPED_TRACE(text);
    auto module = ParseHloText(text);
    ASSERT_TRUE(module.has_value()) << module.error().ToString();
    std::vector<Literal> arguments;
    for (const Instruction* p : (*module)->entry()->parameters()) arguments.push_back(Make(p->shape(), fill));
    auto want = Evaluate(*(*module)->entry(), Pointers(arguments));
    ASSERT_TRUE(want.has_value()) << want.error().ToString();
    std::vector<Literal> got = Run(text, arguments);
    const std::vector<const Literal*> leaves = want->ArrayLeaves();
    ASSERT_EQ(got.size(), leaves.size());
    for (std::size_t i = 0; i < got.size(); ++i) CompareArrays(got[i], *leaves[i], bound);
  }

  void CompareArrays(const Literal& got, const Literal& want, double bound) {
    const std::vector<double> g = Numbers(got), w = Numbers(want);
    ASSERT_EQ(g.size(), w.size());
    double largest = 0;
    for (double v : w)
      if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
    for (std::size_t i = 0; i < g.size(); ++i) {
      if (std::isnan(w[i])) {
        EXPECT_TRUE(std::isnan(g[i])) << "number " << i << " is " << g[i];
      } else {
        ASSERT_NEAR(g[i], w[i], bound * largest) << "number " << i;
      }
    }
  }

  static std::vector<double> Numbers(const Literal& l) {
    std::vector<double> out;
    const ElementType type = RealPart(l.shape().element_type());
    if (type == ElementType::kF64) {
      const auto* p = reinterpret_cast<const double*>(l.bytes().data());
      out.assign(p, p + l.bytes().size() / 8);
    } else if (type == ElementType::kS32) {
      const auto* p = reinterpret_cast<const int32_t*>(l.bytes().data());
      out.assign(p, p + l.bytes().size() / 4);
    } else if (type == ElementType::kBF16) {
      const auto* p = reinterpret_cast<const uint16_t*>(l.bytes().data());
      for (std::size_t i = 0; i < l.bytes().size() / 2; ++i) out.push_back(std::bit_cast<float>(uint32_t{p[i]} << 16));
    } else {
      const auto* p = reinterpret_cast<const float*>(l.bytes().data());
      out.assign(p, p + l.bytes().size() / 4);
    }
    return out;
  }

  Literal Make(const Shape& shape, Fill fill) {
    auto literal = Literal::Create(shape);
    EXPECT_TRUE(literal.has_value());
    const ElementType type = shape.element_type();
    const std::size_t parts = IsComplex(type) ? 2 : 1;
    std::uniform_real_distribution<double> uniform(-1, 1);
    auto count = static_cast<std::size_t>(shape.element_count()) * parts;
    std::vector<double> values(count);
    for (double& v : values) v = uniform(random_);
    const auto rank = shape.rank();
    const int64_t n = rank < 2 ? 0 : shape.dim(rank - 1);
    if (fill != Fill::kAny && rank >= 2 && shape.dim(rank - 2) == n) {
      // A dominant diagonal; for Cholesky also a mirror image.
      for (std::size_t base = 0; base < count; base += static_cast<std::size_t>(n * n) * parts)
        for (int64_t r = 0; r < n; ++r)
          for (int64_t c = 0; c <= r; ++c) {
            double* at = &values[base + static_cast<std::size_t>(r * n + c) * parts];
            double* mirror = &values[base + static_cast<std::size_t>(c * n + r) * parts];
            if (fill == Fill::kPositive) {
              mirror[0] = at[0];
              if (parts == 2) mirror[1] = r == c ? 0 : -at[1];
            }
            if (r == c)
              at[0] = (fill == Fill::kTriangular && r % 2 == 1 ? -1.0 : 1.0) * (2 + static_cast<double>(n) / 2);
          }
    }
    if (count == 0) return std::move(*literal);  // std::memcpy takes no null
    if (RealPart(type) == ElementType::kF64) {
      std::memcpy(literal->bytes().data(), values.data(), count * 8);
    } else if (type == ElementType::kBF16) {
      for (std::size_t i = 0; i < count; ++i)
        literal->data<uint16_t>()[i] =
            static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(values[i])) >> 16);
    } else {
      std::vector<float> narrow(values.begin(), values.end());
      std::memcpy(literal->bytes().data(), narrow.data(), count * 4);
    }
    return std::move(*literal);
  }

  std::mt19937 random_{7};
};

std::string FftText(std::string_view result, std::string_view operand, std::string_view type, std::string_view length) {
  return Format(
      "HloModule m\nENTRY main {{\n  x = {} parameter(0)\n  ROOT y = {} fft(x), fft_type={}, "
      "fft_length={{{}}}\n}}\n",
      operand, result, type, length);
}

// Powers of two, odd products, primes that butterflies take, that are summed, that are convolved.
TEST_P(LinalgTest, FftOfAnyLength) {
  for (int n : {1, 2, 5, 12, 16, 17, 77, 101, 254, 497, 1024, 1073, 2187})
    Compare(FftText(Format("c64[3,{}]", n), Format("c64[3,{}]", n), "FFT", std::to_string(n)), 1e-6);
  for (int n : {1, 30, 64, 202})
    Compare(FftText(Format("c64[{}]", n), Format("c64[{}]", n), "IFFT", std::to_string(n)), 1e-6);
}

TEST_P(LinalgTest, RealFftOfAnyLength) {
  for (int n : {1, 2, 3, 8, 17, 34, 101, 206, 4096}) {
    const std::string real = Format("f32[2,{}]", n), half = Format("c64[2,{}]", n / 2 + 1);
    Compare(FftText(half, real, "RFFT", std::to_string(n)), 1e-6);
    Compare(FftText(real, half, "IRFFT", std::to_string(n)), 1e-6);
  }
}

// Lines that are transformed side by side: a block of them and some more.
TEST_P(LinalgTest, FftOfManyLines) {
  for (int n : {1, 15, 16, 53, 101, 187, 360, 1073}) {
    Compare(FftText(Format("c64[3,7,{}]", n), Format("c64[3,7,{}]", n), "FFT", std::to_string(n)), 1e-6);
    Compare(FftText(Format("c64[9,{}]", n), Format("c64[9,{}]", n), "IFFT", std::to_string(n)), 1e-6);
  }
  for (int n : {3, 34, 120, 497}) {
    const std::string real = Format("f32[21,{}]", n), half = Format("c64[21,{}]", n / 2 + 1);
    Compare(FftText(half, real, "RFFT", std::to_string(n)), 1e-6);
    Compare(FftText(real, half, "IRFFT", std::to_string(n)), 1e-6);
  }
  for (int n : {45, 190})
    Compare(FftText(Format("c128[18,{}]", n), Format("c128[18,{}]", n), "FFT", std::to_string(n)), 1e-14);
}

TEST_P(LinalgTest, FftOfSeveralDimensions) {
  Compare(FftText("c64[2,5,16]", "c64[2,5,16]", "FFT", "5,16"), 1e-6);
  Compare(FftText("c64[2,33,7,20]", "c64[2,33,7,20]", "IFFT", "33,7,20"), 1e-6);
  Compare(FftText("c64[3,6,9,11]", "f32[3,6,9,20]", "RFFT", "6,9,20"), 1e-6);
  Compare(FftText("f32[3,6,9,20]", "c64[3,6,9,11]", "IRFFT", "6,9,20"), 1e-6);
  Compare(FftText("f32[19,7]", "c64[19,4]", "IRFFT", "19,7"), 1e-6);
}

TEST_P(LinalgTest, FftInDouble) {
  for (int n : {1, 37, 101, 512})
    Compare(FftText(Format("c128[2,{}]", n), Format("c128[2,{}]", n), "FFT", std::to_string(n)), 1e-14);
  Compare(FftText("c128[4,33]", "f64[4,64]", "RFFT", "64"), 1e-14);
  Compare(FftText("f64[4,64]", "c128[4,33]", "IRFFT", "64"), 1e-14);
}

TEST_P(LinalgTest, FftOfNothing) {
  Compare(FftText("c64[0,8]", "c64[0,8]", "FFT", "8"), 0);
  Compare(FftText("c64[2,0]", "f32[2,0]", "RFFT", "0"), 0);
  Compare(FftText("f32[2,0]", "c64[2,0]", "IRFFT", "0"), 0);
  Compare(FftText("f32[2,0]", "c64[2,1]", "IRFFT", "0"), 0);
  Compare(FftText("f64[2,3,0]", "c128[2,3,1]", "IRFFT", "3,0"), 0);
}

double BoundOf(std::string_view type) {
  if (type == "bf16") return 2e-2;
  return type == "f32" || type == "c64" ? 1e-5 : 1e-13;
}

TEST_P(LinalgTest, Cholesky) {
  for (std::string_view type : {"f32", "f64", "c64", "c128", "bf16"})
    for (int n : {1, 5, 32, 70})
      for (bool lower : {true, false}) {
        if (n != 70 && lower == (n == 5)) continue;
        Compare(Format("HloModule m\nENTRY main {{\n  a = {0}[2,{1},{1}] parameter(0)\n"
                       "  ROOT l = {0}[2,{1},{1}] cholesky(a), lower={2}\n}}\n",
                       type, n, lower),
                BoundOf(type), Fill::kPositive);
      }
}

// The second of three matrices has a negative pivot at its end.
TEST_P(LinalgTest, CholeskyOfAnIndefiniteMatrixIsNaN) {
  for (std::size_t n : {4u, 12u, 40u}) {
    std::vector<float> a(3 * n * n, 0.0f);
    for (std::size_t m = 0; m < 3; ++m)
      for (std::size_t i = 0; i < n; ++i) a[(m * n + i) * n + i] = m == 1 && i + 2 == n ? -1.0f : 4.0f;
    std::vector<Literal> arguments;
    arguments.push_back(MakeLiteral(Format("f32[3,{0},{0}]", n), a));
    auto got = Run(Format("HloModule m\nENTRY main {{\n  a = f32[3,{0},{0}] parameter(0)\n"
                          "  ROOT l = f32[3,{0},{0}] cholesky(a), lower=true\n}}\n",
                          n),
                   arguments);
    ASSERT_EQ(got.size(), 1u);
    const std::vector<float> l = Values<float>(got[0]);
    for (std::size_t i = 0; i < l.size(); ++i) {
      const std::size_t m = i / (n * n), r = i / n % n, c = i % n;
      if (c > r) {
        EXPECT_EQ(l[i], 0.0f);
      } else if (m == 1) {
        EXPECT_TRUE(std::isnan(l[i]));
      } else {
        EXPECT_EQ(l[i], c == r ? 2.0f : 0.0f);
      }
    }
  }
}

TEST_P(LinalgTest, TriangularSolve) {
  for (std::string_view type : {"f32", "c128"})
    for (bool left : {true, false})
      for (bool lower : {true, false})
        for (bool unit : {true, false})
          for (std::string_view transpose : {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"}) {
            // Real numbers have no conjugates, complex ones nothing new in the rest.
            if (type == "f32" ? transpose == "ADJOINT" : unit || transpose == "NO_TRANSPOSE") continue;
            Compare(
                Format("HloModule m\nENTRY main {{\n  a = {0}[2,37,37] parameter(0)\n  b = {0}[2,{1}] parameter(1)\n"
                       "  ROOT x = {0}[2,{1}] triangular-solve(a, b), left_side={2}, lower={3}, "
                       "unit_diagonal={4}, transpose_a={5}\n}}\n",
                       type, left ? "37,3" : "3,37", left, lower, unit, transpose),
                // Without its diagonal the matrix is not dominated: solutions grow and lose digits.
                unit ? 1e-3 : BoundOf(type), Fill::kTriangular);
          }
  for (std::string_view type : {"f64", "c64", "bf16"})
    for (int n : {1, 32, 65})
      Compare(Format("HloModule m\nENTRY main {{\n  a = {0}[{1},{1}] parameter(0)\n  b = {0}[{1},17] parameter(1)\n"
                     "  ROOT x = {0}[{1},17] triangular-solve(a, b), left_side=true, lower=true, "
                     "transpose_a=NO_TRANSPOSE\n}}\n",
                     type, n),
              BoundOf(type), Fill::kTriangular);
}

TEST_P(LinalgTest, SingularSolveIsInfinite) {
  std::vector<Literal> arguments;
  arguments.push_back(MakeLiteral<float>("f32[2,2]", {2, 0, 0, 0}));
  arguments.push_back(MakeLiteral<float>("f32[2,1]", {4, 1}));
  auto got = Run(R"(HloModule m
ENTRY main {
  a = f32[2,2] parameter(0)
  b = f32[2,1] parameter(1)
  ROOT x = f32[2,1] triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE
})",
                 arguments);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(Values<float>(got[0]), (std::vector<float>{2, std::numeric_limits<float>::infinity()}));
}

std::string QrText(std::string_view type, int m, int n) {
  return Format(
      "HloModule m\nENTRY main {{\n  a = {0}[2,{1},{2}] parameter(0)\n"
      "  qr = ({0}[2,{1},{2}], {0}[2,{3}]) custom-call(a), custom_call_target=\"Qr\"\n"
      "  r = {0}[2,{1},{2}] get-tuple-element(qr), index=0\n"
      "  taus = {0}[2,{3}] get-tuple-element(qr), index=1\n"
      "  q = {0}[2,{1},{2}] custom-call(r, taus), "
      "custom_call_target=\"ProductOfElementaryHouseholderReflectors\"\n"
      "  ROOT out = ({0}[2,{1},{2}], {0}[2,{3}], {0}[2,{1},{2}]) tuple(r, taus, q)\n}}\n",
      type, m, n, std::min(m, n));
}

TEST_P(LinalgTest, Qr) {
  for (std::string_view type : {"f32", "f64", "c64", "c128"})
    for (auto [m, n] : {std::pair{1, 1}, {9, 5}, {5, 9}}) Compare(QrText(type, m, n), BoundOf(type));
  // One panel and several.
  for (std::string_view type : {"f32", "f64"})
    for (auto [m, n] : {std::pair{70, 20}, {40, 32}, {40, 33}}) Compare(QrText(type, m, n), 10 * BoundOf(type));
  // More than a workgroup's memory holds: blocks of reflectors, of which the last has fewer, and columns after them.
  Compare(QrText("f32", 150, 130), 1e-4);
  Compare(QrText("f32", 90, 150), 1e-4);
  Compare(QrText("f32", 3000, 5), 1e-4);
  Compare(QrText("c64", 80, 96), 1e-4);
  Compare(QrText("f64", 70, 67), 1e-12);
  Compare(QrText("bf16", 104, 92), 0.1);
}

std::string LuText(std::string_view type, std::string_view batch, int m, int n) {
  return Format(
      "HloModule m\nENTRY main {{\n  a = {0}[{1}{2},{3}] parameter(0)\n"
      "  ROOT lu = ({0}[{1}{2},{3}], s32[{1}{4}], s32[{1}{2}]) custom-call(a), "
      "custom_call_target=\"LuDecomposition\"\n}}\n",
      type, batch, m, n, std::min(m, n));
}

// Matrices of an invocation or a vector lane, of a workgroup, of panels; the pivots are the same ones everywhere.
TEST_P(LinalgTest, Lu) {
  for (std::string_view type : {"f32", "f64", "c64", "c128"})
    for (auto [m, n] : {std::pair{1, 1}, {3, 3}, {7, 4}, {4, 9}, {17, 17}, {20, 33}})
      Compare(LuText(type, "5,", m, n), BoundOf(type));
  Compare(LuText("bf16", "3,", 4, 4), BoundOf("bf16"));
  Compare(LuText("f32", "", 150, 130), 1e-4);
  Compare(LuText("f32", "", 130, 170), 1e-4);
  Compare(LuText("f32", "2,", 140, 172), 1e-4);
  Compare(LuText("f64", "", 101, 112), 1e-12);
  Compare(LuText("c128", "", 270, 40), 1e-12);
  Compare(LuText("f32", "0,", 3, 3), 0);
  Compare(LuText("f32", "2,", 3, 0), 0);
}

// A column of zeros, which a reflector leaves as it is.
TEST_P(LinalgTest, QrOfZeros) {
  constexpr int kRows = 120, kColumns = 100;
  std::vector<float> a(2 * kRows * kColumns, 0.0f);
  for (std::size_t i = 0; i < a.size() / 2; i += kColumns) a[i + 3] = 1.0f;
  std::vector<Literal> arguments;
  arguments.push_back(MakeLiteral(Format("f32[2,{},{}]", kRows, kColumns), a));
  auto got = Run(QrText("f32", kRows, kColumns), arguments);
  ASSERT_EQ(got.size(), 3u);
  const std::vector<float> taus = Values<float>(got[1]), q = Values<float>(got[2]);
  for (std::size_t i = 0; i < taus.size(); ++i) EXPECT_EQ(taus[i] != 0, i == 3) << i;
  for (float v : q) ASSERT_TRUE(std::isfinite(v));
}

// A column of zeros is passed over, as by LAPACK.
TEST_P(LinalgTest, LuOfSingularMatrices) {
  for (int n : {4, 20, 100}) {
    std::vector<float> a(static_cast<std::size_t>(2 * n * n), 0.0f);
    for (int i = 0; i < n * n; ++i) a[static_cast<std::size_t>(n * n + i)] = 3.0f;  // of rank one
    std::vector<Literal> arguments;
    arguments.push_back(MakeLiteral(Format("f32[2,{0},{0}]", n), a));
    auto got = Run(LuText("f32", "2,", n, n), arguments);
    ASSERT_EQ(got.size(), 3u);
    const std::vector<float> lu = Values<float>(got[0]);
    for (std::size_t i = 0; i < lu.size(); ++i) {
      const std::size_t size = a.size() / 2, row = i % size / static_cast<std::size_t>(n),
                        column = i % static_cast<std::size_t>(n);
      EXPECT_EQ(lu[i], i < size ? 0.0f : row == 0 ? 3.0f : column == 0 ? 1.0f : 0.0f);
    }
    const std::vector<int32_t> permutation = Values<int32_t>(got[2]);
    for (std::size_t i = 0; i < permutation.size(); ++i)
      EXPECT_EQ(permutation[i], static_cast<int32_t>(i % static_cast<std::size_t>(n)));
  }
}

// Blocks of all sizes, with and without vectors of matrices.
TEST_P(LinalgTest, FactorsAndSolutionsInBatches) {
  for (std::string_view type : {"f32", "c64"})
    for (int n : {2, 9, 16, 65, 108, 130}) {
      const int batch = n > 16 ? 1 : 19;
      for (bool lower : {true, false})
        Compare(
            Format(
                "HloModule m\nENTRY main {{\n  a = {2}[{1},{0},{0}] parameter(0)\n  ROOT l = {2}[{1},{0},{0}] cholesky(a), "
                "lower={3}\n}}\n",
                n, batch, type, lower),
            1e-5, Fill::kPositive);
      for (bool left : {true, false})
        Compare(
            Format("HloModule m\nENTRY main {{\n  a = {4}[{1},{0},{0}] parameter(0)\n  b = {4}[{1},{2}] parameter(1)\n"
                   "  ROOT x = {4}[{1},{2}] triangular-solve(a, b), left_side={3}, lower={3}, transpose_a={5}\n}}\n",
                   n, batch, left ? Format("{},{}", n, n == 108 ? 12 : 5) : Format("{},{}", 5, n), left, type,
                   type == "f32" ? "NO_TRANSPOSE" : "ADJOINT"),
            1e-5, Fill::kTriangular);
    }
}

// Nothing above falls back to the host, but for f64 where the device has none.
TEST_P(LinalgTest, StaysOnTheDevice) {
  options_.strict = true;
  Compare(FftText("c64[3,101]", "c64[3,101]", "FFT", "101"), 1e-6);
  Compare(QrText("f32", 6, 4), 1e-5);
  Compare(LuText("f32", "2,", 6, 4), 1e-5);
  Compare(LuText("f32", "", 120, 120), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Devices, LinalgTest, ::testing::ValuesIn(DeviceCases()), CaseName);

}  // namespace
}  // namespace krafla::testing
