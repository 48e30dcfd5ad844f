// SPDX-License-Identifier: Apache-2.0
#include "plan/rows/column_limits.h"

#include <algorithm>
#include <cmath>

#include "ir/comparison.h"
#include "plan/reindex.h"
#include "plan/rows/mask_ranges.h"

namespace krafla::plan {
namespace {

std::size_t LimitAt(int64_t i) { return static_cast<std::size_t>(i); }

ComparisonDirection Negated(ComparisonDirection direction) {
  switch (direction) {
    case ComparisonDirection::kLt: return ComparisonDirection::kGe;
    case ComparisonDirection::kLe: return ComparisonDirection::kGt;
    case ComparisonDirection::kGt: return ComparisonDirection::kLe;
    case ComparisonDirection::kGe: return ComparisonDirection::kLt;
    case ComparisonDirection::kEq: return ComparisonDirection::kNe;
    case ComparisonDirection::kNe: return ComparisonDirection::kEq;
  }
  KRAFLA_UNREACHABLE();
}

class LimitFinder {
 public:
  LimitFinder(const ElementProgram& epilogue, double low)
      : p_(epilogue), low_(low), column_(static_cast<int>(epilogue.space.dims().size()) - 1), ranges_(epilogue) {
    // The program at column 0, over the rows: nodes keep their numbers.
    Dims dims = p_.space.dims();
    dims.pop_back();
    std::vector<DimImage> images;
    for (std::size_t d = 0; d < dims.size(); ++d) images.push_back(DimImage::Of(static_cast<int>(d)));
    images.emplace_back();
    out_ = Reindex(p_, dims, images);
    out_.stores.clear();
    out_.results.clear();
  }

  // `from`: the value that is `low` where it is masked.
  std::optional<ColumnLimits> Run(NodeId from) {
    Look(from);
    if (ends_.empty() && begins_.empty()) return std::nullopt;
    ColumnLimits out;
    out.ends = static_cast<int>(ends_.size());
    for (const auto& limits : {ends_, begins_})
      for (NodeId limit : limits) out_.results.push_back(limit);
    DropUnneededNodes(out_);
    out.program = std::move(out_);
    return out;
  }

 private:
  const Node& At(NodeId id) const { return p_.nodes[LimitAt(id)]; }
  bool IsLow(NodeId id) const {
    const std::optional<float> value = FloatConstant(p_, id);
    return value && *value == static_cast<float>(low_);
  }
  bool HasColumn(NodeId id) const { return ((At(id).depends >> column_) & 1) != 0; }

  // A value that is `low` wherever it is masked.
  void Look(NodeId id) {
    const Node& n = At(id);
    if (n.op != NodeOp::kHlo || n.opcode != Opcode::kSelect) return;
    if (IsLow(n.operands[2])) Holds(n.operands[0], true), Look(n.operands[1]);
    else if (IsLow(n.operands[1])) Holds(n.operands[0], false), Look(n.operands[2]);
  }
  // What is not masked has this pred so.
  void Holds(NodeId id, bool so) {
    const Node& n = At(id);
    if (n.op == NodeOp::kHlo && n.opcode == Opcode::kNot && n.type == ElementType::kPred) {
      Holds(n.operands[0], !so);
    } else if (n.op == NodeOp::kHlo && n.opcode == (so ? Opcode::kAnd : Opcode::kOr) && n.type == ElementType::kPred) {
      Holds(n.operands[0], so);
      Holds(n.operands[1], so);
    } else if (n.op == NodeOp::kCompare && At(n.operands[0]).type == ElementType::kS32) {
      const ComparisonDirection direction = so ? n.direction : Negated(n.direction);
      Compare(n.operands[0], direction, n.operands[1]);
      Compare(n.operands[1], Mirrored(direction), n.operands[0]);
    }
  }
  // `side` goes on by one or back by one from column to column, and `other` does not.
  void Compare(NodeId side, ComparisonDirection direction, NodeId other) {
    constexpr Interval kSmall{-(int64_t{1} << 29), int64_t{1} << 29};
    const std::optional<Interval> range = ranges_.Of(side);
    const std::optional<int64_t> step = StepOf(side);
    if (HasColumn(other) || !range || !range->Within(kSmall) || !step || std::abs(*step) != 1) return;
    // side = at0 + step * column. Where `other` is far away, its bound is.
    const NodeId bound = Add(Opcode::kMinimum, Add(Opcode::kMaximum, other, S32(kSmall.lo)), S32(kSmall.hi));
    const NodeId column = *step > 0 ? Add(Opcode::kSubtract, bound, side) : Add(Opcode::kSubtract, side, bound);
    const ComparisonDirection of_column = *step > 0 ? direction : Mirrored(direction);
    const auto behind = [&] { return Add(Opcode::kAdd, column, S32(1)); };
    switch (of_column) {
      case ComparisonDirection::kLt: ends_.push_back(column); return;
      case ComparisonDirection::kLe: ends_.push_back(behind()); return;
      case ComparisonDirection::kGt: begins_.push_back(behind()); return;
      case ComparisonDirection::kGe: begins_.push_back(column); return;
      case ComparisonDirection::kEq:
        begins_.push_back(column);
        ends_.push_back(behind());
        return;
      case ComparisonDirection::kNe: return;
    }
  }
  // By how much an integer goes on from column to column.
  std::optional<int64_t> StepOf(NodeId id) const {
    const Node& n = At(id);
    if (!HasColumn(id)) return 0;
    if (n.op == NodeOp::kIndex) {
      const IndexSpace::Affine affine = p_.space.StrideAlong(n.index, column_);
      return affine.affine ? std::optional(affine.stride) : std::nullopt;
    }
    if (n.op != NodeOp::kHlo || n.type != ElementType::kS32 ||
        (n.opcode != Opcode::kAdd && n.opcode != Opcode::kSubtract))
      return std::nullopt;
    const std::optional<int64_t> a = StepOf(n.operands[0]), b = StepOf(n.operands[1]);
    if (!a || !b) return std::nullopt;
    return n.opcode == Opcode::kAdd ? *a + *b : *a - *b;
  }

  NodeId S32(int64_t value) { return AppendS32(out_, value); }
  NodeId Add(Opcode opcode, NodeId a, NodeId b) { return AppendS32(out_, opcode, a, b); }

  const ElementProgram& p_;
  const double low_;
  const int column_;
  MaskRanges ranges_;
  ElementProgram out_;
  std::vector<NodeId> ends_, begins_;
};

}  // namespace

std::optional<ColumnLimits> FindColumnLimits(const DotKernel& scores, double low, double least) {
  const std::optional<AddedMask> added = FindAddedMask(scores.epilogue);
  const NodeId from = added ? added->choice : scores.epilogue.stores.front().node;
  std::optional<ColumnLimits> out = LimitFinder(scores.epilogue, low).Run(from);
  if (!out) return out;
  out->least = least;
  if (added) out->added = added->factor;
  return out;
}

namespace {

const Node& Unrounded(const ElementProgram& p, NodeId& id) {
  while (p.nodes[LimitAt(id)].op == NodeOp::kRound) id = p.nodes[LimitAt(id)].operands[0];
  return p.nodes[LimitAt(id)];
}

// How many times the size of the product a value is at the most.
std::optional<double> FactorOf(const ElementProgram& p, NodeId id) {
  const Node& n = Unrounded(p, id);
  if (n.op == NodeOp::kParam && n.bits == 0) return 1.01;  // for what is rounded on the way
  if (n.op != NodeOp::kHlo) return std::nullopt;
  if (n.opcode == Opcode::kMultiply)
    for (const int side : {0, 1}) {
      const std::optional<float> by = FloatConstant(p, n.operands[static_cast<std::size_t>(side)]);
      const std::optional<double> of = by ? FactorOf(p, n.operands[static_cast<std::size_t>(1 - side)]) : std::nullopt;
      if (of) return *of * std::abs(*by);
    }
  if (n.opcode == Opcode::kDivide) {
    const std::optional<float> by = FloatConstant(p, n.operands[1]);
    const std::optional<double> of = by && *by != 0 ? FactorOf(p, n.operands[0]) : std::nullopt;
    if (of) return *of / std::abs(*by);
  }
  return std::nullopt;
}

}  // namespace

std::optional<AddedMask> FindAddedMask(const ElementProgram& epilogue) {
  if (epilogue.stores.size() != 1) return std::nullopt;
  NodeId root = epilogue.stores.front().node;
  const Node& sum = Unrounded(epilogue, root);
  if (sum.op != NodeOp::kHlo || sum.opcode != Opcode::kAdd || sum.type != ElementType::kF32) return std::nullopt;
  for (const int side : {0, 1}) {
    AddedMask out;
    out.choice = sum.operands[static_cast<std::size_t>(side)];
    const Node& choice = Unrounded(epilogue, out.choice);
    const std::optional<double> factor = FactorOf(epilogue, sum.operands[static_cast<std::size_t>(1 - side)]);
    if (!factor || choice.op != NodeOp::kHlo || choice.opcode != Opcode::kSelect) continue;
    const std::optional<float> a = FloatConstant(epilogue, choice.operands[1]),
                               b = FloatConstant(epilogue, choice.operands[2]);
    if (!a || !b || !(std::min(*a, *b) < 0) || !std::isfinite(std::max(*a, *b))) continue;
    out.low = std::min(*a, *b), out.factor = *factor;
    return out;
  }
  return std::nullopt;
}

}  // namespace krafla::plan
