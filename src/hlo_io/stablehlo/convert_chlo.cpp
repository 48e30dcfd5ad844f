// SPDX-License-Identifier: Apache-2.0
// CHLO, the dialect above StableHLO, in so far as its functions are opcodes here or a few of them. The others (lgamma,
// digamma, bessel functions, zeta ...) are long expansions, which the program's writer makes (stablehlo-opt
// --chlo-legalize-to-stablehlo); here they are errors that name them.
#include "hlo_io/stablehlo/converter.h"

namespace krafla::stablehlo {
namespace {

struct Unary {
  std::string_view name;
  Opcode opcode;
};
constexpr Unary kUnary[] = {{"acos", Opcode::kAcos},   {"acosh", Opcode::kAcosh}, {"asin", Opcode::kAsin},
                            {"asinh", Opcode::kAsinh}, {"atanh", Opcode::kAtanh}, {"cosh", Opcode::kCosh},
                            {"erf", Opcode::kErf},     {"sinh", Opcode::kSinh},   {"tan", Opcode::kTan}};

Result<Instruction*> Filled(Body& body, const Shape& shape, double value) {
  return AddBroadcastScalar(*body.computation, AddScalarConstant(*body.computation, shape.element_type(), value), shape.dims());
}

}  // namespace

Result<bool> ConvertChlo(Converter& c, const Op& op, Body& body) {
  if (!op.name.starts_with("chlo.")) return false;
  const std::string_view n = std::string_view(op.name).substr(5);
  KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
  for (const Unary& u : kUnary)
    if (u.name == n) {
      KRAFLA_TRY(c.Emit(op, body, u.opcode, std::move(operands)));
      return true;
    }
  if (operands.size() != 1) return false;
  Instruction* x = operands[0];
  Computation& computation = *body.computation;
  Instruction* made = nullptr;
  if (n == "square") {
    KRAFLA_ASSIGN(made, AddInferred(computation, Opcode::kMultiply, {x, x}));
  } else if (n == "atan") {
    KRAFLA_ASSIGN(Instruction * one, Filled(body, x->shape(), 1));
    KRAFLA_ASSIGN(made, AddInferred(computation, Opcode::kAtan2, {x, one}));
  } else if (n == "conj") {
    KRAFLA_ASSIGN(Instruction * real, AddInferred(computation, Opcode::kReal, {x}));
    KRAFLA_ASSIGN(Instruction * imag, AddInferred(computation, Opcode::kImag, {x}));
    KRAFLA_ASSIGN(Instruction * minus, AddInferred(computation, Opcode::kNegate, {imag}));
    KRAFLA_ASSIGN(made, AddInferred(computation, Opcode::kComplex, {real, minus}));
  } else if (n == "is_inf" || n == "is_pos_inf" || n == "is_neg_inf") {
    if (n == "is_inf") {
      KRAFLA_ASSIGN(x, AddInferred(computation, Opcode::kAbs, {x}));
    }
    KRAFLA_ASSIGN(Instruction * inf,
                  Filled(body, x->shape(), (n == "is_neg_inf" ? -1 : 1) * std::numeric_limits<double>::infinity()));
    KRAFLA_ASSIGN(made, AddInferred(computation, Opcode::kCompare, {x, inf}, CompareAttributes{ComparisonDirection::kEq}));
  } else if (n == "top_k") {
    KRAFLA_ASSIGN(int64_t k, IntAttribute(op, "k"));
    KRAFLA_TRY(c.Emit(op, body, Opcode::kTopK, {x}, TopKAttributes{k, true}));
    return true;
  } else {
    return false;
  }
  KRAFLA_TRY(c.Bind(op, body, made));
  return true;
}

}  // namespace krafla::stablehlo
