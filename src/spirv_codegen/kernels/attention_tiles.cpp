// SPDX-License-Identifier: Apache-2.0
// As attention.rows the keys are gone through once for the reductions of the scores, and once more for the product with
// the values, whose left operand are the weights as the program says, rounded to its type.
#include "spirv_codegen/kernels/attention_tiles.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "base/checked_math.h"
#include "spirv_codegen/kernels/attention_limits.h"
#include "spirv_codegen/kernels/coop_tile.h"
#include "spirv_codegen/kernels/exponential_sum.h"

namespace krafla::spirv {
namespace {

using plan::AttentionKernel;
using plan::ReduceStage;

// Elements of 16 bits in a chunk of the workgroup's memory: a lane makes as many weights at once.
constexpr int kChunkBytes = 16, kUnit = 8;

// What the workgroup's memory holds, in chunks: the queries, a tile of keys, its scores, and its weights. A tile of
// values takes the place of the scores when the weights are there.
struct TileMemory {
  explicit TileMemory(const AttentionTile& t)
      : queries{t.rows, static_cast<int>(t.depth), static_cast<int>(t.shape.k), 2, t.local()},
        keys{t.keys, static_cast<int>(t.depth), static_cast<int>(t.shape.k), 2, t.local()},
        weights{t.rows, t.keys, static_cast<int>(t.shape.k), 2, t.local()},
        values{static_cast<int>(t.columns), t.keys, static_cast<int>(t.shape.k), 2, t.local()},
        scores{t.shape, t.rows, t.keys, t.subgroup_rows, t.subgroup_columns, t.subgroup},
        sums{t.shape, t.rows, static_cast<int>(t.columns), t.subgroup_rows, t.subgroup_columns, t.subgroup} {
    score_stride = (int64_t{t.keys} * 4 + 16) / kChunkBytes;
    keys_at = queries.Chunks();
    scores_at = keys_at + keys.Chunks();
    weights_at = scores_at + std::max(t.rows * score_stride, values.Chunks());
    chunks = weights_at + weights.Chunks();
    strips = StripsOf(sums, chunks, kChunkBytes);
    chunks = std::max(chunks, strips.chunks);
  }
  CoopPart queries, keys, weights, values;
  CoopBlock scores, sums;
  int64_t score_stride = 0, keys_at = 0, scores_at = 0, weights_at = 0, chunks = 0;
  CoopStrips strips;
};

class AttentionTiles {
 public:
  AttentionTiles(KernelWriter& w, const AttentionKernel& k, const AttentionPrograms& programs, const Target& target,
                 const AttentionTile& tile)
      : w_(w),
        b_(w.b),
        matrices_(w.b),
        k_(k),
        programs_(programs),
        tile_(tile),
        laid_(tile),
        scores_(k.scores, false),
        product_(k.product, false),
        most_constant_offset_(target.tuning.coop.most_constant_offset),
        width_(k.scores->n % 4 == 0 ? 4 : 1),
        exact_(k.scores->n % tile.keys == 0) {
    memory_.width = kChunkBytes / 4;
    memory_.array = b_.SharedArray(Kind::kU32, memory_.width, static_cast<uint32_t>(laid_.chunks));
  }

  Result<EmittedDispatch> Emit() {
    const int64_t row_blocks = CeilDiv(k_.scores->m, int64_t{tile_.rows}),
                  groups = Product(k_.scores->batch) * row_blocks;
    KRAFLA_ASSIGN(const Grid grid, FoldGrid(groups, w_.profile));
    const Value group = GroupNumber(b_, grid);
    ForItem(b_, grid.exact, group, groups, [&] {
      batch_ = b_.UDiv(group, U(row_blocks));
      row0_ = b_.Mul(b_.UMod(group, U(row_blocks)), U(tile_.rows));
      EmitTile();
    });
    return EmittedDispatch{0, grid.size, {}};
  }

 private:
  Value U(int64_t v) const { return b_.U32(static_cast<uint32_t>(v)); }
  int rank() const { return static_cast<int>(k_.scores->batch.size()); }
  int64_t tiles() const { return CeilDiv(k_.scores->n, int64_t{tile_.keys}); }

  void EmitTile() {
    // As subgroups number their lanes, whatever numbers their workgroup has for them.
    const Value lane = b_.Add(b_.Mul(b_.SubgroupId(), U(tile_.subgroup)), b_.SubgroupLane());
    share_ = b_.UMod(lane, U(tile_.row_lanes()));
    line_ = b_.UDiv(lane, U(tile_.row_lanes()));
    const Value wanted = b_.Add(row0_, line_);
    row_ = k_.scores->m % tile_.rows == 0 ? wanted : b_.Min(wanted, U(k_.scores->m - 1));
    is_own_ = b_.LAnd(b_.Compare(Cmp::kEq, share_, U(0)), b_.Compare(Cmp::kULt, wanted, U(k_.scores->m)));
    const bool whole_depth = k_.scores->k % tile_.depth == 0;
    operands_ = scores_.Operands(w_, whole_depth, /*raw=*/true);
    CoopOperand queries(w_, scores_.tile, laid_.queries, memory_, 0, most_constant_offset_, operands_.make_a(batch_),
                        true);
    queries.Prepare(b_.LocalIndex(), row0_);
    queries.Stage(queries.Fetch(U(0), U(0), U(0), true));
    scores_of_tile_.emplace(b_, matrices_, laid_.scores, k_.scores->lhs_type, ElementType::kF32, memory_);
    begin_ = U(0), end_ = U(tiles() * tile_.keys);
    if (k_.limits) ReduceWithin();
    else Reduce();
    EmitProduct();
    EmitRowStages();
  }

  // ---- Tiles of keys

  // Keys on their way to the workgroup's memory.
  struct Fetched {
    std::unique_ptr<CoopOperand> operand;
    Values elements;
    void Stage() const { operand->Stage(elements); }
  };
  Fetched FetchKeys(Value key0) {
    Fetched out;
    out.operand = std::make_unique<CoopOperand>(w_, scores_.tile, laid_.keys, memory_, laid_.keys_at,
                                                most_constant_offset_, operands_.make_b(batch_), false);
    out.operand->Prepare(b_.LocalIndex(), key0);
    out.elements = out.operand->Fetch(U(0), U(0), U(0), true);
    return out;
  }

  // Calls `body` with the first key of one tile after the other, whose scores lie in the memory then. Nobody reads
  // scores any more when all have begun the next turn, and nobody the keys when all have multiplied.
  Values Walk(const Values& start, const std::function<Values(Value key0, const Values& state)>& body) {
    const Value last = U((tiles() - 1) * tile_.keys);
    FetchKeys(b_.Min(begin_, last)).Stage();
    b_.WorkgroupBarrier();
    return b_.For(begin_, end_, U(tile_.keys), start, [&](Value at, const Values& state) {
      const Value key0 = b_.Min(at, last);
      const Fetched next = FetchKeys(b_.Min(b_.Add(key0, U(tile_.keys)), last));
      scores_of_tile_->Clear();
      scores_of_tile_->Add(laid_.queries, U(0), laid_.keys, U(laid_.keys_at));
      b_.WorkgroupBarrier();
      scores_of_tile_->Put(U(laid_.scores_at), laid_.score_stride);
      next.Stage();
      b_.WorkgroupBarrier();
      return body(key0, state);
    });
  }

  // Some neighbouring keys of the invocation's row.
  struct Part {
    Value key;   // the first one: one that exists
    Value in;    // whether they do; empty: they do
    Value sums;  // products of the query with them
  };
  // Four keys of the tile, number `four` of the invocation's row.
  using Unit = std::vector<Part>;
  Unit UnitAt(Value key0, Value four) {
    const Value row = b_.Add(b_.Mul(line_, U(laid_.score_stride)), U(laid_.scores_at));
    const Value sums = b_.Bitcast(b_.LoadShared(memory_.array, Kind::kU32, 4, b_.Add(row, four)), Kind::kF32);
    const Value first = b_.Add(key0, b_.Mul(four, U(4)));
    Unit parts;
    for (int j = 0; j < 4; j += width_) {
      Part& part = parts.emplace_back();
      part.key = b_.Add(first, U(j));
      part.sums = width_ == 4 ? sums : b_.Extract(sums, j);
      if (exact_) continue;
      part.in = b_.Compare(Cmp::kULt, part.key, U(k_.scores->n));
      part.key = b_.Min(part.key, U(k_.scores->n - width_));
    }
    return parts;
  }
  // Those that the invocation has: every `row_lanes`-th of its row.
  Values Units(Value key0, const Values& start,
               const std::function<Values(const Unit& parts, const Values& state)>& body) {
    const int64_t units = tile_.keys / 4;
    return b_.For(share_, U(units), U(tile_.row_lanes()), start,
                  [&](Value at, const Values& state) { return body(UnitAt(key0, b_.Min(at, U(units - 1))), state); });
  }

  // ---- Programs at the invocation's row

  ProgramLowering AtRow(const plan::ElementProgram& program, bool with_known, int width) {
    ProgramLowering out(b_, w_.buffers, program, width == 1 ? -1 : rank() + 1, width);
    out.SetLinear(batch_, 0, rank());
    out.SetIter(rank(), row_);
    for (std::size_t i = 0; with_known && i < known_.size(); ++i) out.SetParam(static_cast<int>(i), known_[i]);
    return out;
  }
  // The same for one more dimension, along which it goes on.
  ProgramLowering AlongRow(const plan::ElementProgram& program, bool with_known) {
    ProgramLowering out = AtRow(program, with_known, width_);
    out.EmitInvariants(uint64_t{1} << (rank() + 1));
    return out;
  }
  Value ScoreOf(const ProgramLowering& scores, const Part& part) {
    ProgramLowering at = scores;
    at.SetIter(rank() + 1, part.key);
    at.SetParam(0, AsResult(b_, k_.scores->accumulate_type, k_.scores->result_type, part.sums));
    return b_.Splat(at.Node(programs_.score), width_);
  }
  ProgramLowering At(const ProgramLowering& row, const Part& part, Value score) {
    ProgramLowering out = row;
    out.SetIter(rank() + 1, part.key);
    out.SetParam(programs_.score_param, score);
    return out;
  }
  Value OnlyIn(const Part& part, Value v, Value otherwise) { return part.in ? b_.Select(part.in, v, otherwise) : v; }
  Values Accumulate(const ReductionValues& values, std::size_t stage, const Values& state, const Part& part,
                    ProgramLowering& at) {
    Values out = values.Accumulate(state, values.Inputs(k_.rows.stages[stage].program, at), width_);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = OnlyIn(part, out[i], state[i]);
    return out;
  }

  // ---- Reductions

  void Reduce() {
    known_.clear();
    const std::optional<ExponentialSum> sum = FindExponentialSum(k_, programs_);
    for (std::size_t s = 0; s + 1 < k_.rows.stages.size(); ++s) {
      if (k_.rows.stages[s].scope == ReduceStage::Scope::kRow) continue;
      if (sum && s == sum->before) SweepWithSum(*sum);
      else if (!sum || s != sum->sum) Sweep(s);
    }
  }

  // Adds the results of a stage's reductions to those that are known. What a tile adds is a chain.
  void Sweep(std::size_t stage) {
    const ReductionValues values(b_, w_.buffers, k_.rows.stages[stage].reductions, true);
    const ReductionValues chains(b_, w_.buffers, k_.rows.stages[stage].reductions);
    const Values init = values.InitValues();
    const ProgramLowering scores = AlongRow(k_.scores->epilogue, false);
    const ProgramLowering row = AlongRow(programs_.stages[stage], true);
    const Values state = Walk(values.Start(1), [&](Value key0, const Values& all) {
      const Values chain = Units(key0, chains.Start(width_), [&](const Unit& parts, Values so_far) {
        for (const Part& part : parts) {
          ProgramLowering at = At(row, part, ScoreOf(scores, part));
          so_far = Accumulate(chains, stage, so_far, part, at);
        }
        return so_far;
      });
      return values.Absorb(all, chains.Horizontal(chain, width_));
    });
    for (Value v : values.Finish(values.MergeSubgroup(state, static_cast<uint32_t>(tile_.row_lanes())), init))
      known_.push_back(v);
  }

  // A stage together with the sum of exp(x - h) in the one that follows, for an h that only the first one gives
  // (exponential_sum.h). The state is that of the reductions, then that of the sum.
  void SweepWithSum(const ExponentialSum& pair) {
    const ReductionValues values(b_, w_.buffers, k_.rows.stages[pair.before].reductions, true);
    const ReductionValues chains(b_, w_.buffers, k_.rows.stages[pair.before].reductions);
    const ReductionValues sums(b_, w_.buffers, k_.rows.stages[pair.sum].reductions);
    const Values init = values.InitValues(), sum_init = sums.InitValues();
    const ProgramLowering scores = AlongRow(k_.scores->epilogue, false);
    const ProgramLowering first = AlongRow(programs_.stages[pair.before], false);
    const ProgramLowering second = AlongRow(programs_.stages[pair.sum], false);
    const auto reduced = [](const Values& state, std::ptrdiff_t others) {
      return Values(state.begin(), state.end() - others);
    };
    const auto with = [](Values state, const Values& more) {
      state.insert(state.end(), more.begin(), more.end());
      return state;
    };
    const auto last = [](const Values& state, std::size_t count) { return std::span(state).last(count); };
    const Value lowest = b_.Splat(b_.F32(-std::numeric_limits<float>::infinity()), width_);
    const Value zero = b_.Zero(Kind::kF32);
    const Values start = with(values.Start(1), {LeastFinite(b_), zero, zero});
    Values state = Walk(start, [&](Value key0, const Values& all) {
      const Values empty = with(chains.Start(width_), {all[all.size() - 3], b_.Zero(Kind::kF32, width_)});
      Values chain = Units(key0, empty, [&](const Unit& parts, const Values& so_far) {
        Values out = reduced(so_far, 2), x;
        for (const Part& part : parts) {
          const Value score = ScoreOf(scores, part);
          ProgramLowering at = At(first, part, score);
          out = Accumulate(chains, pair.before, out, part, at);
          ProgramLowering exponent = At(second, part, score);
          x.push_back(OnlyIn(part, b_.Splat(exponent.Node(pair.x), width_), lowest));
        }
        return with(out, AddExponentials(b_, last(so_far, 2), x));
      });
      const Value lanes = chain.back();
      Value sum = b_.Extract(lanes, 0);
      for (int i = 1; i < width_; ++i) sum = b_.FAdd(sum, b_.Extract(lanes, i));
      const Values joined = values.Absorb(reduced(all, 3), chains.Horizontal(reduced(chain, 2), width_));
      return with(joined, AbsorbExponentials(b_, last(all, 3), Values{chain[chain.size() - 2], sum}));
    });
    Values exponentials(state.end() - 3, state.end());
    for (uint32_t mask = 1; mask < tile_.row_lanes(); mask *= 2) {
      Values other;
      for (Value v : exponentials) other.push_back(b_.SubgroupShuffleXor(v, mask));
      exponentials = MeetExponentials(b_, exponentials, other);
    }
    const Values total = values.MergeSubgroup(reduced(state, 3), static_cast<uint32_t>(tile_.row_lanes()));
    known_ = values.Finish(total, init);
    ProgramLowering at = AtRow(programs_.stages[pair.sum], true, 1);
    for (Value v : sums.Finish({FinishExponentials(b_, exponentials, at.Node(pair.h))}, sum_init)) known_.push_back(v);
  }

  // The same over the columns that a mask leaves the workgroup's rows, where those suffice.
  void ReduceWithin() {
    const auto subgroups = static_cast<uint32_t>(tile_.subgroup_rows * tile_.subgroup_columns);
    const Id exchange = b_.SharedArray(Kind::kU32, 1, subgroups);
    const auto joined = [&](Value mine, const std::function<Value(Value, Value)>& join) {
      for (uint32_t mask = 1; mask < tile_.subgroup; mask *= 2) mine = join(mine, b_.SubgroupShuffleXor(mine, mask));
      b_.WorkgroupBarrier();
      b_.If(b_.Compare(Cmp::kEq, b_.SubgroupLane(), U(0)), [&] { b_.StoreShared(exchange, b_.SubgroupId(), mine); });
      b_.WorkgroupBarrier();
      Value all = b_.LoadShared(exchange, Kind::kU32, 1, U(0));
      for (uint32_t i = 1; i < subgroups; ++i) all = join(all, b_.LoadShared(exchange, Kind::kU32, 1, U(i)));
      return all;
    };
    const int flags = static_cast<int>(w_.plan.bindings.size());
    Value finite = U(1);
    for (uint32_t i = 0; i < kFiniteFlags; i += tile_.local())
      finite = b_.And(finite, w_.buffers.LoadWords(flags, b_.UMod(b_.Add(b_.LocalIndex(), U(i)), U(kFiniteFlags)), 1));
    const ColumnWalk walk{
        .step = tile_.keys, .whole = tiles() * tile_.keys, .joined = joined, .reduce = [&](const ColumnRange& columns) {
          begin_ = columns.begin, end_ = columns.end;
          Reduce();
          return known_;
        }};
    const Value all_finite = joined(finite, [&](Value x, Value y) { return b_.And(x, y); });
    WalkedColumns walked =
        ReduceWithinLimits(w_, k_, walk, LimitsOfRow(w_, k_, batch_, row_), b_.Compare(Cmp::kNe, all_finite, U(0)));
    begin_ = walked.columns.begin, end_ = walked.columns.end;
    known_ = std::move(walked.known);
  }

  // ---- The second product

  // The weights of the tile's keys into the workgroup's memory, a chunk at once. Its halves are turns of a loop: all
  // that makes a weight is in registers beside the result's sums.
  void PutWeights(Value key0, const ProgramLowering& scores, const ProgramLowering& row) {
    constexpr int kHalf = kUnit / 4;
    const int64_t chunks = tile_.keys / kUnit;
    const Value line = b_.Add(b_.Mul(line_, U(laid_.weights.Stride())), U(laid_.weights_at));
    b_.For(share_, U(chunks), U(tile_.row_lanes()), [&](Value at) {
      const Value chunk = b_.Min(at, U(chunks - 1));
      const Values words = b_.For(
          U(0), U(kHalf), U(1), Values(kChunkBytes / 4, U(0)),
          [&](Value half, const Values& before) {
            Values out(before.begin() + kHalf, before.end());
            for (Value v : WeightWords(UnitAt(key0, b_.Add(b_.Mul(chunk, U(kHalf)), half)), scores, row))
              out.push_back(v);
            return out;
          },
          Unroll::kNever);
      b_.StoreShared(memory_.array, b_.Add(line, chunk), b_.Composite(words));
    });
  }
  // Two weights in each.
  Values WeightWords(const Unit& parts, const ProgramLowering& scores, const ProgramLowering& row) {
    Values halves;
    for (const Part& part : parts) {
      ProgramLowering at = At(row, part, ScoreOf(scores, part));
      const Value weight = ToStorage(b_, k_.product->lhs_type, b_.Splat(at.Node(programs_.weight), width_));
      const Value kept = OnlyIn(part, weight, b_.Zero(Kind::kU32, width_));
      for (int i = 0; i < width_; ++i) halves.push_back(b_.Extract(kept, i));
    }
    Values words;
    for (std::size_t i = 0; i < halves.size(); i += 2) words.push_back(b_.Or(halves[i], b_.Shl(halves[i + 1], U(16))));
    return words;
  }

  void EmitProduct() {
    const TileOperands product = product_.Operands(w_, exact_, /*raw=*/true);
    CoopSums sums(b_, matrices_, laid_.sums, k_.product->lhs_type, ElementType::kF32, memory_);
    CoopOperand values(w_, product_.tile, laid_.values, memory_, laid_.scores_at, most_constant_offset_,
                       product.make_b(batch_), false);
    values.Prepare(b_.LocalIndex(), U(0));
    const auto step = static_cast<int64_t>(values.Strides().step);
    const ProgramLowering scores = AlongRow(k_.scores->epilogue, false);
    const ProgramLowering row = AlongRow(programs_.stages.back(), true);
    Walk({}, [&](Value key0, const Values& none) {
      const Value bytes = b_.Mul(b_.UDiv(key0, U(tile_.keys)), U(step));
      const Values elements = values.Fetch(U(0), key0, bytes, !exact_);
      PutWeights(key0, scores, row);
      b_.WorkgroupBarrier();
      values.Stage(elements);
      b_.WorkgroupBarrier();
      sums.Add(laid_.weights, U(laid_.weights_at), laid_.values, U(laid_.scores_at));
      return none;
    });
    b_.WorkgroupBarrier();
    sums.Finish(laid_.strips, product, batch_, row0_, U(0), k_.scores->m);
  }

  // What is stored once a row.
  void EmitRowStages() {
    for (std::size_t s = 0; s < k_.rows.stages.size(); ++s)
      if (k_.rows.stages[s].scope == ReduceStage::Scope::kRow) AtRow(programs_.stages[s], true, 1).EmitStores(is_own_);
  }

  KernelWriter& w_;
  Builder& b_;
  CooperativeMatrices matrices_;
  const AttentionKernel& k_;
  const AttentionPrograms& programs_;
  const AttentionTile& tile_;
  const TileMemory laid_;
  const DotProblem scores_, product_;
  int64_t most_constant_offset_;
  int width_;   // keys that programs go on by
  bool exact_;  // all tiles of keys are whole
  CoopMemory memory_;
  // Of the tile that is emitted.
  Value batch_, row0_;
  Value line_, share_;  // of the invocation: its row in the tile, and which of the lanes that share it this is
  Value row_, is_own_;  // the row, or the last one; whether this is the lane that stores what is stored once a row
  TileOperands operands_;
  std::optional<CoopSums> scores_of_tile_;
  Value begin_, end_;  // keys that are gone through
  Values known_;       // results of the reductions so far
};

}  // namespace

std::optional<AttentionTile> ChooseAttentionTile(const AttentionKernel& k, const Target& target, std::string& reason) {
  const auto no = [&](std::string why) {
    reason = std::move(why);
    return std::nullopt;
  };
  const AttentionTuning& tuning = target.tuning.attention;
  if (tuning.tiles.empty()) return no("no workgroup takes a tile of rows on this device");
  const ElementType type = k.scores->lhs_type;
  if (StorageBytes(type) != 2 || k.product->lhs_type != type || k.product->rhs_type != type)
    return no("the operands' types");
  const auto shape = ChooseCoopShape(type, k.scores->rhs_type, ElementType::kF32, target, reason);
  if (!shape) return std::nullopt;
  if (shape->k % kUnit != 0) return no("the device has no shape for these types");
  const int64_t rows = k.scores->m, keys = k.scores->n, batch = Product(k.scores->batch);
  if (rows < shape->m || keys < shape->n || k.scores->k < shape->k || k.product->n == 0) return no("a small problem");
  if (k.scores->k > tuning.most_tile_depth || k.product->n > tuning.most_tile_depth)
    return no(Format("rows of {} and {} elements, longer than the {} of a tile", k.scores->k, k.product->n,
                     tuning.most_tile_depth));
  for (const RowTile& t : tuning.tiles) {
    if (t.least_tiles > 0 && (rows <= t.rows / 2 || keys <= t.keys / 2)) continue;
    AttentionTile out{*shape, t.rows, t.keys, t.subgroup_rows, t.subgroup_columns, CoopSubgroup(target)};
    // A lane for each row at the least.
    while (out.row_lanes() < 1) out.subgroup_rows *= 2;
    out.depth = RoundUp(k.scores->k, int64_t{shape->k});
    out.columns = RoundUp(k.product->n, int64_t{shape->n} * out.subgroup_columns);
    const TileMemory laid(out);
    const int64_t tiles = batch * CeilDiv(rows, int64_t{t.rows});
    const int64_t bytes = laid.chunks * kChunkBytes + (k.limits ? 4 * out.subgroup_rows * out.subgroup_columns : 0);
    if (tiles < t.least_tiles || !laid.scores.Divides() || !laid.sums.Divides() || t.keys % shape->k != 0 ||
        bytes > int64_t{target.profile.limits.max_shared_memory_bytes} || out.row_lanes() > out.subgroup ||
        out.local() != WorkgroupSize(target.profile, out.local()))
      continue;
    // A device that is mostly idle goes through many keys more slowly than three launches that fill it.
    if (tiles < tuning.wanted_tiles && keys > tuning.lone_keys)
      return no(Format("{} workgroups would go through {} keys", tiles, keys));
    return out;
  }
  return no("no tile fits the device's limits");
}

Result<EmittedDispatch> EmitAttentionTiles(KernelWriter& w, const AttentionKernel& kernel,
                                           const AttentionPrograms& programs, const Target& target,
                                           const AttentionTile& tile) {
  return AttentionTiles(w, kernel, programs, target, tile).Emit();
}

}  // namespace krafla::spirv
