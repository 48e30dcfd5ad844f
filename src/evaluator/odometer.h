// SPDX-License-Identifier: Apache-2.0
// Walks an index space in row-major order and keeps the offsets of several strided views of it up to date.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "krafla/inline_vector.h"

namespace krafla::evaluator {

template <std::size_t kViews = 1>
class Odometer {
 public:
  explicit Odometer(std::span<const int64_t> dims, std::array<std::span<const int64_t>, kViews> strides)
      : dims_(dims), index_(dims.size(), 0) {
    for (std::size_t v = 0; v < kViews; ++v) strides_[v] = Dims(strides[v]);
    for (int64_t d : dims) count_ *= d;
  }
  int64_t count() const { return count_; }
  int64_t offset(std::size_t view = 0) const { return offsets_[view]; }
  const Dims& index() const { return index_; }
  // To the next place; after the last, back to the first.
  void Next() {
    for (std::size_t d = dims_.size(); d-- > 0;) {
      for (std::size_t v = 0; v < kViews; ++v) offsets_[v] += strides_[v][d];
      if (++index_[d] < dims_[d]) return;
      for (std::size_t v = 0; v < kViews; ++v) offsets_[v] -= dims_[d] * strides_[v][d];
      index_[d] = 0;
    }
  }

 private:
  Dims dims_, index_;
  std::array<Dims, kViews> strides_;
  std::array<int64_t, kViews> offsets_ = {};
  int64_t count_ = 1;
};

}  // namespace krafla::evaluator
