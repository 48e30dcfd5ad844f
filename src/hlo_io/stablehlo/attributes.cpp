// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "base/checked_math.h"
#include "hlo_io/hlo_text/lexer.h"
#include "hlo_io/stablehlo/converter.h"
#include "hlo_io/stablehlo_text/element_words.h"

namespace krafla::stablehlo {
namespace {

using Kind = Attribute::Kind;

Result<AttributeRef> Needed(const Op& op, std::string_view key) {
  AttributeRef found = op.Find(key);
  if (found == nullptr) return InvalidArgument("'{}' has no attribute '{}'.", op.name, key);
  return found;
}

int64_t ElementAt(const Attribute& dense, std::size_t i) {
  const ElementType type = dense.type->element;
  const auto width = static_cast<std::size_t>(type == ElementType::kInvalid ? 8 : StorageBytes(type));
  uint64_t value = 0;
  std::memcpy(&value, dense.bytes.data() + (dense.splat ? 0 : i * width), width);
  if (IsSigned(type) && width < 8 && (value >> (width * 8 - 1)) != 0) value |= ~uint64_t{0} << (width * 8);
  return static_cast<int64_t>(value);
}

}  // namespace

Result<Dims> IntegersOf(const Attribute& a) {
  Dims out;
  if (a.kind == Kind::kArray) {
    for (AttributeRef e : a.elements) {
      if (e->kind != Kind::kInteger && e->kind != Kind::kBool)
        return InvalidArgument("A list of integers holds something else.");
      out.push_back(e->integer);
    }
    return out;
  }
  if (a.kind != Kind::kDense || IsFloat(a.type->element) || IsComplex(a.type->element))
    return InvalidArgument("An attribute is no list of integers.");
  int64_t count = 1;
  for (int64_t d : a.type->dims) count *= d;  // checked when it was read
  if (count > (int64_t{1} << 24))
    return ResourceExhausted("A list of integers has {} entries; the limit is {}.", count, 1 << 24);
  for (int64_t i = 0; i < count; ++i) out.push_back(ElementAt(a, static_cast<std::size_t>(i)));
  return out;
}

Result<Dims> DimsAttribute(const Op& op, std::string_view key) {
  KRAFLA_ASSIGN(AttributeRef found, Needed(op, key));
  auto out = IntegersOf(*found);
  if (!out) return Failure(std::move(out).error().WithContext(Format("in attribute '{}'", key)));
  return out;
}

Result<int64_t> IntAttribute(const Op& op, std::string_view key) {
  KRAFLA_ASSIGN(AttributeRef found, Needed(op, key));
  if (found->kind != Kind::kInteger && found->kind != Kind::kBool)
    return InvalidArgument("Attribute '{}' of '{}' is not an integer.", key, op.name);
  return found->integer;
}

Result<bool> BoolAttribute(const Op& op, std::string_view key) {
  KRAFLA_ASSIGN(AttributeRef found, Needed(op, key));
  if (found->kind == Kind::kUnit) return true;
  if (found->kind != Kind::kBool && found->kind != Kind::kInteger)
    return InvalidArgument("Attribute '{}' of '{}' is not a boolean.", key, op.name);
  return found->integer != 0;
}

Result<std::string> StringAttribute(const Op& op, std::string_view key) {
  KRAFLA_ASSIGN(AttributeRef found, Needed(op, key));
  if (found->kind != Kind::kString) return InvalidArgument("Attribute '{}' of '{}' is not a string.", key, op.name);
  return found->text;
}

Result<int64_t> WordAttribute(const Op& op, std::string_view key, std::span<const std::string_view> words) {
  KRAFLA_ASSIGN(AttributeRef found, Needed(op, key));
  for (std::size_t i = 0; i < words.size(); ++i)
    if (found->kind == Kind::kWord && found->text == words[i]) return static_cast<int64_t>(i);
  return InvalidArgument("Attribute '{}' of '{}' is '{}', which is none of its words.", key, op.name,
                         found->text.substr(0, 60));
}

Result<std::vector<std::pair<int64_t, int64_t>>> PairsAttribute(const Op& op, std::string_view key) {
  KRAFLA_ASSIGN(Dims flat, DimsAttribute(op, key));
  if (flat.size() % 2 != 0)
    return InvalidArgument("Attribute '{}' of '{}' holds {} numbers, not pairs.", key, op.name, flat.size());
  std::vector<std::pair<int64_t, int64_t>> out;
  for (std::size_t i = 0; i + 1 < flat.size(); i += 2) out.emplace_back(flat[i], flat[i + 1]);
  return out;
}

Result<Literal> LiteralOf(const Attribute& a, const Shape& shape) {
  if (a.kind == Kind::kOther)
    return Unimplemented("A constant of shape {} is {}.", shape.ToString(false), a.text.substr(0, 120));
  if (a.kind != Kind::kDense || a.type->element != shape.element_type())
    return InvalidArgument("A constant of shape {} has a value of another type.", shape.ToString(false));
  KRAFLA_ASSIGN(Literal out, Literal::CreateUninitialized(shape));
  std::span<std::byte> to = out.bytes();
  const std::size_t width = a.splat ? a.bytes.size() : to.size();
  if (a.bytes.size() != width || (a.splat && (width == 0 || to.size() % width != 0)))
    return InvalidArgument("A constant of shape {} has {} bytes.", shape.ToString(false), a.bytes.size());
  if (!a.splat) {
    if (width > 0) std::memcpy(to.data(), a.bytes.data(), width);
  } else {
    for (std::size_t at = 0; at < to.size(); at += width) std::memcpy(to.data() + at, a.bytes.data(), width);
  }
  return out;
}

std::string PrintAttribute(const Attribute& a) {
  auto typed = [&](std::string text) {
    if (a.type == nullptr || a.type->element == ElementType::kInvalid) return text;
    for (const auto& [word, element] : kElementWords)
      if (element == a.type->element) return Format("{} : {}", text, word);
    return text;
  };
  switch (a.kind) {
    case Kind::kUnit: return "unit";
    case Kind::kBool: return a.integer != 0 ? "true" : "false";
    case Kind::kInteger: return typed(std::to_string(a.integer));
    case Kind::kFloat: return typed(Format("{}", a.number));
    case Kind::kString: return "\"" + hlo_text::Escape(a.text) + "\"";
    case Kind::kWord:
    case Kind::kOther: return a.text;
    case Kind::kType: return "type";
    case Kind::kArray: {
      std::string out = "[";
      for (AttributeRef e : a.elements) out += (out.size() > 1 ? ", " : "") + PrintAttribute(*e);
      return out + "]";
    }
    case Kind::kDictionary: {
      std::string out = "{";
      for (const auto& [key, value] : a.entries) {
        out += (out.size() > 1 ? ", " : "") + key;
        if (value->kind != Kind::kUnit) out += " = " + PrintAttribute(*value);
      }
      return out + "}";
    }
    case Kind::kDense: {
      auto values = IntegersOf(a);
      std::string out = "array<i64: ";
      if (values)
        for (std::size_t i = 0; i < values->size(); ++i) out += Format("{}{}", i > 0 ? ", " : "", (*values)[i]);
      return out + ">";
    }
  }
  return "";
}

}  // namespace krafla::stablehlo
