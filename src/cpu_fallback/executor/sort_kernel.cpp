// SPDX-License-Identifier: Apache-2.0
// Sorts rows. A comparator that compares one function of both sides turns into integer keys, which Highway's vector
// quicksort orders together with the positions; any other one is run as it is by a stable merge sort.
#include <hwy/contrib/sort/vqsort.h>

#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "cpu_fallback/executor/kernel_families.h"
#include "cpu_fallback/executor/scalar_program.h"
#include "cpu_fallback/kernels/move.h"
#include "cpu_fallback/kernels/sort_keys.h"

namespace krafla::cpu {

namespace {

using plan::ElementProgram;
using plan::kNoNode;
using plan::Node;
using plan::NodeId;
using plan::NodeOp;

constexpr int64_t kKeyBlock = 1024;
constexpr std::size_t kCandidates = 512;  // that a partial sort gathers, besides those that it keeps
constexpr std::size_t kMaxSorted = 64;

// Whether node `a` is to the even params what `b` is to the odd ones of the same operand.
bool SameSide(const ElementProgram& p, NodeId a, NodeId b) {
  if (a == kNoNode || b == kNoNode) return a == b;
  const Node& x = p.nodes[static_cast<std::size_t>(a)];
  const Node& y = p.nodes[static_cast<std::size_t>(b)];
  if (x.op != y.op || x.type != y.type) return false;
  if (x.op == NodeOp::kParam) return x.bits % 2 == 0 && y.bits == x.bits + 1;
  if (x.opcode != y.opcode || x.storage != y.storage || x.bits != y.bits || x.direction != y.direction ||
      x.total_order != y.total_order || x.op == NodeOp::kLoad)
    return false;
  for (std::size_t i = 0; i < 3; ++i)
    if (!SameSide(p, x.operands[i], y.operands[i])) return false;
  return true;
}

struct KeyRule {
  NodeId node = kNoNode;  // the key of the left side
  ElementType type = ElementType::kF32;
  bool total_order = false, descending = false;
};

std::optional<KeyRule> FindKey(const ElementProgram& p) {
  const Node& n = p.nodes[static_cast<std::size_t>(p.results[0])];
  if (n.op != NodeOp::kCompare) return std::nullopt;
  const bool less = n.direction == ComparisonDirection::kLt, greater = n.direction == ComparisonDirection::kGt;
  if (!less && !greater) return std::nullopt;
  KeyRule rule;
  rule.total_order = n.total_order;
  if (SameSide(p, n.operands[0], n.operands[1])) {
    rule.node = n.operands[0];
    rule.descending = greater;
  } else if (SameSide(p, n.operands[1], n.operands[0])) {
    rule.node = n.operands[1];
    rule.descending = less;
  } else {
    return std::nullopt;
  }
  rule.type = p.nodes[static_cast<std::size_t>(rule.node)].type;
  return rule;
}

// An unsigned integer that is in order where the values are. Floats compared plainly have no order with NaN; here it
// comes last, as in total order, and zeros are equal.
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
    std::byte* values[kMaxSorted];  // each operand's row, dense, as stored
    std::byte* wide;                  // a block of an operand in its compute type
    std::byte* keys;                  // sorted: 64 or 128 bits a row element
    std::byte* order;                 // int32 positions
  };
  Memory MemoryOf(std::byte* scratch) const;
  void SortByKeys(const Memory& memory) const;
  void SortByComparator(const Memory& memory) const;

  plan::SortKernel body_;
  int64_t length_ = 0, outer_ = 1, inner_ = 1, keep_ = 0;
  std::optional<KeyRule> key_;
  std::vector<int> key_operands_;  // that the key reads
  int key_width_ = 4;
  BlockProgram program_;  // of the key
  ScalarProgram comparator_;  // where there is none
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
  out->key_ = FindKey(body.comparator);
  if (out->key_) {
    ElementProgram key = body.comparator;
    key.results = {out->key_->node};
    // Only what the key needs.
    std::vector<bool> needed(key.nodes.size(), false);
    needed[static_cast<std::size_t>(out->key_->node)] = true;
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
        if (std::find(out->key_operands_.begin(), out->key_operands_.end(), static_cast<int>(n.bits)) == out->key_operands_.end())
          out->key_operands_.push_back(static_cast<int>(n.bits));
      }
      renumber[i] = static_cast<NodeId>(kept.size());
      kept.push_back(n);
    }
    key.results = {renumber[static_cast<std::size_t>(out->key_->node)]};
    key.nodes = std::move(kept);
    out->key_width_ = StorageBytes(out->key_->type);
    if (out->key_operands_.empty()) out->key_.reset();
    else {
      KRAFLA_ASSIGN(out->program_, BlockProgram::Compile(key, {.tile = {.rows = 1, .columns = kKeyBlock}, .params_are_arrays = true}));
    }
  }
  if (!out->key_) {
    KRAFLA_ASSIGN(out->comparator_, ScalarProgram::Compile(body.comparator));
  }
  int64_t size = RoundUp(std::max<int64_t>(out->program_.frame_bytes(), static_cast<int64_t>(out->comparator_.slot_count()) * 8), 64);
  out->frame_bytes_ = size;
  for (ElementType t : body.types) size += RoundUp(out->length_ * StorageBytes(t), 64);
  size += RoundUp(kKeyBlock * 8 * static_cast<int64_t>(body.types.size()), 64);
  size += RoundUp(out->length_ * 16, 64);
  size += RoundUp(out->length_ * 4, 64);
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
  return m;
}

void SortRun::SortByKeys(const Memory& m) const {
  const KeyOrder rule{.is_float = IsFloat(key_->type), .is_signed = IsSigned(key_->type), .equal_zeros = !key_->total_order,
                      .descending = key_->descending};
  const void* params[kMaxSorted] = {};
  const auto length = static_cast<std::size_t>(length_), keep = static_cast<std::size_t>(keep_);
  int32_t* order = reinterpret_cast<int32_t*>(m.order);
  uint64_t* narrow = reinterpret_cast<uint64_t*>(m.keys);           // key above position
  hwy::uint128_t* wide = reinterpret_cast<hwy::uint128_t*>(m.keys);  // key in the high half
  const bool is_partial = keep > 0 && keep < length / 4;
  std::size_t count = 0;
  bool has_limit = false;
  uint32_t limit = 0;
  for (int64_t at = 0; at < length_; at += kKeyBlock) {
    const int64_t n = std::min(kKeyBlock, length_ - at);
    for (int o : key_operands_) {
      const auto i = static_cast<std::size_t>(o);
      const std::byte* from = m.values[i] + at * StorageBytes(body_.types[i]);
      params[i] = from;
      if (widen_[i] != nullptr) {
        std::byte* to = m.wide + o * kKeyBlock * 8;
        widen_[i](from, to, n);
        params[i] = to;
      }
    }
    program_.RunTile(m.frame, {}, 1, n, params);
    const std::byte* key = program_.ResultValue(m.frame, 0).data;
    if (key_width_ == 8) {
      for (int64_t i = 0; i < n; ++i) {
        uint64_t bits;
        std::memcpy(&bits, key + 8 * i, 8);
        wide[at + i].hi = WideKey(bits, rule);
        wide[at + i].lo = static_cast<uint64_t>(at + i);
      }
      continue;
    }
    alignas(64) uint32_t keys[kKeyBlock];
    const uint32_t* bits = reinterpret_cast<const uint32_t*>(key);
    if (key_width_ == 1) {
      for (int64_t i = 0; i < n; ++i) keys[i] = static_cast<uint32_t>(key[i]);
      bits = keys;
    }
    MakeKeys(bits, n, rule, keys);
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
  if (key_width_ == 8) {
    hwy::VQSort(wide, length, hwy::SortAscending());
    for (std::size_t i = 0; i < keep; ++i) order[i] = static_cast<int32_t>(wide[i].lo);
  } else {
    if (keep < count / 4) hwy::VQPartialSort(narrow, count, keep, hwy::SortAscending());
    else hwy::VQSort(narrow, count, hwy::SortAscending());
    for (std::size_t i = 0; i < keep; ++i) order[i] = static_cast<int32_t>(narrow[i] & 0xffffffffu);
  }
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
    const std::byte* from = m.values[o] + position * static_cast<int64_t>(width);
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

Result<> SortRun::Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const {
  if (length_ == 0) return {};
  const int64_t grain = std::max<int64_t>(1, 2000 / length_);
  pool.ParallelFor(outer_ * inner_, grain, [&](int64_t begin, int64_t end, int worker) {
    const Memory m = MemoryOf(scratch + worker * worker_bytes_);
    if (key_) program_.Start(m.frame, bindings);
    else comparator_.Start({reinterpret_cast<ScalarProgram::Slot*>(m.frame), comparator_.slot_count()}, bindings);
    for (int64_t row = begin; row < end; ++row) {
      const int64_t o = row / inner_, i = row % inner_;
      for (std::size_t k = 0; k < body_.types.size(); ++k) {
        const int width = StorageBytes(body_.types[k]);
        const std::byte* from = bindings[static_cast<std::size_t>(body_.inputs[k])] + (o * length_ * inner_ + i) * width;
        MoveTile(width, from, {0, inner_}, m.values[k], {0, 1}, 1, length_);
      }
      key_ ? SortByKeys(m) : SortByComparator(m);
      for (std::size_t k = 0; k < body_.types.size(); ++k) {
        const int width = StorageBytes(body_.types[k]);
        std::byte* to = bindings[static_cast<std::size_t>(body_.outputs[k])] + (o * keep_ * inner_ + i) * width;
        const int32_t* order = reinterpret_cast<const int32_t*>(m.order);
        // The keys are done with: their memory takes the sorted row.
        std::byte* sorted = inner_ == 1 ? to : m.keys;
        GatherElements(width, m.values[k], order, nullptr, sorted, keep_);
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
