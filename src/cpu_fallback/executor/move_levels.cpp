// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/move_levels.h"

#include <algorithm>

#include "cpu_fallback/executor/iteration.h"
#include "cpu_fallback/kernels/move.h"

namespace krafla::cpu {

using plan::ElementProgram;
using plan::kNoNode;
using plan::Node;
using plan::NodeOp;

int64_t MoveLevels::bytes() const {
  int64_t out = width;
  for (const MoveLevel& l : levels) out *= l.extent;
  return out;
}

int64_t MoveLevels::SideOf(int64_t MoveLevel::* stride) const {
  int64_t out = 1;
  for (const MoveLevel& l : levels)
    if (l.*stride == width) out = std::max(out, l.extent);
  return out;
}

double MoveLevels::TimeOfTiles() const {
  constexpr double kTileTime = 15;
  constexpr int64_t kRowsOfTile = 32;
  const int64_t rows = SideOf(&MoveLevel::from), columns = SideOf(&MoveLevel::to);
  const double elements = static_cast<double>(std::min(rows, kRowsOfTile) * columns);
  const bool is_dense =
      std::ranges::any_of(levels, [&](const MoveLevel& l) { return l.from == width && l.to == columns * width; });
  return (TimeOfTranspose(width, rows, columns, is_dense) + kTileTime / elements) / static_cast<double>(width);
}

std::optional<MoveLevels> MoveLevels::Of(const ElementProgram& given) {
  if (given.stores.size() != 1 || !given.results.empty()) return std::nullopt;
  const auto load_of = [](const ElementProgram& p) -> const Node& {
    return p.nodes[static_cast<std::size_t>(p.stores[0].node)];
  };
  const Node& moved = load_of(given);
  if (moved.op != NodeOp::kLoad || moved.mask != kNoNode || given.stores[0].mask != kNoNode ||
      moved.storage != given.stores[0].storage || moved.buffer == given.stores[0].buffer)
    return std::nullopt;
  ElementProgram program = given;
  for (DimSplit split = FindSplit(program); split.dim >= 0; split = FindSplit(program))
    program = SplitDim(program, split.dim, split.inner);
  const Node& load = load_of(program);
  const std::optional<Dims> from = AffineCoefficients(program.space, load.index),
                            to = AffineCoefficients(program.space, program.stores[0].index);
  if (!from || !to) return std::nullopt;

  MoveLevels out;
  const auto offset = [&](plan::IndexId index) { return program.space.expr(index).constant; };
  out.width = StorageBytes(load.storage);
  out.from_buffer = load.buffer, out.to_buffer = program.stores[0].buffer;
  out.from_offset = offset(load.index) * out.width;
  out.to_offset = offset(program.stores[0].index) * out.width;
  for (std::size_t d = 0; d < program.space.dims().size(); ++d) {
    const int64_t extent = program.space.dims()[d];
    if (extent != 1) out.levels.push_back({extent, (*from)[d] * out.width, (*to)[d] * out.width});
  }
  return out;
}

int64_t TakeRow(std::vector<MoveLevel>& levels, int64_t width) {
  int64_t row = width;
  const auto is_beside = [&](const MoveLevel& l) { return l.from == row && l.to == row; };
  for (auto at = std::ranges::find_if(levels, is_beside); at != levels.end();
       at = std::ranges::find_if(levels, is_beside)) {
    row *= at->extent;
    levels.erase(at);
  }
  return row;
}

}  // namespace krafla::cpu
