// SPDX-License-Identifier: Apache-2.0
// What the shape rules share: one function a rule, as named in the `rule` column of ops.def, and the checks that every
// class of op needs. InferShape has already checked arity, the element type of the first operand and that the
// attributes are the struct of the row.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/dims.h"
#include "ir/shape_rules.h"

namespace krafla::shape_rules {

// A row that names a rule that nobody wrote does not link.
#define KRAFLA_OP(Enum, hlo, stablehlo, arity, types, attrs, rule, traits, tier, budget, doc) \
  Result<Shape> rule(const ShapeRuleInput& in);
#include "ir/ops.def"

// For messages: no layout, cut when very long.
std::string Brief(const Shape& shape);
std::string Brief(const Dims& dims);  // "{0,2}"

template <typename T>
const T& Attr(const ShapeRuleInput& in) {
  return std::get<T>(in.attributes);
}

Result<> ExpectOperands(const ShapeRuleInput& in, std::size_t count);
Result<> ExpectAtLeast(const ShapeRuleInput& in, std::size_t count);
Result<> ExpectCalled(const ShapeRuleInput& in, std::size_t count);
// Operand `i`, which must exist and be an array.
Result<const Shape*> ArrayOperand(const ShapeRuleInput& in, std::size_t i);
Result<> ExpectAllArrays(const ShapeRuleInput& in);
// The declared result; an error where the caller gave none.
Result<const Shape*> Declared(const ShapeRuleInput& in);
Result<const Shape*> DeclaredArray(const ShapeRuleInput& in);

// Each number lies in [0, rank), none twice. `what` names the attribute.
Result<> CheckDimensionNumbers(const char* what, const Dims& numbers, int64_t rank);
Result<> CheckDimensionNumber(const char* what, int64_t number, int64_t rank);
bool IsAscending(const Dims& dims);
bool IsScalarOf(const Shape& shape, ElementType type);

// Dimensions with their dynamic flags, on the way to a shape.
struct DimList {
  Dims sizes;
  InlineVector<bool, 8> dynamic;
  void Add(int64_t size, bool is_dynamic = false) {
    sizes.push_back(size);
    dynamic.push_back(is_dynamic);
  }
  void AddFrom(const Shape& shape, int64_t dim) { Add(shape.dim(dim), shape.IsDynamicDim(dim)); }
  Result<Shape> Make(ElementType type) const { return Shape::MakeArray(type, sizes, dynamic); }
};

// `shape` with a dimension dynamic wherever it is in `other`, which has equal dimensions.
Shape MergeDynamic(Shape shape, const Shape& other);
// The same element type and equal dimensions; dynamic flags may differ.
bool SameTypeAndDims(const Shape& a, const Shape& b);
// The one shape, or a tuple of several.
Result<Shape> SingleOrTuple(std::vector<Shape> shapes);

// The size of `dim` under one dimension of a window: XLA, window_util.cc DilatedBound and StridedBound.
Result<int64_t> WindowedSize(int64_t dim, const WindowDim& window, std::size_t number);

// The type of a contraction's result: the declared one where XLA would take it as the preferred element type.
Result<ElementType> ContractionType(const ShapeRuleInput& in, ElementType lhs, ElementType rhs);
Result<> CheckPrecision(const std::vector<Precision>& precision, std::size_t operands);

// A computation of 2n scalar parameters (n accumulators, n values) that gives n accumulators: what reduce,
// reduce-window, scatter and the reducing collectives call. `types`: of the n arrays. `number` among in.called.
Result<> CheckReducer(const ShapeRuleInput& in, std::size_t number, const std::vector<ElementType>& types);

}  // namespace krafla::shape_rules
