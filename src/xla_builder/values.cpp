// SPDX-License-Identifier: Apache-2.0
// Parameters, constants, counters and random numbers.
#include <format>

#include "ir/shape_rules/checks.h"
#include "xla_builder/impl.h"

namespace krafla {

using namespace xla_builder;  // NOLINT: the calls are made of its parts

XlaOp Parameter(XlaBuilder* builder, int64_t parameter_number, const ShapeOrError& shape, std::string_view name,
                const std::vector<bool>& replicated_at_leaf_buffers) {
  return Run("Parameter", builder, {}, [&](Impl& b, Instructions) -> Result<Instruction*> {
    if (!shape) return Failure(shape.error());
    // The limit of HLO's readers; what lies below it is allocated.
    constexpr int64_t kMaxParameters = 1 << 20;
    if (parameter_number < 0 || parameter_number >= kMaxParameters)
      return InvalidArgument("The parameter number must lie in [0, {}), it is {}.", kMaxParameters, parameter_number);
    auto taken = b.computation->parameters();
    if (parameter_number < static_cast<int64_t>(taken.size()) &&
        taken[static_cast<std::size_t>(parameter_number)] != nullptr)
      return InvalidArgument("Parameter {} is '{}' already.", parameter_number,
                             taken[static_cast<std::size_t>(parameter_number)]->name());
    ParameterAttributes attributes;
    attributes.number = parameter_number;
    attributes.replicated_at_leaf_buffers = replicated_at_leaf_buffers;
    std::size_t leaves = TupleLeaves(*shape).size();
    if (!replicated_at_leaf_buffers.empty() && replicated_at_leaf_buffers.size() != leaves)
      return InvalidArgument(
          "replicated_at_leaf_buffers must have one entry for each of the {} leaves of {}, it has "
          "{}.",
          leaves, shape_rules::Brief(*shape), replicated_at_leaf_buffers.size());
    return b.Add(Opcode::kParameter, {}, std::move(attributes), {}, &*shape, name);
  });
}
XlaOp Parameter(XlaBuilder* builder, int64_t parameter_number, const ShapeOrError& shape, std::string_view name) {
  return Parameter(builder, parameter_number, shape, name, {});
}

XlaOp ConstantLiteral(XlaBuilder* builder, std::shared_ptr<const Literal> literal) {
  return Run("ConstantLiteral", builder, {}, [&](Impl& b, Instructions) -> Result<Instruction*> {
    if (literal == nullptr) return InvalidArgument("The literal is null.");
    const Shape shape = literal->shape();
    return b.Add(Opcode::kConstant, {}, ConstantAttributes{std::move(literal)}, {}, &shape);
  });
}
XlaOp ConstantLiteral(XlaBuilder* builder, const Result<Literal>& literal) {
  if (literal) return ConstantLiteral(builder, *literal);
  return Run("ConstantLiteral", builder, {},
             [&](Impl&, Instructions) -> Result<Instruction*> { return Failure(literal.error()); });
}
XlaOp ConstantLiteral(XlaBuilder* builder, const Literal& literal) {
  return ConstantLiteral(builder, std::make_shared<const Literal>(literal));
}

XlaOp ConstantR0WithType(XlaBuilder* builder, PrimitiveType type, double value) {
  return Run("ConstantR0WithType", builder, {}, [&](Impl& b, Instructions) -> Result<Instruction*> {
    if (!IsArrayType(type)) return InvalidArgument("{} is not the element type of an array.", ElementTypeName(type));
    return b.Add(Opcode::kConstant, {}, ConstantAttributes{std::make_shared<Literal>(ScalarLiteral(type, value))});
  });
}

XlaOp ScalarLike(XlaOp prototype, double value) {
  return Run("ScalarLike", nullptr, {prototype}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(const Shape* shape, ArrayShape(*ops[0], "The operand"));
    return b.Add(Opcode::kConstant, {},
                 ConstantAttributes{std::make_shared<Literal>(ScalarLiteral(shape->element_type(), value))});
  });
}

XlaOp Iota(XlaBuilder* builder, const ShapeOrError& shape, int64_t iota_dimension) {
  return Run("Iota", builder, {}, [&](Impl& b, Instructions) -> Result<Instruction*> {
    if (!shape) return Failure(shape.error());
    return b.Add(Opcode::kIota, {}, IotaAttributes{iota_dimension}, {}, &*shape);
  });
}
XlaOp Iota(XlaBuilder* builder, PrimitiveType type, int64_t size) {
  const int64_t dims[] = {size};
  return Iota(builder, Shape::MakeArray(type, dims), 0);
}

namespace {

XlaOp Rng(const char* call, RngDistribution distribution, XlaOp a, XlaOp x, const ShapeOrError& shape) {
  return Run(call, nullptr, {a, x}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    if (!shape) return Failure(shape.error());
    return b.Add(Opcode::kRng, ToVector(ops), RngAttributes{distribution}, {}, &*shape);
  });
}

}  // namespace

XlaOp RngUniform(XlaOp a, XlaOp b, const ShapeOrError& shape) {
  return Rng("RngUniform", RngDistribution::kUniform, a, b, shape);
}
XlaOp RngNormal(XlaOp mu, XlaOp sigma, const ShapeOrError& shape) {
  return Rng("RngNormal", RngDistribution::kNormal, mu, sigma, shape);
}

XlaOp RngBitGenerator(RandomAlgorithm algorithm, XlaOp initial_state, const ShapeOrError& shape) {
  return Run("RngBitGenerator", nullptr, {initial_state}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    if (!shape) return Failure(shape.error());
    // As XLA's builder: floats and signed integers get the bits of unsigned ones of their width.
    if (!shape->IsArray() || (!IsIntegral(shape->element_type()) && !IsFloat(shape->element_type())))
      return InvalidArgument("Random bits fill arrays of numbers, not {}.", shape_rules::Brief(*shape));
    KRAFLA_ASSIGN(Shape result, Shape::MakeTuple({ops[0]->shape(), *shape}));
    return b.Add(Opcode::kRngBitGenerator, ToVector(ops), RngBitGeneratorAttributes{algorithm}, {}, &result);
  });
}

XlaOp RngGetAndUpdateState(XlaBuilder* builder, int64_t delta) {
  return RunOp("RngGetAndUpdateState", builder, {}, Opcode::kRngGetAndUpdateState, RngStateAttributes{delta});
}

}  // namespace krafla
