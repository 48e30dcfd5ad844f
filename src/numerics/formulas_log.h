// SPDX-License-Identifier: Apache-2.0
// log, log1p, asinh, acosh, atanh.
#pragma once

#include "numerics/formulas_basic.h"

namespace krafla {

namespace formulas_internal {

// x = 2^k m with sqrt(1/2) <= m < sqrt(2), for positive normal x.
template <class Ops>
struct LogReduction {
  typename Ops::F m;
  typename Ops::I k;
};
template <class Ops>
LogReduction<Ops> ReduceLog(const Ops& o, typename Ops::F x) {
  const auto bits = o.Bits(x);
  const auto k = o.Sar(o.ISub(bits, o.ConstI(0x3f3504f3u)), o.ConstI(23));
  return {o.FromBits(o.ISub(bits, o.Shl(k, o.ConstI(23)))), k};
}

// k ln2 + log(1 + f), sqrt(1/2) <= 1 + f < sqrt(2). Log(1 + f) is f - f^2/2 + f^3 P(f).
template <class Ops>
typename Ops::F LogOfReduced(const Ops& o, typename Ops::F f, typename Ops::I k) {
  const auto p = Poly(o, f,
                      {0x1.555554p-2f, -0x1.000228p-2f, 0x1.99a028p-3f, -0x1.54720cp-3f, 0x1.22d790p-3f,
                       -0x1.0d8548p-3f, 0x1.056c48p-3f, -0x1.38dcf4p-4f});
  const auto n = o.FromIntS(k);
  const auto z = o.Mul(f, f);
  auto tail = o.Mul(o.Mul(f, z), p);
  tail = o.Add(tail, o.Mul(n, o.Const(0x1.7f7d1cp-20f)));
  tail = o.Sub(tail, o.Mul(z, o.Const(0.5f)));
  return o.Add(o.Add(f, tail), o.Mul(n, o.Const(0x1.62e4p-1f)));
}

}  // namespace formulas_internal

// A subnormal counts as zero: log is -inf.
template <class Ops>
typename Ops::F Log(const Ops& o, typename Ops::F x) {
  namespace in = formulas_internal;
  const auto [m, k] = in::ReduceLog(o, x);
  auto result = in::LogOfReduced(o, o.Sub(m, o.Const(1.0f)), k);
  result = o.Select(o.Lt(x, o.Const(in::kInf)), result, x);
  const auto pole = o.Select(o.Lt(x, o.Const(0.0f)), in::Nan(o), o.Const(-in::kInf));
  return o.Select(o.Lt(x, o.Const(in::kMinNormal)), pole, result);
}

// Log of u = fl(1 + x), with what the rounding dropped added to f.
template <class Ops>
typename Ops::F Log1p(const Ops& o, typename Ops::F x) {
  namespace in = formulas_internal;
  const auto one = o.Const(1.0f);
  const auto u = o.Add(x, one);
  const auto dropped = o.Select(o.Gt(x, one), o.Sub(one, o.Sub(u, x)), o.Sub(x, o.Sub(u, one)));
  const auto [m, k] = in::ReduceLog(o, u);
  auto down = o.FromBits(o.Shl(o.ISub(o.ConstI(127), k), o.ConstI(23)));  // 2^-k
  down = o.Select(o.Lt(x, o.Const(0x1p30f)), down, o.Const(0.0f));
  const auto f = o.Add(o.Sub(m, one), o.Mul(dropped, down));
  auto result = in::LogOfReduced(o, f, k);
  result = o.Select(o.Lt(x, o.Const(in::kInf)), result, x);
  const auto pole = o.Select(o.Lt(x, o.Const(-1.0f)), in::Nan(o), o.Const(-in::kInf));
  result = o.Select(o.Le(x, o.Const(-1.0f)), pole, result);
  return o.Select(o.Lt(o.Abs(x), o.Const(0x1p-25f)), x, result);
}

// log1p(x + x^2 / (1 + sqrt(1 + x^2))); log1p(x - 1) + log 2 where the 1 no longer counts.
template <class Ops>
typename Ops::F Asinh(const Ops& o, typename Ops::F x) {
  namespace in = formulas_internal;
  const auto one = o.Const(1.0f);
  const auto magnitude = o.Abs(x);
  const auto large = o.Ge(magnitude, o.Const(0x1p13f));
  const auto safe = o.Select(large, one, magnitude);
  const auto z = o.Mul(safe, safe);
  const auto t = o.Add(safe, o.Div(z, o.Add(one, o.Sqrt(o.Add(z, one)))));
  const auto log = Log1p(o, o.Select(large, o.Sub(magnitude, one), t));
  const auto result = o.Add(log, o.Select(large, o.Const(0x1.62e430p-1f), o.Const(0.0f)));
  return in::WithSign(o, o.Abs(result), x);
}

// With t = x - 1: log1p(t + sqrt(t (t + 2))).
template <class Ops>
typename Ops::F Acosh(const Ops& o, typename Ops::F x) {
  const auto large = o.Ge(x, o.Const(0x1p13f));
  const auto t = o.Sub(x, o.Const(1.0f));
  const auto safe = o.Select(o.BOr(large, o.Lt(x, o.Const(1.0f))), o.Const(1.0f), t);
  const auto root = o.Sqrt(o.Mul(safe, o.Add(safe, o.Const(2.0f))));
  const auto log = Log1p(o, o.Select(large, t, o.Add(safe, root)));
  const auto result = o.Add(log, o.Select(large, o.Const(0x1.62e430p-1f), o.Const(0.0f)));
  return o.Select(o.Lt(x, o.Const(1.0f)), formulas_internal::Nan(o), result);
}

// log1p(2x / (1 - x)) / 2; NaN beyond 1 comes out of log1p by itself.
template <class Ops>
typename Ops::F Atanh(const Ops& o, typename Ops::F x) {
  const auto magnitude = o.Abs(x);
  const auto t = o.Div(o.Add(magnitude, magnitude), o.Sub(o.Const(1.0f), magnitude));
  const auto result = o.Mul(Log1p(o, t), o.Const(0.5f));
  return formulas_internal::WithSign(o, o.Abs(result), x);
}

}  // namespace krafla
