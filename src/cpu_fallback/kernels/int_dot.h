// SPDX-License-Identifier: Apache-2.0
// Products of weights that are small integers with a vector that is rounded to eight bits in blocks along the depth:
// the sums of a block are integers, four products a lane and instruction (VNNI, NEON's dot products).
#pragma once

#include <cstddef>
#include <cstdint>

#include "krafla/element_type.h"

namespace krafla::cpu {

// Places of the depth that are rounded together, at the most.
inline constexpr int64_t kRoundedBlock = 32;

// How codes lie in rows that follow each other along the depth, but for the last kinds. A code u is 0 to 255, or 0 to
// 15, and the weight is (u ^ flip) - zero.
struct CodeForm {
  enum class Kind : uint8_t {
    kBytes,        // one a byte
    kColumnPairs,  // two columns a byte, the even one in the lower half
    kRowPairs,     // two places of the depth a byte, the even one in the lower half
    kWords,        // eight places of the depth in a word of 32 bits, the first one in its lowest bits
    kHalves,       // a place of the first half of the depth a byte, and in its upper half that of the second one
    // Rows are lines along the depth, which other kernels read (table_dot.h, byte_lines.h).
    kLinePairs,  // two places a byte, the even one in the lower half
    kLineBytes,
  };
  Kind kind = Kind::kBytes;
  uint8_t flip = 0;  // of four bits: below 16
  int32_t zero = 0;
  bool is_along_depth() const { return kind == Kind::kLinePairs || kind == Kind::kLineBytes; }
  // Places of the depth in a row of memory, and the bytes of so many columns of it.
  int64_t places() const { return kind == Kind::kRowPairs ? 2 : kind == Kind::kWords ? 8 : 1; }
  int64_t BytesOf(int64_t columns) const {
    return kind == Kind::kColumnPairs ? columns / 2 : kind == Kind::kWords ? columns * 4 : columns;
  }
};

// Rows of weights, within a block, times the codes of that block:
//   sums[j] += step * scales[j] * (sum over rows of codes[r] * weight[r, j] - zeros[j] * sum over rows of codes[r])
struct IntDotTurn {
  const std::byte* weights = nullptr;  // the row of memory that has codes[0], at its first column
  int64_t stride = 0;                  // bytes from row to row
  int64_t ahead = 0;                   // bytes from a row to the one that is read after these; 0: none
  // Places of the depth, at most kRoundedBlock and whole rows of memory; of column pairs the first column is even.
  int64_t rows = 0, columns = 0;
  const int8_t* codes = nullptr;  // of the vector
  float step = 0;
  const std::byte* scales = nullptr;  // null: 1
  const float* zeros = nullptr;       // null: 0
  float* sums = nullptr;
};
// For codes of a form and scales of a type, f32, f16 or bf16; `is_upper`: of kHalves, those of the second half of the
// depth. Null: there is none.
using IntDotFn = void (*)(const CodeForm& form, const IntDotTurn& turn);
IntDotFn FindIntDot(CodeForm::Kind kind, ElementType scales, bool is_upper = false);

// Rounds `groups` times `group` numbers in blocks of at most kRoundedBlock, which begin anew in each group: the block's
// largest magnitude is 127 steps. A block with a NaN or an infinity has the step NaN; numbers below 2^-100 are zeros.
void RoundToBytes(const float* from, int64_t groups, int64_t group, int8_t* codes, float* steps);

}  // namespace krafla::cpu
