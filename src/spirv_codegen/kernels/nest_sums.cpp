// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/nest_sums.h"

#include <algorithm>

#include "base/checked_math.h"
#include "spirv_codegen/kernels/while.h"
#include "spirv_codegen/kernels/wide_sum.h"

namespace krafla::spirv {
namespace {

// How one operand is read: the element of depth 0 of the item's row or column, and where those around it lie.
struct Side {
  int binding = 0;
  ElementType type = ElementType::kF32;
  int64_t offset = 0, own_stride = 0, depth_stride = 0;
  const Dims* batch_strides = nullptr;
  bool deep = false;  // four of the depth lie side by side from a multiple of four on
  int width = 1;      // columns that are read at once
  Value first;
};

bool AreFours(std::span<const int64_t> strides) {
  return std::ranges::all_of(strides, [](int64_t s) { return s % 4 == 0; });
}

Side Left(const plan::DotKernel& k) {
  Side out{k.lhs_binding, k.lhs_type, k.lhs_offset, k.lhs_m_stride, k.lhs_k_stride, &k.lhs_batch_strides, false, 1, {}};
  out.deep = k.k % 4 == 0 && k.lhs_k_stride == 1 && k.lhs_offset % 4 == 0 && k.lhs_m_stride % 4 == 0 &&
             AreFours(k.lhs_batch_strides) && StorageBytes(k.lhs_type) <= 4;
  return out;
}
Side Right(const plan::DotKernel& k, int width) {
  Side out{k.rhs_binding, k.rhs_type, k.rhs_offset, k.rhs_n_stride, k.rhs_k_stride, &k.rhs_batch_strides, false,
           width,         {}};
  out.deep = width == 1 && k.k % 4 == 0 && k.rhs_k_stride == 1 && k.rhs_offset % 4 == 0 && k.rhs_n_stride % 4 == 0 &&
             AreFours(k.rhs_batch_strides) && StorageBytes(k.rhs_type) <= 4;
  return out;
}

// The elements of the depths [depth, depth + step), each of the side's width.
Values LoadDepths(KernelWriter& w, const Side& side, ReadAs as, Value depth, uint32_t step) {
  Builder& b = w.b;
  const auto at = [&](Value d) { return b.Add(side.first, b.Mul(d, b.U32(static_cast<uint32_t>(side.depth_stride)))); };
  Values out;
  if (side.deep && step == 4) {
    const Value four = LoadAs(b, w.buffers, side.binding, side.type, as, at(depth), 4);
    for (int i = 0; i < 4; ++i) out.push_back(b.Extract(four, i));
    return out;
  }
  for (uint32_t i = 0; i < step; ++i)
    out.push_back(LoadAs(b, w.buffers, side.binding, side.type, as, at(b.Add(depth, b.U32(i))), side.width));
  return out;
}

}  // namespace

int NestSumsAtOnce(const plan::DotKernel& k, const LoopTuning& tuning, int64_t lanes) {
  const Dims& dims = k.epilogue.space.dims();
  const int inner = static_cast<int>(dims.size()) - 1;
  if (StorageBytes(k.rhs_type) > 4 || StorageBytes(k.lhs_type) > 4 || StorageBytes(k.accumulate_type) > 4) return 1;
  if (Product(dims) < 4 * lanes || k.n % 4 != 0 || k.rhs_n_stride != 1 || k.rhs_offset % 4 != 0 ||
      k.rhs_k_stride % 4 != 0 || !AreFours(k.rhs_batch_strides))
    return 1;
  return PointsAtOnce(k.epilogue, inner, tuning);
}

double NestSumsOperations(const plan::DotKernel& k, int width) {
  const double of_product = width == 4 || (Left(k).deep && Right(k, width).deep) ? 3 : 8;
  return of_product * static_cast<double>(k.k) + OperationsOf(k.epilogue);
}

void EmitNestSums(KernelWriter& w, const plan::DotKernel& k, Value item, int width) {
  Builder& b = w.b;
  const Dims& dims = k.epilogue.space.dims();
  const int rank = static_cast<int>(dims.size());
  const auto u32 = [&](int64_t v) { return b.U32(static_cast<uint32_t>(v)); };
  ProgramLowering lowering(b, w.buffers, k.epilogue, rank - 1, width);
  Values at(dims.size());
  Value rest = width == 1 ? item : b.Mul(item, u32(width));
  for (int d = rank - 1; d >= 0; --d) {
    const Value size = u32(dims[static_cast<std::size_t>(d)]);
    const Value quotient = d == 0 ? b.U32(0) : b.UDiv(rest, size);
    at[static_cast<std::size_t>(d)] = d == 0 ? rest : b.Sub(rest, b.Mul(quotient, size));
    rest = quotient;
    lowering.SetIter(d, at[static_cast<std::size_t>(d)]);
  }
  Side lhs = Left(k), rhs = Right(k, width);
  for (Side* side : {&lhs, &rhs}) {
    side->first = u32(side->offset);
    for (std::size_t d = 0; d < k.batch.size(); ++d)
      side->first = b.Add(side->first, b.Mul(at[d], u32((*side->batch_strides)[d])));
    const Value own = at[dims.size() - (side == &lhs ? 2 : 1)];
    side->first = b.Add(side->first, b.Mul(own, u32(side->own_stride)));
  }
  const ReadAs as{k.accumulate_type, false};
  const uint32_t step = k.k % 4 == 0 ? 4 : 1;
  const ChainedSums sums(b, ComputeKind(k.accumulate_type), width, 1, k.k);
  const Values total =
      sums.Add(b.U32(0), u32(k.k), step, ChainedSums::kChain / step, sums.Start(), [&](Value depth, Values acc) {
        const Values x = LoadDepths(w, lhs, as, depth, step), y = LoadDepths(w, rhs, as, depth, step);
        for (std::size_t i = 0; i < step; ++i) acc[0] = MultiplyAdd(b, acc[0], b.Splat(x[i], width), y[i]);
        return acc;
      });
  lowering.SetParam(0, AsResult(b, k.accumulate_type, k.result_type, sums.Finish(total)[0]));
  lowering.EmitStores();
}

}  // namespace krafla::spirv
