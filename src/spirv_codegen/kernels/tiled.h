// SPDX-License-Identifier: Apache-2.0
// Products of matrices in tiles: the variants that dots and convolutions share, as rows of their tables.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "spirv_codegen/kernels/matrix.h"
#include "spirv_codegen/kernels/variant.h"

namespace krafla::spirv {

// EmittedKernel::variant of a family's products.
struct TiledNames {
  std::string_view coop, tile, blocks, pack, packed_panel, panel;
  std::string_view flexible = {};
};

// A problem of a family as a product of matrices, and what the family says of the variants.
struct TiledProduct {
  const plan::KernelPlan& plan;
  const Target& target;
  const TiledNames& names;
  TileProblem tile;
  ElementType a_type, b_type;
  // `depth_in_range`: reads never pass the end of the depth. `raw`: reads give bits.
  std::function<TileOperands(KernelWriter& w, bool depth_in_range, bool raw)> operands;
  std::span<const SharedTile> shared_tiles;
  Refusal no_coop, no_shared_tile, no_packing;
  PanelOptions panel;  // of .panel; .packed_panel has one block of columns
  std::string note;    // for the reasons of panels: "channels last"
};

// Panels as the tuning wants them for the problem; 8 rows high where it wants no other number.
PanelOptions PanelsFor(const Target& target, const TileProblem& p);

Refusal RefusesCoop(const TiledProduct& p);
Result<EmittedProgram> EmitCoop(const TiledProduct& p, std::string refused);
Refusal RefusesFlexible(const TiledProduct& p);
Result<EmittedProgram> EmitFlexible(const TiledProduct& p, std::string refused);
Refusal RefusesTile(const TiledProduct& p);
Result<EmittedProgram> EmitTile(const TiledProduct& p, std::string refused);
Refusal RefusesBlocks(const TiledProduct& p);
Result<EmittedProgram> EmitBlocks(const TiledProduct& p, std::string refused);
Refusal RefusesPackedPanel(const TiledProduct& p);
Result<EmittedProgram> EmitPackedPanel(const TiledProduct& p, std::string refused);
Result<EmittedProgram> EmitPanel(const TiledProduct& p, std::string refused);

// Rows for tables of problems that have a member `product`. coop: cooperative matrices. coop2: those of any size. tile:
// through shared memory. blocks: sums in registers, lanes over blocks of rows and columns and over batches, where
// columns leave lanes idle. packed_panel: sums in registers, lanes along the columns; b is first copied into panels.
// panel: b is read where it lies; takes everything.
template <typename Problem>
using ProductVariant = Variant<Problem, Result<EmittedProgram>>;
template <typename Problem>
constexpr ProductVariant<Problem> kCoop = {
    "coop", [](const Problem& p) { return RefusesCoop(p.product); },
    [](const Problem& p, std::string refused) { return EmitCoop(p.product, std::move(refused)); }};
template <typename Problem>
constexpr ProductVariant<Problem> kFlexible = {
    "coop2", [](const Problem& p) { return RefusesFlexible(p.product); },
    [](const Problem& p, std::string refused) { return EmitFlexible(p.product, std::move(refused)); }};
template <typename Problem>
constexpr ProductVariant<Problem> kTile = {
    "tile", [](const Problem& p) { return RefusesTile(p.product); },
    [](const Problem& p, std::string refused) { return EmitTile(p.product, std::move(refused)); }};
template <typename Problem>
constexpr ProductVariant<Problem> kBlocks = {
    "by blocks", [](const Problem& p) { return RefusesBlocks(p.product); },
    [](const Problem& p, std::string refused) { return EmitBlocks(p.product, std::move(refused)); }};
template <typename Problem>
constexpr ProductVariant<Problem> kPackedPanel = {
    "packed_panel", [](const Problem& p) { return RefusesPackedPanel(p.product); },
    [](const Problem& p, std::string refused) { return EmitPackedPanel(p.product, std::move(refused)); }};
template <typename Problem>
constexpr ProductVariant<Problem> kPanel = {
    "panel", nullptr, [](const Problem& p, std::string refused) { return EmitPanel(p.product, std::move(refused)); }};

}  // namespace krafla::spirv
