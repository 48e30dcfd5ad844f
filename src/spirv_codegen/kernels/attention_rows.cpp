// SPDX-License-Identifier: Apache-2.0
// attention.rows. The keys are gone through once for the reductions of the scores, and once more for the product with
// the values: each weight is then computed as the program says, from results that are known.

#include "base/checked_math.h"
#include "spirv_codegen/kernels/attention_limits.h"
#include "spirv_codegen/kernels/exponential_sum.h"
#include "spirv_codegen/kernels/wide_sum.h"

namespace krafla::spirv {
namespace {

using plan::AttentionKernel;
using plan::DotKernel;
using plan::ReduceStage;

class AttentionRows {
 public:
  AttentionRows(KernelWriter& w, const AttentionKernel& k, const AttentionPrograms& programs, const Target& target)
      : w_(w),
        b_(w.b),
        k_(k),
        programs_(programs),
        scores_(k.scores, false),
        product_(k.product, false),
        lanes_(WorkgroupSize(target.profile, target.tuning.attention.row_lanes)),
        is_one_subgroup_(IsOneSubgroup(target, lanes_)),
        chained_(target.tuning.panel.chained_sums) {
    const int64_t wanted = target.tuning.attention.keys_at_once;
    quads_ = static_cast<int>(k.scores->n % wanted == 0 ? wanted / 4 : 1);
    whole_ = k.scores->n / 4 * 4;
    const auto is_narrow = [](const DotKernel& dot) { return dot.computes_rhs() || StorageBytes(dot.rhs_type) < 4; };
    int64_t rows = is_narrow(k.scores) || is_narrow(k.product) ? target.tuning.attention.narrow_rows_at_once
                                                               : target.tuning.attention.rows_at_once;
    // A workgroup has no more rows than there are.
    while (rows > 1 && k.scores->m <= lanes_ * (rows / 2)) rows /= 2;
    rows_.resize(static_cast<std::size_t>(rows));
  }

  Result<EmittedDispatch> Emit() {
    const int64_t row_blocks = CeilDiv(k_.scores->m, int64_t{lanes_} * std::ssize(rows_)),
                  groups = Product(k_.scores->batch) * row_blocks;
    KRAFLA_ASSIGN(const Grid grid, FoldGrid(groups, w_.profile));
    const Value group = GroupNumber(b_, grid);
    ForItem(b_, grid.exact, group, groups,
            [&] { EmitGroup(b_.UDiv(group, U(row_blocks)), b_.UMod(group, U(row_blocks))); });
    return EmittedDispatch{0, grid.size, {}};
  }

 private:
  Value U(int64_t v) { return b_.U32(static_cast<uint32_t>(v)); }
  int rank() const { return static_cast<int>(k_.scores->batch.size()); }

  // A row that the invocation has: the neighbours of a lane's row are the other lanes'.
  struct Row {
    Value number, exists;  // `exists` is empty where all rows do; `number` is one that does
    Values query;
    Values known;  // results of the reductions so far
  };

  void EmitGroup(Value batch, Value block) {
    batch_ = batch;
    const ReadAs as{ElementType::kF32, false};
    const auto queries = scores_.Operand(w_, DotProblem::Which::kA, batch, as, true, true);
    keys_ = scores_.Operand(w_, DotProblem::Which::kB, batch, as, true, true);
    values_ = product_.Operand(w_, DotProblem::Which::kB, batch, as, true, true);
    const int64_t together = int64_t{lanes_} * static_cast<int64_t>(rows_.size());
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      const Value row =
          b_.Add(b_.Mul(block, U(together)), b_.Add(b_.LocalIndex(), U(static_cast<int64_t>(r) * lanes_)));
      const bool exact = k_.scores->m % together == 0;
      if (!exact) rows_[r].exists = b_.Compare(Cmp::kULt, row, U(k_.scores->m));
      rows_[r].number = exact ? row : b_.Min(row, U(k_.scores->m - 1));
      LoadQuery(*queries, rows_[r]);
    }
    begin_ = U(0), end_ = U(whole_);
    if (k_.limits && whole_ > 0) ReduceWithin();
    else Reduce();
    EmitProduct();
    for (const Row& row : rows_) EmitRowStages(row);
  }

  // All reductions.
  void Reduce() {
    const std::optional<ExponentialSum> sum = FindExponentialSum(k_, programs_);
    for (std::size_t s = 0; s + 1 < k_.rows.stages.size(); ++s) {
      if (k_.rows.stages[s].scope == ReduceStage::Scope::kRow) continue;
      if (sum && s == sum->before) SweepWithSum(*sum);
      else if (!sum || s != sum->sum) Sweep(s);
    }
  }

  // The same over the columns that a mask leaves the workgroup's rows, where those suffice.
  void ReduceWithin() {
    // Of all rows of the workgroup, in a way that compilers see to be the same in all lanes. llvmpipe makes a coroutine
    // of a kernel with barriers, and computes anew behind each what was computed before it: subgroups do without.
    const auto joined = [&](Value mine, const std::function<Value(Value, Value)>& join) {
      if (is_one_subgroup_) {
        Value all = b_.SubgroupBroadcast(mine, 0);
        for (uint32_t lane = 1; lane < lanes_; ++lane) all = join(all, b_.SubgroupBroadcast(mine, lane));
        return all;
      }
      if (exchange_ == 0) exchange_ = b_.SharedArray(Kind::kU32, 1, lanes_);
      b_.WorkgroupBarrier();
      b_.StoreShared(exchange_, b_.LocalIndex(), mine);
      b_.WorkgroupBarrier();
      const Value first = b_.LoadShared(exchange_, Kind::kU32, 1, U(0));
      return b_.For(U(1), U(lanes_), U(1), {first}, [&](Value lane, const Values& so_far) -> Values {
        return {join(so_far[0], b_.LoadShared(exchange_, Kind::kU32, 1, b_.Min(lane, U(lanes_ - 1))))};
      })[0];
    };
    ColumnRange mine;
    for (const Row& row : rows_) mine = BothOf(b_, mine, LimitsOfRow(w_, k_, batch_, row.number));
    const ColumnWalk walk{.step = int64_t{quads_} * 4,
                          .whole = whole_,
                          .rows = rows_.size(),
                          .joined = joined,
                          .reduce = [&](const ColumnRange& columns) {
                            begin_ = columns.begin, end_ = columns.end;
                            for (Row& row : rows_) row.known.clear();
                            Reduce();
                            return ForEach([&](std::size_t r) { return rows_[r].known; });
                          }};
    const WalkedColumns walked = ReduceWithinLimits(w_, k_, walk, mine, ReadFlags());
    begin_ = walked.columns.begin, end_ = walked.columns.end;
    for (std::size_t r = 0; r < rows_.size(); ++r) rows_[r].known = PartOf(walked.known, r);
  }
  // Whether all values are finite, as the dispatch before has found.
  Value ReadFlags() {
    const int flags = static_cast<int>(w_.plan.bindings.size());
    const Value one = b_.For(U(0), U(kFiniteFlags), U(1), {U(1)}, [&](Value i, const Values& so_far) -> Values {
      return {b_.And(so_far[0], w_.buffers.LoadWords(flags, b_.Min(i, U(kFiniteFlags - 1)), 1))};
    })[0];
    return b_.Compare(Cmp::kNe, one, U(0));
  }

  void LoadQuery(const MatrixSource& source, Row& row) {
    const int64_t depth = k_.scores->k;
    Value part;
    for (int64_t d = 0; d < depth; d += 4) {
      if (d + 4 <= depth) {
        source.Load(row.number, 1, U(d), 4, std::span(&part, 1));
        for (int i = 0; i < 4; ++i) row.query.push_back(b_.Extract(part, i));
        continue;
      }
      for (int64_t e = d; e < depth; ++e) {
        source.Load(row.number, 1, U(e), 1, std::span(&part, 1));
        row.query.push_back(part);
      }
    }
  }

  // A program over the rows and one more dimension, at each row; `width` columns at once.
  using AtRows = std::vector<ProgramLowering>;
  AtRows AtEach(const plan::ElementProgram& program, int width, bool with_known) {
    AtRows out;
    for (const Row& row : rows_) {
      ProgramLowering& at = out.emplace_back(b_, w_.buffers, program, rank() + 1, width);
      at.SetLinear(batch_, 0, rank());
      at.SetIter(rank(), row.number);
      for (std::size_t i = 0; with_known && i < row.known.size(); ++i) at.SetParam(static_cast<int>(i), row.known[i]);
      at.EmitInvariants(uint64_t{1} << (rank() + 1));
    }
    return out;
  }

  // The scores of each row with `width` keys.
  Values ScoresOf(const AtRows& at_rows, Value key, int width) {
    Values acc(rows_.size(), b_.Zero(Kind::kF32, width));
    Value part[4];
    const int64_t depth = k_.scores->k;
    for (int64_t d = 0; d < depth; d += 4) {
      const int count = static_cast<int>(std::min<int64_t>(4, depth - d));
      if (count == 4) keys_->Load(U(d), 4, key, width, part);
      else
        for (int i = 0; i < count; ++i) keys_->Load(U(d + i), 1, key, width, std::span(&part[i], 1));
      for (std::size_t r = 0; r < rows_.size(); ++r)
        for (int i = 0; i < count; ++i)
          acc[r] = MultiplyAdd(b_, acc[r], b_.Splat(rows_[r].query[static_cast<std::size_t>(d + i)], width), part[i]);
    }
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      ProgramLowering lowering = at_rows[r];
      lowering.SetIter(rank() + 1, key);
      lowering.SetParam(0, AsResult(b_, k_.scores->accumulate_type, k_.scores->result_type, acc[r]));
      acc[r] = b_.Splat(lowering.Node(programs_.score), width);
    }
    return acc;
  }
  ProgramLowering At(const ProgramLowering& at_row, Value key, Value score) {
    ProgramLowering out = at_row;
    out.SetIter(rank() + 1, key);
    out.SetParam(programs_.score_param, score);
    return out;
  }
  Values InputsOf(std::size_t stage, const ReductionValues& values, ProgramLowering& lowering, int width) {
    Values out = values.Inputs(k_.rows.stages[stage].program, lowering);
    for (Value& v : out) v = b_.Splat(v, width);
    return out;
  }

  // The values of row `r` of a state, of which each row has as many; and the states of all rows one after the other.
  Values PartOf(const Values& state, std::size_t r) const {
    const std::size_t count = state.size() / rows_.size();
    const auto first = state.begin() + static_cast<std::ptrdiff_t>(r * count);
    return Values(first, first + static_cast<std::ptrdiff_t>(count));
  }
  Values ForEach(const std::function<Values(std::size_t r)>& make) const {
    Values out;
    for (std::size_t r = 0; r < rows_.size(); ++r)
      for (Value v : make(r)) out.push_back(v);
    return out;
  }

  using Turn = std::function<Values(Value key, const Values& state)>;
  // The keys in turns of four times `quads_`.
  Values Walk(Value begin, Value end, const Values& start, const Turn& turn) {
    return b_.For(begin, end, U(int64_t{quads_} * 4), start, turn);
  }
  // The same in chains of kSumChain turns.
  Values WalkChains(const Values& start, const Values& chain, const Turn& turn,
                    const std::function<Values(const Values&, const Values&)>& absorb) {
    const int64_t length = int64_t{quads_} * 4 * kSumChain;
    return b_.For(begin_, end_, U(length), start, [&](Value at, const Values& state) {
      const Value end = b_.Min(b_.Add(at, U(length)), end_);
      return absorb(state, Walk(at, end, chain, turn));
    });
  }
  // What no whole turn takes, one key after the other.
  Values WalkRest(const Values& start, const Turn& turn) {
    return b_.For(U(whole_), U(k_.scores->n), U(1), start, turn);
  }
  bool HasRest() const { return whole_ < k_.scores->n; }

  // Adds the results of a stage's reductions to those that are known.
  void Sweep(std::size_t stage) {
    const bool wide = whole_ > 2 * kSumChain;
    const ReductionValues values(b_, w_.buffers, k_.rows.stages[stage].reductions, wide);
    const Values init = values.InitValues();
    const auto turn_of = [&](int width) -> Turn {
      const AtRows scores = AtEach(k_.scores->epilogue, width, false);
      const AtRows rows = AtEach(programs_.stages[stage], width, true);
      return [this, &values, stage, width, scores, rows](Value key, const Values& state) {
        Values out = state;
        for (int q = 0; q < (width == 4 ? quads_ : 1); ++q) {
          const Value at = b_.Add(key, U(4 * q));
          const Values found = ScoresOf(scores, at, width);
          out = ForEach([&](std::size_t r) {
            ProgramLowering lowering = At(rows[r], at, found[r]);
            return values.Accumulate(PartOf(out, r), InputsOf(stage, values, lowering, width), width);
          });
        }
        return out;
      };
    };
    const auto start = [&](int width) { return ForEach([&](std::size_t) { return values.Start(width); }); };
    const auto chain = [&](int width) { return ForEach([&](std::size_t) { return values.StartChain(width); }); };
    const auto absorb = [&](const Values& all, const Values& more) {
      return ForEach([&](std::size_t r) { return values.Absorb(PartOf(all, r), PartOf(more, r)); });
    };
    Values state = start(1);
    if (whole_ > 0) {
      const Turn turn = turn_of(4);
      const Values four =
          values.is_wide() ? WalkChains(start(4), chain(4), turn, absorb) : Walk(begin_, end_, start(4), turn);
      state = ForEach([&](std::size_t r) { return values.Horizontal(PartOf(four, r), 4); });
    }
    if (HasRest()) {
      const Turn turn = turn_of(1);
      state = values.is_wide() ? absorb(state, WalkRest(chain(1), turn)) : WalkRest(state, turn);
    }
    for (std::size_t r = 0; r < rows_.size(); ++r)
      for (Value v : values.Finish(PartOf(state, r), init)) rows_[r].known.push_back(v);
  }

  // A stage together with the sum of exp(x - h) in the one that follows, for an h that only the first one gives
  // (exponential_sum.h).
  void SweepWithSum(const ExponentialSum& pair) {
    const ReductionValues values(b_, w_.buffers, k_.rows.stages[pair.before].reductions, false);
    const ReductionValues sums(b_, w_.buffers, k_.rows.stages[pair.sum].reductions, false);
    const Values init = values.InitValues(), sum_init = sums.InitValues();
    // A row's state: those of the reductions, which go on through chains, then c and the sum, which begins anew in
    // each; of all chains one more, what the sum has lost.
    const auto reduced = [](Values state, std::size_t others) {
      state.resize(state.size() - others);
      return state;
    };
    const auto with = [](Values state, std::initializer_list<Value> more) {
      state.insert(state.end(), more);
      return state;
    };
    const auto turn_of = [&](int width) -> Turn {
      const AtRows scores = AtEach(k_.scores->epilogue, width, false);
      const AtRows first = AtEach(programs_.stages[pair.before], width, false);
      const AtRows second = AtEach(programs_.stages[pair.sum], width, false);
      return [this, &values, &pair, width, reduced, with, scores, first, second](Value key, const Values& state) {
        std::vector<Values> found;
        const int quads = width == 4 ? quads_ : 1;
        for (int q = 0; q < quads; ++q) found.push_back(ScoresOf(scores, b_.Add(key, U(4 * q)), width));
        return ForEach([&](std::size_t r) {
          const Values before = PartOf(state, r);
          Values out = reduced(before, 2), x;
          for (int q = 0; q < quads; ++q) {
            const Value at = b_.Add(key, U(4 * q)), score = found[static_cast<std::size_t>(q)][r];
            ProgramLowering lowering = At(first[r], at, score);
            out = values.Accumulate(out, InputsOf(pair.before, values, lowering, width), width);
            ProgramLowering exponent = At(second[r], at, score);
            x.push_back(b_.Splat(exponent.Node(pair.x), width));
          }
          const Values chain = AddExponentials(b_, std::span(before).last(2), x);
          return with(out, {chain[0], chain[1]});
        });
      };
    };
    const auto chain_of = [&](const Values& all, int width) {
      return ForEach([&](std::size_t r) {
        return with(reduced(PartOf(all, r), 3), {LeastFinite(b_), b_.Zero(Kind::kF32, width)});
      });
    };
    const auto absorb = [&](const Values& all, const Values& chain) {
      return ForEach([&](std::size_t r) {
        const Values a = PartOf(all, r), c = PartOf(chain, r);
        const Values joined = AbsorbExponentials(b_, std::span(a).last(3), std::span(c).last(2));
        return with(reduced(c, 2), {joined[0], joined[1], joined[2]});
      });
    };
    const auto start = [&](int width) {
      const Value zero = b_.Zero(Kind::kF32, width);
      return ForEach([&](std::size_t) { return with(values.Start(width), {LeastFinite(b_), zero, zero}); });
    };
    Values state = start(1);
    if (whole_ > 0) {
      const Turn turn = turn_of(4);
      const int64_t length = int64_t{quads_} * 4 * kSumChain;
      const Values four = b_.For(begin_, end_, U(length), start(4), [&](Value at, const Values& all) {
        const Value end = b_.Min(b_.Add(at, U(length)), end_);
        return absorb(all, Walk(at, end, chain_of(all, 4), turn));
      });
      state = ForEach([&](std::size_t r) {
        const Values all = PartOf(four, r);
        const std::size_t n = all.size();
        WideSum sum{b_.Extract(all[n - 2], 0), b_.Extract(all[n - 1], 0)};
        for (int i = 1; i < 4; ++i) sum = MergeWide(b_, sum, {b_.Extract(all[n - 2], i), b_.Extract(all[n - 1], i)});
        return with(values.Horizontal(reduced(all, 3), 4), {all[n - 3], sum.high, sum.low});
      });
    }
    if (HasRest()) {
      const Turn turn = turn_of(1);
      state = absorb(state, WalkRest(chain_of(state, 1), turn));
    }
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      const Values all = PartOf(state, r);
      rows_[r].known = values.Finish(reduced(all, 3), init);
      for (Value v : sums.Finish({SumOf(pair, rows_[r], std::span(all).last(3))}, sum_init))
        rows_[r].known.push_back(v);
    }
  }
  // The sum as the program has it.
  Value SumOf(const ExponentialSum& pair, const Row& row, std::span<const Value> state) {
    ProgramLowering lowering(b_, w_.buffers, programs_.stages[pair.sum]);
    lowering.SetLinear(batch_, 0, rank());
    lowering.SetIter(rank(), row.number);
    for (std::size_t i = 0; i < row.known.size(); ++i) lowering.SetParam(static_cast<int>(i), row.known[i]);
    return FinishExponentials(b_, state, lowering.Node(pair.h));
  }

  // ---- The second product.

  void EmitProduct() {
    const int64_t columns = k_.product->n;
    const int width = columns % 4 == 0 ? 4 : 1;
    const auto count = static_cast<std::size_t>(columns / width);
    const ChainedSums sums(b_, Kind::kF32, width, count * rows_.size(), k_.scores->n, chained_);
    const auto turn_of = [&](int keys) -> Turn {
      const AtRows scores = AtEach(k_.scores->epilogue, keys, false);
      const AtRows last = AtEach(programs_.stages.back(), keys, true);
      return [this, count, keys, width, scores, last](Value key, const Values& state) {
        Values out = state;
        for (int q = 0; q < (keys == 4 ? quads_ : 1); ++q) {
          const Value at = b_.Add(key, U(4 * q));
          Values weights = ScoresOf(scores, at, keys);
          for (std::size_t r = 0; r < rows_.size(); ++r) {
            ProgramLowering lowering = At(last[r], at, weights[r]);
            weights[r] = b_.Splat(lowering.Node(programs_.weight), keys);
          }
          for (std::size_t c = 0; c < count; ++c) {
            Value lines[4];
            values_->Load(at, keys, U(static_cast<int64_t>(c) * width), width, lines);
            for (std::size_t r = 0; r < rows_.size(); ++r)
              for (int i = 0; i < keys; ++i)
                out[r * count + c] =
                    MultiplyAdd(b_, out[r * count + c], b_.Splat(b_.Extract(weights[r], i), width), lines[i]);
          }
        }
        return out;
      };
    };
    Values state = sums.Start();
    if (whole_ > 0) {
      const auto step = static_cast<uint32_t>(quads_ * 4);
      state = sums.Add(begin_, end_, step, static_cast<uint32_t>(ChainedSums::kChain) / step, state, turn_of(4));
    }
    if (HasRest()) {
      const Turn turn = turn_of(1);
      state = sums.Absorb(state, [&](const Values& zeros) { return WalkRest(zeros, turn); });
    }
    const Values out = sums.Finish(state);
    Epilogue epilogue(w_, programs_.product, k_.product->accumulate_type, k_.product->result_type);
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      Values of_row;
      for (const AttentionPrograms::OfRow& made : programs_.of_rows)
        of_row.push_back(RowStage(rows_[r], made.stage).Node(made.node));
      epilogue.SetParams(std::move(of_row));
      for (std::size_t c = 0; c < count; ++c)
        product_.FinishOne(w_, epilogue, batch_, rows_[r].number, U(static_cast<int64_t>(c) * width),
                           out[r * count + c], rows_[r].exists);
    }
  }

  ProgramLowering RowStage(const Row& row, std::size_t stage) {
    ProgramLowering out(b_, w_.buffers, programs_.stages[stage]);
    out.SetLinear(batch_, 0, rank());
    out.SetIter(rank(), row.number);
    for (std::size_t i = 0; i < row.known.size(); ++i) out.SetParam(static_cast<int>(i), row.known[i]);
    return out;
  }

  // What is stored once a row.
  void EmitRowStages(const Row& row) {
    for (std::size_t s = 0; s < k_.rows.stages.size(); ++s) {
      if (k_.rows.stages[s].scope == ReduceStage::Scope::kRow) RowStage(row, s).EmitStores(row.exists);
    }
  }

  KernelWriter& w_;
  Builder& b_;
  const AttentionKernel& k_;
  const AttentionPrograms& programs_;
  const DotProblem scores_, product_;
  uint32_t lanes_;
  bool is_one_subgroup_;
  bool chained_;
  int quads_ = 1;      // groups of four keys of a turn
  int64_t whole_ = 0;  // keys that whole groups take
  // Of the group that is emitted.
  Value batch_;
  Value begin_, end_;  // of the keys that whole groups take
  Id exchange_ = {};
  std::vector<Row> rows_;
  std::unique_ptr<MatrixSource> keys_, values_;
};

}  // namespace

Result<EmittedDispatch> EmitAttentionRows(KernelWriter& w, const AttentionKernel& kernel,
                                          const AttentionPrograms& programs, const Target& target) {
  return AttentionRows(w, kernel, programs, target).Emit();
}

}  // namespace krafla::spirv
