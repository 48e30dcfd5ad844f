// SPDX-License-Identifier: Apache-2.0
// Collectives and channels against the devices that a module is compiled for.
#include "ir/builder.h"
#include "ir/shape_rules/checks.h"
#include "ir/verifier.h"
#include "ir/verifier/checks.h"

namespace krafla {
namespace {

Result<> CheckCollective(const Instruction& i, const Module& module) {
  std::vector<const Shape*> operands;
  for (const Instruction* operand : i.operands()) operands.push_back(&operand->shape());
  std::vector<ComputationSignature> called;
  for (const Computation* c : i.called()) called.push_back(SignatureOf(*c));
  auto inferred = InferShape({.opcode = i.opcode(),
                              .operands = operands,
                              .attributes = i.attributes(),
                              .called = called,
                              .declared = &i.shape(),
                              .replica_count = module.replica_count,
                              .num_partitions = module.num_partitions,
                              .device_counts_known = true});
  if (!inferred) return Failure(std::move(inferred).error());
  if (Shape::Compatible(*inferred, i.shape())) return {};
  return InvalidArgument("It is declared as {}; among these devices it gives {}.", shape_rules::Brief(i.shape()),
                         shape_rules::Brief(*inferred));
}

// A send or recv between devices needs another one.
Result<> CheckChannel(const Instruction& i, const Module& module) {
  if (i.attr<ChannelAttributes>().is_host_transfer || module.replica_count * module.num_partitions > 1) return {};
  return InvalidArgument("A channel between devices needs at least two of them.");
}

}  // namespace

Result<> VerifyDevices(const Module& module) {
  for (const auto& computation : module.computations()) {
    for (const auto& i : computation->instructions()) {
      const bool channel = std::holds_alternative<ChannelAttributes>(i->attributes());
      if (!channel && !std::holds_alternative<CollectiveAttributes>(i->attributes())) continue;
      Result<> fits = channel ? CheckChannel(*i, module) : CheckCollective(*i, module);
      if (fits) continue;
      return Failure(std::move(verifier::At(*i, std::move(fits).error()).error())
                         .WithContext(Format("The module is compiled for {} replicas and {} partitions. If it was made "
                                             "for others, say so: replica_count and num_partitions in its header, "
                                             "--replicas and --partitions, or XlaBuilder::SetDeviceCounts.",
                                             module.replica_count, module.num_partitions)));
    }
  }
  return {};
}

}  // namespace krafla
