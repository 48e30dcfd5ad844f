// SPDX-License-Identifier: Apache-2.0
// What a program for several devices says of where its arrays lie. It becomes what XLA makes of it
// in HLO: shardings of the entry's parameters and root, custom calls 'Sharding', and a call between
// the custom calls 'xla.sdy.GlobalToLocalShape' and 'xla.sdy.LocalToGlobalShape' for a manual
// computation (xla/service/spmd/shardy/round_trip_common). The pass spmd_partitioner acts on them.
// In a program for one device all of that has no effect.
#include "hlo_io/hlo_text/lexer.h"
#include "hlo_io/stablehlo/converter.h"
#include "ir/custom_call.h"

namespace krafla::stablehlo {
namespace {

using Kind = Attribute::Kind;

void Annotate(Instruction* instruction, std::string sharding, std::string frontend_attributes = {},
              std::string backend_config = {}) {
  InstructionMetadata metadata = instruction->metadata();
  metadata.sharding = std::move(sharding);
  if (!frontend_attributes.empty()) metadata.frontend_attributes = std::move(frontend_attributes);
  if (!backend_config.empty()) metadata.backend_config = std::move(backend_config);
  instruction->set_metadata(std::move(metadata));
}

Instruction* AddCall(Computation& computation, CustomCallTarget target, Shape shape,
                     std::vector<Instruction*> operands) {
  CustomCallAttributes attributes;
  attributes.target = CustomCallTargetName(target);
  return computation.Add(Opcode::kCustomCall, std::move(shape), std::move(operands), std::move(attributes));
}

}  // namespace

Result<std::string> Converter::ShardingIn(AttributeRef dictionary) const {
  if (AttributeRef sdy = Entry(dictionary, "sdy.sharding"); sdy != nullptr) {
    KRAFLA_ASSIGN(SdySharding read, ParseSdySharding(sdy->text, meshes_));
    KRAFLA_ASSIGN(Sharding sharding, ShardingOf(read, module_->num_partitions));
    return ShardingToText(sharding, static_cast<int64_t>(read.dims.size()), module_->num_partitions);
  }
  if (AttributeRef hlo = Entry(dictionary, "mhlo.sharding"); hlo != nullptr) {
    KRAFLA_TRY(ParseShardings(hlo->text, module_->num_partitions));
    return hlo->text;
  }
  return std::string();
}

Result<> Converter::ParameterShardings(const Op& func, Computation& entry) const {
  AttributeRef arguments = func.Find("arg_attrs");
  for (std::size_t p = 0; arguments != nullptr && p < arguments->elements.size() && p < entry.parameters().size();
       ++p) {
    KRAFLA_ASSIGN(std::string sharding, ShardingIn(arguments->elements[p]));
    if (!sharding.empty()) Annotate(entry.parameters()[p], std::move(sharding));
  }
  return {};
}

Result<Instruction*> Converter::ShardedRoot(const Op& func, Computation& entry,
                                            std::vector<Instruction*> results) const {
  AttributeRef declared = func.Find("res_attrs");
  std::vector<std::string> shardings;
  bool any = false;
  for (std::size_t r = 0; r < results.size(); ++r) {
    std::string sharding;
    if (declared != nullptr && r < declared->elements.size()) {
      KRAFLA_ASSIGN(sharding, ShardingIn(declared->elements[r]));
    }
    any |= !sharding.empty();
    shardings.push_back(sharding.empty() ? "{unknown}" : std::move(sharding));
  }
  if (results.size() == 1) {
    if (!any) return results[0];
    Instruction* root = AddCall(entry, CustomCallTarget::kSharding, results[0]->shape(), {results[0]});
    Annotate(root, std::move(shardings[0]));
    return root;
  }
  KRAFLA_ASSIGN(Instruction * root, AddTuple(entry, std::move(results)));
  if (!any) return root;
  std::string text = "{";
  for (const std::string& one : shardings) text += (text.size() > 1 ? ", " : "") + one;
  Annotate(root, text + "}");
  return root;
}

Result<> Converter::ShardingConstraint(const Op& op, Body& body, std::string_view key) {
  KRAFLA_ASSIGN(Instruction * value, Operand(op, body, 0));
  AttributeRef given = op.Find(key);
  if (module_->num_partitions == 1 || given == nullptr) return Bind(op, body, value);
  KRAFLA_ASSIGN(SdySharding read, ParseSdySharding(given->text, meshes_));
  KRAFLA_ASSIGN(Sharding sharding, ShardingOf(read, module_->num_partitions));
  // Dimensions that may be cut further are as GSPMD's unspecified ones
  // (xla/hlo/utils/hlo_sharding_util.cc, ParseUnspecifiedDims).
  std::string open;
  for (std::size_t d = 0; d < read.dims.size(); ++d)
    if (read.open_dims[d]) open += Format("{}{}", open.empty() ? "" : ",", d);
  if (!open.empty()) open = Format("\"unspecified_dims=[{}]\"", open);
  Instruction* call = AddCall(*body.computation, CustomCallTarget::kSharding, value->shape(), {value});
  Annotate(call, ShardingToText(sharding, value->shape().rank(), module_->num_partitions), {}, std::move(open));
  return Bind(op, body, call);
}

// As XLA writes it (xla/service/spmd/shardy/stablehlo_round_trip/export_ops.cc): a call that gives nothing.
Result<> Converter::ShardingGroup(const Op& op, Body& body) {
  if (module_->num_partitions == 1) return {};
  KRAFLA_ASSIGN(Instruction * value, Operand(op, body, 0));
  KRAFLA_ASSIGN(int64_t group, IntAttribute(op, "group_id"));
  KRAFLA_ASSIGN(Shape nothing, Shape::MakeTuple({}));
  Instruction* call = AddCall(*body.computation, CustomCallTarget::kSdyShardingGroup, std::move(nothing), {value});
  auto attributes = call->attr<CustomCallAttributes>();
  attributes.has_side_effect = true;  // else nothing needs it
  call->set_attributes(std::move(attributes));
  Annotate(call, {}, Format("xla.sdy.sharding_group_id=\"{} : i64\"", group));
  return {};
}

// Adds up what devices hold of a value whose parts are unreduced. XLA's partitioner makes whole values of parts by
// itself, so that nothing is left to do there (xla/service/spmd/shardy/stablehlo_round_trip/export_ops.cc); here only
// where there is one device.
Result<> Converter::ShardyReduction(const Op& op, Body& body) {
  KRAFLA_ASSIGN(Instruction * value, Operand(op, body, 0));
  bool several = module_->num_partitions > 1;
  for (const auto& named : meshes_)
    for (const auto& axis : named.second.axes) several |= axis.second > 1;
  if (several) return Unimplemented("'{}' cannot be computed on several devices.", op.name);
  return Bind(op, body, value);
}

// What it is called and where its values lie changes nothing of what it computes.
Result<> Converter::NamedComputation(const Op& op, Body& body) {
  if (op.regions.size() != 1) return InvalidArgument("A named computation has {} regions, not one.", op.regions.size());
  const Region& region = op.regions[0];
  KRAFLA_ASSIGN(std::vector<Instruction*> operands, Operands(op, body));
  if (operands.size() != region.arguments.size())
    return InvalidArgument("A named computation has {} arguments for {} operands.", region.arguments.size(),
                           operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i)
    KRAFLA_TRY(CheckFits("an argument of a region", TypeOfValue(region.arguments[i]), operands[i]->shape()));
  if (++depth_ > 128) return InvalidArgument("Regions lie within others deeper than the limit of 128.");
  KRAFLA_TRY(InlinedComputation(op, body, operands));
  for (ValueId result : op.results) KRAFLA_TRY(CheckFits(op.name, TypeOfValue(result), body.values[result]->shape()));
  return {};
}

// Values are those of all devices together, whatever lies where: gathering, slicing and permuting give the same value
// with another sharding (shardy/dialect/sdy/ir/ops.td; export_ops.cc writes them as copies).
Result<bool> Converter::Shardy(const Op& op, Body& body) {
  const std::string_view n = std::string_view(op.name).substr(4);
  if (n == "manual_computation") {
    KRAFLA_TRY(ManualComputation(op, body));
  } else if (n == "named_computation") {
    KRAFLA_TRY(NamedComputation(op, body));
  } else if (n == "sharding_constraint" || n == "reshard") {
    KRAFLA_TRY(ShardingConstraint(op, body, "sharding"));
  } else if (n == "all_gather" || n == "all_slice" || n == "all_to_all" || n == "collective_permute") {
    KRAFLA_TRY(ShardingConstraint(op, body, "out_sharding"));
  } else if (n == "all_reduce" || n == "reduce_scatter" || n == "sharded_to_unreduced" ||
             n == "replicated_to_unreduced") {
    KRAFLA_TRY(ShardyReduction(op, body));
  } else if (n == "propagation_barrier" || n == "data_flow_edge") {  // of interest to what moves shardings on
    KRAFLA_ASSIGN(Instruction * value, Operand(op, body, 0));
    KRAFLA_TRY(Bind(op, body, value));
  } else if (n == "sharding_group") {
    KRAFLA_TRY(ShardingGroup(op, body));
  } else {
    return false;
  }
  return true;
}

// On one device a manual computation is the program itself.
Result<> Converter::InlinedComputation(const Op& op, Body& body, std::span<Instruction* const> operands) {
  const Region& region = op.regions[0];
  for (std::size_t i = 0; i < operands.size(); ++i) body.values[region.arguments[i]] = operands[i];
  KRAFLA_ASSIGN(std::vector<Instruction*> results, ConvertOps(region.ops, body));
  if (results.size() != op.results.size())
    return InvalidArgument("A manual computation gives {} values for {} results.", results.size(), op.results.size());
  for (std::size_t i = 0; i < results.size(); ++i) body.values[op.results[i]] = results[i];
  --depth_;
  return {};
}

Result<> Converter::ManualComputation(const Op& op, Body& body) {
  if (op.regions.size() != 1)
    return InvalidArgument("A manual computation has {} regions, not one.", op.regions.size());
  const Region& region = op.regions[0];
  KRAFLA_ASSIGN(std::vector<Instruction*> operands, Operands(op, body));
  if (operands.size() != region.arguments.size())
    return InvalidArgument("A manual computation has {} arguments for {} operands.", region.arguments.size(),
                           operands.size());
  if (++depth_ > 128) return InvalidArgument("Regions lie within others deeper than the limit of 128.");
  if (module_->num_partitions == 1) return InlinedComputation(op, body, operands);
  auto text = [&](std::string_view key) -> Result<std::string> {
    AttributeRef found = op.Find(key);
    if (found == nullptr || found->kind != Kind::kOther)
      return InvalidArgument("A manual computation has no '{}'.", key);
    return hlo_text::Escape(found->text);
  };
  KRAFLA_ASSIGN(std::string in, text("in_shardings"));
  KRAFLA_ASSIGN(std::string out, text("out_shardings"));
  KRAFLA_ASSIGN(std::string axes, text("manual_axes"));
  auto attributes = [&](std::string_view key, const std::string& shardings) {
    return Format("{}=\"{}\",xla.sdy.manual_axes=\"{}\"", key, shardings, axes);
  };
  Body inner;
  inner.computation = module_->AddComputation("xla.sdy.manual_computation_body");
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    KRAFLA_ASSIGN(Shape shape, ShapeOfValue(region.arguments[i]));
    shapes.push_back(shape);
    inner.values[region.arguments[i]] = AddParameter(*inner.computation, static_cast<int64_t>(i), std::move(shape));
  }
  for (ValueId captured : Captures(op)) {
    auto it = body.values.find(captured);
    if (it != body.values.end() && it->second->IsConstant()) inner.values[captured] = CopyConstant(*it->second, inner);
  }
  KRAFLA_ASSIGN(std::vector<Instruction*> results, ConvertOps(region.ops, inner));
  if (results.size() != op.results.size())
    return InvalidArgument("A manual computation gives {} values for {} results.", results.size(), op.results.size());
  KRAFLA_ASSIGN(Instruction * root, AddTuple(*inner.computation, results));
  inner.computation->set_root(root);
  std::vector<Instruction*> locals;
  if (!operands.empty()) {
    KRAFLA_ASSIGN(Shape tuple, Shape::MakeTuple(std::move(shapes)));
    Instruction* local =
        AddCall(*body.computation, CustomCallTarget::kSdyGlobalToLocalShape, std::move(tuple), std::move(operands));
    Annotate(local, {}, attributes("xla.sdy.in_shardings", in));
    for (std::size_t i = 0; i < region.arguments.size(); ++i) {
      KRAFLA_ASSIGN(Instruction * one, AddGetTupleElement(*body.computation, local, static_cast<int64_t>(i)));
      locals.push_back(one);
    }
  }
  KRAFLA_ASSIGN(Instruction * call, AddInferred(*body.computation, Opcode::kCall, std::move(locals), CallAttributes{},
                                                {inner.computation}));
  Annotate(call, {}, Format("xla.sdy.manual_axes=\"{}\",xla.sdy.in_shardings=\"{}\"", axes, in));
  --depth_;
  if (results.empty()) return {};
  std::vector<Shape> global;
  std::vector<Instruction*> given;
  for (std::size_t i = 0; i < results.size(); ++i) {
    KRAFLA_ASSIGN(Shape shape, ShapeOfValue(op.results[i]));
    global.push_back(std::move(shape));
    KRAFLA_ASSIGN(Instruction * one, AddGetTupleElement(*body.computation, call, static_cast<int64_t>(i)));
    given.push_back(one);
  }
  KRAFLA_ASSIGN(Shape tuple, Shape::MakeTuple(std::move(global)));
  Instruction* whole =
      AddCall(*body.computation, CustomCallTarget::kSdyLocalToGlobalShape, std::move(tuple), std::move(given));
  Annotate(whole, {}, attributes("xla.sdy.out_shardings", out));
  for (std::size_t i = 0; i < results.size(); ++i) {
    KRAFLA_ASSIGN(Instruction * one, AddGetTupleElement(*body.computation, whole, static_cast<int64_t>(i)));
    body.values[op.results[i]] = one;
  }
  return {};
}

}  // namespace krafla::stablehlo
