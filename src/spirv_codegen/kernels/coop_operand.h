// SPDX-License-Identifier: Apache-2.0
// A workgroup's tile of an operand on its way to shared memory. Of both operands lines (rows of a, columns of b) are
// staged with their depth contiguous, which is what loads of matrices do best with, 16 bytes between neighbours against
// bank conflicts. Elements are read 16 bytes at once along the depth, or, where lines lie side by side instead, some
// lines at once for some places of the depth, and turned in registers.
#pragma once

#include <vector>

#include "spirv_codegen/kernels/depth_walk.h"

namespace krafla::spirv {

// What is staged at once: `lines` x `depth` elements of 1 or 2 bytes, by a workgroup of `local`. Matrices of it are
// `matrix_depth` deep.
struct CoopPart {
  int lines = 0, depth = 0, matrix_depth = 0, element_bytes = 2;
  uint32_t local = 0;

  int ChunkBytes() const;  // of one store: 16, 8 or 4
  int64_t Stride() const;  // chunks from line to line
  int64_t Chunks() const { return lines * Stride(); }
};

// Workgroup memory in chunks: an array of vectors of `width` words.
struct CoopMemory {
  Id array = 0;
  int width = 4;
};

class CoopOperand {
 public:
  // `rows`: lines are the source's rows, else its columns. It is staged from `first_chunk` of the memory on.
  CoopOperand(KernelWriter& w, const TileProblem& problem, const CoopPart& part, const CoopMemory& memory,
              int64_t first_chunk, int64_t most_constant_offset, std::unique_ptr<MatrixSource> source, bool rows);

  // Finds the elements that invocation `id` moves, of the part whose first line is `line0`.
  void Prepare(Value id, Value line0);
  DepthWalk::Strides Strides() const;

  // The last step of the depth has to be read element by element.
  bool ragged() const { return ragged_; }
  // The elements of a step, in registers. `bytes`: how far it is from the first one. `last`: nothing of the depth
  // follows it.
  Values Fetch(Value segment, Value k, Value bytes, bool last) const;
  void Stage(std::span<const Value> elements) const;

 private:
  struct Piece {
    Value line, k;   // the first line, and the first place of the depth within the part
    Value there;     // not every invocation has it
    Value at;        // its first chunk in the array
    Value segments;  // bits: where the line has elements
    // In bytes, of what is read at once: for Classes() places of the depth or, where others are too far from those for
    // a constant, for all of them.
    Values offsets;
    int64_t constant = 0;  // for all of these
    // Of what are no whole words: by how many bits it lies further up in its words, for each class.
    Values odd;
  };
  int64_t PieceLines() const { return across_ ? run_ : 1; }
  // Places lie in their words as those do that are so many before them.
  int Classes() const;
  int Places() const { return across_ ? ChunkElements() : 1; }  // of the depth, each of which is read for itself
  int ChunkElements() const { return part_.ChunkBytes() / part_.element_bytes; }
  Value U(int64_t v) const { return b_.U32(static_cast<uint32_t>(v)); }
  void ChooseWay();
  void FindPlaces(Piece& piece, int64_t further) const;
  Values Read(const Buffers::Place& place, Value odd, int words) const;
  void FetchLines(const Piece& piece, Value segment, Value k, Value bytes, bool masked, Values& out) const;
  void FetchElements(const Piece& piece, Value k, Values& out) const;
  Values Turned(const std::vector<Values>& rows) const;

  KernelWriter& w_;
  Builder& b_;
  const TileProblem& p_;
  CoopPart part_;
  CoopMemory memory_;
  int64_t first_chunk_, most_constant_offset_;
  std::unique_ptr<MatrixSource> source_;
  bool rows_;
  std::optional<MatrixLines> lines_;  // none: elements are read one by one
  bool across_ = false;               // lines lie side by side
  int run_ = 1;                       // elements that are read at once
  int alignment_ = 0;                 // of what is read, in bytes
  bool ragged_ = false;
  bool masked_ = false;  // a segment's last step is not whole, and comes more than once
  std::vector<Piece> pieces_;
};

// Both operands of a product, staged in steps of the depth.
struct StagedOperands {
  const CoopOperand &a, &b;
  int64_t step = 1;               // elements of the depth
  bool first_step_apart = false;  // MatrixTuning
};
// Stages step after step and calls `multiply` behind each, in one place or in few. Whole workgroups come here.
void MultiplyInSteps(Builder& b, const TileProblem& problem, const StagedOperands& operands,
                     const std::function<void()>& multiply);

}  // namespace krafla::spirv
