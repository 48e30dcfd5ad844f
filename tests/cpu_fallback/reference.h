// SPDX-License-Identifier: Apache-2.0
// Element programs run one point at a time by the scalar definitions of numerics: what the kernels are held against.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "ir/mini_float.h"
#include "numerics/call_formula.h"
#include "numerics/formats.h"
#include "numerics/formulas.h"
#include "numerics/scalar_f64.h"
#include "numerics/scalar_ops.h"
#include "plan/element_program.h"

namespace krafla::reference {

using plan::ElementProgram;
using plan::IndexAtom;
using plan::IndexId;
using plan::kNoNode;
using plan::Node;
using plan::NodeOp;

template <class T>
T As(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
template <class T>
uint64_t Bits(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

inline uint64_t ReadElement(ElementType storage, const std::byte* buffer, int64_t index) {
  const int width = StorageBytes(storage);
  uint64_t raw = 0;
  std::memcpy(&raw, buffer + index * width, static_cast<std::size_t>(width));
  if (const MiniFloat* f = FindMiniFloat(storage)) {
    if (storage == ElementType::kBF16) return Bits(BF16ToFloat(static_cast<uint16_t>(raw)));
    return Bits(DecodeMiniFloat(static_cast<uint32_t>(raw), *f));
  }
  if (IsSigned(storage) && width == 1) return Bits(static_cast<int32_t>(static_cast<int8_t>(raw)));
  if (IsSigned(storage) && width == 2) return Bits(static_cast<int32_t>(static_cast<int16_t>(raw)));
  return raw;
}
inline void WriteElement(ElementType storage, std::byte* buffer, int64_t index, uint64_t value) {
  const int width = StorageBytes(storage);
  if (const MiniFloat* f = FindMiniFloat(storage)) value = EncodeMiniFloat(As<float>(value), *f);
  std::memcpy(buffer + index * width, &value, static_cast<std::size_t>(width));
}

template <class T>
uint64_t IntegerOp(Opcode op, uint64_t a, uint64_t b, uint64_t c) {
  using U = std::make_unsigned_t<T>;
  const T x = As<T>(a), y = As<T>(b), z = As<T>(c);
  const U ux = static_cast<U>(x), uy = static_cast<U>(y);
  if (op == Opcode::kAdd) return Bits(static_cast<T>(ux + uy));
  if (op == Opcode::kSubtract) return Bits(static_cast<T>(ux - uy));
  if (op == Opcode::kMultiply) return Bits(static_cast<T>(ux * uy));
  if (op == Opcode::kDivide) return Bits(DivideInt(x, y));
  if (op == Opcode::kRemainder) return Bits(RemainderInt(x, y));
  if (op == Opcode::kPower) return Bits(PowInt(x, y));
  if (op == Opcode::kMulhi) return Bits(MulhiInt(x, y));
  if (op == Opcode::kAnd) return Bits(static_cast<T>(x & y));
  if (op == Opcode::kOr) return Bits(static_cast<T>(x | y));
  if (op == Opcode::kXor) return Bits(static_cast<T>(x ^ y));
  if (op == Opcode::kNot) return Bits(static_cast<T>(~x));
  if (op == Opcode::kNegate) return Bits(static_cast<T>(U{0} - ux));
  if (op == Opcode::kAbs) return Bits(x < T{0} ? static_cast<T>(U{0} - ux) : x);
  if (op == Opcode::kSign) return Bits(static_cast<T>(x > T{0} ? 1 : x < T{0} ? -1 : 0));
  if (op == Opcode::kMaximum) return Bits(x > y ? x : y);
  if (op == Opcode::kMinimum) return Bits(x < y ? x : y);
  if (op == Opcode::kShiftLeft) return Bits(ShiftLeftInt(x, y));
  if (op == Opcode::kShiftRightLogical) return Bits(ShiftRightLogicalInt(x, y));
  if (op == Opcode::kShiftRightArithmetic) return Bits(ShiftRightArithmeticInt(x, y));
  if (op == Opcode::kClz) return Bits(ClzInt(x));
  if (op == Opcode::kPopulationCount) return Bits(PopcntInt(x));
  if (op == Opcode::kClamp) return Bits(std::min(std::max(x, y), z));
  KRAFLA_UNREACHABLE();
}

inline uint64_t FloatOp(Opcode op, uint64_t a, uint64_t b, uint64_t c) {
  const ScalarOps o;
  const float x = As<float>(a), y = As<float>(b), z = As<float>(c);
  if (op == Opcode::kAdd) return Bits(x + y);
  if (op == Opcode::kSubtract) return Bits(x - y);
  if (op == Opcode::kMultiply) return Bits(x * y);
  if (op == Opcode::kDivide) return Bits(x / y);
  if (op == Opcode::kMaximum) return Bits(Max(o, x, y));
  if (op == Opcode::kMinimum) return Bits(Min(o, x, y));
  if (op == Opcode::kClamp) return Bits(Clamp(o, x, y, z));
  if (op == Opcode::kAbs) return Bits(o.Abs(x));
  if (op == Opcode::kNegate) return Bits(o.Neg(x));
  if (op == Opcode::kSign) return Bits(Sign(o, x));
  if (op == Opcode::kFloor) return Bits(Floor(o, x));
  if (op == Opcode::kCeil) return Bits(Ceil(o, x));
  if (op == Opcode::kRoundNearestEven) return Bits(RoundNearestEven(o, x));
  if (op == Opcode::kRoundNearestAfz) return Bits(RoundNearestAfz(o, x));
  if (op == Opcode::kRemainder) return Bits(Remainder(o, x, y));
#define KRAFLA_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) \
  if (op == Opcode::Enum) return Bits(CallFormula<arity>([&](auto... v) { return Function(o, v...); }, x, y));
#include "ir/ops.def"
  KRAFLA_UNREACHABLE();
}

inline uint64_t DoubleOp(Opcode op, uint64_t a, uint64_t b, uint64_t c) {
  const double x = As<double>(a), y = As<double>(b), z = As<double>(c);
  auto max = [](double p, double q) {
    return p != p ? p : q != q ? q : p == q ? (std::signbit(p) ? q : p) : p > q ? p : q;
  };
  auto min = [](double p, double q) {
    return p != p ? p : q != q ? q : p == q ? (std::signbit(p) ? p : q) : p < q ? p : q;
  };
  if (op == Opcode::kAdd) return Bits(x + y);
  if (op == Opcode::kSubtract) return Bits(x - y);
  if (op == Opcode::kMultiply) return Bits(x * y);
  if (op == Opcode::kDivide) return Bits(x / y);
  if (op == Opcode::kMaximum) return Bits(max(x, y));
  if (op == Opcode::kMinimum) return Bits(min(x, y));
  if (op == Opcode::kClamp) return Bits(min(max(x, y), z));
  if (op == Opcode::kAbs) return Bits(std::fabs(x));
  if (op == Opcode::kNegate) return Bits(-x);
  if (op == Opcode::kSign) return Bits(x != x || x == 0 ? x : std::copysign(1.0, x));
  if (op == Opcode::kFloor) return Bits(std::floor(x));
  if (op == Opcode::kCeil) return Bits(std::ceil(x));
  if (op == Opcode::kRoundNearestEven) return Bits(std::nearbyint(x));
  if (op == Opcode::kRoundNearestAfz) return Bits(std::round(x));
  if (op == Opcode::kRemainder) return Bits(std::fmod(x, y));
#define KRAFLA_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) \
  if (op == Opcode::Enum) return Bits(CallFormula<arity>([&](auto... v) { return scalar::Function(v...); }, x, y));
#include "ir/ops.def"
  KRAFLA_UNREACHABLE();
}

template <class T>
bool CompareAs(const Node& n, uint64_t a, uint64_t b) {
  T x = As<T>(a), y = As<T>(b);
  switch (n.direction) {
    case ComparisonDirection::kEq: return x == y;
    case ComparisonDirection::kNe: return x != y;
    case ComparisonDirection::kGe: return x >= y;
    case ComparisonDirection::kGt: return x > y;
    case ComparisonDirection::kLe: return x <= y;
    case ComparisonDirection::kLt: return x < y;
  }
  return false;
}
inline bool CompareValues(const Node& n, ElementType type, uint64_t a, uint64_t b) {
  if (n.total_order && type == ElementType::kF32) {
    auto key = [](uint64_t v) {
      int32_t i = As<int32_t>(v);
      return Bits(i < 0 ? i ^ 0x7fffffff : i);
    };
    return CompareAs<int32_t>(n, key(a), key(b));
  }
  if (n.total_order && type == ElementType::kF64) {
    auto key = [](uint64_t v) {
      int64_t i = As<int64_t>(v);
      return Bits(i < 0 ? i ^ INT64_MAX : i);
    };
    return CompareAs<int64_t>(n, key(a), key(b));
  }
  if (type == ElementType::kPred) return CompareAs<uint8_t>(n, a, b);
  if (type == ElementType::kS32) return CompareAs<int32_t>(n, a, b);
  if (type == ElementType::kU32) return CompareAs<uint32_t>(n, a, b);
  if (type == ElementType::kS64) return CompareAs<int64_t>(n, a, b);
  if (type == ElementType::kU64) return CompareAs<uint64_t>(n, a, b);
  if (type == ElementType::kF32) return CompareAs<float>(n, a, b);
  return CompareAs<double>(n, a, b);
}

template <class From>
uint64_t ConvertFrom(ElementType to, From x) {
  auto to_int = [&]<class To>(To) -> To {
    if constexpr (std::is_floating_point_v<From>) {
      if (x != x) return 0;
      const From end = std::ldexp(From{1}, std::numeric_limits<To>::digits);
      if (x >= end) return std::numeric_limits<To>::max();
      if (std::is_signed_v<To> ? x < -end : x < 0) return std::numeric_limits<To>::min();
    }
    return static_cast<To>(x);
  };
  if (to == ElementType::kPred) return Bits(static_cast<uint8_t>(x != From{0}));
  if (to == ElementType::kS32) return Bits(to_int(int32_t{}));
  if (to == ElementType::kU32) return Bits(to_int(uint32_t{}));
  if (to == ElementType::kS64) return Bits(to_int(int64_t{}));
  if (to == ElementType::kU64) return Bits(to_int(uint64_t{}));
  if (to == ElementType::kF32) return Bits(static_cast<float>(x));
  return Bits(static_cast<double>(x));
}
inline uint64_t ConvertValue(ElementType from, ElementType to, uint64_t v) {
  if (from == ElementType::kPred) return ConvertFrom(to, As<uint8_t>(v));
  if (from == ElementType::kS32) return ConvertFrom(to, As<int32_t>(v));
  if (from == ElementType::kU32) return ConvertFrom(to, As<uint32_t>(v));
  if (from == ElementType::kS64) return ConvertFrom(to, As<int64_t>(v));
  if (from == ElementType::kU64) return ConvertFrom(to, As<uint64_t>(v));
  if (from == ElementType::kF32) return ConvertFrom(to, As<float>(v));
  return ConvertFrom(to, As<double>(v));
}

class Interpreter {
 public:
  Interpreter(const ElementProgram& program, std::vector<std::byte*> buffers)
      : p_(program), buffers_(std::move(buffers)) {}

  // Values of the results at `point`; stores are made.
  std::vector<uint64_t> RunPoint(std::span<const int64_t> point, std::span<const uint64_t> params = {}) {
    point_ = point;
    values_.assign(p_.nodes.size(), 0);
    for (std::size_t i = 0; i < p_.nodes.size(); ++i) values_[i] = Evaluate(p_.nodes[i], params);
    for (const plan::Store& s : p_.stores) {
      if (s.mask != kNoNode && Value(s.mask) == 0) continue;
      WriteElement(s.storage, buffers_[static_cast<std::size_t>(s.buffer)], Index(s.index), Value(s.node));
    }
    std::vector<uint64_t> out;
    for (plan::NodeId r : p_.results) out.push_back(Value(r));
    return out;
  }
  void RunAll() {
    std::vector<int64_t> point(p_.space.dims().size(), 0);
    for (int64_t d : p_.space.dims())
      if (d == 0) return;
    do RunPoint(point);
    while (NextIndex(point, p_.space.dims()));
  }

 private:
  uint64_t Value(plan::NodeId id) const { return values_[static_cast<std::size_t>(id)]; }
  int64_t Index(IndexId id) const {
    int64_t out = p_.space.expr(id).constant;
    for (const plan::IndexTerm& t : p_.space.expr(id).terms) {
      const IndexAtom& a = p_.space.atom(t.atom);
      int64_t v = 0;
      switch (a.kind) {
        case IndexAtom::Kind::kIter: v = point_[static_cast<std::size_t>(a.iter)]; break;
        case IndexAtom::Kind::kFloorDiv: v = Index(a.expr) / a.divisor; break;
        case IndexAtom::Kind::kMod: v = Index(a.expr) % a.divisor; break;
        case IndexAtom::Kind::kValue: v = As<int32_t>(Value(a.node)); break;
      }
      out += t.coefficient * v;
    }
    return out;
  }
  uint64_t Evaluate(const Node& n, std::span<const uint64_t> params) const {
    uint64_t in[3] = {0, 0, 0};
    for (int i = 0; i < 3; ++i)
      if (n.operands[static_cast<std::size_t>(i)] != kNoNode) in[i] = Value(n.operands[static_cast<std::size_t>(i)]);
    const ElementType from =
        n.operands[0] != kNoNode ? p_.nodes[static_cast<std::size_t>(n.operands[0])].type : ElementType::kInvalid;
    switch (n.op) {
      case NodeOp::kConstant: return n.bits;
      case NodeOp::kIndex: return Bits(static_cast<int32_t>(Index(n.index)));
      case NodeOp::kParam: return params[n.bits];
      case NodeOp::kLoad:
        if (n.mask != kNoNode && Value(n.mask) == 0) return 0;
        return ReadElement(n.storage, buffers_[static_cast<std::size_t>(n.buffer)], Index(n.index));
      case NodeOp::kCompare: return CompareValues(n, from, in[0], in[1]) ? 1 : 0;
      case NodeOp::kConvert: return ConvertValue(from, n.type, in[0]);
      case NodeOp::kBitcast: return in[0];
      case NodeOp::kRound: {
        const MiniFloat& f = *FindMiniFloat(n.storage);
        const uint32_t code =
            from == ElementType::kF64 ? EncodeMiniFloat(As<double>(in[0]), f) : EncodeMiniFloat(As<float>(in[0]), f);
        return Bits(DecodeMiniFloat(code, f));
      }
      case NodeOp::kEncode: return EncodeMiniFloat(As<float>(in[0]), *FindMiniFloat(n.storage));
      case NodeOp::kDecode: return Bits(DecodeMiniFloat(static_cast<uint32_t>(in[0]), *FindMiniFloat(n.storage)));
      case NodeOp::kWrap: {
        const int shift = 32 - BitWidth(n.storage);
        const uint32_t up = static_cast<uint32_t>(in[0]) << shift;
        return IsSigned(n.storage) ? Bits(static_cast<int32_t>(up) >> shift) : Bits(up >> shift);
      }
      case NodeOp::kReducePrecision:
        if (n.type == ElementType::kF64)
          return Bits(krafla::ReducePrecision(As<double>(in[0]), static_cast<int>(n.bits >> 32),
                                              static_cast<int>(n.bits & 0xffff)));
        return Bits(krafla::ReducePrecision(As<float>(in[0]), static_cast<int>(n.bits >> 32),
                                            static_cast<int>(n.bits & 0xffff)));
      case NodeOp::kHlo: break;
    }
    if (n.opcode == Opcode::kSelect) return in[0] != 0 ? in[1] : in[2];
    if (n.opcode == Opcode::kIsFinite)
      return (from == ElementType::kF64 ? std::isfinite(As<double>(in[0])) : std::isfinite(As<float>(in[0]))) ? 1 : 0;
    if (n.type == ElementType::kPred) {
      if (n.opcode == Opcode::kAnd || n.opcode == Opcode::kMultiply || n.opcode == Opcode::kMinimum)
        return in[0] & in[1];
      if (n.opcode == Opcode::kOr || n.opcode == Opcode::kAdd || n.opcode == Opcode::kMaximum) return in[0] | in[1];
      if (n.opcode == Opcode::kXor) return in[0] ^ in[1];
      return in[0] ^ 1;
    }
    if (n.type == ElementType::kS32) return IntegerOp<int32_t>(n.opcode, in[0], in[1], in[2]);
    if (n.type == ElementType::kU32) return IntegerOp<uint32_t>(n.opcode, in[0], in[1], in[2]);
    if (n.type == ElementType::kS64) return IntegerOp<int64_t>(n.opcode, in[0], in[1], in[2]);
    if (n.type == ElementType::kU64) return IntegerOp<uint64_t>(n.opcode, in[0], in[1], in[2]);
    if (n.type == ElementType::kF64) return DoubleOp(n.opcode, in[0], in[1], in[2]);
    return FloatOp(n.opcode, in[0], in[1], in[2]);
  }

  const ElementProgram& p_;
  std::vector<std::byte*> buffers_;
  std::span<const int64_t> point_;
  std::vector<uint64_t> values_;
};

}  // namespace krafla::reference
