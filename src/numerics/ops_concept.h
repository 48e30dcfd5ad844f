// SPDX-License-Identifier: Apache-2.0
// The Ops concept: the machine that formulas are written for. One template gives the CPU its numbers (ScalarOps, or
// a vector type) and the GPU its instructions (values are SPIR-V ids, operations emit them).
//
// THE PROMISE. With these operations in the order in which a formula performs them, every device gives the same bits
// for normal inputs with normal results. What an implementation owes for it:
//   - F is IEEE binary32. Add Sub Mul Div Sqrt round to nearest even and are never fused or reassociated. Div and Sqrt
//     owe that only for normal operands and normal results (formulas_exact.h makes both from inexact native ones).
//   - Infinities, NaN and signed zeros are honoured by Add Sub Mul Div and the comparisons. Sqrt of a negative number
//     other than zero is NaN. The payload and the sign of a NaN are free.
//   - Subnormal operands and results may be replaced by a zero of the same sign, anywhere, except by operations on I
//     and by Bits, FromBits, Select, SelectI, Neg and Abs, which never change bits.
//
// Types
//   F   a 32-bit float value          I   32 bits, arithmetic modulo 2^32          B   a truth value
// Constants
//   F Const(float)      I ConstI(uint32_t)
// On F
//   F Add Sub Mul Div (F, F)    F Sqrt(F)    F Neg Abs (F): the sign bit only
//   F Floor RoundEven Trunc (F): exact for every finite operand; the sign of a zero result is free
//   B Lt Le Gt Ge Eq (F, F): false if an operand is NaN;  Ne (F, F): true then
// Between F and I
//   I Bits(F)   F FromBits(I)
//   I ToIntS(F): truncates; the operand is in [-2^31, 2^31)     I ToIntU(F): the same for [0, 2^32)
//   F FromIntS(I)   F FromIntU(I): formulas use them only where the result is exact, or say so
// On I
//   I IAdd ISub IMul UMulHi And Or Xor (I, I)    I Not(I)
//   I Shl Shr Sar (I, I): the amount is below 32
//   I UDiv SDiv (I, I): the divisor is not zero, and not -1 under the smallest number; SDiv truncates
//   B IEq INe ULt ULe SLt SLe (I, I)
// On B
//   B BAnd BOr (B, B)    B BNot(B)    F Select(B, F, F)    I SelectI(B, I, I): both sides are always computed
// Control. State is words, so that a phi per word (or a masked blend) is all it takes; a float travels as its bits.
//   std::array<I, N> When(B condition, std::array<I, N> state, body): body(state) where the condition holds, else
//       state. For code that is worth skipping; computing body always and selecting is a correct implementation.
//   std::array<I, N> Loop(int max_trips, std::array<I, N> state, condition, body): while (condition(state), at most
//       max_trips times) state = body(state). A lane whose condition is false keeps its state.
//   The callables take const std::array<I, N>&; condition returns B.
//
// Formulas use no branch on a value, no table in memory, no short circuit.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>

namespace krafla {

template <class Ops>
concept FormulaOps = requires(const Ops& o, typename Ops::F f, typename Ops::I i, typename Ops::B b) {
  { o.Const(1.0f) } -> std::same_as<typename Ops::F>;
  { o.ConstI(uint32_t{1}) } -> std::same_as<typename Ops::I>;
  { o.Add(f, f) } -> std::same_as<typename Ops::F>;
  { o.Sub(f, f) } -> std::same_as<typename Ops::F>;
  { o.Mul(f, f) } -> std::same_as<typename Ops::F>;
  { o.Div(f, f) } -> std::same_as<typename Ops::F>;
  { o.Sqrt(f) } -> std::same_as<typename Ops::F>;
  { o.Neg(f) } -> std::same_as<typename Ops::F>;
  { o.Abs(f) } -> std::same_as<typename Ops::F>;
  { o.Floor(f) } -> std::same_as<typename Ops::F>;
  { o.RoundEven(f) } -> std::same_as<typename Ops::F>;
  { o.Trunc(f) } -> std::same_as<typename Ops::F>;
  { o.Lt(f, f) } -> std::same_as<typename Ops::B>;
  { o.Le(f, f) } -> std::same_as<typename Ops::B>;
  { o.Gt(f, f) } -> std::same_as<typename Ops::B>;
  { o.Ge(f, f) } -> std::same_as<typename Ops::B>;
  { o.Eq(f, f) } -> std::same_as<typename Ops::B>;
  { o.Ne(f, f) } -> std::same_as<typename Ops::B>;
  { o.Bits(f) } -> std::same_as<typename Ops::I>;
  { o.FromBits(i) } -> std::same_as<typename Ops::F>;
  { o.ToIntS(f) } -> std::same_as<typename Ops::I>;
  { o.ToIntU(f) } -> std::same_as<typename Ops::I>;
  { o.FromIntS(i) } -> std::same_as<typename Ops::F>;
  { o.FromIntU(i) } -> std::same_as<typename Ops::F>;
  { o.IAdd(i, i) } -> std::same_as<typename Ops::I>;
  { o.ISub(i, i) } -> std::same_as<typename Ops::I>;
  { o.IMul(i, i) } -> std::same_as<typename Ops::I>;
  { o.UMulHi(i, i) } -> std::same_as<typename Ops::I>;
  { o.And(i, i) } -> std::same_as<typename Ops::I>;
  { o.Or(i, i) } -> std::same_as<typename Ops::I>;
  { o.Xor(i, i) } -> std::same_as<typename Ops::I>;
  { o.Not(i) } -> std::same_as<typename Ops::I>;
  { o.Shl(i, i) } -> std::same_as<typename Ops::I>;
  { o.Shr(i, i) } -> std::same_as<typename Ops::I>;
  { o.Sar(i, i) } -> std::same_as<typename Ops::I>;
  { o.UDiv(i, i) } -> std::same_as<typename Ops::I>;
  { o.SDiv(i, i) } -> std::same_as<typename Ops::I>;
  { o.IEq(i, i) } -> std::same_as<typename Ops::B>;
  { o.INe(i, i) } -> std::same_as<typename Ops::B>;
  { o.ULt(i, i) } -> std::same_as<typename Ops::B>;
  { o.ULe(i, i) } -> std::same_as<typename Ops::B>;
  { o.SLt(i, i) } -> std::same_as<typename Ops::B>;
  { o.SLe(i, i) } -> std::same_as<typename Ops::B>;
  { o.BAnd(b, b) } -> std::same_as<typename Ops::B>;
  { o.BOr(b, b) } -> std::same_as<typename Ops::B>;
  { o.BNot(b) } -> std::same_as<typename Ops::B>;
  { o.Select(b, f, f) } -> std::same_as<typename Ops::F>;
  { o.SelectI(b, i, i) } -> std::same_as<typename Ops::I>;
};

}  // namespace krafla
