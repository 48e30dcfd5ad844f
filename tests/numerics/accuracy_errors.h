// SPDX-License-Identifier: Apache-2.0
// Errors in units of the last place of the truth, and what is counted of them.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>

#include "krafla/status.h"
#include "numerics/formats.h"

namespace krafla::accuracy {

inline constexpr double kWrong = 1e30;  // not a matter of rounding: a NaN, a sign, an infinity

inline bool IsSubnormal(float x) { return x != 0 && std::abs(x) < 0x1p-126f; }
inline float Flushed(float x) { return IsSubnormal(x) ? std::copysign(0.0f, x) : x; }

// A truth below the smallest normal number allows anything from zero to that number of its sign: devices flush. An
// infinity stands for 2^128, so that a result that overflows a little early is judged by its distance.
inline double UlpErrorSlow(float got, double truth) {
  if (truth != truth) return got != got ? 0 : kWrong;
  if (got != got) return kWrong;
  if (truth == 0) return got == 0 && std::signbit(got) == std::signbit(truth) ? 0 : kWrong;
  if (std::signbit(got) != std::signbit(truth)) return kWrong;
  const double size = std::abs(truth), value = std::isinf(got) ? 0x1p128 : std::abs(static_cast<double>(got));
  if (size < 0x1p-126) return value <= 0x1p-126 ? 0 : kWrong;
  if (size >= 0x1p128) return (0x1p128 - value) * 0x1p-104;
  return std::abs(value - size) / std::ldexp(1.0, std::ilogb(size) - 23);
}
inline double UlpError(float got, double truth) {
  const uint64_t bits = std::bit_cast<uint64_t>(truth);
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff);
  const uint32_t mine = std::bit_cast<uint32_t>(got);
  const bool plain = exponent >= 1023 - 126 && exponent < 1023 + 128 && (mine & 0x7f800000u) != 0x7f800000u &&
                     (mine >> 31) == static_cast<uint32_t>(bits >> 63);
  if (!plain) [[unlikely]]
    return UlpErrorSlow(got, truth);
  // 2^(23 - e) of the truth 1.f * 2^e.
  const double per_ulp = std::bit_cast<double>(static_cast<uint64_t>(1023 + 23 + 1023 - exponent) << 52);
  return std::abs(static_cast<double>(got) - truth) * per_ulp;
}

inline double UlpErrorOfDouble(double got, long double truth) {
  if (truth != truth) return got != got ? 0 : kWrong;
  if (got != got) return kWrong;
  const auto nearest = static_cast<double>(truth);
  if (truth == 0) return got == 0 && std::signbit(got) == std::signbit(nearest) ? 0 : kWrong;
  if (std::signbit(got) != std::signbit(nearest)) return kWrong;
  if (std::isinf(nearest) || std::isinf(got)) return got == nearest ? 0 : std::abs(nearest) > 1.79e308 ? 1 : kWrong;
  const long double size = truth < 0 ? -truth : truth;
  if (size < 0x1p-1022L) return std::abs(got) <= 0x1p-1022 ? 0 : kWrong;
  int exponent;
  std::frexp(truth, &exponent);
  const long double off = static_cast<long double>(got) - truth;
  return static_cast<double>((off < 0 ? -off : off) / std::ldexp(1.0L, exponent - 53));
}

struct Tally {
  uint64_t inputs = 0;
  double worst = 0;
  double x = 0, y = 0;  // where
  bool pair = false;
  uint64_t misrounded = 0;  // results that are not the nearest number of the type
  uint64_t flushed = 0;     // subnormal operands that counted as zero
  uint64_t wrong = 0;
  std::string first_wrong;

  std::string Where(bool is_double) const {
    auto text = [&](double v) {
      const char* sign = std::signbit(v) ? "-0x" : "0x";
      return std::string(sign) +
             (is_double ? Format("{:a}", std::abs(v)) : Format("{:a}", static_cast<float>(std::abs(v))));
    };
    return pair ? text(x) + ", " + text(y) : text(x);
  }

  // `truth_of(operand)`: for a subnormal operand, which may count as zero.
  template <class TruthOf>
  void Take(float got, double truth, float operand, TruthOf truth_of) {
    ++inputs;
    double error = UlpError(got, truth);
    if (error > 0.5) [[unlikely]] {
      if (IsSubnormal(operand)) {
        const double other = UlpError(got, truth_of(Flushed(operand)));
        if (other < error) error = other, ++flushed;
      }
      misrounded += error > 0.5;
    }
    if (error > worst) [[unlikely]]
      Worse(error, operand, 0, got, truth);
  }

  void TakePair(float got, double (*truth_of)(double, double), float a, float b) {
    ++inputs;
    pair = true;
    const double truth = truth_of(static_cast<double>(a), static_cast<double>(b));
    double error = UlpError(got, truth);
    if (error > 0.5) [[unlikely]] {
      if (IsSubnormal(a) || IsSubnormal(b)) {
        const double before = error;
        for (float p : {a, Flushed(a)})
          for (float q : {b, Flushed(b)})
            error = std::min(error, UlpError(got, truth_of(static_cast<double>(p), static_cast<double>(q))));
        flushed += error < before;
      }
      misrounded += error > 0.5;
    }
    if (error > worst) [[unlikely]]
      Worse(error, a, b, got, truth);
  }

  // In units of the narrow type. bf16's subnormals are those of f32 and may be flushed, f16's may not.
  template <class TruthOf>
  void TakeNarrow(uint16_t got, bool half, float operand, TruthOf truth_of) {
    ++inputs;
    const MiniFloat& format = half ? kF16Format : kBF16Format;
    auto error_of = [&](double truth) -> double {
      const uint32_t nearest = EncodeMiniFloat(truth, format);
      const float want = DecodeMiniFloat(nearest, format), is = DecodeMiniFloat(got, format);
      if (want != want || is != is) return want != want && is != is ? 0 : kWrong;
      if (nearest == got) return 0;
      if (!half && std::abs(want) <= 0x1p-126f && std::abs(is) <= 0x1p-126f && std::signbit(want) == std::signbit(is))
        return 0;
      if ((nearest ^ got) & format.sign_mask()) return kWrong;
      return std::abs(static_cast<double>(got) - static_cast<double>(nearest));
    };
    double truth = truth_of(operand), error = error_of(truth);
    if (error > 0) {
      if (!half && IsSubnormal(operand)) {
        const double other = error_of(truth_of(Flushed(operand)));
        if (other < error) error = other, ++flushed;
      }
      misrounded += error > 0;
    }
    if (error > worst) Worse(error, operand, 0, DecodeMiniFloat(got, format), truth);
  }

  void TakeDouble(double got, long double truth, double a, double b) {
    ++inputs;
    const double error = UlpErrorOfDouble(got, truth);
    misrounded += error > 0.5;
    if (error > worst) Worse(error, a, b, got, static_cast<double>(truth));
  }

  void Join(const Tally& other) {
    if (other.worst > worst || (other.worst == worst && other.inputs > 0 && inputs == 0))
      worst = other.worst, x = other.x, y = other.y;
    if (wrong == 0) first_wrong = other.first_wrong;
    pair |= other.pair;
    inputs += other.inputs, misrounded += other.misrounded, flushed += other.flushed, wrong += other.wrong;
  }

 private:
  // What is wrong altogether is counted and is not a worst error.
  void Worse(double error, double a, double b, double got, double truth) {
    if (error < kWrong) {
      worst = error, x = a, y = b;
      return;
    }
    if (wrong++ == 0) first_wrong = Format("{:a}, {:a} gives {:a} instead of {:a}", a, b, got, truth);
  }
};

}  // namespace krafla::accuracy
