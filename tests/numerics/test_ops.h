// SPDX-License-Identifier: Apache-2.0
// Test only: an Ops whose types have no operators, so that a formula that compiles uses nothing but the concept. It
// counts operations, can treat subnormals as zero in every float operation, and checks the preconditions of
// ops_concept.h.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>

#include "numerics/scalar_ops.h"

namespace krafla {

class TestOps {
 public:
  struct F {
    float v = 0;
  };
  struct I {
    uint32_t v = 0;
  };
  struct B {
    bool v = false;
  };

  explicit TestOps(bool flush = false) : flush_(flush) {}
  int count() const { return count_; }
  int divisions() const { return divisions_; }
  bool broke_a_precondition() const { return broken_; }

  F Const(float x) const { return {x}; }
  I ConstI(uint32_t x) const { return {x}; }

  F Add(F a, F b) const { return Float(In(a) + In(b)); }
  F Sub(F a, F b) const { return Float(In(a) - In(b)); }
  F Mul(F a, F b) const { return Float(In(a) * In(b)); }
  F Div(F a, F b) const {
    ++divisions_;
    return Float(In(a) / In(b));
  }
  F Sqrt(F a) const {
    ++divisions_;
    return Float(std::sqrt(In(a)));
  }
  F Neg(F a) const { return Same(ScalarOps::Neg(a.v)); }
  F Abs(F a) const { return Same(ScalarOps::Abs(a.v)); }
  // The sign of a zero result is free: the wrong one is given.
  F Floor(F a) const { return WrongZero(std::floor(In(a))); }
  F RoundEven(F a) const { return WrongZero(std::nearbyint(In(a))); }
  F Trunc(F a) const { return WrongZero(std::trunc(In(a))); }

  B Lt(F a, F b) const { return Bool(In(a) < In(b)); }
  B Le(F a, F b) const { return Bool(In(a) <= In(b)); }
  B Gt(F a, F b) const { return Bool(In(a) > In(b)); }
  B Ge(F a, F b) const { return Bool(In(a) >= In(b)); }
  B Eq(F a, F b) const { return Bool(In(a) == In(b)); }
  B Ne(F a, F b) const { return Bool(In(a) != In(b)); }

  I Bits(F a) const { return {ScalarOps::Bits(a.v)}; }
  F FromBits(I a) const { return {ScalarOps::FromBits(a.v)}; }
  I ToIntS(F a) const {
    Require(a.v >= -0x1p31f && a.v < 0x1p31f);
    return Int(a.v >= -0x1p31f && a.v < 0x1p31f ? ScalarOps::ToIntS(a.v) : 0xdeadbeefu);
  }
  I ToIntU(F a) const {
    Require(a.v >= 0 && a.v < 0x1p32f);
    return Int(a.v >= 0 && a.v < 0x1p32f ? ScalarOps::ToIntU(a.v) : 0xdeadbeefu);
  }
  F FromIntS(I a) const {
    Require(static_cast<double>(static_cast<int32_t>(a.v)) == static_cast<double>(ScalarOps::FromIntS(a.v)));
    return Float(ScalarOps::FromIntS(a.v));
  }
  F FromIntU(I a) const {
    Require(static_cast<double>(a.v) == static_cast<double>(ScalarOps::FromIntU(a.v)));
    return Float(ScalarOps::FromIntU(a.v));
  }

  I IAdd(I a, I b) const { return Int(a.v + b.v); }
  I ISub(I a, I b) const { return Int(a.v - b.v); }
  I IMul(I a, I b) const { return Int(a.v * b.v); }
  I UMulHi(I a, I b) const { return Int(ScalarOps::UMulHi(a.v, b.v)); }
  I And(I a, I b) const { return Int(a.v & b.v); }
  I Or(I a, I b) const { return Int(a.v | b.v); }
  I Xor(I a, I b) const { return Int(a.v ^ b.v); }
  I Not(I a) const { return Int(~a.v); }
  I Shl(I a, I b) const { return Int(Require(b.v < 32) ? a.v << b.v : 0xdeadbeefu); }
  I Shr(I a, I b) const { return Int(Require(b.v < 32) ? a.v >> b.v : 0xdeadbeefu); }
  I Sar(I a, I b) const { return Int(Require(b.v < 32) ? ScalarOps::Sar(a.v, b.v) : 0xdeadbeefu); }
  I UDiv(I a, I b) const { return Int(Require(b.v != 0) ? a.v / b.v : 0xdeadbeefu); }
  I SDiv(I a, I b) const {
    const bool fine = Require(b.v != 0 && !(a.v == 0x80000000u && b.v == 0xffffffffu));
    return Int(fine ? ScalarOps::SDiv(a.v, b.v) : 0xdeadbeefu);
  }

  B IEq(I a, I b) const { return Bool(a.v == b.v); }
  B INe(I a, I b) const { return Bool(a.v != b.v); }
  B ULt(I a, I b) const { return Bool(a.v < b.v); }
  B ULe(I a, I b) const { return Bool(a.v <= b.v); }
  B SLt(I a, I b) const { return Bool(ScalarOps::SLt(a.v, b.v)); }
  B SLe(I a, I b) const { return Bool(ScalarOps::SLe(a.v, b.v)); }
  B BAnd(B a, B b) const { return Bool(a.v && b.v); }
  B BOr(B a, B b) const { return Bool(a.v || b.v); }
  B BNot(B a) const { return Bool(!a.v); }
  F Select(B c, F a, F b) const { return Same(c.v ? a.v : b.v); }
  I SelectI(B c, I a, I b) const { return Int(c.v ? a.v : b.v); }

  template <std::size_t N, class Body>
  std::array<I, N> When(B condition, const std::array<I, N>& state, Body body) const {
    return condition.v ? body(state) : state;
  }
  template <std::size_t N, class Condition, class Body>
  std::array<I, N> Loop(int max_trips, std::array<I, N> state, Condition condition, Body body) const {
    int trips = 0;
    while (condition(state).v) {
      if (!Require(trips++ < max_trips)) break;
      state = body(state);
    }
    return state;
  }

 private:
  static bool Subnormal(float x) { return x != 0 && std::abs(x) < 0x1p-126f; }
  float In(F a) const { return flush_ && Subnormal(a.v) ? std::copysign(0.0f, a.v) : a.v; }
  F Float(float x) const {
    ++count_;
    return {flush_ && Subnormal(x) ? std::copysign(0.0f, x) : x};
  }
  F WrongZero(float x) const {
    ++count_;
    return {x == 0 ? -x : x};
  }
  F Same(float x) const {
    ++count_;
    return {x};
  }
  I Int(uint32_t x) const {
    ++count_;
    return {x};
  }
  B Bool(bool x) const {
    ++count_;
    return {x};
  }
  bool Require(bool condition) const {
    broken_ = broken_ || !condition;
    return condition;
  }

  bool flush_ = false;
  mutable int count_ = 0;
  mutable int divisions_ = 0;
  mutable bool broken_ = false;
};
static_assert(FormulaOps<TestOps>);

}  // namespace krafla
