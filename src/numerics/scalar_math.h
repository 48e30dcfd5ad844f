// SPDX-License-Identifier: Apache-2.0
// HLO's elementwise operations on one number, overloaded on float and double. A float goes through the formulas, so it
// has the GPU's bits.
#pragma once

#include "numerics/formulas.h"
#include "numerics/scalar_f64.h"
#include "numerics/scalar_ops.h"

namespace krafla::scalar {

#define KRAFLA_SCALAR_F32_1(Function) \
  inline float Function(float x) { return krafla::Function(ScalarOps{}, x); }
#define KRAFLA_SCALAR_F32_2(Function) \
  inline float Function(float x, float y) { return krafla::Function(ScalarOps{}, x, y); }
#define KRAFLA_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) KRAFLA_SCALAR_F32_##arity(Function)
#include "ir/ops.def"
KRAFLA_SCALAR_F32_1(Sign)
KRAFLA_SCALAR_F32_1(Floor)
KRAFLA_SCALAR_F32_1(Ceil)
KRAFLA_SCALAR_F32_1(Trunc)
KRAFLA_SCALAR_F32_1(RoundNearestEven)
KRAFLA_SCALAR_F32_1(RoundNearestAfz)
KRAFLA_SCALAR_F32_2(Remainder)
KRAFLA_SCALAR_F32_2(Max)
KRAFLA_SCALAR_F32_2(Min)
#undef KRAFLA_SCALAR_F32_1
#undef KRAFLA_SCALAR_F32_2
inline float Abs(float x) { return ScalarOps::Abs(x); }
inline bool IsFinite(float x) { return krafla::IsFinite(ScalarOps{}, x); }
inline float Clamp(float low, float x, float high) { return krafla::Clamp(ScalarOps{}, low, x, high); }

}  // namespace krafla::scalar
