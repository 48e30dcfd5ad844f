// SPDX-License-Identifier: Apache-2.0
// Questions about lists of dimension numbers.
#pragma once

#include <algorithm>
#include <span>

#include "krafla/shape.h"

namespace krafla {

inline bool Contains(std::span<const int64_t> dims, int64_t d) { return std::ranges::find(dims, d) != dims.end(); }

// The dimensions of one side of a dot that are neither contracted nor batch dimensions, ascending.
inline Dims FreeDims(int64_t rank, std::span<const int64_t> contracting, std::span<const int64_t> batch) {
  Dims out;
  for (int64_t d = 0; d < rank; ++d)
    if (!Contains(contracting, d) && !Contains(batch, d)) out.push_back(d);
  return out;
}

// Result dimension i of a transpose is operand dimension permutation[i].
inline Dims Permuted(std::span<const int64_t> dims, std::span<const int64_t> permutation) {
  Dims out;
  for (int64_t d : permutation) out.push_back(dims[static_cast<std::size_t>(d)]);
  return out;
}
inline Dims Inverse(std::span<const int64_t> permutation) {
  Dims out(permutation.size(), 0);
  for (std::size_t d = 0; d < permutation.size(); ++d)
    out[static_cast<std::size_t>(permutation[d])] = static_cast<int64_t>(d);
  return out;
}

}  // namespace krafla
