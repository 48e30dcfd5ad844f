// SPDX-License-Identifier: Apache-2.0
// CHLO's functions, which StableHLO's readers write out as formulas, against those of the C++ library.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "evaluator/evaluator.h"
#include "hlo_io/read_module.h"

namespace krafla {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class T>
Literal Row(ElementType type, const std::vector<T>& values) {
  Literal out = *Literal::Create(*Shape::MakeArray(type, Dims{static_cast<int64_t>(values.size())}));
  std::copy(values.begin(), values.end(), out.data<T>().begin());
  return out;
}

// `body` gives %r of the type that `result` names, from arguments %a, %b ... of `types`.
Result<Literal> Evaluated(const std::string& signature, const std::string& body, const std::string& result,
                          std::span<const Literal> arguments) {
  const std::string text =
      "func.func @main(" + signature + ") -> " + result + " {\n  " + body + "\n  return %r : " + result + "\n}\n";
  KRAFLA_ASSIGN(auto module, ReadModule(text, "chlo.mlir"));
  std::vector<const Literal*> pointers;
  for (const Literal& a : arguments) pointers.push_back(&a);
  return Evaluate(*module->entry(), pointers);
}

template <class T>
std::vector<T> OfOne(const std::string& name, const std::string& type, ElementType element, const std::vector<T>& x) {
  const std::string t = "tensor<" + std::to_string(x.size()) + "x" + type + ">";
  const std::vector<Literal> arguments = [&] {
    std::vector<Literal> out;
    out.push_back(Row(element, x));
    return out;
  }();
  auto got = Evaluated("%a: " + t, "%r = chlo." + name + " %a : " + t + " -> " + t, t, arguments);
  EXPECT_TRUE(got) << got.error().ToString();
  if (!got) return {};
  return {got->data<T>().begin(), got->data<T>().end()};
}

template <class T>
std::vector<T> OfTwo(const std::string& name, const std::string& type, ElementType element, const std::vector<T>& x,
                     const std::vector<T>& y) {
  const std::string t = "tensor<" + std::to_string(x.size()) + "x" + type + ">";
  std::vector<Literal> arguments;
  arguments.push_back(Row(element, x));
  arguments.push_back(Row(element, y));
  auto got = Evaluated("%a: " + t + ", %b: " + t, "%r = chlo." + name + " %a, %b : " + t + ", " + t + " -> " + t, t,
                       arguments);
  EXPECT_TRUE(got) << got.error().ToString();
  if (!got) return {};
  return {got->data<T>().begin(), got->data<T>().end()};
}

template <class T>
void Expect(const std::vector<T>& got, const std::vector<T>& x, double (*want)(double), double rtol, double atol) {
  ASSERT_EQ(got.size(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double w = want(static_cast<double>(x[i]));
    if (!std::isfinite(w)) EXPECT_EQ(static_cast<double>(got[i]), w) << "at " << x[i];
    else EXPECT_NEAR(static_cast<double>(got[i]), w, atol + rtol * std::abs(w)) << "at " << x[i];
  }
}

TEST(Chlo, ErrorFunctions) {
  const std::vector<float> x32{-5, -2.5f, -1.25f, -1, -0.5f, 0, 1e-6f, 0.75f, 1, 1.75f, 2, 3, 8, 9};
  Expect(OfOne<float>("erfc", "f32", ElementType::kF32, x32), x32, std::erfc, 1e-6, 1e-30);
  const std::vector<double> x64{-5, -2.5, -1.25, -1, -0.5, 0, 1e-6, 0.75, 1, 1.75, 2, 3, 8, 9, 20};
  Expect(OfOne<double>("erfc", "f64", ElementType::kF64, x64), x64, std::erfc, 1e-14, 1e-300);
  const std::vector<double> y{-1, -0.999, -0.5, -1e-3, 0, 0.25, 0.9, 0.99999999, 0.99999999999, 1};
  const std::vector<double> inverse = OfOne<double>("erf_inv", "f64", ElementType::kF64, y);
  ASSERT_EQ(inverse.size(), y.size());
  for (std::size_t i = 1; i + 1 < y.size(); ++i) EXPECT_NEAR(std::erf(inverse[i]), y[i], 1e-14) << y[i];
  EXPECT_EQ(inverse.front(), -kInfinity);
  EXPECT_EQ(inverse.back(), kInfinity);
  const std::vector<float> y32{-1, -0.999f, -0.5f, -1e-3f, 0, 0.25f, 0.9f, 1};
  const std::vector<float> inverse32 = OfOne<float>("erf_inv", "f32", ElementType::kF32, y32);
  ASSERT_EQ(inverse32.size(), y32.size());
  for (std::size_t i = 1; i + 1 < y32.size(); ++i) EXPECT_NEAR(std::erf(inverse32[i]), y32[i], 2e-7) << y32[i];
}

TEST(Chlo, GammaFunctions) {
  const std::vector<double> x{-3.25, -2, -0.5, 0.125, 0.5, 1, 1.5, 2, 7.75, 100, 1e10, kInfinity};
  Expect(OfOne<double>("lgamma", "f64", ElementType::kF64, x), x, std::lgamma, 1e-12, 1e-13);
  const std::vector<float> x32{-3.25f, -2, -0.5f, 0.125f, 0.5f, 1, 1.5f, 2, 7.75f, 100, 1e10f};
  Expect(OfOne<float>("lgamma", "f32", ElementType::kF32, x32), x32, std::lgamma, 5e-6, 3e-6);
  // Abramowitz and Stegun, table 6.1; digamma(1) is -gamma, digamma(x + 1) = digamma(x) + 1 / x.
  const std::vector<double> d = OfOne<double>("digamma", "f64", ElementType::kF64, {1, 2, 0.5, -0.5, 10, -1, 0});
  ASSERT_EQ(d.size(), 7u);
  const double gamma = 0.57721566490153286061;
  EXPECT_NEAR(d[0], -gamma, 1e-13);
  EXPECT_NEAR(d[1], 1 - gamma, 1e-13);
  EXPECT_NEAR(d[2], -gamma - 2 * std::log(2.0), 1e-13);
  EXPECT_NEAR(d[3], 2 - gamma - 2 * std::log(2.0), 1e-13);
  EXPECT_NEAR(d[4], 2.25175258906672110765, 1e-13);
  EXPECT_TRUE(std::isnan(d[5]));
  EXPECT_TRUE(std::isnan(d[6]));
  // zeta(2) = pi^2 / 6, zeta(4) = pi^4 / 90; zeta(2, 2) is one less.
  const double pi = 3.14159265358979323846;
  const std::vector<double> z = OfTwo<double>("zeta", "f64", ElementType::kF64, {2, 4, 2, 1, 0.5}, {1, 1, 2, 3, 1});
  ASSERT_EQ(z.size(), 5u);
  EXPECT_NEAR(z[0], pi * pi / 6, 1e-14);
  EXPECT_NEAR(z[1], pi * pi * pi * pi / 90, 1e-14);
  EXPECT_NEAR(z[2], pi * pi / 6 - 1, 1e-14);
  EXPECT_EQ(z[3], kInfinity);
  EXPECT_TRUE(std::isnan(z[4]));
  // polygamma(1, x) is zeta(2, x), polygamma(0, x) digamma.
  const std::vector<double> p = OfTwo<double>("polygamma", "f64", ElementType::kF64, {0, 1, 2, 0.5}, {1, 1, 1, 1});
  ASSERT_EQ(p.size(), 4u);
  EXPECT_NEAR(p[0], -gamma, 1e-13);
  EXPECT_NEAR(p[1], pi * pi / 6, 1e-12);
  EXPECT_NEAR(p[2], -2 * 1.2020569031595942854, 1e-11);
  EXPECT_TRUE(std::isnan(p[3]));
}

TEST(Chlo, BesselI1e) {
  // exp(-x) I1(x), Abramowitz and Stegun, table 9.8.
  const std::vector<double> b = OfOne<double>("bessel_i1e", "f64", ElementType::kF64, {0, 1, -1, 5, 10});
  ASSERT_EQ(b.size(), 5u);
  EXPECT_NEAR(b[0], 0, 0);
  EXPECT_NEAR(b[1], 0.2079104153, 1e-10);
  EXPECT_NEAR(b[2], -0.2079104153, 1e-10);
  EXPECT_NEAR(b[3], 0.1639722669, 1e-10);
  EXPECT_NEAR(b[4], 0.1212626814, 1e-10);
}

TEST(Chlo, NextAfterIsThatOfTheLibrary) {
  const float inf = std::numeric_limits<float>::infinity(), least = std::numeric_limits<float>::denorm_min();
  const float most = std::numeric_limits<float>::max();
  const std::vector<float> x{0, 0, -0.0f, 1, 1, -1, -1, least, -least, most, inf, -inf, 1, 0.0f};
  const std::vector<float> y{1, -1, 5, 2, 0, 0, -2, 0, 0, inf, 0, 0, 1, -0.0f};
  const std::vector<float> got = OfTwo<float>("next_after", "f32", ElementType::kF32, x, y);
  ASSERT_EQ(got.size(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float want = std::nextafterf(x[i], y[i]);
    EXPECT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want)) << x[i] << " to " << y[i];
  }
  const std::vector<double> x64{0, 1, -1, 1e300}, y64{-1, 0, 0, kInfinity};
  const std::vector<double> got64 = OfTwo<double>("next_after", "f64", ElementType::kF64, x64, y64);
  ASSERT_EQ(got64.size(), x64.size());
  for (std::size_t i = 0; i < x64.size(); ++i) EXPECT_EQ(got64[i], std::nextafter(x64[i], y64[i]));
}

TEST(Chlo, HighHalvesOfProducts) {
  const std::vector<int64_t> x{int64_t{1} << 62, -(int64_t{1} << 62), -1, 123456789012345678},
      y{8, 8, -1, -987654321098765432};
  const std::vector<int64_t> got = OfTwo<int64_t>("mulhi", "i64", ElementType::kS64, x, y);
  ASSERT_EQ(got.size(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    __extension__ using Wide = __int128;
    EXPECT_EQ(got[i], static_cast<int64_t>(static_cast<Wide>(x[i]) * y[i] >> 64)) << x[i] << " * " << y[i];
  }
}

TEST(Chlo, OperandsGrow) {
  std::vector<Literal> arguments;
  arguments.push_back(Row<float>(ElementType::kF32, {1, 2, 3}));
  auto got = Evaluated("%a: tensor<3xf32>",
                       "%c = stablehlo.constant dense<[[10.0], [20.0]]> : tensor<2x1xf32>\n"
                       "  %r = chlo.broadcast_add %a, %c : (tensor<3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>",
                       "tensor<2x3xf32>", arguments);
  ASSERT_TRUE(got) << got.error().ToString();
  EXPECT_EQ(std::vector<float>(got->data<float>().begin(), got->data<float>().end()),
            (std::vector<float>{11, 12, 13, 21, 22, 23}));
  auto less = Evaluated(
      "%a: tensor<3xf32>",
      "%c = stablehlo.constant dense<2.0> : tensor<f32>\n"
      "  %p = chlo.broadcast_compare %a, %c {comparison_direction = #chlo<comparison_direction LT>} : "
      "(tensor<3xf32>, tensor<f32>) -> tensor<3xi1>\n"
      "  %k = \"chlo.constant_like\"(%a) {value = 7.0 : f32} : (tensor<3xf32>) -> tensor<3xf32>\n"
      "  %r = chlo.broadcast_select %p, %k, %a : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>",
      "tensor<3xf32>", arguments);
  ASSERT_TRUE(less) << less.error().ToString();
  EXPECT_EQ(std::vector<float>(less->data<float>().begin(), less->data<float>().end()), (std::vector<float>{7, 2, 3}));
}

}  // namespace
}  // namespace krafla
