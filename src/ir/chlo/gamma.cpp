// SPDX-License-Identifier: Apache-2.0
// The gamma function's relatives, by Lanczos' approximation ("A Precision Approximation of the Gamma Function", SIAM
// Journal on Numerical Analysis B 1), and Hurwitz' zeta function by the Euler-Maclaurin formula (Johansson, "Rigorous
// high-precision computation of the Hurwitz zeta function", arXiv 1309.2877, formula 5).
#include <cmath>
#include <limits>
#include <numbers>

#include "ir/chlo/functions.h"

namespace krafla::chlo {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Lanczos' g = 7 with nine coefficients.
constexpr double kG = 7, kBase = 0.99999999999980993227684700473478;
constexpr double kLanczos[] = {676.520368121885098567009190444019, -1259.13921672240287047156078755283,
                               771.3234287776530788486528258894,   -176.61502916214059906584551354,
                               12.507343278686904814458936853,     -0.13857109526572011689554707,
                               9.984369578019570859563e-6,         1.50563273514931155834e-7};

// (2k)! / B2k for k from 12 down to 1, where B are Bernoulli's numbers.
constexpr double kZetaTerms[] = {-7.1661652561756670113e18,
                                 1.8152105401943546773e17,
                                 -4.5979787224074726105e15,
                                 1.1646782814350067249e14,
                                 -2.950130727918164224e12,
                                 7.47242496e10,
                                 -1.8924375803183791606e9,
                                 47900160.0,
                                 -1209600.0,
                                 30240.0,
                                 -720.0,
                                 12.0};

// x < 1/2 is reflected: z + 1 is the number whose function the approximation gives.
struct Argument {
  Expr reflected, z, t, log_t;
};

Argument ArgumentOf(Expr x) {
  Argument out;
  out.reflected = x < 0.5;
  out.z = Select(out.reflected, -x, x - 1);
  out.t = (kG + 0.5) + out.z;
  // log1p keeps digits where the logarithm of a device has few.
  out.log_t = std::log(kG + 0.5) + Log1p(out.z / (kG + 0.5));
  return out;
}

double SmallestNumber(ElementType type) {
  return type == ElementType::kF64 ? std::numeric_limits<double>::denorm_min()
                                   : static_cast<double>(std::numeric_limits<float>::denorm_min());
}

}  // namespace

Expr Lgamma(Expr x) {
  const auto [reflected, z, t, log_t] = ArgumentOf(x);
  Expr a = x.Like(kBase);
  for (std::size_t i = 0; i < std::size(kLanczos); ++i) a = a + kLanczos[i] / (z + static_cast<double>(i + 1));
  // (z + 1/2) log t - t, so that a large t does not reach infinity before its time.
  const Expr r = (z + 0.5 - t / log_t) * log_t;
  const Expr direct = (std::log(2.0) + std::log(std::numbers::pi)) / 2 + r + Log(a);
  // lgamma(x) = log(pi) - lgamma(1 - x) - log |sin(pi x)|: the sine has the period 1 and is symmetric about 1/2.
  const Expr size = Abs(x);
  Expr fraction = size - Floor(size);
  fraction = Select(x.Like(0.5) < fraction, 1 - fraction, fraction);
  const Expr log_sine = Log(Sin(std::numbers::pi * fraction));
  const Expr mirrored = std::log(std::numbers::pi) - log_sine - direct;
  // At the poles the sine's logarithm decides: infinity less infinity would be NaN.
  const Expr below = Select(IsFinite(log_sine), mirrored, -log_sine);
  return Select(Equal(size, kInfinity), x.Like(kInfinity), Select(reflected, below, direct));
}

Expr Digamma(Expr x) {
  const auto [reflected, z, t, log_t] = ArgumentOf(x);
  Expr a = x.Like(kBase), slope = x.Like(0);
  for (std::size_t i = 0; i < std::size(kLanczos); ++i) {
    const Expr term = z + static_cast<double>(i + 1);
    slope = slope - kLanczos[i] / (term * term);
    a = a + kLanczos[i] / term;
  }
  const Expr direct = log_t + slope / a - kG / t;
  // digamma(x) = digamma(1 - x) - pi cot(pi x), x brought near 0 first: pi x would lose digits.
  const Expr reduced = std::numbers::pi * (x + Abs(Floor(x + 0.5)));
  const Expr mirrored = direct - std::numbers::pi * Cos(reduced) / Sin(reduced);
  const Expr pole = (x <= 0) & Equal(x, Floor(x));
  return Select(pole, x.Like(kNaN), Select(reflected, mirrored, direct));
}

Expr Zeta(Expr x, Expr q) {
  constexpr int kSummed = 9;
  constexpr std::size_t kTerms = std::size(kZetaTerms);
  const Expr minus_x = -x;
  Expr acc = q, power = Power(q, minus_x), sum = power;
  for (int i = 0; i < kSummed; ++i) {
    acc = acc + 1;
    power = Power(acc, minus_x);
    sum = sum + power;
  }
  acc = acc + 1;
  power = Power(acc, minus_x);
  const Expr integral = power * acc / (x - 1);
  const Expr inverse_square = 1 / (acc * acc);
  Expr horner = x.Like(0);
  for (std::size_t i = 0; i + 1 < kTerms; ++i) {
    const auto n = static_cast<double>(2 * kTerms - 2 - 2 * i);
    horner = (x + n) * (x + (n - 1)) * (inverse_square * (horner + 1 / kZetaTerms[i]));
  }
  const Expr tail = power * (0.5 + x / acc * (1 / kZetaTerms[kTerms - 1] + horner));
  const Expr accurate = sum + integral + tail;
  const double smallest = x.value == nullptr ? 0 : SmallestNumber(x.value->shape().element_type());
  Expr out = Select(Abs(power) < Abs(sum) * smallest, sum, accurate);
  // Below 1 there is none; for q <= 0 x must be an integer, and an integer q is a pole.
  const Expr nan = x.Like(kNaN), inf = x.Like(kInfinity);
  out = Select(x < 1, nan, out);
  const Expr low = q <= 0, whole = Equal(x, Floor(x));
  out = Select(low & Differ(x, Floor(x)), nan, out);
  const Expr even = whole & Equal(Remainder(x, x.Like(2)), 0);
  out = Select(low & Equal(q, Floor(q)), Select(even, inf, nan), out);
  return Select(Equal(x, 1), inf, out);
}

Expr Polygamma(Expr n, Expr x) {
  const Expr sign = 2 * Remainder(n, n.Like(2)) - 1, next = n + 1;
  const Expr positive = sign * Exp(Lgamma(next)) * Zeta(next, x);
  const Expr out = Select(Equal(n, 0), Digamma(x), positive);
  return Select(Differ(n, Floor(n)) | (n < 0), x.Like(kNaN), out);
}

}  // namespace krafla::chlo
