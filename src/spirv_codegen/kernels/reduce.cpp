// SPDX-License-Identifier: Apache-2.0
// ReduceKernel: rows x elements, in four ways.
//   serial     an invocation takes a row, or four neighbouring rows: short rows, windows, columns
//   subgroup   a subgroup takes a row, four elements a lane and turn: what CPU-type devices like best
//   workgroup  a workgroup takes a row; partial results meet in shared memory
//   split      few long rows: the elements are cut into parts, whose results a second kernel reduces
// Where an invocation takes more than a chain of elements, it accumulates them in chains (ReductionValues).
// All of them run the stages of a row one after the other in one kernel. The order of a sum depends on the problem and
// the profile only, never on timing.
#include <algorithm>
#include <optional>

#include "base/checked_math.h"
#include "spirv_codegen/kernels/reduce.h"
#include "spirv_codegen/kernels/reduction_values.h"
#include "spirv_codegen/kernels/variant.h"
#include "spirv_codegen/kernels/wide_sum.h"

namespace krafla::spirv {
namespace {

using plan::ReduceKernel;
using plan::ReduceStage;

// Who takes a row.
enum class RowOwner { kInvocation, kSubgroup, kWorkgroup };

struct Problem {
  int64_t rows = 1, elements = 1;
  int row_rank = 0, element_rank = 0;
  int row_dim = -1;      // the last row dimension that is not 1
  int element_dim = -1;  // the same of the elements
};

Problem Measure(const ReduceKernel& k) {
  Problem p;
  p.row_rank = static_cast<int>(k.row_dims.size());
  p.element_rank = static_cast<int>(k.element_dims.size());
  for (int i = 0; i < p.row_rank; ++i) {
    const int64_t d = k.row_dims[static_cast<std::size_t>(i)];
    p.rows *= d;
    if (d != 1) p.row_dim = i;
  }
  for (int i = 0; i < p.element_rank; ++i) {
    const int64_t d = k.element_dims[static_cast<std::size_t>(i)];
    p.elements *= d;
    if (d != 1) p.element_dim = p.row_rank + i;
  }
  return p;
}

// Bytes a point that loads of the element stages take with neighbours along `dim` side by side.
int64_t ContiguousBytes(const ReduceKernel& k, int dim, int width) {
  int64_t out = 0;
  if (dim < 0) return 0;
  for (const ReduceStage& stage : k.stages) {
    if (stage.scope != ReduceStage::Scope::kElement) continue;
    if (stage.program.space.dims()[static_cast<std::size_t>(dim)] % width != 0) return 0;
    LanePatterns patterns(stage.program.space, dim, width);
    for (const plan::Node& n : stage.program.nodes) {
      if (n.op != plan::NodeOp::kLoad) continue;
      const LanePattern p = patterns.Of(n.index);
      if (p.affine && p.stride == 1 && (p.aligned || width == 1)) out += StorageBytes(n.storage);
    }
  }
  return out;
}

// What is reduced: the elements [begin, end) of a row.
struct Work {
  Value row;          // first row of the group, u32
  Value begin, end;   // elements
  Value store_limit;  // a condition on stores made once a row; none: always
  Value once;         // the same where buffers may have copies, which all invocations store to
};

class RowEmitter {
 public:
  RowEmitter(KernelWriter& w, const ReduceKernel& k, const Problem& p, RowOwner owner, uint32_t local,
             uint32_t subgroup, int row_width)
      : w_(w), b_(w.b), k_(k), p_(p), owner_(owner), local_(local), subgroup_(subgroup), row_width_(row_width) {
    if (owner_ == RowOwner::kWorkgroup) MakeShared();
  }

  // Kinds of the values of a part, which EmitPart gives and EmitFromParts takes.
  static std::vector<Kind> PartKinds(const plan::KernelPlan& plan, const ReduceKernel& k,
                                     const DeviceProfile& profile) {
    KernelWriter w(plan, profile);
    return ReductionValues(w.b, w.buffers, k.stages.front().reductions, /*wide=*/true).Kinds();
  }

  // All stages of a row.
  void EmitRow(const Work& work) {
    Values known;
    for (const ReduceStage& stage : k_.stages) {
      if (stage.scope == ReduceStage::Scope::kRow) {
        ProgramLowering lowering = RowLowering(stage.program, work, known);
        if (work.once) w_.buffers.StoreWhere(work.once, [&] { lowering.EmitStores(); });
        else lowering.EmitStores(work.store_limit);
        continue;
      }
      const ReductionValues values(b_, w_.buffers, stage.reductions, IsLong(work.begin, work.end));
      const Values init = values.InitValues();
      Values total = ReduceElements(stage, work, known, values);
      total = Meet(values, total);
      for (Value v : values.Finish(total, init)) known.push_back(v);
    }
  }

  // The first stage's reductions over a part of the elements, into scratch buffers.
  void EmitPart(const Work& work, const std::function<void(const Values&)>& store) {
    const ReduceStage& stage = k_.stages.front();
    const ReductionValues values(b_, w_.buffers, stage.reductions, /*wide=*/true);
    const Values total = Meet(values, ReduceElements(stage, work, {}, values));
    store(values.Strip(total));
  }

  // As EmitRow with the first stage's elements replaced by `load(part)`, its partial results.
  void EmitFromParts(const Work& work, const std::function<Values(Value)>& load) {
    const ReduceStage& stage = k_.stages.front();
    const ReductionValues values(b_, w_.buffers, stage.reductions, /*wide=*/true);
    const Values init = values.InitValues();
    const auto merge = [&](Value part, const Values& s) { return values.Merge(s, values.Restore(load(part))); };
    Values state = Walk(work.begin, work.end, 1, values.Start(row_width_), merge);
    state = Meet(values, state);
    Values known = values.Finish(state, init);
    for (std::size_t i = 1; i < k_.stages.size(); ++i) {
      ProgramLowering lowering = RowLowering(k_.stages[i].program, work, known);
      lowering.EmitStores(work.store_limit);
    }
  }

 private:
  ProgramLowering RowLowering(const plan::ElementProgram& program, const Work& work, const Values& known) {
    ProgramLowering lowering(b_, w_.buffers, program, p_.row_dim, row_width_);
    lowering.SetLinear(work.row, 0, p_.row_rank);
    for (std::size_t i = 0; i < known.size(); ++i) lowering.SetParam(static_cast<int>(i), known[i]);
    return lowering;
  }

  // This invocation's share of the elements of one stage.
  Values ReduceElements(const ReduceStage& stage, const Work& work, const Values& known,
                        const ReductionValues& values) {
    const plan::ElementProgram& program = stage.program;
    const bool vector = owner_ != RowOwner::kInvocation && ElementVectors(program);
    const int width = owner_ == RowOwner::kInvocation ? row_width_ : vector ? 4 : 1;
    const int dim = owner_ == RowOwner::kInvocation ? p_.row_dim : p_.element_dim;
    ProgramLowering base(b_, w_.buffers, program, dim, width);
    if (std::ranges::any_of(stage.reductions,
                            [](const plan::Reduction& r) { return r.kind == plan::Reduction::Kind::kOther; }))
      base.SeeResults();
    base.SetLinear(work.row, 0, p_.row_rank);
    for (std::size_t i = 0; i < known.size(); ++i) base.SetParam(static_cast<int>(i), known[i]);
    uint64_t varying = 0;
    for (int d = p_.row_rank; d < p_.row_rank + p_.element_rank; ++d) varying |= uint64_t{1} << d;
    base.EmitInvariants(varying);
    const uint32_t step = vector ? 4 : 1;
    const auto accumulate = [&](Value element, const Values& s) {
      ProgramLowering lowering = base;
      lowering.SetLinear(element, p_.row_rank, p_.row_rank + p_.element_rank);
      Values inputs;
      for (const plan::Reduction& r : stage.reductions) {
        for (int input : r.inputs) {
          inputs.push_back(lowering.Node(program.results[static_cast<std::size_t>(input)]));
        }
      }
      lowering.EmitStores();
      return inputs.empty() ? s : values.Accumulate(s, inputs, width);
    };
    const Values state = values.is_wide() && !stage.reductions.empty()
                             ? WalkChains(work, step, values, width, accumulate)
                             : Walk(work.begin, work.end, step, values.Start(width), accumulate);
    return owner_ == RowOwner::kInvocation ? state : values.Horizontal(state, width);
  }

  bool ElementVectors(const plan::ElementProgram& program) const {
    if (p_.element_dim < 0 || program.space.dims()[static_cast<std::size_t>(p_.element_dim)] % 4 != 0) return false;
    if (!program.stores.empty()) return PrefersVectors(program, p_.element_dim, 4);
    LanePatterns patterns(program.space, p_.element_dim, 4);
    for (const plan::Node& n : program.nodes) {
      if (n.op != plan::NodeOp::kLoad) continue;
      const LanePattern p = patterns.Of(n.index);
      if (p.affine && p.stride == 1 && p.aligned) return true;
    }
    return false;
  }

  // Invocations that share a row.
  uint32_t Lanes() const {
    return owner_ == RowOwner::kSubgroup ? subgroup_ : owner_ == RowOwner::kWorkgroup ? local_ : 1;
  }
  Value Lane() {
    return owner_ == RowOwner::kSubgroup    ? b_.SubgroupLane()
           : owner_ == RowOwner::kWorkgroup ? b_.LocalIndex()
                                            : b_.U32(0);
  }

  // Whether an invocation takes more of the elements than two chains.
  bool IsLong(Value begin, Value end) const {
    uint64_t first, last;
    if (!b_.m.IsConstant(begin, &first) || !b_.m.IsConstant(end, &last)) return true;
    return last - first > uint64_t{2} * kSumChain * Lanes();
  }

  // The same as Walk in chains of kSumChain turns.
  Values WalkChains(const Work& work, uint32_t step, const ReductionValues& values, int width,
                    const std::function<Values(Value, const Values&)>& body) {
    const uint32_t turn = Lanes() * step;
    const Value first = b_.Add(work.begin, b_.Mul(Lane(), b_.U32(step))), length = b_.U32(turn * kSumChain);
    return b_.For(first, work.end, length, values.Start(width), [&](Value at, const Values& state) {
      const Value i = b_.Min(at, b_.Sub(work.end, b_.U32(1)));  // see kSumChain
      const Value end = b_.Min(b_.Add(i, length), work.end);
      return values.Absorb(state, b_.For(i, end, b_.U32(turn), values.StartChain(width), body));
    });
  }

  // This invocation's turns over [begin, end), `step` elements each.
  Values Walk(Value begin, Value end, uint32_t step, const Values& start,
              const std::function<Values(Value, const Values&)>& body) {
    const uint32_t lanes = Lanes();
    const Value lane = Lane();
    uint64_t first, last;
    const bool constant = b_.m.IsConstant(begin, &first) && b_.m.IsConstant(end, &last);
    const uint64_t turn = uint64_t{lanes} * step;
    // Small windows are written out: their index arithmetic and masks fold.
    if (constant && lanes == 1 && (last - first) <= 32 && (last - first) * ProgramSize() <= 2048) {
      Values state = start;
      for (uint64_t e = first; e < last; e += step) state = body(b_.U32(static_cast<uint32_t>(e)), state);
      return state;
    }
    if (constant && (last - first) % turn == 0) {
      // The same number of turns for every lane.
      const Value offset = b_.Mul(lane, b_.U32(step));
      return b_.For(begin, end, b_.U32(static_cast<uint32_t>(turn)), start,
                    [&](Value i, const Values& s) { return body(b_.Add(i, offset), s); });
    }
    return b_.For(b_.Add(begin, b_.Mul(lane, b_.U32(step))), end, b_.U32(static_cast<uint32_t>(turn)), start, body);
  }

  std::size_t ProgramSize() const {
    std::size_t out = 0;
    for (const ReduceStage& stage : k_.stages) out += stage.program.nodes.size() + stage.program.space.expr_count();
    return out;
  }

  // The invocations' results become one, that each of them knows.
  Values Meet(const ReductionValues& values, Values state) {
    if (state.empty()) return state;
    if (owner_ == RowOwner::kInvocation) return state;
    if (owner_ == RowOwner::kSubgroup) return values.MergeSubgroup(state, subgroup_);
    uint32_t entries = local_;
    Value entry = b_.LocalIndex();
    if (subgroup_ != 0) {
      state = values.MergeSubgroup(state, subgroup_);
      entries = local_ / subgroup_;
      entry = b_.SubgroupId();
    }
    auto put = [&](Value at, const Values& s) {
      for (std::size_t i = 0; i < s.size(); ++i) {
        const Value word = s[i].kind == Kind::kBool ? b_.Select(s[i], b_.U32(1), b_.U32(0)) : s[i];
        b_.StoreShared(SharedFor(i, word.kind), at, word);
      }
    };
    auto get = [&](Value at) {
      Values out;
      for (std::size_t i = 0; i < state.size(); ++i) {
        const Kind kind = state[i].kind == Kind::kBool ? Kind::kU32 : state[i].kind;
        const Value word = b_.LoadShared(SharedFor(i, kind), kind, 1, at);
        out.push_back(state[i].kind == Kind::kBool ? b_.Compare(Cmp::kNe, word, b_.U32(0)) : word);
      }
      return out;
    };
    b_.WorkgroupBarrier();  // the last use of the arrays is over
    if (subgroup_ != 0) {
      b_.If(b_.Compare(Cmp::kEq, b_.SubgroupLane(), b_.U32(0)), [&] { put(entry, state); });
    } else {
      put(entry, state);
    }
    b_.WorkgroupBarrier();
    if (subgroup_ == 0) {
      for (uint32_t half = entries / 2; half >= 1; half /= 2) {
        b_.If(b_.Compare(Cmp::kULt, entry, b_.U32(half)),
              [&] { put(entry, values.Merge(get(entry), get(b_.Add(entry, b_.U32(half))))); });
        b_.WorkgroupBarrier();
      }
      return get(b_.U32(0));
    }
    Values total = get(b_.U32(0));
    for (uint32_t i = 1; i < entries; ++i) total = values.Merge(total, get(b_.U32(i)));
    return total;
  }

  void MakeShared() { shared_.clear(); }
  Id SharedFor(std::size_t i, Kind kind) {
    auto [it, inserted] = shared_.try_emplace({i, kind}, 0);
    if (inserted) it->second = b_.SharedArray(kind, 1, subgroup_ != 0 ? local_ / subgroup_ : local_);
    return it->second;
  }

  KernelWriter& w_;
  Builder& b_;
  const ReduceKernel& k_;
  const Problem& p_;
  RowOwner owner_;
  uint32_t local_, subgroup_;
  int row_width_;
  std::map<std::pair<std::size_t, Kind>, Id> shared_;
};

struct Choice {
  RowOwner owner = RowOwner::kInvocation;
  int row_width = 1;
  uint32_t local = 64, subgroup = 0;
  int64_t parts = 1;
  std::string name, reason;
};

int64_t SharedBytes(const ReduceKernel& k, uint32_t entries) {
  int64_t widest = 0;
  for (const ReduceStage& s : k.stages) {
    int64_t bytes = 0;
    for (const plan::Reduction& r : s.reductions) bytes += static_cast<int64_t>(r.inputs.size()) * 8 + 4;
    widest = std::max(widest, bytes);
  }
  return widest * entries;
}

uint32_t PowerOfTwoAtMost(uint32_t n) {
  uint32_t p = 1;
  while (p * 2 <= n) p *= 2;
  return p;
}

// What one workgroup does cannot be cut: longer columns and rows are split into parts.
constexpr int64_t kLongestColumn = int64_t{1} << 17, kLongestRow = int64_t{1} << 21;

struct ReduceCase {
  ReduceCase(const ReduceKernel& kernel, const Problem& problem, const Target& device, bool second_pass)
      : k(kernel), p(problem), target(device), tuning(device.tuning.reduce) {
    const int64_t by_row = ContiguousBytes(k, p.row_dim, 4), by_element = ContiguousBytes(k, p.element_dim, 1);
    columns = by_row > by_element && !second_pass;
    const bool fours = p.row_dim >= 0 && k.row_dims[static_cast<std::size_t>(p.row_dim)] % 4 == 0;
    row_width = columns && fours ? 4 : 1;
    subgroup = FixedSubgroupSize(target.profile);
    splittable = !second_pass && k.stages.front().scope == ReduceStage::Scope::kElement &&
                 k.stages.front().program.stores.empty() && !k.stages.front().reductions.empty() &&
                 std::all_of(k.stages.begin() + 1, k.stages.end(),
                             [](const ReduceStage& s) { return s.scope == ReduceStage::Scope::kRow; });
  }
  // Into how many parts rows are split that lie along the lanes.
  int64_t RowParts() const {
    if (!splittable) return 1;
    int64_t parts = 1;
    if (p.elements >= 8 * tuning.long_row && p.rows < tuning.few_rows)
      parts = std::clamp<int64_t>(tuning.row_parts / p.rows, 1, p.elements / tuning.long_row);
    return std::max(parts, p.elements / kLongestRow);
  }

  const ReduceKernel& k;
  const Problem& p;
  const Target& target;
  const ReduceTuning& tuning;
  bool columns;       // neighbouring rows lie side by side
  int row_width;      // of an invocation
  uint32_t subgroup;  // its fixed size
  bool splittable;    // sums of parts can be added up by another kernel
};

Refusal RefusesColumns(const ReduceCase& c) {
  if (c.columns || c.p.elements <= c.tuning.short_row) return std::nullopt;
  return Format("{} elements a row", c.p.elements);
}

Choice ChooseColumns(const ReduceCase& in, std::string) {
  const ReduceTuning& tuning = in.tuning;
  const Problem& p = in.p;
  Choice c;
  c.row_width = in.row_width;
  c.name = c.row_width == 4 ? "reduce.column.vec4" : "reduce.serial";
  c.reason = in.columns ? "rows lie side by side" : Format("{} elements a row", p.elements);
  c.local = WorkgroupSize(in.target.profile, tuning.serial_local);
  if (!in.splittable) return c;
  const int64_t items = std::max<int64_t>(p.rows / c.row_width, 1), wanted = tuning.wanted_invocations;
  if (items < wanted && p.elements >= tuning.least_split_column) {
    const int64_t most = std::max<int64_t>(p.elements / tuning.least_column_part, 1);
    c.parts = std::clamp<int64_t>(CeilDiv(wanted, items), 1, most);
  }
  c.parts = std::max(c.parts, p.elements / kLongestColumn);
  return c;
}

Refusal RefusesSubgroupRow(const ReduceCase& c) {
  if (c.subgroup == 0) return "no fixed subgroup size";
  if (c.p.elements > c.tuning.subgroup_row) return "long rows";
  return std::nullopt;
}

Choice ChooseSubgroupRow(const ReduceCase& in, std::string) {
  Choice c;
  c.parts = in.RowParts();
  c.owner = RowOwner::kSubgroup;
  c.subgroup = in.subgroup;
  c.local = WorkgroupSize(in.target.profile, std::max(in.tuning.subgroup_local, in.subgroup));
  c.local = std::max(c.local / in.subgroup, 1u) * in.subgroup;
  c.name = "reduce.subgroup_row";
  c.reason = Format("{} elements a row in subgroups of {}", in.p.elements, in.subgroup);
  return c;
}

Choice ChooseWorkgroupRow(const ReduceCase& in, std::string refused) {
  Choice c;
  c.parts = in.RowParts();
  c.owner = RowOwner::kWorkgroup;
  c.local = PowerOfTwoAtMost(WorkgroupSize(in.target.profile, in.tuning.workgroup_local));
  while (c.local > 32 && int64_t{c.local} * 4 > in.p.elements * 2) c.local /= 2;
  c.subgroup = in.subgroup != 0 && c.local % in.subgroup == 0 && c.local > in.subgroup ? in.subgroup : 0;
  c.name = "reduce.workgroup_row";
  c.reason = std::move(refused);
  return c;
}

Refusal RefusesWorkgroupRow(const ReduceCase& in) {
  const Choice c = ChooseWorkgroupRow(in, "");
  const uint32_t entries = c.subgroup != 0 ? c.local / c.subgroup : c.local;
  if (SharedBytes(in.k, entries) <= in.target.profile.limits.max_shared_memory_bytes) return std::nullopt;
  return "the values of a workgroup do not fit shared memory";
}

Choice ChooseSerialRow(const ReduceCase& in, std::string refused) {
  Choice c;
  c.local = WorkgroupSize(in.target.profile, in.tuning.join_local);
  c.name = "reduce.serial";
  c.reason = std::move(refused);
  return c;
}

// In order of preference.
constexpr Variant<ReduceCase, Choice> kReduceVariants[] = {
    {"serial", RefusesColumns, ChooseColumns},  // columns side by side, and short rows
    {"subgroup_row", RefusesSubgroupRow, ChooseSubgroupRow},
    {"workgroup_row", RefusesWorkgroupRow, ChooseWorkgroupRow},
    {"serial", nullptr, ChooseSerialRow},
};
static_assert(TakesEverything(kReduceVariants));

// Lays `items` units (rows, groups of rows, or parts of them) over the grid and calls body(item) for each.
Result<EmittedDispatch> OverItems(KernelWriter& w, const Choice& c, const ReduceTuning& tuning, int64_t items,
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
  auto guarded = [&](Value item) {
    if (exact) {
      body(item);
    } else {
      b.If(b.Compare(Cmp::kULt, item, b.U32(static_cast<uint32_t>(items))), [&] { body(item); });
    }
  };
  b.For(b.U32(0), b.U32(static_cast<uint32_t>(turns * per_group)), b.U32(static_cast<uint32_t>(per_group)),
        [&](Value offset) { guarded(b.Add(first, offset)); });
  return EmittedDispatch{0, grid.size, {}};
}

// The condition that one invocation of the row's holds.
Value OncePerRow(Builder& b, const Choice& c) {
  if (c.owner == RowOwner::kSubgroup) return b.Compare(Cmp::kEq, b.SubgroupLane(), b.U32(0));
  if (c.owner == RowOwner::kWorkgroup) return b.Compare(Cmp::kEq, b.LocalIndex(), b.U32(0));
  return {};
}

}  // namespace

Result<EmittedProgram> EmitReduce(const plan::KernelPlan& plan, const ReduceKernel& k, const Target& target) {
  const DeviceProfile& profile = target.profile;
  const ReduceTuning& tuning = target.tuning.reduce;
  const Problem p = Measure(k);
  EmittedProgram out;
  if (p.rows == 0) return out;
  if (p.rows > std::numeric_limits<int32_t>::max() || p.elements > std::numeric_limits<int32_t>::max()) {
    return Unimplemented("The reduction has {} rows of {} elements, more than 32-bit arithmetic numbers.", p.rows,
                         p.elements);
  }
  if (k.stages.empty()) return Unimplemented("The reduction has no stages.");
  const Choice c = MakeFirst(kReduceVariants, ReduceCase(k, p, target, /*second_pass=*/false));
  if (c.parts <= 1) {
    KernelWriter w(plan, profile);
    RowEmitter rows(w, k, p, c.owner, c.local, c.subgroup, c.row_width);
    KRAFLA_ASSIGN(EmittedDispatch dispatch,
                  OverItems(w, c, tuning, p.rows / c.row_width, p.elements * c.row_width, [&](Value item) {
                    Work work;
                    work.row = w.b.Mul(item, w.b.U32(static_cast<uint32_t>(c.row_width)));
                    work.begin = w.b.U32(0);
                    work.end = w.b.U32(static_cast<uint32_t>(p.elements));
                    work.store_limit = OncePerRow(w.b, c);
                    rows.EmitRow(work);
                  }));
    AddKernel(out, w, std::move(dispatch), c.local, c.subgroup, c.name, c.reason);
    return out;
  }

  // Two passes. Partial result j of part q of row r lies in scratch buffer j at q * rows + r, as 32- or 64-bit words.
  const int64_t chunk = RoundUp(CeilDiv(p.elements, c.parts), 64);
  const int64_t parts = CeilDiv(p.elements, chunk);
  std::vector<BufferDesc> scratch;
  const std::vector<Kind> kinds = RowEmitter::PartKinds(plan, k, profile);
  for (Kind kind : kinds) {
    const int bytes = KindBits(kind) == 64 ? 8 : 4;
    scratch.push_back({parts * p.rows, bytes});
    out.scratch_bytes.push_back(parts * p.rows * bytes);
  }
  const int first_scratch = static_cast<int>(plan.bindings.size());
  {
    KernelWriter w(plan, profile, scratch);
    Builder& b = w.b;
    RowEmitter rows(w, k, p, c.owner, c.local, c.subgroup, c.row_width);
    const int64_t items = p.rows / c.row_width;
    KRAFLA_ASSIGN(
        EmittedDispatch dispatch, OverItems(w, c, tuning, items * parts, chunk * c.row_width, [&](Value item) {
          const Value part = b.UDiv(item, b.U32(static_cast<uint32_t>(items)));
          const Value group = b.Sub(item, b.Mul(part, b.U32(static_cast<uint32_t>(items))));
          Work work;
          work.row = b.Mul(group, b.U32(static_cast<uint32_t>(c.row_width)));
          work.begin = b.Mul(part, b.U32(static_cast<uint32_t>(chunk)));
          work.end =
              b.Min(b.Add(work.begin, b.U32(static_cast<uint32_t>(chunk))), b.U32(static_cast<uint32_t>(p.elements)));
          rows.EmitPart(work, [&](const Values& values) {
            auto store = [&] {
              const Value at = b.Add(b.Mul(part, b.U32(static_cast<uint32_t>(p.rows))), work.row);
              for (std::size_t j = 0; j < values.size(); ++j) {
                Value bits = values[j];
                if (bits.kind == Kind::kBool) bits = b.Select(bits, b.U32(1), b.U32(0));
                const int bytes = KindBits(bits.kind) == 64 ? 8 : 4;
                if (bytes == 4) bits = b.Bitcast(bits, Kind::kU32);
                w.buffers.Store(first_scratch + static_cast<int>(j), bytes, at, bits);
              }
            };
            const Value once = OncePerRow(b, c);
            if (once) {
              b.If(once, store);
            } else {
              store();
            }
          });
        }));
    AddKernel(out, w, std::move(dispatch), c.local, c.subgroup, c.name + ".part", c.reason);
  }
  {
    Problem second = p;
    second.elements = parts;
    Choice c2 = MakeFirst(kReduceVariants, ReduceCase(k, second, target, /*second_pass=*/true));
    if (p.rows >= tuning.serial_join_rows) {
      c2 = Choice{};
      c2.local = WorkgroupSize(profile, tuning.join_local);
    }
    c2.row_width = 1;
    c2.reason = Format("{} parts", parts);
    KernelWriter w(plan, profile, scratch);
    Builder& b = w.b;
    RowEmitter rows(w, k, p, c2.owner, c2.local, c2.subgroup, 1);
    KRAFLA_ASSIGN(EmittedDispatch dispatch, OverItems(w, c2, tuning, p.rows, parts, [&](Value item) {
                    Work work;
                    work.row = item;
                    work.begin = b.U32(0);
                    work.end = b.U32(static_cast<uint32_t>(parts));
                    work.store_limit = OncePerRow(b, c2);
                    rows.EmitFromParts(work, [&](Value part) {
                      const Value at = b.Add(b.Mul(part, b.U32(static_cast<uint32_t>(p.rows))), work.row);
                      Values loaded;
                      for (std::size_t j = 0; j < kinds.size(); ++j) {
                        const int bytes = KindBits(kinds[j]) == 64 ? 8 : 4;
                        Value bits = w.buffers.Load(first_scratch + static_cast<int>(j), bytes, at, 1, kinds[j]);
                        if (kinds[j] == Kind::kBool) {
                          bits = b.Compare(Cmp::kNe, bits, b.U32(0));
                        } else if (bytes == 4) {
                          bits = b.Bitcast(bits, kinds[j]);
                        }
                        loaded.push_back(bits);
                      }
                      return loaded;
                    });
                  }));
    dispatch.share = static_cast<double>(parts) / static_cast<double>(p.elements);
    AddKernel(out, w, std::move(dispatch), c2.local, c2.subgroup, "reduce.join", c2.reason);
  }
  return out;
}

int64_t EmitReduceInGroup(KernelWriter& w, const ReduceKernel& k, uint32_t local, uint32_t subgroup) {
  const Problem p = Measure(k);
  if (p.rows == 0) return 0;
  Builder& b = w.b;
  Work work;
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
    return as_subgroup ? 0 : SharedBytes(k, local);
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
