// SPDX-License-Identifier: Apache-2.0
// Integers of every width, and pred. Everything wraps; the corners are XLA's (hlo_evaluator_typed_visitor.h).
#include <bit>
#include <type_traits>

#include "evaluator/block_op.h"
#include "ir/element_type_cases.h"
#include "numerics/formulas_int.h"

namespace krafla::evaluator {

namespace {

template <class T, int kBits>
struct Int {
  using Type = T;
  using U = std::make_unsigned_t<T>;
  // Unsigned arithmetic wide enough that the usual promotions cannot overflow a signed int.
  using W = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  static constexpr int kWidth = kBits;
  static constexpr W kMask = kBits == static_cast<int>(sizeof(W)) * 8 ? ~W{0} : (W{1} << (kBits % (sizeof(W) * 8))) - 1;

  static T Wrap(W v) {
    if constexpr (kBits < 8) {
      U low = static_cast<U>(v << (8 - kBits));
      if constexpr (std::is_signed_v<T>) return static_cast<T>(static_cast<T>(low) >> (8 - kBits));
      return static_cast<T>(low >> (8 - kBits));
    }
    return static_cast<T>(v);
  }
  static W Pattern(T v) { return static_cast<W>(v) & kMask; }
  // Six bits of the exponent, and both sides read as signed, also of unsigned types.
  static T Power(T base, T exponent) { return Wrap(static_cast<W>(PowInt(base, exponent))); }
  static T Divide(T a, T b) {
    if (b == 0) return Wrap(~W{0});
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return Wrap(W{0} - static_cast<W>(a));
    return Wrap(static_cast<W>(a / b));
  }
  static T Remainder(T a, T b) {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return 0;
    return Wrap(static_cast<W>(a % b));
  }
  static T Mulhi(T a, T b) {
    if constexpr (std::is_signed_v<T>) {
      if constexpr (sizeof(T) == 8) return static_cast<T>((static_cast<__int128>(a) * b) >> kBits);
      else return Wrap(static_cast<W>((int64_t{a} * int64_t{b}) >> kBits));
    } else {
      if constexpr (sizeof(T) == 8) return static_cast<T>((static_cast<unsigned __int128>(a) * b) >> kBits);
      else return Wrap(static_cast<W>((uint64_t{a} * uint64_t{b}) >> kBits));
    }
  }
  // A negative amount reads as a large unsigned one.
  static T ShiftLeft(T a, T b) { return Pattern(b) >= kBits ? T(0) : Wrap(static_cast<W>(a) << Pattern(b)); }
  static T ShiftRightLogical(T a, T b) { return Pattern(b) >= kBits ? T(0) : Wrap(Pattern(a) >> Pattern(b)); }
  static T ShiftRightArithmetic(T a, T b) {
    // An unsigned type's top bit counts as a sign here too.
    using S = std::make_signed_t<W>;
    constexpr int kUp = static_cast<int>(sizeof(W)) * 8 - kBits;
    S s = static_cast<S>(static_cast<W>(a) << kUp) >> kUp;
    W amount = Pattern(b) >= kBits ? W{kBits - 1} : Pattern(b);
    return Wrap(static_cast<W>(s >> amount));
  }
};

#define KRAFLA_UNARY(op, expr) {Opcode::op, &UnaryBlock<decltype([](T a) -> T { return expr; }), T, T>}
#define KRAFLA_BINARY(op, expr) {Opcode::op, &BinaryBlock<decltype([](T a, T b) -> T { return expr; }), T, T>}

template <class T, int kBits>
BlockFn Find(Opcode opcode) {
  using I = Int<T, kBits>;
  using W = typename I::W;
  static constexpr KernelEntry kTable[] = {
      KRAFLA_BINARY(kAdd, I::Wrap(static_cast<W>(a) + static_cast<W>(b))),
      KRAFLA_BINARY(kSubtract, I::Wrap(static_cast<W>(a) - static_cast<W>(b))),
      KRAFLA_BINARY(kMultiply, I::Wrap(static_cast<W>(a) * static_cast<W>(b))),
      KRAFLA_BINARY(kDivide, I::Divide(a, b)),
      KRAFLA_BINARY(kRemainder, I::Remainder(a, b)),
      KRAFLA_BINARY(kMaximum, a > b ? a : b),
      KRAFLA_BINARY(kMinimum, a < b ? a : b),
      KRAFLA_BINARY(kAnd, I::Wrap(static_cast<W>(a) & static_cast<W>(b))),
      KRAFLA_BINARY(kOr, I::Wrap(static_cast<W>(a) | static_cast<W>(b))),
      KRAFLA_BINARY(kXor, I::Wrap(static_cast<W>(a) ^ static_cast<W>(b))),
      KRAFLA_BINARY(kPower, I::Power(a, b)),
      KRAFLA_BINARY(kMulhi, I::Mulhi(a, b)),
      KRAFLA_BINARY(kShiftLeft, I::ShiftLeft(a, b)),
      KRAFLA_BINARY(kShiftRightLogical, I::ShiftRightLogical(a, b)),
      KRAFLA_BINARY(kShiftRightArithmetic, I::ShiftRightArithmetic(a, b)),
      {Opcode::kClamp, &TernaryBlock<decltype([](T lo, T x, T hi) -> T {
                                       T m = x > lo ? x : lo;
                                       return m < hi ? m : hi;
                                     }),
                                     T>},
      KRAFLA_UNARY(kAbs, a < 0 ? I::Wrap(W{0} - static_cast<W>(a)) : a),
      KRAFLA_UNARY(kNegate, I::Wrap(W{0} - static_cast<W>(a))),
      KRAFLA_UNARY(kNot, I::Wrap(~static_cast<W>(a))),
      KRAFLA_UNARY(kSign, static_cast<T>((a > 0) - (a < 0))),
      KRAFLA_UNARY(kPopulationCount, I::Wrap(static_cast<W>(std::popcount(I::Pattern(a))))),
      KRAFLA_UNARY(
          kClz, I::Wrap(static_cast<W>(std::countl_zero(I::Pattern(a)) - (static_cast<int>(sizeof(W)) * 8 - kBits)))),
      {Opcode::kCompare, &CompareBlock<T>},
  };
  for (const KernelEntry& e : kTable)
    if (e.opcode == opcode) return e.run;
  return nullptr;
}

}  // namespace

BlockFn FindIntKernel(Opcode opcode, ElementType type) {
  switch (type) {
    case ElementType::kS1: return Find<int8_t, 1>(opcode);
    case ElementType::kS2: return Find<int8_t, 2>(opcode);
    case ElementType::kS4: return Find<int8_t, 4>(opcode);
    case ElementType::kS8: return Find<int8_t, 8>(opcode);
    case ElementType::kS16: return Find<int16_t, 16>(opcode);
    case ElementType::kS32: return Find<int32_t, 32>(opcode);
    case ElementType::kS64: return Find<int64_t, 64>(opcode);
    case ElementType::kU1: return Find<uint8_t, 1>(opcode);
    case ElementType::kU2: return Find<uint8_t, 2>(opcode);
    case ElementType::kU4: return Find<uint8_t, 4>(opcode);
    case ElementType::kU8: return Find<uint8_t, 8>(opcode);
    case ElementType::kU16: return Find<uint16_t, 16>(opcode);
    case ElementType::kU32: return Find<uint32_t, 32>(opcode);
    case ElementType::kU64: return Find<uint64_t, 64>(opcode);
    case ElementType::kPred:
    case ElementType::kF16:
    case ElementType::kF32:
    case ElementType::kF64:
    case ElementType::kBF16:
    case KRAFLA_MINI_FLOATS:
    case KRAFLA_NO_ARRAY_TYPES:
    case KRAFLA_COMPLEX_TYPES: return nullptr;
  }
  return nullptr;
}

BlockFn FindPredKernel(Opcode opcode) {
  using T = uint8_t;
  static constexpr KernelEntry kTable[] = {
      KRAFLA_BINARY(kAdd, (a | b) != 0),
      KRAFLA_BINARY(kMultiply, a != 0 && b != 0),
      KRAFLA_BINARY(kMaximum, (a | b) != 0),
      KRAFLA_BINARY(kMinimum, a != 0 && b != 0),
      KRAFLA_BINARY(kAnd, a != 0 && b != 0),
      KRAFLA_BINARY(kOr, (a | b) != 0),
      KRAFLA_BINARY(kXor, (a != 0) != (b != 0)),
      KRAFLA_BINARY(kSubtract, (a != 0) != (b != 0)),
      KRAFLA_UNARY(kNot, a == 0),
      {Opcode::kClamp, &TernaryBlock<decltype([](T lo, T x, T hi) -> T { return (x | lo) != 0 && hi != 0; }), T>},
      {Opcode::kCompare, &CompareBlock<T>},
  };
  for (const KernelEntry& e : kTable)
    if (e.opcode == opcode) return e.run;
  return nullptr;
}

#undef KRAFLA_UNARY
#undef KRAFLA_BINARY

}  // namespace krafla::evaluator
