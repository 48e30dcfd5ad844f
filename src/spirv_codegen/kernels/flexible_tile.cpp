// SPDX-License-Identifier: Apache-2.0
// What is known to be fast: ggml's mul_mm_cm2.comp (ggml-org/llama.cpp), of which the sizes of tiles and the loads
// without clamps inside the edges are, and storing through shared memory (its pull request 22620).
#include "spirv_codegen/kernels/flexible_tile.h"

#include <algorithm>

#include "base/checked_math.h"
#include "spirv_codegen/kernels/coop_sums.h"
#include "spirv_codegen/kernels/coop_tile.h"

namespace krafla::spirv {
namespace {

constexpr int64_t kTensorAlignment = 16;  // of the pointer that a load takes, in bytes: SPV_NV_cooperative_matrix2
// Of rows of the result that lie in shared memory at once, at the most: 32 rows of 256 sums. Each strip is a call for
// every element of the tile.
constexpr int64_t kStripBytes = 33792;

// Vectors of four from row to row of a strip: one more than there are, against bank conflicts.
int64_t StripStride(int columns) { return columns / 4 + 1; }
int64_t StripBytes(const FlexibleOptions& o) { return o.strip_rows * StripStride(o.columns) * 16; }

CoopPart PartOf(const FlexibleOptions& o, int lines) {
  return {lines, o.depth, static_cast<int>(o.shape.k), KindBits(ComponentKind(o.shape.a)) / 8, o.local};
}
int64_t StagedBytes(const FlexibleOptions& o) {
  if (o.tensors) return 0;
  const CoopPart a = PartOf(o, o.rows), b = PartOf(o, o.columns);
  return (a.Chunks() + b.Chunks()) * a.ChunkBytes();
}

int64_t SharedBytes(const DeviceProfile& profile, const FlexibleOptions& o) {
  const auto most = static_cast<int64_t>(profile.limits.max_shared_memory_bytes);
  return o.subgroup != 0 ? most : most - static_cast<int64_t>(profile.limits.matrix_workgroup_reserved_bytes);
}

// Whether the device has matrices of this tile, which `o` then says.
bool FindShape(const DeviceProfile& profile, ElementType a, ElementType b, ElementType accumulate, FlexibleOptions& o) {
  const MatrixScope scope = o.subgroup == 0 ? MatrixScope::kWorkgroup : MatrixScope::kSubgroup;
  for (const FlexibleMatrix& s : profile.flexible_matrices) {
    if (s.scope != scope || s.saturating || s.a != ComponentOf(a) || s.b != ComponentOf(b)) continue;
    if (!AddsUpIn(s.c, s.result, accumulate) || s.m == 0 || s.n == 0 || s.k == 0) continue;
    if (scope == MatrixScope::kWorkgroup && s.workgroup_invocations != o.local) continue;
    const auto divides = [](int side, uint32_t by) { return static_cast<uint32_t>(side) % by == 0; };
    if (!divides(o.rows, s.m) || !divides(o.columns, s.n) || !divides(o.depth, s.k)) continue;
    // What is staged is staged in chunks of the depth of at least a word, each side of whole groups of four.
    const auto bytes = static_cast<uint32_t>(KindBits(ComponentKind(s.a)) / 8);
    if (!o.tensors && (s.k > 64 || s.k * bytes % 4 != 0 || s.k * bytes < 8)) continue;
    o.shape = s;
    return true;
  }
  return false;
}

}  // namespace

std::optional<FlexibleOptions> ChooseFlexibleTile(const TileProblem& p, ElementType a, ElementType b,
                                                  const Target& target, std::string& reason) {
  const DeviceProfile& profile = target.profile;
  const MatrixTuning& tuning = target.tuning.coop;
  const DeviceFeatures& f = profile.features;
  auto no = [&](std::string why) {
    reason = std::move(why);
    return std::nullopt;
  };
  const bool forced = target.options.enable_flexible_matrix;
  // SPV_NV_cooperative_matrix2 asks for SPIR-V 1.6.
  const bool has =
      f.matrix_flexible_dimensions && f.matrix_per_element_operations && profile.max_spirv_version >= 0x10600;
  if (!has || (!forced && !(tuning.used && tuning.flexible))) return no("");
  if (p.rows == 0 || p.columns == 0 || p.depth == 0 || p.segments != 1) return no("nothing to sum, or segments");
  if (const Refusal why = RefusesMatrices(a, b, p.accumulate, target)) return no(*why);
  const bool is_narrow = BitWidth(a) == 8;
  const bool has_storage = is_narrow ? StoresAlone(f, 1) : StoresAlone(f, 2);
  FlexibleOptions o;
  o.subgroup = f.matrix_workgroup_scope ? 0 : CoopSubgroup(target);
  if (!f.matrix_workgroup_scope && o.subgroup == 0) return no("the size of subgroups is not known");
  o.tensors = f.matrix_tensor_addressing && has_storage;
  for (const FlexibleTile& t : tuning.flexible_tiles) {
    if (!forced && (p.rows <= t.rows / 2 || p.columns <= t.columns / 2)) continue;
    if (p.batch * CeilDiv(p.rows, t.rows) * CeilDiv(p.columns, t.columns) < t.least_tiles) continue;
    o.rows = t.rows, o.columns = t.columns;
    o.depth = static_cast<int>(t.depth_bytes * 8 / BitWidth(a));
    o.local = o.subgroup != 0 ? o.subgroup : t.lanes;
    const int largest = std::max({o.rows, o.columns, o.depth});
    if (static_cast<uint32_t>(largest) > profile.limits.max_flexible_matrix_side) continue;
    if (o.subgroup == 0 && o.local > profile.limits.max_matrix_workgroup_invocations) continue;
    if (o.local != WorkgroupSize(profile, o.local) || !FindShape(profile, a, b, p.accumulate, o)) continue;
    o.strip_rows = o.rows;
    const int64_t room = std::min(kStripBytes, SharedBytes(profile, o) - StagedBytes(o));
    while (o.strip_rows > 1 && StripBytes(o) > room) o.strip_rows /= 2;
    if (StripBytes(o) <= room) return o;
  }
  return no(p.rows <= 32 || p.columns <= 32 ? "a small problem" : "no tile that the device has matrices for");
}

namespace {

// Lines of one element, and a single line, lie as it suits.
MatrixLines Nested(MatrixLines lines) {
  if (lines.count == 1) lines.line_stride = lines.depth * lines.depth_stride;
  if (lines.depth == 1) lines.depth_stride = lines.count * lines.line_stride;
  return lines;
}

TensorLayout LayoutOf(const MatrixLines& lines, bool rows) {
  const bool across = lines.depth_stride > lines.line_stride;  // lines lie side by side
  const auto u = [](int64_t v) { return static_cast<uint32_t>(v); };
  TensorLayout out;
  out.extents[across ? 1 : 0] = u(lines.count), out.strides[across ? 1 : 0] = u(lines.line_stride);
  out.extents[across ? 0 : 1] = u(lines.depth), out.strides[across ? 0 : 1] = u(lines.depth_stride);
  out.is_transposed = across == rows;
  return out;
}

}  // namespace

Refusal RefusesTensor(const MatrixSource& source, bool rows, const TileProblem& problem, const DeviceProfile& profile) {
  const std::optional<MatrixLines> found = source.Lines(rows);
  if (!found) return "an operand is computed, or lies unevenly";
  const MatrixLines lines = Nested(*found);
  if (lines.segments || lines.wraps || lines.line_stride <= 0 || lines.depth_stride <= 0)
    return "an operand lies unevenly";
  if (lines.depth != problem.depth) return "an operand has another depth";
  if (!StoresAlone(profile.features, lines.element_bytes)) return "no storage of so few bits";
  if (lines.granule * lines.element_bytes % kTensorAlignment != 0) return "an operand does not begin at 16 bytes";
  const TensorLayout layout = LayoutOf(lines, rows);
  // OpTensorLayoutSetStrideNV: what is further out goes at least as far as what is further in reaches.
  if (int64_t{layout.strides[0]} < int64_t{layout.strides[1]} * layout.extents[1]) return "an operand overlaps itself";
  return std::nullopt;
}

namespace {

// One module under construction.
class FlexibleProduct {
 public:
  FlexibleProduct(KernelWriter& writer, const TileProblem& problem, ElementType stored, const TileOperands& operands,
                  const FlexibleOptions& options)
      : w_(writer),
        b_(w_.b),
        matrices_(w_.b, options.shape.scope),
        p_(problem),
        o_(options),
        operands_(operands),
        sum_kind_(ComputeKind(problem.accumulate)),
        signed_(SignedOperands(stored, problem.accumulate, options.shape.c)) {
    const auto rows = static_cast<uint32_t>(o_.rows), columns = static_cast<uint32_t>(o_.columns);
    const auto depth = static_cast<uint32_t>(o_.depth);
    using Use = CooperativeMatrices::Use;
    component_ = ComponentKind(o_.shape.a);
    a_type_ = matrices_.Type(component_, rows, depth, Use::kA);
    b_type_ = matrices_.Type(component_, depth, columns, Use::kB);
    sum_type_ = matrices_.Type(sum_kind_, rows, columns, Use::kAccumulator);
    const auto strip = static_cast<uint32_t>(o_.strip_rows * StripStride(o_.columns));
    strip_ = b_.SharedArray(sum_kind_, 4, strip);
  }

  Result<EmittedDispatch> Emit() {
    const int64_t row_blocks = CeilDiv(p_.rows, o_.rows), column_blocks = CeilDiv(p_.columns, o_.columns);
    const int64_t groups = p_.batch * row_blocks * column_blocks;
    KRAFLA_ASSIGN(Grid grid, FoldGrid(groups, w_.profile));
    const Value group = GroupNumber(b_, grid);
    auto body = [&] {
      const Value panel = b_.UDiv(group, U(row_blocks));  // over batches too
      const bool one = p_.batch == 1;
      batch_ = one ? U(0) : b_.UDiv(panel, U(column_blocks));
      row0_ = b_.Mul(b_.UMod(group, U(row_blocks)), U(o_.rows));
      column0_ = b_.Mul(one ? panel : b_.UMod(panel, U(column_blocks)), U(o_.columns));
      sum_ = matrices_.ZeroVariable(sum_type_, sum_kind_);
      if (o_.tensors) {
        SumTensors();
      } else {
        SumStaged();
      }
      Finish();
    };
    ForItem(b_, grid.exact, group, groups, body);
    return EmittedDispatch{0, grid.size, {}};
  }

 private:
  Value U(int64_t v) const { return b_.U32(static_cast<uint32_t>(v)); }

  void Multiply(Id a, Id b) {
    matrices_.Write(sum_, matrices_.MultiplyAdd(sum_type_, a, b, matrices_.Read(sum_type_, sum_), signed_));
  }

  // Where an operand lies, and its pointer.
  struct Tensor {
    TensorLayout layout;
    Id pointer = 0, type = 0, zero = 0;
    bool across = false;  // its lines are the layout's second dimension
    int lines = 0;        // of a tile
  };
  Tensor TensorOf(const MatrixSource& source, bool rows) {
    const MatrixLines lines = Nested(*source.Lines(rows));
    Tensor out;
    out.layout = LayoutOf(lines, rows);
    out.across = lines.depth_stride > lines.line_stride;
    out.lines = rows ? o_.rows : o_.columns;
    out.type = rows ? a_type_ : b_type_;
    out.zero = matrices_.Zero(out.type, component_);
    out.pointer = w_.buffers.PointerAt(lines.binding, lines.element_bytes, lines.offset(U(0)));
    return out;
  }
  Id Load(TensorLoads& loads, const Tensor& tensor, Value line, Value k, bool clamped) {
    const auto depth = static_cast<uint32_t>(o_.depth), lines = static_cast<uint32_t>(tensor.lines);
    const Value place[] = {tensor.across ? k : line, tensor.across ? line : k};
    const uint32_t spans[] = {tensor.across ? depth : lines, tensor.across ? lines : depth};
    return loads.Load(tensor.type, tensor.zero, tensor.pointer, w_.buffers.uses_addresses(), tensor.layout, clamped,
                      place, spans);
  }

  // Steps inside the edges have no clamps; those of tiles at an edge, and the last one where it is not whole, do.
  void SumTensors() {
    TensorLoads loads(b_);
    const auto a_source = operands_.make_a(batch_), b_source = operands_.make_b(batch_);
    const Tensor a = TensorOf(*a_source, true), b = TensorOf(*b_source, false);
    const auto step = [&](Value k, bool clamped) {
      const Id of_a = Load(loads, a, row0_, k, clamped);
      Multiply(of_a, Load(loads, b, column0_, k, clamped));
    };
    const int64_t whole = p_.depth / o_.depth * o_.depth;
    const auto steps = [&](bool clamped) {
      if (whole > 0) b_.For(U(0), U(whole), U(o_.depth), [&](Value k) { step(k, clamped); });
      return Values{};
    };
    const int64_t inner_rows = p_.rows - o_.rows, inner_columns = p_.columns - o_.columns;
    if (p_.rows % o_.rows == 0 && p_.columns % o_.columns == 0) {
      steps(false);
    } else if (inner_rows < 0 || inner_columns < 0) {
      steps(true);
    } else {
      const Value in_rows = b_.Compare(Cmp::kULe, row0_, U(inner_rows));
      const Value inside = b_.LAnd(in_rows, b_.Compare(Cmp::kULe, column0_, U(inner_columns)));
      b_.If(inside, [&] { return steps(false); }, [&] { return steps(true); });
    }
    if (whole < p_.depth) step(U(whole), true);
  }

  void SumStaged() {
    const CoopPart a_part = PartOf(o_, o_.rows), b_part = PartOf(o_, o_.columns);
    CoopMemory memory;
    memory.width = a_part.ChunkBytes() / 4;
    memory.array = b_.SharedArray(Kind::kU32, memory.width, static_cast<uint32_t>(a_part.Chunks() + b_part.Chunks()));
    const int64_t constant = w_.tuning.coop.most_constant_offset;
    CoopOperand a(w_, p_, a_part, memory, 0, constant, operands_.make_a(batch_), true);
    CoopOperand b(w_, p_, b_part, memory, a_part.Chunks(), constant, operands_.make_b(batch_), false);
    a.Prepare(b_.LocalIndex(), row0_);
    b.Prepare(b_.LocalIndex(), column0_);
    const auto load = [&](Id type, int64_t at, const CoopPart& part, CooperativeMatrices::Layout layout) {
      return matrices_.Load(type, memory.array, Kind::kU32, memory.width, U(at), static_cast<uint32_t>(part.Stride()),
                            layout);
    };
    MultiplyInSteps(b_, p_, {a, b, o_.depth, w_.tuning.coop.first_step_apart}, [&] {
      const Id of_a = load(a_type_, 0, a_part, CooperativeMatrices::Layout::kRows);
      Multiply(of_a, load(b_type_, a_part.Chunks(), b_part, CooperativeMatrices::Layout::kColumns));
    });
  }

  // The function that puts an element into the strip, if its row is one of the strip's, the first of which its last
  // parameter names. It returns the element.
  Id PutFunction() {
    const Id u32 = b_.m.Type(Kind::kU32), element = b_.m.Type(sum_kind_);
    const Id types[] = {u32, u32, element, u32};
    const Module::Function f = b_.m.BeginFunction(element, types);
    const Value row{f.params[0], Kind::kU32, 1}, column{f.params[1], Kind::kU32, 1}, first{f.params[3], Kind::kU32, 1};
    const auto put = [&] {
      const Value at = b_.Add(b_.Mul(b_.Sub(row, first), U(StripStride(o_.columns))), b_.Shr(column, U(2)));
      b_.StoreSharedLane(strip_, at, b_.And(column, U(3)), {f.params[2], sum_kind_, 1});
    };
    if (o_.strip_rows == o_.rows) {
      put();
    } else {
      b_.If(b_.Compare(Cmp::kULt, b_.Sub(row, first), U(o_.strip_rows)), put);
    }
    b_.m.EndFunction(f.params[2]);
    return f.id;
  }

  // The sums go through shared memory to per-element code, strip by strip. Not in the function that is called for each
  // element: it may be called twice for one, and an epilogue may read what it has written.
  void Finish() {
    const Id put = PutFunction();
    const int64_t quads = o_.columns / 4;
    const auto strip = [&](Value number) {
      const Value first = b_.Mul(number, U(o_.strip_rows));
      const Id more[] = {first.id};
      matrices_.Write(sum_, matrices_.ForEachElement(sum_type_, matrices_.Read(sum_type_, sum_), put, more));
      b_.WorkgroupBarrier();
      const Value row = b_.Add(row0_, first);
      const auto finish = [&](Value quad) {
        const Value within = b_.UDiv(quad, U(quads)), of_row = b_.UMod(quad, U(quads));
        const Value at = b_.Add(b_.Mul(within, U(StripStride(o_.columns))), of_row);
        const Value sums = b_.LoadShared(strip_, sum_kind_, 4, at);
        const Value r = b_.Add(row, within);
        const Value in = p_.rows % o_.rows == 0 ? Value{} : b_.Compare(Cmp::kULt, r, U(p_.rows));
        operands_.finish(batch_, r, b_.Add(column0_, b_.Mul(of_row, U(4))), sums, in);
      };
      b_.For(b_.LocalIndex(), U(o_.strip_rows * quads), U(o_.local), finish, Unroll::kNever);
      b_.WorkgroupBarrier();
    };
    b_.For(U(0), U(o_.rows / o_.strip_rows), U(1), strip, Unroll::kNever);
  }

  KernelWriter& w_;
  Builder& b_;
  CooperativeMatrices matrices_;
  const TileProblem& p_;
  const FlexibleOptions& o_;
  const TileOperands& operands_;
  const Kind sum_kind_;
  const uint32_t signed_;
  Kind component_ = Kind::kF16;
  Id a_type_ = 0, b_type_ = 0, sum_type_ = 0, strip_ = 0, sum_ = 0;
  Value batch_, row0_, column0_;
};

}  // namespace

Result<EmittedProgram> EmitFlexibleTile(const plan::KernelPlan& plan, const Target& target, const TileProblem& problem,
                                        ElementType stored,
                                        const std::function<TileOperands(KernelWriter&, bool depth_in_range)>& operands,
                                        const FlexibleOptions& options, std::string variant) {
  KernelWriter w(plan, target);
  const TileOperands made = operands(w, problem.depth % options.depth == 0);
  FlexibleProduct product(w, problem, stored, made, options);
  KRAFLA_ASSIGN(EmittedDispatch dispatch, product.Emit());
  std::string reason = Format("{} x {} blocks of {} deep matrices of a {}, {}", options.rows, options.columns,
                              options.depth, options.subgroup == 0 ? "workgroup" : "subgroup",
                              options.tensors ? "from where they lie" : "through shared memory");
  EmittedProgram out;
  AddKernel(out, w, std::move(dispatch), options.local, options.subgroup, std::move(variant), std::move(reason));
  out.kernels[0].uses_cooperative_matrix = true;
  return out;
}

}  // namespace krafla::spirv
