// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/reduce_tiling.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "base/checked_math.h"
#include "base/index.h"
#include "cpu_fallback/executor/arg_extremum.h"
#include "cpu_fallback/executor/iteration.h"
#include "cpu_fallback/executor/lanes.h"
#include "cpu_fallback/executor/long_sum.h"
#include "cpu_fallback/kernels/reduce_ops.h"
#include "cpu_fallback/native/native_code.h"
#include "plan/combiner_order.h"

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
constexpr int64_t kLeastDenseRows = 32;
constexpr int64_t kNativeElements = 8192;
constexpr int64_t kSummedLanes = 64;    // that a row is added in
constexpr int64_t kFoldedColumns = 32;  // two vectors
constexpr int64_t kFewColumns = 5;
constexpr int64_t kLeastOfFewColumns = 256;  // elements
constexpr int64_t kFewReduced = 16;
constexpr int64_t kFewPlaneRows = 32;  // of all planes, which a call should have
constexpr int64_t kPairedRow = 64;
constexpr int64_t kFewSelections = 16;
constexpr int64_t kLine = 64, kComputedLine = 32;  // bytes: of what is read, and of what is computed for folds

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

bool IsFolded(const Reduction& r, ElementType type) {
  if (r.inputs.size() != 1 || type == ElementType::kPred || StorageBytes(type) < 4) return false;
  if (r.kind == Reduction::Kind::kSum || r.kind == Reduction::Kind::kProduct) return true;
  // With AVX2 the extremum of two floats, which may be NaN or zeros, takes six instructions: arrays are faster.
  const bool is_cheap = !IsFloat(type) || native::HasAvx512Code();
  return (r.kind == Reduction::Kind::kMin || r.kind == Reduction::Kind::kMax) && is_cheap;
}

bool IsRoundedByOrder(const Reduction& r) {
  return IsFloat(r.hlo_type) && r.kind != Reduction::Kind::kMax && r.kind != Reduction::Kind::kMin &&
         r.kind != Reduction::Kind::kComplexProduct && !plan::CombinesInTurn(r);
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

namespace {

// The choice for one kernel: the dimension along which a step works, and the one in which tiles are repeated.
class ReduceTilingChoice {
 public:
  ReduceTilingChoice(const plan::ReduceKernel& body, const ReduceLanes& lanes)
      : body_(body),
        lanes_(lanes),
        row_rank_(static_cast<int>(body.row_dims.size())),
        rank_(row_rank_ + static_cast<int>(body.element_dims.size())),
        element_count_(Product(body.element_dims)),
        dense_elements_(kDenseBytes / WidestResult(body, lanes)) {
    for (const ReduceStage& stage : body.stages)
      for (const Reduction& r : stage.reductions) {
        ordered_ |= r.kind == Reduction::Kind::kOther || r.kind == Reduction::Kind::kComplexProduct;
        const bool combines = r.kind == Reduction::Kind::kOther && FindArgExtremum(r) == nullptr;
        combines_ |= combines;
        combines_columns_ |= combines && FindPairColumns(r) != nullptr;
        sums_floats_ |= IsRoundedByOrder(r);
        multiplies_ |= r.kind == Reduction::Kind::kProduct;
      }
    computes_ = Computes(body);
    tile_elements_ = native::HasNativeCode() && !ordered_ && computes_ ? kNativeElements : kTileElements;
  }

  ReduceTiling Choose() {
    FindCheapest();
    if (best_row_ < 0 && best_element_ < 0) return out_;
    if (best_element_ < 0 || (best_row_ >= 0 && row_cost_ < element_cost_)) TileColumns();
    else TileElements();
    return out_;
  }

 private:
  int64_t Extent(int d) const { return d < row_rank_ ? body_.row_dims[At(d)] : body_.element_dims[At(d - row_rank_)]; }
  int64_t CountElementStages() const {
    return std::ranges::count(body_.stages, ReduceStage::Scope::kElement, &ReduceStage::scope);
  }
  double Cost(int d) const {
    double sum = 0;
    for (const ReduceStage& stage : body_.stages)
      if (stage.scope == ReduceStage::Scope::kElement) sum += CostAlong(stage.program, d);
    return sum;
  }
  // Whether native code folds values as it computes them (NativePlanner::CanFold), which then are no arrays.
  bool FoldsNatively(int64_t columns) const {
    return native::HasNativeCode() && columns >= kFoldedColumns && AreFolded();
  }
  bool AreFolded() const {
    return std::ranges::all_of(body_.stages, [](const ReduceStage& stage) {
      return std::ranges::all_of(stage.reductions,
                                 [](const Reduction& r) { return IsFolded(r, plan::ComputeType(r.hlo_type)); });
    });
  }
  // The bytes of the widest elements that are loaded.
  int64_t WidestLoad() const {
    int64_t widest = 1;
    for (const ReduceStage& stage : body_.stages)
      for (const Node& n : stage.program.nodes)
        if (n.op == NodeOp::kLoad) widest = std::max<int64_t>(widest, StorageBytes(n.storage));
    return widest;
  }
  // The innermost dimension of elements before `end` that is not 1; -1: there is none.
  int InnermostBefore(int end) const {
    int out = end - 1;
    while (out >= row_rank_ && Extent(out) == 1) --out;
    return out < row_rank_ ? -1 : out;
  }
  // The longest of the dimensions [first, last) without `taken`; -1: all are 1.
  int LongestOther(int first, int last, int taken) const {
    int out = -1;
    for (int d = first; d < last; ++d)
      if (d != taken && Extent(d) > 1 && (out < 0 || Extent(d) >= Extent(out))) out = d;
    return out;
  }

  // Whether so many columns are read where they lie. Of fewer a vector has several rows, which takes that they be many
  // and be combined in any order.
  bool AreColumns(int64_t columns, int64_t rows) const {
    if (columns >= kFewColumns) return true;
    const bool is_any_order = !ordered_ && !sums_floats_ && !multiplies_;
    return is_any_order && columns > 1 && std::has_single_bit(At(columns)) && rows * columns >= kLeastOfFewColumns;
  }

  // Lines of memory that are computed and folded, or lie in it one behind the other, are a step with all elements of a
  // row's (TileColumns).
  int64_t ElementsOfStep(int d) const {
    const int elements = LongestOther(row_rank_, rank_, -1);
    if (d != row_rank_ - 1 || ordered_ || elements < 0 || Extent(elements) <= kFewReduced) return Extent(d);
    const bool takes_lines = computes_ ? Extent(d) * WidestResult(body_, lanes_) >= kComputedLine && AreFolded()
                                       : AreColumns(Extent(d), Extent(elements)) && IsDense(body_, lanes_, d, elements);
    return takes_lines ? Extent(d) * Extent(elements) : Extent(d);
  }

  // Rows of predicates that are a word each (reduce_narrow.cpp).
  bool TakesWords() const {
    constexpr int64_t kWord = 8;
    const auto is_of_preds = [](const Reduction& r) {
      return r.hlo_type == ElementType::kPred && (r.kind == Reduction::Kind::kAnd || r.kind == Reduction::Kind::kOr);
    };
    return best_element_ >= 0 && element_count_ == Extent(best_element_) && element_count_ <= kWord && !computes_ &&
           std::ranges::all_of(body_.stages,
                               [&](const ReduceStage& s) { return std::ranges::all_of(s.reductions, is_of_preds); }) &&
           IsDense(body_, lanes_, best_element_, -1);
  }

  // The dimensions of rows and of elements along which steps are cheapest, and what they cost.
  void FindCheapest() {
    for (int d = 0; d < rank_; ++d) {
      if (Extent(d) == 1 || (ordered_ && d >= row_rank_ && d != InnermostBefore(rank_))) continue;
      // Short arrays pay a step's overhead often.
      const double c = Cost(d) + 20.0 / static_cast<double>(std::min<int64_t>(ElementsOfStep(d), 512));
      if (d < row_rank_ ? c <= row_cost_ : c <= element_cost_) {
        (d < row_rank_ ? best_row_ : best_element_) = d;
        (d < row_rank_ ? row_cost_ : element_cost_) = c;
      }
    }
    // Own combiners are run step by step: over rows side by side once an element, along a row over halves of what is
    // left.
    if (combines_ && best_row_ >= 0 && Extent(best_row_) >= 16 && best_element_ >= 0 && Extent(best_element_) >= 32)
      element_cost_ += kOwnCombiner;
    // Short rows of a power of two are halved all at once, as one array, by own combiners.
    if (combines_ && best_element_ >= 0 && element_count_ == Extent(best_element_) && element_count_ <= kPairedRow &&
        std::has_single_bit(At(element_count_)))
      element_cost_ = std::min(element_cost_, Cost(best_element_));
    if (TakesWords()) element_cost_ = -1;
    // A loop over columns takes rows side by side, and no halves.
    if (combines_columns_ && SaturatingProduct(body_.row_dims) >= kFewSelections) element_cost_ = 1e300;
  }

  // Steps go along neighbouring rows.
  void TileColumns() {
    // Of few columns each tile reads all of the cache lines that it touches where they lie along the elements.
    const bool is_transposed = row_cost_ > element_cost_ - kOwnCombiner;
    const int second_row = LongestOther(0, row_rank_, best_row_);
    const int second_element = ordered_ ? InnermostBefore(rank_) : LongestOther(row_rank_, rank_, -1);
    int64_t columns = std::min<int64_t>(Extent(best_row_), ordered_ && is_transposed ? 128 : 512);
    // Few elements are in one tile, where they may be transposed, as far as a row is a line of memory and the order of
    // its elements is of no matter; own combiners take long arrays at a time.
    const int64_t most_few = sums_floats_ ? kFewReduced : kLine / WidestLoad();
    const bool few = second_element >= 0 && Extent(second_element) <= std::max(kFewReduced, most_few);
    if (few && !ordered_) columns = std::min(columns, RoundUp(tile_elements_ / Extent(second_element), 16));
    const int64_t most_rows = few ? Extent(second_element) : tile_elements_ / columns;
    const int64_t width = Extent(best_row_);
    TileShape& tile = out_.tile;
    tile.column_dim = best_row_, tile.columns = columns;
    if (second_element >= 0 && TakeDenseColumns(second_element, few)) return;
    const bool takes_lines =
        !few && !ordered_ && computes_ && columns == width && columns * WidestResult(body_, lanes_) >= kComputedLine;
    if (second_element >= 0 && takes_lines) {
      // Native code, and what folds its columns, go through many elements at a call.
      out_.layout = ReduceLayout::kRowsByElements;
      tile.row_dim = second_element, tile.rows = std::min(Extent(second_element), std::max<int64_t>(most_rows, 1));
    } else if (columns < 256 && second_row >= 0 && Extent(second_row) * columns >= 256) {
      out_.layout = ReduceLayout::kRows;
      tile.row_dim = second_row, tile.rows = std::min(Extent(second_row), kTileElements / 2 / columns);
    } else if (second_element >= 0) {
      out_.layout = ReduceLayout::kRowsByElements;
      tile.row_dim = second_element, tile.rows = std::min(Extent(second_element), std::max<int64_t>(most_rows, 1));
    } else {
      out_.layout = ReduceLayout::kRows;
    }
  }

  // Takes whole rows of memory where the columns lie in it one behind the other; gives whether they do. Of few rows it
  // takes planes alone.
  bool TakeDenseColumns(int second_element, bool few) {
    const int64_t width = Extent(best_row_);
    if (few && (sums_floats_ || element_count_ < kFewPlaneRows)) return false;
    if (ordered_ || !AreColumns(width, Extent(second_element)) || width > kDenseColumns ||
        !IsDense(body_, lanes_, best_row_, second_element))
      return false;
    // Sums of floats are cut into groups of tiles, which are no longer than their turns.
    const int64_t turns = sums_floats_ ? GroupTurns(element_count_) : dense_elements_;
    const ReduceTiling before = out_;
    out_.layout = ReduceLayout::kRowsByElements;
    out_.has_dense_columns = true;
    out_.tile.columns = width, out_.tile.row_dim = second_element;
    // What any order gives is folded with many rows at a call, however long they are.
    const int64_t least = sums_floats_ ? 1 : kLeastDenseRows;
    out_.tile.rows = std::min({Extent(second_element), turns, std::max(dense_elements_ / width, least)});
    if (out_.tile.rows == Extent(second_element)) TakePlanes(LongestOther(row_rank_, rank_, second_element));
    const bool is_taken = !few || out_.tile.planes > 1;
    if (!is_taken) out_ = before;
    return is_taken;
  }

  // Several arrays of short rows or columns at a call, where their order is of no matter.
  void TakePlanes(int plane) {
    TileShape& tile = out_.tile;
    const ReduceStage& stage = body_.stages[0];
    if (plane < 0 || sums_floats_ || CountElementStages() != 1 || stage.scope != ReduceStage::Scope::kElement ||
        stage.reductions.size() != 1)
      return;
    const int64_t planes = std::min(Extent(plane), dense_elements_ / (tile.rows * tile.columns));
    const Node& load = stage.program.nodes[At(stage.program.results[At(stage.reductions[0].inputs[0])])];
    const std::optional<Dims> strides = AffineCoefficients(stage.program.space, load.index);
    if (planes < 2 || !strides) return;
    tile.plane_dim = plane, tile.planes = planes;
    out_.plane_stride = (*strides)[At(plane)];
  }

  // Steps go along the elements of a row.
  void TileElements() {
    // What is read where it lies. Lanes add no more in turn than a group has.
    const int64_t most_dense =
        sums_floats_ ? std::min(dense_elements_, kSummedLanes * GroupTurns(element_count_)) : dense_elements_;
    const bool is_line = !ordered_ && IsDense(body_, lanes_, best_element_, -1);
    const int64_t columns =
        std::min(Extent(best_element_), is_line ? std::max(most_dense, kTileElements) : tile_elements_);
    TileShape& tile = out_.tile;
    tile.column_dim = best_element_, tile.columns = columns;
    const int second_element =
        ordered_ ? InnermostBefore(best_element_) : LongestOther(row_rank_, rank_, best_element_);
    int second_row = -1;
    for (int d = row_rank_ - 1; d >= 0 && second_row < 0; --d)
      if (Extent(d) > 1) second_row = d;
    const bool is_whole = columns == Extent(best_element_);
    const bool are_rows = is_whole && second_row >= 0 && IsDense(body_, lanes_, best_element_, second_row);
    const bool is_block =
        !ordered_ && is_whole && second_element >= 0 && IsDense(body_, lanes_, best_element_, second_element);
    // The interpreter takes what is the same throughout a row best from tiles of one row.
    const int64_t most_columns = tile_elements_ == kNativeElements ? kTileElements
                                 : CountElementStages() == 1       ? kTileElements / 2
                                                                   : 256;
    const bool by_rows = second_element < 0 && is_whole && second_row >= 0 && (columns <= most_columns || are_rows);
    // Short rows that lie behind each other, of one of several element dimensions.
    const bool by_short_rows = second_element >= 0 && !ordered_ && !is_block && are_rows && columns < kTileElements / 4;
    if (by_rows || by_short_rows) {
      out_.layout = ReduceLayout::kElementsByRows;
      tile.row_dim = second_row;
      // Values that go to a fold at once are best a small part of the L1 cache, where each call has several rows.
      const bool is_folded = tile_elements_ == kNativeElements && 4 * columns <= kTileElements &&
                             CountElementStages() == 1 && !FoldsNatively(columns);
      const int64_t most = are_rows ? dense_elements_ : is_folded ? kTileElements : tile_elements_;
      tile.rows = std::min(Extent(second_row), most / columns);
      if (by_short_rows && !multiplies_ && tile.rows == Extent(second_row)) TakePlanes(second_element);
      return;
    }
    out_.layout = ReduceLayout::kElements;
    // One stage, whose values go to a fold at once, is best half in the L1 cache.
    const bool is_folded = tile_elements_ == kNativeElements && CountElementStages() == 1 && !FoldsNatively(columns);
    const int64_t most = is_block ? most_dense : is_folded ? kNativeElements / 2 : tile_elements_;
    if (is_folded && !is_block && !is_line) tile.columns = std::min(columns, most);
    if (second_element >= 0 && most / columns > 1 && (!ordered_ || is_whole))
      tile.row_dim = second_element, tile.rows = std::min(Extent(second_element), most / columns);
  }

  // What a step over rows side by side saves over one along a row, where combiners are the program's own.
  static constexpr double kOwnCombiner = 3;

  const plan::ReduceKernel& body_;
  const ReduceLanes& lanes_;
  const int row_rank_, rank_;
  const int64_t element_count_;
  const int64_t dense_elements_;  // of a tile that is read where it lies
  int64_t tile_elements_ = 0;     // of any other: native code goes through several rows at a call, and has few arrays
  // Combiners that may not commute (the selection of a select-and-scatter) see a row's elements in order: tiles then
  // lie along the innermost dimensions of elements.
  bool ordered_ = false;
  bool combines_ = false;          // with a combiner that has no loop along a row
  bool combines_columns_ = false;  // with one that has a loop over columns alone
  bool sums_floats_ = false, multiplies_ = false, computes_ = false;
  int best_row_ = -1, best_element_ = -1;
  double row_cost_ = 1e300, element_cost_ = 1e300;
  ReduceTiling out_;
};

}  // namespace

ReduceTiling ChooseReduceTiling(const plan::ReduceKernel& body, const ReduceLanes& lanes) {
  return ReduceTilingChoice(body, lanes).Choose();
}

}  // namespace krafla::cpu
