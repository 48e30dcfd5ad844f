// SPDX-License-Identifier: Apache-2.0
// What AVX-512 has for each operation on lanes.
#ifdef KRAFLA_HAVE_JIT

#include "cpu_fallback/native/x86_avx512.h"

namespace krafla::cpu::native {

void Avx512Emitter::EmitNode(int id) {
  const LaneNode& n = At(id);
  const int width = WidthOf(n.type);
  const bool is_float = IsFloat(n.type), is_double = n.type == ElementType::kF64, is_signed = IsSigned(n.type);
  if (n.op >= LaneOp::kFixedLoad) return EmitPlaceOp(id);
  if (n.type == ElementType::kPred && n.op != LaneOp::kLoad && n.op != LaneOp::kGather && n.op != LaneOp::kUniform &&
      n.op != LaneOp::kRow && n.op != LaneOp::kConstant && (n.op < LaneOp::kEq || n.op > LaneOp::kLe))
    return EmitMaskOp(id);
  switch (n.op) {
    case LaneOp::kConstant:
    case LaneOp::kUniform:
    case LaneOp::kRow:
    case LaneOp::kPhi: return;
    case LaneOp::kRamp: {
      if (vector_ == 0 || IsLevel(n)) return;
      const x86::Vec v = NewVector(4);
      const auto ahead = static_cast<uint32_t>(n.bits) * static_cast<uint32_t>(Ahead());
      Emit(Inst::kIdVpaddd, v, values_[0][static_cast<std::size_t>(id)].v, BroadcastConstant(ahead, 4));
      return Set(id, v);
    }
    case LaneOp::kLoad: return EmitLoad(id);
    case LaneOp::kGather: return EmitGather(id);
    case LaneOp::kAdd:
      if (is_float) return Binary(id, OfFloats(width, Inst::kIdVaddph, Inst::kIdVaddps, Inst::kIdVaddpd), true);
      return Binary(id, OfWidth(width, Inst::kIdVpaddb, Inst::kIdVpaddw, Inst::kIdVpaddd, Inst::kIdVpaddq), true);
    case LaneOp::kSub:
      if (is_float) return Binary(id, OfFloats(width, Inst::kIdVsubph, Inst::kIdVsubps, Inst::kIdVsubpd), false);
      return Binary(id, OfWidth(width, Inst::kIdVpsubb, Inst::kIdVpsubw, Inst::kIdVpsubd, Inst::kIdVpsubq), false);
    case LaneOp::kMul:
      if (is_float) return Binary(id, OfFloats(width, Inst::kIdVmulph, Inst::kIdVmulps, Inst::kIdVmulpd), true);
      if (width == 1) return EmitMulBytes(id);
      // The longer product of one number is there in half the time.
      if (width == 4 && lanes_ == 1) return Binary(id, Inst::kIdVpmuludq, true);
      return Binary(id, OfWidth(width, 0, Inst::kIdVpmullw, Inst::kIdVpmulld, Inst::kIdVpmullq), true);
    case LaneOp::kDiv:
      if (is_float) return Binary(id, OfFloats(width, Inst::kIdVdivph, Inst::kIdVdivps, Inst::kIdVdivpd), false);
      return EmitDivide(id);
    case LaneOp::kQuotient: return EmitQuotient(id);
    case LaneOp::kMin:
      if (is_float) return EmitExtremum(id);
      return Binary(id,
                    is_signed ? OfWidth(width, Inst::kIdVpminsb, Inst::kIdVpminsw, Inst::kIdVpminsd, Inst::kIdVpminsq)
                              : OfWidth(width, Inst::kIdVpminub, Inst::kIdVpminuw, Inst::kIdVpminud, Inst::kIdVpminuq),
                    true);
    case LaneOp::kMax:
      if (is_float) return EmitExtremum(id);
      return Binary(id,
                    is_signed ? OfWidth(width, Inst::kIdVpmaxsb, Inst::kIdVpmaxsw, Inst::kIdVpmaxsd, Inst::kIdVpmaxsq)
                              : OfWidth(width, Inst::kIdVpmaxub, Inst::kIdVpmaxuw, Inst::kIdVpmaxud, Inst::kIdVpmaxuq),
                    true);
    case LaneOp::kGreater: return Binary(id, is_double ? Inst::kIdVmaxpd : Inst::kIdVmaxps, false);
    case LaneOp::kLesser: return Binary(id, is_double ? Inst::kIdVminpd : Inst::kIdVminps, false);
    case LaneOp::kSqrt: return Unary(id, OfFloats(width, Inst::kIdVsqrtph, Inst::kIdVsqrtps, Inst::kIdVsqrtpd));
    case LaneOp::kNeg:
      return WithConstant(id, is_double ? Inst::kIdVpxorq : Inst::kIdVpxord,
                          is_double ? uint64_t{1} << 63 : uint64_t{1} << 31);
    case LaneOp::kAbs:
      if (is_float)
        return WithConstant(id, is_double ? Inst::kIdVpandq : Inst::kIdVpandd,
                            is_double ? ~uint64_t{0} >> 1 : 0x7fffffffu);
      return Unary(id, OfWidth(width, Inst::kIdVpabsb, Inst::kIdVpabsw, Inst::kIdVpabsd, Inst::kIdVpabsq));
    case LaneOp::kRoundEven: return UnaryWith(id, is_double ? Inst::kIdVrndscalepd : Inst::kIdVrndscaleps, 8);
    case LaneOp::kFloor: return UnaryWith(id, is_double ? Inst::kIdVrndscalepd : Inst::kIdVrndscaleps, 9);
    case LaneOp::kCeil: return UnaryWith(id, is_double ? Inst::kIdVrndscalepd : Inst::kIdVrndscaleps, 10);
    case LaneOp::kTrunc: return UnaryWith(id, is_double ? Inst::kIdVrndscalepd : Inst::kIdVrndscaleps, 11);
    case LaneOp::kAnd: return Binary(id, width == 8 ? Inst::kIdVpandq : Inst::kIdVpandd, true);
    case LaneOp::kOr: return Binary(id, width == 8 ? Inst::kIdVporq : Inst::kIdVpord, true);
    case LaneOp::kXor: return Binary(id, width == 8 ? Inst::kIdVpxorq : Inst::kIdVpxord, true);
    case LaneOp::kNot: {
      const x86::Vec v = NewOf(n.type), a = Register(n.a);
      Emit(Inst::kIdVpternlogd, v, a, a, Imm(0x55));
      return Set(id, v);
    }
    case LaneOp::kShl:
    case LaneOp::kShr:
    case LaneOp::kSar: return EmitShift(id);
    case LaneOp::kMulHigh: return EmitMulHigh(id);
    case LaneOp::kMulLow32: return Binary(id, Inst::kIdVpmuludq, true);
    case LaneOp::kScale: {
      const x86::Vec power = NewVector(8), v = NewOf(n.type);
      Emit(Inst::kIdVcvtqq2pd, power, Register(n.b));
      Emit(Inst::kIdVscalefpd, v, Register(n.a), power);
      return Set(id, v);
    }
    case LaneOp::kPopcount: return Unary(id, width == 8 ? Inst::kIdVpopcntq : Inst::kIdVpopcntd);
    case LaneOp::kClz: return Unary(id, width == 8 ? Inst::kIdVplzcntq : Inst::kIdVplzcntd);
    case LaneOp::kEq:
    case LaneOp::kNe:
    case LaneOp::kLt:
    case LaneOp::kLe: return EmitCompare(id);
    case LaneOp::kSelect: return EmitSelect(id);
    case LaneOp::kBitcast: return Set(id, Register(n.a));
    case LaneOp::kExtend:
    case LaneOp::kTruncate:
    case LaneOp::kIntToFloat:
    case LaneOp::kTruncateToInt:
    case LaneOp::kFloatToFloat:
    case LaneOp::kHalfToFloat:
    case LaneOp::kFloatToHalf: return EmitConversion(id);
    case LaneOp::kFloatToInt: return EmitFloatToInt(id);
    case LaneOp::kRoundToBf16: return EmitRoundToBf16(id);
    case LaneOp::kByteToFloat: return EmitByteToFloat(id);
    case LaneOp::kLookup: {
      const x86::Vec v = NewOf(n.type);
      // Of all sixteen entries, however many lanes there are.
      Emit(is_float ? Inst::kIdVpermps : Inst::kIdVpermd, v.zmm(), Register(n.a).zmm(), tables_[n.bits]);
      return Set(id, v);
    }
    case LaneOp::kSettle: {
      const x86::Vec a = Register(n.a), v = NewOf(n.type);
      const x86::KReg k = CompareFloats(width, FloatCompare::kUnordered, a, a);
      if (width == 2) Blend(v, k, width, a, LoadConstant(kF16Format.nan(), width));
      else Blend(v, k, width, a, BroadcastConstant(is_double ? kNanF64 : kNanF32, width));
      return Set(id, v);
    }
    case LaneOp::kFixedLoad:
    case LaneOp::kFixedStore:
    case LaneOp::kSpread:
    case LaneOp::kPick:
    case LaneOp::kPut:
    case LaneOp::kSequence:
    case LaneOp::kPermute: return;
  }
}

void Avx512Emitter::EmitMaskOp(int id) {
  const LaneNode& n = At(id);
  const x86::KReg k = cc_.newKq();
  switch (n.op) {
    case LaneOp::kAnd: Emit(Inst::kIdKandq, k, Mask(n.a), Mask(n.b)); break;
    case LaneOp::kOr: Emit(Inst::kIdKorq, k, Mask(n.a), Mask(n.b)); break;
    case LaneOp::kXor: Emit(Inst::kIdKxorq, k, Mask(n.a), Mask(n.b)); break;
    case LaneOp::kNot: Emit(Inst::kIdKnotq, k, Mask(n.a)); break;
    case LaneOp::kBitcast: return Set(id, Mask(n.a));
    case LaneOp::kSelect: {
      const x86::KReg no = cc_.newKq();
      Emit(Inst::kIdKandnq, no, Mask(n.a), Mask(n.c));
      Emit(Inst::kIdKandq, k, Mask(n.a), Mask(n.b));
      Emit(Inst::kIdKorq, k, k, no);
      break;
    }
    case LaneOp::kConstant:
    case LaneOp::kUniform:
    case LaneOp::kRow:
    case LaneOp::kLoad:
    case LaneOp::kRamp:
    case LaneOp::kGather:
    case LaneOp::kAdd:
    case LaneOp::kSub:
    case LaneOp::kMul:
    case LaneOp::kDiv:
    case LaneOp::kQuotient:
    case LaneOp::kMin:
    case LaneOp::kMax:
    case LaneOp::kGreater:
    case LaneOp::kLesser:
    case LaneOp::kSqrt:
    case LaneOp::kNeg:
    case LaneOp::kAbs:
    case LaneOp::kFloor:
    case LaneOp::kCeil:
    case LaneOp::kRoundEven:
    case LaneOp::kTrunc:
    case LaneOp::kShl:
    case LaneOp::kShr:
    case LaneOp::kSar:
    case LaneOp::kMulHigh:
    case LaneOp::kScale:
    case LaneOp::kMulLow32:
    case LaneOp::kPopcount:
    case LaneOp::kClz:
    case LaneOp::kEq:
    case LaneOp::kNe:
    case LaneOp::kLt:
    case LaneOp::kLe:
    case LaneOp::kExtend:
    case LaneOp::kTruncate:
    case LaneOp::kIntToFloat:
    case LaneOp::kFloatToInt:
    case LaneOp::kTruncateToInt:
    case LaneOp::kFloatToFloat:
    case LaneOp::kHalfToFloat:
    case LaneOp::kFloatToHalf:
    case LaneOp::kByteToFloat:
    case LaneOp::kRoundToBf16:
    case LaneOp::kLookup:
    case LaneOp::kSettle:
    case LaneOp::kPhi:
    case LaneOp::kFixedLoad:
    case LaneOp::kFixedStore:
    case LaneOp::kSpread:
    case LaneOp::kPick:
    case LaneOp::kPut:
    case LaneOp::kSequence:
    case LaneOp::kPermute: break;  // of no pred, or done by now
  }
  Set(id, k);
}

void Avx512Emitter::EmitCompare(int id) {
  const LaneNode& n = At(id);
  const ElementType type = TypeOf(n.a);
  const int width = WidthOf(type);
  if (IsFloat(type)) {
    FloatCompare how = n.op == LaneOp::kEq   ? FloatCompare::kEq
                       : n.op == LaneOp::kNe ? FloatCompare::kNe
                       : n.op == LaneOp::kLt ? FloatCompare::kLt
                                             : FloatCompare::kLe;
    int a = n.a, b = n.b;
    if (!ValueOf(a).is_set && ValueOf(b).is_set) {
      std::swap(a, b);
      if (how == FloatCompare::kLt) how = FloatCompare::kGt;
      else if (how == FloatCompare::kLe) how = FloatCompare::kGe;
    }
    return Set(id, CompareFloats(width, how, Register(a), RegisterOrMemory(b)));
  }
  const x86::KReg k = cc_.newKq();
  int how = n.op == LaneOp::kEq ? 0 : n.op == LaneOp::kNe ? 4 : n.op == LaneOp::kLt ? 1 : 2;
  const InstId op = IsSigned(type)
                        ? OfWidth(width, Inst::kIdVpcmpb, Inst::kIdVpcmpw, Inst::kIdVpcmpd, Inst::kIdVpcmpq)
                        : OfWidth(width, Inst::kIdVpcmpub, Inst::kIdVpcmpuw, Inst::kIdVpcmpud, Inst::kIdVpcmpuq);
  Emit(op, k, Register(n.a), RegisterOrMemory(n.b), Imm(how));
  Set(id, k);
}

// VRANGE takes -0 for smaller than +0.
void Avx512Emitter::EmitExtremum(int id) {
  const LaneNode& n = At(id);
  const int width = WidthOf(n.type);
  int a = n.a, b = n.b;
  if (!ValueOf(a).is_set) std::swap(a, b);
  const x86::Vec x = Register(a), v = NewOf(n.type);
  const Operand y = RegisterOrMemory(b);
  const x86::KReg k = CompareFloats(width, FloatCompare::kUnordered, x, y);
  const x86::Vec extremum = NewOf(n.type);
  Emit(width == 8 ? Inst::kIdVrangepd : Inst::kIdVrangeps, extremum, x, y, Imm(n.op == LaneOp::kMax ? 5 : 4));
  Blend(v, k, width, extremum, BroadcastConstant(width == 8 ? kNanF64 : kNanF32, width));
  Set(id, v);
}

// By way of doubles: the quotient is at least 1 / y away from the next integer, further than the division rounds.
void Avx512Emitter::EmitDivide(int id) {
  const LaneNode& n = At(id);
  const bool is_signed = IsSigned(n.type);
  const InstId to_double = is_signed ? Inst::kIdVcvtdq2pd : Inst::kIdVcvtudq2pd;
  const InstId to_int = is_signed ? Inst::kIdVcvttpd2dq : Inst::kIdVcvttpd2udq;
  const x86::Vec a = Register(n.a), b = Register(n.b);
  if (lanes_ < 8) {
    const x86::Vec p = NewVector(8), q = NewVector(8), v = NewVector(4);
    Emit(to_double, p, a);
    Emit(to_double, q, b);
    Emit(Inst::kIdVdivpd, p, p, q);
    Emit(to_int, v, p);
    return Set(id, v);
  }
  const auto half = [&](const x86::Vec& x, const x86::Vec& y) {
    const x86::Vec p = cc_.newZmm(), q = cc_.newZmm(), out = cc_.newYmm();
    Emit(to_double, p, x.ymm());
    Emit(to_double, q, y.ymm());
    Emit(Inst::kIdVdivpd, p, p, q);
    Emit(to_int, out, p);
    return out;
  };
  const x86::Vec low = half(a, b);
  if (lanes_ == 8) return Set(id, low);
  const x86::Vec x = cc_.newYmm(), y = cc_.newYmm(), v = cc_.newZmm();
  Emit(Inst::kIdVextracti64x4, x, a, Imm(1));
  Emit(Inst::kIdVextracti64x4, y, b, Imm(1));
  const x86::Vec high = half(x, y);
  Emit(Inst::kIdVinserti64x4, v, low.zmm(), high, Imm(1));
  Set(id, v);
}

void Avx512Emitter::EmitQuotient(int id) {
  const LaneNode& n = At(id);
  const x86::Vec a = Register(n.a), v = NewOf(n.type), rest = NewOf(n.type);
  Emit(Inst::kIdVmulps, v, a, RegisterOrMemory(n.c));
  Emit(Inst::kIdVmovdqa32, rest, v);
  Emit(Inst::kIdVfnmadd132ps, rest, a, RegisterOrMemory(n.b));  // a - rest * b
  Emit(Inst::kIdVfmadd231ps, v, rest, RegisterOrMemory(n.c));
  Set(id, v);
}

void Avx512Emitter::EmitShift(int id) {
  const LaneNode& n = At(id);
  const int width = WidthOf(n.type);
  if (width == 1) return EmitShiftOfBytes(id);
  const x86::Vec v = NewOf(n.type), a = Register(n.a);
  if (At(n.b).op == LaneOp::kConstant) {
    const InstId op = n.op == LaneOp::kShl   ? OfWidth(width, 0, Inst::kIdVpsllw, Inst::kIdVpslld, Inst::kIdVpsllq)
                      : n.op == LaneOp::kShr ? OfWidth(width, 0, Inst::kIdVpsrlw, Inst::kIdVpsrld, Inst::kIdVpsrlq)
                                             : OfWidth(width, 0, Inst::kIdVpsraw, Inst::kIdVpsrad, Inst::kIdVpsraq);
    Emit(op, v, a, Imm(static_cast<int>(std::min<uint64_t>(At(n.b).bits, 255))));
  } else {
    const InstId op = n.op == LaneOp::kShl   ? OfWidth(width, 0, Inst::kIdVpsllvw, Inst::kIdVpsllvd, Inst::kIdVpsllvq)
                      : n.op == LaneOp::kShr ? OfWidth(width, 0, Inst::kIdVpsrlvw, Inst::kIdVpsrlvd, Inst::kIdVpsrlvq)
                                             : OfWidth(width, 0, Inst::kIdVpsravw, Inst::kIdVpsravd, Inst::kIdVpsravq);
    Emit(op, v, a, RegisterOrMemory(n.b));
  }
  Set(id, v);
}

// There are shifts of words alone.
void Avx512Emitter::EmitShiftOfBytes(int id) {
  const LaneNode& n = At(id);
  const x86::Vec v = NewOf(n.type), a = Register(n.a);
  if (At(n.b).op == LaneOp::kConstant) {
    const bool is_arithmetic = n.op == LaneOp::kSar;
    const auto by = static_cast<int>(std::min<uint64_t>(At(n.b).bits, is_arithmetic ? 7 : 8));
    Emit(n.op == LaneOp::kShl ? Inst::kIdVpsllw : Inst::kIdVpsrlw, v, a, Imm(by));
    Emit(Inst::kIdVpandd, v, v, LoadConstant(n.op == LaneOp::kShl ? (0xffu << by) & 0xffu : 0xffu >> by, 1));
    if (is_arithmetic) {
      const x86::Vec sign = LoadConstant(0x80u >> by, 1);
      Emit(Inst::kIdVpxord, v, v, sign);
      Emit(Inst::kIdVpsubb, v, v, sign);
    }
    return Set(id, v);
  }
  const x86::Vec by = Register(n.b), low = LoadConstant(0x00ff, 2);
  const x86::Vec even_by = NewOf(n.type), odd_by = NewOf(n.type), even = NewOf(n.type), odd = NewOf(n.type);
  Emit(Inst::kIdVpandd, even_by, by, low);
  Emit(Inst::kIdVpsrlw, odd_by, by, Imm(8));
  if (n.op == LaneOp::kShl) {
    Emit(Inst::kIdVpsllvw, even, a, even_by);
    Emit(Inst::kIdVpandnd, odd, low, a);
    Emit(Inst::kIdVpsllvw, odd, odd, odd_by);
  } else if (n.op == LaneOp::kShr) {
    Emit(Inst::kIdVpandd, even, a, low);
    Emit(Inst::kIdVpsrlvw, even, even, even_by);
    Emit(Inst::kIdVpsrlvw, odd, a, odd_by);
  } else {
    Emit(Inst::kIdVpsllw, even, a, Imm(8));
    Emit(Inst::kIdVpsravw, even, even, even_by);
    Emit(Inst::kIdVpsrlw, even, even, Imm(8));
    Emit(Inst::kIdVpsravw, odd, a, odd_by);
  }
  // The low bytes of `even`, the high ones of `odd`.
  Emit(Inst::kIdVmovdqa32, v, low);
  Emit(Inst::kIdVpternlogd, v, even, odd, Imm(0xca));
  Set(id, v);
}

void Avx512Emitter::EmitSelect(int id) {
  const LaneNode& n = At(id);
  const int width = WidthOf(n.type);
  const x86::Vec v = NewOf(n.type);
  Blend(v, Mask(n.a), width, Register(n.c), RegisterOrMemory(n.b));
  Set(id, v);
}

void Avx512Emitter::EmitMulHigh(int id) {
  const LaneNode& n = At(id);
  if (WidthOf(n.type) == 2) return Binary(id, IsSigned(n.type) ? Inst::kIdVpmulhw : Inst::kIdVpmulhuw, true);
  const InstId op = IsSigned(n.type) ? Inst::kIdVpmuldq : Inst::kIdVpmuludq;
  const x86::Vec a = Register(n.a), b = Register(n.b);
  const x86::Vec even = NewOf(n.type), odd = NewOf(n.type), x = NewOf(n.type);
  Emit(op, even, a, b);
  Emit(Inst::kIdVpsrlq, x, a, Imm(32));
  x86::Vec y = b;
  if (At(n.b).op != LaneOp::kConstant) {
    y = NewOf(n.type);
    Emit(Inst::kIdVpsrlq, y, b, Imm(32));
  }
  Emit(op, odd, x, y);
  Emit(Inst::kIdVpsrlq, even, even, Imm(32));
  // The upper words of `odd`, beside those of `even`, above which there are zeros.
  const x86::Mem words = Broadcast(ConstantMemory(0xffffffff00000000u, 8), 8, std::max(16, 4 * lanes_));
  Emit(Inst::kIdVpternlogq, even, odd, words, Imm(0xf8));  // even | odd & words
  Set(id, even);
}

void Avx512Emitter::EmitMulBytes(int id) {
  const LaneNode& n = At(id);
  const x86::Vec a = Register(n.a), b = Register(n.b);
  const x86::Vec even = NewOf(n.type), odd = NewOf(n.type), x = NewOf(n.type), y = NewOf(n.type), v = NewOf(n.type);
  Emit(Inst::kIdVpmullw, even, a, b);
  Emit(Inst::kIdVpsrlw, x, a, Imm(8));
  Emit(Inst::kIdVpsrlw, y, b, Imm(8));
  Emit(Inst::kIdVpmullw, odd, x, y);
  Emit(Inst::kIdVpsllw, odd, odd, Imm(8));
  // The low bytes of `even`, the high ones of `odd`.
  Emit(Inst::kIdVmovdqa32, v, LoadConstant(0x00ff, 2));
  Emit(Inst::kIdVpternlogd, v, even, odd, Imm(0xca));
  Set(id, v);
}

void Avx512Emitter::EmitConversion(int id) {
  const LaneNode& n = At(id);
  const ElementType from = TypeOf(n.a);
  const int width = WidthOf(n.type), from_width = WidthOf(from);
  const bool is_signed = IsSigned(from);
  InstId op = 0;
  switch (n.op) {
    case LaneOp::kExtend:
      if (from_width == 1)
        op = OfWidth(width, 0, is_signed ? Inst::kIdVpmovsxbw : Inst::kIdVpmovzxbw,
                     is_signed ? Inst::kIdVpmovsxbd : Inst::kIdVpmovzxbd,
                     is_signed ? Inst::kIdVpmovsxbq : Inst::kIdVpmovzxbq);
      if (from_width == 2)
        op = OfWidth(width, 0, 0, is_signed ? Inst::kIdVpmovsxwd : Inst::kIdVpmovzxwd,
                     is_signed ? Inst::kIdVpmovsxwq : Inst::kIdVpmovzxwq);
      if (from_width == 4) op = is_signed ? Inst::kIdVpmovsxdq : Inst::kIdVpmovzxdq;
      break;
    case LaneOp::kTruncate:
      if (from_width == 2) op = Inst::kIdVpmovwb;
      if (from_width == 4) op = width == 1 ? Inst::kIdVpmovdb : Inst::kIdVpmovdw;
      if (from_width == 8) op = OfWidth(width, Inst::kIdVpmovqb, Inst::kIdVpmovqw, Inst::kIdVpmovqd, 0);
      break;
    case LaneOp::kIntToFloat:
      if (from_width == 4)
        op = width == 4 ? (is_signed ? Inst::kIdVcvtdq2ps : Inst::kIdVcvtudq2ps)
                        : (is_signed ? Inst::kIdVcvtdq2pd : Inst::kIdVcvtudq2pd);
      else
        op = width == 4 ? (is_signed ? Inst::kIdVcvtqq2ps : Inst::kIdVcvtuqq2ps)
                        : (is_signed ? Inst::kIdVcvtqq2pd : Inst::kIdVcvtuqq2pd);
      break;
    case LaneOp::kTruncateToInt: op = IsSigned(n.type) ? Inst::kIdVcvttps2dq : Inst::kIdVcvttps2udq; break;
    case LaneOp::kFloatToFloat: op = width == 8 ? Inst::kIdVcvtps2pd : Inst::kIdVcvtpd2ps; break;
    case LaneOp::kHalfToFloat: op = Inst::kIdVcvtph2ps; break;
    case LaneOp::kFloatToHalf: {
      const x86::Vec v = NewOf(n.type);
      Emit(Inst::kIdVcvtps2ph, v, Register(n.a), Imm(0));
      return Set(id, v);
    }
    case LaneOp::kConstant:
    case LaneOp::kUniform:
    case LaneOp::kRow:
    case LaneOp::kLoad:
    case LaneOp::kRamp:
    case LaneOp::kGather:
    case LaneOp::kAdd:
    case LaneOp::kSub:
    case LaneOp::kMul:
    case LaneOp::kDiv:
    case LaneOp::kQuotient:
    case LaneOp::kMin:
    case LaneOp::kMax:
    case LaneOp::kGreater:
    case LaneOp::kLesser:
    case LaneOp::kSqrt:
    case LaneOp::kNeg:
    case LaneOp::kAbs:
    case LaneOp::kFloor:
    case LaneOp::kCeil:
    case LaneOp::kRoundEven:
    case LaneOp::kTrunc:
    case LaneOp::kAnd:
    case LaneOp::kOr:
    case LaneOp::kXor:
    case LaneOp::kNot:
    case LaneOp::kShl:
    case LaneOp::kShr:
    case LaneOp::kSar:
    case LaneOp::kMulHigh:
    case LaneOp::kScale:
    case LaneOp::kMulLow32:
    case LaneOp::kPopcount:
    case LaneOp::kClz:
    case LaneOp::kEq:
    case LaneOp::kNe:
    case LaneOp::kLt:
    case LaneOp::kLe:
    case LaneOp::kSelect:
    case LaneOp::kBitcast:
    case LaneOp::kFloatToInt:
    case LaneOp::kByteToFloat:
    case LaneOp::kRoundToBf16:
    case LaneOp::kLookup:
    case LaneOp::kSettle:
    case LaneOp::kPhi:
    case LaneOp::kFixedLoad:
    case LaneOp::kFixedStore:
    case LaneOp::kSpread:
    case LaneOp::kPick:
    case LaneOp::kPut:
    case LaneOp::kSequence:
    case LaneOp::kPermute: break;
  }
  Unary(id, op);
}

// bits + 0x7fff + the lowest bit that stays, as 0x7fff + 1 * that bit: two products of 16 bits, which are added up at
// once.
void Avx512Emitter::EmitRoundToBf16(int id) {
  const x86::Vec a = Register(At(id).a), odd = NewVector(4), v = NewVector(4);
  if (HasAvx512Vnni()) {
    Emit(Inst::kIdVmovdqa32, odd, RoundingWord(0));
    Emit(Inst::kIdVpternlogd, odd, a, RoundingWord(1), Imm(0xea));  // odd & a | the word
    Emit(Inst::kIdVmovdqa32, v, a);
    Emit(Inst::kIdVpdpwssd, v, odd, RoundingWord(2));
  } else {
    Emit(Inst::kIdVpsrld, odd, a, Imm(16));
    Emit(Inst::kIdVpandd, odd, odd, BroadcastConstant(1, 4));
    Emit(Inst::kIdVpaddd, v, a, RoundingWord(1));
    Emit(Inst::kIdVpaddd, v, v, odd);
  }
  Emit(Inst::kIdVpandd, v, v, RoundingWord(3));
  Set(id, v);
}

// The instruction gives the smallest signed number, or all ones, for what does not fit.
void Avx512Emitter::EmitFloatToInt(int id) {
  const LaneNode& n = At(id);
  const ElementType from = TypeOf(n.a);
  const int width = WidthOf(n.type), from_width = WidthOf(from);
  const bool is_signed = IsSigned(n.type);
  const x86::Vec x = Register(n.a), v = NewOf(n.type);
  InstId op = 0;
  if (from_width == 4 && width == 4) op = is_signed ? Inst::kIdVcvttps2dq : Inst::kIdVcvttps2udq;
  if (from_width == 4 && width == 8) op = is_signed ? Inst::kIdVcvttps2qq : Inst::kIdVcvttps2uqq;
  if (from_width == 8 && width == 4) op = is_signed ? Inst::kIdVcvttpd2dq : Inst::kIdVcvttpd2udq;
  if (from_width == 8 && width == 8) op = is_signed ? Inst::kIdVcvttpd2qq : Inst::kIdVcvttpd2uqq;
  if (!is_signed) {
    const x86::KReg positive = CompareFloats(from_width, FloatCompare::kGt, x, LoadConstant(0, from_width));
    EmitMasked(op, positive, true, v, x);
    return Set(id, v);
  }
  const double limit = width == 4 ? 0x1p31 : 0x1p63;
  const uint64_t limit_bits =
      from_width == 4 ? std::bit_cast<uint32_t>(static_cast<float>(limit)) : std::bit_cast<uint64_t>(limit);
  const x86::KReg is_number = CompareFloats(from_width, FloatCompare::kOrdered, x, x);
  const x86::KReg high = CompareFloats(from_width, FloatCompare::kGe, x, BroadcastConstant(limit_bits, from_width));
  const x86::Vec inside = NewOf(n.type);
  EmitMasked(op, is_number, true, inside, x);
  Blend(v, high, width, inside, BroadcastConstant(width == 4 ? 0x7fffffffu : ~uint64_t{0} >> 1, width));
  Set(id, v);
}

}  // namespace krafla::cpu::native

#endif
