// SPDX-License-Identifier: Apache-2.0
// A loop that chooses by a pred which is the same throughout its space, or throughout planes of it: a flip by a coin.
// It is two loops, of which one runs, so neither looks at what only the other one reads: a reversed row becomes a copy.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "krafla/status.h"
#include "plan/element_program.h"

namespace krafla::cpu {

class LoopRunner;

class LoopChoice {
 public:
  // Null: there is no such choice, or both ways read the same places. depth: how many choices this one is within.
  static Result<std::unique_ptr<LoopChoice>> Make(const plan::ElementProgram& program, int64_t runs, int depth);

  int64_t scratch_bytes(int threads) const;
  void Run(std::span<std::byte* const> buffers, ThreadPool& pool, std::byte* scratch) const;

 private:
  int64_t FrameBytes(int threads) const;

  // By whether the pred holds; and what stores the pred of each plane, in a buffer of its own behind the others.
  std::shared_ptr<const LoopRunner> ways_[2], preds_;
  int64_t planes_ = 1;
  // How far each plane's part of a buffer is behind the one before, bytes; 0: all planes have the same.
  std::vector<int64_t> plane_bytes_;
};

}  // namespace krafla::cpu
