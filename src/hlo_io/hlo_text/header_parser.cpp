// SPDX-License-Identifier: Apache-2.0
// What stands before the first computation: "HloModule name, key=value, ..." and the tables of stack frames.
#include <algorithm>

#include "hlo_io/hlo_text/parser.h"

namespace krafla::hlo_text {
namespace {

// Attributes of the header that are kept as written (XLA: hlo_parser.cc ParseHloModule).
constexpr std::string_view kKept[] = {"frontend_attributes",
                                      "alias_passthrough_params",
                                      "allow_spmd_sharding_propagation_to_parameters",
                                      "allow_spmd_sharding_propagation_to_output",
                                      "result_layout",
                                      "schedule_name"};

template <std::size_t N>
bool IsOneOf(std::string_view word, const std::string_view (&words)[N]) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

}  // namespace

Result<> Parser::ParseHeader() {
  if (!lex_.IsWord("HloModule")) return lex_.Unexpected("'HloModule' at the beginning of a module");
  lex_.Next();
  if (lex_.token().kind == Tok::kString) {
    KRAFLA_ASSIGN(std::string name, lex_.String("the name of the module"));
    module_ = std::make_unique<Module>(std::move(name));
  } else {
    if (lex_.IsWord("ENTRY")) return lex_.Unexpected("the name of the module");
    if (lex_.token().kind != Tok::kWord && lex_.token().kind != Tok::kName)
      return lex_.Unexpected("the name of the module");
    module_ = std::make_unique<Module>(std::string(lex_.Next().text));
  }
  std::vector<std::string_view> seen;
  while (lex_.Accept(',')) {
    if (lex_.token().kind != Tok::kWord) return lex_.Unexpected("the name of an attribute of the module");
    Token name = lex_.Next();
    if (std::find(seen.begin(), seen.end(), name.text) != seen.end())
      return lex_.Error(name.begin, Format("Attribute '{}' of the module is given twice.", name.text));
    if (seen.size() > 64) return lex_.Error(name.begin, "The module has too many attributes.");
    seen.push_back(name.text);
    KRAFLA_TRY(lex_.Expect('=', "after the name of an attribute of the module"));
    KRAFLA_TRY(ParseHeaderAttribute(name.text, name.begin));
  }
  return ParseStackFrameTables();
}

Result<> Parser::ParseHeaderAttribute(std::string_view name, std::size_t offset) {
  auto count = [&](int64_t& out) -> Result<> {
    const std::size_t at = lex_.token().begin;
    KRAFLA_ASSIGN(out, lex_.Int(name));
    if (out < 1 || out > (1 << 24)) return lex_.Error(at, Format("{} must lie in [1, 2^24], it is {}.", name, out));
    return {};
  };
  if (name == "replica_count") return count(module_->replica_count);
  if (name == "num_partitions") return count(module_->num_partitions);
  if (name == "is_scheduled") {
    module_->has_is_scheduled = true;
    KRAFLA_ASSIGN(module_->is_scheduled, lex_.Bool(name));
    return {};
  }
  if (name == "input_output_alias") return ParseInputOutputAlias();
  if (name == "buffer_donor") return ParseBufferDonor();
  if (name == "entry_computation_layout") return ParseEntryLayout();
  if (!IsOneOf(name, kKept))
    return lex_.Error(offset, Format("Unknown attribute '{}' of the module.", name.substr(0, 60)));
  std::string value;
  if (lex_.Is('{')) {
    KRAFLA_ASSIGN(value, lex_.RawBraces(name));
  } else {
    Token token = lex_.token();
    if (token.kind != Tok::kWord && token.kind != Tok::kNumber && token.kind != Tok::kString)
      return lex_.Unexpected(Format("a value of {}", name));
    lex_.Next();
    value = lex_.text().substr(token.begin, token.end - token.begin);
  }
  module_->other_attributes.emplace_back(std::string(name), std::move(value));
  return {};
}

// "{ {0}: (1, {}, may-alias), {}: (0, {1}) }": output index, parameter, index within it, kind.
Result<> Parser::ParseInputOutputAlias() {
  return ParseList("input_output_alias", [&]() -> Result<> {
    InputOutputAlias alias;
    KRAFLA_ASSIGN(alias.output_index, ParseDims("an output index"));
    KRAFLA_TRY(lex_.Expect(':', "after an output index"));
    KRAFLA_TRY(lex_.Expect('(', "before a parameter number"));
    KRAFLA_ASSIGN(alias.parameter, lex_.Int("a parameter number"));
    KRAFLA_TRY(lex_.Expect(',', "after a parameter number"));
    KRAFLA_ASSIGN(alias.parameter_index, ParseDims("an index within a parameter"));
    if (lex_.Accept(',')) {
      if (!lex_.IsWord("may-alias") && !lex_.IsWord("must-alias")) return lex_.Unexpected("may-alias or must-alias");
      alias.must_alias = lex_.Next().text == "must-alias";
    }
    KRAFLA_TRY(lex_.Expect(')', "to close an alias"));
    module_->input_output_aliases.push_back(std::move(alias));
    return {};
  });
}

// "{ (0, {}), (1, {0}) }"
Result<> Parser::ParseBufferDonor() {
  return ParseList("buffer_donor", [&]() -> Result<> {
    BufferDonor donor;
    KRAFLA_TRY(lex_.Expect('(', "before a parameter number"));
    KRAFLA_ASSIGN(donor.parameter, lex_.Int("a parameter number"));
    KRAFLA_TRY(lex_.Expect(',', "after a parameter number"));
    KRAFLA_ASSIGN(donor.parameter_index, ParseDims("an index within a parameter"));
    KRAFLA_TRY(lex_.Expect(')', "to close a buffer donor"));
    module_->buffer_donors.push_back(std::move(donor));
    return {};
  });
}

// "{(f32[2]{0}, s32[])->f32[2]{0}}"
Result<> Parser::ParseEntryLayout() {
  KRAFLA_TRY(lex_.Expect('{', "to open entry_computation_layout"));
  KRAFLA_TRY(lex_.Expect('(', "to open the parameters of entry_computation_layout"));
  if (!lex_.Accept(')')) {
    do {
      KRAFLA_ASSIGN(Shape shape, ParseShape());
      module_->entry_layout_parameters.push_back(std::move(shape));
    } while (lex_.Accept(','));
    KRAFLA_TRY(lex_.Expect(')', "to close the parameters of entry_computation_layout"));
  }
  if (lex_.token().kind != Tok::kArrow) return lex_.Unexpected("'->' in entry_computation_layout");
  lex_.Next();
  KRAFLA_ASSIGN(module_->entry_layout_result, ParseShape());
  return lex_.Expect('}', "to close entry_computation_layout");
}

// Tables that XLA prints after optimisation: a title, then lines of a number and a string or braces. Kept as written.
Result<> Parser::ParseStackFrameTables() {
  while (lex_.token().kind == Tok::kWord && IsOneOf(lex_.token().text, kStackFrameTables)) {
    Token after = lex_.LookAhead();
    bool last_title = after.kind == Tok::kWord && IsOneOf(after.text, kStackFrameTables);
    if (after.kind != Tok::kNumber && !last_title) return {};  // a computation of that name
    Token title = lex_.Next();
    std::size_t begin = lex_.token().begin, end = begin;
    while (lex_.token().kind == Tok::kNumber) {
      lex_.Next();
      if (lex_.Is('{')) {
        KRAFLA_TRY(lex_.RawBraces("an entry of a table"));
      } else if (lex_.token().kind == Tok::kString) {
        lex_.Next();
      } else {
        return lex_.Unexpected(Format("a string or braces in the table {}", title.text));
      }
      end = lex_.previous_end();
    }
    module_->other_attributes.emplace_back(std::string(title.text),
                                           std::string(lex_.text().substr(begin, end - begin)));
  }
  return {};
}

}  // namespace krafla::hlo_text
