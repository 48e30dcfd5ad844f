// SPDX-License-Identifier: Apache-2.0
#include "onnx/importer.h"

#include <algorithm>

#include "base/checked_math.h"
#include "evaluator/evaluator.h"
#include "ir/module.h"
#include "onnx/moving_parts.h"

namespace krafla::onnx {
namespace {

// What is computed while importing: shape arithmetic is far below, weights are above and stay in the program, where the
// passes see them.
constexpr int64_t kFoldedElements = 1 << 16;
// What is computed of these, as the filters that front ends of audio make of ranges, may grow.
constexpr int64_t kComputedElements = kFoldedElements * Call::kGrowth;
constexpr int64_t kFoldedWork = 50'000'000;
// Nodes that a small file may unfold to, by loops and functions that call each other, and elements of sequences.
constexpr int64_t kMaxNodes = 1'000'000;
constexpr int kMaxScopes = 64;

struct OpRow {
  std::string_view domain, name;
  int64_t first, last;
  Outputs (*function)(Call&);
  std::vector<Value> (*of_values)(Call&);  // in its place
  OperandSizes sizes;
};
constexpr int64_t kNewest = 1000;
using enum OperandSizes;
const OpRow kOps[] = {
#define KRAFLA_ONNX_OP(domain, op, first, last, function, sizes) {domain, #op, first, last, function, nullptr, sizes},
#define KRAFLA_ONNX_VALUE_OP(domain, op, first, last, function, sizes) \
  {domain, #op, first, last, nullptr, function, sizes},
#include "onnx/onnx_ops.def"
#undef KRAFLA_ONNX_OP
#undef KRAFLA_ONNX_VALUE_OP
};

const OpRow* FindOp(std::string_view domain, std::string_view name, int64_t opset, std::string& why) {
  why.clear();
  for (const OpRow& row : kOps) {
    if (row.name != name || row.domain != domain) continue;
    if (opset >= row.first && opset <= row.last) return &row;
    why = row.last == kNewest ? Format("It is supported since opset {}.", row.first)
                              : Format("It is supported in opsets {} to {}.", row.first, row.last);
  }
  if (why.empty()) why = "The operator is not supported.";
  return nullptr;
}

std::string FullName(const Node& node) { return node.domain.empty() ? node.op_type : node.domain + "." + node.op_type; }

bool IsSmall(const Shape& shape) { return shape.element_count() <= kComputedElements; }

}  // namespace

const Value* Importer::FindValue(const Scope& scope, std::string_view name) {
  for (const Scope* s = &scope; s != nullptr; s = s->parent)
    if (auto found = s->values.find(name); found != s->values.end()) return &found->second;
  return nullptr;
}

XlaOp Importer::Materialize(XlaBuilder* builder, const Value& value) {
  if (value.elements != nullptr) Refuse("A sequence is given where a tensor is taken.");
  if (value.literal != nullptr) return ConstantLiteral(builder, value.literal);
  if (value.op.builder() != builder) Refuse("A value of another graph was not passed in.");
  return value.op;
}

Value Importer::FromTensor(const Tensor& tensor) const { return OfLiteral(ToLiteral(tensor, options_.folder)); }

namespace {
void CollectUses(const Graph& graph, std::set<std::string> known, std::vector<std::string>& out) {
  for (const ValueInfo& input : graph.inputs) known.insert(input.name);
  for (const Tensor& tensor : graph.initializers) known.insert(tensor.name);
  for (const Node& node : graph.nodes) {
    for (const std::string& input : node.inputs)
      if (!input.empty() && !known.contains(input)) out.push_back(input);
    for (const Attribute& attribute : node.attributes)
      if (attribute.g != nullptr) CollectUses(*attribute.g, known, out);
    known.insert(node.outputs.begin(), node.outputs.end());
  }
  for (const ValueInfo& output : graph.outputs)
    if (!known.contains(output.name)) out.push_back(output.name);
}
}  // namespace

std::vector<std::string> Importer::Captured(const Graph& graph, const Scope& scope) {
  std::vector<std::string> uses, out;
  CollectUses(graph, {}, uses);
  std::set<std::string> seen;
  for (std::string& name : uses)
    if (const Value* value = FindValue(scope, name);
        value != nullptr && value->literal == nullptr && !value->failed && seen.insert(name).second)
      out.push_back(std::move(name));
  return out;
}

std::vector<Value> Importer::EmitGraph(const Graph& graph, Scope& scope) {
  if (scope.depth > kMaxScopes) Refuse("Graphs and functions are nested more than {} deep.", kMaxScopes);
  for (const Tensor& tensor : graph.initializers)
    if (!scope.values.contains(tensor.name)) scope.values[tensor.name] = FromTensor(tensor);
  const std::size_t before = unsupported_.size();
  EmitNodes(graph.nodes, scope, false);
  if (unsupported_.size() > before) Refuse("A node of its graph '{}' is not supported.", graph.name);
  std::vector<Value> out;
  for (const ValueInfo& output : graph.outputs) {
    const Value* value = FindValue(scope, output.name);
    if (value == nullptr) Reject("The result '{}' of the graph '{}' is made by no node.", output.name, graph.name);
    if (value->failed) Refuse("What makes '{}' is not supported.", output.name);
    out.push_back(*value);
  }
  return out;
}

namespace {
// The results of a node that asks for known values only, or nothing where it asks for others, or for too much.
std::optional<std::vector<Value>> ComputeAtOnce(Call& call, XlaBuilder& aside, Outputs (*function)(Call&)) {
  Outputs ops;
  try {
    ops = function(call);
  } catch (const NotKnown&) { return std::nullopt; }
  if (!aside.errors().empty()) throw Refusal{aside.errors()[0]};
  std::vector<Value> out(ops.size());
  Outputs made;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].IsUninitialized()) continue;
    out[i].shape = ShapeOf(ops[i]);
    if (!IsSmall(out[i].shape)) return std::nullopt;
    made.push_back(ops[i]);
  }
  const XlaComputation computation = Need(aside.Build(Tuple(&aside, made)));
  auto results = Evaluate(*computation.module()->entry(), {}, {.work_limit = kFoldedWork});
  if (!results) return std::nullopt;
  std::size_t next = 0;
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (!ops[i].IsUninitialized()) {
      out[i].literal = std::make_shared<Literal>(std::move(results->elements()[next++]));
      out[i].shape = out[i].literal->shape();  // sizes that the values decide are known now
      out[i].is_computed = call.node.op_type != "Constant";
    }
  return out;
}
}  // namespace

std::vector<Value> Importer::RunOperator(const Node& node, int64_t opset, Outputs (*function)(Call&),
                                         OperandSizes takes, const std::vector<const Value*>& inputs, Scope& scope) {
  if (std::ranges::none_of(node.attributes, [](const Attribute& a) { return a.g != nullptr; })) {
    XlaBuilder aside("fold");
    Call call(*this, scope, node, opset, &aside, inputs, kFoldedElements);
    if (auto out = ComputeAtOnce(call, aside, function)) return std::move(*out);
  }
  const std::size_t errors = scope.builder->errors().size();
  std::vector<const Value*> given = inputs;
  Value images;
  XlaOp count;
  if (CountsRows(node, opset, takes, inputs)) {
    count = GetDimensionSize(inputs[0]->op, 0);
    images.op = RemoveDynamicDimension(inputs[0]->op, 0);
    images.shape = ShapeOf(images.op);
    given[0] = &images;
  }
  Call call(*this, scope, node, opset, scope.builder, given, -1);
  Outputs ops = function(call);
  if (!count.IsUninitialized())
    for (XlaOp& op : ops)
      if (!op.IsUninitialized()) op = SetDimensionSize(op, count, 0);
  if (scope.builder->errors().size() > errors) throw Refusal{scope.builder->errors()[errors]};
  std::vector<Value> out(ops.size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (!ops[i].IsUninitialized()) out[i] = OfOp(ops[i]);
  }
  const FoldedNode fold = [&](const std::vector<const Value*>& with) {
    XlaBuilder aside("bound");
    Call bound(*this, scope, node, opset, &aside, with, kFoldedElements);
    return ComputeAtOnce(bound, aside, function);
  };
  if (out.empty()) return out;
  BoundResult(node, inputs, fold, out[0]);
  RelateResult(node, inputs, out[0]);
  return out;
}

std::vector<Value> Importer::RunOnValues(const Node& node, int64_t opset, std::vector<Value> (*function)(Call&),
                                         const std::vector<const Value*>& inputs, Scope& scope) {
  const std::size_t errors = scope.builder->errors().size();
  Call call(*this, scope, node, opset, scope.builder, inputs, -1);
  std::vector<Value> out = function(call);
  if (scope.builder->errors().size() > errors) throw Refusal{scope.builder->errors()[errors]};
  // A sequence holds its elements once more.
  for (const Value& value : out)
    if (value.elements != nullptr) emitted_ += static_cast<int64_t>(value.elements->size());
  return out;
}

namespace {

// Puts the attributes of a function's call, or else the function's, where nodes refer to them, in branches and loops
// too. Where there is none, the operator's own holds.
void SetAttributes(std::vector<Node>& nodes, std::span<const Attribute> given, std::span<const Attribute> defaults) {
  const auto find = [](std::span<const Attribute> among, const std::string& name) -> const Attribute* {
    const auto found = std::ranges::find(among, name, &Attribute::name);
    return found == among.end() ? nullptr : &*found;
  };
  for (Node& node : nodes) {
    std::vector<Attribute> attributes;
    for (Attribute& a : node.attributes) {
      if (a.g != nullptr) {
        Graph graph = *a.g;
        SetAttributes(graph.nodes, given, defaults);
        a.g = std::make_shared<const Graph>(std::move(graph));
      }
      if (a.ref_name.empty()) {
        attributes.push_back(std::move(a));
        continue;
      }
      const Attribute* of = find(given, a.ref_name);
      if (of == nullptr) of = find(defaults, a.ref_name);
      if (of == nullptr) continue;
      attributes.push_back(*of);
      attributes.back().name = a.name;
    }
    node.attributes = std::move(attributes);
  }
}

}  // namespace

void Importer::EmitFunction(const Function& function, const Node& node, Scope& scope) {
  if (scope.depth > kMaxScopes) Refuse("Functions are nested more than {} deep.", kMaxScopes);
  Scope inner{
      .builder = scope.builder, .parent = nullptr, .values = {}, .opsets = &function.opsets, .depth = scope.depth + 1};
  for (std::size_t i = 0; i < function.inputs.size(); ++i)
    if (i < node.inputs.size() && !node.inputs[i].empty())
      if (const Value* value = FindValue(scope, node.inputs[i])) inner.values[function.inputs[i]] = *value;
  std::vector<Node> nodes = function.nodes;
  SetAttributes(nodes, node.attributes, function.defaults);
  const std::size_t before = unsupported_.size();
  EmitNodes(nodes, inner, false);
  if (unsupported_.size() > before) Refuse("A node of the function '{}' is not supported.", function.name);
  for (std::size_t i = 0; i < function.outputs.size() && i < node.outputs.size(); ++i) {
    const Value* value = FindValue(inner, function.outputs[i]);
    if (value == nullptr)
      Reject("The function '{}' does not make its result '{}'.", function.name, function.outputs[i]);
    scope.values[node.outputs[i]] = *value;
  }
}

void Importer::Fail(const Node& node, Scope& scope) {
  for (const std::string& output : node.outputs)
    if (!output.empty()) (scope.values[output] = Value()).failed = true;
}

namespace {
std::shared_ptr<const Dequantised> OperandsOfDequantize(const Node& node, const std::vector<const Value*>& inputs) {
  const auto number = [&](std::string_view name, int64_t otherwise) {
    const auto found = std::ranges::find(node.attributes, name, &Attribute::name);
    return found != node.attributes.end() ? found->i : otherwise;
  };
  if (number("block_size", 0) != 0 || inputs.size() < 2 || inputs[0] == nullptr || inputs[1] == nullptr) return nullptr;
  Dequantised out{.value = *inputs[0], .scale = *inputs[1], .zero = std::nullopt, .axis = number("axis", 1)};
  if (inputs.size() > 2 && inputs[2] != nullptr) out.zero = *inputs[2];
  return std::make_shared<const Dequantised>(std::move(out));
}

// The order in which each node follows what makes its inputs, as near to the given order as can be. Empty where that is
// the given order, as ONNX asks for; converters to f16 write others, which ONNX Runtime takes.
std::vector<std::size_t> OrderOf(const std::vector<Node>& nodes) {
  std::map<std::string_view, std::size_t> makers;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (const std::string& output : nodes[i].outputs)
      if (!output.empty()) makers.emplace(output, i);
  std::vector<std::vector<std::size_t>> users(nodes.size());
  std::vector<std::size_t> waits(nodes.size(), 0);
  bool is_ordered = true;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    std::vector<std::string> names = nodes[i].inputs;
    for (const Attribute& attribute : nodes[i].attributes)
      if (attribute.g != nullptr) CollectUses(*attribute.g, {}, names);
    for (const std::string& name : names) {
      const auto maker = makers.find(name);
      if (maker == makers.end()) continue;
      is_ordered = is_ordered && maker->second < i;
      users[maker->second].push_back(i);
      ++waits[i];
    }
  }
  if (is_ordered) return {};
  std::set<std::size_t> ready;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (waits[i] == 0) ready.insert(i);
  std::vector<std::size_t> order;
  while (!ready.empty()) {
    const std::size_t next = *ready.begin();
    ready.erase(ready.begin());
    order.push_back(next);
    for (const std::size_t user : users[next])
      if (--waits[user] == 0) ready.insert(user);
  }
  // What waits for itself comes last, and is refused there.
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (waits[i] != 0) order.push_back(i);
  return order;
}
}  // namespace

void Importer::EmitNode(const Node& node, Scope& scope) {
  if (++emitted_ > kMaxNodes) Refuse("The model unfolds to more than {} nodes and elements of sequences.", kMaxNodes);
  std::vector<const Value*> inputs;
  for (const std::string& name : node.inputs) {
    const Value* value = name.empty() ? nullptr : FindValue(scope, name);
    if (!name.empty() && value == nullptr) {
      // A function's optional input that its caller left out.
      if (scope.depth == 0 || scope.parent != nullptr) Reject("The input '{}' is made by no node before it.", name);
    }
    inputs.push_back(value);
  }
  const auto function = std::ranges::find_if(model_.functions, [&](const Function& f) {
    return f.name == node.op_type && f.domain == node.domain && f.overload == node.overload;
  });
  const bool is_function = function != model_.functions.end();
  auto opset = scope.opsets->find(node.domain);
  const int64_t version = opset != scope.opsets->end() ? opset->second : node.domain.empty() ? 0 : 1;
  if (version == 0 && !is_function) Reject("The model does not say which opset of the operators it uses.");
  std::string why;
  const OpRow* row = is_function ? nullptr : FindOp(node.domain, node.op_type, version, why);
  if (row == nullptr && !is_function) Refuse("{}", why);
  // What failed was told where it did; an operator that is not known is told in any case.
  if (std::ranges::any_of(inputs, [](const Value* value) { return value != nullptr && value->failed; }))
    return Fail(node, scope);
  if (is_function) return EmitFunction(*function, node, scope);
  RefuseRunTimeSizes(node, version, row->sizes, inputs);
  scope.builder->SetOpMetadata({.op_type = FullName(node), .op_name = node.name, .source_file = {}, .source_line = 0});
  if (row->of_values == nullptr)
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i] != nullptr && inputs[i]->elements != nullptr)
        Refuse("Input {} ('{}') is a sequence, which the operator does not take.", i, node.inputs[i]);
  std::vector<Value> results = row->of_values != nullptr
                                   ? RunOnValues(node, version, row->of_values, inputs, scope)
                                   : RunOperator(node, version, row->function, row->sizes, inputs, scope);
  if (node.op_type == "DequantizeLinear" && !results.empty()) results[0].made_of = OperandsOfDequantize(node, inputs);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    const bool is_there = i < results.size() && (results[i].literal != nullptr || results[i].elements != nullptr ||
                                                 !results[i].op.IsUninitialized());
    if (!is_there) Refuse("Its result {} ('{}') is not supported.", i, node.outputs[i]);
    scope.values[node.outputs[i]] = std::move(results[i]);
  }
}

void Importer::EmitNodes(const std::vector<Node>& nodes, Scope& scope, bool is_main) {
  const std::vector<std::size_t> order = OrderOf(nodes);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[order.empty() ? i : order[i]];
    std::optional<Status> failure;
    try {
      EmitNode(node, scope);
    } catch (const Refusal& refusal) { failure = refusal.status; }
    if (failure) {
      auto opset = scope.opsets->find(node.domain);
      std::string name = node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name;
      unsupported_.push_back(
          {std::move(name), FullName(node), failure->message(), opset != scope.opsets->end() ? opset->second : 0});
      Fail(node, scope);
    }
    if (is_main && options_.progress) options_.progress(++done_, nodes.size());
  }
}

// By the input's name, or by its number where no input is called so.
const std::vector<int64_t>* Importer::GivenShape(const std::string& name, std::size_t number) const {
  if (auto given = options_.shapes.find(name); given != options_.shapes.end()) return &given->second;
  const auto given = options_.shapes.find(std::to_string(number));
  if (given == options_.shapes.end() ||
      std::ranges::any_of(model_.graph.inputs, [&](const ValueInfo& i) { return i.name == given->first; }))
    return nullptr;
  return &given->second;
}

Result<Shape> Importer::ShapeOfInput(const ValueInfo& info, std::size_t number,
                                     std::vector<std::string>& missing) const {
  if (!info.other.empty())
    return Unimplemented("The input '{}' is {}; only tensors are supported.", info.name, info.other);
  const ElementType type = ToElementType(info.type);
  if (type == ElementType::kInvalid)
    return Unimplemented("The input '{}' is of {}, which HLO does not have.", info.name, TypeName(info.type));
  std::vector<int64_t> dims;
  if (const std::vector<int64_t>* given = GivenShape(info.name, number)) {
    dims = *given;
    if (info.has_dims && dims.size() != info.dims.size())
      return InvalidArgument("The input '{}' has {} dimensions; the given shape has {}.", info.name, info.dims.size(),
                             dims.size());
    for (std::size_t i = 0; i < info.dims.size(); ++i)
      if (info.dims[i].value >= 0 && info.dims[i].name.empty() && info.dims[i].value != dims[i])
        return InvalidArgument("Dimension {} of the input '{}' is {} in the model; the given shape has {}.", i,
                               info.name, info.dims[i].value, dims[i]);
    return Shape::MakeArray(type, dims);
  }
  std::string text;
  bool is_open = !info.has_dims;
  for (const Dimension& d : info.dims) {
    auto named = options_.dimensions.find(d.name);
    const int64_t size = !d.name.empty() && named != options_.dimensions.end() ? named->second : d.value;
    is_open |= size < 0;
    dims.push_back(size);
    text += (text.empty() ? "" : ",") + (size >= 0 ? std::to_string(size) : d.name.empty() ? "?" : d.name);
  }
  if (!is_open) return Shape::MakeArray(type, dims);
  missing.push_back(info.has_dims ? Format("{}={}", info.name, text) : Format("{}=(of unknown rank)", info.name));
  return Shape::MakeScalar(type);
}

// The given value as the model has it: in its type, and where the number of elements fits in its shape.
Result<Value> Importer::KnownInput(const ValueInfo& info, const Literal& given) {
  const ElementType type = ToElementType(info.type);
  if (type == ElementType::kInvalid || !given.shape().IsArray())
    return Unimplemented("The input '{}' is of {}, which HLO does not have.", info.name, TypeName(info.type));
  std::vector<int64_t> dims(given.shape().dims().begin(), given.shape().dims().end()), fixed;
  for (const Dimension& d : info.dims) fixed.push_back(d.value);
  int64_t count = 1;
  for (int64_t d : fixed) count = d < 0 ? -1 : CheckedMul(count, d).value_or(-1);
  if (info.has_dims && count == given.shape().element_count()) dims = fixed;
  XlaBuilder b("value");
  Reshape(ConvertElementType(ConstantLiteral(&b, given), type), dims);
  KRAFLA_ASSIGN(const XlaComputation computation, b.Build());
  KRAFLA_ASSIGN(Literal literal, Evaluate(*computation.module()->entry(), {}));
  return OfLiteral(std::move(literal));
}

Result<> Importer::AddInputs(Scope& scope) {
  std::vector<std::string> missing;
  std::vector<std::pair<std::string, Shape>> parameters;
  for (const ValueInfo* given : GivenInputs(model_.graph)) {
    const ValueInfo& info = *given;
    if (auto known = options_.constants.find(info.name); known != options_.constants.end()) {
      KRAFLA_ASSIGN(Value value, KnownInput(info, known->second));
      scope.values[info.name] = std::move(value);
      continue;
    }
    KRAFLA_ASSIGN(Shape shape, ShapeOfInput(info, parameters.size(), missing));
    parameters.emplace_back(info.name, std::move(shape));
  }
  for (const auto& [name, shape] : options_.shapes) {
    bool is_input = false;
    for (std::size_t p = 0; p < parameters.size(); ++p) is_input |= GivenShape(parameters[p].first, p) == &shape;
    if (!is_input) return InvalidArgument("A shape is given for '{}', which is no input of the model.", name);
  }
  for (const auto& [name, value] : options_.constants)
    if (std::ranges::none_of(model_.graph.inputs, [&](const ValueInfo& i) { return i.name == name; }))
      return InvalidArgument("A value is given for '{}', which is no input of the model.", name);
  if (!missing.empty()) {
    std::string list;
    for (const std::string& one : missing) list += (list.empty() ? "" : " ") + one;
    return InvalidArgument(
        "The model leaves dimensions of its inputs open: {}. Give the shape of each of them (--shape NAME=SIZES), with "
        "a number for every name and every '?'.",
        list);
  }
  for (auto& [name, shape] : parameters) {
    Value value;
    value.shape = shape;
    value.op = Parameter(scope.builder, static_cast<int64_t>(inputs_.size()), shape, name);
    scope.values.emplace(name, std::move(value));
    inputs_.push_back(name);
  }
  return {};
}

Status Importer::RefusalOfAll() const {
  std::string text = Format("{} node{} of the model {} not supported:", unsupported_.size(),
                            unsupported_.size() == 1 ? "" : "s", unsupported_.size() == 1 ? "is" : "are");
  constexpr std::size_t kShown = 100;
  for (std::size_t i = 0; i < unsupported_.size() && i < kShown; ++i) {
    const OnnxUnsupported& one = unsupported_[i];
    text += Format("\n  '{}' ({}, opset {}): {}", one.node, one.op, one.opset, one.reason);
  }
  if (unsupported_.size() > kShown) text += Format("\n  and {} more.", unsupported_.size() - kShown);
  return Status(StatusCode::kUnimplemented, std::move(text));
}

namespace {
// In the form of HLO text's frontend_attributes, where a name may hold anything.
std::string Quoted(const std::vector<std::string>& names) {
  std::string out = "{krafla.result_names=\"";
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += ",";
    for (char c : names[i])
      if (c != '"' && c != '\\' && c != ',' && static_cast<unsigned char>(c) >= 32) out += c;
      else out += '_';
  }
  return out + "\"}";
}
}  // namespace

Result<OnnxModel> Importer::Finish(Scope& scope) {
  if (!unsupported_.empty()) return Failure(RefusalOfAll());
  OnnxModel out;
  Outputs results;
  for (const ValueInfo& output : model_.graph.outputs) {
    const Value* value = FindValue(scope, output.name);
    if (value == nullptr) return InvalidArgument("The model's result '{}' is made by no node.", output.name);
    if (output.type != 0 && value->elements == nullptr && ToElementType(output.type) != value->shape.element_type())
      return InvalidArgument("The model's result '{}' is said to be of {}, and is {}.", output.name,
                             TypeName(output.type), value->shape.ToString(false));
    results.push_back(Materialize(scope.builder, *value));
    out.outputs.push_back(output.name);
  }
  KRAFLA_ASSIGN(const XlaComputation built, scope.builder->Build(Tuple(scope.builder, results)));
  std::shared_ptr<Module> module = built.module()->Clone();
  module->other_attributes.emplace_back("frontend_attributes", Quoted(out.outputs));
  out.computation = XlaComputation(std::move(module));
  out.inputs = inputs_;
  return out;
}

Result<OnnxModel> Importer::Import() {
  if (model_.graph.has_sparse_initializers)
    return Unimplemented("The model has sparse weights, which are not supported.");
  XlaBuilder builder(model_.graph.name.empty() ? "onnx" : model_.graph.name);
  Scope scope{.builder = &builder, .parent = nullptr, .values = {}, .opsets = &model_.opsets, .depth = 0};
  KRAFLA_TRY(AddInputs(scope));
  try {
    for (const Tensor& tensor : model_.graph.initializers) scope.values[tensor.name] = FromTensor(tensor);
    EmitNodes(model_.graph.nodes, scope, true);
    return Finish(scope);
  } catch (const Refusal& refusal) { return Failure(refusal.status); }
}

}  // namespace krafla::onnx
