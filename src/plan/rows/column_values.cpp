// SPDX-License-Identifier: Apache-2.0
#include "plan/rows/column_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace krafla::plan {
namespace {

using RangeKind = ValueRange::Kind;

constexpr double kNoMost = std::numeric_limits<double>::infinity();
// Far below the largest f32, so that no rounding on the way makes it infinite.
constexpr double kMostOfRange = 1e37;

// What an operation's rounding may add.
ValueRange RoundedRange(double lo, double hi, double share = 0x1p-20) {
  if (std::isnan(lo) || std::isnan(hi) || lo < -kMostOfRange) return {};
  return ValueRange::Between(lo - std::abs(lo) * share, hi + std::abs(hi) * share);
}

ValueRange ProductOfRanges(const ValueRange& a, const ValueRange& b) {
  if (!a.IsFinite() || !b.IsFinite()) return {};
  const auto [lo, hi] = std::minmax({a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi});
  return RoundedRange(lo, hi);
}

ValueRange QuotientOfRanges(const ValueRange& a, const ValueRange& b) {
  if (!a.IsFinite() || b.kind != RangeKind::kBetween || !(b.lo > 0)) return {};
  return ProductOfRanges(a, ValueRange::Between(1 / b.hi, 1 / b.lo));
}

ValueRange EitherRange(const ValueRange& a, const ValueRange& b) {
  if (a.kind != b.kind) return {};
  if (a.kind != RangeKind::kBetween) return a;
  return {RangeKind::kBetween, std::min(a.lo, b.lo), std::max(a.hi, b.hi), a.has_one && b.has_one};
}

ValueRange ExponentialOfRange(const ValueRange& a) {
  if (a.kind == RangeKind::kFar) return ValueRange::Between(0, 0);
  if (a.kind == RangeKind::kShifted) return {RangeKind::kBetween, 0, 1, true};
  if (!a.IsFinite()) return {};
  return RoundedRange(std::exp(a.lo), std::exp(a.hi));
}

ValueRange RangeOfHlo(Opcode opcode, const ValueRange& a, const ValueRange& b, const ValueRange& c) {
  if (opcode == Opcode::kSubtract && b.kind == RangeKind::kLargest) {
    if (a.kind == RangeKind::kLow) return ValueRange::Of(RangeKind::kFar);
    return a.kind == RangeKind::kScore ? ValueRange::Of(RangeKind::kShifted) : ValueRange{};
  }
  if (opcode == Opcode::kExp) return ExponentialOfRange(a);
  if (opcode == Opcode::kSelect) return EitherRange(b, c);
  if (opcode == Opcode::kNegate) return a.IsFinite() ? ValueRange::Between(-a.hi, -a.lo) : ValueRange{};
  if (opcode == Opcode::kMultiply) return ProductOfRanges(a, b);
  if (opcode == Opcode::kDivide) return QuotientOfRanges(a, b);
  if (!a.IsFinite() || !b.IsFinite()) return {};
  if (opcode == Opcode::kAdd) return RoundedRange(a.lo + b.lo, a.hi + b.hi);
  if (opcode == Opcode::kSubtract) return RoundedRange(a.lo - b.hi, a.hi - b.lo);
  if (opcode == Opcode::kMaximum) return ValueRange::Between(std::max(a.lo, b.lo), std::max(a.hi, b.hi));
  if (opcode == Opcode::kMinimum) return ValueRange::Between(std::min(a.lo, b.lo), std::min(a.hi, b.hi));
  return {};
}

// To f16 or bf16. A difference stays far below what the exponential of is not zero, and a zero is one.
ValueRange NarrowRange(ElementType storage, const ValueRange& a) {
  if (storage != ElementType::kBF16 && storage != ElementType::kF16) return a.IsZero() ? a : ValueRange{};
  if (a.kind == RangeKind::kFar || a.kind == RangeKind::kShifted || a.IsZero()) return a;
  if (a.kind != RangeKind::kBetween) return {};
  constexpr double kMostF16 = 65000, kShare = 0x1p-7;
  if (storage == ElementType::kF16 && a.lo < -kMostF16) return {};
  ValueRange out = RoundedRange(a.lo, a.hi, kShare);
  if (storage == ElementType::kF16 && out.hi > kMostF16) out.hi = kNoMost;
  // What is small may become zero.
  if (storage == ElementType::kF16 && out.lo > 0 && out.lo < 1e-4) out.lo = 0;
  if (a.has_one) out.lo = std::max(out.lo, 0.0), out.hi = std::max(out.hi, 1.0), out.has_one = true;
  return out;
}

}  // namespace

bool ValueRange::IsFinite() const { return kind == RangeKind::kBetween && hi <= kMostOfRange && lo >= -kMostOfRange; }

ValueRange ValueRange::Between(double lo, double hi) { return {RangeKind::kBetween, lo, hi, false}; }

bool IsOwnColumn(const ElementProgram& program, IndexId index, int column_dim) {
  const IndexSpace::Affine column = program.space.StrideAlong(index, column_dim);
  return column.affine && column.stride == 1 && program.space.expr(index).constant == 0;
}

std::vector<ColumnValue> ValuesOfNodes(const ElementProgram& program, int column_dim,
                                       std::span<const ColumnValue> params,
                                       const std::function<ColumnValue(int buffer, bool in_column)>& array) {
  std::vector<ColumnValue> out;
  const auto of = [&](NodeId id) { return id == kNoNode ? ColumnValue{} : out[static_cast<std::size_t>(id)]; };
  const auto load = [&](const Node& n) {
    if (n.mask != kNoNode || n.type != ElementType::kF32) return ColumnValue{};
    if (column_dim >= 0 && IsOwnColumn(program, n.index, column_dim)) return array(n.buffer, true);
    if (column_dim < 0) return array(n.buffer, false);
    const IndexSpace::Affine column = program.space.StrideAlong(n.index, column_dim);
    return column.affine && column.stride == 0 ? array(n.buffer, false) : ColumnValue{};
  };
  for (std::size_t id = 0; id < program.nodes.size(); ++id) {
    const Node& n = program.nodes[id];
    const ColumnValue a = of(n.operands[0]), b = of(n.operands[1]), c = of(n.operands[2]);
    ColumnValue value;
    if (const std::optional<float> constant = FloatConstant(program, static_cast<NodeId>(id));
        constant && std::isfinite(*constant))
      value = ColumnValue::Same(ValueRange::Between(*constant, *constant));
    switch (n.op) {
      case NodeOp::kLoad: value = load(n); break;
      case NodeOp::kParam:
        if (n.bits < params.size()) value = params[static_cast<std::size_t>(n.bits)];
        break;
      case NodeOp::kRound: value = {NarrowRange(n.storage, a.hidden), NarrowRange(n.storage, a.any)}; break;
      case NodeOp::kHlo:
        if (n.type == ElementType::kF32)
          value = {RangeOfHlo(n.opcode, a.hidden, b.hidden, c.hidden), RangeOfHlo(n.opcode, a.any, b.any, c.any)};
        break;
      case NodeOp::kConstant:
      case NodeOp::kIndex:
      case NodeOp::kCompare:
      case NodeOp::kConvert:
      case NodeOp::kBitcast:
      case NodeOp::kWrap:
      case NodeOp::kEncode:
      case NodeOp::kDecode:
      case NodeOp::kReducePrecision: break;
    }
    out.push_back(value);
  }
  return out;
}

namespace {

// What a reduction makes of such values; kUnknown: hidden columns may change it.
ValueRange ReducedRange(const Reduction& r, const ColumnValue& in, int64_t columns) {
  if (r.kind == Reduction::Kind::kMax && in.hidden.kind == RangeKind::kLow && in.any.kind == RangeKind::kScore) {
    // What is above the mask's constant is a score then.
    const std::optional<float> first = FloatConstant(r.init, r.init.results[0]);
    return first && *first <= in.hidden.lo ? ValueRange::Of(RangeKind::kLargest) : ValueRange{};
  }
  if (r.kind != Reduction::Kind::kSum || !in.hidden.IsZero()) return {};
  // Twice what the exact sum is at the most: its terms are rounded, and so are the sums.
  const double most = 2 * static_cast<double>(columns);
  if (in.any.has_one) return ValueRange::Between(0.5, most);
  if (!in.any.IsFinite()) return ValueRange::Between(-kNoMost, kNoMost);
  return RoundedRange(most * std::min(in.any.lo, 0.0), most * std::max(in.any.hi, 0.0));
}

}  // namespace

ReducedColumns ReduceColumns(const ReduceKernel& reduce,
                             const std::function<ColumnValue(int buffer, bool in_column)>& array) {
  ReducedColumns out;
  const int column_dim = static_cast<int>(reduce.row_dims.size());
  for (const ReduceStage& stage : reduce.stages) {
    const bool is_row = stage.scope == ReduceStage::Scope::kRow;
    const std::vector<ColumnValue> values = ValuesOfNodes(stage.program, is_row ? -1 : column_dim, out.params, array);
    for (const Store& s : stage.program.stores)
      (is_row ? out.row_stores : out.stores)
          .emplace_back(s.buffer, s.mask == kNoNode ? values[static_cast<std::size_t>(s.node)] : ColumnValue{});
    std::vector<ColumnValue> made;
    for (const Reduction& r : stage.reductions) {
      if (is_row || r.inputs.size() != 1) return out;
      const NodeId in = stage.program.results[static_cast<std::size_t>(r.inputs[0])];
      const ValueRange result = ReducedRange(r, values[static_cast<std::size_t>(in)], reduce.element_dims[0]);
      if (result.kind == RangeKind::kUnknown) return out;
      made.push_back(ColumnValue::Same(result));
    }
    out.params.insert(out.params.end(), made.begin(), made.end());
  }
  out.fits = true;
  return out;
}

}  // namespace krafla::plan
