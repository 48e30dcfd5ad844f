// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/loop_move.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/checked_math.h"
#include "plan/element_cost.h"
#include "spirv_codegen/block_lowering.h"
#include "spirv_codegen/kernels/loop_tile.h"

namespace krafla::spirv {
namespace {

constexpr int64_t kTurnBytes = 64;  // that are moved in a turn of the loop by one invocation, at the least
constexpr double kTurnCost = 192;   // of the points that are computed in a turn, whose code is written out
constexpr int64_t kLine = 8;        // blocks that are taken together along either side of a tile

class LoopMoveKernel {
 public:
  explicit LoopMoveKernel(const LoopProblem& p)
      : p_(p), block_(*p.move), program_(*block_.program), indices_(IndicesOf(block_)) {
    KRAFLA_CHECK(block_.computes ? indices_.CanCompute() : indices_.CanMove());
  }

  Result<EmittedProgram> Emit() {
    const DeviceProfile& profile = p_.target.profile;
    const LoopTuning& tuning = p_.target.tuning.loop;
    const int64_t items = Items();
    const uint32_t local = WorkgroupSize(profile, tuning.move_local);
    int64_t turns = 1;
    if (tuning.workgroup_points > 0) {
      const int64_t most = std::max<int64_t>(tuning.workgroup_points * kLine / block_.all(), 1);
      turns = std::clamp<int64_t>(CeilDiv(items, tuning.least_workgroups), 1, most);
      turns = std::max<int64_t>(1, turns / local);
    }
    const int64_t together = turns >= TurnsTogether() ? TurnsTogether() : 1;
    turns = turns / together * together;
    const int64_t chunk = turns * local;
    KRAFLA_ASSIGN(Grid grid, FoldGrid(CeilDiv(items, chunk), profile));
    KernelWriter w(p_.plan, p_.target);
    w_ = &w;
    b_ = &w.b;
    words_.emplace(*b_, w.buffers, block_.element_bytes, block_.word_bytes);
    blocks_.emplace(*b_, w.buffers, program_, indices_, block_.word_bytes);
    const bool exact = items % chunk == 0 && grid.exact;
    Value first = b_->Mul(GroupNumber(*b_, grid), U(chunk));
    // A workgroup of one invocation has the same addresses in all lanes.
    if (local > 1) first = b_->Add(first, b_->LocalIndex());
    const auto guarded = [&](Value number) { ForItem(*b_, exact, number, items, [&] { EmitItem(number); }); };
    const auto turn = [&](Value begin) {
      for (int64_t i = 0; i < together; ++i) guarded(b_->Add(begin, U(i * local)));
    };
    if (turns == together) turn(first);
    else b_->For(b_->U32(0), U(chunk), U(together * local), [&](Value offset) { turn(b_->Add(first, offset)); });
    EmittedProgram out;
    out.kernels.push_back(w.Finish({local, 1, 1}, block_.computes ? "loop.words" : "loop.move", Description()));
    out.dispatches.push_back({0, grid.size, {}});
    return out;
  }

 private:
  Value U(int64_t v) { return b_->U32(static_cast<uint32_t>(v)); }
  std::string Description() const {
    const char* what = block_.form == MoveForm::kFlat   ? "of all points"
                       : block_.form == MoveForm::kRows ? "of rows"
                       : block_.form == MoveForm::kTile ? "tiles"
                                                        : "tiles, shifted";
    return Format("{} x {} elements, {}", block_.rows, block_.stored(), what);
  }

  // A turn of the loop costs more than a small block, whose code is short.
  int64_t TurnsTogether() const {
    if (block_.form == MoveForm::kRows) return 1;
    if (block_.computes) {
      const int64_t most = static_cast<int64_t>(kTurnCost / std::max(plan::ProgramCost(program_), 1.0));
      return std::clamp<int64_t>(
          std::min(block_.starts.length != 0 ? kTurnBytes / 4 : kTurnBytes, most) / block_.points, 1, 4);
    }
    return std::clamp<int64_t>(kTurnBytes / (block_.all() * block_.element_bytes), 1,
                               block_.starts.length != 0 ? 2 : 4);
  }

  // Blocks of a row of the result that has its own: it may begin within a word.
  int64_t RowBlocks() const { return CeilDiv(Extent(program_, block_.inner) + block_.per_word() - 1, block_.stored()); }
  // Blocks along a row.
  int64_t Columns() const {
    const bool anywhere = block_.form == MoveForm::kRows || block_.form == MoveForm::kShift;
    return anywhere ? RowBlocks() : CeilDiv(Extent(program_, block_.inner), block_.points);
  }
  int64_t Items() const {
    if (block_.form == MoveForm::kFlat) return CeilDiv(p_.points, block_.points);
    int64_t out = Columns();
    for (int d = 0; d < static_cast<int>(program_.space.dims().size()); ++d)
      if (d != block_.inner)
        out *= d == block_.across ? CeilDiv(Extent(program_, d), block_.rows) : Extent(program_, d);
    return out;
  }

  void EmitItem(Value number) {
    switch (block_.form) {
      case MoveForm::kFlat: return EmitFlat(number);
      case MoveForm::kRows: return EmitRowBlock(number);
      case MoveForm::kTile:
      case MoveForm::kShift: return EmitTile(number);
    }
  }

  void EmitFlat(Value number) {
    ProgramLowering first(*b_, w_->buffers, program_), last(*b_, w_->buffers, program_);
    const Value point = b_->Mul(number, U(block_.points));
    first.SetIter(0, point);
    const bool whole = p_.points % block_.points == 0;
    MoveLowering::Points points{&first, &last, U(block_.points - 1), whole};
    if (!whole) points.distance = b_->Min(points.distance, b_->Sub(U(p_.points - 1), point));
    last.SetIter(0, b_->Add(point, points.distance));
    Limits limits;
    if (!whole) limits.end = b_->Sub(U(p_.points), point);
    const auto finish = [&](Value in_run, Values words) {
      if (block_.computes) words = blocks_->Compute(first, in_run, words);
      StoreWords(first, words, limits);
    };
    if (block_.starts.length == 0) return finish({}, AllWords(points, {}));
    const Value length = U(block_.starts.length);
    const Value in_run = b_->Sub(length, b_->UMod(b_->Add(point, U(block_.starts.phase)), length));
    const Value is_one = b_->Compare(Cmp::kUGe, in_run, U(block_.points));
    for (const plan::NodeId id : indices_.loads()) first.Index(program_.nodes[static_cast<std::size_t>(id)].index);
    // What one side emits is not there for the other one.
    const auto side = [&](Value split) {
      ProgramLowering here = first, there = last;
      MoveLowering::Points at = points;
      at.first = &here, at.last = &there;
      return AllWords(at, split);
    };
    const Values words = b_->If(is_one, [&] { return side({}); }, [&] { return side(in_run); });
    finish(in_run, words);
  }

  void EmitRowBlock(Value number) {
    ProgramLowering first(*b_, w_->buffers, program_), begin(*b_, w_->buffers, program_);
    const int64_t blocks = RowBlocks(), row = Extent(program_, block_.inner);
    const Value row_number = b_->UDiv(number, U(blocks));
    const Value block = b_->Sub(number, b_->Mul(row_number, U(blocks)));
    for (ProgramLowering* lowering : {&first, &begin}) SetOutside(*lowering, row_number);
    begin.SetIter(block_.inner, b_->U32(0));
    // The first block begins with the word that the row's first element is stored to.
    const Value before = b_->And(begin.Index(program_.stores[0].index), U(block_.per_word() - 1));
    const Value at = b_->Sub(b_->Mul(block, U(block_.points)), before);
    first.SetIter(block_.inner, at);
    const MoveLowering::Points points{&first, nullptr, {}, false};
    Limits limits{b_->Neg(at), b_->Sub(U(row), at)};
    Store(points, first, {}, limits);
  }

  // Tiles are taken in squares of kLine by kLine, as far as the extents allow, so that lines of memory that one of them
  // has read are there for the next.
  void EmitTile(Value number) {
    ProgramLowering first(*b_, w_->buffers, program_);
    Value rest = number;
    const auto take = [&](int64_t extent) {
      const Value quotient = b_->UDiv(rest, U(extent));
      const Value out = b_->Sub(rest, b_->Mul(quotient, U(extent)));
      rest = quotient;
      return out;
    };
    const int64_t columns = Columns();
    const int64_t rows = CeilDiv(Extent(program_, block_.across), block_.rows);
    if (block_.form == MoveForm::kShift) {
      // Lanes lie along the rows, as the elements do in memory, and so few of them have the ends of rows.
      const Value row = take(rows), column = take(columns);
      SetOutside(first, rest);
      return EmitShifted(first, row, b_->Mul(column, U(block_.stored())));
    }
    const int64_t near_columns = std::gcd(columns, kLine), near_rows = std::gcd(rows, kLine);
    Value column = take(near_columns), row = take(near_rows);
    column = b_->Add(column, b_->Mul(take(columns / near_columns), U(near_columns)));
    row = b_->Add(row, b_->Mul(take(rows / near_rows), U(near_rows)));
    SetOutside(first, rest);
    const auto set = [&](int dim, Value block, int64_t count) {
      const Value at = b_->Mul(block, U(count));
      const int64_t extent = Extent(program_, dim);
      first.SetIter(dim, extent % count == 0 ? at : b_->Min(at, U(extent - count)));
    };
    set(block_.inner, column, block_.points);
    set(block_.across, row, block_.rows);
    Store({&first, nullptr, {}, true}, first, {}, {});
  }

  // A tile whose rows begin at column `begin` or up to a word before it, where each row's words begin.
  void EmitShifted(ProgramLowering& first, Value row, Value begin) {
    const int64_t extent = Extent(program_, block_.inner), rows = Extent(program_, block_.across);
    const Value across = b_->Mul(row, U(block_.rows));
    first.SetIter(block_.across, rows % block_.rows == 0 ? across : b_->Min(across, U(rows - block_.rows)));
    first.SetIter(block_.inner, b_->Sub(begin, U(block_.per_word())));
    const Values read = AllWords({&first, nullptr, {}, false}, {});
    const auto count = static_cast<std::size_t>(block_.stored() / block_.per_word());
    // Of each row its words, where the first one lies, and how many elements lie before it.
    Values lines;
    for (std::size_t i = 0; i < read.size() / (count + 1); ++i) {
      const plan::Store& to = program_.stores[i / static_cast<std::size_t>(block_.rows)];
      const MoveIndices::Step step = *indices_.Of(to.index);
      const auto in_block = i % static_cast<std::size_t>(block_.rows) * static_cast<std::size_t>(block_.points);
      const Value index =
          b_->Add(first.Index(to.index), U(step.offsets.at[in_block] - step.offsets.at[0] + block_.per_word()));
      const Value phase = b_->And(index, U(block_.per_word() - 1));
      for (std::size_t n = 0; n < count; ++n)
        lines.push_back(words_->Shifted(read[i * (count + 1) + n], read[i * (count + 1) + n + 1], phase));
      lines.push_back(b_->Sub(index, phase));
      lines.push_back(b_->Sub(phase, begin));
    }
    const Value before = b_->Compare(Cmp::kUGe, begin, U(block_.per_word() - 1));
    const Value all = b_->LAnd(before, b_->Compare(Cmp::kULe, begin, U(extent - block_.stored())));
    const auto line = count + 2;
    for (std::size_t s = 0; s < program_.stores.size(); ++s) {
      const auto per_store = lines.size() / program_.stores.size();
      const Values own(lines.begin() + static_cast<std::ptrdiff_t>(s * per_store),
                       lines.begin() + static_cast<std::ptrdiff_t>((s + 1) * per_store));
      const int buffer = program_.stores[s].buffer;
      const auto place = [&](const Values& of, std::size_t at, std::size_t n) {
        const auto element = static_cast<int64_t>(n) * block_.per_word();
        return Place{*words_, buffer, b_->Add(of[at + count], U(element)), of[at + n], element};
      };
      b_->If(all, [&] {
        for (std::size_t at = 0; at < per_store; at += line)
          for (std::size_t n = 0; n < count; ++n) {
            Place p = place(own, at, n);
            p.words.Store(p.buffer, p.index, p.word);
          }
      });
      // The ends of rows one row after the other: their code is long.
      b_->If(b_->LNot(all), [&] {
        b_->For(b_->U32(0), U(block_.rows), b_->U32(1), own, [&](Value, const Values& now) {
          const Value at = now[count + 1];
          const Limits limits{at, b_->Add(at, U(extent))};
          for (std::size_t n = 0; n < count; ++n) {
            Place p = place(now, 0, n);
            StorePart(p, limits);
          }
          Values next(now.begin() + static_cast<std::ptrdiff_t>(line), now.end());
          next.insert(next.end(), now.begin(), now.begin() + static_cast<std::ptrdiff_t>(line));
          return next;
        });
      });
    }
  }

  // The coordinates of the dimensions that blocks do not lie along, from a position in them.
  void SetOutside(ProgramLowering& lowering, Value position) {
    for (int d = static_cast<int>(program_.space.dims().size()) - 1; d >= 0; --d) {
      if (d == block_.inner || d == block_.across) continue;
      const int64_t extent = Extent(program_, d);
      const Value quotient = b_->UDiv(position, U(extent));
      lowering.SetIter(d, b_->Sub(position, b_->Mul(quotient, U(extent))));
      position = quotient;
    }
  }

  // The words of all stores, one store's behind another's, or what they are computed from.
  Values AllWords(const MoveLowering::Points& points, Value in_run) {
    if (block_.computes) return blocks_->Given(points, in_run);
    MoveLowering lowering(*b_, w_->buffers, program_, indices_, *words_, points);
    Values out;
    for (const plan::Store& s : program_.stores) {
      const Values words = lowering.WordsOf(s, in_run);
      out.insert(out.end(), words.begin(), words.end());
    }
    return out;
  }

  // The block's elements that are stored: those from `begin` to before `end`, which are signed; no values: all.
  struct Limits {
    Value begin, end;
  };
  void Store(const MoveLowering::Points& points, ProgramLowering& first, Value in_run, const Limits& limits) {
    StoreWords(first, AllWords(points, in_run), limits);
  }

  void StoreWords(ProgramLowering& first, const Values& words, const Limits& limits) {
    std::vector<Place> places;
    for (const plan::Store& to : program_.stores) {
      const MoveIndices::Step step = *indices_.Of(to.index);
      const Value index = first.Index(to.index);
      const WordLayout layout = LayoutOfStore(to, block_.points, block_.word_bytes);
      const ElementWords own(*b_, w_->buffers, layout.element_bytes, layout.word_bytes);
      for (int64_t element = 0; element < block_.all(); element += own.per_word()) {
        const int64_t at = step.offsets.at[static_cast<std::size_t>(element)] - step.offsets.at[0];
        places.push_back({own, to.buffer, b_->Add(index, U(at)), words[places.size()], element});
      }
    }
    const auto whole = [&] {
      for (Place& p : places) p.words.Store(p.buffer, p.index, p.word);
    };
    if (!limits.end) return whole();
    const Value all = Are(0, block_.all(), limits);
    b_->If(all, whole);
    b_->If(b_->LNot(all), [&] {
      for (Place& p : places) StorePart(p, limits);
    });
  }

  // A word of a store, whose first element is element number `element` of the block.
  struct Place {
    ElementWords words;
    int buffer = 0;
    Value index, word;
    int64_t element = 0;
  };
  void StorePart(Place& p, const Limits& limits) {
    const int per_word = p.words.per_word();
    const Value are = Are(p.element, p.element + per_word, limits);
    b_->If(are, [&] { p.words.Store(p.buffer, p.index, p.word); });
    if (per_word == 1) return;
    b_->If(b_->LNot(are), [&] {
      for (int i = 0; i < per_word; ++i)
        b_->If(Are(p.element + i, p.element + i + 1, limits),
               [&] { p.words.StoreElement(p.buffer, b_->Add(p.index, U(i)), p.word, i); });
    });
  }
  // Whether all elements from `begin` to before `end` are stored.
  Value Are(int64_t begin, int64_t end, const Limits& limits) {
    const Value below = b_->Compare(Cmp::kSGe, limits.end, U(end));
    return limits.begin ? b_->LAnd(below, b_->Compare(Cmp::kSLe, limits.begin, U(begin))) : below;
  }

  const LoopProblem& p_;
  const MoveBlock& block_;
  const plan::ElementProgram& program_;
  MoveIndices indices_;
  KernelWriter* w_ = nullptr;
  Builder* b_ = nullptr;
  std::optional<ElementWords> words_;
  std::optional<BlockLowering> blocks_;
};

}  // namespace

Refusal RefusesLoopMove(const LoopProblem& p) {
  if (p.target.tuning.loop.move_bytes == 0) return "slow on this device";
  if (!p.move) return "elements lie in no order, or words gain nothing";
  return std::nullopt;
}

Result<EmittedProgram> EmitLoopMove(const LoopProblem& p) { return LoopMoveKernel(p).Emit(); }

}  // namespace krafla::spirv
