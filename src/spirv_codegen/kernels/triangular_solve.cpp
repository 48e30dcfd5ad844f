// SPDX-License-Identifier: Apache-2.0
// Triangular solve by blocks of rows: one invocation for each right-hand side substitutes within the block, then tiles
// of the remaining rows are updated. The definition is that of XLA's triangular_solve_expander.cc.
#include "base/checked_math.h"
#include "spirv_codegen/kernels/linalg.h"

namespace krafla::spirv {

Result<EmittedProgram> EmitTriangularSolve(const plan::KernelPlan& plan, const plan::LinalgKernel& k,
                                           const Target& target) {
  constexpr int kA = 0, kB = 1, kX = 2;
  const bool narrow = Numbers::WideType(k.type) != k.type;
  const int64_t n = k.left_side ? k.rows : k.columns, sides = k.left_side ? k.columns : k.rows;
  const int64_t block = target.tuning.linalg.block;
  std::vector<int64_t> scratch;
  if (narrow) scratch.push_back(k.batch * k.rows * k.columns);
  LinalgProgram program(plan, k, target, scratch);
  // Solutions are computed in place, in the result or, for narrow types, in wide numbers in scratch.
  const int work = narrow ? program.scratch(0) : kX;
  const ElementType work_type = Numbers::WideType(k.type);

  // x op(a) = b is op(a)^T x^T = b^T: all forms are one problem m y = b, where m's rows are rows or columns of a.
  const bool turned = k.left_side != (k.transpose == TriangularTranspose::kNoTranspose);
  const bool conjugate = k.transpose == TriangularTranspose::kAdjoint;
  const bool forward = k.lower != turned;
  auto m_place = [&](LinalgKernelWriter& w, Value row, Value column) {
    const Value first = turned ? column : row, second = turned ? row : column;
    return w.b.Add(w.b.Mul(w.b.Add(w.b.Mul(w.matrix, w.U32(n)), first), w.U32(n)), second);
  };
  auto m = [&](LinalgKernelWriter& w, Value row, Value column) {
    const Number v = w.numbers.Load(kA, k.type, m_place(w, row, column));
    return conjugate ? w.numbers.Conj(v) : v;
  };
  auto place = [&](LinalgKernelWriter& w, Value row, Value side) {
    const Value first = k.left_side ? row : side, second = k.left_side ? side : row;
    return w.b.Add(w.b.Mul(w.b.Add(w.b.Mul(w.matrix, w.U32(k.rows)), first), w.U32(k.columns)), second);
  };

  const int start = program.AddElements("linalg.copy", [&](LinalgKernelWriter& w) {
    const Value at = w.b.Add(w.b.Mul(w.matrix, w.U32(k.rows * k.columns)), w.item);
    w.numbers.Store(work, work_type, at, w.numbers.Load(kB, k.type, at));
  });
  auto block_end = [&](LinalgKernelWriter& w) { return w.b.Min(w.b.Add(w.at, w.U32(block)), w.U32(n)); };
  const int substitute = program.Add("linalg.substitute", [&](LinalgKernelWriter& w) {
    SubstitutionBlock s;
    s.begin = w.at;
    s.end = block_end(w);
    s.forward = forward;
    s.unit = k.unit_diagonal;
    s.m = [&](Value r, Value c) { return m(w, r, c); };
    s.load = [&](Value r) { return w.numbers.Load(work, work_type, place(w, r, w.item)); };
    s.store = [&](Value r, Number v) { w.numbers.Store(work, work_type, place(w, r, w.item), v); };
    EmitSubstitution(w, s);
  });
  KRAFLA_TRY(program.Run(start, k.rows * k.columns));

  const int tile = IsComplex(k.type) ? 2 : 4;
  const int side_tile = static_cast<int>(std::min<int64_t>(tile, sides));
  const int64_t side_tiles = CeilDiv(sides, int64_t{side_tile});
  const uint32_t local = WorkgroupSize(target.profile, target.tuning.linalg.local);
  const TileGroups groups(local, side_tiles);
  int update = -1;
  if (n > block) {
    update = program.AddGroups("linalg.update", local, [&](LinalgKernelWriter& w) {
      Builder& b = w.b;
      UpdateTile t;
      t.rows = tile;
      t.columns = side_tile;
      const TileGroups::Tile own = groups.Own(w, w.U32(side_tiles));
      t.column = b.Mul(own.across, w.U32(side_tile));
      t.begin = w.at;
      t.end = block_end(w);
      t.row = b.Mul(own.down, w.U32(tile));
      if (forward) t.row = b.Add(t.row, t.end);
      t.row_bound = forward ? w.U32(n) : w.at;
      t.column_bound = w.U32(sides);
      t.left = [&](Value r, Value c) { return m(w, r, c); };
      t.right = t.load = [&](Value r, Value c) { return w.numbers.Load(work, work_type, place(w, r, c)); };
      t.store = [&](Value r, Value c, Number v) { w.numbers.Store(work, work_type, place(w, r, c), v); };
      if (!w.numbers.complex() && n % 4 == 0) {
        if (!turned)
          t.left_along_k = [&](Value r, Value c) { return w.numbers.LoadFour(kA, k.type, m_place(w, r, c)); };
        const auto four = [&](Value r, Value c) { return w.numbers.LoadFour(work, work_type, place(w, r, c)); };
        if (!k.left_side) t.right_along_k = four;
        if (k.left_side && sides % 4 == 0) {
          t.right_across = t.load_across = four;
          t.store_across = [&](Value r, Value c, Value v) { w.numbers.StoreFour(work, work_type, place(w, r, c), v); };
        }
      }
      EmitUpdateTile(w, t);
    });
  }
  const int64_t blocks = CeilDiv(n, block);
  for (int64_t step = 0; step < blocks; ++step) {
    const int64_t begin = (forward ? step : blocks - 1 - step) * block;
    KRAFLA_TRY(program.Run(substitute, sides, begin));
    const int64_t left = forward ? n - std::min(n, begin + block) : begin;
    if (left > 0) KRAFLA_TRY(program.Run(update, groups.Count(CeilDiv(left, int64_t{tile}), side_tiles), begin));
  }
  if (narrow) KRAFLA_TRY(program.RunRound("linalg.round", work, kX, k.rows * k.columns));
  return program.Take();
}

}  // namespace krafla::spirv
