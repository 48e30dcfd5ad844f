// SPDX-License-Identifier: Apache-2.0
// The loops of reductions against plain ones, at every number of rows and columns around theirs: integers, whose bits
// do not depend on the order, sums of whole numbers, and extrema of floats with NaN and zeros of both signs.
#include "cpu_fallback/kernels/reduce_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "cpu_fallback/kernels/narrow_windows.h"

namespace krafla::cpu {
namespace {

using Kind = plan::Reduction::Kind;
constexpr Kind kKinds[] = {Kind::kSum, Kind::kProduct, Kind::kMax, Kind::kMin, Kind::kAnd, Kind::kOr, Kind::kXor};

template <class T>
T Combined(Kind kind, T x, T y) {
  if constexpr (std::is_floating_point_v<T>) {
    if (kind == Kind::kSum) return x + y;
    if (std::isnan(x) || std::isnan(y)) return std::numeric_limits<T>::quiet_NaN();
    // +0 is larger than -0.
    if (x == y) return std::signbit(x) == (kind == Kind::kMin) ? x : y;
    return (x < y) == (kind == Kind::kMin) ? x : y;
  } else {
    using Word = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    if (kind == Kind::kSum) return static_cast<T>(static_cast<Word>(x) + static_cast<Word>(y));
    if (kind == Kind::kProduct) return static_cast<T>(static_cast<Word>(x) * static_cast<Word>(y));
    if (kind == Kind::kMax) return x > y ? x : y;
    if (kind == Kind::kMin) return x < y ? x : y;
    if (kind == Kind::kAnd) return static_cast<T>(x & y);
    if (kind == Kind::kOr) return static_cast<T>(x | y);
    return static_cast<T>(x ^ y);
  }
}
template <class T>
bool AreSame(T x, T y) {
  if (x != x) return y != y;
  return std::memcmp(&x, &y, sizeof(T)) == 0;
}

template <class T>
class Numbers {
 public:
  std::vector<T> Take(int64_t n, Kind kind) {
    std::vector<T> out(static_cast<std::size_t>(n));
    for (T& v : out) v = Next(kind);
    return out;
  }

 private:
  T Next(Kind kind) {
    seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;
    const uint64_t bits = seed_ >> 8;
    if constexpr (std::is_floating_point_v<T>) {
      if (kind != Kind::kSum && bits % 61 == 0) return std::numeric_limits<T>::quiet_NaN();
      const T whole = static_cast<T>(static_cast<int>(bits % 17) - 8);
      return whole == 0 && bits % 2 == 0 ? -whole : whole;
    } else {
      return static_cast<T>(bits ^ (bits << 24));
    }
  }
  uint64_t seed_ = 7;
};

// in[p][r][c] into [c] or, of one plane, [r].
template <class T>
void CheckFolds(ElementType type, Kind kind) {
  const ReduceOps ops = FindReduceOps(kind, type);
  Numbers<T> numbers;
  for (int64_t planes : {1, 3})
    for (int64_t rows : {1, 2, 3, 4, 5, 6, 11, 150})
      for (int64_t columns = 1; columns <= (rows < 100 ? 300 : 9); columns += columns < 40 ? 1 : 37) {
        SCOPED_TRACE(testing::Message() << static_cast<int>(type) << " kind " << static_cast<int>(kind) << " planes "
                                        << planes << " rows " << rows << " columns " << columns);
        const std::vector<T> in = numbers.Take(planes * rows * columns, kind);
        auto at = [&](int64_t p, int64_t r, int64_t c) {
          return in[static_cast<std::size_t>((p * rows + r) * columns + c)];
        };
        if (ops.columns != nullptr && (rows > 1 || planes == 1)) {
          std::vector<T> out = numbers.Take(columns + 1, kind), expected = out;
          for (int64_t c = 0; c < columns; ++c)
            for (int64_t p = 0; p < planes; ++p)
              for (int64_t r = 0; r < rows; ++r) {
                T& value = expected[static_cast<std::size_t>(c)];
                value = Combined(kind, value, at(p, r, c));
              }
          ops.columns(in.data(), {planes, rows * columns}, rows, columns, out.data());
          for (std::size_t c = 0; c < out.size(); ++c) ASSERT_TRUE(AreSame(out[c], expected[c])) << "column " << c;
        }
        if (ops.rows != nullptr && planes == 1) {
          std::vector<T> out = numbers.Take(rows + 1, kind), expected = out;
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < columns; ++c) {
              T& value = expected[static_cast<std::size_t>(r)];
              value = Combined(kind, value, at(0, r, c));
            }
          ops.rows(in.data(), rows, columns, out.data());
          for (std::size_t r = 0; r < out.size(); ++r) ASSERT_TRUE(AreSame(out[r], expected[r])) << "row " << r;
        }
      }
}

template <class T>
void CheckTiles(ElementType type, Kind kind) {
  const auto tiles = sizeof(T) < 4 ? FindNarrowTiles(kind, type) : FindReduceOps(kind, type).tiles;
  if (tiles == nullptr) return;
  Numbers<T> numbers;
  constexpr int64_t kRows = 3;
  for (int64_t arrays : {1, 3, 4, 8})
    for (int64_t stride : {0, 1, 2, 3, 4, 5})
      for (int64_t columns : {1, 4, 7, 16, 17, 33, 64, 150}) {
        SCOPED_TRACE(testing::Message() << static_cast<int>(type) << " kind " << static_cast<int>(kind) << " arrays "
                                        << arrays << " stride " << stride << " columns " << columns);
        const int64_t row = columns * stride + 1, to_row = columns + 2;
        std::vector<std::vector<T>> in;
        std::vector<const void*> pointers;
        for (int64_t k = 0; k < arrays; ++k)
          in.push_back(numbers.Take((kRows - 1) * row + (columns - 1) * stride + 1, kind));
        for (const std::vector<T>& array : in) pointers.push_back(array.data());
        std::vector<T> out = numbers.Take(kRows * to_row, kind), expected = out;
        for (int64_t r = 0; r < kRows; ++r)
          for (int64_t c = 0; c < columns; ++c)
            for (const std::vector<T>& array : in) {
              T& value = expected[static_cast<std::size_t>(r * to_row + c)];
              value = Combined(kind, value, array[static_cast<std::size_t>(r * row + c * stride)]);
            }
        tiles(pointers.data(), arrays, row, stride, kRows, columns, out.data(), to_row);
        for (std::size_t i = 0; i < out.size(); ++i) ASSERT_TRUE(AreSame(out[i], expected[i])) << "element " << i;
      }
}

template <class T>
void CheckIntegers(ElementType type) {
  for (Kind kind : kKinds) CheckFolds<T>(type, kind), CheckTiles<T>(type, kind);
}
template <class T>
void CheckFloats(ElementType type) {
  for (Kind kind : {Kind::kSum, Kind::kMax, Kind::kMin}) CheckFolds<T>(type, kind), CheckTiles<T>(type, kind);
}

// Many rows, whose bounds tell the extrema or do not: of one sign, of both, nothing but zeros, with a NaN or without.
template <class T>
void CheckBounds(ElementType type, Kind kind) {
  const ReduceOps ops = FindReduceOps(kind, type);
  constexpr int64_t kRows = 37, kColumns = 61;
  for (int lowest : {-6, -3, 0, 1})
    for (int highest : {-1, 0, 3})
      for (int64_t nan_at : {int64_t{-1}, int64_t{0}, 20 * kColumns + 17, kRows * kColumns - 1}) {
        if (highest < lowest) continue;
        SCOPED_TRACE(testing::Message() << static_cast<int>(type) << " kind " << static_cast<int>(kind) << " from "
                                        << lowest << " to " << highest << ", NaN at " << nan_at);
        std::vector<T> in(kRows * kColumns);
        for (std::size_t i = 0; i < in.size(); ++i) {
          const int whole = lowest + static_cast<int>(i * i * 7 % static_cast<std::size_t>(highest - lowest + 1));
          in[i] = whole == 0 && i % 3 == 0 ? -T{0} : static_cast<T>(whole);
        }
        if (nan_at >= 0)
          in[static_cast<std::size_t>(nan_at)] =
              std::copysign(std::numeric_limits<T>::quiet_NaN(), nan_at % 2 ? 1 : -1);
        const T start = kind == Kind::kMax ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::infinity();
        std::vector<T> columns(kColumns, start), rows(kRows, start), want_columns = columns, want_rows = rows;
        for (std::size_t i = 0; i < in.size(); ++i) {
          T &column = want_columns[i % kColumns], &row = want_rows[i / kColumns];
          column = Combined(kind, column, in[i]), row = Combined(kind, row, in[i]);
        }
        ops.columns(in.data(), {1, 0}, kRows, kColumns, columns.data());
        ops.rows(in.data(), kRows, kColumns, rows.data());
        for (std::size_t c = 0; c < kColumns; ++c) ASSERT_TRUE(AreSame(columns[c], want_columns[c])) << "column " << c;
        for (std::size_t r = 0; r < kRows; ++r) ASSERT_TRUE(AreSame(rows[r], want_rows[r])) << "row " << r;
      }
}

TEST(ReduceOps, IntegersOfEveryWidth) {
  CheckIntegers<uint8_t>(ElementType::kU8);
  CheckIntegers<int8_t>(ElementType::kS8);
  CheckIntegers<uint16_t>(ElementType::kU16);
  CheckIntegers<int16_t>(ElementType::kS16);
  CheckIntegers<uint32_t>(ElementType::kU32);
  CheckIntegers<int32_t>(ElementType::kS32);
  CheckIntegers<uint64_t>(ElementType::kU64);
  CheckIntegers<int64_t>(ElementType::kS64);
}
TEST(ReduceOps, Floats) {
  CheckFloats<float>(ElementType::kF32);
  CheckFloats<double>(ElementType::kF64);
}

TEST(ReduceOps, BoundsOfFloats) {
  for (Kind kind : {Kind::kMax, Kind::kMin}) {
    CheckBounds<float>(ElementType::kF32, kind);
    CheckBounds<double>(ElementType::kF64, kind);
  }
}

}  // namespace
}  // namespace krafla::cpu
