// SPDX-License-Identifier: Apache-2.0
#include "evaluator/block_op.h"
#include "numerics/complex_math.h"

namespace krafla::evaluator {

namespace {

template <class T>
BlockFn Find(Opcode opcode) {
  using C = std::complex<T>;
#define KRAFLA_UNARY(op, expr) {Opcode::op, &UnaryBlock<decltype([](C a) -> C { return expr; }), C, C>}
#define KRAFLA_BINARY(op, expr) {Opcode::op, &BinaryBlock<decltype([](C a, C b) -> C { return expr; }), C, C>}
  static constexpr KernelEntry kTable[] = {
      KRAFLA_BINARY(kAdd, a + b),
      KRAFLA_BINARY(kSubtract, a - b),
      KRAFLA_BINARY(kMultiply, ComplexMultiply(a, b)),
      KRAFLA_BINARY(kDivide, ComplexDivide(a, b)),
      {Opcode::kClamp, &TernaryBlock<decltype([](C low, C x, C high) -> C { return ComplexClamp(low, x, high); }), C>},
      {Opcode::kAbs, &UnaryBlock<decltype([](C a) -> T { return ComplexAbs(a); }), C, T>},
      {Opcode::kReal, &UnaryBlock<decltype([](C a) -> T { return a.real(); }), C, T>},
      {Opcode::kImag, &UnaryBlock<decltype([](C a) -> T { return a.imag(); }), C, T>},
      KRAFLA_UNARY(kNegate, -a),
      KRAFLA_UNARY(kSign, ComplexSign(a)),
#define KRAFLA_FORMULA(...)
#define KRAFLA_COMPLEX_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) \
  {Opcode::Enum, FormulaBlock<C, arity, decltype([](auto... x) -> C { return Complex##Function(x...); })>()},
#include "ir/ops.def"
  };
#undef KRAFLA_UNARY
#undef KRAFLA_BINARY
  for (const KernelEntry& e : kTable)
    if (e.opcode == opcode) return e.run;
  return nullptr;
}

// EQ and NE only; the others are not defined on complex numbers.
template <class C>
void CompareComplex(const void* const* in, void* out, int64_t n, const BlockParams& params) {
  const C* a = static_cast<const C*>(in[0]);
  const C* b = static_cast<const C*>(in[1]);
  uint8_t* y = static_cast<uint8_t*>(out);
  bool equal = params.direction == ComparisonDirection::kEq;
  for (int64_t i = 0; i < n; ++i) y[i] = (a[i] == b[i]) == equal;
}

}  // namespace

BlockFn FindComplexKernel(Opcode opcode, ElementType type) {
  if (type == ElementType::kC64)
    return opcode == Opcode::kCompare ? &CompareComplex<std::complex<float>> : Find<float>(opcode);
  if (type == ElementType::kC128)
    return opcode == Opcode::kCompare ? &CompareComplex<std::complex<double>> : Find<double>(opcode);
  return nullptr;
}

}  // namespace krafla::evaluator
