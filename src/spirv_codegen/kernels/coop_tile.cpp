// SPDX-License-Identifier: Apache-2.0
// Shapes, tiles and staging follow what is known to be fast with VK_KHR_cooperative_matrix: shared memory holds both
// operands row-major in words, rows padded by 16 bytes against bank conflicts, and matrices are loaded from there
// through pointers at words.
#include "spirv_codegen/kernels/coop_tile.h"

#include <algorithm>

#include "base/checked_math.h"
#include "spirv_codegen/cooperative_matrix.h"

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

// Elements are kept as groups of 4: of 16 bits in two words, of 8 bits in one.
int GroupWords(const CooperativeMatrixShape& shape) { return KindBits(KindOf(shape.a)) / 8; }
// Groups from one row of a staged operand to the next, for rows of `elements`.
int64_t StagedStride(const CoopTileOptions& o, int64_t elements) {
  return elements / 4 + 16 / (4 * GroupWords(o.shape));
}

int64_t SharedBytes(const CoopTileOptions& o) {
  const int64_t group = 4 * GroupWords(o.shape);
  const int64_t a = o.block_rows * StagedStride(o, o.block_depth) * group;
  const int64_t b = o.block_depth * StagedStride(o, o.block_columns) * group;
  return a + b + int64_t{o.subgroup_rows} * o.subgroup_columns * o.shape.m * o.shape.n * 4;
}

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
    const int64_t depth = std::max(RoundUp(tuning.depth_bytes / GroupWords(*shape), k), k);
    o.block_depth = static_cast<int>(std::min(depth, RoundUp(p.depth, k)));
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
      : w_(writer), b_(w_.b), matrices_(w_.b), p_(problem), o_(options), operands_(operands) {
    words_ = GroupWords(o_.shape);
    component_ = KindOf(o_.shape.a);
    sum_kind_ = ComputeKind(p_.accumulate);
    signed_ = stored == ElementType::kS8 ? CooperativeMatrices::kASigned | CooperativeMatrices::kBSigned : 0;
    if (!IsFloat(p_.accumulate) && o_.shape.c == ComponentType::kS32) signed_ |= CooperativeMatrices::kSumSigned;
    using Use = CooperativeMatrices::Use;
    a_type_ = matrices_.Type(component_, o_.shape.m, o_.shape.k, Use::kA);
    b_type_ = matrices_.Type(component_, o_.shape.k, o_.shape.n, Use::kB);
    sum_type_ = matrices_.Type(sum_kind_, o_.shape.m, o_.shape.n, Use::kAccumulator);
    a_stride_ = StagedStride(o_, o_.block_depth);
    b_stride_ = StagedStride(o_, o_.block_columns);
    a_tile_ = b_.SharedArray(Kind::kU32, words_, static_cast<uint32_t>(o_.block_rows * a_stride_));
    b_tile_ = b_.SharedArray(Kind::kU32, words_, static_cast<uint32_t>(o_.block_depth * b_stride_));
    const int subgroups = o_.subgroup_rows * o_.subgroup_columns;
    stage_ = b_.SharedArray(sum_kind_, 4, static_cast<uint32_t>(subgroups) * o_.shape.m * o_.shape.n / 4);
    tall_ = o_.block_rows / o_.subgroup_rows / static_cast<int>(o_.shape.m);
    wide_ = o_.block_columns / o_.subgroup_columns / static_cast<int>(o_.shape.n);
  }

  Result<EmittedDispatch> Emit() {
    const int64_t row_blocks = CeilDiv(p_.rows, o_.block_rows), column_blocks = CeilDiv(p_.columns, o_.block_columns);
    const int64_t groups = p_.batch * row_blocks * column_blocks;
    KRAFLA_ASSIGN(Grid grid, FoldGrid(groups, w_.profile));
    const Value group = GroupNumber(b_, grid);
    id_ = b_.LocalIndex();
    subgroup_ = b_.SubgroupId();
    lane_ = b_.SubgroupLane();
    auto body = [&] {
      batch_ = b_.UDiv(group, U(row_blocks * column_blocks));
      row0_ = b_.Mul(b_.UMod(group, U(row_blocks)), U(o_.block_rows));
      column0_ = b_.Mul(b_.UMod(b_.UDiv(group, U(row_blocks)), U(column_blocks)), U(o_.block_columns));
      a_ = operands_.make_a(batch_);
      bm_ = operands_.make_b(batch_);
      subgroup_row_ = b_.UDiv(subgroup_, U(o_.subgroup_columns));
      subgroup_column_ = b_.UMod(subgroup_, U(o_.subgroup_columns));
      Sum();
      Finish();
    };
    if (grid.exact) {
      body();
    } else {
      b_.If(b_.Compare(Cmp::kULt, group, U(groups)), body);
    }
    return EmittedDispatch{0, grid.size, {}};
  }

 private:
  Value U(int64_t v) const { return b_.U32(static_cast<uint32_t>(v)); }

  // The blocks of 4 x 4 elements that this invocation moves, `count` in all invocations together; `visit` gets the
  // block's number and, where not every invocation has one, the condition that it is there.
  template <class Visit>
  void EachBlock(int64_t count, Visit visit) const {
    const int64_t local = o_.local();
    for (int64_t first = 0; first < count; first += local) {
      const Value n = b_.Add(id_, U(first));
      if (first + local <= count) {
        visit(n, Value{});
      } else {
        const Value there = b_.Compare(Cmp::kULt, n, U(count));
        visit(b_.Select(there, n, U(0)), there);
      }
    }
  }
  int64_t ABlocks() const { return int64_t{o_.block_rows} / 4 * (o_.block_depth / 4); }
  int64_t BBlocks() const { return int64_t{o_.block_columns} / 4 * (o_.block_depth / 4); }
  struct Block {
    Value across, depth;  // in blocks of 4
  };
  Block ABlock(Value n) const { return {b_.UDiv(n, U(o_.block_depth / 4)), b_.UMod(n, U(o_.block_depth / 4))}; }
  Block BBlock(Value n) const { return {b_.UMod(n, U(o_.block_columns / 4)), b_.UDiv(n, U(o_.block_columns / 4))}; }

  void Prepare() {
    EachBlock(ABlocks(), [&](Value n, Value) { a_->PrepareRows(ARow(ABlock(n)), 4); });
    EachBlock(BBlocks(), [&](Value n, Value) { bm_->PrepareColumns(BColumn(BBlock(n)), 4); });
  }
  Value ARow(const Block& block) const { return b_.Add(row0_, b_.Mul(block.across, U(4))); }
  Value BColumn(const Block& block) const { return b_.Add(column0_, b_.Mul(block.across, U(4))); }

  // Elements of depth k..k+3 that are not past the end, as a mask of their words.
  Value DepthMask(Value k) const {
    auto in = [&](int i) { return b_.Compare(Cmp::kULt, b_.Add(k, U(i)), U(p_.depth)); };
    const Value all = U(0xffffffff), none = U(0);
    if (words_ == 2) {
      const Value masks[] = {b_.Select(in(1), all, b_.Select(in(0), U(0xffff), none)),
                             b_.Select(in(3), all, b_.Select(in(2), U(0xffff), none))};
      return b_.Composite(masks);
    }
    Value mask = none;
    for (int i = 0; i < 4; ++i) mask = b_.Or(mask, b_.Select(in(i), U(int64_t{0xff} << (8 * i)), none));
    return mask;
  }

  // The elements of step `step`, in registers.
  Values Fetch(Value step) {
    const int64_t per_segment = CeilDiv(p_.depth, o_.block_depth);
    const Value segment = b_.UDiv(step, U(per_segment));
    const Value k0 = b_.Mul(b_.UMod(step, U(per_segment)), U(o_.block_depth));
    a_->Enter(segment);
    bm_->Enter(segment);
    const bool exact = p_.depth % o_.block_depth == 0;
    Values out;
    EachBlock(ABlocks(), [&](Value n, Value) {
      const Block block = ABlock(n);
      const Value k = b_.Add(k0, b_.Mul(block.depth, U(4)));
      Value rows[4];
      a_->LoadWords(b_, words_, ARow(block), 4, k, rows);
      for (Value v : rows) out.push_back(exact ? v : b_.And(v, DepthMask(k)));
    });
    EachBlock(BBlocks(), [&](Value n, Value) {
      const Block block = BBlock(n);
      const Value k = b_.Add(k0, b_.Mul(block.depth, U(4)));
      Value rows[4];
      bm_->LoadWords(b_, words_, k, 4, BColumn(block), rows);
      for (int i = 0; i < 4; ++i) {
        const Value in = b_.Compare(Cmp::kULt, b_.Add(k, U(i)), U(p_.depth));
        out.push_back(exact ? rows[i] : b_.Select(in, rows[i], b_.Zero(Kind::kU32, words_)));
      }
    });
    return out;
  }

  void Stage(const Values& elements) {
    std::size_t next = 0;
    auto store = [&](Id tile, Value at, int64_t stride, Value there) {
      auto all = [&, first = next] {
        for (int i = 0; i < 4; ++i) {
          b_.StoreShared(tile, b_.Add(at, U(i * stride)), elements[first + static_cast<std::size_t>(i)]);
        }
      };
      next += 4;
      if (there) {
        b_.If(there, all);
      } else {
        all();
      }
    };
    EachBlock(ABlocks(), [&](Value n, Value there) {
      const Block block = ABlock(n);
      store(a_tile_, b_.Add(b_.Mul(block.across, U(4 * a_stride_)), block.depth), a_stride_, there);
    });
    EachBlock(BBlocks(), [&](Value n, Value there) {
      const Block block = BBlock(n);
      store(b_tile_, b_.Add(b_.Mul(block.depth, U(4 * b_stride_)), block.across), b_stride_, there);
    });
  }

  // The staged tile into the sums.
  void Multiply() {
    const int64_t m = o_.shape.m, n = o_.shape.n, k = o_.shape.k;
    const Value row = b_.Mul(subgroup_row_, U(tall_ * m * a_stride_));
    const Value column = b_.Mul(subgroup_column_, U(wide_ * n / 4));
    auto part = [&](Value depth) {  // in matrices
      std::vector<Id> a, b;
      for (int i = 0; i < tall_; ++i) {
        const Value at = b_.Add(b_.Add(row, U(i * m * a_stride_)), b_.Mul(depth, U(k / 4)));
        a.push_back(matrices_.Load(a_type_, a_tile_, Kind::kU32, words_, at, static_cast<uint32_t>(a_stride_)));
      }
      for (int j = 0; j < wide_; ++j) {
        const Value at = b_.Add(b_.Add(column, U(j * n / 4)), b_.Mul(depth, U(k * b_stride_)));
        b.push_back(matrices_.Load(b_type_, b_tile_, Kind::kU32, words_, at, static_cast<uint32_t>(b_stride_)));
      }
      for (std::size_t i = 0; i < a.size(); ++i) {
        for (std::size_t j = 0; j < b.size(); ++j) {
          const Id variable = sums_[i * b.size() + j];
          const Id before = matrices_.Read(sum_type_, variable);
          matrices_.Write(variable, matrices_.MultiplyAdd(sum_type_, a[i], b[j], before, signed_));
        }
      }
    };
    b_.For(U(0), U(o_.block_depth / k), U(1), part);
  }

  void Sum() {
    for (int i = 0; i < tall_ * wide_; ++i) sums_.push_back(matrices_.ZeroVariable(sum_type_, sum_kind_));
    Prepare();
    const int64_t steps = p_.segments * CeilDiv(p_.depth, o_.block_depth);
    b_.For(U(0), U(steps), U(1), Fetch(U(0)), [&](Value step, const Values& elements) {
      Stage(elements);
      b_.WorkgroupBarrier();
      Values next = steps == 1 ? elements : Fetch(b_.Min(b_.Add(step, U(1)), U(steps - 1)));
      Multiply();
      b_.WorkgroupBarrier();
      return next;
    });
  }

  // Matrix (i, j) of this subgroup, whose sums are in variable `variable`.
  void FinishMatrix(Value i, Value j, Id variable) {
    const int64_t m = o_.shape.m, n = o_.shape.n, quads = m * n / 4;
    const Value base = b_.Mul(subgroup_, U(quads));
    matrices_.Store(matrices_.Read(sum_type_, variable), stage_, sum_kind_, 4, base, static_cast<uint32_t>(n / 4));
    b_.SubgroupBarrier();
    const Value row = b_.Add(row0_, b_.Mul(b_.Add(b_.Mul(subgroup_row_, U(tall_)), i), U(m)));
    const Value column = b_.Add(column0_, b_.Mul(b_.Add(b_.Mul(subgroup_column_, U(wide_)), j), U(n)));
    b_.For(lane_, U(quads), U(o_.subgroup), [&](Value quad) {
      const Value r = b_.Add(row, b_.UDiv(quad, U(n / 4)));
      const Value c = b_.Add(column, b_.Mul(b_.UMod(quad, U(n / 4)), U(4)));
      const Value sum = b_.LoadShared(stage_, sum_kind_, 4, b_.Add(base, quad));
      const Value in = p_.rows % o_.block_rows == 0 ? Value{} : b_.Compare(Cmp::kULt, r, U(p_.rows));
      operands_.finish(batch_, r, c, sum, in);
    });
    b_.SubgroupBarrier();
  }

  void Finish() {
    const int64_t count = tall_ * wide_;
    if (count <= 4 && !operands_.big_finish) {
      for (int64_t t = 0; t < count; ++t) FinishMatrix(U(t / wide_), U(t % wide_), sums_[static_cast<std::size_t>(t)]);
      return;
    }
    // The sums travel through the first variable, so that the epilogue is there once.
    b_.For(U(0), U(count), U(1), [&](Value t) {
      FinishMatrix(b_.UDiv(t, U(wide_)), b_.UMod(t, U(wide_)), sums_[0]);
      for (std::size_t i = 0; i + 1 < sums_.size(); ++i) {
        matrices_.Write(sums_[i], matrices_.Read(sum_type_, sums_[i + 1]));
      }
    });
  }

  KernelWriter& w_;
  Builder& b_;
  CooperativeMatrices matrices_;
  const TileProblem& p_;
  const CoopTileOptions& o_;
  const TileOperands& operands_;
  int words_ = 0;  // of a group of 4 elements
  Kind component_ = Kind::kF16, sum_kind_ = Kind::kF32;
  uint32_t signed_ = 0;
  Id a_type_ = 0, b_type_ = 0, sum_type_ = 0, a_tile_ = 0, b_tile_ = 0, stage_ = 0;
  int64_t a_stride_ = 0, b_stride_ = 0;
  int tall_ = 1, wide_ = 1;  // matrices of a subgroup
  std::vector<Id> sums_;
  Value id_, subgroup_, lane_, subgroup_row_, subgroup_column_, batch_, row0_, column0_;
  std::unique_ptr<MatrixSource> a_, bm_;
};

}  // namespace

Result<EmittedProgram> EmitCoopTile(const plan::KernelPlan& plan, const DeviceProfile& profile,
                                    const TileProblem& problem, ElementType stored, const MakeOperands& make_operands,
                                    const CoopTileOptions& options, std::string variant) {
  KernelWriter w(plan, profile);
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
