// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/combination.h"

#include <algorithm>
#include <utility>

namespace krafla::cpu {

using plan::Node;
using plan::NodeOp;

std::optional<SimpleCombiner> FindSimpleCombiner(const plan::ElementProgram& combiner) {
  if (combiner.results.size() != 1) return std::nullopt;
  auto node = [&](plan::NodeId id) -> const Node& { return combiner.nodes[static_cast<std::size_t>(id)]; };
  const Node* n = &node(combiner.results[0]);
  SimpleCombiner out;
  if (n->op == NodeOp::kParam) {
    out.kind = n->bits == 1 ? SimpleCombiner::Kind::kReplace : SimpleCombiner::Kind::kKeep;
    return out;
  }
  if (n->op == NodeOp::kRound || n->op == NodeOp::kWrap) {
    const Node& operand = node(n->operands[0]);
    out.round = FindBlockFn({.op = n->op, .type = n->type, .operand = operand.type, .storage = n->storage});
    if (out.round == nullptr) return std::nullopt;
    n = &operand;
  }
  if (n->op != NodeOp::kHlo || n->operands[1] == plan::kNoNode || n->operands[2] != plan::kNoNode) return std::nullopt;
  const Node &a = node(n->operands[0]), &b = node(n->operands[1]);
  if (a.op != NodeOp::kParam || b.op != NodeOp::kParam || a.bits + b.bits != 1) return std::nullopt;
  if (a.bits != 0 && !HasTrait(n->opcode, op_trait::kCommutative)) return std::nullopt;
  out.opcode = n->opcode;
  out.op = FindBlockFn({.op = n->op, .opcode = n->opcode, .type = n->type, .operand = a.type, .storage = n->storage});
  if (out.op == nullptr) return std::nullopt;
  return out;
}

namespace {

std::optional<plan::Reduction::Kind> KindOf(Opcode opcode) {
  using Kind = plan::Reduction::Kind;
  if (opcode == Opcode::kAdd) return Kind::kSum;
  if (opcode == Opcode::kMultiply) return Kind::kProduct;
  if (opcode == Opcode::kMaximum) return Kind::kMax;
  if (opcode == Opcode::kMinimum) return Kind::kMin;
  if (opcode == Opcode::kAnd) return Kind::kAnd;
  if (opcode == Opcode::kOr) return Kind::kOr;
  if (opcode == Opcode::kXor) return Kind::kXor;
  return std::nullopt;
}

}  // namespace

std::vector<plan::Reduction> IndependentParts(const plan::Reduction& reduction) {
  const std::size_t count = reduction.inputs.size();
  if (count < 2 || reduction.combiner.results.size() != count || reduction.init.results.size() != count) return {};
  const auto node = [&](plan::NodeId id) -> const Node& {
    return reduction.combiner.nodes[static_cast<std::size_t>(id)];
  };
  std::vector<plan::Reduction> out;
  for (std::size_t v = 0; v < count; ++v) {
    const Node& n = node(reduction.combiner.results[v]);
    if (n.op != NodeOp::kHlo || n.operands[1] == plan::kNoNode || n.operands[2] != plan::kNoNode) return {};
    const std::optional<plan::Reduction::Kind> kind = KindOf(n.opcode);
    const Node &a = node(n.operands[0]), &b = node(n.operands[1]);
    if (!kind || a.op != NodeOp::kParam || b.op != NodeOp::kParam || a.type != n.type || b.type != n.type) return {};
    if (std::minmax(a.bits, b.bits) != std::pair<uint64_t, uint64_t>(v, count + v)) return {};
    plan::Reduction part;
    part.kind = *kind;
    part.hlo_type = n.type;
    part.inputs = {reduction.inputs[v]};
    part.init = reduction.init;
    part.init.results = {reduction.init.results[v]};
    Node op = n, left = a, right = b;
    left.bits = a.bits == v ? 0 : 1, right.bits = 1 - left.bits;
    op.operands = {0, 1, plan::kNoNode};
    part.combiner.nodes = {left, right, op};
    part.combiner.results = {2};
    out.push_back(std::move(part));
  }
  return out;
}

}  // namespace krafla::cpu
