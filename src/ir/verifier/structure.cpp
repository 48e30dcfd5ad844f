// SPDX-License-Identifier: Apache-2.0
#include <unordered_set>

#include "base/checked_math.h"
#include "ir/verifier/checks.h"

namespace krafla::verifier {
namespace {

Result<> CheckParameters(const Computation& c) {
  auto parameters = c.parameters();
  for (std::size_t n = 0; n < parameters.size(); ++n) {
    const Instruction* p = parameters[n];
    if (p == nullptr)
      return InvalidArgument("Computation '{}' has no parameter {}; its parameters must be numbered 0 to {}.", c.name(),
                             n, parameters.size() - 1);
    if (p->opcode() != Opcode::kParameter || p->parent() != &c)
      return InvalidArgument("{} is not a parameter of computation '{}'.", Describe(*p), c.name());
  }
  std::size_t count = 0;
  for (const auto& i : c.instructions()) {
    if (i->opcode() != Opcode::kParameter) continue;
    ++count;
    const auto* attributes = std::get_if<ParameterAttributes>(&i->attributes());
    if (attributes == nullptr) return At(*i, Status(StatusCode::kInvalidArgument, "A parameter needs a number."));
    int64_t n = attributes->number;
    if (n < 0 || n >= static_cast<int64_t>(parameters.size()))
      return InvalidArgument("{} in computation '{}': Parameter number {} is outside [0, {}).", Describe(*i), c.name(),
                             n, parameters.size());
    if (parameters[static_cast<std::size_t>(n)] != i.get())
      return InvalidArgument("{} in computation '{}': Parameter {} was given twice.", Describe(*i), c.name(), n);
  }
  if (count != parameters.size())
    return InvalidArgument("Computation '{}' lists {} parameters, it has {}.", c.name(), parameters.size(), count);
  return {};
}

}  // namespace

Failure At(const Instruction& i, const Status& error) {
  return Failure(
      Status(error.code(), Format("{} in computation '{}': {}", Describe(i), i.parent()->name(), error.message())));
}

Result<> CheckStructure(const Module& module) {
  auto devices = CheckedMul(module.replica_count, module.num_partitions);
  if (module.replica_count < 1 || module.num_partitions < 1 || !devices || *devices > kMaxDevices)
    return InvalidArgument("replica_count={} and num_partitions={} must be at least 1 and make at most {} devices.",
                           module.replica_count, module.num_partitions, kMaxDevices);
  std::unordered_set<const Computation*> known;
  for (const auto& c : module.computations()) known.insert(c.get());
  if (module.entry() == nullptr || !known.contains(module.entry()))
    return InvalidArgument("The module '{}' has no entry computation.", module.name());
  for (const auto& c : module.computations()) {
    if (c->instructions().empty()) return InvalidArgument("Computation '{}' has no instructions.", c->name());
    if (c->root() == nullptr) return InvalidArgument("Computation '{}' has no root.", c->name());
    if (c->root()->parent() != c.get())
      return InvalidArgument("The root of computation '{}' belongs to computation '{}'.", c->name(),
                             c->root()->parent()->name());
    for (const auto& i : c->instructions()) {
      auto owned_here = [&](const Instruction* other, const char* what) -> Result<> {
        if (other != nullptr && other->parent() == c.get()) return {};
        return At(*i,
                  Status(StatusCode::kInvalidArgument, Format("{} is not an instruction of this computation.", what)));
      };
      for (const Instruction* operand : i->operands()) KRAFLA_TRY(owned_here(operand, "An operand"));
      for (const Instruction* before : i->control_predecessors())
        KRAFLA_TRY(owned_here(before, "A control predecessor"));
      for (const Computation* called : i->called())
        if (called == nullptr || !known.contains(called))
          return At(*i, Status(StatusCode::kInvalidArgument, "A called computation is not part of the module."));
    }
    KRAFLA_TRY(CheckParameters(*c));
  }
  return {};
}

}  // namespace krafla::verifier
