// SPDX-License-Identifier: Apache-2.0
// Turns the views between a dot and the buffer that it reads into strides.
#include "plan/strided_operand.h"

#include "plan/index_expr.h"

namespace krafla::plan {

StridedOperand FoldStrides(const Instruction* operand) {
  StridedOperand best;
  best.strides = RowMajorStrides(operand->shape().dims());
  const Instruction* at = operand;
  // The index into `at` as expressions over the index into the operand.
  IndexSpace space(operand->shape().dims());
  std::vector<IndexId> index;
  for (int64_t d = 0; d < operand->shape().rank(); ++d) index.push_back(space.Iter(static_cast<int>(d)));
  // A limit on the views that are followed, because many dots may read one long chain of them.
  constexpr int kMostViews = 64;
  for (int views = 0; views < kMostViews; ++views) {
    // Whether the row-major offset into `at` is affine in every dimension.
    IndexId offset = space.Linearize(index, at->shape().dims());
    Dims strides;
    bool affine = true;
    for (int64_t d = 0; d < operand->shape().rank() && affine; ++d) {
      IndexSpace::Affine a = space.StrideAlong(offset, static_cast<int>(d));
      affine = a.affine;
      strides.push_back(a.stride);
    }
    if (affine) best = {{at, 0}, space.expr(offset).constant, strides};
    Opcode op = at->opcode();
    if (op == Opcode::kCopy || (op == Opcode::kOptimizationBarrier && at->operand_count() == 1)) {
      at = at->operand(0);
    } else if (op == Opcode::kReshape) {
      IndexId linear = space.Linearize(index, at->shape().dims());
      index = space.Delinearize(linear, at->operand(0)->shape().dims());
      at = at->operand(0);
    } else if (op == Opcode::kTranspose) {
      const Dims& permutation = at->attr<DimensionsAttributes>().dimensions;
      std::vector<IndexId> next(index.size());
      for (std::size_t d = 0; d < index.size(); ++d) next[static_cast<std::size_t>(permutation[d])] = index[d];
      index = next;
      at = at->operand(0);
    } else if (op == Opcode::kSlice) {
      const auto& a = at->attr<SliceAttributes>();
      for (std::size_t d = 0; d < index.size(); ++d)
        index[d] = space.AddConstant(space.Mul(index[d], a.strides[d]), a.starts[d]);
      at = at->operand(0);
    } else if (op == Opcode::kBroadcast && at->operand(0)->shape().rank() > 0) {
      std::vector<IndexId> next;
      for (int64_t d : at->attr<DimensionsAttributes>().dimensions) next.push_back(index[static_cast<std::size_t>(d)]);
      index = next;
      at = at->operand(0);
    } else {
      break;
    }
  }
  best.base = ResolveValue(best.base, true);
  return best;
}

}  // namespace krafla::plan
