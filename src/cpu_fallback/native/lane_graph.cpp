// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/native/lane_graph.h"

#include <algorithm>
#include <cstring>

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

std::array<std::byte, 64> BytesOfNumbers(const LaneSequence& sequence, int width) {
  std::array<std::byte, 64> out{};
  for (int lane = 0; lane < std::min(64 / width, kSequenceLanes); ++lane) {
    const int64_t value = sequence[static_cast<std::size_t>(lane)];
    std::memcpy(out.data() + lane * width, &value, static_cast<std::size_t>(width));
  }
  return out;
}

std::array<std::byte, 16> BytesOfLanes(const LaneSequence& places, int width, int first) {
  std::array<std::byte, 16> out;
  out.fill(std::byte{0x80});
  for (int lane = 0; lane < 16 / width; ++lane) {
    const int place = places[static_cast<std::size_t>(lane)] - first;
    if (place < 0 || place >= kSequenceLanes) continue;
    for (int i = 0; i < width; ++i)
      out[static_cast<std::size_t>(lane * width + i)] = static_cast<std::byte>(place * width + i);
  }
  return out;
}

std::string LaneGraph::Key() const {
  std::string key;
  key.reserve(nodes.size() * 24 + streams.size() * 8 + stores.size() * 12 + 16);
  const auto put = [&](auto value) { key.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
  put(static_cast<uint32_t>(nodes.size()));
  put(static_cast<uint32_t>(streams.size()));
  put(static_cast<uint32_t>(tables.size()));
  put(static_cast<uint32_t>(regions.size()));
  put(static_cast<uint32_t>(folds.size()));
  put(folds_columns);
  put(adds_rows);
  put(adds_pairs);
  for (const LaneNode& n : nodes) {
    put(n.op);
    put(n.type);
    put(n.a);
    put(n.b);
    put(n.c);
    put(n.bits);
    put(n.lanes);
  }
  for (const LaneTable& t : tables) {
    put(t.entries);
    put(t.stream);
    put(t.storage);
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
  put(static_cast<uint32_t>(sequences.size()));
  for (const LaneSequence& s : sequences) put(s);
  for (const LaneStream& s : streams) {
    put(s.kind);
    put(s.width);
    put(s.stride);
    put(s.reach);
    put(s.columns);
    put(s.row_stride);
    put(s.same_rows);
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
  for (const LaneFold& f : folds) {
    put(f.op);
    put(f.stream);
    put(f.node);
  }
  return key;
}

std::vector<bool> LaneGraph::Used() const {
  std::vector<bool> used(nodes.size(), false);
  for (const LaneStore& s : stores) {
    used[static_cast<std::size_t>(s.node)] = true;
    if (s.mask >= 0) used[static_cast<std::size_t>(s.mask)] = true;
    for (int n : s.parts)
      if (n >= 0) used[static_cast<std::size_t>(n)] = true;
  }
  for (const LaneFold& f : folds) used[static_cast<std::size_t>(f.node)] = true;
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

std::vector<std::optional<int64_t>> LaneGraph::ColumnSteps() const {
  std::vector<std::optional<int64_t>> steps(nodes.size());
  std::size_t region = 0;
  const auto step_of = [&](int id) { return steps[static_cast<std::size_t>(id)]; };
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    while (region < regions.size() && static_cast<std::size_t>(regions[region].end) <= i) ++region;
    // What is computed only where some lane asks for it is left where it is.
    if (region < regions.size() && static_cast<std::size_t>(regions[region].begin) <= i) continue;
    const LaneNode& n = nodes[i];
    const bool is_word = n.type == ElementType::kS32 || n.type == ElementType::kU32;
    if (n.op == LaneOp::kConstant || n.op == LaneOp::kUniform || n.op == LaneOp::kRow) steps[i] = 0;
    if (n.op == LaneOp::kRamp) steps[i] = static_cast<int32_t>(static_cast<uint32_t>(n.bits));
    if (n.op == LaneOp::kLoad || n.op == LaneOp::kPhi || n.op >= LaneOp::kFixedLoad || n.a < 0) continue;
    bool is_same = true;
    for (int o : {n.a, n.b, n.c}) is_same = is_same && (o < 0 || step_of(o) == 0);
    if (is_same) steps[i] = 0;
    if (is_same || !is_word || !step_of(n.a) || (n.b >= 0 && !step_of(n.b))) continue;
    const auto constant = [&](int id) -> std::optional<int64_t> {
      const LaneNode& c = nodes[static_cast<std::size_t>(id)];
      if (c.op != LaneOp::kConstant) return std::nullopt;
      return SignExtended(c.bits, 4);
    };
    if (n.op == LaneOp::kAdd) steps[i] = *step_of(n.a) + *step_of(n.b);
    if (n.op == LaneOp::kSub) steps[i] = *step_of(n.a) - *step_of(n.b);
    if (n.op == LaneOp::kMul && constant(n.b)) steps[i] = *step_of(n.a) * *constant(n.b);
    if (n.op == LaneOp::kBitcast && IsIntegral(nodes[static_cast<std::size_t>(n.a)].type)) steps[i] = step_of(n.a);
    // Of 32 bits, as the values are.
    if (steps[i]) steps[i] = static_cast<int32_t>(static_cast<uint32_t>(*steps[i]));
  }
  return steps;
}

}  // namespace krafla::cpu::native
