// SPDX-License-Identifier: Apache-2.0
// The Ops of numerics/ops_concept.h and of numerics/f64_ops.h that record lane operations. What a formula does only
// where some lane asks for it becomes a region; formulas with loops are not recorded (`is_complete` is false then).
#pragma once

#include <array>
#include <bit>

#include "cpu_fallback/native/lane_builder.h"
#include "cpu_fallback/native/native_code.h"
#include "numerics/f64_ops.h"

namespace krafla::cpu::native {

struct LaneWords {
  struct F {
    int id = -1;
  };
  struct I {
    int id = -1;
  };
  struct B {
    int id = -1;
  };
  LaneBuilder* builder = nullptr;
  bool* is_complete = nullptr;

  int Do(LaneOp op, ElementType type, int a, int b = -1, int c = -1) const { return builder->Add(op, type, a, b, c); }

  B BAnd(B a, B b) const { return {Do(LaneOp::kAnd, ElementType::kPred, a.id, b.id)}; }
  B BOr(B a, B b) const { return {Do(LaneOp::kOr, ElementType::kPred, a.id, b.id)}; }
  B BNot(B a) const { return {Do(LaneOp::kNot, ElementType::kPred, a.id)}; }
  F Select(B c, F a, F b) const { return {builder->Select(c.id, a.id, b.id)}; }
  I SelectI(B c, I a, I b) const { return {builder->Select(c.id, a.id, b.id)}; }

  template <std::size_t N, class Body>
  std::array<I, N> When(B condition, const std::array<I, N>& state, Body body) const {
    builder->BeginRegion(condition.id);
    const std::array<I, N> taken = body(state);
    std::array<int, N> a, b, phis;
    for (std::size_t i = 0; i < N; ++i) a[i] = taken[i].id, b[i] = state[i].id;
    builder->EndRegion(a, b, phis);
    std::array<I, N> out;
    for (std::size_t i = 0; i < N; ++i) out[i] = {phis[i]};
    return out;
  }
  template <std::size_t N, class Condition, class Body>
  std::array<I, N> Loop(int, const std::array<I, N>& state, Condition, Body) const {
    *is_complete = false;
    return state;
  }
};

// What f32 formulas with words of 32 bits and f64 formulas with words in lanes of 64 bits have in common.
template <ElementType kNumber, ElementType kUnsigned, ElementType kSigned>
struct LaneNumbers : LaneWords {
  static constexpr ElementType kF = kNumber, kU = kUnsigned, kS = kSigned;

  I ConstI(uint32_t x) const { return {builder->Constant(kU, x)}; }

  F Add(F a, F b) const { return {Do(LaneOp::kAdd, kF, a.id, b.id)}; }
  F Sub(F a, F b) const { return {Do(LaneOp::kSub, kF, a.id, b.id)}; }
  F Mul(F a, F b) const { return {Do(LaneOp::kMul, kF, a.id, b.id)}; }
  F Div(F a, F b) const { return {Do(LaneOp::kDiv, kF, a.id, b.id)}; }
  F Sqrt(F a) const { return {Do(LaneOp::kSqrt, kF, a.id)}; }
  F Neg(F a) const { return {Do(LaneOp::kNeg, kF, a.id)}; }
  F Abs(F a) const { return {Do(LaneOp::kAbs, kF, a.id)}; }

  B Lt(F a, F b) const { return {builder->Compare(LaneOp::kLt, a.id, b.id)}; }
  B Le(F a, F b) const { return {builder->Compare(LaneOp::kLe, a.id, b.id)}; }
  B Gt(F a, F b) const { return {builder->Compare(LaneOp::kLt, b.id, a.id)}; }
  B Ge(F a, F b) const { return {builder->Compare(LaneOp::kLe, b.id, a.id)}; }
  B Eq(F a, F b) const { return {builder->Compare(LaneOp::kEq, a.id, b.id)}; }
  B Ne(F a, F b) const { return {builder->Compare(LaneOp::kNe, a.id, b.id)}; }

  I And(I a, I b) const { return {Do(LaneOp::kAnd, kU, a.id, b.id)}; }
  I Or(I a, I b) const { return {Do(LaneOp::kOr, kU, a.id, b.id)}; }
  I Xor(I a, I b) const { return {Do(LaneOp::kXor, kU, a.id, b.id)}; }
  I Shr(I a, I b) const { return {Do(LaneOp::kShr, kU, a.id, b.id)}; }

  B IEq(I a, I b) const { return {builder->Compare(LaneOp::kEq, a.id, b.id)}; }
  B INe(I a, I b) const { return {builder->Compare(LaneOp::kNe, a.id, b.id)}; }
  B ULt(I a, I b) const { return {builder->Compare(LaneOp::kLt, a.id, b.id)}; }
  B ULe(I a, I b) const { return {builder->Compare(LaneOp::kLe, a.id, b.id)}; }
};

struct LaneOps : LaneNumbers<ElementType::kF32, ElementType::kU32, ElementType::kS32> {
  F Const(float x) const { return {builder->Constant(kF, std::bit_cast<uint32_t>(x))}; }

  F Floor(F a) const { return {Do(LaneOp::kFloor, kF, a.id)}; }
  F RoundEven(F a) const { return {Do(LaneOp::kRoundEven, kF, a.id)}; }
  F Trunc(F a) const { return {Do(LaneOp::kTrunc, kF, a.id)}; }

  I Bits(F a) const { return {builder->Bitcast(a.id, kU)}; }
  F FromBits(I a) const { return {builder->Bitcast(a.id, kF)}; }
  I ToIntS(F a) const { return {builder->Bitcast(Do(LaneOp::kTruncateToInt, kS, a.id), kU)}; }
  I ToIntU(F a) const { return {Do(LaneOp::kTruncateToInt, kU, a.id)}; }
  F FromIntS(I a) const { return {Do(LaneOp::kIntToFloat, kF, Signed(a))}; }
  F FromIntU(I a) const { return {Do(LaneOp::kIntToFloat, kF, a.id)}; }

  I IAdd(I a, I b) const { return {Do(LaneOp::kAdd, kU, a.id, b.id)}; }
  I ISub(I a, I b) const { return {Do(LaneOp::kSub, kU, a.id, b.id)}; }
  I IMul(I a, I b) const { return {Do(LaneOp::kMul, kU, a.id, b.id)}; }
  I UMulHi(I a, I b) const { return {Do(LaneOp::kMulHigh, kU, a.id, b.id)}; }
  I Not(I a) const { return {Do(LaneOp::kNot, kU, a.id)}; }
  I Shl(I a, I b) const { return {Do(LaneOp::kShl, kU, a.id, b.id)}; }
  I Sar(I a, I b) const { return {Do(LaneOp::kSar, kU, a.id, b.id)}; }
  I UDiv(I a, I b) const { return {Do(LaneOp::kDiv, kU, a.id, b.id)}; }
  I SDiv(I a, I b) const { return {builder->Bitcast(Do(LaneOp::kDiv, kS, Signed(a), Signed(b)), kU)}; }

  B SLt(I a, I b) const { return {builder->Compare(LaneOp::kLt, Signed(a), Signed(b))}; }
  B SLe(I a, I b) const { return {builder->Compare(LaneOp::kLe, Signed(a), Signed(b))}; }

 private:
  int Signed(I a) const { return builder->Bitcast(a.id, kS); }
};

// A word is a u64 lane whose upper half is zero.
struct LaneF64Ops : LaneNumbers<ElementType::kF64, ElementType::kU64, ElementType::kS64> {
  F Const(double x) const { return {builder->Constant(kF, std::bit_cast<uint64_t>(x))}; }

  I High(F a) const { return {Do(LaneOp::kShr, kU, Bits(a), K(32))}; }
  I Low(F a) const { return Word(Bits(a)); }
  F Join(I low, I high) const {
    const int bits = Do(LaneOp::kOr, kU, Do(LaneOp::kShl, kU, high.id, K(32)), low.id);
    return {builder->Bitcast(bits, kF)};
  }
  F FromIntU(I a) const { return {Do(LaneOp::kIntToFloat, kF, builder->Bitcast(a.id, kS))}; }
  F Scale(F x, I n) const {
    return {Do(LaneOp::kScale, kF, x.id, HasAvx512Code() ? Extended(n) : builder->Bitcast(n.id, kS))};
  }
  F WithSign(F x, F from) const {
    const int sign = Do(LaneOp::kAnd, kU, Bits(from), K(uint64_t{1} << 63));
    return {builder->Bitcast(Do(LaneOp::kOr, kU, Bits(x), sign), kF)};
  }

  I IAdd(I a, I b) const { return Word(Do(LaneOp::kAdd, kU, a.id, b.id)); }
  I ISub(I a, I b) const { return Word(Do(LaneOp::kSub, kU, a.id, b.id)); }
  I IMul(I a, I b) const { return Word(Product(a, b)); }
  I UMulHi(I a, I b) const { return {Do(LaneOp::kShr, kU, Product(a, b), K(32))}; }
  I Not(I a) const { return Word(Do(LaneOp::kNot, kU, a.id)); }
  I Shl(I a, I b) const { return Word(Do(LaneOp::kShl, kU, a.id, b.id)); }
  I Sar(I a, I b) const {
    return Word(builder->Bitcast(Do(LaneOp::kSar, kS, Extended(a), builder->Bitcast(b.id, kS)), kU));
  }

  B SLt(I a, I b) const { return {builder->Compare(LaneOp::kLt, Extended(a), Extended(b))}; }
  B SLe(I a, I b) const { return {builder->Compare(LaneOp::kLe, Extended(a), Extended(b))}; }

 private:
  int K(uint64_t bits) const { return builder->Constant(kU, bits); }
  int Bits(F a) const { return builder->Bitcast(a.id, kU); }
  I Word(int a) const { return {Do(LaneOp::kAnd, kU, a, K(0xffffffffu))}; }
  int Product(I a, I b) const { return Do(LaneOp::kMulLow32, kU, a.id, b.id); }
  int Extended(I a) const {
    const int sign = builder->Constant(kS, 0x80000000u);
    return Do(LaneOp::kSub, kS, Do(LaneOp::kXor, kS, builder->Bitcast(a.id, kS), sign), sign);
  }
};

}  // namespace krafla::cpu::native
