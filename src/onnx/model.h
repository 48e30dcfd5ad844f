// SPDX-License-Identifier: Apache-2.0
// The messages of onnx.proto that the importer reads, as plain structs. Bytes of tensors point into the model.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "krafla/literal.h"
#include "krafla/status.h"

namespace krafla::onnx {

struct Graph;

struct Tensor {
  std::string name;
  int64_t type = 0;  // TensorProto.DataType
  std::vector<int64_t> dims;
  std::string_view raw;
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<int64_t> ints;  // int32_data, int64_data and uint64_data
  std::map<std::string, std::string> external;
  bool is_external = false, is_segment = false;
};

// AttributeProto.AttributeType; files of the first versions do not say it.
enum class AttributeType : int64_t { kNone, kFloat, kInt, kString, kTensor, kGraph, kFloats, kInts, kStrings };
std::string_view Name(AttributeType type);

struct Attribute {
  std::string name, ref_name;
  AttributeType type = AttributeType::kNone;
  int64_t i = 0;
  float f = 0;
  std::string s;
  std::shared_ptr<const Tensor> t;
  std::shared_ptr<const Graph> g;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  bool has_unread = false;  // lists of tensors or graphs, sparse tensors, types
};

struct Node {
  std::string name, op_type, domain, overload;
  std::vector<std::string> inputs, outputs;
  std::vector<Attribute> attributes;
};

struct Dimension {
  int64_t value = -1;  // -1: not given
  std::string name;
};
struct ValueInfo {
  std::string name;
  int64_t type = 0;   // of a tensor's elements
  std::string other;  // "a sequence", "a map", ...: what it is instead of a tensor
  bool has_dims = false;
  std::vector<Dimension> dims;
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;
  std::vector<Tensor> initializers;
  std::vector<ValueInfo> inputs, outputs;
  bool has_sparse_initializers = false;
};

// But those that have a default, which is an initializer.
std::vector<const ValueInfo*> GivenInputs(const Graph& graph);

using OpsetMap = std::map<std::string, int64_t>;  // the domain of ONNX itself is ""

struct Function {
  std::string name, domain, overload;  // which together are its name
  std::vector<std::string> inputs, outputs;
  std::vector<Attribute> defaults;
  std::vector<Node> nodes;
  OpsetMap opsets;
};

struct Model {
  OpsetMap opsets;
  Graph graph;
  std::vector<Function> functions;
  bool has_graph = false;
};

// Errors: bytes that are no ModelProto, graphs nested more than 32 deep. `bytes` must outlive the model.
Result<Model> ReadModel(std::string_view bytes);

// "FLOAT" for 1; "type 77" for what is none.
std::string TypeName(int64_t onnx_type);
// kInvalid for what HLO has not.
ElementType ToElementType(int64_t onnx_type);
// The value of a tensor. `folder`: where external data lies; empty: nowhere.
Result<Literal> ToLiteral(const Tensor& tensor, const std::string& folder);

}  // namespace krafla::onnx
