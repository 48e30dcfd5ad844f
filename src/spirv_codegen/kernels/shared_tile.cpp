// SPDX-License-Identifier: Apache-2.0
// Products whose blocks of a and b go through shared memory.
#include "base/checked_math.h"
#include "spirv_codegen/kernels/matrix.h"

namespace krafla::spirv {

bool SharedTileFits(const SharedTile& o, ElementType accumulate, const DeviceProfile& profile) {
  const int64_t bytes = int64_t{o.rows + o.columns} * o.depth * (BitWidth(accumulate) / 8);
  return bytes <= profile.limits.max_shared_memory_bytes && SharedTileLocal(o) <= WorkgroupSize(profile, 1024);
}

uint32_t SharedTileLocal(const SharedTile& o) {
  return static_cast<uint32_t>(o.rows / o.thread_rows * (o.columns / 4));
}

namespace {

class SharedTileProduct {
 public:
  SharedTileProduct(KernelWriter& w, const TileProblem& p, const TileOperands& operands, const SharedTile& o)
      : w_(w), b_(w.b), p_(p), operands_(operands), o_(o) {}

  Result<EmittedDispatch> Emit() {
    // Bands of 8 row blocks share their columns of b in the cache.
    const int64_t groups = p_.batch * row_blocks_ * column_blocks_;
    KRAFLA_ASSIGN(Grid grid, FoldGrid(groups, w_.profile));
    const Value group = GroupNumber(b_, grid);
    // Both blocks by depth, so that a thread reads its 4 rows and 4 columns as vectors.
    a_tile_ = b_.SharedArray(kind_, 4, static_cast<uint32_t>(o_.depth * o_.rows / 4));
    b_tile_ = b_.SharedArray(kind_, 4, static_cast<uint32_t>(o_.depth * o_.columns / 4));
    id_ = b_.LocalIndex();
    ForItem(b_, grid.exact, group, groups, [&] { EmitGroup(group); });
    return EmittedDispatch{0, grid.size, {}};
  }

 private:
  Value U(int64_t v) { return b_.U32(static_cast<uint32_t>(v)); }
  // Row `line` of a 4 x 4 block whose first is `quad`, `quads` vectors a line, `at` along it: a vector of a tile.
  Value PlaceOf(Value quad, int line, int64_t quads, Value at) {
    return b_.Add(b_.Mul(b_.Add(b_.Mul(quad, U(4)), U(line)), U(quads)), at);
  }

  void EmitGroup(Value group) {
    const Value column_block = b_.UMod(b_.UDiv(group, U(row_blocks_)), U(column_blocks_));
    const Value batch = b_.UDiv(group, U(row_blocks_ * column_blocks_));
    row0_ = b_.Mul(b_.UMod(group, U(row_blocks_)), U(o_.rows));
    column0_ = b_.Mul(column_block, U(o_.columns));
    am_ = operands_.make_a(batch);
    bm_ = operands_.make_b(batch);
    tx_ = b_.UMod(id_, U(column_quads_));
    ty_ = b_.UDiv(id_, U(column_quads_));  // of block_rows / thread_rows
    const Values zeros(static_cast<std::size_t>(o_.thread_rows), b_.Zero(kind_, 4));
    const Value segments = operands_.segment_count ? operands_.segment_count(batch) : U(p_.segments);
    const Values acc = b_.For(U(0), segments, U(1), zeros, [&](Value segment, const Values& before) {
      am_->Enter(segment);
      bm_->Enter(segment);
      return b_.For(
          U(0), U(RoundUp(p_.depth, o_.depth)), U(o_.depth), before,
          [&](Value k0, const Values& entry) {
            FillA(k0);
            FillB(k0);
            b_.WorkgroupBarrier();
            const Values sums = AddBlock(entry);
            b_.WorkgroupBarrier();
            return sums;
          },
          Unroll::kNever);
    });
    FinishRows(b_, p_, operands_, batch, b_.Add(row0_, b_.Mul(ty_, U(o_.thread_rows))),
               b_.Add(column0_, b_.Mul(tx_, U(4))), acc, o_.rows);
  }

  // 4 x 4 blocks of a tile, `count` of them, spread over the invocations.
  void EachBlock(int64_t count, const std::function<void(Value)>& fill) {
    const uint32_t local = SharedTileLocal(o_);
    for (int64_t first = 0; first < count; first += local) {
      const Value n = b_.Add(id_, U(first));
      if (first + local <= count) {
        fill(n);
      } else {
        b_.If(b_.Compare(Cmp::kULt, n, U(count)), [&] { fill(n); });
      }
    }
  }

  // `v` at depth k, which may lie past the end: zeros there.
  Value WithinDepth(Value k, Value v) {
    if (p_.depth % o_.depth == 0) return v;
    return b_.Select(b_.Compare(Cmp::kUGe, k, U(p_.depth)), b_.Zero(kind_, 4), v);
  }

  void FillA(Value k0) {
    EachBlock(row_quads_ * depth_quads_, [&](Value n) {
      const Value kq = b_.UMod(n, U(depth_quads_)), rq = b_.UDiv(n, U(depth_quads_));
      const Value k = b_.Add(k0, b_.Mul(kq, U(4)));
      Value rows[4];  // vectors along the depth
      am_->Load(b_.Add(row0_, b_.Mul(rq, U(4))), 4, k, 4, rows);
      for (int kk = 0; kk < 4; ++kk) {
        Value lane[4];
        for (int i = 0; i < 4; ++i) lane[i] = b_.Extract(rows[i], kk);
        const Value v = WithinDepth(b_.Add(k, U(kk)), b_.Composite(lane));
        b_.StoreShared(a_tile_, PlaceOf(kq, kk, row_quads_, rq), v);
      }
    });
  }

  void FillB(Value k0) {
    EachBlock(column_quads_ * depth_quads_, [&](Value n) {
      const Value cq = b_.UMod(n, U(column_quads_)), kq = b_.UDiv(n, U(column_quads_));
      const Value k = b_.Add(k0, b_.Mul(kq, U(4)));
      Value rows[4];  // vectors along the columns
      bm_->Load(k, 4, b_.Add(column0_, b_.Mul(cq, U(4))), 4, rows);
      for (int kk = 0; kk < 4; ++kk) {
        const Value v = WithinDepth(b_.Add(k, U(kk)), rows[kk]);
        b_.StoreShared(b_tile_, PlaceOf(kq, kk, column_quads_, cq), v);
      }
    });
  }

  // An invocation's sums with the products of both tiles.
  Values AddBlock(const Values& before) {
    const int quads = o_.thread_rows / 4;
    // Written out four deep only: some drivers keep every value of a body in memory.
    return b_.For(U(0), U(o_.depth), U(4), before, [&](Value k4, const Values& entry) {
      Values next = entry;
      for (int kk = 0; kk < 4; ++kk) {
        const Value k = b_.Add(k4, U(kk));
        const Value bv = b_.LoadShared(b_tile_, kind_, 4, b_.Add(tx_, b_.Mul(k, U(column_quads_))));
        for (int q = 0; q < quads; ++q) {
          const Value at = b_.Add(b_.Add(b_.Mul(ty_, U(quads)), U(q)), b_.Mul(k, U(row_quads_)));
          const Value av = b_.LoadShared(a_tile_, kind_, 4, at);
          for (int i = 0; i < 4; ++i) {
            Value& s = next[static_cast<std::size_t>(q * 4 + i)];
            s = MultiplyAdd(b_, s, b_.Extract(av, i), bv);
          }
        }
      }
      return next;
    });
  }

  KernelWriter& w_;
  Builder& b_;
  const TileProblem& p_;
  const TileOperands& operands_;
  const SharedTile& o_;
  const Kind kind_ = ComputeKind(p_.accumulate);
  const int64_t row_blocks_ = CeilDiv(p_.rows, o_.rows), column_blocks_ = CeilDiv(p_.columns, o_.columns);
  const int64_t row_quads_ = o_.rows / 4, column_quads_ = o_.columns / 4, depth_quads_ = o_.depth / 4;
  Id a_tile_ = {}, b_tile_ = {};
  Value id_;
  // Of the group that is emitted.
  std::unique_ptr<MatrixSource> am_, bm_;
  Value row0_, column0_, tx_, ty_;
};

}  // namespace

Result<EmittedDispatch> EmitSharedTile(KernelWriter& w, const TileProblem& p, const TileOperands& operands,
                                       const SharedTile& o) {
  return SharedTileProduct(w, p, operands, o).Emit();
}

}  // namespace krafla::spirv
