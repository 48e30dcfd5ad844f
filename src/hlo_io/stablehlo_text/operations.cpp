// SPDX-License-Identifier: Apache-2.0
// Operations, regions, functions.
#include "hlo_io/stablehlo_text/parser.h"

#include <algorithm>

#include "hlo_io/stablehlo_text/stablehlo_text.h"

namespace krafla::stablehlo {
namespace {

// Operations of MHLO that are CHLO's, and none of StableHLO.
constexpr std::string_view kMhloFunctions[] = {"acos", "acosh", "asin",       "asinh", "atanh",
                                               "cosh", "erf",   "ragged_dot", "sinh",  "topk"};

}  // namespace

std::string TextParser::PlainName(std::string_view name) {
  for (std::string_view dialect : {"stablehlo.", "func."})
    if (name.starts_with(dialect)) return std::string(name.substr(dialect.size()));
  if (name.starts_with("mhlo.")) {
    const std::string_view own = name.substr(5);
    for (std::string_view of_chlo : kMhloFunctions)
      if (own == of_chlo) return own == "topk" ? "chlo.top_k" : "chlo." + std::string(own);
    return std::string(own);
  }
  return name == "builtin.module" ? "module" : std::string(name);
}

ValueId TextParser::NewValue(TypeRef type) {
  tree_.values.push_back(type);
  return static_cast<ValueId>(tree_.values.size()) - 1;
}

Result<> TextParser::SkipLocation() {
  if (!lex_.IsWord("loc")) return {};
  lex_.Next();
  if (!lex_.Is('(')) return lex_.Unexpected("'(' after loc");
  return lex_.SkipBrackets();
}

// loc("x"), or loc(#alias), which may be defined later. A string before a colon is a file.
std::string TextParser::LocationName(std::string_view* alias) const {
  if (!lex_.IsWord("loc")) return {};
  MlirLexer ahead = lex_;
  ahead.Next();
  if (!ahead.Accept('(')) return {};
  const MlirLexer::Token token = ahead.Next();
  if (token.kind == MlirTok::kHash && alias != nullptr) *alias = token.text;
  return token.kind == MlirTok::kString && !ahead.Is(':') ? UnescapeMlir(token.text) : std::string();
}

Result<> TextParser::ParseArgumentLocation(ValueId argument) {
  std::string_view alias;
  if (std::string name = LocationName(&alias); !name.empty()) tree_.names.emplace(argument, std::move(name));
  if (!alias.empty()) aliased_arguments_.emplace_back(argument, alias);
  return SkipLocation();
}

Result<ValueId> TextParser::ParseOperand() {
  if (lex_.token().kind != MlirTok::kValue) return lex_.Unexpected("a value such as %0");
  const MlirLexer::Token token = lex_.Next();
  int64_t index = 0;
  if (lex_.token().kind == MlirTok::kHash && lex_.token().begin == token.end) {
    const std::string_view digits = lex_.Next().text;
    for (char c : digits) index = c >= '0' && c <= '9' && index < (1 << 24) ? index * 10 + (c - '0') : int64_t{1} << 40;
  }
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    auto it = scope->find(token.text);
    if (it == scope->end()) continue;
    if (index >= it->second.count)
      return lex_.ErrorAt(token.begin, Format("%{} is the name of {} values, where one is needed.",
                                              token.text.substr(0, 60), it->second.count));
    return it->second.first + static_cast<ValueId>(index);
  }
  return lex_.ErrorAt(token.begin, Format("No value %{} is defined before this.", token.text.substr(0, 60)));
}

Result<> TextParser::ParseOperands(Op& op) {
  if (lex_.token().kind != MlirTok::kValue) return {};
  for (;;) {
    KRAFLA_ASSIGN(ValueId value, ParseOperand());
    op.operands.push_back(value);
    if (!lex_.Is(',') || lex_.LookAhead().kind != MlirTok::kValue) return {};
    lex_.Next();
  }
}

Result<> TextParser::Define(Op& op, std::span<const ResultName> results, std::span<const TypeRef> types,
                            std::size_t offset) {
  int64_t named = 0;
  for (const ResultName& r : results) named += r.count;
  if (!results.empty() && named != static_cast<int64_t>(types.size()))
    return lex_.ErrorAt(offset, Format("'{}' has {} results but {} names for them.", op.name, types.size(), named));
  for (TypeRef type : types) op.results.push_back(NewValue(type));
  std::size_t at = 0;
  for (const ResultName& r : results) {
    if (!scopes_.back()
             .emplace(r.name, Named{op.results.empty() ? 0 : op.results[std::min(at, op.results.size() - 1)], r.count})
             .second)
      return lex_.ErrorAt(r.offset, Format("%{} is defined twice.", r.name.substr(0, 60)));
    at += static_cast<std::size_t>(r.count);
  }
  return {};
}

Result<> TextParser::ParseArguments(std::vector<ValueId>& out, std::vector<AttributeRef>* attributes) {
  KRAFLA_TRY(lex_.Expect('('));
  if (lex_.Accept(')')) return {};
  do {
    if (lex_.token().kind != MlirTok::kValue) return lex_.Unexpected("an argument such as %arg0");
    const MlirLexer::Token name = lex_.Next();
    KRAFLA_TRY(lex_.Expect(':'));
    KRAFLA_ASSIGN(TypeRef type, ParseType());
    const ValueId id = NewValue(type);
    out.push_back(id);
    if (!scopes_.back().emplace(name.text, Named{id, 1}).second)
      return lex_.ErrorAt(name.begin, Format("%{} is defined twice.", name.text.substr(0, 60)));
    Attribute dictionary;
    dictionary.kind = Attribute::Kind::kDictionary;
    if (lex_.Is('{')) { KRAFLA_ASSIGN(dictionary.entries, ParseDictionary()); }
    if (attributes != nullptr) attributes->push_back(Keep(std::move(dictionary)));
    // What the source calls it, unless its location says better.
    const bool is_numbered =
        name.text.starts_with("arg") || name.text.find_first_not_of("0123456789") == name.text.npos;
    KRAFLA_TRY(ParseArgumentLocation(id));
    if (!is_numbered) tree_.names.emplace(id, std::string(name.text));
  } while (lex_.Accept(','));
  return lex_.Expect(')');
}

Result<> TextParser::ParseBody(Region& region) {
  KRAFLA_TRY(lex_.Expect('{'));
  if (lex_.token().kind == MlirTok::kBlock) {
    lex_.Next();
    if (lex_.Is('(')) KRAFLA_TRY(ParseArguments(region.arguments, nullptr));
    KRAFLA_TRY(lex_.Expect(':'));
  }
  while (!lex_.Accept('}')) {
    if (lex_.token().kind == MlirTok::kBlock) return lex_.Error("A region of more than one block cannot be read.");
    KRAFLA_ASSIGN(Op op, ParseOp());
    region.ops.push_back(std::move(op));
  }
  return {};
}

Result<> TextParser::ParseFunction(Op& op) {
  for (std::string_view visibility : {"public", "private", "nested"}) lex_.AcceptWord(visibility);
  if (lex_.token().kind != MlirTok::kSymbol) return lex_.Unexpected("the name of a function");
  op.attributes.emplace_back("sym_name", Text(UnescapeMlir(lex_.Next().text)));
  scopes_.emplace_back();
  Region region;
  Attribute arguments;
  arguments.kind = Attribute::Kind::kArray;
  // Without a body the arguments have types only.
  if (lex_.Is('(') && lex_.LookAhead().kind != MlirTok::kValue) {
    lex_.Next();
    KRAFLA_TRY(ParseTypeList(')'));
  } else {
    KRAFLA_TRY(ParseArguments(region.arguments, &arguments.elements));
  }
  op.attributes.emplace_back("arg_attrs", Keep(std::move(arguments)));
  Type type;
  type.kind = Type::Kind::kFunction;
  if (lex_.token().kind == MlirTok::kArrow) {
    Attribute results;
    results.kind = Attribute::Kind::kArray;
    KRAFLA_ASSIGN(type.results, ParseResultTypes(&results.elements));
    op.attributes.emplace_back("res_attrs", Keep(std::move(results)));
  }
  Attribute function_type;
  function_type.kind = Attribute::Kind::kType;
  function_type.type = Keep(std::move(type));
  op.attributes.emplace_back("function_type", Keep(std::move(function_type)));
  if (lex_.AcceptWord("attributes")) KRAFLA_TRY(ParseDictionary());
  // A function that is only declared has no body.
  if (!lex_.Is('{')) {
    KRAFLA_TRY(SkipLocation());
    scopes_.pop_back();
    return {};
  }
  KRAFLA_TRY(ParseBody(region));
  KRAFLA_TRY(SkipLocation());
  scopes_.pop_back();
  op.regions.push_back(std::move(region));
  return {};
}

// "dialect.op"(%a, %b) <{...}> ({...}, {...}) {...} : (T, T) -> T
Result<> TextParser::ParseGeneric(Op& op, std::span<const ResultName> results, std::size_t offset) {
  KRAFLA_TRY(lex_.Expect('('));
  KRAFLA_TRY(ParseOperands(op));
  KRAFLA_TRY(lex_.Expect(')'));
  if (lex_.Is('[')) return lex_.Error("Successor blocks cannot be read.");
  if (lex_.Accept('<')) {
    KRAFLA_ASSIGN(op.attributes, ParseDictionary());
    KRAFLA_TRY(lex_.Expect('>'));
  }
  if (lex_.Is('(')) {
    lex_.Next();
    do {
      Region region;
      scopes_.emplace_back();
      KRAFLA_TRY(ParseBody(region));
      scopes_.pop_back();
      op.regions.push_back(std::move(region));
    } while (lex_.Accept(','));
    KRAFLA_TRY(lex_.Expect(')'));
  }
  if (lex_.Is('{')) {
    KRAFLA_ASSIGN(Entries more, ParseDictionary());
    for (auto& entry : more) {
      op.discardable.push_back(entry);
      if (op.Find(entry.first) == nullptr) op.attributes.push_back(std::move(entry));
    }
  }
  return DefineBySignature(op, results, offset);
}

Result<> TextParser::DefineBySignature(Op& op, std::span<const ResultName> results, std::size_t offset) {
  KRAFLA_TRY(lex_.Expect(':'));
  KRAFLA_ASSIGN(Signature signature, ParseSignature());
  if (!signature.functional) return lex_.ErrorAt(offset, Format("'{}' has no types of its operands.", op.name));
  KRAFLA_TRY(CheckUses(op, signature.operands, offset));
  return Define(op, results, signature.results, offset);
}

Result<Op> TextParser::ParseOp() {
  const Deeper deeper(depth_);
  if (depth_ > kMaxRegionDepth) return lex_.Error("Regions are nested deeper than the limit of 128.");
  const std::size_t offset = lex_.token().begin;
  std::vector<ResultName> results;
  if (lex_.token().kind == MlirTok::kValue) {
    do {
      if (lex_.token().kind != MlirTok::kValue) return lex_.Unexpected("a value such as %0");
      const MlirLexer::Token name = lex_.Next();
      ResultName r{name.text, 1, name.begin};
      if (lex_.Accept(':')) {
        KRAFLA_ASSIGN(r.count, lex_.Int());
        if (r.count < 1 || r.count > (1 << 20))
          return lex_.ErrorAt(name.begin, Format("One name is given to {} values.", r.count));
      }
      results.push_back(r);
    } while (lex_.Accept(','));
    KRAFLA_TRY(lex_.Expect('='));
  }
  Op op;
  op.location = lex_.Place(offset);
  if (lex_.token().kind == MlirTok::kString) {
    op.name = PlainName(UnescapeMlir(lex_.Next().text));
    if (op.name == "func" || op.name == "module") {
      scopes_.emplace_back();
      KRAFLA_TRY(ParseGeneric(op, results, offset));
      scopes_.pop_back();
    } else {
      KRAFLA_TRY(ParseGeneric(op, results, offset));
    }
  } else if (lex_.token().kind == MlirTok::kWord) {
    op.name = PlainName(lex_.Next().text);
    if (op.name == "func") KRAFLA_TRY(ParseFunction(op));
    else KRAFLA_TRY(ParsePretty(op, results, offset));
  } else {
    return lex_.Unexpected("an operation");
  }
  KRAFLA_TRY(Normalize(op));
  op.op_name = LocationName();
  KRAFLA_TRY(SkipLocation());
  return op;
}

Result<> TextParser::ParseModule() {
  Region top;
  Op module;
  module.name = "module";
  while (lex_.token().kind != MlirTok::kEnd) {
    const MlirLexer::Token token = lex_.token();
    if (token.kind == MlirTok::kHash || token.kind == MlirTok::kBang) {  // #alias = attribute, !alias = type
      lex_.Next();
      KRAFLA_TRY(lex_.Expect('='));
      if (token.kind == MlirTok::kBang) {
        KRAFLA_ASSIGN(type_aliases_[token.text], ParseType());
      } else if (lex_.IsWord("loc")) {
        if (std::string name = LocationName(); !name.empty()) location_aliases_.emplace(token.text, std::move(name));
        KRAFLA_TRY(SkipLocation());
      } else {
        KRAFLA_ASSIGN(attribute_aliases_[token.text], ParseAttribute());
      }
      continue;
    }
    if (token.kind == MlirTok::kTrailer) {
      KRAFLA_TRY(ParseTrailingResources());
      continue;
    }
    if (lex_.IsWord("module") || lex_.IsWord("builtin.module")) {
      lex_.Next();
      if (lex_.token().kind == MlirTok::kSymbol)
        module.attributes.emplace_back("sym_name", Text(UnescapeMlir(lex_.Next().text)));
      if (lex_.AcceptWord("attributes")) { KRAFLA_ASSIGN(module.discardable, ParseDictionary()); }
      scopes_.emplace_back();
      KRAFLA_TRY(ParseBody(top));
      scopes_.pop_back();
      KRAFLA_TRY(SkipLocation());
      continue;
    }
    scopes_.emplace_back();
    KRAFLA_ASSIGN(Op op, ParseOp());
    scopes_.pop_back();
    if (op.name == "module" && op.regions.size() == 1) {
      module.discardable = op.discardable;
      for (Op& inner : op.regions[0].ops) top.ops.push_back(std::move(inner));
    } else {
      top.ops.push_back(std::move(op));
    }
  }
  KRAFLA_TRY(FillResources());
  for (const auto& [argument, alias] : aliased_arguments_)
    if (auto name = location_aliases_.find(alias); name != location_aliases_.end())
      tree_.names.emplace(argument, name->second);
  module.regions.push_back(std::move(top));
  tree_.module = std::move(module);
  return {};
}

Result<std::unique_ptr<Tree>> ParseText(std::string_view text, std::string_view file) {
  auto tree = std::make_unique<Tree>();
  KRAFLA_TRY(TextParser(text, file, *tree).ParseModule());
  return tree;
}

Result<AttributeRef> TextParser::ParseOnlyAttribute() {
  KRAFLA_ASSIGN(AttributeRef out, ParseAttribute());
  if (lex_.token().kind != MlirTok::kEnd) return lex_.Unexpected("the end of an attribute");
  return out;
}

Result<AttributeRef> ParseAttributeText(std::string_view text, Tree& tree) {
  return TextParser(text, "<attribute>", tree).ParseOnlyAttribute();
}

bool LooksLikeMlir(std::string_view text) {
  MlirLexer lex(text.substr(0, std::min<std::size_t>(text.size(), 1 << 16)), "");
  const MlirLexer::Token token = lex.token();
  if (token.kind == MlirTok::kHash || token.kind == MlirTok::kBang) return true;
  if (token.kind == MlirTok::kString) return token.text == "builtin.module" || token.text == "func.func";
  return token.kind == MlirTok::kWord && (token.text == "module" || token.text == "func.func" ||
                                          token.text == "builtin.module" || token.text == "sdy.mesh");
}

}  // namespace krafla::stablehlo
