// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/repeated_batches.h"

#include <cstring>

#include "base/index.h"
#include "cpu_fallback/executor/iteration.h"

namespace krafla::cpu {

using plan::IndexAtom;
using plan::IndexId;
using plan::IndexSpace;
using plan::kNoNode;
using plan::Node;
using plan::NodeOp;

namespace {

constexpr int kBatchDim = 0;

// Whether an index has the batch's own in it; not by way of a value that the program computes.
bool NamesBatch(const IndexSpace& space, IndexId index) {
  for (const plan::IndexTerm& term : space.expr(index).terms) {
    const IndexAtom& atom = space.atom(term.atom);
    if (atom.kind == IndexAtom::Kind::kIter && atom.iter == kBatchDim) return true;
    const bool has_dividend = atom.kind == IndexAtom::Kind::kFloorDiv || atom.kind == IndexAtom::Kind::kMod;
    if (has_dividend && NamesBatch(space, atom.expr)) return true;
  }
  return false;
}

}  // namespace

std::optional<RepeatedBatches> RepeatedBatches::Make(const plan::ElementProgram& program) {
  const IndexSpace& space = program.space;
  if (space.dims().size() != 3) return std::nullopt;
  RepeatedBatches out;
  for (const Node& n : program.nodes) {
    if ((n.op != NodeOp::kLoad && n.op != NodeOp::kIndex) || !NamesBatch(space, n.index)) continue;
    const std::optional<Dims> steps = AffineCoefficients(space, n.index);
    const bool is_of_batch = steps && (*steps)[1] == 0 && (*steps)[2] == 0;
    if (n.op == NodeOp::kIndex || n.mask != kNoNode || !is_of_batch || BitWidth(n.storage) < 8) return std::nullopt;
    const int64_t width = StorageBytes(n.storage);
    out.loads_.push_back(
        {n.buffer, space.expr(n.index).constant * width, (*steps)[kBatchDim] * width, static_cast<std::size_t>(width)});
  }
  return out;
}

int64_t RepeatedBatches::CountFrom(int64_t first, int64_t count, std::span<std::byte* const> bindings) const {
  const auto is_same = [&](int64_t batch) {
    for (const Load& load : loads_) {
      const std::byte* from = bindings[At(load.buffer)] + load.offset;
      if (std::memcmp(from + first * load.stride, from + batch * load.stride, load.bytes) != 0) return false;
    }
    return true;
  };
  int64_t same = 1;
  while (first + same < count && is_same(first + same)) ++same;
  return same;
}

}  // namespace krafla::cpu
