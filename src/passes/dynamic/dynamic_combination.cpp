// SPDX-License-Identifier: Apache-2.0
// Operations that combine the elements along a dimension, on values of bounded dynamic shape: what does not count is
// replaced by something that changes nothing.
#include <algorithm>
#include <limits>

#include "base/index.h"
#include "passes/dynamic/dynamic_values.h"
#include "passes/expand/expansions.h"
#include "passes/lift.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

// What stands in for an element of operand `n` of a reduction that does not count: the identity of the combiner, or
// the initial value, which XLA wants to be one.
Instruction* Neutral(DynamicOp& op, std::size_t n, std::size_t arrays) {
  if (arrays == 1)
    if (auto identity = IdentityOf(*op.instruction().called(0), op.value(0)->shape().element_type()))
      return op.rewrite().Constant(std::move(*identity));
  return op.value(arrays + n);
}

Lowered Reduce(DynamicOp& op) {
  const std::size_t arrays = op.operand_count() / 2;
  const Dims& along = op.attr<DimensionsAttributes>().dimensions;
  const int64_t rank = op.value(0)->shape().rank();
  DimensionSizes all(At(rank), nullptr), sizes;
  for (std::size_t n = 0; n < arrays; ++n)
    for (int64_t d = 0; d < rank; ++d) all[At(d)] = op.Merge(all[At(d)], op.operand(n).size(d));
  DimensionSizes reduced(At(rank), nullptr);
  for (int64_t d = 0; d < rank; ++d) {
    if (std::ranges::find(along, d) != along.end()) reduced[At(d)] = all[At(d)];
    else sizes.push_back(all[At(d)]);
  }
  std::vector<Instruction*> values = op.Values();
  for (std::size_t n = 0; n < arrays; ++n) values[n] = op.Masked(values[n], reduced, Neutral(op, n, arrays));
  return op.SameOn(std::move(values), std::move(sizes));
}

// How many windows fit into `n` elements.
Instruction* WindowCount(DynamicOp& op, Instruction* n, const WindowDim& w) {
  Instruction* span = n;
  if (w.base_dilation != 1) {
    span = op.Add(op.Scalar(Opcode::kMultiply, op.Add(n, -1), op.Number(w.base_dilation)), 1);
    span = op.Scalar(Opcode::kMaximum, span, op.Number(0));
  }
  const int64_t window = (w.size - 1) * w.window_dilation + 1;
  span = op.Add(span, w.padding_low + w.padding_high - window + w.stride);
  span = op.Scalar(Opcode::kMaximum, span, op.Number(0));
  return w.stride == 1 ? span : op.Scalar(Opcode::kDivide, span, op.Number(w.stride));
}

bool FitsScalars(int64_t bound, const WindowDim& w) {
  for (int64_t v : {bound, w.size, w.stride, w.padding_low, w.padding_high, w.window_dilation, w.base_dilation})
    if (v < -kLargest || v > kLargest) return false;
  return w.size * w.window_dilation <= kLargest && bound * w.base_dilation <= kLargest;
}

bool IsTrivial(const WindowDim& w) {
  return w.size == 1 && w.stride == 1 && w.padding_low == 0 && w.padding_high == 0 && w.base_dilation == 1;
}

Lowered ReduceWindow(DynamicOp& op) {
  const std::size_t arrays = op.operand_count() / 2;
  const Window& window = op.attr<WindowAttributes>().window;
  const int64_t rank = op.value(0)->shape().rank();
  DimensionSizes sizes(At(rank), nullptr), masked(At(rank), nullptr);
  for (int64_t d = 0; d < rank; ++d) {
    Instruction* n = nullptr;
    for (std::size_t a = 0; a < arrays; ++a) n = op.Merge(n, op.operand(a).size(d));
    if (n == nullptr) continue;
    const WindowDim& w = window[At(d)];
    if (!FitsScalars(op.value(0)->shape().dim(d), w)) return std::nullopt;
    const bool trivial = IsTrivial(w);
    masked[At(d)] = trivial ? nullptr : n;
    sizes[At(d)] = trivial ? n : WindowCount(op, n, w);
  }
  std::vector<Instruction*> values = op.Values();
  for (std::size_t n = 0; n < arrays; ++n) values[n] = op.Masked(values[n], masked, Neutral(op, n, arrays));
  return op.SameOn(std::move(values), std::move(sizes));
}

// Elements that do not count are not selected, and windows that are not there update nothing.
Lowered SelectAndScatter(DynamicOp& op) {
  const BoundedValue &x = op.operand(0), &source = op.operand(1);
  const Window& window = op.attr<WindowAttributes>().window;
  DimensionSizes windows(At(op.shape().rank()), nullptr);
  for (int64_t d = 0; d < op.shape().rank(); ++d) {
    const WindowDim& w = window[At(d)];
    if (x.IsSized(d) && !FitsScalars(x.value->shape().dim(d), w)) return std::nullopt;
    if (x.IsSized(d)) windows[At(d)] = IsTrivial(w) ? x.size(d) : WindowCount(op, x.size(d), w);
    windows[At(d)] = op.Merge(windows[At(d)], source.size(d));
  }
  Instruction* whole = op.Same({}).value;
  Instruction* counts = op.Mask(x.value->shape().dims(), x.leaves[0]);
  KRAFLA_ASSIGN(Instruction * made,
                ExpandSelectAndScatter(whole, counts, op.Mask(source.value->shape().dims(), windows)));
  if (made == nullptr) return std::nullopt;
  return op.Array(made, x.leaves[0]);
}

Lowered Dot(DynamicOp& op) {
  const auto& a = op.attr<DotAttributes>();
  const BoundedValue &lhs = op.operand(0), &rhs = op.operand(1);
  DimensionSizes lhs_masked = op.SizesIn(lhs, {}), rhs_masked = op.SizesIn(rhs, {}), sizes;
  for (std::size_t c = 0; c < a.lhs_contracting.size(); ++c) {
    Instruction* n = op.Merge(lhs.size(a.lhs_contracting[c]), rhs.size(a.rhs_contracting[c]));
    lhs_masked[At(a.lhs_contracting[c])] = n;
    rhs_masked[At(a.rhs_contracting[c])] = n;
  }
  for (std::size_t b = 0; b < a.lhs_batch.size(); ++b)
    sizes.push_back(op.Merge(lhs.size(a.lhs_batch[b]), rhs.size(a.rhs_batch[b])));
  auto add_free = [&](const BoundedValue& x, const Dims& contracting, const Dims& batch) {
    for (int64_t d = 0; d < x.value->shape().rank(); ++d)
      if (std::ranges::find(contracting, d) == contracting.end() && std::ranges::find(batch, d) == batch.end())
        sizes.push_back(x.size(d));
  };
  add_free(lhs, a.lhs_contracting, a.lhs_batch);
  add_free(rhs, a.rhs_contracting, a.rhs_batch);
  // Both sides: what does not count may be infinite or NaN.
  auto masked = [&](const BoundedValue& x, const DimensionSizes& by) {
    return op.Masked(x.value, by, op.rewrite().Constant(ScalarZero(x.value->shape().element_type())));
  };
  Instruction* left = masked(lhs, lhs_masked);
  Instruction* right = masked(rhs, rhs_masked);
  return op.SameOn({left, right}, std::move(sizes));
}

Lowered Convolution(DynamicOp& op) {
  const auto& a = op.attr<ConvolutionAttributes>();
  const BoundedValue &input = op.operand(0), &kernel = op.operand(1);
  Instruction* batch = input.size(a.input_batch);
  Instruction* in_feature = op.Merge(input.size(a.input_feature), kernel.size(a.kernel_input_feature));
  Instruction* out_feature = kernel.size(a.kernel_output_feature);
  if (batch != nullptr && a.batch_group_count != 1) return std::nullopt;
  if ((in_feature != nullptr || out_feature != nullptr) && (a.feature_group_count != 1 || a.batch_group_count != 1))
    return std::nullopt;
  DimensionSizes sizes(At(op.shape().rank()), nullptr), input_masked = op.SizesIn(input, {}),
                                                        kernel_masked = op.SizesIn(kernel, {});
  sizes[At(a.output_batch)] = batch;
  sizes[At(a.output_feature)] = out_feature;
  input_masked[At(a.input_feature)] = in_feature;
  kernel_masked[At(a.kernel_input_feature)] = in_feature;
  for (std::size_t s = 0; s < a.input_spatial.size(); ++s) {
    if (kernel.IsSized(a.kernel_spatial[s])) return std::nullopt;
    Instruction* n = input.size(a.input_spatial[s]);
    if (n == nullptr) continue;
    if (!FitsScalars(input.value->shape().dim(a.input_spatial[s]), a.window[s])) return std::nullopt;
    input_masked[At(a.input_spatial[s])] = n;
    sizes[At(a.output_spatial[s])] = WindowCount(op, n, a.window[s]);
  }
  auto masked = [&](const BoundedValue& x, const DimensionSizes& by) {
    return op.Masked(x.value, by, op.rewrite().Constant(ScalarZero(x.value->shape().element_type())));
  };
  Instruction* x = masked(input, input_masked);
  Instruction* w = masked(kernel, kernel_masked);
  return op.SameOn({x, w}, std::move(sizes));
}

// Elements that do not count sort behind all others: they carry a pred that the comparator looks at first.
Lowered Sort(DynamicOp& op) {
  const int64_t along = op.attr<SortAttributes>().dimension, rank = op.value(0)->shape().rank();
  DimensionSizes sizes(At(rank), nullptr), sorted(At(rank), nullptr);
  for (std::size_t n = 0; n < op.operand_count(); ++n)
    for (int64_t d = 0; d < rank; ++d) sizes[At(d)] = op.Merge(sizes[At(d)], op.operand(n).size(d));
  sorted[At(along)] = sizes[At(along)];
  if (sorted[At(along)] == nullptr) return op.Same(std::move(sizes));
  Rewriter& rewrite = op.rewrite();
  const std::size_t arrays = op.operand_count();
  std::vector<Instruction*> values = op.Values();
  values.push_back(op.Mask(values[0]->shape().dims(), sorted));

  Computation* comparator = CloneComputation(*op.instruction().called(0));
  const Shape pred = Shape::MakeScalar(ElementType::kPred);
  auto number = static_cast<int64_t>(2 * arrays);
  Instruction* left = comparator->Add(Opcode::kParameter, pred, {}, ParameterAttributes{number, {}}, {}, "left_counts");
  Instruction* right =
      comparator->Add(Opcode::kParameter, pred, {}, ParameterAttributes{number + 1, {}}, {}, "right_counts");
  Instruction* same = comparator->Add(Opcode::kCompare, pred, {left, right}, CompareAttributes{});
  comparator->set_root(comparator->Add(Opcode::kSelect, pred, {same, comparator->root(), left}));

  KRAFLA_ASSIGN(Instruction * made,
                rewrite.Infer(Opcode::kSort, std::move(values), op.attr<SortAttributes>(), {comparator}));
  if (!op.shape().IsTuple()) return op.Array(rewrite.Element(made, 0), std::move(sizes));
  std::vector<Instruction*> elements;
  BoundedValue out;
  for (std::size_t n = 0; n < arrays; ++n) {
    elements.push_back(rewrite.Element(made, static_cast<int64_t>(n)));
    out.leaves.push_back(sizes);
  }
  out.value = rewrite.Tuple(std::move(elements));
  return out;
}

// Rows that are worked on each for itself, `inner` dimensions each: rows that do not count do no harm.
Lowered Rows(DynamicOp& op, int64_t inner) {
  DimensionSizes sizes(At(op.value(0)->shape().rank()), nullptr);
  for (std::size_t n = 0; n < op.operand_count(); ++n) {
    const int64_t rank = op.value(n)->shape().rank();
    for (int64_t d = 0; d < rank; ++d) {
      if (op.operand(n).IsSized(d) && d >= rank - inner) return std::nullopt;
      sizes[At(d)] = op.Merge(sizes[At(d)], op.operand(n).size(d));
    }
  }
  return op.Same(std::move(sizes));
}

}  // namespace

Lowered LowerDynamicCombination(DynamicOp& op) {
  const Opcode opcode = op.instruction().opcode();
  if (opcode == Opcode::kReduce) return Reduce(op);
  if (opcode == Opcode::kReduceWindow) return ReduceWindow(op);
  if (opcode == Opcode::kSelectAndScatter) return SelectAndScatter(op);
  if (opcode == Opcode::kDot) return Dot(op);
  if (opcode == Opcode::kConvolution) return Convolution(op);
  if (opcode == Opcode::kSort) return Sort(op);
  if (opcode == Opcode::kCholesky || opcode == Opcode::kTriangularSolve) return Rows(op, 2);
  if (opcode == Opcode::kTopK) return Rows(op, 1);
  if (opcode == Opcode::kFft) return Rows(op, op.attr<FftAttributes>().length.ssize());
  return std::nullopt;
}

}  // namespace krafla
