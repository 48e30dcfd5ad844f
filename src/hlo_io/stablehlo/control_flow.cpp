// SPDX-License-Identifier: Apache-2.0
// Calls, loops and branches. HLO's computations take only their parameters, so values that a region takes from around
// it travel in a tuple with the arguments.
#include <unordered_set>

#include "hlo_io/hlo_text/lexer.h"
#include "hlo_io/stablehlo/converter.h"

namespace krafla::stablehlo {
namespace {

void Collect(const Region& region, std::unordered_set<ValueId>& defined, std::unordered_set<ValueId>& seen,
             std::vector<ValueId>& out) {
  for (ValueId a : region.arguments) defined.insert(a);
  for (const Op& op : region.ops) {
    for (ValueId operand : op.operands)
      if (!defined.contains(operand) && seen.insert(operand).second) out.push_back(operand);
    for (const Region& inner : op.regions) Collect(inner, defined, seen, out);
    for (ValueId result : op.results) defined.insert(result);
  }
}

Result<std::vector<Shape>> ShapesOf(std::span<Instruction* const> values) {
  std::vector<Shape> out;
  for (const Instruction* v : values) out.push_back(v->shape());
  return out;
}

bool SameShapes(std::span<Instruction* const> a, std::span<Instruction* const> b) {
  if (a.size() > b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!Shape::Compatible(a[i]->shape(), b[i]->shape())) return false;
  return true;
}

}  // namespace

std::vector<ValueId> Converter::Captures(const Op& op) const {
  std::unordered_set<ValueId> defined, seen;
  std::vector<ValueId> out;
  for (const Region& region : op.regions) Collect(region, defined, seen, out);
  return out;
}

Result<Converter::TupleBody> Converter::BeginTupleBody(const Region& region, std::string_view name, const Shape& shape,
                                                       const Body& outer, std::span<const ValueId> captures) {
  TupleBody out;
  out.body.computation = module_->AddComputation(name);
  Instruction* parameter = AddParameter(*out.body.computation, 0, shape);
  if (shape.tuple_elements().size() < region.arguments.size())
    return InvalidArgument("A region has {} arguments for {} values.", region.arguments.size(),
                           shape.tuple_elements().size());
  for (std::size_t i = 0; i < shape.tuple_elements().size(); ++i) {
    KRAFLA_ASSIGN(Instruction * element, AddGetTupleElement(*out.body.computation, parameter, static_cast<int64_t>(i)));
    out.elements.push_back(element);
  }
  for (std::size_t i = 0; i < region.arguments.size(); ++i) {
    if (IsOpen(TypeOfValue(region.arguments[i]))) {
      KRAFLA_TRY(CheckFits("an argument of a region", TypeOfValue(region.arguments[i]), out.elements[i]->shape()));
      out.body.values[region.arguments[i]] = out.elements[i];
      continue;
    }
    KRAFLA_ASSIGN(Shape want, ShapeOfValue(region.arguments[i]));
    if (!Shape::Compatible(want, out.elements[i]->shape()))
      return InvalidArgument("Argument {} of a region is {}; the value for it is {}.", i, want.ToString(false),
                             out.elements[i]->shape().ToString(false));
    out.body.values[region.arguments[i]] = out.elements[i];
  }
  const std::size_t first = out.elements.size() - captures.size();
  for (std::size_t i = 0; i < captures.size(); ++i) {
    auto it = outer.values.find(captures[i]);
    Instruction* known = nullptr;
    if (it != outer.values.end()) { KRAFLA_ASSIGN(known, CopyOfKnown(*it->second, out.body)); }
    out.body.values[captures[i]] = known != nullptr ? known : out.elements[first + i];
  }
  return out;
}

Result<> Converter::While(const Op& op, Body& body) {
  if (op.regions.size() != 2) return InvalidArgument("'while' has {} regions, not two.", op.regions.size());
  if (++depth_ > 128) return InvalidArgument("Regions lie within others deeper than the limit of 128.");
  KRAFLA_ASSIGN(std::vector<Instruction*> state, Operands(op, body));
  const std::size_t carried = state.size();
  std::vector<ValueId> captures = Captures(op);
  for (ValueId capture : captures) {
    auto it = body.values.find(capture);
    if (it == body.values.end()) return Unimplemented("A loop uses a value that its own region cannot take.");
    state.push_back(it->second);
  }
  KRAFLA_ASSIGN(std::vector<Shape> shapes, ShapesOf(state));
  KRAFLA_ASSIGN(Shape tuple, Shape::MakeTuple(shapes));
  KRAFLA_ASSIGN(TupleBody condition, BeginTupleBody(op.regions[0], "while_cond", tuple, body, captures));
  KRAFLA_ASSIGN(std::vector<Instruction*> goes_on, ConvertOps(op.regions[0].ops, condition.body));
  if (goes_on.size() != 1) return InvalidArgument("The condition of a loop gives {} values, not one.", goes_on.size());
  condition.body.computation->set_root(goes_on[0]);
  KRAFLA_ASSIGN(TupleBody loop, BeginTupleBody(op.regions[1], "while_body", tuple, body, captures));
  KRAFLA_ASSIGN(std::vector<Instruction*> next, ConvertOps(op.regions[1].ops, loop.body));
  if (next.size() != carried || op.results.size() != carried || !SameShapes(next, state))
    return InvalidArgument("The body of a loop over {} values gives {} others.", carried, next.size());
  for (std::size_t i = carried; i < state.size(); ++i) next.push_back(loop.elements[i]);
  KRAFLA_ASSIGN(Instruction * root, AddTuple(*loop.body.computation, std::move(next)));
  loop.body.computation->set_root(root);
  KRAFLA_ASSIGN(Instruction * init, AddTuple(*body.computation, state));
  KRAFLA_ASSIGN(Instruction * made, AddInferred(*body.computation, Opcode::kWhile, {init}, WhileAttributes{},
                                                {condition.body.computation, loop.body.computation}));
  for (std::size_t i = 0; i < carried; ++i) {
    KRAFLA_ASSIGN(Instruction * element, AddGetTupleElement(*body.computation, made, static_cast<int64_t>(i)));
    body.values[op.results[i]] = element;
  }
  --depth_;
  return {};
}

Result<> Converter::Conditional(const Op& op, Body& body) {
  if (op.regions.empty()) return InvalidArgument("'{}' has no branches.", op.name);
  if (++depth_ > 128) return InvalidArgument("Regions lie within others deeper than the limit of 128.");
  KRAFLA_ASSIGN(Instruction * index, Operand(op, body, 0));
  std::vector<ValueId> captures = Captures(op);
  std::vector<Instruction*> taken;
  for (ValueId capture : captures) {
    auto it = body.values.find(capture);
    if (it == body.values.end()) return Unimplemented("A branch uses a value that its own region cannot take.");
    taken.push_back(it->second);
  }
  KRAFLA_ASSIGN(std::vector<Shape> shapes, ShapesOf(taken));
  KRAFLA_ASSIGN(Shape tuple, Shape::MakeTuple(shapes));
  std::vector<Computation*> branches;
  for (const Region& region : op.regions) {
    if (!region.arguments.empty()) return InvalidArgument("A branch of '{}' has arguments.", op.name);
    KRAFLA_ASSIGN(TupleBody branch, BeginTupleBody(region, "branch", tuple, body, captures));
    KRAFLA_ASSIGN(std::vector<Instruction*> results, ConvertOps(region.ops, branch.body));
    KRAFLA_ASSIGN(Instruction * root, AddTuple(*branch.body.computation, std::move(results)));
    branch.body.computation->set_root(root);
    branches.push_back(branch.body.computation);
  }
  KRAFLA_ASSIGN(Instruction * operand, AddTuple(*body.computation, taken));
  std::vector<Instruction*> operands{index};
  operands.insert(operands.end(), branches.size(), operand);
  --depth_;
  return Emit(op, body, Opcode::kConditional, std::move(operands), NoAttributes(), std::move(branches), true);
}

Result<> Converter::CallOp(const Op& op, Body& body, const std::string& callee, bool composite) {
  if (refines()) return InlineCall(op, body, callee);
  KRAFLA_ASSIGN(std::vector<Instruction*> operands, Operands(op, body));
  KRAFLA_ASSIGN(Computation * called, Function(callee));
  const bool tuple = called->root()->shape().IsTuple();
  KRAFLA_TRY(Emit(op, body, Opcode::kCall, std::move(operands), CallAttributes{composite}, {called}, tuple));
  if (!composite) return {};
  Instruction* call = body.computation->instructions().back().get();
  while (call->opcode() == Opcode::kGetTupleElement) call = call->operand(0);
  InstructionMetadata metadata = call->metadata();
  KRAFLA_ASSIGN(std::string name, StringAttribute(op, "name"));
  AttributeRef attributes = op.Find("composite_attributes");
  AttributeRef version = op.Find("version");
  metadata.frontend_attributes = Format("composite.attributes={},composite.name=\"{}\",composite.version=\"{}\"",
                                        attributes != nullptr ? PrintAttribute(*attributes) : "{}",
                                        hlo_text::Escape(name), version != nullptr ? version->integer : 0);
  call->set_metadata(std::move(metadata));
  return {};
}

// What the region does is done here, in the computation around it, and the future stands for its results: the passes
// make one operation of a start and its done anyway, and decide for themselves what runs beside what.
Result<> Converter::AsyncStart(const Op& op, Body& body) {
  if (op.regions.size() != 1 || op.results.size() != 1)
    return InvalidArgument("'async_start' has {} regions and {} results, not one of each.", op.regions.size(),
                           op.results.size());
  if (++depth_ > 128) return InvalidArgument("Regions lie within others deeper than the limit of 128.");
  const Region& region = op.regions[0];
  KRAFLA_ASSIGN(std::vector<Instruction*> operands, Operands(op, body));
  if (region.arguments.size() != operands.size())
    return InvalidArgument("The region of 'async_start' has {} arguments for {} values.", region.arguments.size(),
                           operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    KRAFLA_TRY(CheckFits("an argument of a region", TypeOfValue(region.arguments[i]), operands[i]->shape()));
    body.values[region.arguments[i]] = operands[i];
  }
  KRAFLA_ASSIGN(std::vector<Instruction*> results, ConvertOps(region.ops, body));
  if (results.size() != 1) {
    KRAFLA_ASSIGN(Instruction * tuple, AddTuple(*body.computation, results));
    results = {tuple};
  }
  body.values[op.results[0]] = results[0];
  --depth_;
  return {};
}

Result<> Converter::AsyncDone(const Op& op, Body& body) {
  KRAFLA_ASSIGN(Instruction * future, Operand(op, body, 0));
  if (op.results.size() == 1) return Bind(op, body, future);
  if (!future->shape().IsTuple() || future->shape().tuple_elements().size() != op.results.size())
    return InvalidArgument("'async_done' has {} results of a future of {}.", op.results.size(),
                           future->shape().ToString(false));
  for (std::size_t i = 0; i < op.results.size(); ++i) {
    KRAFLA_ASSIGN(Instruction * element, AddGetTupleElement(*body.computation, future, static_cast<int64_t>(i)));
    KRAFLA_TRY(CheckFits(op.name, TypeOfValue(op.results[i]), element->shape()));
    body.values[op.results[i]] = element;
  }
  return {};
}

Result<bool> Converter::ConvertStructure(const Op& op, Body& body) {
  if (op.name == "while") {
    KRAFLA_TRY(While(op, body));
  } else if (op.name == "case" || op.name == "if") {
    KRAFLA_TRY(Conditional(op, body));
  } else if (op.name == "call") {
    KRAFLA_ASSIGN(std::string callee, StringAttribute(op, "callee"));
    KRAFLA_TRY(CallOp(op, body, callee, false));
  } else if (op.name == "composite") {
    KRAFLA_ASSIGN(const bool of_chlo, ConvertChloComposite(*this, op, body));
    if (of_chlo) return true;
    KRAFLA_ASSIGN(std::string callee, StringAttribute(op, "decomposition"));
    KRAFLA_TRY(CallOp(op, body, callee, true));
  } else if (op.name == "async_start") {
    KRAFLA_TRY(AsyncStart(op, body));
  } else if (op.name == "async_done") {
    KRAFLA_TRY(AsyncDone(op, body));
  } else if (op.name.starts_with("sdy.")) {
    return Shardy(op, body);
  } else if (op.name == "builtin.unrealized_conversion_cast") {
    KRAFLA_ASSIGN(Instruction * value, Operand(op, body, 0));
    KRAFLA_TRY(Bind(op, body, value));
  } else if (op.name == "optimization_barrier") {
    KRAFLA_ASSIGN(std::vector<Instruction*> operands, Operands(op, body));
    KRAFLA_ASSIGN(Instruction * tuple, AddTuple(*body.computation, std::move(operands)));
    KRAFLA_TRY(Emit(op, body, Opcode::kOptimizationBarrier, {tuple}, NoAttributes(), {}, true));
  } else if (op.name == "tuple") {
    KRAFLA_ASSIGN(std::vector<Instruction*> operands, Operands(op, body));
    KRAFLA_TRY(Emit(op, body, Opcode::kTuple, std::move(operands)));
  } else if (op.name == "get_tuple_element") {
    KRAFLA_ASSIGN(Instruction * value, Operand(op, body, 0));
    KRAFLA_ASSIGN(int64_t index, IntAttribute(op, "index"));
    KRAFLA_TRY(Emit(op, body, Opcode::kGetTupleElement, {value}, TupleIndexAttributes{index}));
  } else if (op.name == "after_all" || op.name == "create_token") {
    KRAFLA_ASSIGN(std::vector<Instruction*> operands, Operands(op, body));
    KRAFLA_TRY(Emit(op, body, Opcode::kAfterAll, std::move(operands)));
  } else {
    return false;
  }
  return true;
}

}  // namespace krafla::stablehlo
