// SPDX-License-Identifier: Apache-2.0
#include "xla_builder/impl.h"

#include <format>

#include "base/without_exceptions.h"
#include "ir/shape_rules/checks.h"

namespace krafla {

void XlaBuilder::Impl::Reset() {
  first_handle += static_cast<int64_t>(ops.size());
  ops.clear();
  handles.clear();
  imported.clear();
  kept.clear();
  errors.clear();
  aliases.clear();
  donors.clear();
  module = std::make_unique<Module>(name);
  module->replica_count = replica_count;
  module->num_partitions = num_partitions;
  computation = module->AddComputation(name);
}

Result<Instruction*> XlaBuilder::Impl::Find(XlaOp op) const {
  int64_t at = XlaBuilder::HandleOf(op) - first_handle;
  if (at < 0) return InvalidArgument("It was made before the builder '{}' was built and belongs to that result.", name);
  if (at >= static_cast<int64_t>(ops.size())) return InvalidArgument("No call of the builder '{}' made it.", name);
  return ops[static_cast<std::size_t>(at)];
}

int64_t XlaBuilder::Impl::HandleOf(Instruction* instruction) {
  auto [it, fresh] = handles.try_emplace(instruction, first_handle + static_cast<int64_t>(ops.size()));
  if (fresh) ops.push_back(instruction);
  return it->second;
}

Result<Instruction*> XlaBuilder::Impl::Add(Opcode opcode, std::vector<Instruction*> operands, Attributes attributes,
                                           std::vector<Computation*> called, const Shape* declared,
                                           std::string_view instruction_name) {
  KRAFLA_ASSIGN(Instruction * out, AddInferred(*computation, opcode, std::move(operands), std::move(attributes),
                                               std::move(called), declared, instruction_name));
  InstructionMetadata said;
  said.metadata = xla_builder::MetadataText(one_shot_metadata.value_or(metadata));
  if (sharding) said.sharding = *sharding;
  KRAFLA_ASSIGN(said.frontend_attributes, xla_builder::FrontendAttributesText(frontend_attributes));
  if (said != InstructionMetadata()) out->set_metadata(std::move(said));
  return out;
}

Result<Computation*> XlaBuilder::Impl::Import(const ComputationOrError& given) {
  if (!given) return Failure(Status(given.error()).WithContext("in the computation that is called"));
  const std::shared_ptr<const Module>& from = given->module();
  if (from == nullptr) return InvalidArgument("The computation is null: Build did not make it.");
  if (auto it = imported.find(from.get()); it != imported.end()) return it->second;
  std::unordered_map<const Computation*, Computation*> computations;
  std::unordered_map<const Instruction*, Instruction*> instructions;
  for (const auto& c : from->computations()) {
    Computation* copy = module->AddComputation(c->name());
    copy->set_execution_thread(c->execution_thread());
    computations[c.get()] = copy;
  }
  for (const auto& c : from->computations()) {
    Computation* copy = computations[c.get()];
    for (const auto& i : c->instructions()) instructions[i.get()] = copy->AddClone(*i, {});
    for (const auto& i : c->instructions()) {
      Instruction* made = instructions[i.get()];
      std::vector<Instruction*> operands;
      for (Instruction* o : i->operands()) operands.push_back(instructions[o]);
      copy->SetOperands(made, std::move(operands));
      for (Instruction* before : i->control_predecessors()) made->AddControlPredecessor(instructions[before]);
      std::vector<Computation*> called;
      for (Computation* f : i->called()) called.push_back(computations[f]);
      made->set_called(std::move(called));
    }
    copy->set_root(instructions[c->root()]);
  }
  Computation* entry = computations[from->entry()];
  imported[from.get()] = entry;
  kept.push_back(from);
  return entry;
}

namespace xla_builder {

XlaOp Run(const char* call, XlaBuilder* builder, Span<XlaOp> operands, const Body& body) {
  for (XlaOp op : operands)
    if (builder == nullptr) builder = op.builder();
  if (builder == nullptr) return {};  // nobody to tell
  Impl& b = builder->impl();
  std::vector<Instruction*> instructions;
  std::string arguments;
  auto fail = [&](const Status& error) {
    b.NoteError(Status(error.code(), Format("{}: {}", call, error.message())));
    auto add_line = [&](std::string line) {
      static_cast<void>(std::move(b.errors.back()).WithContext(std::move(line)));
    };
    for (const std::string& line : error.context()) add_line(line);
    if (!arguments.empty()) add_line(Format("in {}({})", call, arguments));
    b.one_shot_metadata.reset();
    return builder->MakeOp(-1);
  };
  bool broken = false;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].IsUninitialized())
      return fail(Status(StatusCode::kInvalidArgument, Format("Operand {} is an XlaOp that no call made.", i)));
    if (operands[i].builder() != builder)
      return fail(
          Status(StatusCode::kInvalidArgument, Format("Operand {} belongs to another builder than '{}'.", i, b.name)));
    broken |= !operands[i].valid();
  }
  if (broken) return builder->MakeOp(-1);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    auto found = b.Find(operands[i]);
    if (!found) return fail(Status(StatusCode::kInvalidArgument, Format("Operand {}: {}", i, found.error().message())));
    instructions.push_back(*found);
    if (i < 8) {
      if (i > 0) arguments += ", ";
      arguments += Format("{}: {}", (*found)->name(), shape_rules::Brief((*found)->shape()));
    } else if (i == 8) {
      arguments += ", ...";
    }
  }
  Result<Instruction*> made = WithoutExceptions([&] { return body(b, instructions); });
  if (!made) return fail(std::move(made).error());
  b.one_shot_metadata.reset();
  return builder->MakeOp(b.HandleOf(*made));
}

XlaOp RunOp(const char* call, XlaBuilder* builder, Span<XlaOp> operands, Opcode opcode, Attributes attributes) {
  return Run(call, builder, operands,
             [&](Impl& b, Instructions ops) { return b.Add(opcode, ToVector(ops), std::move(attributes)); });
}

std::vector<XlaOp> Join(Span<XlaOp> a, Span<XlaOp> b) {
  std::vector<XlaOp> out(a.begin(), a.end());
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

Dims ToDims(Span<int64_t> values) { return Dims(std::span<const int64_t>(values)); }

std::vector<Instruction*> ToVector(Instructions instructions) { return {instructions.begin(), instructions.end()}; }

Result<const Shape*> ArrayShape(const Instruction& instruction, const char* what) {
  if (!instruction.shape().IsArray())
    return InvalidArgument("{} must be an array, it is {}.", what, shape_rules::Brief(instruction.shape()));
  return &instruction.shape();
}

Result<> CheckDimension(const char* what, int64_t dimension, int64_t rank) {
  return shape_rules::CheckDimensionNumber(what, dimension, rank);
}

namespace {

// In quotes, as HLO text reads it.
std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\t': out += "\\t"; break;
      case '\r': out += "\\r"; break;
      default: out += c;
    }
  }
  return out + '"';
}

}  // namespace

std::string MetadataText(const OpMetadata& m) {
  std::string out;
  auto add = [&](std::string text) { out += (out.empty() ? "" : " ") + std::move(text); };
  if (!m.op_type.empty()) add("op_type=" + Quoted(m.op_type));
  if (!m.op_name.empty()) add("op_name=" + Quoted(m.op_name));
  if (!m.source_file.empty()) add("source_file=" + Quoted(m.source_file));
  if (m.source_line != 0) add(Format("source_line={}", m.source_line));
  return out;
}

Result<std::string> FrontendAttributesText(const FrontendAttributes& attributes) {
  std::string out;
  for (const auto& [key, value] : attributes) {
    for (char c : key)
      if (!(c == '_' || c == '.' || c == '-' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
            (c >= 'A' && c <= 'Z')))
        return InvalidArgument(
            "The name of a frontend attribute is made of letters, digits, '_', '.' and '-'; "
            "'{}' is not.",
            key);
    if (key.empty()) return InvalidArgument("A frontend attribute needs a name.");
    if (!out.empty()) out += ',';
    out += key + '=' + Quoted(value);
  }
  return out;
}

}  // namespace xla_builder
}  // namespace krafla
