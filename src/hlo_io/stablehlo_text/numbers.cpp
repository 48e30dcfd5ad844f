// SPDX-License-Identifier: Apache-2.0
// Numbers: of each type that there is, read where somebody may compute with them and passed over where nobody can.
#include <bit>
#include <charconv>
#include <cstring>

#include "base/parse_float.h"
#include "hlo_io/element_codec.h"
#include "hlo_io/hlo_text/lexer.h"
#include "hlo_io/stablehlo_text/parser.h"

namespace krafla::stablehlo {
namespace {

using Kind = Attribute::Kind;

void AppendBits(std::string& out, uint64_t bits, int width) {
  out.append(reinterpret_cast<const char*>(&bits), static_cast<std::size_t>(width));
}

}  // namespace

Attribute TextParser::Uncomputable(const Type& type) {
  Attribute out;
  out.kind = Kind::kOther;
  out.text = "a value of type " + type.text;
  return out;
}

// A number of the type of one element.
Result<Attribute> TextParser::NumberOf(std::string_view text, TypeRef type) const {
  Attribute out;
  out.type = type;
  const ElementType element = type->element == ElementType::kInvalid ? ElementType::kS64 : type->element;
  std::string bytes;
  KRAFLA_TRY(StoreElement(text, element, bytes));
  const uint64_t bits = LoadBits(reinterpret_cast<const std::byte*>(bytes.data()), static_cast<int>(bytes.size()));
  out.kind = IsFloat(element) ? Kind::kFloat : Kind::kInteger;
  if (IsFloat(element)) {
    out.number = DecodeReal(element, bits);
    return out;
  }
  const std::size_t width = bytes.size() * 8;
  const bool negative = IsSigned(element) && width < 64 && (bits >> (width - 1)) != 0;
  out.integer = static_cast<int64_t>(negative ? bits | ~uint64_t{0} << width : bits);
  return out;
}

// "1 : i64", "-2", "1.5 : f32", "0x7FC00000 : f32", "1 : i128".
Result<AttributeRef> TextParser::ParseNumber() {
  const MlirLexer::Token token = lex_.Next();
  TypeRef type = nullptr;
  if (lex_.Is(':') && lex_.LookAhead().punct != ':') {
    lex_.Next();
    KRAFLA_ASSIGN(type, ParseType());
    if (type->kind == Type::Kind::kOther) return Keep(Uncomputable(*type));
    if (type->kind != Type::Kind::kElement)
      return lex_.ErrorAt(token.begin, "A number has a type that is not numeric.");
  } else {
    const bool decimal = token.text.find_first_of(".eE") != std::string_view::npos && !token.text.starts_with("0x");
    Type usual;
    usual.kind = Type::Kind::kElement;
    usual.element = decimal ? ElementType::kF64 : ElementType::kS64;
    type = Keep(std::move(usual));
  }
  KRAFLA_ASSIGN(Attribute out, NumberOf(token.text, type));
  return Keep(std::move(out));
}

// "#complex.number<:f32 1.0, 2.0> : complex<f32>" after its name: an array of no dimensions.
Result<AttributeRef> TextParser::ParseComplexNumber() {
  KRAFLA_TRY(lex_.Expect('<'));
  KRAFLA_TRY(lex_.Expect(':'));
  KRAFLA_ASSIGN(const TypeRef part, ParseType());
  Type type;
  type.kind = Type::Kind::kTensor;
  if (part->element == ElementType::kF32) type.element = ElementType::kC64;
  if (part->element == ElementType::kF64) type.element = ElementType::kC128;
  Attribute out;
  out.kind = Kind::kDense;
  for (const char end : {',', '>'}) {
    if (lex_.token().kind != MlirTok::kNumber) return lex_.Unexpected("a part of a complex number");
    const MlirLexer::Token token = lex_.Next();
    if (type.element != ElementType::kInvalid) KRAFLA_TRY(StoreElement(token.text, part->element, out.bytes));
    KRAFLA_TRY(lex_.Expect(end));
  }
  if (lex_.Accept(':')) KRAFLA_TRY(ParseType());
  if (type.element == ElementType::kInvalid) {
    type.text = "complex of other parts than f32 and f64";
    return Keep(Uncomputable(type));
  }
  out.type = Keep(std::move(type));
  return Keep(std::move(out));
}

// One element as a Literal stores it.
Result<> TextParser::StoreElement(std::string_view text, ElementType type, std::string& out) const {
  auto bad = [&] {
    return lex_.Error(Format("'{}' is not a value of type {}.", text.substr(0, 40), ElementTypeName(type)));
  };
  if (type == ElementType::kInvalid) type = ElementType::kS64;
  if (type == ElementType::kPred) {
    if (text == "true" || text == "1" || text == "-1") out += '\1';
    else if (text == "false" || text == "0") out += '\0';
    else return bad();
    return {};
  }
  const int width = StorageBytes(type);
  const bool negative = text.starts_with('-');
  std::string_view digits = negative ? text.substr(1) : text;
  const bool hex = digits.starts_with("0x") || digits.starts_with("0X");
  if (IsFloat(type) && !hex) {
    if (type == ElementType::kF32) {
      float value = 0;
      auto [p, error] = ParseFloat(digits.data(), digits.data() + digits.size(), value);
      if (p != digits.data() + digits.size() || digits.empty()) return bad();
      if (error == std::errc::result_out_of_range) {
        double wide = 0;
        if (!hlo_text::ParseReal(digits, &wide)) return bad();
        value = static_cast<float>(wide);
      }
      AppendBits(out, std::bit_cast<uint32_t>(negative ? -value : value), 4);
      return {};
    }
    double value = 0;
    if (!hlo_text::ParseReal(digits, &value)) return bad();
    if (negative) value = -value;
    if (type == ElementType::kF64) AppendBits(out, std::bit_cast<uint64_t>(value), 8);
    else if (const MiniFloat* format = FindMiniFloat(type)) AppendBits(out, EncodeMiniFloat(value, *format), width);
    else return bad();
    return {};
  }
  if ((!IsFloat(type) && !IsIntegral(type)) || (IsFloat(type) && negative)) return bad();  // no sign before bits
  uint64_t value = 0;
  if (hex) digits.remove_prefix(2);
  auto [p, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, hex ? 16 : 10);
  if (p != digits.data() + digits.size() || error != std::errc() || digits.empty()) return bad();
  const int bits = BitWidth(type);
  const uint64_t limit = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  const uint64_t most_negative = uint64_t{1} << (bits - 1);
  // Of integers without a sign of their own all bits may be given: 255 is -1 in i8.
  if (value > limit || (negative && (value > most_negative || IsUnsigned(type)))) return bad();
  if (negative) value = ~value + 1;
  if (IsSigned(type) && bits < 8 && (value & most_negative) != 0) value |= ~limit;
  AppendBits(out, value, width);
  return {};
}

// array<i64: 1, 2>
Result<AttributeRef> TextParser::ParseArrayOf() {
  lex_.Next();
  KRAFLA_TRY(lex_.Expect('<'));
  KRAFLA_ASSIGN(TypeRef type, ParseType());
  Attribute out;
  out.kind = Kind::kArray;
  if (lex_.Accept(':')) {
    if (type->kind != Type::Kind::kElement) return lex_.Error("An array has a type that is not numeric.");
    do {
      if (lex_.token().kind != MlirTok::kNumber && !lex_.IsWord("true") && !lex_.IsWord("false"))
        return lex_.Unexpected("a number");
      KRAFLA_ASSIGN(Attribute one, NumberOf(lex_.token().text, type));
      lex_.Next();
      one.type = nullptr;  // it is the array's
      out.elements.push_back(Keep(std::move(one)));
    } while (lex_.Accept(','));
  }
  KRAFLA_TRY(lex_.Expect('>'));
  return Keep(std::move(out));
}

}  // namespace krafla::stablehlo
