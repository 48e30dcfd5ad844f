// SPDX-License-Identifier: Apache-2.0
// The Ops of one CPU lane: float, uint32_t, bool. Needs -ffp-contract=off (the build sets it) and the default rounding
// mode.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "numerics/ops_concept.h"

namespace krafla {

struct ScalarOps {
  using F = float;
  using I = uint32_t;
  using B = bool;

  static constexpr F Const(float x) { return x; }
  static constexpr I ConstI(uint32_t x) { return x; }

  static F Add(F a, F b) { return a + b; }
  static F Sub(F a, F b) { return a - b; }
  static F Mul(F a, F b) { return a * b; }
  static F Div(F a, F b) { return a / b; }
  static F Sqrt(F a) { return __builtin_sqrtf(a); }
  static F Neg(F a) { return FromBits(Bits(a) ^ 0x80000000u); }
  static F Abs(F a) { return FromBits(Bits(a) & 0x7fffffffu); }
  // By adding and taking away 2^23, which leaves no fraction bits: no library call, and it vectorizes.
  static F RoundEven(F a) {
    const F magnitude = Abs(a);
    const F rounded = (magnitude + 0x1p23f) - 0x1p23f;
    return magnitude < 0x1p23f ? FromBits(Bits(rounded) | (Bits(a) & 0x80000000u)) : a;
  }
  static F Trunc(F a) {
    const F rounded = RoundEven(Abs(a));
    const F truncated = rounded > Abs(a) ? rounded - 1.0f : rounded;
    return FromBits(Bits(truncated) | (Bits(a) & 0x80000000u));
  }
  static F Floor(F a) {
    const F rounded = RoundEven(a);
    return rounded > a ? rounded - 1.0f : rounded;
  }

  static B Lt(F a, F b) { return a < b; }
  static B Le(F a, F b) { return a <= b; }
  static B Gt(F a, F b) { return a > b; }
  static B Ge(F a, F b) { return a >= b; }
  static B Eq(F a, F b) { return a == b; }
  static B Ne(F a, F b) { return a != b; }

  static I Bits(F a) { return std::bit_cast<uint32_t>(a); }
  static F FromBits(I a) { return std::bit_cast<float>(a); }
  static I ToIntS(F a) { return static_cast<uint32_t>(static_cast<int32_t>(a)); }
  static I ToIntU(F a) { return static_cast<uint32_t>(a); }
  static F FromIntS(I a) { return static_cast<float>(static_cast<int32_t>(a)); }
  static F FromIntU(I a) { return static_cast<float>(a); }

  static I IAdd(I a, I b) { return a + b; }
  static I ISub(I a, I b) { return a - b; }
  static I IMul(I a, I b) { return a * b; }
  static I UMulHi(I a, I b) { return static_cast<uint32_t>(uint64_t{a} * b >> 32); }
  static I And(I a, I b) { return a & b; }
  static I Or(I a, I b) { return a | b; }
  static I Xor(I a, I b) { return a ^ b; }
  static I Not(I a) { return ~a; }
  static I Shl(I a, I b) { return a << b; }
  static I Shr(I a, I b) { return a >> b; }
  static I Sar(I a, I b) { return static_cast<uint32_t>(static_cast<int32_t>(a) >> b); }
  static I UDiv(I a, I b) { return a / b; }
  static I SDiv(I a, I b) { return static_cast<uint32_t>(static_cast<int32_t>(a) / static_cast<int32_t>(b)); }

  static B IEq(I a, I b) { return a == b; }
  static B INe(I a, I b) { return a != b; }
  static B ULt(I a, I b) { return a < b; }
  static B ULe(I a, I b) { return a <= b; }
  static B SLt(I a, I b) { return static_cast<int32_t>(a) < static_cast<int32_t>(b); }
  static B SLe(I a, I b) { return static_cast<int32_t>(a) <= static_cast<int32_t>(b); }

  static B BAnd(B a, B b) { return static_cast<bool>(a & b); }
  static B BOr(B a, B b) { return static_cast<bool>(a | b); }
  static B BNot(B a) { return !a; }
  static F Select(B c, F a, F b) { return c ? a : b; }
  static I SelectI(B c, I a, I b) { return c ? a : b; }

  template <std::size_t N, class Body>
  static std::array<I, N> When(B condition, const std::array<I, N>& state, Body body) {
    if (condition) [[unlikely]]
      return body(state);
    return state;
  }
  template <std::size_t N, class Condition, class Body>
  static std::array<I, N> Loop(int max_trips, std::array<I, N> state, Condition condition, Body body) {
    for (int trip = 0; trip < max_trips && condition(state); ++trip) state = body(state);
    return state;
  }
};
static_assert(FormulaOps<ScalarOps>);

}  // namespace krafla
