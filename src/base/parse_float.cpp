// SPDX-License-Identifier: Apache-2.0
#include "base/parse_float.h"

#include <clocale>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>

namespace krafla {
namespace {

// Behind the longest decimal number at the beginning; `begin` where there is none.
const char* EndOfNumber(const char* begin, const char* end) {
  const auto skip_digits = [&](const char* at) {
    while (at < end && *at >= '0' && *at <= '9') ++at;
    return at;
  };
  const char* at = skip_digits(begin);
  auto digits = at - begin;
  if (at < end && *at == '.') {
    const char* const fraction = at + 1;
    at = skip_digits(fraction);
    digits += at - fraction;
  }
  if (digits == 0) return begin;
  if (at < end && (*at == 'e' || *at == 'E')) {
    const char* exponent = at + 1;
    if (exponent < end && (*exponent == '+' || *exponent == '-')) ++exponent;
    if (const char* const stop = skip_digits(exponent); stop > exponent) at = stop;
  }
  return at;
}

float Read(const char* text, float) { return std::strtof(text, nullptr); }
double Read(const char* text, double) { return std::strtod(text, nullptr); }

template <typename T>
std::from_chars_result ByC(const char* begin, const char* end, T& value) {
  const char* const stop = EndOfNumber(begin, end);
  if (stop == begin) return {begin, std::errc::invalid_argument};
  std::string text(begin, stop);
  // The locale's sign stands between the digits.
  if (const std::size_t point = text.find('.'); point != std::string::npos)
    text.replace(point, 1, std::localeconv()->decimal_point);
  const T read = Read(text.c_str(), T());
  const std::string_view mantissa = std::string_view(text).substr(0, text.find_first_of("eE"));
  const bool too_small = read == 0 && mantissa.find_first_of("123456789") != std::string_view::npos;
  if (too_small || std::isinf(read)) return {stop, std::errc::result_out_of_range};
  value = read;
  return {stop, std::errc()};
}

}  // namespace

std::from_chars_result ParseFloatByC(const char* begin, const char* end, float& value) {
  return ByC(begin, end, value);
}
std::from_chars_result ParseFloatByC(const char* begin, const char* end, double& value) {
  return ByC(begin, end, value);
}

}  // namespace krafla
