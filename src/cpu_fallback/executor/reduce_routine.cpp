// SPDX-License-Identifier: Apache-2.0
// A reduction of a few elements as lane nodes of a routine: the tiles of reduce_kernel.cpp, folded as it folds them.
#include <algorithm>
#include <memory>
#include <optional>

#include "base/checked_math.h"
#include "base/index.h"
#include "cpu_fallback/executor/reduce_run.h"
#include "cpu_fallback/executor/routine_block.h"
#include "cpu_fallback/executor/routine_fold.h"
#include "cpu_fallback/native/native_code.h"

namespace krafla::cpu {

using native::LaneBuilder;
using plan::ReduceStage;
using plan::Reduction;

class ReduceRoutine {
 public:
  using Value = LaneBuilder::Value;

  ReduceRoutine(const ReduceRun& run, RoutineBlock& block, std::span<const plan::Slice> buffers)
      : run_(run), body_(*run.source_), block_(block), builder_(block.builder()), buffers_(buffers) {}

  Result<bool> Add() {
    if (LoadsWhatItStores()) return false;
    KRAFLA_TRY(CompileStages());
    TileGrid::Tile row_tile;
    run_.rows_.Seek(0, row_tile);
    for (int64_t i = 0; i < run_.rows_.count(); ++i, run_.rows_.Next(row_tile))
      if (!AddRowTile(row_tile)) return false;
    if (!block_.CanHave(stores_)) return false;
    for (const RoutineStore& s : stores_) block_.Add(s);
    return true;
  }

 private:
  struct Stage {
    BlockProgram program;
    std::vector<int> params;          // that it reads
    std::vector<BlockProgram> inits;  // a reduction each
  };
  // Of each row that a tile has one value, in order.
  using Accumulator = std::vector<RoutineLanes>;

  // Whether a stage loads what an earlier one stored: stores come last here.
  bool LoadsWhatItStores() const {
    const auto slice = [&](int buffer) { return buffers_[At(buffer)]; };
    for (std::size_t s = 0; s < body_.stages.size(); ++s)
      for (const plan::Store& store : body_.stages[s].program.stores)
        for (std::size_t later = s + 1; later < body_.stages.size(); ++later)
          for (const plan::Node& n : body_.stages[later].program.nodes)
            if (n.op == plan::NodeOp::kLoad && block_.MayOverlap(slice(store.buffer), slice(n.buffer))) return true;
    return false;
  }

  Result<> CompileStages() {
    const uint64_t row_mask = run_.row_rank_ == 0 ? 0 : ~uint64_t{0} >> (64 - run_.row_rank_);
    for (const ReduceStage& stage : body_.stages) {
      const TileShape tile = stage.scope == ReduceStage::Scope::kRow ? run_.RowTile() : run_.tile_;
      Stage& made = stages_.emplace_back();
      KRAFLA_ASSIGN(
          made.program,
          BlockProgram::Compile(stage.program, {.tile = tile, .param_depends = row_mask, .is_for_routine = true}));
      for (const plan::Node& n : stage.program.nodes)
        if (n.op == plan::NodeOp::kParam) made.params.push_back(static_cast<int>(n.bits));
      for (const Reduction& r : stage.reductions) {
        KRAFLA_ASSIGN(BlockProgram init, BlockProgram::Compile(r.init, {.is_for_routine = true}));
        made.inits.push_back(std::move(init));
      }
    }
    return {};
  }

  bool AddRowTile(const TileGrid::Tile& tile) {
    params_.clear();
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const bool is_added =
          body_.stages[s].scope == ReduceStage::Scope::kRow ? AddRowStage(s, tile) : AddElements(s, tile);
      if (!is_added) return false;
    }
    return true;
  }

  bool AddRowStage(std::size_t number, const TileGrid::Tile& tile) {
    int64_t rows = tile.rows, columns = tile.columns;
    if (run_.layout_ == ReduceLayout::kElements) rows = columns = 1;
    if (run_.layout_ == ReduceLayout::kElementsByRows) columns = rows, rows = 1;
    std::vector<RoutinePart> parts = stages_[number].program.RoutineParts(rows, columns);
    if (!Takes(number, parts)) return false;
    for (RoutinePart& part : parts) {
      part.origin = tile.origin;
      for (int p : stages_[number].params) SetParam(part, p, part.row * columns + part.column, part.lanes());
      if (!stages_[number].program.AddTo(block_, buffers_, part, stores_)) return false;
    }
    return true;
  }

  bool Takes(std::size_t number, const std::vector<RoutinePart>& parts) {
    slots_ += static_cast<int64_t>(parts.size()) * stages_[number].program.slot_count();
    return slots_ <= kRoutineSlots;
  }

  // Lanes [first, first + lanes) of a param.
  void SetParam(RoutinePart& part, int param, int64_t first, int lanes) {
    if (At(param) >= params_.size()) return;
    if (part.params.size() <= At(param)) part.params.resize(At(param) + 1);
    int64_t begin = 0;
    for (const RoutineLanes& piece : params_[At(param)]) {
      const int64_t from = first - begin;
      begin += piece.lanes;
      if (from < 0 || from + lanes > piece.lanes) continue;
      const bool is_all = lanes == piece.lanes, is_slice = (lanes & (lanes - 1)) == 0 && from % lanes == 0;
      if (!is_all && (!is_slice || builder_.TypeOf(piece.value.node) == ElementType::kPred)) continue;
      part.params[At(param)] = is_all ? piece.value : block_.LanesOf(piece.value, static_cast<int>(from), lanes);
      return;
    }
    part.params[At(param)] = Joined(params_[At(param)], first, lanes);
  }
  // Lanes of several pieces. Nothing: of predicates.
  std::optional<Value> Joined(const Accumulator& pieces, int64_t first, int lanes) {
    std::vector<RoutineBlock::Lane> out;
    int64_t begin = 0;
    for (const RoutineLanes& piece : pieces) {
      for (int i = 0; i < piece.lanes; ++i)
        if (begin + i >= first && begin + i < first + lanes) out.push_back({piece.value, i});
      begin += piece.lanes;
    }
    if (std::ssize(out) != lanes) return std::nullopt;
    return block_.Join(out, builder_.TypeOf(out[0].value.node));
  }

  bool AddElements(std::size_t number, const TileGrid::Tile& row_tile) {
    const ReduceStage& stage = body_.stages[number];
    std::vector<RoutineFold> folds;
    std::vector<Accumulator> totals;
    for (std::size_t k = 0; k < stage.reductions.size(); ++k) {
      const std::optional<RoutineFold> fold = RoutineFold::Find(block_, stage.reductions[k]);
      if (!fold) return false;
      folds.push_back(*fold);
      RoutinePart init;
      if (!stages_[number].inits[k].AddTo(block_, buffers_, init, stores_)) return false;
      totals.emplace_back(Accumulators(row_tile), RoutineLanes{fold->Enter(init.results[0], 1), 1});
    }
    TileGrid::Tile tile;
    run_.elements_.Seek(0, tile);
    for (int64_t i = 0; i < run_.elements_.count(); ++i, run_.elements_.Next(tile))
      if (!AddElementTile(number, row_tile, tile, folds, totals)) return false;
    for (std::size_t k = 0; k < folds.size(); ++k) {
      for (RoutineLanes& piece : totals[k]) {
        const std::optional<Value> value = folds[k].Leave(piece.value, piece.lanes);
        if (!value) return false;
        piece.value = *value;
      }
      params_.push_back(std::move(totals[k]));
    }
    return true;
  }
  // One a row, where rows are folded one by one; else the first tile's parts have as many lanes.
  std::size_t Accumulators(const TileGrid::Tile& row_tile) const {
    return run_.layout_ == ReduceLayout::kElementsByRows ? At(row_tile.rows) : 1;
  }

  bool AddElementTile(std::size_t number, const TileGrid::Tile& row_tile, const TileGrid::Tile& tile,
                      const std::vector<RoutineFold>& folds, std::vector<Accumulator>& totals) {
    const ReduceLayout layout = run_.layout_;
    const ReduceStage& stage = body_.stages[number];
    const int64_t rows = row_tile.rows * tile.rows, columns = row_tile.columns * tile.columns;
    const bool of_one_row = layout == ReduceLayout::kRowsByElements || layout == ReduceLayout::kElementsByRows;
    Dims origin = row_tile.origin;
    for (int64_t at : tile.origin) origin.push_back(at);
    std::vector<RoutinePart> parts = stages_[number].program.RoutineParts(rows, columns, of_one_row);
    if (!Takes(number, parts)) return false;
    for (RoutinePart& part : parts) {
      part.origin = origin;
      for (int p : stages_[number].params) {
        switch (layout) {
          case ReduceLayout::kRows: SetParam(part, p, part.row * columns + part.column, part.lanes()); break;
          case ReduceLayout::kRowsByElements: SetParam(part, p, part.column, part.lanes()); break;
          case ReduceLayout::kElements: SetParam(part, p, 0, 1); break;
          case ReduceLayout::kElementsByRows: SetParam(part, p, part.row, 1); break;
        }
      }
      if (!stages_[number].program.AddTo(block_, buffers_, part, stores_)) return false;
    }
    for (std::size_t k = 0; k < folds.size(); ++k) {
      std::vector<RoutineLanes> values;  // of the parts
      for (const RoutinePart& part : parts)
        values.push_back({folds[k].Enter(part.results[At(stage.reductions[k].inputs[0])], part.lanes()), part.lanes()});
      if (!Fold(folds[k], values, rows, totals[k])) return false;
    }
    return true;
  }

  // The values of a tile's parts, of `rows` rows.
  bool Fold(const RoutineFold& fold, std::span<const RoutineLanes> values, int64_t rows, Accumulator& total) {
    switch (run_.layout_) {
      case ReduceLayout::kElements: return fold.FoldRow(values, total[0].value);
      case ReduceLayout::kElementsByRows: {
        const std::size_t each = values.size() / At(rows);
        for (std::size_t r = 0; r < At(rows); ++r)
          if (!fold.FoldRow(values.subspan(r * each, each), total[r].value)) return false;
        return true;
      }
      case ReduceLayout::kRows: {
        SpreadOver(values, total);
        for (std::size_t i = 0; i < values.size(); ++i)
          total[i].value = fold.Combine(total[i].value, values[i].value, values[i].lanes);
        return true;
      }
      case ReduceLayout::kRowsByElements: {
        const std::size_t each = values.size() / At(rows);
        SpreadOver(values.first(each), total);
        for (std::size_t c = 0; c < each; ++c) {
          std::vector<Value> column;
          for (std::size_t r = 0; r < At(rows); ++r) column.push_back(values[r * each + c].value);
          total[c].value = fold.FoldColumns(column, total[c].lanes, total[c].value);
        }
        return true;
      }
    }
    return false;
  }
  // One initial value for all: the lanes of these.
  void SpreadOver(std::span<const RoutineLanes> values, Accumulator& total) {
    if (total.size() == values.size() && total[0].lanes == values[0].lanes) return;
    const Value initial = total[0].value;
    total.clear();
    for (const RoutineLanes& v : values) total.push_back({block_.Spread(initial, v.lanes), v.lanes});
  }

  const ReduceRun& run_;
  const plan::ReduceKernel& body_;
  RoutineBlock& block_;
  LaneBuilder& builder_;
  std::span<const plan::Slice> buffers_;
  std::vector<Stage> stages_;
  std::vector<Accumulator> params_;
  std::vector<RoutineStore> stores_;
  int64_t slots_ = 0;
};

bool ReduceRun::FitsRoutines(const plan::ReduceKernel& body) const {
  if (!native::HasNativeCode() || window_ || chunks_ > 1 || elements_.count() == 0) return false;
  const auto points = CheckedMul(SaturatingProduct(body.row_dims), SaturatingProduct(body.element_dims));
  if (points.value_or(INT64_MAX) > MostRoutineElements()) return false;
  for (const ReduceStage& stage : body.stages) {
    const auto is_plain = [](const Reduction& r) { return r.inputs.size() == 1 && r.kind != Reduction::Kind::kOther; };
    if (!std::ranges::all_of(stage.reductions, is_plain)) return false;
    // Groups of sums are added as ReduceRun::FoldTiles does.
    if (std::ranges::any_of(stage.reductions, IsRoundedByOrder) && elements_.count() > group_tiles_) return false;
  }
  return true;
}

Result<bool> ReduceRun::AppendTo(RoutineBlock& block, std::span<const plan::Slice> bindings) const {
  if (source_ == nullptr) return false;
  return ReduceRoutine(*this, block, bindings).Add();
}

}  // namespace krafla::cpu
