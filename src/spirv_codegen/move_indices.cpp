// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/move_indices.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "base/checked_math.h"

namespace krafla::spirv {

using plan::Node;
using plan::NodeId;
using plan::NodeOp;

namespace {

// Whether a value that is loaded and stored again as such has the same bits.
bool HasPlainBits(ElementType storage) {
  return storage == ElementType::kPred || storage == ElementType::kF32 || storage == ElementType::kF64 ||
         (IsIntegral(storage) && BitWidth(storage) >= 8);
}

// Whether the operation gives the same low bits of the result for the same low bits of the operands, bit by bit.
bool IsBitwise(const Node& n) {
  return n.op == NodeOp::kHlo && (IsIntegral(n.type) || n.type == ElementType::kPred) &&
         (n.opcode == Opcode::kAnd || n.opcode == Opcode::kOr || n.opcode == Opcode::kXor || n.opcode == Opcode::kNot);
}

}  // namespace

Limits FindLimits(plan::ElementProgram& program) {
  Limits out;
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& n = program.nodes[i];
    if (n.op != NodeOp::kCompare || n.total_order) continue;
    const Node& x = program.nodes[static_cast<std::size_t>(n.operands[0])];
    const Node& c = program.nodes[static_cast<std::size_t>(n.operands[1])];
    if (x.op != NodeOp::kIndex || c.op != NodeOp::kConstant || c.type != ElementType::kS32) continue;
    Limit limit{x.index, n.direction, static_cast<int32_t>(c.bits)};
    const bool is_order = n.direction != ComparisonDirection::kEq && n.direction != ComparisonDirection::kNe;
    if (is_order && (n.direction == ComparisonDirection::kLe || n.direction == ComparisonDirection::kGt)) {
      limit.direction = n.direction == ComparisonDirection::kLe ? ComparisonDirection::kLt : ComparisonDirection::kGe;
      ++limit.limit;
    }
    const plan::IndexExpr& e = program.space.expr(x.index);
    if (!is_order || e.terms.size() != 1 || e.terms[0].coefficient != 1) continue;
    const int64_t rest = limit.limit - e.constant;
    const plan::IndexAtom atom = program.space.atom(e.terms[0].atom);
    int64_t divisor = 0;
    if (atom.kind == plan::IndexAtom::Kind::kFloorDiv) {
      limit.index = atom.expr, divisor = atom.divisor;
    } else if (atom.kind == plan::IndexAtom::Kind::kMod) {
      // (x / d) % n is x % (d * n) / d.
      const plan::IndexExpr& inner = program.space.expr(atom.expr);
      if (inner.constant != 0 || inner.terms.size() != 1 || inner.terms[0].coefficient != 1) continue;
      const plan::IndexAtom quotient = program.space.atom(inner.terms[0].atom);
      if (quotient.kind != plan::IndexAtom::Kind::kFloorDiv) continue;
      divisor = quotient.divisor;
      const int64_t modulus = plan::SaturatedMultiply(divisor, atom.divisor);
      if (modulus > std::numeric_limits<int32_t>::max()) continue;
      limit.index = program.space.Mod(quotient.expr, modulus);
    }
    limit.limit = plan::SaturatedMultiply(rest, divisor);
    if (divisor != 0 && std::abs(limit.limit) <= std::numeric_limits<int32_t>::max())
      out.emplace(static_cast<NodeId>(i), limit);
  }
  return out;
}

MoveIndices::MoveIndices(const plan::ElementProgram& program, const Limits& limits,
                         std::vector<PointGroup::Along> points, int element_bytes, bool in_runs)
    : program_(program),
      limits_(limits),
      element_bytes_(element_bytes),
      count_(std::ssize(points[0].offsets.at)),
      group_(program, std::move(points)) {
  if (in_runs) runs_.emplace(program);
}

bool MoveIndices::MayMove(const Node& n) {
  return n.op == NodeOp::kWrap || n.op == NodeOp::kConvert || n.op == NodeOp::kBitcast || IsBitwise(n) ||
         (n.op == NodeOp::kHlo && n.opcode == Opcode::kSelect);
}

bool MoveIndices::CanMove() {
  for (const plan::Store& s : program_.stores) {
    if (s.mask != plan::kNoNode || !HasPlainBits(s.storage) || StorageBytes(s.storage) != element_bytes_ ||
        !Moves(s.node))
      return false;
    const Node& n = program_.nodes[static_cast<std::size_t>(s.node)];
    // A pred is stored as 0 or 1, and its bits are those of no other type.
    if ((n.type == ElementType::kPred) != (s.storage == ElementType::kPred)) return false;
  }
  return AreLong(starts_);
}

// A block has the ends of one run and the beginning of the next, at the most.
bool MoveIndices::AreLong(const RunStarts& starts) const { return starts.length == 0 || starts.length >= count_ - 1; }

bool MoveIndices::CanCompute() {
  std::vector<bool> seen(program_.nodes.size());
  std::vector<NodeId> open;
  for (const plan::Store& s : program_.stores) {
    if (s.mask != plan::kNoNode || StorageBytes(s.storage) > 4) return false;
    open.push_back(s.node);
  }
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    if (seen[static_cast<std::size_t>(id)]) continue;
    seen[static_cast<std::size_t>(id)] = true;
    if (!Computes(id, open)) return false;
  }
  return AreLong(starts_);
}

// Whether the node can be given or, with those that it adds to `open`, computed.
bool MoveIndices::Computes(NodeId id, std::vector<NodeId>& open) {
  const Node& n = program_.nodes[static_cast<std::size_t>(id)];
  if (n.op == NodeOp::kParam) return false;
  if (n.op == NodeOp::kConstant) return true;
  if (IsSame(id)) return same_.insert(id).second;
  if (const Limit* limit = LimitOf(id); limit != nullptr && Take(limit->index)) return numbers_.insert(id).second;
  if (const auto runs = runs_ ? runs_->OfNode(id) : std::nullopt; runs && AreLong(*runs) && Take(runs))
    return ones_.insert(id).second;
  if (n.op == NodeOp::kIndex) return Take(n.index) && numbers_.insert(id).second;
  if (n.op == NodeOp::kLoad) {
    if (StorageBytes(n.storage) > 4 || program_.buffers[static_cast<std::size_t>(n.buffer)].element_count == 0 ||
        !Take(n.index))
      return false;
    loads_.insert(id);
    if (n.mask != plan::kNoNode) open.push_back(n.mask);
    return true;
  }
  for (const NodeId operand : n.operands)
    if (operand != plan::kNoNode) open.push_back(operand);
  return true;
}

bool MoveIndices::Take(const std::optional<RunStarts>& starts) {
  const std::optional<RunStarts> both = RunGroup::Both(starts_, starts);
  if (both) starts_ = *both;
  return both.has_value();
}

std::optional<MoveIndices::Step> MoveIndices::Of(plan::IndexId id) {
  if (const std::optional<PointGroup::Offsets> offsets = group_.Of(id)) return Step{*offsets};
  const std::optional<RunGroup::Run> run = runs_ ? runs_->Of(id) : std::nullopt;
  if (!run) return std::nullopt;
  Step out{{1, {}}, true, run->stride};
  for (int64_t i = 0; i < count_; ++i) out.offsets.at.push_back(i * run->stride);
  return out;
}

bool MoveIndices::Take(plan::IndexId id) {
  if (group_.Of(id)) return true;
  const std::optional<RunGroup::Run> run = runs_ ? runs_->Of(id) : std::nullopt;
  return run && Take(run->starts);
}

bool MoveIndices::Moves(NodeId id) {
  if (moved_.contains(id)) return true;
  const Node& n = program_.nodes[static_cast<std::size_t>(id)];
  const auto moves = [&](std::size_t operand) { return Moves(n.operands[operand]); };
  bool out = false;
  if (n.op == NodeOp::kConstant) {
    out = true;
  } else if (n.op == NodeOp::kLoad) {
    out = HasPlainBits(n.storage) && StorageBytes(n.storage) == element_bytes_ &&
          program_.buffers[static_cast<std::size_t>(n.buffer)].element_count > 0 && Take(n.index) &&
          (n.mask == plan::kNoNode || Masks(n.mask));
    if (out) loads_.insert(id);
  } else if (n.op == NodeOp::kHlo && n.opcode == Opcode::kSelect) {
    out = Masks(n.operands[0]) && moves(1) && moves(2);
  } else if (IsBitwise(n)) {
    out = moves(0) && (n.opcode == Opcode::kNot || moves(1));
  } else if (n.op == NodeOp::kWrap) {
    out = BitWidth(n.storage) >= element_bytes_ * 8 && moves(0);
  } else if (n.op == NodeOp::kConvert) {
    out = IsIntegral(n.type) && IsIntegral(program_.nodes[static_cast<std::size_t>(n.operands[0])].type) && moves(0);
  } else if (n.op == NodeOp::kBitcast) {
    out = moves(0);
  }
  if (out) moved_.insert(id);
  return out;
}

// Whether the node is a number that goes on by steps.
bool MoveIndices::Steps(NodeId id) {
  const Node& n = program_.nodes[static_cast<std::size_t>(id)];
  if (n.type != ElementType::kS32) return false;
  if (IsSame(id)) return true;
  if (n.op == NodeOp::kIndex) return Take(n.index);
  return runs_ && Take(runs_->OfNode(id));
}

bool MoveIndices::Masks(NodeId id) {
  if (masks_.contains(id)) return true;
  const Node& n = program_.nodes[static_cast<std::size_t>(id)];
  bool out = IsSame(id);
  if (!out && n.op == NodeOp::kHlo && IsBitwise(n))
    out = Masks(n.operands[0]) && (n.opcode == Opcode::kNot || Masks(n.operands[1]));
  if (const Limit* limit = LimitOf(id); !out && limit != nullptr) out = Take(limit->index);
  if (!out && runs_) out = runs_->OfNode(id) && Take(runs_->OfNode(id));
  if (!out && n.op == NodeOp::kCompare && !n.total_order) out = Steps(n.operands[0]) && Steps(n.operands[1]);
  if (!out && n.op == NodeOp::kLoad && element_bytes_ == 1 && n.storage == ElementType::kPred) out = Moves(id);
  if (out) masks_.insert(id);
  return out;
}

}  // namespace krafla::spirv
