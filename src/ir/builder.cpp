// SPDX-License-Identifier: Apache-2.0
#include "ir/builder.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "ir/element_type_cases.h"
#include "ir/mini_float.h"
#include "ir/shape_rules/checks.h"
#include "numerics/formats.h"

namespace krafla {
namespace {

template <typename T>
T Saturate(double value, T low = std::numeric_limits<T>::min(), T high = std::numeric_limits<T>::max()) {
  if (std::isnan(value)) return 0;
  value = std::nearbyint(value);
  // `high` of 64-bit types rounds up to a double that is not in the type; >= keeps the cast below defined.
  if (value <= static_cast<double>(low)) return low;
  if (value >= static_cast<double>(high)) return high;
  return static_cast<T>(value);
}

template <typename T>
void Store(Literal& literal, std::size_t at, T value) {
  literal.data<T>()[at] = value;
}

void StoreMini(Literal& literal, double value, const MiniFloat& format) {
  uint32_t code = EncodeMiniFloat(value, format);
  if (literal.bytes().size() == 2) {
    Store(literal, 0, static_cast<uint16_t>(code));
  } else {
    Store(literal, 0, static_cast<uint8_t>(code));
  }
}

}  // namespace

ComputationSignature SignatureOf(const Computation& computation) {
  ComputationSignature out;
  out.parameters.reserve(computation.parameters().size());
  for (const Instruction* p : computation.parameters()) {
    KRAFLA_CHECK(p != nullptr);
    out.parameters.push_back(p->shape());
  }
  KRAFLA_CHECK(computation.root() != nullptr);
  out.result = computation.root()->shape();
  return out;
}

Result<Shape> InferShape(const Computation& computation, Opcode opcode, std::span<Instruction* const> operands,
                         const Attributes& attributes, std::span<Computation* const> called, const Shape* declared) {
  std::vector<const Shape*> shapes;
  for (const Instruction* operand : operands) shapes.push_back(&operand->shape());
  std::vector<ComputationSignature> signatures;
  for (const Computation* c : called) signatures.push_back(SignatureOf(*c));
  const Module* module = computation.parent();
  return InferShape({.opcode = opcode,
                     .operands = shapes,
                     .attributes = attributes,
                     .called = signatures,
                     .declared = declared,
                     .replica_count = module->replica_count,
                     .num_partitions = module->num_partitions});
}

Result<Instruction*> AddInferred(Computation& computation, Opcode opcode, std::vector<Instruction*> operands,
                                 Attributes attributes, std::vector<Computation*> called, const Shape* declared,
                                 std::string_view name) {
  for (const Instruction* operand : operands) KRAFLA_CHECK(operand->parent() == &computation);
  KRAFLA_ASSIGN(Shape shape, InferShape(computation, opcode, operands, attributes, called, declared));
  if (declared != nullptr) {
    if (!Shape::Compatible(*declared, shape))
      return InvalidArgument("{} is declared as {}; from its operands, attributes and computations follows {}.",
                             OpcodeName(opcode), shape_rules::Brief(*declared), shape_rules::Brief(shape));
    shape = *declared;
  }
  return computation.Add(opcode, std::move(shape), std::move(operands), std::move(attributes), std::move(called), name);
}

Computation* AddBinaryComputation(Module& module, Opcode opcode, const Shape& shape) {
  Computation* c = module.AddComputation(OpcodeName(opcode));
  Instruction* a = c->Add(Opcode::kParameter, shape, {}, ParameterAttributes{0, {}}, {}, "a");
  Instruction* b = c->Add(Opcode::kParameter, shape, {}, ParameterAttributes{1, {}}, {}, "b");
  c->set_root(c->Add(opcode, shape, {a, b}));
  return c;
}

Instruction* AddParameter(Computation& computation, int64_t number, Shape shape, std::string_view name) {
  KRAFLA_CHECK(number >= 0);
  ParameterAttributes attributes;
  attributes.number = number;
  return computation.Add(Opcode::kParameter, std::move(shape), {}, std::move(attributes), {}, name);
}

Instruction* AddConstant(Computation& computation, Literal literal, std::string_view name) {
  Shape shape = literal.shape();
  auto shared = std::make_shared<const Literal>(std::move(literal));
  return computation.Add(Opcode::kConstant, std::move(shape), {}, ConstantAttributes{std::move(shared)}, {}, name);
}

Literal ScalarLiteral(ElementType type, double value) {
  auto created = Literal::Create(Shape::MakeScalar(type));
  KRAFLA_CHECK(created.has_value());
  Literal out = std::move(*created);
  switch (type) {
    case ElementType::kPred: Store<uint8_t>(out, 0, value != 0); break;
    case ElementType::kS1: Store<int8_t>(out, 0, Saturate<int8_t>(value, -1, 0)); break;
    case ElementType::kS2: Store<int8_t>(out, 0, Saturate<int8_t>(value, -2, 1)); break;
    case ElementType::kS4: Store<int8_t>(out, 0, Saturate<int8_t>(value, -8, 7)); break;
    case ElementType::kS8: Store(out, 0, Saturate<int8_t>(value)); break;
    case ElementType::kS16: Store(out, 0, Saturate<int16_t>(value)); break;
    case ElementType::kS32: Store(out, 0, Saturate<int32_t>(value)); break;
    case ElementType::kS64: Store(out, 0, Saturate<int64_t>(value)); break;
    case ElementType::kU1: Store<uint8_t>(out, 0, Saturate<uint8_t>(value, 0, 1)); break;
    case ElementType::kU2: Store<uint8_t>(out, 0, Saturate<uint8_t>(value, 0, 3)); break;
    case ElementType::kU4: Store<uint8_t>(out, 0, Saturate<uint8_t>(value, 0, 15)); break;
    case ElementType::kU8: Store(out, 0, Saturate<uint8_t>(value)); break;
    case ElementType::kU16: Store(out, 0, Saturate<uint16_t>(value)); break;
    case ElementType::kU32: Store(out, 0, Saturate<uint32_t>(value)); break;
    case ElementType::kU64: Store(out, 0, Saturate<uint64_t>(value)); break;
    case ElementType::kF32: Store(out, 0, static_cast<float>(value)); break;
    case ElementType::kF64: Store(out, 0, value); break;
    case ElementType::kC64: {
      float parts[2] = {static_cast<float>(value), 0};
      std::memcpy(out.bytes().data(), parts, sizeof(parts));
      break;
    }
    case ElementType::kC128: {
      double parts[2] = {value, 0};
      std::memcpy(out.bytes().data(), parts, sizeof(parts));
      break;
    }
    case ElementType::kF16:
    case ElementType::kBF16:
    case KRAFLA_MINI_FLOATS: StoreMini(out, value, *FindMiniFloat(type)); break;
    case KRAFLA_NO_ARRAY_TYPES: KRAFLA_UNREACHABLE();
  }
  return out;
}

Instruction* AddScalarConstant(Computation& computation, ElementType type, double value) {
  return AddConstant(computation, ScalarLiteral(type, value));
}

Result<Instruction*> AddBroadcast(Computation& computation, Instruction* operand, std::span<const int64_t> dims,
                                  Dims dimensions) {
  KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(operand->shape().element_type(), dims));
  DimensionsAttributes attributes{std::move(dimensions)};
  // A dynamic operand dimension makes the result's dynamic; the declared shape only gives the sizes.
  KRAFLA_ASSIGN(shape, InferShape(computation, Opcode::kBroadcast, {&operand, 1}, attributes, {}, &shape));
  return AddInferred(computation, Opcode::kBroadcast, {operand}, std::move(attributes), {}, &shape);
}

Result<Instruction*> AddBroadcastScalar(Computation& computation, Instruction* scalar, std::span<const int64_t> dims) {
  return AddBroadcast(computation, scalar, dims, {});
}

Result<Instruction*> AddReshape(Computation& computation, Instruction* operand, std::span<const int64_t> dims) {
  KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(operand->shape().element_type(), dims));
  return AddInferred(computation, Opcode::kReshape, {operand}, {}, {}, &shape);
}

Result<Instruction*> AddTranspose(Computation& computation, Instruction* operand, Dims permutation) {
  return AddInferred(computation, Opcode::kTranspose, {operand}, DimensionsAttributes{std::move(permutation)});
}

Result<Instruction*> AddConvert(Computation& computation, Instruction* operand, ElementType type) {
  if (operand->shape().element_type() == type) return operand;
  Shape shape = operand->shape().WithElementType(type);
  return AddInferred(computation, Opcode::kConvert, {operand}, {}, {}, &shape);
}

Result<Instruction*> AddTuple(Computation& computation, std::vector<Instruction*> elements) {
  return AddInferred(computation, Opcode::kTuple, std::move(elements));
}

Result<Instruction*> AddGetTupleElement(Computation& computation, Instruction* operand, int64_t index) {
  return AddInferred(computation, Opcode::kGetTupleElement, {operand}, TupleIndexAttributes{index});
}

}  // namespace krafla
