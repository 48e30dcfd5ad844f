// SPDX-License-Identifier: Apache-2.0
// Cholesky factors. A small matrix is factored by one invocation, a larger one by blocks of columns: a workgroup
// factors the diagonal block in shared memory, one invocation for each row below solves the panel, and the remaining
// columns are updated in tiles. The work is done on the lower factor in scratch. A matrix that is not positive definite
// gives NaN (XLA: cholesky_expander.cc).
#include <algorithm>
#include <limits>

#include "base/checked_math.h"
#include "spirv_codegen/kernels/linalg.h"

namespace krafla::spirv {
namespace {

// Small matrices: an invocation for each, which works in the result or, for narrow types, in scratch.
Result<EmittedProgram> EmitEach(const plan::KernelPlan& plan, const plan::LinalgKernel& k, const Target& target) {
  constexpr int kA = 0, kOut = 1;
  const int64_t n = k.rows;
  const bool narrow = Numbers::WideType(k.type) != k.type;
  LinalgProgram program(plan, k, target, narrow ? std::vector<int64_t>{k.batch * n * n} : std::vector<int64_t>{});
  const int work = narrow ? program.scratch(0) : kOut;
  const int each = program.Add("cholesky.each", [&](LinalgKernelWriter& w) {
    Builder& b = w.b;
    Numbers& num = w.numbers;
    // The place of an element of the lower factor, or of its mirror image, which is its conjugate.
    const auto place = [&](Value r, Value c) {
      return b.Add(b.Mul(b.Add(b.Mul(w.matrix, w.U32(n)), k.lower ? r : c), w.U32(n)), k.lower ? c : r);
    };
    const auto load = [&](Value r, Value c) { return num.LoadWide(work, place(r, c)); };
    const auto store = [&](Value r, Value c, Number v) { num.StoreWide(work, place(r, c), v); };
    const Values good = b.For(b.U32(0), w.U32(n), b.U32(1), {b.m.Bool(true)}, [&](Value c, const Values& carried) {
      const Values diagonal =
          b.For(b.U32(0), c, b.U32(1), {num.Load(kA, k.type, place(c, c)).re},
                [&](Value i, const Values& sum) { return Values{b.FSub(sum[0], num.Square(load(c, i)))}; });
      const Value positive = b.FCompare(FCmp::kGt, diagonal[0], num.Constant(0));
      const Value root = b.Glsl(31 /* Sqrt */, {b.Select(positive, diagonal[0], num.Constant(1))}, num.kind(), 1);
      const Number divisor = {root, num.complex() ? num.Constant(0) : Value{}};
      store(c, c, divisor);
      b.For(b.Add(c, b.U32(1)), w.U32(n), b.U32(1), [&](Value r) {
        const Number start[] = {num.Load(kA, k.type, place(r, c))};
        // In the mirror image both factors are conjugates, and so is their sum.
        const Values sum = b.For(b.U32(0), c, b.U32(1), num.Pack(start), [&](Value i, const Values& so_far) {
          const Number next[] = {num.Sub(num.Unpack(so_far, 0), num.Mul(load(r, i), num.Conj(load(c, i))))};
          return num.Pack(next);
        });
        store(r, c, num.Div(num.Unpack(sum, 0), divisor));
        store(c, r, num.Real(0));
      });
      return Values{b.LAnd(carried[0], positive)};
    });
    b.If(b.LNot(good[0]), [&] {
      b.For(b.U32(0), w.U32(n), b.U32(1), [&](Value r) {
        b.For(b.U32(0), b.Add(r, b.U32(1)), b.U32(1),
              [&](Value c) { store(r, c, num.Real(std::numeric_limits<double>::quiet_NaN())); });
      });
    });
  });
  KRAFLA_TRY(program.Run(each, 1));
  if (narrow) KRAFLA_TRY(program.RunRound("cholesky.round", work, kOut, n * n));
  return program.Take();
}

// Larger matrices: for each block of columns some dispatches over the lower factor in scratch.
class CholeskyBlocks {
 public:
  CholeskyBlocks(const plan::KernelPlan& plan, const plan::LinalgKernel& k, const Target& target)
      : k_(k),
        n_(k.rows),
        block_(BlockOf(k, target)),
        local_(WorkgroupSize(target.profile, target.tuning.linalg.local)),
        factor_local_(std::min(local_, static_cast<uint32_t>(block_))),
        program_(plan, k, target, {k.batch * k.rows * k.rows, k.batch}),
        work_(program_.scratch(0)),
        failed_(program_.scratch(1)) {}

  Result<EmittedProgram> Emit() {
    const int start = AddStart(), factor = AddFactor();
    const bool one_block = n_ <= block_;
    const int panel = one_block ? -1 : AddPanel(), update = one_block ? -1 : AddUpdate();
    KRAFLA_TRY(program_.Run(start, n_ * n_));
    for (int64_t at = 0; at < n_; at += block_) {
      KRAFLA_TRY(program_.Run(factor, 1, at));
      const int64_t left = n_ - std::min(n_, at + block_);
      if (left == 0) break;
      KRAFLA_TRY(program_.Run(panel, left, at));
      KRAFLA_TRY(program_.Run(update, Groups().Count(CeilDiv(left, Tile()), CeilDiv(left, Tile())), at));
    }
    const int finish = AddFinish();
    KRAFLA_TRY(program_.Run(finish, n_ * n_));
    return program_.Take();
  }

 private:
  // The columns of a block. The workgroup that factors it has half of the shared memory for it.
  static int64_t BlockOf(const plan::LinalgKernel& k, const Target& target) {
    const ElementType wide = Numbers::WideType(k.type);
    const int64_t element = StorageBytes(RealPart(wide)) * (IsComplex(wide) ? 2 : 1);
    int64_t block = target.tuning.linalg.block;
    while (block > 8 &&
           (block * block * element > target.profile.limits.max_shared_memory_bytes / 2 || block / 2 >= k.rows))
      block /= 2;
    return block;
  }
  // The rows and columns that an invocation updates at once: as many numbers as registers hold.
  int64_t Tile() const { return IsComplex(k_.type) ? 2 : 4; }
  TileGroups Groups() const { return TileGroups(local_, CeilDiv(n_, Tile())); }

  Value Place(LinalgKernelWriter& w, Value row, Value column) const {
    return w.b.Add(w.b.Mul(w.b.Add(w.b.Mul(w.matrix, w.U32(n_)), row), w.U32(n_)), column);
  }
  Number Load(LinalgKernelWriter& w, Value r, Value c) const { return w.numbers.LoadWide(work_, Place(w, r, c)); }
  void Store(LinalgKernelWriter& w, Value r, Value c, Number v) const { w.numbers.StoreWide(work_, Place(w, r, c), v); }
  Value BlockEnd(LinalgKernelWriter& w) const { return w.b.Min(w.b.Add(w.at, w.U32(block_)), w.U32(n_)); }

  // Copies the lower triangle, or the conjugate of the mirrored upper one, to scratch. No matrix has failed yet.
  int AddStart() {
    return program_.AddElements("cholesky.start", [&](LinalgKernelWriter& w) {
      Builder& b = w.b;
      const Value row = b.UDiv(w.item, w.U32(n_)), column = b.Sub(w.item, b.Mul(row, w.U32(n_)));
      b.If(b.Compare(Cmp::kULe, column, row), [&] {
        Number v = w.numbers.Load(kA, k_.type, k_.lower ? Place(w, row, column) : Place(w, column, row));
        if (!k_.lower) v = w.numbers.Conj(v);
        Store(w, row, column, v);
      });
      b.If(b.Compare(Cmp::kEq, w.item, b.U32(0)), [&] { w.numbers.StoreWide(failed_, w.matrix, w.numbers.Real(0)); });
    });
  }

  // Factors the diagonal block of each matrix by a workgroup in shared memory, whose invocations take rows in turns.
  int AddFactor() {
    return program_.AddGroups("cholesky.factor", factor_local_, [&](LinalgKernelWriter& w) {
      Builder& b = w.b;
      SharedMatrix s(w, block_, block_);
      const Value size = b.Sub(BlockEnd(w), w.at);
      ForOwnRows(w, size, [&](Value row) {
        b.For(b.U32(0), b.Add(row, b.U32(1)), b.U32(1),
              [&](Value c) { s.Store(row, c, Load(w, b.Add(w.at, row), b.Add(w.at, c))); });
      });
      const Value good = FactorColumns(w, s, size);
      b.WorkgroupBarrier();
      ForOwnRows(w, size, [&](Value row) {
        b.For(b.U32(0), b.Add(row, b.U32(1)), b.U32(1),
              [&](Value c) { Store(w, b.Add(w.at, row), b.Add(w.at, c), s.Load(row, c)); });
      });
      b.If(b.LAnd(b.Compare(Cmp::kEq, b.LocalIndex(), b.U32(0)), b.LNot(good)),
           [&] { w.numbers.StoreWide(failed_, w.matrix, w.numbers.Real(1)); });
    });
  }
  void ForOwnRows(LinalgKernelWriter& w, Value size, const std::function<void(Value row)>& body) const {
    w.b.For(w.b.LocalIndex(), size, w.U32(factor_local_), body);
  }

  // Factors the block in shared memory column by column: the root of the diagonal element, the quotients below it, then
  // what these contribute to the columns on the right. Gives whether all diagonal elements were positive.
  Value FactorColumns(LinalgKernelWriter& w, SharedMatrix& s, Value size) const {
    Builder& b = w.b;
    Numbers& num = w.numbers;
    const Value zero = num.Constant(0);
    // All sizes are those of the workgroup's block, so every invocation takes the same turns.
    return b.For(b.U32(0), size, b.U32(1), {b.m.Bool(true)}, [&](Value j, const Values& carried) {
      b.WorkgroupBarrier();
      const Value diagonal = s.Load(j, j).re;
      const Value positive = b.FCompare(FCmp::kGt, diagonal, zero);
      const Value root = b.Glsl(31 /* Sqrt */, {b.Select(positive, diagonal, num.Constant(1))}, num.kind(), 1);
      b.WorkgroupBarrier();
      const auto for_rows_below = [&](const std::function<void(Value row)>& body) {
        ForOwnRows(w, size, [&](Value row) { b.If(b.Compare(Cmp::kUGe, row, j), [&] { body(row); }); });
      };
      for_rows_below([&](Value row) {
        const Number is_root = {root, num.complex() ? zero : Value{}};
        const Number v = s.Load(row, j);
        s.Store(row, j, num.Select(b.Compare(Cmp::kEq, row, j), is_root, num.Div(v, is_root)));
      });
      b.WorkgroupBarrier();
      for_rows_below([&](Value row) {
        const Number mine = s.Load(row, j);
        b.For(b.Add(j, b.U32(1)), b.Add(row, b.U32(1)), b.U32(1),
              [&](Value c) { s.Store(row, c, num.Sub(s.Load(row, c), num.Mul(mine, num.Conj(s.Load(c, j))))); });
      });
      return Values{b.LAnd(carried[0], positive)};
    })[0];
  }

  // Solves the rows below the diagonal block with its factor, an invocation for each row.
  int AddPanel() {
    return program_.Add("cholesky.panel", [&](LinalgKernelWriter& w) {
      Builder& b = w.b;
      const Value end = BlockEnd(w), row = b.Add(end, w.item);
      SubstitutionBlock s;
      s.begin = w.at;
      s.end = end;
      s.m = [&](Value r, Value c) { return w.numbers.Conj(Load(w, r, c)); };
      s.load = [&](Value c) { return Load(w, row, c); };
      s.store = [&](Value c, Number v) { Store(w, row, c, v); };
      EmitSubstitution(w, s);
    });
  }

  // Subtracts what the panel contributes to the columns on its right, in tiles on and below the diagonal.
  int AddUpdate() {
    const int64_t tile = Tile();
    return program_.AddGroups("cholesky.update", local_, [&](LinalgKernelWriter& w) {
      Builder& b = w.b;
      UpdateTile t;
      t.rows = t.columns = static_cast<int>(tile);
      t.begin = w.at;
      t.end = BlockEnd(w);
      t.row_bound = t.column_bound = w.U32(n_);
      const Value tiles = b.UDiv(b.Add(b.Sub(w.U32(n_), t.end), w.U32(tile - 1)), w.U32(tile));
      const TileGroups::Tile own = Groups().Own(w, tiles);
      t.row = b.Add(t.end, b.Mul(own.down, w.U32(tile)));
      t.column = b.Add(t.end, b.Mul(own.across, w.U32(tile)));
      t.left = [&](Value r, Value c) { return Load(w, r, c); };
      t.right = [&](Value r, Value c) { return w.numbers.Conj(Load(w, c, r)); };
      t.load = t.left;
      t.store = [&](Value r, Value c, Number v) { Store(w, r, c, v); };
      if (!w.numbers.complex() && n_ % 4 == 0) {
        const ElementType wide = w.numbers.wide();
        t.left_along_k = t.load_across = [&w, this, wide](Value r, Value c) {
          return w.numbers.LoadFour(work_, wide, Place(w, r, c));
        };
        t.right_along_k = [&w, this, wide](Value k, Value c) {
          return w.numbers.LoadFour(work_, wide, Place(w, c, k));
        };
        t.store_across = [&w, this, wide](Value r, Value c, Value v) {
          w.numbers.StoreFour(work_, wide, Place(w, r, c), v);
        };
      }
      b.If(b.Compare(Cmp::kULe, own.across, own.down), [&] { EmitUpdateTile(w, t); });
    });
  }

  // Writes the factor, or the conjugate of its mirror image, to the result, with zeros in the other triangle and NaN
  // where a matrix has failed.
  int AddFinish() {
    return program_.AddElements("cholesky.finish", [&](LinalgKernelWriter& w) {
      Builder& b = w.b;
      Numbers& num = w.numbers;
      const Value row = b.UDiv(w.item, w.U32(n_)), column = b.Sub(w.item, b.Mul(row, w.U32(n_)));
      const Value r = k_.lower ? row : column, c = k_.lower ? column : row;
      const Number zero = num.Real(0);
      const Values value = b.If(
          b.Compare(Cmp::kULe, c, r),
          [&] {
            Number v = Load(w, r, c);
            if (!k_.lower) v = num.Conj(v);
            const Value bad = b.FCompare(FCmp::kGt, num.LoadWide(failed_, w.matrix).re, num.Constant(0));
            const Number out[] = {num.Select(bad, num.Real(std::numeric_limits<double>::quiet_NaN()), v)};
            return num.Pack(out);
          },
          [&] {
            const Number out[] = {zero};
            return num.Pack(out);
          });
      num.Store(kOut, k_.type, Place(w, row, column), num.Unpack(value, 0));
    });
  }

  static constexpr int kA = 0, kOut = 1;
  const plan::LinalgKernel& k_;
  int64_t n_, block_;
  uint32_t local_, factor_local_;
  LinalgProgram program_;
  int work_;    // the scratch buffer of the lower factors
  int failed_;  // the scratch buffer that has a number other than zero for each matrix that is not positive definite
};

// In order of preference.
constexpr LinalgVariant kCholeskyVariants[] = {
    {"each", RefusesInvocationEach, [](const LinalgCase& c, std::string) { return EmitEach(c.plan, c.k, c.target); }},
    {"blocks", nullptr,
     [](const LinalgCase& c, std::string refused) {
       return WithReason(CholeskyBlocks(c.plan, c.k, c.target).Emit(), refused);
     }},
};
static_assert(TakesEverything(kCholeskyVariants));

}  // namespace

Result<EmittedProgram> EmitCholesky(const plan::KernelPlan& plan, const plan::LinalgKernel& k, const Target& target) {
  return MakeFirst(kCholeskyVariants, LinalgCase{plan, k, target});
}

}  // namespace krafla::spirv
