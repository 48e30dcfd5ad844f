// SPDX-License-Identifier: Apache-2.0
#include "api/run_profile.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "api/front_end.h"
#include "ir/value_names.h"

namespace krafla {
namespace {

void DescribeOrigin(const Instruction* instruction, ProfiledStep& out) {
  if (instruction == nullptr) return;
  out.instruction = instruction->name();
  out.opcode = OpcodeName(instruction->opcode());
  const std::string& metadata = instruction->metadata().metadata;
  out.op_name = MetadataValue(metadata, "op_name");
  out.source = MetadataValue(metadata, "source_file");
  const std::string line = MetadataValue(metadata, "source_line");
  if (!out.source.empty() && !line.empty()) out.source += ":" + line;
}

double Median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

Result<RunProfile> ProfileRuns(int runs, std::vector<ProfiledStep> steps, const std::function<Result<>()>& run,
                               const std::function<Result<>(std::span<ProfiledStep>)>& measured) {
  if (runs < 1) return InvalidArgument("A profile takes at least one run, not {}.", runs);
  KRAFLA_TRY(run());
  RunProfile out;
  out.runs = runs;
  std::vector<double> run_ms, profiled_ms;
  std::vector<std::vector<double>> step_ms(steps.size());
  for (int n = 0; n < runs; ++n) {
    const Stopwatch one;
    KRAFLA_TRY(run());
    run_ms.push_back(one.Milliseconds());
    for (ProfiledStep& step : steps) step.times = 0, step.ms = 0;
    const Stopwatch other;
    KRAFLA_TRY(measured(steps));
    profiled_ms.push_back(other.Milliseconds());
    for (std::size_t s = 0; s < steps.size(); ++s) step_ms[s].push_back(steps[s].ms);
  }
  out.run_ms = Median(run_ms);
  out.profiled_ms = Median(profiled_ms);
  for (std::size_t s = 0; s < steps.size(); ++s) steps[s].ms = Median(step_ms[s]);
  std::erase_if(steps, [](const ProfiledStep& step) { return step.times == 0; });
  out.steps = std::move(steps);
  return out;
}

ProfiledStep DescribeStep(const plan::ProgramPlan& plan, const plan::LaunchStep& launch) {
  const plan::KernelPlan& kernel = plan.kernels[static_cast<std::size_t>(launch.kernel)];
  ProfiledStep out;
  out.kernel = kernel.name;
  out.family = plan::FamilyName(kernel);
  out.flops = kernel.flops;
  out.bytes = kernel.bytes;
  DescribeOrigin(launch.instruction, out);
  return out;
}

// What the program waits for where a collective is not over yet.
ProfiledStep DescribeStep(const plan::AwaitStep& await) {
  ProfiledStep out;
  out.kernel = "await of " + await.instruction->name();
  out.family = "await";
  DescribeOrigin(await.instruction, out);
  return out;
}

ProfiledStep DescribeStep(const plan::CopyStep& copy) {
  ProfiledStep out;
  out.kernel = out.family = "copy";
  out.bytes = static_cast<double>(copy.from.size + copy.to.size);
  return out;
}

ProfiledStep DescribeAliasedCopies(const plan::ProgramPlan& plan) {
  ProfiledStep out;
  out.kernel = "copy of aliased arguments";
  out.family = "copy";
  for (std::size_t r = 0; r < plan.results.size(); ++r)
    if (plan.result_aliases[r] >= 0) out.bytes += 2 * static_cast<double>(plan.results[r].byte_size());
  return out;
}

ProfiledStep DescribeStep(const plan::WhileStep& loop) {
  ProfiledStep out;
  out.kernel = loop.instruction->name();
  out.family = "while";
  DescribeOrigin(loop.instruction, out);
  return out;
}

ProfiledStep DescribeStep(const plan::ProgramPlan& plan, const plan::RowGroupStep& group) {
  ProfiledStep out;
  double blocks = 1;
  for (int64_t extent : group.grid) blocks *= static_cast<double>(extent);
  for (const plan::BlockLaunch& launch : group.launches) {
    const ProfiledStep one = DescribeStep(plan, launch);
    out.kernel = one.kernel;
    out.flops += one.flops * blocks;
    out.bytes += one.bytes * blocks;
  }
  out.family = "rows";
  DescribeOrigin(group.launches.back().instruction, out);
  return out;
}

}  // namespace krafla
