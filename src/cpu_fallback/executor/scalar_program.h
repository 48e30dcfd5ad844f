// SPDX-License-Identifier: Apache-2.0
// A program without dimensions (a combiner, a comparator, the start of an accumulator) run on single values: the block
// loops, one element long.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cpu_fallback/kernels/block_ops.h"
#include "krafla/status.h"
#include "plan/element_program.h"

namespace krafla::cpu {

class ScalarProgram {
 public:
  using Slot = uint64_t;  // a value of a compute type in its low bytes

  static Result<ScalarProgram> Compile(const plan::ElementProgram& program);

  std::size_t slot_count() const { return slot_count_; }
  // Where the values are before and after a run. `Start` fills constants and loads; params are the caller's to set.
  void Start(std::span<Slot> slots, std::span<std::byte* const> buffers) const;
  int ParamSlot(std::size_t number) const { return number < params_.size() ? params_[number] : -1; }
  int ResultSlot(std::size_t i) const { return results_[i]; }
  std::size_t result_count() const { return results_.size(); }
  void Run(std::span<Slot> slots) const {
    for (const Step& s : steps_) {
      BlockArgs args{&slots[static_cast<std::size_t>(s.out)], {nullptr, nullptr, nullptr}, 1, s.bits};
      for (std::size_t i = 0; i < 3; ++i)
        if (s.in[i] >= 0) args.in[i] = &slots[static_cast<std::size_t>(s.in[i])];
      s.fn(args);
    }
  }

 private:
  struct Step {
    BlockFn fn = nullptr;
    int out = -1;
    std::array<int, 3> in = {-1, -1, -1};
    uint64_t bits = 0;
  };
  struct Constant {
    int slot;
    uint64_t bits;
  };
  struct Load {
    int slot, buffer;
    int64_t offset;  // bytes
    int width;
    ConvertFn widen;
  };
  std::size_t slot_count_ = 0;
  std::vector<Step> steps_;
  std::vector<Constant> constants_;
  std::vector<Load> loads_;
  std::vector<int> params_, results_;
};

}  // namespace krafla::cpu
