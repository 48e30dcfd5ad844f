// SPDX-License-Identifier: Apache-2.0
// Decides whether what is put into an array may be computed while it is put there.
#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/work.h"
#include "plan/fusion/fusion_planner.h"

namespace krafla::plan {

namespace {

// Where an instruction is read for an element of an update: `offset` further on than the element's own index, and
// further on by the starts of the update, too, if `from_starts`.
struct ReadPlace {
  bool is_known = false;
  bool from_starts = false;
  Dims offset;
  friend bool operator==(const ReadPlace&, const ReadPlace&) = default;
};

// Element `position` of a literal of integers; of those that are larger than any array the largest.
int64_t IntegerElement(const Literal& literal, std::size_t position) {
  const ElementType type = literal.shape().element_type();
  const auto size = static_cast<std::size_t>(StorageBytes(type));
  uint64_t bits = 0;
  std::memcpy(&bits, literal.bytes().data() + position * size, size);
  if (!IsSigned(type))
    return static_cast<int64_t>(std::min<uint64_t>(bits, uint64_t{std::numeric_limits<int64_t>::max()}));
  const auto shift = 64 - 8 * size;
  return static_cast<int64_t>(bits << shift) >> shift;
}

// The starts of a dynamic-slice or dynamic-update-slice, its operands from `first` on, if they are constants.
std::optional<Dims> ConstantStarts(const Instruction& i, std::size_t first, const Dims& of, const Dims& sizes) {
  Dims out;
  const bool is_vector = i.operand_count() > first && i.operand(first)->shape().rank() == 1;
  for (std::size_t d = 0; d < of.size(); ++d) {
    const int64_t room = of[d] - sizes[d];
    if (room <= 0) {
      out.push_back(0);
      continue;
    }
    const Instruction& start = *i.operand(is_vector ? first : first + d);
    if (start.opcode() != Opcode::kConstant) return std::nullopt;
    out.push_back(std::clamp<int64_t>(IntegerElement(start.literal(), is_vector ? d : 0), 0, room));
  }
  return out;
}

bool AreOwnStarts(const Instruction& slice, const Instruction& update) {
  return slice.attr<DynamicSliceAttributes>().slice_sizes == update.operand(1)->shape().dims() &&
         slice.operand(0)->shape().dims() == update.shape().dims() &&
         std::ranges::equal(slice.operands().subspan(1), update.operands().subspan(2));
}

// Where operand `n` of `i` is read, which is read at `place`.
ReadPlace PlaceOfOperand(const Instruction& update, const Instruction& i, std::size_t n, const ReadPlace& place) {
  if (!place.is_known) return {};
  const auto add = [&](const Dims& starts) {
    ReadPlace out = place;
    for (std::size_t d = 0; d < starts.size(); ++d) out.offset[d] += starts[d];
    return out;
  };
  if (IsElementwise(i.opcode()) || IsOneOf(i.opcode(), {Opcode::kCopy, Opcode::kReshape}))
    return i.operand(n)->shape().dims() == i.shape().dims() ? place : ReadPlace{};
  if (i.opcode() == Opcode::kSlice) {
    const auto& a = i.attr<SliceAttributes>();
    return std::ranges::all_of(a.strides, [](int64_t s) { return s == 1; }) ? add(a.starts) : ReadPlace{};
  }
  if (i.opcode() != Opcode::kDynamicSlice || n > 0) return {};
  if (const auto starts = ConstantStarts(i, 1, i.operand(0)->shape().dims(), i.shape().dims())) return add(*starts);
  const bool is_own = !place.from_starts && std::ranges::all_of(place.offset, [](int64_t o) { return o == 0; });
  if (!is_own || !AreOwnStarts(i, update)) return {};
  return {.is_known = true, .from_starts = true, .offset = place.offset};
}

}  // namespace

const FusionPlanner::ArrayReads& FusionPlanner::ReadsOf(const Instruction& of) {
  const auto [at, is_new] = reads_of_.try_emplace(&of);
  ArrayReads& out = at->second;
  if (!is_new) return out;
  std::vector<std::pair<const Instruction*, ReadPlace>> stack;
  std::optional<ValueRef> array;
  ReadPlace replaced;
  if (hero_kind_[Index(&of)] == Kind::kDynamicUpdate) {
    array = ResolveValue({of.operand(0), 0}, true);
    const Dims none(of.shape().dims().size(), 0);
    const auto starts = ConstantStarts(of, 2, of.shape().dims(), of.operand(1)->shape().dims());
    replaced = {.is_known = true, .from_starts = !starts, .offset = starts.value_or(none)};
    stack.push_back({of.operand(1), {.is_known = true, .from_starts = false, .offset = none}});
  } else {
    for (const Instruction* o : of.operands()) stack.push_back({o, {}});
  }
  // Where each was read. What is read at two places is read at any, so that each is gone through twice at the most.
  std::unordered_map<const Instruction*, ReadPlace> seen;
  while (!stack.empty()) {
    auto [i, place] = std::move(stack.back());
    stack.pop_back();
    const auto [known, is_first] = seen.try_emplace(i, place);
    if (!is_first) {
      if (known->second == place || !known->second.is_known) continue;
      place = known->second = {};
    }
    CountWork(1);
    if (seen.size() > limits_.update_search) return out.is_elsewhere = true, out;
    const ValueRef value = ResolveValue({i, 0}, true);
    out.arrays.insert(value);
    if (value == array) {
      out.is_own = true;
      if (place != replaced || i->shape().dims() != of.shape().dims()) return out.is_elsewhere = true, out;
      continue;
    }
    if (class_[Index(i)] == Class::kHero || IsOneOf(i->opcode(), {Opcode::kParameter, Opcode::kGetTupleElement}))
      continue;
    for (std::size_t n = 0; n < i->operand_count(); ++n)
      stack.push_back({i->operand(n), PlaceOfOperand(of, *i, n, place)});
  }
  return out;
}

void FusionPlanner::FindFirstOverwriting() {
  const auto add = [&](const Instruction* updated, const Instruction* by) {
    first_overwriting_.try_emplace(ResolveValue({updated, 0}, true), by);
  };
  for (const auto& i : computation_.instructions()) {
    if (hero_kind_[Index(i.get())] == Kind::kDynamicUpdate) add(i->operand(0), i.get());
    if (hero_kind_[Index(i.get())] == Kind::kScatter)
      for (std::size_t n = 0; n < i->operand_count() / 2; ++n) add(i->operand(n), i.get());
  }
  ForEachNextState([&](const ValueRef& state, const ValueRef& made) {
    if (class_[Index(made.instruction)] == Class::kStructural) return;
    const auto [at, is_new] = first_overwriting_.try_emplace(state, made.instruction);
    if (!is_new && position_[Index(made.instruction)] < position_[Index(at->second)]) at->second = made.instruction;
  });
}

bool FusionPlanner::ComputesWhatItPutsIn(const Instruction& update) {
  const ArrayReads& reads = ReadsOf(update);
  if (reads.is_elsewhere) return false;
  const ValueRef array = ResolveValue({update.operand(0), 0}, true);
  return std::ranges::none_of(reads.arrays, [&](const ValueRef& read) {
    const auto found = first_overwriting_.find(read);
    if (read == array || found == first_overwriting_.end() || found->second == &update) return false;
    const Instruction& other = *found->second;
    const bool is_before = position_[Index(&other)] < position_[Index(&update)];
    const bool waits_for_this = ReadsOf(other).arrays.contains(array);
    if (hero_kind_[Index(&other)] == Kind::kDynamicUpdate) return is_before && (reads.is_own || waits_for_this);
    return reads.is_own && (is_before || waits_for_this);
  });
}

}  // namespace krafla::plan
