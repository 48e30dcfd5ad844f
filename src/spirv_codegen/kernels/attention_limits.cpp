// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/attention_limits.h"

#include <limits>

#include "spirv/unified1/GLSL.std.450.h"

namespace krafla::spirv {

using plan::AttentionKernel;

namespace {

Value Least(Builder& b, Value x, Value y) { return x && y ? b.SMin(x, y) : x ? x : y; }
Value Largest(Builder& b, Value x, Value y) { return x && y ? b.SMax(x, y) : x ? x : y; }

}  // namespace

Value AllOfWorkgroup(Builder& b, Value mine, uint32_t local, uint32_t subgroup) {
  const Id all = b.SharedArray(Kind::kU32, 1, local);
  if (subgroup != 0) {
    for (uint32_t mask = 1; mask < subgroup; mask *= 2) mine = b.And(mine, b.SubgroupShuffleXor(mine, mask));
    b.If(b.Compare(Cmp::kEq, b.SubgroupLane(), b.U32(0)), [&] { b.StoreShared(all, b.SubgroupId(), mine); });
    b.WorkgroupBarrier();
    Value out = b.LoadShared(all, Kind::kU32, 1, b.U32(0));
    for (uint32_t s = 1; s < local / subgroup; ++s) out = b.And(out, b.LoadShared(all, Kind::kU32, 1, b.U32(s)));
    return out;
  }
  b.StoreShared(all, b.LocalIndex(), mine);
  b.WorkgroupBarrier();
  for (uint32_t half = local / 2; half >= 1; half /= 2) {
    b.If(b.Compare(Cmp::kULt, b.LocalIndex(), b.U32(half)), [&] {
      const Value other = b.LoadShared(all, Kind::kU32, 1, b.Add(b.LocalIndex(), b.U32(half)));
      b.StoreShared(all, b.LocalIndex(), b.And(b.LoadShared(all, Kind::kU32, 1, b.LocalIndex()), other));
    });
    b.WorkgroupBarrier();
  }
  return b.LoadShared(all, Kind::kU32, 1, b.U32(0));
}

Result<EmittedDispatch> EmitFiniteFlags(KernelWriter& w, const AttentionKernel& kernel, uint32_t local,
                                        bool by_workgroups) {
  Builder& b = w.b;
  const int values = kernel.product->rhs_binding, flags = static_cast<int>(w.plan.bindings.size());
  const auto u = [&](int64_t v) { return b.U32(static_cast<uint32_t>(v)); };
  const int64_t elements = w.buffers.element_count(values), whole = elements / 4 * 4;
  const int64_t invocations = by_workgroups ? int64_t{kFiniteFlags} * local : kFiniteFlags;
  const Value me = b.Add(b.Mul(b.WorkgroupId(0), u(local)), b.LocalIndex());
  const auto is_finite = [&](Value at, int width) {
    const Value v = LoadOperand(b, w.buffers, values, kernel.product->rhs_type, {ElementType::kF32, false}, at, width);
    const Value magnitude = b.Glsl(GLSLstd450FAbs, {v}, Kind::kF32, width);
    return b.All(b.FCompare(FCmp::kLe, magnitude, b.Splat(b.F32(std::numeric_limits<float>::max()), width)));
  };
  Value good = u(1);
  if (whole > 0)
    good = b.For(b.Mul(me, u(4)), u(whole), u(4 * invocations), {good}, [&](Value at, const Values& so_far) -> Values {
      return {b.Select(is_finite(at, 4), so_far[0], u(0))};
    })[0];
  for (int64_t e = whole; e < elements; ++e) good = b.Select(is_finite(u(e), 1), good, u(0));
  if (!by_workgroups) {
    w.buffers.StoreWords(flags, me, good);
    return EmittedDispatch{0, {kFiniteFlags / local, 1, 1}, {}};
  }
  const Value all = AllOfWorkgroup(b, good, local, /*subgroup=*/0);
  b.If(b.Compare(Cmp::kEq, b.LocalIndex(), u(0)), [&] { w.buffers.StoreWords(flags, b.WorkgroupId(0), all); });
  return EmittedDispatch{0, {kFiniteFlags, 1, 1}, {}};
}

ColumnRange LimitsOfRow(KernelWriter& w, const AttentionKernel& kernel, Value batch, Value row) {
  const auto rank = static_cast<int>(kernel.scores->batch.size());
  ProgramLowering lowering(w.b, w.buffers, kernel.limits->program);
  lowering.SetLinear(batch, 0, rank);
  lowering.SetIter(rank, row);
  ColumnRange out;
  const auto& results = kernel.limits->program.results;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Value limit = w.b.Bitcast(lowering.Node(results[i]), Kind::kU32);
    if (i < static_cast<std::size_t>(kernel.limits->ends)) out.end = Least(w.b, out.end, limit);
    else out.begin = Largest(w.b, out.begin, limit);
  }
  return out;
}

ColumnRange BothOf(Builder& b, const ColumnRange& x, const ColumnRange& y) {
  return {Least(b, x.begin, y.begin), Largest(b, x.end, y.end)};
}

WalkedColumns ReduceWithinLimits(KernelWriter& w, const AttentionKernel& kernel, const ColumnWalk& walk,
                                 const ColumnRange& mine, Value all_finite) {
  Builder& b = w.b;
  const auto u = [&](int64_t v) { return b.U32(static_cast<uint32_t>(v)); };
  const auto within = [&](Value v) { return b.SMin(b.SMax(v, u(0)), u(walk.whole)); };
  const auto down = [&](Value v) { return b.Mul(b.UDiv(v, u(walk.step)), u(walk.step)); };
  Value begin = u(0), end = u(walk.whole);
  if (mine.begin) {
    const Value least = walk.joined(mine.begin, [&](Value x, Value y) { return b.SMin(x, y); });
    begin = b.Select(all_finite, down(within(least)), begin);
  }
  if (mine.end) {
    const Value largest = walk.joined(mine.end, [&](Value x, Value y) { return b.SMax(x, y); });
    end = b.Select(all_finite, down(b.Add(within(largest), u(walk.step - 1))), end);
  }
  // A turn more than once only where the columns within the limits do not suffice.
  Values state = {u(1), begin, end};
  for (std::size_t r = 0; r < walk.rows; ++r)
    for (const plan::ReduceStage& stage : kernel.rows.stages)
      for (Kind kind : ReductionValues(b, w.buffers, stage.reductions).Kinds()) state.push_back(b.Zero(kind));
  state = b.While(
      state, [&](const Values& s) { return b.Compare(Cmp::kNe, s[0], u(0)); },
      [&](const Values& s) -> Values {
        const Values known = walk.reduce({s[1], s[2]});
        Value fails = u(0);
        for (std::size_t r = 0; r < walk.rows; ++r) {
          const Value largest = known[r * known.size() / walk.rows];
          const Value is_low = b.FCompare(FCmp::kLe, largest, b.F32(static_cast<float>(kernel.limits->least)));
          fails = b.Select(is_low, u(1), fails);
        }
        const Value is_part = b.LOr(b.Compare(Cmp::kNe, s[1], u(0)), b.Compare(Cmp::kNe, s[2], u(walk.whole)));
        const Value any = walk.joined(fails, [&](Value x, Value y) { return b.Or(x, y); });
        const Value again = b.Select(is_part, any, u(0));
        const Value goes_on = b.Compare(Cmp::kNe, again, u(0));
        Values next = {again, b.Select(goes_on, u(0), s[1]), b.Select(goes_on, u(walk.whole), s[2])};
        next.insert(next.end(), known.begin(), known.end());
        return next;
      });
  return {{state[1], state[2]}, Values(state.begin() + 3, state.end())};
}

}  // namespace krafla::spirv
