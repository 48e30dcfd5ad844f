// SPDX-License-Identifier: Apache-2.0
// Shapes, tiles and staging follow what is known to be fast with VK_KHR_cooperative_matrix: matrices are loaded from
// shared memory (coop_operand.h) through pointers at words.
#include "spirv_codegen/kernels/coop_tile.h"

#include <algorithm>

#include "base/checked_math.h"
#include "spirv_codegen/cooperative_matrix.h"
#include "spirv_codegen/kernels/coop_operand.h"
#include "spirv_codegen/kernels/depth_walk.h"

namespace krafla::spirv {
namespace {

ComponentType ComponentOf(ElementType type) {
  if (type == ElementType::kF16) return ComponentType::kF16;
  if (type == ElementType::kBF16) return ComponentType::kBF16;
  if (type == ElementType::kS8) return ComponentType::kS8;
  if (type == ElementType::kU8) return ComponentType::kU8;
  return ComponentType::kOther;
}

Kind KindOf(ComponentType type) {
  if (type == ComponentType::kF16) return Kind::kF16;
  if (type == ComponentType::kBF16) return Kind::kBF16;
  return Kind::kU8;
}

int ElementBytes(const CooperativeMatrixShape& shape) { return KindBits(KindOf(shape.a)) / 8; }

CoopPart APart(const CoopTileOptions& o) {
  return {o.block_rows, o.block_depth, static_cast<int>(o.shape.k), ElementBytes(o.shape), o.local()};
}
CoopPart BPart(const CoopTileOptions& o) {
  return {o.block_columns, o.block_depth, static_cast<int>(o.shape.k), ElementBytes(o.shape), o.local()};
}

// Matrices of a subgroup: `tall` x `wide`, of which `strip` in a row at once go through shared memory in the end, where
// the operands were.
struct CoopMatrices {
  int tall = 1, wide = 1, strip = 1;
  int64_t strip_stride = 0;  // chunks from row to row
  int64_t chunks = 0;        // of shared memory
};
CoopMatrices MatricesOf(const CoopTileOptions& o) {
  const auto m = static_cast<int64_t>(o.shape.m), n = static_cast<int64_t>(o.shape.n);
  CoopMatrices out;
  out.tall = o.block_rows / o.subgroup_rows / static_cast<int>(m);
  out.wide = o.block_columns / o.subgroup_columns / static_cast<int>(n);
  const int64_t operands = APart(o).Chunks() + BPart(o).Chunks(), chunk = APart(o).ChunkBytes();
  auto stride = [&] { return (out.strip * n * 4 + 16) / chunk; };
  auto strips = [&] { return o.subgroup_rows * o.subgroup_columns * m * stride(); };
  out.strip = out.wide;
  while (out.strip % 2 == 0 && strips() > operands) out.strip /= 2;
  out.strip_stride = stride();
  out.chunks = std::max(operands, strips());
  return out;
}

int64_t SharedBytes(const CoopTileOptions& o) { return MatricesOf(o).chunks * APart(o).ChunkBytes(); }

bool Divides(const CoopTileOptions& o) {
  const auto m = static_cast<int>(o.shape.m), n = static_cast<int>(o.shape.n), k = static_cast<int>(o.shape.k);
  return o.block_rows % (m * o.subgroup_rows) == 0 && o.block_columns % (n * o.subgroup_columns) == 0 &&
         o.block_depth % k == 0;
}

// The size of subgroups that share a matrix.
uint32_t SubgroupFor(const Target& target) {
  const DeviceProfile& profile = target.profile;
  if (target.tuning.coop.smallest_subgroup && profile.features.subgroup_size_control)
    return profile.limits.min_subgroup_size;
  return FixedSubgroupSize(profile);
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
    const bool sums = IsFloat(accumulate)
                          ? s.c == ComponentType::kF32 && s.result == ComponentType::kF32
                          : (s.c == ComponentType::kS32 || s.c == ComponentType::kU32) && s.result == s.c;
    // Groups of 4 along each side; more than 64 no tile of ours divides by.
    auto fits = [](uint32_t v) { return v % 4 == 0 && v >= 4 && v <= 64; };
    if (!sums || !fits(s.m) || !fits(s.n) || !fits(s.k)) continue;
    if (!best || worth(s) > worth(*best)) best = s;
  }
  return best;
}

}  // namespace

std::optional<CoopTileOptions> ChooseCoopTile(const TileProblem& p, ElementType a, ElementType b, const Target& target,
                                              std::string& reason) {
  const DeviceProfile& profile = target.profile;
  const MatrixTuning& tuning = target.tuning.coop;
  auto no = [&](std::string why) {
    reason = std::move(why);
    return std::nullopt;
  };
  if (!target.options.allow_cooperative_matrix) return no("switched off");
  const DeviceFeatures& f = profile.features;
  if (!f.cooperative_matrix || !f.vulkan_memory_model) return no("the device has none");
  if (p.rows == 0 || p.columns == 0 || p.depth == 0 || p.segments == 0) return no("nothing to sum");
  const ElementType narrow = p.accumulate;
  if (narrow != ElementType::kF32 && narrow != ElementType::kS32 && narrow != ElementType::kU32) return no("wide sums");
  if (a != b || ComponentOf(a) == ComponentType::kOther) return no("the operands' types");
  const bool typed = a == ElementType::kF16    ? f.float16
                     : a == ElementType::kBF16 ? f.bfloat16_cooperative_matrix
                                               : f.int8;
  if (IsFloat(a) != IsFloat(narrow) || !typed) return no("the operands' types");
  const std::optional<CooperativeMatrixShape> shape = BestShape(profile, a, b, p.accumulate);
  if (!shape) return no("the device has no shape for these types");
  const bool forced = target.options.enable_cooperative_matrix;
  if (!forced && !tuning.used) return no("slow on this device");
  if (!forced && (p.rows < shape->m || p.columns < shape->n || p.depth < shape->k)) return no("a small problem");
  const uint32_t subgroup = SubgroupFor(target);
  if (subgroup == 0) return no("the size of subgroups is not known");

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
        o_(options),
        operands_(operands),
        laid_(MatricesOf(options)),
        a_part_(APart(options)),
        b_part_(BPart(options)) {
    const Kind component = KindOf(o_.shape.a);
    sum_kind_ = ComputeKind(p_.accumulate);
    signed_ = stored == ElementType::kS8 ? CooperativeMatrices::kASigned | CooperativeMatrices::kBSigned : 0;
    if (!IsFloat(p_.accumulate) && o_.shape.c == ComponentType::kS32) signed_ |= CooperativeMatrices::kSumSigned;
    using Use = CooperativeMatrices::Use;
    a_type_ = matrices_.Type(component, o_.shape.m, o_.shape.k, Use::kA);
    b_type_ = matrices_.Type(component, o_.shape.k, o_.shape.n, Use::kB);
    sum_type_ = matrices_.Type(sum_kind_, o_.shape.m, o_.shape.n, Use::kAccumulator);
    memory_.width = a_part_.ChunkBytes() / 4;
    memory_.array = b_.SharedArray(Kind::kU32, memory_.width, static_cast<uint32_t>(laid_.chunks));
  }

  Result<EmittedDispatch> Emit() {
    const int64_t row_blocks = CeilDiv(p_.rows, o_.block_rows), column_blocks = CeilDiv(p_.columns, o_.block_columns);
    const int64_t groups = p_.batch * row_blocks * column_blocks;
    KRAFLA_ASSIGN(Grid grid, FoldGrid(groups, w_.profile));
    const Value group = GroupNumber(b_, grid);
    subgroup_ = b_.SubgroupId();
    lane_ = b_.SubgroupLane();
    auto body = [&] {
      const Value panel = b_.UDiv(group, U(row_blocks));  // over batches too
      const bool one = p_.batch == 1;
      batch_ = one ? U(0) : b_.UDiv(panel, U(column_blocks));
      row0_ = b_.Mul(b_.UMod(group, U(row_blocks)), U(o_.block_rows));
      column0_ = b_.Mul(one ? panel : b_.UMod(panel, U(column_blocks)), U(o_.block_columns));
      subgroup_row_ = b_.UDiv(subgroup_, U(o_.subgroup_columns));
      subgroup_column_ = b_.UMod(subgroup_, U(o_.subgroup_columns));
      Sum();
      Finish();
    };
    ForItem(b_, grid.exact, group, groups, body);
    return EmittedDispatch{0, grid.size, {}};
  }

 private:
  Value U(int64_t v) const { return b_.U32(static_cast<uint32_t>(v)); }

  // The staged tile into the sums.
  void Multiply() {
    using Layout = CooperativeMatrices::Layout;
    const int64_t m = o_.shape.m, n = o_.shape.n, k = o_.shape.k;
    const int64_t stride = a_part_.Stride();  // of both
    auto load = [&](Id type, Value at, Layout layout) {
      return matrices_.Load(type, memory_.array, Kind::kU32, memory_.width, at, static_cast<uint32_t>(stride), layout);
    };
    const Value row = b_.Mul(subgroup_row_, U(laid_.tall * m * stride));
    const Value column = b_.Add(b_.Mul(subgroup_column_, U(laid_.wide * n * stride)), U(a_part_.Chunks()));
    auto part = [&](Value depth) {  // in matrices
      const Value chunk = b_.Mul(depth, U(k * a_part_.element_bytes / a_part_.ChunkBytes()));
      std::vector<Id> a;
      for (int i = 0; i < laid_.tall; ++i)
        a.push_back(load(a_type_, b_.Add(b_.Add(row, U(i * m * stride)), chunk), Layout::kRows));
      for (int j = 0; j < laid_.wide; ++j) {
        const Id right = load(b_type_, b_.Add(b_.Add(column, U(j * n * stride)), chunk), Layout::kColumns);
        for (std::size_t i = 0; i < a.size(); ++i) {
          const Id variable = sums_[i * static_cast<std::size_t>(laid_.wide) + static_cast<std::size_t>(j)];
          const Id before = matrices_.Read(sum_type_, variable);
          matrices_.Write(variable, matrices_.MultiplyAdd(sum_type_, a[i], right, before, signed_));
        }
      }
    };
    b_.For(U(0), U(o_.block_depth / k), U(1), part);
  }

  void Sum() {
    for (int i = 0; i < laid_.tall * laid_.wide; ++i) sums_.push_back(matrices_.ZeroVariable(sum_type_, sum_kind_));
    CoopOperand a(w_, p_, a_part_, memory_, 0, o_.most_constant_offset, operands_.make_a(batch_), true);
    CoopOperand b(w_, p_, b_part_, memory_, a_part_.Chunks(), o_.most_constant_offset, operands_.make_b(batch_), false);
    a.Prepare(b_.LocalIndex(), row0_);
    b.Prepare(b_.LocalIndex(), column0_);
    const DepthWalk walk(b_, p_, o_.block_depth, {a.Strides(), b.Strides()});
    auto fetch = [&](const Values& state, bool last) {
      const DepthWalk::Place place = walk.At(state);
      // b first: it may have to be turned.
      Values of_b = b.Fetch(place.segment, place.k, place.bytes[1], last);
      Values of_a = a.Fetch(place.segment, place.k, place.bytes[0], last);
      return std::pair(std::move(of_a), std::move(of_b));
    };
    auto stage = [&](const std::pair<Values, Values>& elements) {
      a.Stage(elements.first);
      b.Stage(elements.second);
      b_.WorkgroupBarrier();
    };
    // Where the last step is not like the others, it comes behind the loop. A turn reads the next step's elements
    // before it multiplies, and stages them when all have multiplied: no element stays in a register from turn to turn.
    const bool tail = p_.segments == 1 && (p_.depth % o_.block_depth != 0 || a.ragged() || b.ragged());
    const int64_t whole = walk.steps() - (tail ? 1 : 0);
    stage(fetch(walk.Start(), whole == 0));
    auto turn = [&](const Values& state) {
      const Values next = walk.Next(state);
      const auto elements = fetch(next, false);
      Multiply();
      b_.WorkgroupBarrier();
      stage(elements);
      return next;
    };
    Values state = walk.Start();
    int64_t done = 0;
    if (o_.first_step_apart && whole > 1) {
      state = turn(state);
      done = 1;
    }
    walk.Turns(state, done, whole - 1, turn);
    const bool two = tail && whole > 0;
    b_.For(U(0), U(two ? 2 : 1), U(1), [&](Value number) {
      Multiply();
      b_.WorkgroupBarrier();
      if (two) b_.If(b_.Compare(Cmp::kEq, number, U(0)), [&] { stage(fetch(walk.Step(whole), true)); });
    });
  }

  // Four sums of the strip from chunk `at` on.
  Value Quad(Value at) const {
    Values words;
    for (int i = 0; i < 4; i += memory_.width) {
      const Value v = b_.LoadShared(memory_.array, Kind::kU32, memory_.width, b_.Add(at, U(i / memory_.width)));
      for (int j = 0; j < memory_.width; ++j) words.push_back(b_.Extract(v, j));
    }
    return b_.Bitcast(b_.Composite(words), sum_kind_);
  }

  // Strip `s` of row `i` of this subgroup's matrices, whose sums are in the variables from `first` on.
  void FinishStrip(Value i, Value s, std::size_t first) {
    const int64_t m = o_.shape.m, n = o_.shape.n, columns = laid_.strip * n, quads = columns / 4;
    const int64_t stride = laid_.strip_stride, chunk = a_part_.ChunkBytes();
    const Value base = b_.Mul(subgroup_, U(m * stride));
    for (int j = 0; j < laid_.strip; ++j) {
      const Id sum = matrices_.Read(sum_type_, sums_[first + static_cast<std::size_t>(j)]);
      matrices_.Store(sum, memory_.array, Kind::kU32, memory_.width, b_.Add(base, U(j * n * 4 / chunk)),
                      static_cast<uint32_t>(stride));
    }
    b_.SubgroupBarrier();
    const Value row = b_.Add(row0_, b_.Mul(b_.Add(b_.Mul(subgroup_row_, U(laid_.tall)), i), U(m)));
    const Value strips = b_.Add(b_.Mul(subgroup_column_, U(laid_.wide / laid_.strip)), s);
    const Value column = b_.Add(column0_, b_.Mul(strips, U(columns)));
    b_.For(lane_, U(m * quads), U(o_.subgroup), [&](Value quad) {
      const Value within = b_.UDiv(quad, U(quads)), of_row = b_.UMod(quad, U(quads));
      const Value sum = Quad(b_.Add(base, b_.Add(b_.Mul(within, U(stride)), b_.Mul(of_row, U(16 / chunk)))));
      const Value r = b_.Add(row, within);
      const Value in = p_.rows % o_.block_rows == 0 ? Value{} : b_.Compare(Cmp::kULt, r, U(p_.rows));
      operands_.finish(batch_, r, b_.Add(column, b_.Mul(of_row, U(4))), sum, in);
    });
    b_.SubgroupBarrier();
  }

  void Finish() {
    const int64_t across = laid_.wide / laid_.strip, count = laid_.tall * across;
    if (count <= 4 && !operands_.big_finish) {
      for (int64_t t = 0; t < count; ++t)
        FinishStrip(U(t / across), U(t % across), static_cast<std::size_t>(t * laid_.strip));
      return;
    }
    // The sums travel through the first variables, so that the epilogue is there once.
    b_.For(U(0), U(count), U(1), [&](Value t) {
      FinishStrip(b_.UDiv(t, U(across)), b_.UMod(t, U(across)), 0);
      const auto strip = static_cast<std::size_t>(laid_.strip);
      for (std::size_t i = 0; i + strip < sums_.size(); ++i)
        matrices_.Write(sums_[i], matrices_.Read(sum_type_, sums_[i + strip]));
    });
  }

  KernelWriter& w_;
  Builder& b_;
  CooperativeMatrices matrices_;
  const TileProblem& p_;
  const CoopTileOptions& o_;
  const TileOperands& operands_;
  const CoopMatrices laid_;
  const CoopPart a_part_, b_part_;
  CoopMemory memory_;
  Kind sum_kind_ = Kind::kF32;
  uint32_t signed_ = 0;
  Id a_type_ = 0, b_type_ = 0, sum_type_ = 0;
  std::vector<Id> sums_;
  Value subgroup_, lane_, subgroup_row_, subgroup_column_, batch_, row0_, column0_;
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
