// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/move_lowering.h"

#include <algorithm>
#include <set>
#include <utility>

namespace krafla::spirv {

using plan::Node;
using plan::NodeId;
using plan::NodeOp;

Values MoveLowering::WordsOf(const plan::Store& store, Value in_run) {
  Run first;
  if (!in_run) return Words(store.node, first);
  Run last{true, {}};
  return OfBoth(in_run, Words(store.node, first), Words(store.node, last));
}

Values MoveLowering::WordsOfLoad(NodeId id, Value in_run) {
  const Node& n = program_.nodes[static_cast<std::size_t>(id)];
  const Values first = Read(n, {});
  return in_run ? OfBoth(in_run, first, Read(n, {true, {}})) : first;
}

Values MoveLowering::OfBoth(Value in_run, const Values& first, const Values& last) const {
  if (words_.per_word() > 1) return Select({{}, words_.FirstElements(in_run, word_count())}, first, last);
  Values out;
  for (std::size_t i = 0; i < first.size(); ++i)
    out.push_back(Choose(b_, in_run, static_cast<int64_t>(i), first[i], last[i]));
  return out;
}

Value MoveLowering::Choose(Builder& b, Value in_run, int64_t begin, Value first, Value last) {
  const int width = std::max(first.width, last.width);
  const Value at = b.U32(static_cast<uint32_t>(begin));
  return b.Select(b.Compare(Cmp::kSLt, width > 1 ? b.Add(b.Iota(width), at) : at, in_run), first, last);
}

MoveLowering::OfRuns MoveLowering::One(NodeId id, Value in_run) {
  const Value first = OneOf(id, {});
  return {first, in_run ? OneOf(id, {true, {}}) : first};
}

MoveLowering::OfRuns MoveLowering::Number(NodeId id, Value in_run) {
  const plan::IndexId index = indices_.IndexOf(id);
  const MoveIndices::Step step = *indices_.Of(index);
  const Value first = First(index, step, {});
  return {first, in_run ? First(index, step, {true, {}}) : first};
}

Values MoveLowering::Words(NodeId id, Run& run) {
  if (const auto known = run.words.find(id); known != run.words.end()) return known->second;
  Values out = Made(id, run);
  run.words.emplace(id, out);
  return out;
}

Values MoveLowering::Made(NodeId id, Run& run) {
  const Node& n = program_.nodes[static_cast<std::size_t>(id)];
  if (n.op == NodeOp::kConstant) return Values(static_cast<std::size_t>(word_count()), words_.Repeated(n.bits));
  if (n.op == NodeOp::kLoad) return Load(n, run);
  if (n.op != NodeOp::kHlo) return Words(n.operands[0], run);
  if (n.opcode == Opcode::kSelect)
    return Select(MaskOf(n.operands[0], run), Words(n.operands[1], run), Words(n.operands[2], run));
  Values out = Words(n.operands[0], run);
  if (n.opcode == Opcode::kNot) {
    const Value ones = words_.Repeated(n.type == ElementType::kPred ? 1 : ~uint64_t{0});
    for (Value& v : out) v = b_.Xor(v, ones);
    return out;
  }
  const Values other = Words(n.operands[1], run);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = n.opcode == Opcode::kAnd  ? b_.And(out[i], other[i])
             : n.opcode == Opcode::kOr ? b_.Or(out[i], other[i])
                                       : b_.Xor(out[i], other[i]);
  return out;
}

Values MoveLowering::Load(const Node& n, Run& run) {
  const auto zeros = [&] { return Values(static_cast<std::size_t>(word_count()), words_.Repeated(0)); };
  if (n.mask == plan::kNoNode) return Read(n, run);
  const Mask mask = MaskOf(n.mask, run);
  uint64_t known = 0;
  if (mask.words.empty() && b_.m.IsConstant(mask.all, &known) && known == 0) return zeros();
  return Select(mask, Read(n, run), zeros());
}

Values MoveLowering::Read(const Node& n, const Run& run) {
  const MoveIndices::Step step = *indices_.Of(n.index);
  InlineVector<int64_t, PointGroup::kPoints> offsets;
  for (const int64_t at : step.offsets.at) offsets.push_back(at - step.offsets.at[0]);
  ElementWords::Source source{n.buffer, First(n.index, step, run), 1, 0, offsets, IsInRange(n, step, run)};
  if (!step.in_runs) source.multiple = step.offsets.multiple, source.phase = step.offsets.at[0];
  return words_.Pack(words_.Read(source), indices_.line());
}

bool MoveLowering::IsInRange(const Node& load, const MoveIndices::Step& step, const Run& run) const {
  if (run.is_last || !points_.in_range) return false;
  const plan::IndexSpace::Range range = program_.space.RangeOf(load.index);
  const auto [low, high] = std::ranges::minmax(step.offsets.at);
  return range.lo + low - step.offsets.at[0] >= 0 &&
         range.hi + high - step.offsets.at[0] < buffers_.element_count(load.buffer);
}

Value MoveLowering::First(plan::IndexId id, const MoveIndices::Step& step, const Run& run) {
  if (!step.in_runs || !run.is_last) return points_.first->Index(id);
  return b_.Sub(points_.last->Index(id), b_.Mul(points_.distance, b_.U32(static_cast<uint32_t>(step.stride))));
}

Value MoveLowering::OneOf(NodeId id, const Run& run) {
  return run.is_last && !indices_.IsSame(id) ? points_.last->Node(id) : points_.first->Node(id);
}

Values MoveLowering::Select(const Mask& mask, const Values& a, const Values& b) const {
  Values out;
  for (std::size_t i = 0; i < a.size(); ++i)
    out.push_back(mask.words.empty() ? b_.Select(mask.all, a[i], b[i]) : words_.Choose(mask.words[i], a[i], b[i]));
  return out;
}

Values MoveLowering::AsWords(const Mask& mask) const {
  if (!mask.words.empty()) return mask.words;
  return Values(static_cast<std::size_t>(word_count()),
                b_.Select(mask.all, words_.Repeated(~uint64_t{0}), words_.Repeated(0)));
}

MoveLowering::Mask MoveLowering::MaskOf(NodeId id, Run& run) {
  const Node& n = program_.nodes[static_cast<std::size_t>(id)];
  if (indices_.IsOne(id)) return {OneOf(id, run), {}};
  if (n.op == NodeOp::kHlo) return MaskOfHlo(n, run);
  if (const Limit* limit = indices_.LimitOf(id)) {
    Numbers x = NumberOf(limit->index, run);
    x.first = b_.Sub(x.first, b_.U32(static_cast<uint32_t>(limit->limit)));
    return Compare(limit->direction, x);
  }
  if (n.op == NodeOp::kCompare) {
    Numbers x = NumberOfNode(n.operands[0], run);
    const Numbers y = NumberOfNode(n.operands[1], run);
    // Indices are far from the limits of 32 bits.
    x.first = b_.Sub(x.first, y.first);
    for (std::size_t i = 0; i < x.steps.size(); ++i) x.steps[i] -= y.steps[i];
    return Compare(n.direction, x);
  }
  Values out = Words(id, run);
  for (Value& v : out) v = words_.MaskOfPreds(v);
  return {{}, std::move(out)};
}

MoveLowering::Mask MoveLowering::MaskOfHlo(const Node& n, Run& run) {
  const Mask a = MaskOf(n.operands[0], run);
  if (n.opcode == Opcode::kNot) {
    if (a.words.empty()) return {b_.LNot(a.all), {}};
    Values out;
    for (const Value v : a.words) out.push_back(b_.Not(v));
    return {{}, std::move(out)};
  }
  const Mask c = MaskOf(n.operands[1], run);
  if (a.words.empty() && c.words.empty()) {
    if (n.opcode == Opcode::kXor) return {b_.LNotEqual(a.all, c.all), {}};
    return {n.opcode == Opcode::kAnd ? b_.LAnd(a.all, c.all) : b_.LOr(a.all, c.all), {}};
  }
  const Values x = AsWords(a), y = AsWords(c);
  Values out;
  for (std::size_t i = 0; i < x.size(); ++i)
    out.push_back(n.opcode == Opcode::kAnd  ? b_.And(x[i], y[i])
                  : n.opcode == Opcode::kOr ? b_.Or(x[i], y[i])
                                            : b_.Xor(x[i], y[i]));
  return {{}, std::move(out)};
}

MoveLowering::Numbers MoveLowering::NumberOf(plan::IndexId id, const Run& run) {
  const MoveIndices::Step step = *indices_.Of(id);
  Numbers out{First(id, step, run), {}};
  for (const int64_t at : step.offsets.at) out.steps.push_back(at - step.offsets.at[0]);
  return out;
}

MoveLowering::Numbers MoveLowering::NumberOfNode(NodeId id, const Run& run) {
  const Node& n = program_.nodes[static_cast<std::size_t>(id)];
  if (n.op == NodeOp::kIndex) return NumberOf(n.index, run);
  Numbers out{OneOf(id, run), {}};
  out.steps.resize(static_cast<std::size_t>(count_));
  return out;
}

// A comparison of numbers with 0.
MoveLowering::Mask MoveLowering::Compare(ComparisonDirection direction, const Numbers& x) const {
  const auto& [distance, steps] = x;
  if (std::ranges::all_of(steps, [](int64_t step) { return step == 0; }))
    return {LowerCompare(b_, direction, ElementType::kS32, false, distance, b_.U32(0)), {}};
  const auto is_by = [&](int64_t stride) {
    for (std::size_t i = 0; i < steps.size(); ++i)
      if (steps[i] != static_cast<int64_t>(i) * stride) return false;
    return true;
  };
  if (is_by(1)) {
    // distance + i < 0 where i < -distance.
    const Value below = b_.Neg(distance), up_to = b_.Add(below, b_.U32(1));
    const auto first = [&](Value count) { return words_.FirstElements(count, word_count()); };
    const auto others = [&](Value count) {
      Values out = first(count);
      for (Value& v : out) v = b_.Not(v);
      return out;
    };
    if (direction == ComparisonDirection::kLt) return {{}, first(below)};
    if (direction == ComparisonDirection::kLe) return {{}, first(up_to)};
    if (direction == ComparisonDirection::kGe) return {{}, others(below)};
    if (direction == ComparisonDirection::kGt) return {{}, others(up_to)};
  }
  return OfElements(direction, x);
}

// A comparison for each of the different steps.
MoveLowering::Mask MoveLowering::OfElements(ComparisonDirection direction, const Numbers& x) const {
  const auto& [distance, steps] = x;
  const std::set<int64_t> different(steps.begin(), steps.end());
  Values out(static_cast<std::size_t>(word_count()), words_.Repeated(0));
  const auto side = static_cast<std::size_t>(words_.per_word());
  for (const int64_t step : different) {
    const Value holds =
        LowerCompare(b_, direction, ElementType::kS32, false, distance, b_.U32(static_cast<uint32_t>(-step)));
    for (std::size_t i = 0; i < out.size(); ++i) {
      bool elements[8] = {};
      bool any = false;
      for (std::size_t k = 0; k < side; ++k) any |= elements[k] = steps[i * side + k] == step;
      if (any) out[i] = b_.Or(out[i], b_.Select(holds, words_.Mask(std::span(elements, side)), words_.Repeated(0)));
    }
  }
  return {{}, std::move(out)};
}

}  // namespace krafla::spirv
