// SPDX-License-Identifier: Apache-2.0
// Ops that fold, order or walk arrays with a computation of scalars or slices.
#include "ir/shape_rules/checks.h"

namespace krafla::shape_rules {
namespace {

// reduce and reduce-window take n arrays, then n scalars to start from. Returns n.
Result<std::size_t> ArraysAndInits(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectAtLeast(in, 2));
  KRAFLA_TRY(ExpectAllArrays(in));
  if (in.operands.size() % 2 != 0)
    return InvalidArgument("{} takes as many initial values as arrays; {} operands were given.", OpcodeName(in.opcode),
                           in.operands.size());
  std::size_t n = in.operands.size() / 2;
  for (std::size_t i = 0; i < n; ++i) {
    const Shape& x = *in.operands[i];
    const Shape& init = *in.operands[n + i];
    if (!Shape::SameDims(x, *in.operands[0]))
      return InvalidArgument("The arrays must have equal dimensions; array 0 is {}, array {} is {}.",
                             Brief(*in.operands[0]), i, Brief(x));
    if (!IsScalarOf(init, x.element_type()))
      return InvalidArgument("The initial value of {} must be {}[], it is {}.", Brief(x),
                             ElementTypeName(x.element_type()), Brief(init));
  }
  return n;
}

std::vector<ElementType> TypesOf(const ShapeRuleInput& in, std::size_t n) {
  std::vector<ElementType> out;
  for (std::size_t i = 0; i < n; ++i) out.push_back(in.operands[i]->element_type());
  return out;
}

// What a window makes of `x`.
Result<DimList> WindowedDims(const Shape& x, const Window& window) {
  if (static_cast<int64_t>(window.size()) != x.rank())
    return InvalidArgument("The window has {} dimensions, {} has {}.", window.size(), Brief(x), x.rank());
  DimList out;
  for (int64_t i = 0; i < x.rank(); ++i) {
    const WindowDim& w = window[static_cast<std::size_t>(i)];
    if (w.reversal) return Unimplemented("A window that is reversed (dimension {}) is run in convolutions only.", i);
    KRAFLA_ASSIGN(int64_t size, WindowedSize(x.dim(i), w, static_cast<std::size_t>(i)));
    out.Add(size, x.IsDynamicDim(i));
  }
  return out;
}

}  // namespace

Result<Shape> Reduce(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(std::size_t n, ArraysAndInits(in));
  const Dims& reduced = Attr<DimensionsAttributes>(in).dimensions;
  const Shape& x = *in.operands[0];
  KRAFLA_TRY(CheckDimensionNumbers("dimensions", reduced, x.rank()));
  KRAFLA_TRY(ExpectCalled(in, 1));
  KRAFLA_TRY(CheckReducer(in, 0, TypesOf(in, n)));
  DimList dims;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (!Contains(reduced, i)) dims.AddFrom(x, i);
  std::vector<Shape> results;
  for (std::size_t i = 0; i < n; ++i) {
    KRAFLA_ASSIGN(Shape result, dims.Make(in.operands[i]->element_type()));
    results.push_back(std::move(result));
  }
  return SingleOrTuple(std::move(results));
}

Result<Shape> ReduceWindow(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(std::size_t n, ArraysAndInits(in));
  KRAFLA_ASSIGN(DimList dims, WindowedDims(*in.operands[0], Attr<WindowAttributes>(in).window));
  KRAFLA_TRY(ExpectCalled(in, 1));
  KRAFLA_TRY(CheckReducer(in, 0, TypesOf(in, n)));
  std::vector<Shape> results;
  for (std::size_t i = 0; i < n; ++i) {
    KRAFLA_ASSIGN(Shape result, dims.Make(in.operands[i]->element_type()));
    results.push_back(std::move(result));
  }
  return SingleOrTuple(std::move(results));
}

// Called: select, then scatter.
Result<Shape> SelectAndScatter(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectOperands(in, 3));
  KRAFLA_TRY(ExpectAllArrays(in));
  const Shape& x = *in.operands[0];
  const Shape& source = *in.operands[1];
  const Shape& init = *in.operands[2];
  KRAFLA_ASSIGN(DimList windowed, WindowedDims(x, Attr<WindowAttributes>(in).window));
  if (source.element_type() != x.element_type() || source.dims() != windowed.sizes)
    return InvalidArgument("The source must be {}[] of dimensions {}, one element a window of {}; it is {}.",
                           ElementTypeName(x.element_type()), Brief(windowed.sizes), Brief(x), Brief(source));
  if (!IsScalarOf(init, x.element_type()))
    return InvalidArgument("The initial value of {} must be {}[], it is {}.", Brief(x),
                           ElementTypeName(x.element_type()), Brief(init));
  KRAFLA_TRY(ExpectCalled(in, 2));
  const ComputationSignature& select = in.called[0];
  if (select.parameters.size() != 2 || !IsScalarOf(select.parameters[0], x.element_type()) ||
      !IsScalarOf(select.parameters[1], x.element_type()) || !IsScalarOf(select.result, ElementType::kPred))
    return InvalidArgument(
        "The select computation must take two {}[] and give pred[]; it takes {} parameters "
        "and gives "
        "{}.",
        ElementTypeName(x.element_type()), select.parameters.size(), Brief(select.result));
  KRAFLA_TRY(CheckReducer(in, 1, {x.element_type()}));
  Shape out = x;
  out.ClearLayout();
  return out;
}

// Operands: arrays to walk along `dimension`, then num_carries values to start from. The computation takes a slice of
// each array and the carries; it gives output slices and the next carries. The result is the tuple of stacked outputs
// and last carries.
Result<Shape> Scan(const ShapeRuleInput& in) {
  const auto& a = Attr<ScanAttributes>(in);
  KRAFLA_TRY(ExpectAllArrays(in));
  auto count = static_cast<int64_t>(in.operands.size());
  if (a.num_carries < 0 || a.num_carries > count)
    return InvalidArgument("num_carries must lie in [0, {}], it is {}.", count, a.num_carries);
  auto arrays = static_cast<std::size_t>(count - a.num_carries);
  auto carries = static_cast<std::size_t>(a.num_carries);
  if (arrays == 0) return InvalidArgument("Scan needs an array to walk along; all {} operands are carries.", count);
  KRAFLA_TRY(ExpectCalled(in, 1));
  const ComputationSignature& body = in.called[0];
  if (body.parameters.size() != in.operands.size())
    return InvalidArgument("The computation must take {} parameters, it takes {}.", in.operands.size(),
                           body.parameters.size());
  KRAFLA_TRY(CheckDimensionNumber("dimensions", a.dimension, in.operands[0]->rank()));
  int64_t length = in.operands[0]->dim(a.dimension);
  bool dynamic = in.operands[0]->IsDynamicDim(a.dimension);
  for (std::size_t i = 0; i < arrays; ++i) {
    const Shape& x = *in.operands[i];
    KRAFLA_TRY(CheckDimensionNumber("dimensions", a.dimension, x.rank()));
    if (x.dim(a.dimension) != length)
      return InvalidArgument("The arrays of a scan must be equally long in dimension {}; they are {} and {}.",
                             a.dimension, Brief(*in.operands[0]), Brief(x));
    DimList slice;
    for (int64_t d = 0; d < x.rank(); ++d)
      if (d != a.dimension) slice.AddFrom(x, d);
    KRAFLA_ASSIGN(Shape expected, slice.Make(x.element_type()));
    if (!Shape::Compatible(body.parameters[i], expected))
      return InvalidArgument("Parameter {} of the computation must be {}, it is {}.", i, Brief(expected),
                             Brief(body.parameters[i]));
  }
  std::vector<const Shape*> given;
  if (body.result.IsTuple()) {
    for (const Shape& s : body.result.tuple_elements()) given.push_back(&s);
  } else {
    given.push_back(&body.result);
  }
  if (given.size() < carries)
    return InvalidArgument("The computation must give at least the {} carries, it gives {}.", carries,
                           Brief(body.result));
  std::size_t outputs = given.size() - carries;
  for (std::size_t i = 0; i < carries; ++i) {
    const Shape& carry = *in.operands[arrays + i];
    if (!Shape::Compatible(body.parameters[arrays + i], carry) || !Shape::Compatible(*given[outputs + i], carry))
      return InvalidArgument("Carry {} starts as {}; the computation takes {} and gives {}.", i, Brief(carry),
                             Brief(body.parameters[arrays + i]), Brief(*given[outputs + i]));
  }
  std::vector<Shape> results;
  for (std::size_t i = 0; i < outputs; ++i) {
    const Shape& slice = *given[i];
    if (!slice.IsArray() || a.dimension > slice.rank())
      return InvalidArgument("Output {} of the computation cannot be stacked along dimension {}; it is {}.", i,
                             a.dimension, Brief(slice));
    DimList dims;
    for (int64_t d = 0; d <= slice.rank(); ++d) {
      if (d == a.dimension) dims.Add(length, dynamic);
      if (d < slice.rank()) dims.AddFrom(slice, d);
    }
    KRAFLA_ASSIGN(Shape stacked, dims.Make(slice.element_type()));
    results.push_back(std::move(stacked));
  }
  for (std::size_t i = 0; i < carries; ++i) {
    results.push_back(*in.operands[arrays + i]);
    results.back().ClearLayout();
  }
  return Shape::MakeTuple(std::move(results));
}

Result<Shape> Map(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectAtLeast(in, 1));
  KRAFLA_TRY(ExpectAllArrays(in));
  KRAFLA_TRY(ExpectCalled(in, 1));
  const ComputationSignature& f = in.called[0];
  const Shape& x = *in.operands[0];
  if (f.parameters.size() != in.operands.size())
    return InvalidArgument("The computation takes {} parameters, map has {} operands.", f.parameters.size(),
                           in.operands.size());
  DimList dims;
  for (int64_t i = 0; i < x.rank(); ++i) dims.AddFrom(x, i);
  for (std::size_t i = 0; i < in.operands.size(); ++i) {
    const Shape& operand = *in.operands[i];
    if (!Shape::SameDims(operand, x))
      return InvalidArgument("The operands of map must have equal dimensions; they are {} and {}.", Brief(x),
                             Brief(operand));
    if (!IsScalarOf(f.parameters[i], operand.element_type()))
      return InvalidArgument("Parameter {} of the computation must be {}[], it is {}.", i,
                             ElementTypeName(operand.element_type()), Brief(f.parameters[i]));
    for (int64_t d = 0; d < x.rank(); ++d)
      if (operand.IsDynamicDim(d)) dims.dynamic[static_cast<std::size_t>(d)] = true;
  }
  if (!f.result.IsScalar()) return InvalidArgument("The computation must give a scalar, it gives {}.", Brief(f.result));
  const Dims& mapped = Attr<DimensionsAttributes>(in).dimensions;
  bool all = mapped.ssize() == x.rank();
  for (std::size_t i = 0; all && i < mapped.size(); ++i) all = mapped[i] == static_cast<int64_t>(i);
  if (!all)
    return InvalidArgument("Map works on all dimensions in order; dimensions={} were given for {}.", Brief(mapped),
                           Brief(x));
  return dims.Make(f.result.element_type());
}

Result<Shape> Sort(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectAtLeast(in, 1));
  KRAFLA_TRY(ExpectAllArrays(in));
  const Shape& x = *in.operands[0];
  int64_t dimension = Attr<SortAttributes>(in).dimension;
  KRAFLA_TRY(CheckDimensionNumber("dimensions", dimension, x.rank()));
  KRAFLA_TRY(ExpectCalled(in, 1));
  const ComputationSignature& less = in.called[0];
  std::size_t n = in.operands.size();
  if (less.parameters.size() != 2 * n)
    return InvalidArgument("The comparator must take {} parameters for {} arrays, it takes {}.", 2 * n, n,
                           less.parameters.size());
  std::vector<Shape> results;
  for (std::size_t i = 0; i < n; ++i) {
    const Shape& operand = *in.operands[i];
    if (!Shape::SameDims(operand, x))
      return InvalidArgument("The operands of sort must have equal dimensions; they are {} and {}.", Brief(x),
                             Brief(operand));
    for (std::size_t p = 2 * i; p < 2 * i + 2; ++p)
      if (!IsScalarOf(less.parameters[p], operand.element_type()))
        return InvalidArgument("Parameter {} of the comparator must be {}[], it is {}.", p,
                               ElementTypeName(operand.element_type()), Brief(less.parameters[p]));
    results.push_back(operand);
    results.back().ClearLayout();
  }
  if (!IsScalarOf(less.result, ElementType::kPred))
    return InvalidArgument("The comparator must give pred[], it gives {}.", Brief(less.result));
  return SingleOrTuple(std::move(results));
}

Result<Shape> TopK(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const Shape* x, ArrayOperand(in, 0));
  int64_t k = Attr<TopKAttributes>(in).k;
  if (x->rank() == 0) return InvalidArgument("Topk needs a dimension to search, the operand is {}.", Brief(*x));
  int64_t last = x->dim(x->rank() - 1);
  if (k < 0 || k > last) return InvalidArgument("The k of topk must lie in [0, {}], it is {}.", last, k);
  if (last > INT32_MAX) return InvalidArgument("The last dimension of {} is past the s32 indices of topk.", Brief(*x));
  DimList dims;
  for (int64_t i = 0; i + 1 < x->rank(); ++i) dims.AddFrom(*x, i);
  dims.Add(k);
  KRAFLA_ASSIGN(Shape values, dims.Make(x->element_type()));
  KRAFLA_ASSIGN(Shape indices, dims.Make(ElementType::kS32));
  std::vector<Shape> results;
  results.push_back(std::move(values));
  results.push_back(std::move(indices));
  return Shape::MakeTuple(std::move(results));
}

}  // namespace krafla::shape_rules
