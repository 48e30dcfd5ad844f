// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/routine_block.h"

#include <algorithm>
#include <bit>

#include "cpu_fallback/native/native_code.h"

namespace krafla::cpu {

using native::LaneAccess;
using native::LaneOp;
using plan::Allocation;
using plan::Slice;

namespace {

// What is put together of single lanes, where it is stored and could be loaded.
constexpr int kMaxJoined = 8;
// Lanes that a vector of memory has of what is put together, at least: fewer are loaded one by one.
constexpr std::size_t kLeastOfVector = 4;
// Loads from computed places that are looked through for each one.
constexpr std::size_t kMaxComputed = 64;

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
  return IsOutside(a.allocation) && IsOutside(b.allocation);
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

const RoutineBlock::Known* RoutineBlock::KnownAt(const RoutineAccess& at, int64_t offset) const {
  const auto it = known_.find({at.buffer.allocation, at.buffer.offset + at.offset + offset});
  return it == known_.end() || it->second.width != at.width ? nullptr : &it->second;
}

std::optional<RoutineBlock::Value> RoutineBlock::Forwarded(const RoutineAccess& from, ElementType type) {
  std::vector<Lane> parts;
  for (int i = 0; i < from.lanes; ++i) {
    const Known* known = KnownAt(from, int64_t{i} * from.width);
    if (known == nullptr) return std::nullopt;
    parts.push_back({known->value, known->lane});
  }
  return Join(parts, type, kMaxJoined);
}

RoutineBlock::Value RoutineBlock::SourceAs(Value value, ElementType type) {
  builder_.UseLanes(std::max<int>(builder_.node(value.node).lanes, 1));
  return builder_.As(value, type);
}

RoutineBlock::Value RoutineBlock::Put(std::span<const Lane> lanes, ElementType type) {
  int all = -1;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const Value one = SourceAs(LanesOf(lanes[i].value, lanes[i].lane, 1), type);
    builder_.UseLanes(1);
    const int seen = builder_.Seen(one);
    builder_.UseLanes(static_cast<int>(lanes.size()));
    all = i == 0 ? builder_.Add(LaneOp::kSpread, type, seen)
                 : builder_.Add({LaneOp::kPut, type, all, seen, -1, static_cast<uint64_t>(i)});
  }
  return {all};
}

RoutineBlock::Value RoutineBlock::Permuted(std::span<const Lane> lanes, std::span<const Lane> sources,
                                           ElementType type) {
  std::vector<Value> values;
  for (const Lane& s : sources) values.push_back(SourceAs(s.value, type));
  // What has NaNs of one kind stays so.
  const bool is_of_one_kind = std::ranges::all_of(values, [&](const Value& v) { return v.nans == values[0].nans; });
  for (std::size_t s = 0; s < values.size() && !is_of_one_kind; ++s) {
    builder_.UseLanes(std::max<int>(builder_.node(values[s].node).lanes, 1));
    values[s] = {builder_.Seen(values[s])};
  }
  builder_.UseLanes(static_cast<int>(lanes.size()));
  int all = values[0].node;
  for (std::size_t s = 0; s < sources.size(); s += s == 0 ? 2 : 1) {
    const std::size_t second = s == 0 ? 1 : s;
    const bool has_two = second < sources.size();
    native::LaneSequence places{};
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      const int node = lanes[i].value.node;
      if (has_two && node == sources[second].value.node) places[i] = lanes[i].lane + native::kSequenceLanes;
      else if (s > 0) places[i] = static_cast<int32_t>(i);
      else if (node == sources[0].value.node) places[i] = lanes[i].lane;
    }
    all = builder_.Add(
        {LaneOp::kPermute, type, all, has_two ? values[second].node : -1, -1, builder_.SequenceNumber(places)});
  }
  return {all, values[0].nans};
}

std::optional<RoutineBlock::Value> RoutineBlock::Join(std::span<const Lane> lanes, ElementType type, int most_put) {
  const int count = static_cast<int>(lanes.size());
  const Value first = lanes[0].value;
  const native::LaneNode node = builder_.node(first.node);
  std::vector<Lane> sources;
  bool is_whole = node.lanes == count, has_preds = false, has_constants = false;
  for (int i = 0; i < count; ++i) {
    const Lane& lane = lanes[static_cast<std::size_t>(i)];
    const auto is_source = [&](const Lane& s) { return s.value.node == lane.value.node; };
    if (std::ranges::none_of(sources, is_source)) sources.push_back(lane);
    is_whole &= count == 1 || lane.lane == i;
    has_preds |= builder_.TypeOf(lane.value.node) == ElementType::kPred;
    has_constants |= builder_.node(lane.value.node).op == LaneOp::kConstant;
  }
  const auto as = [&](Value value) {
    builder_.UseLanes(count);
    return builder_.As(value, type);
  };
  if (sources.size() == 1 && (is_whole || node.op == LaneOp::kConstant)) return as(first);
  if (has_preds && !(count == 1 && node.lanes <= 1)) return std::nullopt;
  if (count == 1) return as(LanesOf(first, lanes[0].lane, 1));
  if (type == ElementType::kPred) return std::nullopt;
  const bool is_permuted =
      !has_constants && count <= native::kSequenceLanes && static_cast<int>(sources.size()) <= std::max(count / 2, 1);
  if (is_permuted) return Permuted(lanes, sources, type);
  return count <= most_put ? std::optional(Put(lanes, type)) : std::nullopt;
}

std::optional<RoutineBlock::Value> RoutineBlock::LoadApart(const RoutineAccess& first, std::span<const int64_t> places,
                                                           ElementType type) {
  const auto element = [&](int64_t place) {
    RoutineAccess at = first;
    at.offset += place * at.width;
    return at;
  };
  std::vector<Lane> lanes;
  bool is_known = first.terms.empty();
  for (std::size_t i = 0; i < places.size() && is_known; ++i) {
    const Known* known = KnownAt(first, places[i] * first.width);
    is_known = known != nullptr;
    if (is_known) lanes.push_back({known->value, known->lane});
  }
  if (is_known)
    if (const std::optional<Value> value = Join(lanes, type)) return value;
  // Vectors that have all of it.
  std::vector<int64_t> sorted(places.begin(), places.end()), begins, sizes;
  std::ranges::sort(sorted);
  for (int64_t place : sorted) {
    if (begins.empty() || place - begins.back() >= RoutineLanesOf(first.width))
      begins.push_back(place), sizes.push_back(0);
    sizes.back() = place - begins.back() + 1;
  }
  const bool is_few = begins.size() * kLeastOfVector <= places.size();
  std::vector<Value> vectors;
  for (std::size_t v = 0; v < begins.size() && is_few; ++v) {
    RoutineAccess at = element(begins[v]);
    const auto whole = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(sizes[v])));
    at.lanes =
        static_cast<int>(first.terms.empty() && at.offset + whole * at.width <= at.buffer.size ? whole : sizes[v]);
    const std::optional<Value> value = Load(at, type);
    if (!value) return std::nullopt;
    vectors.push_back(*value);
  }
  lanes.clear();
  for (int64_t place : places) {
    if (is_few) {
      const auto v = static_cast<std::size_t>(std::ranges::upper_bound(begins, place) - begins.begin()) - 1;
      lanes.push_back({vectors[v], static_cast<int>(place - begins[v])});
      continue;
    }
    const std::optional<Value> value = Load(element(place), type);
    if (!value) return std::nullopt;
    lanes.push_back({*value, 0});
  }
  return Join(lanes, type);
}

std::optional<RoutineBlock::Value> RoutineBlock::Load(const RoutineAccess& from, ElementType type) {
  if (!IsOneVector(from)) return std::nullopt;
  const bool is_fixed = from.terms.empty() && from.mask < 0;
  if (is_fixed)
    if (std::optional<Value> value = Forwarded(from, type)) return value;
  if (!from.terms.empty())
    if (const Computed* known = ComputedAt(from, type)) return known->value;
  const Slice read = from.terms.empty() ? BytesOf(from) : from.buffer;
  places_.EraseOverlapping(unread_, read, [](const Unread& u) { return u.size; });
  builder_.UseLanes(from.lanes);
  const auto access = static_cast<uint64_t>(AddAccess(from));
  const Value value{builder_.Add({LaneOp::kFixedLoad, type, -1, from.mask, -1, access})};
  if (is_fixed) Remember(from, value);
  if (!from.terms.empty() && computed_.size() < kMaxComputed) computed_.push_back({from, type, value});
  return value;
}

const RoutineBlock::Computed* RoutineBlock::ComputedAt(const RoutineAccess& from, ElementType type) const {
  const auto is_same = [&](const Computed& c) {
    return c.type == type && c.from.buffer == from.buffer && c.from.offset == from.offset &&
           c.from.width == from.width && c.from.lanes == from.lanes && c.from.mask == from.mask &&
           c.from.terms == from.terms;
  };
  const auto found = std::ranges::find_if(computed_, is_same);
  return found == computed_.end() ? nullptr : &*found;
}

Slice RoutineBlock::BytesOf(const RoutineAccess& at) {
  return {at.buffer.allocation, at.buffer.offset + at.offset, int64_t{at.width} * at.lanes};
}
void RoutineBlock::Forget(const Slice& slice) {
  places_.EraseOverlapping(known_, slice, [](const Known& k) { return k.width; });
  std::erase_if(computed_, [&](const Computed& c) { return places_.MayOverlap(c.from.buffer, slice); });
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
  if (to.size > MostRoutineElements() * 8 || from.allocation == to.allocation) return false;
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
