// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/evaluator/custom_call.h"

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
    "lapack_ctrsm_ffi", "lapack_ztrsm_ffi"};
constexpr std::size_t kMarks = 8;

bool IsAmong(std::string_view target, std::span<const std::string_view> names) {
  for (std::string_view name : names)
    if (name.ends_with('*') ? target.starts_with(name.substr(0, name.size() - 1)) : target == name) return true;
  return false;
}

bool IsIdentity(std::string_view target) { return IsAmong(target, std::span(kBuiltIn).first(kMarks)); }

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
