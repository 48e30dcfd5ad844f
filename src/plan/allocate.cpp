// SPDX-License-Identifier: Apache-2.0
// Which allocations there are, when each is used, and where the temporaries lie.
#include <algorithm>
#include <cstring>

#include "numerics/rng.h"
#include "plan/module_planner.h"

namespace krafla::plan {

Slice ModulePlanner::NewAllocation(Allocation::Kind kind, int number, int64_t size) {
  plan_.allocations.push_back({kind, number, 0, size});
  touched_.push_back({-1, -1});
  frame_of_.push_back(-1);
  return {static_cast<int>(plan_.allocations.size()) - 1, 0, size};
}

Slice ModulePlanner::ConstantSlice(const Instruction* constant) {
  auto it = constants_.find(constant);
  if (it != constants_.end()) return it->second;
  const Literal& literal = constant->literal();
  plan_.constants.push_back(&literal);
  Slice out = NewAllocation(Allocation::Kind::kConstant, static_cast<int>(plan_.constants.size()) - 1,
                            literal.shape().byte_size());
  constants_.emplace(constant, out);
  return out;
}

Slice ModulePlanner::DeviceIdSlice(Opcode opcode) {
  const int number = opcode == Opcode::kReplicaId ? 0 : 1;
  std::optional<Slice>& slice = device_ids_[static_cast<std::size_t>(number)];
  if (!slice) slice = NewAllocation(Allocation::Kind::kDeviceId, number, 4);
  return *slice;
}

Slice ModulePlanner::StateSlice(const Instruction* i) {
  auto it = states_.find(i);
  if (it != states_.end()) return it->second;
  std::vector<std::byte> bytes(16);
  const uint64_t first[2] = {kInitialRngState, 0};
  std::memcpy(bytes.data(), first, bytes.size());
  plan_.states.push_back(std::move(bytes));
  Slice out = NewAllocation(Allocation::Kind::kState, static_cast<int>(plan_.states.size()) - 1, 16);
  states_.emplace(i, out);
  return out;
}

void ModulePlanner::Touch(const Slice& s) {
  auto& [first, last] = touched_[static_cast<std::size_t>(s.allocation)];
  if (!loop_starts_.empty() && last < loop_starts_.back()) touched_in_loop_.push_back(s.allocation);
  if (first < 0) first = now_;
  last = std::max(last, now_);
}

Result<ArenaSize> ModulePlanner::Pack(std::size_t begin, Frames frames) {
  std::vector<LiveRange> ranges;
  std::vector<std::size_t> packed;
  int64_t total = 0;
  for (std::size_t a = begin; a < plan_.allocations.size(); ++a) {
    if (plan_.allocations[a].kind != Allocation::Kind::kArena || touched_[a].first < 0 || frame_of_[a] >= 0) continue;
    if (frames == Frames::kHavePlaces && is_frame_.contains(static_cast<int>(a))) continue;
    const int64_t size = plan_.allocations[a].size;
    if (size > kMaxTemporaries - total)
      return ResourceExhausted("The program's intermediate values take more than {} bytes; one has {}.",
                               kMaxTemporaries, size);
    total += size;
    ranges.push_back({size, touched_[a].first, touched_[a].second, 0});
    packed.push_back(a);
  }
  const ArenaSize size = options_.guards == Guards::kNone ? PackArena(ranges) : PlaceApart(ranges, options_.guards);
  for (std::size_t n = 0; n < packed.size(); ++n) plan_.allocations[packed[n]].offset = ranges[n].offset;
  return size;
}

Result<> ModulePlanner::PackTemporaries() {
  // Each call of a computation also calls what that computation calls. Callees come before their callers in the list.
  for (std::size_t c = callees_.size(); c-- > 0;)
    for (int inner : callees_[c].calls) {
      auto& [first, last] = touched_[static_cast<std::size_t>(callees_[static_cast<std::size_t>(inner)].frame)];
      last = std::max(last, touched_[static_cast<std::size_t>(callees_[c].frame)].second);
    }
  KRAFLA_ASSIGN(ArenaSize size, Pack(0, Frames::kAreTemporaries));
  for (std::size_t a = 0; a < plan_.allocations.size(); ++a)
    if (frame_of_[a] >= 0)
      plan_.allocations[a].offset += plan_.allocations[static_cast<std::size_t>(frame_of_[a])].offset;
  if (PlanLog* log = options_.fusion.log; log != nullptr)
    for (std::size_t a = 0; a < plan_.allocations.size(); ++a)
      if (plan_.allocations[a].kind == Allocation::Kind::kArena && touched_[a].first >= 0 && frame_of_[a] < 0)
        log->lives.push_back({static_cast<int>(a), touched_[a].first, touched_[a].second});
  for (std::size_t a = 0; options_.guards != Guards::kNone && a < plan_.allocations.size(); ++a) {
    const Allocation& array = plan_.allocations[a];
    if (array.kind == Allocation::Kind::kArena && touched_[a].first >= 0 && !is_frame_.contains(static_cast<int>(a)))
      plan_.guarded.push_back({array.offset, array.size});
  }
  plan_.arena_size = size.bytes;
  plan_.peak_live_bytes = size.largest_live_set;
  return {};
}

Slice ModulePlanner::SliceOf(Scope& scope, const ValueRef& v) {
  if (v.instruction->opcode() == Opcode::kConstant) return ConstantSlice(v.instruction);
  if (IsOneOf(v.instruction->opcode(), {Opcode::kReplicaId, Opcode::kPartitionId}))
    return DeviceIdSlice(v.instruction->opcode());
  if (v.instruction->opcode() == Opcode::kRngGetAndUpdateState && v.leaf == 1) return StateSlice(v.instruction);
  auto it = scope.slices.find(v);
  if (it != scope.slices.end()) return it->second;
  Slice made = NewTemporary(LeafShape(v).byte_size());
  scope.Place(v, made);
  return made;
}

void ModulePlanner::ExtendOverLoop(int start, std::size_t begin) {
  std::size_t kept = begin;
  for (std::size_t n = begin; n < touched_in_loop_.size(); ++n) {
    auto& [first, last] = touched_[static_cast<std::size_t>(touched_in_loop_[n])];
    if (first >= start) continue;
    last = std::max(last, now_);
    touched_in_loop_[kept++] = touched_in_loop_[n];
  }
  touched_in_loop_.resize(kept);
  loop_starts_.pop_back();
}

}  // namespace krafla::plan
