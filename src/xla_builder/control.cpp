// SPDX-License-Identifier: Apache-2.0
// Tuples, calls, branches and loops.
#include <format>

#include "ir/shape_rules/checks.h"
#include "xla_builder/impl.h"

namespace krafla {

using namespace xla_builder;  // NOLINT: the calls are made of its parts
using shape_rules::Brief;

XlaOp Tuple(XlaBuilder* builder, Span<XlaOp> elements) { return RunOp("Tuple", builder, elements, Opcode::kTuple); }

XlaOp GetTupleElement(XlaOp tuple_data, int64_t index) {
  return RunOp("GetTupleElement", nullptr, {tuple_data}, Opcode::kGetTupleElement, TupleIndexAttributes{index});
}

XlaOp Call(XlaBuilder* builder, const ComputationOrError& computation, Span<XlaOp> operands) {
  return Run("Call", builder, operands, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(Computation * f, b.Import(computation));
    return b.Add(Opcode::kCall, ToVector(ops), CallAttributes{}, {f});
  });
}

XlaOp CompositeCall(XlaBuilder* builder, const ComputationOrError& computation, Span<XlaOp> operands,
                    std::string_view name, std::optional<std::string_view> attributes, std::optional<int64_t> version) {
  return Run("CompositeCall", builder, operands, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    if (name.empty()) return InvalidArgument("A composite needs a name.");
    if (version.value_or(0) < 0) return InvalidArgument("The version must not be negative, it is {}.", *version);
    KRAFLA_ASSIGN(Computation * f, b.Import(computation));
    KRAFLA_ASSIGN(Instruction * out, b.Add(Opcode::kCall, ToVector(ops), CallAttributes{true}, {f}));
    FrontendAttributes said = b.frontend_attributes;
    said["composite.name"] = name;
    said["composite.attributes"] = attributes.value_or("{}");
    said["composite.version"] = std::to_string(version.value_or(0));
    InstructionMetadata metadata = out->metadata();
    KRAFLA_ASSIGN(metadata.frontend_attributes, FrontendAttributesText(said));
    out->set_metadata(std::move(metadata));
    return out;
  });
}

XlaOp Fusion(XlaBuilder* builder, Span<XlaOp> operands, FusionKind kind, const ComputationOrError& fused_computation) {
  return Run("Fusion", builder, operands, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(Computation * f, b.Import(fused_computation));
    return b.Add(Opcode::kFusion, ToVector(ops), FusionAttributes{kind}, {f});
  });
}

XlaOp While(const ComputationOrError& condition, const ComputationOrError& body, XlaOp init) {
  return Run("While", nullptr, {init}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(Computation * f, b.Import(condition));
    KRAFLA_ASSIGN(Computation * g, b.Import(body));
    return b.Add(Opcode::kWhile, ToVector(ops), WhileAttributes{}, {f, g});
  });
}

XlaOp Conditional(XlaOp predicate, XlaOp true_operand, const ComputationOrError& true_computation, XlaOp false_operand,
                  const ComputationOrError& false_computation) {
  return Run("Conditional", nullptr, {predicate, true_operand, false_operand},
             [&](Impl& b, Instructions ops) -> Result<Instruction*> {
               if (!shape_rules::IsScalarOf(ops[0]->shape(), ElementType::kPred))
                 return InvalidArgument("The predicate must be pred[], it is {}.", Brief(ops[0]->shape()));
               KRAFLA_ASSIGN(Computation * f, b.Import(true_computation));
               KRAFLA_ASSIGN(Computation * g, b.Import(false_computation));
               return b.Add(Opcode::kConditional, ToVector(ops), {}, {f, g});
             });
}

XlaOp Conditional(XlaOp branch_index, Span<const XlaComputation*> branch_computations, Span<XlaOp> branch_operands) {
  return Run("Conditional", nullptr, Join({branch_index}, branch_operands),
             [&](Impl& b, Instructions ops) -> Result<Instruction*> {
               if (branch_computations.size() != branch_operands.size() || branch_operands.empty())
                 return InvalidArgument(
                     "There must be an operand for each branch, and at least one branch; {} "
                     "branches and {} operands were given.",
                     branch_computations.size(), branch_operands.size());
               std::vector<Computation*> branches;
               for (const XlaComputation* branch : branch_computations) {
                 if (branch == nullptr) return InvalidArgument("Branch {} is a null pointer.", branches.size());
                 KRAFLA_ASSIGN(Computation * f, b.Import(*branch));
                 branches.push_back(f);
               }
               return b.Add(Opcode::kConditional, ToVector(ops), {}, std::move(branches));
             });
}

XlaOp OptimizationBarrier(XlaOp operand) {
  return RunOp("OptimizationBarrier", nullptr, {operand}, Opcode::kOptimizationBarrier);
}

XlaOp Domain(XlaOp operand, std::string_view entry, std::string_view exit) {
  return Run("Domain", nullptr, {operand}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    for (std::string_view side : {entry, exit}) {
      int depth = 0;
      bool closed = side.starts_with('{') && side.ends_with('}');
      for (std::size_t i = 0; closed && i < side.size(); ++i) {
        depth += side[i] == '{' ? 1 : side[i] == '}' ? -1 : 0;
        if (depth == 0 && i + 1 < side.size()) closed = false;
      }
      if (!closed || depth != 0)
        return InvalidArgument(
            "The shardings of a domain are written as in HLO text, in braces: {{replicated}}; '{}' "
            "is not.",
            side);
    }
    return b.Add(Opcode::kDomain, {ops[0]},
                 DomainAttributes{Format("kind=\"sharding\", entry={}, exit={}", entry, exit)});
  });
}

namespace {

struct CustomCallArguments {
  std::string_view target;
  const ShapeOrError& shape;
  const ComputationOrError* computation = nullptr;
  std::optional<Span<Shape>> operand_layouts;
  std::string_view opaque;
  bool has_side_effect = false;
  Span<OutputOperandAliasing> aliasing;
  const Literal* literal = nullptr;
  CustomCallApiVersion api_version = CustomCallApiVersion::API_VERSION_ORIGINAL;
};

const char* VersionWord(CustomCallApiVersion version) {
  switch (version) {
    case CustomCallApiVersion::API_VERSION_ORIGINAL: return "";
    case CustomCallApiVersion::API_VERSION_STATUS_RETURNING: return "API_VERSION_STATUS_RETURNING";
    case CustomCallApiVersion::API_VERSION_STATUS_RETURNING_UNIFIED: return "API_VERSION_STATUS_RETURNING_UNIFIED";
    case CustomCallApiVersion::API_VERSION_TYPED_FFI: return "API_VERSION_TYPED_FFI";
  }
  KRAFLA_UNREACHABLE();
}

// backend_config is a quoted string, or JSON as it stands.
std::string ConfigText(std::string_view opaque) {
  if (opaque.empty()) return {};
  std::string out = "\"";
  for (char c : opaque) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + '"';
}

XlaOp MakeCustomCall(const char* call, XlaBuilder* builder, Span<XlaOp> operands, const CustomCallArguments& a) {
  return Run(call, builder, operands, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    if (!a.shape) return Failure(a.shape.error());
    if (a.target.empty()) return InvalidArgument("The name of the target is empty.");
    if (a.target.starts_with('$'))
      return InvalidArgument("The target '{}' starts with '$', which is kept for the compiler's own.", a.target);
    CustomCallAttributes attributes;
    attributes.target = a.target;
    attributes.has_side_effect = a.has_side_effect;
    attributes.api_version = VersionWord(a.api_version);
    if (a.operand_layouts) {
      attributes.operand_layouts = std::vector<Shape>(a.operand_layouts->begin(), a.operand_layouts->end());
      if (a.operand_layouts->size() != ops.size())
        return InvalidArgument("operand_shapes_with_layout must have one entry for each of the {} operands, it has {}.",
                               ops.size(), a.operand_layouts->size());
    }
    for (const auto& [output, operand] : a.aliasing)
      attributes.output_to_operand_aliasing.push_back({output, operand.first, operand.second});
    if (a.literal != nullptr) attributes.literal = std::make_shared<const Literal>(*a.literal);
    std::vector<Computation*> called;
    if (a.computation != nullptr) {
      KRAFLA_ASSIGN(Computation * f, b.Import(*a.computation));
      called.push_back(f);
    }
    KRAFLA_ASSIGN(Instruction * out,
                  b.Add(Opcode::kCustomCall, ToVector(ops), std::move(attributes), std::move(called), &*a.shape));
    if (!a.opaque.empty()) {
      InstructionMetadata metadata = out->metadata();
      metadata.backend_config = ConfigText(a.opaque);
      out->set_metadata(std::move(metadata));
    }
    return out;
  });
}

}  // namespace

XlaOp CustomCall(XlaBuilder* builder, std::string_view call_target_name, Span<XlaOp> operands,
                 const ShapeOrError& shape, std::string_view opaque, bool has_side_effect,
                 Span<OutputOperandAliasing> output_operand_aliasing, const Literal* literal,
                 CustomCallApiVersion api_version) {
  return MakeCustomCall(
      "CustomCall", builder, operands,
      {call_target_name, shape, nullptr, {}, opaque, has_side_effect, output_operand_aliasing, literal, api_version});
}
XlaOp CustomCallWithComputation(XlaBuilder* builder, std::string_view call_target_name, Span<XlaOp> operands,
                                const ComputationOrError& computation, const ShapeOrError& shape,
                                std::string_view opaque, bool has_side_effect,
                                Span<OutputOperandAliasing> output_operand_aliasing, const Literal* literal,
                                CustomCallApiVersion api_version) {
  return MakeCustomCall("CustomCallWithComputation", builder, operands,
                        {call_target_name,
                         shape,
                         &computation,
                         {},
                         opaque,
                         has_side_effect,
                         output_operand_aliasing,
                         literal,
                         api_version});
}
XlaOp CustomCallWithLayout(XlaBuilder* builder, std::string_view call_target_name, Span<XlaOp> operands,
                           const ShapeOrError& shape_with_layout, Span<Shape> operand_shapes_with_layout,
                           std::string_view opaque, bool has_side_effect,
                           Span<OutputOperandAliasing> output_operand_aliasing, const Literal* literal,
                           CustomCallApiVersion api_version) {
  return MakeCustomCall("CustomCallWithLayout", builder, operands,
                        {call_target_name, shape_with_layout, nullptr, operand_shapes_with_layout, opaque,
                         has_side_effect, output_operand_aliasing, literal, api_version});
}

}  // namespace krafla
