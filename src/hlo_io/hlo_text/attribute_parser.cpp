// SPDX-License-Identifier: Apache-2.0
// Attributes behind the operands: ", key=value" in any order. attribute_table.cpp says which an opcode takes.
#include <cmath>
#include <limits>

#include "base/index.h"
#include "hlo_io/hlo_text/parser.h"

namespace krafla::hlo_text {

Result<> Parser::ParseAttributes(Opcode opcode, const Scope& scope, AttributeSet& out) {
  std::span<const KeyUse> own = KeysOf(opcode);
  while (lex_.Accept(',')) {
    if (lex_.token().kind != Tok::kWord) return lex_.Unexpected("the name of an attribute after ','");
    const std::size_t offset = lex_.token().begin;
    std::string_view name = lex_.token().text;
    Key key = Key::kCount;
    for (std::span<const KeyUse> uses : {own, CommonKeys()})
      for (const KeyUse& use : uses)
        if (KeyName(use.key) == name) key = use.key;
    if (key == Key::kCount) {
      std::string known;
      for (const KeyUse& use : own) known += Format("{}{}", known.empty() ? "" : ", ", KeyName(use.key));
      return lex_.Error(offset,
                        Format("{} '{}'; {} takes {}{}.",
                               IsKeyOfAnyOpcode(name) ? "This instruction has no attribute" : "Unknown attribute",
                               name.substr(0, 60), OpcodeName(opcode), known.empty() ? "none" : known,
                               known.empty() ? " but sharding, metadata and their like" : ""));
    }
    if (out.Has(key)) return lex_.Error(offset, Format("Attribute '{}' is given twice.", name));
    lex_.Next();
    KRAFLA_TRY(lex_.Expect('=', "after the name of an attribute"));
    out.offsets[At(static_cast<int64_t>(key))] = lex_.token().begin;
    KRAFLA_TRY(ParseAttribute(key, scope, out));
    out.seen[At(static_cast<int64_t>(key))] = true;
  }
  return {};
}

Result<> Parser::CheckRequired(Opcode opcode, const AttributeSet& set, std::size_t offset) const {
  for (const KeyUse& use : KeysOf(opcode))
    if (use.required && !set.Has(use.key))
      return lex_.Error(offset, Format("{} needs the attribute '{}'.", OpcodeName(opcode), KeyName(use.key)));
  return {};
}

namespace {

// Puts a value that was read where it belongs.
template <typename To, typename From>
Result<> StoreRead(To& to, Result<From> value) {
  KRAFLA_ASSIGN(to, std::move(value));
  return {};
}

}  // namespace

Result<> Parser::ParseAttribute(Key key, const Scope& scope, AttributeSet& out) {
  const std::size_t k = At(static_cast<int64_t>(key));
  const std::string_view name = KeyName(key);
  switch (KindOf(key)) {
    case ValueKind::kInt: return StoreRead(out.ints[k], lex_.Int(name));
    case ValueKind::kBool: return StoreRead(out.ints[k], lex_.Bool(name));
    case ValueKind::kReal: return ParseFloat(name, out);
    case ValueKind::kDims: return StoreRead(out.dims[k], ParseDims(name));
    case ValueKind::kWord:
      if (lex_.token().kind != Tok::kWord) return lex_.Unexpected(Format("a word as {}", name));
      out.words[k] = lex_.Next().text;
      return {};
    case ValueKind::kString: return StoreRead(out.strings[k], lex_.String(name));
    case ValueKind::kComputation: return ParseCalled(key, out);
    case ValueKind::kComputations: return ParseList(name, [&] { return ParseCalled(key, out); });
    case ValueKind::kWindow: return ParseWindow(out);
    case ValueKind::kDimLabels: return ParseDimLabels(out);
    case ValueKind::kPadding: return ParsePadding(out);
    case ValueKind::kSlice: return ParseSlice(out);
    case ValueKind::kGroups: return StoreRead(out.groups, ParseGroups());
    case ValueKind::kPairs: return ParsePairs(out);
    case ValueKind::kPrecision: return ParsePrecision(out);
    case ValueKind::kShape: return StoreRead(out.shape, ParseShape());
    case ValueKind::kShapes:
      out.shapes.clear();
      return ParseList(name, [&] { return StoreRead(out.shapes.emplace_back(), ParseShape()); });
    case ValueKind::kAliasing: return ParseAliasing(out);
    case ValueKind::kBraces: return StoreRead(out.words[k], lex_.RawBraces(name));
    case ValueKind::kConfig: return ParseConfig(out);
    case ValueKind::kLiteral: return ParseLiteralInParentheses(out);
    case ValueKind::kAccuracy: return ParseResultAccuracy(out);
    case ValueKind::kBools:
      out.bools.clear();
      return ParseList(name, [&]() -> Result<> {
        KRAFLA_ASSIGN(bool value, lex_.Bool(name));
        out.bools.push_back(value);
        return {};
      });
    case ValueKind::kInstructions: return ParseList(name, [&] { return ParsePredecessor(scope, out); });
    case ValueKind::kSharding: return StoreRead(out.words[k], ParseSharding());
    case ValueKind::kMetadata: return StoreRead(out.words[k], ParseMetadata());
  }
  return {};
}

Result<> Parser::ParseFloat(std::string_view name, AttributeSet& out) {
  const std::size_t offset = lex_.token().begin;
  KRAFLA_ASSIGN(out.real, lex_.Real(name));
  if (!(std::abs(out.real) <= std::numeric_limits<float>::max()))
    return lex_.Error(offset, Format("{} must be a finite number that fits f32.", name));
  return {};
}

// "(f32[2] {1, 2})"
Result<> Parser::ParseLiteralInParentheses(AttributeSet& out) {
  KRAFLA_TRY(lex_.Expect('(', "to open a literal"));
  KRAFLA_ASSIGN(Shape shape, ParseShape());
  KRAFLA_ASSIGN(Literal literal, ParseLiteral(shape));
  out.literal = std::make_shared<const Literal>(std::move(literal));
  return lex_.Expect(')', "to close a literal");
}

Result<> Parser::ParsePredecessor(const Scope& scope, AttributeSet& out) {
  const std::size_t offset = lex_.token().begin;
  KRAFLA_ASSIGN(std::string_view before, lex_.Name("the name of an instruction"));
  auto it = scope.find(before);
  if (it == scope.end())
    return lex_.Error(offset, Format("No instruction '{}' is defined before this one.", before.substr(0, 60)));
  out.predecessors.push_back(it->second);
  return {};
}

// "{0,1}"
Result<Dims> Parser::ParseDims(std::string_view what) {
  Dims out;
  KRAFLA_TRY(ParseList(what, [&]() -> Result<> {
    KRAFLA_ASSIGN(int64_t value, lex_.Int(what));
    out.push_back(value);
    return {};
  }));
  return out;
}

// A name, or a whole computation in braces.
Result<> Parser::ParseCalled(Key key, AttributeSet& out) {
  CalledName called;
  called.key = key;
  called.offset = lex_.token().begin;
  if (lex_.Is('{')) {
    KRAFLA_ASSIGN(called.computation, ParseInlineComputation());
  } else {
    KRAFLA_ASSIGN(called.name, lex_.Name("the name of a computation"));
  }
  out.called.push_back(called);
  return {};
}

// "{{},{0}: (1, {}), {1}: (2, {0})}": output index, operand, index within the operand.
Result<> Parser::ParseAliasing(AttributeSet& out) {
  out.aliasing.clear();
  return ParseList("output_to_operand_aliasing", [&]() -> Result<> {
    CustomCallAttributes::Alias alias;
    KRAFLA_ASSIGN(alias.output_index, ParseDims("an output index"));
    KRAFLA_TRY(lex_.Expect(':', "after an output index"));
    KRAFLA_TRY(lex_.Expect('(', "before an operand number"));
    KRAFLA_ASSIGN(alias.operand, lex_.Int("an operand number"));
    KRAFLA_TRY(lex_.Expect(',', "after an operand number"));
    KRAFLA_ASSIGN(alias.operand_index, ParseDims("an index within an operand"));
    KRAFLA_TRY(lex_.Expect(')', "after an index within an operand"));
    out.aliasing.push_back(std::move(alias));
    return {};
  });
}

// "{highest,default}"
Result<> Parser::ParsePrecision(AttributeSet& out) {
  out.precision.clear();
  return ParseList("operand_precision", [&]() -> Result<> {
    if (lex_.IsWord("default")) out.precision.push_back(Precision::kDefault);
    else if (lex_.IsWord("high")) out.precision.push_back(Precision::kHigh);
    else if (lex_.IsWord("highest")) out.precision.push_back(Precision::kHighest);
    else return lex_.Unexpected("default, high or highest as operand_precision");
    lex_.Next();
    return {};
  });
}

// "{mode=highest}", "{tolerance={rtol=0.1, atol=0, ulps=10}}"
Result<> Parser::ParseResultAccuracy(AttributeSet& out) {
  out.accuracy = {};
  KRAFLA_TRY(lex_.Expect('{', "to open result_accuracy"));
  if (lex_.IsWord("mode")) {
    lex_.Next();
    KRAFLA_TRY(lex_.Expect('=', "after mode"));
    if (!lex_.IsWord("default") && !lex_.IsWord("highest"))
      return lex_.Unexpected("default or highest as the mode of result_accuracy");
    out.accuracy.highest = lex_.Next().text == "highest";
    return lex_.Expect('}', "to close result_accuracy");
  }
  KRAFLA_TRY(lex_.ExpectWord("tolerance"));
  KRAFLA_TRY(lex_.Expect('=', "after tolerance"));
  KRAFLA_TRY(lex_.Expect('{', "to open a tolerance"));
  do {
    std::string_view field = lex_.token().text;
    if (lex_.token().kind != Tok::kWord || (field != "rtol" && field != "atol" && field != "ulps"))
      return lex_.Unexpected("rtol, atol or ulps");
    lex_.Next();
    KRAFLA_TRY(lex_.Expect('=', "after a field of a tolerance"));
    if (field == "ulps") {
      KRAFLA_ASSIGN(out.accuracy.ulps, lex_.Int("ulps"));
    } else {
      KRAFLA_ASSIGN(double value, lex_.Real(field));
      if (!std::isfinite(value)) return lex_.Error(lex_.previous_end(), "A tolerance must be finite.");
      (field == "rtol" ? out.accuracy.rtol : out.accuracy.atol) = value;
    }
  } while (lex_.Accept(','));
  KRAFLA_TRY(lex_.Expect('}', "to close a tolerance"));
  return lex_.Expect('}', "to close result_accuracy");
}

// A string or JSON in braces; kept as written.
Result<> Parser::ParseConfig(AttributeSet& out) {
  auto& word = out.words[At(static_cast<int64_t>(Key::kBackendConfig))];
  if (lex_.Is('{')) {
    KRAFLA_ASSIGN(word, lex_.RawBraces("backend_config"));
    return {};
  }
  if (lex_.token().kind != Tok::kString) return lex_.Unexpected("a string or JSON in braces as backend_config");
  Token token = lex_.Next();
  word = lex_.text().substr(token.begin, token.end - token.begin);
  return {};
}

}  // namespace krafla::hlo_text
