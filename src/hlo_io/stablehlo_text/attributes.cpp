// SPDX-License-Identifier: Apache-2.0
#include "base/checked_math.h"
#include "hlo_io/stablehlo_text/parser.h"

namespace krafla::stablehlo {
namespace {

using Kind = Attribute::Kind;

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
    case MlirTok::kTrailer:
    case MlirTok::kTrailerEnd:
    case MlirTok::kBad: return lex_.Unexpected("an attribute");
  }
  if (lex_.IsWord("true") || lex_.IsWord("false")) return Flag(lex_.Next().text == "true");
  if (lex_.AcceptWord("unit")) return Keep(Attribute());
  if (lex_.IsWord("dense")) return ParseDense();
  if (lex_.IsWord("array")) return ParseArrayOf();
  if (lex_.IsWord("dense_resource")) return ParseDenseResource();
  for (std::string_view foreign : {"sparse", "affine_map", "affine_set", "strided", "opaque", "distinct"})
    if (lex_.IsWord(foreign)) return ParseForeign();
  if (lex_.IsWord("loc")) {
    KRAFLA_TRY(SkipLocation());
    return Keep(Attribute());
  }
  Attribute out;
  out.kind = Kind::kType;
  KRAFLA_ASSIGN(out.type, ParseType());
  return Keep(std::move(out));
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
  KRAFLA_ASSIGN(const int64_t count, CountOf(*out.type, begin));
  const ElementType type = out.type->element;
  if (is_blob) {
    if (!elements.empty()) return lex_.ErrorAt(begin, "A string of elements stands by itself.");
    KRAFLA_ASSIGN(out.bytes, HexBytes(blob, begin));
    KRAFLA_TRY(CheckBytes(out, count, /*may_be_one=*/true, begin));
    return Keep(std::move(out));
  }
  const int64_t parts = IsComplex(type) ? 2 : 1;
  const auto given = static_cast<int64_t>(elements.size());
  out.splat = !listed && given == parts && count != 1;
  if (!out.splat && (given % parts != 0 || given / parts != count))
    return lex_.ErrorAt(begin, Format("{} elements are given, the type has {}.", given / parts, count));
  const ElementType part = RealPart(type);
  for (std::string_view element : elements) KRAFLA_TRY(StoreElement(element, part, out.bytes));
  return Keep(std::move(out));
}

// Up to the bracket that closes the one here; of those within only round ones count, as maps and sets have arrows and
// comparisons.
Result<> TextParser::SkipForeign() {
  const std::size_t begin = lex_.token().begin;
  KRAFLA_TRY(lex_.Expect('<'));
  for (int64_t open = 0; open > 0 || !lex_.Is('>'); lex_.Next()) {
    if (lex_.token().kind == MlirTok::kEnd || lex_.token().kind == MlirTok::kBad)
      return lex_.ErrorAt(begin, "This bracket is never closed.");
    if (lex_.Is('(')) ++open;
    if (lex_.Is(')') && --open < 0) return lex_.Error("This bracket was never opened.");
  }
  return lex_.Expect('>');
}

Result<AttributeRef> TextParser::ParseForeign() {
  Attribute out;
  out.kind = Kind::kOther;
  out.text = lex_.Next().text;
  if (out.text.starts_with("affine")) {
    KRAFLA_TRY(SkipForeign());
  } else {
    if (lex_.Is('[')) KRAFLA_TRY(lex_.SkipBrackets());  // the number of a distinct attribute
    KRAFLA_TRY(lex_.SkipBrackets());
  }
  if (lex_.Accept(':')) KRAFLA_TRY(ParseType());
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
  if (token.text == "complex.number" && lex_.Is('<')) return ParseComplexNumber();
  const bool ours = token.text.starts_with("stablehlo") || token.text.starts_with("vhlo") ||
                    token.text.starts_with("mhlo") || token.text.starts_with("chlo");
  // Names with a point are those of dialects, which need no parameters.
  if (!lex_.Is('<') && (ours || token.text.find('.') == std::string_view::npos))
    return lex_.ErrorAt(token.begin, Format("No attribute '#{}' is defined.", token.text.substr(0, 60)));
  if (!ours) {
    Attribute out;
    out.kind = Kind::kOther;
    const std::size_t begin = lex_.token().begin;
    if (lex_.Is('<')) KRAFLA_TRY(lex_.SkipBrackets());
    // Shardings are read from their text; of others it is for messages.
    const bool sharding = token.text.starts_with("sdy");
    const std::size_t kept = sharding ? std::string_view::npos : 200;
    out.text = Format("#{}{}", token.text, lex_.text().substr(begin, std::min(lex_.token().begin - begin, kept)));
    if (!sharding && lex_.Accept(':')) KRAFLA_TRY(ParseType());
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
