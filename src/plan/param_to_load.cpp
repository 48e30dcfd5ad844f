// SPDX-License-Identifier: Apache-2.0
#include "plan/param_to_load.h"

namespace krafla::plan {

ElementProgram ParamToLoad(ElementProgram program, uint64_t number, ElementType storage) {
  const Dims dims = program.space.dims();
  std::vector<IndexId> at;
  int64_t count = 1;
  uint64_t depends = 0;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    at.push_back(program.space.Iter(static_cast<int>(d)));
    count *= dims[d];
    depends |= uint64_t{1} << d;
  }
  IndexId linear = program.space.Linearize(at, dims);
  program.buffers.push_back({storage, count, false});
  for (Node& n : program.nodes) {
    if (n.op != NodeOp::kParam || n.bits != number) continue;
    n.op = NodeOp::kLoad;
    n.bits = 0;
    n.storage = storage;
    n.buffer = static_cast<int>(program.buffers.size()) - 1;
    n.index = linear;
    n.depends = depends;
  }
  return program;
}

}  // namespace krafla::plan
