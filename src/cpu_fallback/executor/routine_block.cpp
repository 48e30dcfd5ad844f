// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/routine_block.h"

#include <algorithm>

#include "cpu_fallback/native/native_code.h"

namespace krafla::cpu {

using native::LaneAccess;
using native::LaneOp;
using plan::Allocation;
using plan::Slice;

namespace {

// Vectors put together of single lanes; longer ones are stored and loaded.
constexpr int kMaxJoined = 8;

}  // namespace

bool RoutinePlaces::IsOf(int allocation, Allocation::Kind kind) const {
  return allocation >= 0 && plan_.allocations[static_cast<std::size_t>(allocation)].kind == kind;
}

RoutinePlaces::Place RoutinePlaces::Of(int allocation, int64_t offset) {
  const bool is_arena = IsOf(allocation, Allocation::Kind::kArena);
  const int64_t behind = is_arena ? plan_.allocations[static_cast<std::size_t>(allocation)].offset : 0;
  const auto [it, is_new] =
      base_of_.try_emplace(is_arena ? std::nullopt : std::optional(allocation), static_cast<int>(bases_.size()));
  if (is_new) bases_.push_back({allocation, -behind, 0});
  return {it->second, offset + behind};
}

bool RoutinePlaces::MayOverlap(const Slice& a, const Slice& b) const {
  if (a.allocation == b.allocation) return a.offset < b.offset + b.size && b.offset < a.offset + a.size;
  // A result may lie in the argument's place.
  const auto is_outside = [&](const Slice& s) {
    return IsOf(s.allocation, Allocation::Kind::kArgument) || IsOf(s.allocation, Allocation::Kind::kResult);
  };
  return is_outside(a) && is_outside(b);
}

bool RoutineBlock::IsOneVector(const RoutineAccess& access) {
  if (access.lanes > RoutineLanesOf(access.width)) return false;
  const auto fits = [](int64_t x) { return x >= INT32_MIN / 2 && x <= INT32_MAX / 2; };
  return fits(access.buffer.offset) && fits(access.offset) &&
         std::ranges::all_of(access.terms, [&](const LaneAccess::Term& t) { return fits(t.bytes); });
}

int RoutineBlock::AddAccess(const RoutineAccess& access) {
  const RoutinePlaces::Place place = places_.Of(access.buffer.allocation, access.buffer.offset + access.offset);
  auto& accesses = builder_.graph().accesses;
  accesses.push_back({place.base, place.offset, access.width, access.terms});
  return static_cast<int>(accesses.size()) - 1;
}

RoutineBlock::Value RoutineBlock::Spread(Value value, int lanes) {
  const native::LaneNode& n = builder_.node(value.node);
  if (n.op == LaneOp::kConstant || n.lanes == lanes) return value;
  builder_.UseLanes(lanes);
  return {builder_.Add(LaneOp::kSpread, builder_.TypeOf(value.node), value.node), value.nans};
}

RoutineBlock::Value RoutineBlock::LanesOf(Value value, int first, int lanes) {
  const native::LaneNode n = builder_.node(value.node);
  if (n.op == LaneOp::kConstant || n.lanes == lanes) return value;
  builder_.UseLanes(lanes);
  if (n.op == LaneOp::kSpread)
    return lanes == 1 ? Value{n.a, value.nans} : Value{builder_.Add(LaneOp::kSpread, n.type, n.a), value.nans};
  return {builder_.Add({LaneOp::kPick, n.type, value.node, -1, -1, static_cast<uint64_t>(first)}), value.nans};
}

std::optional<RoutineBlock::Value> RoutineBlock::Forwarded(const RoutineAccess& from, ElementType type) {
  std::vector<Known> parts;
  const int64_t begin = from.buffer.offset + from.offset;
  for (int i = 0; i < from.lanes; ++i) {
    const auto it = known_.find({from.buffer.allocation, begin + i * from.width});
    if (it == known_.end() || it->second.width != from.width) return std::nullopt;
    parts.push_back(it->second);
  }
  const Value first = parts[0].value;
  const bool is_one = std::ranges::all_of(parts, [&](const Known& k) { return k.value.node == first.node; });
  const native::LaneNode node = builder_.node(first.node);
  bool is_whole = is_one && node.lanes == from.lanes;
  for (int i = 0; i < from.lanes && from.lanes > 1; ++i) is_whole &= parts[static_cast<std::size_t>(i)].lane == i;
  Value value = first;
  if (!is_whole && !(is_one && node.op == LaneOp::kConstant)) {
    const bool has_preds =
        std::ranges::any_of(parts, [&](const Known& k) { return builder_.TypeOf(k.value.node) == ElementType::kPred; });
    if (has_preds && !(from.lanes == 1 && node.lanes <= 1)) return std::nullopt;
    if (from.lanes > kMaxJoined) return std::nullopt;
    std::vector<int> lanes;
    for (const Known& k : parts) {
      const Value lane = LanesOf(k.value, k.lane, 1);
      builder_.UseLanes(1);
      lanes.push_back(from.lanes == 1 ? lane.node : builder_.Seen(lane));
      if (from.lanes == 1) value = lane;
    }
    if (from.lanes > 1) {
      builder_.UseLanes(from.lanes);
      const ElementType as = builder_.TypeOf(lanes[0]);
      int all = builder_.Add(LaneOp::kSpread, as, lanes[0]);
      for (int i = 1; i < from.lanes; ++i)
        all = builder_.Add({LaneOp::kPut, as, all, lanes[static_cast<std::size_t>(i)], -1, static_cast<uint64_t>(i)});
      value = {all};
    }
  }
  builder_.UseLanes(from.lanes);
  return builder_.As(value, type);
}

std::optional<RoutineBlock::Value> RoutineBlock::Load(const RoutineAccess& from, ElementType type) {
  if (!IsOneVector(from)) return std::nullopt;
  const bool is_fixed = from.terms.empty() && from.mask < 0;
  if (is_fixed)
    if (std::optional<Value> value = Forwarded(from, type)) return value;
  const Slice read = from.terms.empty() ? BytesOf(from) : from.buffer;
  std::erase_if(unread_, [&](const auto& item) {
    return places_.MayOverlap({item.first.first, item.first.second, item.second.size}, read);
  });
  builder_.UseLanes(from.lanes);
  const auto access = static_cast<uint64_t>(AddAccess(from));
  const Value value{builder_.Add({LaneOp::kFixedLoad, type, -1, from.mask, -1, access})};
  if (is_fixed) Remember(from, value);
  return value;
}

Slice RoutineBlock::BytesOf(const RoutineAccess& at) {
  return {at.buffer.allocation, at.buffer.offset + at.offset, int64_t{at.width} * at.lanes};
}
void RoutineBlock::Forget(const Slice& slice) {
  std::erase_if(known_, [&](const auto& item) {
    return places_.MayOverlap({item.first.first, item.first.second, item.second.width}, slice);
  });
}
void RoutineBlock::Remember(const RoutineAccess& at, Value value) {
  for (int i = 0; i < at.lanes; ++i)
    known_[{at.buffer.allocation, at.buffer.offset + at.offset + i * at.width}] = {value, i, at.width};
}

bool RoutineBlock::CanHave(std::span<const RoutineStore> stores) const {
  const native::LaneGraph& graph = builder_.graph();
  std::vector<bool> is_needed(graph.nodes.size(), false);
  const auto need = [&](int id) {
    if (id >= 0) is_needed[static_cast<std::size_t>(id)] = true;
  };
  for (const RoutineStore& s : stores) {
    if (s.to.mask >= 0 && s.to.width < 4 && !native::HasAvx512Code()) return false;
    need(s.value.node), need(s.to.mask);
    for (const LaneAccess::Term& t : s.to.terms) need(t.node);
  }
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const native::LaneNode& n = graph.nodes[i];
    if (!is_needed[i]) continue;
    if (!native::CanHave(graph, n)) return false;
    need(n.a), need(n.b), need(n.c);
    if (n.op == LaneOp::kPhi) need(graph.regions[n.bits].condition);
    if (n.op != LaneOp::kFixedLoad) continue;
    for (const LaneAccess::Term& t : graph.accesses[n.bits].terms) need(t.node);
  }
  return true;
}

void RoutineBlock::Add(const RoutineStore& store) {
  const RoutineAccess& to = store.to;
  const bool is_fixed = to.terms.empty();
  const Value value = Spread(store.value, to.lanes);
  builder_.UseLanes(to.lanes);
  const auto access = static_cast<uint64_t>(AddAccess(to));
  const int node =
      builder_.Add({LaneOp::kFixedStore, builder_.TypeOf(value.node), builder_.Seen(value), to.mask, -1, access});
  ++store_count_;
  if (!is_fixed) return Forget(to.buffer);
  const Slice bytes = BytesOf(to);
  Forget(bytes);
  if (to.mask >= 0) return;
  Remember(to, value);
  const auto [it, is_new] = unread_.try_emplace({bytes.allocation, bytes.offset}, Unread{node, bytes.size});
  if (is_new) return;
  if (it->second.size == bytes.size) builder_.graph().nodes[static_cast<std::size_t>(it->second.node)] = {};
  it->second = {node, bytes.size};
}

bool RoutineBlock::Copy(const Slice& from, const Slice& to) {
  if (to.size > kRoutineElements * 8 || from.allocation == to.allocation) return false;
  const auto known_at = [&](int64_t offset) {
    const auto it = known_.find({from.allocation, from.offset + offset});
    return it == known_.end() ? nullptr : &it->second;
  };
  int width = to.size % 4 == 0 ? 4 : 1;
  if (const Known* first = known_at(0); first != nullptr && to.size % first->width == 0) width = first->width;
  const int64_t elements = to.size / width, lanes = std::min(elements, RoutineLanesOf(width));
  if (!IsOneVector({.buffer = from, .offset = to.size}) || !IsOneVector({.buffer = to, .offset = to.size}))
    return false;
  for (int64_t begin = 0; begin < elements; begin += lanes) {
    const int64_t offset = begin * width;
    const int n = static_cast<int>(std::min(lanes, elements - begin));
    // As the type that it was stored as, so that nothing is converted.
    const Known* known = known_at(offset);
    const ElementType type =
        known != nullptr && known->width == width ? builder_.TypeOf(known->value.node) : native::UnsignedOfWidth(width);
    const std::optional<Value> value = Load({.buffer = from, .offset = offset, .width = width, .lanes = n}, type);
    if (!value) return false;
    Add({{.buffer = to, .offset = offset, .width = width, .lanes = n}, *value});
  }
  return true;
}

}  // namespace krafla::cpu
