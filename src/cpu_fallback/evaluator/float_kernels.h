// SPDX-License-Identifier: Apache-2.0
// The kernels of one real floating-point type, for float_ops.cpp and double_ops.cpp.
#pragma once

#include <cmath>

#include "cpu_fallback/evaluator/block_op.h"
#include "cpu_fallback/evaluator/scalar_math.h"

namespace krafla::evaluator {

#define KRAFLA_UNARY(op, expr) \
  {Opcode::op, &UnaryBlock<decltype([](T a) -> T { return expr; }), T, T>}
#define KRAFLA_BINARY(op, expr) \
  {Opcode::op, &BinaryBlock<decltype([](T a, T b) -> T { return expr; }), T, T>}

template <class T>
BlockFn FindRealKernel(Opcode opcode) {
  using M = Math<T>;
  static constexpr KernelEntry kTable[] = {
      KRAFLA_BINARY(kAdd, a + b),
      KRAFLA_BINARY(kSubtract, a - b),
      KRAFLA_BINARY(kMultiply, a * b),
      KRAFLA_BINARY(kDivide, a / b),
      KRAFLA_BINARY(kRemainder, M::Remainder(a, b)),
      KRAFLA_BINARY(kMaximum, Maximum(a, b)),
      KRAFLA_BINARY(kMinimum, Minimum(a, b)),
      KRAFLA_BINARY(kPower, M::Power(a, b)),
      KRAFLA_BINARY(kAtan2, M::Atan2(a, b)),
      {Opcode::kClamp,
       &TernaryBlock<decltype([](T lo, T x, T hi) -> T { return Minimum(Maximum(lo, x), hi); }), T>},
      KRAFLA_UNARY(kAbs, std::abs(a)),
      KRAFLA_UNARY(kNegate, -a),
      KRAFLA_UNARY(kSign, Sign(a)),
      KRAFLA_UNARY(kFloor, std::floor(a)),
      KRAFLA_UNARY(kCeil, std::ceil(a)),
      KRAFLA_UNARY(kRoundNearestAfz, std::round(a)),
      KRAFLA_UNARY(kRoundNearestEven, RoundEven(a)),
      KRAFLA_UNARY(kReal, a),
      KRAFLA_UNARY(kImag, (static_cast<void>(a), T(0))),
      KRAFLA_UNARY(kAcos, M::Acos(a)),
      KRAFLA_UNARY(kAcosh, M::Acosh(a)),
      KRAFLA_UNARY(kAsin, M::Asin(a)),
      KRAFLA_UNARY(kAsinh, M::Asinh(a)),
      KRAFLA_UNARY(kAtanh, M::Atanh(a)),
      KRAFLA_UNARY(kCbrt, M::Cbrt(a)),
      KRAFLA_UNARY(kCos, M::Cos(a)),
      KRAFLA_UNARY(kCosh, M::Cosh(a)),
      KRAFLA_UNARY(kErf, M::Erf(a)),
      KRAFLA_UNARY(kExp, M::Exp(a)),
      KRAFLA_UNARY(kExpm1, M::Expm1(a)),
      KRAFLA_UNARY(kLog, M::Log(a)),
      KRAFLA_UNARY(kLog1p, M::Log1p(a)),
      KRAFLA_UNARY(kLogistic, M::Logistic(a)),
      KRAFLA_UNARY(kRsqrt, M::Rsqrt(a)),
      KRAFLA_UNARY(kSin, M::Sin(a)),
      KRAFLA_UNARY(kSinh, M::Sinh(a)),
      KRAFLA_UNARY(kSqrt, M::Sqrt(a)),
      KRAFLA_UNARY(kTan, M::Tan(a)),
      KRAFLA_UNARY(kTanh, M::Tanh(a)),
      {Opcode::kIsFinite,
       &UnaryBlock<decltype([](T a) -> uint8_t { return std::isfinite(a) ? 1 : 0; }), T, uint8_t>},
      {Opcode::kComplex,
       &BinaryBlock<decltype([](T a, T b) -> std::complex<T> { return {a, b}; }), T, std::complex<T>>},
      {Opcode::kCompare, &CompareBlock<T>},
  };
  for (const KernelEntry& e : kTable)
    if (e.opcode == opcode) return e.run;
  return nullptr;
}

#undef KRAFLA_UNARY
#undef KRAFLA_BINARY

}  // namespace krafla::evaluator
