// SPDX-License-Identifier: Apache-2.0
// A loop's iteration space cut where its conditions on indices change: what a pad, a concatenate, a roll or an
// interleaving decides for every element is then the same throughout a piece, and gone from its program.
#pragma once

#include <optional>
#include <vector>

#include "plan/element_program.h"

namespace krafla::cpu {

// The same program over [begin, begin + extent) of dimension `dim` alone: conditions on indices that are decided there
// are, and what they leave out is dropped.
plan::ElementProgram Restrict(const plan::ElementProgram& program, int dim, int64_t begin, int64_t extent);

// The program at all indices of a short dimension, one after the other at each point of the others: the dimension has
// one place then. For programs that only store.
plan::ElementProgram Unroll(const plan::ElementProgram& program, int dim);

// Where a condition on indices changes.
struct Cut {
  int dim = 0;
  int64_t at = 0;  // the first index of the second piece
};
// The first such place; the program may get index expressions that nothing uses.
std::optional<Cut> FindCut(plan::ElementProgram& program);

// Programs that together do what `program` does, each point once, with index expressions as affine as they get. Points
// of a short dimension that are neighbours in memory may be stores of one program.
std::vector<plan::ElementProgram> CutIntoPieces(const plan::ElementProgram& program);

}  // namespace krafla::cpu
