// SPDX-License-Identifier: Apache-2.0
// The forms of Shardy's operations (github.com/openxla/shardy, shardy/dialect/sdy/ir/ops.td).
#include "hlo_io/stablehlo_text/parser.h"

namespace krafla::stablehlo {

// What stands in brackets, kept as it is written, after `before`.
Result<AttributeRef> TextParser::BracketText(std::string_view before) {
  Attribute out;
  out.kind = Attribute::Kind::kOther;
  const std::size_t begin = lex_.token().begin;
  KRAFLA_TRY(lex_.SkipBrackets());
  std::string_view text = lex_.text().substr(begin, lex_.token().begin - begin);
  text = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);  // up to the closing bracket
  out.text = Format("{}{}", before, text);
  return Keep(std::move(out));
}

Result<> TextParser::ParseMesh(Op& op) {
  if (lex_.token().kind != MlirTok::kSymbol) return lex_.Unexpected("the name of the mesh");
  op.attributes.emplace_back("sym_name", Text(UnescapeMlir(lex_.Next().text)));
  KRAFLA_TRY(lex_.Expect('='));
  KRAFLA_ASSIGN(AttributeRef mesh, BracketText("#sdy.mesh"));
  op.attributes.emplace_back("mesh", mesh);
  if (lex_.Is('{')) KRAFLA_TRY(lex_.SkipBrackets());
  return {};
}

// (%a) in_shardings=[...] out_shardings=[...] manual_axes={"x"} (%arg: T) {...} : (T) -> T
Result<> TextParser::ParseShardyRegion(Op& op, std::span<const ResultName> results, std::size_t offset) {
  if (lex_.Accept('<')) {  // of a named computation
    KRAFLA_ASSIGN(std::string name, lex_.String());
    op.attributes.emplace_back("name", Text(name));
    KRAFLA_TRY(lex_.Expect('>'));
  }
  KRAFLA_TRY(lex_.Expect('('));
  KRAFLA_TRY(ParseOperands(op));
  KRAFLA_TRY(lex_.Expect(')'));
  while (lex_.token().kind == MlirTok::kWord) {
    std::string key(lex_.Next().text);
    KRAFLA_TRY(lex_.Expect('='));
    KRAFLA_ASSIGN(AttributeRef text, BracketText(""));
    op.attributes.emplace_back(std::move(key), text);
  }
  Region region;
  scopes_.emplace_back();
  KRAFLA_TRY(ParseArguments(region.arguments, nullptr));
  KRAFLA_TRY(ParseBody(region));
  scopes_.pop_back();
  op.regions.push_back(std::move(region));
  if (lex_.Is('{')) { KRAFLA_ASSIGN(op.discardable, ParseDictionary()); }
  return DefineBySignature(op, results, offset);
}

// What an operation says of where its value lies, which stands on both sides of it: "[{"x"}, {}] %a
// out_sharding=<@mesh, [{}, {}]> : T", "%a <@mesh, [{"x"}]> : T", "%a allowed_direction=NONE : T".
Result<> TextParser::ParseShardy(Op& op, std::span<const ResultName> results, std::size_t offset) {
  if (op.name == "sdy.manual_computation" || op.name == "sdy.named_computation")
    return ParseShardyRegion(op, results, offset);
  const auto add = [&](std::string_view key, AttributeRef value) { op.attributes.emplace_back(key, value); };
  while (!lex_.Is(':')) {
    if (lex_.token().kind == MlirTok::kValue) {
      KRAFLA_TRY(ParseOperands(op));
    } else if (lex_.Is('<')) {
      KRAFLA_ASSIGN(AttributeRef sharding, BracketText("#sdy.sharding"));
      add("sharding", sharding);
    } else if (lex_.Is('{') && !op.operands.empty()) {
      KRAFLA_ASSIGN(op.discardable, ParseDictionary());
    } else if (lex_.Is('[') || lex_.Is('{')) {
      KRAFLA_ASSIGN(AttributeRef axes, BracketText(""));
      add("axes", axes);
    } else if (lex_.token().kind == MlirTok::kWord) {
      const std::string_view key = lex_.Next().text;
      if (!lex_.Accept('=')) {  // the kind of a sum
        add("kind", Word(key));
      } else if (lex_.Is('<')) {
        KRAFLA_ASSIGN(AttributeRef sharding, BracketText("#sdy.sharding"));
        add(key, sharding);
      } else if (lex_.token().kind == MlirTok::kNumber) {
        KRAFLA_ASSIGN(int64_t number, lex_.Int());
        add(key, Number(number));
      } else if (lex_.token().kind == MlirTok::kWord) {
        add(key, Word(lex_.Next().text));
      } else {
        return lex_.Unexpected(Format("a value of '{}'", key));
      }
    } else {
      return lex_.Unexpected(Format("the rest of '{}'", op.name));
    }
  }
  KRAFLA_TRY(lex_.Expect(':'));
  KRAFLA_ASSIGN(Signature signature, ParseSignature());
  KRAFLA_TRY(CheckPrettyUses(op, signature, offset));
  if (op.name == "sdy.sharding_group") return {};
  return Define(op, results, signature.results, offset);
}

}  // namespace krafla::stablehlo
