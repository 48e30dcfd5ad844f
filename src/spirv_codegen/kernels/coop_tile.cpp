// SPDX-License-Identifier: Apache-2.0
// Shapes, tiles and staging follow what is known to be fast with VK_KHR_cooperative_matrix: matrices are loaded from
// shared memory (coop_operand.h) through pointers at words.
#include "spirv_codegen/kernels/coop_tile.h"

#include <algorithm>

#include "base/checked_math.h"
#include "spirv_codegen/kernels/coop_sums.h"

namespace krafla::spirv {
namespace {

CoopPart APart(const CoopTileOptions& o) {
  return {o.block_rows, o.block_depth, static_cast<int>(o.shape.k), ElementBytes(o.shape), o.local()};
}
CoopPart BPart(const CoopTileOptions& o) {
  return {o.block_columns, o.block_depth, static_cast<int>(o.shape.k), ElementBytes(o.shape), o.local()};
}

CoopBlock BlockOf(const CoopTileOptions& o) {
  return {o.shape, o.block_rows, o.block_columns, o.subgroup_rows, o.subgroup_columns, o.subgroup};
}

// Finished sums go through shared memory where the operands were.
int64_t OperandChunks(const CoopTileOptions& o) { return APart(o).Chunks() + BPart(o).Chunks(); }
CoopStrips TileStrips(const CoopTileOptions& o) {
  return StripsOf(BlockOf(o), OperandChunks(o), APart(o).ChunkBytes());
}
int64_t SharedChunks(const CoopTileOptions& o) { return std::max(OperandChunks(o), TileStrips(o).chunks); }
int64_t SharedBytes(const CoopTileOptions& o) { return SharedChunks(o) * APart(o).ChunkBytes(); }

bool Divides(const CoopTileOptions& o) {
  return BlockOf(o).Divides() && o.block_depth % static_cast<int>(o.shape.k) == 0;
}

std::optional<CooperativeMatrixShape> BestShape(const DeviceProfile& profile, ElementType a, ElementType b,
                                                ElementType accumulate) {
  std::optional<CooperativeMatrixShape> best;
  auto worth = [](const CooperativeMatrixShape& s) {
    // Squares of 16 are what drivers map best; then what does the most at once, up to that.
    if (s.m == 16 && s.n == 16) return 1000 + std::min(s.k, 32u);
    return std::min(s.m * s.n, 256u) + std::min(s.k, 32u);
  };
  for (const CooperativeMatrixShape& s : profile.cooperative_matrices) {
    if (s.scope != MatrixScope::kSubgroup || s.saturating || s.a != ComponentOf(a) || s.b != ComponentOf(b)) continue;
    // Groups of 4 along each side; more than 64 no tile of ours divides by.
    auto fits = [](uint32_t v) { return v % 4 == 0 && v >= 4 && v <= 64; };
    if (!AddsUpIn(s.c, s.result, accumulate) || !fits(s.m) || !fits(s.n) || !fits(s.k)) continue;
    if (!best || worth(s) > worth(*best)) best = s;
  }
  return best;
}

}  // namespace

uint32_t CoopSubgroup(const Target& target) {
  const DeviceProfile& profile = target.profile;
  if (target.tuning.coop.smallest_subgroup && profile.features.subgroup_size_control)
    return profile.limits.min_subgroup_size;
  return FixedSubgroupSize(profile);
}

Refusal RefusesMatrices(ElementType a, ElementType b, ElementType accumulate, const Target& target) {
  if (!target.options.allow_cooperative_matrix) return "switched off";
  const DeviceFeatures& f = target.profile.features;
  if (!f.cooperative_matrix || !f.vulkan_memory_model) return "the device has none";
  if (accumulate != ElementType::kF32 && accumulate != ElementType::kS32 && accumulate != ElementType::kU32)
    return "wide sums";
  if (a != b || ComponentOf(a) == ComponentType::kOther) return "the operands' types";
  const bool typed = a == ElementType::kF16    ? f.float16
                     : a == ElementType::kBF16 ? f.bfloat16_cooperative_matrix
                                               : f.int8;
  if (IsFloat(a) != IsFloat(accumulate) || !typed) return "the operands' types";
  return std::nullopt;
}

std::optional<CooperativeMatrixShape> ChooseCoopShape(ElementType a, ElementType b, ElementType accumulate,
                                                      const Target& target, std::string& reason) {
  auto no = [&](std::string why) {
    reason = std::move(why);
    return std::nullopt;
  };
  if (const Refusal why = RefusesMatrices(a, b, accumulate, target)) return no(*why);
  const std::optional<CooperativeMatrixShape> shape = BestShape(target.profile, a, b, accumulate);
  if (!shape) return no("the device has no shape for these types");
  if (!target.options.enable_cooperative_matrix && !target.tuning.coop.used) return no("slow on this device");
  if (CoopSubgroup(target) == 0) return no("the size of subgroups is not known");
  return shape;
}

std::optional<CoopTileOptions> ChooseCoopTile(const TileProblem& p, ElementType a, ElementType b, const Target& target,
                                              std::string& reason) {
  const DeviceProfile& profile = target.profile;
  const MatrixTuning& tuning = target.tuning.coop;
  auto no = [&](std::string why) {
    reason = std::move(why);
    return std::nullopt;
  };
  if (p.rows == 0 || p.columns == 0 || p.depth == 0 || p.segments == 0) return no("nothing to sum");
  const std::optional<CooperativeMatrixShape> shape = ChooseCoopShape(a, b, p.accumulate, target, reason);
  if (!shape) return std::nullopt;
  const bool forced = target.options.enable_cooperative_matrix;
  if (!forced && (p.rows < shape->m || p.columns < shape->n || p.depth < shape->k)) return no("a small problem");
  const uint32_t subgroup = CoopSubgroup(target);

  const auto k = static_cast<int64_t>(shape->k);
  for (const MatrixTile& t : tuning.tiles) {
    // Not one that is mostly edge.
    if (t.least_tiles > 0 && (p.rows <= t.rows / 2 || p.columns <= t.columns / 2)) continue;
    CoopTileOptions o{*shape, t.rows, t.columns, 0, t.subgroup_rows, t.subgroup_columns, subgroup};
    o.most_constant_offset = tuning.most_constant_offset;
    o.first_step_apart = tuning.first_step_apart;
    const int64_t depth = std::max(RoundUp(t.depth_bytes / ElementBytes(*shape), k), k);
    o.block_depth = static_cast<int>(std::min(depth, RoundUp(p.depth, k)));
    // Steps that are all whole, where half as many elements make them so; segments end with whole ones in any case.
    const auto halves = [&] { return p.depth % o.block_depth != 0 && o.block_depth % (2 * k) == 0; };
    while (halves() && (p.segments > 1 || p.depth % (o.block_depth / 2) == 0)) o.block_depth /= 2;
    const int64_t tiles = p.batch * CeilDiv(p.rows, t.rows) * CeilDiv(p.columns, t.columns);
    if (tiles < t.least_tiles || !Divides(o) || SharedBytes(o) > profile.limits.max_shared_memory_bytes) continue;
    if (o.local() != WorkgroupSize(profile, o.local())) continue;
    return o;
  }
  return no("no tile fits the device's limits");
}

namespace {

// One module under construction.
class CoopTile {
 public:
  CoopTile(KernelWriter& writer, const TileProblem& problem, ElementType stored, const TileOperands& operands,
           const CoopTileOptions& options)
      : w_(writer),
        b_(w_.b),
        matrices_(w_.b),
        p_(problem),
        stored_(stored),
        o_(options),
        operands_(operands),
        a_part_(APart(options)),
        b_part_(BPart(options)) {
    memory_.width = a_part_.ChunkBytes() / 4;
    memory_.array = b_.SharedArray(Kind::kU32, memory_.width, static_cast<uint32_t>(SharedChunks(options)));
  }

  Result<EmittedDispatch> Emit() {
    const int64_t row_blocks = CeilDiv(p_.rows, o_.block_rows), column_blocks = CeilDiv(p_.columns, o_.block_columns);
    const int64_t groups = p_.batch * row_blocks * column_blocks;
    KRAFLA_ASSIGN(Grid grid, FoldGrid(groups, w_.profile));
    const Value group = GroupNumber(b_, grid);
    auto body = [&] {
      const Value panel = b_.UDiv(group, U(row_blocks));  // over batches too
      const bool one = p_.batch == 1;
      batch_ = one ? U(0) : b_.UDiv(panel, U(column_blocks));
      row0_ = b_.Mul(b_.UMod(group, U(row_blocks)), U(o_.block_rows));
      column0_ = b_.Mul(one ? panel : b_.UMod(panel, U(column_blocks)), U(o_.block_columns));
      CoopSums sums(b_, matrices_, BlockOf(o_), stored_, p_.accumulate, memory_);
      Sum(sums);
      sums.Finish(TileStrips(o_), operands_, batch_, row0_, column0_, p_.rows);
    };
    ForItem(b_, grid.exact, group, groups, body);
    return EmittedDispatch{0, grid.size, {}};
  }

 private:
  Value U(int64_t v) const { return b_.U32(static_cast<uint32_t>(v)); }

  void Sum(CoopSums& sums) {
    const auto multiply = [&] { sums.Add(a_part_, U(0), b_part_, U(a_part_.Chunks())); };
    CoopOperand a(w_, p_, a_part_, memory_, 0, o_.most_constant_offset, operands_.make_a(batch_), true);
    CoopOperand b(w_, p_, b_part_, memory_, a_part_.Chunks(), o_.most_constant_offset, operands_.make_b(batch_), false);
    a.Prepare(b_.LocalIndex(), row0_);
    b.Prepare(b_.LocalIndex(), column0_);
    MultiplyInSteps(b_, p_, {a, b, o_.block_depth, o_.first_step_apart}, multiply);
  }

  KernelWriter& w_;
  Builder& b_;
  CooperativeMatrices matrices_;
  const TileProblem& p_;
  const ElementType stored_;
  const CoopTileOptions& o_;
  const TileOperands& operands_;
  const CoopPart a_part_, b_part_;
  CoopMemory memory_;
  Value batch_, row0_, column0_;
};

}  // namespace

Result<EmittedProgram> EmitCoopTile(const plan::KernelPlan& plan, const Target& target, const TileProblem& problem,
                                    ElementType stored, const MakeOperands& make_operands,
                                    const CoopTileOptions& options, std::string variant) {
  KernelWriter w(plan, target);
  const TileOperands operands = make_operands(w, problem.depth % options.block_depth == 0);
  CoopTile tile(w, problem, stored, operands, options);
  KRAFLA_ASSIGN(EmittedDispatch dispatch, tile.Emit());
  std::string reason = Format("{} x {} blocks of {} x {} x {} matrices", options.block_rows, options.block_columns,
                              options.shape.m, options.shape.n, options.shape.k);
  EmittedProgram out;
  AddKernel(out, w, std::move(dispatch), options.local(), options.subgroup, std::move(variant), std::move(reason));
  out.kernels[0].uses_cooperative_matrix = true;
  return out;
}

}  // namespace krafla::spirv
