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

// A ragged-dot whose ragged dimension is not a batch dimension, group by group.
class RaggedDot {
 public:
  RaggedDot(Context& context, const RaggedDotAttributes& r, const Literal& lhs, const Literal& rhs, Literal& out)
      : context_(context),
        r_(r),
        a_(r.dot),
        lhs_(lhs),
        rhs_(rhs),
        out_(out),
        ragged_(r.lhs_ragged_dims[0]),
        contracting_(Contains(a_.lhs_contracting, ragged_)),
        batch_index_(a_.lhs_batch.size(), 0) {}

  Result<> Run(const Literal& sizes) {
    const int64_t groups = sizes.shape().rank() == 0 ? 0 : sizes.shape().dim(sizes.shape().rank() - 1);
    // Batches that have sizes of their own are done one at a time.
    per_batch_ = sizes.shape().rank() > 1;
    const int64_t size_rows = groups == 0 ? 0 : sizes.shape().element_count() / groups;
    const HostVector<int64_t> batches = per_batch_ ? OffsetsOf(lhs_.shape(), a_.lhs_batch) : HostVector<int64_t>{0};
    if (per_batch_ && size_rows != static_cast<int64_t>(batches.size()))
      return InvalidArgument("Group sizes {} do not fit the batches of {}.", sizes.shape().ToString(false),
                             lhs_.shape().ToString(false));
    for (std::size_t b = 0; b < batches.size(); ++b) {
      KRAFLA_TRY(TakeBatch(static_cast<int64_t>(b)));
      int64_t begin = 0;
      for (int64_t g = 0; g < groups; ++g) {
        KRAFLA_TRY(CheckInterrupted());
        const int64_t size =
            std::clamp<int64_t>(IntegerAt(sizes, (per_batch_ ? static_cast<int64_t>(b) * groups : 0) + g), 0,
                                lhs_.shape().dim(ragged_) - begin);
        KRAFLA_ASSIGN(Literal rows, SlicePart(context_, *x_, ragged_, begin, begin + size));
        if (contracting_) KRAFLA_TRY(SumOverGroup(rows, g, begin, begin + size));
        else KRAFLA_TRY(RowsOfGroup(rows, g, begin));
        begin += size;
      }
    }
    return {};
  }

 private:
  // The operands of a batch: all of them, or each batch dimension cut to one index.
  Result<> TakeBatch(int64_t batch) {
    x_ = &lhs_;
    y_ = &rhs_;
    if (!per_batch_) return {};
    Dims dims;
    for (int64_t d : a_.lhs_batch) dims.push_back(lhs_.shape().dim(d));
    DelinearizeIndex(batch, dims, {batch_index_.data(), batch_index_.size()});
    for (std::size_t d = 0; d < batch_index_.size(); ++d) {
      KRAFLA_ASSIGN(lhs_part_, SlicePart(context_, *x_, a_.lhs_batch[d], batch_index_[d], batch_index_[d] + 1));
      KRAFLA_ASSIGN(rhs_part_, SlicePart(context_, *y_, a_.rhs_batch[d], batch_index_[d], batch_index_[d] + 1));
      x_ = &lhs_part_;
      y_ = &rhs_part_;
    }
    return {};
  }

  // Where the results of this batch begin.
  View Results() const {
    View to = DenseView(out_.shape());
    if (per_batch_)
      for (std::size_t d = 0; d < batch_index_.size(); ++d)
        to.offset += batch_index_[d] * to.strides[d + (contracting_ ? 1 : 0)];
    return to;
  }

  void Store(const Literal& part, const View& to) {
    CopyView(part.shape().dims(), StorageBytes(out_.shape().element_type()), part.bytes().data(),
             DenseView(part.shape()), out_.bytes().data(), to);
  }

  // The matching dimension of rhs is cut too; results stack along a new first dimension.
  Result<> SumOverGroup(const Literal& rows, int64_t group, int64_t begin, int64_t end) {
    const auto at = static_cast<std::size_t>(std::find(a_.lhs_contracting.begin(), a_.lhs_contracting.end(), ragged_) -
                                             a_.lhs_contracting.begin());
    KRAFLA_ASSIGN(Literal columns, SlicePart(context_, *y_, a_.rhs_contracting[at], begin, end));
    KRAFLA_ASSIGN(Literal part, DotOf(context_, rows, columns, a_, out_.shape().element_type()));
    View to = Results();
    to.offset += group * to.strides[0];
    to.strides.erase(to.strides.begin());
    Store(part, to);
    return {};
  }

  Result<> RowsOfGroup(const Literal& rows, int64_t group, int64_t begin) {
    if (r_.rhs_group_dims.size() != 1) return InvalidArgument("A ragged-dot over rows has one group dimension.");
    const int64_t group_dim = r_.rhs_group_dims[0];
    KRAFLA_ASSIGN(Literal matrix, SlicePart(context_, *y_, group_dim, group, group + 1));
    // The group dimension, of extent 1 now, joins the contraction with nothing on the other side: drop it.
    Dims dims = matrix.shape().dims();
    dims.erase(dims.begin() + group_dim);
    KRAFLA_ASSIGN(Shape flat, Shape::MakeArray(matrix.shape().element_type(), dims));
    KRAFLA_ASSIGN(matrix, std::move(matrix).Reshaped(flat));
    DotAttributes inner = a_;
    for (int64_t& d : inner.rhs_contracting) d -= d > group_dim ? 1 : 0;
    for (int64_t& d : inner.rhs_batch) d -= d > group_dim ? 1 : 0;
    KRAFLA_ASSIGN(Literal part, DotOf(context_, rows, matrix, inner, out_.shape().element_type()));
    int64_t position = a_.lhs_batch.ssize();
    for (int64_t d : FreeDims(lhs_.shape().rank(), a_.lhs_contracting, a_.lhs_batch)) {
      if (d == ragged_) break;
      ++position;
    }
    View to = Results();
    to.offset += begin * to.strides[At(position)];
    Store(part, to);
    return {};
  }

  Context& context_;
  const RaggedDotAttributes& r_;
  const DotAttributes& a_;
  const Literal &lhs_, &rhs_;
  Literal& out_;
  const int64_t ragged_;
  const bool contracting_;
  bool per_batch_ = false;
  Dims batch_index_;
  const Literal *x_ = nullptr, *y_ = nullptr;
  Literal lhs_part_, rhs_part_;
};

}  // namespace

// The ragged dimension of lhs falls into groups whose sizes the third operand gives (XLA: ragged_dot_rewriter.cc):
// a free dimension: rows of group g meet rhs[g]; a contracting one: result[g] sums over group g only; a batch one: an
// ordinary dot. Group sizes with leading dimensions give one row of sizes for each batch.
Result<Value> EvalRaggedDot(Context& context, const Instruction& i, Operands operands) {
  const auto& r = i.attr<RaggedDotAttributes>();
  const Literal &lhs = operands[0].array(), &rhs = operands[1].array();
  KRAFLA_ASSIGN(Literal out, NewResult(context, i, operands));
  if (r.lhs_ragged_dims.size() != 1) return InvalidArgument("A ragged-dot has one ragged dimension.");
  if (Contains(r.dot.lhs_batch, r.lhs_ragged_dims[0])) {
    KRAFLA_TRY(RunDot(context, lhs, rhs, r.dot, out));
    return Value::Own(std::move(out));
  }
  FillZeros(out.bytes());
  RaggedDot ragged(context, r, lhs, rhs, out);
  KRAFLA_TRY(ragged.Run(operands[2].array()));
  return Value::Own(std::move(out));
}

}  // namespace krafla::evaluator
