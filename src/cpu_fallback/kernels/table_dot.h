// SPDX-License-Identifier: Apache-2.0
// Products of weights of four bits with a vector of bf16, where a weight is made of its code and of numbers of its
// column and group, and rounded to bf16: one of sixteen numbers for a column and a group of the depth. These are made
// once a group, of four columns side by side, and a permutation finds 32 weights of them, which an instruction
// multiplies by pairs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu_fallback/kernels/weight_lines.h"
#include "cpu_fallback/kernels/weight_rows.h"
#include "krafla/element_type.h"

namespace krafla::cpu {

// Rows of memory that are read together, and those of a turn at the most: there is a multiple of the first. The vector
// has, for each kTableRows rows of memory, the first places of these rows, then the second ones and so on.
inline constexpr int64_t kTableRows = 8, kTableTurn = 128;

// What two codes of a byte are, the first one in its lower half: two columns, the even one first, or two places of the
// depth, in a byte or in four of them that follow each other along the depth, a word.
enum class TableForm : uint8_t { kColumnPairs, kRowPairs, kWords };
// Places of the depth that a row of memory has.
constexpr int64_t PlacesOfRow(TableForm form) {
  return form == TableForm::kColumnPairs ? 1 : form == TableForm::kRowPairs ? 2 : 8;
}

// How a weight is made of a code: bf16(table[code] * scale), bf16(bf16(table[code] - zero) * scale), or
// bf16(bf16(table[code] - zero) / scale), where there may be no zeros.
enum class TableKind : uint8_t { kProducts, kDifferences, kQuotients };

// For scales of a type: f32, f16 or bf16. Null where there is none, or the processor has no products of bf16.
using TableDotFn = void (*)(const WeightRows& turn);
TableDotFn FindTableDot(ElementType scales, TableKind kind, TableForm form);

// The same of lines along the depth, two places a byte, and bf16(table[code] * scale). Depth and group are multiples of
// kTablePlaces, the depth one of the group. The vector has, of each kTablePlaces, every fourth place, then those behind
// them and so on.
inline constexpr int64_t kTablePlaces = 4 * kTableRows;
using TableLinesFn = void (*)(const int32_t* table, const WeightLines& product);
TableLinesFn FindTableLines(ElementType scales);

}  // namespace krafla::cpu
