// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/native/lane_ops.h"
#include "numerics/call_formula.h"
#include "numerics/f64_formulas.h"
#include "numerics/formulas.h"
#include "numerics/formulas_formats.h"

namespace krafla::cpu::native {

namespace {

using LaneF = LaneWords::F;

std::optional<LaneF> RecordF32(const LaneOps& o, Opcode opcode, LaneF x, LaneF y) {
#define KRAFLA_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) \
  if (opcode == Opcode::Enum)                                            \
    return CallFormula<arity>([&](auto... operands) { return Function(o, operands...); }, x, y);
#include "ir/ops.def"
  return std::nullopt;
}
std::optional<LaneF> RecordF64(const LaneF64Ops& o, Opcode opcode, LaneF x, LaneF y) {
#define KRAFLA_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) \
  if (opcode == Opcode::Enum)                                            \
    return CallFormula<arity>([&](auto... operands) { return f64::Function(o, operands...); }, x, y);
#include "ir/ops.def"
  return std::nullopt;
}

}  // namespace

std::optional<int> ApplyFormula(LaneBuilder& builder, Opcode opcode, ElementType type, std::span<const int> operands) {
  if (operands.empty()) return std::nullopt;
  const LaneF x{operands[0]}, y{operands.size() > 1 ? operands[1] : -1};
  bool is_complete = true;
  std::optional<LaneF> result;
  if (type == ElementType::kF32) {
    LaneOps ops;
    ops.builder = &builder;
    ops.is_complete = &is_complete;
    result = RecordF32(ops, opcode, x, y);
  } else if (type == ElementType::kF64) {
    LaneF64Ops ops;
    ops.builder = &builder;
    ops.is_complete = &is_complete;
    result = RecordF64(ops, opcode, x, y);
  }
  if (!result || !is_complete) return std::nullopt;
  return result->id;
}

namespace {

LaneOps OpsOf(LaneBuilder& builder) {
  LaneOps ops;
  ops.builder = &builder;
  return ops;
}

}  // namespace

int EncodeAs(LaneBuilder& builder, int x, const MiniFloat& format) {
  return EncodeFloat(OpsOf(builder), {x}, format).id;
}
int DecodeFrom(LaneBuilder& builder, int code, const MiniFloat& format) {
  return DecodeFloat(OpsOf(builder), {code}, format).id;
}
int ReducedPrecision(LaneBuilder& builder, int x, int exponent_bits, int mantissa_bits) {
  return ReducePrecision(OpsOf(builder), {x}, exponent_bits, mantissa_bits).id;
}

}  // namespace krafla::cpu::native
