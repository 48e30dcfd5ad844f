// SPDX-License-Identifier: Apache-2.0
// An operand that is computed (plan::DotKernel) and is the same for all batches, as the weights of a resize: it is
// computed once a run, and all batches read the array.
#pragma once

#include <optional>
#include <span>

#include "cpu_fallback/executor/kernel_families.h"
#include "krafla/inline_vector.h"
#include "plan/kernel_plan.h"

namespace krafla::cpu {

class SharedOperand {
 public:
  using Bindings = InlineVector<std::byte*, 16>;

  // Makes the operand of `dot` an array behind the kernel's bindings. Nothing, and the kernel as it is, where batches
  // have operands of their own or the array is a large one.
  static Result<std::optional<SharedOperand>> TakeOutOf(plan::DotKernel& dot);

  int64_t scratch_bytes(int threads) const;
  // `bindings`, and behind them the operand, which lies in `scratch`.
  Bindings Compute(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const;

 private:
  LoopRunner runner_;
  int64_t bytes_ = 0;
};

}  // namespace krafla::cpu
