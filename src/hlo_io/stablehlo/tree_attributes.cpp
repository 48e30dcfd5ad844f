// SPDX-License-Identifier: Apache-2.0
// Attributes of a tree that is built.
#include "hlo_io/hlo_text/lexer.h"
#include "hlo_io/stablehlo/tree_builder.h"
#include "hlo_io/stablehlo_text/stablehlo_text.h"

namespace krafla::stablehlo {
namespace {

using Kind = Attribute::Kind;

Type TensorOf(ElementType element, Dims dims) {
  Type out;
  out.kind = Type::Kind::kTensor;
  out.element = element;
  out.dims = std::move(dims);
  return out;
}

Type ElementOfNumber(ElementType element) {
  Type out;
  out.kind = Type::Kind::kElement;
  out.element = element;
  return out;
}

Attribute DenseOf(const Dims& numbers, ElementType type) {
  Attribute out;
  out.kind = Kind::kDense;
  const auto width = static_cast<std::size_t>(type == ElementType::kInvalid ? 8 : StorageBytes(type));
  for (int64_t n : numbers) out.bytes.append(reinterpret_cast<const char*>(&n), width);
  return out;
}

bool AllElementsAlike(std::string_view bytes, std::size_t width) {
  return bytes.size() > width && bytes.substr(width) == bytes.substr(0, bytes.size() - width);
}

}  // namespace

AttributeRef TreeBuilder::Typed(Attribute attribute, Type type) {
  tree_->types.push_back(std::move(type));
  attribute.type = &tree_->types.back();
  return Keep(std::move(attribute));
}

AttributeRef TreeBuilder::TypeAttribute(Type type) {
  Attribute out;
  out.kind = Kind::kType;
  return Typed(std::move(out), std::move(type));
}

AttributeRef TreeBuilder::Integer(int64_t value, ElementType type) {
  return Typed(Attribute::Integer(value), ElementOfNumber(type));
}

AttributeRef TreeBuilder::Real(double value, ElementType type) {
  Attribute out;
  out.kind = Kind::kFloat;
  out.number = value;
  return Typed(std::move(out), ElementOfNumber(type));
}

AttributeRef TreeBuilder::Table(int64_t rows, int64_t columns, const Dims& numbers) {
  return Typed(DenseOf(numbers, ElementType::kS64), TensorOf(ElementType::kS64, {rows, columns}));
}

AttributeRef TreeBuilder::List(const Dims& dims, ElementType type) {
  return Typed(DenseOf(dims, type), TensorOf(type, {dims.ssize()}));
}

AttributeRef TreeBuilder::Flags(const std::vector<bool>& flags) {
  Dims numbers;
  for (const bool flag : flags) numbers.push_back(flag ? 1 : 0);
  return List(numbers, ElementType::kPred);
}

AttributeRef TreeBuilder::Array(std::vector<AttributeRef> elements) {
  Attribute out;
  out.kind = Kind::kArray;
  out.elements = std::move(elements);
  return Keep(std::move(out));
}

AttributeRef TreeBuilder::Dictionary(AttributeList entries) {
  Attribute out;
  out.kind = Kind::kDictionary;
  out.entries = std::move(entries);
  return Keep(std::move(out));
}

AttributeRef TreeBuilder::FrontendDictionary(std::string_view frontend_attributes) {
  AttributeList entries;
  for (const auto& [key, value] : hlo_text::FrontendAttributesIn(frontend_attributes))
    entries.emplace_back(key, Text(value));
  return entries.empty() ? nullptr : Dictionary(std::move(entries));
}

AttributeRef TreeBuilder::DictionaryIn(std::string_view text) {
  auto read = ParseAttributeText(text, *tree_);
  return read && (*read)->kind == Kind::kDictionary ? *read : nullptr;
}

Result<ValueId> TreeBuilder::AddDense(Scope& scope, const Literal& literal) {
  KRAFLA_ASSIGN(TypeRef type, TypeOf(literal.shape()));
  Attribute value;
  value.kind = Kind::kDense;
  value.type = type;
  const std::string_view bytes(reinterpret_cast<const char*>(literal.bytes().data()), literal.bytes().size());
  const auto width = static_cast<std::size_t>(StorageBytes(type->element));
  value.splat = AllElementsAlike(bytes, width);
  value.bytes = value.splat ? bytes.substr(0, width) : bytes;
  return Add(scope, "constant", {}, literal.shape(), {{"value", Keep(std::move(value))}});
}

}  // namespace krafla::stablehlo
