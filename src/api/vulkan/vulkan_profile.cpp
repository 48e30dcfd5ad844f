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
  const spirv::EmittedLoop::Launch& first = shared_->kernels.loops.at(&loop).launches.front();
  row.place = PlaceName();
  row.variant = first.kernel.variant;
  row.grid = first.grid;
  row.local_size = first.kernel.local_size;
  return AddRow(std::move(row));
}

void VulkanExecutable::SetStepObserver(const StepObserver* observer) {
  observer_ = observer;
  measured_ = {};
  // Without rows there is nothing to tell of, and nothing is measured.
  if (observer != nullptr) measured_ = profiled_;
}

void VulkanExecutable::Measured(int row, std::chrono::steady_clock::time_point begin, double ms) {
  ProfiledStep& step = measured_[static_cast<std::size_t>(row)];
  if (observer_ != nullptr) return (*observer_)(step, begin, ms);
  ++step.times;
  step.ms += ms;
}

Result<> VulkanExecutable::RunMeasured(const DeviceNode& node) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin = Clock::now();
  KRAFLA_ASSIGN(const std::vector<double> ms, node.program->Profile(slots_));
  // The device's own clock is another: its steps are told as if the first began when it was given them.
  for (std::size_t s = 0; s < ms.size(); ++s) {
    Measured(node.rows[s], begin, ms[s]);
    begin += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(ms[s]));
  }
  return {};
}

Result<> VulkanExecutable::RunMeasured(const HostNode& node) {
  const auto begin = std::chrono::steady_clock::now();
  const Stopwatch time;
  KRAFLA_TRY(RunHost(node));
  Measured(node.row, begin, time.Milliseconds());
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
