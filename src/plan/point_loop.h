// SPDX-License-Identifier: Apache-2.0
// Loops in which no element of an array meets another one: all steps are element by element over the same points (the
// starts of an ODE solver, the chains of a sampler, the pixels of a fractal), or compute scalars. Each point can do all
// turns by itself then, with what the loop carries in registers, and waits for no other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "krafla/status.h"
#include "plan/program_plan.h"

namespace krafla::plan {

struct PointSteps;

struct PointLoop {
  int64_t points = 1;

  // A slice that the steps touch, as an array of elements.
  struct Memory {
    Slice slice;
    ElementType storage = ElementType::kU8;
    int64_t element_count = 0;
    // Whether programs read or write it where it lies. What they do not, has cells.
    bool read_in_place = false, written_in_place = false;
  };
  std::vector<Memory> memory;

  // What a point has a copy of in the loop: element stride * point + offset of a slice. Of a scalar the stride is 0,
  // and all points compute the same.
  struct Cell {
    int memory = 0;
    int64_t stride = 0, offset = 0;
    bool written = false;
  };
  std::vector<Cell> cells;

  // Over the dimensions of the points, or over none where it computes scalars. Buffer b of the program is memory[b] or,
  // from memory.size() on, a cell, of which it reads and writes element 0.
  struct Compute {
    ElementProgram program;
    bool is_scalar = false;
  };

  // The number of the cell, as a buffer of programs, of a slice of one element.
  int CellOf(const Slice& slice) const;
};

struct PointWhile : While<PointSteps> {};
struct PointConditional : Conditional<PointSteps> {};
struct PointSteps {
  std::vector<std::variant<PointLoop::Compute, PointWhile, PointConditional>> steps;
};

// A loop that is one, with the steps of a turn.
struct PointProgram {
  PointLoop loop;
  std::unique_ptr<PointSteps> condition, body;
};

// UNIMPLEMENTED with the reason where the loop is none: elements meet, a step is of another family, a loop inside has
// no known count, or it would take more than `most_nodes` nodes.
Result<PointProgram> FindPointLoop(const ProgramPlan& plan, const WhileStep& loop, int64_t most_nodes);

}  // namespace krafla::plan
