// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/native/lane_graph.h"

#include <algorithm>

namespace krafla::cpu::native {

int64_t WindowOfShortRows(int lanes, int64_t columns, int64_t row_stride, int64_t stride) {
  int64_t most = 0;
  for (int64_t first = 0; first < columns; ++first) {
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (int64_t at = first; at < first + lanes; ++at) {
      const int64_t place = at / columns * row_stride + at % columns * stride;
      low = std::min(low, place), high = std::max(high, place);
    }
    most = std::max(most, high - low + 1);
  }
  return most;
}

std::string LaneGraph::Key() const {
  std::string key;
  key.reserve(nodes.size() * 24 + streams.size() * 8 + stores.size() * 12 + 16);
  const auto put = [&](auto value) { key.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
  put(static_cast<uint32_t>(nodes.size()));
  put(static_cast<uint32_t>(streams.size()));
  put(static_cast<uint32_t>(regions.size()));
  for (const LaneNode& n : nodes) {
    put(n.op);
    put(n.type);
    put(n.a);
    put(n.b);
    put(n.c);
    put(n.bits);
    put(n.lanes);
  }
  for (const LaneAccess& a : accesses) {
    put(a.base);
    put(a.offset);
    put(a.width);
    put(static_cast<uint32_t>(a.terms.size()));
    for (const LaneAccess::Term& t : a.terms) {
      put(t.node);
      put(t.bytes);
    }
  }
  for (const LaneStream& s : streams) {
    put(s.kind);
    put(s.width);
    put(s.stride);
    put(s.reach);
    put(s.columns);
    put(s.row_stride);
  }
  for (const LaneRegion& r : regions) {
    put(r.condition);
    put(r.begin);
    put(r.end);
  }
  for (const LaneStore& s : stores) {
    put(s.stream);
    put(s.node);
    put(s.mask);
    put(s.parts);
  }
  return key;
}

std::vector<bool> LaneGraph::Used() const {
  std::vector<bool> used(nodes.size(), false);
  for (const LaneStore& s : stores) {
    used[static_cast<std::size_t>(s.node)] = true;
    for (int n : {s.mask, s.parts[0], s.parts[1], s.parts[2]})
      if (n >= 0) used[static_cast<std::size_t>(n)] = true;
  }
  for (std::size_t i = nodes.size(); i-- > 0;) {
    const LaneNode& n = nodes[i];
    if (n.op == LaneOp::kFixedStore) used[i] = true;
    if (!used[i]) continue;
    for (int o : {n.a, n.b, n.c})
      if (o >= 0) used[static_cast<std::size_t>(o)] = true;
    if (n.op == LaneOp::kFixedLoad || n.op == LaneOp::kFixedStore)
      for (const LaneAccess::Term& t : accesses[n.bits].terms) used[static_cast<std::size_t>(t.node)] = true;
    if (n.op == LaneOp::kPhi) used[static_cast<std::size_t>(regions[n.bits].condition)] = true;
  }
  return used;
}

}  // namespace krafla::cpu::native
