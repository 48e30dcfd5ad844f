// SPDX-License-Identifier: Apache-2.0
// Functions, and what every operation shares.
#include "hlo_io/stablehlo/converter.h"

#include <algorithm>

#include "hlo_io/check_rule.h"
#include "hlo_io/hlo_text/lexer.h"
#include "ir/value_names.h"

namespace krafla::stablehlo {
namespace {

using Kind = Attribute::Kind;

std::string Place(const Op& op) {
  return op.location.empty() ? Format("in operation '{}'", op.name)
                             : Format("in operation '{}' at {}", op.name, op.location);
}

// What the text of a module would say of where an operation is from.
std::string OpNameMetadata(std::string_view name) {
  return name.empty() ? std::string() : Format("op_name=\"{}\"", hlo_text::Escape(name));
}

// What the program's writer adds to an operation, as the text of a module has it.
std::string FrontendAttributesOf(const Op& op) {
  std::string out;
  // As XLA has it in HLO (xla/service/spmd/shardy/constants.h): how a custom call may be cut.
  if (const AttributeRef rule = op.FindDiscardable("sdy.sharding_rule"); rule != nullptr && !rule->text.empty())
    out = hlo_text::FrontendAttribute("xla.sdy.sharding_rule", rule->text);
  const AttributeRef given = op.FindDiscardable("mhlo.frontend_attributes");
  if (given == nullptr || given->kind != Kind::kDictionary) return out;
  for (const auto& [key, value] : given->entries) {
    if (value->kind != Kind::kString) continue;
    out += out.empty() ? "" : ",";
    out += hlo_text::FrontendAttribute(key, value->text);
  }
  return out;
}

}  // namespace

Result<Shape> Converter::ShapeOf(TypeRef type) const {
  switch (type->kind) {
    case Type::Kind::kTensor: {
      if (type->element == ElementType::kInvalid)
        return Unimplemented("Arrays of index values cannot be computed with.");
      if (type->unranked) return Unimplemented("An array of unknown rank cannot be computed with.");
      Dims dims = type->dims;
      bool dynamic[Shape::kMaxRank] = {};
      bool any = false;
      if (dims.ssize() > Shape::kMaxRank)
        return InvalidArgument("A tensor has {} dimensions; the limit is {}.", dims.size(), Shape::kMaxRank);
      for (std::size_t d = 0; d < dims.size(); ++d) {
        if (dims[d] != kDynamicDim) continue;
        if (d >= type->bounds.size() || type->bounds[d] == kDynamicDim)
          return Unimplemented("A dimension whose size is not known before the program runs needs a bound.");
        dims[d] = type->bounds[d];
        dynamic[d] = any = true;
      }
      std::span<const bool> flags;
      if (any) flags = std::span<const bool>(dynamic, dims.size());
      return Shape::MakeArray(type->element, dims, flags);
    }
    case Type::Kind::kToken: return Shape::MakeToken();
    case Type::Kind::kTuple: {
      std::vector<Shape> elements;
      for (TypeRef e : type->elements) {
        KRAFLA_ASSIGN(Shape shape, ShapeOf(e));
        elements.push_back(std::move(shape));
      }
      return Shape::MakeTuple(std::move(elements));
    }
    case Type::Kind::kElement: return Shape::MakeArray(type->element, {});
    case Type::Kind::kNone:
    case Type::Kind::kFunction:
    case Type::Kind::kOther: break;
  }
  return Unimplemented("A value of type {} cannot be computed with.", type->text.empty() ? "none" : type->text);
}

bool Converter::IsOpen(TypeRef type) {
  if (type->kind != Type::Kind::kTensor || type->unranked) return false;
  for (std::size_t d = 0; d < type->dims.size(); ++d)
    if (type->dims[d] == kDynamicDim && (d >= type->bounds.size() || type->bounds[d] == kDynamicDim)) return true;
  return false;
}

Result<> Converter::CheckFits(std::string_view what, TypeRef type, const Shape& shape) const {
  if (IsOpen(type)) {
    bool fits = shape.IsArray() && shape.element_type() == type->element && shape.rank() == type->dims.ssize();
    for (std::size_t d = 0; fits && d < type->dims.size(); ++d)
      fits = type->dims[d] == kDynamicDim || type->dims[d] == shape.dim(static_cast<int64_t>(d));
    if (fits) return {};
    return InvalidArgument("'{}' gives {}, which is not of its type.", what, shape.ToString(false));
  }
  KRAFLA_ASSIGN(Shape want, ShapeOf(type));
  if (Shape::Compatible(want, shape)) return {};
  return InvalidArgument("'{}' is declared to give {}; it gives {}.", what, want.ToString(false),
                         shape.ToString(false));
}

Result<Instruction*> Converter::Operand(const Op& op, const Body& body, std::size_t i) const {
  if (i >= op.operands.size()) return InvalidArgument("'{}' has {} operands, too few.", op.name, op.operands.size());
  auto it = body.values.find(op.operands[i]);
  if (it == body.values.end())
    return Unimplemented("'{}' uses a value from outside its region, which this region cannot take.", op.name);
  return it->second;
}

Result<std::vector<Instruction*>> Converter::Operands(const Op& op, const Body& body, std::size_t from) const {
  std::vector<Instruction*> out;
  for (std::size_t i = from; i < op.operands.size(); ++i) {
    KRAFLA_ASSIGN(Instruction * one, Operand(op, body, i));
    out.push_back(one);
  }
  return out;
}

Result<> Converter::Bind(const Op& op, Body& body, Instruction* value) {
  if (op.results.size() != 1) return InvalidArgument("'{}' has {} results, not one.", op.name, op.results.size());
  KRAFLA_TRY(CheckFits(op.name, TypeOfValue(op.results[0]), value->shape()));
  body.values[op.results[0]] = value;
  return {};
}

// An elementwise operation gives an element for each of its operand's, whatever their types.
Result<std::optional<Shape>> Converter::ShapeOfElements(TypeRef type, std::span<Instruction* const> operands) {
  for (const Instruction* o : operands)
    if (o->shape().IsArray() && !o->shape().IsDynamic() && o->shape().rank() == type->dims.ssize()) {
      KRAFLA_ASSIGN(Shape made, Shape::MakeArray(type->element, o->shape().dims()));
      return made;
    }
  return std::nullopt;
}

Result<> Converter::Emit(const Op& op, Body& body, Opcode opcode, std::vector<Instruction*> operands,
                         Attributes attributes, std::vector<Computation*> called, bool tuple, const Shape* known) {
  std::vector<Shape> shapes;
  bool open = false;
  for (ValueId result : op.results) open |= IsOpen(TypeOfValue(result));
  for (ValueId result : op.results) {
    if (open) break;
    KRAFLA_ASSIGN(Shape shape, ShapeOfValue(result));
    shapes.push_back(std::move(shape));
  }
  tuple = tuple || op.results.size() != 1;
  Shape declared;
  std::optional<Shape> follows;
  if (open && known == nullptr && !tuple && IsElementwise(opcode)) {
    KRAFLA_ASSIGN(follows, ShapeOfElements(TypeOfValue(op.results[0]), operands));
    if (follows) known = &*follows;
  }
  if (open) {
    // Else the shape follows from the operands, or it is not known here.
    if (known != nullptr) declared = *known;
  } else if (tuple) {
    KRAFLA_ASSIGN(declared, Shape::MakeTuple(std::move(shapes)));
  } else {
    declared = shapes[0];
  }
  KRAFLA_ASSIGN(Instruction * made, AddInferred(*body.computation, opcode, std::move(operands), std::move(attributes),
                                                std::move(called), open && known == nullptr ? nullptr : &declared));
  InstructionMetadata metadata;
  metadata.metadata = OpNameMetadata(op.op_name);
  metadata.frontend_attributes = FrontendAttributesOf(op);
  if (AttributeRef sharding = op.FindDiscardable("mhlo.sharding"); sharding != nullptr)
    metadata.sharding = sharding->text;
  if (metadata != InstructionMetadata()) made->set_metadata(std::move(metadata));
  if (open) {
    const bool whole = tuple && made->shape().IsTuple() && made->shape().tuple_elements().size() == op.results.size();
    if (tuple && !whole) return InvalidArgument("'{}' does not give {} results.", op.name, op.results.size());
    for (std::size_t i = 0; i < op.results.size(); ++i)
      KRAFLA_TRY(
          CheckFits(op.name, TypeOfValue(op.results[i]), tuple ? made->shape().tuple_elements()[i] : made->shape()));
  }
  if (!tuple) {
    KRAFLA_ASSIGN(body.values[op.results[0]], Folded(*made, body));
    return {};
  }
  for (std::size_t i = 0; i < op.results.size(); ++i) {
    KRAFLA_ASSIGN(Instruction * element, AddGetTupleElement(*body.computation, made, static_cast<int64_t>(i)));
    body.values[op.results[i]] = element;
  }
  return {};
}

Instruction* Converter::CopyConstant(const Instruction& constant, Body& into) const {
  return into.computation->Add(Opcode::kConstant, constant.shape(), {}, constant.attributes());
}

Result<std::string> Converter::ReadSymbols() {
  if (tree_.module.regions.size() != 1)
    return InvalidArgument("A StableHLO module has one region, not {}.", tree_.module.regions.size());
  std::string meshes;
  for (const Op& op : tree_.module.regions[0].ops) {
    if (op.name == "func") {
      KRAFLA_ASSIGN(std::string symbol, StringAttribute(op, "sym_name"));
      if (!functions_.emplace(symbol, &op).second)
        return InvalidArgument("The function '{}' is defined twice.", symbol);
    } else if (op.name == "sdy.mesh") {
      KRAFLA_ASSIGN(std::string symbol, StringAttribute(op, "sym_name"));
      AttributeRef mesh = op.Find("mesh");
      if (mesh == nullptr) return InvalidArgument("The mesh '{}' has no axes.", symbol);
      KRAFLA_ASSIGN(meshes_[symbol], ParseSdyMesh(mesh->text));
      meshes += Format("{}{} = {}", meshes.empty() ? "" : ", ", symbol, mesh->text);
    } else {
      return Unimplemented("A module cannot hold the operation '{}'.", op.name);
    }
  }
  return meshes;
}

Result<const Op*> Converter::EntryFunction() const {
  auto main = functions_.find(conversion_.entry);
  if (main == functions_.end()) return InvalidArgument("The module has no function '{}'.", conversion_.entry);
  return main->second;
}

Result<std::unique_ptr<Module>> Converter::Convert() {
  std::string name = "module";
  if (AttributeRef given = tree_.module.Find("sym_name"); given != nullptr && !given->text.empty()) name = given->text;
  module_ = std::make_unique<Module>(name);
  module_->replica_count = conversion_.replicas;
  module_->num_partitions = conversion_.partitions;
  auto count = [&](std::string_view key, int64_t* out) -> Result<> {
    AttributeRef value = tree_.module.FindDiscardable(key);
    if (value == nullptr || value->kind != Kind::kInteger) return {};
    if (value->integer < 1 || value->integer > (int64_t{1} << 20))
      return InvalidArgument("The module has the attribute {} = {}.", key, value->integer);
    *out = value->integer;
    return {};
  };
  KRAFLA_TRY(count("mhlo.num_replicas", &module_->replica_count));
  KRAFLA_TRY(count("mhlo.num_partitions", &module_->num_partitions));
  KRAFLA_ASSIGN(const std::string meshes, ReadSymbols());
  if (std::string said = FrontendAttributesOf(tree_.module); !said.empty())
    module_->other_attributes.emplace_back("frontend_attributes", "{" + said + "}");
  // Where XLA's HLO has them.
  if (!meshes.empty() && module_->num_partitions > 1)
    module_->other_attributes.emplace_back("frontend_attributes", "{xla.sdy.meshes={" + meshes + "}}");
  KRAFLA_ASSIGN(const Op* main, EntryFunction());
  open_[conversion_.entry] = true;
  KRAFLA_ASSIGN(Computation * entry, ConvertFunction(*main, true));
  module_->set_entry(entry);
  KRAFLA_TRY(EntryAttributes(*main));
  KRAFLA_TRY(EntryLayouts(*main));
  return std::move(module_);
}

// What arguments and results say of themselves: names of results, aliases and donors.
Result<> Converter::EntryAttributes(const Op& func) {
  if (AttributeRef results = func.Find("res_attrs"); results != nullptr && !conversion_.arrays_only) {
    std::vector<std::string> names;
    for (const AttributeRef result : results->elements) {
      const AttributeRef info = Entry(result, "jax.result_info");
      names.push_back(info != nullptr && info->kind == Kind::kString ? info->text : std::string());
    }
    if (std::ranges::any_of(names, [](const std::string& n) { return !n.empty(); })) SetResultNames(*module_, names);
  }
  AttributeRef arguments = func.Find("arg_attrs");
  if (arguments == nullptr) return {};
  const bool tuple = module_->entry()->root()->shape().IsTuple();
  for (std::size_t p = 0; p < arguments->elements.size(); ++p) {
    const auto number = static_cast<int64_t>(p);
    if (AttributeRef output = Entry(arguments->elements[p], "tf.aliasing_output"); output != nullptr) {
      InputOutputAlias alias;
      alias.parameter = number;
      if (tuple) alias.output_index.push_back(output->integer);
      module_->input_output_aliases.push_back(std::move(alias));
    } else if (Entry(arguments->elements[p], "jax.buffer_donor") != nullptr) {
      module_->buffer_donors.push_back({number, {}});
    }
  }
  return {};
}

Result<Computation*> Converter::Function(const std::string& name) {
  if (auto it = converted_.find(name); it != converted_.end()) return it->second;
  auto found = functions_.find(name);
  if (found == functions_.end())
    return InvalidArgument("The function '{}' is called but not defined.", name.substr(0, 60));
  if (open_[name])
    return InvalidArgument("The function '{}' leads back to itself; StableHLO has no recursion.", name.substr(0, 60));
  open_[name] = true;
  KRAFLA_ASSIGN(Computation * made, ConvertFunction(*found->second));
  open_[name] = false;
  converted_[name] = made;
  return made;
}

Result<Computation*> Converter::ConvertFunction(const Op& func, bool is_entry) {
  if (func.regions.size() != 1) return InvalidArgument("A function has one region, not {}.", func.regions.size());
  if (++depth_ > kMaxRegionDepth)
    return InvalidArgument("Functions call each other deeper than the limit of {}.", kMaxRegionDepth);
  KRAFLA_ASSIGN(std::string name, StringAttribute(func, "sym_name"));
  auto context = [&](Status status) {
    return Failure(std::move(status).WithContext(Place(func)).WithContext(Format("in function '{}'", name)));
  };
  Body body;
  body.computation = module_->AddComputation(name);
  if (is_entry) entry_ = body.computation;
  const bool arrays_only = is_entry && conversion_.arrays_only;
  const Region& region = func.regions[0];
  int64_t parameters = 0;
  if (is_entry)
    if (auto known = CheckGivenShapes(func); !known) return context(std::move(known).error());
  for (std::size_t a = 0; a < region.arguments.size(); ++a) {
    const ValueId argument = region.arguments[a];
    auto shape = is_entry ? EntryShape(func, a) : ShapeOfValue(argument);
    if (!shape) return context(std::move(shape).error());
    if (arrays_only && shape->IsToken()) {
      KRAFLA_ASSIGN(body.values[argument], AddInferred(*body.computation, Opcode::kAfterAll, {}));
    } else {
      const std::string given = is_entry ? EntryName(func, a) : "";
      Instruction* parameter =
          AddParameter(*body.computation, parameters++, std::move(*shape), hlo_text::NameFrom(given));
      if (!given.empty()) {
        InstructionMetadata metadata;
        metadata.metadata = OpNameMetadata(given);
        parameter->set_metadata(std::move(metadata));
      }
      body.values[argument] = parameter;
    }
  }
  const bool partitioned = is_entry && !arrays_only && module_->num_partitions > 1;
  if (partitioned)
    if (auto read = ParameterShardings(func, *body.computation); !read) return context(std::move(read).error());
  auto results = ConvertOps(region.ops, body);
  if (!results) return context(std::move(results).error());
  if (auto checked = CheckResults(func, *results); !checked) return context(std::move(checked).error());
  Instruction* root = nullptr;
  if (partitioned) {
    auto sharded = ShardedRoot(func, *body.computation, std::move(*results));
    if (!sharded) return context(std::move(sharded).error());
    root = *sharded;
  } else if (arrays_only) {
    KRAFLA_ASSIGN(root, EntryRoot(*body.computation, std::move(*results)));
  } else if (results->size() == 1) {  // the entry's only result stands by itself; so does a function's
    root = (*results)[0];
  } else {
    KRAFLA_ASSIGN(root, AddTuple(*body.computation, *results));
  }
  body.computation->set_root(root);
  --depth_;
  return body.computation;
}

// What is compared, or without that the results that are arrays.
Result<Instruction*> Converter::EntryRoot(Computation& computation, std::vector<Instruction*> results) const {
  if (checks()) results = compared_;
  std::erase_if(results, [](const Instruction* result) { return !result->shape().IsArray(); });
  return AddTuple(computation, std::move(results));
}

Result<> Converter::AddCheck(const Body& body, CheckRule rule, Instruction* actual, Instruction* expected) {
  if (body.computation != entry_)
    return Unimplemented("A comparison within a region or a called function cannot be made.");
  if (!actual->shape().IsArray() || !Shape::Compatible(actual->shape(), expected->shape()))
    return InvalidArgument("{} cannot be compared with {}.", actual->shape().ToString(false),
                           expected->shape().ToString(false));
  compared_.insert(compared_.end(), {actual, expected});
  conversion_.checks->push_back(std::move(rule));
  return {};
}

// What a function returns against what it is declared to return.
Result<> Converter::CheckResults(const Op& func, std::span<Instruction* const> results) const {
  AttributeRef declared = func.Find("function_type");
  if (declared == nullptr || declared->type == nullptr || declared->type->kind != Type::Kind::kFunction) return {};
  const std::vector<TypeRef>& types = declared->type->results;
  if (types.size() != results.size())
    return InvalidArgument("{} values are returned, {} are declared.", results.size(), types.size());
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (IsOpen(types[i])) {
      KRAFLA_TRY(CheckFits(Format("result {}", i), types[i], results[i]->shape()));
      continue;
    }
    KRAFLA_ASSIGN(Shape want, ShapeOf(types[i]));
    if (!Shape::Compatible(want, results[i]->shape()))
      return InvalidArgument("Result {} is {}, and declared to be {}.", i, results[i]->shape().ToString(false),
                             want.ToString(false));
  }
  return {};
}

Result<std::vector<Instruction*>> Converter::ConvertOps(const std::vector<Op>& ops, Body& body) {
  if (ops.empty() || (ops.back().name != "return" && ops.back().name != "sdy.return"))
    return InvalidArgument("A region does not end in a return.");
  for (std::size_t i = 0; i + 1 < ops.size(); ++i) {
    auto converted = ConvertOp(ops[i], body);
    if (!converted) return Failure(std::move(converted).error().WithContext(Place(ops[i])));
  }
  return Operands(ops.back(), body);
}

void Converter::KeepProbe(const Body& body, std::string name, Instruction* value) {
  if (body.computation == entry_) probes_[std::move(name)] = value;
}

Instruction* Converter::Probed(const std::string& name) const {
  auto it = probes_.find(name);
  return it != probes_.end() ? it->second : nullptr;
}

Result<> Converter::ConvertOp(const Op& op, Body& body) {
  using Family = Result<bool> (*)(Converter&, const Op&, Body&);
  KRAFLA_ASSIGN(bool quantized, ConvertQuantized(op, body));
  if (quantized) return {};
  KRAFLA_ASSIGN(bool structure, ConvertStructure(op, body));
  if (structure) return {};
  for (Family family :
       {&ConvertElementwise, &ConvertDataMovement, &ConvertContraction, &ConvertReduction, &ConvertIndexing,
        &ConvertDynamic, &ConvertCollective, &ConvertCheck, &ConvertLibrary, &ConvertChlo}) {
    KRAFLA_ASSIGN(bool taken, family(*this, op, body));
    if (taken) return {};
  }
  if (op.name.starts_with("interpreter."))
    return Unimplemented("'{}' is an instrument of StableHLO's interpreter, not a computation.", op.name);
  return Unimplemented("The operation '{}' is not known to this version.", op.name);
}

Result<Computation*> Converter::RegionComputation(const Op& op, const Body& outer, std::size_t region) {
  if (region >= op.regions.size()) return InvalidArgument("'{}' has {} regions, too few.", op.name, op.regions.size());
  if (++depth_ > kMaxRegionDepth)
    return InvalidArgument("Regions lie within others deeper than the limit of {}.", kMaxRegionDepth);
  const Region& r = op.regions[region];
  Body body;
  body.computation = module_->AddComputation(Format("{}_region", op.name));
  for (std::size_t i = 0; i < r.arguments.size(); ++i) {
    KRAFLA_ASSIGN(Shape shape, ShapeOfValue(r.arguments[i]));
    body.values[r.arguments[i]] = AddParameter(*body.computation, static_cast<int64_t>(i), std::move(shape));
  }
  for (ValueId captured : Captures(op)) {
    auto it = outer.values.find(captured);
    if (it == outer.values.end()) continue;
    KRAFLA_ASSIGN(Instruction * known, CopyOfKnown(*it->second, body));
    if (known != nullptr) body.values[captured] = known;
  }
  KRAFLA_ASSIGN(std::vector<Instruction*> results, ConvertOps(r.ops, body));
  Instruction* root = nullptr;
  if (results.size() == 1) {
    root = results[0];
  } else {
    KRAFLA_ASSIGN(root, AddTuple(*body.computation, std::move(results)));
  }
  body.computation->set_root(root);
  --depth_;
  return body.computation;
}

Result<std::unique_ptr<Module>> ToModule(const Tree& tree, const Conversion& conversion) {
  return Converter(tree, conversion).Convert();
}

Result<std::vector<ProgramInput>> EntryInputs(const Tree& tree) { return Converter(tree, {}).EntryInputs(); }

}  // namespace krafla::stablehlo
