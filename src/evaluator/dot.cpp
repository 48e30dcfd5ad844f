// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "base/index.h"
#include "base/interruption.h"
#include "evaluator/context.h"
#include "evaluator/gemm.h"
#include "evaluator/strided.h"
#include "ir/dims.h"

namespace krafla::evaluator {

namespace {

struct DotOffsets {
  HostVector<int64_t> lhs_batch, rhs_batch, lhs_m, lhs_k, rhs_k, rhs_n;
};

DotOffsets OffsetsOfDot(const Shape& lhs, const Shape& rhs, const DotAttributes& a) {
  return {OffsetsOf(lhs, a.lhs_batch),
          OffsetsOf(rhs, a.rhs_batch),
          OffsetsOf(lhs, FreeDims(lhs.rank(), a.lhs_contracting, a.lhs_batch)),
          OffsetsOf(lhs, a.lhs_contracting),
          OffsetsOf(rhs, a.rhs_contracting),
          OffsetsOf(rhs, FreeDims(rhs.rank(), a.rhs_contracting, a.rhs_batch))};
}

// The result in its natural order: batch, free dimensions of the left, free dimensions of the right.
Result<> RunDot(Context& context, const Literal& lhs, const Literal& rhs, const DotAttributes& a, Literal& out) {
  if (out.shape().element_count() == 0) return {};  // the free dimensions of one side may still be huge
  const DotOffsets o = OffsetsOfDot(lhs.shape(), rhs.shape(), a);
  KRAFLA_TRY(context.SpendProduct(out.shape().element_count(), static_cast<int64_t>(o.lhs_k.size())));
  const ElementType type = out.shape().element_type();
  Gemm gemm;
  gemm.lhs_type = lhs.shape().element_type();
  gemm.rhs_type = rhs.shape().element_type();
  gemm.accumulator = AccumulatorType(gemm.lhs_type, gemm.rhs_type, type);
  gemm.lhs_m = o.lhs_m;
  gemm.lhs_k = o.lhs_k;
  gemm.rhs_k = o.rhs_k;
  gemm.rhs_n = o.rhs_n;
  const int64_t cells = static_cast<int64_t>(o.lhs_m.size() * o.rhs_n.size());
  KRAFLA_ASSIGN(Shape sums_shape, Shape::MakeArray(gemm.accumulator, Dims{cells}));
  KRAFLA_ASSIGN(Literal sums, Literal::CreateUninitialized(sums_shape));
  InterruptionPoll poll;
  for (std::size_t b = 0; b < o.lhs_batch.size() && !poll.Ends(cells); ++b) {
    gemm.lhs = lhs.bytes().data() + o.lhs_batch[b] * StorageBytes(gemm.lhs_type);
    gemm.rhs = rhs.bytes().data() + o.rhs_batch[b] * StorageBytes(gemm.rhs_type);
    FillZeros(sums.bytes());
    gemm.Run(sums.bytes().data());
    FromAccumulator(sums.bytes().data(), gemm.accumulator,
                    out.bytes().data() + static_cast<int64_t>(b) * cells * StorageBytes(type), type, cells);
  }
  return {};
}

// `literal` in f64, each element multiplied by the scale of its block: the scales have the same rank, and a dimension
// that is smaller there is scaled in equal blocks.
Result<Literal> Scaled(Context& context, const Literal& literal, const Literal& scale) {
  const Shape shape = literal.shape().WithElementType(ElementType::kF64);
  KRAFLA_ASSIGN(Literal out, NewLiteral(context, shape));
  const int64_t n = shape.element_count();
  if (n == 0) return out;
  ToAccumulator(literal.bytes().data(), literal.shape().element_type(), out.bytes().data(), ElementType::kF64, n);
  if (scale.shape().rank() != shape.rank()) {
    if (!scale.shape().IsScalar())
      return InvalidArgument("Scales {} do not fit {}.", scale.shape().ToString(false),
                             literal.shape().ToString(false));
    double factor = 0;
    ToAccumulator(scale.bytes().data(), scale.shape().element_type(), reinterpret_cast<std::byte*>(&factor),
                  ElementType::kF64, 1);
    InterruptionPoll poll;
    for (double& v : out.data<double>()) {
      if (poll.Ends()) break;
      v *= factor;
    }
    return out;
  }
  HostVector<double> factors(At(scale.shape().element_count()));
  ToAccumulator(scale.bytes().data(), scale.shape().element_type(), reinterpret_cast<std::byte*>(factors.data()),
                ElementType::kF64, scale.shape().element_count());
  Dims index(At(shape.rank()), 0), block;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    const int64_t s = scale.shape().dim(d);
    if (s <= 0 || shape.dim(d) % s != 0)
      return InvalidArgument("Scales {} do not fit {}.", scale.shape().ToString(false),
                             literal.shape().ToString(false));
    block.push_back(std::max<int64_t>(1, shape.dim(d) / s));
  }
  const Dims strides = RowMajorStrides(scale.shape().dims());
  InterruptionPoll poll;
  for (int64_t k = 0; k < n && !poll.Ends(); ++k) {
    int64_t at = 0;
    for (std::size_t d = 0; d < index.size(); ++d) at += index[d] / block[d] * strides[d];
    out.data<double>()[At(k)] *= factors[At(at)];
    NextIndex(index, shape.dims());
  }
  return out;
}

}  // namespace

Result<Value> EvalDot(Context& context, const Instruction& i, Operands operands) {
  KRAFLA_ASSIGN(Literal out, NewResult(context, i, operands));
  KRAFLA_TRY(RunDot(context, operands[0].array(), operands[1].array(), i.attr<DotAttributes>(), out));
  return Value::Own(std::move(out));
}

// Operands: lhs, rhs, lhs scale, rhs scale.
Result<Value> EvalScaledDot(Context& context, const Instruction& i, Operands operands) {
  KRAFLA_ASSIGN(Literal out, NewResult(context, i, operands));
  KRAFLA_ASSIGN(Literal lhs, Scaled(context, operands[0].array(), operands[2].array()));
  KRAFLA_ASSIGN(Literal rhs, Scaled(context, operands[1].array(), operands[3].array()));
  KRAFLA_TRY(RunDot(context, lhs, rhs, i.attr<DotAttributes>(), out));
  return Value::Own(std::move(out));
}

namespace {

// `dims` of an array cut to the part [begin, end) of one dimension.
Result<Literal> SlicePart(Context& context, const Literal& in, int64_t dimension, int64_t begin, int64_t end) {
  Dims dims = in.shape().dims();
  dims[At(dimension)] = end - begin;
  KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(in.shape().element_type(), dims));
  KRAFLA_ASSIGN(Literal out, NewLiteral(context, shape));
  View from = DenseView(in.shape());
  from.offset = begin * from.strides[At(dimension)];
  CopyView(dims, StorageBytes(shape.element_type()), in.bytes().data(), from, out.bytes().data(), DenseView(shape));
  return out;
}

Result<Literal> DotOf(Context& context, const Literal& lhs, const Literal& rhs, const DotAttributes& a,
                      ElementType type) {
  Dims dims;
  for (int64_t d : a.lhs_batch) dims.push_back(lhs.shape().dim(d));
  for (int64_t d : FreeDims(lhs.shape().rank(), a.lhs_contracting, a.lhs_batch)) dims.push_back(lhs.shape().dim(d));
  for (int64_t d : FreeDims(rhs.shape().rank(), a.rhs_contracting, a.rhs_batch)) dims.push_back(rhs.shape().dim(d));
  KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(type, dims));
  KRAFLA_ASSIGN(Literal out, NewLiteral(context, shape));
  KRAFLA_TRY(RunDot(context, lhs, rhs, a, out));
  return out;
}

}  // namespace

// The ragged dimension of lhs falls into groups whose sizes the third operand gives (XLA: ragged_dot_rewriter.cc):
// a free dimension: rows of group g meet rhs[g]; a contracting one: result[g] sums over group g only; a batch one: an
// ordinary dot. Group sizes with leading dimensions give one row of sizes for each batch.
Result<Value> EvalRaggedDot(Context& context, const Instruction& i, Operands operands) {
  const auto& r = i.attr<RaggedDotAttributes>();
  const DotAttributes& a = r.dot;
  const Literal &lhs = operands[0].array(), &rhs = operands[1].array(), &sizes = operands[2].array();
  KRAFLA_ASSIGN(Literal out, NewResult(context, i, operands));
  if (r.lhs_ragged_dims.size() != 1) return InvalidArgument("A ragged-dot has one ragged dimension.");
  const int64_t ragged = r.lhs_ragged_dims[0];
  if (Contains(a.lhs_batch, ragged)) {
    KRAFLA_TRY(RunDot(context, lhs, rhs, a, out));
    return Value::Own(std::move(out));
  }
  FillZeros(out.bytes());
  const int64_t groups = sizes.shape().rank() == 0 ? 0 : sizes.shape().dim(sizes.shape().rank() - 1);
  // Batches that have sizes of their own are done one at a time.
  const bool per_batch = sizes.shape().rank() > 1;
  const int64_t size_rows = groups == 0 ? 0 : sizes.shape().element_count() / groups;
  const HostVector<int64_t> lhs_batches = per_batch ? OffsetsOf(lhs.shape(), a.lhs_batch) : HostVector<int64_t>{0};
  if (per_batch && size_rows != static_cast<int64_t>(lhs_batches.size()))
    return InvalidArgument("Group sizes {} do not fit the batches of {}.", sizes.shape().ToString(false),
                           lhs.shape().ToString(false));
  const int bytes = StorageBytes(out.shape().element_type());
  const ElementType type = out.shape().element_type();
  const bool contracting = Contains(a.lhs_contracting, ragged);
  for (std::size_t b = 0; b < lhs_batches.size(); ++b) {
    // The operands of this batch: all of them, or each batch dimension cut to one index.
    Literal lhs_part, rhs_part;
    const Literal *x = &lhs, *y = &rhs;
    Dims batch_index(a.lhs_batch.size(), 0), batch_dims;
    if (per_batch) {
      for (int64_t d : a.lhs_batch) batch_dims.push_back(lhs.shape().dim(d));
      DelinearizeIndex(static_cast<int64_t>(b), batch_dims, {batch_index.data(), batch_index.size()});
      for (std::size_t d = 0; d < batch_index.size(); ++d) {
        KRAFLA_ASSIGN(lhs_part, SlicePart(context, *x, a.lhs_batch[d], batch_index[d], batch_index[d] + 1));
        KRAFLA_ASSIGN(rhs_part, SlicePart(context, *y, a.rhs_batch[d], batch_index[d], batch_index[d] + 1));
        x = &lhs_part;
        y = &rhs_part;
      }
    }
    int64_t begin = 0;
    for (int64_t g = 0; g < groups; ++g) {
      KRAFLA_TRY(CheckInterrupted());
      const int64_t size = std::clamp<int64_t>(IntegerAt(sizes, (per_batch ? static_cast<int64_t>(b) * groups : 0) + g),
                                               0, lhs.shape().dim(ragged) - begin);
      const int64_t end = begin + size;
      KRAFLA_ASSIGN(Literal rows, SlicePart(context, *x, ragged, begin, end));
      View to = DenseView(out.shape());
      if (per_batch)
        for (std::size_t d = 0; d < batch_index.size(); ++d)
          to.offset += batch_index[d] * to.strides[d + (contracting ? 1 : 0)];
      if (contracting) {
        // The matching dimension of rhs is cut too; results stack along a new first dimension.
        const auto at = static_cast<std::size_t>(std::find(a.lhs_contracting.begin(), a.lhs_contracting.end(), ragged) -
                                                 a.lhs_contracting.begin());
        KRAFLA_ASSIGN(Literal columns, SlicePart(context, *y, a.rhs_contracting[at], begin, end));
        KRAFLA_ASSIGN(Literal part, DotOf(context, rows, columns, a, type));
        to.offset += g * to.strides[0];
        to.strides.erase(to.strides.begin());
        CopyView(part.shape().dims(), bytes, part.bytes().data(), DenseView(part.shape()), out.bytes().data(), to);
      } else {
        if (r.rhs_group_dims.size() != 1) return InvalidArgument("A ragged-dot over rows has one group dimension.");
        KRAFLA_ASSIGN(Literal matrix, SlicePart(context, *y, r.rhs_group_dims[0], g, g + 1));
        // The group dimension, of extent 1 now, joins the contraction with nothing on the other side: drop it.
        Dims dims = matrix.shape().dims();
        dims.erase(dims.begin() + r.rhs_group_dims[0]);
        KRAFLA_ASSIGN(Shape flat, Shape::MakeArray(matrix.shape().element_type(), dims));
        KRAFLA_ASSIGN(matrix, std::move(matrix).Reshaped(flat));
        DotAttributes inner = a;
        for (int64_t& d : inner.rhs_contracting) d -= d > r.rhs_group_dims[0] ? 1 : 0;
        for (int64_t& d : inner.rhs_batch) d -= d > r.rhs_group_dims[0] ? 1 : 0;
        KRAFLA_ASSIGN(Literal part, DotOf(context, rows, matrix, inner, type));
        int64_t position = a.lhs_batch.ssize();
        for (int64_t d : FreeDims(lhs.shape().rank(), a.lhs_contracting, a.lhs_batch)) {
          if (d == ragged) break;
          ++position;
        }
        to.offset += begin * to.strides[At(position)];
        CopyView(part.shape().dims(), bytes, part.bytes().data(), DenseView(part.shape()), out.bytes().data(), to);
      }
      begin = end;
    }
  }
  return Value::Own(std::move(out));
}

}  // namespace krafla::evaluator
