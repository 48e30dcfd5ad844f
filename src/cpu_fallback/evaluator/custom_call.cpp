// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/evaluator/custom_call.h"

#include <algorithm>
#include <string_view>

#include "cpu_fallback/evaluator/context.h"

namespace krafla::evaluator {

namespace {

constexpr std::string_view kBuiltIn[] = {
    // Marks for the partitioner: on one device the operand itself.
    "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "LayoutConstraint", "annotate_device_placement",
    "MoveToHost", "MoveToDevice", "xla.sdy.*",
    // Computations.
    "TopK", "Qr", "ProductOfElementaryHouseholderReflectors", "lapack_strsm_ffi", "lapack_dtrsm_ffi",
    "lapack_ctrsm_ffi", "lapack_ztrsm_ffi", "PadToStatic", "SliceToDynamic",
    // JAX's lax.dce_sink: keeps what it is given from being removed.
    "dce_sink"};
constexpr std::size_t kMarks = 8;

bool IsAmong(std::string_view target, std::span<const std::string_view> names) {
  for (std::string_view name : names)
    if (name.ends_with('*') ? target.starts_with(name.substr(0, name.size() - 1)) : target == name) return true;
  return false;
}

bool IsIdentity(std::string_view target) { return IsAmong(target, std::span(kBuiltIn).first(kMarks)); }

// An array that is all of its bound, and its sizes.
Result<Value> PadToStatic(Context& context, const Instruction& i, const Value& x) {
  const auto& results = i.shape().tuple_elements();
  if (!x.is_array() || static_cast<int64_t>(results.size()) != x.shape().rank() + 1 ||
      !Accepts(i.operand(0)->shape(), x.shape()) || results[0].rank() != x.shape().rank() ||
      results[0].element_type() != x.shape().element_type())
    return InvalidArgument("PadToStatic takes one array and gives it with a size for each dimension, not {}",
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
    return InvalidArgument("SliceToDynamic takes an array and an s32[] size for each dimension, and gives {}",
                           i.shape().ToString(false));
  Dims dims;
  for (int64_t d = 0; d < i.shape().rank(); ++d) {
    const int64_t size = operands[static_cast<std::size_t>(d) + 1].array().data<int32_t>()[0];
    dims.push_back(i.shape().IsDynamicDim(d) ? std::clamp<int64_t>(size, 0, i.shape().dim(d)) : i.shape().dim(d));
  }
  KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(i.shape().element_type(), dims));
  return LeadingPart(context, operands[0].array(), shape);
}

}  // namespace

Result<Value> EvalCustomCall(Context& context, const Instruction& i, Operands operands) {
  const std::string& target = i.attr<CustomCallAttributes>().target;
  if (context.host->custom_call) {
    std::vector<Literal> storage;
    KRAFLA_ASSIGN(std::vector<const Literal*> pointers, LiteralPointers(operands, storage));
    Result<Literal> out = context.host->custom_call(i, pointers);
    if (out && !Accepts(i.shape(), out->shape()))
      return InvalidArgument("custom call '{}' gave {}, not {}", target, out->shape().ToString(false),
                             i.shape().ToString(false));
    if (out) return Value::Own(std::move(*out));
    if (out.error().code() != StatusCode::kNotFound) return Failure(std::move(out).error());
  }
  if (IsIdentity(target)) {
    // Several operands and a tuple of as many results: element by element.
    if (operands.size() == 1 && (!operands[0].is_array() || operands[0].shape().byte_size() == i.shape().byte_size()))
      return std::move(operands[0]);
    if (i.shape().IsTuple() && i.shape().tuple_elements().size() == operands.size())
      return Value::Tuple(std::vector<Value>(operands.begin(), operands.end()));
    return Unimplemented("custom call '{}' from {} to {} needs a device group", target,
                         operands.empty() ? "nothing" : operands[0].is_array() ? operands[0].shape().ToString(false)
                                                                                : "a tuple",
                         i.shape().ToString(false));
  }
  if (target == "TopK" && operands.size() == 1 && i.shape().tuple_elements().size() == 2 &&
      i.shape().tuple_elements()[0].rank() > 0)
    return TopK(context, operands[0].array(), i.shape().tuple_elements()[0].dims().back(), true);
  if ((target == "lapack_strsm_ffi" || target == "lapack_dtrsm_ffi" || target == "lapack_ctrsm_ffi" ||
       target == "lapack_ztrsm_ffi") &&
      operands.size() == 2)
    return LapackTriangularSolve(context, i, operands);
  if (target == "PadToStatic" && operands.size() == 1) return PadToStatic(context, i, operands[0]);
  if (target == "dce_sink" && i.shape().IsTuple() && i.shape().tuple_elements().empty()) return Value::Tuple({});
  if (target == "SliceToDynamic") return SliceToDynamic(context, i, operands);
  if (target == "Qr" && operands.size() == 1) return HouseholderQr(context, i, operands);
  if (target == "ProductOfElementaryHouseholderReflectors" && operands.size() == 2)
    return HouseholderProduct(context, i, operands);
  return NotFound("{}: there is no custom call '{}'", Describe(i), target);
}

}  // namespace krafla::evaluator

namespace krafla {

std::span<const std::string_view> BuiltInCustomCalls() { return evaluator::kBuiltIn; }
bool IsBuiltInCustomCall(std::string_view target) { return evaluator::IsAmong(target, evaluator::kBuiltIn); }

}  // namespace krafla
