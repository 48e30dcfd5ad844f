// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/schedule.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace krafla::vk {
namespace {

// The bytes of one memory as segments, each with the level of its last write and of its last read (0: none yet;
// levels count from 1).
class Segments {
 public:
  // The least level that an access to these bytes may have.
  int LeastLevel(uint64_t begin, uint64_t end, bool writes) const {
    int level = 1;
    for (auto it = FirstTouching(begin); it != segments_.end() && it->first < end; ++it) {
      if (it->second.end <= begin) continue;
      level = std::max(level, it->second.write + 1);
      if (writes) level = std::max(level, it->second.read + 1);
    }
    return level;
  }

  void Note(uint64_t begin, uint64_t end, bool reads, bool writes, int level) {
    Split(begin);
    Split(end);
    auto it = segments_.lower_bound(begin);
    for (uint64_t at = begin; at < end;) {
      if (it == segments_.end() || it->first > at) {
        uint64_t stop = it == segments_.end() ? end : std::min(end, it->first);
        it = segments_.emplace_hint(it, at, Segment{stop, 0, 0});
      }
      Segment& s = it->second;
      if (writes) {
        s.write = std::max(s.write, level);
        s.read = 0;  // whoever comes after the write comes after the reads before it
      }
      if (reads) s.read = std::max(s.read, level);
      at = s.end;
      ++it;
    }
  }

 private:
  struct Segment {
    uint64_t end;
    int write, read;
  };
  using Map = std::map<uint64_t, Segment>;

  Map::const_iterator FirstTouching(uint64_t begin) const {
    auto it = segments_.upper_bound(begin);
    return it == segments_.begin() ? it : std::prev(it);
  }
  void Split(uint64_t at) {
    auto it = segments_.upper_bound(at);
    if (it == segments_.begin()) return;
    --it;
    if (it->first >= at || it->second.end <= at) return;
    Segment tail = it->second;
    it->second.end = at;
    segments_.emplace(at, tail);
  }

  Map segments_;
};

template <typename F>
void ForEachSlice(const Step& step, F&& f) {
  if (const auto* launch = std::get_if<Launch>(&step)) {
    for (std::size_t i = 0; i < launch->bindings.size(); ++i) {
      Access access = i < launch->access.size() ? launch->access[i] : Access::kReadWrite;
      f(launch->bindings[i], (static_cast<int>(access) & 1) != 0, (static_cast<int>(access) & 2) != 0);
    }
    if (launch->predicate) f(*launch->predicate, true, false);
  } else if (const auto* copy = std::get_if<Copy>(&step)) {
    f(copy->from, true, false);
    f(copy->to, false, true);
  } else {
    f(std::get<Fill>(step).to, false, true);
  }
}

bool DoesNothing(const Step& step) {
  if (const auto* launch = std::get_if<Launch>(&step))
    return std::ranges::find(launch->grid, 0u) != std::end(launch->grid);
  if (const auto* copy = std::get_if<Copy>(&step)) return copy->to.size == 0;
  return std::get<Fill>(step).to.size == 0;
}

}  // namespace

std::vector<std::vector<uint32_t>> ScheduleSteps(std::span<const Step> steps, std::span<const uint32_t> memory_of,
                                                 bool reorder) {
  std::vector<std::vector<uint32_t>> levels;
  std::unordered_map<uint32_t, Segments> memories;
  int last = 1;
  for (uint32_t i = 0; i < steps.size(); ++i) {
    if (DoesNothing(steps[i])) continue;
    int level = reorder ? 1 : last;
    ForEachSlice(steps[i], [&](const BufferSlice& s, bool, bool writes) {
      // Whole words: kernels on packed types read and write the words that their elements lie in.
      uint64_t begin = s.offset / 4 * 4, end = (s.offset + s.size + 3) / 4 * 4;
      level = std::max(level, memories[memory_of[s.buffer]].LeastLevel(begin, end, writes));
    });
    ForEachSlice(steps[i], [&](const BufferSlice& s, bool reads, bool writes) {
      uint64_t begin = s.offset / 4 * 4, end = (s.offset + s.size + 3) / 4 * 4;
      if (begin < end) memories[memory_of[s.buffer]].Note(begin, end, reads, writes, level);
    });
    last = level;
    levels.resize(std::max<std::size_t>(levels.size(), static_cast<std::size_t>(level)));
    levels[static_cast<std::size_t>(level - 1)].push_back(i);
  }
  return levels;
}

}  // namespace krafla::vk
