// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/reduction_values.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "plan/arg_extremum.h"
#include "plan/combiner_order.h"
#include "spirv_codegen/kernels/wide_sum.h"

namespace krafla::spirv {
namespace {

using plan::Reduction;

ElementType ValueType(const Reduction& r, std::size_t i) {
  return r.combiner.nodes[static_cast<std::size_t>(r.combiner.results[i])].type;
}

// Whether each value is a sum of its own, as the real and the imaginary part of a complex sum are, whose reduction has
// no kind.
bool IsSumOfParts(const Reduction& r) {
  const std::size_t n = r.inputs.size();
  const auto is_param = [&](plan::NodeId id, std::size_t number) {
    const plan::Node& node = r.combiner.nodes[static_cast<std::size_t>(id)];
    return node.op == plan::NodeOp::kParam && node.bits == number;
  };
  for (std::size_t i = 0; i < n; ++i) {
    const plan::Node& sum = r.combiner.nodes[static_cast<std::size_t>(r.combiner.results[i])];
    if (sum.op != plan::NodeOp::kHlo || sum.opcode != Opcode::kAdd || !IsFloat(sum.type)) return false;
    if (!(is_param(sum.operands[0], i) && is_param(sum.operands[1], n + i)) &&
        !(is_param(sum.operands[0], n + i) && is_param(sum.operands[1], i)))
      return false;
  }
  return n > 1;
}

Reduction::Kind KindOf(const Reduction& r) { return IsSumOfParts(r) ? Reduction::Kind::kSum : r.kind; }

// The bits of x with op(x, y) = y for every y: -0 for a sum of floats, so that a sum of -0 stays -0.
uint64_t IdentityBits(Reduction::Kind kind, ElementType t) {
  const bool wide = BitWidth(t) == 64;
  const uint64_t ones = wide ? ~uint64_t{0} : 0xffffffffu;
  const uint64_t top = wide ? uint64_t{1} << 63 : 0x80000000u;
  auto number = [&](double d) {
    return t == ElementType::kF64 ? std::bit_cast<uint64_t>(d)
                                  : uint64_t{std::bit_cast<uint32_t>(static_cast<float>(d))};
  };
  const double inf = std::numeric_limits<double>::infinity();
  switch (kind) {
    case Reduction::Kind::kSum: return IsFloat(t) ? number(-0.0) : 0;
    case Reduction::Kind::kProduct: return IsFloat(t) ? number(1.0) : 1;
    case Reduction::Kind::kMax: return IsFloat(t) ? number(-inf) : IsSigned(t) ? top : 0;
    case Reduction::Kind::kMin:
      return IsFloat(t) ? number(inf) : t == ElementType::kPred ? 1 : IsSigned(t) ? top - 1 : ones;
    case Reduction::Kind::kAnd: return t == ElementType::kPred ? 1 : ones;
    case Reduction::Kind::kOr:
    case Reduction::Kind::kXor: return 0;
    case Reduction::Kind::kComplexProduct:
    case Reduction::Kind::kOther: break;
  }
  return 0;
}

}  // namespace

Values RunScalarProgram(Builder& b, Buffers& buffers, const plan::ElementProgram& program,
                        std::span<const Value> params, bool seen) {
  ProgramLowering lowering(b, buffers, program);
  if (seen) lowering.SeeResults();
  for (std::size_t i = 0; i < params.size(); ++i) lowering.SetParam(static_cast<int>(i), params[i]);
  Values out;
  for (plan::NodeId r : program.results) out.push_back(lowering.Node(r));
  return out;
}

ReductionValues::ReductionValues(Builder& b, Buffers& buffers, std::span<const Reduction> reductions, bool wide)
    : b_(b),
      buffers_(buffers),
      reductions_(reductions),
      in_order_(std::ranges::any_of(reductions, plan::DependsOnOrder)),
      wide_(wide && std::ranges::none_of(reductions, plan::CombinesInTurn)) {}

bool ReductionValues::HasIdentity(const Reduction& r) const {
  return (r.inputs.size() == 1 && r.kind != Reduction::Kind::kOther) || IsSumOfParts(r);
}

bool ReductionValues::IsWide(const Reduction& r) const {
  return wide_ && HasIdentity(r) && KindOf(r) == Reduction::Kind::kSum && IsWideKind(ComputeKind(ValueType(r, 0)));
}

std::size_t ReductionValues::ValueCount(const Reduction& r) const { return r.inputs.size() * (IsWide(r) ? 2 : 1); }

std::vector<Kind> ReductionValues::Kinds() const {
  std::vector<Kind> out;
  for (const Reduction& r : reductions_) {
    for (std::size_t i = 0; i < r.inputs.size(); ++i) out.push_back(ComputeKind(ValueType(r, i)));
    if (IsWide(r)) out.insert(out.end(), r.inputs.size(), ComputeKind(ValueType(r, 0)));
  }
  return out;
}

Values ReductionValues::StartOf(int width, bool wide) const {
  Values out;
  for (const Reduction& r : reductions_) {
    for (std::size_t i = 0; i < r.inputs.size(); ++i) {
      const ElementType t = ValueType(r, i);
      const uint64_t bits = HasIdentity(r) ? IdentityBits(KindOf(r), t) : 0;
      out.push_back(b_.Splat(b_.Const(ComputeKind(t), bits), width));
    }
    if (wide && IsWide(r)) out.insert(out.end(), r.inputs.size(), b_.Zero(out.back().kind, width));
    if (!HasIdentity(r)) out.push_back(b_.m.Bool(false));
  }
  return out;
}

Values ReductionValues::Combine(const Reduction& r, std::span<const Value> left, std::span<const Value> right) const {
  Values params(left.begin(), left.end());
  params.insert(params.end(), right.begin(), right.end());
  // Lanes take elements by turns unless they have to be combined in their order, so that what lies further left may
  // come from further behind.
  return RunScalarProgram(b_, buffers_, plan::ForPairsInAnyOrder(r.combiner), params, /*seen=*/!HasIdentity(r));
}

Values ReductionValues::Accumulate(const Values& state, const Values& inputs, int width) const {
  Values out;
  std::size_t s = 0, in = 0;
  for (const Reduction& r : reductions_) {
    const std::size_t n = r.inputs.size();
    Values fresh;
    for (std::size_t i = 0; i < n; ++i) fresh.push_back(b_.Splat(inputs[in + i], width));
    Values sum = Combine(r, std::span(state).subspan(s, n), fresh);
    const bool flagged = !HasIdentity(r);
    for (std::size_t i = 0; i < n; ++i) {
      const Value value = b_.Splat(sum[i], width);
      out.push_back(flagged ? b_.Select(state[s + n], value, fresh[i]) : value);
    }
    if (flagged) out.push_back(b_.m.Bool(true));
    s += n + (flagged ? 1 : 0);
    in += n;
  }
  return out;
}

Values ReductionValues::Inputs(const plan::ElementProgram& program, ProgramLowering& lowering) const {
  Values out;
  for (const plan::Reduction& r : reductions_)
    for (int input : r.inputs) out.push_back(lowering.Node(program.results[static_cast<std::size_t>(input)]));
  return out;
}

Values ReductionValues::InChains(Value first, Value end, uint32_t turn, int width,
                                 const std::function<Values(Value element, const Values& state)>& body,
                                 uint32_t together) const {
  const Value length = b_.U32(turn * kSumChain);
  return b_.For(first, end, length, Start(width), [&](Value at, const Values& state) {
    const Value i = b_.Min(at, b_.Sub(end, b_.U32(1)));  // see kSumChain
    const Value to = b_.Min(b_.Add(i, length), end);
    const auto turns = [&](Value element, Values chain) {
      for (uint32_t t = 0; t < together; ++t)
        chain = body(t == 0 ? element : b_.Min(b_.Add(element, b_.U32(turn * t)), b_.Sub(end, b_.U32(1))), chain);
      return chain;
    };
    return Absorb(state, b_.For(i, to, b_.U32(turn * together), StartChain(width), turns));
  });
}

Values ReductionValues::Absorb(const Values& state, const Values& chain) const {
  // The chain as a wide state, whose sums have lost nothing.
  Values full;
  std::size_t at = 0;
  for (const Reduction& r : reductions_) {
    for (std::size_t i = 0; i < r.inputs.size(); ++i) full.push_back(chain[at++]);
    if (IsWide(r)) full.insert(full.end(), r.inputs.size(), b_.Zero(full.back().kind, full.back().width));
    if (!HasIdentity(r)) full.push_back(chain[at++]);
  }
  return Merge(state, full);
}

Values ReductionValues::Round(const Values& state) const {
  Values out;
  std::size_t s = 0;
  for (const Reduction& r : reductions_) {
    const std::size_t n = r.inputs.size();
    for (std::size_t i = 0; i < n; ++i)
      out.push_back(IsWide(r) ? RoundWide(b_, {state[s + i], state[s + n + i]}) : state[s + i]);
    s += ValueCount(r) + (HasIdentity(r) ? 0 : 1);
  }
  return out;
}

Values ReductionValues::Merge(const Values& left, const Values& right) const {
  Values out;
  std::size_t s = 0;
  for (const Reduction& r : reductions_) {
    const std::size_t n = r.inputs.size();
    if (IsWide(r)) {
      Values low;
      for (std::size_t i = s; i < s + n; ++i) {
        const WideSum sum = MergeWide(b_, {left[i], left[n + i]}, {right[i], right[n + i]});
        out.push_back(sum.high);
        low.push_back(sum.low);
      }
      out.insert(out.end(), low.begin(), low.end());
      s += 2 * n;
      continue;
    }
    Values sum = Combine(r, std::span(left).subspan(s, n), std::span(right).subspan(s, n));
    const bool flagged = !HasIdentity(r);
    for (std::size_t i = 0; i < n; ++i) {
      Value value = b_.Splat(sum[i], left[s + i].width);
      if (flagged) { value = b_.Select(left[s + n], b_.Select(right[s + n], value, left[s + i]), right[s + i]); }
      out.push_back(value);
    }
    if (flagged) out.push_back(b_.LOr(left[s + n], right[s + n]));
    s += n + (flagged ? 1 : 0);
  }
  return out;
}

Values ReductionValues::Horizontal(const Values& state, int width) const {
  if (width == 1) return state;
  auto lane = [&](int i) {
    Values out;
    for (Value v : state) out.push_back(b_.Extract(v, i));
    return out;
  };
  if (width == 2) return Merge(lane(0), lane(1));
  KRAFLA_CHECK(width == 4);
  return Merge(Merge(lane(0), lane(1)), Merge(lane(2), lane(3)));
}

Values ReductionValues::InitValues() const {
  Values out;
  for (const Reduction& r : reductions_) {
    for (Value v : RunScalarProgram(b_, buffers_, r.init, {})) out.push_back(v);
  }
  return out;
}

Values ReductionValues::Finish(const Values& state, const Values& init) const {
  const Values rounded = Round(state);
  Values out;
  std::size_t s = 0, in = 0;
  for (const Reduction& r : reductions_) {
    const std::size_t n = r.inputs.size();
    const std::span<const Value> total = std::span<const Value>(rounded).subspan(in, n);
    Values sum = Combine(r, std::span(init).subspan(in, n), total);
    const bool flagged = !HasIdentity(r);
    for (std::size_t i = 0; i < n; ++i) {
      const Value value = b_.Splat(sum[i], total[i].width);
      // The combiner of a reduction without identity may have changed the bits of its values already.
      out.push_back(flagged ? b_.Select(state[s + n], value, init[in + i]) : SettledNan(b_, value));
    }
    s += ValueCount(r) + (flagged ? 1 : 0);
    in += n;
  }
  return out;
}

Values ReductionValues::Strip(const Values& state) const {
  Values out;
  std::size_t s = 0;
  for (const Reduction& r : reductions_) {
    for (std::size_t i = 0; i < ValueCount(r); ++i) out.push_back(state[s++]);
    if (!HasIdentity(r)) ++s;
  }
  return out;
}

Values ReductionValues::Restore(const Values& values) const {
  Values out;
  std::size_t in = 0;
  for (const Reduction& r : reductions_) {
    for (std::size_t i = 0; i < ValueCount(r); ++i) out.push_back(values[in++]);
    if (!HasIdentity(r)) out.push_back(b_.m.Bool(true));
  }
  return out;
}

Values ReductionValues::MergeSubgroup(Values state, uint32_t size) const {
  bool symmetric = true;
  for (const Reduction& r : reductions_) symmetric = symmetric && HasIdentity(r);
  for (uint32_t mask = 1; mask < size; mask *= 2) {
    Values other;
    for (Value v : state) other.push_back(b_.SubgroupShuffleXor(v, mask));
    if (symmetric) {
      state = Merge(state, other);
      continue;
    }
    // Both lanes of a pair must combine in the same order, so that they get the same value.
    const Value upper = b_.Compare(Cmp::kNe, b_.And(b_.SubgroupLane(), b_.U32(mask)), b_.U32(0));
    Values left, right;
    for (std::size_t i = 0; i < state.size(); ++i) {
      left.push_back(b_.Select(upper, other[i], state[i]));
      right.push_back(b_.Select(upper, state[i], other[i]));
    }
    state = Merge(left, right);
  }
  return state;
}

}  // namespace krafla::spirv
