// SPDX-License-Identifier: Apache-2.0
// Functions as the hardware has them, where the caller asked for speed rather than for XLA's bits
// (DeviceProfile::fast_functions). Errors by the Vulkan specification, "Precision and Operation of SPIR-V
// Instructions": 2.5 ULP for division, 3 + 2 |x| for exp, 3 (or 2^-21) for log, 2 for rsqrt.
#include "spirv/unified1/GLSL.std.450.h"
#include "spirv_codegen/float_ops.h"

namespace krafla::spirv {
namespace {

Value Exp(Builder& b, Value x) { return b.Glsl(GLSLstd450Exp, {x}, Kind::kF32, x.width); }

// Not GLSL.std.450's, which drivers compute from sinh and cosh: infinite over infinite from 89 on.
Value Tanh(Builder& b, Value x) {
  const Value magnitude = b.Glsl(GLSLstd450FAbs, {x}, Kind::kF32, x.width);
  const Value one = b.F32(1.0f), two = b.F32(2.0f);
  const Value far = b.FSub(one, b.FDiv(two, b.FAdd(Exp(b, b.FMul(magnitude, two)), one)));
  // Close to zero that cancels: the series, to 5e-8 of its value.
  const Value square = b.FMul(x, x);
  Value series = b.F32(62.0f / 2835.0f);
  for (const float term : {-17.0f / 315.0f, 2.0f / 15.0f, -1.0f / 3.0f, 1.0f})
    series = b.FAdd(b.FMul(series, square), b.F32(term));
  const Value signed_far = b.Select(b.FCompare(FCmp::kLt, x, b.F32(0.0f)), b.FSub(b.F32(0.0f), far), far);
  return b.Select(b.FCompare(FCmp::kLt, magnitude, b.F32(0.3f)), b.FMul(x, series), signed_far);
}

}  // namespace

Value LowerFastF32(Builder& b, Opcode opcode, std::span<const Value> v) {
  const auto glsl = [&](uint32_t instruction) { return b.Glsl(instruction, {v[0]}, Kind::kF32, v[0].width); };
  if (opcode == Opcode::kDivide) return b.FDiv(v[0], v[1]);
  if (opcode == Opcode::kExp) return Exp(b, v[0]);
  if (opcode == Opcode::kLog) return glsl(GLSLstd450Log);
  if (opcode == Opcode::kSqrt) return glsl(GLSLstd450Sqrt);
  if (opcode == Opcode::kRsqrt) return glsl(GLSLstd450InverseSqrt);
  if (opcode == Opcode::kTanh) return Tanh(b, v[0]);
  if (opcode == Opcode::kLogistic) return b.FDiv(b.F32(1.0f), b.FAdd(b.F32(1.0f), Exp(b, b.FSub(b.F32(0.0f), v[0]))));
  return {};
}

}  // namespace krafla::spirv
