// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/verifier/checks.h"

namespace krafla::verifier {
namespace {

// Ops whose computation runs once an element, in any order and on any thread: nothing in it may talk to the host or to
// other devices.
bool CallsPerElement(Opcode opcode) {
  return opcode == Opcode::kReduce || opcode == Opcode::kReduceWindow || opcode == Opcode::kSelectAndScatter ||
         opcode == Opcode::kScatter || opcode == Opcode::kSort || opcode == Opcode::kMap || opcode == Opcode::kScan ||
         opcode == Opcode::kAllReduce || opcode == Opcode::kAllReduceStart || opcode == Opcode::kReduceScatter;
}

bool TalksToTheWorld(const Instruction& i) {
  if (const auto* call = std::get_if<CustomCallAttributes>(&i.attributes()); call != nullptr && call->has_side_effect)
    return true;
  Opcode op = i.opcode();
  return HasTrait(op, op_trait::kCollective) || op == Opcode::kInfeed || op == Opcode::kOutfeed ||
         op == Opcode::kSend || op == Opcode::kSendDone || op == Opcode::kRecv || op == Opcode::kRecvDone;
}

struct Node {
  enum : uint8_t { kNew, kOpen, kDone } state = kNew;
  int height = 1;                        // computations on the longest chain of calls from here, this one included
  const Instruction* speaker = nullptr;  // an instruction, here or called from here, that talks to the world
};

struct Frame {
  const Computation* computation;
  std::size_t instruction = 0, call = 0;
};

}  // namespace

Result<> CheckCallGraph(const Module& module, int max_depth) {
  std::unordered_map<const Computation*, Node> nodes;
  nodes.reserve(module.computations().size());
  std::vector<Frame> stack;
  for (const auto& start : module.computations()) {
    if (nodes[start.get()].state != Node::kNew) continue;
    nodes[start.get()].state = Node::kOpen;
    stack.push_back({start.get()});
    while (!stack.empty()) {
      Frame& frame = stack.back();
      Node& node = nodes[frame.computation];
      const auto& instructions = frame.computation->instructions();
      if (frame.instruction == instructions.size()) {
        node.state = Node::kDone;
        stack.pop_back();
        continue;
      }
      const Instruction& i = *instructions[frame.instruction];
      if (frame.call == 0 && node.speaker == nullptr && TalksToTheWorld(i)) node.speaker = &i;
      if (frame.call == i.called().size()) {
        ++frame.instruction;
        frame.call = 0;
        continue;
      }
      const Computation* callee = i.called(frame.call);
      Node& called = nodes[callee];
      if (called.state == Node::kOpen)
        return At(i, Status(StatusCode::kInvalidArgument,
                            Format("Computation '{}' calls itself; recursion is not allowed.", callee->name())));
      if (called.state == Node::kNew) {
        called.state = Node::kOpen;
        stack.push_back({callee});  // comes back to this call when it is done
        continue;
      }
      node.height = std::max(node.height, called.height + 1);
      if (node.height > max_depth)
        return At(i, Status(StatusCode::kUnimplemented,
                            Format("Computations call each other more than {} deep.", max_depth)));
      if (called.speaker != nullptr) {
        if (CallsPerElement(i.opcode()))
          return At(
              i, Status(StatusCode::kUnimplemented, Format("{} runs inside a computation that {} applies to elements.",
                                                           Describe(*called.speaker), OpcodeName(i.opcode()))));
        if (node.speaker == nullptr) node.speaker = called.speaker;
      }
      ++frame.call;
    }
  }
  return {};
}

}  // namespace krafla::verifier
