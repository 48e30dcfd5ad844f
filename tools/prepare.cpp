// SPDX-License-Identifier: Apache-2.0
#include "prepare.h"

#include <utility>
#include <vector>

#include "api/front_end.h"

namespace krafla::cli {
namespace {

std::vector<const Literal*> Pointers(const std::vector<Literal>& literals) {
  std::vector<const Literal*> out;
  for (const Literal& l : literals) out.push_back(&l);
  return out;
}

}  // namespace

Result<> Prepared::Execute(const DeviceOptions& options) {
  const RunLimit limit = options.ToRunLimit();
  if (together) together->SetLimit(&limit);
  if (alone) alone->SetLimit(&limit);
  Result<> done = together ? together->Execute() : alone->Execute();
  if (together) together->SetLimit(&kUnlimited);
  if (alone) alone->SetLimit(&kUnlimited);
  return done;
}

Result<Prepared> PrepareAlone(std::unique_ptr<Module> module, const RecordedCase* recorded, Client& client,
                              const CompileOptions& options) {
  Prepared out;
  Stopwatch compile;
  KRAFLA_ASSIGN(out.alone, client.Compile(std::move(module), options));
  out.compile_wall_ms = compile.Milliseconds();
  out.report = out.alone->report();
  out.placement = out.alone->PlacementLine();
  std::vector<Literal> arguments;
  if (recorded != nullptr) {
    KRAFLA_ASSIGN(RecordedArrays arrays,
                  ReadArrays(*recorded, out.alone->arguments(), out.alone->results(), RecordedPart::kInputs));
    arguments = std::move(arrays.inputs[0]);
  } else {
    KRAFLA_ASSIGN(arguments, RandomArguments(out.alone->arguments(), 0));
  }
  KRAFLA_TRY(out.alone->ShareArguments(ToShared(std::move(arguments))));
  return out;
}

Result<Prepared> PrepareTogether(std::unique_ptr<Module> module, const RecordedCase* recorded, DeviceGroup& group,
                                 const CompileOptions& options, const GroupOptions& group_options) {
  Prepared out;
  Stopwatch compile;
  KRAFLA_ASSIGN(out.together, group.Compile(std::move(module), options, group_options));
  out.compile_wall_ms = compile.Milliseconds();
  out.report = out.together->report();
  out.placement = out.together->PlacementLine();
  std::vector<std::vector<Literal>> arguments(static_cast<std::size_t>(out.together->device_count()));
  if (recorded != nullptr) {
    KRAFLA_ASSIGN(RecordedArrays arrays,
                  ReadArrays(*recorded, out.together->arguments(), out.together->results(), RecordedPart::kInputs));
    if (arrays.inputs.size() != arguments.size())
      return InvalidArgument("The case records arrays of {} devices, not of {}.", arrays.inputs.size(),
                             arguments.size());
    arguments = std::move(arrays.inputs);
  } else {
    for (std::size_t d = 0; d < arguments.size(); ++d) {
      KRAFLA_ASSIGN(arguments[d], RandomArguments(out.together->arguments(), d));
    }
  }
  for (std::size_t d = 0; d < arguments.size(); ++d)
    KRAFLA_TRY(out.together->SetArguments(static_cast<int64_t>(d), Pointers(arguments[d])));
  return out;
}

const std::string& ModuleOf(const RecordedCase& c) {
  return c.replicas * c.partitions > 1 && !c.module_path_spmd.empty() ? c.module_path_spmd : c.module_path;
}

}  // namespace krafla::cli
