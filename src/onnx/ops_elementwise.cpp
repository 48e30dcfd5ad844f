// SPDX-License-Identifier: Apache-2.0
// Functions of each element: arithmetic, comparisons, activations, conversions.
#include <cmath>
#include <numbers>

#include "onnx/call.h"

namespace krafla::onnx {
namespace {

// In f32 for floating-point types that are smaller, as ONNX Runtime computes them.
template <typename F>
Outputs InWide(Call& c, F&& f) {
  const XlaOp x = c.In(0);
  const ElementType type = TypeOf(x);
  if (!IsSmallFloat(type)) return {f(x)};
  return {Convert(f(Convert(x, F32)), type)};
}
template <typename F>
Outputs Pairwise(Call& c, F&& f) {
  XlaOp a = c.In(0), b = c.In(1);
  Meet(a, b);
  return {f(a, b)};
}
template <typename F>
Outputs FoldAll(Call& c, F&& f) {
  if (c.count() == 0) Reject("It has no operands.");
  XlaOp out = c.In(0);
  for (std::size_t i = 1; i < c.count(); ++i) {
    XlaOp next = c.In(i);
    Meet(out, next);
    out = f(out, next);
  }
  return {out};
}

}  // namespace

#define KRAFLA_UNARY(name, formula)                              \
  Outputs name(Call& c) {                                        \
    return InWide(c, [&](XlaOp x) -> XlaOp { return formula; }); \
  }
KRAFLA_UNARY(OnAbs, IsUnsigned(TypeOf(x)) ? x : Abs(x))
KRAFLA_UNARY(OnAcos, Acos(x))
KRAFLA_UNARY(OnAcosh, Acosh(x))
KRAFLA_UNARY(OnAsin, Asin(x))
KRAFLA_UNARY(OnAsinh, Asinh(x))
KRAFLA_UNARY(OnAtan, Atan2(x, BroadcastTo(Like(x, 1), DimsOf(x))))
KRAFLA_UNARY(OnAtanh, Atanh(x))
KRAFLA_UNARY(OnCeil, Ceil(x))
KRAFLA_UNARY(OnCos, Cos(x))
KRAFLA_UNARY(OnCosh, Cosh(x))
KRAFLA_UNARY(OnErf, Erf(x))
KRAFLA_UNARY(OnExp, Exp(x))
KRAFLA_UNARY(OnFloor, Floor(x))
KRAFLA_UNARY(OnLog, Log(x))
KRAFLA_UNARY(OnNeg, Neg(x))
KRAFLA_UNARY(OnReciprocal, Div(BroadcastTo(Like(x, 1), DimsOf(x)), x))
KRAFLA_UNARY(OnRelu, Max(x, Like(x, 0)))
KRAFLA_UNARY(OnRound, RoundNearestEven(x))
KRAFLA_UNARY(OnSigmoid, Logistic(x))
KRAFLA_UNARY(OnSign, IsUnsigned(TypeOf(x)) ? Min(x, Like(x, 1)) : Sign(x))
KRAFLA_UNARY(OnSin, Sin(x))
KRAFLA_UNARY(OnSinh, Sinh(x))
KRAFLA_UNARY(OnSoftplus, ActivationOf("Softplus", 0, 0, x))
KRAFLA_UNARY(OnSoftsign, ActivationOf("Softsign", 0, 0, x))
KRAFLA_UNARY(OnSqrt, Sqrt(x))
KRAFLA_UNARY(OnTan, Tan(x))
KRAFLA_UNARY(OnTanh, Tanh(x))
KRAFLA_UNARY(OnElu, ActivationOf("Elu", c.Float("alpha", 1), 0, x))
KRAFLA_UNARY(OnLeakyRelu, ActivationOf("LeakyRelu", c.Float("alpha", 0.01F), 0, x))
KRAFLA_UNARY(OnThresholdedRelu, ActivationOf("ThresholdedRelu", c.Float("alpha", 1), 0, x))
KRAFLA_UNARY(OnHardSigmoid, ActivationOf("HardSigmoid", c.Float("alpha", 0.2F), c.Float("beta", 0.5F), x))
KRAFLA_UNARY(OnHardSwish, Mul(x, ActivationOf("HardSigmoid", 1.0 / 6, 0.5, x)))
KRAFLA_UNARY(OnMish, Mul(x, Tanh(ActivationOf("Softplus", 0, 0, x))))
KRAFLA_UNARY(OnSilu, Mul(x, Logistic(Mul(x, Like(x, c.Float("alpha", 1))))))
KRAFLA_UNARY(OnQuickGelu, Mul(x, Logistic(Mul(x, Like(x, c.Float("alpha", 1.702F))))))
#undef KRAFLA_UNARY

Outputs OnSwiGlu(Call& c) {
  const XlaOp a = c.In(0), b = c.In(1);
  if (DimsOf(a) != DimsOf(b)) Reject("A gate {} of {}.", ShapeOf(a).ToString(false), ShapeOf(b).ToString(false));
  return {Mul(OnSilu(c)[0], b)};
}

Outputs OnSelu(Call& c) {
  return InWide(c, [&](XlaOp x) {
    const double alpha = c.Float("alpha", 1.67326319217681884765625),
                 gamma = c.Float("gamma", 1.05070102214813232421875);
    return Mul(Like(x, gamma), ActivationOf("Elu", alpha, 0, x));
  });
}
Outputs OnCelu(Call& c) {
  return InWide(c, [&](XlaOp x) {
    const double alpha = c.Float("alpha", 1);
    return Select(Lt(x, Like(x, 0)), Mul(Expm1(Div(x, Like(x, alpha))), Like(x, alpha)), x);
  });
}
Outputs OnGelu(Call& c) {
  return InWide(c, [&](XlaOp x) {
    const XlaOp half = Mul(x, Like(x, 0.5));
    if (c.Text("approximate", "none") == "tanh" || c.node.op_type == "FastGelu") {
      const XlaOp inner =
          Mul(Like(x, std::sqrt(2 / std::numbers::pi)), Add(x, Mul(Mul(x, Mul(x, x)), Like(x, 0.044715))));
      return Mul(half, Add(Tanh(inner), Like(x, 1)));
    }
    return Mul(half, Add(Erf(Mul(x, Like(x, std::sqrt(0.5)))), Like(x, 1)));
  });
}
// com.microsoft: Gelu and FastGelu of x + bias.
Outputs OnBiasGelu(Call& c) {
  XlaOp x = c.In(0);
  if (c.Has(1)) x = Add(x, BroadcastTo(c.In(1), DimsOf(x)));
  const XlaOp half = Mul(x, Like(x, 0.5));
  if (c.node.op_type == "FastGelu") {
    const XlaOp inner =
        Mul(Like(x, std::sqrt(2 / std::numbers::pi)), Add(x, Mul(Mul(x, Mul(x, x)), Like(x, 0.044715))));
    return {Mul(half, Add(Tanh(inner), Like(x, 1)))};
  }
  return {Mul(half, Add(Erf(Mul(x, Like(x, std::sqrt(0.5)))), Like(x, 1)))};
}
// lambd and bias are floats, of integers too.
Outputs OnShrink(Call& c) {
  const XlaOp given = c.In(0);
  const ElementType type = TypeOf(given);
  const bool is_whole = IsIntegral(type);
  const XlaOp x = is_whole || IsSmallFloat(type) ? Convert(given, is_whole && BitWidth(type) > 32 ? F64 : F32) : given;
  const double bias = c.Float("bias", 0), lambda = c.Float("lambd", 0.5);
  const XlaOp zero = BroadcastTo(Like(x, 0), DimsOf(x));
  const XlaOp shrunk = Select(Lt(x, Like(x, -lambda)), Add(x, Like(x, bias)),
                              Select(Gt(x, Like(x, lambda)), Sub(x, Like(x, bias)), zero));
  return {TypeOf(x) == type ? shrunk : Convert(shrunk, type)};
}
Outputs OnPRelu(Call& c) {
  const XlaOp x = c.In(0), slope = BroadcastTo(c.In(1), DimsOf(x));
  return {Select(Lt(x, Like(x, 0)), Mul(x, slope), x)};
}
Outputs OnClip(Call& c) {
  XlaOp x = c.In(0);
  const Ints dims = DimsOf(x);
  if (c.opset < 11) {
    if (c.Find("min") != nullptr) x = Max(x, Like(x, c.Float("min", 0)));
    if (c.Find("max") != nullptr) x = Min(x, Like(x, c.Float("max", 0)));
    return {x};
  }
  if (c.Has(1)) x = Max(x, BroadcastTo(Reshape(c.In(1), {}), dims));
  if (c.Has(2)) x = Min(x, BroadcastTo(Reshape(c.In(2), {}), dims));
  return {x};
}

#define KRAFLA_BINARY(name, formula)                                        \
  Outputs name(Call& c) {                                                   \
    return Pairwise(c, [&](XlaOp x, XlaOp y) -> XlaOp { return formula; }); \
  }
KRAFLA_BINARY(OnAdd, Add(x, y))
KRAFLA_BINARY(OnSub, Sub(x, y))
KRAFLA_BINARY(OnMul, Mul(x, y))
KRAFLA_BINARY(OnDiv, Div(x, y))
KRAFLA_BINARY(OnEqual, Eq(x, y))
KRAFLA_BINARY(OnGreater, Gt(x, y))
KRAFLA_BINARY(OnGreaterOrEqual, Ge(x, y))
KRAFLA_BINARY(OnLess, Lt(x, y))
KRAFLA_BINARY(OnLessOrEqual, Le(x, y))
KRAFLA_BINARY(OnAnd, And(x, y))
KRAFLA_BINARY(OnOr, Or(x, y))
KRAFLA_BINARY(OnXor, Xor(x, y))
#undef KRAFLA_BINARY

Outputs OnMax(Call& c) {
  return FoldAll(c, [](XlaOp x, XlaOp y) { return Max(x, y); });
}
Outputs OnMin(Call& c) {
  return FoldAll(c, [](XlaOp x, XlaOp y) { return Min(x, y); });
}
Outputs OnSum(Call& c) {
  return FoldAll(c, [](XlaOp x, XlaOp y) { return Add(x, y); });
}
Outputs OnMean(Call& c) {
  const XlaOp sum = OnSum(c)[0];
  return {Div(sum, Like(sum, static_cast<double>(c.count())))};
}
Outputs OnMod(Call& c) {
  return Pairwise(c, [&](XlaOp x, XlaOp y) -> XlaOp {
    const XlaOp rest = Rem(x, y);
    if (c.Int("fmod", 0) != 0 || !(IsSigned(TypeOf(x)) || IsFloat(TypeOf(x)))) return rest;
    // With the sign of the divisor.
    const XlaOp differs = And(Ne(rest, Like(rest, 0)), Ne(Lt(rest, Like(rest, 0)), Lt(y, Like(y, 0))));
    return Select(differs, Add(rest, y), rest);
  });
}
Outputs OnPow(Call& c) {
  XlaOp x = c.In(0), y = c.In(1);
  const ElementType type = TypeOf(x), power = TypeOf(y);
  // x squared, x cubed and the root are more exact and much faster as what they are.
  if (IsFloat(type) && c.IsKnown(1) && c.ShapeOf(1).element_count() == 1 && c.ShapeOf(1).rank() <= RankOf(x)) {
    const double p = c.KnownNumbers(1, "the power")[0];
    if (p == 1) return {x};
    if (p == 2) return {Mul(x, x)};
    if (p == 3) return {Mul(x, Mul(x, x))};
    if (p == 0.5) return {Sqrt(x)};
  }
  Meet(x, y);
  if (type == power) return {Pow(x, y)};
  const ElementType work = IsFloat(type) ? (IsSmallFloat(type) ? F32 : type) : IsFloat(power) ? F64 : type;
  return {Convert(Pow(Convert(x, work), Convert(y, work)), type)};
}
Outputs OnNot(Call& c) { return {Not(c.In(0))}; }
Outputs OnBitwiseNot(Call& c) { return {Not(c.In(0))}; }
Outputs OnBitShift(Call& c) {
  const bool left = c.Text("direction", "") == "LEFT";
  return Pairwise(c, [&](XlaOp x, XlaOp y) { return left ? ShiftLeft(x, y) : x >> y; });
}
Outputs OnIsNaN(Call& c) { return {Ne(c.In(0), c.In(0))}; }
Outputs OnIsInf(Call& c) {
  const XlaOp x = c.In(0), inf = Highest(c.b, TypeOf(x)), none = Ne(x, x);
  const bool up = c.Int("detect_positive", 1) != 0, down = c.Int("detect_negative", 1) != 0;
  if (up && down) return {Eq(Abs(x), inf)};
  if (up) return {Eq(x, inf)};
  if (down) return {Eq(x, Neg(inf))};
  return {And(none, Not(none))};
}
Outputs OnWhere(Call& c) {
  XlaOp p = c.In(0), x = c.In(1), y = c.In(2);
  const Ints dims = BroadcastDims(BroadcastDims(DimsOf(p), DimsOf(x)), DimsOf(y));
  return {Select(BroadcastTo(p, dims), BroadcastTo(x, dims), BroadcastTo(y, dims))};
}
namespace {
// A power of two alone: the exponent's bits, rounded by what the fraction is; the sign is lost.
XlaOp ToE8M0(Call& c, XlaOp x) {
  const std::string mode = c.Text("round_mode", "up");
  const XlaOp bits = BitcastConvertType(x, U32);
  const XlaOp exponent = And(ShiftRightLogical(bits, Like(bits, 23)), Like(bits, 255));
  const XlaOp fraction = And(bits, Like(bits, 0x7fffff));
  XlaOp up;
  if (mode == "up") {
    up = Ne(fraction, Like(bits, 0));
  } else if (mode == "nearest") {
    // Half goes up where the number is not below the least power.
    const XlaOp half = Like(bits, 0x400000);
    up = Or(Gt(fraction, half), And(Eq(fraction, half), Ne(exponent, Like(bits, 0))));
  } else if (mode != "down") {
    Reject("A rounding mode '{}'.", mode);
  }
  XlaOp out = exponent;
  if (mode != "down") {
    const double last = c.Int("saturate", 1) != 0 ? 254 : 255;
    up = And(up, Lt(exponent, Like(bits, last)));
    out = Add(exponent, Convert(up, U32));
  }
  return BitcastConvertType(Convert(out, U8), F8E8M0FNU);
}
XlaOp CastTo(Call& c, XlaOp x, ElementType to) {
  const ElementType from = TypeOf(x);
  if (from == to) return x;
  if (to == PRED) return Ne(x, Like(x, 0));
  const bool is_f8 = to == F8E4M3FN || to == F8E4M3FNUZ || to == F8E5M2 || to == F8E5M2FNUZ;
  if (is_f8 && c.Int("saturate", 1) != 0) {
    const double most = to == F8E4M3FN ? 448 : to == F8E4M3FNUZ ? 240 : 57344;
    const ElementType work = IsSmallFloat(from) ? F32 : from;
    const XlaOp wide = Convert(x, work);
    return Convert(Select(Ne(wide, wide), wide, ClampTo(wide, -most, most)), to);
  }
  if (to == F8E8M0FNU && IsFloat(from)) return ToE8M0(c, Convert(x, F32));
  // Of what does not fit, the low bits, as a C compiler makes of it on x86 and ONNX Runtime gives.
  if (IsFloat(from) && IsIntegral(to) && BitsOf(to) < 32) return Convert(Convert(x, S32), to);
  return Convert(x, to);
}
}  // namespace
Outputs OnCast(Call& c) {
  const ElementType to = ToElementType(c.Int("to"));
  if (to == ElementType::kInvalid) Refuse("A cast to {}, which HLO does not have.", TypeName(c.Int("to")));
  return {CastTo(c, c.In(0), to)};
}
Outputs OnCastLike(Call& c) { return {CastTo(c, c.In(0), c.TypeOf(1))}; }
Outputs OnBitCast(Call& c) {
  const ElementType to = ToElementType(c.Int("to"));
  if (to == ElementType::kInvalid) Refuse("A cast to {}, which HLO does not have.", TypeName(c.Int("to")));
  const XlaOp x = c.In(0);
  if (to == TypeOf(x)) return {x};
  if (TypeOf(x) == PRED) return {BitcastConvertType(Convert(x, U8), to)};
  return {BitcastConvertType(x, to)};
}
Outputs OnIdentity(Call& c) { return {c.In(0)}; }

}  // namespace krafla::onnx
