// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "base/index.h"
#include "base/interruption.h"
#include "evaluator/context.h"
#include "evaluator/fold.h"
#include "evaluator/odometer.h"
#include "evaluator/scalar_program.h"
#include "evaluator/strided.h"

namespace krafla::evaluator {

namespace {

// The dimensions of a reduce in two groups, with the operand's strides of each.
struct Split {
  Dims kept, kept_strides, reduced, reduced_strides;
  bool inner_reduced = false;  // the innermost dimension is reduced
};

Split SplitDims(const Shape& shape, std::span<const int64_t> dimensions) {
  Split out;
  const Dims strides = RowMajorStrides(shape.dims());
  int last = 0;  // 1 kept, 2 reduced: neighbours of one group become one dimension
  for (int64_t d = 0; d < shape.rank(); ++d) {
    const bool reduced = std::find(dimensions.begin(), dimensions.end(), d) != dimensions.end();
    Dims& dims = reduced ? out.reduced : out.kept;
    Dims& to = reduced ? out.reduced_strides : out.kept_strides;
    const int group = reduced ? 2 : 1;
    if (group == last) {
      dims.back() *= shape.dim(d);
      to.back() = strides[At(d)];
    } else {
      dims.push_back(shape.dim(d));
      to.push_back(strides[At(d)]);
    }
    last = group;
  }
  out.inner_reduced = last == 2;
  return out;
}

void Widen(const std::byte* from, ElementType type, std::byte* to, ElementType wide, int64_t n) {
  const void* in[] = {from};
  BlockParams params;
  params.from = type;
  params.to = wide;
  ConvertBlock(in, to, n, params);
}

constexpr int64_t kReduceBlock = 256;

void FoldReduce(const Folder& fold, const Split& split, const Literal& in, const Literal& init, Literal& out) {
  const ElementType type = in.shape().element_type();
  const int64_t bytes = StorageBytes(type), wide_bytes = fold.wide_bytes;
  const std::byte* x = in.bytes().data();
  std::byte* y = out.bytes().data();
  alignas(16) std::byte first[16], acc[kReduceBlock * 16], block[kReduceBlock * 16];
  Widen(init.bytes().data(), type, first, fold.wide, 1);
  InterruptionPoll poll;
  if (split.inner_reduced) {
    // One result after the other, each over rows that lie together.
    const int64_t row = split.reduced.back();
    Dims outer(split.reduced.begin(), split.reduced.end() - 1);
    Dims outer_strides(split.reduced_strides.begin(), split.reduced_strides.end() - 1);
    Odometer<> kept(split.kept, {split.kept_strides});
    for (int64_t k = 0; k < kept.count() && !poll.Ends(); ++k, kept.Next()) {
      std::memcpy(acc, first, At(wide_bytes));
      Odometer<> reduced(outer, {outer_strides});
      for (int64_t r = 0; r < reduced.count(); ++r, reduced.Next()) {
        const std::byte* from = x + (kept.offset() + reduced.offset()) * bytes;
        for (int64_t at = 0; at < row; at += kReduceBlock) {
          const int64_t count = std::min(kReduceBlock, row - at);
          if (poll.Ends(count)) return;
          Widen(from + at * bytes, type, block, fold.wide, count);
          fold.row(acc, block, count);
        }
      }
      SettleNans(fold.wide, acc, 1);
      Widen(acc, fold.wide, y + k * bytes, type, 1);
    }
    return;
  }
  // Blocks of results that lie together, each operand row added to the block.
  const int64_t row = split.kept.empty() ? 1 : split.kept.back();
  Dims outer = split.kept, outer_strides = split.kept_strides;
  if (!outer.empty()) {
    outer.pop_back();
    outer_strides.pop_back();
  }
  Odometer<> kept(outer, {outer_strides});
  for (int64_t k = 0; k < kept.count(); ++k, kept.Next()) {
    for (int64_t at = 0; at < row; at += kReduceBlock) {
      const int64_t count = std::min(kReduceBlock, row - at);
      if (poll.Ends(count)) return;
      FillElements(acc, count, static_cast<int>(wide_bytes), first);
      Odometer<> reduced(split.reduced, {split.reduced_strides});
      for (int64_t r = 0; r < reduced.count(); ++r, reduced.Next()) {
        if (poll.Ends(count)) return;
        Widen(x + (kept.offset() + reduced.offset() + at) * bytes, type, block, fold.wide, count);
        fold.each(acc, block, count);
      }
      SettleNans(fold.wide, acc, count);
      Widen(acc, fold.wide, y + (k * row + at) * bytes, type, count);
    }
  }
}

// Any computation, in the order of the index space, up to kReduceBlock results at a time.
Result<> GeneralReduce(ScalarFunction& f, const Split& split, Operands operands, std::vector<Literal>& outs) {
  const std::size_t n = outs.size();
  std::vector<AlignedBytes> acc, gathered;
  for (std::size_t o = 0; o < n; ++o) {
    acc.emplace_back(At(f.parameter_bytes(o) * kReduceBlock), false);
    gathered.emplace_back(At(f.parameter_bytes(o) * kReduceBlock), false);
  }
  Odometer<> kept(split.kept, {split.kept_strides});
  const int64_t results = kept.count();
  std::vector<int64_t> base(At(kReduceBlock));
  std::vector<const void*> in(2 * n);
  std::vector<void*> out(n);
  for (std::size_t o = 0; o < n; ++o) in[o] = out[o] = acc[o].data();
  InterruptionPoll poll;
  for (int64_t at = 0; at < results; at += kReduceBlock) {
    const int64_t count = std::min(kReduceBlock, results - at);
    if (poll.Ends(count)) return {};
    bool together = true;
    for (int64_t k = 0; k < count; ++k, kept.Next()) {
      base[At(k)] = kept.offset();
      together = together && base[At(k)] == base[0] + k;
    }
    for (std::size_t o = 0; o < n; ++o)
      FillElements(acc[o].data(), count, static_cast<int>(f.parameter_bytes(o)),
                   operands[n + o].array().bytes().data());
    Odometer<> reduced(split.reduced, {split.reduced_strides});
    for (int64_t r = 0; r < reduced.count(); ++r, reduced.Next()) {
      for (std::size_t o = 0; o < n; ++o) {
        const int64_t bytes = f.parameter_bytes(o);
        const std::byte* x = operands[o].array().bytes().data() + reduced.offset() * bytes;
        if (together) {
          in[n + o] = x + base[0] * bytes;
          continue;
        }
        for (int64_t k = 0; k < count; ++k)
          std::memcpy(gathered[o].data() + k * bytes, x + base[At(k)] * bytes, At(bytes));
        in[n + o] = gathered[o].data();
      }
      KRAFLA_TRY(f.Run(in, out, count));
    }
    for (std::size_t o = 0; o < n; ++o)
      std::memcpy(outs[o].bytes().data() + at * f.parameter_bytes(o), acc[o].data(), At(count * f.parameter_bytes(o)));
  }
  return {};
}

Result<std::vector<Literal>> NewResults(Context& context, const Instruction& i, Operands operands) {
  KRAFLA_ASSIGN(Shape shape, ResultShape(i, operands));
  std::vector<Literal> outs;
  if (!shape.IsTuple()) {
    KRAFLA_ASSIGN(Literal out, NewLiteral(context, shape));
    outs.push_back(std::move(out));
    return outs;
  }
  for (const Shape& e : shape.tuple_elements()) {
    KRAFLA_ASSIGN(Literal out, NewLiteral(context, e));
    outs.push_back(std::move(out));
  }
  return outs;
}

}  // namespace

Result<Value> EvalReduce(Context& context, const Instruction& i, Operands operands) {
  KRAFLA_ASSIGN(std::vector<Literal> outs, NewResults(context, i, operands));
  const Computation& computation = *i.called(0);
  const Shape& shape = operands[0].shape();
  const Split split = SplitDims(shape, i.attr<DimensionsAttributes>().dimensions);
  std::optional<Opcode> simple = AsSimpleBinary(computation);
  std::optional<Folder> fold = simple && outs.size() == 1 ? FindFolder(*simple, shape.element_type()) : std::nullopt;
  if (fold && outs[0].shape().element_type() == shape.element_type()) {
    KRAFLA_TRY(context.Spend(shape.element_count()));
    if (outs[0].shape().element_count() > 0)
      FoldReduce(*fold, split, operands[0].array(), operands[1].array(), outs[0]);
  } else {
    ScalarFunction f(context, computation);
    KRAFLA_TRY(context.SpendProduct(shape.element_count(), f.cost()));
    if (operands.size() != 2 * outs.size() || f.parameter_count() != operands.size())
      return InvalidArgument("A reduce of {} arrays cannot have {} results.", operands.size() / 2, outs.size());
    KRAFLA_TRY(GeneralReduce(f, split, operands, outs));
  }
  if (!i.shape().IsTuple()) return Value::Own(std::move(outs[0]));
  std::vector<Value> elements;
  for (Literal& out : outs) elements.push_back(Value::Own(std::move(out)));
  return Value::Tuple(std::move(elements));
}

// to_apply(x..., carry...) -> (y..., carry...): x and y are slices along the dimension, in order or backwards.
namespace {

// A scan's result at run time: as long as the arrays that it walks along, and across no larger than any of them.
Result<Shape> StackedShape(const Shape& declared, int64_t dimension, std::span<const Value> arrays) {
  Dims dims = declared.dims();
  for (const Value& x : arrays) {
    if (declared.IsDynamicDim(dimension)) dims[At(dimension)] = x.shape().dim(dimension);
    if (x.shape().rank() != declared.rank()) continue;
    for (int64_t d = 0; d < declared.rank(); ++d)
      if (declared.IsDynamicDim(d)) dims[At(d)] = std::min(dims[At(d)], x.shape().dim(d));
  }
  return Shape::MakeArray(declared.element_type(), dims);
}

}  // namespace

Result<Value> EvalScan(Context& context, const Instruction& i, Operands operands) {
  const auto& a = i.attr<ScanAttributes>();
  const Computation& computation = *i.called(0);
  const std::size_t carries = At(a.num_carries);
  if (carries > operands.size())
    return InvalidArgument("A scan of {} operands cannot have {} carries.", operands.size(), carries);
  const std::size_t inputs = operands.size() - carries;
  std::vector<Value> state(operands.begin() + static_cast<std::ptrdiff_t>(inputs), operands.end());
  int64_t length = 0;
  for (std::size_t o = 0; o < inputs; ++o) {
    const int64_t extent = operands[o].shape().dim(a.dimension);
    if (o > 0 && extent != length)
      return InvalidArgument("A scan cannot run over both {} and {} elements.", length, extent);
    length = extent;
  }
  const std::vector<Shape> shapes = i.shape().IsTuple() ? i.shape().tuple_elements() : std::vector<Shape>{i.shape()};
  if (shapes.size() < carries)
    return InvalidArgument("A scan with {} results cannot have {} carries.", shapes.size(), carries);
  std::vector<Literal> stacked;
  for (std::size_t r = 0; r + carries < shapes.size(); ++r) {
    KRAFLA_ASSIGN(Shape shape, StackedShape(shapes[r], a.dimension, operands.first(inputs)));
    KRAFLA_ASSIGN(Literal out, NewLiteral(context, shape));
    if (inputs == 0) length = out.shape().dim(a.dimension);
    if (out.shape().dim(a.dimension) != length)
      return InvalidArgument("A scan over {} elements cannot return {}.", length, out.shape().ToString(false));
    stacked.push_back(std::move(out));
  }
  auto slice_view = [&](const Shape& whole, int64_t step, Dims& dims) {
    View view = DenseView(whole);
    view.offset = step * view.strides[At(a.dimension)];
    view.strides.erase(view.strides.begin() + a.dimension);
    dims = whole.dims();
    dims.erase(dims.begin() + a.dimension);
    return view;
  };
  for (int64_t n = 0; n < length; ++n) {
    const int64_t step = a.is_reverse ? length - 1 - n : n;
    std::vector<Value> arguments;
    for (std::size_t o = 0; o < inputs; ++o) {
      const Literal& whole = operands[o].array();
      Dims dims;
      View view = slice_view(whole.shape(), step, dims);
      KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(whole.shape().element_type(), dims));
      KRAFLA_ASSIGN(Literal slice, NewLiteral(context, shape));
      CopyView(dims, StorageBytes(shape.element_type()), whole.bytes().data(), view, slice.bytes().data(),
               DenseView(shape));
      arguments.push_back(Value::Own(std::move(slice)));
    }
    for (Value& s : state) arguments.push_back(std::move(s));
    KRAFLA_ASSIGN(Value result, RunComputation(context, computation, std::move(arguments)));
    std::vector<Value> leaves;
    if (result.is_tuple()) leaves = std::move(result.elements());
    else leaves.push_back(std::move(result));
    if (leaves.size() != shapes.size())
      return InvalidArgument("The computation of a scan has {} results, not {}.", leaves.size(), shapes.size());
    for (std::size_t r = 0; r < stacked.size(); ++r) {
      Dims dims;
      View view = slice_view(stacked[r].shape(), step, dims);
      if (leaves[r].shape().dims() != dims)
        return InvalidArgument("The computation of a scan returns {} for a slice of {}.",
                               leaves[r].shape().ToString(false), stacked[r].shape().ToString(false));
      CopyView(dims, StorageBytes(stacked[r].shape().element_type()), leaves[r].array().bytes().data(),
               DenseView(leaves[r].shape()), stacked[r].bytes().data(), view);
    }
    for (std::size_t c = 0; c < carries; ++c) state[c] = std::move(leaves[stacked.size() + c]);
  }
  std::vector<Value> results;
  for (Literal& out : stacked) results.push_back(Value::Own(std::move(out)));
  for (Value& s : state) results.push_back(std::move(s));
  if (!i.shape().IsTuple()) return std::move(results[0]);
  return Value::Tuple(std::move(results));
}

}  // namespace krafla::evaluator
