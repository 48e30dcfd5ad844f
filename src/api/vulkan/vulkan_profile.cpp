// SPDX-License-Identifier: Apache-2.0
// Measuring the steps of a VulkanExecutable: device steps by timestamps, host kernels by the clock.
#include <algorithm>

#include "api/front_end.h"
#include "api/vulkan/vulkan_executable.h"

namespace krafla {

std::string VulkanExecutable::PlaceName() const { return device_description_.substr(0, device_description_.find(' ')); }

int VulkanExecutable::AddRow(ProfiledStep row) {
  profiled_.push_back(std::move(row));
  return static_cast<int>(profiled_.size()) - 1;
}

int VulkanExecutable::AddRow(const plan::LaunchStep& launch, const spirv::EmittedDispatch* dispatch) {
  if (!keeps_profile_) return kNoRow;
  ProfiledStep row = DescribeStep(plan_, launch);
  const auto k = static_cast<std::size_t>(launch.kernel);
  if (dispatch == nullptr) {
    row.place = "cpu";
    row.reason = shared_->kernels.refusals[k];
    return AddRow(std::move(row));
  }
  const spirv::EmittedProgram& program = *emitted_[k];
  const spirv::EmittedKernel& kernel = program.kernels[static_cast<std::size_t>(dispatch->kernel)];
  row.place = PlaceName();
  row.variant = kernel.variant;
  row.reason = kernel.reason;
  row.grid = dispatch->grid;
  row.local_size = kernel.local_size;
  double shares = 0;
  for (const spirv::EmittedDispatch& d : program.dispatches) shares += d.share;
  row.flops *= dispatch->share / shares;
  row.bytes *= dispatch->share / shares;
  return AddRow(std::move(row));
}

int VulkanExecutable::AddRow(const plan::CopyStep& copy) {
  if (!keeps_profile_) return kNoRow;
  ProfiledStep row = DescribeStep(copy);
  row.place = PlaceName();
  return AddRow(std::move(row));
}

int VulkanExecutable::AddRow(const plan::WhileStep& loop) {
  if (!keeps_profile_) return kNoRow;
  ProfiledStep row = DescribeStep(loop);
  const spirv::EmittedKernel& kernel = shared_->kernels.loops.at(&loop).kernel;
  row.place = PlaceName();
  row.variant = kernel.variant;
  row.grid = {1, 1, 1};
  row.local_size = kernel.local_size;
  return AddRow(std::move(row));
}

Result<> VulkanExecutable::RunMeasured(const DeviceNode& node) {
  KRAFLA_ASSIGN(const std::vector<double> ms, node.program->Profile(slots_));
  for (std::size_t s = 0; s < ms.size(); ++s) {
    ProfiledStep& row = measured_[static_cast<std::size_t>(node.rows[s])];
    ++row.times;
    row.ms += ms[s];
  }
  return {};
}

Result<> VulkanExecutable::RunMeasured(const HostNode& node) {
  const Stopwatch time;
  KRAFLA_TRY(RunHost(node));
  ProfiledStep& row = measured_[static_cast<std::size_t>(node.row)];
  ++row.times;
  row.ms += time.Milliseconds();
  return {};
}

Result<RunProfile> VulkanExecutable::Profile(int runs) {
  return WithoutExceptions([&]() -> Result<RunProfile> {
    std::lock_guard lock(running_);
    if (!keeps_profile_)
      return FailedPrecondition("The program was not compiled to be profiled (CompileOptions::for_profile).");
    // Results that begin as arguments are copied at the beginning of a run.
    std::vector<ProfiledStep> rows = profiled_;
    rows.push_back(DescribeAliasedCopies(plan_));
    rows.back().place = PlaceName();
    return ProfileRuns(
        runs, std::move(rows), [&] { return Execute(); },
        [&](std::span<ProfiledStep> measured) -> Result<> {
          KRAFLA_TRY(PlaceOwn());
          if (std::ranges::find(copied_, true) != copied_.end()) {
            KRAFLA_ASSIGN(vk::Program * copies, CopiesOfAliased(copied_));
            KRAFLA_ASSIGN(const std::vector<double> ms, copies->Profile(slots_));
            for (double one : ms) measured.back().ms += one;
            ++measured.back().times;
            copied_.assign(copied_.size(), false);
          }
          measured_ = measured;
          Result<> done = WithoutExceptions([&] { return RunProgram(); });
          measured_ = {};
          has_results_ = done.has_value();
          return done;
        });
  });
}

}  // namespace krafla
