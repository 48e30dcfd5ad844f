// SPDX-License-Identifier: Apache-2.0
// HLO's elementwise operations on one number, overloaded on float and double. A float goes through the formulas, so it
// has the GPU's bits.
#pragma once

#include "numerics/formulas.h"
#include "numerics/scalar_f64.h"
#include "numerics/scalar_ops.h"

namespace krafla::scalar {

#define KRAFLA_SCALAR_UNARY(Name) \
  inline float Name(float x) { return krafla::Name(ScalarOps{}, x); }
KRAFLA_SCALAR_UNARY(Exp)
KRAFLA_SCALAR_UNARY(Expm1)
KRAFLA_SCALAR_UNARY(Log)
KRAFLA_SCALAR_UNARY(Log1p)
KRAFLA_SCALAR_UNARY(Logistic)
KRAFLA_SCALAR_UNARY(Sin)
KRAFLA_SCALAR_UNARY(Cos)
KRAFLA_SCALAR_UNARY(Tan)
KRAFLA_SCALAR_UNARY(Tanh)
KRAFLA_SCALAR_UNARY(Sinh)
KRAFLA_SCALAR_UNARY(Cosh)
KRAFLA_SCALAR_UNARY(Asin)
KRAFLA_SCALAR_UNARY(Acos)
KRAFLA_SCALAR_UNARY(Asinh)
KRAFLA_SCALAR_UNARY(Acosh)
KRAFLA_SCALAR_UNARY(Atanh)
KRAFLA_SCALAR_UNARY(Cbrt)
KRAFLA_SCALAR_UNARY(Erf)
KRAFLA_SCALAR_UNARY(Sqrt)
KRAFLA_SCALAR_UNARY(Rsqrt)
KRAFLA_SCALAR_UNARY(Sign)
KRAFLA_SCALAR_UNARY(Floor)
KRAFLA_SCALAR_UNARY(Ceil)
KRAFLA_SCALAR_UNARY(Trunc)
KRAFLA_SCALAR_UNARY(RoundNearestEven)
KRAFLA_SCALAR_UNARY(RoundNearestAfz)
#undef KRAFLA_SCALAR_UNARY
#define KRAFLA_SCALAR_BINARY(Name) \
  inline float Name(float x, float y) { return krafla::Name(ScalarOps{}, x, y); }
KRAFLA_SCALAR_BINARY(Atan2)
KRAFLA_SCALAR_BINARY(Pow)
KRAFLA_SCALAR_BINARY(Remainder)
KRAFLA_SCALAR_BINARY(Max)
KRAFLA_SCALAR_BINARY(Min)
#undef KRAFLA_SCALAR_BINARY
inline float Abs(float x) { return ScalarOps::Abs(x); }
inline bool IsFinite(float x) { return krafla::IsFinite(ScalarOps{}, x); }
inline float Clamp(float low, float x, float high) { return krafla::Clamp(ScalarOps{}, low, x, high); }

}  // namespace krafla::scalar
