// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/scalar_program.h"

#include <cstring>

namespace krafla::cpu {

using plan::Node;
using plan::NodeOp;

Result<ScalarProgram> ScalarProgram::Compile(const plan::ElementProgram& program) {
  ScalarProgram out;
  out.slot_count_ = program.nodes.size();
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& n = program.nodes[i];
    int slot = static_cast<int>(i);
    switch (n.op) {
      case NodeOp::kConstant: out.constants_.push_back({slot, n.bits}); continue;
      case NodeOp::kIndex:
        out.constants_.push_back({slot, static_cast<uint64_t>(program.space.expr(n.index).constant)});
        continue;
      case NodeOp::kParam:
        if (out.params_.size() <= n.bits) out.params_.resize(n.bits + 1, -1);
        out.params_[n.bits] = slot;
        continue;
      case NodeOp::kLoad: {
        if (!program.space.IsConstant(n.index) || n.mask != plan::kNoNode)
          return Unimplemented("A program on single values loads from a place that is not fixed.");
        int width = StorageBytes(n.storage);
        out.loads_.push_back(
            {slot, n.buffer, program.space.expr(n.index).constant * width, width, FindWiden(n.storage)});
        continue;
      }
      case NodeOp::kHlo:
      case NodeOp::kCompare:
      case NodeOp::kConvert:
      case NodeOp::kBitcast:
      case NodeOp::kRound:
      case NodeOp::kWrap:
      case NodeOp::kEncode:
      case NodeOp::kDecode:
      case NodeOp::kReducePrecision: break;
    }
    Step step;
    step.out = slot;
    step.bits = n.bits;
    for (std::size_t o = 0; o < 3; ++o) step.in[o] = n.operands[o];
    if (n.op == NodeOp::kBitcast) {
      step.fn = [](const BlockArgs& a) { std::memcpy(a.out, a.in[0], sizeof(Slot)); };
    } else {
      BlockKey key{.op = n.op,
                   .opcode = n.opcode,
                   .type = n.type,
                   .storage = n.storage,
                   .direction = n.direction,
                   .total_order = n.total_order};
      std::size_t typed = n.op == NodeOp::kHlo && n.opcode == Opcode::kSelect ? 1 : 0;
      key.operand = program.nodes[static_cast<std::size_t>(n.operands[typed])].type;
      step.fn = FindBlockFn(key);
    }
    if (step.fn == nullptr) return Unimplemented("The CPU has no loop for a node of a combining computation.");
    out.steps_.push_back(step);
  }
  for (plan::NodeId r : program.results) out.results_.push_back(r);
  return out;
}

void ScalarProgram::Start(std::span<Slot> slots, std::span<std::byte* const> buffers) const {
  for (const Constant& c : constants_) slots[static_cast<std::size_t>(c.slot)] = c.bits;
  for (const Load& l : loads_) {
    const std::byte* from = buffers[static_cast<std::size_t>(l.buffer)] + l.offset;
    Slot& to = slots[static_cast<std::size_t>(l.slot)];
    if (l.widen != nullptr) l.widen(from, &to, 1);
    else std::memcpy(&to, from, static_cast<std::size_t>(l.width));
  }
}

}  // namespace krafla::cpu
