// SPDX-License-Identifier: Apache-2.0
// What callers know of a program's arguments and results: their shapes, and how they lie in memory. Made once, of the
// module as it was given; the plan's shapes, executables and those who hold arrays for them read it.
//
// And what becomes of arguments and results with bounded dynamic dimensions once dynamic_padder has been over the
// module: arrays have their bounds, and each dynamic dimension an s32[] of its own behind all other leaves.
#pragma once

#include <span>
#include <vector>

#include "ir/module.h"
#include "krafla/literal.h"
#include "krafla/status.h"

namespace krafla {

struct EntryInterface {
  // Leaves of the entry's parameters and result as the module declares them, in the layouts that its header promises; a
  // dynamic dimension is an upper bound.
  std::vector<Shape> arguments, results;
  // The program takes and gives the bytes as they lie in those layouts, as row-major arrays of the dimensions from
  // major to minor, and has the transposes itself (LayOutEntry). Else its arrays are row-major, and layouts are for
  // those who copy from and to memory (Executable::SetArgumentBytes).
  bool has_own_transposes = false;

  // Of a module that need not be verified; empty where it has no entry to speak of.
  static EntryInterface Of(const Module& module);
  bool IsDynamic() const;
  // Gives the leaves of a plan, which passes left with any layouts, those that arrays have. Sizes behind them stay as
  // they are.
  void ApplyLayouts(std::vector<Shape>& argument_leaves, std::vector<Shape>& result_leaves) const;
  // With the sizes.
  std::size_t padded_argument_count() const;
  std::size_t padded_result_count() const;
};

// The leaves of the entry's parameters and result as the program had them before their elements were packed
// (passes/entry_packing.h), in the layouts that arrays have; none where nothing is packed.
struct PackedEdges {
  std::vector<Shape> arguments, results;
  bool IsEmpty() const { return arguments.empty() && results.empty(); }
  // Of a program that is not packed yet.
  static PackedEdges Of(const Module& module);
};

// Arguments as large as their bounds, zeros behind what was given, then the sizes. `made` owns what is new.
// INVALID_ARGUMENT for a wrong count or shape.
Result<std::vector<const Literal*>> PadArguments(const EntryInterface& interface,
                                                 std::span<const Literal* const> arguments, std::vector<Literal>& made);
// Results, sizes behind them, to results of the size that they have.
Result<std::vector<Literal>> CutResults(const EntryInterface& interface, std::vector<Literal> padded);

}  // namespace krafla
