// SPDX-License-Identifier: Apache-2.0
// The reader of StableHLO text, in pieces: types and attributes, operations in generic form, pretty forms.
#pragma once

#include <optional>
#include <unordered_map>

#include "hlo_io/stablehlo/op_tree.h"
#include "hlo_io/stablehlo_text/lexer.h"

namespace krafla::stablehlo {

class TextParser {
 public:
  TextParser(std::string_view text, std::string_view file, Tree& tree) : lex_(text, file), tree_(tree) {}
  Result<> ParseModule();
  Result<AttributeRef> ParseOnlyAttribute();  // to the end of the text

 private:
  using Entries = std::vector<std::pair<std::string, AttributeRef>>;
  // Names of values: a name may stand for several ("%3:2").
  struct Named {
    ValueId first = 0;
    int64_t count = 1;
  };
  using Scope = std::unordered_map<std::string_view, Named>;
  struct ResultName {
    std::string_view name;
    int64_t count = 1;
    std::size_t offset = 0;
  };

  // types.cpp
  Result<TypeRef> ParseType();
  Result<TypeRef> ParseTensor();
  Result<Type> ElementOf(std::string_view word) const;
  Result<TypeRef> ParseQuantized();  // quantized_type.cpp
  Result<> ParseScale(Quantization& out);
  Result<std::vector<TypeRef>> ParseTypeList(char close, std::vector<AttributeRef>* attributes = nullptr);
  Result<std::vector<TypeRef>> ParseResultTypes(std::vector<AttributeRef>* attributes = nullptr);
  // "(T, T) -> T", or the types after an operation's colon.
  struct Signature {
    std::vector<TypeRef> operands, results;
    bool functional = false;  // whether there was an arrow
  };
  Result<Signature> ParseSignature();
  TypeRef Keep(Type type);

  // attributes.cpp
  Result<AttributeRef> ParseAttribute();
  Result<AttributeRef> ParseDense();
  Result<AttributeRef> ParseHash();
  Result<AttributeRef> ParseFields();  // "<key = value, ...>"
  Result<Entries> ParseDictionary();   // at the brace
  // What nobody here computes with, kept by its name: `affine_map<(d0) -> (d0)>`.
  Result<AttributeRef> ParseForeign();
  Result<> SkipForeign();
  AttributeRef Keep(Attribute attribute) { return tree_.Keep(std::move(attribute)); }
  AttributeRef Number(int64_t value) { return Keep(Attribute::Integer(value)); }
  AttributeRef Word(std::string_view word) { return Keep(Attribute::Word(word)); }
  AttributeRef Flag(bool value) { return Keep(Attribute::Flag(value)); }
  AttributeRef Text(std::string_view text) { return Keep(Attribute::Text(text)); }
  AttributeRef List(const Dims& dims);
  Result<Dims> ParseDimList();           // "[0, 1]"
  Result<AttributeRef> ParseWordList();  // "[HIGHEST, DEFAULT]"

  // numbers.cpp
  Result<AttributeRef> ParseNumber();
  Result<AttributeRef> ParseComplexNumber();
  Result<AttributeRef> ParseArrayOf();
  Result<Attribute> NumberOf(std::string_view text, TypeRef type) const;
  Result<> StoreElement(std::string_view text, ElementType type, std::string& out) const;
  static Attribute Uncomputable(const Type& type);

  // resources.cpp: elements as bytes.
  Result<int64_t> CountOf(const Type& type, std::size_t begin) const;
  Result<std::string> HexBytes(std::string_view text, std::size_t begin) const;
  Result<> CheckBytes(Attribute& dense, int64_t count, bool may_be_one, std::size_t begin) const;
  Result<AttributeRef> ParseDenseResource();
  Result<> ParseTrailingResources();  // "{-# dialect_resources: {..} #-}"
  Result<> FillResources();

  // operations.cpp
  // The name as the conversion knows it: StableHLO's own without its dialect.
  static std::string PlainName(std::string_view name);
  Result<Op> ParseOp();
  Result<> ParseGeneric(Op& op, std::span<const ResultName> results, std::size_t offset);
  Result<> ParseBody(Region& region);  // "{ ... }", perhaps with a block label
  Result<> ParseArguments(std::vector<ValueId>& out, std::vector<AttributeRef>* attributes);
  Result<> ParseFunction(Op& op);
  Result<ValueId> ParseOperand();
  Result<> ParseOperands(Op& op);  // "%a, %b#1", none where no value stands
  Result<> Define(Op& op, std::span<const ResultName> results, std::span<const TypeRef> types, std::size_t offset);
  Result<> DefineBySignature(Op& op, std::span<const ResultName> results, std::size_t offset);  // ": (T) -> T"
  // type_uses.cpp: whether operands have the types that are given where they are used.
  Result<> CheckUses(const Op& op, std::span<const TypeRef> types, std::size_t offset) const;
  Result<> CheckPrettyUses(const Op& op, const Signature& signature, std::size_t offset) const;
  Result<> SkipLocation();
  Result<> ParseArgumentLocation(ValueId argument);
  // The name that the location here is, or else `alias`; nothing is read.
  std::string LocationName(std::string_view* alias = nullptr) const;
  ValueId NewValue(TypeRef type);

  // pretty_forms.cpp
  Result<> ParsePretty(Op& op, std::span<const ResultName> results, std::size_t offset);
  Result<> ParseReduce(Op& op, std::span<const ResultName> results, std::size_t offset);
  Result<> ParseWhile(Op& op, std::span<const ResultName> results, std::size_t offset);
  Result<> ParseKeyword(Op& op, std::string_view word);
  Result<> ParseFormat(Op& op);             // "e5m10"
  Result<> ParseConvolutionLabels(Op& op);  // "[b, 0, f]x[0, i, o]->[b, 0, f]"
  Result<> ParseWindowFields(Op& op);       // "{stride = [1], ...}"
  Result<> ParseConstant(Op& op, std::span<const ResultName> results, std::size_t offset);
  Result<> ParseLead(Op& op);     // what stands before the operands: a callee, a name, a direction
  Result<> ParseTopK(Op& op);     // ", k = 5" behind the operand
  Result<> ParseTrailer(Op& op);  // what stands between the operands and the types
  Result<> ParseRanges(Op& op);   // "[0:4:2, 1:3]" of a slice

  // shardy_forms.cpp
  Result<AttributeRef> BracketText(std::string_view before);
  Result<> ParseMesh(Op& op);
  Result<> ParseShardyRegion(Op& op, std::span<const ResultName> results, std::size_t offset);
  Result<> ParseShardy(Op& op, std::span<const ResultName> results, std::size_t offset);

  // other_forms.cpp: of the dialects chlo, check and interpreter.
  Result<> ParseScan(Op& op, std::span<const ResultName> results, std::size_t offset);
  Result<> ParseCheck(Op& op, std::span<const ResultName> results, std::size_t offset);

  // normalize.cpp: attributes spelled out as VHLO has them, defaults filled in.
  Result<> Normalize(Op& op);
  void NormalizeDimensionNumbers(Op& op);
  void NormalizeWindow(Op& op);
  Result<> NormalizeApiVersion(Op& op);
  void Explode(Op& op, std::string_view structure, std::span<const std::string_view> lists, bool indexed);

  MlirLexer lex_;
  Tree& tree_;
  std::vector<Scope> scopes_;
  std::unordered_map<std::string_view, AttributeRef> attribute_aliases_;
  std::unordered_map<std::string_view, TypeRef> type_aliases_;
  // Arrays whose bytes stand behind the module, by key and type; and those bytes, as digits.
  struct Resource {
    Attribute* array = nullptr;
    int64_t count = 0;
    std::string key;
    std::size_t begin = 0;
  };
  std::vector<Resource> resources_;
  std::unordered_map<std::string, AttributeRef> resources_by_use_;
  std::unordered_map<std::string, MlirLexer::Token> resource_digits_;
  // Names that locations are, by alias; and the arguments whose names stand under an alias.
  std::unordered_map<std::string_view, std::string> location_aliases_;
  std::vector<std::pair<ValueId, std::string_view>> aliased_arguments_;
  // One level deeper while it lives.
  struct Deeper {
    explicit Deeper(int& depth) : depth_(depth) { ++depth_; }
    ~Deeper() { --depth_; }
    int& depth_;
  };
  int depth_ = 0;
};

}  // namespace krafla::stablehlo
