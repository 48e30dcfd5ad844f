// SPDX-License-Identifier: Apache-2.0
#include "krafla/xla_builder.h"

#include <format>
#include <set>

#include "base/without_exceptions.h"
#include "ir/program_shape.h"
#include "ir/shape_rules/checks.h"
#include "ir/verifier.h"
#include "xla_builder/impl.h"

namespace krafla {
namespace {

// Values that differ between runs, devices or calls.
bool IsKnownOnlyAtRunTime(Opcode opcode) {
  return HasTrait(opcode, op_trait::kSideEffect) || HasTrait(opcode, op_trait::kCollective) ||
         IsOneOf(opcode, {Opcode::kParameter, Opcode::kPartitionId, Opcode::kReplicaId, Opcode::kCustomCall});
}

}  // namespace

XlaBuilder::XlaBuilder(std::string_view computation_name) : impl_(std::make_unique<Impl>(computation_name)) {}
XlaBuilder::~XlaBuilder() = default;

const std::string& XlaBuilder::name() const { return impl_->name; }

std::unique_ptr<XlaBuilder> XlaBuilder::CreateSubBuilder(std::string_view computation_name) {
  return std::make_unique<XlaBuilder>(computation_name);
}

Result<XlaComputation> XlaBuilder::Build() {
  if (!impl_->errors.empty() || impl_->ops.empty()) return Build(XlaOp());
  return Build(MakeOp(impl_->first_handle + static_cast<int64_t>(impl_->ops.size()) - 1));
}

Result<XlaComputation> XlaBuilder::Build(XlaOp root) {
  Impl& b = *impl_;
  auto finish = [&]() -> Result<XlaComputation> {
    if (!b.errors.empty()) {
      Status first = b.errors[0];
      std::size_t more = b.errors.size() - 1;
      if (more > 0)
        static_cast<void>(
            std::move(first).WithContext(Format("{} more call{} went wrong after it", more, more == 1 ? "" : "s")));
      // WithContext gives back what it is called on. NOLINTNEXTLINE(bugprone-use-after-move)
      return Failure(std::move(first).WithContext(Format("while building '{}'", b.name)));
    }
    if (b.ops.empty()) return InvalidArgument("Build: '{}' has no operations.", b.name);
    if (root.IsUninitialized() || root.builder() != this)
      return InvalidArgument("Build: The result of '{}' must be an op of its own builder.", b.name);
    KRAFLA_ASSIGN(Instruction * instruction, b.Find(root));
    b.computation->set_root(instruction);
    b.module->set_entry(b.computation);
    auto parameters = b.computation->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (parameters[i] == nullptr)
        return InvalidArgument("Build: '{}' has no parameter {}; its parameters must be numbered 0 to {}.", b.name, i,
                               parameters.size() - 1);
    b.module->input_output_aliases = b.aliases;
    b.module->buffer_donors = b.donors;
    KRAFLA_TRY(Verify(*b.module));
    return XlaComputation(std::shared_ptr<const Module>(std::move(b.module)));
  };
  Result<XlaComputation> out = WithoutExceptions(finish);
  b.Reset();
  return out;
}

Result<Shape> XlaBuilder::GetShape(XlaOp op) const {
  if (op.builder() != this) return InvalidArgument("GetShape: The op is not of the builder '{}'.", impl_->name);
  if (!op.valid()) {
    if (auto first = first_error()) return Failure(*first);
    return InvalidArgument("GetShape: The op is not valid.");
  }
  KRAFLA_ASSIGN(Instruction * instruction, impl_->Find(op));
  return instruction->shape();
}

Result<ProgramShape> XlaBuilder::GetProgramShape() const {
  if (impl_->ops.empty()) return InvalidArgument("GetProgramShape: '{}' has no operations.", impl_->name);
  return ProgramShapeOf(*impl_->computation, impl_->ops.back()->shape());
}

Result<ProgramShape> XlaBuilder::GetProgramShape(XlaOp root) const {
  KRAFLA_ASSIGN(Shape result, GetShape(root));
  return ProgramShapeOf(*impl_->computation, result);
}

Result<bool> XlaBuilder::IsConstant(XlaOp op) const {
  KRAFLA_TRY(GetShape(op));
  KRAFLA_ASSIGN(Instruction * start, impl_->Find(op));
  std::set<const Instruction*> seen = {start};
  std::vector<const Instruction*> stack = {start};
  while (!stack.empty()) {
    const Instruction* i = stack.back();
    stack.pop_back();
    if (IsKnownOnlyAtRunTime(i->opcode())) return false;
    for (const Computation* f : i->called())
      for (const auto& inner : f->instructions())
        if (inner->opcode() != Opcode::kParameter && IsKnownOnlyAtRunTime(inner->opcode())) return false;
    for (const Instruction* operand : i->operands())
      if (seen.insert(operand).second) stack.push_back(operand);
  }
  return true;
}

const std::vector<Status>& XlaBuilder::errors() const { return impl_->errors; }

std::optional<Status> XlaBuilder::first_error() const {
  if (impl_->errors.empty()) return std::nullopt;
  return impl_->errors[0];
}

XlaOp XlaBuilder::ReportError(Status error) {
  impl_->NoteError(std::move(error));
  return MakeOp(-1);
}

XlaOp XlaBuilder::ReportErrorOrReturn(Result<XlaOp> op) { return op ? *op : ReportError(std::move(op).error()); }

void XlaBuilder::SetOpMetadata(OpMetadata metadata) { impl_->metadata = std::move(metadata); }
void XlaBuilder::ClearOpMetadata() { impl_->metadata = {}; }
void XlaBuilder::SetOneShotOpMetadata(OpMetadata metadata) { impl_->one_shot_metadata = std::move(metadata); }
void XlaBuilder::SetFrontendAttributes(FrontendAttributes attributes) {
  impl_->frontend_attributes = std::move(attributes);
}
void XlaBuilder::ClearFrontendAttributes() { impl_->frontend_attributes.clear(); }
void XlaBuilder::SetSharding(std::string sharding) { impl_->sharding = std::move(sharding); }
void XlaBuilder::ClearSharding() { impl_->sharding.reset(); }

Result<> XlaBuilder::SetInstructionFrontendAttribute(XlaOp op, std::string attribute, std::string value) {
  KRAFLA_TRY(GetShape(op));
  KRAFLA_ASSIGN(Instruction * instruction, impl_->Find(op));
  KRAFLA_ASSIGN(std::string text, xla_builder::FrontendAttributesText({{std::move(attribute), std::move(value)}}));
  InstructionMetadata said = instruction->metadata();
  said.frontend_attributes = std::move(text);
  instruction->set_metadata(std::move(said));
  return {};
}

void XlaBuilder::SetDeviceCounts(int64_t replica_count, int64_t num_partitions) {
  if (replica_count < 1 || num_partitions < 1 || replica_count > kMaxDevices / num_partitions) {
    ReportError(Status(StatusCode::kInvalidArgument,
                       Format("SetDeviceCounts: {} replicas of {} partitions must be at least 1 of 1 and make at "
                              "most {} devices.",
                              replica_count, num_partitions, kMaxDevices)));
    return;
  }
  impl_->replica_count = replica_count;
  impl_->num_partitions = num_partitions;
  impl_->module->replica_count = replica_count;
  impl_->module->num_partitions = num_partitions;
}

void XlaBuilder::SetUpAlias(const ShapeIndex& output_index, int64_t param_number, const ShapeIndex& param_index,
                            bool must_alias) {
  impl_->aliases.push_back({output_index, param_number, param_index, must_alias});
}

void XlaBuilder::AddBufferDonor(int64_t param_number, const ShapeIndex& param_index) {
  impl_->donors.push_back({param_number, param_index});
}

XlaScopedShardingAssignment::XlaScopedShardingAssignment(XlaBuilder* builder, std::optional<std::string> sharding)
    : builder_(builder), saved_(builder->impl().sharding) {
  builder->impl().sharding = std::move(sharding);
}
XlaScopedShardingAssignment::~XlaScopedShardingAssignment() { builder_->impl().sharding = std::move(saved_); }

XlaScopedFrontendAttributesAssignment::XlaScopedFrontendAttributesAssignment(XlaBuilder* builder,
                                                                             FrontendAttributes attributes)
    : builder_(builder), saved_(builder->impl().frontend_attributes) {
  builder->SetFrontendAttributes(std::move(attributes));
}
XlaScopedFrontendAttributesAssignment::~XlaScopedFrontendAttributesAssignment() {
  builder_->SetFrontendAttributes(std::move(saved_));
}

XlaScopedOpMetadataAssignment::XlaScopedOpMetadataAssignment(XlaBuilder* builder, OpMetadata metadata)
    : builder_(builder), saved_(builder->impl().metadata) {
  builder->SetOpMetadata(std::move(metadata));
}
XlaScopedOpMetadataAssignment::~XlaScopedOpMetadataAssignment() { builder_->SetOpMetadata(std::move(saved_)); }

}  // namespace krafla
