// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "base/host_memory.h"
#include "base/index.h"
#include "base/interruption.h"
#include "evaluator/block_op.h"
#include "evaluator/context.h"
#include "evaluator/odometer.h"
#include "evaluator/scalar_program.h"
#include "evaluator/strided.h"

namespace krafla::evaluator {

namespace {

// A stable merge sort of `order` that stays inside its array whatever `before` answers: the comparator comes from the
// module and need not be an order. `before` reports errors through `failed`.
// A run that is to end leaves `order` half sorted.
template <class Before>
void MergeSort(HostVector<int64_t>& order, HostVector<int64_t>& spare, const Before& before) {
  const int64_t n = static_cast<int64_t>(order.size());
  constexpr int64_t kRun = 8;
  InterruptionPoll poll;
  for (int64_t lo = 0; lo < n && !poll.Ends(kRun * kRun); lo += kRun) {
    const int64_t hi = std::min(n, lo + kRun);
    for (int64_t k = lo + 1; k < hi; ++k) {
      const int64_t v = order[At(k)];
      int64_t j = k;
      while (j > lo && before(v, order[At(j - 1)])) {
        order[At(j)] = order[At(j - 1)];
        --j;
      }
      order[At(j)] = v;
    }
  }
  spare.resize(order.size());
  for (int64_t width = kRun; width < n; width *= 2) {
    for (int64_t lo = 0; lo < n; lo += 2 * width) {
      const int64_t mid = std::min(n, lo + width), hi = std::min(n, lo + 2 * width);
      int64_t a = lo, b = mid, to = lo;
      // Before the lists are exchanged: the order stays a permutation.
      if (poll.Ends(kRun)) return;
      while (a < mid && b < hi) {
        if (poll.Ends()) return;
        spare[At(to++)] = before(order[At(b)], order[At(a)]) ? order[At(b++)] : order[At(a++)];
      }
      while (a < mid) spare[At(to++)] = order[At(a++)];
      while (b < hi) spare[At(to++)] = order[At(b++)];
    }
    order.swap(spare);
  }
}

}  // namespace

Result<Value> EvalSort(Context& context, const Instruction& i, Operands operands) {
  const int64_t dimension = i.attr<SortAttributes>().dimension;
  const Computation& computation = *i.called(0);
  const Shape& shape = operands[0].shape();
  const std::size_t n = operands.size();
  ScalarFunction f(context, computation);
  // A line may be long where there is none.
  const int64_t length = shape.element_count() == 0 ? 0 : shape.rank() == 0 ? 1 : shape.dim(dimension);
  const int64_t levels = 1 + static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(length)));
  KRAFLA_TRY(context.SpendProduct(shape.element_count(), levels * f.cost()));
  std::vector<Literal> outs;
  for (Value& v : operands) {
    if (!Shape::SameDims(v.shape(), shape))
      return InvalidArgument("{} cannot be sorted along with {}.", v.shape().ToString(false), shape.ToString(false));
    KRAFLA_ASSIGN(Literal out, NewLiteral(context, v.shape()));
    outs.push_back(std::move(out));
  }
  if (f.parameter_count() != 2 * n)
    return InvalidArgument("A sort of {} arrays cannot have a comparator of {} parameters.", n, f.parameter_count());
  const Dims strides = RowMajorStrides(shape.dims());
  const int64_t stride = shape.rank() == 0 ? 1 : strides[At(dimension)];
  Dims outer = shape.dims(), outer_strides = strides;
  if (shape.rank() > 0) {
    outer.erase(outer.begin() + dimension);
    outer_strides.erase(outer_strides.begin() + dimension);
  }
  // Lines lie together while they are sorted.
  std::vector<AlignedBytes> lines;
  for (std::size_t o = 0; o < n; ++o) lines.emplace_back(At(length * f.parameter_bytes(2 * o)), false);
  HostVector<int64_t> order(At(length)), spare;
  std::vector<const void*> in(2 * n);
  uint8_t answer = 0;
  void* answers[] = {&answer};
  Status error(StatusCode::kInternal, "");
  bool failed = false;
  Odometer<> line(outer, {outer_strides});
  for (int64_t l = 0; l < line.count() && length > 0; ++l, line.Next()) {
    for (std::size_t o = 0; o < n; ++o) {
      const int bytes = static_cast<int>(f.parameter_bytes(2 * o));
      CopyView(Dims{length}, bytes, operands[o].array().bytes().data(), {line.offset(), Dims{stride}}, lines[o].data(),
               {0, Dims{1}});
    }
    std::iota(order.begin(), order.end(), 0);
    MergeSort(order, spare, [&](int64_t a, int64_t b) {
      if (failed) return false;
      for (std::size_t o = 0; o < n; ++o) {
        const int64_t bytes = f.parameter_bytes(2 * o);
        in[2 * o] = lines[o].data() + a * bytes;
        in[2 * o + 1] = lines[o].data() + b * bytes;
      }
      if (ScalarProgram* program = f.program()) {
        program->Run(in.data(), 1);
        return *static_cast<const uint8_t*>(program->output(0)) != 0;
      }
      if (Result<> run = f.Run(in, answers, 1); !run) {
        failed = true;
        error = std::move(run).error();
      }
      return answer != 0;
    });
    if (failed) return Failure(std::move(error));
    KRAFLA_TRY(CheckInterrupted());
    for (std::size_t o = 0; o < n; ++o) {
      const int64_t bytes = f.parameter_bytes(2 * o);
      std::byte* to = outs[o].bytes().data() + line.offset() * bytes;
      for (int64_t k = 0; k < length; ++k)
        std::memcpy(to + k * stride * bytes, lines[o].data() + order[At(k)] * bytes, At(bytes));
    }
  }
  if (n == 1 && !i.shape().IsTuple()) return Value::Own(std::move(outs[0]));
  std::vector<Value> elements;
  for (Literal& out : outs) elements.push_back(Value::Own(std::move(out)));
  return Value::Tuple(std::move(elements));
}

// Sorted, ties by the lower index. Floats are in total order, as XLA's TopK compares them.
Result<Value> TopK(Context& context, const Literal& operand, int64_t k, bool largest) {
  const Shape& shape = operand.shape();
  const ElementType type = shape.element_type();
  if (shape.rank() == 0) return InvalidArgument("A topk takes an array of at least one dimension.");
  const int64_t length = shape.dim(shape.rank() - 1);
  if (k < 0 || k > length)
    return InvalidArgument("The k of a topk of {} is {}, which is out of range.", shape.ToString(false), k);
  Dims dims = shape.dims();
  dims.back() = k;
  KRAFLA_ASSIGN(Shape values_shape, Shape::MakeArray(type, dims));
  KRAFLA_ASSIGN(Shape indices_shape, Shape::MakeArray(ElementType::kS32, dims));
  KRAFLA_ASSIGN(Literal values, NewLiteral(context, values_shape));
  KRAFLA_ASSIGN(Literal indices, NewLiteral(context, indices_shape));
  KRAFLA_TRY(context.SpendProduct(shape.element_count(), 32));
  BlockOp compare;
  if (IsFloat(type)) {
    compare.run = FindTotalOrderKernel(type);
    compare.arity = 2;
    compare.params.from = type;
  } else {
    KRAFLA_ASSIGN(compare, MakeBlockOp(Opcode::kCompare, type, ElementType::kPred));
  }
  compare.params.direction = largest ? ComparisonDirection::kGt : ComparisonDirection::kLt;
  const int64_t bytes = StorageBytes(type);
  const int64_t lines = length == 0 ? 0 : shape.element_count() / length;
  HostVector<int64_t> order(lines == 0 ? 0 : At(length)), spare;
  for (int64_t l = 0; l < lines; ++l) {
    KRAFLA_TRY(CheckInterrupted());
    const std::byte* x = operand.bytes().data() + l * length * bytes;
    std::iota(order.begin(), order.end(), 0);
    MergeSort(order, spare, [&](int64_t a, int64_t b) {
      const void* in[] = {x + a * bytes, x + b * bytes};
      uint8_t before = 0;
      compare.Run(in, &before, 1);
      return before != 0;
    });
    for (int64_t j = 0; j < k; ++j) {
      std::memcpy(values.bytes().data() + (l * k + j) * bytes, x + order[At(j)] * bytes, At(bytes));
      indices.data<int32_t>()[At(l * k + j)] = static_cast<int32_t>(order[At(j)]);
    }
  }
  std::vector<Value> elements;
  elements.push_back(Value::Own(std::move(values)));
  elements.push_back(Value::Own(std::move(indices)));
  return Value::Tuple(std::move(elements));
}

Result<Value> EvalTopK(Context& context, const Instruction& i, Operands operands) {
  const auto& a = i.attr<TopKAttributes>();
  return TopK(context, operands[0].array(), a.k, a.largest);
}

}  // namespace krafla::evaluator
