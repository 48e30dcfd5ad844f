// SPDX-License-Identifier: Apache-2.0
// The kernels of one real floating-point type, for float_ops.cpp and double_ops.cpp.
#pragma once

#include "evaluator/block_op.h"
#include "numerics/nan.h"
#include "numerics/scalar_math.h"

namespace krafla::evaluator {

#define KRAFLA_UNARY(op, expr) {Opcode::op, &UnaryBlock<decltype([](T a) -> T { return Settled<T>(expr); }), T, T>}
#define KRAFLA_BINARY(op, expr) \
  {Opcode::op, &BinaryBlock<decltype([](T a, T b) -> T { return Settled<T>(expr); }), T, T>}

// Moves what it is given, but for the sign: a NaN keeps its bits.
#define KRAFLA_MOVE(op, expr) {Opcode::op, &UnaryBlock<decltype([](T a) -> T { return expr; }), T, T>}

template <class T>
BlockFn FindRealKernel(Opcode opcode) {
  static constexpr KernelEntry kTable[] = {
      KRAFLA_BINARY(kAdd, a + b),
      KRAFLA_BINARY(kSubtract, a - b),
      KRAFLA_BINARY(kMultiply, a * b),
      KRAFLA_BINARY(kDivide, a / b),
      KRAFLA_BINARY(kRemainder, scalar::Remainder(a, b)),
      KRAFLA_BINARY(kMaximum, scalar::Max(a, b)),
      KRAFLA_BINARY(kMinimum, scalar::Min(a, b)),
      {Opcode::kClamp,
       &TernaryBlock<decltype([](T lo, T x, T hi) -> T { return Settled(scalar::Clamp(lo, x, hi)); }), T>},
      KRAFLA_MOVE(kAbs, scalar::Abs(a)),
      KRAFLA_MOVE(kNegate, -a),
      KRAFLA_UNARY(kSign, scalar::Sign(a)),
      KRAFLA_UNARY(kFloor, scalar::Floor(a)),
      KRAFLA_UNARY(kCeil, scalar::Ceil(a)),
      KRAFLA_UNARY(kRoundNearestAfz, scalar::RoundNearestAfz(a)),
      KRAFLA_UNARY(kRoundNearestEven, scalar::RoundNearestEven(a)),
      KRAFLA_MOVE(kReal, a),
      KRAFLA_MOVE(kImag, (static_cast<void>(a), T(0))),
#define KRAFLA_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) \
  {Opcode::Enum, FormulaBlock<T, arity, decltype([](auto... x) -> T { return Settled<T>(scalar::Function(x...)); })>()},
#include "ir/ops.def"
      {Opcode::kIsFinite,
       &UnaryBlock<decltype([](T a) -> uint8_t { return scalar::IsFinite(a) ? 1 : 0; }), T, uint8_t>},
      {Opcode::kComplex,
       &BinaryBlock<decltype([](T a, T b) -> std::complex<T> { return {a, b}; }), T, std::complex<T>>},
      {Opcode::kCompare, &CompareBlock<T>},
  };
  for (const KernelEntry& e : kTable)
    if (e.opcode == opcode) return e.run;
  return nullptr;
}

#undef KRAFLA_MOVE
#undef KRAFLA_UNARY
#undef KRAFLA_BINARY

}  // namespace krafla::evaluator
