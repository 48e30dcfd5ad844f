// SPDX-License-Identifier: Apache-2.0
// Plain ops on single values, for tapes: what costs less than to call a loop over vectors.
#include <bit>
#include <cstring>
#include <type_traits>

#include "base/unaligned.h"
#include "cpu_fallback/kernels/tape_op.h"
#include "numerics/formulas_int.h"
#include "numerics/nan.h"

namespace krafla::cpu {

namespace {

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 8, uint64_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint8_t>>;

template <class In, class Out, auto kFunction>
const TapeOp* ScalarUnary(const TapeOp* op, TapeRun& run) {
  StoreAs<Out>(op->out, static_cast<Out>(kFunction(LoadAs<In>(op->in[0]))));
  return GoTo(op + 1, run);
}
template <class In, class Out, auto kFunction>
const TapeOp* ScalarBinary(const TapeOp* op, TapeRun& run) {
  StoreAs<Out>(op->out, static_cast<Out>(kFunction(LoadAs<In>(op->in[0]), LoadAs<In>(op->in[1]))));
  return GoTo(op + 1, run);
}

template <class T>
T ScalarMaximum(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) {
    if (x == y) return std::bit_cast<T>(std::bit_cast<BitsOf<T>>(x) & std::bit_cast<BitsOf<T>>(y));
    return Settled(x > y || x != x ? x : y);
  } else {
    return x > y ? x : y;
  }
}
template <class T>
T ScalarMinimum(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) {
    if (x == y) return std::bit_cast<T>(std::bit_cast<BitsOf<T>>(x) | std::bit_cast<BitsOf<T>>(y));
    return Settled(x < y || x != x ? x : y);
  } else {
    return x < y ? x : y;
  }
}
// Integers wrap.
template <class T>
T ScalarAdd(T x, T y) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<BitsOf<T>>(x) + static_cast<BitsOf<T>>(y));
  else return Settled(x + y);
}
template <class T>
T ScalarSubtract(T x, T y) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<BitsOf<T>>(x) - static_cast<BitsOf<T>>(y));
  else return Settled(x - y);
}
template <class T>
T ScalarMultiply(T x, T y) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<BitsOf<T>>(x) * static_cast<BitsOf<T>>(y));
  else return Settled(x * y);
}
template <class T>
T ScalarNegate(T x) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(BitsOf<T>{0} - static_cast<BitsOf<T>>(x));
  else return -x;
}

template <class T>
const TapeOp* ScalarClamp(const TapeOp* op, TapeRun& run) {
  StoreAs<T>(op->out, ScalarMinimum(ScalarMaximum(LoadAs<T>(op->in[0]), LoadAs<T>(op->in[1])), LoadAs<T>(op->in[2])));
  return GoTo(op + 1, run);
}
template <class T>
const TapeOp* ScalarSelect(const TapeOp* op, TapeRun& run) {
  StoreAs<T>(op->out, LoadAs<T>(op->in[*op->in[0] != std::byte{0} ? 1 : 2]));
  return GoTo(op + 1, run);
}

template <class T>
TapeOp::Fn CompareOfType(ComparisonDirection direction) {
  switch (direction) {
    case ComparisonDirection::kEq: return &ScalarBinary<T, uint8_t, [](T x, T y) { return x == y; }>;
    case ComparisonDirection::kNe: return &ScalarBinary<T, uint8_t, [](T x, T y) { return x != y; }>;
    case ComparisonDirection::kGe: return &ScalarBinary<T, uint8_t, [](T x, T y) { return x >= y; }>;
    case ComparisonDirection::kGt: return &ScalarBinary<T, uint8_t, [](T x, T y) { return (x > y); }>;
    case ComparisonDirection::kLe: return &ScalarBinary<T, uint8_t, [](T x, T y) { return x <= y; }>;
    case ComparisonDirection::kLt: return &ScalarBinary<T, uint8_t, [](T x, T y) { return x < y; }>;
  }
  return nullptr;
}

template <class T>
TapeOp::Fn ArithmeticOfType(Opcode opcode) {
  if (opcode == Opcode::kAdd) return &ScalarBinary<T, T, ScalarAdd<T>>;
  if (opcode == Opcode::kSubtract) return &ScalarBinary<T, T, ScalarSubtract<T>>;
  if (opcode == Opcode::kMultiply) return &ScalarBinary<T, T, ScalarMultiply<T>>;
  if (opcode == Opcode::kMaximum) return &ScalarBinary<T, T, ScalarMaximum<T>>;
  if (opcode == Opcode::kMinimum) return &ScalarBinary<T, T, ScalarMinimum<T>>;
  if (opcode == Opcode::kNegate) return &ScalarUnary<T, T, ScalarNegate<T>>;
  if (opcode == Opcode::kClamp) return &ScalarClamp<T>;
  return nullptr;
}
template <class T>
TapeOp::Fn IntegerOfType(Opcode opcode) {
  using U = BitsOf<T>;
  constexpr U kBits = sizeof(T) * 8;
  if (opcode == Opcode::kAnd) return &ScalarBinary<T, T, [](T x, T y) { return x & y; }>;
  if (opcode == Opcode::kOr) return &ScalarBinary<T, T, [](T x, T y) { return x | y; }>;
  if (opcode == Opcode::kXor) return &ScalarBinary<T, T, [](T x, T y) { return x ^ y; }>;
  if (opcode == Opcode::kNot) return &ScalarUnary<T, T, [](T x) { return static_cast<T>(~x); }>;
  if (opcode == Opcode::kShiftLeft) return &ScalarBinary<U, U, [](U x, U y) { return y < kBits ? x << y : U{0}; }>;
  if (opcode == Opcode::kShiftRightLogical)
    return &ScalarBinary<U, U, [](U x, U y) { return y < kBits ? (x >> y) : U{0}; }>;
  if (opcode == Opcode::kShiftRightArithmetic)
    return &ScalarBinary<T, T, [](T x, T y) { return ShiftRightArithmeticInt(x, y); }>;
  if (opcode == Opcode::kDivide) return &ScalarBinary<T, T, DivideInt<T>>;
  if (opcode == Opcode::kRemainder) return &ScalarBinary<T, T, RemainderInt<T>>;
  return ArithmeticOfType<T>(opcode);
}
template <class T>
TapeOp::Fn FloatOfType(Opcode opcode) {
  using U = BitsOf<T>;
  constexpr U kSign = U{1} << (sizeof(T) * 8 - 1);
  if (opcode == Opcode::kDivide) return &ScalarBinary<T, T, [](T x, T y) { return Settled(x / y); }>;
  if (opcode == Opcode::kAbs) return &ScalarUnary<U, U, [](U x) { return x & static_cast<U>(~kSign); }>;
  return ArithmeticOfType<T>(opcode);
}
TapeOp::Fn PredicateOp(Opcode opcode) {
  if (opcode == Opcode::kAnd) return &ScalarBinary<uint8_t, uint8_t, [](uint8_t x, uint8_t y) { return x & y; }>;
  if (opcode == Opcode::kOr) return &ScalarBinary<uint8_t, uint8_t, [](uint8_t x, uint8_t y) { return x | y; }>;
  if (opcode == Opcode::kXor) return &ScalarBinary<uint8_t, uint8_t, [](uint8_t x, uint8_t y) { return x ^ y; }>;
  if (opcode == Opcode::kNot) return &ScalarUnary<uint8_t, uint8_t, [](uint8_t x) { return x ^ 1; }>;
  return nullptr;
}

// Those whose result every type of number holds, or that round as the machine does.
template <class In, class Out>
TapeOp::Fn Conversion() {
  return &ScalarUnary<In, Out, [](In x) {
    if constexpr (std::is_floating_point_v<In>) return SettledConversion(static_cast<Out>(x), x);
    else return static_cast<Out>(x);
  }>;
}
template <class In>
TapeOp::Fn ConversionFrom(ElementType to) {
  if (to == ElementType::kPred) return &ScalarUnary<In, uint8_t, [](In x) { return x != In{}; }>;
  if (to == ElementType::kF32 && !std::is_same_v<In, double>) return Conversion<In, float>();
  if (to == ElementType::kF64) return Conversion<In, double>();
  if constexpr (std::is_integral_v<In>) {
    if (to == ElementType::kS32 || to == ElementType::kU32) return Conversion<In, int32_t>();
    if (to == ElementType::kS64 || to == ElementType::kU64) return Conversion<In, int64_t>();
  }
  return nullptr;
}

TapeOp::Fn ConversionOp(ElementType from, ElementType to) {
  if (from == ElementType::kPred && to != ElementType::kPred) return ConversionFrom<uint8_t>(to);
  if (from == ElementType::kS32) return ConversionFrom<int32_t>(to);
  if (from == ElementType::kU32) return ConversionFrom<uint32_t>(to);
  if (from == ElementType::kS64) return ConversionFrom<int64_t>(to);
  if (from == ElementType::kU64) return ConversionFrom<uint64_t>(to);
  if (from == ElementType::kF32) return ConversionFrom<float>(to);
  return nullptr;
}

TapeOp::Fn CompareOp(ElementType type, ComparisonDirection direction) {
  if (type == ElementType::kPred) return CompareOfType<uint8_t>(direction);
  if (type == ElementType::kS32) return CompareOfType<int32_t>(direction);
  if (type == ElementType::kU32) return CompareOfType<uint32_t>(direction);
  if (type == ElementType::kS64) return CompareOfType<int64_t>(direction);
  if (type == ElementType::kU64) return CompareOfType<uint64_t>(direction);
  if (type == ElementType::kF32) return CompareOfType<float>(direction);
  if (type == ElementType::kF64) return CompareOfType<double>(direction);
  return nullptr;
}

}  // namespace

TapeOp::Fn FindScalarOp(const BlockKey& key) {
  using plan::NodeOp;
  if (key.op == NodeOp::kCompare) {
    return key.total_order && IsFloat(key.operand) ? nullptr : CompareOp(key.operand, key.direction);
  }
  if (key.op == NodeOp::kConvert) return ConversionOp(key.operand, key.type);
  if (key.op != NodeOp::kHlo) return nullptr;
  if (key.opcode == Opcode::kSelect) {
    if (StorageBytes(key.type) == 1) return &ScalarSelect<uint8_t>;
    if (StorageBytes(key.type) == 4) return &ScalarSelect<uint32_t>;
    if (StorageBytes(key.type) == 8) return &ScalarSelect<uint64_t>;
    return nullptr;
  }
  if (key.type == ElementType::kPred && key.operand == ElementType::kPred) return PredicateOp(key.opcode);
  if (key.type == ElementType::kS32) return IntegerOfType<int32_t>(key.opcode);
  if (key.type == ElementType::kU32) return IntegerOfType<uint32_t>(key.opcode);
  if (key.type == ElementType::kS64) return IntegerOfType<int64_t>(key.opcode);
  if (key.type == ElementType::kU64) return IntegerOfType<uint64_t>(key.opcode);
  if (key.type == ElementType::kF32) return FloatOfType<float>(key.opcode);
  if (key.type == ElementType::kF64) return FloatOfType<double>(key.opcode);
  return nullptr;
}

}  // namespace krafla::cpu
