// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/native/lane_ops.h"
#include "numerics/f64_exp_log.h"
#include "numerics/f64_special.h"
#include "numerics/f64_trig.h"
#include "numerics/formulas.h"

namespace krafla::cpu::native {

namespace {

using LaneF = LaneWords::F;

LaneF RecordF32(const LaneOps& o, Opcode opcode, LaneF x, LaneF y, bool& is_known) {
  if (opcode == Opcode::kExp) return Exp(o, x);
  if (opcode == Opcode::kExpm1) return Expm1(o, x);
  if (opcode == Opcode::kLogistic) return Logistic(o, x);
  if (opcode == Opcode::kTanh) return Tanh(o, x);
  if (opcode == Opcode::kSinh) return Sinh(o, x);
  if (opcode == Opcode::kCosh) return Cosh(o, x);
  if (opcode == Opcode::kErf) return Erf(o, x);
  if (opcode == Opcode::kLog) return Log(o, x);
  if (opcode == Opcode::kLog1p) return Log1p(o, x);
  if (opcode == Opcode::kAsinh) return Asinh(o, x);
  if (opcode == Opcode::kAcosh) return Acosh(o, x);
  if (opcode == Opcode::kAtanh) return Atanh(o, x);
  if (opcode == Opcode::kPower) return Pow(o, x, y);
  if (opcode == Opcode::kCbrt) return Cbrt(o, x);
  if (opcode == Opcode::kRsqrt) return Rsqrt(o, x);
  if (opcode == Opcode::kSqrt) return Sqrt(o, x);
  if (opcode == Opcode::kSin) return Sin(o, x);
  if (opcode == Opcode::kCos) return Cos(o, x);
  if (opcode == Opcode::kTan) return Tan(o, x);
  if (opcode == Opcode::kAsin) return Asin(o, x);
  if (opcode == Opcode::kAcos) return Acos(o, x);
  if (opcode == Opcode::kAtan2) return Atan2(o, x, y);
  is_known = false;
  return x;
}

LaneF RecordF64(const LaneF64Ops& o, Opcode opcode, LaneF x, LaneF y, bool& is_known) {
  if (opcode == Opcode::kExp) return f64::Exp(o, x);
  if (opcode == Opcode::kExpm1) return f64::Expm1(o, x);
  if (opcode == Opcode::kLogistic) return f64::Logistic(o, x);
  if (opcode == Opcode::kTanh) return f64::Tanh(o, x);
  if (opcode == Opcode::kSinh) return f64::Sinh(o, x);
  if (opcode == Opcode::kCosh) return f64::Cosh(o, x);
  if (opcode == Opcode::kLog) return f64::Log(o, x);
  if (opcode == Opcode::kLog1p) return f64::Log1p(o, x);
  if (opcode == Opcode::kAsinh) return f64::Asinh(o, x);
  if (opcode == Opcode::kAcosh) return f64::Acosh(o, x);
  if (opcode == Opcode::kAtanh) return f64::Atanh(o, x);
  if (opcode == Opcode::kPower) return f64::Pow(o, x, y);
  if (opcode == Opcode::kCbrt) return f64::Cbrt(o, x);
  if (opcode == Opcode::kErf) return f64::Erf(o, x);
  if (opcode == Opcode::kSqrt) return o.Sqrt(x);
  if (opcode == Opcode::kRsqrt) return o.Div(o.Const(1.0), o.Sqrt(x));
  if (opcode == Opcode::kSin) return f64::Sin(o, x);
  if (opcode == Opcode::kCos) return f64::Cos(o, x);
  if (opcode == Opcode::kTan) return f64::Tan(o, x);
  if (opcode == Opcode::kAsin) return f64::Asin(o, x);
  if (opcode == Opcode::kAcos) return f64::Acos(o, x);
  if (opcode == Opcode::kAtan2) return f64::Atan2(o, x, y);
  is_known = false;
  return x;
}

}  // namespace

std::optional<int> ApplyFormula(LaneBuilder& builder, Opcode opcode, ElementType type, std::span<const int> operands) {
  if (operands.empty()) return std::nullopt;
  const LaneF x{operands[0]}, y{operands.size() > 1 ? operands[1] : -1};
  bool is_complete = true;
  LaneF result;
  if (type == ElementType::kF32) {
    LaneOps ops;
    ops.builder = &builder;
    ops.is_complete = &is_complete;
    result = RecordF32(ops, opcode, x, y, is_complete);
  } else if (type == ElementType::kF64) {
    LaneF64Ops ops;
    ops.builder = &builder;
    ops.is_complete = &is_complete;
    result = RecordF64(ops, opcode, x, y, is_complete);
  } else {
    return std::nullopt;
  }
  if (!is_complete) return std::nullopt;
  return result.id;
}

}  // namespace krafla::cpu::native
