// SPDX-License-Identifier: Apache-2.0
// Rows of elements, reduced in stages. A tile lies along element dimensions (its values are folded into one number a
// row), along row dimensions (rows side by side, folded element by element), or both. Made by reduce_setup.cpp, run by
// reduce_kernel.cpp and, of windows, reduce_windows.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cpu_fallback/executor/combination.h"
#include "cpu_fallback/executor/kernel_families.h"
#include "cpu_fallback/executor/reduce_stage.h"
#include "cpu_fallback/executor/reduce_tiling.h"
#include "cpu_fallback/executor/row_values.h"
#include "cpu_fallback/executor/stage_arrays.h"
#include "cpu_fallback/executor/window_fold.h"
#include "cpu_fallback/executor/window_rows.h"
#include "cpu_fallback/executor/window_sums.h"

namespace krafla::cpu {

inline constexpr std::size_t kMaxReducedValues = 512;    // that the reductions of one stage have
inline constexpr int64_t kWindowTurns = 64;              // elements of a window that are added in turn
inline constexpr int64_t kElementsBetweenLooks = 65536;  // after which it is asked whether the run may go on

class ReduceRun final : public CpuKernel {
 public:
  static KernelResult Make(plan::ReduceKernel body, int threads, int64_t runs = 1);

  Result<> Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const override;
  Result<bool> AppendTo(RoutineBlock& block, std::span<const plan::Slice> bindings) const override;

 private:
  friend class ReduceRoutine;
  // One worker's memory, and what it is working on.
  struct Worker {
    std::byte* memory = nullptr;
    std::span<std::byte* const> bindings;
    TileGrid::Tile row_tile, element_tile;
    InlineVector<int64_t, 12> origin;  // of both: a reduction allocates nothing
    int64_t lanes = 1, since_look = 0;
    bool is_stopped = false;
  };

  void ChooseWindow(const plan::ReduceKernel& body, int threads);
  void ChooseLayout(const plan::ReduceKernel& body);
  // The grid of row tiles, and what follows from its shape.
  void PlaceRows(const plan::ReduceKernel& body);
  // Once the first stage's program is there, before the row stages': where all of a row's elements are one tile, a row
  // tile has several places of another row dimension, which are folded in one call where the program folds the tile's
  // columns, else in turn. What a call or a row tile needs is found once for all of them then.
  void ChoosePlanes(const plan::ReduceKernel& body);
  bool FitsRoutines(const plan::ReduceKernel& body) const;
  // The tile of what has a value a row.
  TileShape RowTile() const;
  // Whether native code may fold what a tile computes.
  bool TilesFold() const;
  Result<> CompileRowValues(plan::ReduceKernel& body);
  Result<BlockProgram> CompileProgram(const plan::ReduceStage& stage, std::size_t number, int64_t runs) const;
  Result<> CompileStages(const plan::ReduceKernel& body, int64_t runs);
  void PlaceMemory(int threads);

  void Start(Worker& worker, std::byte* memory, std::span<std::byte* const> bindings) const;
  void SeekRow(Worker& worker, int64_t row_tile) const;
  int64_t LanesOf(const TileGrid::Tile& row_tile) const {
    return layout_ == ReduceLayout::kElements ? 1 : row_tile.rows * row_tile.columns;
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
  void PrepareFolds(const Worker& worker, const CompiledStage& stage, bool fresh, std::byte* const* to) const;
  const std::byte* FoldPlanes(const Worker& worker, const CompiledReduction& r, int64_t elements,
                              const std::byte* from) const;
  void FoldTile(const Worker& worker, const CompiledStage& stage, const CompiledReduction& r, int64_t rows,
                int64_t columns, bool fresh, std::byte* const* to) const;
  void Combine(const Worker& worker, const CompiledReduction& r, int64_t n, std::byte* const* accumulators,
               const std::byte* const* values) const;
  void CombineRows(const Worker& worker, const CompiledReduction& r, int64_t rows, int64_t n,
                   std::byte* const* accumulators, const std::byte* const* values) const;
  void CombinePairwise(const Worker& worker, const CompiledReduction& r, int64_t rows, int64_t n,
                       std::byte* const* accumulators, const std::byte* const* values) const;
  void CombineInTurn(const Worker& worker, const CompiledReduction& r, int64_t rows, int64_t n,
                     std::byte* const* accumulators, const std::byte* const* values) const;
  // All reductions of a stage: their accumulators in turn.
  void CombineStage(const Worker& worker, const CompiledStage& stage, std::byte* const* accumulators,
                    const std::byte* const* values) const;
  void Finish(const Worker& worker, const CompiledReduction& r, std::byte* const* to) const;
  void RunRowValues(const Worker& worker, const CompiledStage& stage) const;
  void RunElements(Worker& worker, const CompiledStage& stage, int64_t begin, int64_t end) const;
  void RunRowStage(Worker& worker, const CompiledStage& stage) const;
  void RunRowTile(Worker& worker) const;
  void RunInPlace(Worker& worker) const;
  Result<> RunWindowRows(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const;
  Result<> RunSplit(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const;

  ReduceLayout layout_ = ReduceLayout::kElements;
  std::optional<WindowFold> window_;  // of the one element stage
  bool window_in_groups_ = false;
  std::optional<WindowFold::Target> window_target_;  // the sums are made where they are stored
  std::optional<WindowRows> window_rows_;            // so, row by row
  std::optional<WindowSums> window_sums_;            // or so, as a convolution
  std::size_t row_rank_ = 0;
  ReduceLanes lanes_;
  TileShape tile_;
  TileGrid rows_, elements_;
  std::vector<CompiledStage> stages_;
  std::optional<StageArrays> arrays_;
  std::shared_ptr<const plan::ReduceKernel> source_;  // for routines, where it fits them
  int param_count_ = 0;
  std::vector<int> param_widths_, row_value_widths_;
  int64_t max_lanes_ = 1, tile_elements_ = 1;
  int64_t plane_stride_ = 0;  // of tiles that have several planes of elements
  int plane_dim_ = -1;        // the row dimension of ChoosePlanes, which a row tile has `row_planes_` places of
  int64_t row_planes_ = 1;
  bool planes_fold_ = false;  // by the program itself
  int64_t chunks_ = 1;
  double row_tile_nanoseconds_ = 0;
  int64_t group_tiles_ = 1;  // folded in turn

  // Offsets in a worker's scratch.
  int64_t accumulators_ = 0, accumulator_bytes_ = 0, initials_ = 0, pointers_ = 0, init_frame_ = 0, temporaries_ = 0,
          temporary_bytes_ = 0, groups_ = 0, worker_bytes_ = 0;
  std::vector<int64_t> array_places_;  // of arrays_
  int64_t stage_values_ = 1;           // the most that a stage has
  int64_t shared_ = 0;                 // partial results of chunks, behind the workers
  int max_values_ = 1;
};

}  // namespace krafla::cpu
