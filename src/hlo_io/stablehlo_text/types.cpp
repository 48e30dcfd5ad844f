// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include "hlo_io/stablehlo/quantization.h"
#include "hlo_io/stablehlo_text/element_words.h"
#include "hlo_io/stablehlo_text/parser.h"

namespace krafla::stablehlo {
namespace {

constexpr std::size_t kMaxTypeName = 120;  // in messages

// i128, si3, ui24
bool IsIntegerWord(std::string_view word) {
  for (std::string_view kind : {"si", "ui", "i"}) {
    if (!word.starts_with(kind)) continue;
    const std::string_view digits = word.substr(kind.size());
    return !digits.empty() && digits.size() < 9 && digits.find_first_not_of("0123456789") == std::string_view::npos;
  }
  return false;
}

}  // namespace

TypeRef TextParser::Keep(Type type) {
  tree_.types.push_back(std::move(type));
  return &tree_.types.back();
}

Result<Type> TextParser::ElementOf(std::string_view word) const {
  Type out;
  for (auto [name, type] : kElementWords)
    if (name == word) {
      out.kind = Type::Kind::kElement;
      out.element = type;
      return out;
    }
  if (word == "none") return out;
  const bool integer = IsIntegerWord(word);
  if (integer || word == "tf32" || word == "f6E2M3FN" || word == "f6E3M2FN" || word == "f80" || word == "f128") {
    out.kind = Type::Kind::kOther;
    out.text = word;
    return out;
  }
  return lex_.Error(Format("'{}' is not a type.", word.substr(0, 40)));
}

Result<std::vector<TypeRef>> TextParser::ParseTypeList(char close, std::vector<AttributeRef>* attributes) {
  std::vector<TypeRef> out;
  if (lex_.Accept(close)) return out;
  do {
    KRAFLA_ASSIGN(TypeRef type, ParseType());
    out.push_back(type);
    Attribute dictionary;
    dictionary.kind = Attribute::Kind::kDictionary;
    if (lex_.Is('{')) {  // attributes of a result
      KRAFLA_ASSIGN(dictionary.entries, ParseDictionary());
    }
    if (attributes != nullptr) attributes->push_back(Keep(std::move(dictionary)));
  } while (lex_.Accept(','));
  KRAFLA_TRY(lex_.Expect(close));
  return out;
}

// "-> T" or "-> (T, T)".
Result<std::vector<TypeRef>> TextParser::ParseResultTypes(std::vector<AttributeRef>* attributes) {
  if (lex_.token().kind != MlirTok::kArrow) return lex_.Unexpected("'->'");
  lex_.Next();
  if (lex_.Accept('(')) return ParseTypeList(')', attributes);
  KRAFLA_ASSIGN(TypeRef type, ParseType());
  return std::vector<TypeRef>{type};
}

Result<TextParser::Signature> TextParser::ParseSignature() {
  Signature out;
  if (lex_.Accept('(')) {
    KRAFLA_ASSIGN(out.operands, ParseTypeList(')'));
    out.functional = true;
    KRAFLA_ASSIGN(out.results, ParseResultTypes());
    return out;
  }
  do {
    KRAFLA_ASSIGN(TypeRef type, ParseType());
    out.results.push_back(type);
  } while (lex_.Accept(','));
  if (lex_.AcceptWord("to")) {  // a cast: "T to T"
    out.operands = std::move(out.results);
    KRAFLA_ASSIGN(TypeRef type, ParseType());
    out.results = {type};
    out.functional = true;
    return out;
  }
  if (lex_.token().kind != MlirTok::kArrow) return out;
  // "T, T -> T", as CHLO prints.
  out.operands = std::move(out.results);
  out.functional = true;
  KRAFLA_ASSIGN(out.results, ParseResultTypes());
  return out;
}

// "tensor<2x?x3xf32, #encoding>" after its first word.
Result<TypeRef> TextParser::ParseTensor() {
  KRAFLA_TRY(lex_.Expect('<'));
  Type out;
  out.kind = Type::Kind::kTensor;
  // Dimensions run into each other and into the element type, so that they are no tokens.
  std::size_t at = lex_.token().begin;
  const std::string_view text = lex_.text();
  if (lex_.Is('*')) {
    out.unranked = true;
    at += 1;
    if (at < text.size() && text[at] == 'x') ++at;
  }
  for (;;) {
    std::size_t end = at;
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
    if (end > at && end < text.size() && text[end] == 'x') {
      int64_t dim = 0;
      auto [p, error] = std::from_chars(text.data() + at, text.data() + end, dim);
      if (error != std::errc() || p != text.data() + end) return lex_.ErrorAt(at, "A dimension does not fit 63 bits.");
      out.dims.push_back(dim);
      at = end + 1;
    } else if (end == at && at + 1 < text.size() && text[at] == '?' && text[at + 1] == 'x') {
      out.dims.push_back(kDynamicDim);
      at += 2;
    } else {
      break;
    }
  }
  lex_.Seek(at);
  KRAFLA_ASSIGN(TypeRef element, ParseType());
  if (element->kind == Type::Kind::kElement) {
    out.element = element->element;
    out.quantization = element->quantization;
    if (auto fits = CheckQuantizedDims(out); !fits) return lex_.Error(fits.error().message());
  } else {
    out.kind = Type::Kind::kOther;
    out.text = "tensor of " + (element->text.empty() ? "another type" : element->text);
  }
  if (lex_.Accept(',')) {
    // "#stablehlo.bounds<3, ?>", or "#stablehlo.type_extensions<bounds = [3, ?]>"
    const bool bounds = lex_.token().kind == MlirTok::kHash && lex_.token().text.ends_with("bounds");
    KRAFLA_ASSIGN(AttributeRef encoding, ParseAttribute());
    AttributeRef list = bounds ? encoding : nullptr;
    for (const auto& [key, value] : encoding->entries)
      if (key == "bounds") list = value;
    if (list != nullptr)
      for (AttributeRef e : list->elements) out.bounds.push_back(e->integer);
    if (!out.bounds.empty() && out.bounds.size() != out.dims.size())
      return lex_.Error(Format("{} bounds are given for {} dimensions.", out.bounds.size(), out.dims.size()));
  }
  KRAFLA_TRY(lex_.Expect('>'));
  return Keep(std::move(out));
}

Result<TypeRef> TextParser::ParseType() {
  const Deeper deeper(depth_);
  if (depth_ > kMaxTypeDepth) return lex_.Error("Types and attributes are nested deeper than the limit of 64.");
  if (lex_.Accept('(')) {
    Type out;
    out.kind = Type::Kind::kFunction;
    KRAFLA_ASSIGN(out.elements, ParseTypeList(')'));
    KRAFLA_ASSIGN(out.results, ParseResultTypes());
    return Keep(std::move(out));
  }
  if (lex_.token().kind == MlirTok::kBang) {
    const std::string_view name = lex_.Next().text;
    if (auto it = type_aliases_.find(name); it != type_aliases_.end()) return it->second;
    Type out;
    if (name == "stablehlo.token" || name == "mhlo.token") {
      out.kind = Type::Kind::kToken;
    } else if (name == "quant.uniform" && lex_.Is('<')) {
      return ParseQuantized();
    } else {
      out.kind = Type::Kind::kOther;
      out.text = "!" + std::string(name);
      if (lex_.Is('<')) {
        const std::size_t begin = lex_.token().begin;
        KRAFLA_TRY(lex_.SkipBrackets());
        const std::string_view parameters = lex_.text().substr(begin, lex_.token().begin - begin);
        out.text += parameters.substr(0, std::min(parameters.rfind('>') + 1, kMaxTypeName));
      }
    }
    return Keep(std::move(out));
  }
  if (lex_.token().kind != MlirTok::kWord) return lex_.Unexpected("a type");
  const std::string_view word = lex_.token().text;
  if (word == "tensor") {
    lex_.Next();
    return ParseTensor();
  }
  if (word == "memref" || word == "vector") {
    Type out;
    out.kind = Type::Kind::kOther;
    out.text = word == "memref" ? "a buffer" : "a vector";
    lex_.Next();
    KRAFLA_TRY(lex_.SkipBrackets());
    return Keep(std::move(out));
  }
  if (word == "complex") {
    lex_.Next();
    KRAFLA_TRY(lex_.Expect('<'));
    KRAFLA_ASSIGN(TypeRef part, ParseType());
    KRAFLA_TRY(lex_.Expect('>'));
    Type out;
    out.kind = Type::Kind::kElement;
    if (part->element == ElementType::kF32) out.element = ElementType::kC64;
    else if (part->element == ElementType::kF64) out.element = ElementType::kC128;
    else if (part->kind != Type::Kind::kElement && part->kind != Type::Kind::kOther)
      return lex_.Error("The parts of a complex number must be numbers.");
    else out.kind = Type::Kind::kOther, out.text = "complex of other parts than f32 and f64";
    return Keep(std::move(out));
  }
  if (word == "tuple") {
    lex_.Next();
    KRAFLA_TRY(lex_.Expect('<'));
    Type out;
    out.kind = Type::Kind::kTuple;
    KRAFLA_ASSIGN(out.elements, ParseTypeList('>'));
    return Keep(std::move(out));
  }
  KRAFLA_ASSIGN(Type out, ElementOf(word));
  lex_.Next();
  return Keep(std::move(out));
}

}  // namespace krafla::stablehlo
