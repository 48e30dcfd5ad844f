// SPDX-License-Identifier: Apache-2.0
// A member's arrays as one row of bytes: leaves one after the other, each from a cache line on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/index.h"
#include "collectives/collective.h"

namespace krafla {

class Packed {
 public:
  static constexpr int64_t kLine = 64;

  static Packed Operands(const Collective& c) {
    Packed out;
    for (std::size_t k = 0; k < c.operand_leaves(); ++k) out.Add(c.operand_bytes(k));
    return out;
  }
  static Packed Results(const Collective& c) {
    Packed out;
    for (std::size_t k = 0; k < c.result_leaves(); ++k) out.Add(c.result_bytes(k));
    return out;
  }

  int64_t total() const { return total_; }
  int64_t base(std::size_t leaf) const { return leaves_[leaf].base; }

  // visit(leaf, offset in the leaf, place in the row, bytes) for what lies in [begin, end).
  template <typename Visit>
  void EachLeaf(int64_t begin, int64_t end, Visit visit) const {
    for (std::size_t k = 0; k < leaves_.size(); ++k) {
      const int64_t lo = std::max(begin, leaves_[k].base), hi = std::min(end, leaves_[k].base + leaves_[k].bytes);
      if (lo < hi) visit(k, lo - leaves_[k].base, lo, hi - lo);
    }
  }
  // to[0, end - begin) = the row's bytes there.
  void Pack(std::span<const std::byte* const> leaves, int64_t begin, int64_t end, std::byte* to) const {
    EachLeaf(begin, end, [&](std::size_t k, int64_t offset, int64_t place, int64_t bytes) {
      std::memcpy(to + (place - begin), leaves[k] + offset, At(bytes));
    });
  }
  void Unpack(const std::byte* from, int64_t begin, int64_t end, std::span<std::byte* const> leaves) const {
    EachLeaf(begin, end, [&](std::size_t k, int64_t offset, int64_t place, int64_t bytes) {
      std::memcpy(leaves[k] + offset, from + (place - begin), At(bytes));
    });
  }

 private:
  struct Leaf {
    int64_t base = 0, bytes = 0;
  };
  void Add(int64_t bytes) {
    leaves_.push_back({total_, bytes});
    total_ += (bytes + kLine - 1) / kLine * kLine;
  }

  std::vector<Leaf> leaves_;
  int64_t total_ = 0;
};

// Rows at `at`, `at` + `stride`, .. that lie elsewhere at `other`, `other` + `other_stride`, ..
struct Rows {
  int64_t at = 0, stride = 0, other = 0, other_stride = 0, bytes = 0, count = 1;

  // visit(place, other place, bytes) for what lies in [begin, end).
  template <typename Visit>
  void Each(int64_t begin, int64_t end, Visit visit) const {
    int64_t row = begin > at && stride > 0 ? (begin - at) / stride : 0;
    for (; row < count && at + row * stride < end; ++row) {
      const int64_t first = at + row * stride, lo = std::max(begin, first), hi = std::min(end, first + bytes);
      if (lo < hi) visit(lo, other + row * other_stride + (lo - first), hi - lo);
    }
  }
};

// What member `rank` of `n` sums of `bytes`.
struct ByteShare {
  int64_t begin = 0, end = 0;

  static ByteShare Of(int64_t bytes, std::size_t rank, std::size_t n) {
    const int64_t lines = (bytes + Packed::kLine - 1) / Packed::kLine, members = static_cast<int64_t>(n);
    const int64_t each = (lines + members - 1) / members * Packed::kLine, r = static_cast<int64_t>(rank);
    return {std::min(bytes, r * each), std::min(bytes, (r + 1) * each)};
  }
};

}  // namespace krafla
