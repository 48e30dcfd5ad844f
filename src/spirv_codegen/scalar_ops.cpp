// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/scalar_ops.h"

#include <bit>
#include <cmath>

#include "numerics/nan.h"
#include "spirv/unified1/GLSL.std.450.h"
#include "spirv_codegen/float_ops.h"
#include "spirv_codegen/float_to_int.h"

namespace krafla::spirv {
namespace {

bool IsSignedCompute(ElementType t) { return t == ElementType::kS32 || t == ElementType::kS64; }

uint64_t MinSigned(Kind kind) { return uint64_t{1} << (KindBits(kind) - 1); }

struct Quotient {
  Value quotient;  // by the safe divisor
  Value divisor;   // never 0, never -1 under MIN
  Value by_zero;
};
// SPIR-V leaves x / 0 and MIN / -1 undefined (OpSDiv, OpUDiv), so these are divided by one instead.
Quotient SafeDivide(Builder& b, Value x, Value y, bool is_signed) {
  const Value zero = b.Const(x.kind, 0), one = b.Const(x.kind, 1);
  Quotient out;
  out.by_zero = b.Compare(Cmp::kEq, y, zero);
  Value bad = out.by_zero;
  if (is_signed) {
    const Value overflow = b.LAnd(b.Compare(Cmp::kEq, x, b.Const(x.kind, MinSigned(x.kind))),
                                  b.Compare(Cmp::kEq, y, b.Const(x.kind, ~uint64_t{0})));
    bad = b.LOr(bad, overflow);
  }
  out.divisor = b.Select(bad, one, y);
  out.quotient = is_signed ? b.SDiv(x, out.divisor) : b.UDiv(x, out.divisor);
  return out;
}

// IntPow of numerics/formulas_int.h at any width: six steps of square and multiply. As in XLA both operands count as
// signed, those of unsigned types too.
Value IntPower(Builder& b, Value x, Value y) {
  const Value zero = b.Const(x.kind, 0), one = b.Const(x.kind, 1), minus = b.Const(x.kind, ~uint64_t{0});
  Value base = x, result = one;
  for (uint64_t i = 0; i < 6; ++i) {
    const Value set = b.Compare(Cmp::kNe, b.And(y, b.Const(x.kind, uint64_t{1} << i)), zero);
    result = b.Select(set, b.Mul(result, base), result);
    if (i < 5) base = b.Mul(base, base);
  }
  const Value odd = b.Compare(Cmp::kNe, b.And(y, one), zero);
  const Value of_minus = b.Select(odd, minus, one);
  const Value inverse =
      b.Select(b.Compare(Cmp::kEq, x, one), one, b.Select(b.Compare(Cmp::kEq, x, minus), of_minus, zero));
  return b.Select(b.Compare(Cmp::kSLt, y, zero), inverse, result);
}

Value IntClz(Builder& b, Value x) {
  if (x.kind == Kind::kU64) {
    const Value low = b.UConvert(x, Kind::kU32);
    const Value high = b.UConvert(b.Shr(x, b.Const(Kind::kU64, 32)), Kind::kU32);
    const Value count =
        b.Select(b.Compare(Cmp::kEq, high, b.U32(0)), b.Add(IntClz(b, low), b.U32(32)), IntClz(b, high));
    return b.UConvert(count, Kind::kU64);
  }
  return b.Sub(b.U32(31), b.FindUMsb(x));  // of 0: 31 - (-1) = 32
}

Value IntPopcnt(Builder& b, Value x) {
  if (x.kind == Kind::kU64) {
    const Value low = b.BitCount(b.UConvert(x, Kind::kU32));
    const Value high = b.BitCount(b.UConvert(b.Shr(x, b.Const(Kind::kU64, 32)), Kind::kU32));
    return b.UConvert(b.Add(low, high), Kind::kU64);
  }
  return b.BitCount(x);
}

Value MulHi64(Builder& b, Value x, Value y, bool is_signed) {
  const Value mask = b.Const(Kind::kU64, 0xffffffffu), s32 = b.Const(Kind::kU64, 32);
  const Value xl = b.And(x, mask), xh = b.Shr(x, s32), yl = b.And(y, mask), yh = b.Shr(y, s32);
  const Value low = b.Mul(xl, yl);
  const Value mid1 = b.Add(b.Mul(xh, yl), b.Shr(low, s32));
  const Value mid2 = b.Add(b.Mul(xl, yh), b.And(mid1, mask));
  Value high = b.Add(b.Mul(xh, yh), b.Add(b.Shr(mid1, s32), b.Shr(mid2, s32)));
  if (!is_signed) return high;
  const Value zero = b.Const(Kind::kU64, 0);
  high = b.Sub(high, b.Select(b.Compare(Cmp::kSLt, x, zero), y, zero));
  return b.Sub(high, b.Select(b.Compare(Cmp::kSLt, y, zero), x, zero));
}

Value LowerInt(Builder& b, Opcode opcode, ElementType type, ElementType hlo_type, std::span<const Value> v) {
  const Kind kind = v[0].kind;
  const bool is_signed = IsSignedCompute(type);
  const Value zero = b.Const(kind, 0), one = b.Const(kind, 1), minus = b.Const(kind, ~uint64_t{0});
  const auto limit = static_cast<uint64_t>(
      hlo_type == ElementType::kInvalid ? KindBits(kind) : std::min(BitWidth(hlo_type), KindBits(kind)));
  if (opcode == Opcode::kAdd) return b.Add(v[0], v[1]);
  if (opcode == Opcode::kSubtract) return b.Sub(v[0], v[1]);
  if (opcode == Opcode::kMultiply) return b.Mul(v[0], v[1]);
  if (opcode == Opcode::kDivide) {
    const Quotient q = SafeDivide(b, v[0], v[1], is_signed);
    return b.Select(q.by_zero, minus, q.quotient);
  }
  if (opcode == Opcode::kRemainder) {
    const Quotient q = SafeDivide(b, v[0], v[1], is_signed);
    return b.Select(q.by_zero, v[0], b.Sub(v[0], b.Mul(q.quotient, q.divisor)));
  }
  if (opcode == Opcode::kPower) return IntPower(b, v[0], v[1]);
  if (opcode == Opcode::kMaximum) return is_signed ? b.SMax(v[0], v[1]) : b.UMax(v[0], v[1]);
  if (opcode == Opcode::kMinimum) return is_signed ? b.SMin(v[0], v[1]) : b.Min(v[0], v[1]);
  if (opcode == Opcode::kClamp) {
    const Value low = is_signed ? b.SMax(v[0], v[1]) : b.UMax(v[0], v[1]);
    return is_signed ? b.SMin(low, v[2]) : b.Min(low, v[2]);
  }
  if (opcode == Opcode::kAnd) return b.And(v[0], v[1]);
  if (opcode == Opcode::kOr) return b.Or(v[0], v[1]);
  if (opcode == Opcode::kXor) return b.Xor(v[0], v[1]);
  if (opcode == Opcode::kNot) return b.Not(v[0]);
  if (opcode == Opcode::kNegate) return b.Neg(v[0]);
  if (opcode == Opcode::kAbs) {
    return is_signed ? b.Select(b.Compare(Cmp::kSLt, v[0], zero), b.Neg(v[0]), v[0]) : v[0];
  }
  if (opcode == Opcode::kSign) {
    const Value positive = b.Select(b.Compare(Cmp::kEq, v[0], zero), zero, one);
    return is_signed ? b.Select(b.Compare(Cmp::kSLt, v[0], zero), minus, positive) : positive;
  }
  if (opcode == Opcode::kShiftLeft || opcode == Opcode::kShiftRightLogical) {
    const Value in = b.Compare(Cmp::kULt, v[1], b.Const(kind, limit));
    const Value s = b.Select(in, v[1], zero);
    return b.Select(in, opcode == Opcode::kShiftLeft ? b.Shl(v[0], s) : b.Shr(v[0], s), zero);
  }
  if (opcode == Opcode::kShiftRightArithmetic) { return b.Sar(v[0], b.Min(v[1], b.Const(kind, limit - 1))); }
  if (opcode == Opcode::kClz) return IntClz(b, v[0]);
  if (opcode == Opcode::kPopulationCount) return IntPopcnt(b, v[0]);
  if (opcode == Opcode::kMulhi) {
    if (kind == Kind::kU64) return MulHi64(b, v[0], v[1], is_signed);
    return is_signed ? b.SMulHi(v[0], v[1]) : b.UMulHi(v[0], v[1]);
  }
  if (opcode == Opcode::kSelect) return b.Select(v[0], v[1], v[2]);
  return {};
}

Value LowerPred(Builder& b, Opcode opcode, std::span<const Value> v) {
  if (opcode == Opcode::kAdd || opcode == Opcode::kOr || opcode == Opcode::kMaximum) return b.LOr(v[0], v[1]);
  if (opcode == Opcode::kMultiply || opcode == Opcode::kAnd || opcode == Opcode::kMinimum) return b.LAnd(v[0], v[1]);
  if (opcode == Opcode::kXor || opcode == Opcode::kSubtract) return b.LNotEqual(v[0], v[1]);
  if (opcode == Opcode::kNot) return b.LNot(v[0]);
  if (opcode == Opcode::kClamp) return b.LAnd(b.LOr(v[0], v[1]), v[2]);
  return {};
}

Value SignExtendBits(Builder& b, Value v, int bits) {
  const Value shift = b.U32(static_cast<uint32_t>(32 - bits));
  return b.Sar(b.Shl(v, shift), shift);
}

Value TotalOrderKey(Builder& b, Value v) {
  const Kind kind = KindBits(v.kind) == 64 ? Kind::kU64 : Kind::kU32;
  const Value bits = b.Bitcast(v, kind);
  const auto top = static_cast<uint64_t>(KindBits(kind) - 1);
  // All bits but the sign of negative numbers are flipped, so that the order of signed integers is the total order.
  const Value flip = b.Shr(b.Sar(bits, b.Const(kind, top)), b.Const(kind, 1));
  return b.Xor(bits, flip);
}

}  // namespace

Kind ComputeKind(ElementType t) {
  if (t == ElementType::kPred) return Kind::kBool;
  if (t == ElementType::kF32) return Kind::kF32;
  if (t == ElementType::kF64) return Kind::kF64;
  if (t == ElementType::kS64 || t == ElementType::kU64) return Kind::kU64;
  KRAFLA_CHECK(t == ElementType::kS32 || t == ElementType::kU32);
  return Kind::kU32;
}

namespace {

// By its bits, because a compiler may assume that a number is equal to itself.
Value IsNanByBits(Builder& b, Value v) {
  const Kind kind = v.kind == Kind::kF64 ? Kind::kU64 : Kind::kU32;
  const uint64_t inf = v.kind == Kind::kF64 ? 0x7ff0000000000000u : 0x7f800000u;
  const Value magnitude = b.And(b.Bitcast(v, kind), b.Const(kind, ~uint64_t{0} >> (65 - KindBits(kind))));
  return b.Compare(Cmp::kULt, b.Const(kind, inf), magnitude);
}
uint64_t NanBits(Kind kind) { return kind == Kind::kF64 ? kNanF64 : kind == Kind::kF16 ? kNanF16 : kNanF32; }

}  // namespace

Value SettledNan(Builder& b, Value v) {
  if (v.kind != Kind::kF32 && v.kind != Kind::kF64) return v;
  return b.Select(IsNanByBits(b, v), b.Const(v.kind, NanBits(v.kind)), v);
}
Value SettledConversion(Builder& b, Value v, Value from) {
  const Kind bits = from.kind == Kind::kF64 ? Kind::kU64 : Kind::kU32;
  const Value negative = b.Compare(Cmp::kSLt, b.Bitcast(from, bits), b.Const(bits, 0));
  const uint64_t nan = NanBits(v.kind), sign = uint64_t{1} << (KindBits(v.kind) - 1);
  const Value quiet = b.Select(negative, b.Const(v.kind, nan | sign), b.Const(v.kind, nan));
  return b.Select(IsNanByBits(b, from), quiet, v);
}

Value LowerWrap(Builder& b, ElementType narrow, Value v) {
  const int bits = BitWidth(narrow);
  if (IsSigned(narrow)) return SignExtendBits(b, v, bits);
  return b.And(v, b.U32((1u << bits) - 1));
}

Value FromStorage(Builder& b, ElementType storage, Value bits) {
  if (storage == ElementType::kPred) return b.Compare(Cmp::kNe, bits, b.U32(0));
  if (storage == ElementType::kF32) return b.Bitcast(bits, Kind::kF32);
  if (storage == ElementType::kF64) return b.Bitcast(bits, Kind::kF64);
  if (IsFloat(storage)) return DecodeFloat(b, storage, bits);
  // Integers of less than a byte lie in one byte each, with their sign extended where they have one.
  if (IsSigned(storage) && BitWidth(storage) < 32) return SignExtendBits(b, bits, StorageBytes(storage) * 8);
  return bits;
}

Value ToStorage(Builder& b, ElementType storage, Value v) {
  if (storage == ElementType::kPred) return b.Select(v, b.U32(1), b.U32(0));
  if (storage == ElementType::kF32) return b.Bitcast(v, Kind::kU32);
  if (storage == ElementType::kF64) return v;  // the buffer takes f64 as it is
  if (IsFloat(storage)) return EncodeFloat(b, storage, v, /*exact=*/true);
  return v;
}

Result<> CheckType(ElementType t, const DeviceProfile& profile) {
  const ElementType c = plan::ComputeType(t);
  if (c == ElementType::kF64 && !profile.features.float64) {
    return Unimplemented("The kernel needs float64, which {} lacks.", profile.name);
  }
  return {};
}

Result<> CheckProgram(const plan::ElementProgram& program, const DeviceProfile& profile) {
  for (const plan::Node& n : program.nodes) {
    KRAFLA_TRY(CheckType(n.type, profile));
    if (n.op == plan::NodeOp::kLoad) KRAFLA_TRY(CheckType(n.storage, profile));
  }
  for (const plan::Store& s : program.stores) KRAFLA_TRY(CheckType(s.storage, profile));
  return {};
}

namespace {

// The greater, or the lesser, of two numbers by their bits, so that subnormals differ from zeros on every device and +0
// is greater than -0.
Value Extreme(Builder& b, Value x, Value y, bool greater) {
  if (const Value v = ExtremeOfConstant(b, x, y, !greater)) return v;
  const Value less = b.Compare(Cmp::kSLt, TotalOrderKey(b, x), TotalOrderKey(b, y));
  const Value ordered = greater ? b.Select(less, y, x) : b.Select(less, x, y);
  return b.Select(b.IsNan(x), x, b.Select(b.IsNan(y), y, ordered));
}

}  // namespace

Value FloatMax(Builder& b, Value x, Value y) { return Extreme(b, x, y, true); }
Value FloatMin(Builder& b, Value x, Value y) { return Extreme(b, x, y, false); }

Value LowerCompare(Builder& b, ComparisonDirection direction, ElementType type, bool total_order, Value x, Value y) {
  if (type == ElementType::kPred) {
    switch (direction) {
      case ComparisonDirection::kEq: return b.LEqual(x, y);
      case ComparisonDirection::kNe: return b.LNotEqual(x, y);
      case ComparisonDirection::kLt: return b.LAnd(b.LNot(x), y);
      case ComparisonDirection::kLe: return b.LOr(b.LNot(x), y);
      case ComparisonDirection::kGt: return b.LAnd(x, b.LNot(y));
      case ComparisonDirection::kGe: return b.LOr(x, b.LNot(y));
    }
  }
  const bool is_float = IsFloat(type);
  if (is_float && !total_order) {
    switch (direction) {
      case ComparisonDirection::kEq: return b.FCompare(FCmp::kEq, x, y);
      case ComparisonDirection::kNe: return b.FCompare(FCmp::kNeUnordered, x, y);
      case ComparisonDirection::kLt: return b.FCompare(FCmp::kLt, x, y);
      case ComparisonDirection::kLe: return b.FCompare(FCmp::kLe, x, y);
      case ComparisonDirection::kGt: return b.FCompare(FCmp::kGt, x, y);
      case ComparisonDirection::kGe: return b.FCompare(FCmp::kGe, x, y);
    }
  }
  const bool is_signed = is_float || IsSignedCompute(type);
  if (is_float) {
    x = TotalOrderKey(b, x);
    y = TotalOrderKey(b, y);
  }
  switch (direction) {
    case ComparisonDirection::kEq: return b.Compare(Cmp::kEq, x, y);
    case ComparisonDirection::kNe: return b.Compare(Cmp::kNe, x, y);
    case ComparisonDirection::kLt: return b.Compare(is_signed ? Cmp::kSLt : Cmp::kULt, x, y);
    case ComparisonDirection::kLe: return b.Compare(is_signed ? Cmp::kSLe : Cmp::kULe, x, y);
    case ComparisonDirection::kGt: return b.Compare(is_signed ? Cmp::kSGt : Cmp::kUGt, x, y);
    case ComparisonDirection::kGe: return b.Compare(is_signed ? Cmp::kSGe : Cmp::kUGe, x, y);
  }
  KRAFLA_UNREACHABLE();
}

Value LowerConvert(Builder& b, ElementType from, ElementType to, Value v) {
  if (from == to) return v;
  const Kind kind = ComputeKind(to);
  if (from == ElementType::kPred) {
    const uint64_t one = to == ElementType::kF32   ? std::bit_cast<uint32_t>(1.0f)
                         : to == ElementType::kF64 ? std::bit_cast<uint64_t>(1.0)
                                                   : 1;
    return b.Select(v, b.Const(kind, one), b.Const(kind, 0));
  }
  if (IsFloat(from)) {
    if (to == ElementType::kPred) {
      // By its bits, so that a subnormal is true also on a device that takes it for a zero.
      const Kind bits = KindBits(v.kind) == 64 ? Kind::kU64 : Kind::kU32;
      return b.Compare(Cmp::kNe, b.Shl(b.Bitcast(v, bits), b.Const(bits, 1)), b.Const(bits, 0));
    }
    if (IsFloat(to)) return b.FConvert(v, kind);
    return FloatToInt(b, v, to);
  }
  if (to == ElementType::kPred) return b.Compare(Cmp::kNe, v, b.Const(v.kind, 0));
  if (IsFloat(to)) return IntToFloat(b, v, IsSignedCompute(from), kind);
  return IsSignedCompute(from) ? b.SConvert(v, kind) : b.UConvert(v, kind);
}

Value LowerRound(Builder& b, ElementType narrow, Value v) { return RoundFloat(b, narrow, v); }

Value LowerHlo(Builder& b, Opcode opcode, ElementType type, ElementType hlo_type, std::span<const Value> operands) {
  if (opcode == Opcode::kSelect) return b.Select(operands[0], operands[1], operands[2]);
  Value out;
  if (opcode == Opcode::kIsFinite || IsFloat(type)) {
    out = LowerFloat(b, opcode, operands);
  } else if (type == ElementType::kPred) {
    out = LowerPred(b, opcode, operands);
  } else {
    out = LowerInt(b, opcode, type, hlo_type, operands);
  }
  KRAFLA_CHECK(out);
  return out;
}

Value LowerNode(Builder& b, const plan::ElementProgram& program, const plan::Node& node,
                std::span<const Value> operands) {
  auto operand_type = [&](int i) {
    return program.nodes[static_cast<std::size_t>(node.operands[static_cast<std::size_t>(i)])].type;
  };
  switch (node.op) {
    case plan::NodeOp::kConstant: return b.Const(ComputeKind(node.type), node.bits);
    case plan::NodeOp::kHlo: return LowerHlo(b, node.opcode, node.type, node.storage, operands);
    case plan::NodeOp::kCompare:
      return LowerCompare(b, node.direction, operand_type(0), node.total_order, operands[0], operands[1]);
    case plan::NodeOp::kConvert:
      if (IsFloat(operand_type(0)) && !IsFloat(node.type) && node.type != ElementType::kPred &&
          IsSmallNumber(program, node.operands[0], node.type))
        return SmallFloatToInt(b, operands[0], node.type);
      return LowerConvert(b, operand_type(0), node.type, operands[0]);
    case plan::NodeOp::kBitcast: return b.Bitcast(operands[0], ComputeKind(node.type));
    case plan::NodeOp::kRound: return LowerRound(b, node.storage, operands[0]);
    case plan::NodeOp::kWrap: return LowerWrap(b, node.storage, operands[0]);
    case plan::NodeOp::kEncode: return EncodeFloat(b, node.storage, operands[0], /*exact=*/true);
    case plan::NodeOp::kDecode: return DecodeFloat(b, node.storage, operands[0]);
    case plan::NodeOp::kReducePrecision:
      return ReducePrecision(b, operands[0], static_cast<int>(node.bits >> 32),
                             static_cast<int>(node.bits & 0xffffffffu));
    case plan::NodeOp::kIndex:
    case plan::NodeOp::kParam:
    case plan::NodeOp::kLoad: break;
  }
  KRAFLA_UNREACHABLE();
}

}  // namespace krafla::spirv
