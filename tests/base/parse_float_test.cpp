// SPDX-License-Identifier: Apache-2.0
#include "base/parse_float.h"

#include <gtest/gtest.h>

#include <bit>
#include <string_view>

namespace krafla {
namespace {

template <typename T, typename Bits>
void Compare(std::string_view text) {
  T expected = 7, got = 7;
  const auto want = std::from_chars(text.data(), text.data() + text.size(), expected);
  const auto have = ParseFloatByC(text.data(), text.data() + text.size(), got);
  EXPECT_EQ(want.ptr, have.ptr) << text;
  EXPECT_EQ(want.ec, have.ec) << text;
  EXPECT_EQ(std::bit_cast<Bits>(expected), std::bit_cast<Bits>(got)) << text;
}

TEST(ParseFloat, FunctionsOfCGiveTheSame) {
  for (std::string_view text : {"0",
                                "1",
                                "1.5",
                                ".5",
                                "5.",
                                "1e10",
                                "1e",
                                "1e+",
                                "1e+2x",
                                "1.2.3",
                                "",
                                ".",
                                "e5",
                                "x",
                                "3.4028235e38",
                                "0.1",
                                "123456789012345678901234567890",
                                "1e-5",
                                "2.2250738585072014e-308",
                                "16777217",
                                "1.17549435e-38",
                                "1e400"}) {
    Compare<double, uint64_t>(text);
    Compare<float, uint32_t>(text);
  }
}

}  // namespace
}  // namespace krafla
