// SPDX-License-Identifier: Apache-2.0
// Triangular solve by blocks of rows: one invocation for each right-hand side substitutes within the block, then tiles
// of the remaining rows are updated. The definition is that of XLA's triangular_solve_expander.cc.
#include "base/checked_math.h"
#include "spirv_codegen/kernels/linalg.h"

namespace krafla::spirv {

namespace {

class TriangularSolve {
 public:
  TriangularSolve(const plan::KernelPlan& plan, const plan::LinalgKernel& k, const Target& target)
      : k_(k),
        n_(k.left_side ? k.rows : k.columns),
        sides_(k.left_side ? k.columns : k.rows),
        block_(target.tuning.linalg.block),
        // x op(a) = b is op(a)^T x^T = b^T: all forms are one problem m y = b, where m's rows are rows or columns of a.
        turned_(k.left_side != (k.transpose == TriangularTranspose::kNoTranspose)),
        forward_(k.lower != turned_),
        tile_(IsComplex(k.type) ? 2 : 4),
        side_tile_(static_cast<int>(std::min<int64_t>(tile_, sides_))),
        side_tiles_(CeilDiv(sides_, int64_t{side_tile_})),
        local_(WorkgroupSize(target.profile, target.tuning.linalg.local)),
        groups_(local_, side_tiles_),
        narrow_(Numbers::WideType(k.type) != k.type),
        program_(plan, k, target,
                 narrow_ ? std::vector<int64_t>{k.batch * k.rows * k.columns} : std::vector<int64_t>{}),
        work_(narrow_ ? program_.scratch(0) : kX),
        work_type_(Numbers::WideType(k.type)) {}

  Result<EmittedProgram> Emit() {
    const int start = AddCopy(), substitute = AddSubstitute(), update = n_ > block_ ? AddUpdate() : -1;
    KRAFLA_TRY(program_.Run(start, k_.rows * k_.columns));
    const int64_t blocks = CeilDiv(n_, block_);
    for (int64_t step = 0; step < blocks; ++step) {
      const int64_t begin = (forward_ ? step : blocks - 1 - step) * block_;
      KRAFLA_TRY(program_.Run(substitute, sides_, begin));
      const int64_t left = forward_ ? n_ - std::min(n_, begin + block_) : begin;
      if (left > 0) KRAFLA_TRY(program_.Run(update, groups_.Count(CeilDiv(left, int64_t{tile_}), side_tiles_), begin));
    }
    if (narrow_) KRAFLA_TRY(program_.RunRound("linalg.round", work_, kX, k_.rows * k_.columns));
    return program_.Take();
  }

 private:
  Value PlaceInM(LinalgKernelWriter& w, Value row, Value column) const {
    const Value first = turned_ ? column : row, second = turned_ ? row : column;
    return w.b.Add(w.b.Mul(w.b.Add(w.b.Mul(w.matrix, w.U32(n_)), first), w.U32(n_)), second);
  }
  Number M(LinalgKernelWriter& w, Value row, Value column) const {
    const Number v = w.numbers.Load(kA, k_.type, PlaceInM(w, row, column));
    return k_.transpose == TriangularTranspose::kAdjoint ? w.numbers.Conj(v) : v;
  }
  Value Place(LinalgKernelWriter& w, Value row, Value side) const {
    const Value first = k_.left_side ? row : side, second = k_.left_side ? side : row;
    return w.b.Add(w.b.Mul(w.b.Add(w.b.Mul(w.matrix, w.U32(k_.rows)), first), w.U32(k_.columns)), second);
  }
  Number Load(LinalgKernelWriter& w, Value row, Value side) const {
    return w.numbers.Load(work_, work_type_, Place(w, row, side));
  }
  void Store(LinalgKernelWriter& w, Value row, Value side, Number v) const {
    w.numbers.Store(work_, work_type_, Place(w, row, side), v);
  }
  Value BlockEnd(LinalgKernelWriter& w) const { return w.b.Min(w.b.Add(w.at, w.U32(block_)), w.U32(n_)); }

  // Solutions are computed in place, in the result or, for narrow types, in wide numbers in scratch.
  int AddCopy() {
    return program_.AddElements("linalg.copy", [&](LinalgKernelWriter& w) {
      const Value at = w.b.Add(w.b.Mul(w.matrix, w.U32(k_.rows * k_.columns)), w.item);
      w.numbers.Store(work_, work_type_, at, w.numbers.Load(kB, k_.type, at));
    });
  }

  int AddSubstitute() {
    return program_.Add("linalg.substitute", [&](LinalgKernelWriter& w) {
      SubstitutionBlock s;
      s.begin = w.at;
      s.end = BlockEnd(w);
      s.forward = forward_;
      s.unit = k_.unit_diagonal;
      s.m = [&](Value r, Value c) { return M(w, r, c); };
      s.load = [&](Value r) { return Load(w, r, w.item); };
      s.store = [&](Value r, Number v) { Store(w, r, w.item, v); };
      EmitSubstitution(w, s);
    });
  }

  int AddUpdate() {
    return program_.AddGroups("linalg.update", local_, [&](LinalgKernelWriter& w) {
      Builder& b = w.b;
      const TileGroups::Tile own = groups_.Own(w, w.U32(side_tiles_));
      UpdateTile t;
      t.rows = tile_;
      t.columns = side_tile_;
      t.column = b.Mul(own.across, w.U32(side_tile_));
      t.begin = w.at;
      t.end = BlockEnd(w);
      t.row = b.Mul(own.down, w.U32(tile_));
      if (forward_) t.row = b.Add(t.row, t.end);
      t.row_bound = forward_ ? w.U32(n_) : w.at;
      t.column_bound = w.U32(sides_);
      t.left = [&](Value r, Value c) { return M(w, r, c); };
      t.right = t.load = [&](Value r, Value c) { return Load(w, r, c); };
      t.store = [&](Value r, Value c, Number v) { Store(w, r, c, v); };
      if (!w.numbers.complex() && n_ % 4 == 0) ReadByFours(w, t);
      EmitUpdateTile(w, t);
    });
  }
  void ReadByFours(LinalgKernelWriter& w, UpdateTile& t) const {
    if (!turned_) t.left_along_k = [&](Value r, Value c) { return w.numbers.LoadFour(kA, k_.type, PlaceInM(w, r, c)); };
    const auto four = [&](Value r, Value c) { return w.numbers.LoadFour(work_, work_type_, Place(w, r, c)); };
    if (!k_.left_side) t.right_along_k = four;
    if (k_.left_side && sides_ % 4 == 0) {
      t.right_across = t.load_across = four;
      t.store_across = [&](Value r, Value c, Value v) { w.numbers.StoreFour(work_, work_type_, Place(w, r, c), v); };
    }
  }

  static constexpr int kA = 0, kB = 1, kX = 2;
  const plan::LinalgKernel& k_;
  int64_t n_, sides_, block_;
  bool turned_, forward_;
  int tile_, side_tile_;  // rows and sides of a tile
  int64_t side_tiles_;
  uint32_t local_;
  TileGroups groups_;
  bool narrow_;
  LinalgProgram program_;
  int work_;
  ElementType work_type_;
};

}  // namespace

Result<EmittedProgram> EmitTriangularSolve(const plan::KernelPlan& plan, const plan::LinalgKernel& k,
                                           const Target& target) {
  return TriangularSolve(plan, k, target).Emit();
}

}  // namespace krafla::spirv
