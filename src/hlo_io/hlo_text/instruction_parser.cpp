// SPDX-License-Identifier: Apache-2.0
// One instruction: "ROOT %name = shape opcode(operands), attributes".
#include "base/index.h"
#include "hlo_io/hlo_text/parser.h"

namespace krafla::hlo_text {
namespace {

// "add-start", "add-update", "add-done": an asynchronous add, where that is not an opcode itself.
struct Sugar {
  Opcode async = Opcode::kAsyncStart;
  Opcode inner = Opcode::kTuple;
};
// An opcode as it is written: `inner` of "inner-start" and its like.
struct WrittenOpcode {
  Opcode opcode = Opcode::kTuple;
  std::optional<Opcode> inner;
};
std::optional<Sugar> AsyncSugar(std::string_view name) {
  constexpr std::pair<std::string_view, Opcode> kSuffixes[] = {
      {"-start", Opcode::kAsyncStart}, {"-update", Opcode::kAsyncUpdate}, {"-done", Opcode::kAsyncDone}};
  for (auto [suffix, async] : kSuffixes) {
    if (!name.ends_with(suffix)) continue;
    auto inner = OpcodeFromName(name.substr(0, name.size() - suffix.size()));
    if (inner) return Sugar{async, *inner};
  }
  return std::nullopt;
}

Result<WrittenOpcode> ReadOpcode(Lexer& lex) {
  if (lex.token().kind != Tok::kWord) return lex.Unexpected("an opcode");
  std::string_view name = lex.token().text;
  WrittenOpcode out;
  if (std::optional<Opcode> found = OpcodeFromName(name)) {
    out.opcode = *found;
  } else if (std::optional<Sugar> sugar = AsyncSugar(name)) {
    out.opcode = sugar->async;
    out.inner = sugar->inner;
  } else {
    return lex.Error(Format("Unknown opcode '{}'.", name.substr(0, 60)));
  }
  lex.Next();
  return out;
}

}  // namespace

// "ROOT" before a name; an instruction may have that name itself.
bool Parser::AcceptRoot() {
  if (!lex_.IsWord("ROOT")) return false;
  const Token after = lex_.LookAhead();
  if (after.kind != Tok::kWord && after.kind != Tok::kName) return false;
  lex_.Next();
  return true;
}

Result<Attributes> Parser::AttributesOf(Opcode opcode, Opcode described, AttributeSet& set, int64_t parameter_number,
                                        std::shared_ptr<const Literal> literal) const {
  if (opcode == Opcode::kConstant) return ConstantAttributes{std::move(literal)};
  if (opcode != Opcode::kParameter) return BuildAttributes(described, set, lex_);
  ParameterAttributes parameter{parameter_number, {}};
  if (set.Has(Key::kParameterReplication)) parameter.replicated_at_leaf_buffers = set.bools;
  return parameter;
}

Result<> Parser::ParseInstruction(Computation* computation, Scope& scope, bool* is_root) {
  *is_root = AcceptRoot();
  if (++instruction_count_ > limits_.max_instructions)
    return lex_.Error(lex_.token().begin,
                      Format("The module has more than the limit of {} instructions.", limits_.max_instructions),
                      StatusCode::kResourceExhausted);
  const std::size_t name_offset = lex_.token().begin;
  // Now, as places are found fast only in the order of the text.
  const SourceLocation location = lex_.Locate(name_offset);
  KRAFLA_ASSIGN(std::string_view name, lex_.Name("the name of an instruction"));
  if (scope.contains(name))
    return lex_.Error(name_offset, Format("The name '{}' is given twice in computation '{}'.", name.substr(0, 60),
                                          computation->name()));
  KRAFLA_TRY(lex_.Expect('=', "after the name of an instruction"));
  if (!AtShape()) return lex_.Unexpected("the shape of the instruction, such as f32[2,3]");
  KRAFLA_ASSIGN(Shape shape, ParseShape());

  const std::size_t opcode_offset = lex_.token().begin;
  KRAFLA_ASSIGN(const WrittenOpcode written, ReadOpcode(lex_));
  const Opcode opcode = written.opcode;
  // The attributes of a "-start" are those of what it starts.
  const bool sugar_start = written.inner && opcode == Opcode::kAsyncStart;

  std::vector<Operand> operands;
  int64_t parameter_number = 0;
  std::shared_ptr<const Literal> literal;
  KRAFLA_TRY(lex_.Expect('(', "after an opcode"));
  if (opcode == Opcode::kParameter) {
    KRAFLA_ASSIGN(parameter_number, ParseParameterNumber(computation));
  } else if (opcode == Opcode::kConstant) {
    KRAFLA_ASSIGN(Literal value, ParseLiteral(shape));
    literal = std::make_shared<const Literal>(std::move(value));
  } else {
    KRAFLA_TRY(ParseOperands(scope, operands));
  }
  KRAFLA_TRY(lex_.Expect(')', "after the operands"));

  const std::size_t depth = At(inline_depth_);
  if (scratch_.size() <= depth) scratch_.push_back(std::make_unique<AttributeSet>());
  AttributeSet& set = *scratch_[depth];
  set.Clear();
  const Opcode described = sugar_start ? *written.inner : opcode;
  KRAFLA_TRY(ParseAttributes(described, scope, set));
  KRAFLA_TRY(CheckRequired(described, set, opcode_offset));
  KRAFLA_TRY(CheckOperands(opcode, shape, operands, set, opcode_offset));

  KRAFLA_ASSIGN(Attributes attributes, AttributesOf(opcode, described, set, parameter_number, std::move(literal)));
  std::vector<Instruction*> values;
  values.reserve(operands.size());
  for (const Operand& operand : operands) values.push_back(operand.instruction);

  Instruction* made = nullptr;
  if (sugar_start) {
    PendingAsync pending;
    pending.opcode = *written.inner;
    pending.attributes = std::move(attributes);
    pending.called = OrderCalled(*written.inner, set);
    made = computation->Add(opcode, std::move(shape), std::move(values), AsyncAttributes{}, {}, PlainName(name));
    pending.start = made;
    pending_async_.push_back(std::move(pending));
  } else {
    made = computation->Add(opcode, std::move(shape), std::move(values), std::move(attributes), {}, PlainName(name));
    std::vector<CalledName> called = OrderCalled(opcode, set);
    if (!called.empty()) pending_calls_.push_back({made, std::move(called)});
  }
  made->set_location(location);
  made->set_metadata(BuildMetadata(set));
  for (Instruction* before : set.predecessors) made->AddControlPredecessor(before);
  scope.emplace(name, made);
  if (*is_root) {
    if (computation->root() != nullptr)
      return lex_.Error(name_offset, Format("Computation '{}' has more than one ROOT.", computation->name()));
    computation->set_root(made);
  }
  return {};
}

// "a, f32[2]{0} %b": names of instructions before this one, perhaps with their shapes. The closing parenthesis stays.
Result<> Parser::ParseOperands(const Scope& scope, std::vector<Operand>& operands) {
  if (lex_.Is(')')) return {};
  do {
    std::optional<Shape> stated;
    const std::size_t begin = lex_.token().begin;
    if (AtShape()) { KRAFLA_ASSIGN(stated, ParseShape()); }
    const std::size_t offset = lex_.token().begin;
    KRAFLA_ASSIGN(std::string_view name, lex_.Name("the name of an operand"));
    auto it = scope.find(name);
    if (it == scope.end())
      return lex_.Error(offset, Format("No instruction '{}' is defined before this one.", name.substr(0, 60)));
    if (stated && !Shape::Compatible(*stated, it->second->shape()))
      return lex_.Error(
          begin, Format("Operand '{}' is {}, not {}.", name.substr(0, 60), Shown(it->second->shape()), Shown(*stated)));
    operands.push_back({it->second, offset});
  } while (lex_.Accept(','));
  return {};
}

Result<int64_t> Parser::ParseParameterNumber(Computation* computation) {
  const std::size_t offset = lex_.token().begin;
  KRAFLA_ASSIGN(int64_t number, lex_.Int("the number of a parameter"));
  if (number < 0) return lex_.Error(offset, Format("The number of a parameter is negative ({}).", number));
  auto have = static_cast<int64_t>(computation->parameters().size());
  if (number >= have) {
    if (number - have >= parameter_budget_)
      return lex_.Error(offset, Format("Parameter number {} is more than this text has parameters.", number));
    parameter_budget_ -= number + 1 - have;
  } else if (computation->parameters()[static_cast<std::size_t>(number)] != nullptr) {
    return lex_.Error(offset, Format("Parameter number {} is given twice.", number));
  }
  return number;
}

}  // namespace krafla::hlo_text
