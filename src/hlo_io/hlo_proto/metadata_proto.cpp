// SPDX-License-Identifier: Apache-2.0
// OpMetadata and FrontendAttributes as HLO text prints them (xla/service/hlo_proto_util, OpMetadataToString).
#include "hlo_io/hlo_proto/sharding_proto.h"
#include "hlo_io/hlo_text/lexer.h"

namespace krafla::hlo_proto {
namespace {

// The fields of OpMetadata that the text has, in the order of the text.
struct MetadataField {
  uint32_t field;
  std::string_view name;
  bool is_string;
};
constexpr MetadataField kFields[] = {
    {1, "op_type", true},
    {2, "op_name", true},
    {3, "source_file", true},
    {4, "source_line", false},
    {17, "source_end_line", false},
    {18, "source_column", false},
    {19, "source_end_column", false},
    {12, "deduplicated_name", true},
    {16, "scheduling_name", true},
    {15, "stack_frame_id", false},
};

}  // namespace

std::string MetadataText(Reader reader) {
  std::string values[std::size(kFields)];
  while (reader.next()) {
    bool known = false;
    for (std::size_t i = 0; i < std::size(kFields) && !known; ++i) {
      if (kFields[i].field != reader.tag()) continue;
      known = true;
      if (kFields[i].is_string) values[i] = "\"" + hlo_text::Escape(Bytes(reader)) + "\"";
      else values[i] = std::to_string(Int32(reader));
    }
    if (!known) reader.skip();
  }
  std::string out;
  for (std::size_t i = 0; i < std::size(kFields); ++i)
    if (!values[i].empty() && values[i] != "0" && values[i] != "\"\"")
      out += Format("{}{}={}", out.empty() ? "" : " ", kFields[i].name, values[i]);
  return out;
}

void WriteMetadata(Writer writer, std::string_view text) {
  hlo_text::Lexer lex(text, "metadata");
  while (lex.token().kind == hlo_text::Tok::kWord) {
    std::string_view name = lex.Next().text;
    if (!lex.Accept('=')) return;
    const MetadataField* found = nullptr;
    for (const MetadataField& f : kFields)
      if (f.name == name) found = &f;
    int64_t number = 0;
    if (lex.Is('{')) {
      if (!lex.RawBraces("a field")) return;
    } else if (found != nullptr && found->is_string && lex.token().kind == hlo_text::Tok::kString) {
      WriteString(writer, found->field, hlo_text::Unescape(lex.Next().text));
    } else if (found != nullptr && !found->is_string && hlo_text::ParseInt64(lex.token().text, &number)) {
      writer.add_int32(found->field, static_cast<int32_t>(number));
      lex.Next();
    } else {
      lex.Next();
    }
    lex.Accept(',');
  }
}

std::string FrontendAttributesText(Reader reader) {
  std::string out;
  while (reader.next()) {
    if (reader.tag() != 1) {
      reader.skip();
      continue;
    }
    std::string_view key, value;
    Reader entry = Message(reader);
    while (entry.next()) {
      if (entry.tag() == 1) key = Bytes(entry);
      else if (entry.tag() == 2) value = Bytes(entry);
      else entry.skip();
    }
    out += out.empty() ? "" : ",";
    out += hlo_text::FrontendAttribute(key, value);
  }
  return out;
}

void WriteFrontendAttributes(Writer writer, std::string_view text) {
  for (const auto& [key, value] : hlo_text::FrontendAttributesIn(text)) {
    Writer entry(writer, 1);
    WriteString(entry, 1, key);
    WriteString(entry, 2, value);
  }
}

}  // namespace krafla::hlo_proto
