// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/move.h"

#include <algorithm>
#include <cstring>

#include "krafla/status.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/move.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu_fallback/kernels/transpose-inl.h"

#ifndef KRAFLA_CPU_MOVE_TABLE
#define KRAFLA_CPU_MOVE_TABLE
namespace krafla::cpu {
struct MoveTable {
  void (*tile)(const std::byte*, TileStrides, std::byte*, TileStrides, int64_t, int64_t);
  void (*columns)(const std::byte*, const int64_t*, std::byte*, const TransposedRows&, int64_t, int64_t);
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

// Calls use(d) with the tag of the largest vector of whole elements that `bytes` has room for, of a vector's size or a
// power of two below it.
template <class T, std::size_t kBytes = HWY_MAX_BYTES, class Use>
HWY_INLINE void WithVectorOf(int64_t bytes, Use&& use) {
  if constexpr (kBytes <= sizeof(T)) {
    use(hn::CappedTag<T, 1>());
  } else if (bytes >= static_cast<int64_t>(kBytes)) {
    use(hn::CappedTag<T, kBytes / sizeof(T)>());
  } else {
    WithVectorOf<T, kBytes / 2>(bytes, use);
  }
}

// Rows too short for memcpy's first look at them, and for the instruction that it copies longer ones with. The last
// vector of a row takes once more what lies before the rest: masked stores take several times as long.
template <class T>
void CopyRows(const T* from, int64_t from_row, T* to, int64_t to_row, int64_t rows, int64_t columns) {
  constexpr int64_t kShortBytes = 8192;
  const int64_t bytes = columns * static_cast<int64_t>(sizeof(T));
  if (bytes > kShortBytes) {
    for (int64_t r = 0; r < rows; ++r, from += from_row, to += to_row)
      std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return;
  }
  WithVectorOf<T>(bytes, [&](auto d) HWY_ATTR {
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const int64_t last = columns - lanes;
    for (int64_t r = 0; r < rows; ++r, from += from_row, to += to_row) {
      for (int64_t c = 0; c < last; c += lanes) hn::StoreU(hn::LoadU(d, from + c), d, to + c);
      hn::StoreU(hn::LoadU(d, from + last), d, to + last);
    }
  });
}

// A column spread over the columns.
template <class T>
void SplatRows(const T* from, int64_t from_row, T* to, int64_t to_row, int64_t rows, int64_t columns) {
  WithVectorOf<T>(columns * static_cast<int64_t>(sizeof(T)), [&](auto d) HWY_ATTR {
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const int64_t last = columns - lanes;
    for (int64_t r = 0; r < rows; ++r, from += from_row, to += to_row) {
      const auto all = hn::Set(d, *from);
      for (int64_t c = 0; c < last; c += lanes) hn::StoreU(all, d, to + c);
      hn::StoreU(all, d, to + last);
    }
  });
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

// Elements of short rows at even distances that go on from row to row, put side by side first, as if they were one row.
template <class T, class Take>
void MoveRowsInTurn(int64_t rows, int64_t columns, T* to, int64_t to_row, Take take) {
  constexpr int64_t kElements = 1024;
  if (to_row == columns) return take(0, to, rows * columns);
  HWY_ALIGN T line[kElements];
  const int64_t most = kElements / columns;
  for (int64_t r = 0; r < rows; r += most) {
    const int64_t count = std::min(most, rows - r);
    take(r * columns, line, count * columns);
    CopyRows<T>(line, columns, to + r * to_row, to_row, count, columns);
  }
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
    SplatRows(from, fs.row, to, ts.row, rows, columns);
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
  constexpr int64_t kShortBytes = 128;  // of which whole vectors are few
  if (ts.column == 1 && rows > 1 && fs.row == fs.column * columns && fs.column >= 2 && fs.column <= 4 &&
      (ts.row == columns || columns * static_cast<int64_t>(sizeof(T)) <= kShortBytes)) {
    return MoveRowsInTurn(rows, columns, to, ts.row, [&](int64_t first, T* line, int64_t count) HWY_ATTR {
      if (fs.column == 2) EveryNth<T, 2>(from + 2 * first, line, count);
      else if (fs.column == 3) EveryNth<T, 3>(from + 3 * first, line, count);
      else EveryNth<T, 4>(from + 4 * first, line, count);
    });
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
void TransposeAnyColumns(const std::byte* from, const int64_t* column_places, std::byte* to,
                         const TransposedRows& places, int64_t rows, int64_t columns) {
  TransposeColumns<T>(AnyColumns<T>{reinterpret_cast<const T*>(from), column_places},
                      AnyRows<T>{reinterpret_cast<T*>(to), places.of, places.step}, rows, columns);
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
inline constexpr MoveTable kMoves = {
    &MoveTileOf<T>, &TransposeAnyColumns<T>, &MoveTileMaskedOf<T>, &PutTileMaskedOf<T>, &FillOf<T>, &GatherOf<T>,
    &ScatterOf<T>};

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
void TransposeColumns(int width, const std::byte* from, const int64_t* column_places, std::byte* to,
                      const TransposedRows& places, int64_t rows, int64_t columns) {
  HWY_DYNAMIC_DISPATCH(FindMoves)(width)->columns(from, column_places, to, places, rows, columns);
}
void MoveTileMasked(int width, const std::byte* from, TileStrides from_strides, std::byte* to, const uint8_t* mask,
                    int64_t rows, int64_t columns) {
  HWY_DYNAMIC_DISPATCH(FindMoves)(width)->tile_masked(from, from_strides, to, mask, rows, columns);
}
void PutTileMasked(int width, const std::byte* from, std::byte* to, TileStrides to_strides, const uint8_t* mask,
                   int64_t rows, int64_t columns) {
  HWY_DYNAMIC_DISPATCH(FindMoves)(width)->put_masked(from, to, to_strides, mask, rows, columns);
}
double TimeOfTranspose(int64_t width, int64_t rows, int64_t columns, bool is_dense) {
  const int64_t side = width == 8 ? 4 : 16 / width;
  // What is left over takes a whole block.
  const auto with_rest = [](int64_t count, int64_t block) {
    return static_cast<double>((count + block - 1) / block * block) / static_cast<double>(count);
  };
  const auto in_blocks = [&](double time, int64_t of_rows, int64_t of_columns) {
    return time * with_rest(rows, of_rows) * with_rest(columns, of_columns);
  };
  constexpr double kTimes[] = {0.06, 0.08, 0.1};  // of vectors of 64, 32 and 16 bytes
  if (rows < side && columns >= 4 * side) return in_blocks(kTimes[0], side, 4 * side);
  if (is_dense && columns >= 2 && columns <= 4 && rows >= 64) return 0.03 * static_cast<double>(width);
  if (is_dense && width == 1 && columns > 4 && 2 * columns <= side && rows >= 5 * side)
    return in_blocks(kTimes[0], 4 * side, side / 2);
  if (columns > 2 && columns <= side && rows >= 5 * side) return in_blocks(kTimes[0], 4 * side, side);
  for (int i : {0, 1, 2})
    if (rows >= side && columns >= side * (4 >> i)) return in_blocks(kTimes[i], side, side * (4 >> i));
  if (width <= 2 && rows >= side / 2 && columns >= side / 2) return in_blocks(0.2, side / 2, side / 2);
  return 0.6;
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
