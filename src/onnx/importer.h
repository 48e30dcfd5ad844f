// SPDX-License-Identifier: Apache-2.0
// From a graph of ONNX to calls of XlaBuilder. A node whose inputs are known and small is computed at once by the
// evaluator, from the same HLO that it would become: so shape arithmetic leaves nothing in the program, and no operator
// needs a second implementation.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "krafla/onnx.h"
#include "onnx/call.h"
#include "onnx/run_time_sizes.h"

namespace krafla::onnx {

// The values of a graph; those of the graphs around it are seen, too.
struct Scope {
  XlaBuilder* builder = nullptr;
  const Scope* parent = nullptr;
  std::map<std::string, Value, std::less<>> values;
  const OpsetMap* opsets = nullptr;
  int depth = 0;
};

// Of operators with graphs (ops_control.cpp): the graph of an attribute, and a scope for its values.
const Graph& GraphOf(const Call& c, std::string_view name);
bool IsTrue(const Value& value);  // known to be
Scope Inside(Call& c, XlaBuilder* builder);

class Importer {
 public:
  Importer(const Model& model, const OnnxOptions& options) : model_(model), options_(options) {}

  Result<OnnxModel> Import();
  const std::vector<OnnxUnsupported>& unsupported() const { return unsupported_; }

  // --- for the operators of control flow ---
  // The nodes of a graph, with its inputs already in `scope`. Throws where a node is refused.
  std::vector<Value> EmitGraph(const Graph& graph, Scope& scope);
  static const Value* FindValue(const Scope& scope, std::string_view name);
  // A value as an op of the scope's builder.
  static XlaOp Materialize(XlaBuilder* builder, const Value& value);
  // Names that the graph takes from around it and that are ops there.
  static std::vector<std::string> Captured(const Graph& graph, const Scope& scope);
  Value FromTensor(const Tensor& tensor) const;
  // The results of an operator on values, computed at once where they are known.
  std::vector<Value> RunOperator(const Node& node, int64_t opset, Outputs (*function)(Call&), OperandSizes takes,
                                 const std::vector<const Value*>& inputs, Scope& scope);
  // Another form of a loop is tried: what was refused in the first does not count.
  void ForgetSince(std::size_t count) { unsupported_.resize(count); }

 private:
  Result<> AddInputs(Scope& scope);
  static Result<Value> KnownInput(const ValueInfo& info, const Literal& given);
  const std::vector<int64_t>* GivenShape(const std::string& name, std::size_t number) const;
  Result<Shape> ShapeOfInput(const ValueInfo& info, std::size_t number, std::vector<std::string>& missing) const;
  void EmitNodes(const std::vector<Node>& nodes, Scope& scope, bool is_main);
  void EmitNode(const Node& node, Scope& scope);
  std::vector<Value> RunOnValues(const Node& node, int64_t opset, std::vector<Value> (*function)(Call&),
                                 const std::vector<const Value*>& inputs, Scope& scope);
  // What the node would make was refused.
  static void Fail(const Node& node, Scope& scope);
  void EmitFunction(const Function& function, const Node& node, Scope& scope);
  Result<OnnxModel> Finish(Scope& scope);
  Status RefusalOfAll() const;

  const Model& model_;
  const OnnxOptions& options_;
  std::vector<OnnxUnsupported> unsupported_;
  std::vector<std::string> inputs_;
  std::size_t done_ = 0;
  int64_t emitted_ = 0;
};

}  // namespace krafla::onnx
