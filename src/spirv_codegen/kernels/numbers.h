// SPDX-License-Identifier: Apache-2.0
// Real or complex numbers in a kernel: values of f32 or f64. The two parts of a complex number lie beside each other in
// memory.
#pragma once

#include "numerics/butterfly.h"
#include "numerics/roots_of_unity.h"
#include "spirv_codegen/kernels/context.h"

namespace krafla::spirv {

// `im` is empty in a real number.
using Number = ComplexValue<Value>;

class Numbers {
 public:
  // Numbers of `hlo_type` are computed in f32 or f64; narrow floats are rounded when they are stored. `names`: the
  // kernel's buffer for each buffer that is named below, where they are not the same.
  Numbers(KernelWriter& w, ElementType hlo_type, std::span<const int> names = {});

  Kind kind() const { return kind_; }
  bool complex() const { return complex_; }

  Number Real(double v) { return {Constant(v), complex_ ? Constant(0) : Value{}}; }
  Value Constant(double v);
  Number Add(Number a, Number b);
  Number Sub(Number a, Number b);
  Number Mul(Number a, Number b);
  Number Conj(Number a) { return {a.re, complex_ ? b_.FNeg(a.im) : a.im}; }
  Number Scale(Number a, Value by);
  Number Div(Number a, Number b);
  Number Select(Value condition, Number a, Number b);
  Value Square(Number a);  // the square of its magnitude

  // Element `index` of a buffer whose elements are of type `storage`: the HLO type, or in scratch that of kind().
  Number Load(int buffer, ElementType storage, Value index);
  void Store(int buffer, ElementType storage, Value index, Number value);
  // Four real elements from `index` on, a multiple of 4.
  Value LoadFour(int buffer, ElementType storage, Value index);
  void StoreFour(int buffer, ElementType storage, Value index, Value four);
  // An element of scratch, which has the compute type.
  Number LoadWide(int buffer, Value index) { return Load(buffer, wide_, index); }
  void StoreWide(int buffer, Value index, Number value) { Store(buffer, wide_, index, value); }
  // The type of an element of scratch, and its size in bytes.
  ElementType wide() const { return wide_; }
  static ElementType WideType(ElementType hlo_type);

  // Numbers as lists of values, for loops to carry.
  Values Pack(std::span<const Number> numbers) const;
  Number Unpack(const Values& values, std::size_t n) const;

 private:
  int Named(int buffer) const { return names_.empty() ? buffer : names_[static_cast<std::size_t>(buffer)]; }
  Value LoadReal(int buffer, ElementType storage, Value index, int width);
  void StoreReal(int buffer, ElementType storage, Value index, Value v);

  Builder& b_;
  Buffers& buffers_;
  std::span<const int> names_;
  ElementType wide_;
  bool complex_;
  Kind kind_;
};

}  // namespace krafla::spirv
