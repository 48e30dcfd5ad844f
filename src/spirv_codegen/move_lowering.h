// SPDX-License-Identifier: Apache-2.0
// Emits a program that only moves elements at a block of its points: as words of elements.
#pragma once

#include <map>

#include "spirv_codegen/element_words.h"
#include "spirv_codegen/move_indices.h"
#include "spirv_codegen/program_lowering.h"

namespace krafla::spirv {

class MoveLowering {
 public:
  // The program at the block's first point, and at its last one where elements lie in runs; that is `distance` points
  // on. `in_range`: the block lies within the iteration space.
  struct Points {
    ProgramLowering* first = nullptr;
    ProgramLowering* last = nullptr;
    Value distance;
    bool in_range = true;
  };

  MoveLowering(Builder& b, Buffers& buffers, const plan::ElementProgram& program, MoveIndices& indices,
               ElementWords& words, Points points)
      : b_(b), buffers_(buffers), program_(program), indices_(indices), words_(words), points_(points) {}

  // The words of a store's elements, of which the first `in_run` lie in the run that the first point lies in; no value:
  // all of them do.
  Values WordsOf(const plan::Store& store, Value in_run);
  // The words of what a load reads, whatever its mask says.
  Values WordsOfLoad(plan::NodeId id, Value in_run);
  // A node that has one value in a run, in the run of the block's first point and in that of its last one; and the
  // index of a number, as it is at the first point or, as it goes on in the last one's run, would be.
  struct OfRuns {
    Value first, last;
  };
  OfRuns One(plan::NodeId id, Value in_run);
  OfRuns Number(plan::NodeId id, Value in_run);
  // Of the block's elements from number `begin` on, `count` of them: those of the first run have the values `first`.
  static Value Choose(Builder& b, Value in_run, int64_t begin, Value first, Value last);

 private:
  // Where the indices of a block are counted from: the run of its first or of its last point.
  struct Run {
    bool is_last = false;
    std::map<plan::NodeId, Values> words;
  };
  // A mask of the block's elements: the same for all of them, or words.
  struct Mask {
    Value all;
    Values words;
  };

  Values Words(plan::NodeId id, Run& run);
  Values Made(plan::NodeId id, Run& run);
  Values Load(const plan::Node& node, Run& run);
  Values Read(const plan::Node& node, const Run& run);
  Values OfBoth(Value in_run, const Values& first, const Values& last) const;
  Values Select(const Mask& mask, const Values& a, const Values& b) const;
  Mask MaskOf(plan::NodeId id, Run& run);
  Mask MaskOfHlo(const plan::Node& node, Run& run);
  Values AsWords(const Mask& mask) const;
  // The index at the point from which `run` is counted, and how it goes on from there.
  Value First(plan::IndexId id, const MoveIndices::Step& step, const Run& run);
  struct Numbers {
    Value first;
    InlineVector<int64_t, PointGroup::kPoints> steps;
  };
  Numbers NumberOf(plan::IndexId id, const Run& run);
  Numbers NumberOfNode(plan::NodeId id, const Run& run);
  Mask Compare(ComparisonDirection direction, const Numbers& x) const;
  Mask OfElements(ComparisonDirection direction, const Numbers& x) const;
  Value OneOf(plan::NodeId id, const Run& run);
  bool IsInRange(const plan::Node& load, const MoveIndices::Step& step, const Run& run) const;
  int word_count() const { return static_cast<int>(count_ / words_.per_word()); }

  Builder& b_;
  Buffers& buffers_;
  const plan::ElementProgram& program_;
  MoveIndices& indices_;
  ElementWords& words_;
  Points points_;
  int64_t count_ = indices_.count();
};

}  // namespace krafla::spirv
