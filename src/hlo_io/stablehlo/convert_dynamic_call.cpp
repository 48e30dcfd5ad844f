// SPDX-License-Identifier: Apache-2.0
// Custom calls that have sizes among their operands, as JAX exports them: the dynamic operations that StableHLO has no
// name for (stablehlo/transforms/StablehloRefineShapes.cpp in the StableHLO project), and calls of libraries that say
// by indices_of_shape_operands which operands are the shapes of their results.
#include <algorithm>

#include "hlo_io/stablehlo/converter.h"
#include "hlo_io/stablehlo/words.h"

namespace krafla::stablehlo {
namespace {

// Arrays, as many initial values, then sizes, strides, dilations of the arrays and of the window, and padding.
Result<> ReduceWindow(Converter& c, const Op& op, Body& body) {
  constexpr std::size_t kSizes = 5;
  KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
  const std::size_t arrays = 2 * op.results.size();
  AttributeRef called = op.Find("called_computations");
  if (operands.size() != arrays + kSizes || called == nullptr || called->elements.size() != 1)
    return InvalidArgument("A reduce-window of {} results takes {} operands and a computation; it has {}.",
                           op.results.size(), arrays + kSizes, operands.size());
  Dims sizes[kSizes];
  for (std::size_t s = 0; s < kSizes; ++s) { KRAFLA_ASSIGN(sizes[s], c.SizesOperand(op, body, arrays + s)); }
  const Dims& padding = sizes[kSizes - 1];
  if (padding.size() != 2 * sizes[0].size())
    return InvalidArgument("A window of {} dimensions has {} numbers of padding.", sizes[0].size(), padding.size());
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (std::size_t d = 0; d < padding.size(); d += 2) pairs.emplace_back(padding[d], padding[d + 1]);
  KRAFLA_ASSIGN(Window window, MakeWindow(op, sizes[0], sizes[1], sizes[2], sizes[3], pairs));
  KRAFLA_ASSIGN(Computation * reduction, c.Function(called->elements[0]->text));
  operands.resize(arrays);
  return c.Emit(op, body, Opcode::kReduceWindow, std::move(operands), WindowAttributes{std::move(window)}, {reduction});
}

// A state, and the shape of the random bits.
Result<> RngBitGenerator(Converter& c, const Op& op, Body& body) {
  if (op.operands.size() != 2 || op.results.size() != 2)
    return InvalidArgument("A generator of random bits takes a state and a shape, and gives a state and bits.");
  KRAFLA_ASSIGN(Instruction * state, c.Operand(op, body, 0));
  KRAFLA_ASSIGN(const Dims sizes, c.SizesOperand(op, body, 1));
  const TypeRef bits_type = c.TypeOfValue(op.results[1]);
  if (bits_type->kind != Type::Kind::kTensor) return InvalidArgument("Random bits are an array.");
  KRAFLA_ASSIGN(Shape bits, Shape::MakeArray(bits_type->element, sizes));
  KRAFLA_ASSIGN(const Shape known, Shape::MakeTuple({state->shape(), std::move(bits)}));
  int64_t algorithm = 0;
  if (AttributeRef given = op.FindAnywhere("rng_algorithm");
      given != nullptr && given->kind == Attribute::Kind::kInteger)
    algorithm = given->integer;
  else { KRAFLA_ASSIGN(algorithm, WordAttribute(op, "rng_algorithm", kRngAlgorithmWords)); }
  if (algorithm < 0 || algorithm >= static_cast<int64_t>(std::size(kRngAlgorithmWords)))
    return InvalidArgument("A generator of random bits has the algorithm {}.", algorithm);
  return c.Emit(op, body, Opcode::kRngBitGenerator, {state},
                RngBitGeneratorAttributes{static_cast<RngAlgorithm>(algorithm)}, {}, true, &known);
}

Result<> FirstK(Converter& c, const Op& op, Body& body) {
  KRAFLA_ASSIGN(Instruction * operand, c.Operand(op, body, 0));
  KRAFLA_ASSIGN(const Dims k, c.SizesOperand(op, body, 1));
  if (k.size() != 1 || k[0] < 0) return InvalidArgument("A top k has {} numbers for k.", k.size());
  return TopK(c, op, body, operand, k[0]);
}

}  // namespace

Result<bool> ConvertDynamicCall(Converter& c, const Op& op, Body& body) {
  KRAFLA_ASSIGN(const std::string target, StringAttribute(op, "call_target_name"));
  if (target == "stablehlo.dynamic_reduce_window") {
    KRAFLA_TRY(ReduceWindow(c, op, body));
  } else if (target == "stablehlo.dynamic_rng_bit_generator") {
    KRAFLA_TRY(RngBitGenerator(c, op, body));
  } else if (target == "stablehlo.dynamic_top_k") {
    KRAFLA_TRY(FirstK(c, op, body));
  } else {
    return false;
  }
  return true;
}

Result<std::optional<ShapeOperands>> ShapeOperandsOf(Converter& c, const Op& op, const Body& body) {
  AttributeRef given = op.FindAnywhere("indices_of_shape_operands");
  if (given == nullptr) return std::nullopt;
  ShapeOperands out;
  KRAFLA_ASSIGN(out.taken, IntegersOf(*given));
  if (out.taken.size() != op.results.size())
    return InvalidArgument("A custom call of {} results names {} operands as their shapes.", op.results.size(),
                           out.taken.size());
  std::vector<Shape> shapes;
  for (std::size_t r = 0; r < op.results.size(); ++r) {
    const TypeRef type = c.TypeOfValue(op.results[r]);
    if (out.taken[r] < 0 || out.taken[r] >= static_cast<int64_t>(op.operands.size()) ||
        type->kind != Type::Kind::kTensor)
      return InvalidArgument("A custom call names operand {} as the shape of its result {}.", out.taken[r], r);
    KRAFLA_ASSIGN(const Dims sizes, c.SizesOperand(op, body, static_cast<std::size_t>(out.taken[r])));
    KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(type->element, sizes));
    shapes.push_back(std::move(shape));
  }
  if (shapes.size() == 1) out.results = std::move(shapes[0]);
  else { KRAFLA_ASSIGN(out.results, Shape::MakeTuple(std::move(shapes))); }
  return out;
}

}  // namespace krafla::stablehlo
