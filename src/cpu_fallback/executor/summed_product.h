// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "plan/kernel_plan.h"

namespace krafla::cpu {

// The stage that sums up the one result of `program`, in `type`, from zero.
plan::ReduceStage SumOf(plan::ElementProgram program, ElementType type);

// The product of two vectors that a program's loop runs in each of its turns as a reduction, which the loop's routine
// has as a part of its own: a call takes as long as some hundred products. Nothing: it is better done as a product of
// matrices.
std::optional<plan::ReduceKernel> SummedProduct(const plan::DotKernel& dot, int64_t runs);

}  // namespace krafla::cpu
