// SPDX-License-Identifier: Apache-2.0
// Modules and computations, and what can only be settled when all of them are known.
#include <unordered_set>

#include "base/log.h"
#include "hlo_io/hlo_text/parser.h"

namespace krafla {
namespace hlo_text {

Result<std::unique_ptr<Module>> Parser::ParseModule() {
  KRAFLA_TRY(ParseHeader());
  while (lex_.token().kind != Tok::kEnd) KRAFLA_TRY(ParseComputation());
  if (last_ == nullptr) return lex_.Error("The module has no computation.");
  // Without ENTRY the last computation of the text is the entry.
  module_->set_entry(entry_ != nullptr ? entry_ : last_);
  KRAFLA_TRY(ResolveCalls());
  KRAFLA_TRY(BuildAsyncComputations());
  KRAFLA_TRY(CheckNoRecursion());
  if (elided_constants_ > 0)
    Log(LogLevel::kWarning, Format("Constants whose elements the text leaves out ({{...}}): {}. Invented numbers stand "
                                   "for them, and results depend on those.",
                                   elided_constants_));
  return std::move(module_);
}

Result<> Parser::ExpectEnd() {
  if (lex_.token().kind == Tok::kEnd) return {};
  return lex_.Unexpected("nothing more");
}

// "[ENTRY] %name [(p: f32[2]) -> f32[2]] { instructions }[, execution_thread="..."]"
Result<> Parser::ParseComputation() {
  const bool is_entry = lex_.IsWord("ENTRY");
  if (is_entry) {
    if (entry_ != nullptr) return lex_.Error("The module has more than one ENTRY.");
    lex_.Next();
  }
  const std::size_t offset = lex_.token().begin;
  KRAFLA_ASSIGN(std::string_view name, lex_.Name("the name of a computation"));
  if (computations_.contains(name))
    return lex_.Error(offset, Format("The computation name '{}' is given twice.", name.substr(0, 60)));
  const std::string plain = PlainName(name);
  Computation* computation = module_->AddComputation(plain);
  if (computation->name() != plain)
    return lex_.Error(offset, Format("The computation name '{}' is taken.", name.substr(0, 60)));
  computations_.emplace(name, computation);
  KRAFLA_ASSIGN(Signature signature, ParseSignature());
  KRAFLA_TRY(ParseBody(computation, signature));
  if (lex_.Is(',')) {
    lex_.Next();
    KRAFLA_TRY(lex_.ExpectWord("execution_thread"));
    KRAFLA_TRY(lex_.Expect('=', "after execution_thread"));
    KRAFLA_ASSIGN(std::string thread, lex_.String("execution_thread"));
    if (thread != "main") computation->set_execution_thread(std::move(thread));
  }
  if (is_entry) entry_ = computation;
  last_ = computation;
  return {};
}

// "(x: f32[2], y: s32[]) -> f32[2]", or nothing.
Result<Parser::Signature> Parser::ParseSignature() {
  Signature out;
  if (!lex_.Is('(')) return out;
  out.present = true;
  out.offset = lex_.token().begin;
  lex_.Next();
  if (!lex_.Accept(')')) {
    do {
      KRAFLA_TRY(lex_.Name("the name of a parameter"));
      KRAFLA_TRY(lex_.Expect(':', "after the name of a parameter"));
      KRAFLA_ASSIGN(Shape shape, ParseShape());
      out.parameters.push_back(std::move(shape));
    } while (lex_.Accept(','));
    KRAFLA_TRY(lex_.Expect(')', "to close the parameters of a computation"));
  }
  if (lex_.token().kind != Tok::kArrow) return lex_.Unexpected("'->' after the parameters of a computation");
  lex_.Next();
  KRAFLA_ASSIGN(out.result, ParseShape());
  return out;
}

Result<> Parser::ParseBody(Computation* computation, const Signature& signature) {
  KRAFLA_TRY(lex_.Expect('{', "to open the body of a computation"));
  Scope scope;
  while (!lex_.Is('}')) {
    if (lex_.token().kind == Tok::kEnd)
      return lex_.Error(Format("Computation '{}' is not closed: expected '}}'.", computation->name()));
    bool is_root = false;
    KRAFLA_TRY(ParseInstruction(computation, scope, &is_root));
  }
  const std::size_t end = lex_.token().begin;
  if (computation->instructions().empty())
    return lex_.Error(Format("Computation '{}' has no instruction.", computation->name()));
  lex_.Next();
  if (computation->root() == nullptr) computation->set_root(computation->instructions().back().get());
  KRAFLA_TRY(CheckParameters(computation, end));
  if (!signature.present) return {};
  auto parameters = computation->parameters();
  if (parameters.size() != signature.parameters.size())
    return lex_.Error(signature.offset, Format("The signature of '{}' has {} parameters, its body {}.",
                                               computation->name(), signature.parameters.size(), parameters.size()));
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (!Shape::Compatible(parameters[i]->shape(), signature.parameters[i]))
      return lex_.Error(signature.offset,
                        Format("Parameter {} of '{}' is {} in the signature and {} in the body.", i,
                               computation->name(), Shown(signature.parameters[i]), Shown(parameters[i]->shape())));
  if (!Shape::Compatible(computation->root()->shape(), signature.result))
    return lex_.Error(signature.offset,
                      Format("The result of '{}' is {} in the signature and {} in the body.", computation->name(),
                             Shown(signature.result), Shown(computation->root()->shape())));
  return {};
}

Result<> Parser::CheckParameters(Computation* computation, std::size_t offset) {
  auto parameters = computation->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i] == nullptr)
      return lex_.Error(offset, Format("Computation '{}' has parameter {} but no parameter {}.", computation->name(),
                                       parameters.size() - 1, i));
  return {};
}

// "to_apply={ a = f32[] parameter(0) ... }"; the current token is the brace.
Result<Computation*> Parser::ParseInlineComputation() {
  if (inline_depth_ >= limits_.max_depth)
    return lex_.Error(Format("Computations are nested deeper than the limit of {}.", limits_.max_depth));
  ++inline_depth_;
  // A name that the text has nowhere, as computations with names may still come.
  if (inline_name_.empty()) {
    inline_name_ = "inline";
    while (lex_.text().find(inline_name_) != std::string_view::npos) inline_name_ += '_';
  }
  Computation* computation = module_->AddComputation(inline_name_);
  auto parsed = ParseBody(computation, {});
  --inline_depth_;
  KRAFLA_TRY(std::move(parsed));
  return computation;
}

Result<> Parser::ResolveCalls() {
  auto resolve = [&](const CalledName& called) -> Result<Computation*> {
    if (called.computation != nullptr) return called.computation;
    auto it = computations_.find(called.name);
    if (it == computations_.end())
      return lex_.Error(called.offset, Format("No computation '{}' is defined.", called.name.substr(0, 60)));
    return it->second;
  };
  for (PendingCall& call : pending_calls_) {
    std::vector<Computation*> called;
    for (const CalledName& name : call.called) {
      KRAFLA_ASSIGN(Computation * found, resolve(name));
      called.push_back(found);
    }
    // An async-start alone holds its computation; the others reach it through their operand.
    Opcode opcode = call.caller->opcode();
    if (opcode != Opcode::kAsyncUpdate && opcode != Opcode::kAsyncDone) call.caller->set_called(std::move(called));
  }
  for (PendingAsync& async : pending_async_)
    for (CalledName& name : async.called) { KRAFLA_ASSIGN(name.computation, resolve(name)); }
  return {};
}

// "s = ((f32[]), f32[], u32[]) negate-start(x)" becomes an async-start that calls a computation of one negate.
Result<> Parser::BuildAsyncComputations() {
  for (PendingAsync& async : pending_async_) {
    Computation* made = module_->AddComputation(Format("async_{}", OpcodeName(async.opcode)));
    std::vector<Instruction*> parameters;
    for (Instruction* operand : async.start->operands())
      parameters.push_back(made->Add(Opcode::kParameter, operand->shape(), {},
                                     ParameterAttributes{static_cast<int64_t>(parameters.size()), {}}));
    std::vector<Computation*> called;
    for (const CalledName& name : async.called) called.push_back(name.computation);
    made->set_root(made->Add(async.opcode, async.start->shape().tuple_elements()[1], std::move(parameters),
                             std::move(async.attributes), std::move(called)));
    for (const auto& instruction : made->instructions()) instruction->set_location(async.start->location());
    async.start->set_called({made});
  }
  return {};
}

Failure Parser::RecursionError(const Instruction& caller, const Computation& callee) const {
  std::size_t offset = lex_.text().size();
  for (const PendingCall& call : pending_calls_)
    if (call.caller == &caller && !call.called.empty()) offset = call.called[0].offset;
  return lex_.Error(offset,
                    Format("Instruction '{}' calls computation '{}', which leads back to it; HLO has no recursion.",
                           caller.name(), callee.name()));
}

// Calls must not lead back to their computation.
Result<> Parser::CheckNoRecursion() {
  enum : uint8_t { kNew, kOpen, kDone };
  struct Frame {
    const Computation* computation;
    std::size_t instruction = 0, call = 0;
  };
  std::unordered_map<const Computation*, uint8_t> state;
  std::vector<Frame> stack;
  for (const auto& owned : module_->computations()) {
    if (state[owned.get()] != kNew) continue;
    stack.push_back({owned.get()});
    state[owned.get()] = kOpen;
    while (!stack.empty()) {
      Frame& frame = stack.back();
      const auto& instructions = frame.computation->instructions();
      if (frame.instruction == instructions.size()) {
        state[frame.computation] = kDone;
        stack.pop_back();
        continue;
      }
      const Instruction& caller = *instructions[frame.instruction];
      if (frame.call == caller.called().size()) {
        ++frame.instruction;
        frame.call = 0;
        continue;
      }
      const Computation* callee = caller.called(frame.call++);
      uint8_t& s = state[callee];
      if (s == kOpen) return RecursionError(caller, *callee);
      if (s == kNew) {
        s = kOpen;
        stack.push_back({callee});
      }
    }
  }
  return {};
}

}  // namespace hlo_text

Result<std::unique_ptr<Module>> ParseHloText(std::string_view text, std::string_view file,
                                             const HloTextLimits& limits) {
  return hlo_text::Parser(text, file, limits).ParseModule();
}

Result<Shape> ParseShape(std::string_view text) {
  hlo_text::Parser parser(text, "<shape>", {});
  KRAFLA_ASSIGN(Shape out, parser.ParseShape());
  KRAFLA_TRY(parser.ExpectEnd());
  return out;
}

Result<Literal> ParseLiteral(std::string_view text, const Shape& shape) {
  hlo_text::Parser parser(text, "<literal>", {});
  KRAFLA_ASSIGN(Literal out, parser.ParseLiteral(shape));
  KRAFLA_TRY(parser.ExpectEnd());
  return out;
}

}  // namespace krafla
