// SPDX-License-Identifier: Apache-2.0
// What a loop over the columns of a lane graph computes for each vector, and what once a row.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cpu_fallback/native/lane_graph.h"

namespace krafla::cpu::native {

struct LaneLoop {
  LaneLoop() = default;
  explicit LaneLoop(const LaneGraph& graph);

  // There without being computed for a row.
  bool IsThere(std::size_t id) const;
  // Computed when a row begins, of what is the same throughout it.
  bool IsRowValue(std::size_t id) const;
  // A gather whose places follow each other along the row: a load from where its first element lies.
  bool IsAlongRow(std::size_t id) const;
  // What row values that the body asks for, and places of such gathers, are made of.
  std::vector<bool> RowNodes() const;
  // What regions compute, which is seldom asked for and counts for neither of the two below.
  std::vector<bool> InRegions() const;
  // How many operations of the body wait for each other.
  int LongestChain() const;
  // How many vectors of values are needed again behind some node, at most; those of `fixed` nodes do not count.
  int LiveVectors(const std::vector<bool>& fixed) const;

  const LaneGraph* graph = nullptr;
  std::vector<std::optional<int64_t>> steps;  // what each node grows by along a row
  // What is left for the body: row values are there, but preds, of which a processor has few registers, and the places
  // of gathers along the row are not asked for.
  std::vector<bool> in_body;
};

}  // namespace krafla::cpu::native
