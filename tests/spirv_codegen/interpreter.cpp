// SPDX-License-Identifier: Apache-2.0
#include "interpreter.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "ir/mini_float.h"
#include "krafla/status.h"
#include "numerics/call_formula.h"
#include "numerics/formulas.h"
#include "numerics/scalar_f64.h"
#include "numerics/scalar_ops.h"

namespace krafla::spirv::testing {

using plan::ComputeType;
using plan::NodeOp;

namespace {

float ToF32(Bits b) { return std::bit_cast<float>(static_cast<uint32_t>(b)); }
double ToF64(Bits b) { return std::bit_cast<double>(b); }
Bits Of(float f) { return std::bit_cast<uint32_t>(f); }
Bits Of(double d) { return std::bit_cast<uint64_t>(d); }

int64_t SignExtend(Bits v, int bits) { return static_cast<int64_t>(v << (64 - bits)) >> (64 - bits); }

Bits Truncate(Bits v, ElementType compute) { return BitWidth(compute) == 64 ? v : v & 0xffffffffu; }

// Integers of a compute type as int64 (signed) or uint64.
template <class T>
Bits IntOp(Opcode op, int width, T x, T y, T z) {
  constexpr bool kSigned = std::is_signed_v<T>;
  const T min = kSigned ? static_cast<T>(std::numeric_limits<T>::min()) : T{0};
  using U = std::make_unsigned_t<T>;
  auto u = [](T v) { return static_cast<U>(v); };
  const bool in_width = u(y) < static_cast<U>(width);
  switch (static_cast<int>(op)) {
    case static_cast<int>(Opcode::kAdd): return u(x) + u(y);
    case static_cast<int>(Opcode::kSubtract): return u(x) - u(y);
    case static_cast<int>(Opcode::kMultiply): return static_cast<Bits>(u(x)) * u(y);
    case static_cast<int>(Opcode::kDivide):
      if (y == 0) return ~Bits{0};
      if (kSigned && x == min && u(y) == static_cast<U>(~U{0})) return u(x);
      return u(static_cast<T>(x / y));
    case static_cast<int>(Opcode::kRemainder):
      if (y == 0) return u(x);
      if (kSigned && x == min && u(y) == static_cast<U>(~U{0})) return 0;
      return u(static_cast<T>(x % y));
    case static_cast<int>(Opcode::kPower): {
      // XLA:CPU reads both sides as signed, also of unsigned types.
      if (static_cast<std::make_signed_t<T>>(y) < 0)
        return x == T{1} ? 1 : u(x) == static_cast<U>(~U{0}) ? ((y & 1) != 0 ? ~Bits{0} : 1) : 0;
      Bits result = 1, base = u(x);
      for (int i = 0; i < 6; ++i, base *= base) {
        if ((u(y) >> i & 1) != 0) result *= base;
      }
      return result;
    }
    case static_cast<int>(Opcode::kMaximum): return u(std::max(x, y));
    case static_cast<int>(Opcode::kMinimum): return u(std::min(x, y));
    case static_cast<int>(Opcode::kClamp): return u(std::min(std::max(x, y), z));
    case static_cast<int>(Opcode::kAnd): return u(x) & u(y);
    case static_cast<int>(Opcode::kOr): return u(x) | u(y);
    case static_cast<int>(Opcode::kXor): return u(x) ^ u(y);
    case static_cast<int>(Opcode::kNot): return static_cast<U>(~u(x));
    case static_cast<int>(Opcode::kNegate): return static_cast<U>(U{0} - u(x));
    case static_cast<int>(Opcode::kAbs): return x < T{0} ? static_cast<U>(U{0} - u(x)) : u(x);
    case static_cast<int>(Opcode::kSign): return u(static_cast<T>((x > T{0}) - (x < T{0})));
    case static_cast<int>(Opcode::kShiftLeft): return in_width ? static_cast<U>(u(x) << u(y)) : U{0};
    case static_cast<int>(Opcode::kShiftRightLogical): return in_width ? static_cast<U>(u(x) >> u(y)) : U{0};
    case static_cast<int>(Opcode::kShiftRightArithmetic): {
      using S = std::make_signed_t<T>;
      const auto s = static_cast<int>(in_width ? u(y) : static_cast<U>(width - 1));
      return static_cast<U>(static_cast<S>(x) >> s);
    }
    case static_cast<int>(Opcode::kClz): return static_cast<Bits>(std::countl_zero(u(x)));
    case static_cast<int>(Opcode::kPopulationCount): return static_cast<Bits>(std::popcount(u(x)));
    case static_cast<int>(Opcode::kMulhi): {
      using Wide = std::conditional_t<kSigned, __int128_t, __uint128_t>;
      return static_cast<Bits>(static_cast<Wide>(x) * static_cast<Wide>(y) >> (8 * sizeof(T)));
    }
    default: break;
  }
  KRAFLA_UNREACHABLE();
}

float F32Op(Opcode op, float x, float y, float z) {
  const ScalarOps o;
  switch (static_cast<int>(op)) {
    case static_cast<int>(Opcode::kAdd): return x + y;
    case static_cast<int>(Opcode::kSubtract): return x - y;
    case static_cast<int>(Opcode::kMultiply): return x * y;
    case static_cast<int>(Opcode::kDivide): return x / y;
    case static_cast<int>(Opcode::kMaximum): return Max(o, x, y);
    case static_cast<int>(Opcode::kMinimum): return Min(o, x, y);
    case static_cast<int>(Opcode::kClamp): return Clamp(o, x, y, z);
    case static_cast<int>(Opcode::kAbs): return std::fabs(x);
    case static_cast<int>(Opcode::kNegate): return -x;
    case static_cast<int>(Opcode::kSign): return Sign(o, x);
    case static_cast<int>(Opcode::kFloor): return std::floor(x);
    case static_cast<int>(Opcode::kCeil): return std::ceil(x);
    case static_cast<int>(Opcode::kRoundNearestAfz): return std::round(x);
    case static_cast<int>(Opcode::kRoundNearestEven): return std::nearbyint(x);
    case static_cast<int>(Opcode::kRemainder): return std::fmod(x, y);
#define KRAFLA_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) \
  case static_cast<int>(Opcode::Enum): return CallFormula<arity>([&](auto... v) { return Function(o, v...); }, x, y);
#include "ir/ops.def"
    default: break;
  }
  KRAFLA_UNREACHABLE();
}

double F64Op(Opcode op, double x, double y, double z) {
  auto max = [](double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? a : b;
    return a == b ? (std::signbit(a) ? b : a) : std::max(a, b);
  };
  auto min = [](double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? a : b;
    return a == b ? (std::signbit(a) ? a : b) : std::min(a, b);
  };
  switch (static_cast<int>(op)) {
    case static_cast<int>(Opcode::kAdd): return x + y;
    case static_cast<int>(Opcode::kSubtract): return x - y;
    case static_cast<int>(Opcode::kMultiply): return x * y;
    case static_cast<int>(Opcode::kDivide): return x / y;
    case static_cast<int>(Opcode::kMaximum): return max(x, y);
    case static_cast<int>(Opcode::kMinimum): return min(x, y);
    case static_cast<int>(Opcode::kClamp): return min(max(x, y), z);
    case static_cast<int>(Opcode::kAbs): return std::fabs(x);
    case static_cast<int>(Opcode::kNegate): return -x;
    case static_cast<int>(Opcode::kSign): return x > 0 ? 1.0 : x < 0 ? -1.0 : x;
    case static_cast<int>(Opcode::kFloor): return std::floor(x);
    case static_cast<int>(Opcode::kCeil): return std::ceil(x);
    case static_cast<int>(Opcode::kRoundNearestAfz): return std::round(x);
    case static_cast<int>(Opcode::kRoundNearestEven): return std::nearbyint(x);
#define KRAFLA_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) \
  case static_cast<int>(Opcode::Enum):                                   \
    return CallFormula<arity>([&](auto... v) { return scalar::Function(v...); }, x, y);
#include "ir/ops.def"
    default: break;
  }
  KRAFLA_UNREACHABLE();
}

template <class T>
bool CompareValues(ComparisonDirection d, T x, T y) {
  switch (d) {
    case ComparisonDirection::kEq: return x == y;
    case ComparisonDirection::kNe: return x != y;
    case ComparisonDirection::kLt: return x < y;
    case ComparisonDirection::kLe: return x <= y;
    case ComparisonDirection::kGt: return x > y;
    case ComparisonDirection::kGe: return x >= y;
  }
  return false;
}

template <class Float>
bool CompareFloats(ComparisonDirection d, bool total, Float x, Float y) {
  if (!total) return CompareValues(d, x, y);
  using I = std::conditional_t<sizeof(Float) == 4, int32_t, int64_t>;
  auto key = [](Float f) {
    const I bits = std::bit_cast<I>(f);
    return bits < 0 ? bits ^ std::numeric_limits<I>::max() : bits;
  };
  return CompareValues(d, key(x), key(y));
}

template <class Int, class Float>
Bits FloatToInt(Float f) {
  if (std::isnan(f)) return 0;
  if (f >= static_cast<Float>(std::numeric_limits<Int>::max())) {
    return static_cast<std::make_unsigned_t<Int>>(std::numeric_limits<Int>::max());
  }
  if (f <= static_cast<Float>(std::numeric_limits<Int>::min())) {
    return static_cast<std::make_unsigned_t<Int>>(std::numeric_limits<Int>::min());
  }
  return static_cast<std::make_unsigned_t<Int>>(static_cast<Int>(f));
}

Bits ConvertValue(ElementType from, ElementType to, Bits v) {
  if (from == to) return v;
  if (IsFloat(from)) {
    const double d = from == ElementType::kF32 ? static_cast<double>(ToF32(v)) : ToF64(v);
    if (to == ElementType::kPred) return d != 0;
    if (to == ElementType::kF32) return Of(static_cast<float>(d));
    if (to == ElementType::kF64) return Of(d);
    if (to == ElementType::kS32) return FloatToInt<int32_t>(d);
    if (to == ElementType::kU32) return FloatToInt<uint32_t>(d);
    if (to == ElementType::kS64) return FloatToInt<int64_t>(d);
    return FloatToInt<uint64_t>(d);
  }
  const bool is_signed = IsSigned(from);
  const int64_t s = is_signed ? SignExtend(v, BitWidth(from)) : 0;
  if (to == ElementType::kPred) return v != 0;
  if (to == ElementType::kF32) return Of(is_signed ? static_cast<float>(s) : static_cast<float>(v));
  if (to == ElementType::kF64) return Of(is_signed ? static_cast<double>(s) : static_cast<double>(v));
  return Truncate(is_signed ? static_cast<Bits>(s) : v, to);
}

Bits HloValue(const plan::Node& n, ElementType type, Bits x, Bits y, Bits z) {
  if (n.opcode == Opcode::kSelect) return x != 0 ? y : z;
  if (n.opcode == Opcode::kIsFinite) {
    return type == ElementType::kF64 ? std::isfinite(ToF64(x)) : std::isfinite(ToF32(x));
  }
  if (type == ElementType::kF32) return Of(F32Op(n.opcode, ToF32(x), ToF32(y), ToF32(z)));
  if (type == ElementType::kF64) return Of(F64Op(n.opcode, ToF64(x), ToF64(y), ToF64(z)));
  if (type == ElementType::kPred) {
    if (IsOneOf(n.opcode, {Opcode::kAdd, Opcode::kOr, Opcode::kMaximum})) return x | y;
    if (IsOneOf(n.opcode, {Opcode::kMultiply, Opcode::kAnd, Opcode::kMinimum})) return x & y;
    if (n.opcode == Opcode::kXor) return x ^ y;
    if (n.opcode == Opcode::kNot) return x ^ 1;
    KRAFLA_CHECK(n.opcode == Opcode::kClamp);
    return (x | y) & z;
  }
  const int width = std::min(BitWidth(n.storage), BitWidth(type));
  Bits out = 0;
  if (type == ElementType::kS32) {
    out = IntOp<int32_t>(n.opcode, width, static_cast<int32_t>(x), static_cast<int32_t>(y), static_cast<int32_t>(z));
  } else if (type == ElementType::kU32) {
    out =
        IntOp<uint32_t>(n.opcode, width, static_cast<uint32_t>(x), static_cast<uint32_t>(y), static_cast<uint32_t>(z));
  } else if (type == ElementType::kS64) {
    out = IntOp<int64_t>(n.opcode, width, static_cast<int64_t>(x), static_cast<int64_t>(y), static_cast<int64_t>(z));
  } else {
    out = IntOp<uint64_t>(n.opcode, width, x, y, z);
  }
  return Truncate(out, type);
}

}  // namespace

Bits ReadElement(const Bytes& bytes, ElementType storage, int64_t index) {
  const auto size = static_cast<std::size_t>(StorageBytes(storage));
  Bits raw = 0;
  const auto at = static_cast<std::size_t>(index) * size;
  KRAFLA_CHECK(at + size <= bytes.size());
  std::memcpy(&raw, bytes.data() + at, size);
  if (storage == ElementType::kPred) return raw != 0;
  if (const MiniFloat* f = FindMiniFloat(storage)) return Of(DecodeMiniFloat(static_cast<uint32_t>(raw), *f));
  if (IsSigned(storage) && size < 4) return static_cast<uint32_t>(SignExtend(raw, static_cast<int>(size * 8)));
  return raw;
}

void WriteElement(Bytes& bytes, ElementType storage, int64_t index, Bits value) {
  const auto size = static_cast<std::size_t>(StorageBytes(storage));
  if (const MiniFloat* f = FindMiniFloat(storage)) value = EncodeMiniFloat(ToF32(value), *f);
  const auto at = static_cast<std::size_t>(index) * size;
  KRAFLA_CHECK(at + size <= bytes.size());
  std::memcpy(bytes.data() + at, &value, size);
}

void Interpreter::SetPoint(std::vector<int64_t> point, std::vector<Bits> params) {
  point_ = std::move(point);
  params_ = std::move(params);
  values_.assign(program_.nodes.size(), 0);
  known_.assign(program_.nodes.size(), false);
}

int64_t Interpreter::Index(plan::IndexId id) {
  const plan::IndexExpr& e = program_.space.expr(id);
  int64_t out = e.constant;
  for (const plan::IndexTerm& t : e.terms) {
    const plan::IndexAtom& a = program_.space.atom(t.atom);
    int64_t v = 0;
    switch (a.kind) {
      case plan::IndexAtom::Kind::kIter: v = point_[static_cast<std::size_t>(a.iter)]; break;
      case plan::IndexAtom::Kind::kFloorDiv: v = Index(a.expr) / a.divisor; break;
      case plan::IndexAtom::Kind::kMod: v = Index(a.expr) % a.divisor; break;
      case plan::IndexAtom::Kind::kValue: v = SignExtend(Node(a.node), 32); break;
    }
    out += t.coefficient * v;
  }
  return out;
}

Bits Interpreter::Node(plan::NodeId id) {
  const auto at = static_cast<std::size_t>(id);
  if (known_[at]) return values_[at];
  const plan::Node& n = program_.nodes[at];
  auto type_of = [&](int i) {
    return program_.nodes[static_cast<std::size_t>(n.operands[static_cast<std::size_t>(i)])].type;
  };
  Bits v[3] = {};
  for (std::size_t i = 0; i < 3; ++i) {
    if (n.operands[i] != plan::kNoNode) v[i] = Node(n.operands[i]);
  }
  Bits out = 0;
  switch (n.op) {
    case NodeOp::kConstant: out = n.bits; break;
    case NodeOp::kIndex: out = static_cast<uint32_t>(Index(n.index)); break;
    case NodeOp::kParam: out = params_.at(n.bits); break;
    case NodeOp::kLoad:
      if (n.mask == plan::kNoNode || Node(n.mask) != 0) {
        out = ReadElement(memory_[static_cast<std::size_t>(n.buffer)], n.storage, Index(n.index));
      }
      break;
    case NodeOp::kHlo: {
      const ElementType type = n.opcode == Opcode::kIsFinite ? type_of(0) : n.type;
      out = HloValue(n, type, v[0], v[1], v[2]);
      break;
    }
    case NodeOp::kCompare: {
      const ElementType t = type_of(0);
      if (t == ElementType::kF32) {
        out = CompareFloats(n.direction, n.total_order, ToF32(v[0]), ToF32(v[1]));
      } else if (t == ElementType::kF64) {
        out = CompareFloats(n.direction, n.total_order, ToF64(v[0]), ToF64(v[1]));
      } else if (IsSigned(t)) {
        out = CompareValues(n.direction, SignExtend(v[0], BitWidth(t)), SignExtend(v[1], BitWidth(t)));
      } else {
        out = CompareValues(n.direction, v[0], v[1]);
      }
      break;
    }
    case NodeOp::kConvert: out = ConvertValue(type_of(0), n.type, v[0]); break;
    case NodeOp::kBitcast: out = v[0]; break;
    case NodeOp::kRound: {
      const MiniFloat& f = *FindMiniFloat(n.storage);
      const uint32_t code =
          type_of(0) == ElementType::kF64 ? EncodeMiniFloat(ToF64(v[0]), f) : EncodeMiniFloat(ToF32(v[0]), f);
      out = Of(DecodeMiniFloat(code, f));
      break;
    }
    case NodeOp::kWrap: {
      const int bits = BitWidth(n.storage);
      out = IsSigned(n.storage) ? static_cast<uint32_t>(SignExtend(v[0], bits)) : v[0] & ((Bits{1} << bits) - 1);
      break;
    }
    case NodeOp::kEncode: out = EncodeMiniFloat(ToF32(v[0]), *FindMiniFloat(n.storage)); break;
    case NodeOp::kDecode: out = Of(DecodeMiniFloat(static_cast<uint32_t>(v[0]), *FindMiniFloat(n.storage))); break;
    case NodeOp::kReducePrecision: {
      const int exponent = static_cast<int>(n.bits >> 32), mantissa = static_cast<int>(n.bits & 0xffffffffu);
      out = n.type == ElementType::kF64 ? Of(ReducePrecision(ToF64(v[0]), exponent, mantissa))
                                        : Of(ReducePrecision(ToF32(v[0]), exponent, mantissa));
      break;
    }
  }
  known_[at] = true;
  return values_[at] = out;
}

std::vector<Bits> Interpreter::Results() {
  std::vector<Bits> out;
  for (plan::NodeId r : program_.results) out.push_back(Node(r));
  return out;
}

void Interpreter::Store(std::vector<Bytes>& memory) {
  struct Write {
    int buffer;
    int64_t index;
    ElementType storage;
    Bits value;
  };
  std::vector<Write> writes;
  for (const plan::Store& s : program_.stores) {
    if (s.mask != plan::kNoNode && Node(s.mask) == 0) continue;
    writes.push_back({s.buffer, Index(s.index), s.storage, Node(s.node)});
  }
  for (const Write& w : writes) WriteElement(memory[static_cast<std::size_t>(w.buffer)], w.storage, w.index, w.value);
}

}  // namespace krafla::spirv::testing
