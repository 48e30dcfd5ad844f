// SPDX-License-Identifier: Apache-2.0
// The Ops of numerics/ops_concept.h whose values are SPIR-V ids: to run a formula is to emit its instructions. Works on
// scalars and vectors alike.
#pragma once

#include <array>

#include "numerics/ops_concept.h"
#include "spirv/unified1/GLSL.std.450.h"
#include "spirv_codegen/float_ops.h"

namespace krafla::spirv {

struct SpirvOps {
  struct F {
    Value v;
  };
  struct I {
    Value v;
  };
  struct B {
    Value v;
  };

  Builder& b;
  int width = 1;  // of the widest operand of the formula

  F Const(float x) const { return {b.F32(x)}; }
  I ConstI(uint32_t x) const { return {b.U32(x)}; }

  F Add(F x, F y) const { return {b.FAdd(x.v, y.v)}; }
  F Sub(F x, F y) const { return {b.FSub(x.v, y.v)}; }
  F Mul(F x, F y) const { return {b.FMul(x.v, y.v)}; }
  F Div(F x, F y) const { return {DivideFloat(b, x.v, y.v)}; }
  F Sqrt(F x) const { return {SqrtFloat(b, x.v)}; }
  F Neg(F x) const { return FromBits({b.Xor(Bits(x).v, b.U32(0x80000000u))}); }
  F Abs(F x) const { return FromBits({b.And(Bits(x).v, b.U32(0x7fffffffu))}); }
  // From 2^23 on a float is an integer already; GLSL.std.450 promises nothing for infinities and NaN.
  F Floor(F x) const { return Rounded(GLSLstd450Floor, x); }
  F RoundEven(F x) const { return Rounded(GLSLstd450RoundEven, x); }
  F Trunc(F x) const { return Rounded(GLSLstd450Trunc, x); }

  B Lt(F x, F y) const { return {b.FCompare(FCmp::kLt, x.v, y.v)}; }
  B Le(F x, F y) const { return {b.FCompare(FCmp::kLe, x.v, y.v)}; }
  B Gt(F x, F y) const { return {b.FCompare(FCmp::kGt, x.v, y.v)}; }
  B Ge(F x, F y) const { return {b.FCompare(FCmp::kGe, x.v, y.v)}; }
  B Eq(F x, F y) const { return {b.FCompare(FCmp::kEq, x.v, y.v)}; }
  B Ne(F x, F y) const { return {b.FCompare(FCmp::kNeUnordered, x.v, y.v)}; }

  I Bits(F x) const { return {b.Bitcast(x.v, Kind::kU32)}; }
  F FromBits(I x) const { return {b.Bitcast(x.v, Kind::kF32)}; }
  I ToIntS(F x) const { return {b.FToS(x.v, Kind::kU32)}; }
  I ToIntU(F x) const { return {b.FToU(x.v, Kind::kU32)}; }
  F FromIntS(I x) const { return {b.SToF(x.v, Kind::kF32)}; }
  F FromIntU(I x) const { return {b.UToF(x.v, Kind::kF32)}; }

  I IAdd(I x, I y) const { return {b.Add(x.v, y.v)}; }
  I ISub(I x, I y) const { return {b.Sub(x.v, y.v)}; }
  I IMul(I x, I y) const { return {b.Mul(x.v, y.v)}; }
  I UMulHi(I x, I y) const { return {b.UMulHi(x.v, y.v)}; }
  I And(I x, I y) const { return {b.And(x.v, y.v)}; }
  I Or(I x, I y) const { return {b.Or(x.v, y.v)}; }
  I Xor(I x, I y) const { return {b.Xor(x.v, y.v)}; }
  I Not(I x) const { return {b.Not(x.v)}; }
  I Shl(I x, I y) const { return {b.Shl(x.v, y.v)}; }
  I Shr(I x, I y) const { return {b.Shr(x.v, y.v)}; }
  I Sar(I x, I y) const { return {b.Sar(x.v, y.v)}; }
  I UDiv(I x, I y) const { return {b.UDiv(x.v, y.v)}; }
  I SDiv(I x, I y) const { return {b.SDiv(x.v, y.v)}; }

  B IEq(I x, I y) const { return {b.Compare(Cmp::kEq, x.v, y.v)}; }
  B INe(I x, I y) const { return {b.Compare(Cmp::kNe, x.v, y.v)}; }
  B ULt(I x, I y) const { return {b.Compare(Cmp::kULt, x.v, y.v)}; }
  B ULe(I x, I y) const { return {b.Compare(Cmp::kULe, x.v, y.v)}; }
  B SLt(I x, I y) const { return {b.Compare(Cmp::kSLt, x.v, y.v)}; }
  B SLe(I x, I y) const { return {b.Compare(Cmp::kSLe, x.v, y.v)}; }

  B BAnd(B x, B y) const { return {b.LAnd(x.v, y.v)}; }
  B BOr(B x, B y) const { return {b.LOr(x.v, y.v)}; }
  B BNot(B x) const { return {b.LNot(x.v)}; }
  F Select(B c, F x, F y) const { return {b.Select(c.v, x.v, y.v)}; }
  I SelectI(B c, I x, I y) const { return {b.Select(c.v, x.v, y.v)}; }

  template <std::size_t N, class Body>
  std::array<I, N> When(B condition, const std::array<I, N>& state, Body body) const {
    const Values out = b.If(
        b.Any(condition.v), [&] { return Pack(Blend(condition, body(state), state)); }, [&] { return Pack(state); });
    return Unpack<N>(out);
  }
  template <std::size_t N, class Condition, class Body>
  std::array<I, N> Loop(int max_trips, std::array<I, N> state, Condition condition, Body body) const {
    Values initial = Pack(state);
    initial.push_back(b.U32(0));
    Values out = b.While(
        initial,
        [&](const Values& v) {
          const Value trips = b.Compare(Cmp::kULt, v.back(), b.U32(static_cast<uint32_t>(max_trips)));
          return b.LAnd(b.Any(condition(Unpack<N>(v)).v), trips);
        },
        [&](const Values& v) {
          const auto current = Unpack<N>(v);
          Values next = Pack(Blend(condition(current), body(current), current));
          next.push_back(b.Add(v.back(), b.U32(1)));
          return next;
        });
    return Unpack<N>(out);
  }

 private:
  F Rounded(uint32_t instruction, F x) const {
    const Value rounded = b.Glsl(instruction, {x.v}, Kind::kF32, x.v.width);
    return Select(Lt(Abs(x), Const(0x1p23f)), F{rounded}, x);
  }
  template <std::size_t N>
  Values Pack(const std::array<I, N>& state) const {
    Values out;
    for (const I& i : state) out.push_back(b.Splat(i.v, width));
    return out;
  }
  template <std::size_t N>
  static std::array<I, N> Unpack(const Values& v) {
    std::array<I, N> out;
    for (std::size_t i = 0; i < N; ++i) out[i] = {v[i]};
    return out;
  }
  // Scalars need no select, because the branch has chosen.
  template <std::size_t N>
  std::array<I, N> Blend(B condition, const std::array<I, N>& a, const std::array<I, N>& otherwise) const {
    if (condition.v.width == 1) return a;
    std::array<I, N> out;
    for (std::size_t i = 0; i < N; ++i) out[i] = SelectI(condition, a[i], otherwise[i]);
    return out;
  }
};
static_assert(FormulaOps<SpirvOps>);

}  // namespace krafla::spirv
