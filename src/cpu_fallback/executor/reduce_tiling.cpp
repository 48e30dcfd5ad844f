// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/reduce_tiling.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "base/checked_math.h"
#include "base/index.h"
#include "cpu_fallback/executor/iteration.h"
#include "cpu_fallback/executor/lanes.h"
#include "cpu_fallback/executor/long_sum.h"
#include "cpu_fallback/kernels/reduce_ops.h"
#include "cpu_fallback/native/native_code.h"

namespace krafla::cpu {

using plan::ElementProgram;
using plan::kNoNode;
using plan::Node;
using plan::NodeOp;
using plan::ReduceStage;
using plan::Reduction;

namespace {

constexpr int64_t kTileElements = 2048;
// Tiles that are read where they lie in memory need no registers: they are larger, so that a tile's overhead counts
// less.
constexpr int64_t kDenseBytes = 65536;
constexpr int64_t kDenseColumns = 4096;
constexpr int64_t kNativeElements = 8192;
constexpr int64_t kSummedLanes = 64;  // that a row is added in
constexpr int64_t kFewColumns = 16;
constexpr int64_t kPairedRow = 64;
constexpr int64_t kLine = 64;  // bytes

// The lanes that one reduction may have.
ElementType LaneFor(const ElementProgram& program, const Lanes& lanes, const Reduction& r) {
  const ElementType type = r.hlo_type;
  const auto id = program.results[At(r.inputs[0])];
  const Node& n = program.nodes[At(id)];
  if (r.inputs.size() != 1 || FindReduceOps(r.kind, type).rows == nullptr || StorageBytes(type) > 2 ||
      type == ElementType::kPred)
    return ElementType::kInvalid;
  // Values that are computed in a wider type stay there.
  if (lanes.FormOf(id, StorageBytes(type)).kind == Lanes::Form::Kind::kTruncate) return ElementType::kInvalid;
  if (IsFloat(type) && n.storage != type) return ElementType::kInvalid;
  return type;
}

// The bytes of what is reduced of an element.
int64_t WidestResult(const plan::ReduceKernel& body, const ReduceLanes& lanes) {
  int64_t widest = 1;
  for (std::size_t s = 0; s < body.stages.size(); ++s)
    for (std::size_t i = 0; i < body.stages[s].program.results.size(); ++i) {
      const ElementType lane = lanes[s][i];
      const ElementProgram& program = body.stages[s].program;
      widest = std::max<int64_t>(
          widest, StorageBytes(lane != ElementType::kInvalid ? lane : program.nodes[At(program.results[i])].type));
    }
  return widest;
}

bool Computes(const plan::ReduceKernel& body) {
  const auto is_operation = [](const Node& n) {
    return n.op != NodeOp::kLoad && n.op != NodeOp::kConstant && n.op != NodeOp::kParam && n.op != NodeOp::kIndex;
  };
  return std::ranges::any_of(body.stages, [&](const ReduceStage& stage) {
    return stage.scope == ReduceStage::Scope::kElement && std::ranges::any_of(stage.program.nodes, is_operation);
  });
}

// Whether all that is reduced lies in memory as a tile along these dimensions has it; row_dim -1: a tile of one row.
bool IsDense(const plan::ReduceKernel& body, const ReduceLanes& lanes, int column_dim, int row_dim) {
  const int row_rank = static_cast<int>(body.row_dims.size());
  const int64_t columns =
      column_dim < row_rank ? body.row_dims[At(column_dim)] : body.element_dims[At(column_dim - row_rank)];
  for (std::size_t s = 0; s < body.stages.size(); ++s) {
    const plan::ReduceStage& stage = body.stages[s];
    if (stage.scope != ReduceStage::Scope::kElement) continue;
    const ElementProgram& program = stage.program;
    if (!program.stores.empty()) return false;
    for (std::size_t i = 0; i < program.results.size(); ++i) {
      const Node& n = program.nodes[At(program.results[i])];
      if (n.op != NodeOp::kLoad || n.mask != kNoNode) return false;
      if (lanes[s][i] == ElementType::kInvalid && n.storage != n.type) return false;
      const std::optional<Dims> strides = AffineCoefficients(program.space, n.index);
      if (!strides || (*strides)[At(column_dim)] != 1 || (row_dim >= 0 && (*strides)[At(row_dim)] != columns))
        return false;
    }
  }
  return true;
}

}  // namespace

bool DependsOnOrder(const Reduction& r) {
  return IsFloat(r.hlo_type) && r.kind != Reduction::Kind::kMax && r.kind != Reduction::Kind::kMin;
}

ReduceLanes FindReduceLanes(const plan::ReduceKernel& body) {
  ReduceLanes out;
  for (const ReduceStage& stage : body.stages) {
    const Lanes lanes(stage.program);
    std::vector<ElementType>& types = out.emplace_back(stage.program.results.size(), ElementType::kInvalid);
    std::vector<bool> is_seen(types.size(), false);
    for (const Reduction& r : stage.reductions) {
      const ElementType type = LaneFor(stage.program, lanes, r);
      for (int input : r.inputs) {
        // A value that is reduced in two ways is wide where they differ.
        const std::size_t i = At(input);
        types[i] = is_seen[i] && types[i] != type ? ElementType::kInvalid : type;
        is_seen[i] = true;
      }
    }
  }
  return out;
}

ReduceTiling ChooseReduceTiling(const plan::ReduceKernel& body, const ReduceLanes& lanes) {
  ReduceLayout layout = ReduceLayout::kElements;
  TileShape tile;
  bool has_dense_columns = false;
  const int row_rank = static_cast<int>(body.row_dims.size());
  const int rank = row_rank + static_cast<int>(body.element_dims.size());
  auto extent = [&](int d) {
    return d < row_rank ? body.row_dims[static_cast<std::size_t>(d)]
                        : body.element_dims[static_cast<std::size_t>(d - row_rank)];
  };
  auto cost = [&](int d) {
    double sum = 0;
    for (const ReduceStage& stage : body.stages)
      if (stage.scope == ReduceStage::Scope::kElement) sum += CostAlong(stage.program, d);
    return sum;
  };
  // Combiners that may not commute (the selection of a select-and-scatter) see a row's elements in order: tiles then
  // lie along the innermost dimensions of elements.
  bool ordered = false;
  for (const ReduceStage& stage : body.stages)
    for (const Reduction& r : stage.reductions) ordered |= r.kind == Reduction::Kind::kOther;
  auto innermost_before = [&](int end) {
    int out = end - 1;
    while (out >= row_rank && extent(out) == 1) --out;
    return out < row_rank ? -1 : out;
  };
  const int64_t element_count = Product(body.element_dims);
  bool sums_floats = false;
  for (const ReduceStage& stage : body.stages)
    for (const Reduction& r : stage.reductions) sums_floats |= DependsOnOrder(r);
  int best_row = -1, best_element = -1;
  double row_cost = 1e300, element_cost = 1e300;
  for (int d = 0; d < rank; ++d) {
    if (extent(d) == 1 || (ordered && d >= row_rank && d != innermost_before(rank))) continue;
    // Short arrays pay a step's overhead often.
    const double c = cost(d) + 20.0 / static_cast<double>(std::min<int64_t>(extent(d), 512));
    if (d < row_rank ? c <= row_cost : c <= element_cost) {
      (d < row_rank ? best_row : best_element) = d;
      (d < row_rank ? row_cost : element_cost) = c;
    }
  }
  // Own combiners are run step by step: over rows side by side once an element, along a row over halves of what is
  // left.
  constexpr double kOwnCombiner = 3;
  if (ordered && best_row >= 0 && extent(best_row) >= 16 && best_element >= 0 && extent(best_element) >= 32)
    element_cost += kOwnCombiner;
  // Short rows of a power of two are halved all at once, as one array.
  if (ordered && best_element >= 0 && element_count == extent(best_element) && element_count <= kPairedRow &&
      std::has_single_bit(At(element_count)))
    element_cost = std::min(element_cost, cost(best_element));
  // The second side: the longest other dimension of the same part.
  auto other = [&](int first, int last, int taken) {
    int out = -1;
    for (int d = first; d < last; ++d)
      if (d != taken && extent(d) > 1 && (out < 0 || extent(d) >= extent(out))) out = d;
    return out;
  };
  // Native code goes through several rows at a call, and has few arrays.
  const int64_t tile_elements = native::HasNativeCode() && !ordered && Computes(body) ? kNativeElements : kTileElements;
  const int64_t dense_elements = kDenseBytes / WidestResult(body, lanes);
  if (best_row < 0 && best_element < 0) {
    layout = ReduceLayout::kElements;
  } else if (best_element < 0 || (best_row >= 0 && row_cost < element_cost)) {
    // Of few columns each tile reads all of the cache lines that it touches where they lie along the elements.
    const bool is_transposed = row_cost > element_cost - kOwnCombiner;
    const int second_row = other(0, row_rank, best_row);
    const int second_element = ordered ? innermost_before(rank) : other(row_rank, rank, -1);
    int64_t columns = std::min<int64_t>(extent(best_row), ordered && is_transposed ? 128 : 512);
    // Few elements are in one tile, where they may be transposed; own combiners take long arrays at a time.
    const bool few = second_element >= 0 && extent(second_element) <= 16;
    if (few && !ordered) columns = std::min(columns, RoundUp(tile_elements / extent(second_element), 16));
    const int64_t most_rows = few ? extent(second_element) : tile_elements / columns;
    tile.column_dim = best_row, tile.columns = columns;
    const int64_t width = extent(best_row);
    if (second_element >= 0 && !few && !ordered && width >= kFewColumns && width <= kDenseColumns &&
        IsDense(body, lanes, best_row, second_element)) {
      // Sums of floats are cut into groups of tiles, which are no longer than their turns.
      const int64_t turns = sums_floats ? GroupTurns(element_count) : dense_elements;
      layout = ReduceLayout::kRowsByElements;
      has_dense_columns = true;
      tile.columns = width, tile.row_dim = second_element;
      tile.rows = std::min({extent(second_element), turns, dense_elements / width});
    } else if (!few && second_element >= 0 && !ordered && Computes(body) && columns == width &&
               columns * WidestResult(body, lanes) >= kLine) {
      // Native code, and what folds its columns, go through many elements at a call.
      layout = ReduceLayout::kRowsByElements;
      tile.row_dim = second_element, tile.rows = std::min(extent(second_element), std::max<int64_t>(most_rows, 1));
    } else if (columns < 256 && second_row >= 0 && extent(second_row) * columns >= 256) {
      layout = ReduceLayout::kRows;
      tile.row_dim = second_row, tile.rows = std::min(extent(second_row), kTileElements / 2 / columns);
    } else if (second_element >= 0) {
      layout = ReduceLayout::kRowsByElements;
      tile.row_dim = second_element, tile.rows = std::min(extent(second_element), std::max<int64_t>(most_rows, 1));
    } else {
      layout = ReduceLayout::kRows;
    }
  } else {
    // What is read where it lies. Lanes add no more in turn than a group has.
    const int64_t most_dense =
        sums_floats ? std::min(dense_elements, kSummedLanes * GroupTurns(element_count)) : dense_elements;
    const bool is_line = !ordered && IsDense(body, lanes, best_element, -1);
    const int64_t columns =
        std::min(extent(best_element), is_line ? std::max(most_dense, kTileElements) : tile_elements);
    tile.column_dim = best_element, tile.columns = columns;
    int second_element = other(row_rank, rank, best_element);
    if (ordered) second_element = innermost_before(best_element);
    int second_row = -1;
    for (int d = row_rank - 1; d >= 0 && second_row < 0; --d)
      if (extent(d) > 1) second_row = d;
    const bool is_whole = columns == extent(best_element);
    const bool are_rows = is_whole && second_row >= 0 && IsDense(body, lanes, best_element, second_row);
    const bool is_block =
        !ordered && is_whole && second_element >= 0 && IsDense(body, lanes, best_element, second_element);
    // The interpreter takes what is the same throughout a row best from tiles of one row.
    const auto is_element = [](const ReduceStage& stage) { return stage.scope == ReduceStage::Scope::kElement; };
    const int64_t most_columns = tile_elements == kNativeElements                      ? kTileElements
                                 : std::ranges::count_if(body.stages, is_element) == 1 ? kTileElements / 2
                                                                                       : 256;
    const bool by_rows = second_element < 0 && is_whole && second_row >= 0 && (columns <= most_columns || are_rows);
    // Short rows that lie behind each other, of one of several element dimensions.
    const bool by_short_rows = second_element >= 0 && !ordered && !is_block && are_rows && columns < kTileElements / 4;
    if (by_rows || by_short_rows) {
      layout = ReduceLayout::kElementsByRows;
      tile.row_dim = second_row;
      tile.rows = std::min(extent(second_row), (are_rows ? dense_elements : tile_elements) / columns);
    } else {
      layout = ReduceLayout::kElements;
      const int64_t most = is_block ? most_dense : tile_elements;
      if (second_element >= 0 && most / columns > 1 && (!ordered || is_whole))
        tile.row_dim = second_element, tile.rows = std::min(extent(second_element), most / columns);
    }
  }
  return {layout, tile, has_dense_columns};
}

}  // namespace krafla::cpu
