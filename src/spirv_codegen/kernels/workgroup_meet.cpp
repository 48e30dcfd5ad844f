// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/workgroup_meet.h"

namespace krafla::spirv {

Values WorkgroupMeet::Meet(const ReductionValues& values, Values state) {
  if (state.empty()) return state;
  uint32_t entries = local_;
  Value entry = b_.LocalIndex();
  if (subgroup_ != 0) {
    state = values.MergeSubgroup(state, subgroup_);
    entries = local_ / subgroup_;
    entry = b_.SubgroupId();
  }
  auto put = [&](Value at, const Values& s) {
    for (std::size_t i = 0; i < s.size(); ++i) {
      const Value word = s[i].kind == Kind::kBool ? b_.Select(s[i], b_.U32(1), b_.U32(0)) : s[i];
      b_.StoreShared(SharedFor(i, word.kind), at, word);
    }
  };
  auto get = [&](Value at) {
    Values out;
    for (std::size_t i = 0; i < state.size(); ++i) {
      const Kind kind = state[i].kind == Kind::kBool ? Kind::kU32 : state[i].kind;
      const Value word = b_.LoadShared(SharedFor(i, kind), kind, 1, at);
      out.push_back(state[i].kind == Kind::kBool ? b_.Compare(Cmp::kNe, word, b_.U32(0)) : word);
    }
    return out;
  };
  b_.WorkgroupBarrier();  // so that nobody still reads the arrays
  if (subgroup_ != 0) {
    b_.If(b_.Compare(Cmp::kEq, b_.SubgroupLane(), b_.U32(0)), [&] { put(entry, state); });
  } else {
    put(entry, state);
  }
  b_.WorkgroupBarrier();
  if (subgroup_ == 0 && values.in_order()) {
    // Neighbours meet, then pairs of them, ...
    for (uint32_t step = 1; step < entries; step *= 2) {
      const Value is_left = b_.Compare(Cmp::kEq, b_.And(entry, b_.U32(2 * step - 1)), b_.U32(0));
      b_.If(is_left, [&] { put(entry, values.Merge(get(entry), get(b_.Add(entry, b_.U32(step))))); });
      b_.WorkgroupBarrier();
    }
    return get(b_.U32(0));
  }
  if (subgroup_ == 0) {
    for (uint32_t half = entries / 2; half >= 1; half /= 2) {
      b_.If(b_.Compare(Cmp::kULt, entry, b_.U32(half)),
            [&] { put(entry, values.Merge(get(entry), get(b_.Add(entry, b_.U32(half))))); });
      b_.WorkgroupBarrier();
    }
    return get(b_.U32(0));
  }
  Values total = get(b_.U32(0));
  for (uint32_t i = 1; i < entries; ++i) total = values.Merge(total, get(b_.U32(i)));
  return total;
}

Id WorkgroupMeet::SharedFor(std::size_t i, Kind kind) {
  auto [it, inserted] = shared_.try_emplace({i, kind}, 0);
  if (inserted) it->second = b_.SharedArray(kind, 1, subgroup_ != 0 ? local_ / subgroup_ : local_);
  return it->second;
}

}  // namespace krafla::spirv
