// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <charconv>
#include <cstring>

#include "base/checked_math.h"
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

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char low = static_cast<char>(c | 32);
  return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

}  // namespace

AttributeRef TextParser::List(const Dims& dims) {
  Attribute out;
  out.kind = Kind::kArray;
  for (int64_t d : dims) out.elements.push_back(Number(d));
  return Keep(std::move(out));
}

Result<Dims> TextParser::ParseDimList() {
  Dims out;
  KRAFLA_TRY(lex_.Expect('['));
  if (lex_.Accept(']')) return out;
  do {
    KRAFLA_ASSIGN(int64_t one, lex_.Int());
    out.push_back(one);
  } while (lex_.Accept(','));
  KRAFLA_TRY(lex_.Expect(']'));
  return out;
}

Result<AttributeRef> TextParser::ParseWordList() {
  Attribute out;
  out.kind = Kind::kArray;
  KRAFLA_TRY(lex_.Expect('['));
  if (!lex_.Accept(']')) {
    do {
      if (lex_.token().kind == MlirTok::kWord) {
        out.elements.push_back(Word(lex_.Next().text));
      } else {
        KRAFLA_ASSIGN(AttributeRef one, ParseAttribute());
        out.elements.push_back(one);
      }
    } while (lex_.Accept(','));
    KRAFLA_TRY(lex_.Expect(']'));
  }
  return Keep(std::move(out));
}

// "{a = 1 : i64, b, "c d" = "x"}"
Result<TextParser::Entries> TextParser::ParseDictionary() {
  Entries out;
  KRAFLA_TRY(lex_.Expect('{'));
  if (lex_.Accept('}')) return out;
  do {
    if (lex_.token().kind != MlirTok::kWord && lex_.token().kind != MlirTok::kString)
      return lex_.Unexpected("the name of an attribute");
    std::string key = UnescapeMlir(lex_.Next().text);
    if (lex_.Accept('=')) {
      KRAFLA_ASSIGN(AttributeRef value, ParseAttribute());
      out.emplace_back(std::move(key), value);
    } else {
      out.emplace_back(std::move(key), Keep(Attribute()));
    }
  } while (lex_.Accept(','));
  KRAFLA_TRY(lex_.Expect('}'));
  return out;
}

Result<AttributeRef> TextParser::ParseAttribute() {
  const Deeper deeper(depth_);
  if (depth_ > kMaxTypeDepth) return lex_.Error("Types and attributes are nested deeper than the limit of 64.");
  switch (lex_.token().kind) {
    case MlirTok::kString: {
      AttributeRef out = Text(UnescapeMlir(lex_.Next().text));
      if (lex_.Accept(':')) KRAFLA_TRY(ParseType());
      return out;
    }
    case MlirTok::kSymbol: {
      AttributeRef out = Text(UnescapeMlir(lex_.Next().text));
      while (lex_.Is(':') && lex_.LookAhead().punct == ':') {  // @a::@b
        lex_.Next();
        lex_.Next();
        lex_.Next();
      }
      return out;
    }
    case MlirTok::kNumber: return ParseNumber();
    case MlirTok::kHash: return ParseHash();
    case MlirTok::kWord: break;
    case MlirTok::kPunct:
      if (lex_.Is('[')) {
        lex_.Next();
        Attribute out;
        out.kind = Kind::kArray;
        if (lex_.Accept(']')) return Keep(std::move(out));
        do {
          if (lex_.Accept('?')) {  // among bounds: there is none
            out.elements.push_back(Number(kDynamicDim));
            continue;
          }
          KRAFLA_ASSIGN(AttributeRef one, ParseAttribute());
          out.elements.push_back(one);
        } while (lex_.Accept(','));
        KRAFLA_TRY(lex_.Expect(']'));
        return Keep(std::move(out));
      }
      if (lex_.Is('{')) {
        Attribute out;
        out.kind = Kind::kDictionary;
        KRAFLA_ASSIGN(out.entries, ParseDictionary());
        return Keep(std::move(out));
      }
      if (lex_.Is('<')) return ParseFields();
      if (!lex_.Is('(')) return lex_.Unexpected("an attribute");
      break;
    case MlirTok::kBang: break;
    case MlirTok::kEnd:
    case MlirTok::kValue:
    case MlirTok::kBlock:
    case MlirTok::kArrow:
    case MlirTok::kBad: return lex_.Unexpected("an attribute");
  }
  if (lex_.IsWord("true") || lex_.IsWord("false")) return Flag(lex_.Next().text == "true");
  if (lex_.AcceptWord("unit")) return Keep(Attribute());
  if (lex_.IsWord("dense")) return ParseDense();
  if (lex_.IsWord("array")) return ParseArrayOf();
  if (lex_.IsWord("dense_resource") || lex_.IsWord("sparse"))
    return lex_.Error("Resources and sparse arrays cannot be read.");
  if (lex_.IsWord("loc")) {
    KRAFLA_TRY(SkipLocation());
    return Keep(Attribute());
  }
  Attribute out;
  out.kind = Kind::kType;
  KRAFLA_ASSIGN(out.type, ParseType());
  return Keep(std::move(out));
}

// "1 : i64", "-2", "1.5 : f32", "0x7FC00000 : f32".
Result<AttributeRef> TextParser::ParseNumber() {
  const MlirLexer::Token token = lex_.Next();
  Attribute out;
  Type type;
  type.kind = Type::Kind::kElement;
  const bool decimal = token.text.find_first_of(".eE") != std::string_view::npos && !token.text.starts_with("0x");
  type.element = decimal ? ElementType::kF64 : ElementType::kS64;
  if (lex_.Is(':') && lex_.LookAhead().punct != ':') {
    lex_.Next();
    KRAFLA_ASSIGN(out.type, ParseType());
    if (out.type->kind != Type::Kind::kElement)
      return lex_.ErrorAt(token.begin, "A number has a type that is not numeric.");
    type.element = out.type->element == ElementType::kInvalid ? ElementType::kS64 : out.type->element;
  } else {
    out.type = Keep(type);
  }
  std::string bytes;
  KRAFLA_TRY(StoreElement(token.text, type.element, bytes));
  if (IsFloat(type.element)) {
    out.kind = Kind::kFloat;
    if (type.element == ElementType::kF64) std::memcpy(&out.number, bytes.data(), 8);
    else if (type.element == ElementType::kF32) {
      float value = 0;
      std::memcpy(&value, bytes.data(), 4);
      out.number = value;
    } else {
      return lex_.ErrorAt(token.begin, "A number has a floating-point type other than f32 and f64.");
    }
    return Keep(std::move(out));
  }
  out.kind = Kind::kInteger;
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data(), bytes.size());
  if (IsSigned(type.element) && bytes.size() < 8 && (bits >> (bytes.size() * 8 - 1)) != 0)
    bits |= ~uint64_t{0} << (bytes.size() * 8);
  out.integer = static_cast<int64_t>(bits);
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
  if (!IsFloat(type) && !IsIntegral(type)) return bad();
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

// dense<...> : type, elements nested in brackets, one for all, or a string of hexadecimal bytes.
Result<AttributeRef> TextParser::ParseDense() {
  lex_.Next();
  KRAFLA_TRY(lex_.Expect('<'));
  const std::size_t begin = lex_.token().begin;
  std::vector<std::string_view> elements;
  std::string_view blob;
  bool is_blob = false, listed = false;
  int open = 0;
  while (!(open == 0 && lex_.Is('>'))) {
    const MlirLexer::Token token = lex_.token();
    if (token.kind == MlirTok::kString) {
      blob = token.text;
      is_blob = true;
    } else if (token.kind == MlirTok::kNumber || token.kind == MlirTok::kWord) {
      elements.push_back(token.text);
    } else if (lex_.Is('[') || lex_.Is('(')) {
      ++open;
      listed |= token.punct == '[';
    } else if (lex_.Is(']') || lex_.Is(')')) {
      if (--open < 0) return lex_.Error("This bracket was never opened.");
    } else if (!lex_.Is(',')) {
      return lex_.Unexpected("an element, a bracket or '>'");
    }
    lex_.Next();
  }
  lex_.Next();
  KRAFLA_TRY(lex_.Expect(':'));
  Attribute out;
  out.kind = Kind::kDense;
  KRAFLA_ASSIGN(out.type, ParseType());
  if (out.type->kind == Type::Kind::kOther) {
    out.kind = Kind::kOther;
    out.text = "a value of type " + out.type->text;
    return Keep(std::move(out));
  }
  if (out.type->kind != Type::Kind::kTensor)
    return lex_.ErrorAt(begin, "A dense value has a type that is not a tensor of numbers.");
  int64_t count = 1;
  for (int64_t d : out.type->dims) {
    auto product = d < 0 ? std::nullopt : CheckedMul(count, d);
    if (!product)
      return lex_.ErrorAt(begin, "The dimensions of a dense value must be known, and their product must fit 63 bits.");
    count = *product;
  }
  const ElementType type = out.type->element;
  const bool complex = IsComplex(type);
  const int width = type == ElementType::kInvalid ? 8 : StorageBytes(type);
  if (is_blob) {
    if (!elements.empty() || !blob.starts_with("0x") || blob.size() % 2 != 0)
      return lex_.ErrorAt(begin, "A string of elements must be hexadecimal digits after 0x.");
    for (std::size_t i = 2; i < blob.size(); i += 2) {
      const int high = HexDigit(blob[i]), low = HexDigit(blob[i + 1]);
      if (high < 0 || low < 0) return lex_.ErrorAt(begin, "A string of elements must be hexadecimal digits after 0x.");
      out.bytes += static_cast<char>(high * 16 + low);
    }
    const auto size = static_cast<int64_t>(out.bytes.size());
    if (type == ElementType::kPred && size == count / 8 + (count % 8 != 0 ? 1 : 0) && size != count) {
      std::string unpacked(static_cast<std::size_t>(count), '\0');
      for (std::size_t i = 0; i < unpacked.size(); ++i)
        unpacked[i] = static_cast<char>((static_cast<unsigned char>(out.bytes[i / 8]) >> (i % 8)) & 1);
      out.bytes = std::move(unpacked);
    } else if (size == width && count != 1) {
      out.splat = true;
    } else if (!CheckedMul(count, int64_t{width}) || size != count * width) {
      return lex_.ErrorAt(begin, Format("{} elements of {} bytes are given as {} bytes.", count, width, size));
    }
    return Keep(std::move(out));
  }
  const int64_t parts = complex ? 2 : 1;
  const auto given = static_cast<int64_t>(elements.size());
  out.splat = !listed && given == parts && count != 1;
  if (!out.splat && (given % parts != 0 || given / parts != count))
    return lex_.ErrorAt(begin, Format("{} elements are given, the type has {}.", given / parts, count));
  const ElementType part = RealPart(type);
  for (std::string_view element : elements) KRAFLA_TRY(StoreElement(element, part, out.bytes));
  return Keep(std::move(out));
}

// array<i64: 1, 2>
Result<AttributeRef> TextParser::ParseArrayOf() {
  lex_.Next();
  KRAFLA_TRY(lex_.Expect('<'));
  KRAFLA_ASSIGN(TypeRef type, ParseType());
  Attribute out;
  out.kind = Kind::kArray;
  if (lex_.Accept(':')) {
    do {
      if (lex_.IsWord("true") || lex_.IsWord("false")) {
        out.elements.push_back(Number(lex_.Next().text == "true" ? 1 : 0));
      } else if (IsFloat(type->element)) {
        Attribute one;
        one.kind = Kind::kFloat;
        if (!hlo_text::ParseReal(lex_.token().text, &one.number)) return lex_.Unexpected("a number");
        lex_.Next();
        out.elements.push_back(Keep(std::move(one)));
      } else {
        KRAFLA_ASSIGN(int64_t value, lex_.Int());
        out.elements.push_back(Number(value));
      }
    } while (lex_.Accept(','));
  }
  KRAFLA_TRY(lex_.Expect('>'));
  return Keep(std::move(out));
}

// "<a = 1, b = [0], c>": also fields without a key, which are its elements.
Result<AttributeRef> TextParser::ParseFields() {
  Attribute out;
  out.kind = Kind::kDictionary;
  KRAFLA_TRY(lex_.Expect('<'));
  while (!lex_.Accept('>')) {
    if (lex_.token().kind == MlirTok::kWord && lex_.LookAhead().punct == '=') {
      std::string key(lex_.Next().text);
      lex_.Next();
      if (lex_.token().kind == MlirTok::kWord && !lex_.IsWord("true") && !lex_.IsWord("false") &&
          !lex_.IsWord("dense") && !lex_.IsWord("array") && key == "mode") {
        out.entries.emplace_back(std::move(key), Word(lex_.Next().text));
      } else if (key == "sub_axis_info" && lex_.Accept('(')) {  // (2)4: of 4, after parts of 2 in all
        Attribute part;
        part.kind = Kind::kDictionary;
        KRAFLA_ASSIGN(int64_t before, lex_.Int());
        KRAFLA_TRY(lex_.Expect(')'));
        KRAFLA_ASSIGN(int64_t size, lex_.Int());
        part.entries = {{"pre_size", Number(before)}, {"size", Number(size)}};
        out.entries.emplace_back(std::move(key), Keep(std::move(part)));
      } else {
        KRAFLA_ASSIGN(AttributeRef value, ParseAttribute());
        out.entries.emplace_back(std::move(key), value);
      }
    } else if (lex_.Is('?')) {
      lex_.Next();
      out.elements.push_back(Number(kDynamicDim));
    } else {
      KRAFLA_ASSIGN(AttributeRef value, ParseAttribute());
      out.elements.push_back(value);
    }
    if (!lex_.Accept(',') && !lex_.Is('>')) return lex_.Unexpected("',' or '>'");
  }
  return Keep(std::move(out));
}

// "#stablehlo<precision HIGHEST>", "#stablehlo.gather<...>", "#stablehlo.conv<[b, 0, f]x[...]->[...]>", "#alias".
Result<AttributeRef> TextParser::ParseHash() {
  const MlirLexer::Token token = lex_.Next();
  if (auto it = attribute_aliases_.find(token.text); it != attribute_aliases_.end() && !lex_.Is('<')) return it->second;
  const bool ours = token.text.starts_with("stablehlo") || token.text.starts_with("vhlo") ||
                    token.text.starts_with("mhlo") || token.text.starts_with("chlo");
  if (!lex_.Is('<'))
    return lex_.ErrorAt(token.begin, Format("No attribute '#{}' is defined.", token.text.substr(0, 60)));
  if (!ours) {
    Attribute out;
    out.kind = Kind::kOther;
    const std::size_t begin = lex_.token().begin;
    KRAFLA_TRY(lex_.SkipBrackets());
    // Shardings are read from their text; of others it is for messages.
    const std::size_t kept = token.text.starts_with("sdy") ? std::string_view::npos : 200;
    out.text = Format("#{}{}", token.text, lex_.text().substr(begin, std::min(lex_.token().begin - begin, kept)));
    return Keep(std::move(out));
  }
  if (token.text == "stablehlo" || token.text == "vhlo" || token.text == "mhlo" ||
      token.text == "chlo") {  // <kind WORD>
    lex_.Next();
    if (lex_.token().kind != MlirTok::kWord) return lex_.Unexpected("the kind of an enum");
    lex_.Next();
    if (lex_.token().kind != MlirTok::kWord) return lex_.Unexpected("the word of an enum");
    AttributeRef out = Word(lex_.Next().text);
    KRAFLA_TRY(lex_.Expect('>'));
    return out;
  }
  if (token.text == "stablehlo.conv" && lex_.LookAhead().text == "raw") {  // <raw a = 0, b = [1]>
    const std::size_t begin = lex_.token().begin;
    lex_.Next();
    lex_.Next();
    Attribute out;
    out.kind = Kind::kDictionary;
    while (!lex_.Accept('>')) {
      if (lex_.token().kind != MlirTok::kWord) return lex_.ErrorAt(begin, "Raw dimension numbers must have names.");
      std::string key(lex_.Next().text);
      KRAFLA_TRY(lex_.Expect('='));
      KRAFLA_ASSIGN(AttributeRef value, ParseAttribute());
      out.entries.emplace_back(std::move(key), value);
      lex_.Accept(',');
    }
    return Keep(std::move(out));
  }
  if (token.text == "stablehlo.conv") {
    lex_.Next();
    Op scratch;
    KRAFLA_TRY(ParseKeyword(scratch, "dim_numbers"));
    KRAFLA_TRY(lex_.Expect('>'));
    Attribute out;
    out.kind = Kind::kDictionary;
    out.entries = std::move(scratch.attributes);
    return Keep(std::move(out));
  }
  // "#stablehlo.result_accuracy_mode<DEFAULT>" is a word; the others are fields.
  const std::size_t fields = lex_.token().begin;
  lex_.Next();
  if (lex_.token().kind == MlirTok::kWord && lex_.LookAhead().punct == '>') {
    AttributeRef out = Word(lex_.Next().text);
    lex_.Next();
    return out;
  }
  lex_.Seek(fields);
  return ParseFields();
}

}  // namespace krafla::stablehlo
