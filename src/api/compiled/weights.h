// SPDX-License-Identifier: Apache-2.0
// Large constants of a program, kept apart from it: in their place the program has calls that say where they lie. They
// are used where a file with them is mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "krafla/literal.h"
#include "krafla/status.h"

namespace krafla::compiled {

// Constants of so many bytes and more are weights.
inline constexpr int64_t kLeastWeightBytes = 4096;

// Where each of several programs' constants lie; equal ones lie there once.
class WeightTable {
 public:
  struct Weight {
    std::string name;  // of the constant that it was first
    std::shared_ptr<const Literal> literal;
    uint64_t offset = 0;
  };

  // Where the literal lies from now on.
  uint64_t Place(std::string_view name, const std::shared_ptr<const Literal>& literal);
  // In the order of their offsets, which are multiples of AlignedBytes::kAlignment.
  std::span<const Weight> weights() const { return weights_; }
  // To the end of the last.
  uint64_t bytes() const { return bytes_; }

 private:
  std::vector<Weight> weights_;
  std::vector<std::pair<uint64_t, std::size_t>> by_hash_;  // sorted; the hash of a weight's bytes, and its place
  uint64_t bytes_ = 0;
};

// Puts a call in the place of each large constant of the module.
Result<> TakeOutWeights(Module& module, WeightTable& table);

// Puts constants in the place of those calls, which use `section` where it is as long as somebody has `owner`; without
// an owner, or where it does not lie at a multiple of AlignedBytes::kAlignment, they copy. DATA_LOSS for a call that
// names bytes outside of it or none at all, and for bytes that are no values of their type.
Result<> PutInWeights(Module& module, std::string_view section, const std::shared_ptr<const void>& owner);

}  // namespace krafla::compiled
