// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/block_compiler.h"

#include "base/checked_math.h"
#include "base/work.h"
#include "cpu_fallback/executor/native_planner.h"

namespace krafla::cpu {

BlockCompiler::BlockCompiler(const ElementProgram& program, const BlockProgram::Options& options)
    : program_(program), options_(options), space_(program.space), lanes_(program, options.result_lanes) {
  const TileShape& tile = options.tile;
  if (tile.row_dim >= 0) tile_mask_ |= uint64_t{1} << tile.row_dim;
  if (tile.column_dim >= 0) tile_mask_ |= uint64_t{1} << tile.column_dim;
  if (options.params_are_arrays) tile_mask_ |= kParamBit;
  const std::span<const int64_t> dims = space_.dims();
  const int64_t points = SaturatingProduct(dims);
  if (options.memory_is_constant && tile.column_dim >= 0 && tile.rows > 1 && tile.columns < BlockProgram::kShortRow &&
      tile.columns == dims[static_cast<std::size_t>(tile.column_dim)] && tile.rows * tile.columns < points)
    whole_dims_ = uint64_t{1} << tile.column_dim;
  out_.tile_ = tile;
  out_.buffer_count_ = program.buffers.size() + (options.folds.empty() ? 0 : program.results.size());
}

Result<BlockProgram> BlockCompiler::Run() {
  FindDepends();
  slot_of_.assign(program_.nodes.size(), -1);
  narrow_slot_of_.assign(program_.nodes.size(), {-1, -1});
  for (std::size_t i = 0; i < program_.nodes.size(); ++i) KRAFLA_TRY(LowerForms(static_cast<NodeId>(i)));
  for (const plan::Store& store : program_.stores) KRAFLA_TRY(LowerStore(store));
  for (std::size_t i = 0; i < program_.results.size(); ++i) {
    const NodeId r = program_.results[i];
    const ElementType lane = i < options_.result_lanes.size() ? options_.result_lanes[i] : ElementType::kInvalid;
    const bool is_narrow = lane != ElementType::kInvalid;
    out_.results_.push_back(is_narrow ? NarrowSlot(r, StorageBytes(lane)) : Item(slot_of_, r));
    out_.result_types_.push_back(is_narrow ? lane : Item(program_.nodes, r).type);
  }
  if (options_.is_for_routine) out_.keys_ = keys_;
  else PlanNative();
  const auto is_array = [](const BlockProgram::Step& s) {
    return !s.is_uniform && s.kind != BlockProgram::Step::Kind::kNative;
  };
  if (options_.adds_rows && (out_.native_parts_.size() != 1 || std::ranges::any_of(out_.tile_steps_, is_array)))
    return Unimplemented("Sums over the rows of a tile that are not one loop of native code.");
  if (!options_.is_for_routine) FindLines();
  FindDirectStores();
  PlaceSlots();
  return std::move(out_);
}

// Code that folds is not had for everything that there is other code for.
void BlockCompiler::PlanNative() {
  const TileShape& tile = options_.tile;
  const bool cuts_columns =
      tile.column_dim >= 0 && space_.dims()[static_cast<std::size_t>(tile.column_dim)] % tile.columns != 0;
  NativePlanner(out_, keys_, options_, cuts_columns).Run();
  if (!out_.native_parts_.empty() || options_.folds.empty()) return;
  BlockProgram::Options arrays = options_;
  arrays.folds = {};
  NativePlanner(out_, keys_, arrays, cuts_columns).Run();
}

void BlockCompiler::FindDepends() {
  depends_.assign(program_.nodes.size(), 0);
  expr_depends_.assign(space_.expr_count(), std::nullopt);
  for (std::size_t i = 0; i < program_.nodes.size(); ++i) {
    const Node& n = program_.nodes[i];
    uint64_t d = 0;
    for (NodeId o : n.operands)
      if (o != kNoNode) d |= Item(depends_, o);
    if (n.mask != kNoNode) d |= Item(depends_, n.mask);
    if (n.op == NodeOp::kLoad || n.op == NodeOp::kIndex) {
      d |= Depends(n.index);
      // Offsets are made anew in every tile.
      if (whole_dims_ != 0 && !SplitExpr(space_.expr(n.index)).varying.empty()) d |= kTileBit;
    }
    // A param comes with each tile, so nothing made from it is known when the launch starts.
    if (n.op == NodeOp::kParam)
      d |= kParamBit | (options_.params_are_arrays ? 0 : options_.param_depends.value_or(n.depends));
    depends_[i] = d;
  }
}

uint64_t BlockCompiler::AtomDepends(const IndexAtom& a) const {
  switch (a.kind) {
    case IndexAtom::Kind::kIter: return uint64_t{1} << a.iter;
    case IndexAtom::Kind::kFloorDiv:
    case IndexAtom::Kind::kMod: return Depends(a.expr);
    case IndexAtom::Kind::kValue: return Item(depends_, a.node);
  }
  return 0;
}

uint64_t BlockCompiler::Depends(IndexId id) const {
  std::optional<uint64_t>& known = expr_depends_[static_cast<std::size_t>(id)];
  if (known) return *known;
  CountWork(1);
  uint64_t d = 0;
  for (const IndexTerm& t : space_.expr(id).terms) d |= AtomDepends(space_.atom(t.atom));
  known = d;
  return d;
}

Result<BlockProgram> BlockProgram::Compile(const plan::ElementProgram& program, const Options& options) {
  return BlockCompiler(program, options).Run();
}

}  // namespace krafla::cpu
