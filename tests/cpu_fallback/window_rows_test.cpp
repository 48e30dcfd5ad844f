// SPDX-License-Identifier: Apache-2.0
// Windows over rows of few columns, several dimensions of which are a vector together (executor/window_rows.h), beside
// what a loop over all of a window's elements gives.
#include <algorithm>
#include <functional>
#include <type_traits>

#include "program_fixture.h"

namespace krafla {
namespace {

struct Pool {
  const char* combiner;
  int64_t rows, columns, channels;
  int64_t height, width;  // of the window
  int64_t row_step, column_step;
  int64_t top, left, bottom, right;  // padding
  bool is_negated = false;           // so that results are not stored as they are summed
};

// Of integers in two's complement, whose lowest number is its own negative.
template <class T>
T Negated(T x) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(x));
  else return -x;
}

// Numbers of ArgumentsOf, reduced as the type does it: integers as words of which the low bits count.
template <class T>
std::vector<T> Expected(const Pool& p, const std::vector<T>& in, T outside, const std::function<T(T, T)>& combine) {
  const int64_t height = (p.rows + p.top + p.bottom - p.height) / p.row_step + 1,
                width = (p.columns + p.left + p.right - p.width) / p.column_step + 1;
  std::vector<T> out;
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x)
        for (int64_t c = 0; c < p.channels; ++c) {
          T sum = outside;
          for (int64_t a = 0; a < p.height; ++a)
            for (int64_t b = 0; b < p.width; ++b) {
              const int64_t row = y * p.row_step + a - p.top, column = x * p.column_step + b - p.left;
              if (row < 0 || row >= p.rows || column < 0 || column >= p.columns) continue;
              sum = combine(sum,
                            in[static_cast<std::size_t>(((n * p.rows + row) * p.columns + column) * p.channels + c)]);
            }
          out.push_back(p.is_negated ? Negated(sum) : sum);
        }
  return out;
}

template <class T>
void Check(const char* type, const Pool& p, const char* init, T outside, const std::function<T(T, T)>& combine) {
  const std::string t = type, scalar = t + "[]";
  const auto list = [](std::initializer_list<int64_t> numbers, const char* between) {
    std::string out;
    for (int64_t n : numbers) out += (out.empty() ? "" : between) + std::to_string(n);
    return out;
  };
  const auto pad = [](int64_t low, int64_t high) { return std::to_string(low) + "_" + std::to_string(high); };
  const std::vector<std::byte> none;
  const std::string result = t + "[" +
                             list({2, (p.rows + p.top + p.bottom - p.height) / p.row_step + 1,
                                   (p.columns + p.left + p.right - p.width) / p.column_step + 1, p.channels},
                                  ",") +
                             "]";
  const std::string text =
      "HloModule m\nf { a = " + scalar + " parameter(0)\n  b = " + scalar + " parameter(1)\n  ROOT r = " + scalar +
      " " + p.combiner + "(a, b) }\nENTRY e {\n  x = " + t + "[" + list({2, p.rows, p.columns, p.channels}, ",") +
      "] parameter(0)\n  z = " + scalar + " constant(" + init + ")\n  " + (p.is_negated ? "w" : "ROOT w") + " = " +
      result + " reduce-window(x, z), window={size=1x" + list({p.height, p.width}, "x") + "x1 stride=1x" +
      list({p.row_step, p.column_step}, "x") + "x1 pad=0_0x" + pad(p.top, p.bottom) + "x" + pad(p.left, p.right) +
      "x0_0}, to_apply=f\n" + (p.is_negated ? "  ROOT n = " + result + " negate(w)\n" : "") + "}\n";
  auto executable = CompileFor(NativeUse::kWorthwhile, text);
  ASSERT_TRUE(executable) << executable.error().ToString() << text;
  const std::vector<std::vector<std::byte>> arguments = ArgumentsOf((*executable)->plan());
  std::vector<T> in(arguments[0].size() / sizeof(T));
  std::memcpy(in.data(), arguments[0].data(), arguments[0].size());
  Result<> status;
  const auto results = Results(**executable, kUnlimited, status);
  ASSERT_TRUE(status) << status.error().ToString();
  std::vector<T> got(results[0].size() / sizeof(T));
  std::memcpy(got.data(), results[0].data(), results[0].size());
  EXPECT_EQ(got, Expected<T>(p, in, outside, combine)) << text;
}

template <class T>
void CheckKinds(const char* type, Pool p, const char* lowest, const char* highest, T low, T high) {
  for (bool is_negated : {false, true}) {
    p.is_negated = is_negated;
    p.combiner = "add";
    Check<T>(type, p, "0", T{0}, [](T a, T b) { return static_cast<T>(a + b); });
    p.combiner = "maximum";
    Check<T>(type, p, lowest, low, [](T a, T b) { return std::max(a, b); });
    p.combiner = "minimum";
    Check<T>(type, p, highest, high, [](T a, T b) { return std::min(a, b); });
  }
}

// A number of f16, of which any NaN is as good as another one.
struct Half {
  uint16_t bits = 0;
  bool IsNan() const { return (bits & 0x7fff) > 0x7c00; }
  int Order() const { return (bits & 0x8000) != 0 ? -(bits & 0x7fff) - 1 : bits; }
  Half operator-() const { return {static_cast<uint16_t>(bits ^ 0x8000)}; }
  bool operator==(const Half& other) const { return bits == other.bits || (IsNan() && other.IsNan()); }
};

// The bits that numbers have here go through infinity and NaNs to negative ones.
void CheckHalfExtrema(Pool p) {
  const auto extremum = [](bool is_largest) {
    return [is_largest](Half a, Half b) {
      if (a.IsNan() || b.IsNan()) return Half{0x7e00};
      return (a.Order() < b.Order()) == is_largest ? b : a;
    };
  };
  for (bool is_negated : {false, true}) {
    p.is_negated = is_negated;
    p.combiner = "maximum";
    Check<Half>("f16", p, "-inf", Half{0xfc00}, extremum(true));
    p.combiner = "minimum";
    Check<Half>("f16", p, "inf", Half{0x7c00}, extremum(false));
  }
}

// Rows of a vector and of several, several rows of one, windows one and more apart, that lie inside, over an edge, and
// outside wholly.
TEST(WindowRows, KindsAndTypes) {
  constexpr float kFar = 1e30f;
  for (const Pool& p : {Pool{"", 401, 4, 3, 2, 4, 1, 3, 0, 1, 1, 2}, Pool{"", 335, 2, 3, 3, 2, 3, 1, 0, 0, 0, 1},
                        Pool{"", 90, 24, 3, 7, 4, 3, 2, 2, 1, 2, 1}, Pool{"", 70, 12, 21, 4, 4, 1, 3, 1, 0, 2, 1},
                        Pool{"", 1200, 1, 3, 4, 1, 2, 1, 5, 0, 3, 0}, Pool{"", 13, 144, 3, 2, 3, 1, 1, 0, 1, 1, 1},
                        Pool{"", 29, 40, 1, 3, 4, 3, 2, 0, 1, 1, 2}, Pool{"", 393, 1, 16, 7, 1, 2, 1, 3, 0, 3, 0},
                        Pool{"", 42, 12, 8, 2, 4, 2, 3, 0, 0, 0, 0}}) {
    SCOPED_TRACE(std::to_string(p.rows) + " " + std::to_string(p.columns));
    CheckKinds<uint8_t>("u8", p, "0", "255", 0, 255);
    CheckKinds<int8_t>("s8", p, "-128", "127", -128, 127);
    CheckKinds<int16_t>("s16", p, "-32768", "32767", -32768, 32767);
    CheckKinds<int32_t>("s32", p, "-2147483648", "2147483647", INT32_MIN, INT32_MAX);
    CheckKinds<int64_t>("s64", p, "-4000000000", "4000000000", -4000000000, 4000000000);
    CheckKinds<float>("f32", p, "-1e30", "1e30", -kFar, kFar);
    CheckKinds<double>("f64", p, "-1e30", "1e30", -1e30, 1e30);
    CheckHalfExtrema(p);
  }
}

// Sums over long rows, which are convolutions with ones (executor/window_sums.h): several rows at once and one, padding
// on each side and on one, a window that is larger than the picture, and steps, of which sums are made one by one.
TEST(WindowRows, SumsOverLongRows) {
  for (const Pool& p : {Pool{"add", 41, 37, 1, 5, 5, 1, 1, 2, 2, 2, 2}, Pool{"add", 12, 300, 1, 3, 3, 1, 1, 0, 2, 1, 0},
                        Pool{"add", 1, 500, 1, 1, 7, 1, 1, 0, 6, 0, 0}, Pool{"add", 6, 40, 1, 7, 5, 1, 1, 3, 2, 3, 2},
                        Pool{"add", 30, 64, 1, 5, 3, 2, 2, 2, 1, 2, 1}, Pool{"add", 4, 33, 1, 9, 3, 1, 1, 7, 4, 7, 4}})
    for (bool is_negated : {false, true}) {
      Pool pool = p;
      pool.is_negated = is_negated;
      SCOPED_TRACE(std::to_string(p.rows) + " " + std::to_string(p.columns));
      Check<float>("f32", pool, "0", 0, [](float a, float b) { return a + b; });
      Check<double>("f64", pool, "0", 0, [](double a, double b) { return a + b; });
    }
}

}  // namespace
}  // namespace krafla
