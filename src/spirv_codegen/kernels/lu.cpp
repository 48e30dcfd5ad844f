// SPDX-License-Identifier: Apache-2.0
// LU factors with partial pivoting; pivots are chosen as LAPACK's getrf chooses them. A matrix of a few numbers is
// factored by one invocation, one of some thousand numbers by a workgroup in its memory. Larger ones are factored by
// panels of columns. A workgroup factors a panel in its memory if it fits; otherwise each column takes two dispatches,
// which find and exchange its pivot and eliminate within the panel. The rows beside the panel and the remaining matrix
// follow as in cholesky.cpp.
#include "base/checked_math.h"
#include "spirv_codegen/kernels/linalg.h"

namespace krafla::spirv {
namespace {

class LuEmitter {
 public:
  LuEmitter(const plan::KernelPlan& plan, const plan::LinalgKernel& k, const Target& target)
      : k_(k),
        target_(target),
        rows_(k.rows),
        columns_(k.columns),
        least_(std::min(k.rows, k.columns)),
        local_(WorkgroupSize(target.profile, target.tuning.linalg.local)),
        narrow_(Numbers::WideType(k.type) != k.type),
        program_(plan, k, target,
                 narrow_ ? std::vector<int64_t>{k.batch * k.rows * k.columns} : std::vector<int64_t>{}),
        work_(narrow_ ? program_.scratch(0) : kOut) {}

  // The program of one of the variants.
  Result<EmittedProgram> Emit(Result<> (LuEmitter::*variant)()) {
    KRAFLA_TRY((this->*variant)());
    if (narrow_) KRAFLA_TRY(program_.RunRound("lu.round", work_, kOut, rows_ * columns_));
    return program_.Take();
  }

  Refusal RefusesShared() const {
    if (rows_ * columns_ * NumberBytes() <= RoomForMatrix()) return std::nullopt;
    return "a matrix does not fit shared memory";
  }

 private:
  struct MatrixElements {
    ElementLoad load;
    ElementStore store;
  };
  struct Candidate {
    Value magnitude, row;
  };

 public:
  // An invocation for each matrix.
  Result<> EmitEach() {
    const int each = program_.Add("lu.each", [&](LinalgKernelWriter& w) {
      Builder& b = w.b;
      Numbers& n = w.numbers;
      b.For(b.U32(0), w.U32(rows_ * columns_), b.U32(1), [&](Value e) {
        const Value at = b.Add(b.Mul(w.matrix, w.U32(rows_ * columns_)), e);
        n.StoreWide(work_, at, n.Load(kA, k_.type, at));
      });
      b.For(b.U32(0), w.U32(least_), b.U32(1), [&](Value k) {
        const Value below = b.Add(k, b.U32(1));
        const Candidate pivot = FindPivot(w, Column(w, k), k, w.U32(rows_), below, b.U32(1));
        SavePivot(w, k, pivot.row);
        b.For(b.U32(0), w.U32(columns_), b.U32(1), [&](Value c) {
          const Number x = Load(w, k, c), y = Load(w, pivot.row, c);
          Store(w, k, c, y);
          Store(w, pivot.row, c, x);
        });
        const Number diagonal = Divisor(w, Load(w, k, k));
        b.For(below, w.U32(rows_), b.U32(1),
              [&](Value r) { EliminateRow(w, Matrix(w), diagonal, k, r, w.U32(columns_)); });
      });
      SavePermutation(w);
    });
    return program_.Run(each, 1);
  }

  // A workgroup for each matrix, which works in its memory.
  Result<> EmitShared() {
    const int whole = program_.AddGroups("lu.shared", local_, [&](LinalgKernelWriter& w) {
      Builder& b = w.b;
      Numbers& n = w.numbers;
      SharedMatrix shared(w, rows_, columns_);
      const MatrixElements a = {[&](Value r, Value c) { return shared.Load(r, c); },
                                [&](Value r, Value c, Number v) { shared.Store(r, c, v); }};
      const Value first = b.Mul(w.matrix, w.U32(rows_ * columns_));
      b.For(b.LocalIndex(), w.U32(rows_ * columns_), w.U32(local_),
            [&](Value e) { shared.StoreAt(e, n.Load(kA, k_.type, b.Add(first, e))); });
      FactorShared(w, a, w.U32(rows_), w.U32(columns_), w.U32(least_), b.U32(0));
      b.WorkgroupBarrier();
      b.For(b.LocalIndex(), w.U32(rows_ * columns_), w.U32(local_),
            [&](Value e) { n.StoreWide(work_, b.Add(first, e), shared.LoadAt(e)); });
      b.If(b.Compare(Cmp::kEq, b.LocalIndex(), b.U32(0)), [&] { SavePermutation(w); });
    });
    return program_.Run(whole, 1);
  }

  // All invocations of a workgroup factor the `rows` x `columns` numbers `a`, which are those of the matrix from row
  // and column `first` on. Begins with a barrier, and does not end with one.
  void FactorShared(LinalgKernelWriter& w, const MatrixElements& a, Value rows, Value columns, Value least,
                    Value first) {
    Builder& b = w.b;
    b.For(b.U32(0), least, b.U32(1), [&](Value k) {
      b.WorkgroupBarrier();
      const Value below = b.Add(k, b.U32(1));
      const Value pivot = FindPivotTogether(w, [&](Value r) { return a.load(r, k); }, k, rows);
      b.If(b.Compare(Cmp::kEq, b.LocalIndex(), b.U32(0)), [&] { SavePivot(w, b.Add(first, k), b.Add(first, pivot)); });
      b.For(b.LocalIndex(), columns, w.U32(local_), [&](Value c) {
        const Number x = a.load(k, c), y = a.load(pivot, c);
        a.store(k, c, y);
        a.store(pivot, c, x);
      });
      b.WorkgroupBarrier();
      const Number diagonal = Divisor(w, a.load(k, k));
      b.For(b.Add(below, b.LocalIndex()), rows, w.U32(local_),
            [&](Value r) { EliminateRow(w, a, diagonal, k, r, columns); });
    });
  }

  // Panels of columns, each by several dispatches.
  Result<> EmitPanels() {
    const bool in_shared = ChooseWidth();
    const int start = AddCopy();
    const int panel = in_shared ? AddSharedPanel() : -1;
    const int pivot = in_shared ? -1 : AddPivot(), eliminate = in_shared ? -1 : AddEliminate();
    const int exchange = AddExchange(), update = AddUpdate();
    const int finish = program_.Add("lu.permutation", [&](LinalgKernelWriter& w) { SavePermutation(w); });

    KRAFLA_TRY(program_.Run(start, rows_ * columns_));
    for (int64_t at = 0; at < least_; at += width_) {
      const int64_t end = std::min(least_, at + width_);
      if (in_shared) KRAFLA_TRY(program_.Run(panel, 1, at));
      for (int64_t k = at; k < end && !in_shared; ++k) {
        KRAFLA_TRY(program_.Run(pivot, 1, k));
        KRAFLA_TRY(program_.Run(eliminate, rows_ - k - 1, k));
      }
      KRAFLA_TRY(program_.Run(exchange, columns_ - (end - at), at));
      if (end < rows_ && end < columns_)
        KRAFLA_TRY(
            program_.Run(update, Groups().Count(CeilDiv(rows_ - end, Tile()), CeilDiv(columns_ - end, Tile())), at));
    }
    return program_.Run(finish, 1);
  }

 private:
  // Chooses how many columns a panel has. Gives whether such panels fit shared memory.
  bool ChooseWidth() {
    const int64_t number = NumberBytes(), room = RoomForMatrix();
    width_ = target_.tuning.linalg.block;
    while (width_ > kNarrowestShared && rows_ * width_ * number > room) width_ /= 2;
    if (rows_ * width_ * number <= room) return true;
    width_ = target_.tuning.linalg.block;
    return false;
  }
  // The first column of the panel that contains column `at`, and the one after its last.
  Value PanelBegin(LinalgKernelWriter& w) const { return w.b.And(w.at, w.U32(~(width_ - 1))); }
  Value PanelEnd(LinalgKernelWriter& w) const { return w.b.Min(w.b.Add(PanelBegin(w), w.U32(width_)), w.U32(least_)); }
  // The rows and columns that an invocation updates at once: as many numbers as registers hold.
  int64_t Tile() const { return IsComplex(k_.type) ? 2 : 4; }
  TileGroups Groups() const { return TileGroups(local_, CeilDiv(columns_, Tile())); }

  // Copies the matrix to where it is factored.
  int AddCopy() {
    return program_.AddElements("lu.copy", [&](LinalgKernelWriter& w) {
      const Value at = w.b.Add(w.b.Mul(w.matrix, w.U32(rows_ * columns_)), w.item);
      w.numbers.StoreWide(work_, at, w.numbers.Load(kA, k_.type, at));
    });
  }

  // Factors the panel that begins with column `at`, by a workgroup in its memory.
  int AddSharedPanel() {
    return program_.AddGroups("lu.panel", local_, [&](LinalgKernelWriter& w) {
      Builder& b = w.b;
      SharedMatrix shared(w, rows_, width_);
      const MatrixElements a = {[&](Value r, Value c) { return shared.Load(r, c); },
                                [&](Value r, Value c, Number v) { shared.Store(r, c, v); }};
      const Value rows = b.Sub(w.U32(rows_), w.at), columns = b.Sub(PanelEnd(w), w.at);
      const auto for_all = [&](const std::function<void(Value, Value)>& body) {
        b.For(b.LocalIndex(), rows, w.U32(local_),
              [&](Value r) { b.For(b.U32(0), columns, b.U32(1), [&](Value c) { body(r, c); }); });
      };
      for_all([&](Value r, Value c) { a.store(r, c, Load(w, b.Add(w.at, r), b.Add(w.at, c))); });
      FactorShared(w, a, rows, columns, columns, w.at);
      b.WorkgroupBarrier();
      for_all([&](Value r, Value c) { Store(w, b.Add(w.at, r), b.Add(w.at, c), a.load(r, c)); });
    });
  }

  // Finds the pivot of column `at` and exchanges rows within the panel, by one workgroup.
  int AddPivot() {
    return program_.AddGroups("lu.pivot", local_, [&](LinalgKernelWriter& w) {
      Builder& b = w.b;
      const Value row = FindPivotTogether(w, Column(w, w.at), w.at, w.U32(rows_));
      b.If(b.Compare(Cmp::kEq, b.LocalIndex(), b.U32(0)), [&] { SavePivot(w, w.at, row); });
      b.For(b.Add(PanelBegin(w), b.LocalIndex()), PanelEnd(w), w.U32(local_), [&](Value c) {
        const Number x = Load(w, w.at, c), y = Load(w, row, c);
        Store(w, w.at, c, y);
        Store(w, row, c, x);
      });
    });
  }
  // Eliminates column `at` within the panel, an invocation for each row below the diagonal.
  int AddEliminate() {
    return program_.Add("lu.eliminate", [&](LinalgKernelWriter& w) {
      const Value row = w.b.Add(w.b.Add(w.at, w.b.U32(1)), w.item);
      EliminateRow(w, Matrix(w), Divisor(w, Load(w, w.at, w.at)), w.at, row, PanelEnd(w));
    });
  }

  // Exchanges the rows of the columns beside the panel, an invocation for each column. Those on the right then become
  // rows of U.
  int AddExchange() {
    return program_.Add("lu.exchange", [&](LinalgKernelWriter& w) {
      Builder& b = w.b;
      const Value end = PanelEnd(w);
      const Value left = b.Compare(Cmp::kULt, w.item, w.at);
      const Value column = b.Select(left, w.item, b.Add(w.item, b.Sub(end, w.at)));
      b.For(w.at, end, b.U32(1), [&](Value k) {
        const Value other = LoadPivot(w, k);
        const Number x = Load(w, k, column), y = Load(w, other, column);
        Store(w, k, column, y);
        Store(w, other, column, x);
      });
      b.If(b.LNot(left), [&] {
        SubstitutionBlock s;
        s.begin = w.at;
        s.end = end;
        s.unit = true;
        s.m = [&](Value r, Value c) { return Load(w, r, c); };
        s.load = [&](Value r) { return Load(w, r, column); };
        s.store = [&](Value r, Number v) { Store(w, r, column, v); };
        EmitSubstitution(w, s);
      });
    });
  }

  // Subtracts what the panel contributes to the matrix below and on the right of it, in tiles.
  int AddUpdate() {
    const int64_t tile = Tile();
    return program_.AddGroups("lu.update", local_, [&](LinalgKernelWriter& w) {
      Builder& b = w.b;
      UpdateTile t;
      t.rows = t.columns = static_cast<int>(tile);
      t.begin = w.at;
      t.end = PanelEnd(w);
      t.row_bound = w.U32(rows_);
      t.column_bound = w.U32(columns_);
      const Value across = b.UDiv(b.Add(b.Sub(w.U32(columns_), t.end), w.U32(tile - 1)), w.U32(tile));
      const TileGroups::Tile own = Groups().Own(w, across);
      t.row = b.Add(t.end, b.Mul(own.down, w.U32(tile)));
      t.column = b.Add(t.end, b.Mul(own.across, w.U32(tile)));
      t.left = t.right = t.load = [&](Value r, Value c) { return Load(w, r, c); };
      t.store = [&](Value r, Value c, Number v) { Store(w, r, c, v); };
      // Only panels of all their columns have something on the right.
      if (!w.numbers.complex() && columns_ % 4 == 0) {
        const ElementType wide = w.numbers.wide();
        t.left_along_k = t.right_across = t.load_across = [&w, this, wide](Value r, Value c) {
          return w.numbers.LoadFour(work_, wide, Place(w, r, c));
        };
        t.store_across = [&w, this, wide](Value r, Value c, Value v) {
          w.numbers.StoreFour(work_, wide, Place(w, r, c), v);
        };
      }
      EmitUpdateTile(w, t);
    });
  }

  // row r -= quotient * row k for the columns from k + 1 to `end`; the quotient is left in column k.
  void EliminateRow(LinalgKernelWriter& w, const MatrixElements& a, Number diagonal, Value k, Value r, Value end) {
    const Number quotient = w.numbers.Div(a.load(r, k), diagonal);
    a.store(r, k, quotient);
    w.b.For(w.b.Add(k, w.b.U32(1)), end, w.b.U32(1),
            [&](Value c) { a.store(r, c, w.numbers.Sub(a.load(r, c), w.numbers.Mul(quotient, a.load(k, c)))); });
  }

  // The number to divide by: one where the column has only zeros.
  Number Divisor(LinalgKernelWriter& w, Number diagonal) {
    Numbers& n = w.numbers;
    Value zero = w.b.FCompare(FCmp::kEq, diagonal.re, n.Constant(0));
    if (n.complex()) zero = w.b.LAnd(zero, w.b.FCompare(FCmp::kEq, diagonal.im, n.Constant(0)));
    return n.Select(zero, n.Real(1), diagonal);
  }

  Value Magnitude(LinalgKernelWriter& w, Number v) {
    const auto absolute = [&](Value x) { return w.b.Glsl(4 /* FAbs */, {x}, w.numbers.kind(), 1); };
    return w.numbers.complex() ? w.b.FAdd(absolute(v.re), absolute(v.im)) : absolute(v.re);
  }

  using ColumnLoad = std::function<Number(Value row)>;

  // The largest element of a column in row `k` and in the rows begin, begin + step, ... below `rows`; the first of
  // equals.
  Candidate FindPivot(LinalgKernelWriter& w, const ColumnLoad& column, Value k, Value rows, Value begin, Value step) {
    Builder& b = w.b;
    const Values found = b.For(begin, rows, step, {Magnitude(w, column(k)), k}, [&](Value r, const Values& best) {
      const Value here = Magnitude(w, column(r)), larger = b.FCompare(FCmp::kGt, here, best[0]);
      return Values{b.Select(larger, here, best[0]), b.Select(larger, r, best[1])};
    });
    return {found[0], found[1]};
  }

  // The pivot row of a column, found by all invocations of the workgroup together. Ends with a barrier.
  Value FindPivotTogether(LinalgKernelWriter& w, const ColumnLoad& column, Value k, Value rows) {
    Builder& b = w.b;
    const Kind kind = w.numbers.kind();
    const Id magnitudes = b.SharedArray(kind, 1, local_), found = b.SharedArray(Kind::kU32, 1, local_);
    const Candidate own = FindPivot(w, column, k, rows, b.Add(b.Add(k, b.U32(1)), b.LocalIndex()), w.U32(local_));
    b.StoreShared(magnitudes, b.LocalIndex(), own.magnitude);
    b.StoreShared(found, b.LocalIndex(), own.row);
    b.WorkgroupBarrier();
    const Values best = b.For(
        b.U32(1), w.U32(local_), b.U32(1),
        {b.LoadShared(magnitudes, kind, 1, b.U32(0)), b.LoadShared(found, Kind::kU32, 1, b.U32(0))},
        [&](Value i, const Values& carried) {
          const Value here = b.LoadShared(magnitudes, kind, 1, i), row = b.LoadShared(found, Kind::kU32, 1, i);
          const Value earlier = b.LAnd(b.FCompare(FCmp::kEq, here, carried[0]), b.Compare(Cmp::kULt, row, carried[1]));
          const Value better = b.LOr(b.FCompare(FCmp::kGt, here, carried[0]), earlier);
          return Values{b.Select(better, here, carried[0]), b.Select(better, row, carried[1])};
        });
    b.WorkgroupBarrier();
    return best[1];
  }

  Value Place(LinalgKernelWriter& w, Value r, Value c) {
    return w.b.Add(w.b.Mul(w.b.Add(w.b.Mul(w.matrix, w.U32(rows_)), r), w.U32(columns_)), c);
  }
  Number Load(LinalgKernelWriter& w, Value r, Value c) { return w.numbers.LoadWide(work_, Place(w, r, c)); }
  void Store(LinalgKernelWriter& w, Value r, Value c, Number v) { w.numbers.StoreWide(work_, Place(w, r, c), v); }
  MatrixElements Matrix(LinalgKernelWriter& w) {
    return {[&](Value r, Value c) { return Load(w, r, c); }, [&](Value r, Value c, Number v) { Store(w, r, c, v); }};
  }
  ColumnLoad Column(LinalgKernelWriter& w, Value c) {
    return [this, &w, c](Value r) { return Load(w, r, c); };
  }

  Value PivotPlace(LinalgKernelWriter& w, Value k) { return w.b.Add(w.b.Mul(w.matrix, w.U32(least_)), k); }
  void SavePivot(LinalgKernelWriter& w, Value k, Value row) {
    w.buffers.Store(w.Named(kPivots), 4, PivotPlace(w, k), row);
  }
  Value LoadPivot(LinalgKernelWriter& w, Value k) { return w.buffers.Load(w.Named(kPivots), 4, PivotPlace(w, k), 1); }

  // Writes the permutation: the identity with the pivots' exchanges. It must be run by the invocation that saved the
  // pivots, or in a later dispatch.
  void SavePermutation(LinalgKernelWriter& w) {
    Builder& b = w.b;
    const Value first = b.Mul(w.matrix, w.U32(rows_));
    b.For(b.U32(0), w.U32(rows_), b.U32(1),
          [&](Value r) { w.buffers.Store(w.Named(kPermutation), 4, b.Add(first, r), r); });
    b.For(b.U32(0), w.U32(least_), b.U32(1), [&](Value k) {
      const Value here = b.Add(first, k), there = b.Add(first, LoadPivot(w, k));
      const Value x = w.buffers.Load(w.Named(kPermutation), 4, here, 1),
                  y = w.buffers.Load(w.Named(kPermutation), 4, there, 1);
      w.buffers.Store(w.Named(kPermutation), 4, here, y);
      w.buffers.Store(w.Named(kPermutation), 4, there, x);
    });
  }

  int64_t NumberBytes() const {
    const ElementType wide = Numbers::WideType(k_.type);
    return StorageBytes(RealPart(wide)) * (IsComplex(wide) ? 2 : 1);
  }
  // The bytes of shared memory that the search for a pivot leaves.
  int64_t RoomForMatrix() const {
    return SharedRoom(target_) - local_ * (StorageBytes(RealPart(Numbers::WideType(k_.type))) + 4);
  }

  static constexpr int kA = 0, kOut = 1, kPivots = 2, kPermutation = 3;
  static constexpr int64_t kNarrowestShared = 8;  // columns
  const plan::LinalgKernel& k_;
  const Target& target_;
  int64_t rows_, columns_, least_;
  int64_t width_ = 0;  // columns of a panel
  uint32_t local_;
  bool narrow_;
  LinalgProgram program_;
  int work_;
};

template <Result<> (LuEmitter::*variant)()>
Result<EmittedProgram> EmitLuBy(const LinalgCase& c, std::string refused) {
  return WithReason(LuEmitter(c.plan, c.k, c.target).Emit(variant), refused);
}

// In order of preference.
constexpr LinalgVariant kLuVariants[] = {
    {"each", RefusesInvocationEach, EmitLuBy<&LuEmitter::EmitEach>},
    {"shared", [](const LinalgCase& c) { return LuEmitter(c.plan, c.k, c.target).RefusesShared(); },
     EmitLuBy<&LuEmitter::EmitShared>},
    {"panels", nullptr, EmitLuBy<&LuEmitter::EmitPanels>},
};
static_assert(TakesEverything(kLuVariants));

}  // namespace

Result<EmittedProgram> EmitLu(const plan::KernelPlan& plan, const plan::LinalgKernel& k, const Target& target) {
  return MakeFirst(kLuVariants, LinalgCase{plan, k, target});
}

}  // namespace krafla::spirv
