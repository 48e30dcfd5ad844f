// SPDX-License-Identifier: Apache-2.0
// ModelProto by protozero, which checks bounds and throws; ReadModel catches. Field numbers: onnx/onnx.proto.
#include "onnx/model.h"

#include <exception>
#include <protozero/pbf_reader.hpp>
#include <set>

namespace krafla::onnx {
namespace {

using Reader = protozero::pbf_reader;
using protozero::pbf_wire_type;
constexpr int kMaxDepth = 32;

struct TooDeep : std::exception {};

void Want(const Reader& r, pbf_wire_type type) {
  if (r.wire_type() != type) throw protozero::unknown_pbf_wire_type_exception{};
}
int64_t Int(Reader& r) {
  Want(r, pbf_wire_type::varint);
  return r.get_int64();
}
std::string_view View(Reader& r) {
  Want(r, pbf_wire_type::length_delimited);
  const protozero::data_view view = r.get_view();
  return {view.data(), view.size()};
}
std::string Text(Reader& r) { return std::string(View(r)); }
Reader Sub(Reader& r) {
  Want(r, pbf_wire_type::length_delimited);
  return r.get_message();
}
void AppendInts(Reader& r, std::vector<int64_t>& out) {
  if (r.wire_type() == pbf_wire_type::varint) return out.push_back(r.get_int64());
  Want(r, pbf_wire_type::length_delimited);
  for (int64_t value : r.get_packed_int64()) out.push_back(value);
}
void AppendFloats(Reader& r, std::vector<float>& out) {
  if (r.wire_type() == pbf_wire_type::fixed32) return out.push_back(r.get_float());
  Want(r, pbf_wire_type::length_delimited);
  for (float value : r.get_packed_float()) out.push_back(value);
}
void AppendDoubles(Reader& r, std::vector<double>& out) {
  if (r.wire_type() == pbf_wire_type::fixed64) return out.push_back(r.get_double());
  Want(r, pbf_wire_type::length_delimited);
  for (double value : r.get_packed_double()) out.push_back(value);
}
std::pair<std::string, std::string> Entry(Reader r) {
  std::pair<std::string, std::string> out;
  while (r.next()) {
    if (r.tag() == 1) out.first = Text(r);
    else if (r.tag() == 2) out.second = Text(r);
    else r.skip();
  }
  return out;
}

Tensor ReadTensor(Reader r) {
  Tensor out;
  while (r.next()) switch (r.tag()) {
      case 1: AppendInts(r, out.dims); break;
      case 2: out.type = Int(r); break;
      case 3: out.is_segment = true, r.skip(); break;
      case 4: AppendFloats(r, out.floats); break;
      case 5:
      case 7:
      case 11: AppendInts(r, out.ints); break;
      case 8: out.name = Text(r); break;
      case 9: out.raw = View(r); break;
      case 10: AppendDoubles(r, out.doubles); break;
      case 13: out.external.insert(Entry(Sub(r))); break;
      case 14: out.is_external = Int(r) == 1; break;
      default: r.skip();
    }
  return out;
}

Graph ReadGraph(Reader r, int depth);

Attribute ReadAttribute(Reader r, int depth) {
  Attribute out;
  while (r.next()) switch (r.tag()) {
      case 1: out.name = Text(r); break;
      case 2: Want(r, pbf_wire_type::fixed32), out.f = r.get_float(); break;
      case 3: out.i = Int(r); break;
      case 4: out.s = Text(r); break;
      case 5: out.t = std::make_shared<Tensor>(ReadTensor(Sub(r))); break;
      case 6: out.g = std::make_shared<Graph>(ReadGraph(Sub(r), depth + 1)); break;
      case 7: AppendFloats(r, out.floats); break;
      case 8: AppendInts(r, out.ints); break;
      case 9: out.strings.push_back(Text(r)); break;
      case 10:
      case 11:
      case 14:
      case 15:
      case 22:
      case 23: out.has_unread = true, r.skip(); break;
      case 20: out.type = static_cast<AttributeType>(Int(r)); break;
      case 21: out.ref_name = Text(r); break;
      default: r.skip();
    }
  return out;
}

Node ReadNode(Reader r, int depth) {
  Node out;
  while (r.next()) switch (r.tag()) {
      case 1: out.inputs.push_back(Text(r)); break;
      case 2: out.outputs.push_back(Text(r)); break;
      case 3: out.name = Text(r); break;
      case 4: out.op_type = Text(r); break;
      case 5: out.attributes.push_back(ReadAttribute(Sub(r), depth)); break;
      case 7: out.domain = Text(r); break;
      case 8: out.overload = Text(r); break;
      default: r.skip();
    }
  if (out.domain == "ai.onnx") out.domain.clear();
  return out;
}

void ReadShape(Reader r, ValueInfo& out) {
  out.has_dims = true;
  while (r.next()) {
    if (r.tag() != 1) {
      r.skip();
      continue;
    }
    Reader d = Sub(r);
    Dimension dimension;
    while (d.next()) {
      if (d.tag() == 1) dimension.value = Int(d);
      else if (d.tag() == 2) dimension.name = Text(d);
      else d.skip();
    }
    out.dims.push_back(std::move(dimension));
  }
}

ValueInfo ReadValueInfo(Reader r) {
  ValueInfo out;
  while (r.next()) {
    if (r.tag() == 1) out.name = Text(r);
    else if (r.tag() == 2) {
      Reader type = Sub(r);
      while (type.next()) {
        if (type.tag() == 1) {
          Reader tensor = Sub(type);
          while (tensor.next()) {
            if (tensor.tag() == 1) out.type = Int(tensor);
            else if (tensor.tag() == 2) ReadShape(Sub(tensor), out);
            else tensor.skip();
          }
          continue;
        }
        if (type.tag() == 4) out.other = "a sequence";
        else if (type.tag() == 5) out.other = "a map";
        else if (type.tag() == 8) out.other = "a sparse tensor";
        else if (type.tag() == 9) out.other = "an optional value";
        type.skip();
      }
    } else r.skip();
  }
  return out;
}

Graph ReadGraph(Reader r, int depth) {
  if (depth > kMaxDepth) throw TooDeep{};
  Graph out;
  while (r.next()) switch (r.tag()) {
      case 1: out.nodes.push_back(ReadNode(Sub(r), depth)); break;
      case 2: out.name = Text(r); break;
      case 5: out.initializers.push_back(ReadTensor(Sub(r))); break;
      case 11: out.inputs.push_back(ReadValueInfo(Sub(r))); break;
      case 12: out.outputs.push_back(ReadValueInfo(Sub(r))); break;
      case 15: out.has_sparse_initializers = true, r.skip(); break;
      default: r.skip();
    }
  return out;
}

void ReadOpset(Reader r, OpsetMap& out) {
  std::string domain;
  int64_t version = 0;
  while (r.next()) {
    if (r.tag() == 1) domain = Text(r);
    else if (r.tag() == 2) version = Int(r);
    else r.skip();
  }
  out[domain == "ai.onnx" ? "" : domain] = version;
}

Function ReadFunction(Reader r) {
  Function out;
  while (r.next()) switch (r.tag()) {
      case 1: out.name = Text(r); break;
      case 4: out.inputs.push_back(Text(r)); break;
      case 5: out.outputs.push_back(Text(r)); break;
      case 7: out.nodes.push_back(ReadNode(Sub(r), 0)); break;
      case 9: ReadOpset(Sub(r), out.opsets); break;
      case 10: out.domain = Text(r); break;
      case 11: out.defaults.push_back(ReadAttribute(Sub(r), 0)); break;
      case 13: out.overload = Text(r); break;
      default: r.skip();
    }
  return out;
}

Model ReadMessage(Reader r) {
  Model out;
  while (r.next()) switch (r.tag()) {
      case 7: out.graph = ReadGraph(Sub(r), 0), out.has_graph = true; break;
      case 8: ReadOpset(Sub(r), out.opsets); break;
      case 25: out.functions.push_back(ReadFunction(Sub(r))); break;
      default: r.skip();
    }
  return out;
}

}  // namespace

Result<Model> ReadModel(std::string_view bytes) {
  try {
    Model out = ReadMessage(Reader(bytes.data(), bytes.size()));
    if (!out.has_graph) return InvalidArgument("The ONNX model has no graph.");
    return out;
  } catch (const TooDeep&) {
    return InvalidArgument("The ONNX model nests graphs more than {} deep.", kMaxDepth);
  } catch (const protozero::exception&) {
    return InvalidArgument(
        "The bytes are no ONNX model: a field of its protocol buffer is cut off or has a wrong type.");
  }
}

std::vector<const ValueInfo*> GivenInputs(const Graph& graph) {
  std::set<std::string_view> defaults;
  for (const Tensor& tensor : graph.initializers) defaults.insert(tensor.name);
  std::vector<const ValueInfo*> out;
  for (const ValueInfo& info : graph.inputs)
    if (!defaults.contains(info.name)) out.push_back(&info);
  return out;
}

std::string_view Name(AttributeType type) {
  static constexpr std::string_view kNames[] = {"none",  "float",  "integer",  "string", "tensor",
                                                "graph", "floats", "integers", "strings"};
  const auto i = static_cast<std::size_t>(type);
  return i < std::size(kNames) ? kNames[i] : "of another kind";
}

}  // namespace krafla::onnx
