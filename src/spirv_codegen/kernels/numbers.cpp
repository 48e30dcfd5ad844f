// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/numbers.h"

#include <bit>

#include "spirv_codegen/float_ops.h"
#include "spirv_codegen/scalar_ops.h"

namespace krafla::spirv {

ElementType Numbers::WideType(ElementType hlo_type) {
  if (IsComplex(hlo_type) || hlo_type == ElementType::kF64) return hlo_type;
  return ElementType::kF32;
}

Numbers::Numbers(KernelWriter& w, ElementType hlo_type, std::span<const int> names)
    : b_(w.b),
      buffers_(w.buffers),
      names_(names),
      wide_(WideType(hlo_type)),
      complex_(IsComplex(hlo_type)),
      kind_(RealPart(wide_) == ElementType::kF64 ? Kind::kF64 : Kind::kF32) {
  // Linear algebra promises results within a bound, not their bits.
  b_.strict = false;
}

Value Numbers::Constant(double v) { return b_.Float(kind_, v); }

Number Numbers::Add(Number a, Number b) { return {b_.FAdd(a.re, b.re), complex_ ? b_.FAdd(a.im, b.im) : Value{}}; }
Number Numbers::Sub(Number a, Number b) { return {b_.FSub(a.re, b.re), complex_ ? b_.FSub(a.im, b.im) : Value{}}; }
Number Numbers::Mul(Number a, Number b) {
  if (!complex_) return {b_.FMul(a.re, b.re), {}};
  return {b_.FSub(b_.FMul(a.re, b.re), b_.FMul(a.im, b.im)), b_.FAdd(b_.FMul(a.re, b.im), b_.FMul(a.im, b.re))};
}
Number Numbers::Scale(Number a, Value by) { return {b_.FMul(a.re, by), complex_ ? b_.FMul(a.im, by) : Value{}}; }

// Divides complex numbers by Smith's method, which does not overflow where the quotient does not.
Number Numbers::Div(Number a, Number b) {
  if (!complex_) return {DivideFloat(b_, a.re, b.re), {}};
  const Value zero = Constant(0);
  const auto magnitude = [&](Value v) { return b_.Select(b_.FCompare(FCmp::kLt, v, zero), b_.FNeg(v), v); };
  const Value real_wins = b_.FCompare(FCmp::kGe, magnitude(b.re), magnitude(b.im));
  const Value large = b_.Select(real_wins, b.re, b.im), small = b_.Select(real_wins, b.im, b.re);
  const Value ratio = DivideFloat(b_, small, large);
  const Value divisor = b_.FAdd(large, b_.FMul(small, ratio));
  const Value x = b_.Select(real_wins, a.re, a.im), y = b_.Select(real_wins, a.im, a.re);
  // (x + y r, y - x r) with the real part larger; (x r... swapped) with the imaginary part larger.
  const Value re = b_.FAdd(x, b_.FMul(y, ratio));
  const Value im = b_.FSub(y, b_.FMul(x, ratio));
  return {DivideFloat(b_, re, divisor), DivideFloat(b_, b_.Select(real_wins, im, b_.FNeg(im)), divisor)};
}

Number Numbers::Select(Value condition, Number a, Number b) {
  return {b_.Select(condition, a.re, b.re), complex_ ? b_.Select(condition, a.im, b.im) : Value{}};
}

Value Numbers::Square(Number a) {
  const Value re = b_.FMul(a.re, a.re);
  return complex_ ? b_.FAdd(re, b_.FMul(a.im, a.im)) : re;
}

Number Numbers::Load(int buffer, ElementType storage, Value index) {
  if (!complex_) return {LoadReal(buffer, storage, index, 1), {}};
  const int words = kind_ == Kind::kF64 ? 4 : 2;
  const Value pair = b_.BitcastTo(buffers_.LoadWords(Named(buffer), index, words), kind_, 2);
  return {b_.Extract(pair, 0), b_.Extract(pair, 1)};
}

void Numbers::Store(int buffer, ElementType storage, Value index, Number value) {
  if (!complex_) return StoreReal(buffer, storage, index, value.re);
  const Value lanes[] = {value.re, value.im};
  buffers_.StoreWords(Named(buffer), index, b_.BitcastTo(b_.Composite(lanes), Kind::kU32, kind_ == Kind::kF64 ? 4 : 2));
}

Value Numbers::LoadFour(int buffer, ElementType storage, Value index) { return LoadReal(buffer, storage, index, 4); }
void Numbers::StoreFour(int buffer, ElementType storage, Value index, Value four) {
  StoreReal(buffer, storage, index, four);
}

Value Numbers::LoadReal(int buffer, ElementType storage, Value index, int width) {
  return FromStorage(b_, storage, buffers_.Load(Named(buffer), StorageBytes(storage), index, width, Kind::kF64));
}
void Numbers::StoreReal(int buffer, ElementType storage, Value index, Value v) {
  if (storage != RealPart(wide_)) v = LowerRound(b_, storage, v);
  buffers_.Store(Named(buffer), StorageBytes(storage), index, ToStorage(b_, storage, v));
}

Values Numbers::Pack(std::span<const Number> numbers) const {
  Values out;
  for (const Number& n : numbers) {
    out.push_back(n.re);
    if (complex_) out.push_back(n.im);
  }
  return out;
}

Number Numbers::Unpack(const Values& values, std::size_t n) const {
  return complex_ ? Number{values[2 * n], values[2 * n + 1]} : Number{values[n], {}};
}

}  // namespace krafla::spirv
