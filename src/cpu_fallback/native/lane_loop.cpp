// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/native/lane_loop.h"

#include <algorithm>

namespace krafla::cpu::native {

LaneLoop::LaneLoop(const LaneGraph& of) : graph(&of), steps(of.ColumnSteps()), in_body(of.nodes.size(), false) {
  const auto need = [&](int id) {
    if (id >= 0) in_body[static_cast<std::size_t>(id)] = true;
  };
  for (const LaneStore& s : of.stores) {
    need(s.node), need(s.mask);
    for (int p : s.parts) need(p);
  }
  for (const LaneFold& f : of.folds) need(f.node);
  for (std::size_t i = of.nodes.size(); i-- > 0;) {
    const LaneNode& n = of.nodes[i];
    if (!in_body[i] || (IsRowValue(i) && n.type != ElementType::kPred)) continue;
    if (!IsAlongRow(i)) need(n.a);
    need(n.b), need(n.c);
    if (n.op == LaneOp::kPhi) need(of.regions[n.bits].condition);
  }
}

bool LaneLoop::IsThere(std::size_t id) const {
  const LaneOp op = graph->nodes[id].op;
  return op == LaneOp::kConstant || op == LaneOp::kUniform || op == LaneOp::kRow || op == LaneOp::kRamp;
}
bool LaneLoop::IsRowValue(std::size_t id) const { return steps[id] == 0 && !IsThere(id); }
bool LaneLoop::IsAlongRow(std::size_t id) const {
  const LaneNode& n = graph->nodes[id];
  return n.op == LaneOp::kGather && steps[id] != 0 && steps[static_cast<std::size_t>(n.a)] == 1;
}

std::vector<bool> LaneLoop::RowNodes() const {
  std::vector<bool> is_wanted(graph->nodes.size(), false);
  const auto want = [&](int id) {
    if (id >= 0) is_wanted[static_cast<std::size_t>(id)] = true;
  };
  for (std::size_t i = graph->nodes.size(); i-- > 0;) {
    const LaneNode& n = graph->nodes[i];
    if (in_body[i] && IsAlongRow(i)) want(n.a);
    if (in_body[i] && IsRowValue(i) && n.type != ElementType::kPred) is_wanted[i] = true;
    if (is_wanted[i]) want(n.a), want(n.b), want(n.c);
  }
  return is_wanted;
}

std::vector<bool> LaneLoop::InRegions() const {
  std::vector<bool> is_inside(graph->nodes.size(), false);
  for (const LaneRegion& r : graph->regions)
    for (int i = r.begin; i < r.end; ++i) is_inside[static_cast<std::size_t>(i)] = true;
  return is_inside;
}

int LaneLoop::LongestChain() const {
  const std::vector<bool> is_inside = InRegions();
  std::vector<int> length(graph->nodes.size(), 0);
  int longest = 0;
  for (std::size_t i = 0; i < length.size(); ++i) {
    const LaneNode& n = graph->nodes[i];
    if (!in_body[i] || IsThere(i) || is_inside[i]) continue;
    for (int o : {n.a, n.b, n.c})
      if (o >= 0) length[i] = std::max(length[i], length[static_cast<std::size_t>(o)]);
    longest = std::max(longest, ++length[i]);
  }
  return longest;
}

int LaneLoop::LiveVectors(const std::vector<bool>& fixed) const {
  const std::vector<LaneNode>& nodes = graph->nodes;
  std::vector<int> last(nodes.size(), -1);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!in_body[i]) continue;
    for (int o : {nodes[i].a, nodes[i].b, nodes[i].c})
      if (o >= 0) last[static_cast<std::size_t>(o)] = static_cast<int>(i);
  }
  for (const LaneStore& s : graph->stores) last[static_cast<std::size_t>(s.node)] = static_cast<int>(last.size());
  const std::vector<bool> is_inside = InRegions();
  int live = 0, most = 0;
  std::vector<int> ends(nodes.size() + 1, 0);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    live -= ends[i];
    const LaneNode& n = nodes[i];
    if (!in_body[i] || fixed[i] || is_inside[i] || n.op == LaneOp::kConstant || n.type == ElementType::kPred ||
        last[i] <= static_cast<int>(i))
      continue;
    ++live, ++ends[static_cast<std::size_t>(last[i])];
    most = std::max(most, live);
  }
  return most;
}

}  // namespace krafla::cpu::native
