// SPDX-License-Identifier: Apache-2.0
#include "ir/chlo/expression.h"

#include <bit>

namespace krafla::chlo {

Expr Formula::Apply(Opcode opcode, std::span<const Expr> operands, Attributes attributes) {
  std::vector<Instruction*> values;
  for (const Expr& operand : operands) {
    if (operand.value == nullptr) return {this, nullptr};
    values.push_back(operand.value);
  }
  auto made = AddInferred(computation_, opcode, std::move(values), std::move(attributes));
  if (made) return {this, *made};
  if (!error_) error_ = std::move(made).error();
  return {this, nullptr};
}

Expr Formula::Compared(ComparisonDirection direction, Expr a, Expr b) {
  const Expr both[] = {a, b};
  return Apply(Opcode::kCompare, both, CompareAttributes{direction});
}

Expr Formula::Converted(Expr a, ElementType type) {
  if (a.value == nullptr) return a;
  auto made = AddConvert(computation_, a.value, type);
  if (made) return {this, *made};
  if (!error_) error_ = std::move(made).error();
  return {this, nullptr};
}

Expr Formula::BitsOf(Expr a, ElementType type) {
  if (a.value == nullptr) return a;
  auto shape = Shape::MakeArray(type, a.value->shape().dims());
  Result<Instruction*> made = shape ? AddInferred(computation_, Opcode::kBitcastConvert, {a.value}, {}, {}, &*shape)
                                    : Result<Instruction*>(Failure(std::move(shape).error()));
  if (made) return {this, *made};
  if (!error_) error_ = std::move(made).error();
  return {this, nullptr};
}

Expr Formula::Constant(const Expr& like, double number) {
  if (like.value == nullptr) return like;
  const Shape& shape = like.value->shape();
  for (const Known& known : constants_)
    if (std::bit_cast<uint64_t>(known.number) == std::bit_cast<uint64_t>(number) &&
        Shape::Compatible(known.shape, shape))
      return {this, known.value};
  auto made =
      AddBroadcastScalar(computation_, AddScalarConstant(computation_, shape.element_type(), number), shape.dims());
  if (!made) {
    if (!error_) error_ = std::move(made).error();
    return {this, nullptr};
  }
  constants_.push_back({number, shape, *made});
  return {this, *made};
}

Result<Instruction*> Formula::Take(Expr result) {
  if (error_) return Failure(*error_);
  return result.value;
}

}  // namespace krafla::chlo
