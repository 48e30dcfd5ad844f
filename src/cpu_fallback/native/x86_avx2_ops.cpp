// SPDX-License-Identifier: Apache-2.0
// What AVX2 has for each operation on lanes, or what makes it up.
#ifdef KRAFLA_HAVE_JIT

#include "cpu_fallback/native/x86_avx2.h"

namespace krafla::cpu::native {

namespace x86 = asmjit::x86;
namespace Inst = x86::Inst;
using asmjit::Imm;
using asmjit::InstId;
using asmjit::Operand;

namespace {

InstId SizedInst(int width, InstId b, InstId w, InstId d, InstId q) {
  return width == 1 ? b : width == 2 ? w : width == 4 ? d : q;
}
uint64_t SignBit(int width) { return uint64_t{1} << (8 * width - 1); }
uint64_t DoubleBits(double x) { return std::bit_cast<uint64_t>(x); }
uint64_t FloatBits(float x) { return std::bit_cast<uint32_t>(x); }

}  // namespace

x86::Vec Avx2Emitter::Not(const Vec& v, int width) {
  return Make(width, Inst::kIdVpxor, v, Constant(~uint64_t{0}, width));
}

x86::Vec Avx2Emitter::Greater(ElementType type, const Vec& a, const Vec& b) {
  const int width = WidthOf(type);
  const InstId op = SizedInst(width, Inst::kIdVpcmpgtb, Inst::kIdVpcmpgtw, Inst::kIdVpcmpgtd, Inst::kIdVpcmpgtq);
  if (IsSigned(type)) return Make(width, op, a, b);
  const Mem sign = Constant(SignBit(width), width);
  return Make(width, op, Make(width, Inst::kIdVpxor, a, sign), Make(width, Inst::kIdVpxor, b, sign));
}

x86::Vec Avx2Emitter::Blend(int width, const Vec& mask, const Operand& yes, const Vec& no) {
  return Make(width, Inst::kIdVpblendvb, no, yes, mask);
}

// The low `to` bytes of each lane's `from`.
x86::Vec Avx2Emitter::Truncated(const Vec& v, int from, int to) {
  if (from == to) return v;
  std::array<uint8_t, 32> places;
  places.fill(0x80);
  for (int half = 0; half < 2; ++half)
    for (int lane = 0; lane < 16 / from; ++lane)
      for (int b = 0; b < to; ++b)
        places[static_cast<std::size_t>(16 * half + lane * to + b)] = static_cast<uint8_t>(lane * from + b);
  const bool is_long = from * lanes_ > 16;
  const Vec packed =
      Make(from, Inst::kIdVpshufb, v, cc_.newConst(asmjit::ConstPoolScope::kLocal, places.data(), is_long ? 32 : 16));
  if (!is_long) return packed.xmm();
  const Vec high = cc_.newXmm(), out = cc_.newXmm();
  Emit(Inst::kIdVextracti128, high, packed.ymm(), Imm(1));
  // Each half has 16 * to / from bytes.
  const int bytes = 16 * to / from;
  Emit(bytes == 8   ? Inst::kIdVpunpcklqdq
       : bytes == 4 ? Inst::kIdVpunpckldq
                    : Inst::kIdVpunpcklwd,
       out, packed.xmm(), high);
  return out;
}

x86::Vec Avx2Emitter::Widened(const Vec& v, int from, int to) {
  InstId op = Inst::kIdVpmovsxdq;
  if (from == 1) op = SizedInst(to, 0, Inst::kIdVpmovsxbw, Inst::kIdVpmovsxbd, Inst::kIdVpmovsxbq);
  if (from == 2) op = to == 4 ? Inst::kIdVpmovsxwd : Inst::kIdVpmovsxwq;
  return Make(to, op, v.xmm());
}
x86::Vec Avx2Emitter::MaskOf(int id, int width) {
  if (!ValueOf(id).is_set) return Load(At(id).bits != 0 ? ~uint64_t{0} : 0, width);
  const Vec v = ValueOf(id).v;
  const int from = ValueOf(id).mask_width;
  return from < width ? Widened(v, from, width) : Truncated(v, from, width);
}
void Avx2Emitter::SetMasks(int id, const Vec& v, int width) {
  // A loop has many preds of one vector each, a routine few of any lanes.
  if (is_block_ || width == mask_width_) ValueOf(id) = {v, true, width};
  else Set(id, Widened(v, width, mask_width_));
}

// Of preds, as masks of the first operand's width that has one.
void Avx2Emitter::EmitMaskOp(int id) {
  const LaneNode& n = At(id);
  int width = 0;
  for (int o : {n.a, n.b, n.c})
    if (width == 0 && o >= 0 && ValueOf(o).is_set) width = ValueOf(o).mask_width;
  if (width == 0) width = 1;
  const Vec a = MaskOf(n.a, width);
  if (n.op == LaneOp::kBitcast) return SetMasks(id, a, width);
  if (n.op == LaneOp::kNot) return SetMasks(id, Not(a, width), width);
  const Vec b = MaskOf(n.b, width);
  if (n.op == LaneOp::kSelect) return SetMasks(id, Blend(width, a, b, MaskOf(n.c, width)), width);
  const InstId op = n.op == LaneOp::kAnd ? Inst::kIdVpand : n.op == LaneOp::kOr ? Inst::kIdVpor : Inst::kIdVpxor;
  SetMasks(id, Make(width, op, a, b), width);
}

void Avx2Emitter::Binary(int id, InstId op, bool commutes) {
  const LaneNode& n = At(id);
  int a = n.a, b = n.b;
  if (commutes && !ValueOf(a).is_set) std::swap(a, b);
  Set(id, Make(WidthOf(n.type), op, Register(a), RegisterOrMemory(b)));
}

void Avx2Emitter::EmitNode(int id) {
  const LaneNode& n = At(id);
  const int width = WidthOf(n.type);
  const bool is_float = IsFloat(n.type), is_double = n.type == ElementType::kF64, is_signed = IsSigned(n.type);
  const auto rounded = [&](int mode) {
    Set(id, Make(width, is_double ? Inst::kIdVroundpd : Inst::kIdVroundps, Register(n.a), Imm(mode)));
  };
  if (n.op >= LaneOp::kFixedLoad) return EmitPlaceOp(id);
  const bool is_mask_op = n.op == LaneOp::kAnd || n.op == LaneOp::kOr || n.op == LaneOp::kXor || n.op == LaneOp::kNot ||
                          n.op == LaneOp::kSelect || n.op == LaneOp::kBitcast;
  if (n.type == ElementType::kPred && is_mask_op) return EmitMaskOp(id);
  switch (n.op) {
    case LaneOp::kConstant:
    case LaneOp::kUniform:
    case LaneOp::kRow:
    case LaneOp::kPhi: return;
    case LaneOp::kRamp: {
      if (vector_ == 0) return;
      const auto ahead = static_cast<uint32_t>(n.bits) * static_cast<uint32_t>(Ahead());
      return Set(id, Make(4, Inst::kIdVpaddd, values_[0][static_cast<std::size_t>(id)].v, Constant(ahead, 4)));
    }
    case LaneOp::kLoad: return EmitLoad(id);
    case LaneOp::kGather: return EmitGather(id);
    case LaneOp::kAdd:
      if (is_float) return Binary(id, is_double ? Inst::kIdVaddpd : Inst::kIdVaddps, true);
      return Binary(id, SizedInst(width, Inst::kIdVpaddb, Inst::kIdVpaddw, Inst::kIdVpaddd, Inst::kIdVpaddq), true);
    case LaneOp::kSub:
      if (is_float) return Binary(id, is_double ? Inst::kIdVsubpd : Inst::kIdVsubps, false);
      return Binary(id, SizedInst(width, Inst::kIdVpsubb, Inst::kIdVpsubw, Inst::kIdVpsubd, Inst::kIdVpsubq), false);
    case LaneOp::kMul: return EmitMul(id);
    case LaneOp::kDiv:
      if (is_float) return Binary(id, is_double ? Inst::kIdVdivpd : Inst::kIdVdivps, false);
      return EmitDivide(id);
    case LaneOp::kMin:
    case LaneOp::kMax: {
      const bool is_max = n.op == LaneOp::kMax;
      const Vec a = Register(n.a), b = Register(n.b);
      return Set(id, is_float ? Extremum(n.type, is_max, a, b) : IntExtremum(n.type, is_max, a, b));
    }
    case LaneOp::kGreater: return Binary(id, is_double ? Inst::kIdVmaxpd : Inst::kIdVmaxps, false);
    case LaneOp::kLesser: return Binary(id, is_double ? Inst::kIdVminpd : Inst::kIdVminps, false);
    case LaneOp::kSqrt: return Unary(id, is_double ? Inst::kIdVsqrtpd : Inst::kIdVsqrtps);
    case LaneOp::kNeg: return Set(id, Make(width, Inst::kIdVpxor, Register(n.a), Constant(SignBit(width), width)));
    case LaneOp::kAbs: {
      const Vec a = Register(n.a);
      if (is_float) return Set(id, Make(width, Inst::kIdVpand, a, Constant(SignBit(width) - 1, width)));
      if (width < 8) return Unary(id, SizedInst(width, Inst::kIdVpabsb, Inst::kIdVpabsw, Inst::kIdVpabsd, 0));
      const Vec sign = Make(width, Inst::kIdVpcmpgtq, Load(0, width), a);
      return Set(id, Make(width, Inst::kIdVpsubq, Make(width, Inst::kIdVpxor, a, sign), sign));
    }
    case LaneOp::kRoundEven: return rounded(8);
    case LaneOp::kFloor: return rounded(9);
    case LaneOp::kCeil: return rounded(10);
    case LaneOp::kTrunc: return rounded(11);
    case LaneOp::kAnd: return Binary(id, Inst::kIdVpand, true);
    case LaneOp::kOr: return Binary(id, Inst::kIdVpor, true);
    case LaneOp::kXor: return Binary(id, Inst::kIdVpxor, true);
    case LaneOp::kNot: return Set(id, Not(Register(n.a), width));
    case LaneOp::kShl:
    case LaneOp::kShr:
    case LaneOp::kSar: return EmitShift(id);
    case LaneOp::kMulHigh: {
      if (width == 2) return Binary(id, is_signed ? Inst::kIdVpmulhw : Inst::kIdVpmulhuw, true);
      const InstId op = is_signed ? Inst::kIdVpmuldq : Inst::kIdVpmuludq;
      const Vec a = Register(n.a), b = Register(n.b);
      const Vec even = Make(width, Inst::kIdVpsrlq, Make(width, op, a, b), Imm(32));
      const Vec odd =
          Make(width, op, Make(width, Inst::kIdVpsrlq, a, Imm(32)), Make(width, Inst::kIdVpsrlq, b, Imm(32)));
      return Set(id, Make(width, Inst::kIdVpblendd, even, odd, Imm(0xaa)));
    }
    case LaneOp::kMulLow32: return Binary(id, Inst::kIdVpmuludq, true);
    case LaneOp::kFixedLoad:
    case LaneOp::kFixedStore:
    case LaneOp::kSpread:
    case LaneOp::kPick:
    case LaneOp::kPut:
    case LaneOp::kSequence:
    case LaneOp::kPermute:
    case LaneOp::kQuotient:
    case LaneOp::kRoundToBf16:
    case LaneOp::kLookup:
    case LaneOp::kByteToFloat: return;  // CanEmit says no
    case LaneOp::kScale: return EmitScale(id);
    case LaneOp::kPopcount: return EmitPopcount(id);
    case LaneOp::kClz: return EmitClz(id);
    case LaneOp::kEq:
    case LaneOp::kNe:
    case LaneOp::kLt:
    case LaneOp::kLe: return EmitCompare(id);
    case LaneOp::kSelect: return Set(id, Blend(width, MaskOf(n.a, width), RegisterOrMemory(n.b), Register(n.c)));
    case LaneOp::kBitcast: return Set(id, Register(n.a));
    case LaneOp::kExtend:
    case LaneOp::kTruncate:
    case LaneOp::kIntToFloat:
    case LaneOp::kTruncateToInt:
    case LaneOp::kFloatToFloat:
    case LaneOp::kHalfToFloat:
    case LaneOp::kFloatToHalf: return EmitConversion(id);
    case LaneOp::kFloatToInt: return EmitFloatToInt(id);
    case LaneOp::kSettle: {
      const Vec a = Register(n.a);
      const Vec is_nan = Make(width, is_double ? Inst::kIdVcmppd : Inst::kIdVcmpps, a, a, Imm(3));
      return Set(id, Blend(width, is_nan, Constant(is_double ? kNanF64 : kNanF32, width), a));
    }
  }
}

void Avx2Emitter::EmitCompare(int id) {
  const LaneNode& n = At(id);
  const ElementType type = TypeOf(n.a);
  const int width = WidthOf(type);
  if (IsFloat(type)) {
    const InstId op = width == 8 ? Inst::kIdVcmppd : Inst::kIdVcmpps;
    const bool turns = !ValueOf(n.a).is_set;  // a constant may lie in memory behind the other operand
    const int how = n.op == LaneOp::kEq   ? 0
                    : n.op == LaneOp::kNe ? 4
                    : n.op == LaneOp::kLt ? (turns ? 30 : 17)
                                          : (turns ? 29 : 18);
    const Vec first = Register(turns ? n.b : n.a);
    return SetMasks(id, Make(width, op, first, RegisterOrMemory(turns ? n.a : n.b), Imm(how)), width);
  }
  const Vec a = Register(n.a), b = Register(n.b);
  Vec v;
  if (n.op == LaneOp::kEq || n.op == LaneOp::kNe)
    v = Make(width, SizedInst(width, Inst::kIdVpcmpeqb, Inst::kIdVpcmpeqw, Inst::kIdVpcmpeqd, Inst::kIdVpcmpeqq), a, b);
  else v = n.op == LaneOp::kLt ? Greater(type, b, a) : Greater(type, a, b);
  if (n.op == LaneOp::kNe || n.op == LaneOp::kLe) v = Not(v, width);
  SetMasks(id, v, width);
}

// Either order of the operands gives the one behind for zeros: both together the right sign.
x86::Vec Avx2Emitter::Extremum(ElementType type, bool is_max, const Vec& a, const Vec& b) {
  const int width = WidthOf(type);
  const bool is_double = width == 8;
  const InstId op =
      is_max ? (is_double ? Inst::kIdVmaxpd : Inst::kIdVmaxps) : (is_double ? Inst::kIdVminpd : Inst::kIdVminps);
  const Vec bits = Make(width, is_max ? Inst::kIdVpand : Inst::kIdVpor, Make(width, op, a, b), Make(width, op, b, a));
  // Of two subnormal numbers that are taken for zeros these bits are no number's.
  const Vec v = is_double ? Make(width, Inst::kIdVmulpd, bits, Constant(std::bit_cast<uint64_t>(1.0), width))
                          : Make(width, Inst::kIdVmulps, bits, Constant(std::bit_cast<uint32_t>(1.0f), width));
  const Vec is_nan = Make(width, is_double ? Inst::kIdVcmppd : Inst::kIdVcmpps, a, b, Imm(3));
  return Blend(width, is_nan, Constant(is_double ? kNanF64 : kNanF32, width), v);
}
x86::Vec Avx2Emitter::IntExtremum(ElementType type, bool is_max, const Vec& a, const Vec& b) {
  const int width = WidthOf(type);
  if (width < 8) {
    const InstId s = is_max ? SizedInst(width, Inst::kIdVpmaxsb, Inst::kIdVpmaxsw, Inst::kIdVpmaxsd, 0)
                            : SizedInst(width, Inst::kIdVpminsb, Inst::kIdVpminsw, Inst::kIdVpminsd, 0);
    const InstId u = is_max ? SizedInst(width, Inst::kIdVpmaxub, Inst::kIdVpmaxuw, Inst::kIdVpmaxud, 0)
                            : SizedInst(width, Inst::kIdVpminub, Inst::kIdVpminuw, Inst::kIdVpminud, 0);
    return Make(width, IsSigned(type) ? s : u, a, b);
  }
  const Vec greater = Greater(type, a, b);
  return is_max ? Blend(width, greater, a, b) : Blend(width, greater, b, a);
}

void Avx2Emitter::EmitMul(int id) {
  const LaneNode& n = At(id);
  const int width = WidthOf(n.type);
  if (IsFloat(n.type)) return Binary(id, width == 8 ? Inst::kIdVmulpd : Inst::kIdVmulps, true);
  // The longer product of one number is there in half the time.
  if (width == 4 && lanes_ == 1) return Binary(id, Inst::kIdVpmuludq, true);
  if (width == 2 || width == 4) return Binary(id, width == 2 ? Inst::kIdVpmullw : Inst::kIdVpmulld, true);
  const Vec a = Register(n.a), b = Register(n.b);
  if (width == 1) {
    const Vec even = Make(1, Inst::kIdVpand, Make(1, Inst::kIdVpmullw, a, b), Pattern(0x00ff00ff00ff00ff, 1));
    const Vec odd = Make(1, Inst::kIdVpmullw, Make(1, Inst::kIdVpsrlw, a, Imm(8)), Make(1, Inst::kIdVpsrlw, b, Imm(8)));
    return Set(id, Make(1, Inst::kIdVpor, even, Make(1, Inst::kIdVpsllw, odd, Imm(8))));
  }
  Set(id, Product64(a, b));
}
x86::Vec Avx2Emitter::Product64(const Vec& a, const Vec& b) {
  const Vec low = Make(8, Inst::kIdVpmuludq, a, b);
  const Vec left = Make(8, Inst::kIdVpmuludq, Make(8, Inst::kIdVpsrlq, a, Imm(32)), b);
  const Vec right = Make(8, Inst::kIdVpmuludq, a, Make(8, Inst::kIdVpsrlq, b, Imm(32)));
  return Make(8, Inst::kIdVpaddq, low, Make(8, Inst::kIdVpsllq, Make(8, Inst::kIdVpaddq, left, right), Imm(32)));
}

// Four words as doubles, and back where they are whole numbers after truncation.
x86::Vec Avx2Emitter::WordsToDoubles(const Vec& v, bool is_signed) {
  const Vec out = NewVector(8);
  if (is_signed) {
    Emit(Inst::kIdVcvtdq2pd, out, v.xmm());
    return out;
  }
  // The number is the low half of the significand of 2^52 + it.
  const Mem magic = Constant(DoubleBits(0x1p52), 8);
  Emit(Inst::kIdVpmovzxdq, out, v.xmm());
  Emit(Inst::kIdVpor, out, out, magic);
  Emit(Inst::kIdVsubpd, out, out, magic);
  return out;
}
x86::Vec Avx2Emitter::DoublesToWords(const Vec& v, bool is_signed) {
  const Vec out = cc_.newXmm();
  if (is_signed) {
    Emit(Inst::kIdVcvttpd2dq, out, v);
    return out;
  }
  const Vec whole = Make(8, Inst::kIdVroundpd, v, Imm(11));
  Emit(Inst::kIdVaddpd, whole, whole, Constant(DoubleBits(0x1p52), 8));
  Vec high = whole;
  if (lanes_ > 2) {
    high = cc_.newXmm();
    Emit(Inst::kIdVextracti128, high, whole, Imm(1));
  }
  Emit(Inst::kIdVshufps, out, whole.xmm(), high, Imm(0x88));
  return out;
}

// In two steps, of which the first is exact, by powers of two whose exponents are in the lower words (f64::Scale).
void Avx2Emitter::EmitScale(int id) {
  const Vec by = Register(At(id).b), half = Make(8, Inst::kIdVpsrad, by, Imm(1));
  const auto scaled = [&](const Operand& x, const Vec& exponent) {
    const Vec biased = Make(8, Inst::kIdVpaddd, exponent, Constant(1023, 8));
    return Make(8, Inst::kIdVmulpd, Make(8, Inst::kIdVpsllq, biased, Imm(52)), x);
  };
  Set(id, scaled(scaled(RegisterOrMemory(At(id).a), half), Make(8, Inst::kIdVpsubd, by, half)));
}

// By way of doubles, as for AVX-512.
void Avx2Emitter::EmitDivide(int id) {
  const LaneNode& n = At(id);
  const bool is_signed = IsSigned(n.type);
  const Vec a = Register(n.a), b = Register(n.b);
  const auto half = [&](const Vec& x, const Vec& y) {
    return DoublesToWords(Make(8, Inst::kIdVdivpd, WordsToDoubles(x, is_signed), WordsToDoubles(y, is_signed)),
                          is_signed);
  };
  const Vec low = half(a, b);
  if (lanes_ <= 4) return Set(id, low);
  const Vec x = cc_.newXmm(), y = cc_.newXmm(), v = cc_.newYmm();
  Emit(Inst::kIdVextracti128, x, a, Imm(1));
  Emit(Inst::kIdVextracti128, y, b, Imm(1));
  Emit(Inst::kIdVinserti128, v, low.ymm(), half(x, y), Imm(1));
  Set(id, v);
}

// Of each four bits, found in a table of bytes, which are added up.
void Avx2Emitter::EmitPopcount(int id) {
  const int width = WidthOf(TypeOf(id));
  const Vec a = Register(At(id).a), low = Pattern(0x0f0f0f0f0f0f0f0f, width);
  std::array<uint8_t, 32> counts;
  for (unsigned i = 0; i < 32; ++i) counts[i] = static_cast<uint8_t>(std::popcount(i % 16));
  const Vec table = NewVector(width);
  Emit(Inst::kIdVmovdqu, table,
       cc_.newConst(asmjit::ConstPoolScope::kLocal, counts.data(), width * lanes_ > 16 ? std::size_t{32} : 16));
  const auto counted = [&](const Vec& nibbles) { return Make(width, Inst::kIdVpshufb, table, nibbles); };
  const Vec high = Make(width, Inst::kIdVpand, Make(width, Inst::kIdVpsrlw, a, Imm(4)), low);
  const Vec bytes = Make(width, Inst::kIdVpaddb, counted(Make(width, Inst::kIdVpand, a, low)), counted(high));
  if (width == 8) return Set(id, Make(width, Inst::kIdVpsadbw, bytes, Load(0, width)));
  const Vec words = Make(width, Inst::kIdVpmaddubsw, bytes, Pattern(0x0101010101010101, width));
  Set(id, Make(width, Inst::kIdVpmaddwd, words, Pattern(0x0001000100010001, width)));
}

// By the exponent of the number as a float, of which only those bits are left that no rounding carries upwards: 158 -
// 127 - exponent zeros. A number below zero as an s32 has a sign above the exponent, and zero no exponent: of both the
// difference is out of range.
void Avx2Emitter::EmitClz(int id) {
  const int width = WidthOf(TypeOf(id));
  const Vec a = Register(At(id).a);
  const Vec top = Make(width, Inst::kIdVpandn, Make(width, Inst::kIdVpsrld, a, Imm(1)), a);
  const Vec exponent = Make(width, Inst::kIdVpsrld, Make(width, Inst::kIdVcvtdq2ps, top), Imm(23));
  const Vec zeros = Make(width, Inst::kIdVpmaxsd,
                         Make(width, Inst::kIdVpsubd, Pattern(0x0000009e0000009e, width), exponent), Load(0, width));
  const Vec words = Make(width, Inst::kIdVpminsd, zeros, Pattern(0x0000002000000020, width));
  if (width == 4) return Set(id, words);
  // Those of the lower half count where the upper one is nothing but zeros.
  const Vec upper = Make(width, Inst::kIdVpsrlq, words, Imm(32));
  const Vec lower = Make(width, Inst::kIdVpand, words, Load(0xffffffffu, 8));
  const Vec is_low = Make(width, Inst::kIdVpcmpeqq, upper, Load(32, 8));
  Set(id, Make(width, Inst::kIdVpaddq, upper, Make(width, Inst::kIdVpand, is_low, lower)));
}

void Avx2Emitter::EmitShift(int id) {
  const LaneNode& n = At(id);
  const int width = WidthOf(n.type);
  const bool is_wide = width == 8, is_constant = At(n.b).op == LaneOp::kConstant;
  const Vec a = Register(n.a);
  if (is_wide && n.op == LaneOp::kSar) {  // the sign is moved along and taken away
    Vec sign, moved;
    if (is_constant) {
      const uint64_t by = std::min<uint64_t>(At(n.b).bits, 63);
      sign = Load(SignBit(8) >> by, 8);
      moved = Make(8, Inst::kIdVpsrlq, a, Imm(static_cast<int>(by)));
    } else {
      const Vec b = Register(n.b), most = Load(63, 8);
      const Vec by = Blend(8, Greater(ElementType::kU64, b, most), most, b);
      sign = Make(8, Inst::kIdVpsrlvq, Load(SignBit(8), 8), by);
      moved = Make(8, Inst::kIdVpsrlvq, a, by);
    }
    return Set(id, Make(8, Inst::kIdVpsubq, Make(8, Inst::kIdVpxor, moved, sign), sign));
  }
  if (is_constant) {
    const InstId op = n.op == LaneOp::kShl   ? (is_wide ? Inst::kIdVpsllq : Inst::kIdVpslld)
                      : n.op == LaneOp::kShr ? (is_wide ? Inst::kIdVpsrlq : Inst::kIdVpsrld)
                                             : Inst::kIdVpsrad;
    return Set(id, Make(width, op, a, Imm(static_cast<int>(std::min<uint64_t>(At(n.b).bits, 255)))));
  }
  const InstId op = n.op == LaneOp::kShl   ? (is_wide ? Inst::kIdVpsllvq : Inst::kIdVpsllvd)
                    : n.op == LaneOp::kShr ? (is_wide ? Inst::kIdVpsrlvq : Inst::kIdVpsrlvd)
                                           : Inst::kIdVpsravd;
  Set(id, Make(width, op, a, RegisterOrMemory(n.b)));
}

void Avx2Emitter::EmitConversion(int id) {
  const LaneNode& n = At(id);
  const ElementType from = TypeOf(n.a);
  const int width = WidthOf(n.type), from_width = WidthOf(from);
  const bool is_signed = IsSigned(from);
  const Vec a = Register(n.a);
  if (n.op == LaneOp::kTruncate) return Set(id, Truncated(a, from_width, width));
  if (n.op == LaneOp::kExtend) {
    InstId op = 0;
    if (from_width == 1)
      op = SizedInst(width, 0, is_signed ? Inst::kIdVpmovsxbw : Inst::kIdVpmovzxbw,
                     is_signed ? Inst::kIdVpmovsxbd : Inst::kIdVpmovzxbd,
                     is_signed ? Inst::kIdVpmovsxbq : Inst::kIdVpmovzxbq);
    if (from_width == 2)
      op = width == 4 ? (is_signed ? Inst::kIdVpmovsxwd : Inst::kIdVpmovzxwd)
                      : (is_signed ? Inst::kIdVpmovsxwq : Inst::kIdVpmovzxwq);
    if (from_width == 4) op = is_signed ? Inst::kIdVpmovsxdq : Inst::kIdVpmovzxdq;
    return Set(id, Make(width, op, a.xmm()));
  }
  if (n.op == LaneOp::kHalfToFloat) return Set(id, Make(width, Inst::kIdVcvtph2ps, a.xmm()));
  if (n.op == LaneOp::kFloatToHalf) return Set(id, Make(width, Inst::kIdVcvtps2ph, a, Imm(0)));
  if (n.op == LaneOp::kFloatToFloat) {
    if (width == 8) return Set(id, Make(8, Inst::kIdVcvtps2pd, a.xmm()));
    return Set(id, Make(4, Inst::kIdVcvtpd2ps, a));
  }
  if (n.op == LaneOp::kTruncateToInt) {
    if (IsSigned(n.type)) return Set(id, Make(4, Inst::kIdVcvttps2dq, a));
    // From 2^31 on: less by that, which is the top bit.
    const Vec limit = Load(FloatBits(0x1p31f), 4);
    const Vec is_big = Make(4, Inst::kIdVcmpps, a, limit, Imm(29));
    const Vec low = Make(4, Inst::kIdVcvttps2dq, Make(4, Inst::kIdVsubps, a, Make(4, Inst::kIdVpand, is_big, limit)));
    return Set(id, Make(4, Inst::kIdVpxor, low, Make(4, Inst::kIdVpslld, is_big, Imm(31))));
  }
  // Integers to floats.
  if (from_width == 4 && width == 8) return Set(id, WordsToDoubles(a, is_signed));
  if (from_width == 4 && is_signed) return Set(id, Make(4, Inst::kIdVcvtdq2ps, a));
  if (from_width == 4) {
    // Both halves are exact, and so is the upper one's product; the sum is rounded once.
    const Vec high = Make(4, Inst::kIdVcvtdq2ps, Make(4, Inst::kIdVpsrld, a, Imm(16)));
    const Vec low = Make(4, Inst::kIdVcvtdq2ps, Make(4, Inst::kIdVpand, a, Load(0xffff, 4)));
    return Set(id, Make(4, Inst::kIdVaddps, Make(4, Inst::kIdVmulps, high, Load(FloatBits(65536.0f), 4)), low));
  }
  if (width == 8) return Set(id, LongsToDoubles(a, is_signed));
  Set(id, Make(4, Inst::kIdVcvtpd2ps, LongsToDoubles(RoundedToOdd(a, is_signed), is_signed)));
}

// The lower half is in the significand of 2^52 + it, the upper one, from which a sign takes 2^63, in that of 2^84 + it.
// What both have too much is taken from the upper one, exactly; the sum is rounded once.
x86::Vec Avx2Emitter::LongsToDoubles(const Vec& a, bool is_signed) {
  const Vec low = Make(8, Inst::kIdVpblendd, Load(DoubleBits(0x1p52), 8), a, Imm(0x55));
  const double much = is_signed ? 0x1p84 + 0x1p63 : 0x1p84;
  const Vec high = Make(8, Inst::kIdVpxor, Make(8, Inst::kIdVpsrlq, a, Imm(32)), Constant(DoubleBits(much), 8));
  return Make(8, Inst::kIdVaddpd, Make(8, Inst::kIdVsubpd, high, Constant(DoubleBits(much + 0x1p52), 8)), low);
}

// Integers of 64 bits that f64 has: those of more than 53 bits rounded to odd at the twelfth lowest, so that what is
// rounded to f32 afterwards is rounded once.
x86::Vec Avx2Emitter::RoundedToOdd(const Vec& a, bool is_signed) {
  constexpr uint64_t kLow = 0x7ff;
  const Vec up = Make(8, Inst::kIdVpaddq, Make(8, Inst::kIdVpand, a, Constant(kLow, 8)), Constant(kLow, 8));
  const Vec odd = Make(8, Inst::kIdVpand, Make(8, Inst::kIdVpor, a, up), Constant(~kLow, 8));
  const Vec from_least = is_signed ? Make(8, Inst::kIdVpaddq, a, Constant(uint64_t{1} << 53, 8)) : a;
  const Vec excess = Make(8, Inst::kIdVpsrlq, from_least, Imm(is_signed ? 54 : 53));
  return Blend(8, Make(8, Inst::kIdVpcmpeqq, excess, Load(0, 8)), a, odd);
}

void Avx2Emitter::EmitFloatToInt(int id) {
  const LaneNode& n = At(id);
  const int from_width = WidthOf(TypeOf(n.a));
  const bool is_signed = IsSigned(n.type);
  const Vec x = Register(n.a);
  if (from_width == 8) {
    // Every limit is a double; a NaN becomes the second operand, and is no number afterwards either.
    const Vec number = Make(8, Inst::kIdVpand, x, Make(8, Inst::kIdVcmppd, x, x, Imm(7)));
    const Vec low = Make(8, Inst::kIdVmaxpd, number, Load(DoubleBits(is_signed ? -0x1p31 : 0.0), 8));
    const Vec inside = Make(8, Inst::kIdVminpd, low, Load(DoubleBits(is_signed ? 0x1p31 - 1 : 0x1p32 - 1), 8));
    return Set(id, DoublesToWords(inside, is_signed));
  }
  if (is_signed) {
    const Vec inside = Make(4, Inst::kIdVcvttps2dq, x);  // the smallest number for what does not fit
    const Vec high = Make(4, Inst::kIdVcmpps, x, Load(FloatBits(0x1p31f), 4), Imm(29));
    const Vec v = Blend(4, high, Load(0x7fffffff, 4), inside);
    return Set(id, Make(4, Inst::kIdVpand, v, Make(4, Inst::kIdVcmpps, x, x, Imm(7))));
  }
  const Vec limit = Load(FloatBits(0x1p31f), 4);
  const Vec positive = Make(4, Inst::kIdVmaxps, x, Load(0, 4));  // zero for a NaN
  const Vec is_big = Make(4, Inst::kIdVcmpps, positive, limit, Imm(29));
  const Vec low =
      Make(4, Inst::kIdVcvttps2dq, Make(4, Inst::kIdVsubps, positive, Make(4, Inst::kIdVpand, is_big, limit)));
  const Vec v = Make(4, Inst::kIdVpxor, low, Make(4, Inst::kIdVpslld, is_big, Imm(31)));
  Set(id, Make(4, Inst::kIdVpor, v, Make(4, Inst::kIdVcmpps, positive, Load(FloatBits(0x1p32f), 4), Imm(29))));
}

}  // namespace krafla::cpu::native

#endif
