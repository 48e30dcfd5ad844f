// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/dims.h"
#include "passes/rewrite.h"

namespace krafla {

// A side of a dot over the dimensions `all` of the products of both: its dimensions `shared`, which are contracted or
// of the batch, come first and in that order, its own from `free_at` on.
inline Instruction* OverProducts(Rewriter& rewrite, Instruction* side, const Dims& shared, const Dims& all,
                                 int64_t free_at) {
  Dims mapping(static_cast<std::size_t>(side->shape().rank()), 0);
  int64_t at = 0;
  for (int64_t d : shared) mapping[static_cast<std::size_t>(d)] = at++;
  for (int64_t d = 0; d < side->shape().rank(); ++d)
    if (!Contains(shared, d)) mapping[static_cast<std::size_t>(d)] = free_at++;
  return rewrite.Broadcast(side, all, mapping);
}

}  // namespace krafla
