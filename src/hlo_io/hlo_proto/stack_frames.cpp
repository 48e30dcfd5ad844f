// SPDX-License-Identifier: Apache-2.0
#include "hlo_io/hlo_proto/stack_frames.h"

#include "hlo_io/hlo_text/lexer.h"

namespace krafla::hlo_proto {
namespace {

struct TableField {
  uint32_t field;
  std::string_view name;
};
constexpr TableField kLocationFields[] = {{1, "file_name_id"}, {2, "function_name_id"}, {3, "line"},
                                          {5, "end_line"},     {4, "column"},           {6, "end_column"}};
constexpr TableField kFrameFields[] = {{1, "file_location_id"}, {2, "parent_frame_id"}};

template <std::size_t N>
std::string Entry(Reader reader, const TableField (&fields)[N]) {
  int64_t values[N] = {};
  while (reader.next()) {
    bool known = false;
    for (std::size_t i = 0; i < N && !known; ++i)
      if (fields[i].field == reader.tag()) {
        values[i] = Int(reader);
        known = true;
      }
    if (!known) reader.skip();
  }
  std::string out = "{";
  for (std::size_t i = 0; i < N; ++i) out += Format("{}{}={}", i > 0 ? " " : "", fields[i].name, values[i]);
  return out + "}";
}

template <std::size_t N>
void WriteEntry(Writer writer, hlo_text::Lexer& lex, const TableField (&fields)[N]) {
  lex.Accept('{');
  while (lex.token().kind == hlo_text::Tok::kWord) {
    std::string_view name = lex.Next().text;
    int64_t value = 0;
    if (!lex.Accept('=') || !hlo_text::ParseInt64(lex.token().text, &value)) break;
    lex.Next();
    for (const TableField& f : fields)
      if (f.name == name) WriteInt(writer, f.field, value);
  }
  lex.Accept('}');
}

}  // namespace

Tables StackFrameTables(Reader reader) {
  constexpr std::string_view kTitles[] = {"FileNames", "FunctionNames", "FileLocations", "StackFrames"};
  std::string lines[4];
  int count[4] = {};
  while (reader.next()) {
    const uint32_t tag = reader.tag();
    if (tag < 1 || tag > 4) {
      reader.skip();
      continue;
    }
    std::string value;
    if (tag <= 2) value = "\"" + hlo_text::Escape(Bytes(reader)) + "\"";
    else value = tag == 3 ? Entry(Message(reader), kLocationFields) : Entry(Message(reader), kFrameFields);
    lines[tag - 1] += Format("{}{} {}", count[tag - 1] > 0 ? "\n" : "", count[tag - 1] + 1, value);
    ++count[tag - 1];
  }
  Tables out;
  for (std::size_t i = 0; i < 4; ++i)
    if (count[0] + count[1] + count[2] + count[3] > 0) out.emplace_back(std::string(kTitles[i]), std::move(lines[i]));
  return out;
}

void WriteStackFrames(Writer& module, uint32_t field, const Tables& tables) {
  auto find = [&](std::string_view title) {
    for (const auto& [key, lines] : tables)
      if (key == title) return std::string_view(lines);
    return std::string_view();
  };
  if (find("FileNames").empty() && find("StackFrames").empty()) return;
  Writer index(module, field);
  uint32_t tag = 1;
  for (std::string_view title : {"FileNames", "FunctionNames", "FileLocations", "StackFrames"}) {
    hlo_text::Lexer lex(find(title), title);
    while (lex.token().kind == hlo_text::Tok::kNumber) {
      lex.Next();
      if (tag <= 2) index.add_string(tag, hlo_text::Unescape(lex.Next().text));
      else if (tag == 3) WriteEntry(Writer(index, tag), lex, kLocationFields);
      else WriteEntry(Writer(index, tag), lex, kFrameFields);
    }
    ++tag;
  }
}

}  // namespace krafla::hlo_proto
