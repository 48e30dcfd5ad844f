// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/checked_math.h"
#include "cpu_fallback/executor/linalg_numbers.h"
#include "cpu_fallback/kernels/gemm.h"

namespace krafla::cpu::linalg {

namespace {

// Below so many products packing costs more than it saves.
constexpr int64_t kPackFrom = 32768;
constexpr int64_t kPanelVectors = 3;
constexpr int64_t kProductsOfAGrain = 160000;

template <class T>
PointerTile FactorTile() {
  return FindPointerTile(std::is_same_v<T, double> ? ElementType::kF64 : ElementType::kF32);
}

}  // namespace

template <class T>
int64_t PackedNumbers(int64_t columns) {
  if constexpr (kIsComplex<T>) return 0;
  else return kBlock * (columns + kPanelVectors * FactorTile<T>().lanes);
}

template <class T>
void SubtractProduct(const Factor<T>& left, const T* from, int64_t from_stride, int64_t depth, T* to, int64_t to_stride,
                     int64_t rows, int64_t columns, bool upper, T* packed, ThreadPool& pool) {
  if (rows <= 0 || columns <= 0 || depth <= 0) return;
  if constexpr (!kIsComplex<T>) {
    const PointerTile tile = FactorTile<T>();
    if (rows * columns * depth >= kPackFrom && columns >= tile.lanes) {
      const int64_t panel = kPanelVectors * tile.lanes, panels = CeilDiv(columns, panel);
      pool.ParallelFor(panels, std::max<int64_t>(1, 8192 / (panel * depth)), [&](int64_t begin, int64_t end, int) {
        for (int64_t p = begin; p < end; ++p) {
          const int64_t first = p * panel, count = std::min(panel, columns - first);
          const int64_t width = RoundUp(count, tile.lanes);
          T* out = packed + first * depth;
          for (int64_t k = 0; k < depth; ++k, out += width) {
            NegateRow<T>(from + k * from_stride + first, count, out);
            std::fill(out + count, out + width, T(0));
          }
        }
      });
      const int64_t groups = CeilDiv(rows, kPointerRows);
      const int64_t grain = std::max<int64_t>(1, kProductsOfAGrain / (kPointerRows * columns * depth));
      pool.ParallelFor(groups, grain, [&](int64_t begin, int64_t end, int) {
        for (int64_t g = begin; g < end; ++g) {
          const int64_t row = g * kPointerRows, count = std::min(kPointerRows, rows - row);
          RowSegment segment;
          segment.stride = left.column_stride;
          for (int64_t r = 0; r < kPointerRows; ++r)
            segment.rows[r] = left.numbers + (row + std::min(r, count - 1)) * left.row_stride;
          for (int64_t first = upper ? row / panel * panel : 0; first < columns; first += panel) {
            const int64_t width = std::min(panel, columns - first);
            tile.run({&segment, 1}, depth, packed + first * depth, CeilDiv(width, tile.lanes), count, width,
                     to + row * to_stride + first, to_stride, true);
          }
        }
      });
      return;
    }
  }
  const int64_t groups = CeilDiv(rows, kUpdateRows);
  const int64_t grain = std::max<int64_t>(1, kProductsOfAGrain / 4 / (kUpdateRows * columns * depth));
  pool.ParallelFor(groups, grain, [&](int64_t begin, int64_t end, int) {
    Coefficients<T> coefficients;
    for (int64_t g = begin; g < end; ++g) {
      const int64_t row = g * kUpdateRows, count = std::min(kUpdateRows, rows - row), first = upper ? row : 0;
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t r = 0; r < count; ++r) coefficients(k, r) = left(row + r, k);
      Update(coefficients, from + first, from_stride, depth, to + row * to_stride + first, to_stride, count,
             columns - first);
    }
  });
}

#define KRAFLA_INSTANTIATE(T)                                                                                         \
  template int64_t PackedNumbers<T>(int64_t);                                                                         \
  template void SubtractProduct<T>(const Factor<T>&, const T*, int64_t, int64_t, T*, int64_t, int64_t, int64_t, bool, \
                                   T*, ThreadPool&);
KRAFLA_FOR_NUMBERS(KRAFLA_INSTANTIATE)
#undef KRAFLA_INSTANTIATE

}  // namespace krafla::cpu::linalg
