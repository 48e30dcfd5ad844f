// SPDX-License-Identifier: Apache-2.0
// attention.group: a workgroup takes a row, whose scores and then weights lie in its shared memory. Rows are few where
// tokens are decoded one by one, and the three launches that this is otherwise cost more than their work. Of the
// columns that a mask hides it looks at the values alone, whether they are finite.
#include <algorithm>
#include <bit>
#include <limits>

#include "base/checked_math.h"
#include "spirv/unified1/GLSL.std.450.h"
#include "spirv_codegen/kernels/attention.h"
#include "spirv_codegen/kernels/attention_limits.h"
#include "spirv_codegen/kernels/wide_sum.h"
#include "spirv_codegen/kernels/workgroup_meet.h"

namespace krafla::spirv {
namespace {

using plan::AttentionKernel;
using plan::ReduceStage;

class AttentionGroup {
 public:
  AttentionGroup(KernelWriter& w, const AttentionKernel& k, const AttentionPrograms& programs, const Target& target,
                 uint32_t lanes, uint32_t subgroup)
      : w_(w),
        b_(w.b),
        k_(k),
        programs_(programs),
        scores_(k.scores, false),
        product_(k.product, false),
        lanes_(lanes),
        subgroup_(subgroup),
        meet_(w.b, lanes, subgroup),
        chained_(target.tuning.panel.chained_sums) {
    width_ = k.product->n % 4 == 0 ? 4 : 1;
    column_lanes_ = k.product->n / width_;
    slices_ = int64_t{lanes} / column_lanes_;
    // Neighbours along the depth lie side by side: lanes that read them together.
    if (scores_.b.row_stride == 1 && k.scores->k % 4 == 0 && subgroup != 0)
      shares_ = std::bit_floor(static_cast<uint64_t>(std::min({int64_t{8}, int64_t{subgroup}, k.scores->k / 4})));
  }

  Result<EmittedDispatch> Emit() {
    const int64_t groups = Product(k_.scores->batch) * k_.scores->m;
    KRAFLA_ASSIGN(const Grid grid, FoldGrid(groups, w_.profile));
    const Value group = GroupNumber(b_, grid);
    ForItem(b_, grid.exact, group, groups, [&] {
      batch_ = b_.UDiv(group, U(k_.scores->m));
      row_ = b_.UMod(group, U(k_.scores->m));
      LoadQuery();
      ReduceColumns();
      EmitWeights();
      b_.WorkgroupBarrier();
      EmitProduct();
    });
    return EmittedDispatch{0, grid.size, {}};
  }

 private:
  static constexpr int kTurn = 4;  // columns of the product's turn

  Value U(int64_t v) { return b_.U32(static_cast<uint32_t>(v)); }
  int rank() const { return static_cast<int>(k_.scores->batch.size()); }

  // A program over the row and one more dimension.
  ProgramLowering AtRow(const plan::ElementProgram& program) {
    ProgramLowering out(b_, w_.buffers, program);
    out.SetLinear(batch_, 0, rank());
    out.SetIter(rank(), row_);
    for (std::size_t i = 0; i < known_.size(); ++i) out.SetParam(static_cast<int>(i), known_[i]);
    return out;
  }

  // The query, which all lanes read.
  void LoadQuery() {
    const auto query = scores_.Operand(w_, DotProblem::Which::kA, batch_, ReadAs{ElementType::kF32, false}, true, true);
    const int64_t depth = k_.scores->k;
    query_ = b_.SharedArray(Kind::kF32, 1, static_cast<uint32_t>(depth));
    line_ = b_.SharedArray(Kind::kF32, 1, static_cast<uint32_t>(k_.scores->n));
    b_.For(b_.LocalIndex(), U(depth), U(lanes_), [&](Value d) {
      Value element;
      query->Load(row_, 1, d, 1, std::span(&element, 1));
      b_.StoreShared(query_, d, element);
    });
    b_.WorkgroupBarrier();
  }

  // The scores of the columns that the row has left, and the reductions over them.
  void ReduceColumns() {
    begin_ = U(0), end_ = U(k_.scores->n);
    if (!k_.limits) {
      ReduceThese();
      return;
    }
    const ColumnRange mine = LimitsOfRow(w_, k_, batch_, row_);
    const ColumnWalk walk{.step = kTurn,
                          .whole = k_.scores->n,
                          // The row is that of all lanes, and so is what they know of it.
                          .joined = [](Value of_row, const auto&) { return of_row; },
                          .reduce =
                              [&](const ColumnRange& columns) {
                                begin_ = columns.begin, end_ = b_.Min(columns.end, U(k_.scores->n));
                                known_.clear();
                                ReduceThese();
                                return known_;
                              }};
    const WalkedColumns walked = ReduceWithinLimits(w_, k_, walk, mine, IsFiniteOutside(mine));
    begin_ = walked.columns.begin, end_ = b_.Min(walked.columns.end, U(k_.scores->n));
    known_ = walked.known;
  }
  void ReduceThese() {
    EmitScores();
    b_.WorkgroupBarrier();
    EmitReductions();
  }
  // Whether the values of all columns that the row has not left are finite.
  Value IsFiniteOutside(const ColumnRange& left) {
    const int64_t keys = k_.scores->n;
    const auto within = [&](Value v) { return b_.SMin(b_.SMax(v, U(0)), U(keys)); };
    const Value begin = left.begin ? within(left.begin) : U(0), end = left.end ? within(left.end) : U(keys);
    const auto values =
        product_.Operand(w_, DotProblem::Which::kB, batch_, ReadAs{ElementType::kF32, false}, true, true);
    const Value slice = b_.UDiv(b_.LocalIndex(), U(column_lanes_));
    const Value column = b_.Mul(b_.UMod(b_.LocalIndex(), U(column_lanes_)), U(width_));
    const Value most = b_.Splat(b_.F32(std::numeric_limits<float>::max()), width_);
    const auto look = [&](Value first, Value last, Value good) {
      return b_.For(b_.Select(b_.Compare(Cmp::kULt, slice, U(slices_)), b_.Add(first, slice), last), last, U(slices_),
                    {good}, [&](Value key, const Values& so_far) -> Values {
                      Value line;
                      values->Load(b_.Min(key, U(keys - 1)), 1, column, width_, std::span(&line, 1));
                      const Value size = b_.Glsl(GLSLstd450FAbs, {line}, Kind::kF32, width_);
                      return {b_.Select(b_.All(b_.FCompare(FCmp::kLe, size, most)), so_far[0], U(0))};
                    })[0];
    };
    const Value mine = look(end, U(keys), look(U(0), begin, U(1)));
    return b_.Compare(Cmp::kNe, AllOfWorkgroup(b_, mine, lanes_, subgroup_), U(0));
  }

  // Each lane's share of the products with a key.
  void EmitScores() {
    const auto keys = scores_.Operand(w_, DotProblem::Which::kB, batch_, ReadAs{ElementType::kF32, false}, true, true);
    const Value share = shares_ == 1 ? U(0) : b_.And(b_.LocalIndex(), U(shares_ - 1));
    const Value first = shares_ == 1 ? b_.LocalIndex() : b_.UDiv(b_.LocalIndex(), U(shares_));
    const int64_t at_once = lanes_ / shares_;
    ProgramLowering score = AtRow(k_.scores->epilogue);
    score.EmitInvariants(uint64_t{1} << (rank() + 1));
    // All lanes of a key go on together, as they add up what they have: the last turn repeats the last key.
    b_.For(begin_, end_, U(at_once), [&](Value begin) {
      const Value wanted = b_.Add(begin, first), key = b_.Min(wanted, b_.Sub(end_, U(1)));
      const Value sum = SumOfShare(*keys, query_, key, share);
      const Value is_own = b_.LAnd(b_.Compare(Cmp::kULt, wanted, end_), b_.Compare(Cmp::kEq, share, U(0)));
      b_.If(is_own, [&] {
        ProgramLowering lowering = score;
        lowering.SetIter(rank() + 1, key);
        lowering.SetParam(0, AsResult(b_, k_.scores->accumulate_type, k_.scores->result_type, sum));
        b_.StoreShared(line_, key, lowering.Node(programs_.score));
      });
    });
  }

  // The product of the query with a key, of which each of the lanes that share it has computed every `shares_`-th four.
  Value SumOfShare(const MatrixSource& keys, Id query, Value key, Value share) {
    const int64_t depth = k_.scores->k, whole = depth / 4 * 4;
    const auto turn = [&](Value d, int count, Value acc) {
      Value part[4];
      keys.Load(d, count, key, 1, std::span(part, static_cast<std::size_t>(count)));
      for (int i = 0; i < count; ++i)
        acc = MultiplyAdd(b_, acc, b_.LoadShared(query, Kind::kF32, 1, b_.Add(d, U(i))), part[i]);
      return acc;
    };
    Value sum = b_.Zero(Kind::kF32, 1);
    if (whole > 0) {
      const int64_t step = 4 * shares_;
      sum = b_.For(U(0), U(whole / step * step), U(step), {sum}, [&](Value d, const Values& so_far) -> Values {
        return {turn(b_.Add(d, b_.Mul(share, U(4))), 4, so_far[0])};
      })[0];
      // What no turn of all shares takes: fours for the first of them.
      if (const int64_t rest = whole % step; rest > 0) {
        const Value d = b_.Add(U(whole - rest), b_.Mul(share, U(4)));
        const Value more = turn(b_.Min(d, U(whole - 4)), 4, b_.Zero(Kind::kF32, 1));
        sum = b_.FAdd(sum, b_.Select(b_.Compare(Cmp::kULt, d, U(whole)), more, b_.Zero(Kind::kF32, 1)));
      }
    }
    for (int64_t d = whole; d < depth; ++d) sum = turn(U(d), 1, sum);
    for (int64_t mask = 1; mask < shares_; mask *= 2)
      sum = b_.FAdd(sum, b_.SubgroupShuffleXor(sum, static_cast<uint32_t>(mask)));
    return sum;
  }

  // A program of the rows at a column of this one.
  ProgramLowering AtKey(const ProgramLowering& row, Value key) {
    ProgramLowering out = row;
    out.SetIter(rank() + 1, key);
    out.SetParam(programs_.score_param, b_.LoadShared(line_, Kind::kF32, 1, key));
    return out;
  }
  // The reductions of the row; each lane has every `lanes_`-th column.
  void EmitReductions() {
    const auto& stages = k_.rows.stages;
    for (std::size_t s = 0; s + 1 < stages.size(); ++s) {
      if (stages[s].scope == ReduceStage::Scope::kRow) continue;
      const ReductionValues values(b_, w_.buffers, stages[s].reductions, k_.scores->n > int64_t{lanes_} * kSumChain);
      const Values init = values.InitValues();
      ProgramLowering row = AtRow(programs_.stages[s]);
      row.EmitInvariants(uint64_t{1} << (rank() + 1));
      const auto turn = [&](Value key, const Values& state) {
        ProgramLowering lowering = AtKey(row, key);
        return values.Accumulate(state, values.Inputs(programs_.stages[s], lowering), 1);
      };
      const Value first = b_.Add(begin_, b_.LocalIndex());
      const Values mine = values.is_wide() ? values.InChains(first, end_, lanes_, 1, turn)
                                           : b_.For(first, end_, U(lanes_), values.Start(1), turn);
      const Values total = meet_.Meet(values, mine);
      for (Value v : values.Finish(total, init)) known_.push_back(v);
    }
  }
  // The weights of the row in place of its scores.
  void EmitWeights() {
    const auto& stages = k_.rows.stages;
    ProgramLowering last = AtRow(programs_.stages.back());
    last.EmitInvariants(uint64_t{1} << (rank() + 1));
    b_.For(b_.Add(begin_, b_.LocalIndex()), end_, U(lanes_), [&](Value key) {
      ProgramLowering lowering = AtKey(last, key);
      b_.StoreShared(line_, key, lowering.Node(programs_.weight));
    });
    const Value is_first = b_.Compare(Cmp::kEq, b_.LocalIndex(), U(0));
    for (std::size_t s = 0; s < stages.size(); ++s)
      if (stages[s].scope == ReduceStage::Scope::kRow) AtRow(programs_.stages[s]).EmitStores(is_first);
  }

  // What the epilogue of the product reads of the row.
  Values ForProduct() {
    Values out;
    for (const AttentionPrograms::OfRow& r : programs_.of_rows)
      out.push_back(AtRow(programs_.stages[r.stage]).Node(r.node));
    return out;
  }

  // Lanes side by side have neighbouring columns of a slice of the keys; the slices' sums meet in shared memory.
  void EmitProduct() {
    const auto values =
        product_.Operand(w_, DotProblem::Which::kB, batch_, ReadAs{ElementType::kF32, false}, true, true);
    const int64_t keys = k_.scores->n, whole = keys / kTurn * kTurn;
    const Value slice = b_.UDiv(b_.LocalIndex(), U(column_lanes_));
    const Value column = b_.Mul(b_.UMod(b_.LocalIndex(), U(column_lanes_)), U(width_));
    const Value has_slice = b_.Compare(Cmp::kULt, slice, U(slices_));
    const ChainedSums sums(b_, Kind::kF32, width_, 1, CeilDiv(keys, slices_), chained_);
    const auto turn = [&](Value key, int count, const Values& state) -> Values {
      Value lines[4], acc = state[0];
      values->Load(key, count, column, width_, std::span(lines, static_cast<std::size_t>(count)));
      for (int i = 0; i < count; ++i) {
        const Value weight = b_.LoadShared(line_, Kind::kF32, 1, b_.Add(key, U(i)));
        acc = MultiplyAdd(b_, acc, b_.Splat(weight, width_), lines[i]);
      }
      return {acc};
    };
    const auto from = [&](Value first) { return b_.Select(has_slice, first, U(keys)); };
    Values state = sums.Start();
    // Limits are multiples of a turn, or the end of all columns.
    if (whole > 0)
      state = sums.Add(from(b_.Add(begin_, b_.Mul(slice, U(kTurn)))), b_.Min(end_, U(whole)),
                       static_cast<uint32_t>(kTurn * slices_), static_cast<uint32_t>(ChainedSums::kChain / kTurn),
                       state, [&](Value key, const Values& s) { return turn(key, kTurn, s); });
    if (whole < keys)
      state = sums.Absorb(state, [&](const Values& zeros) {
        return b_.For(from(b_.Add(slice, U(whole))), end_, U(slices_), zeros,
                      [&](Value key, const Values& s) { return turn(b_.Min(key, U(keys - 1)), 1, s); });
      });
    const Value mine = sums.Finish(state)[0];
    const Id partial = b_.SharedArray(Kind::kF32, width_, lanes_);
    b_.StoreShared(partial, b_.LocalIndex(), mine);
    b_.WorkgroupBarrier();
    Epilogue epilogue(w_, programs_.product, k_.product->accumulate_type, k_.product->result_type);
    epilogue.SetParams(ForProduct());
    b_.If(b_.Compare(Cmp::kEq, slice, U(0)), [&] {
      Value sum = mine;
      if (slices_ > 1)
        sum = b_.For(U(1), U(slices_), U(1), {mine}, [&](Value s, const Values& so_far) -> Values {
          const Value other = b_.Add(b_.Mul(s, U(column_lanes_)), b_.LocalIndex());
          return {b_.FAdd(so_far[0], b_.LoadShared(partial, Kind::kF32, width_, b_.Min(other, U(lanes_ - 1))))};
        })[0];
      product_.FinishOne(w_, epilogue, batch_, row_, column, sum, {});
    });
  }

  KernelWriter& w_;
  Builder& b_;
  const AttentionKernel& k_;
  const AttentionPrograms& programs_;
  const DotProblem scores_, product_;
  uint32_t lanes_, subgroup_;
  WorkgroupMeet meet_;
  bool chained_;
  int width_ = 1;                          // columns of the result that a lane has
  int64_t column_lanes_ = 1, slices_ = 1;  // lanes of a slice of the keys, and slices
  int64_t shares_ = 1;                     // lanes that share the depth of a key
  // Of the row that is emitted.
  Value batch_, row_;
  Value begin_, end_;          // its columns
  Id query_ = {}, line_ = {};  // its query; its scores, then its weights
  Values known_;               // results of its reductions
};

}  // namespace

int64_t SharedBytesOfAttentionGroup(const AttentionKernel& k, uint32_t lanes) {
  // A query, a line of scores, four columns a lane, whether its values are finite, and what reductions exchange.
  return (k.scores->k + k.scores->n) * 4 + int64_t{lanes} * (k.limits ? 20 : 16) + 4096;
}

Result<EmittedDispatch> EmitAttentionGroup(KernelWriter& w, const AttentionKernel& kernel,
                                           const AttentionPrograms& programs, const Target& target, uint32_t lanes,
                                           uint32_t subgroup) {
  return AttentionGroup(w, kernel, programs, target, lanes, subgroup).Emit();
}

}  // namespace krafla::spirv
