// SPDX-License-Identifier: Apache-2.0
// Rows of elements, reduced in stages. A tile lies along element dimensions (its values are folded into one number a
// row), along row dimensions (rows side by side, folded element by element), or both.
#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>

#include "base/checked_math.h"
#include "base/index.h"
#include "base/interruption.h"
#include "cpu_fallback/executor/combination.h"
#include "cpu_fallback/executor/kernel_families.h"
#include "cpu_fallback/executor/long_sum.h"
#include "cpu_fallback/executor/reduce_stage.h"
#include "cpu_fallback/executor/reduce_tiling.h"
#include "cpu_fallback/executor/row_values.h"
#include "cpu_fallback/executor/stage_arrays.h"
#include "cpu_fallback/executor/window_fold.h"
#include "cpu_fallback/kernels/move.h"
#include "cpu_fallback/kernels/reduce_ops.h"

namespace krafla::cpu {

namespace {

using plan::ElementProgram;
using plan::NodeOp;
using plan::ReduceStage;
using plan::Reduction;

constexpr std::size_t kMaxValues = 64;  // that the reductions of one stage have
// Work is shared out along the elements when there are fewer tiles of rows than this. Sizes alone decide, never the
// number of threads: results do not depend on it.
constexpr int64_t kFewRowTiles = 16;
constexpr int64_t kChunkElements = 32768;
constexpr int64_t kManyElements = 32;  // of windows that do not overlap: bounds tell extrema of columns faster
constexpr int64_t kWindowTurns = 64;  // elements of a window that are added in turn
constexpr int64_t kFoldsBetweenLooks = 16;  // tiles after which it is asked whether the run may go on
constexpr int64_t kElementsBetweenLooks = 65536;  // of a window

using Layout = ReduceLayout;

// The dimensions of a tile that lie in [first, first + dims.size()), renumbered.
TileShape PartOf(const TileShape& tile, int first, std::size_t rank) {
  auto inside = [&](int d) { return d >= first && d < first + static_cast<int>(rank); };
  TileShape out;
  if (inside(tile.row_dim)) out.row_dim = tile.row_dim - first, out.rows = tile.rows;
  if (inside(tile.column_dim)) out.column_dim = tile.column_dim - first, out.columns = tile.columns;
  return out;
}

class ReduceRun final : public CpuKernel {
 public:
  static KernelResult Make(plan::ReduceKernel body, int threads);

  Result<> Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const override;

 private:
  // One worker's memory, and what it is working on.
  struct Worker {
    std::byte* memory = nullptr;
    std::span<std::byte* const> bindings;
    TileGrid::Tile row_tile, element_tile;
    Dims origin;
    int64_t lanes = 1;
  };

  void ChooseLayout(const plan::ReduceKernel& body);
  // The tile of what has a value a row.
  TileShape RowTile() const;
  Result<> CompileRowValues(plan::ReduceKernel& body);
  Result<> CompileStages(const plan::ReduceKernel& body);
  void PlaceMemory(int threads);

  void Start(Worker& worker, std::byte* memory, std::span<std::byte* const> bindings) const;
  void SeekRow(Worker& worker, int64_t row_tile) const;
  int64_t LanesOf(const TileGrid::Tile& row_tile) const {
    return layout_ == Layout::kElements ? 1 : row_tile.rows * row_tile.columns;
  }
  std::byte* Accumulator(const Worker& worker, int param) const {
    return worker.memory + accumulators_ + param * accumulator_bytes_;
  }
  // Sets up the params that the stage's program has still; returns the pointers.
  const void* const* Params(const Worker& worker, const CompiledStage& stage) const;
  void InitialValues(const Worker& worker, const CompiledReduction& r, std::byte* const* to) const;
  // Folds elements [begin, end) of the tile grid into `to`; with `fresh`, `to` has nothing to start with. Floats are
  // folded in groups of tiles: sums of f32 add the groups in f64, others combine them in pairs, so that the error grows
  // with the logarithm of their number.
  void FoldTiles(Worker& worker, const CompiledStage& stage, int64_t begin, int64_t end, bool fresh,
                 std::byte* const* to) const;
  void FoldInPairs(Worker& worker, const CompiledStage& stage, int64_t tiles, bool fresh, std::byte* const* to) const;
  void FoldInF64(Worker& worker, const CompiledStage& stage, int64_t tiles, bool fresh, std::byte* const* to) const;
  void FoldWindow(Worker& worker, std::byte* to) const;
  // The next tiles, one after the other.
  void FoldInTurn(Worker& worker, const CompiledStage& stage, int64_t tiles, bool fresh, std::byte* const* to) const;
  void FoldTile(const Worker& worker, const CompiledStage& stage, const CompiledReduction& r, int64_t rows,
                int64_t columns, bool fresh, std::byte* const* to) const;
  void Combine(const Worker& worker, const CompiledReduction& r, int64_t n, std::byte* const* accumulators,
               const std::byte* const* values) const;
  void CombineRows(const Worker& worker, const CompiledReduction& r, int64_t rows, int64_t n, std::byte* const* accumulators,
                   const std::byte* const* values) const;
  // All reductions of a stage: their accumulators in turn.
  void CombineStage(const Worker& worker, const CompiledStage& stage, std::byte* const* accumulators,
                    const std::byte* const* values) const;
  void Finish(const Worker& worker, const CompiledReduction& r, std::byte* const* to) const;
  void RunRowValues(const Worker& worker, const CompiledStage& stage) const;
  void RunElements(Worker& worker, const CompiledStage& stage, int64_t begin, int64_t end) const;
  void RunRowStage(Worker& worker, const CompiledStage& stage) const;
  void RunRowTile(Worker& worker) const;
  void RunInPlace(Worker& worker) const;
  Result<> RunSplit(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const;

  Layout layout_ = Layout::kElements;
  std::optional<WindowFold> window_;  // of the one element stage
  bool window_in_groups_ = false;
  std::optional<WindowFold::Target> window_target_;  // the sums are made where they are stored
  std::size_t row_rank_ = 0;
  ReduceLanes lanes_;
  TileShape tile_;
  TileGrid rows_, elements_;
  std::vector<CompiledStage> stages_;
  std::optional<StageArrays> arrays_;
  int param_count_ = 0;
  std::vector<int> param_widths_, row_value_widths_;
  int64_t max_lanes_ = 1, tile_elements_ = 1;
  int64_t chunks_ = 1;
  int64_t grain_ = 1;
  int64_t group_tiles_ = 1;  // folded in turn

  // Offsets in a worker's scratch.
  int64_t accumulators_ = 0, accumulator_bytes_ = 0, initials_ = 0, pointers_ = 0,
          init_frame_ = 0, temporaries_ = 0, temporary_bytes_ = 0, groups_ = 0, worker_bytes_ = 0;
  std::vector<int64_t> array_places_;  // of arrays_
  int64_t stage_values_ = 1;  // the most that a stage has
  int64_t shared_ = 0;  // partial results of chunks, behind the workers
  int max_values_ = 1;
};

KernelResult ReduceRun::Make(plan::ReduceKernel body, int threads) {
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
  const bool is_long_extremum = out->window_ && out->window_->elements() >= kManyElements && !DependsOnOrder(body.stages[0].reductions[0]);
  if (is_long_extremum && ChooseReduceTiling(body, out->lanes_).has_dense_columns) out->window_.reset();
  const auto is_f32_sum = [](const Reduction& r) { return r.kind == Reduction::Kind::kSum && plan::ComputeType(r.hlo_type) == ElementType::kF32; };
  out->window_in_groups_ = out->window_ && is_f32_sum(body.stages[0].reductions[0]) && out->window_->elements() > kWindowTurns;
  if (out->window_ && !out->window_in_groups_ && body.stages.size() == 2) out->window_target_ = out->window_->FindTarget(body.stages[1]);
  if (out->window_)
    for (std::vector<ElementType>& types : out->lanes_) std::ranges::fill(types, ElementType::kInvalid);
  out->ChooseLayout(body);
  out->arrays_.emplace(body);
  if (out->layout_ != Layout::kRows && out->chunks_ == 1) out->arrays_->KeepValues(body, out->tile_);
  KRAFLA_TRY(out->CompileRowValues(body));
  if (out->layout_ == Layout::kRowsByElements || out->layout_ == Layout::kElementsByRows) out->arrays_->LoadParams(body, out->tile_);
  KRAFLA_TRY(out->CompileStages(body));
  out->PlaceMemory(threads);
  return out;
}

void ReduceRun::ChooseLayout(const plan::ReduceKernel& body) {
  int64_t element_count = 1;
  for (int64_t d : body.element_dims) element_count *= d;
  if (window_) {
    layout_ = Layout::kRows;
    tile_ = window_->tile();
  } else {
    const ReduceTiling tiling = ChooseReduceTiling(body, lanes_);
    layout_ = tiling.layout;
    tile_ = tiling.tile;
  }
  tile_elements_ = tile_.rows * tile_.columns;
  rows_ = TileGrid(body.row_dims, PartOf(tile_, 0, body.row_dims.size()));
  elements_ = TileGrid(body.element_dims, PartOf(tile_, static_cast<int>(row_rank_), body.element_dims.size()));
  switch (layout_) {
    case Layout::kRows: max_lanes_ = tile_elements_; break;
    case Layout::kRowsByElements: max_lanes_ = tile_.columns; break;
    case Layout::kElements: max_lanes_ = 1; break;
    case Layout::kElementsByRows: max_lanes_ = tile_.rows; break;
  }
  if (element_count == 0) elements_ = TileGrid();
  // Values of one lane that follow each other in a tile: a row of values has accumulators of its own.
  const int64_t turns = layout_ == Layout::kRowsByElements ? tile_.rows : layout_ == Layout::kRows ? 1 : std::max<int64_t>(8, tile_elements_ / 256);
  group_tiles_ = std::max<int64_t>(1, GroupTurns(element_count) / turns);
  if (rows_.count() < kFewRowTiles && !window_)
    chunks_ = std::clamp<int64_t>(element_count * max_lanes_ / kChunkElements, 1, std::min<int64_t>(64, std::max<int64_t>(elements_.count(), 1)));
  // About 10 us of work for a thread.
  const double row_tile_time = 20 + static_cast<double>(element_count * max_lanes_) * 0.3 * static_cast<double>(body.stages.size());
  grain_ = std::max<int64_t>(1, static_cast<int64_t>(10000 / row_tile_time));
}

TileShape ReduceRun::RowTile() const {
  if (layout_ == Layout::kElementsByRows) return {.row_dim = -1, .column_dim = tile_.row_dim, .rows = 1, .columns = tile_.rows};
  return PartOf(tile_, 0, row_rank_);
}

// Where a tile has one row, what is the same throughout it is computed once as it is.
Result<> ReduceRun::CompileRowValues(plan::ReduceKernel& body) {
  const uint64_t row_mask = row_rank_ == 0 ? 0 : ~uint64_t{0} >> (64 - row_rank_);
  stages_.resize(body.stages.size());
  if (layout_ == Layout::kElements || window_) return {};
  int next = 0;
  for (const ReduceStage& stage : body.stages)
    for (const Reduction& r : stage.reductions) next += static_cast<int>(r.inputs.size());
  for (std::size_t s = 0; s < body.stages.size(); ++s) {
    if (body.stages[s].scope != ReduceStage::Scope::kElement) continue;
    std::optional<RowValues> values = TakeRowValues(body.stages[s].program, body.row_dims, next);
    if (!values) continue;
    KRAFLA_ASSIGN(stages_[s].row_values, BlockProgram::Compile(values->program, {.tile = RowTile(), .param_depends = row_mask}));
    stages_[s].first_row_value = next;
    stages_[s].row_value_count = static_cast<int>(values->types.size());
    next += stages_[s].row_value_count;
    for (ElementType t : values->types) row_value_widths_.push_back(StorageBytes(t));
  }
  return {};
}

Result<> ReduceRun::CompileStages(const plan::ReduceKernel& body) {
  const uint64_t row_mask = row_rank_ == 0 ? 0 : ~uint64_t{0} >> (64 - row_rank_);
  for (std::size_t number = 0; number < body.stages.size(); ++number) {
    const ReduceStage& stage = body.stages[number];
    CompiledStage& made = stages_[number];
    made.scope = stage.scope;
    const bool is_row = stage.scope == ReduceStage::Scope::kRow;
    const std::vector<ElementType>& lanes = lanes_[number];
    BlockProgram::Options options{.tile = tile_, .param_depends = row_mask, .result_lanes = lanes};
    // A row stage has the lanes of the accumulators.
    if (is_row) options.tile = RowTile();
    KRAFLA_ASSIGN(made.program, BlockProgram::Compile(stage.program, options));
    for (const plan::Node& n : stage.program.nodes)
      if (n.op == NodeOp::kParam) made.params.push_back(static_cast<int>(n.bits));
    std::sort(made.params.begin(), made.params.end());
    made.params.erase(std::unique(made.params.begin(), made.params.end()), made.params.end());
    std::size_t stage_values = 0;
    made.sums_f32 = true;
    for (const Reduction& r : stage.reductions) {
      CompiledReduction reduction;
      reduction.first_param = param_count_;
      made.sums_floats |= DependsOnOrder(r);
      made.sums_f32 &= r.kind == Reduction::Kind::kSum && r.inputs.size() == 1 && plan::ComputeType(r.hlo_type) == ElementType::kF32;
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
      if (stage_values > kMaxValues)
        return Unimplemented("A stage that reduces {} values at once; the CPU's kernel takes {}.", stage_values, kMaxValues);
      const ElementType lane = r.inputs.size() == 1 ? lanes[static_cast<std::size_t>(r.inputs[0])] : ElementType::kInvalid;
      if (lane != ElementType::kInvalid) {
        reduction.ops = FindReduceOps(r.kind, lane);
        reduction.narrow = FindNarrow(lane);
        reduction.widen = FindWiden(lane);
      } else if (r.inputs.size() == 1) {
        reduction.ops = FindReduceOps(r.kind, plan::ComputeType(r.hlo_type));
      }
      if (reduction.ops.rows == nullptr) {
        const int64_t most = std::max(tile_elements_, max_lanes_);
        KRAFLA_ASSIGN(reduction.combiner,
                      BlockProgram::Compile(r.combiner, {.tile = {.rows = 1, .columns = most}, .params_are_arrays = true}));
      } else if (lane == ElementType::kInvalid && plan::IsNarrow(r.hlo_type) && IsIntegral(r.hlo_type) &&
                 (r.kind == Reduction::Kind::kSum || r.kind == Reduction::Kind::kProduct)) {
        const ElementType type = plan::ComputeType(r.hlo_type);
        reduction.wrap = FindBlockFn({.op = NodeOp::kWrap, .type = type, .operand = type, .storage = r.hlo_type});
      }
      const ElementType computed = plan::ComputeType(r.hlo_type);
      if (r.kind != Reduction::Kind::kOther && IsFloat(computed)) reduction.arithmetic = computed;
      KRAFLA_ASSIGN(reduction.init, BlockProgram::Compile(r.init, {}));
      made.reductions.push_back(std::move(reduction));
    }
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
  if (std::ranges::any_of(stages_, &CompiledStage::sums_floats)) groups_ = take(levels * stage_values_ * accumulator_bytes_);
  worker_bytes_ = size;
  shared_ = worker_bytes_ * threads;
  scratch_bytes_ = shared_ + (chunks_ > 1 ? chunks_ * stage_values_ * accumulator_bytes_ : 0);
}

void ReduceRun::Start(Worker& worker, std::byte* memory, std::span<std::byte* const> bindings) const {
  worker.memory = memory;
  worker.bindings = bindings;
  worker.origin.resize(row_rank_ + elements_.rank());
  for (const CompiledStage& stage : stages_) {
    stage.program.Start(memory + stage.frame, bindings);
    if (stage.row_value_count > 0) stage.row_values.Start(memory + stage.row_values_frame, bindings);
    for (const CompiledReduction& r : stage.reductions) {
      if (r.ops.rows == nullptr) r.combiner.Start(memory + r.combiner_frame, bindings);
      r.init.Start(memory + init_frame_, bindings);
      r.init.RunTile(memory + init_frame_, {}, 1, 1);
      for (std::size_t v = 0; v < r.values.size(); ++v) {
        const std::byte* from = r.init.ResultValue(memory + init_frame_, v).data;
        std::byte* to = memory + initials_ + 8 * (r.first_param + static_cast<int>(v));
        if (r.narrow != nullptr) r.narrow(from, to, 1);
        else std::memcpy(to, from, static_cast<std::size_t>(r.values[v].width));
      }
    }
  }
}

void ReduceRun::SeekRow(Worker& worker, int64_t row_tile) const {
  rows_.Seek(row_tile, worker.row_tile);
  std::copy(worker.row_tile.origin.begin(), worker.row_tile.origin.end(), worker.origin.begin());
  worker.lanes = LanesOf(worker.row_tile);
  for (std::size_t i = 0; i < array_places_.size(); ++i) {
    std::byte* const base = arrays_->BaseOf(i, worker.memory + array_places_[i], worker.row_tile.origin);
    for (const CompiledStage& stage : stages_)
      if (stage.scope == ReduceStage::Scope::kElement)
        stage.program.SetBuffer(worker.memory + stage.frame, arrays_->first_buffer() + static_cast<int>(i), base);
  }
}

const void* const* ReduceRun::Params(const Worker& worker, const CompiledStage& stage) const {
  const void** pointers = reinterpret_cast<const void**>(worker.memory + pointers_);
  for (int p : stage.params) pointers[p] = Accumulator(worker, p);
  return pointers;
}

void ReduceRun::InitialValues(const Worker& worker, const CompiledReduction& r, std::byte* const* to) const {
  for (std::size_t v = 0; v < r.values.size(); ++v)
    Fill(r.values[v].width, worker.memory + initials_ + 8 * (r.first_param + static_cast<int>(v)), to[v], worker.lanes);
}

void ReduceRun::Combine(const Worker& worker, const CompiledReduction& r, int64_t n, std::byte* const* accumulators,
                        const std::byte* const* values) const {
  if (r.ops.columns != nullptr) {
    r.ops.columns(values[0], 1, n, accumulators[0]);
    return;
  }
  const void* params[2 * kMaxValues];
  const std::size_t count = r.values.size();
  for (std::size_t v = 0; v < count; ++v) params[v] = accumulators[v], params[count + v] = values[v];
  std::byte* frame = worker.memory + r.combiner_frame;
  r.combiner.RunTile(frame, {}, 1, n, params);
  // Results may be params themselves, another accumulator's too: collect before writing.
  std::byte* temporary = worker.memory + temporaries_;
  const int64_t step = temporary_bytes_;
  for (std::size_t v = 0; v < count; ++v) {
    const BlockProgram::Value value = r.combiner.ResultValue(frame, v);
    std::byte* at = temporary + static_cast<int64_t>(v) * step;
    if (value.is_uniform) Fill(r.values[v].width, value.data, at, n);
    else std::memcpy(at, value.data, static_cast<std::size_t>(n * r.values[v].width));
  }
  for (std::size_t v = 0; v < count; ++v)
    std::memcpy(accumulators[v], temporary + static_cast<int64_t>(v) * step, static_cast<std::size_t>(n * r.values[v].width));
}

// One accumulator a value and row, and n new ones in each: neighbours are combined until one is left, so that the order
// stays. While their number is even, those of all rows are combined as one array.
void ReduceRun::CombineRows(const Worker& worker, const CompiledReduction& r, int64_t rows, int64_t n, std::byte* const* accumulators,
                            const std::byte* const* values) const {
  if (r.ops.rows != nullptr) {
    r.ops.rows(values[0], rows, n, accumulators[0]);
    return;
  }
  if (n == 0) return;
  const int64_t step = temporary_bytes_;
  std::byte* base = worker.memory + temporaries_ + max_values_ * step;
  std::byte *left[kMaxValues], *right[kMaxValues];
  for (std::size_t v = 0; v < r.values.size(); ++v) {
    left[v] = base + static_cast<int64_t>(v) * step;
    right[v] = base + static_cast<int64_t>(r.values.size() + v) * step;
  }
  const std::byte* from[kMaxValues];
  std::copy(values, values + r.values.size(), from);
  while (n > 1) {
    const int64_t pairs = n / 2, odd = n % 2;
    for (std::size_t v = 0; v < r.values.size(); ++v) {
      const int width = r.values[v].width;
      // Of an odd number each row's last one stays as it is, behind the pairs.
      const int64_t lines = odd == 0 ? 1 : rows, each = odd == 0 ? rows * pairs : pairs;
      MoveTile(width, from[v] + width, {n, 2}, right[v], {pairs, 1}, lines, each);
      if (odd != 0) MoveTile(width, from[v] + (n - 1) * width, {0, n}, right[v] + rows * pairs * width, {0, 1}, 1, rows);
      MoveTile(width, from[v], {n, 2}, left[v], {pairs, 1}, lines, each);
    }
    Combine(worker, r, rows * pairs, left, right);
    for (std::size_t v = 0; v < r.values.size(); ++v) {
      const int width = r.values[v].width;
      from[v] = left[v];
      if (odd == 0) continue;
      // Combined ones and the one left over, row by row.
      std::byte* together = worker.memory + temporaries_ + static_cast<int64_t>(v) * step;
      MoveTile(width, left[v], {pairs, 1}, together, {pairs + 1, 1}, rows, pairs);
      MoveTile(width, right[v] + rows * pairs * width, {0, 1}, together + pairs * width, {0, pairs + 1}, 1, rows);
      std::memcpy(left[v], together, static_cast<std::size_t>(rows * (pairs + 1) * width));
    }
    n = pairs + odd;
  }
  for (std::size_t v = 0; v < r.values.size(); ++v)
    if (from[v] != right[v]) std::memcpy(right[v], from[v], static_cast<std::size_t>(rows * r.values[v].width));
  Combine(worker, r, rows, accumulators, right);
}

void ReduceRun::FoldTile(const Worker& worker, const CompiledStage& stage, const CompiledReduction& r, int64_t rows,
                         int64_t columns, bool fresh, std::byte* const* to) const {
  const std::byte* frame = worker.memory + stage.frame;
  const std::size_t count = r.values.size();
  const int64_t step = temporary_bytes_;
  const std::byte* values[kMaxValues];
  for (std::size_t v = 0; v < count; ++v) {
    const BlockProgram::Value value = stage.program.ResultValue(frame, static_cast<std::size_t>(r.values[v].result));
    values[v] = value.data;
    if (value.is_uniform && rows * columns > 1) {
      std::byte* spread = worker.memory + temporaries_ + (3 * max_values_ + static_cast<int64_t>(v)) * step;
      Fill(r.values[v].width, value.data, spread, rows * columns);
      values[v] = spread;
    }
  }
  auto advance = [&](int64_t elements) {
    for (std::size_t v = 0; v < count; ++v) values[v] += elements * r.values[v].width;
  };
  auto copy = [&](std::byte* const* target, int64_t n) {
    for (std::size_t v = 0; v < count; ++v) std::memcpy(target[v], values[v], static_cast<std::size_t>(n * r.values[v].width));
  };
  switch (layout_) {
    case Layout::kRows:
      if (fresh) copy(to, worker.lanes);
      else Combine(worker, r, worker.lanes, to, values);
      break;
    case Layout::kRowsByElements: {
      if (fresh) copy(to, columns), advance(columns), --rows;
      if (r.ops.columns != nullptr) {
        r.ops.columns(values[0], rows, columns, to[0]);
      } else {
        for (int64_t i = 0; i < rows; ++i, advance(columns)) Combine(worker, r, columns, to, values);
      }
      break;
    }
    case Layout::kElements: {
      int64_t n = rows * columns;
      if (fresh) copy(to, 1), advance(1), --n;
      CombineRows(worker, r, 1, n, to, values);
      break;
    }
    case Layout::kElementsByRows: {
      if (!fresh) {
        CombineRows(worker, r, rows, columns, to, values);
        break;
      }
      std::byte* lane[kMaxValues];
      std::copy(to, to + count, lane);
      for (int64_t i = 0; i < rows; ++i) {
        copy(lane, 1), advance(1);
        CombineRows(worker, r, 1, columns - 1, lane, values);
        advance(columns - 1);
        for (std::size_t v = 0; v < count; ++v) lane[v] += r.values[v].width;
      }
      break;
    }
  }
}

void ReduceRun::CombineStage(const Worker& worker, const CompiledStage& stage, std::byte* const* accumulators,
                             const std::byte* const* values) const {
  for (const CompiledReduction& r : stage.reductions) {
    Combine(worker, r, worker.lanes, accumulators, values);
    accumulators += r.values.size();
    values += r.values.size();
  }
}

void ReduceRun::FoldTiles(Worker& worker, const CompiledStage& stage, int64_t begin, int64_t end, bool fresh,
                          std::byte* const* to) const {
  if (begin == end) return;
  elements_.Seek(begin, worker.element_tile);
  if (!stage.sums_floats || end - begin <= group_tiles_) FoldInTurn(worker, stage, end - begin, fresh, to);
  else if (stage.sums_f32) FoldInF64(worker, stage, end - begin, fresh, to);
  else FoldInPairs(worker, stage, end - begin, fresh, to);
}

void ReduceRun::FoldInF64(Worker& worker, const CompiledStage& stage, int64_t tiles, bool fresh, std::byte* const* to) const {
  std::byte* partial[kMaxValues];
  double* totals[kMaxValues];
  const auto lanes = static_cast<std::size_t>(worker.lanes);
  const std::size_t values = stage.reductions.size();
  std::byte* memory = worker.memory + groups_;
  for (std::size_t v = 0; v < values; ++v, memory += 2 * accumulator_bytes_) {
    partial[v] = memory;
    totals[v] = reinterpret_cast<double*>(memory + accumulator_bytes_);
    if (fresh) std::fill_n(totals[v], lanes, -0.0);
    else std::copy_n(reinterpret_cast<const float*>(to[v]), lanes, totals[v]);
  }
  for (int64_t tile = 0; tile < tiles; tile += group_tiles_) {
    FoldInTurn(worker, stage, std::min(group_tiles_, tiles - tile), true, partial);
    for (std::size_t v = 0; v < values; ++v) AddF32(reinterpret_cast<const float*>(partial[v]), lanes, totals[v]);
  }
  for (std::size_t v = 0; v < values; ++v)
    RoundTotals(totals[v], lanes, reinterpret_cast<float*>(to[v]));
}

void ReduceRun::FoldWindow(Worker& worker, std::byte* to) const {
  const TileGrid::Tile& tile = worker.row_tile;
  const auto fold = [&](std::byte* sum, int64_t begin, int64_t end) {
    window_->Run(worker.bindings, tile.origin, tile.rows, tile.columns, sum, tile.columns, begin, end);
  };
  if (!window_in_groups_) {
    for (int64_t begin = 0; begin < window_->elements() && !IsInterrupted(); begin += kElementsBetweenLooks)
      fold(to, begin, std::min(begin + kElementsBetweenLooks, window_->elements()));
    return;
  }
  const auto lanes = static_cast<std::size_t>(worker.lanes);
  float* partial = reinterpret_cast<float*>(worker.memory + groups_);
  double* total = reinterpret_cast<double*>(worker.memory + groups_ + accumulator_bytes_);
  std::copy_n(reinterpret_cast<const float*>(to), lanes, total);
  for (int64_t begin = 0; begin < window_->elements(); begin += kWindowTurns) {
    if (begin % kElementsBetweenLooks == 0 && IsInterrupted()) return;
    std::fill_n(partial, lanes, -0.0f);
    fold(reinterpret_cast<std::byte*>(partial), begin, std::min(begin + kWindowTurns, window_->elements()));
    AddF32(partial, lanes, total);
  }
  RoundTotals(total, lanes, reinterpret_cast<float*>(to));
}

void ReduceRun::FoldInPairs(Worker& worker, const CompiledStage& stage, int64_t tiles, bool fresh, std::byte* const* to) const {
  std::size_t values = 0;
  for (const CompiledReduction& r : stage.reductions) values += r.values.size();
  std::byte* partial[2][kMaxValues];
  const auto point_at = [&](int which, int level) {
    for (std::size_t v = 0; v < values; ++v)
      partial[which][v] = worker.memory + groups_ + (level * stage_values_ + static_cast<int64_t>(v)) * accumulator_bytes_;
  };
  // As the digits of a binary counter: `level` partial results, each of more groups than the next.
  int level = 0;
  const auto merge = [&] {
    point_at(0, level - 2), point_at(1, level - 1);
    CombineStage(worker, stage, partial[0], partial[1]);
    --level;
  };
  uint64_t groups = 0;
  for (int64_t tile = 0; tile < tiles; tile += group_tiles_) {
    point_at(0, level++);
    FoldInTurn(worker, stage, std::min(group_tiles_, tiles - tile), true, partial[0]);
    for (uint64_t carry = ++groups; carry % 2 == 0; carry /= 2) merge();
  }
  while (level > 1) merge();
  point_at(0, 0);
  if (!fresh) return CombineStage(worker, stage, to, partial[0]);
  for (std::size_t v = 0; v < values; ++v) std::memcpy(to[v], partial[0][v], static_cast<std::size_t>(accumulator_bytes_));
}

void ReduceRun::FoldInTurn(Worker& worker, const CompiledStage& stage, int64_t tiles, bool fresh, std::byte* const* to) const {
  const void* const* params = Params(worker, stage);
  std::byte* frame = worker.memory + stage.frame;
  for (; tiles > 0; --tiles, elements_.Next(worker.element_tile)) {
    if (tiles % kFoldsBetweenLooks == 0 && IsInterrupted()) return;
    std::copy(worker.element_tile.origin.begin(), worker.element_tile.origin.end(),
              worker.origin.begin() + static_cast<std::ptrdiff_t>(row_rank_));
    const int64_t rows = worker.row_tile.rows * worker.element_tile.rows;
    const int64_t columns = worker.row_tile.columns * worker.element_tile.columns;
    stage.program.RunTile(frame, worker.origin, rows, columns, params);
    std::byte* const* next = to;
    for (const CompiledReduction& r : stage.reductions) {
      FoldTile(worker, stage, r, rows, columns, fresh, next);
      next += r.values.size();
    }
    fresh = false;
  }
}

void ReduceRun::Finish(const Worker& worker, const CompiledReduction& r, std::byte* const* to) const {
  if (r.widen != nullptr) {
    std::byte* narrow = worker.memory + temporaries_;
    std::memcpy(narrow, to[0], static_cast<std::size_t>(worker.lanes * r.values[0].width));
    r.widen(narrow, to[0], worker.lanes);
  }
  if (r.wrap != nullptr) r.wrap({to[0], {to[0], nullptr, nullptr}, worker.lanes, 0});
  if (r.arithmetic != ElementType::kInvalid) SettleNans(r.arithmetic, to[0], worker.lanes);
}

void ReduceRun::RunRowValues(const Worker& worker, const CompiledStage& stage) const {
  if (stage.row_value_count == 0) return;
  const void** pointers = reinterpret_cast<const void**>(worker.memory + pointers_);
  for (int p = 0; p < stage.first_row_value; ++p) pointers[p] = Accumulator(worker, p);
  int64_t rows = worker.row_tile.rows, columns = worker.row_tile.columns;
  if (layout_ == Layout::kElementsByRows) columns = rows, rows = 1;
  std::byte* frame = worker.memory + stage.row_values_frame;
  stage.row_values.RunTile(frame, worker.row_tile.origin, rows, columns, pointers);
  for (int v = 0; v < stage.row_value_count; ++v) {
    const BlockProgram::Value value = stage.row_values.ResultValue(frame, At(v));
    const int param = stage.first_row_value + v, width = param_widths_[At(param)];
    if (value.is_uniform) Fill(width, value.data, Accumulator(worker, param), worker.lanes);
    else std::memcpy(Accumulator(worker, param), value.data, At(worker.lanes * width));
  }
}

void ReduceRun::RunElements(Worker& worker, const CompiledStage& stage, int64_t begin, int64_t end) const {
  RunRowValues(worker, stage);
  std::byte* to[kMaxValues];
  std::size_t n = 0;
  for (const CompiledReduction& r : stage.reductions)
    for (std::size_t v = 0; v < r.values.size(); ++v) to[n++] = Accumulator(worker, r.first_param + static_cast<int>(v));
  std::byte* const* next = to;
  for (const CompiledReduction& r : stage.reductions) {
    InitialValues(worker, r, next);
    next += r.values.size();
  }
  if (window_) FoldWindow(worker, to[0]);
  else FoldTiles(worker, stage, begin, end, false, to);
  next = to;
  for (const CompiledReduction& r : stage.reductions) {
    Finish(worker, r, next);
    next += r.values.size();
  }
}

void ReduceRun::RunRowStage(Worker& worker, const CompiledStage& stage) const {
  const void* const* params = Params(worker, stage);
  int64_t rows = worker.row_tile.rows, columns = worker.row_tile.columns;
  if (layout_ == Layout::kElementsByRows) columns = rows, rows = 1;
  stage.program.RunTile(worker.memory + stage.frame, worker.row_tile.origin, rows, columns, params);
}

// The sums of a window where they are stored.
void ReduceRun::RunInPlace(Worker& worker) const {
  const TileGrid::Tile& tile = worker.row_tile;
  const CompiledReduction& r = stages_[0].reductions[0];
  const int width = r.values[0].width;
  int64_t at = window_target_->offset;
  for (std::size_t d = 0; d < row_rank_; ++d) at += tile.origin[d] * window_target_->strides[d];
  const int64_t stride = tile_.row_dim < 0 ? tile.columns : window_target_->strides[static_cast<std::size_t>(tile_.row_dim)];
  std::byte* to = worker.bindings[static_cast<std::size_t>(window_target_->buffer)] + at * width;
  const std::byte* initial = worker.memory + initials_ + 8 * r.first_param;
  const bool dense = stride == tile.columns;
  for (int64_t row = 0; row < (dense ? 1 : tile.rows); ++row)
    Fill(width, initial, to + row * stride * width, dense ? tile.rows * tile.columns : tile.columns);
  window_->Run(worker.bindings, tile.origin, tile.rows, tile.columns, to, stride, 0, window_->elements());
  for (int64_t row = 0; row < (dense ? 1 : tile.rows); ++row)
    SettleNans(r.arithmetic, to + row * stride * width, dense ? tile.rows * tile.columns : tile.columns);
}

void ReduceRun::RunRowTile(Worker& worker) const {
  if (window_target_) return RunInPlace(worker);
  for (const CompiledStage& stage : stages_) {
    if (stage.scope == ReduceStage::Scope::kRow) RunRowStage(worker, stage);
    else RunElements(worker, stage, 0, elements_.count());
  }
}

// Few rows of many elements: each stage is shared out by fixed chunks of elements, whose partial results are combined
// in order.
Result<> ReduceRun::RunSplit(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const {
  Worker first;
  auto start = [&](Worker& worker, int number, int64_t row_tile) {
    Start(worker, scratch + number * worker_bytes_, bindings);
    SeekRow(worker, row_tile);
  };
  for (int64_t row_tile = 0; row_tile < rows_.count(); ++row_tile) {
    start(first, 0, row_tile);
    for (const CompiledStage& stage : stages_) {
      if (stage.scope == ReduceStage::Scope::kRow) {
        RunRowStage(first, stage);
        continue;
      }
      RunRowValues(first, stage);
      std::size_t values = 0;
      for (const CompiledReduction& r : stage.reductions) values += r.values.size();
      auto partial = [&](int64_t chunk, std::size_t v) {
        return scratch + shared_ + (chunk * static_cast<int64_t>(values) + static_cast<int64_t>(v)) * accumulator_bytes_;
      };
      pool.ParallelFor(chunks_, 1, [&](int64_t begin, int64_t end, int number) {
        Worker worker;
        if (number == 0) {
          worker = first;
        } else {
          start(worker, number, row_tile);
          std::memcpy(worker.memory + accumulators_, first.memory + accumulators_,
                      static_cast<std::size_t>(accumulator_bytes_ * param_count_));
        }
        for (int64_t chunk = begin; chunk < end; ++chunk) {
          std::byte* to[kMaxValues];
          for (std::size_t v = 0; v < values; ++v) to[v] = partial(chunk, v);
          FoldTiles(worker, stage, elements_.count() * chunk / chunks_, elements_.count() * (chunk + 1) / chunks_, true, to);
        }
      });
      std::size_t v = 0;
      for (const CompiledReduction& r : stage.reductions) {
        std::byte* to[kMaxValues];
        const std::byte* from[kMaxValues];
        for (std::size_t k = 0; k < r.values.size(); ++k) to[k] = Accumulator(first, r.first_param + static_cast<int>(k));
        InitialValues(first, r, to);
        // Neighbours in pairs, until the first one has all.
        if (stage.sums_f32) {
          double* total = reinterpret_cast<double*>(first.memory + groups_);
          const auto lanes = static_cast<std::size_t>(first.lanes);
          float* sum = reinterpret_cast<float*>(to[0]);
          std::copy_n(sum, lanes, total);
          for (int64_t chunk = 0; chunk < chunks_; ++chunk) AddF32(reinterpret_cast<const float*>(partial(chunk, v)), lanes, total);
          RoundTotals(total, lanes, sum);
          Finish(first, r, to);
          ++v;
          continue;
        }
        std::byte* left[kMaxValues];
        for (int64_t step = 1; step < chunks_; step *= 2) {
          for (int64_t chunk = 0; chunk + step < chunks_; chunk += 2 * step) {
            for (std::size_t k = 0; k < r.values.size(); ++k) left[k] = partial(chunk, v + k), from[k] = partial(chunk + step, v + k);
            Combine(first, r, first.lanes, left, from);
          }
        }
        for (std::size_t k = 0; k < r.values.size(); ++k) from[k] = partial(0, v + k);
        Combine(first, r, first.lanes, to, from);
        Finish(first, r, to);
        v += r.values.size();
      }
    }
  }
  return {};
}

Result<> ReduceRun::Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const {
  if (chunks_ > 1) return RunSplit(bindings, pool, scratch);
  pool.ParallelFor(rows_.count(), grain_, [&](int64_t begin, int64_t end, int number) {
    Worker worker;
    Start(worker, scratch + number * worker_bytes_, bindings);
    for (int64_t row = begin; row < end && !IsInterrupted(); ++row) {
      SeekRow(worker, row);
      RunRowTile(worker);
    }
  });
  return {};
}

}  // namespace

KernelResult MakeReduceKernel(const plan::KernelPlan&, const plan::ReduceKernel& body, const CpuKernelOptions& options) {
  return ReduceRun::Make(body, options.threads);
}

}  // namespace krafla::cpu
