// SPDX-License-Identifier: Apache-2.0
// The compilation of a reduction: how it is tiled, its stages' programs, the memory that they work in.
#include <algorithm>
#include <bit>
#include <map>

#include "base/checked_math.h"
#include "base/index.h"
#include "cpu_fallback/executor/arg_extremum.h"
#include "cpu_fallback/executor/long_sum.h"
#include "cpu_fallback/executor/reduce_run.h"
#include "cpu_fallback/executor/row_sums.h"
#include "cpu_fallback/executor/unrolled_program.h"
#include "plan/combiner_order.h"

namespace krafla::cpu {

using plan::ElementProgram;
using plan::NodeOp;
using plan::ReduceStage;
using plan::Reduction;

namespace {

// Work is shared out along the elements when there are fewer tiles of rows than this. Sizes alone decide, never the
// number of threads: results do not depend on it.
constexpr int64_t kFewRowTiles = 16;
constexpr int64_t kChunkElements = 32768;

// The dimensions of a tile that lie in [first, first + dims.size()), renumbered.
TileShape PartOf(const TileShape& tile, int first, std::size_t rank) {
  auto inside = [&](int d) { return d >= first && d < first + static_cast<int>(rank); };
  TileShape out;
  if (inside(tile.row_dim)) out.row_dim = tile.row_dim - first, out.rows = tile.rows;
  if (inside(tile.column_dim)) out.column_dim = tile.column_dim - first, out.columns = tile.columns;
  if (inside(tile.plane_dim)) out.plane_dim = tile.plane_dim - first, out.planes = tile.planes;
  return out;
}

// Results that nothing but sums and products of their own type is made of.
uint64_t SummedResults(const ReduceStage& stage) {
  uint64_t summed = 0, other = 0;
  for (const Reduction& r : stage.reductions)
    for (int input : r.inputs) {
      if (input >= 64) continue;
      const bool is_sum = r.kind == Reduction::Kind::kSum || r.kind == Reduction::Kind::kProduct;
      (is_sum && plan::ComputeType(r.hlo_type) == r.hlo_type ? summed : other) |= uint64_t{1} << input;
    }
  return summed & ~other;
}

// How native code combines what is reduced, and what leaves every number as it is, a zero of either sign too.
struct Folding {
  native::LaneOp op;
  uint64_t neutral;
};
std::optional<Folding> FoldingOf(const Reduction& r, ElementType type) {
  if (!IsFolded(r, type)) return std::nullopt;
  const native::LaneOp op = r.kind == Reduction::Kind::kSum       ? native::LaneOp::kAdd
                            : r.kind == Reduction::Kind::kProduct ? native::LaneOp::kMul
                            : r.kind == Reduction::Kind::kMin     ? native::LaneOp::kMin
                                                                  : native::LaneOp::kMax;
  return Folding{op, native::NeutralBits(op, type)};
}

ComplexProducts ProductsOf(const Reduction& r) {
  return r.kind == Reduction::Kind::kComplexProduct ? FindComplexProducts(plan::ComputeType(r.hlo_type))
                                                    : ComplexProducts();
}

// Which results of a stage are folded by native code where that can: those that one reduction takes, along rows.
std::vector<std::optional<native::LaneOp>> FoldsOf(const ReduceStage& stage, std::span<const ElementType> lanes) {
  std::vector<std::optional<native::LaneOp>> out(stage.program.results.size());
  std::vector<int> uses(out.size(), 0);
  for (const Reduction& r : stage.reductions)
    for (int input : r.inputs) ++uses[At(input)];
  for (const Reduction& r : stage.reductions) {
    const std::size_t input = At(r.inputs[0]);
    const ElementType type = plan::ComputeType(r.hlo_type);
    const std::optional<Folding> folding = FoldingOf(r, type);
    const bool is_alone = uses[input] == 1 && lanes[input] == ElementType::kInvalid;
    if (folding && is_alone && FindReduceOps(r.kind, type).rows != nullptr) out[input] = folding->op;
  }
  return out;
}

}  // namespace

KernelResult ReduceRun::Make(plan::ReduceKernel body, int threads, int64_t runs) {
  auto out = std::make_unique<ReduceRun>();
  for (ReduceStage& stage : body.stages) {
    std::vector<Reduction> parts;
    for (Reduction& r : stage.reductions) {
      std::vector<Reduction> independent = IndependentParts(r);
      if (independent.empty()) parts.push_back(std::move(r));
      std::ranges::move(independent, std::back_inserter(parts));
    }
    stage.reductions = std::move(parts);
  }
  // Divisions in index expressions go away where dimensions can be split; all stages share the row dimensions.
  std::size_t row_rank = body.row_dims.size();
  for (int round = 0; round < 8; ++round) {
    DimSplit split;
    for (const ReduceStage& stage : body.stages)
      if (split.dim < 0 || split.inner == 1) split = FindSplit(stage.program);
    if (split.dim < 0 || split.inner == 1) break;
    for (ReduceStage& stage : body.stages)
      if (split.dim < static_cast<int>(stage.program.space.dims().size()))
        stage.program = SplitDim(stage.program, split.dim, split.inner);
    const bool is_row = split.dim < static_cast<int>(row_rank);
    Dims& dims = is_row ? body.row_dims : body.element_dims;
    const auto at = static_cast<std::size_t>(is_row ? split.dim : split.dim - static_cast<int>(row_rank));
    const int64_t extent = dims[at];
    dims[at] = split.inner;
    dims.insert(dims.begin() + at, extent / split.inner);
    if (is_row) ++row_rank;
  }
  for (int64_t d : body.row_dims)
    if (d == 0) return out;
  out->row_rank_ = row_rank;
  const bool one_stage = std::ranges::count(body.stages, ReduceStage::Scope::kElement, &ReduceStage::scope) == 1;
  out->lanes_ = FindReduceLanes(body);
  if (one_stage) out->window_ = WindowFold::Find(body.stages[0], body.row_dims, body.element_dims);
  const bool is_long_extremum = out->window_ && out->window_->elements() >= kManyWindowElements &&
                                !IsRoundedByOrder(body.stages[0].reductions[0]);
  if (is_long_extremum && ChooseReduceTiling(body, out->lanes_).has_dense_columns) out->window_.reset();
  if (out->window_ && out->window_->IsOfFewSums()) out->window_.reset();
  const auto is_f32_sum = [](const Reduction& r) {
    return r.kind == Reduction::Kind::kSum && plan::ComputeType(r.hlo_type) == ElementType::kF32;
  };
  out->window_in_groups_ =
      out->window_ && is_f32_sum(body.stages[0].reductions[0]) && out->window_->elements() > kWindowTurns;
  out->ChooseWindow(body, threads);
  if (out->window_ && out->window_->IsOfShortRows() && !out->window_rows_)
    out->window_.reset(), out->window_target_.reset();
  if (out->window_)
    for (std::vector<ElementType>& types : out->lanes_) std::ranges::fill(types, out->window_->lane());
  out->ChooseLayout(body);
  if (out->FitsRoutines(body)) out->source_ = std::make_shared<const plan::ReduceKernel>(body);
  out->arrays_.emplace(body);
  if (out->layout_ != ReduceLayout::kRows && out->chunks_ == 1) out->arrays_->KeepValues(body, out->tile_);
  KRAFLA_TRY(out->CompileRowValues(body));
  if (out->layout_ == ReduceLayout::kRowsByElements || out->layout_ == ReduceLayout::kElementsByRows)
    out->arrays_->LoadParams(body, out->tile_);
  KRAFLA_TRY(out->CompileStages(body, runs));
  out->PlaceMemory(threads);
  return out;
}

// Where the window's sums are made, and whether a row of several dimensions at a time.
void ReduceRun::ChooseWindow(const plan::ReduceKernel& body, int threads) {
  if (!window_ || window_in_groups_ || body.stages.size() < 2) return;
  const auto target_of = [&](const WindowFold& fold) {
    return body.stages.size() == 2 ? fold.FindTarget(body.stages[1]) : std::nullopt;
  };
  WindowFold dense = window_->WithDenseColumns(body.row_dims);
  window_target_ = target_of(dense);
  window_rows_ = WindowRows::Find(dense, window_target_, *window_, body.stages[0].reductions[0], body.row_dims);
  if (window_rows_) window_ = std::move(dense);
  else window_target_ = target_of(*window_);
  if (!window_rows_ && window_target_)
    window_sums_ = WindowSums::Find(*window_, *window_target_, body.stages[0].reductions[0], body.row_dims, threads);
}

void ReduceRun::ChooseLayout(const plan::ReduceKernel& body) {
  const int64_t element_count = Product(body.element_dims);
  if (window_) {
    layout_ = ReduceLayout::kRows;
    tile_ = window_->tile();
  } else {
    const ReduceTiling tiling = ChooseReduceTiling(body, lanes_);
    layout_ = tiling.layout;
    tile_ = tiling.tile;
    plane_stride_ = tiling.plane_stride;
  }
  tile_elements_ = tile_.rows * tile_.columns;
  elements_ = TileGrid(body.element_dims, PartOf(tile_, static_cast<int>(row_rank_), body.element_dims.size()));
  PlaceRows(body);
  if (element_count == 0) elements_ = TileGrid();
  // Programs see one plane.
  tile_.plane_dim = -1, tile_.planes = 1;
  // Values of one lane that follow each other in a tile: a row of values has accumulators of its own.
  const int64_t turns = layout_ == ReduceLayout::kRowsByElements ? tile_.rows
                        : layout_ == ReduceLayout::kRows         ? 1
                                                                 : std::max<int64_t>(8, tile_elements_ / 256);
  group_tiles_ = std::max<int64_t>(1, GroupTurns(element_count) / turns);
  // What is multiplied or selected in turn is not shared out.
  const bool in_turn = std::ranges::any_of(body.stages, [](const ReduceStage& stage) {
    return std::ranges::any_of(stage.reductions, [](const Reduction& r) {
      return r.kind == Reduction::Kind::kComplexProduct || plan::CombinesInTurn(r);
    });
  });
  if (rows_.count() < kFewRowTiles && !window_ && !in_turn)
    chunks_ = std::clamp<int64_t>(element_count * max_lanes_ / kChunkElements, 1,
                                  std::min<int64_t>(64, std::max<int64_t>(elements_.count(), 1)));
}

void ReduceRun::PlaceRows(const plan::ReduceKernel& body) {
  rows_ = TileGrid(body.row_dims, layout_ == ReduceLayout::kElementsByRows ? PartOf(tile_, 0, row_rank_) : RowTile());
  switch (layout_) {
    case ReduceLayout::kRows: max_lanes_ = tile_elements_; break;
    case ReduceLayout::kRowsByElements: max_lanes_ = row_planes_ * tile_.columns; break;
    case ReduceLayout::kElements: max_lanes_ = 1; break;
    case ReduceLayout::kElementsByRows: max_lanes_ = tile_.rows; break;
  }
  row_tile_nanoseconds_ =
      20 + static_cast<double>(Product(body.element_dims) * max_lanes_) * 0.3 * static_cast<double>(body.stages.size());
}

void ReduceRun::ChoosePlanes(const plan::ReduceKernel& body) {
  constexpr int64_t kPlaneElements = 8192, kPlaneLanes = 1024;
  const bool is_one_call = layout_ == ReduceLayout::kRowsByElements && elements_.count() == 1 && plane_stride_ == 0 &&
                           tile_.columns == body.row_dims[At(tile_.column_dim)] &&
                           std::ranges::count(body.stages, ReduceStage::Scope::kElement, &ReduceStage::scope) == 1;
  const BlockProgram& program = stages_[0].program;
  planes_fold_ = program.FoldsAll();
  // Of what no routine folds a call has all planes, too, which are folded one after the other.
  const bool has_folds = std::ranges::any_of(
      body.stages[0].reductions, [&](const Reduction& r) { return program.FoldBuffer(At(r.inputs[0])) >= 0; });
  const bool are_in_turn = !has_folds && arrays_->arrays().empty();
  // Programs of loops that are one routine have small tiles of their own.
  if (!is_one_call || source_ != nullptr || stages_[0].row_value_count > 0 || (!planes_fold_ && !are_in_turn)) return;
  int dim = -1;
  for (int d = 0; d < static_cast<int>(row_rank_); ++d)
    if (d != tile_.column_dim && (dim < 0 || body.row_dims[At(d)] >= body.row_dims[At(dim)])) dim = d;
  if (dim < 0) return;
  const int64_t planes =
      std::min({body.row_dims[At(dim)], kPlaneElements / tile_elements_, kPlaneLanes / tile_.columns});
  if (planes < 2) return;
  plane_dim_ = dim, row_planes_ = planes;
  PlaceRows(body);
}

TileShape ReduceRun::RowTile() const {
  if (layout_ == ReduceLayout::kElementsByRows)
    return {.row_dim = -1, .column_dim = tile_.row_dim, .rows = 1, .columns = tile_.rows};
  TileShape out = PartOf(tile_, 0, row_rank_);
  if (plane_dim_ >= 0) out.row_dim = plane_dim_, out.rows = row_planes_;
  return out;
}

// Where a tile has one row, what is the same throughout it is computed once as it is.
Result<> ReduceRun::CompileRowValues(plan::ReduceKernel& body) {
  const uint64_t row_mask = row_rank_ == 0 ? 0 : ~uint64_t{0} >> (64 - row_rank_);
  stages_.resize(body.stages.size());
  if (layout_ == ReduceLayout::kElements || window_) return {};
  int next = 0;
  for (const ReduceStage& stage : body.stages)
    for (const Reduction& r : stage.reductions) next += static_cast<int>(r.inputs.size());
  for (std::size_t s = 0; s < body.stages.size(); ++s) {
    if (body.stages[s].scope != ReduceStage::Scope::kElement) continue;
    std::optional<RowValues> values = TakeRowValues(body.stages[s].program, body.row_dims, next);
    if (!values) continue;
    KRAFLA_ASSIGN(stages_[s].row_values,
                  BlockProgram::Compile(values->program, {.tile = RowTile(), .param_depends = row_mask}));
    stages_[s].first_row_value = next;
    stages_[s].row_value_count = static_cast<int>(values->types.size());
    next += stages_[s].row_value_count;
    for (ElementType t : values->types) row_value_widths_.push_back(StorageBytes(t));
  }
  return {};
}

// Columns of a few rows are folded in another order.
bool ReduceRun::TilesFold() const {
  if (layout_ != ReduceLayout::kRowsByElements) return layout_ != ReduceLayout::kRows;
  if (tile_.row_dim < 0) return false;
  const int64_t extent = elements_.Extent(tile_.row_dim - static_cast<int>(row_rank_));
  const int64_t rest = extent % tile_.rows;
  return tile_.rows > kRowsInTurn && (rest == 0 || rest > kRowsInTurn);
}

Result<BlockProgram> ReduceRun::CompileProgram(const ReduceStage& stage, std::size_t number, int64_t runs) const {
  const uint64_t row_mask = row_rank_ == 0 ? 0 : ~uint64_t{0} >> (64 - row_rank_);
  const bool is_row = stage.scope == ReduceStage::Scope::kRow;
  const std::vector<ElementType>& lanes = lanes_[number];
  BlockProgram::Options options{.tile = tile_, .param_depends = row_mask, .result_lanes = lanes, .runs = runs};
  options.summed = SummedResults(stage);
  // Of less than a few tiles the compiler's own estimate holds.
  options.elements = std::max(16 * tile_elements_, SaturatingProduct(stage.program.space.dims()));
  // A row stage has the lanes of the accumulators.
  if (is_row) options.tile = RowTile();
  std::vector<std::optional<native::LaneOp>> folds;
  if (!is_row && TilesFold()) folds = FoldsOf(stage, lanes);
  options.folds = folds;
  options.fold_side = layout_ == ReduceLayout::kElementsByRows   ? FoldSide::kRows
                      : layout_ == ReduceLayout::kRowsByElements ? FoldSide::kColumns
                                                                 : FoldSide::kTile;
  return BlockProgram::Compile(stage.program, options);
}

Result<> ReduceRun::CompileStages(const plan::ReduceKernel& body, int64_t runs) {
  for (std::size_t number = 0; number < body.stages.size(); ++number) {
    const ReduceStage& stage = body.stages[number];
    const std::vector<ElementType>& lanes = lanes_[number];
    CompiledStage& made = stages_[number];
    made.scope = stage.scope;
    KRAFLA_ASSIGN(made.program, CompileProgram(stage, number, runs));
    if (number == 0 && stage.scope == ReduceStage::Scope::kElement) ChoosePlanes(body);
    for (const plan::Node& n : stage.program.nodes)
      if (n.op == NodeOp::kParam) made.params.push_back(static_cast<int>(n.bits));
    std::sort(made.params.begin(), made.params.end());
    made.params.erase(std::unique(made.params.begin(), made.params.end()), made.params.end());
    std::size_t stage_values = 0;
    made.sums_f32 = true;
    bool in_turn = false;
    for (const Reduction& r : stage.reductions) {
      CompiledReduction reduction;
      reduction.first_param = param_count_;
      reduction.in_turn = plan::CombinesInTurn(r);
      in_turn |= reduction.in_turn;
      if (reduction.in_turn && plan::IsOrderWithoutNan(r)) reduction.ordered = plan::ComputeType(r.hlo_type);
      made.sums_floats |= IsRoundedByOrder(r);
      made.sums_f32 &=
          r.kind == Reduction::Kind::kSum && r.inputs.size() == 1 && plan::ComputeType(r.hlo_type) == ElementType::kF32;
      for (int input : r.inputs) {
        const plan::NodeId node = stage.program.results[static_cast<std::size_t>(input)];
        const ElementType type = stage.program.nodes[static_cast<std::size_t>(node)].type;
        const ElementType lane = lanes[static_cast<std::size_t>(input)];
        reduction.values.push_back({StorageBytes(lane == ElementType::kInvalid ? type : lane), input});
        param_widths_.push_back(StorageBytes(type));
        ++param_count_;
      }
      max_values_ = std::max(max_values_, static_cast<int>(reduction.values.size()));
      stage_values += reduction.values.size();
      if (stage_values > kMaxReducedValues)
        return Unimplemented("A stage that reduces {} values at once; the CPU's kernel takes {}.", stage_values,
                             kMaxReducedValues);
      const ElementType lane =
          r.inputs.size() == 1 ? lanes[static_cast<std::size_t>(r.inputs[0])] : ElementType::kInvalid;
      if (lane != ElementType::kInvalid) {
        reduction.ops = FindReduceOps(r.kind, lane);
        reduction.narrow = FindNarrow(lane);
        reduction.widen = FindWiden(lane);
      } else if (r.inputs.size() == 1) {
        reduction.ops = FindReduceOps(r.kind, plan::ComputeType(r.hlo_type));
      }
      reduction.products = ProductsOf(r);
      if (reduction.ops.rows == nullptr && reduction.products.rows == nullptr) {
        const int64_t most = std::max(tile_elements_, max_lanes_);
        KRAFLA_ASSIGN(reduction.combiner, BlockProgram::Compile(r.combiner, {.tile = {.rows = 1, .columns = most},
                                                                             .params_are_arrays = true}));
      } else if (reduction.ops.rows != nullptr && lane == ElementType::kInvalid && plan::IsNarrow(r.hlo_type) &&
                 IsIntegral(r.hlo_type) && (r.kind == Reduction::Kind::kSum || r.kind == Reduction::Kind::kProduct)) {
        const ElementType type = plan::ComputeType(r.hlo_type);
        reduction.wrap = FindBlockFn({.op = NodeOp::kWrap, .type = type, .operand = type, .storage = r.hlo_type});
      }
      const ElementType computed = plan::ComputeType(r.hlo_type);
      if (reduction.ops.rows != nullptr && lane == ElementType::kInvalid)
        if (const std::optional<Folding> folding = FoldingOf(r, computed)) reduction.neutral = folding->neutral;
      reduction.arg_extremum = FindArgExtremum(r);
      reduction.arg_columns = FindPairColumns(r);
      if (reduction.neutral) reduction.fold_buffer = made.program.FoldBuffer(At(r.inputs[0]));
      if (r.kind != Reduction::Kind::kOther && IsFloat(computed)) reduction.arithmetic = computed;
      KRAFLA_ASSIGN(reduction.init, BlockProgram::Compile(r.init, {}));
      made.reductions.push_back(std::move(reduction));
    }
    made.sums_floats &= !in_turn;
  }
  param_widths_.insert(param_widths_.end(), row_value_widths_.begin(), row_value_widths_.end());
  param_count_ += static_cast<int>(row_value_widths_.size());
  return {};
}

void ReduceRun::PlaceMemory(int threads) {
  int64_t size = 0;
  auto take = [&](int64_t bytes) {
    const int64_t at = size;
    size += RoundUp(bytes, 64);
    return at;
  };
  int64_t init_bytes = 0;
  for (CompiledStage& stage : stages_) {
    stage.frame = take(stage.program.frame_bytes());
    if (stage.row_value_count > 0) stage.row_values_frame = take(stage.row_values.frame_bytes());
    int64_t values = 0;
    for (CompiledReduction& r : stage.reductions) {
      r.combiner_frame = take(r.combiner.frame_bytes());
      init_bytes = std::max(init_bytes, r.init.frame_bytes());
      values += static_cast<int64_t>(r.values.size());
    }
    stage_values_ = std::max(stage_values_, values);
  }
  accumulator_bytes_ = RoundUp(max_lanes_ * 8, 64);
  accumulators_ = take(accumulator_bytes_ * param_count_);
  initials_ = take(8 * param_count_);
  for (const StageArrays::Array& a : arrays_->arrays())
    array_places_.push_back(a.param >= 0 ? accumulators_ + a.param * accumulator_bytes_ : take(a.elements * a.width));
  pointers_ = take(static_cast<int64_t>(sizeof(void*)) * (param_count_ + 1));
  init_frame_ = take(init_bytes);
  // For each value: a combiner's results, two halves of a row, and an array of a value that is uniform.
  temporary_bytes_ = RoundUp(std::max(tile_elements_, max_lanes_) * 8, 64);
  temporaries_ = take(4 * max_values_ * temporary_bytes_);
  // A partial result for each power of two of groups, and the next one.
  const int levels = 1 + std::bit_width(static_cast<uint64_t>(CeilDiv(elements_.count(), group_tiles_)));
  if (std::ranges::any_of(stages_, &CompiledStage::sums_floats))
    groups_ = take(levels * stage_values_ * accumulator_bytes_);
  worker_bytes_ = size;
  shared_ = worker_bytes_ * threads;
  scratch_bytes_ = shared_ + (chunks_ > 1 ? chunks_ * stage_values_ * accumulator_bytes_ : 0);
  if (window_sums_) scratch_bytes_ = std::max(scratch_bytes_, window_sums_->scratch_bytes());
}

KernelResult MakeReduceKernel(const plan::KernelPlan& plan, const plan::ReduceKernel& body,
                              const CpuKernelOptions& options) {
  KRAFLA_ASSIGN(std::unique_ptr<CpuKernel> sums, RowSums::Make(body, options.threads, options.runs));
  if (sums != nullptr) return sums;
  if (std::optional<ElementProgram> loop = UnrolledReduction(body, options.runs))
    return MakeLoopKernel(plan, {std::move(*loop)}, options);
  return ReduceRun::Make(body, options.threads, options.runs);
}

}  // namespace krafla::cpu
