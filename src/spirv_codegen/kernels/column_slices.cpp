// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/column_slices.h"

#include "base/checked_math.h"
#include "spirv_codegen/kernels/wide_sum.h"

namespace krafla::spirv {
namespace {

Value AddTwo(Builder& b, Value x, Value y) { return IsFloatKind(x.kind) ? b.FAdd(x, y) : b.Add(x, y); }

// The sums of one slice: of every row, over its lines of the depth.
class SliceSums {
 public:
  SliceSums(KernelWriter& w, const TileProblem& p, const ColumnSlices& s, MatrixSource& a, MatrixSource& m, Value slice,
            Value column)
      : b_(w.b),
        p_(p),
        s_(s),
        a_(a),
        m_(m),
        slice_(slice),
        column_(column),
        rows_(static_cast<int>(p.rows)),
        chains_(w.b, ComputeKind(p.accumulate), 4, static_cast<std::size_t>(p.rows), CeilDiv(p.depth, s.slices)) {
    a_.PrepareRows(U(0), rows_);
    m_.PrepareColumns(column_, 4);
  }

  Values Take() const {
    constexpr uint32_t kTurns = ChainedSums::kChain / 4;
    const int64_t whole = p_.depth / 4 * 4;
    const Values sums = chains_.Add(b_.Mul(slice_, U(4)), U(whole), s_.slices * 4, kTurns, chains_.Start(),
                                    [&](Value k, const Values& before) { return AddLines(k, 4, before); });
    if (whole == p_.depth) return chains_.Finish(sums);
    // One of the last lines each for the first slices; the others read the last one and leave it.
    const int64_t tail = p_.depth - whole;
    const Value has_line = b_.Compare(Cmp::kULt, slice_, U(tail));
    const Value k = b_.Add(U(whole), b_.Select(has_line, slice_, U(tail - 1)));
    return chains_.Finish(chains_.Absorb(sums, [&](const Values& zeros) {
      Values with = AddLines(k, 1, zeros);
      for (std::size_t r = 0; r < with.size(); ++r) with[r] = b_.Select(b_.Splat(has_line, 4), with[r], zeros[r]);
      return with;
    }));
  }

 private:
  Value U(int64_t v) const { return b_.U32(static_cast<uint32_t>(v)); }

  Values AddLines(Value k, int lines, const Values& before) const {
    Values av(static_cast<std::size_t>(rows_)), mv(static_cast<std::size_t>(lines));
    m_.Load(k, lines, column_, 4, mv);
    a_.Load(U(0), rows_, k, lines, av);
    Values out = before;
    for (int line = 0; line < lines; ++line)
      for (std::size_t r = 0; r < out.size(); ++r)
        out[r] =
            MultiplyAdd(b_, out[r], lines == 1 ? av[r] : b_.Extract(av[r], line), mv[static_cast<std::size_t>(line)]);
    return out;
  }

  Builder& b_;
  const TileProblem& p_;
  const ColumnSlices& s_;
  MatrixSource& a_;
  MatrixSource& m_;
  Value slice_, column_;
  int rows_;
  ChainedSums chains_;
};

}  // namespace

int64_t SharedBytes(const TileProblem& p, const ColumnSlices& s) {
  return p.rows * s.local() * 4 * (KindBits(ComputeKind(p.accumulate)) / 8);
}

Result<EmittedDispatch> EmitColumnSlices(KernelWriter& w, const TileProblem& p, const TileOperands& operands,
                                         const ColumnSlices& s) {
  Builder& b = w.b;
  auto u = [&](int64_t v) { return b.U32(static_cast<uint32_t>(v)); };
  const int64_t blocks = CeilDiv(p.columns, int64_t{s.lanes} * 4), items = p.batch * blocks;
  KRAFLA_ASSIGN(Grid grid, FoldGrid(items, w.profile));
  const Kind kind = ComputeKind(p.accumulate);
  const Id shared = b.SharedArray(kind, 4, static_cast<uint32_t>(p.rows) * s.local());
  const Value group = GroupNumber(b, grid);
  auto body = [&] {
    const Value lane = b.UMod(b.LocalIndex(), u(s.lanes)), slice = b.UDiv(b.LocalIndex(), u(s.lanes));
    const Value column = b.Mul(b.Add(b.Mul(b.UMod(group, u(blocks)), u(s.lanes)), lane), u(4));
    const Value batch = b.UDiv(group, u(blocks));
    const auto a = operands.make_a(batch), m = operands.make_b(batch);
    Values sums = SliceSums(w, p, s, *a, *m, slice, column).Take();
    // Row by row, slice by slice, lane by lane: neighbours read neighbouring vectors.
    const auto place = [&](Value row, Value at) {
      return b.Add(b.Mul(b.Add(b.Mul(row, u(s.slices)), at), u(s.lanes)), lane);
    };
    for (std::size_t r = 0; r < sums.size(); ++r)
      b.StoreShared(shared, place(u(static_cast<int64_t>(r)), slice), sums[r]);
    b.WorkgroupBarrier();
    for (uint32_t half = s.slices / 2; half >= 1; half /= 2) {
      b.If(b.Compare(Cmp::kULt, slice, u(half)), [&] {
        for (std::size_t r = 0; r < sums.size(); ++r) {
          const Value row = u(static_cast<int64_t>(r)), here = place(row, slice);
          const Value other = b.LoadShared(shared, kind, 4, place(row, b.Add(slice, u(half))));
          b.StoreShared(shared, here, AddTwo(b, b.LoadShared(shared, kind, 4, here), other));
        }
      });
      b.WorkgroupBarrier();
    }
    // Slice i finishes row i.
    const Value has_row = b.Compare(Cmp::kULt, slice, u(p.rows));
    const Value row = b.Select(has_row, slice, u(0));
    operands.finish(batch, row, column, b.LoadShared(shared, kind, 4, place(row, u(0))), has_row);
  };
  ForItem(b, grid.exact, group, items, body);
  return EmittedDispatch{0, grid.size, {}};
}

}  // namespace krafla::spirv
