// SPDX-License-Identifier: Apache-2.0
// Decimal numbers as std::from_chars reads them, whatever the locale; the standard library of LLVM before 20, which
// Android and Apple have, knows it for integers alone.
#pragma once

#include <charconv>

namespace krafla {

// The same by the functions of C, for decimal numbers without a sign.
std::from_chars_result ParseFloatByC(const char* begin, const char* end, float& value);
std::from_chars_result ParseFloatByC(const char* begin, const char* end, double& value);

template <typename T>
std::from_chars_result ParseFloat(const char* begin, const char* end, T& value) {
#ifdef __cpp_lib_to_chars
  return std::from_chars(begin, end, value);
#else
  return ParseFloatByC(begin, end, value);
#endif
}

}  // namespace krafla
