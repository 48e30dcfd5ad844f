// SPDX-License-Identifier: Apache-2.0
// Transposes of tiles: blocks of 16 bytes of several columns side by side in a vector, whose elements are laid between
// each other; what no block fills is done with a block over again, which takes some elements twice.
#if defined(KRAFLA_CPU_TRANSPOSE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef KRAFLA_CPU_TRANSPOSE_INL
#undef KRAFLA_CPU_TRANSPOSE_INL
#else
#define KRAFLA_CPU_TRANSPOSE_INL
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cpu_fallback/kernels/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The beginnings of steps of `step` that cover `count`, which is at least a step: the last one ends with it.
template <class F>
HWY_INLINE void ForSteps(int64_t count, int64_t step, F&& take) {
  for (int64_t i = 0; i + step <= count; i += step) take(i);
  if (count % step != 0) take(count - step);
}

// Where the columns of what is transposed begin: at even distances, or anywhere.
template <class T>
struct EvenColumns {
  const T* from = nullptr;
  int64_t step = 0;
  HWY_INLINE const T* operator()(int64_t c) const { return from + c * step; }
  // How far behind column 0 memory goes on, where columns of so many rows lie one behind the other.
  HWY_INLINE int64_t Reach(int64_t rows, int64_t columns) const { return step == rows ? rows * columns : 0; }
};
template <class T>
struct AnyColumns {
  const T* from = nullptr;
  const int64_t* places = nullptr;
  HWY_INLINE const T* operator()(int64_t c) const { return from + places[c]; }
  HWY_INLINE int64_t Reach(int64_t, int64_t) const { return 0; }
};

// Where the rows of the result begin.
template <class T>
struct EvenRows {
  T* to = nullptr;
  int64_t step = 0;
  HWY_INLINE T* operator()(int64_t r) const { return to + r * step; }
  // How far apart they are; 0: not the same everywhere.
  HWY_INLINE int64_t Step() const { return step; }
};
template <class T>
struct AnyRows {
  T* to = nullptr;
  const int64_t* places = nullptr;
  int64_t step = 0;
  HWY_INLINE T* operator()(int64_t r) const { return to + places[r]; }
  HWY_INLINE int64_t Step() const { return step; }
};

// kSide elements, or the first `count` of them, from each of kBlocks columns that are kSide apart.
template <class T, std::size_t kSide, std::size_t kBlocks, bool kIsPart, class Columns>
HWY_INLINE hn::Vec<hn::FixedTag<T, kSide * kBlocks>> LoadPieces(Columns from, int64_t c, int64_t row,
                                                                std::size_t count) {
  const hn::FixedTag<T, kSide * kBlocks> d;
  if constexpr (kBlocks == 1 && kIsPart) {
    return hn::LoadN(d, from(c) + row, count);
  } else if constexpr (kBlocks == 1) {
    return hn::LoadU(d, from(c) + row);
  } else {
    constexpr std::size_t kHalf = kBlocks / 2;
    return hn::Combine(d,
                       LoadPieces<T, kSide, kHalf, kIsPart>(from, c + static_cast<int64_t>(kHalf * kSide), row, count),
                       LoadPieces<T, kSide, kHalf, kIsPart>(from, c, row, count));
  }
}

// Transposes the squares that blocks of kSide elements of as many vectors are: lines i and i + half are laid between
// each other, as often as halves go.
template <std::size_t kSide, class D, class V>
HWY_INLINE void TransposeSquares(D d, V (&lines)[kSide]) {
  KRAFLA_UNROLL(16)
  for (std::size_t half = kSide / 2; half > 0; half /= 2) {
    V next[kSide];
    KRAFLA_UNROLL(16)
    for (std::size_t i = 0; i < kSide / 2; ++i) {
      next[2 * i] = hn::InterleaveLower(d, lines[i], lines[i + kSide / 2]);
      next[2 * i + 1] = hn::InterleaveUpper(d, lines[i], lines[i + kSide / 2]);
    }
    KRAFLA_UNROLL(16)
    for (std::size_t i = 0; i < kSide; ++i) lines[i] = next[i];
  }
}

// to[row + r, c + i] = from[row + r, c + i] for kSide rows, of which the first `rows` are there, and kBlocks times as
// many columns.
template <class T, std::size_t kSide, std::size_t kBlocks, bool kIsPart = false, class Columns, class Rows>
HWY_INLINE void TransposeBlock(Columns from, int64_t c, int64_t row, Rows to, std::size_t rows = kSide) {
  const hn::FixedTag<T, kSide * kBlocks> d;
  using V = hn::Vec<decltype(d)>;
  V lines[kSide];
  KRAFLA_UNROLL(16)
  for (std::size_t i = 0; i < kSide; ++i)
    lines[i] = LoadPieces<T, kSide, kBlocks, kIsPart>(from, c + static_cast<int64_t>(i), row, rows);
  TransposeSquares<kSide>(d, lines);
  KRAFLA_UNROLL(16)
  for (std::size_t i = 0; i < kSide; ++i)
    if (i < rows) hn::StoreU(lines[i], d, to(row + static_cast<int64_t>(i)) + c);
}

// Blocks over at least as many rows and columns as one has, a line of the cache of each column at a time.
template <class T, std::size_t kSide, std::size_t kBlocks, class Columns, class Rows>
HWY_INLINE void TransposeBlocks(Columns from, Rows to, int64_t rows, int64_t columns) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t line = 0; line < rows; line += kLine)
    ForSteps(columns, kSide * kBlocks, [&](int64_t c) HWY_ATTR {
      for (int64_t r = line; r < std::min(line + kLine, rows); r += kSide) {
        const int64_t row = std::min<int64_t>(r, rows - static_cast<int64_t>(kSide));
        TransposeBlock<T, kSide, kBlocks>(from, c, row, to);
      }
    });
}

// Fewer rows than a block has: what it reads behind them is the beginning of the next columns, where these lie one
// behind the other, but for the last ones.
template <class T, std::size_t kSide, std::size_t kBlocks, class Columns, class Rows>
HWY_INLINE void TransposeFewRows(Columns from, Rows to, int64_t rows, int64_t columns) {
  constexpr int64_t kWidth = kSide * kBlocks;
  const auto count = static_cast<std::size_t>(rows);
  const int64_t reach = from.Reach(rows, columns);
  ForSteps(columns, kWidth, [&](int64_t c) HWY_ATTR {
    if ((c + kWidth - 1) * rows + static_cast<int64_t>(kSide) <= reach)
      TransposeBlock<T, kSide, kBlocks>(from, c, 0, to, count);
    else TransposeBlock<T, kSide, kBlocks, true>(from, c, 0, to, count);
  });
}

// As many columns as a block has, or fewer where rows lie one behind the other: what a block writes behind its last
// column is the beginning of the next row, which comes after it. The blocks of a vector are rows.
template <class T, std::size_t kSide, std::size_t kBlocks, class Columns, class Rows>
HWY_INLINE void TransposeFewColumns(Columns from, Rows to, int64_t rows, int64_t columns) {
  const hn::FixedTag<T, kSide * kBlocks> d;
  const hn::FixedTag<T, kSide> of_block;
  using V = hn::Vec<decltype(d)>;
  constexpr auto kWidth = static_cast<int64_t>(kSide * kBlocks), kRows = static_cast<int64_t>(kSide);
  // Rows that no block may write.
  const int64_t last = (kRows - 1) / columns;
  ForSteps(rows - last, kWidth, [&](int64_t r) HWY_ATTR {
    V lines[kSide];
    KRAFLA_UNROLL(16)
    for (std::size_t i = 0; i < kSide; ++i)
      lines[i] = hn::LoadU(d, from(std::min(static_cast<int64_t>(i), columns - 1)) + r);
    TransposeSquares<kSide>(d, lines);
    const auto store = [&]<std::size_t kBlock>() HWY_ATTR {
      const int64_t row = r + static_cast<int64_t>(kBlock) * kRows;
      KRAFLA_UNROLL(16)
      for (std::size_t i = 0; i < kSide; ++i)
        hn::StoreU(hn::ExtractBlock<kBlock>(lines[i]), of_block, to(row + static_cast<int64_t>(i)));
    };
    store.template operator()<0>();
    if constexpr (kBlocks > 1) store.template operator()<1>();
    if constexpr (kBlocks > 2) store.template operator()<2>(), store.template operator()<3>();
  });
  for (int64_t i = 0; i < last; ++i) {
    const int64_t r = rows - last + i;
    for (int64_t c = 0; c < columns; ++c) to(r)[c] = from(c)[r];
  }
}

// At most half as many columns as a block has, of rows that lie one behind the other: a block has two rows then, from
// which what is no column is taken out.
template <class T, std::size_t kSide, std::size_t kBlocks, class Columns, class Rows>
HWY_INLINE void TransposeFewestColumns(Columns from, Rows to, int64_t rows, int64_t columns) {
  constexpr std::size_t kHalf = kSide / 2;
  const hn::FixedTag<T, kSide * kBlocks> d;
  const hn::FixedTag<T, kSide> of_block;
  const hn::Repartition<uint8_t, decltype(d)> d8;
  using V = hn::Vec<decltype(d)>;
  constexpr auto kWidth = static_cast<int64_t>(kSide * kBlocks), kRows = static_cast<int64_t>(kSide);
  alignas(16) uint8_t pattern[16] = {};
  const auto row_bytes = static_cast<std::size_t>(columns) * sizeof(T);
  for (std::size_t i = 0; i < 2 * row_bytes; ++i)
    pattern[i] = static_cast<uint8_t>(i < row_bytes ? i : i - row_bytes + 8);
  const auto dense = hn::LoadDup128(d8, pattern);
  // Rows that no block may write.
  const int64_t last = (kRows - 1) / columns;
  ForSteps(rows - last, kWidth, [&](int64_t r) HWY_ATTR {
    V lines[kHalf];
    KRAFLA_UNROLL(16)
    for (std::size_t i = 0; i < kHalf; ++i)
      lines[i] = hn::LoadU(d, from(std::min(static_cast<int64_t>(i), columns - 1)) + r);
    TransposeSquares<kHalf>(d, lines);
    KRAFLA_UNROLL(16)
    for (std::size_t i = 0; i < kHalf; ++i)
      lines[i] = hn::BitCast(d, hn::TableLookupBytes(hn::BitCast(d8, lines[i]), dense));
    const auto store = [&]<std::size_t kBlock>() HWY_ATTR {
      const int64_t row = r + static_cast<int64_t>(kBlock) * kRows;
      KRAFLA_UNROLL(16)
      for (std::size_t i = 0; i < kHalf; ++i)
        hn::StoreU(hn::ExtractBlock<kBlock>(lines[i]), of_block, to(row + static_cast<int64_t>(2 * i)));
    };
    store.template operator()<0>();
    if constexpr (kBlocks > 1) store.template operator()<1>();
    if constexpr (kBlocks > 2) store.template operator()<2>(), store.template operator()<3>();
  });
  for (int64_t i = 0; i < last; ++i) {
    const int64_t r = rows - last + i;
    for (int64_t c = 0; c < columns; ++c) to(r)[c] = from(c)[r];
  }
}

#if HWY_MAX_BYTES >= 32
// Squares of four by four elements of 8 bytes, four of them at a time so that whole cache lines are read and written.
template <class Columns, class Rows>
HWY_INLINE void TransposeWide(Columns from, Rows to, int64_t rows, int64_t columns) {
  const hn::FixedTag<uint64_t, 4> d;
  using V = hn::Vec<decltype(d)>;
  const auto square = [&](int64_t row, int64_t c) HWY_ATTR {
    const V a = hn::LoadU(d, from(c) + row), b = hn::LoadU(d, from(c + 1) + row);
    const V e = hn::LoadU(d, from(c + 2) + row), f = hn::LoadU(d, from(c + 3) + row);
    const V even_low = hn::InterleaveLower(d, a, b), odd_low = hn::InterleaveUpper(d, a, b);
    const V even_high = hn::InterleaveLower(d, e, f), odd_high = hn::InterleaveUpper(d, e, f);
    hn::StoreU(hn::ConcatLowerLower(d, even_high, even_low), d, to(row) + c);
    hn::StoreU(hn::ConcatLowerLower(d, odd_high, odd_low), d, to(row + 1) + c);
    hn::StoreU(hn::ConcatUpperUpper(d, even_high, even_low), d, to(row + 2) + c);
    hn::StoreU(hn::ConcatUpperUpper(d, odd_high, odd_low), d, to(row + 3) + c);
  };
  for (int64_t row = 0; row < rows; row += 8)
    for (int64_t c = 0; c < columns; c += 8)
      for (int64_t r = row; r < std::min(row + 8, rows); r += 4)
        for (int64_t k = c; k < std::min(c + 8, columns); k += 4)
          square(std::min(r, rows - 4), std::min(k, columns - 4));
}
#endif

// Elements of up to four bytes; gives whether it has done them.
template <class T, class Columns, class Rows>
HWY_INLINE bool TransposeByBlocks(Columns from, Rows to, int64_t rows, int64_t columns) {
  constexpr std::size_t kSide = 16 / sizeof(T), kBlocks = HWY_MAX_BYTES >= 64 ? 4 : HWY_MAX_BYTES >= 32 ? 2 : 1;
  constexpr auto kRows = static_cast<int64_t>(kSide);
  if (rows < kRows && columns >= kRows * static_cast<int64_t>(kBlocks) &&
      (from.Reach(rows, columns) > 0 || HWY_MAX_BYTES >= 64)) {
    TransposeFewRows<T, kSide, kBlocks>(from, to, rows, columns);
    return true;
  }
  // Rows are left for as many blocks.
  if constexpr (sizeof(T) == 1) {
    if (columns > 4 && 2 * columns <= kRows && columns == to.Step() &&
        rows >= kRows * (static_cast<int64_t>(kBlocks) + 1)) {
      TransposeFewestColumns<T, kSide, kBlocks>(from, to, rows, columns);
      return true;
    }
  }
  // Two are what native code lays between each other.
  if (columns > 2 && columns <= kRows && (columns == to.Step() || columns == kRows) &&
      rows >= kRows * (static_cast<int64_t>(kBlocks) + 1)) {
    TransposeFewColumns<T, kSide, kBlocks>(from, to, rows, columns);
    return true;
  }
  const auto take = [&]<std::size_t kRowsOfBlock, std::size_t kBlocksOfVector>() HWY_ATTR {
    if (rows < static_cast<int64_t>(kRowsOfBlock) || columns < static_cast<int64_t>(kRowsOfBlock * kBlocksOfVector))
      return false;
    TransposeBlocks<T, kRowsOfBlock, kBlocksOfVector>(from, to, rows, columns);
    return true;
  };
  if (take.template operator()<kSide, kBlocks>()) return true;
  if constexpr (kBlocks == 4)
    if (take.template operator()<kSide, 2>()) return true;
  if constexpr (kBlocks >= 2)
    if (take.template operator()<kSide, 1>()) return true;
  if constexpr (sizeof(T) <= 2)
    if (take.template operator()<kSide / 2, 1>()) return true;
  if constexpr (sizeof(T) == 1)
    if (take.template operator()<kSide / 4, 1>()) return true;
  return false;
}

// Two to four arrays laid between each other, the coordinates of points or the channels of pixels: as many columns that
// are dense in `to`. The last rows are done with a vector that has some of those before again. Returns how many rows
// are done.
template <int kColumns, class D, class T, class Columns>
int64_t InterleaveBy(D d, Columns from, T* to, int64_t rows) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (rows < lanes) return 0;
  ForSteps(rows, lanes, [&](int64_t r) HWY_ATTR {
    const auto load = [&](int64_t c) HWY_ATTR { return hn::LoadU(d, from(c) + r); };
    const auto a = load(0), b = load(1);
    if constexpr (kColumns == 2) hn::StoreInterleaved2(a, b, d, to + 2 * r);
    else if constexpr (kColumns == 3) hn::StoreInterleaved3(a, b, load(2), d, to + 3 * r);
    else hn::StoreInterleaved4(a, b, load(2), load(3), d, to + 4 * r);
  });
  return rows;
}
template <class T, int kColumns, class Columns>
int64_t Interleave(Columns from, T* to, int64_t rows) {
  const int64_t done = InterleaveBy<kColumns>(hn::ScalableTag<T>(), from, to, rows);
  return done > 0 ? done : InterleaveBy<kColumns>(hn::CappedTag<T, 16 / sizeof(T)>(), from, to, rows);
}
template <class T, class Columns>
int64_t InterleaveColumns(Columns from, T* to, int64_t rows, int64_t columns) {
  if (columns == 2) return Interleave<T, 2>(from, to, rows);
  if (columns == 3) return Interleave<T, 3>(from, to, rows);
  return Interleave<T, 4>(from, to, rows);
}

// to(r)[c] = from(c)[r].
template <class T, class Columns, class Rows>
HWY_INLINE void TransposeColumns(Columns from, Rows to, int64_t rows, int64_t columns) {
  if (columns >= 2 && columns <= 4 && columns == to.Step()) {
    for (int64_t r = InterleaveColumns<T>(from, to(0), rows, columns); r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) to(r)[c] = from(c)[r];
    return;
  }
  if constexpr (sizeof(T) <= 4) {
    if (TransposeByBlocks<T>(from, to, rows, columns)) return;
  } else if constexpr (HWY_MAX_BYTES >= 32) {
    if (rows >= 4 && columns >= 4) return TransposeWide(from, to, rows, columns);
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) to(r)[c] = from(c)[r];
}

// Two to four arrays taken apart: as TransposeTile of kRows rows that are dense in `from`. Returns how many columns are
// done.
template <int kRows, class D, class T>
int64_t DeinterleaveBy(D d, const T* from, T* to, int64_t to_row, int64_t columns) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (columns < lanes) return 0;
  ForSteps(columns, lanes, [&](int64_t c) HWY_ATTR {
    [[maybe_unused]] hn::Vec<D> x, y, z, w;
    if constexpr (kRows == 2) hn::LoadInterleaved2(d, from + 2 * c, x, y);
    else if constexpr (kRows == 3) hn::LoadInterleaved3(d, from + 3 * c, x, y, z);
    else hn::LoadInterleaved4(d, from + 4 * c, x, y, z, w);
    hn::StoreU(x, d, to + c);
    hn::StoreU(y, d, to + to_row + c);
    if constexpr (kRows >= 3) hn::StoreU(z, d, to + 2 * to_row + c);
    if constexpr (kRows == 4) hn::StoreU(w, d, to + 3 * to_row + c);
  });
  return columns;
}
template <class T, int kRows>
int64_t Deinterleave(const T* from, T* to, int64_t to_row, int64_t columns) {
  const int64_t done = DeinterleaveBy<kRows>(hn::ScalableTag<T>(), from, to, to_row, columns);
  return done > 0 ? done : DeinterleaveBy<kRows>(hn::CappedTag<T, 16 / sizeof(T)>(), from, to, to_row, columns);
}

// from is dense along rows (row stride 1), to along columns: to[r * to_row + c] = from[r + c * from_column].
template <class T>
void TransposeTile(const T* from, int64_t from_column, T* to, int64_t to_row, int64_t rows, int64_t columns) {
  if (rows == from_column && rows >= 2 && rows <= 4) {
    int64_t c = rows == 2   ? Deinterleave<T, 2>(from, to, to_row, columns)
                : rows == 3 ? Deinterleave<T, 3>(from, to, to_row, columns)
                            : Deinterleave<T, 4>(from, to, to_row, columns);
    for (; c < columns; ++c)
      for (int64_t k = 0; k < rows; ++k) to[k * to_row + c] = from[k + c * from_column];
    return;
  }
  TransposeColumns<T>(EvenColumns<T>{from, from_column}, EvenRows<T>{to, to_row}, rows, columns);
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
