// SPDX-License-Identifier: Apache-2.0
// The forms that StableHLO prints for operations (stablehlo/dialect/AssemblyFormat.cpp, StablehloOps.td).
#include "hlo_io/stablehlo_text/parser.h"

namespace krafla::stablehlo {
namespace {

// The attribute that a word of the pretty form stands for.
std::string_view AttributeName(std::string_view op, std::string_view word) {
  if (word == "dims")
    return op == "transpose" ? "permutation" : op == "reverse" ? "dimensions" : "broadcast_dimensions";
  if (word == "dim") return op == "iota" || op == "dynamic_iota" ? "iota_dimension" : "dimension";
  if (word == "sizes") return op == "dynamic_slice" ? "slice_sizes" : "broadcast_sizes";
  if (word == "low") return "edge_padding_low";
  if (word == "high") return "edge_padding_high";
  if (word == "interior") return "interior_padding";
  if (word == "precision") return "precision_config";
  if (word == "type") return "fft_type";
  if (word == "length") return "fft_length";
  if (word == "distribution") return "rng_distribution";
  if (word == "algorithm") return "rng_algorithm";
  return word;
}

}  // namespace

Result<> TextParser::ParseFormat(Op& op) {
  const std::string_view text = lex_.token().text;
  const std::size_t m = text.find('m');
  int64_t bits[2] = {0, 0};
  bool valid = lex_.token().kind == MlirTok::kWord && text.size() > 2 && text[0] == 'e' &&
               m != std::string_view::npos && text.size() < 12;
  for (std::size_t i = 1; valid && i < text.size(); ++i) {
    if (i == m) continue;
    valid = text[i] >= '0' && text[i] <= '9';
    int64_t& n = bits[i > m ? 1 : 0];
    n = n * 10 + (text[i] - '0');
  }
  if (!valid) return lex_.Unexpected("a format such as e5m10");
  lex_.Next();
  op.attributes.emplace_back("exponent_bits", Number(bits[0]));
  op.attributes.emplace_back("mantissa_bits", Number(bits[1]));
  return {};
}

Result<> TextParser::ParseConvolutionLabels(Op& op) {
  auto add = [&](std::string_view name, AttributeRef value) { op.attributes.emplace_back(std::string(name), value); };
  struct Side {
    std::string_view first, second, first_name, second_name, spatial_name;
  };
  constexpr Side kSides[] = {
      {"b", "f", "input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions"},
      {"i", "o", "kernel_input_feature_dimension", "kernel_output_feature_dimension", "kernel_spatial_dimensions"},
      {"b", "f", "output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions"}};
  for (std::size_t s = 0; s < 3; ++s) {
    if (s == 1) KRAFLA_TRY(lex_.ExpectWord("x"));
    if (s == 2 && lex_.Next().kind != MlirTok::kArrow)
      return lex_.Error("Expected '->' before the result's dimensions.");
    KRAFLA_TRY(lex_.Expect('['));
    Dims spatial;
    int64_t first = -1, second = -1, at = 0;
    do {
      if (lex_.AcceptWord(kSides[s].first)) {
        first = at;
      } else if (lex_.AcceptWord(kSides[s].second)) {
        second = at;
      } else {
        KRAFLA_ASSIGN(int64_t number, lex_.Int());
        if (number < 0 || number > 64) return lex_.Error("The number of a spatial dimension must be 0 to 64.");
        while (spatial.ssize() <= number) spatial.push_back(-1);
        spatial[static_cast<std::size_t>(number)] = at;
      }
      ++at;
    } while (lex_.Accept(','));
    KRAFLA_TRY(lex_.Expect(']'));
    add(kSides[s].first_name, Number(first));
    add(kSides[s].second_name, Number(second));
    add(kSides[s].spatial_name, List(spatial));
  }
  return {};
}

Result<> TextParser::ParseWindowFields(Op& op) {
  auto add = [&](std::string_view name, AttributeRef value) { op.attributes.emplace_back(std::string(name), value); };
  KRAFLA_TRY(lex_.Expect('{'));
  while (!lex_.Accept('}')) {
    if (lex_.token().kind != MlirTok::kWord) return lex_.Unexpected("a part of a window");
    const std::string_view part = lex_.Next().text;
    KRAFLA_TRY(lex_.Expect('='));
    KRAFLA_ASSIGN(AttributeRef value, ParseAttribute());
    if (part == "stride") add("window_strides", value);
    else if (part == "lhs_dilate") add("lhs_dilation", value);
    else if (part == "rhs_dilate") add("rhs_dilation", value);
    else if (part == "reverse") add("window_reversal", value);
    else if (part == "pad") {
      Dims flat;
      for (AttributeRef pair : value->elements)
        for (AttributeRef n : pair->elements) flat.push_back(n->integer);
      add("padding", List(flat));
    } else {
      return lex_.Error(Format("'{}' is not a part of a window.", part.substr(0, 40)));
    }
    lex_.Accept(',');
  }
  return {};
}

// What stands after "word =".
Result<> TextParser::ParseKeyword(Op& op, std::string_view word) {
  auto add = [&](std::string_view name, AttributeRef value) { op.attributes.emplace_back(std::string(name), value); };
  if (word == "batching_dims" || word == "contracting_dims") {
    const std::string kind = word == "batching_dims" ? "batching_dimensions" : "contracting_dimensions";
    KRAFLA_ASSIGN(Dims lhs, ParseDimList());
    KRAFLA_TRY(lex_.ExpectWord("x"));
    KRAFLA_ASSIGN(Dims rhs, ParseDimList());
    add("lhs_" + kind, List(lhs));
    add("rhs_" + kind, List(rhs));
    return {};
  }
  if (word == "format") return ParseFormat(op);
  if (word == "dim_numbers") return ParseConvolutionLabels(op);
  if (word == "window") return ParseWindowFields(op);
  if (word == "precision") {
    KRAFLA_ASSIGN(AttributeRef words, ParseWordList());
    add("precision_config", words);
    return {};
  }
  const std::string_view name = AttributeName(op.name, word);
  if (op.name == "dot_general" && word == "algorithm") {
    KRAFLA_ASSIGN(AttributeRef fields, ParseFields());
    add("algorithm", fields);
  } else if (lex_.token().kind == MlirTok::kWord && (word == "type" || word == "distribution" || word == "algorithm")) {
    add(name, Word(lex_.Next().text));
  } else if (lex_.token().kind == MlirTok::kNumber) {  // the colon after it is the operation's
    KRAFLA_ASSIGN(int64_t value, lex_.Int());
    add(name, Number(value));
  } else {
    KRAFLA_ASSIGN(AttributeRef value, ParseAttribute());
    add(name, value);
  }
  return {};
}

// (%a init: %b), (%c init: %d) across dimensions = [1] : (T, ...) -> T reducer(%x: T, %y: T) {...}, or with "applies
// op".
Result<> TextParser::ParseReduce(Op& op, std::span<const ResultName> results, std::size_t offset) {
  std::vector<ValueId> inits;
  do {
    KRAFLA_TRY(lex_.Expect('('));
    KRAFLA_ASSIGN(ValueId value, ParseOperand());
    KRAFLA_TRY(lex_.ExpectWord("init"));
    KRAFLA_TRY(lex_.Expect(':'));
    KRAFLA_ASSIGN(ValueId init, ParseOperand());
    KRAFLA_TRY(lex_.Expect(')'));
    op.operands.push_back(value);
    inits.push_back(init);
  } while (lex_.Accept(','));
  const std::size_t count = inits.size();
  op.operands.insert(op.operands.end(), inits.begin(), inits.end());
  std::string applied;
  if (lex_.AcceptWord("applies")) {
    if (lex_.token().kind != MlirTok::kWord) return lex_.Unexpected("an operation");
    applied = PlainName(lex_.Next().text);
  }
  KRAFLA_TRY(lex_.ExpectWord("across"));
  KRAFLA_TRY(lex_.ExpectWord("dimensions"));
  KRAFLA_TRY(lex_.Expect('='));
  KRAFLA_ASSIGN(Dims dimensions, ParseDimList());
  op.attributes.emplace_back("dimensions", List(dimensions));
  if (lex_.Is('{')) { KRAFLA_ASSIGN(op.discardable, ParseDictionary()); }
  KRAFLA_TRY(lex_.Expect(':'));
  KRAFLA_ASSIGN(Signature signature, ParseSignature());
  KRAFLA_TRY(CheckUses(op, signature.operands, offset));
  Region region;
  if (!applied.empty()) {
    if (count != 1) return lex_.ErrorAt(offset, "'applies' takes one array.");
    const TypeRef type = tree_.values[static_cast<std::size_t>(inits[0])];
    Op inner, end;
    inner.name = applied;
    region.arguments = {NewValue(type), NewValue(type)};
    inner.operands = region.arguments;
    inner.results = {NewValue(type)};
    end.name = "return";
    end.operands = inner.results;
    region.ops.push_back(std::move(inner));
    region.ops.push_back(std::move(end));
  } else {
    KRAFLA_TRY(lex_.ExpectWord("reducer"));
    scopes_.emplace_back();
    // A pair of arguments an array; the block has the left ones first.
    std::vector<ValueId> left, right;
    while (lex_.Is('(')) {
      std::vector<ValueId> pair;
      KRAFLA_TRY(ParseArguments(pair, nullptr));
      if (pair.size() != 2) return lex_.Error(Format("A reducer has pairs of arguments, not {}.", pair.size()));
      left.push_back(pair[0]);
      right.push_back(pair[1]);
    }
    region.arguments = std::move(left);
    region.arguments.insert(region.arguments.end(), right.begin(), right.end());
    KRAFLA_TRY(ParseBody(region));
    scopes_.pop_back();
  }
  op.regions.push_back(std::move(region));
  return Define(op, results, signature.results, offset);
}

// (%iterArg = %a, ...) : T, ... cond {...} do {...}
Result<> TextParser::ParseWhile(Op& op, std::span<const ResultName> results, std::size_t offset) {
  std::vector<std::string_view> names;
  KRAFLA_TRY(lex_.Expect('('));
  if (!lex_.Is(')')) {
    do {
      if (lex_.token().kind != MlirTok::kValue) return lex_.Unexpected("an argument such as %iterArg");
      names.push_back(lex_.Next().text);
      KRAFLA_TRY(lex_.Expect('='));
      KRAFLA_ASSIGN(ValueId value, ParseOperand());
      op.operands.push_back(value);
    } while (lex_.Accept(','));
  }
  KRAFLA_TRY(lex_.Expect(')'));
  std::vector<TypeRef> types;
  if (lex_.Accept(':')) {
    KRAFLA_ASSIGN(Signature signature, ParseSignature());
    types = std::move(signature.results);
  }
  if (types.size() != names.size())
    return lex_.ErrorAt(offset, Format("A loop has {} values but types for {}.", names.size(), types.size()));
  KRAFLA_TRY(CheckUses(op, types, offset));
  if (lex_.AcceptWord("attributes")) { KRAFLA_ASSIGN(op.discardable, ParseDictionary()); }
  for (std::string_view part : {"cond", "do"}) {
    KRAFLA_TRY(lex_.ExpectWord(part));
    Region region;
    scopes_.emplace_back();
    for (std::size_t i = 0; i < names.size(); ++i) {
      region.arguments.push_back(NewValue(types[i]));
      scopes_.back().emplace(names[i], Named{region.arguments.back(), 1});
    }
    KRAFLA_TRY(ParseBody(region));
    scopes_.pop_back();
    op.regions.push_back(std::move(region));
  }
  return Define(op, results, types, offset);
}

Result<> TextParser::ParseConstant(Op& op, std::span<const ResultName> results, std::size_t offset) {
  const bool arith = op.name == "arith.constant";  // of no array, or as StableHLO's
  if (!arith && lex_.Is('{')) { KRAFLA_ASSIGN(op.discardable, ParseDictionary()); }
  KRAFLA_ASSIGN(AttributeRef value, ParseAttribute());
  if (!arith && value->type == nullptr) return lex_.ErrorAt(offset, "A constant has a value that is not dense.");
  op.attributes.emplace_back("value", value);
  return Define(op, results, std::vector<TypeRef>(1, value->type != nullptr ? value->type : Keep(Type())), offset);
}

Result<> TextParser::ParseLead(Op& op) {
  const std::string& n = op.name;
  if (n == "call" || n == "custom_call") {
    if (lex_.token().kind != MlirTok::kSymbol) return lex_.Unexpected("the name of what is called");
    op.attributes.emplace_back(n == "call" ? "callee" : "call_target_name", Text(UnescapeMlir(lex_.Next().text)));
  } else if (n == "composite") {
    KRAFLA_ASSIGN(std::string name, lex_.String());
    op.attributes.emplace_back("name", Text(name));
  } else if (n == "compare") {
    if (lex_.token().kind != MlirTok::kWord) return lex_.Unexpected("a direction such as EQ");
    op.attributes.emplace_back("comparison_direction", Word(lex_.Next().text));
    KRAFLA_TRY(lex_.Expect(','));
  }
  return {};
}

Result<> TextParser::ParseTopK(Op& op) {
  KRAFLA_TRY(lex_.Expect(','));
  KRAFLA_TRY(lex_.ExpectWord("k"));
  KRAFLA_TRY(lex_.Expect('='));
  KRAFLA_ASSIGN(int64_t k, lex_.Int());
  op.attributes.emplace_back("k", Number(k));
  if (lex_.Accept(',')) {
    KRAFLA_TRY(lex_.ExpectWord("is_stable"));
    KRAFLA_TRY(lex_.Expect('='));
    KRAFLA_ASSIGN(AttributeRef stable, ParseAttribute());
    op.attributes.emplace_back("is_stable", stable);
  }
  return {};
}

Result<> TextParser::ParseRanges(Op& op) {
  lex_.Next();
  Dims starts, limits, strides;
  while (!lex_.Accept(']')) {
    KRAFLA_ASSIGN(int64_t start, lex_.Int());
    KRAFLA_TRY(lex_.Expect(':'));
    KRAFLA_ASSIGN(int64_t limit, lex_.Int());
    int64_t stride = 1;
    if (lex_.Accept(':')) { KRAFLA_ASSIGN(stride, lex_.Int()); }
    starts.push_back(start);
    limits.push_back(limit);
    strides.push_back(stride);
    lex_.Accept(',');
  }
  op.attributes.emplace_back("start_indices", List(starts));
  op.attributes.emplace_back("limit_indices", List(limits));
  op.attributes.emplace_back("strides", List(strides));
  return {};
}

Result<> TextParser::ParseTrailer(Op& op) {
  const std::string& n = op.name;
  while (!lex_.Is(':') && lex_.token().kind != MlirTok::kEnd) {
    if (lex_.Accept(',')) continue;
    if (lex_.Is('{')) {
      KRAFLA_ASSIGN(Entries entries, ParseDictionary());
      for (auto& entry : entries) {
        op.discardable.push_back(entry);
        op.attributes.push_back(std::move(entry));
      }
    } else if (lex_.Is('[') && n == "slice") {
      KRAFLA_TRY(ParseRanges(op));
    } else if (lex_.Is('[') && n == "get_tuple_element") {
      lex_.Next();
      KRAFLA_ASSIGN(int64_t index, lex_.Int());
      KRAFLA_TRY(lex_.Expect(']'));
      op.attributes.emplace_back("index", Number(index));
    } else if (lex_.token().kind == MlirTok::kWord) {
      const std::string_view word = lex_.Next().text;
      if (lex_.Accept('=')) KRAFLA_TRY(ParseKeyword(op, word));
      else if (n == "compare") op.attributes.emplace_back("compare_type", Word(word));
      else if (n == "return" || n == "sdy.return") return lex_.Error("Expected the types of what is returned.");
      else return lex_.Error(Format("'{}' does not belong to '{}'.", word.substr(0, 40), n));
    } else if (lex_.token().kind == MlirTok::kValue && n != "return" && n != "sdy.return") {
      KRAFLA_TRY(ParseOperands(op));
    } else if ((n == "return" || n == "sdy.return") && op.operands.empty()) {
      return {};  // nothing is returned
    } else {
      return lex_.Unexpected(Format("the rest of '{}'", n));
    }
  }
  return {};
}

Result<> TextParser::ParsePretty(Op& op, std::span<const ResultName> results, std::size_t offset) {
  const std::string& n = op.name;
  if (n == "reduce") return ParseReduce(op, results, offset);
  if (n == "while") return ParseWhile(op, results, offset);
  if (n == "chlo.scan") return ParseScan(op, results, offset);
  if (n.starts_with("check.") || n.starts_with("interpreter.")) return ParseCheck(op, results, offset);
  if (n == "sdy.constant") return ParseConstant(op, results, offset);
  if (n == "sdy.mesh") return ParseMesh(op);
  if (n.starts_with("sdy.") && n != "sdy.return") return ParseShardy(op, results, offset);
  if (n == "constant" && lex_.Is('(')) return ParseGeneric(op, results, offset);
  if (n == "arith.constant" || n == "constant" || n == "chlo.constant") return ParseConstant(op, results, offset);
  KRAFLA_TRY(ParseLead(op));
  const bool bracketed =
      lex_.Is('(') && (n == "call" || n == "custom_call" || n == "convolution" || n == "dynamic_conv");
  const bool chlo_top_k = lex_.Is('(') && n == "chlo.top_k";
  if (bracketed || chlo_top_k) lex_.Next();
  KRAFLA_TRY(ParseOperands(op));
  if (chlo_top_k) KRAFLA_TRY(ParseTopK(op));
  if (bracketed || chlo_top_k) KRAFLA_TRY(lex_.Expect(')'));
  KRAFLA_TRY(ParseTrailer(op));
  if ((n == "return" || n == "sdy.return") && op.operands.empty()) return {};
  KRAFLA_TRY(lex_.Expect(':'));
  KRAFLA_ASSIGN(Signature signature, ParseSignature());
  KRAFLA_TRY(CheckPrettyUses(op, signature, offset));
  if (n == "return" || n == "sdy.return") return {};
  std::vector<TypeRef> types = signature.results;
  if (!signature.functional) {
    // The types of all results, or one for everything; a select has that of its pred before it.
    std::size_t named = 0;
    for (const ResultName& r : results) named += static_cast<std::size_t>(r.count);
    if (types.size() != named) types.assign(std::max<std::size_t>(named, 1), types.back());
  }
  return Define(op, results, types, offset);
}

}  // namespace krafla::stablehlo
