// SPDX-License-Identifier: Apache-2.0
// A small program made with the builder: its inputs are parameters that remember their values, so that what runs is
// not folded away.
#pragma once

#include <gtest/gtest.h>

#include <complex>
#include <memory>
#include <string>
#include <vector>

#include "krafla/local_client.h"
#include "krafla/shape_util.h"
#include "krafla/xla_builder.h"

namespace krafla::testing {

class Program {
 public:
  XlaBuilder* operator&() { return &builder_; }  // NOLINT: a Program stands where a builder does

  template <typename T>
  XlaOp In(Span<std::type_identity_t<T>> values, Span<int64_t> dims) {
    return Add(LiteralUtil::CreateFromArray<T>(values, dims));
  }
  template <typename T>
  XlaOp In(Span<std::type_identity_t<T>> values) {
    return In<T>(values, {static_cast<int64_t>(values.size())});
  }
  template <typename T>
  XlaOp Scalar(T value) {
    return In<T>({value}, {});
  }
  XlaOp F(Span<float> values) { return In<float>(values); }
  XlaOp F(Span<float> values, Span<int64_t> dims) { return In<float>(values, dims); }
  XlaOp I(Span<int32_t> values) { return In<int32_t>(values); }
  XlaOp I(Span<int32_t> values, Span<int64_t> dims) { return In<int32_t>(values, dims); }
  XlaOp C(Span<std::complex<float>> values) { return In<std::complex<float>>(values); }

  XlaBuilder& builder() { return builder_; }
  const std::vector<Literal>& arguments() const { return arguments_; }

 private:
  XlaOp Add(Result<Literal> literal) {
    EXPECT_TRUE(literal.has_value());
    XlaOp out = Parameter(&builder_, static_cast<int64_t>(arguments_.size()), literal->shape(),
                          "x" + std::to_string(arguments_.size()));
    arguments_.push_back(std::move(*literal));
    return out;
  }

  XlaBuilder builder_{"test"};
  std::vector<Literal> arguments_;
};

// Computations of two scalars, and of others that tests call.
inline XlaComputation Binary(ElementType type, XlaOp (*op)(XlaOp, XlaOp, Span<int64_t>)) {
  XlaBuilder b("combine");
  op(Parameter(&b, 0, Shape::MakeScalar(type), "x"), Parameter(&b, 1, Shape::MakeScalar(type), "y"), {});
  auto built = b.Build();
  EXPECT_TRUE(built.has_value()) << built.error().ToString();
  return *built;
}
inline XlaComputation AddF() { return Binary(F32, Add); }
inline XlaComputation AddI() { return Binary(S32, Add); }
inline XlaComputation MaxF() { return Binary(F32, Max); }
inline XlaComputation GeF() { return Binary(F32, Ge); }
inline XlaComputation LtF() { return Binary(F32, Lt); }

// The numbers of a literal's arrays, one after the other; complex numbers give two.
std::vector<double> Numbers(const Literal& literal);

}  // namespace krafla::testing
