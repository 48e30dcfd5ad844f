// SPDX-License-Identifier: Apache-2.0
// Sorts rows. A comparator that compares functions of both sides, one after the other, turns into integer keys, which
// Highway's vector quicksort orders together with the positions: 64 bits of keys at a time, the last ones first. Any
// other comparator is run as it is by a stable merge sort.
#include <hwy/contrib/sort/vqsort.h>

#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "base/interruption.h"
#include "cpu_fallback/executor/kernel_families.h"
#include "cpu_fallback/executor/scalar_program.h"
#include "cpu_fallback/kernels/move.h"
#include "cpu_fallback/kernels/sort_keys.h"
#include "plan/comparator_keys.h"

namespace krafla::cpu {

namespace {

using plan::ElementProgram;
using plan::KeyRule;
using plan::kNoNode;
using plan::Node;
using plan::NodeId;
using plan::NodeOp;

constexpr int64_t kKeyBlock = 1024;
constexpr std::size_t kCandidates = 512;  // that a partial sort gathers, besides those that it keeps
constexpr std::size_t kMaxSorted = 512;

// An unsigned integer that is in order where the values are.
uint64_t WideKey(uint64_t bits, const KeyOrder& order) {
  constexpr uint64_t kTop = uint64_t{1} << 63;
  uint64_t key = bits;
  if (order.is_float) {
    if (order.equal_zeros && bits == kTop) bits = 0;
    key = (bits & kTop) != 0 ? ~bits : bits | kTop;
  } else if (order.is_signed) {
    key = bits ^ kTop;
  }
  return order.descending ? ~key : key;
}

class SortRun final : public CpuKernel {
 public:
  static KernelResult Make(const plan::SortKernel& body, int threads);
  Result<> Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const override;

 private:
  struct Memory {
    std::byte* frame;
    std::byte* values[kMaxSorted];      // room for each operand's row
    const std::byte* rows[kMaxSorted];  // each operand's row, dense, as stored
    std::byte* wide;                    // a block of an operand in its compute type
    std::byte* keys;                    // sorted: 64 or 128 bits a row element
    std::byte* order;                   // int32 positions
    std::byte* group;                   // where keys are of more than 64 bits: some of them, by position
    std::byte* before;                  // and the order that is sorted
  };
  // Keys of 64 bits together.
  struct KeyGroup {
    std::size_t begin = 0, end = 0;
  };
  Memory MemoryOf(std::byte* scratch) const;
  bool IsOverwritten(std::span<std::byte* const> bindings, std::size_t k) const;
  void MakeGroups();
  // The keys of elements [at, at + n), in BlockProgram's results.
  void RunKeys(const Memory& memory, int64_t at, int64_t n) const;
  void KeysOf32(const Memory& memory, std::size_t key, int64_t n, uint32_t* keys) const;
  void KeysOf64(const Memory& memory, const KeyGroup& group, int64_t n, uint64_t* keys) const;
  void SortByKey(const Memory& memory) const;
  void SortByGroups(const Memory& memory) const;
  void SortByComparator(const Memory& memory) const;

  plan::SortKernel body_;
  int64_t length_ = 0, outer_ = 1, inner_ = 1, keep_ = 0;
  std::vector<KeyRule> keys_;
  std::vector<KeyGroup> groups_;   // of more than one key of 32 bits
  std::vector<int> key_operands_;  // that the keys read
  BlockProgram program_;           // of the keys
  ScalarProgram comparator_;       // where there is none
  std::vector<ConvertFn> widen_;
  int64_t frame_bytes_ = 0, worker_bytes_ = 0;
};

KernelResult SortRun::Make(const plan::SortKernel& body, int threads) {
  auto out = std::make_unique<SortRun>();
  if (body.inputs.size() > kMaxSorted)
    return Unimplemented("A sort of {} arrays at once; the CPU's kernel takes {}.", body.inputs.size(), kMaxSorted);
  out->body_ = body;
  const auto dimension = static_cast<std::size_t>(body.dimension);
  out->length_ = body.dims[dimension];
  for (std::size_t d = 0; d < dimension; ++d) out->outer_ *= body.dims[d];
  for (std::size_t d = dimension + 1; d < body.dims.size(); ++d) out->inner_ *= body.dims[d];
  out->keep_ = body.keep < 0 ? out->length_ : std::min(body.keep, out->length_);
  if (out->length_ > INT32_MAX) return Unimplemented("A sort of rows of {} elements.", out->length_);
  for (ElementType t : body.types) out->widen_.push_back(FindWiden(t));
  out->keys_ = plan::FindKeys(body.comparator);
  if (!out->keys_.empty()) {
    ElementProgram key = body.comparator;
    key.results.clear();
    // Only what the keys need.
    std::vector<bool> needed(key.nodes.size(), false);
    for (const KeyRule& rule : out->keys_) needed[static_cast<std::size_t>(rule.node)] = true;
    for (std::size_t i = key.nodes.size(); i-- > 0;) {
      if (!needed[i]) continue;
      for (NodeId o : key.nodes[i].operands)
        if (o != kNoNode) needed[static_cast<std::size_t>(o)] = true;
    }
    std::vector<NodeId> renumber(key.nodes.size(), kNoNode);
    std::vector<Node> kept;
    for (std::size_t i = 0; i < key.nodes.size(); ++i) {
      if (!needed[i]) continue;
      Node n = key.nodes[i];
      for (NodeId& o : n.operands)
        if (o != kNoNode) o = renumber[static_cast<std::size_t>(o)];
      if (n.op == NodeOp::kParam) {
        n.bits /= 2;  // the operand's number
        const int operand = static_cast<int>(n.bits);
        if (std::ranges::find(out->key_operands_, operand) == out->key_operands_.end())
          out->key_operands_.push_back(operand);
      }
      renumber[i] = static_cast<NodeId>(kept.size());
      kept.push_back(n);
    }
    for (const KeyRule& rule : out->keys_) key.results.push_back(renumber[static_cast<std::size_t>(rule.node)]);
    key.nodes = std::move(kept);
    if (out->key_operands_.empty()) {
      out->keys_.clear();
    } else {
      KRAFLA_ASSIGN(out->program_,
                    BlockProgram::Compile(key, {.tile = {.rows = 1, .columns = kKeyBlock}, .params_are_arrays = true}));
    }
  }
  if (out->keys_.empty()) { KRAFLA_ASSIGN(out->comparator_, ScalarProgram::Compile(body.comparator)); }
  out->MakeGroups();
  int64_t size = RoundUp(
      std::max<int64_t>(out->program_.frame_bytes(), static_cast<int64_t>(out->comparator_.slot_count()) * 8), 64);
  out->frame_bytes_ = size;
  for (ElementType t : body.types) size += RoundUp(out->length_ * StorageBytes(t), 64);
  size += RoundUp(kKeyBlock * 8 * static_cast<int64_t>(body.types.size()), 64);
  size += RoundUp(out->length_ * 16, 64);
  size += RoundUp(out->length_ * 4, 64);
  if (out->groups_.size() > 1) size += RoundUp(out->length_ * 8, 64) + RoundUp(out->length_ * 4, 64);
  out->worker_bytes_ = size;
  out->scratch_bytes_ = size * threads;
  return out;
}

SortRun::Memory SortRun::MemoryOf(std::byte* scratch) const {
  Memory m;
  m.frame = scratch;
  scratch += frame_bytes_;
  for (std::size_t i = 0; i < body_.types.size(); ++i) {
    m.values[i] = scratch;
    scratch += RoundUp(length_ * StorageBytes(body_.types[i]), 64);
  }
  m.wide = scratch;
  scratch += RoundUp(kKeyBlock * 8 * static_cast<int64_t>(body_.types.size()), 64);
  m.keys = scratch;
  m.order = scratch + RoundUp(length_ * 16, 64);
  m.group = m.order + RoundUp(length_ * 4, 64);
  m.before = m.group + RoundUp(length_ * 8, 64);
  return m;
}

// From the last key on, as many as 64 bits hold.
void SortRun::MakeGroups() {
  if (keys_.empty() || (keys_.size() == 1 && StorageBytes(keys_[0].type) <= 4)) return;
  std::size_t end = keys_.size();
  while (end > 0) {
    std::size_t begin = end;
    int64_t bytes = 0;
    while (begin > 0) {
      bytes += std::max(StorageBytes(keys_[begin - 1].type), 4);
      if (bytes > 8) break;
      --begin;
    }
    groups_.push_back({begin, end});
    end = begin;
  }
}

void SortRun::RunKeys(const Memory& m, int64_t at, int64_t n) const {
  const void* params[kMaxSorted] = {};
  for (int o : key_operands_) {
    const auto i = static_cast<std::size_t>(o);
    const std::byte* from = m.rows[i] + at * StorageBytes(body_.types[i]);
    params[i] = from;
    if (widen_[i] != nullptr) {
      std::byte* to = m.wide + o * kKeyBlock * 8;
      widen_[i](from, to, n);
      params[i] = to;
    }
  }
  program_.RunTile(m.frame, {}, 1, n, params);
}

KeyOrder OrderOf(const KeyRule& rule) {
  return {.is_float = IsFloat(rule.type),
          .is_signed = IsSigned(rule.type),
          .equal_zeros = !rule.total_order,
          .descending = rule.descending};
}

void SortRun::KeysOf32(const Memory& m, std::size_t key, int64_t n, uint32_t* keys) const {
  const std::byte* values = program_.ResultValue(m.frame, key).data;
  const uint32_t* bits = reinterpret_cast<const uint32_t*>(values);
  if (StorageBytes(keys_[key].type) == 1) {
    for (int64_t i = 0; i < n; ++i) keys[i] = static_cast<uint32_t>(values[i]);
    bits = keys;
  }
  MakeKeys(bits, n, OrderOf(keys_[key]), keys);
}

void SortRun::KeysOf64(const Memory& m, const KeyGroup& group, int64_t n, uint64_t* keys) const {
  alignas(64) uint32_t part[kKeyBlock];
  std::fill_n(keys, n, uint64_t{0});
  for (std::size_t k = group.begin; k < group.end; ++k) {
    if (StorageBytes(keys_[k].type) == 8) {
      const std::byte* values = program_.ResultValue(m.frame, k).data;
      const KeyOrder order = OrderOf(keys_[k]);
      for (int64_t i = 0; i < n; ++i) {
        uint64_t bits;
        std::memcpy(&bits, values + 8 * i, 8);
        keys[i] = WideKey(bits, order);
      }
      continue;
    }
    KeysOf32(m, k, n, part);
    for (int64_t i = 0; i < n; ++i) keys[i] = keys[i] << 32 | part[i];
  }
}

void SortRun::SortByGroups(const Memory& m) const {
  const auto length = static_cast<std::size_t>(length_), keep = static_cast<std::size_t>(keep_);
  int32_t* order = reinterpret_cast<int32_t*>(m.order);
  hwy::uint128_t* sorted = reinterpret_cast<hwy::uint128_t*>(m.keys);  // keys in the high half
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    alignas(64) uint64_t block[kKeyBlock];
    for (int64_t at = 0; at < length_; at += kKeyBlock) {
      const int64_t n = std::min(kKeyBlock, length_ - at);
      RunKeys(m, at, n);
      uint64_t* keys = g == 0 ? block : reinterpret_cast<uint64_t*>(m.group) + at;
      KeysOf64(m, groups_[g], n, keys);
      if (g > 0) continue;
      for (int64_t i = 0; i < n; ++i) sorted[at + i].hi = keys[i], sorted[at + i].lo = static_cast<uint64_t>(at + i);
    }
    // What was sorted by later keys keeps its order where these are equal.
    int32_t* before = reinterpret_cast<int32_t*>(m.before);
    if (g > 0) {
      const uint64_t* keys = reinterpret_cast<const uint64_t*>(m.group);
      std::copy_n(order, length, before);
      for (std::size_t i = 0; i < length; ++i) sorted[i].hi = keys[before[i]], sorted[i].lo = i;
    }
    const std::size_t wanted = g + 1 == groups_.size() ? keep : length;
    // VQPartialSort of Highway 1.2 loses elements of 128 bits now and then.
    hwy::VQSort(sorted, length, hwy::SortAscending());
    for (std::size_t i = 0; i < wanted; ++i)
      order[i] = g > 0 ? before[sorted[i].lo] : static_cast<int32_t>(sorted[i].lo);
  }
}

void SortRun::SortByKey(const Memory& m) const {
  const auto length = static_cast<std::size_t>(length_), keep = static_cast<std::size_t>(keep_);
  int32_t* order = reinterpret_cast<int32_t*>(m.order);
  uint64_t* narrow = reinterpret_cast<uint64_t*>(m.keys);  // key above position
  const bool is_partial = keep > 0 && keep < length / 4;
  std::size_t count = 0;
  bool has_limit = false;
  uint32_t limit = 0;
  for (int64_t at = 0; at < length_; at += kKeyBlock) {
    const int64_t n = std::min(kKeyBlock, length_ - at);
    RunKeys(m, at, n);
    alignas(64) uint32_t keys[kKeyBlock];
    KeysOf32(m, 0, n, keys);
    if (has_limit) {
      count += static_cast<std::size_t>(AppendBelow(keys, n, limit, at, narrow + count));
    } else {
      for (int64_t i = 0; i < n; ++i)
        narrow[count++] = static_cast<uint64_t>(keys[i]) << 32 | static_cast<uint64_t>(at + i);
    }
    // Of the first ones a few are kept: what comes later is among them only below the last one's key.
    if (is_partial && count >= 2 * keep + kCandidates) {
      hwy::VQPartialSort(narrow, count, keep, hwy::SortAscending());
      limit = static_cast<uint32_t>(narrow[keep - 1] >> 32);
      has_limit = true;
      count = keep;
    }
  }
  if (keep < count / 4) hwy::VQPartialSort(narrow, count, keep, hwy::SortAscending());
  else hwy::VQSort(narrow, count, hwy::SortAscending());
  for (std::size_t i = 0; i < keep; ++i) order[i] = static_cast<int32_t>(narrow[i] & 0xffffffffu);
}

void SortRun::SortByComparator(const Memory& m) const {
  int32_t* order = reinterpret_cast<int32_t*>(m.order);
  for (int64_t i = 0; i < length_; ++i) order[i] = static_cast<int32_t>(i);
  std::span<ScalarProgram::Slot> slots(reinterpret_cast<ScalarProgram::Slot*>(m.frame), comparator_.slot_count());
  auto set = [&](std::size_t param, int32_t position) {
    const int slot = comparator_.ParamSlot(param);
    if (slot < 0) return;
    const std::size_t o = param / 2;
    const int width = StorageBytes(body_.types[o]);
    const std::byte* from = m.rows[o] + position * static_cast<int64_t>(width);
    ScalarProgram::Slot& to = slots[static_cast<std::size_t>(slot)];
    if (widen_[o] != nullptr) widen_[o](from, &to, 1);
    else std::memcpy(&to, from, static_cast<std::size_t>(width));
  };
  const auto result = static_cast<std::size_t>(comparator_.ResultSlot(0));
  std::stable_sort(order, order + length_, [&](int32_t a, int32_t b) {
    for (std::size_t o = 0; o < body_.types.size(); ++o) {
      set(2 * o, a);
      set(2 * o + 1, b);
    }
    comparator_.Run(slots);
    return (slots[result] & 0xff) != 0;
  });
}

// Whether operand `k`'s rows are written while they are read.
bool SortRun::IsOverwritten(std::span<std::byte* const> bindings, std::size_t k) const {
  const auto range = [&](int binding, std::size_t i) {
    const std::byte* begin = bindings[static_cast<std::size_t>(binding)];
    return std::pair{begin, begin + outer_ * length_ * inner_ * StorageBytes(body_.types[i])};
  };
  const auto [begin, end] = range(body_.inputs[k], k);
  for (std::size_t o = 0; o < body_.outputs.size(); ++o) {
    const auto [to, to_end] = range(body_.outputs[o], o);
    if (begin < to_end && to < end) return true;
  }
  return false;
}

Result<> SortRun::Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const {
  if (length_ == 0) return {};
  const int64_t grain = std::max<int64_t>(1, 2000 / length_);
  bool in_place[kMaxSorted] = {};  // read where they lie
  for (std::size_t k = 0; k < body_.types.size(); ++k)
    in_place[k] = body_.inputs[k] >= 0 && inner_ == 1 && !IsOverwritten(bindings, k);
  pool.ParallelFor(outer_ * inner_, grain, [&](int64_t begin, int64_t end, int worker) {
    Memory m = MemoryOf(scratch + worker * worker_bytes_);
    if (!keys_.empty()) program_.Start(m.frame, bindings);
    else comparator_.Start({reinterpret_cast<ScalarProgram::Slot*>(m.frame), comparator_.slot_count()}, bindings);
    for (int64_t row = begin; row < end && !IsInterrupted(); ++row) {
      const int64_t o = row / inner_, i = row % inner_, first = o * length_ * inner_ + i;
      for (std::size_t k = 0; k < body_.types.size(); ++k) {
        if (body_.inputs[k] < 0) continue;
        const int width = StorageBytes(body_.types[k]);
        const std::byte* from = bindings[static_cast<std::size_t>(body_.inputs[k])] + first * width;
        m.rows[k] = from;
        if (in_place[k]) continue;
        MoveTile(width, from, {0, inner_}, m.values[k], {0, 1}, 1, length_);
        m.rows[k] = m.values[k];
      }
      if (!groups_.empty()) SortByGroups(m);
      else if (!keys_.empty()) SortByKey(m);
      else SortByComparator(m);
      for (std::size_t k = 0; k < body_.types.size(); ++k) {
        const int width = StorageBytes(body_.types[k]);
        std::byte* to = bindings[static_cast<std::size_t>(body_.outputs[k])] + first * width;
        const int32_t* order = reinterpret_cast<const int32_t*>(m.order);
        if (body_.inputs[k] < 0) {
          MoveTile(width, m.order, {0, 1}, to, {0, inner_}, 1, keep_);
          continue;
        }
        // The keys are done with: their memory takes the sorted row.
        std::byte* sorted = inner_ == 1 ? to : m.keys;
        GatherElements(width, m.rows[k], order, nullptr, sorted, keep_);
        if (sorted != to) MoveTile(width, sorted, {0, 1}, to, {0, inner_}, 1, keep_);
      }
    }
  });
  return {};
}

}  // namespace

KernelResult MakeSortKernel(const plan::KernelPlan&, const plan::SortKernel& body, const CpuKernelOptions& options) {
  return SortRun::Make(body, options.threads);
}

}  // namespace krafla::cpu
