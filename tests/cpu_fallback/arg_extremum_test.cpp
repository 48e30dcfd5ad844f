// SPDX-License-Identifier: Apache-2.0
// argmax and argmin by their own loop, beside the combiner.
#include "cpu_fallback/executor/arg_extremum.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "program_fixture.h"

namespace krafla {
namespace {

struct ArgCase {
  std::string type, direction;
  int64_t rows, columns;
  bool is_wide = false;    // indices of 64 bits
  bool is_across = false;  // a row's elements lie a row's length apart
};

// As JAX writes them, over x * scale: many elements are equal.
std::string ArgProgram(const ArgCase& c, bool gives_value) {
  const std::string t = c.type, rows = "[" + std::to_string(c.rows) + "]";
  const std::string all = "[" + std::to_string(c.is_across ? c.columns : c.rows) + "," +
                          std::to_string(c.is_across ? c.rows : c.columns) + "]";
  const bool is_float = t[0] == 'f' || t == "bf16";
  const std::string i = c.is_wide ? "s64" : "s32", along = c.is_across ? "0" : "1";
  const std::string low = is_float ? (c.direction == "GT" ? "-inf" : "inf") : "0";
  const std::string takes = is_float ? "or(gt, ne)" : "or(gt, gt)";
  return "HloModule m\narg { v = " + t + "[] parameter(0)\n  i = " + i + "[] parameter(1)\n  w = " + t +
         "[] parameter(2)\n  j = " + i + "[] parameter(3)\n  gt = pred[] compare(v, w), direction=" + c.direction +
         "\n  ne = pred[] compare(v, v), direction=NE\n  takes = pred[] " + takes +
         "\n  eq = pred[] compare(v, w), direction=EQ\n  lt = pred[] compare(i, j), direction=LT\n  tie = pred[] "
         "and(eq, lt)\n  moves = pred[] or(takes, tie)\n  r = " +
         t + "[] select(takes, v, w)\n  s = " + i + "[] select(moves, i, j)\n  ROOT q = (" + t + "[], " + i +
         "[]) tuple(r, s) }\nENTRY e {\n  n = s32" + all + " parameter(0)\n  k = s32[] constant(37)\n  ks = s32" + all +
         " broadcast(k), dimensions={}\n  m = s32" + all + " remainder(n, ks)\n  mm = s32" + all +
         " multiply(m, m)\n  ml = s32" + all + " remainder(mm, ks)\n  x = " + t + all + " convert(ml)\n  at = " + i +
         all + " iota(), iota_dimension=" + along + "\n  z = " + t + "[] constant(" + low + ")\n  o = " + i +
         "[] constant(0)\n  r = (" + t + rows + ", " + i + rows + ") reduce(x, at, z, o), dimensions={" + along +
         "}, to_apply=arg\n  " + (gives_value ? "ROOT r0" : "r0") + " = " + t + rows +
         " get-tuple-element(r), index=0\n  " + (gives_value ? "r1" : "ROOT r1") + " = " + i + rows +
         " get-tuple-element(r), index=1\n}\n";
}

// The same by plain C++.
template <class Index>
void ExpectArgs(const ArgCase& c) {
  auto executable = CompileFor(NativeUse::kWorthwhile, ArgProgram(c, false));
  ASSERT_TRUE(executable) << executable.error().ToString();
  Result<> status;
  const auto got = Results(**executable, kUnlimited, status);
  ASSERT_TRUE(status) << status.error().ToString();
  const auto n = ArgumentsOf((*executable)->plan())[0];
  for (int64_t row = 0; row < c.rows; ++row) {
    int64_t best = c.direction == "GT" ? -1 : 1000;
    Index where = 0, found = 0;
    if (c.type[0] != 'f' && c.type != "bf16") best = 0;  // what the reduction begins with
    for (int64_t column = 0; column < c.columns; ++column) {
      int32_t x;
      std::memcpy(&x, n.data() + (c.is_across ? column * c.rows + row : row * c.columns + column) * 4, 4);
      x = x % 37 * (x % 37) % 37;
      if (c.type == "pred") x = x != 0;
      if (c.direction == "GT" ? x > best : x < best) best = x, where = static_cast<Index>(column);
    }
    std::memcpy(&found, got[0].data() + row * static_cast<int64_t>(sizeof(Index)), sizeof(Index));
    EXPECT_EQ(found, where) << c.type << " " << c.direction << " row " << row << " of " << c.columns;
  }
}

TEST(ArgExtremum, FindsTheFirst) {
  for (const char* direction : {"GT", "LT"})
    for (int64_t columns : {17, 33, 64, 100, 1000, 5000}) {
      for (const char* type : {"f32", "s32", "u32", "pred", "bf16", "s8"})
        ExpectArgs<int32_t>({type, direction, 21, columns});
      for (const char* type : {"f64", "s64", "u64", "f32", "s32", "u8"})
        for (int64_t rows : {21, 100}) {
          for (bool is_across : {false, true}) {
            ExpectArgs<int64_t>({type, direction, rows, columns, true, is_across});
            ExpectArgs<int32_t>({type, direction, rows, columns, false, is_across});
          }
        }
    }
}

// A NaN anywhere is left to the combiner, and nothing is written then.
TEST(ArgExtremum, LoopRefusesNansAlone) {
  const auto largest = cpu::FindArgExtremumRows(true, ElementType::kF32, ElementType::kS32);
  ASSERT_NE(largest, nullptr);
  for (std::size_t n : {1u, 5u, 16u, 37u, 64u, 200u}) {
    std::vector<float> values(n, 1.0f);
    std::vector<int32_t> places(n);
    for (std::size_t i = 0; i < n; ++i) places[i] = static_cast<int32_t>(i);
    for (std::size_t at = 0; at < n; ++at) {
      float value = -INFINITY;
      int32_t place = 0;
      values[at] = 2;
      EXPECT_TRUE(largest(values.data(), places.data(), static_cast<int64_t>(n), &value, &place));
      EXPECT_EQ(place, static_cast<int32_t>(at));
      EXPECT_EQ(value, 2);
      values[at] = NAN, value = 7, place = 3;
      EXPECT_FALSE(largest(values.data(), places.data(), static_cast<int64_t>(n), &value, &place));
      EXPECT_EQ(value, 7);
      EXPECT_EQ(place, 3);
      values[at] = 1;
    }
  }
}

// Of equal values the least index wins, in whatever order indices lie, and so may the pair that is there already.
template <class Index>
void ExpectLeastIndex(ElementType type, int64_t n, double before, Index before_at) {
  const auto smallest = cpu::FindArgExtremumRows(false, ElementType::kF64, type);
  ASSERT_NE(smallest, nullptr);
  std::vector<double> values;
  std::vector<Index> places;
  double value = before, want = before;
  Index at = before_at, want_at = before_at;
  for (int64_t i = 0; i < n; ++i) {
    values.push_back(static_cast<double>((i * 5 + 3) % 7));
    places.push_back(static_cast<Index>(n - i));
    if (values.back() < want || (values.back() == want && places.back() < want_at)) want_at = places.back();
    want = std::min(want, values.back());
  }
  ASSERT_TRUE(smallest(values.data(), places.data(), n, &value, &at));
  EXPECT_EQ(value, want) << n << " from " << before;
  EXPECT_EQ(at, want_at) << n << " from " << before;
}
TEST(ArgExtremum, LeastIndexWins) {
  for (int64_t n : {3, 31, 32, 33, 95, 300})
    for (double before : {9.0, 0.0, -1.0})
      for (int at : {0, 1000}) {
        ExpectLeastIndex<int32_t>(ElementType::kS32, n, before, at);
        ExpectLeastIndex<int64_t>(ElementType::kS64, n, before, at);
      }
}

// Which of two zeros an extremum is depends on the order, and somebody may read it.
TEST(ArgExtremum, LoopRefusesZerosOfBothSigns) {
  const auto smallest = cpu::FindArgExtremumRows(false, ElementType::kF32, ElementType::kS32);
  ASSERT_NE(smallest, nullptr);
  for (std::size_t n : {2u, 16u, 37u, 64u, 200u}) {
    std::vector<int32_t> places(n);
    for (std::size_t i = 0; i < n; ++i) places[i] = static_cast<int32_t>(i);
    for (float zero : {0.0f, -0.0f}) {
      std::vector<float> values(n, 1.0f);
      values[1] = zero;
      float value = INFINITY;
      int32_t place = 0;
      ASSERT_TRUE(smallest(values.data(), places.data(), static_cast<int64_t>(n), &value, &place)) << n;
      EXPECT_EQ(place, 1);
      EXPECT_EQ(std::signbit(value), std::signbit(zero)) << n;
      value = -zero, place = 7;
      EXPECT_FALSE(smallest(values.data(), places.data(), static_cast<int64_t>(n), &value, &place)) << n;
      values[n - 1] = -zero, value = INFINITY;
      EXPECT_EQ(smallest(values.data(), places.data(), static_cast<int64_t>(n), &value, &place), n == 2) << n;
      values[0] = -1, value = INFINITY;
      EXPECT_TRUE(smallest(values.data(), places.data(), static_cast<int64_t>(n), &value, &place)) << n;
      EXPECT_EQ(value, -1);
    }
  }
}

// A row at a time beside each other: the first NaN wins, and of equal values the least index.
TEST(ArgExtremum, ColumnsAreTheCombiner) {
  constexpr int64_t kRows = 9, kColumns = 37;
  for (bool is_largest : {false, true}) {
    const auto run = cpu::FindArgExtremumColumns(is_largest, ElementType::kF32, ElementType::kS64);
    ASSERT_NE(run, nullptr);
    std::vector<float> values(kRows * kColumns), best(kColumns, is_largest ? -INFINITY : INFINITY);
    std::vector<int64_t> places(kRows * kColumns), place(kColumns, 0);
    for (std::size_t k = 0; k < values.size(); ++k) {
      values[k] = k % 41 == 0 ? NAN : k % 17 == 0 ? -0.0f : static_cast<float>(k * k % 5);
      places[k] = static_cast<int64_t>(k * 7 % 19) << 33;
    }
    std::vector<float> want = best;
    std::vector<int64_t> want_place = place;
    for (std::size_t k = 0; k < values.size(); ++k) {
      const std::size_t c = k % kColumns;
      const float x = values[k];
      const bool stays = (is_largest ? want[c] > x : want[c] < x) || want[c] != want[c];
      const bool is_tie = want[c] == x && want_place[c] < places[k];
      if (!stays && !is_tie) want_place[c] = places[k];
      if (!stays) want[c] = x;
    }
    run(values.data(), places.data(), kRows, kColumns, best.data(), place.data());
    EXPECT_EQ(std::memcmp(best.data(), want.data(), sizeof(float) * kColumns), 0);
    EXPECT_EQ(place, want_place);
  }
}

// What a window of a select-and-scatter selects, by its formula: equals, NaNs, indices that say that there is nothing,
// and pairs that do not come in order.
template <class T>
void ExpectSelected(ElementType type) {
  constexpr std::size_t kRows = 7, kColumns = 37;
  const auto holds = [](ComparisonDirection direction, T a, T b) {
    if (direction == ComparisonDirection::kGe) return a >= b;
    if (direction == ComparisonDirection::kGt) return a > b;
    return direction == ComparisonDirection::kLe ? a <= b : a < b;
  };
  for (const auto direction :
       {ComparisonDirection::kGe, ComparisonDirection::kGt, ComparisonDirection::kLe, ComparisonDirection::kLt}) {
    const auto run = cpu::FindSelectedPairs(direction, type, ElementType::kS32);
    ASSERT_NE(run, nullptr);
    std::vector<T> values(kRows * kColumns), best(kColumns);
    std::vector<int32_t> places(kRows * kColumns), place(kColumns, -1);
    for (std::size_t k = 0; k < values.size(); ++k) {
      values[k] = static_cast<T>(k * k % 5);
      if constexpr (std::is_floating_point_v<T>)
        if (k % 11 == 0) values[k] = std::numeric_limits<T>::quiet_NaN();
      places[k] = k % 7 == 0 ? -1 : static_cast<int32_t>(k * 29 % 83);
    }
    std::vector<T> want = best;
    std::vector<int32_t> want_place = place;
    for (std::size_t k = 0; k < values.size(); ++k) {
      const std::size_t c = k % kColumns;
      const bool in_order = want_place[c] <= places[k];
      const T first = in_order ? want[c] : values[k], second = in_order ? values[k] : want[c];
      const int32_t first_at = std::min(want_place[c], places[k]), second_at = std::max(want_place[c], places[k]);
      const bool stays = first_at >= 0 && holds(direction, first, second);
      want[c] = stays ? first : second, want_place[c] = stays ? first_at : second_at;
    }
    run(values.data(), places.data(), kRows, kColumns, best.data(), place.data());
    EXPECT_EQ(std::memcmp(best.data(), want.data(), sizeof(T) * kColumns), 0) << static_cast<int>(direction);
    EXPECT_EQ(place, want_place) << static_cast<int>(direction);
  }
}
TEST(ArgExtremum, SelectsAsWindowsDo) {
  ExpectSelected<float>(ElementType::kF32);
  ExpectSelected<double>(ElementType::kF64);
  ExpectSelected<int32_t>(ElementType::kS32);
  ExpectSelected<uint32_t>(ElementType::kU32);
  ExpectSelected<int64_t>(ElementType::kS64);
  ExpectSelected<uint64_t>(ElementType::kU64);
  EXPECT_EQ(cpu::FindSelectedPairs(ComparisonDirection::kEq, ElementType::kF32, ElementType::kS32), nullptr);
  EXPECT_EQ(cpu::FindSelectedPairs(ComparisonDirection::kGe, ElementType::kF32, ElementType::kS64), nullptr);
}

// Of the patterns that look alike only that of argmax and argmin has the loop.
TEST(ArgExtremum, IsTheCombinerOfArgmaxAlone) {
  const auto loop = [](const std::string& text) {
    auto executable = CompileFor(NativeUse::kWorthwhile, text);
    EXPECT_TRUE(executable) << executable.error().ToString();
    const auto& body = std::get<plan::ReduceKernel>((*executable)->plan().kernels.at(0).body);
    return cpu::FindArgExtremum(body.stages[0].reductions[0]);
  };
  const std::string text = ArgProgram({"f32", "GT", 40, 200}, false);
  EXPECT_NE(loop(text), nullptr);
  for (const auto& [was, is] : {std::pair{"direction=LT\n  tie", "direction=GT\n  tie"},
                                {"and(eq, lt)", "or(eq, lt)"},
                                {"or(takes, tie)", "or(gt, tie)"},
                                {"select(takes, v, w)", "select(takes, w, v)"},
                                {"direction=NE", "direction=EQ"}}) {
    std::string other = text;
    const std::size_t at = other.find(was);
    ASSERT_NE(at, std::string::npos) << was;
    other.replace(at, std::string(was).size(), is);
    EXPECT_EQ(loop(other), nullptr) << is;
  }
}

}  // namespace
}  // namespace krafla
