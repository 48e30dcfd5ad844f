// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/quantised_weights.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/index.h"
#include "cpu_fallback/executor/iteration.h"
#include "cpu_fallback/executor/pieces.h"
#include "plan/interval.h"
#include "plan/reindex.h"

namespace krafla::cpu {

using plan::ElementProgram;
using plan::kNoNode;
using plan::Node;
using plan::NodeId;
using plan::NodeOp;

namespace {

constexpr plan::Interval kSignedByte{-128, 127}, kUnsignedByte{0, 255};
// Shorter groups are not worth a turn of their own.
constexpr int64_t kLeastGroup = 8;
// Scales, divisors and a zero point of one weight.
constexpr int kMostFactors = 6;

plan::Interval RangeOfStorage(ElementType type) {
  if (!IsIntegral(type) || BitWidth(type) > 16) return {};
  const int64_t values = int64_t{1} << BitWidth(type);
  return IsSigned(type) ? plan::Interval{-values / 2, values / 2 - 1} : plan::Interval{0, values - 1};
}

// The integers that each node may be, as far as storage types and constants tell.
std::vector<plan::Interval> RangesOf(const ElementProgram& program) {
  std::vector<plan::Interval> out;
  const auto keeps = [](plan::Interval r) { return r.lo >= 0 && r.hi <= 0x7fffffff ? r : plan::Interval{}; };
  const auto range = [&](const Node& n) -> plan::Interval {
    const auto of = [&](std::size_t operand) { return out[At(n.operands[operand])]; };
    const auto type_of = [&](std::size_t operand) { return program.nodes[At(n.operands[operand])].type; };
    if (n.op == NodeOp::kConstant && n.type == ElementType::kS32)
      return {static_cast<int32_t>(n.bits), static_cast<int32_t>(n.bits)};
    if (n.op == NodeOp::kConstant && n.type == ElementType::kU32)
      return {static_cast<uint32_t>(n.bits), static_cast<uint32_t>(n.bits)};
    if (n.op == NodeOp::kLoad) return RangeOfStorage(n.storage);
    if (n.op == NodeOp::kWrap) return of(0).Within(RangeOfStorage(n.storage)) ? of(0) : RangeOfStorage(n.storage);
    if (n.op == NodeOp::kConvert || n.op == NodeOp::kBitcast) {
      if (!IsIntegral(type_of(0)) || !IsIntegral(n.type)) return {};
      return IsSigned(n.type) == IsSigned(type_of(0)) ? of(0) : keeps(of(0));
    }
    if (n.op != NodeOp::kHlo || !IsIntegral(n.type)) return {};
    if (n.opcode == Opcode::kSelect) return plan::Union(of(1), of(2));
    if (n.opcode == Opcode::kAnd) {
      for (const std::size_t o : {0, 1})
        if (of(o).lo >= 0 && of(o).lo == of(o).hi) return {0, of(o).hi};
    }
    if (n.opcode == Opcode::kShiftRightLogical && of(0).lo >= 0) return {0, keeps(of(0)).hi};
    if (n.opcode == Opcode::kSubtract) {
      const plan::Interval made = of(0) + of(1) * -1;
      if (made.Within({-0x80000000LL, 0x7fffffffLL})) return made;
    }
    return {};
  };
  for (const Node& n : program.nodes) out.push_back(range(n));
  return out;
}

NodeId AppendNode(ElementProgram& program, Node node) {
  for (const NodeId o : node.operands)
    if (o != kNoNode) node.depends |= program.nodes[At(o)].depends;
  program.nodes.push_back(node);
  return static_cast<NodeId>(program.nodes.size()) - 1;
}
NodeId AppendFloat(ElementProgram& program, Opcode opcode, NodeId a, NodeId b) {
  return AppendNode(program, {.op = NodeOp::kHlo,
                              .opcode = opcode,
                              .type = ElementType::kF32,
                              .storage = ElementType::kF32,
                              .operands = {a, b, kNoNode}});
}

// The parts of an operand's value; kNoNode: a scale of 1, a zero point of 0.
struct WeightParts {
  NodeId code = kNoNode, scale = kNoNode, zero = kNoNode;
};

class WeightFinder {
 public:
  WeightFinder(const ElementProgram& program, bool is_rhs)
      : program_(program),
        ranges_(RangesOf(program)),
        depth_(static_cast<int>(program.space.dims().size()) - (is_rhs ? 2 : 1)) {}

  std::optional<QuantisedWeights> Run() {
    std::optional<WeightParts> parts = Find(program_.results[0], kMostFactors);
    if (!parts) return std::nullopt;
    QuantisedWeights out;
    const int64_t depth = program_.space.dims()[At(depth_)];
    out.group = depth;
    for (const NodeId id : {parts->scale, parts->zero})
      if (id != kNoNode) out.group = std::gcd(out.group, GroupOf(id));
    if (out.group < std::min(kLeastGroup, depth)) return std::nullopt;
    out.codes = ProgramOf(parts->code);
    out.code_type = ranges_[At(parts->code)].lo < 0 ? ElementType::kS8 : ElementType::kU8;
    if (parts->scale != kNoNode) out.scales = OfGroups(parts->scale, out.group);
    if (parts->zero != kNoNode) out.zeros = OfGroups(parts->zero, out.group);
    const Rounding rounding = FindRounding(*parts);
    out.made = rounding.made, out.made_in = rounding.in, out.fits_bf16 = rounding.fits_bf16;
    if (rounding.divisor != kNoNode) out.divisors = OfGroups(rounding.divisor, out.group);
    if (rounding.zero != kNoNode) out.integer_zeros = OfGroups(rounding.zero, out.group);
    return out;
  }

 private:
  const Node& NodeAt(NodeId id) const { return program_.nodes[At(id)]; }
  NodeId WithoutRounding(NodeId id) const {
    while (NodeAt(id).op == NodeOp::kRound && NodeAt(id).type == ElementType::kF32) id = NodeAt(id).operands[0];
    return id;
  }
  bool IsCode(NodeId id) const {
    const plan::Interval r = ranges_[At(id)];
    return r.Within(kSignedByte) || r.Within(kUnsignedByte);
  }
  // Whether a node has the same value at some places of the depth in turn.
  bool IsOfGroups(NodeId id) { return GroupOf(id) >= std::min(kLeastGroup, program_.space.dims()[At(depth_)]); }

  struct Rounding {
    QuantisedWeights::Made made = QuantisedWeights::Made::kOtherwise;
    ElementType in = ElementType::kF32;
    NodeId divisor = kNoNode, zero = kNoNode;  // an integer
    bool fits_bf16 = false;
  };
  Rounding FindRounding(const WeightParts& parts) const {
    using enum QuantisedWeights::Made;
    const NodeId result = program_.results[0];
    ElementType in = ElementType::kF32;
    for (const ElementType type : {ElementType::kF16, ElementType::kBF16})
      if (IsRoundedTo(result, type)) in = type;
    const auto with = [&](QuantisedWeights::Made made, NodeId number, NodeId divisor) -> Rounding {
      const std::optional<NodeId> zero = IntegerZeroOf(number, parts, in);
      if (!zero) return {};
      return {made, in, divisor, *zero, *zero == kNoNode || IsSmallDifference(parts.code, *zero)};
    };
    if (parts.scale == kNoNode) return with(kCodes, result, kNoNode);
    const Node& n = NodeAt(Unrounded(result, in));
    if (n.op != NodeOp::kHlo) return {};
    const NodeId a = n.operands[0], b = n.operands[1];
    if (n.opcode == Opcode::kMultiply && (a == parts.scale || b == parts.scale))
      return with(kProducts, b == parts.scale ? a : b, kNoNode);
    // The scale that Find has made of the divisor.
    const Node& scale = NodeAt(parts.scale);
    if (n.opcode == Opcode::kDivide && At(parts.scale) >= ranges_.size() && scale.opcode == Opcode::kDivide &&
        scale.operands[1] == b)
      return with(kQuotients, a, b);
    return {};
  }
  // The zero point of a node that is code - zero, as the integer that it is; kNoNode: there is none. Nothing: the node
  // is another, or rounds to more than `in` does.
  std::optional<NodeId> IntegerZeroOf(NodeId id, const WeightParts& parts, ElementType in) const {
    const bool is_rounded = IsRoundedTo(id, in);
    const Node& n = NodeAt(Unrounded(id, in));
    if (n.op == NodeOp::kConvert && n.operands[0] == parts.code && parts.zero == kNoNode) return kNoNode;
    if (parts.zero == kNoNode) return std::nullopt;
    NodeId code = kNoNode, zero = kNoNode;
    if (n.op == NodeOp::kConvert) {
      // Integers are exact before they are rounded.
      const Node& difference = NodeAt(n.operands[0]);
      if (difference.op != NodeOp::kHlo || difference.opcode != Opcode::kSubtract) return std::nullopt;
      code = difference.operands[0], zero = difference.operands[1];
      if (!is_rounded && !IsSmallDifference(code, zero)) return std::nullopt;
    } else if (n.op == NodeOp::kHlo && n.opcode == Opcode::kSubtract && n.operands[1] == parts.zero) {
      const Node &a = NodeAt(Unrounded(n.operands[0], in)), &b = NodeAt(Unrounded(n.operands[1], in));
      if (a.op != NodeOp::kConvert || b.op != NodeOp::kConvert) return std::nullopt;
      code = a.operands[0], zero = b.operands[0];
      if (!IsSmallDifference(code, zero)) return std::nullopt;
    }
    return code == parts.code && zero != kNoNode ? std::optional(zero) : std::nullopt;
  }
  bool IsRoundedTo(NodeId id, ElementType type) const {
    return NodeAt(id).op == NodeOp::kRound && NodeAt(id).storage == type;
  }
  NodeId Unrounded(NodeId id, ElementType type) const { return IsRoundedTo(id, type) ? NodeAt(id).operands[0] : id; }
  // Whether bf16 has both, and what is between them.
  bool IsSmallDifference(NodeId code, NodeId zero) const {
    constexpr plan::Interval kExact{-256, 256};
    if (At(zero) >= ranges_.size() || !IsIntegral(NodeAt(zero).type)) return false;
    return ranges_[At(zero)].Within(kExact) && (ranges_[At(code)] + ranges_[At(zero)] * -1).Within(kExact);
  }

  std::optional<WeightParts> Find(NodeId id, int most) {
    id = WithoutRounding(id);
    const Node n = NodeAt(id);
    if (n.type != ElementType::kF32 || most == 0) return std::nullopt;
    if (n.op == NodeOp::kConvert) return FindCodeOf(n.operands[0]);
    if (n.op != NodeOp::kHlo) return std::nullopt;
    const NodeId a = n.operands[0], b = n.operands[1];
    if (n.opcode == Opcode::kMultiply) {
      for (const auto& [q, s] : {std::pair(a, b), std::pair(b, a)}) {
        if (!IsOfGroups(s)) continue;
        if (std::optional<WeightParts> parts = Find(q, most - 1)) return Scaled(*parts, s);
      }
    } else if (n.opcode == Opcode::kDivide && IsOfGroups(b)) {
      std::optional<WeightParts> parts = Find(a, most - 1);
      if (!parts) return std::nullopt;
      const NodeId one = AppendNode(
          program_, {.op = NodeOp::kConstant, .type = ElementType::kF32, .bits = std::bit_cast<uint32_t>(1.0f)});
      return Scaled(*parts, AppendFloat(program_, Opcode::kDivide, one, b));
    } else if (n.opcode == Opcode::kSubtract && IsOfGroups(b)) {
      std::optional<WeightParts> parts = Find(a, most - 1);
      // Of a scaled number it would be a zero point divided by the scale.
      if (!parts || parts->scale != kNoNode || parts->zero != kNoNode) return std::nullopt;
      parts->zero = b;
      return parts;
    }
    return std::nullopt;
  }
  std::optional<WeightParts> FindCodeOf(NodeId id) {
    if (!IsIntegral(NodeAt(id).type)) return std::nullopt;
    if (IsCode(id)) return WeightParts{.code = id};
    const Node n = NodeAt(id);
    if (n.op != NodeOp::kHlo || n.opcode != Opcode::kSubtract || n.type != ElementType::kS32) return std::nullopt;
    if (!IsCode(n.operands[0]) || !IsOfGroups(n.operands[1])) return std::nullopt;
    const NodeId zero = AppendNode(
        program_, {.op = NodeOp::kConvert, .type = ElementType::kF32, .operands = {n.operands[1], kNoNode, kNoNode}});
    return WeightParts{.code = n.operands[0], .zero = zero};
  }
  WeightParts Scaled(WeightParts parts, NodeId scale) {
    parts.scale = parts.scale == kNoNode ? scale : AppendFloat(program_, Opcode::kMultiply, parts.scale, scale);
    return parts;
  }

  ElementProgram ProgramOf(NodeId id) const {
    ElementProgram out = program_;
    out.results = {id};
    plan::DropUnneededNodes(out);
    return out;
  }
  // How many places of the depth in turn have the same value of a node, at least.
  int64_t GroupOf(NodeId id) const {
    ElementProgram part = ProgramOf(id);
    // Dimensions of the depth, the outermost first.
    std::vector<int> dims = {depth_};
    for (DimSplit split = FindSplit(part); split.dim >= 0; split = FindSplit(part)) {
      part = SplitDim(part, split.dim, split.inner);
      std::vector<int> now;
      for (const int d : dims) {
        now.push_back(d > split.dim ? d + 1 : d);
        if (d == split.dim) now.push_back(d + 1);
      }
      dims = std::move(now);
    }
    // Which tells what nodes still vary with.
    part = Restrict(part, 0, 0, part.space.dims()[0]);
    const uint64_t depends = part.nodes[At(part.results[0])].depends;
    int64_t group = 1;
    for (std::size_t i = dims.size(); i-- > 0 && ((depends >> dims[i]) & 1) == 0;)
      group *= part.space.dims()[At(dims[i])];
    return group;
  }
  ElementProgram OfGroups(NodeId id, int64_t group) const {
    const ElementProgram part = ProgramOf(id);
    Dims dims = part.space.dims();
    dims[At(depth_)] /= group;
    std::vector<plan::DimImage> images;
    for (int d = 0; d < static_cast<int>(dims.size()); ++d) images.push_back(plan::DimImage::Of(d));
    images[At(depth_)].terms[0].coefficient = group;
    return plan::Reindex(part, dims, images);
  }

  ElementProgram program_;
  std::vector<plan::Interval> ranges_;  // of the nodes that it had
  int depth_;
};

}  // namespace

std::optional<QuantisedWeights> FindQuantisedWeights(const ElementProgram& program, bool is_rhs) {
  return WeightFinder(program, is_rhs).Run();
}

}  // namespace krafla::cpu
