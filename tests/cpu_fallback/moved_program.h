// SPDX-License-Identifier: Apache-2.0
// Programs that only put the elements of an array into another order.
#pragma once

#include <vector>

#include "kernel_fixture.h"

namespace krafla {

// out, over `dims`, is the array whose dimensions are dims[order[0]], dims[order[1]] and so on; a dimension of
// `backwards` (by bits) goes down in it.
inline plan::ElementProgram Moved(ElementType type, const Dims& dims, const std::vector<int>& order,
                                  unsigned backwards) {
  plan::ProgramBuilder b(dims);
  auto& s = b.space();
  int64_t count = 1;
  for (int64_t d : dims) count *= d;
  const int in = b.AddBuffer(type, count, false), out = b.AddBuffer(type, count, true);
  plan::IndexId from = s.Constant(0);
  for (int d : order) {
    const int64_t extent = dims[static_cast<std::size_t>(d)];
    const plan::IndexId i = (backwards >> d & 1) != 0 ? s.AddConstant(s.Mul(s.Iter(d), -1), extent - 1) : s.Iter(d);
    from = s.Add(s.Mul(from, extent), i);
  }
  b.AddStore({.buffer = out, .index = RowMajor(b), .node = b.Load(in, type, from), .storage = type});
  return std::move(b).Finish();
}

}  // namespace krafla
