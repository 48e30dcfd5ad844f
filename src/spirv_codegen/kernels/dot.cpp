// SPDX-License-Identifier: Apache-2.0
// DotKernel: the table kDotVariants. A depth too long for one workgroup is split first (split_sum.h): its parts are
// batches of another dot.
#include <algorithm>
#include <limits>

#include "base/checked_math.h"
#include "spirv_codegen/kernels/column_slices.h"
#include "spirv_codegen/kernels/dot.h"
#include "spirv_codegen/kernels/split_sum.h"
#include "spirv_codegen/kernels/tiled.h"
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

// What the strides of a computed operand are chosen by; those of one that is only moved are its own, and it needs no
// program but for its start.
void LieAsComputed(const Dims& batch, StridedMatrix& m, DotProblem::Start& start, ProgramMatrix& program) {
  if (program.program == nullptr) return;
  if (const std::optional<MovedOperand> moved = MovedOperandOf(*program.program, program.type)) {
    m.binding = moved->binding;
    m.row_stride = moved->strides[static_cast<std::size_t>(program.row_dim)];
    m.column_stride = moved->strides[static_cast<std::size_t>(program.column_dim)];
    start = {{moved->strides.begin(), moved->strides.begin() + program.row_dim}, 0, program.program, moved->index};
    m.offset_granule = Granule(batch, start.batch_strides, moved->granule);
    program.program = nullptr;
    return;
  }
  const bool along_rows = LiesAlong(*program.program, program.row_dim, program.column_dim);
  m.binding = -1;
  m.row_stride = along_rows ? 1 : m.columns;
  m.column_stride = along_rows ? m.rows : 1;
  m.offset_granule = 0;
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
  a_start = {kernel.lhs_batch_strides, kernel.lhs_offset, nullptr, 0};
  b_start = {kernel.rhs_batch_strides, kernel.rhs_offset, nullptr, 0};
  const auto rank = static_cast<int>(kernel.batch.size());
  if (kernel.computes_lhs()) a_program = {&kernel.lhs_program, kernel.lhs_type, rank, rank + 1};
  if (kernel.computes_rhs()) b_program = {&kernel.rhs_program, kernel.rhs_type, rank, rank + 1};
  LieAsComputed(kernel.batch, a, a_start, a_program);
  LieAsComputed(kernel.batch, b, b_start, b_program);
  if (swap) {
    std::swap(a_program, b_program);
    a_program = a_program.Transposed();
    b_program = b_program.Transposed();
    std::swap(a_start, b_start);
    std::swap(a, b);
    std::swap(a.rows, a.columns);
    std::swap(a.row_stride, a.column_stride);
    std::swap(b.rows, b.columns);
    std::swap(b.row_stride, b.column_stride);
  }
  tile.rows = a.rows;
  tile.columns = b.columns;
}

TileOperands DotProblem::Operands(KernelWriter& w, bool depth_in_range, bool raw) const {
  TileOperands out;
  const ReadAs as{tile.accumulate, raw};
  out.make_a = [this, &w, as, depth_in_range](Value batch) {
    return Operand(w, Which::kA, batch, as, /*rows_in_range=*/false, depth_in_range);
  };
  out.make_b = [this, &w, as, depth_in_range](Value batch) {
    return Operand(w, Which::kB, batch, as, depth_in_range, /*columns_in_range=*/false);
  };
  const Epilogue epilogue(w, k.epilogue, k.accumulate_type, k.result_type);
  out.big_finish = epilogue.is_big();
  out.finish = [this, &w, epilogue](Value batch, Value row, Value column, Value acc, Value condition) {
    FinishOne(w, epilogue, batch, row, column, acc, condition);
  };
  return out;
}

std::unique_ptr<MatrixSource> DotProblem::Operand(KernelWriter& w, Which which, Value batch, ReadAs as,
                                                  bool rows_in_range, bool columns_in_range) const {
  const bool is_a = which == Which::kA;
  ProgramMatrix program = is_a ? a_program : b_program;
  StridedMatrix strided = is_a ? a : b;
  if (which == Which::kTransposedB) {
    program = program.Transposed();
    std::swap(strided.rows, strided.columns);
    std::swap(strided.row_stride, strided.column_stride);
  }
  if (program.program != nullptr)
    return std::make_unique<ProgramSource>(w, program, batch, as, rows_in_range, columns_in_range);
  const Start& start = is_a ? a_start : b_start;
  Value offset = BatchOffset(w.b, batch, k.batch, start.batch_strides, start.offset);
  if (start.program != nullptr) offset = w.b.Add(offset, StartOf(w, *start.program, start.index));
  return std::make_unique<StridedSource>(w, strided, offset, as, rows_in_range, columns_in_range);
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

// A subgroup takes `rows` x `columns` sums, its lanes vectors of four along the depth. A lane adds up each sum in
// `parts` parts.
struct RowSums {
  int rows = 0, columns = 4, parts = 4;

  int count() const { return rows * columns; }
  // Values of a lane at once: its sums, with those of chains, and what it multiplies.
  int64_t values(bool chained) const { return int64_t{count()} * parts * (chained ? 3 : 1) + 4 * (rows + columns); }
};

// Fewer parts first: columns share what is read of the rows.
RowSums RowSumsOf(const TileProblem& t, uint32_t subgroup, int64_t most_values) {
  RowSums out{static_cast<int>(t.rows)};
  if (t.columns == 1) out.columns = 1;
  const bool chained = ChainedSums::Chained(ComputeKind(t.accumulate), t.depth / int64_t{subgroup});
  while (out.parts > 1 && out.values(chained) > most_values) out.parts /= 2;
  while (out.columns > 1 && out.values(chained) > most_values) out.columns /= 2;
  return out;
}

// `sum`, in as many parts as it has, with the products of two vectors along the depth.
Value AddProducts(Builder& b, Value sum, Value x, Value y) {
  const auto some = [&](Value v, int first) {
    Values out;
    for (int i = 0; i < sum.width; ++i) out.push_back(b.Extract(v, first + i));
    return sum.width == 4 ? v : b.Composite(out);
  };
  for (int i = 0; i < 4; i += sum.width) sum = MultiplyAdd(b, sum, some(x, i), some(y, i));
  return sum;
}

Result<EmittedDispatch> EmitRows(KernelWriter& w, const DotProblem& p, const RowSums& tile, uint32_t subgroup,
                                 uint32_t local) {
  Builder& b = w.b;
  const TileProblem& t = p.tile;
  auto u = [&](int64_t v) { return b.U32(static_cast<uint32_t>(v)); };
  const int64_t row_blocks = CeilDiv(t.rows, tile.rows), column_blocks = CeilDiv(t.columns, tile.columns);
  const int64_t items = t.batch * row_blocks * column_blocks;
  const int64_t per_group = local / subgroup;
  KRAFLA_ASSIGN(Grid grid, FoldGrid(CeilDiv(items, per_group), w.profile));
  const Value item = b.Add(b.Mul(GroupNumber(b, grid), u(per_group)), b.SubgroupId());
  const TileOperands operands = p.Operands(w, true);
  const Kind kind = ComputeKind(t.accumulate);
  auto body = [&] {
    const Value column = b.Mul(b.UMod(item, u(column_blocks)), u(tile.columns));
    const Value rest = b.UDiv(item, u(column_blocks));
    const Value row = b.Mul(b.UMod(rest, u(row_blocks)), u(tile.rows));
    const Value batch = b.UDiv(rest, u(row_blocks));
    const auto a = operands.make_a(batch);
    // b is read by columns: its transpose by rows.
    const auto b_rows = p.Operand(w, DotProblem::Which::kTransposedB, batch, ReadAs{t.accumulate}, false, true);
    a->PrepareRows(row, tile.rows);
    b_rows->PrepareRows(column, tile.columns);
    const auto rows = static_cast<std::size_t>(tile.rows), columns = static_cast<std::size_t>(tile.columns);
    const ChainedSums chains(b, kind, tile.parts, rows * columns, t.depth / int64_t{subgroup});
    auto step = [&](Value k, const Values& before) {
      Values av(rows), bv(columns);
      a->Load(row, tile.rows, k, 4, av);
      b_rows->Load(column, tile.columns, k, 4, bv);
      Values out = before;
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = AddProducts(b, out[i], av[i / columns], bv[i % columns]);
      return out;
    };
    const Values acc =
        chains.Finish(chains.Add(b.Mul(b.SubgroupLane(), u(4)), u(t.depth), subgroup * 4,
                                 ChainedSums::kChain / 8 * static_cast<uint32_t>(tile.parts), chains.Start(), step));
    auto add = [&](Value x, Value y) { return IsFloatKind(kind) ? b.FAdd(x, y) : b.Add(x, y); };
    Values sums;
    for (Value v : acc) {
      Value s = b.Extract(v, 0);
      if (tile.parts == 2) s = add(s, b.Extract(v, 1));
      if (tile.parts == 4) s = add(add(s, b.Extract(v, 1)), add(b.Extract(v, 2), b.Extract(v, 3)));
      for (uint32_t mask = 1; mask < subgroup; mask *= 2) s = add(s, b.SubgroupShuffleXor(s, mask));
      sums.push_back(s);
    }
    // Lane i finishes row i.
    for (int i = 0; i < tile.rows; ++i) {
      Value when = b.Compare(Cmp::kEq, b.SubgroupLane(), u(i % static_cast<int>(subgroup)));
      const Value r = b.Add(row, u(i));
      if (t.rows % tile.rows != 0) when = b.LAnd(when, b.Compare(Cmp::kULt, r, u(t.rows)));
      const Value sum =
          b.Composite(std::span<const Value>(sums).subspan(static_cast<std::size_t>(i) * columns, columns));
      operands.finish(batch, r, column, sum, when);
    }
  };
  ForItem(b, grid.exact && items % per_group == 0, item, items, body);
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

// A dot whose depth is not split, or only where it is too long for a workgroup. `is_part`: it is one part of several.
Result<EmittedProgram> EmitWhole(const plan::KernelPlan& plan, const DotKernel& k, const Target& target, bool is_part);

// The dot of [first, first + parts * depth) of k in `parts` parts, whose sums go to the last binding from `entry` on.
Result<EmittedProgram> EmitPart(const plan::KernelPlan& with_parts, const DotKernel& k, int64_t first, int64_t parts,
                                int64_t depth, int64_t entry, const Target& target) {
  DotKernel part = k;
  part.batch.insert(part.batch.begin(), parts);
  part.lhs_batch_strides.insert(part.lhs_batch_strides.begin(), depth * k.lhs_k_stride);
  part.rhs_batch_strides.insert(part.rhs_batch_strides.begin(), depth * k.rhs_k_stride);
  part.lhs_offset += first * k.lhs_k_stride;
  part.rhs_offset += first * k.rhs_k_stride;
  const auto rank = static_cast<int>(k.batch.size());
  if (k.computes_lhs()) part.lhs_program = PartsOf(k.lhs_program, rank + 1, parts, first, depth);
  if (k.computes_rhs()) part.rhs_program = PartsOf(k.rhs_program, rank, parts, first, depth);
  part.k = depth;
  part.result_type = k.accumulate_type;
  std::vector<int64_t> dims(part.batch.begin(), part.batch.end());
  dims.push_back(k.m);
  dims.push_back(k.n);
  part.epilogue = PartEpilogue(with_parts, dims, k.accumulate_type, entry);
  return EmitWhole(with_parts, part, target, /*is_part=*/true);
}

Result<EmittedProgram> EmitSplitDot(const plan::KernelPlan& plan, const DotKernel& k, int64_t wanted,
                                    const Target& target) {
  const int64_t depth = RoundUp(CeilDiv(k.k, wanted), 64), whole = k.k / depth, rest = k.k % depth;
  const int64_t outputs = Product(k.batch) * k.m * k.n, parts = whole + (rest > 0 ? 1 : 0);
  const plan::KernelPlan with_parts = WithParts(plan, k.accumulate_type, parts, outputs);
  EmittedProgram out;
  out.scratch_bytes.push_back(with_parts.bindings.back().byte_size());
  KRAFLA_ASSIGN(EmittedProgram most, EmitPart(with_parts, k, 0, whole, depth, 0, target));
  AddParts(out, std::move(most), static_cast<double>(whole * depth));
  if (rest > 0) {
    KRAFLA_ASSIGN(EmittedProgram last, EmitPart(with_parts, k, whole * depth, 1, rest, whole * outputs, target));
    AddParts(out, std::move(last), static_cast<double>(rest));
  }
  KRAFLA_TRY(AddJoin(out, plan, {k.epilogue, k.accumulate_type, k.result_type, parts}, target));
  return out;
}

struct DotCase {
  const plan::KernelPlan& plan;
  const Target& target;
  const DotKernel& k;
  const DotProblem& p;  // as `product` has it
  DotProblem by_rows;   // with the fewer of rows and columns as rows
  TiledProduct product;
};

Refusal RefusesRows(const DotCase& c) {
  const DotKernel& k = c.k;
  const DotProblem& p = c.by_rows;
  const uint32_t subgroup = FixedSubgroupSize(c.target.profile, c.target.tuning.dot.rows_subgroup);
  if (subgroup == 0) return "no fixed subgroup size";
  const int64_t most = c.target.tuning.dot.most_rows;
  if (std::min(k.m, k.n) > most) return Format("more than {} rows and columns", most);
  if (k.k < int64_t{subgroup} * 4) return "a short depth";
  if (!DepthVectors(p.a, k.k, true) || !DepthVectors(p.b, k.k, false) || p.b.row_stride != 1)
    return "the operands do not lie along the depth";
  // Parts of its depth fill a device, and else it leaves lanes idle to give each a sum.
  if (p.tile.columns <= 1 && (c.target.tuning.dot.wanted_sums > 0 || p.tile.batch >= int64_t{subgroup}))
    return "a single sum";
  return std::nullopt;
}

Result<EmittedProgram> EmitDotRows(const DotCase& c, std::string refused) {
  const uint32_t subgroup = FixedSubgroupSize(c.target.profile, c.target.tuning.dot.rows_subgroup);
  const uint32_t local = std::max(c.target.tuning.dot.rows_local / subgroup, 1u) * subgroup;
  EmittedProgram out;
  KernelWriter w(c.plan, c.target);
  const RowSums tile = RowSumsOf(c.by_rows.tile, subgroup, c.target.tuning.dot.rows_values);
  KRAFLA_ASSIGN(auto dispatch, EmitRows(w, c.by_rows, tile, subgroup, local));
  AddKernel(out, w, std::move(dispatch), local, subgroup, "dot.rows",
            Format("{} x {} sums; {}", c.k.m, c.k.n, refused));
  return out;
}

ColumnSlices SlicesOf(const Target& target) {
  const DeviceLimits& limits = target.profile.limits;
  ColumnSlices out = {target.tuning.dot.column_lanes, target.tuning.dot.column_slices};
  while (out.slices > 1 && out.local() > std::min(limits.max_workgroup_invocations, limits.max_workgroup_size[0]))
    out.slices /= 2;
  return out;
}

Refusal RefusesColumns(const DotCase& c) {
  const TileProblem& t = c.p.tile;
  const ColumnSlices slices = SlicesOf(c.target);
  if (slices.slices <= 1) return "an invocation takes whole columns on this device";
  if (t.rows > c.target.tuning.dot.column_rows) return Format("more than {} rows", c.target.tuning.dot.column_rows);
  if (t.columns <= 1) return "a single column";
  if (c.p.b.column_stride != 1) return "the columns do not lie side by side";
  if (t.depth < int64_t{slices.slices} * 4) return "a short depth";
  if (ComputeKind(t.accumulate) == Kind::kBool) return "sums of truth values";
  if (SharedBytes(t, slices) > c.target.profile.limits.max_shared_memory_bytes) return "shared memory";
  return std::nullopt;
}

Result<EmittedProgram> EmitDotColumns(const DotCase& c, std::string refused) {
  const TileProblem& t = c.p.tile;
  const ColumnSlices slices = SlicesOf(c.target);
  // What still does not fill the device is split along the depth over workgroups too, each of some turns.
  const int64_t invocations = t.batch * CeilDiv(t.columns, int64_t{slices.lanes} * 4) * slices.local();
  const int64_t parts =
      std::min(CeilDiv(c.target.tuning.dot.wanted_invocations, invocations), t.depth / (int64_t{slices.slices} * 16));
  if (parts > 1) return EmitSplitDot(c.plan, c.k, parts, c.target);
  EmittedProgram out;
  KernelWriter w(c.plan, c.target);
  KRAFLA_ASSIGN(auto dispatch, EmitColumnSlices(w, t, c.p.Operands(w, /*depth_in_range=*/true), slices));
  AddKernel(out, w, std::move(dispatch), slices.local(), 0, "dot.columns",
            Format("{} x {} sums; {}", t.rows, t.columns, refused));
  return out;
}

// In order of preference.
constexpr ProductVariant<DotCase> kDotVariants[] = {
    kFlexible<DotCase>,
    kCoop<DotCase>,
    // Few rows or few columns, both operands contiguous along the depth: a subgroup a block of sums, its lanes along
    // the depth.
    {"rows", RefusesRows, EmitDotRows},
    // Few rows, columns side by side: a workgroup a block of columns, its invocations along the columns and the depth.
    {"columns", RefusesColumns, EmitDotColumns},
    kTile<DotCase>,
    kBlocks<DotCase>,
    kPackedPanel<DotCase>,
    kPanel<DotCase>,
};
static_assert(TakesEverything(kDotVariants));

constexpr TiledNames kDotNames = {"dot.coop",         "dot.tile",  "dot.blocks", "dot.pack",
                                  "dot.packed_panel", "dot.panel", "dot.coop2"};

constexpr int64_t kPanelRows = 8;

Refusal RefusesDotTile(const DotKernel& k, const DotTuning& tuning) {
  if (std::min(k.m, k.n) < tuning.least_tile_side) return "few rows or columns";
  if (k.k < tuning.least_tile_depth) return "a short depth";
  return std::nullopt;
}

Refusal RefusesDotPacking(const DotProblem& p, const DotTuning& tuning) {
  if (!tuning.pack_panels) return "slower than reading in place on this device";
  if (p.tile.columns <= 1) return "a single column";
  if (p.b_program.program != nullptr) {
    // Otherwise each block of rows computes it anew.
    if (p.tile.rows <= kPanelRows) return "few rows compute the operand";
    return std::nullopt;
  }
  const bool in_place = ReadsWell(p.b);
  if (p.tile.rows < (in_place ? tuning.pack_rows : tuning.pack_rows_scattered)) return "few rows read the operand";
  if (p.k.k * p.tile.columns < (in_place ? tuning.pack_elements : tuning.pack_elements_scattered))
    return "a small operand";
  return std::nullopt;
}

PanelOptions DotPanels(const DotProblem& p, const Target& target) {
  PanelOptions panel = PanelsFor(target, p.tile);
  panel.column_vectors = p.tile.columns > 1;
  if (!target.tuning.panel.any_rows)
    panel.tile_rows = static_cast<int>(std::min(
        p.tile.rows >= 4 && p.tile.rows < 8 ? 4 : std::min(p.tile.rows, kPanelRows), target.tuning.panel.most_rows));
  // Few rows read b once: wide panels, since a short piece of each row of b would miss the cache's pages.
  if (panel.column_vectors && ReadsWell(p.b)) {
    // Of small elements, such as those that are computed, more make a piece of the same size. Measured with llvmpipe:
    // 67 ms instead of 125 for 1 x 4096 by 4096 x 16384 of s8.
    const int most = p.b_program.program != nullptr ? 8 : std::max(16 / StorageBytes(p.b.type), 4);
    panel.column_blocks = panel.tile_rows <= 2 ? most : panel.tile_rows <= 4 ? 2 : 1;
    while (panel.column_blocks > 1 && p.tile.columns < int64_t{panel.lanes} * 4 * panel.column_blocks * 4)
      panel.column_blocks /= 2;
  }
  return panel;
}

Result<EmittedProgram> EmitWhole(const plan::KernelPlan& plan, const DotKernel& k, const Target& target, bool is_part) {
  const DeviceProfile& profile = target.profile;
  const int64_t batch = Product(k.batch);
  if (batch * k.m * k.n == 0) return EmittedProgram{};
  if (k.m > INT32_MAX || k.n > INT32_MAX || k.k > INT32_MAX || batch > INT32_MAX) {
    return Unimplemented("The dot has an extent above 2^31.");
  }
  KRAFLA_TRY(CheckType(k.lhs_type, profile));
  KRAFLA_TRY(CheckType(k.rhs_type, profile));
  KRAFLA_TRY(CheckType(k.result_type, profile));
  const DotTuning& tuning = target.tuning.dot;
  const int64_t filling = is_part ? 1 : FillingParts(k.k, batch * k.m * k.n, tuning.least_part, tuning);
  if (const int64_t parts = PartCount(k.k, batch * k.m * k.n); parts > 1)
    return EmitSplitDot(plan, k, std::max(parts, filling), target);
  for (const plan::ElementProgram* program : {&k.lhs_program, &k.rhs_program}) {
    if (Product(program->space.dims()) > std::numeric_limits<uint32_t>::max() - (1 << 20))
      return Unimplemented("A computed operand of the dot has more elements than 32-bit arithmetic numbers.");
  }
  // A row of sums is taken by lanes along the columns: the longer of the two, or the one that lies so in memory.
  const DotProblem straight(k, false);
  const bool rhs_rows = straight.b.column_stride == 1 || straight.b.row_stride != 1;
  const bool lhs_rows = straight.a.row_stride == 1;
  bool swap = k.n < 8 && k.m > k.n;
  if (k.n >= 8 && k.m >= 8) swap = !rhs_rows && lhs_rows;
  const DotProblem p(k, swap);
  const DotCase problem{
      .plan = plan,
      .target = target,
      .k = k,
      .p = p,
      .by_rows = DotProblem(k, k.m > k.n),
      .product = {.plan = plan,
                  .target = target,
                  .names = kDotNames,
                  .tile = p.tile,
                  .a_type = p.a.type,
                  .b_type = p.b.type,
                  .operands = [&p](KernelWriter& w, bool in_range, bool raw) { return p.Operands(w, in_range, raw); },
                  .shared_tiles = tuning.shared_tiles,
                  .no_coop = {},
                  .no_shared_tile = RefusesDotTile(k, tuning),
                  .no_packing = RefusesDotPacking(p, tuning),
                  .panel = DotPanels(p, target),
                  .note = {}}};
  // Rows and columns are spread over the depth as they are.
  if (filling > 1 && RefusesRows(problem) && RefusesColumns(problem)) return EmitSplitDot(plan, k, filling, target);
  return MakeFirst(kDotVariants, problem);
}

}  // namespace

Result<EmittedProgram> EmitDot(const plan::KernelPlan& plan, const DotKernel& k, const Target& target) {
  return EmitWhole(plan, k, target, /*is_part=*/false);
}

}  // namespace krafla::spirv
