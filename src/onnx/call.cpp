// SPDX-License-Identifier: Apache-2.0
#include "onnx/call.h"

#include "onnx/importer.h"

namespace krafla::onnx {

const Value& Call::ValueOf(std::size_t i) const {
  if (!Has(i)) Reject("Input {} is missing.", i);
  return *inputs_[i];
}
Value OfLiteral(Result<Literal> literal) {
  Value out;
  out.literal = std::make_shared<Literal>(Need(std::move(literal)));
  out.shape = out.literal->shape();
  return out;
}
Value OfFlag(bool flag) {
  const std::byte byte{flag};
  return OfLiteral(Literal::FromBytes(Shape::MakeScalar(PRED), {&byte, 1}));
}
Value OfOp(XlaOp op) {
  Value out;
  out.shape = ShapeOf(op);
  out.op = op;
  return out;
}

const std::vector<Value>& Call::SequenceOf(std::size_t i) const {
  const Value& value = ValueOf(i);
  if (value.elements == nullptr || value.is_optional) Reject("Input {} ('{}') is no sequence.", i, node.inputs[i]);
  return *value.elements;
}
XlaOp Call::In(std::size_t i) {
  const Value& value = ValueOf(i);
  const int64_t most = value.is_computed ? most_elements_ * kGrowth : most_elements_;
  if (most_elements_ >= 0 && (value.literal == nullptr || value.shape.element_count() > most)) throw NotKnown{};
  if (!ops_[i].valid()) ops_[i] = Importer::Materialize(b, value);
  return ops_[i];
}
const Dequantised* Call::MadeOf(std::size_t i) const {
  return most_elements_ >= 0 || !Has(i) ? nullptr : inputs_[i]->made_of.get();
}
XlaOp Call::OpOf(const Value& value) { return Importer::Materialize(b, value); }
const Shape& Call::ShapeOf(std::size_t i) const { return ValueOf(i).shape; }
const Literal& Call::Known(std::size_t i, std::string_view what) const {
  const Value& value = ValueOf(i);
  if (value.literal == nullptr)
    Refuse("Input {} ('{}'), {}, depends on the data; it has to be known while importing.", i, node.inputs[i], what);
  return *value.literal;
}
Ints Call::KnownInts(std::size_t i, std::string_view what) const { return IntsOf(Known(i, what)); }
Call::Sizes Call::SizesIn(std::size_t i, std::string_view what) const {
  const Value& value = ValueOf(i);
  if (value.literal == nullptr && most_elements_ >= 0) throw NotKnown{};
  if (value.literal != nullptr || value.most == nullptr) {
    Ints known = KnownInts(i, what);
    const std::size_t count = known.size();
    return {std::move(known), std::vector<bool>(count, true)};
  }
  Sizes out{.most = IntsOf(*value.most), .is_known = {}};
  const Ints least = IntsOf(*value.least);
  for (std::size_t k = 0; k < least.size(); ++k) out.is_known.push_back(least[k] == out.most[k]);
  return out;
}
std::vector<double> Call::KnownNumbers(std::size_t i, std::string_view what) const { return NumbersOf(Known(i, what)); }

const Attribute* Call::Find(std::string_view name) const {
  for (const Attribute& attribute : node.attributes)
    if (attribute.name == name) return &attribute;
  return nullptr;
}
namespace {
// The attribute if it is there, of that type.
const Attribute* FindOf(const Call& c, std::string_view name, AttributeType type) {
  const Attribute* found = c.Find(name);
  if (found != nullptr && found->type != type && found->type != AttributeType::kNone)
    Reject("The attribute '{}' is of the type {}; the operator takes {}.", name, Name(found->type), Name(type));
  return found;
}
}  // namespace

int64_t Call::Int(std::string_view name, int64_t otherwise) const {
  const Attribute* found = FindOf(*this, name, AttributeType::kInt);
  return found != nullptr ? found->i : otherwise;
}
int64_t Call::Int(std::string_view name) const {
  const Attribute* found = FindOf(*this, name, AttributeType::kInt);
  if (found == nullptr) Reject("The attribute '{}' is missing.", name);
  return found->i;
}
double Call::Float(std::string_view name, double otherwise) const {
  const Attribute* found = FindOf(*this, name, AttributeType::kFloat);
  return found != nullptr ? static_cast<double>(found->f) : otherwise;
}
std::string Call::Text(std::string_view name, std::string_view otherwise) const {
  const Attribute* found = FindOf(*this, name, AttributeType::kString);
  return found != nullptr ? found->s : std::string(otherwise);
}
std::optional<Ints> Call::List(std::string_view name) const {
  const Attribute* found = FindOf(*this, name, AttributeType::kInts);
  if (found == nullptr) return std::nullopt;
  return found->ints;
}
std::optional<std::vector<float>> Call::Floats(std::string_view name) const {
  const Attribute* found = FindOf(*this, name, AttributeType::kFloats);
  if (found == nullptr) return std::nullopt;
  return found->floats;
}
std::optional<Ints> Call::Axes(std::size_t input) const {
  if (Has(input)) return KnownInts(input, "the axes");
  return List("axes");
}

}  // namespace krafla::onnx
