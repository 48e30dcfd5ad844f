// SPDX-License-Identifier: Apache-2.0
// What flows between instructions inside the evaluator: shared arrays and tuples of such, so that tuple,
// get-tuple-element, call and while copy pointers only, and an op may write in place into an array that nobody else
// holds.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "krafla/literal.h"
#include "krafla/status.h"

namespace krafla::evaluator {

class Value {
 public:
  Value() = default;
  // Takes the literal; a tuple is split into its elements.
  static Value Own(Literal literal);
  // The caller keeps the literal alive; it is never written to.
  static Value Borrow(const Literal& literal);
  static Value Share(const std::shared_ptr<const Literal>& literal);
  static Value Tuple(std::vector<Value> elements);
  static Value Token();

  bool is_tuple() const { return is_tuple_; }
  bool is_array() const { return array_ != nullptr; }
  // An array, a token or an opaque value. The dimensions are the run-time ones, none flagged dynamic.
  const Literal& array() const {
    KRAFLA_CHECK(array_ != nullptr);
    return *array_;
  }
  const Shape& shape() const { return array().shape(); }
  std::vector<Value>& elements() { return elements_; }
  const std::vector<Value>& elements() const { return elements_; }
  const Value& element(int64_t i) const { return elements_[static_cast<std::size_t>(i)]; }

  // The array to write to: this one where nobody else holds it, else a copy.
  Result<Literal> TakeMutable() &&;
  Result<Literal> ToLiteral() &&;

  // set-dimension-size only: the array of which this is the leading part, so that a later one can grow it again.
  const std::shared_ptr<const Literal>& backing() const { return backing_; }
  void set_backing(std::shared_ptr<const Literal> backing) { backing_ = std::move(backing); }
  const std::shared_ptr<const Literal>& shared_array() const { return array_; }

 private:
  std::shared_ptr<const Literal> array_;
  std::shared_ptr<const Literal> backing_;
  std::vector<Value> elements_;
  bool is_tuple_ = false;
};

// Values without the tuples around them, as the hooks of EvaluatorHost take operands: pointers into `storage` where a
// tuple had to be assembled, else to the arrays themselves.
Result<std::vector<const Literal*>> LiteralPointers(std::span<const Value> values, std::vector<Literal>& storage);

}  // namespace krafla::evaluator
