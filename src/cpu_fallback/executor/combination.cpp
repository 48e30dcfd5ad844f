// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/combination.h"

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

}  // namespace krafla::cpu
