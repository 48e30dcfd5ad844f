// SPDX-License-Identifier: Apache-2.0
// Custom calls: functions of the program first, then those that krafla knows by name.
#include "ir/custom_call.h"

#include <algorithm>

#include "evaluator/context.h"

namespace krafla::evaluator {
namespace {

// An array that is all of its bound, and its sizes.
Result<Value> PadToStatic(Context& context, const Instruction& i, const Value& x) {
  const auto& results = i.shape().tuple_elements();
  if (!x.is_array() || static_cast<int64_t>(results.size()) != x.shape().rank() + 1 ||
      !Accepts(i.operand(0)->shape(), x.shape()) || results[0].rank() != x.shape().rank() ||
      results[0].element_type() != x.shape().element_type())
    return InvalidArgument("PadToStatic takes one array and returns it with a size for each dimension, not {}.",
                           i.shape().ToString(false));
  std::vector<Value> out;
  Shape bounds = results[0].WithStaticDims();
  bounds.ClearLayout();
  KRAFLA_ASSIGN(Value whole, LeadingPart(context, x.array(), bounds));
  out.push_back(std::move(whole));
  for (int64_t d = 0; d < x.shape().rank(); ++d) {
    KRAFLA_ASSIGN(Literal size, Literal::Create(Shape::MakeScalar(ElementType::kS32)));
    size.data<int32_t>()[0] = static_cast<int32_t>(x.shape().dim(d));
    out.push_back(Value::Own(std::move(size)));
  }
  return Value::Tuple(std::move(out));
}

Result<Value> SliceToDynamic(Context& context, const Instruction& i, Operands operands) {
  bool fits = !operands.empty() && operands[0].is_array() && i.shape().IsArray() &&
              i.shape().element_type() == operands[0].shape().element_type() &&
              i.shape().rank() == operands[0].shape().rank() &&
              static_cast<int64_t>(operands.size()) == i.shape().rank() + 1;
  for (std::size_t n = 1; fits && n < operands.size(); ++n)
    fits = operands[n].is_array() && operands[n].shape().IsScalar() &&
           operands[n].shape().element_type() == ElementType::kS32;
  if (!fits)
    return InvalidArgument("SliceToDynamic takes an array and an s32[] size for each dimension; it cannot return {}.",
                           i.shape().ToString(false));
  Dims dims;
  for (int64_t d = 0; d < i.shape().rank(); ++d) {
    const int64_t size = operands[static_cast<std::size_t>(d) + 1].array().data<int32_t>()[0];
    dims.push_back(i.shape().IsDynamicDim(d) ? std::clamp<int64_t>(size, 0, i.shape().dim(d)) : i.shape().dim(d));
  }
  KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(i.shape().element_type(), dims));
  return LeadingPart(context, operands[0].array(), shape);
}

// Of a call whose shapes have been checked.
Result<Value> Compute(Context& context, const Instruction& i, Operands operands) {
  switch (CustomCallTargetOf(i)) {
#define KRAFLA_ANNOTATION(Enum, name) case CustomCallTarget::Enum:
#define KRAFLA_SDY_OTHER(Enum, name) case CustomCallTarget::Enum:
#include "ir/custom_call_targets.def"
    if (operands.size() == 1 && (!i.shape().IsTuple() || operands[0].is_tuple())) return std::move(operands[0]);
    return Value::Tuple(std::vector<Value>(operands.begin(), operands.end()));
#define KRAFLA_SINK(Enum, name) case CustomCallTarget::Enum:
#include "ir/custom_call_targets.def"
    return Value::Tuple({});
#define KRAFLA_LAPACK_SOLVE(Enum, name) case CustomCallTarget::Enum:
#include "ir/custom_call_targets.def"
    return LapackTriangularSolve(context, i, operands);
    case CustomCallTarget::kTopK:
      return TopK(context, operands[0].array(), i.shape().tuple_elements()[0].dims().back(), true);
    case CustomCallTarget::kLuDecomposition: return LuDecomposition(context, i, operands);
    case CustomCallTarget::kEigh: return HermitianEigen(context, i, operands);
    case CustomCallTarget::kSvd: return SingularValues(context, i, operands);
    case CustomCallTarget::kQr: return HouseholderQr(context, i, operands);
    case CustomCallTarget::kHouseholderProduct: return HouseholderProduct(context, i, operands);
    case CustomCallTarget::kPadToStatic: return PadToStatic(context, i, operands[0]);
    case CustomCallTarget::kSliceToDynamic: return SliceToDynamic(context, i, operands);
#define KRAFLA_READER_CALL(Enum, name) case CustomCallTarget::Enum:
#include "ir/custom_call_targets.def"
    case CustomCallTarget::kUnknown:
      return NotFound("{}: There is no custom call '{}'.", Describe(i), i.attr<CustomCallAttributes>().target);
  }
  KRAFLA_UNREACHABLE();
}

}  // namespace

Result<Value> EvalCustomCall(Context& context, const Instruction& i, Operands operands) {
  if (context.host->custom_call) {
    std::vector<Literal> storage;
    KRAFLA_ASSIGN(std::vector<const Literal*> pointers, LiteralPointers(operands, storage));
    Result<Literal> out = context.host->custom_call(i, pointers);
    if (out) return Checked(i, i.shape(), Value::Own(std::move(*out)));
    if (out.error().code() != StatusCode::kNotFound) return Failure(std::move(out).error());
  }
  KRAFLA_TRY(CheckBuiltInCustomCall(i));
  KRAFLA_ASSIGN(Value out, Compute(context, i, operands));
  return Checked(i, i.shape(), std::move(out));
}

}  // namespace krafla::evaluator
