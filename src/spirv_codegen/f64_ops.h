// SPDX-License-Identifier: Apache-2.0
// The operations of numerics/f64_ops.h as SPIR-V, for scalars only. A bitcast turns a double into two words, so that
// shaderFloat64 is all that the device must have.
#pragma once

#include "numerics/f64_ops.h"
#include "spirv_codegen/spirv_ops.h"

namespace krafla::spirv {

struct SpirvF64Ops : SpirvOps {
  explicit SpirvF64Ops(Builder& builder) : SpirvOps{builder, 1} {}

  F Const(double x) const { return {b.Float(Kind::kF64, x)}; }
  F Div(F x, F y) const { return {b.FDiv(x.v, y.v)}; }
  F Sqrt(F x) const { return {b.Glsl(GLSLstd450Sqrt, {x.v}, Kind::kF64, 1)}; }
  F Neg(F x) const { return {b.FNeg(x.v)}; }
  F Abs(F x) const { return {b.Glsl(GLSLstd450FAbs, {x.v}, Kind::kF64, 1)}; }

  I High(F x) const { return {b.Extract(b.BitcastTo(x.v, Kind::kU32, 2), 1)}; }
  I Low(F x) const { return {b.Extract(b.BitcastTo(x.v, Kind::kU32, 2), 0)}; }
  F Join(I low, I high) const {
    const Value words[] = {low.v, high.v};
    return {b.BitcastTo(b.Composite(words), Kind::kF64, 1)};
  }
  F FromIntU(I x) const { return {b.UToF(x.v, Kind::kF64)}; }
};

}  // namespace krafla::spirv
