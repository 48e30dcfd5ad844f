// SPDX-License-Identifier: Apache-2.0
// Straight-line code of a routine (native/routine.h) in the making: lane nodes of several kernels over places of the
// plan's memory. What one kernel stores and another one loads stays in registers, by element.
#pragma once

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cpu_fallback/native/lane_builder.h"
#include "cpu_fallback/native/native_code.h"
#include "cpu_fallback/native/routine.h"
#include "plan/program_plan.h"

namespace krafla::cpu {

// The most lanes of `width` bytes that a value has: a vector's, in which narrow numbers have 4 bytes each.
inline int64_t RoutineLanesOf(int width) { return native::RoutineBytes() / std::max(width, 4); }
// The most elements that a kernel of a routine has: 128 vectors of f32 of 64 bytes, 32 of 32 bytes, for which there are
// half as many registers.
inline int64_t MostRoutineElements() { return native::HasAvx512Code() ? 2048 : 256; }
// The most slots that the parts of a kernel have: code for more is not worth its compilation.
inline constexpr int64_t kRoutineSlots = 1024;

// Where the bytes of allocations are, and those of the tape (TapePlace::kFrame): addresses of a table, and how far
// behind them.
class RoutinePlaces {
 public:
  explicit RoutinePlaces(const plan::ProgramPlan& plan) : plan_(plan) {}
  struct Place {
    int base = 0;
    int64_t offset = 0;
  };
  Place Of(int allocation, int64_t offset);
  bool MayOverlap(const plan::Slice& a, const plan::Slice& b) const;
  // Erases what may overlap the slice from a map by allocation and offset, whose items have bytes(item) each, a
  // vector's or less.
  template <class Item, class Bytes>
  void EraseOverlapping(std::map<std::pair<int, int64_t>, Item>& map, const plan::Slice& slice, Bytes bytes) const {
    auto it = map.lower_bound({slice.allocation, slice.offset - native::RoutineBytes() + 1});
    const auto end = map.lower_bound({slice.allocation, slice.offset + slice.size});
    while (it != end) it = it->first.second + bytes(it->second) > slice.offset ? map.erase(it) : std::next(it);
    if (!IsOutside(slice.allocation)) return;
    for (it = map.begin(); it != map.end();) {
      const int allocation = it->first.first;
      const auto next = map.upper_bound({allocation, std::numeric_limits<int64_t>::max()});
      if (allocation != slice.allocation && IsOutside(allocation)) map.erase(it, next);
      it = next;
    }
  }
  // What the table's addresses are: bytes behind an allocation.
  std::span<const plan::Slice> bases() const { return bases_; }

 private:
  bool IsOf(int allocation, plan::Allocation::Kind kind) const;
  bool IsOutside(int allocation) const {
    return IsOf(allocation, plan::Allocation::Kind::kArgument) || IsOf(allocation, plan::Allocation::Kind::kResult);
  }

  const plan::ProgramPlan& plan_;
  std::vector<plan::Slice> bases_;
  std::map<std::optional<int>, int> base_of_;  // by allocation; nothing: all of the arena
};

// `lanes` elements of `width` bytes side by side, in a buffer.
struct RoutineAccess {
  plan::Slice buffer;
  int64_t offset = 0;  // of the buffer, in bytes
  int width = 4;
  int lanes = 1;
  std::vector<native::LaneAccess::Term> terms = {};  // where it may be elsewhere in the buffer
  int mask = -1;                                     // a pred, of as many lanes
};
struct RoutineStore {
  RoutineAccess to;
  native::LaneBuilder::Value value;  // of one lane, or of as many
};

// Of a tile of a block program at `origin` (empty: the first one), so many rows and columns from these on.
struct RoutinePart {
  std::span<const int64_t> origin = {};
  int64_t row = 0, column = 0, rows = 1, columns = 1;
  // By number: what the program has as params, of one lane or as many as the part.
  std::vector<std::optional<native::LaneBuilder::Value>> params = {};
  std::vector<native::LaneBuilder::Value> results = {};  // made by AddTo
  int lanes() const { return static_cast<int>(rows * columns); }
};

class RoutineBlock {
 public:
  using Value = native::LaneBuilder::Value;
  explicit RoutineBlock(RoutinePlaces& places) : places_(places) {}

  native::LaneBuilder& builder() { return builder_; }
  bool is_empty() const { return store_count_ == 0; }
  std::size_t node_count() { return builder_.graph().nodes.size(); }

  // Nothing: the access is of a form that routines do not have.
  std::optional<Value> Load(const RoutineAccess& from, ElementType type);
  // Elements that lie anywhere in a buffer: lane i's is places[i] elements from that of `first`, of one lane.
  std::optional<Value> LoadApart(const RoutineAccess& first, std::span<const int64_t> places, ElementType type);
  // One lane of a value.
  struct Lane {
    Value value;
    int lane = 0;
  };
  // Lanes of values as the lanes of one. Nothing: of predicates, or it would be put together of more than `most_put`
  // single ones.
  std::optional<Value> Join(std::span<const Lane> lanes, ElementType type, int most_put = native::kSequenceLanes);
  static bool CanStore(const RoutineAccess& to) { return IsOneVector(to); }
  // Whether the processor has what these values are made of.
  bool CanHave(std::span<const RoutineStore> stores) const;
  void Add(const RoutineStore& store);
  // Copies as much as MostRoutineElements() of the widest. False, and nothing done: it does not.
  bool Copy(const plan::Slice& from, const plan::Slice& to);
  // A value of one lane in `lanes` of them.
  Value Spread(Value value, int lanes);
  // `lanes` of a value's, a power of two, from a multiple of it on.
  Value LanesOf(Value value, int first, int lanes);
  bool MayOverlap(const plan::Slice& a, const plan::Slice& b) const { return places_.MayOverlap(a, b); }

  native::LaneGraph Take() && { return std::move(builder_.graph()); }

 private:
  // What an element in memory is known to be.
  struct Known {
    Value value;
    int lane = 0;
    int width = 4;
  };
  // Whether the access is one instruction's: as many lanes as a vector has, and no further away than it can say.
  static bool IsOneVector(const RoutineAccess& access);
  int AddAccess(const RoutineAccess& access);
  const Known* KnownAt(const RoutineAccess& at, int64_t offset) const;
  std::optional<Value> Forwarded(const RoutineAccess& from, ElementType type);
  // Lane by lane, and by places in as many sources.
  Value Put(std::span<const Lane> lanes, ElementType type);
  Value Permuted(std::span<const Lane> lanes, std::span<const Lane> sources, ElementType type);
  // As a type, in all of its lanes.
  Value SourceAs(Value value, ElementType type);
  static plan::Slice BytesOf(const RoutineAccess& at);
  void Forget(const plan::Slice& slice);
  // Loads from places that are computed: equal ones are one, until what is stored may be there.
  struct Computed {
    RoutineAccess from;
    ElementType type = ElementType::kInvalid;
    Value value;
  };
  const Computed* ComputedAt(const RoutineAccess& from, ElementType type) const;
  void Remember(const RoutineAccess& at, Value value);

  RoutinePlaces& places_;
  native::LaneBuilder builder_;
  std::map<std::pair<int, int64_t>, Known> known_;  // by allocation and offset
  std::vector<Computed> computed_;
  // Stores of whole vectors that no load has asked memory for, by allocation and offset: one to the same bytes makes
  // them nothing.
  struct Unread {
    int node = 0;
    int64_t size = 0;
  };
  std::map<std::pair<int, int64_t>, Unread> unread_;
  int store_count_ = 0;
};

}  // namespace krafla::cpu
