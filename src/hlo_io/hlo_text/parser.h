// SPDX-License-Identifier: Apache-2.0
// The reader of HLO text, in pieces: header and computations (module_parser.cpp), instructions
// (instruction_parser.cpp), shapes, literals, attributes. A name of a computation may stand before its definition, so
// calls are resolved at the end; operands are resolved at once, as XLA wants them defined before they are used.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hlo_io/hlo_text/attribute_set.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "hlo_io/hlo_text/lexer.h"
#include "ir/module.h"
#include "ir/replica_groups.h"
#include "krafla/status.h"

namespace krafla::hlo_text {

// A shape for a message: tuples may be thousands of characters.
std::string Shown(const Shape& shape);

class Parser {
 public:
  Parser(std::string_view text, std::string_view file, const HloTextLimits& limits)
      : lex_(text, file), limits_(limits), parameter_budget_(static_cast<int64_t>(text.size() / 8) + 16) {}

  Result<std::unique_ptr<Module>> ParseModule();
  Result<Shape> ParseShape();
  Result<Literal> ParseLiteral(const Shape& shape);
  Result<> ExpectEnd();

 private:
  // The instructions of one computation by name.
  using Scope = std::unordered_map<std::string_view, Instruction*>;
  struct Operand {
    Instruction* instruction = nullptr;
    std::size_t offset = 0;
  };
  struct PendingCall {
    Instruction* caller = nullptr;
    std::vector<CalledName> called;
  };
  // "add-start": an async-start whose computation has to be made, once every name is known.
  struct PendingAsync {
    Instruction* start = nullptr;
    Opcode opcode = Opcode::kTuple;
    Attributes attributes;
    std::vector<CalledName> called;
    std::string thread;
  };
  struct Signature {
    bool present = false;
    std::size_t offset = 0;
    std::vector<Shape> parameters;
    Shape result;
  };

  // Header (header_parser.cpp).
  Result<> ParseHeader();
  Result<> ParseHeaderAttribute(std::string_view name, std::size_t offset);
  Result<> ParseInputOutputAlias();
  Result<> ParseBufferDonor();
  Result<> ParseEntryLayout();
  Result<> ParseStackFrameTables();

  // Computations (module_parser.cpp).
  Result<> ParseComputation();
  Result<Signature> ParseSignature();
  Result<> ParseBody(Computation* computation, const Signature& signature);
  Result<> CheckParameters(Computation* computation, std::size_t offset);
  Result<Computation*> ParseInlineComputation();
  Result<> ResolveCalls();
  Result<> BuildAsyncComputations();
  Result<> CheckNoRecursion();
  Failure RecursionError(const Instruction& caller, const Computation& callee) const;

  // Instructions (instruction_parser.cpp).
  Result<> ParseInstruction(Computation* computation, Scope& scope, bool* is_root);
  Result<> ParseOperands(const Scope& scope, std::vector<Operand>& operands);
  Result<int64_t> ParseParameterNumber(Computation* computation);
  bool AcceptRoot();
  // `described`: the opcode whose attributes these are, which is another than `opcode` for "add-start".
  Result<Attributes> AttributesOf(Opcode opcode, Opcode described, AttributeSet& set, int64_t parameter_number,
                                  std::shared_ptr<const Literal> literal) const;
  Result<> CheckOperands(Opcode opcode, const Shape& shape, std::span<const Operand> operands,
                         const AttributeSet& attributes, std::size_t offset) const;
  Result<> CheckSliceStarts(Opcode opcode, std::span<const Operand> operands, std::size_t offset) const;
  Result<> CheckConditional(std::span<const Operand> operands, const AttributeSet& attributes,
                            std::size_t offset) const;

  // Attributes (attribute_parser.cpp). `offset`: of the opcode, where missing ones are reported.
  Result<> ParseAttributes(Opcode opcode, const Scope& scope, AttributeSet& out);
  Result<> ParseAttribute(Key key, const Scope& scope, AttributeSet& out);
  Result<> CheckRequired(Opcode opcode, const AttributeSet& set, std::size_t offset) const;
  Result<Dims> ParseDims(std::string_view what);
  // "{a, b}" or "{}": `one` parses an element.
  template <typename One>
  Result<> ParseList(std::string_view what, One one) {
    if (!lex_.Accept('{')) return lex_.Unexpected(Format("'{{' to open {}", what));
    if (lex_.Accept('}')) return {};
    do { KRAFLA_TRY(one()); } while (lex_.Accept(','));
    if (!lex_.Accept('}')) return lex_.Unexpected(Format("'}}' to close {}", what));
    return {};
  }
  Result<> ParseCalled(Key key, AttributeSet& out);
  Result<> ParseFloat(std::string_view name, AttributeSet& out);
  Result<> ParseLiteralInParentheses(AttributeSet& out);
  Result<> ParsePredecessor(const Scope& scope, AttributeSet& out);
  Result<> ParseWindow(AttributeSet& out);
  Result<> ParseDimLabels(AttributeSet& out);
  Result<> ParsePadding(AttributeSet& out);
  Result<> ParseSlice(AttributeSet& out);
  Result<ReplicaGroups> ParseGroups();
  Result<ReplicaGroups> ParseIotaGroups();
  Result<ReplicaGroups> ParseMeshGroups();
  Result<std::string_view> ParseAxisName();
  Result<Dims> ParseDimList(char close, std::string_view what);
  Result<ReplicaGroups> Expanded(Result<ReplicaGroups> groups, std::size_t offset);
  Result<> ParsePairs(AttributeSet& out);
  Result<> ParsePrecision(AttributeSet& out);
  Result<> ParseAliasing(AttributeSet& out);
  Result<> ParseResultAccuracy(AttributeSet& out);
  Result<> ParseConfig(AttributeSet& out);
  Result<std::string_view> ParseSharding();
  Result<std::string_view> ParseMetadata();
  Result<> CheckOneSharding(std::string_view text, std::size_t offset) const;

  // Shapes and literals (shape_parser.cpp, literal_parser.cpp).
  Result<Shape> ParseShapeAt(int depth);
  Result<> ParseLayout(Shape& shape);
  Result<std::string> ParseLayoutTail();
  bool AtShape() const;
  Result<Literal> ParseLiteralAt(const Shape& shape, int depth);
  Result<Literal> ParseArray(const Shape& shape);

  Lexer lex_;
  HloTextLimits limits_;
  std::unique_ptr<Module> module_;
  std::unordered_map<std::string_view, Computation*> computations_;
  std::vector<PendingCall> pending_calls_;
  std::vector<PendingAsync> pending_async_;
  // Scratch for the attributes of an instruction, one per level of inline computations.
  std::vector<std::unique_ptr<AttributeSet>> scratch_;
  Computation* entry_ = nullptr;
  Computation* last_ = nullptr;
  int64_t instruction_count_ = 0;
  int64_t constant_bytes_ = 0;
  int64_t elided_constants_ = 0;  // arrays whose elements the text leaves out
  // Parameter numbers size a table before the parameters below them are seen: all tables together stay within what
  // the text could fill.
  int64_t parameter_budget_;
  // Iota groups are a few characters that stand for many numbers.
  int64_t iota_budget_ = int64_t{1} << 24;
  int inline_depth_ = 0;
  std::string inline_name_;
};

}  // namespace krafla::hlo_text
