// SPDX-License-Identifier: Apache-2.0
#include "evaluator/value.h"

namespace krafla::evaluator {

Value Value::Own(Literal literal) {
  Value out;
  if (literal.shape().IsTuple()) {
    out.is_tuple_ = true;
    for (Literal& e : literal.elements()) out.elements_.push_back(Own(std::move(e)));
    return out;
  }
  out.array_ = std::make_shared<Literal>(std::move(literal));
  return out;
}

Value Value::Borrow(const Literal& literal) {
  // An aliasing pointer without an owner: its use count is 0, so that nobody takes it for writing.
  return Share(std::shared_ptr<const Literal>(std::shared_ptr<const void>(), &literal));
}

Value Value::Share(const std::shared_ptr<const Literal>& literal) {
  Value out;
  if (literal->shape().IsTuple()) {
    out.is_tuple_ = true;
    for (const Literal& e : literal->elements())
      out.elements_.push_back(Share(std::shared_ptr<const Literal>(literal, &e)));
    return out;
  }
  out.array_ = literal;
  return out;
}

Value Value::Tuple(std::vector<Value> elements) {
  Value out;
  out.is_tuple_ = true;
  out.elements_ = std::move(elements);
  return out;
}

Value Value::Token() {
  static const auto* const kToken =
      new std::shared_ptr<const Literal>(std::make_shared<const Literal>(*Literal::Create(Shape::MakeToken())));
  return Share(*kToken);
}

Result<Literal> Value::TakeMutable() && {
  KRAFLA_CHECK(array_ != nullptr);
  backing_.reset();
  // Every array with a use count was made by Own, from an object that is not const; constants of the module are held
  // by their instruction too and so never have a count of 1.
  if (array_.use_count() == 1) {
    Literal out = std::move(const_cast<Literal&>(*array_));
    array_.reset();
    return out;
  }
  if (!array_->shape().IsArray()) return Literal::Create(array_->shape());
  return Literal::FromBytes(array_->shape(), array_->bytes());
}

Result<Literal> Value::ToLiteral() && {
  if (!is_tuple_) return std::move(*this).TakeMutable();
  std::vector<Literal> elements;
  for (Value& e : elements_) {
    KRAFLA_ASSIGN(Literal element, std::move(e).ToLiteral());
    elements.push_back(std::move(element));
  }
  return Literal::MakeTuple(std::move(elements));
}

Result<std::vector<const Literal*>> LiteralPointers(std::span<const Value> values, std::vector<Literal>& storage) {
  std::vector<const Literal*> out;
  storage.clear();
  storage.reserve(values.size());  // pointers into it stay valid
  for (const Value& v : values) {
    if (v.is_array()) {
      out.push_back(&v.array());
      continue;
    }
    KRAFLA_ASSIGN(Literal tuple, Value(v).ToLiteral());
    storage.push_back(std::move(tuple));
    out.push_back(&storage.back());
  }
  return out;
}

}  // namespace krafla::evaluator
