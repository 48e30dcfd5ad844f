// SPDX-License-Identifier: Apache-2.0
// Reading fields with their wire type checked. protozero checks bounds and throws; only the functions of hlo_proto.h
// catch, so nothing thrown leaves this folder.
#pragma once

#include <cstring>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "krafla/inline_vector.h"
#include "krafla/status.h"

namespace krafla::hlo_proto {

using Reader = protozero::pbf_reader;
using Writer = protozero::pbf_writer;

// The field of the current tag has a wire type that its declared type does not.
inline void Want(const Reader& reader, protozero::pbf_wire_type type) {
  if (reader.wire_type() != type) throw protozero::unknown_pbf_wire_type_exception{};
}
inline int64_t Int(Reader& reader) {
  Want(reader, protozero::pbf_wire_type::varint);
  return reader.get_int64();
}
inline int32_t Int32(Reader& reader) { return static_cast<int32_t>(Int(reader)); }
inline bool Bool(Reader& reader) { return Int(reader) != 0; }
inline float Float(Reader& reader) {
  Want(reader, protozero::pbf_wire_type::fixed32);
  return reader.get_float();
}
inline double Double(Reader& reader) {
  Want(reader, protozero::pbf_wire_type::fixed64);
  return reader.get_double();
}
inline std::string_view Bytes(Reader& reader) {
  Want(reader, protozero::pbf_wire_type::length_delimited);
  protozero::data_view view = reader.get_view();
  return {view.data(), view.size()};
}
inline Reader Message(Reader& reader) {
  Want(reader, protozero::pbf_wire_type::length_delimited);
  return reader.get_message();
}
// A repeated integer, packed or one at a time.
template <typename List>
void AppendInts(Reader& reader, List& out) {
  using T = typename List::value_type;
  if (reader.wire_type() == protozero::pbf_wire_type::varint) {
    out.push_back(static_cast<T>(reader.get_int64()));
    return;
  }
  Want(reader, protozero::pbf_wire_type::length_delimited);
  for (int64_t value : reader.get_packed_int64()) out.push_back(static_cast<T>(value));
}

template <typename List>
void WriteInts(Writer& writer, uint32_t field, const List& list) {
  writer.add_packed_int64(field, list.begin(), list.end());
}
// proto3 leaves defaults out.
inline void WriteInt(Writer& writer, uint32_t field, int64_t value) {
  if (value != 0) writer.add_int64(field, value);
}
inline void WriteBool(Writer& writer, uint32_t field, bool value) {
  if (value) writer.add_bool(field, true);
}
inline void WriteString(Writer& writer, uint32_t field, std::string_view value) {
  if (!value.empty()) writer.add_string(field, value.data(), value.size());
}

}  // namespace krafla::hlo_proto
