// SPDX-License-Identifier: Apache-2.0
// Functions by their names.
#include <limits>

#include "ir/chlo/functions.h"

namespace krafla::chlo {
namespace {

// Formulas of one and two arguments that are computed in f32 where the type is narrower.
struct Function {
  std::string_view name;
  Expr (*of_one)(Expr) = nullptr;
  Expr (*of_two)(Expr, Expr) = nullptr;
};
constexpr Function kFunctions[] = {{"bessel_i1e", BesselI1e},
                                   {"cosh", Cosh},
                                   {"digamma", Digamma},
                                   {"erf_inv", ErfInv},
                                   {"erfc", Erfc},
                                   {"lgamma", Lgamma},
                                   {"sinh", Sinh},
                                   {"polygamma", nullptr, Polygamma},
                                   {"zeta", nullptr, Zeta}};

Expr Computed(const Function& function, std::span<const Expr> arguments) {
  Formula& f = *arguments[0].formula;
  const ElementType type = arguments[0].value->shape().element_type();
  if (BitWidth(type) >= 32)
    return function.of_one ? function.of_one(arguments[0]) : function.of_two(arguments[0], arguments[1]);
  const Expr a = f.Converted(arguments[0], ElementType::kF32);
  return f.Converted(
      function.of_one ? function.of_one(a) : function.of_two(a, f.Converted(arguments[1], ElementType::kF32)), type);
}

// (re - im)(re + im), and 2 re im; 0 where the parts cancel, which infinities do not.
Expr Square(Expr x, bool complex) {
  if (!complex) return x * x;
  const Expr re = RealOf(x), im = ImagOf(x);
  const Expr cancel = IsFinite(re) & Equal(Abs(re), Abs(im));
  return Complex(Select(cancel, re.Like(0), (re - im) * (re + im)), 2 * (re * im));
}

// -i atanh(i z)
Expr ComplexAtan(Expr z) {
  const Expr w = Apply(Opcode::kAtanh, Complex(-ImagOf(z), RealOf(z)));
  return Complex(ImagOf(w), -RealOf(w));
}

// What an operation of one operand is by a short formula, a null value where it is none.
Expr ShortFormula(std::string_view n, Expr x) {
  const double infinity = std::numeric_limits<double>::infinity();
  const bool complex = IsComplex(x.value->shape().element_type());
  if (n == "square") return Square(x, complex);
  if (n == "atan") return complex ? ComplexAtan(x) : Apply(Opcode::kAtan2, x, x.Like(1));
  if (n == "_asin_acos_kernel" && complex) return AsinAcosKernel(x);
  if (n == "conj") return complex ? Complex(RealOf(x), -ImagOf(x)) : x;
  if (n == "is_inf") return Equal(Abs(x), infinity);
  if (n == "is_pos_inf") return Equal(x, infinity);
  if (n == "is_neg_inf") return Equal(x, -infinity);
  return {};
}

Result<Expr> OfBits(std::string_view name, Expr x, Expr y) {
  const ElementType type = x.value->shape().element_type();
  const bool of_integers = name == "mulhi";
  const bool fits = of_integers ? IsIntegral(type) && BitWidth(type) >= 4 : IsFloat(type) && BitWidth(type) >= 16;
  if (!fits) return Unimplemented("'chlo.{}' of type {} cannot be computed.", name, ElementTypeName(type));
  return of_integers ? MulHi(x, y) : NextAfter(x, y);
}

}  // namespace

Result<std::optional<Expr>> Call(std::string_view name, std::span<const Expr> arguments) {
  for (const Function& function : kFunctions) {
    if (function.name != name) continue;
    const std::size_t wanted = function.of_one != nullptr ? 1 : 2;
    if (arguments.size() != wanted)
      return InvalidArgument("'chlo.{}' takes {} operands, {} given.", name, wanted, arguments.size());
    const Shape& shape = arguments[0].value->shape();
    if (!IsFloat(shape.element_type()))
      return InvalidArgument("'chlo.{}' takes floating-point numbers, not {}.", name, shape.ToString(false));
    return Computed(function, arguments);
  }
  if (arguments.size() == 1) {
    const Expr made = ShortFormula(name, arguments[0]);
    return made.formula != nullptr ? std::optional(made) : std::nullopt;
  }
  if (arguments.size() != 2 || (name != "next_after" && name != "mulhi")) return std::nullopt;
  KRAFLA_ASSIGN(Expr made, OfBits(name, arguments[0], arguments[1]));
  return made;
}

}  // namespace krafla::chlo
