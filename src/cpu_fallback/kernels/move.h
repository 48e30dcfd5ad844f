// SPDX-License-Identifier: Apache-2.0
// Moving elements of 1, 2, 4 or 8 bytes without looking at them. Strides are in elements.
#pragma once

#include <cstddef>
#include <cstdint>

namespace krafla::cpu {

struct TileStrides {
  int64_t row = 0, column = 0;
};

// to[r, c] = from[r, c].
void MoveTile(int width, const std::byte* from, TileStrides from_strides, std::byte* to, TileStrides to_strides,
              int64_t rows, int64_t columns);
struct TransposedRows {
  const int64_t* of = nullptr;  // where each begins
  int64_t step = 0;             // how far apart they are; 0: not the same everywhere
};
// to[rows.of[r] + c] = from[column_places[c] + r].
void TransposeColumns(int width, const std::byte* from, const int64_t* column_places, std::byte* to,
                      const TransposedRows& places, int64_t rows, int64_t columns);
// Nanoseconds an element, roughly. is_dense: rows of the result lie one behind the other.
double TimeOfTranspose(int64_t width, int64_t rows, int64_t columns, bool is_dense);
// As MoveTile into a dense array, where mask[r * columns + c] is not 0; elsewhere zero, and `from` is not read.
void MoveTileMasked(int width, const std::byte* from, TileStrides from_strides, std::byte* to, const uint8_t* mask,
                    int64_t rows, int64_t columns);
// From a dense array to[r, c], where the mask is not 0.
void PutTileMasked(int width, const std::byte* from, std::byte* to, TileStrides to_strides, const uint8_t* mask,
                   int64_t rows, int64_t columns);
// to[i] = *value.
void Fill(int width, const std::byte* value, std::byte* to, int64_t n);
// to[i] = from[index[i]]; with a mask, zero where it is 0.
void GatherElements(int width, const std::byte* from, const int32_t* index, const uint8_t* mask, std::byte* to,
                    int64_t n);
// to[index[i]] = from[i], in order; with a mask, where it is not 0.
void ScatterElements(int width, const std::byte* from, std::byte* to, const int32_t* index, const uint8_t* mask,
                     int64_t n);
// 1: all bytes are not 0; 0: all are 0; -1: mixed.
int MaskState(const uint8_t* mask, int64_t n);

}  // namespace krafla::cpu
