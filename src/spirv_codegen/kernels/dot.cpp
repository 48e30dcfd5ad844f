// SPDX-License-Identifier: Apache-2.0
// DotKernel. In order of preference:
//   rows      few rows or few columns, both operands contiguous along the depth: a subgroup a block of sums, its lanes
//             along the depth
//   panel     sums in registers, lanes along the columns, no shared memory; b first packed into panels where it is
//             read often (CPU-type devices), or as it lies; accepts everything
//   tile      through shared memory (GPUs)
// A depth too long for one workgroup is split first (split_sum.h): its parts are batches of another dot.
// and before all of them
//   coop      cooperative matrices, where the device has them for these types
#include <algorithm>

#include "base/checked_math.h"
#include "spirv_codegen/kernels/coop_tile.h"
#include "spirv_codegen/kernels/dot.h"
#include "spirv_codegen/kernels/split_sum.h"
#include "spirv_codegen/kernels/wide_sum.h"

namespace krafla::spirv {
namespace {

using plan::DotKernel;

// Every batch starts at a multiple of this, from a start at `offset`.
int64_t Granule(const Dims& batch, const Dims& strides, int64_t offset) {
  int64_t g = std::abs(offset);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (batch[i] > 1) g = g == 0 ? std::abs(strides[i]) : std::gcd(g, std::abs(strides[i]));
  }
  return g;
}

Value BatchOffset(Builder& b, Value batch, const Dims& dims, const Dims& strides, int64_t offset) {
  Value out = b.U32(static_cast<uint32_t>(offset)), rest = batch;
  for (std::size_t i = dims.size(); i-- > 0;) {
    const Value extent = b.U32(static_cast<uint32_t>(dims[i]));
    const Value at = i == 0 ? rest : b.UMod(rest, extent);
    out = b.Add(out, b.Mul(at, b.U32(static_cast<uint32_t>(strides[i]))));
    if (i != 0) rest = b.UDiv(rest, extent);
  }
  return out;
}

}  // namespace

DotProblem::DotProblem(const DotKernel& kernel, bool swap) : k(kernel), swapped(swap) {
  tile.batch = Product(kernel.batch);
  tile.depth = kernel.k;
  tile.accumulate = kernel.accumulate_type;
  a = {kernel.lhs_binding,
       kernel.lhs_type,
       kernel.m,
       kernel.k,
       kernel.lhs_m_stride,
       kernel.lhs_k_stride,
       Granule(kernel.batch, kernel.lhs_batch_strides, kernel.lhs_offset)};
  b = {kernel.rhs_binding,
       kernel.rhs_type,
       kernel.k,
       kernel.n,
       kernel.rhs_k_stride,
       kernel.rhs_n_stride,
       Granule(kernel.batch, kernel.rhs_batch_strides, kernel.rhs_offset)};
  a_strides = &kernel.lhs_batch_strides;
  b_strides = &kernel.rhs_batch_strides;
  a_offset = kernel.lhs_offset;
  b_offset = kernel.rhs_offset;
  if (swap) {
    std::swap(a_offset, b_offset);
    std::swap(a, b);
    std::swap(a.rows, a.columns);
    std::swap(a.row_stride, a.column_stride);
    std::swap(b.rows, b.columns);
    std::swap(b.row_stride, b.column_stride);
    std::swap(a_strides, b_strides);
  }
  tile.rows = a.rows;
  tile.columns = b.columns;
}

TileOperands DotProblem::Operands(KernelWriter& w, bool depth_in_range, bool raw) const {
  TileOperands out;
  const ReadAs as{tile.accumulate, raw};
  out.make_a = [this, &w, as, depth_in_range](Value batch) -> std::unique_ptr<MatrixSource> {
    return std::make_unique<StridedSource>(w, a, BatchOffset(w.b, batch, k.batch, *a_strides, a_offset), as,
                                           /*rows_in_range=*/false, depth_in_range);
  };
  out.make_b = [this, &w, as, depth_in_range](Value batch) -> std::unique_ptr<MatrixSource> {
    return std::make_unique<StridedSource>(w, b, BatchOffset(w.b, batch, k.batch, *b_strides, b_offset), as,
                                           depth_in_range, /*columns_in_range=*/false);
  };
  const Epilogue epilogue(w, k.epilogue, k.accumulate_type, k.result_type);
  out.big_finish = epilogue.is_big();
  out.finish = [this, &w, epilogue](Value batch, Value row, Value column, Value acc, Value condition) {
    FinishOne(w, epilogue, batch, row, column, acc, condition);
  };
  return out;
}

void DotProblem::FinishOne(KernelWriter& w, const Epilogue& epilogue, Value batch, Value row, Value column, Value acc,
                           Value condition) const {
  Builder& bb = w.b;
  const std::size_t batch_rank = k.batch.size();
  Values coordinates(batch_rank + 2);
  Value rest = batch;
  for (std::size_t i = batch_rank; i-- > 0;) {
    const Value extent = bb.U32(static_cast<uint32_t>(k.batch[i]));
    coordinates[i] = i == 0 ? rest : bb.UMod(rest, extent);
    if (i != 0) rest = bb.UDiv(rest, extent);
  }
  coordinates[batch_rank] = swapped ? column : row;
  coordinates[batch_rank + 1] = swapped ? row : column;
  epilogue.Emit(coordinates, static_cast<int>(batch_rank) + (swapped ? 0 : 1), acc, condition);
}

namespace {

// A subgroup takes `tile_rows` x `tile_columns` sums, its lanes vectors along the depth.
Result<EmittedDispatch> EmitRows(KernelWriter& w, const DotProblem& p, int tile_rows, int tile_columns,
                                 uint32_t subgroup, uint32_t local) {
  Builder& b = w.b;
  const TileProblem& t = p.tile;
  auto u = [&](int64_t v) { return b.U32(static_cast<uint32_t>(v)); };
  const int64_t row_blocks = CeilDiv(t.rows, tile_rows), column_blocks = CeilDiv(t.columns, tile_columns);
  const int64_t items = t.batch * row_blocks * column_blocks;
  const int64_t per_group = local / subgroup;
  KRAFLA_ASSIGN(Grid grid, FoldGrid(CeilDiv(items, per_group), w.profile));
  const Value item = b.Add(b.Mul(GroupNumber(b, grid), u(per_group)), b.SubgroupId());
  const TileOperands operands = p.Operands(w, true);
  const Kind kind = ComputeKind(t.accumulate);
  auto body = [&] {
    const Value column = b.Mul(b.UMod(item, u(column_blocks)), u(tile_columns));
    const Value rest = b.UDiv(item, u(column_blocks));
    const Value row = b.Mul(b.UMod(rest, u(row_blocks)), u(tile_rows));
    const Value batch = b.UDiv(rest, u(row_blocks));
    const auto a = operands.make_a(batch), bm = operands.make_b(batch);
    const auto count = static_cast<std::size_t>(tile_rows * tile_columns);
    // b is read by columns: its transpose by rows.
    StridedMatrix bt = p.b;
    std::swap(bt.rows, bt.columns);
    std::swap(bt.row_stride, bt.column_stride);
    const StridedSource b_rows(w, bt, p.BOffset(b, batch), ReadAs{t.accumulate}, false, true);
    const ChainedSums chains(b, kind, 4, count, t.depth / int64_t{subgroup});
    auto step = [&](Value k, const Values& before) {
      Values av(static_cast<std::size_t>(tile_rows)), bv(static_cast<std::size_t>(tile_columns));
      a->Load(row, tile_rows, k, 4, av);
      b_rows.Load(column, tile_columns, k, 4, bv);
      Values out = before;
      for (std::size_t i = 0; i < count; ++i) {
        out[i] = MultiplyAdd(b, out[i], av[i / static_cast<std::size_t>(tile_columns)],
                             bv[i % static_cast<std::size_t>(tile_columns)]);
      }
      return out;
    };
    const Values acc = chains.Finish(chains.Add(b.Mul(b.SubgroupLane(), u(4)), u(t.depth), subgroup * 4,
                                                ChainedSums::kChain / 2, chains.Start(), step));
    auto add = [&](Value x, Value y) { return IsFloatKind(kind) ? b.FAdd(x, y) : b.Add(x, y); };
    Values sums;
    for (Value v : acc) {
      Value s = add(add(b.Extract(v, 0), b.Extract(v, 1)), add(b.Extract(v, 2), b.Extract(v, 3)));
      for (uint32_t mask = 1; mask < subgroup; mask *= 2) s = add(s, b.SubgroupShuffleXor(s, mask));
      sums.push_back(s);
    }
    // Lane i finishes row i.
    for (int i = 0; i < tile_rows; ++i) {
      Value when = b.Compare(Cmp::kEq, b.SubgroupLane(), u(i % static_cast<int>(subgroup)));
      const Value r = b.Add(row, u(i));
      if (t.rows % tile_rows != 0) when = b.LAnd(when, b.Compare(Cmp::kULt, r, u(t.rows)));
      const auto first = static_cast<std::size_t>(i * tile_columns);
      const Value sum =
          b.Composite(std::span<const Value>(sums).subspan(first, static_cast<std::size_t>(tile_columns)));
      operands.finish(batch, r, column, sum, when);
    }
  };
  if (grid.exact && items % per_group == 0) {
    body();
  } else {
    b.If(b.Compare(Cmp::kULt, item, u(items)), body);
  }
  return EmittedDispatch{0, grid.size, {}};
}

bool DepthVectors(const StridedMatrix& m, int64_t depth, bool depth_is_columns) {
  const int64_t along = depth_is_columns ? m.column_stride : m.row_stride;
  const int64_t across = depth_is_columns ? m.row_stride : m.column_stride;
  const int64_t lines = depth_is_columns ? m.rows : m.columns;
  return along == 1 && depth % 4 == 0 && m.offset_granule % 4 == 0 && (across % 4 == 0 || lines == 1);
}

// Cost of reading b in place by lanes along its columns.
bool ReadsWell(const StridedMatrix& b) {
  return b.column_stride == 1 && b.columns % 4 == 0 && b.row_stride % 4 == 0 && b.offset_granule % 4 == 0;
}

// The dot of [first, first + parts * depth) of k in `parts` parts, whose sums go to the last binding from `entry` on.
Result<EmittedProgram> EmitPart(const plan::KernelPlan& with_parts, const DotKernel& k, int64_t first, int64_t parts,
                                int64_t depth, int64_t entry, const DeviceProfile& profile,
                                const EmitOptions& options) {
  DotKernel part = k;
  part.batch.insert(part.batch.begin(), parts);
  part.lhs_batch_strides.insert(part.lhs_batch_strides.begin(), depth * k.lhs_k_stride);
  part.rhs_batch_strides.insert(part.rhs_batch_strides.begin(), depth * k.rhs_k_stride);
  part.lhs_offset += first * k.lhs_k_stride;
  part.rhs_offset += first * k.rhs_k_stride;
  part.k = depth;
  part.result_type = k.accumulate_type;
  std::vector<int64_t> dims(part.batch.begin(), part.batch.end());
  dims.push_back(k.m);
  dims.push_back(k.n);
  part.epilogue = PartEpilogue(with_parts, dims, k.accumulate_type, entry);
  return EmitDot(with_parts, part, profile, options);
}

Result<EmittedProgram> EmitSplitDot(const plan::KernelPlan& plan, const DotKernel& k, int64_t wanted,
                                    const DeviceProfile& profile, const EmitOptions& options) {
  const int64_t depth = RoundUp(CeilDiv(k.k, wanted), 64), whole = k.k / depth, rest = k.k % depth;
  const int64_t outputs = Product(k.batch) * k.m * k.n, parts = whole + (rest > 0 ? 1 : 0);
  const plan::KernelPlan with_parts = WithParts(plan, k.accumulate_type, parts, outputs);
  EmittedProgram out;
  out.scratch_bytes.push_back(with_parts.bindings.back().byte_size());
  KRAFLA_ASSIGN(EmittedProgram most, EmitPart(with_parts, k, 0, whole, depth, 0, profile, options));
  AddParts(out, std::move(most), static_cast<double>(whole * depth));
  if (rest > 0) {
    KRAFLA_ASSIGN(EmittedProgram last,
                  EmitPart(with_parts, k, whole * depth, 1, rest, whole * outputs, profile, options));
    AddParts(out, std::move(last), static_cast<double>(rest));
  }
  KRAFLA_TRY(AddJoin(out, plan, {k.epilogue, k.accumulate_type, k.result_type, parts}, profile));
  return out;
}

}  // namespace

Value DotProblem::BOffset(Builder& builder, Value batch) const {
  return BatchOffset(builder, batch, k.batch, *b_strides, b_offset);
}

Result<EmittedProgram> EmitDot(const plan::KernelPlan& plan, const DotKernel& k, const DeviceProfile& profile,
                               const EmitOptions& options) {
  EmittedProgram out;
  const int64_t batch = Product(k.batch);
  if (batch * k.m * k.n == 0) return out;
  if (k.m > INT32_MAX || k.n > INT32_MAX || k.k > INT32_MAX || batch > INT32_MAX) {
    return Unimplemented("The dot has an extent above 2^31.");
  }
  KRAFLA_TRY(CheckType(k.lhs_type, profile));
  KRAFLA_TRY(CheckType(k.rhs_type, profile));
  KRAFLA_TRY(CheckType(k.result_type, profile));
  if (const int64_t parts = PartCount(k.k, batch * k.m * k.n); parts > 1)
    return EmitSplitDot(plan, k, parts, profile, options);
  const uint32_t subgroup = FixedSubgroupSize(profile);
  // A row of sums is taken by lanes along the columns: the longer of the two, or the one that lies so in memory.
  const bool rhs_rows = k.rhs_n_stride == 1 || k.rhs_k_stride != 1;
  const bool lhs_rows = k.lhs_m_stride == 1;
  bool swap = k.n < 8 && k.m > k.n;
  if (k.n >= 8 && k.m >= 8) swap = !rhs_rows && lhs_rows;

  std::string no_matrices;
  {
    const DotProblem p(k, swap);
    if (const auto tile = ChooseCoopTile(p.tile, p.a.type, p.b.type, profile, options, no_matrices)) {
      auto operands = [&](KernelWriter& w, bool depth_in_range) { return p.Operands(w, depth_in_range, /*raw=*/true); };
      return EmitCoopTile(plan, profile, p.tile, p.a.type, operands, *tile, "dot.coop");
    }
  }
  // Few rows or columns, both contiguous along the depth.
  const int64_t few = std::min(k.m, k.n);
  if (subgroup != 0 && few <= 4 && k.k >= int64_t{subgroup} * 4) {
    const DotProblem p(k, k.m > k.n);
    if (DepthVectors(p.a, k.k, true) && DepthVectors(p.b, k.k, false) && p.b.row_stride == 1 && p.tile.columns > 1) {
      KernelWriter w(plan, profile);
      const uint32_t local = profile.is_cpu ? subgroup : std::max(64u / subgroup, 1u) * subgroup;
      const int rows = static_cast<int>(p.tile.rows);
      KRAFLA_ASSIGN(auto dispatch, EmitRows(w, p, rows, 4, subgroup, local));
      AddKernel(out, w, std::move(dispatch), local, subgroup, "dot.rows",
                Format("{} x {} sums; {}", k.m, k.n, no_matrices));
      return out;
    }
  }
  if (!profile.is_cpu && few >= 16 && k.k >= 8) {
    for (const SharedTileOptions o :
         {SharedTileOptions{128, 64, 16, 8}, SharedTileOptions{64, 64, 16, 4}, SharedTileOptions{32, 32, 16, 4}}) {
      if (!SharedTileFits(o, k.accumulate_type, profile)) continue;
      const DotProblem p(k, swap);
      // Bigger tiles only where they still fill the device.
      const int64_t tiles = batch * CeilDiv(p.tile.rows, o.block_rows) * CeilDiv(p.tile.columns, o.block_columns);
      if (o.block_rows > 32 && tiles < 64) continue;
      KernelWriter w(plan, profile);
      const TileOperands operands = p.Operands(w, k.k % o.block_depth == 0);
      KRAFLA_ASSIGN(auto dispatch, EmitSharedTile(w, p.tile, operands, o));
      AddKernel(out, w, std::move(dispatch), SharedTileLocal(o), 0, "dot.tile",
                Format("{} x {} blocks; {}", o.block_rows, o.block_columns, no_matrices));
      return out;
    }
  }

  const DotProblem p(k, swap);
  PanelOptions panel;
  panel.lanes = profile.is_cpu ? (subgroup != 0 ? subgroup : 8) : WorkgroupSize(profile, 32);
  panel.column_vectors = p.tile.columns > 1;
  panel.chained = profile.is_cpu;
  panel.tile_rows = p.tile.rows >= 8 ? 8 : static_cast<int>(p.tile.rows);
  if (!profile.is_cpu && p.tile.rows >= 4 && p.tile.rows < 8) panel.tile_rows = 4;
  // Few rows read b once: wide panels, since a short piece of each row of b would miss the cache's pages.
  if (panel.column_vectors && ReadsWell(p.b)) {
    panel.column_blocks = panel.tile_rows <= 2 ? 4 : panel.tile_rows <= 4 ? 2 : 1;
    while (panel.column_blocks > 1 && p.tile.columns < int64_t{panel.lanes} * 4 * panel.column_blocks * 4)
      panel.column_blocks /= 2;
  }
  const uint32_t need = profile.is_cpu ? subgroup : 0;
  const int64_t packed_words = PackedWords(p.tile, panel.lanes);
  const bool reuse = p.tile.rows >= (ReadsWell(p.b) ? 32 : 8);
  const bool big = k.k * p.tile.columns >= (ReadsWell(p.b) ? 1 << 16 : 1 << 10);
  const bool fits = packed_words * 4 <= (int64_t{1} << 28) && BitWidth(k.accumulate_type) == 32;
  if (profile.is_cpu && reuse && big && fits && panel.column_vectors) {
    const int scratch = static_cast<int>(plan.bindings.size());
    const std::vector<BufferDesc> descs{{packed_words, 4}};
    out.scratch_bytes.push_back(packed_words * 4);
    const uint32_t local = WorkgroupSize(profile, 64);
    {
      KernelWriter w(plan, profile, descs);
      const TileOperands operands = p.Operands(w, k.k % 4 == 0);
      KRAFLA_ASSIGN(auto dispatch, EmitPack(w, p.tile, operands, panel.lanes, scratch, local));
      dispatch.share = std::min(1.0, 8.0 / static_cast<double>(p.tile.rows));
      AddKernel(out, w, std::move(dispatch), local, 0, "dot.pack", "");
    }
    panel.packed_binding = scratch;
    panel.column_blocks = 1;
    KernelWriter w(plan, profile, descs);
    KRAFLA_ASSIGN(auto dispatch, EmitPanels(w, p.tile, p.Operands(w, true), panel));
    AddKernel(out, w, std::move(dispatch), panel.lanes, need, "dot.packed_panel", "a CPU-type device; " + no_matrices);
    return out;
  }
  KernelWriter w(plan, profile);
  KRAFLA_ASSIGN(auto dispatch, EmitPanels(w, p.tile, p.Operands(w, true), panel));
  AddKernel(out, w, std::move(dispatch), panel.lanes, need, "dot.panel",
            (few < 16 ? "few rows or columns; " : "no other variant takes it; ") + no_matrices);
  return out;
}

}  // namespace krafla::spirv
