// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/tiled.h"

#include <algorithm>

#include "base/checked_math.h"
#include "spirv_codegen/kernels/coop_tile.h"
#include "spirv_codegen/kernels/flexible_tile.h"

namespace krafla::spirv {
namespace {

// The subgroup size that panels count on; 0: none.
uint32_t PanelSubgroup(const Target& target) {
  return target.tuning.panel.in_subgroups ? FixedSubgroupSize(target.profile) : 0;
}

// The first tile that fits the device and that the problem has enough of.
const SharedTile* FindSharedTile(const TiledProduct& p) {
  for (const SharedTile& tile : p.shared_tiles) {
    if (!SharedTileFits(tile, p.tile.accumulate, p.target.profile)) continue;
    // Not one that is mostly edge.
    if (tile.least_tiles > 0 && (p.tile.rows <= tile.rows / 2 || p.tile.columns <= tile.columns / 2)) continue;
    const int64_t tiles = p.tile.batch * CeilDiv(p.tile.rows, tile.rows) * CeilDiv(p.tile.columns, tile.columns);
    if (tiles >= tile.least_tiles) return &tile;
  }
  return nullptr;
}

std::string PanelReason(const TiledProduct& p, std::string refused) {
  if (p.note.empty()) return refused;
  return refused.empty() ? p.note : p.note + "; " + refused;
}

// Panels of b as it lies.
Result<EmittedProgram> EmitInPlace(const TiledProduct& p, const PanelOptions& panel, std::string_view name,
                                   std::string reason) {
  EmittedProgram out;
  KernelWriter w(p.plan, p.target);
  KRAFLA_ASSIGN(auto dispatch, EmitPanels(w, p.tile, p.operands(w, true, /*raw=*/false), panel));
  AddKernel(out, w, std::move(dispatch), panel.lanes, PanelSubgroup(p.target), std::string(name), std::move(reason));
  return out;
}

bool HasProducts(const TileProblem& p, int64_t count) {
  return static_cast<double>(p.batch) * static_cast<double>(p.rows) * static_cast<double>(p.columns) *
             static_cast<double>(p.depth) * static_cast<double>(p.segments) >=
         static_cast<double>(count);
}

}  // namespace

int PanelRows(const TileProblem& p, const PanelTuning& tuning) {
  constexpr int64_t kRows = 8;
  const bool is_large = HasProducts(p, tuning.most_rows_products);
  const int64_t most = std::min(p.rows, is_large ? tuning.most_rows : std::min(tuning.most_rows, kRows));
  // What a panel reads of the columns costs as much as so many rows.
  constexpr int64_t kRowsOfColumns = 7;
  auto cost = [&](int64_t rows) { return CeilDiv(p.rows, rows) * (rows + kRowsOfColumns); };
  int64_t best = std::max<int64_t>(most, 1);
  // Above 8 by fours: rows that lie side by side are read so.
  for (int64_t rows = best - 1; rows >= 1; --rows)
    if ((rows <= kRows || rows % 4 == 0) && cost(rows) < cost(best)) best = rows;
  return static_cast<int>(best);
}

PanelOptions PanelsFor(const Target& target, const TileProblem& p) {
  const PanelTuning& tuning = target.tuning.panel;
  PanelOptions out;
  if (tuning.any_rows) out.tile_rows = PanelRows(p, tuning);
  const uint32_t subgroup = PanelSubgroup(target);
  out.lanes = subgroup != 0 ? subgroup : WorkgroupSize(target.profile, tuning.lanes);
  out.chained = tuning.chained_sums;
  if (HasProducts(p, tuning.turn_least_products)) out.turn_products = tuning.turn_products;
  return out;
}

Refusal RefusesCoop(const TiledProduct& p) {
  if (p.no_coop) return p.no_coop;
  std::string reason;
  if (ChooseCoopTile(p.tile, p.a_type, p.b_type, p.target, reason)) return std::nullopt;
  return reason;
}

Result<EmittedProgram> EmitCoop(const TiledProduct& p, std::string) {
  std::string reason;
  const auto tile = ChooseCoopTile(p.tile, p.a_type, p.b_type, p.target, reason);
  KRAFLA_CHECK(tile.has_value());
  auto operands = [&](KernelWriter& w, bool depth_in_range) { return p.operands(w, depth_in_range, /*raw=*/true); };
  return EmitCoopTile(p.plan, p.target, p.tile, p.a_type, operands, *tile, std::string(p.names.coop));
}

Refusal RefusesFlexible(const TiledProduct& p) {
  std::string reason;
  const auto tile = ChooseFlexibleTile(p.tile, p.a_type, p.b_type, p.target, reason);
  if (!tile) return reason;
  if (!tile->tensors) return std::nullopt;
  // The operands are asked where they lie, in a module that nobody keeps.
  const Target alone{p.target.profile, p.target.tuning, p.target.options};
  KernelWriter w(p.plan, alone);
  const TileOperands operands = p.operands(w, true, /*raw=*/true);
  const DeviceProfile& profile = p.target.profile;
  if (const Refusal why = RefusesTensor(*operands.make_a(w.b.U32(0)), true, p.tile, profile)) return why;
  return RefusesTensor(*operands.make_b(w.b.U32(0)), false, p.tile, profile);
}

Result<EmittedProgram> EmitFlexible(const TiledProduct& p, std::string) {
  std::string reason;
  const auto tile = ChooseFlexibleTile(p.tile, p.a_type, p.b_type, p.target, reason);
  KRAFLA_CHECK(tile.has_value());
  auto operands = [&](KernelWriter& w, bool depth_in_range) { return p.operands(w, depth_in_range, /*raw=*/true); };
  return EmitFlexibleTile(p.plan, p.target, p.tile, p.a_type, operands, *tile, std::string(p.names.flexible));
}

Refusal RefusesTile(const TiledProduct& p) {
  if (p.shared_tiles.empty()) return "none for this device";
  if (p.no_shared_tile) return p.no_shared_tile;
  if (FindSharedTile(p) == nullptr) return "no tile fits the device's limits";
  return std::nullopt;
}

Result<EmittedProgram> EmitTile(const TiledProduct& p, std::string refused) {
  const SharedTile* tile = FindSharedTile(p);
  KRAFLA_CHECK(tile != nullptr);
  EmittedProgram out;
  KernelWriter w(p.plan, p.target);
  const TileOperands operands = p.operands(w, p.tile.depth % tile->depth == 0, /*raw=*/false);
  KRAFLA_ASSIGN(auto dispatch, EmitSharedTile(w, p.tile, operands, *tile));
  AddKernel(out, w, std::move(dispatch), SharedTileLocal(*tile), 0, std::string(p.names.tile),
            Format("{} x {} blocks; {}", tile->rows, tile->columns, refused));
  return out;
}

Refusal RefusesBlocks(const TiledProduct& p) {
  const int64_t panel = int64_t{p.panel.lanes} * (p.panel.column_vectors ? 4 : 1);
  if (p.tile.columns * p.target.tuning.panel.least_idle > panel) return "many columns";
  return std::nullopt;
}

Result<EmittedProgram> EmitBlocks(const TiledProduct& p, std::string refused) {
  PanelOptions panel = p.panel;
  panel.lanes_over_blocks = true;
  panel.tile_rows = static_cast<int>(std::min<int64_t>(panel.tile_rows, p.target.tuning.panel.most_block_rows));
  panel.column_blocks = 1;
  return EmitInPlace(p, panel, p.names.blocks, std::move(refused));
}

Refusal RefusesPackedPanel(const TiledProduct& p) {
  if (p.no_packing) return p.no_packing;
  if (BitWidth(p.tile.accumulate) != 32) return "wide sums";
  if (PackedWords(p.tile, p.panel.lanes) * 4 > p.target.tuning.panel.most_packed_bytes) return "the copy is too large";
  return std::nullopt;
}

Result<EmittedProgram> EmitPackedPanel(const TiledProduct& p, std::string refused) {
  const TileProblem& t = p.tile;
  EmittedProgram out;
  const int scratch = static_cast<int>(p.plan.bindings.size());
  const int64_t words = PackedWords(t, p.panel.lanes);
  const std::vector<BufferDesc> descs{{words, 4}};
  out.scratch_bytes.push_back(words * 4);
  {
    const uint32_t local = WorkgroupSize(p.target.profile, p.target.tuning.panel.pack_local);
    KernelWriter w(p.plan, p.target, descs);
    const TileOperands operands = p.operands(w, t.depth % 4 == 0, /*raw=*/false);
    KRAFLA_ASSIGN(auto dispatch, EmitPack(w, t, operands, p.panel.lanes, scratch, local));
    dispatch.share = std::min(1.0, 8.0 / static_cast<double>(t.rows));
    AddKernel(out, w, std::move(dispatch), local, 0, std::string(p.names.pack));
  }
  PanelOptions panel = p.panel;
  panel.packed_binding = scratch;
  panel.column_blocks = 1;
  KernelWriter w(p.plan, p.target, descs);
  KRAFLA_ASSIGN(auto dispatch, EmitPanels(w, t, p.operands(w, true, /*raw=*/false), panel));
  AddKernel(out, w, std::move(dispatch), panel.lanes, PanelSubgroup(p.target), std::string(p.names.packed_panel),
            PanelReason(p, std::move(refused)));
  return out;
}

Result<EmittedProgram> EmitPanel(const TiledProduct& p, std::string refused) {
  return EmitInPlace(p, p.panel, p.names.panel, PanelReason(p, std::move(refused)));
}

}  // namespace krafla::spirv
