// SPDX-License-Identifier: Apache-2.0
#include "hlo_io/hlo_text/printer.h"

#include <algorithm>

#include "hlo_io/hlo_text/lexer.h"

namespace krafla {
namespace hlo_text {
namespace {

// Read as a name wherever a name can stand.
bool IsPlain(std::string_view name) {
  if (name.empty() || !IsWordStart(name[0])) return false;
  if (!std::all_of(name.begin(), name.end(), IsWordChar) || name.back() == '-') return false;
  return name != "ROOT" && name != "ENTRY" && !ElementTypeFromName(name);
}

bool IsTable(std::string_view name) {
  return std::ranges::find(kStackFrameTables, name) != std::end(kStackFrameTables);
}

void AppendInstruction(std::string& out, const Instruction& instruction, const HloPrintOptions& options) {
  AppendName(out, instruction.name(), options.percent);
  out += " = ";
  out += instruction.shape().ToString(options.layouts);
  out += ' ';
  out += OpcodeName(instruction.opcode());
  out += '(';
  if (const auto* parameter = std::get_if<ParameterAttributes>(&instruction.attributes())) {
    out += std::to_string(parameter->number);
  } else if (const auto* constant = std::get_if<ConstantAttributes>(&instruction.attributes())) {
    if (constant->literal) AppendLiteral(out, *constant->literal, options.elide_constants_over);
  } else {
    for (std::size_t i = 0; i < instruction.operand_count(); ++i) {
      if (i > 0) out += ", ";
      const Instruction& operand = *instruction.operand(i);
      if (options.operand_types) out += operand.shape().ToString(options.layouts) + ' ';
      AppendName(out, operand.name(), options.percent);
    }
  }
  out += ')';
  AppendAttributes(out, instruction, options);
}

void AppendHeader(std::string& out, const Module& module, const HloPrintOptions& options) {
  out += "HloModule ";
  // The name of a module has no percent sign; one that is not a word is a string.
  if (IsPlain(module.name())) out += module.name();
  else out += '"' + Escape(module.name()) + '"';
  if (module.has_is_scheduled) out += Format(", is_scheduled={}", module.is_scheduled ? "true" : "false");
  if (!module.input_output_aliases.empty()) {
    out += ", input_output_alias={ ";
    bool first = true;
    for (const InputOutputAlias& alias : module.input_output_aliases) {
      if (!first) out += ", ";
      first = false;
      AppendList(out, alias.output_index);
      out += Format(": ({}, ", alias.parameter);
      AppendList(out, alias.parameter_index);
      out += alias.must_alias ? ", must-alias)" : ", may-alias)";
    }
    out += " }";
  }
  if (!module.buffer_donors.empty()) {
    out += ", buffer_donor={ ";
    bool first = true;
    for (const BufferDonor& donor : module.buffer_donors) {
      if (!first) out += ", ";
      first = false;
      out += Format("({}, ", donor.parameter);
      AppendList(out, donor.parameter_index);
      out += ')';
    }
    out += " }";
  }
  if (module.entry_layout_result) {
    out += ", entry_computation_layout={(";
    for (std::size_t i = 0; i < module.entry_layout_parameters.size(); ++i) {
      if (i > 0) out += ", ";
      out += module.entry_layout_parameters[i].ToString(options.layouts);
    }
    out += ")->" + module.entry_layout_result->ToString(options.layouts) + "}";
  }
  if (module.replica_count != 1) out += Format(", replica_count={}", module.replica_count);
  if (module.num_partitions != 1) out += Format(", num_partitions={}", module.num_partitions);
  for (const auto& [key, value] : module.other_attributes)
    if (!IsTable(key)) out += Format(", {}={}", key, value);
  out += '\n';
  for (const auto& [key, value] : module.other_attributes)
    if (IsTable(key)) out += Format("\n{}\n{}\n", key, value);
}

}  // namespace

void AppendName(std::string& out, std::string_view name, bool percent) {
  const bool plain = IsPlain(name);
  if (percent || !plain) out += '%';
  // A word behind a percent sign may be anything of the characters of words.
  const bool word = !name.empty() && std::all_of(name.begin(), name.end(), IsWordChar) && name.back() != '-';
  if (plain || word) {
    out += name;
  } else {
    out += '"';
    out += Escape(name);
    out += '"';
  }
}

}  // namespace hlo_text

std::string PrintInstruction(const Instruction& instruction, const HloPrintOptions& options) {
  std::string out;
  if (instruction.parent() != nullptr && instruction.IsRoot()) out += "ROOT ";
  hlo_text::AppendInstruction(out, instruction, options);
  return out;
}

std::string PrintModule(const Module& module, const HloPrintOptions& options) {
  std::string out;
  hlo_text::AppendHeader(out, module, options);
  for (const auto& computation : module.computations()) {
    out += '\n';
    if (computation.get() == module.entry()) out += "ENTRY ";
    hlo_text::AppendName(out, computation->name(), options.percent);
    out += " {\n";
    for (const auto& instruction : computation->instructions()) {
      out += instruction.get() == computation->root() ? "  ROOT " : "  ";
      hlo_text::AppendInstruction(out, *instruction, options);
      out += '\n';
    }
    out += '}';
    if (!computation->execution_thread().empty())
      out += ", execution_thread=\"" + hlo_text::Escape(computation->execution_thread()) + '"';
    out += '\n';
  }
  return out;
}

}  // namespace krafla
