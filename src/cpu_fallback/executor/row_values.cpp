// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/row_values.h"

#include "base/index.h"

namespace krafla::cpu {

using plan::ElementProgram;
using plan::kNoNode;
using plan::Node;
using plan::NodeId;
using plan::NodeOp;

namespace {

bool IsLeaf(const Node& n) { return n.op == NodeOp::kParam || n.op == NodeOp::kConstant; }

}  // namespace

std::optional<RowValues> TakeRowValues(ElementProgram& stage, const Dims& row_dims, int first_param) {
  const std::size_t count = stage.nodes.size();
  std::vector<bool> of_row(count, false), is_taken(count, false);
  for (std::size_t i = 0; i < count; ++i) {
    const Node& n = stage.nodes[i];
    bool all = n.op != NodeOp::kLoad && n.op != NodeOp::kIndex;
    for (NodeId o : n.operands) all = all && (o == kNoNode || of_row[At(o)]);
    of_row[i] = all;
  }
  // Those that something else reads. Values that are reduced or stored stay: they have a place for each element.
  const std::vector<bool> needed = plan::NeededNodes(stage);
  bool any = false;
  for (std::size_t i = 0; i < count; ++i) {
    if (!needed[i] || of_row[i]) continue;
    for (NodeId o : stage.nodes[i].operands)
      if (o != kNoNode && of_row[At(o)] && !IsLeaf(stage.nodes[At(o)])) is_taken[At(o)] = any = true;
  }
  if (!any) return std::nullopt;

  RowValues out;
  out.program.space = plan::IndexSpace(row_dims);
  const uint64_t row_mask = row_dims.empty() ? 0 : ~uint64_t{0} >> (64 - row_dims.size());
  std::vector<NodeId> to(count, kNoNode);
  for (std::size_t i = 0; i < count; ++i) {
    if (!of_row[i] || !needed[i]) continue;
    Node n = stage.nodes[i];
    for (NodeId& o : n.operands)
      if (o != kNoNode) o = to[At(o)];
    n.depends &= row_mask;
    to[i] = static_cast<NodeId>(out.program.nodes.size());
    out.program.nodes.push_back(n);
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_taken[i]) continue;
    Node& n = stage.nodes[i];
    out.program.results.push_back(to[i]);
    out.types.push_back(n.type);
    n = {.op = NodeOp::kParam,
         .type = n.type,
         .bits = static_cast<uint64_t>(first_param) + out.types.size() - 1,
         .depends = n.depends};
  }
  // What only they needed is gone.
  plan::DropUnneededNodes(stage);
  return out;
}

}  // namespace krafla::cpu
