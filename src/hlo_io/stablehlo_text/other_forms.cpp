// SPDX-License-Identifier: Apache-2.0
// Forms that other dialects print (stablehlo/dialect/ChloOps.cpp, tests/CheckOps.td, reference/InterpreterOps.td).
#include <cstring>

#include "hlo_io/stablehlo_text/parser.h"

namespace krafla::stablehlo {

// (%a, %b) inits(%c) dimension=0 attributes {is_reverse = true} {^bb0(...): ...} : (T, T, T) -> (T, T)
Result<> TextParser::ParseScan(Op& op, std::span<const ResultName> results, std::size_t offset) {
  KRAFLA_TRY(lex_.Expect('('));
  KRAFLA_TRY(ParseOperands(op));
  KRAFLA_TRY(lex_.Expect(')'));
  const int64_t inputs = static_cast<int64_t>(op.operands.size());
  KRAFLA_TRY(lex_.ExpectWord("inits"));
  KRAFLA_TRY(lex_.Expect('('));
  KRAFLA_TRY(ParseOperands(op));
  KRAFLA_TRY(lex_.Expect(')'));
  const Dims segments{inputs, static_cast<int64_t>(op.operands.size()) - inputs};
  op.attributes.emplace_back("operandSegmentSizes", List(segments));
  KRAFLA_TRY(lex_.ExpectWord("dimension"));
  KRAFLA_TRY(lex_.Expect('='));
  KRAFLA_ASSIGN(int64_t dimension, lex_.Int());
  op.attributes.emplace_back("dimension", Number(dimension));
  if (lex_.AcceptWord("attributes")) {
    KRAFLA_ASSIGN(Entries more, ParseDictionary());
    op.attributes.insert(op.attributes.end(), more.begin(), more.end());
  }
  Region region;
  scopes_.emplace_back();
  KRAFLA_TRY(ParseBody(region));
  scopes_.pop_back();
  op.regions.push_back(std::move(region));
  return DefineBySignature(op, results, offset);
}

// check.expect_eq_const %a, dense<1> : T
// check.expect_close %a, %b, max_ulp_difference = 3 : T, T
// %b = interpreter.probe %a, probe_id = "x" : T
Result<> TextParser::ParseCheck(Op& op, std::span<const ResultName> results, std::size_t offset) {
  KRAFLA_TRY(ParseOperands(op));
  while (lex_.Accept(',')) {
    if (lex_.token().kind != MlirTok::kWord || lex_.LookAhead().punct != '=') {
      KRAFLA_ASSIGN(AttributeRef value, ParseAttribute());
      op.attributes.emplace_back("value", value);
      continue;
    }
    std::string key(lex_.Next().text);
    lex_.Next();
    // A number may have a type behind a colon; so may the operation, but of arrays.
    if (lex_.token().kind == MlirTok::kString) {
      KRAFLA_ASSIGN(std::string text, lex_.String());
      op.attributes.emplace_back(std::move(key), Text(text));
    } else if (lex_.token().kind == MlirTok::kNumber) {
      const MlirLexer::Token number = lex_.Next();
      const std::string_view type = lex_.Is(':') ? lex_.LookAhead().text : std::string_view();
      const bool own = type == "f64" || type == "ui64" || type == "i64";
      Attribute value;
      const bool whole = number.text.find_first_of(".eE") == std::string_view::npos;
      value.kind = whole ? Attribute::Kind::kInteger : Attribute::Kind::kFloat;
      std::string bytes;
      KRAFLA_TRY(StoreElement(number.text, whole ? ElementType::kU64 : ElementType::kF64, bytes));
      if (whole) std::memcpy(&value.integer, bytes.data(), 8);
      else std::memcpy(&value.number, bytes.data(), 8);
      op.attributes.emplace_back(std::move(key), Keep(std::move(value)));
      if (own) {
        lex_.Next();
        lex_.Next();
      }
    } else {
      KRAFLA_ASSIGN(AttributeRef value, ParseAttribute());
      op.attributes.emplace_back(std::move(key), value);
    }
  }
  if (lex_.Is('{')) {
    KRAFLA_ASSIGN(Entries more, ParseDictionary());
    op.attributes.insert(op.attributes.end(), more.begin(), more.end());
  }
  std::vector<TypeRef> types;
  if (lex_.Accept(':')) {
    KRAFLA_ASSIGN(Signature signature, ParseSignature());
    types = std::move(signature.results);
  }
  if (results.empty()) types.clear();  // the types are those of what is compared
  return Define(op, results, types, offset);
}

}  // namespace krafla::stablehlo
