// SPDX-License-Identifier: Apache-2.0
// Functions, values, and what every operation shares.
#include "hlo_io/stablehlo/from_module.h"

#include "hlo_io/stablehlo/tree_builder.h"
#include "ir/value_names.h"

namespace krafla::stablehlo {
namespace {

// A computation that several loops have is written out in each: a small file could stand for a large program.
constexpr std::size_t kMostOperations = std::size_t{1} << 22;

}  // namespace

Result<TypeRef> TreeBuilder::TypeOf(const Shape& shape) {
  const std::string key = shape.ToString(false);
  if (auto known = types_.find(key); known != types_.end()) return known->second;
  Type type;
  if (shape.IsToken()) {
    type.kind = Type::Kind::kToken;
  } else if (shape.IsTuple()) {
    type.kind = Type::Kind::kTuple;
    for (const Shape& element : shape.tuple_elements()) {
      KRAFLA_ASSIGN(TypeRef one, TypeOf(element));
      type.elements.push_back(one);
    }
  } else if (shape.IsArray() && shape.element_type() != ElementType::kS1 && shape.element_type() != ElementType::kU1) {
    type.kind = Type::Kind::kTensor;
    type.element = shape.element_type();
    type.dims = shape.dims();
    for (int64_t d = 0; d < shape.rank(); ++d) {
      if (shape.IsDynamic()) type.bounds.push_back(shape.IsDynamicDim(d) ? shape.dim(d) : kDynamicDim);
      if (shape.IsDynamicDim(d)) type.dims[static_cast<std::size_t>(d)] = kDynamicDim;
    }
  } else {
    return Unimplemented("StableHLO has no type for {}.", shape.ToString(false));
  }
  tree_->types.push_back(std::move(type));
  return types_[key] = &tree_->types.back();
}

Result<ValueId> TreeBuilder::NewValue(const Shape& shape) {
  KRAFLA_ASSIGN(TypeRef type, TypeOf(shape));
  tree_->values.push_back(type);
  return static_cast<ValueId>(tree_->values.size()) - 1;
}

Leaves TreeBuilder::OperandLeaves(const Instruction& i, const Scope& scope, std::size_t from) const {
  Leaves out;
  for (std::size_t n = from; n < i.operand_count(); ++n) {
    const Leaves& leaves = LeavesOf(scope, i.operand(n));
    out.insert(out.end(), leaves.begin(), leaves.end());
  }
  return out;
}

Result<> TreeBuilder::Describe(const Instruction& i, Op& op) {
  if (++operations_ > kMostOperations)
    return ResourceExhausted("The module has more than {} operations, each computation written out where it is used.",
                             kMostOperations);
  const InstructionMetadata& said = i.metadata();
  op.op_name = MetadataValue(said.metadata, "op_name");
  if (!said.frontend_attributes.empty() && op.name != "composite")
    if (AttributeRef given = FrontendDictionary(said.frontend_attributes); given != nullptr)
      op.discardable.emplace_back("mhlo.frontend_attributes", given);
  if (!said.sharding.empty()) op.discardable.emplace_back("mhlo.sharding", Text(said.sharding));
  return {};
}

Result<> TreeBuilder::Emit(const Instruction& i, Scope& scope, std::string_view name, Leaves operands,
                           AttributeList attributes, std::vector<Region> regions, const Shape* result) {
  Op op;
  op.name = name;
  op.operands = std::move(operands);
  op.attributes = std::move(attributes);
  op.regions = std::move(regions);
  KRAFLA_TRY(Describe(i, op));
  for (const Shape* leaf : TupleLeaves(result != nullptr ? *result : i.shape())) {
    KRAFLA_ASSIGN(ValueId value, NewValue(*leaf));
    op.results.push_back(value);
  }
  Bind(i, scope, op.results);
  scope.region->ops.push_back(std::move(op));
  return {};
}

Result<ValueId> TreeBuilder::Add(Scope& scope, std::string_view name, Leaves operands, const Shape& shape,
                                 AttributeList attributes, std::vector<Region> regions) {
  if (++operations_ > kMostOperations)
    return ResourceExhausted("The module becomes more than {} operations.", kMostOperations);
  Op op;
  op.name = name;
  op.operands = std::move(operands);
  op.attributes = std::move(attributes);
  op.regions = std::move(regions);
  KRAFLA_ASSIGN(ValueId value, NewValue(shape));
  op.results = {value};
  scope.region->ops.push_back(std::move(op));
  return value;
}

Result<ValueId> TreeBuilder::AddReshaped(Scope& scope, ValueId value, const Shape& shape) {
  return Add(scope, "reshape", {value}, shape);
}

Result<ValueId> TreeBuilder::AddTransposed(Scope& scope, ValueId value, const Shape& shape, const Dims& permutation) {
  return Add(scope, "transpose", {value}, shape, {{"permutation", List(permutation)}});
}

Result<bool> WriteByRow(std::span<const OpcodeWriter> rows, TreeBuilder& b, const Instruction& i, Scope& scope) {
  for (const OpcodeWriter& row : rows) {
    if (row.opcode != i.opcode()) continue;
    KRAFLA_TRY(row.write(b, i, scope));
    return true;
  }
  return false;
}

Result<> TreeBuilder::Convert(const Instruction& i, Scope& scope) {
  using Family = Result<bool> (*)(TreeBuilder&, const Instruction&, Scope&);
  for (Family family : {&WriteStructure, &WriteElementwise, &WriteDataMovement, &WriteContraction, &WriteReduction,
                        &WriteCollective, &WriteLibrary, &WriteCustomCall}) {
    auto taken = family(*this, i, scope);
    if (!taken) return Failure(std::move(taken).error().WithContext(Format("in {}", krafla::Describe(i))));
    if (*taken) return {};
  }
  return Unimplemented("{}: StableHLO has no form for the operation '{}'.", krafla::Describe(i),
                       OpcodeName(i.opcode()));
}

Result<Leaves> TreeBuilder::WriteOut(const Computation& computation, std::span<const Leaves> arguments,
                                     Region& region) {
  if (++depth_ > kMaxRegionDepth)
    return InvalidArgument("Computations lie within others deeper than the limit of {}.", kMaxRegionDepth);
  Scope scope;
  scope.region = &region;
  for (const auto& i : computation.instructions()) {
    if (i->opcode() == Opcode::kParameter) {
      Bind(*i, scope, arguments[static_cast<std::size_t>(i->attr<ParameterAttributes>().number)]);
    } else {
      KRAFLA_TRY(Convert(*i, scope));
    }
  }
  --depth_;
  return LeavesOf(scope, computation.root());
}

Result<Region> TreeBuilder::RegionOn(const Computation& computation, std::span<const Leaves> arguments) {
  Region region;
  KRAFLA_ASSIGN(Leaves results, WriteOut(computation, arguments, region));
  Op end;
  end.name = "return";
  end.operands = std::move(results);
  region.ops.push_back(std::move(end));
  return region;
}

Result<Region> TreeBuilder::RegionOf(const Computation& computation) {
  std::vector<Leaves> arguments;
  std::vector<ValueId> all;
  for (const Instruction* parameter : computation.parameters()) {
    Leaves& leaves = arguments.emplace_back();
    for (const Shape* leaf : TupleLeaves(parameter->shape())) {
      KRAFLA_ASSIGN(ValueId value, NewValue(*leaf));
      leaves.push_back(value);
    }
    all.insert(all.end(), leaves.begin(), leaves.end());
  }
  KRAFLA_ASSIGN(Region region, RegionOn(computation, arguments));
  region.arguments = std::move(all);
  return region;
}

Result<std::vector<Region>> TreeBuilder::RegionsOf(const Instruction& i) {
  std::vector<Region> out;
  for (const Computation* called : i.called()) {
    KRAFLA_ASSIGN(Region region, RegionOf(*called));
    out.push_back(std::move(region));
  }
  return out;
}

Result<Op> TreeBuilder::Function(const Computation& computation, std::string_view symbol, bool is_entry) {
  Op func;
  func.name = "func";
  KRAFLA_ASSIGN(Region body, RegionOf(computation));
  Type type;
  type.kind = Type::Kind::kFunction;
  for (ValueId argument : body.arguments) type.elements.push_back(TypeOfValue(argument));
  for (ValueId result : body.ops.back().operands) type.results.push_back(TypeOfValue(result));
  func.attributes = {{"sym_name", Text(symbol)},
                     {"sym_visibility", Text(is_entry ? "public" : "private")},
                     {"function_type", TypeAttribute(std::move(type))}};
  func.regions.push_back(std::move(body));
  return func;
}

Result<std::string> TreeBuilder::AddFunction(const Computation& computation, const std::string& name) {
  std::string symbol = name;
  for (int n = 1; !symbols_.insert(symbol).second; ++n) symbol = Format("{}_{}", name, n);
  KRAFLA_ASSIGN(Op func, Function(computation, symbol, /*is_entry=*/false));
  func.attributes.emplace_back("arg_attrs", Array({}));
  func.attributes.emplace_back("res_attrs", Array({}));
  function_ops_.push_back(std::move(func));
  return symbol;
}

Result<std::string> TreeBuilder::FunctionOf(const Computation& computation) {
  if (auto known = functions_.find(&computation); known != functions_.end()) return known->second;
  KRAFLA_ASSIGN(const std::string symbol, AddFunction(computation, computation.name()));
  return functions_[&computation] = symbol;
}

Result<std::unique_ptr<Tree>> TreeBuilder::Build() {
  Region top;
  symbols_.insert("main");
  KRAFLA_ASSIGN(Op main, Function(*module_.entry(), "main", /*is_entry=*/true));
  KRAFLA_TRY(EntryAttributes(main));
  top.ops.push_back(std::move(main));
  for (Op& func : function_ops_) top.ops.push_back(std::move(func));
  tree_->module.name = "module";
  tree_->module.attributes.emplace_back("sym_name", Text(module_.name()));
  tree_->module.regions.push_back(std::move(top));
  ModuleAttributes();
  return std::move(tree_);
}

Result<std::unique_ptr<Tree>> FromModule(const Module& module, Dialects dialects) {
  const std::unique_ptr<Module> sorted = module.Clone();
  for (const auto& computation : sorted->computations()) KRAFLA_TRY(computation->SortTopologically());
  return TreeBuilder(*sorted, dialects).Build();
}

}  // namespace krafla::stablehlo
