// SPDX-License-Identifier: Apache-2.0
// Complex numbers in element programs: pairs of real nodes.
#include "plan/program_emitter_complex.h"

#include "numerics/call_formula.h"
#include "numerics/complex_formulas.h"
#include "numerics/complex_inverse_formulas.h"
#include "plan/complex_nodes.h"
#include "plan/program_emitter.h"

namespace krafla::plan {
namespace {

namespace cf = complex_formulas;
using Number = cf::Complex<NodeReal>;

struct ComplexFormula {
  Opcode opcode;
  Number (*run)(const NodeReal&, const Number&, const Number&);  // the second is not looked at where there is one
};

#define KRAFLA_COMPLEX(opcode, Function, operands)                                                \
  {opcode, [](const NodeReal& o, const Number& x, const Number& y) {                              \
     return CallFormula<operands>([&](const auto&... z) { return cf::Function(o, z...); }, x, y); \
   }}
constexpr ComplexFormula kComplexFormulas[] = {
    KRAFLA_COMPLEX(Opcode::kDivide, Divide, 2),
    KRAFLA_COMPLEX(Opcode::kMultiply, Multiply, 2),
    KRAFLA_COMPLEX(Opcode::kSign, Sign, 1),
#define KRAFLA_FORMULA(...)
#define KRAFLA_COMPLEX_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) \
  KRAFLA_COMPLEX(Opcode::Enum, Function, arity),
#include "ir/ops.def"
};
#undef KRAFLA_COMPLEX

}  // namespace

bool HasComplexFormula(Opcode opcode) {
  for (const ComplexFormula& f : kComplexFormulas)
    if (f.opcode == opcode) return true;
  return opcode == Opcode::kAbs || opcode == Opcode::kClamp;
}

Result<ScalarValue> ProgramEmitter::EmitComplex(const Instruction& i, std::span<const ScalarValue> x) {
  Opcode op = i.opcode();
  ElementType from = i.operand(op == Opcode::kSelect ? 1 : 0)->shape().element_type();
  ElementType type = i.shape().element_type();
  ElementType real = RealPart(from);
  auto hlo = [&](Opcode o, std::initializer_list<NodeId> n) { return b_.Hlo(o, real, n); };
  if (op == Opcode::kReal) return ScalarValue{x[0].re};
  if (op == Opcode::kImag) return ScalarValue{x[0].im};
  if (op == Opcode::kComplex) return ScalarValue{x[0].re, x[1].re};
  if (op == Opcode::kSelect) return SelectValue(x[0].re, x[1], x[2], type);
  if (op == Opcode::kNegate) return ScalarValue{hlo(op, {x[0].re}), hlo(op, {x[0].im})};
  if (op == Opcode::kAdd || op == Opcode::kSubtract)
    return ScalarValue{hlo(op, {x[0].re, x[1].re}), hlo(op, {x[0].im, x[1].im})};
  if (op == Opcode::kConvert) {
    ElementType to = RealPart(type);
    NodeId re = b_.Convert(x[0].re, real, to);
    if (!IsComplex(type)) return ScalarValue{re};
    NodeId im = IsComplex(from) ? b_.Convert(x[0].im, real, to) : b_.ConstantFloat(to, 0);
    return ScalarValue{re, im};
  }
  if (op == Opcode::kCompare) {
    ComparisonDirection direction = i.attr<CompareAttributes>().direction;
    bool ne = direction == ComparisonDirection::kNe;
    if (!ne && direction != ComparisonDirection::kEq)
      return Unimplemented("{}: Complex numbers have no order.", Describe(i));
    return ScalarValue{b_.Hlo(ne ? Opcode::kOr : Opcode::kAnd, ElementType::kPred,
                              {b_.Compare(direction, x[0].re, x[1].re), b_.Compare(direction, x[0].im, x[1].im)})};
  }
  const NodeReal ops{b_, real};
  const Number a{x[0].re, x[0].im};
  if (op == Opcode::kAbs) return ScalarValue{cf::Abs(ops, a)};
  if (op == Opcode::kClamp) {
    const Number out = cf::Clamp(ops, a, {x[1].re, x[1].im}, {x[2].re, x[2].im});
    return ScalarValue{out.re, out.im};
  }
  const Number second = x.size() > 1 ? Number{x[1].re, x[1].im} : Number{};
  for (const ComplexFormula& f : kComplexFormulas) {
    if (f.opcode != op) continue;
    const Number out = f.run(ops, a, second);
    return ScalarValue{out.re, out.im};
  }
  return Unimplemented("{} has no element program for complex numbers.", Describe(i));
}

}  // namespace krafla::plan
