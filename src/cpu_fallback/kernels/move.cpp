// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/move.h"

#include <algorithm>
#include <cstring>

#include "cpu_fallback/kernels/unroll.h"
#include "krafla/status.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/move.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef KRAFLA_CPU_MOVE_TABLE
#define KRAFLA_CPU_MOVE_TABLE
namespace krafla::cpu {
struct MoveTable {
  void (*tile)(const std::byte*, TileStrides, std::byte*, TileStrides, int64_t, int64_t);
  void (*tile_masked)(const std::byte*, TileStrides, std::byte*, const uint8_t*, int64_t, int64_t);
  void (*put_masked)(const std::byte*, std::byte*, TileStrides, const uint8_t*, int64_t, int64_t);
  void (*fill)(const std::byte*, std::byte*, int64_t);
  void (*gather)(const std::byte*, const int32_t*, const uint8_t*, std::byte*, int64_t);
  void (*scatter)(const std::byte*, std::byte*, const int32_t*, const uint8_t*, int64_t);
};
}  // namespace krafla::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// to[c, r] = from[r, c], both dense along their second index, for as many rows and columns as kBytes hold: rows i and
// i + half laid between each other, as often as halves go.
template <class T, std::size_t kBytes>
HWY_INLINE void TransposeBlock(const T* from, int64_t from_row, T* to, int64_t to_row) {
  constexpr std::size_t kSide = kBytes / sizeof(T);
  const hn::FixedTag<T, kSide> d;
  using V = hn::Vec<decltype(d)>;
  V rows[kSide];
  KRAFLA_UNROLL(16)
  for (std::size_t i = 0; i < kSide; ++i) rows[i] = hn::LoadU(d, from + static_cast<int64_t>(i) * from_row);
  KRAFLA_UNROLL(16)
  for (std::size_t half = kSide / 2; half > 0; half /= 2) {
    V next[kSide];
    KRAFLA_UNROLL(16)
    for (std::size_t i = 0; i < kSide / 2; ++i) {
      next[2 * i] = hn::InterleaveLower(d, rows[i], rows[i + kSide / 2]);
      next[2 * i + 1] = hn::InterleaveUpper(d, rows[i], rows[i + kSide / 2]);
    }
    KRAFLA_UNROLL(16)
    for (std::size_t i = 0; i < kSide; ++i) rows[i] = next[i];
  }
  KRAFLA_UNROLL(16)
  for (std::size_t i = 0; i < kSide; ++i) hn::StoreU(rows[i], d, to + static_cast<int64_t>(i) * to_row);
}
// Blocks of kBytes over the rows from `r` on and all columns that fill one; the rest number by number. Returns the
// first row that is not done.
template <class T, std::size_t kBytes>
HWY_INLINE int64_t TransposeBlocks(const T* from, int64_t from_column, T* to, int64_t to_row, int64_t r, int64_t rows,
                                   int64_t columns) {
  constexpr int64_t kSide = kBytes / sizeof(T);
  const int64_t last_row = r + (rows - r) / kSide * kSide, last_column = columns / kSide * kSide;
  const auto block = [&](int64_t row, int64_t c) HWY_ATTR {
    TransposeBlock<T, kBytes>(from + row + c * from_column, from_column, to + row * to_row + c, to_row);
  };
  // Along the side whose lines are further apart, so that each is done with before it leaves the cache.
  if (from_column >= to_row) {
    for (int64_t c = 0; c < last_column; c += kSide)
      for (int64_t row = r; row < last_row; row += kSide) block(row, c);
  } else {
    for (int64_t row = r; row < last_row; row += kSide)
      for (int64_t c = 0; c < last_column; c += kSide) block(row, c);
  }
  for (int64_t c = last_column; c < columns; ++c)
    for (int64_t row = r; row < last_row; ++row) to[row * to_row + c] = from[row + c * from_column];
  return last_row;
}

// Three or four arrays laid between each other, the coordinates of points or the channels of pixels, and taken apart:
// as TransposeTile of kColumns columns that are dense in `to`, and of kRows rows that are dense in `from`. Return how
// many of the other side's elements are done.
template <class T, int kColumns>
int64_t Interleave(const T* from, int64_t from_column, T* to, int64_t rows) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t r = 0;
  for (; r + lanes <= rows; r += lanes) {
    const auto a = hn::LoadU(d, from + r), b = hn::LoadU(d, from + from_column + r),
               c = hn::LoadU(d, from + 2 * from_column + r);
    if constexpr (kColumns == 3) hn::StoreInterleaved3(a, b, c, d, to + 3 * r);
    else hn::StoreInterleaved4(a, b, c, hn::LoadU(d, from + 3 * from_column + r), d, to + 4 * r);
  }
  return r;
}
template <class T, int kRows>
int64_t Deinterleave(const T* from, T* to, int64_t to_row, int64_t columns) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + lanes <= columns; c += lanes) {
    [[maybe_unused]] hn::Vec<decltype(d)> x, y, z, w;
    if constexpr (kRows == 3) hn::LoadInterleaved3(d, from + 3 * c, x, y, z);
    else hn::LoadInterleaved4(d, from + 4 * c, x, y, z, w);
    hn::StoreU(x, d, to + c);
    hn::StoreU(y, d, to + to_row + c);
    hn::StoreU(z, d, to + 2 * to_row + c);
    if constexpr (kRows == 4) hn::StoreU(w, d, to + 3 * to_row + c);
  }
  return c;
}

#if HWY_MAX_BYTES >= 32
// Four elements of every fourth column, one behind the other.
template <std::size_t kElements, class D = hn::FixedTag<uint32_t, kElements>>
HWY_INLINE hn::Vec<D> LoadPieces(const uint32_t* from, int64_t from_column) {
  if constexpr (kElements == 4) {
    return hn::LoadU(D(), from);
  } else {
    return hn::Combine(D(),
                       LoadPieces<kElements / 2>(from + static_cast<int64_t>(kElements / 2) * from_column, from_column),
                       LoadPieces<kElements / 2>(from, from_column));
  }
}
// Squares of elements of 4 bytes whose sides are a vector: whole cache lines are read and written, where they are 64
// bytes. Returns the first row that is not done.
inline int64_t TransposeWords(const uint32_t* from, int64_t from_column, uint32_t* to, int64_t to_row, int64_t rows,
                              int64_t columns) {
  constexpr int64_t kSide = HWY_MAX_BYTES >= 64 ? 16 : 8;
  const hn::FixedTag<uint32_t, kSide> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t last_row = rows / kSide * kSide, last_column = columns / kSide * kSide;
  const auto pieces = [&](const uint32_t* at) HWY_ATTR { return LoadPieces<kSide>(at, from_column); };
  const auto square = [&](int64_t row, int64_t c) HWY_ATTR {
    for (int64_t r = row; r < row + kSide; r += 4) {
      const uint32_t* at = from + r + c * from_column;
      const V a = pieces(at), b = pieces(at + from_column), e = pieces(at + 2 * from_column),
              f = pieces(at + 3 * from_column);
      const V even_low = hn::InterleaveLower(d, a, e), even_high = hn::InterleaveUpper(d, a, e);
      const V odd_low = hn::InterleaveLower(d, b, f), odd_high = hn::InterleaveUpper(d, b, f);
      uint32_t* out = to + r * to_row + c;
      hn::StoreU(hn::InterleaveLower(d, even_low, odd_low), d, out);
      hn::StoreU(hn::InterleaveUpper(d, even_low, odd_low), d, out + to_row);
      hn::StoreU(hn::InterleaveLower(d, even_high, odd_high), d, out + 2 * to_row);
      hn::StoreU(hn::InterleaveUpper(d, even_high, odd_high), d, out + 3 * to_row);
    }
  };
  for (int64_t row = 0; row < last_row; row += kSide)
    for (int64_t c = 0; c < last_column; c += kSide) square(row, c);
  if (last_column < columns)
    TransposeBlocks<uint32_t, 16>(from + last_column * from_column, from_column, to + last_column, to_row, 0, last_row,
                                  columns - last_column);
  return last_row;
}

// Squares of four by four elements of 8 bytes, four of them at a time so that whole cache lines are read and written.
// Returns the first row that is not done.
inline int64_t TransposeWide(const uint64_t* from, int64_t from_column, uint64_t* to, int64_t to_row, int64_t rows,
                             int64_t columns) {
  const hn::FixedTag<uint64_t, 4> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t last_row = rows / 4 * 4, last_column = columns / 4 * 4;
  const auto square = [&](int64_t row, int64_t c) HWY_ATTR {
    const uint64_t* at = from + row + c * from_column;
    const V a = hn::LoadU(d, at), b = hn::LoadU(d, at + from_column);
    const V e = hn::LoadU(d, at + 2 * from_column), f = hn::LoadU(d, at + 3 * from_column);
    const V even_low = hn::InterleaveLower(d, a, b), odd_low = hn::InterleaveUpper(d, a, b);
    const V even_high = hn::InterleaveLower(d, e, f), odd_high = hn::InterleaveUpper(d, e, f);
    uint64_t* out = to + row * to_row + c;
    hn::StoreU(hn::ConcatLowerLower(d, even_high, even_low), d, out);
    hn::StoreU(hn::ConcatLowerLower(d, odd_high, odd_low), d, out + to_row);
    hn::StoreU(hn::ConcatUpperUpper(d, even_high, even_low), d, out + 2 * to_row);
    hn::StoreU(hn::ConcatUpperUpper(d, odd_high, odd_low), d, out + 3 * to_row);
  };
  for (int64_t row = 0; row < last_row; row += 8)
    for (int64_t c = 0; c < last_column; c += 8)
      for (int64_t r = row; r < std::min(row + 8, last_row); r += 4)
        for (int64_t k = c; k < std::min(c + 8, last_column); k += 4) square(r, k);
  for (int64_t c = last_column; c < columns; ++c)
    for (int64_t row = 0; row < last_row; ++row) to[row * to_row + c] = from[row + c * from_column];
  return last_row;
}
#endif

// from is dense along rows (row stride 1), to along columns: to[r * to_row + c] = from[r + c * from_column].
template <class T>
void TransposeTile(const T* from, int64_t from_column, T* to, int64_t to_row, int64_t rows, int64_t columns) {
  constexpr int64_t kSide = 16 / sizeof(T);
  int64_t r = 0;
  if (columns == to_row && (columns == 3 || columns == 4)) {
    r = columns == 3 ? Interleave<T, 3>(from, from_column, to, rows) : Interleave<T, 4>(from, from_column, to, rows);
    for (; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) to[r * to_row + c] = from[r + c * from_column];
    return;
  }
  if (rows == from_column && (rows == 3 || rows == 4)) {
    int64_t c =
        rows == 3 ? Deinterleave<T, 3>(from, to, to_row, columns) : Deinterleave<T, 4>(from, to, to_row, columns);
    for (; c < columns; ++c)
      for (int64_t k = 0; k < rows; ++k) to[k * to_row + c] = from[k + c * from_column];
    return;
  }
#if HWY_MAX_BYTES >= 32
  if constexpr (sizeof(T) == 8)
    if (columns >= 4) r = TransposeWide(from, from_column, to, to_row, rows, columns);
  if constexpr (sizeof(T) == 4) r = TransposeWords(from, from_column, to, to_row, rows, columns);
#endif
  if (columns >= kSide) r = TransposeBlocks<T, 16>(from, from_column, to, to_row, r, rows, columns);
  if constexpr (sizeof(T) <= 2) r = TransposeBlocks<T, 8>(from, from_column, to, to_row, r, rows, columns);
  for (; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) to[r * to_row + c] = from[r + c * from_column];
}

// Rows too short for memcpy's first look at them.
template <class T>
void CopyRows(const T* from, int64_t from_row, T* to, int64_t to_row, int64_t rows, int64_t columns) {
  constexpr int64_t kShortBytes = 512;
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const bool is_short = columns * static_cast<int64_t>(sizeof(T)) <= kShortBytes;
  for (int64_t r = 0; r < rows; ++r, from += from_row, to += to_row) {
    if (!is_short) {
      std::memcpy(to, from, static_cast<std::size_t>(columns) * sizeof(T));
      continue;
    }
    int64_t c = 0;
    for (; c + lanes <= columns; c += lanes) hn::StoreU(hn::LoadU(d, from + c), d, to + c);
    // The last vector once more what lies before the rest: masked stores take several times as long.
    if (c < columns && c > 0) hn::StoreU(hn::LoadU(d, from + columns - lanes), d, to + columns - lanes);
    else if (c < columns)
      hn::StoreN(hn::LoadN(d, from, static_cast<std::size_t>(columns)), d, to, static_cast<std::size_t>(columns));
  }
}

// A column spread over the columns.
template <class T>
void Splat(T value, T* to, int64_t count) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto all = hn::Set(d, value);
  int64_t c = 0;
  for (; c + lanes <= count; c += lanes) hn::StoreU(all, d, to + c);
  for (; c < count; ++c) to[c] = value;
}

// Every second, third or fourth element: the parts of complex numbers, coordinates of points, channels of pixels. The
// last element is read alone: what follows it may be outside the array.
template <class T, int kStride>
void EveryNth(const T* from, T* to, int64_t count) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + lanes < count; c += lanes) {
    [[maybe_unused]] V first, other[3];
    const T* at = from + kStride * c;
    if constexpr (kStride == 2) hn::LoadInterleaved2(d, at, first, other[0]);
    if constexpr (kStride == 3) hn::LoadInterleaved3(d, at, first, other[0], other[1]);
    if constexpr (kStride == 4) hn::LoadInterleaved4(d, at, first, other[0], other[1], other[2]);
    hn::StoreU(first, d, to + c);
  }
  for (; c < count; ++c) to[c] = from[kStride * c];
}
// from[0], from[-1], ...
template <class T>
void Backwards(const T* from, T* to, int64_t count) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + lanes <= count; c += lanes) hn::StoreU(hn::Reverse(d, hn::LoadU(d, from - c - lanes + 1)), d, to + c);
  for (; c < count; ++c) to[c] = from[-c];
}

constexpr int64_t kShortRow = 16;  // elements
template <class T>
void MoveTileOf(const std::byte* from_bytes, TileStrides fs, std::byte* to_bytes, TileStrides ts, int64_t rows,
                int64_t columns) {
  const T* from = reinterpret_cast<const T*>(from_bytes);
  T* to = reinterpret_cast<T*>(to_bytes);
  if (fs.column == 1 && ts.column == 1) {
    if (rows > 1 && fs.row == columns && ts.row == columns) {
      std::memcpy(to, from, static_cast<std::size_t>(rows * columns) * sizeof(T));
      return;
    }
    CopyRows(from, fs.row, to, ts.row, rows, columns);
    return;
  }
  if (fs.column == 0 && ts.column == 1) {
    // Short rows, each of one element as often: the transpose of a line that lies everywhere.
    if (fs.row == 1 && columns <= kShortRow && rows > 1) {
      TransposeTile(from, 0, to, ts.row, rows, columns);
      return;
    }
    for (int64_t r = 0; r < rows; ++r) Splat(from[r * fs.row], to + r * ts.row, columns);
    return;
  }
  if (fs.row == 1 && ts.column == 1 && rows > 1) {
    TransposeTile(from, fs.column, to, ts.row, rows, columns);
    return;
  }
  // The same with the roles of rows and columns exchanged.
  if (fs.column == 1 && ts.row == 1 && rows > 1) {
    TransposeTile(from, fs.row, to, ts.column, columns, rows);
    return;
  }
  for (int64_t r = 0; r < rows; ++r) {
    const T* a = from + r * fs.row;
    T* b = to + r * ts.row;
    if (ts.column == 1 && fs.column == 2) {
      EveryNth<T, 2>(a, b, columns);
    } else if (ts.column == 1 && fs.column == 3) {
      EveryNth<T, 3>(a, b, columns);
    } else if (ts.column == 1 && fs.column == 4) {
      EveryNth<T, 4>(a, b, columns);
    } else if (ts.column == 1 && fs.column == -1) {
      Backwards(a, b, columns);
    } else if (ts.column == 1) {
      for (int64_t c = 0; c < columns; ++c) b[c] = a[c * fs.column];
    } else {
      for (int64_t c = 0; c < columns; ++c) b[c * ts.column] = a[c * fs.column];
    }
  }
}

template <class T>
void MoveTileMaskedOf(const std::byte* from_bytes, TileStrides fs, std::byte* to_bytes, const uint8_t* mask,
                      int64_t rows, int64_t columns) {
  const T* from = reinterpret_cast<const T*>(from_bytes);
  T* to = reinterpret_cast<T*>(to_bytes);
  const hn::ScalableTag<T> d;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < rows; ++r, mask += columns, to += columns) {
    int64_t c = 0;
    // Pads: vectors that are wholly inside or wholly outside.
    for (; fs.column == 1 && c + lanes <= columns; c += lanes) {
      const auto outside = hn::Eq(hn::LoadU(d8, mask + c), hn::Zero(d8));
      if (hn::AllFalse(d8, outside)) {
        hn::StoreU(hn::LoadU(d, from + r * fs.row + c), d, to + c);
      } else if (hn::AllTrue(d8, outside)) {
        hn::StoreU(hn::Zero(d), d, to + c);
      } else {
        for (int64_t k = c; k < c + lanes; ++k) {
          to[k] = T{};
          if (mask[k] != 0) to[k] = from[r * fs.row + k];
        }
      }
    }
    for (; c < columns; ++c) {
      to[c] = T{};
      if (mask[c] != 0) to[c] = from[r * fs.row + c * fs.column];
    }
  }
}
template <class T>
void PutTileMaskedOf(const std::byte* from_bytes, std::byte* to_bytes, TileStrides ts, const uint8_t* mask,
                     int64_t rows, int64_t columns) {
  const T* from = reinterpret_cast<const T*>(from_bytes);
  T* to = reinterpret_cast<T*>(to_bytes);
  for (int64_t r = 0; r < rows; ++r, mask += columns, from += columns)
    for (int64_t c = 0; c < columns; ++c)
      if (mask[c] != 0) to[r * ts.row + c * ts.column] = from[c];
}
template <class T>
void FillOf(const std::byte* value, std::byte* to, int64_t n) {
  T v;
  std::memcpy(&v, value, sizeof(T));
  std::fill_n(reinterpret_cast<T*>(to), n, v);
}
template <class T>
void GatherOf(const std::byte* from_bytes, const int32_t* index, const uint8_t* mask, std::byte* to_bytes, int64_t n) {
  const T* from = reinterpret_cast<const T*>(from_bytes);
  T* to = reinterpret_cast<T*>(to_bytes);
  if (mask == nullptr) {
    // Rows of a table, windows: neighbours lie side by side.
    const hn::ScalableTag<int32_t> d;
    constexpr std::size_t kLanes = hn::MaxLanes(d);
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto steps = hn::Iota(d, 0);
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      const int32_t first = index[i];
      if (index[i + lanes - 1] - first == lanes - 1 &&
          hn::AllTrue(d, hn::Eq(hn::Sub(hn::LoadU(d, index + i), hn::Set(d, first)), steps))) {
        std::memcpy(to + i, from + first, kLanes * sizeof(T));
        continue;
      }
      for (int64_t k = i; k < i + lanes; ++k) to[k] = from[index[k]];
    }
    for (; i < n; ++i) to[i] = from[index[i]];
    return;
  }
  for (int64_t i = 0; i < n; ++i) to[i] = mask[i] != 0 ? from[index[i]] : T{};
}
template <class T>
void ScatterOf(const std::byte* from_bytes, std::byte* to_bytes, const int32_t* index, const uint8_t* mask, int64_t n) {
  const T* from = reinterpret_cast<const T*>(from_bytes);
  T* to = reinterpret_cast<T*>(to_bytes);
  for (int64_t i = 0; i < n; ++i)
    if (mask == nullptr || mask[i] != 0) to[index[i]] = from[i];
}

template <class T>
inline constexpr MoveTable kMoves = {&MoveTileOf<T>, &MoveTileMaskedOf<T>, &PutTileMaskedOf<T>,
                                     &FillOf<T>,     &GatherOf<T>,         &ScatterOf<T>};

const MoveTable* FindMoves(int width) {
  switch (width) {
    case 1: return &kMoves<uint8_t>;
    case 2: return &kMoves<uint16_t>;
    case 4: return &kMoves<uint32_t>;
    case 8: return &kMoves<uint64_t>;
    default: KRAFLA_UNREACHABLE();
  }
}

int MaskStateOf(const uint8_t* mask, int64_t n) {
  const hn::ScalableTag<uint8_t> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto zero = hn::Zero(d);
  int64_t i = 0;
  const bool first = mask[0] != 0;
  for (; i + lanes <= n; i += lanes) {
    const auto off = hn::Eq(hn::LoadU(d, mask + i), zero);
    if (first ? !hn::AllFalse(d, off) : !hn::AllTrue(d, off)) return -1;
  }
  for (; i < n; ++i)
    if ((mask[i] != 0) != first) return -1;
  return first ? 1 : 0;
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindMoves);
HWY_EXPORT(MaskStateOf);

void MoveTile(int width, const std::byte* from, TileStrides from_strides, std::byte* to, TileStrides to_strides,
              int64_t rows, int64_t columns) {
  HWY_DYNAMIC_DISPATCH(FindMoves)(width)->tile(from, from_strides, to, to_strides, rows, columns);
}
void MoveTileMasked(int width, const std::byte* from, TileStrides from_strides, std::byte* to, const uint8_t* mask,
                    int64_t rows, int64_t columns) {
  HWY_DYNAMIC_DISPATCH(FindMoves)(width)->tile_masked(from, from_strides, to, mask, rows, columns);
}
void PutTileMasked(int width, const std::byte* from, std::byte* to, TileStrides to_strides, const uint8_t* mask,
                   int64_t rows, int64_t columns) {
  HWY_DYNAMIC_DISPATCH(FindMoves)(width)->put_masked(from, to, to_strides, mask, rows, columns);
}
void Fill(int width, const std::byte* value, std::byte* to, int64_t n) {
  HWY_DYNAMIC_DISPATCH(FindMoves)(width)->fill(value, to, n);
}
void GatherElements(int width, const std::byte* from, const int32_t* index, const uint8_t* mask, std::byte* to,
                    int64_t n) {
  HWY_DYNAMIC_DISPATCH(FindMoves)(width)->gather(from, index, mask, to, n);
}
void ScatterElements(int width, const std::byte* from, std::byte* to, const int32_t* index, const uint8_t* mask,
                     int64_t n) {
  HWY_DYNAMIC_DISPATCH(FindMoves)(width)->scatter(from, to, index, mask, n);
}
int MaskState(const uint8_t* mask, int64_t n) { return n == 0 ? 1 : HWY_DYNAMIC_DISPATCH(MaskStateOf)(mask, n); }

}  // namespace krafla::cpu
#endif
