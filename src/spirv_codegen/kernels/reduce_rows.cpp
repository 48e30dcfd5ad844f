// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/reduce_rows.h"

#include <algorithm>

#include "spirv_codegen/kernels/wide_sum.h"

namespace krafla::spirv {

using plan::ReduceKernel;
using plan::ReduceStage;

ReduceProblem MeasureReduce(const ReduceKernel& k) {
  ReduceProblem p;
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

int64_t RowsOfLine(const ReduceKernel& k, const ReduceProblem& p) {
  return p.row_dim < 0 ? 1 : k.row_dims[static_cast<std::size_t>(p.row_dim)];
}

int64_t RowGroups(const ReduceKernel& k, const ReduceProblem& p, int64_t width) {
  const int64_t line = RowsOfLine(k, p);
  return p.rows / line * (line / width);
}

std::vector<Kind> RowEmitter::PartKinds(const plan::KernelPlan& plan, const ReduceKernel& k,
                                        const DeviceProfile& profile) {
  const Tuning any;
  KernelWriter w(plan, profile, any);
  return ReductionValues(w.b, w.buffers, k.stages.front().reductions, /*wide=*/true).Kinds();
}

void RowEmitter::EmitRow(const ReduceWork& work) {
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

void RowEmitter::EmitPart(const ReduceWork& work, const std::function<void(const Values&)>& store) {
  const ReduceStage& stage = k_.stages.front();
  const ReductionValues values(b_, w_.buffers, stage.reductions, /*wide=*/true);
  const Values total = Meet(values, ReduceElements(stage, work, {}, values));
  store(values.Strip(total));
}

void RowEmitter::EmitFromParts(const ReduceWork& work, const std::function<Values(Value)>& load) {
  const ReduceStage& stage = k_.stages.front();
  const ReductionValues values(b_, w_.buffers, stage.reductions, /*wide=*/true);
  const Values init = values.InitValues();
  const auto merge = [&](Value part, const Values& s) { return values.Merge(s, values.Restore(load(part))); };
  Values state = Walk(work.begin, work.end, 1, values.Start(row_width_), merge, values.in_order());
  state = Meet(values, state);
  Values known = values.Finish(state, init);
  for (std::size_t i = 1; i < k_.stages.size(); ++i) {
    ProgramLowering lowering = RowLowering(k_.stages[i].program, work, known);
    lowering.EmitStores(work.store_limit);
  }
}

ProgramLowering RowEmitter::RowLowering(const plan::ElementProgram& program, const ReduceWork& work,
                                        const Values& known) {
  ProgramLowering lowering(b_, w_.buffers, program, p_.row_dim, row_width_);
  lowering.SetLinear(work.row, 0, p_.row_rank);
  for (std::size_t i = 0; i < known.size(); ++i) lowering.SetParam(static_cast<int>(i), known[i]);
  return lowering;
}

Values RowEmitter::ReduceElements(const ReduceStage& stage, const ReduceWork& work, const Values& known,
                                  const ReductionValues& values) {
  const plan::ElementProgram& program = stage.program;
  const bool shared = owner_ != RowOwner::kInvocation && !values.in_order();
  const bool odd = shared && OddVectors(program), vector = odd || (shared && ElementVectors(program));
  const int width = owner_ == RowOwner::kInvocation ? row_width_ : vector ? 4 : 1;
  const int dim = owner_ == RowOwner::kInvocation ? p_.row_dim : p_.element_dim;
  const auto lowering_of = [&](int points) {
    ProgramLowering base(b_, w_.buffers, program, dim, points);
    if (std::ranges::any_of(stage.reductions,
                            [](const plan::Reduction& r) { return r.kind == plan::Reduction::Kind::kOther; }))
      base.SeeResults();
    base.SetLinear(work.row, 0, p_.row_rank);
    for (std::size_t i = 0; i < known.size(); ++i) base.SetParam(static_cast<int>(i), known[i]);
    uint64_t varying = 0;
    for (int d = p_.row_rank; d < p_.row_rank + p_.element_rank; ++d) varying |= uint64_t{1} << d;
    base.EmitInvariants(varying);
    return base;
  };
  ProgramLowering base = lowering_of(width);
  const uint32_t step = vector ? 4 : 1;
  const uint32_t together = stage.reductions.size() == 1 ? TurnsTogether(program, w_.tuning.loop) : 1;
  const auto accumulate = [&](const ProgramLowering& from, int points, Value element, const Values& s) {
    ProgramLowering lowering = from;
    lowering.SetLinear(element, p_.row_rank, p_.row_rank + p_.element_rank);
    const Values inputs = values.Inputs(program, lowering);
    lowering.EmitStores();
    return inputs.empty() ? s : values.Accumulate(s, inputs, points);
  };
  const Turn turn = [&](Value element, const Values& s) { return accumulate(base, width, element, s); };
  ReduceWork most = work;  // all elements, or all that make fours
  if (odd) most.end = b_.Add(work.begin, b_.And(b_.Sub(work.end, work.begin), b_.U32(~3u)));
  const Values state = values.is_wide() && !stage.reductions.empty()
                           ? WalkChains(most, step, values, width, together, turn)
                           : Walk(most.begin, most.end, step, values.Start(width), turn, values.in_order(), together);
  if (owner_ == RowOwner::kInvocation) return state;
  const Values sums = values.Horizontal(state, width);
  if (!odd) return sums;
  const ProgramLowering one = lowering_of(1);
  const Values rest = Walk(
      most.end, work.end, 1, values.StartChain(1),
      [&](Value element, const Values& s) { return accumulate(one, 1, element, s); }, false);
  return values.is_wide() ? values.Absorb(sums, rest) : values.Merge(sums, rest);
}

// Of elements that share words, which are read by the words around them (Buffers::LoadFromAny).
bool RowEmitter::OddVectors(const plan::ElementProgram& program) const {
  if (!w_.buffers.reads_words_around() || p_.element_dim < 0 || !program.stores.empty()) return false;
  const int64_t extent = program.space.dims()[static_cast<std::size_t>(p_.element_dim)];
  if (extent != p_.elements || extent < int64_t{16} * Lanes() || ElementVectors(program)) return false;
  LanePatterns patterns(program.space, p_.element_dim, 4);
  bool any = false;
  for (const plan::Node& n : program.nodes) {
    if (n.op != plan::NodeOp::kLoad) continue;
    const LanePattern p = patterns.Of(n.index);
    if (!p.affine || (p.stride != 0 && (p.stride != 1 || StorageBytes(n.storage) > 2))) return false;
    any = any || p.stride == 1;
  }
  return any;
}

bool RowEmitter::ElementVectors(const plan::ElementProgram& program) const {
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

uint32_t RowEmitter::Lanes() const {
  return owner_ == RowOwner::kSubgroup ? subgroup_ : owner_ == RowOwner::kWorkgroup ? local_ : 1;
}

Value RowEmitter::Lane() {
  return owner_ == RowOwner::kSubgroup    ? b_.SubgroupLane()
         : owner_ == RowOwner::kWorkgroup ? b_.LocalIndex()
                                          : b_.U32(0);
}

bool RowEmitter::IsLong(Value begin, Value end) const {
  uint64_t first, last;
  if (!b_.m.IsConstant(begin, &first) || !b_.m.IsConstant(end, &last)) return true;
  return last - first > uint64_t{2} * kSumChain * Lanes();
}

Values RowEmitter::WalkChains(const ReduceWork& work, uint32_t step, const ReductionValues& values, int width,
                              uint32_t together, const Turn& body) {
  if (values.in_order() && Lanes() > 1) {
    const auto [begin, end] = Run(work.begin, work.end);
    return values.InChains(begin, end, 1, width, body);
  }
  const Value first = b_.Add(work.begin, b_.Mul(Lane(), b_.U32(step)));
  uint64_t begin, end;
  const bool constant = b_.m.IsConstant(work.begin, &begin) && b_.m.IsConstant(work.end, &end);
  if (!constant || (end - begin) % (uint64_t{Lanes()} * step * together) != 0) together = 1;
  return values.InChains(first, work.end, Lanes() * step, width, body, together);
}

std::pair<Value, Value> RowEmitter::Run(Value begin, Value end) {
  const uint32_t lanes = Lanes();
  const Value length = b_.UDiv(b_.Add(b_.Sub(end, begin), b_.U32(lanes - 1)), b_.U32(lanes));
  const Value first = b_.Min(b_.Add(begin, b_.Mul(Lane(), length)), end);
  return {first, b_.Min(b_.Add(first, length), end)};
}

Values RowEmitter::Walk(Value begin, Value end, uint32_t step, const Values& start, const Turn& body, bool in_order,
                        uint32_t together) {
  const uint32_t lanes = Lanes();
  const Value lane = Lane();
  if (in_order && lanes > 1) {
    const auto [from, to] = Run(begin, end);
    return b_.For(from, to, b_.U32(1), start, body);
  }
  uint64_t first, last;
  const bool constant = b_.m.IsConstant(begin, &first) && b_.m.IsConstant(end, &last);
  const uint64_t turn = uint64_t{lanes} * step;
  // The loop over a small window is unrolled, because its index arithmetic and its masks are constants then.
  if (constant && lanes == 1 && (last - first) <= 32 && (last - first) * ProgramSize() <= 2048) {
    Values state = start;
    for (uint64_t e = first; e < last; e += step) state = body(b_.U32(static_cast<uint32_t>(e)), state);
    return state;
  }
  if (constant && (last - first) % turn == 0) {
    // Every lane does the same number of turns.
    const Value offset = b_.Mul(lane, b_.U32(step));
    const int64_t kept = static_cast<int64_t>((last - first) / lanes) * LoadsOfElement();
    if ((last - first) % (turn * together) != 0) together = 1;
    return b_.For(
        begin, end, b_.U32(static_cast<uint32_t>(turn * together)), start,
        [&](Value i, Values s) {
          for (uint32_t t = 0; t < together; ++t) {
            const Value at = b_.Add(i, b_.U32(static_cast<uint32_t>(turn) * t));
            s = body(b_.Add(at, offset), s);
          }
          return s;
        },
        kept > w_.tuning.reduce.most_kept ? Unroll::kNever : Unroll::kIfItPays);
  }
  return b_.For(b_.Add(begin, b_.Mul(lane, b_.U32(step))), end, b_.U32(static_cast<uint32_t>(turn)), start, body);
}

int64_t RowEmitter::LoadsOfElement() const {
  int64_t most = 0;
  for (const ReduceStage& stage : k_.stages) {
    if (stage.scope != ReduceStage::Scope::kElement) continue;
    most = std::max<int64_t>(most, std::ranges::count_if(stage.program.nodes, [&](const plan::Node& n) {
                               return n.op == plan::NodeOp::kLoad && n.depends >> p_.row_rank != 0;
                             }));
  }
  return most;
}

std::size_t RowEmitter::ProgramSize() const {
  std::size_t out = 0;
  for (const ReduceStage& stage : k_.stages) out += stage.program.nodes.size() + stage.program.space.expr_count();
  return out;
}

Values RowEmitter::Meet(const ReductionValues& values, Values state) {
  if (state.empty() || owner_ == RowOwner::kInvocation) return state;
  if (owner_ == RowOwner::kSubgroup) return values.MergeSubgroup(state, subgroup_);
  return meet_.Meet(values, std::move(state));
}

}  // namespace krafla::spirv
