// SPDX-License-Identifier: Apache-2.0
// Emits a program that computes at a block of its points: what is loaded and stored are words of elements, which are
// taken apart and put together in registers, and in between fours of neighbours are computed as vectors.
#pragma once

#include "spirv_codegen/move_lowering.h"

namespace krafla::spirv {

// How elements of so many bytes lie in words.
struct WordLayout {
  int element_bytes = 4, word_bytes = 4;
  friend auto operator<=>(const WordLayout&, const WordLayout&) = default;
};
// Of `count` elements that are stored, in words of up to `most_bytes`.
inline WordLayout LayoutOfStore(const plan::Store& store, int64_t count, int most_bytes) {
  const int bytes = StorageBytes(store.storage);
  return {bytes, count * bytes >= most_bytes ? most_bytes : 4};
}
// Of a load: elements of 4 bytes are read one by one unless it is known where pairs begin.
WordLayout LayoutOfLoad(const plan::ElementProgram& program, MoveIndices& indices, plan::NodeId load, int most_bytes);

class BlockLowering {
 public:
  // Blocks are of a program of one dimension. `most_bytes`: of a word, 4 or 8.
  BlockLowering(Builder& b, Buffers& buffers, const plan::ElementProgram& program, MoveIndices& indices, int most_bytes)
      : b_(b), buffers_(buffers), program_(program), indices_(indices), most_bytes_(most_bytes) {}

  // What the computation is given: of the loads words, and of other nodes their values in both runs. Of the block's
  // elements the first `in_run` lie in the run of its first point; no value: all of them do.
  Values Given(const MoveLowering::Points& points, Value in_run);
  // The words of all stores' elements, one store's behind another's; `first` is the program at the first point.
  Values Compute(ProgramLowering& first, Value in_run, const Values& given);

 private:
  ElementWords Words(WordLayout layout) { return {b_, buffers_, layout.element_bytes, layout.word_bytes}; }
  // The numbers of four elements from element `begin` on.
  Value Numbers(plan::NodeId id, Value in_run, int64_t begin, const MoveLowering::OfRuns& at);

  Builder& b_;
  Buffers& buffers_;
  const plan::ElementProgram& program_;
  MoveIndices& indices_;
  int most_bytes_;
};

}  // namespace krafla::spirv
