// SPDX-License-Identifier: Apache-2.0
// The blocks of points that invocations of `loop.move` and `loop.words` take: which ones a loop can be made of, and
// which cost least.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "spirv_codegen/move_indices.h"

namespace krafla::spirv {

class LoopProblem;
struct Target;

// Of an array that no cache of a processor holds.
inline constexpr int64_t kLargeBytes = int64_t{6} << 20;

enum class MoveForm : uint8_t {
  kFlat,   // of all dimensions as one; the result's words are the blocks'
  kRows,   // each row of the result has blocks of its own, which begin with words of it
  kTile,   // rows along another dimension
  kShift,  // as kTile, of rows that begin anywhere in words: a word more of each is read, and they are shifted
};

// A block: `points` neighbours along `inner` in each of `rows` neighbouring rows along `across`.
struct MoveBlock {
  MoveForm form = MoveForm::kFlat;
  bool computes = false;  // kFlat: elements are computed, not only moved; element_bytes says nothing then
  int element_bytes = 1, word_bytes = 4;
  int inner = 0, across = -1;
  int64_t points = 0, rows = 1;
  RunStarts starts;                                     // of the runs that elements lie in, of kFlat
  double cost = 0;                                      // instructions for each point, roughly
  std::shared_ptr<const plan::ElementProgram> program;  // of kFlat over one dimension, else as the problem's
  std::shared_ptr<const Limits> limits;                 // of that program

  int64_t all() const { return points * rows; }
  int64_t stored() const { return form == MoveForm::kShift ? points - per_word() : points; }  // of a row
  int per_word() const { return word_bytes / element_bytes; }
};

inline int64_t Extent(const plan::ElementProgram& program, int dim) {
  return program.space.dims()[static_cast<std::size_t>(dim)];
}

// What is known of the program's indices at such a block.
MoveIndices IndicesOf(const MoveBlock& block);
// The block that costs least; nothing where the loop does more than to move elements, or does so in no order.
std::optional<MoveBlock> FindMoveBlock(const LoopProblem& problem);
// The same of a loop that computes; nothing where reads and stores are no fewer than by vectors of four.
std::optional<MoveBlock> FindComputedBlock(const LoopProblem& problem);
// The bytes of a word where elements have `element_bytes`, and a flat block of the program that is not chosen yet.
int WordBytes(const Target& target, int element_bytes);
MoveBlock BlockOf(plan::ElementProgram program);
// Of every second element or fewer, words of elements that are no bytes hold as little as single elements do: one
// channel of 1080 x 1920 x 3 of bf16 took 1.9 to 3.0 ms of one Zen 4 core by words instead of 1.0, every second of 2048
// x 2048 of f32 1.4 instead of 0.7.
bool LieApart(std::span<const int64_t> offsets, int element_bytes);
// Whether the stores of a block go to whole words.
bool StoresWords(const MoveBlock& block, MoveIndices& indices);

}  // namespace krafla::spirv
