// SPDX-License-Identifier: Apache-2.0
// ReduceKernel: rows of elements, reduced in one of four ways.
//   serial     An invocation takes a row, or four neighbouring rows: short rows, windows, columns.
//   subgroup   A subgroup takes a row, and each lane four elements in a turn, where the device's subgroups have one
//   size. workgroup  A workgroup takes a row, and its invocations' results meet in shared memory. split      The
//   elements of few long rows are cut into parts, whose results a second kernel reduces.
// An invocation that takes many elements accumulates them in chains (ReductionValues). All stages of a row run one
// after the other in one kernel. The order of a sum depends on the problem, the profile and the tuning only, never on
// timing.
#include "spirv_codegen/kernels/reduce.h"

#include <algorithm>
#include <limits>

#include "base/checked_math.h"
#include "spirv_codegen/kernels/reduce_choice.h"

namespace krafla::spirv {
namespace {

using plan::ReduceKernel;
using plan::ReduceStage;

// Lays `items` units (rows, groups of rows, or parts of them) over the grid and calls body(item) for each.
Result<EmittedDispatch> OverItems(KernelWriter& w, const ReduceChoice& c, const ReduceTuning& tuning, int64_t items,
                                  int64_t points_an_item, const std::function<void(Value)>& body) {
  Builder& b = w.b;
  const bool per_invocation = c.owner == RowOwner::kInvocation;
  int64_t per_group = per_invocation ? c.local : c.owner == RowOwner::kSubgroup ? c.local / c.subgroup : 1;
  int64_t turns = 1;
  if (tuning.workgroup_points > 0 && c.owner != RowOwner::kWorkgroup) {
    const int64_t groups = CeilDiv(items, per_group);
    turns = std::clamp<int64_t>(tuning.workgroup_points / std::max<int64_t>(points_an_item * per_group, 1), 1,
                                std::max<int64_t>(groups / tuning.least_workgroups, 1));
  }
  KRAFLA_ASSIGN(Grid grid, FoldGrid(CeilDiv(items, per_group * turns), w.profile));
  const bool exact = grid.exact && items % (per_group * turns) == 0;
  Value lane = per_invocation ? b.LocalIndex() : c.owner == RowOwner::kSubgroup ? b.SubgroupId() : b.U32(0);
  const Value first = b.Add(b.Mul(GroupNumber(b, grid), b.U32(static_cast<uint32_t>(per_group * turns))), lane);
  auto guarded = [&](Value item) { ForItem(b, exact, item, items, [&] { body(item); }); };
  b.For(b.U32(0), b.U32(static_cast<uint32_t>(turns * per_group)), b.U32(static_cast<uint32_t>(per_group)),
        [&](Value offset) { guarded(b.Add(first, offset)); });
  return EmittedDispatch{0, grid.size, {}};
}

// The condition that is true in one of the invocations that share a row; none where a row has one invocation.
Value OncePerRow(Builder& b, const ReduceChoice& c) {
  if (c.owner == RowOwner::kSubgroup) return b.Compare(Cmp::kEq, b.SubgroupLane(), b.U32(0));
  if (c.owner == RowOwner::kWorkgroup) return b.Compare(Cmp::kEq, b.LocalIndex(), b.U32(0));
  return {};
}

// Values of a part lie in scratch as words of 32 or 64 bits.
int ScratchBytes(Kind kind) { return KindBits(kind) == 64 ? 8 : 4; }
void StoreScratch(KernelWriter& w, int buffer, Value at, Value value) {
  Value bits = value;
  if (bits.kind == Kind::kBool) bits = w.b.Select(bits, w.b.U32(1), w.b.U32(0));
  const int bytes = ScratchBytes(bits.kind);
  if (bytes == 4) bits = w.b.Bitcast(bits, Kind::kU32);
  w.buffers.Store(buffer, bytes, at, bits);
}
Value LoadScratch(KernelWriter& w, int buffer, Value at, Kind kind) {
  const int bytes = ScratchBytes(kind);
  const Value bits = w.buffers.Load(buffer, bytes, at, 1, kind);
  if (kind == Kind::kBool) return w.b.Compare(Cmp::kNe, bits, w.b.U32(0));
  return bytes == 4 ? w.b.Bitcast(bits, kind) : bits;
}

// One reduction as one kernel or, where rows are split into parts, as two.
class ReduceEmitter {
 public:
  ReduceEmitter(const plan::KernelPlan& plan, const ReduceKernel& k, const Target& target, const ReduceProblem& p)
      : plan_(plan),
        k_(k),
        target_(target),
        tuning_(target.tuning.reduce),
        p_(p),
        choice_(ChooseReduce(k, p, target, /*second_pass=*/false)) {}

  Result<EmittedProgram> Emit() {
    if (choice_.parts <= 1) {
      KRAFLA_TRY(EmitWhole());
    } else {
      LayOutParts();
      KRAFLA_TRY(EmitParts());
      KRAFLA_TRY(EmitJoin());
    }
    return std::move(out_);
  }

 private:
  static Value U32(KernelWriter& w, int64_t v) { return w.b.U32(static_cast<uint32_t>(v)); }

  // Of each line of rows an invocation takes `width` at a time, or one of those that are left over.
  Value FirstRow(KernelWriter& w, Value group, int width) const {
    const int64_t line = RowsOfLine(k_, p_);
    if (line % choice_.row_width == 0) return w.b.Mul(group, U32(w, width));
    const int64_t whole = line / choice_.row_width * choice_.row_width;
    const Value of_line = U32(w, width == 1 ? line - whole : whole / width), number = w.b.UDiv(group, of_line);
    const Value within = w.b.Mul(w.b.Sub(group, w.b.Mul(number, of_line)), U32(w, width));
    return w.b.Add(w.b.Mul(number, U32(w, line)), w.b.Add(within, U32(w, width == 1 ? whole : 0)));
  }
  // The rows that are left over.
  int64_t RowsLeft() const { return p_.rows - RowGroups(k_, p_, choice_.row_width) * choice_.row_width; }
  ReduceChoice ForRowsLeft() const {
    ReduceChoice c = choice_;
    c.row_width = 1;
    c.name = "reduce.serial";
    return c;
  }

  // One pass: all elements of every row.
  Result<> EmitWhole() {
    KRAFLA_TRY(EmitWhole(choice_, RowGroups(k_, p_, choice_.row_width)));
    return RowsLeft() > 0 ? EmitWhole(ForRowsLeft(), RowsLeft()) : Result<>();
  }
  Result<> EmitWhole(const ReduceChoice& c, int64_t items) {
    KernelWriter w(plan_, target_);
    RowEmitter rows(w, k_, p_, c.owner, c.local, c.subgroup, c.row_width);
    KRAFLA_ASSIGN(EmittedDispatch dispatch, OverItems(w, c, tuning_, items, p_.elements * c.row_width, [&](Value item) {
                    ReduceWork work;
                    work.row = FirstRow(w, item, c.row_width);
                    work.begin = w.b.U32(0);
                    work.end = U32(w, p_.elements);
                    work.store_limit = OncePerRow(w.b, c);
                    rows.EmitRow(work);
                  }));
    dispatch.share = ShareOf(c, items);
    AddKernel(out_, w, std::move(dispatch), c.local, c.subgroup, c.name, c.reason);
    return {};
  }
  double ShareOf(const ReduceChoice& c, int64_t items) const {
    return static_cast<double>(items * c.row_width) / static_cast<double>(p_.rows);
  }

  // Partial result j of part q of row r lies in scratch buffer j at q * rows + r, as 32- or 64-bit words.
  void LayOutParts() {
    chunk_ = RoundUp(CeilDiv(p_.elements, choice_.parts), 64);
    parts_ = CeilDiv(p_.elements, chunk_);
    kinds_ = RowEmitter::PartKinds(plan_, k_, target_.profile);
    for (Kind kind : kinds_) {
      const int bytes = ScratchBytes(kind);
      scratch_.push_back({parts_ * p_.rows, bytes});
      out_.scratch_bytes.push_back(parts_ * p_.rows * bytes);
    }
  }
  int ScratchBuffer(std::size_t j) const { return static_cast<int>(plan_.bindings.size() + j); }
  Value ScratchPlace(KernelWriter& w, Value part, Value row) const {
    return w.b.Add(w.b.Mul(part, U32(w, p_.rows)), row);
  }

  // The first pass: every part of every row into scratch.
  Result<> EmitParts() {
    KRAFLA_TRY(EmitParts(choice_, RowGroups(k_, p_, choice_.row_width)));
    return RowsLeft() > 0 ? EmitParts(ForRowsLeft(), RowsLeft()) : Result<>();
  }
  Result<> EmitParts(const ReduceChoice& c, int64_t items) {
    KernelWriter w(plan_, target_, scratch_);
    Builder& b = w.b;
    RowEmitter rows(w, k_, p_, c.owner, c.local, c.subgroup, c.row_width);
    KRAFLA_ASSIGN(EmittedDispatch dispatch,
                  OverItems(w, c, tuning_, items * parts_, chunk_ * c.row_width, [&](Value item) {
                    const Value part = b.UDiv(item, U32(w, items));
                    const Value group = b.Sub(item, b.Mul(part, U32(w, items)));
                    ReduceWork work;
                    work.row = FirstRow(w, group, c.row_width);
                    work.begin = b.Mul(part, U32(w, chunk_));
                    work.end = b.Min(b.Add(work.begin, U32(w, chunk_)), U32(w, p_.elements));
                    rows.EmitPart(work, [&](const Values& values) { StorePart(w, part, work.row, values); });
                  }));
    dispatch.share = ShareOf(c, items);
    AddKernel(out_, w, std::move(dispatch), c.local, c.subgroup, c.name + ".part", c.reason);
    return {};
  }
  void StorePart(KernelWriter& w, Value part, Value row, const Values& values) {
    const auto store = [&] {
      const Value at = ScratchPlace(w, part, row);
      for (std::size_t j = 0; j < values.size(); ++j) {
        if (p_.rows % values[j].width == 0 && RowsOfLine(k_, p_) % values[j].width == 0) {
          StoreScratch(w, ScratchBuffer(j), at, values[j]);
          continue;
        }
        for (int i = 0; i < values[j].width; ++i)
          StoreScratch(w, ScratchBuffer(j), w.b.Add(at, U32(w, i)), w.b.Extract(values[j], i));
      }
    };
    const Value once = OncePerRow(w.b, choice_);
    if (once) w.b.If(once, store);
    else store();
  }

  // The second pass: the parts of a row become its results.
  Result<> EmitJoin() {
    const ReduceChoice c = ChooseJoin();
    KernelWriter w(plan_, target_, scratch_);
    Builder& b = w.b;
    RowEmitter rows(w, k_, p_, c.owner, c.local, c.subgroup, 1);
    KRAFLA_ASSIGN(EmittedDispatch dispatch, OverItems(w, c, tuning_, p_.rows, parts_, [&](Value item) {
                    ReduceWork work;
                    work.row = item;
                    work.begin = b.U32(0);
                    work.end = U32(w, parts_);
                    work.store_limit = OncePerRow(b, c);
                    rows.EmitFromParts(work, [&](Value part) {
                      const Value at = ScratchPlace(w, part, work.row);
                      Values loaded;
                      for (std::size_t j = 0; j < kinds_.size(); ++j)
                        loaded.push_back(LoadScratch(w, ScratchBuffer(j), at, kinds_[j]));
                      return loaded;
                    });
                  }));
    dispatch.share = static_cast<double>(parts_) / static_cast<double>(p_.elements);
    AddKernel(out_, w, std::move(dispatch), c.local, c.subgroup, "reduce.join", c.reason);
    return {};
  }
  ReduceChoice ChooseJoin() const {
    ReduceProblem second = p_;
    second.elements = parts_;
    ReduceChoice c = ChooseReduce(k_, second, target_, /*second_pass=*/true);
    if (p_.rows >= tuning_.serial_join_rows) {
      c = ReduceChoice{};
      c.local = WorkgroupSize(target_.profile, tuning_.join_local);
    }
    c.row_width = 1;
    c.reason = Format("{} parts", parts_);
    return c;
  }

  const plan::KernelPlan& plan_;
  const ReduceKernel& k_;
  const Target& target_;
  const ReduceTuning& tuning_;
  const ReduceProblem& p_;
  const ReduceChoice choice_;
  int64_t chunk_ = 0, parts_ = 0;  // elements of a part, parts of a row
  std::vector<Kind> kinds_;        // of the values of a part
  std::vector<BufferDesc> scratch_;
  EmittedProgram out_;
};

}  // namespace

Result<EmittedProgram> EmitReduce(const plan::KernelPlan& plan, const ReduceKernel& k, const Target& target) {
  const ReduceProblem p = MeasureReduce(k);
  if (p.rows == 0) return EmittedProgram();
  if (p.rows > std::numeric_limits<int32_t>::max() || p.elements > std::numeric_limits<int32_t>::max()) {
    return Unimplemented("The reduction has {} rows of {} elements, more than 32-bit arithmetic numbers.", p.rows,
                         p.elements);
  }
  if (k.stages.empty()) return Unimplemented("The reduction has no stages.");
  return ReduceEmitter(plan, k, target, p).Emit();
}

int64_t EmitReduceInGroup(KernelWriter& w, const ReduceKernel& k, uint32_t local, uint32_t subgroup) {
  const ReduceProblem p = MeasureReduce(k);
  if (p.rows == 0) return 0;
  Builder& b = w.b;
  ReduceWork work;
  work.begin = b.U32(0);
  work.end = b.U32(static_cast<uint32_t>(p.elements));
  const Value rows = b.U32(static_cast<uint32_t>(p.rows));
  const bool stores_elements = std::ranges::any_of(k.stages, [](const ReduceStage& s) {
    return s.scope == ReduceStage::Scope::kElement && !s.program.stores.empty();
  });
  const bool together = local > 1 && p.rows * 4 <= local && (p.elements > 16 || stores_elements);
  if (together) {
    const bool as_subgroup = subgroup == local;
    RowEmitter emitter(w, k, p, as_subgroup ? RowOwner::kSubgroup : RowOwner::kWorkgroup, local,
                       as_subgroup ? subgroup : 0, 1);
    work.once = b.Compare(Cmp::kEq, as_subgroup ? b.SubgroupLane() : b.LocalIndex(), b.U32(0));
    b.For(b.U32(0), rows, b.U32(1), [&](Value row) {
      work.row = row;
      emitter.EmitRow(work);
    });
    return as_subgroup ? 0 : ReduceSharedBytes(k, local);
  }
  RowEmitter emitter(w, k, p, RowOwner::kInvocation, local, 0, 1);
  if (p.rows == 1) {
    work.row = b.U32(0);
    if (local > 1 && stores_elements) {
      b.If(b.Compare(Cmp::kEq, b.LocalIndex(), b.U32(0)), [&] { emitter.EmitRow(work); });
      return 0;
    }
    if (local > 1) work.once = b.Compare(Cmp::kEq, b.LocalIndex(), b.U32(0));
    emitter.EmitRow(work);
    return 0;
  }
  b.For(local > 1 ? b.LocalIndex() : b.U32(0), rows, b.U32(local), [&](Value row) {
    work.row = row;
    emitter.EmitRow(work);
  });
  return 0;
}

}  // namespace krafla::spirv
