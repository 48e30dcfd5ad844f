// SPDX-License-Identifier: Apache-2.0
// Runs of a VulkanExecutable between arrays that are there: submitted with semaphores of others, or recorded into their
// command buffers.
#include <algorithm>

#include "api/front_end.h"
#include "api/vulkan/vulkan_recording.h"
#include "plan/step_runner.h"

namespace krafla {
namespace {

Result<> CheckArrays(std::span<const std::shared_ptr<VulkanBuffer>> arrays, std::span<const Shape> shapes,
                     std::string_view what, const vk::Device& device) {
  if (arrays.size() != shapes.size())
    return InvalidArgument("The program has {} {}s, {} were given.", shapes.size(), what, arrays.size());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i] == nullptr || arrays[i]->memory() == nullptr || &arrays[i]->memory()->device() != &device)
      return InvalidArgument("The {} {} is not an array on the program's device.", what, i);
    if (!Shape::SameDims(arrays[i]->shape(), shapes[i]) ||
        arrays[i]->shape().element_type() != shapes[i].element_type())
      return InvalidArgument("The {} {} is {}, the program's is {}.", what, i, arrays[i]->shape().ToString(false),
                             shapes[i].ToString(false));
  }
  return {};
}

}  // namespace

Result<> VulkanExecutable::PlaceBetween(const Arrays& arrays) {
  KRAFLA_TRY(CheckArrays(arrays.arguments, plan_.arguments, "input", *device_));
  KRAFLA_TRY(CheckArrays(arrays.results, plan_.results, "output", *device_));
  copied_.assign(plan_.results.size(), false);
  for (std::size_t a = 0; a < arrays.arguments.size(); ++a)
    slots_[a] = {arrays.arguments[a]->memory().get(), arrays.arguments[a]->offset()};
  for (std::size_t r = 0; r < arrays.results.size(); ++r) {
    const VulkanBuffer& result = *arrays.results[r];
    if (!result.IsWritable()) return InvalidArgument("The output {} shares memory of the host, which is only read.", r);
    const vk::BufferBinding slot = {result.memory().get(), result.offset()};
    slots_[arrays.arguments.size() + r] = slot;
    if (plan_.result_aliases[r] < 0 || plan_.results[r].byte_size() == 0) continue;
    // It begins as that argument, unless it is that argument.
    const vk::BufferBinding& argument = slots_[static_cast<std::size_t>(plan_.result_aliases[r])];
    copied_[r] = argument.buffer != slot.buffer || argument.offset != slot.offset;
  }
  return {};
}

Result<> VulkanExecutable::RunBetween(const Arrays& arrays, std::span<const vk::SemaphoreValue> waits,
                                      std::span<const vk::SemaphoreValue> signals, const RunLimit& limit) {
  return WithoutExceptions([&]() -> Result<> {
    KRAFLA_ASSIGN(const auto turn, TakeTurn(limit));
    const Limited limited(*this, limit);
    arguments_.clear();
    results_.clear();
    has_results_ = false;
    KRAFLA_TRY(PlaceBetween(arrays));
    // So that the host cannot run ahead for ever.
    vk::Event& oldest = in_flight_[run_++ % most_in_flight_];
    KRAFLA_TRY(device_->Wait(oldest, *limit_));
    KRAFLA_TRY(device_->WaitForSemaphores(waits));
    Result<> run = RunProgram();
    oldest = last_;
    Result<> signalled = device_->SignalSemaphores(signals);
    KRAFLA_TRY(std::move(run));
    return signalled;
  });
}

// What nodes need of a device that only takes commands (plan/step_runner.h). First it binds, then it records.
class VulkanExecutable::Recorder {
 public:
  Recorder(VulkanExecutable& executable, Recording& recording) : executable_(executable), bound_(&recording) {}
  Recorder(VulkanExecutable& executable, const Recording& recording, VkCommandBuffer commands)
      : executable_(executable), recording_(&recording), commands_(commands) {}

  Result<> Take(vk::Program& program) {
    if (recording_ != nullptr) {
      program.RecordInto(commands_, *recording_->bindings_.at(&program));
      return {};
    }
    auto& binding = bound_->bindings_[&program];
    if (binding == nullptr) { KRAFLA_ASSIGN(binding, program.Bind(executable_.slots_)); }
    return {};
  }
  Result<> Run(const DeviceNode& node) { return Take(*node.program); }
  Result<> Run(const HostNode& node) {
    const plan::KernelPlan& kernel = executable_.plan_.kernels[static_cast<std::size_t>(node.kernel)];
    return Unimplemented("'{}' runs on the host, which cannot be recorded.", kernel.name);
  }
  Result<> Run(const AwaitNode&) { return {}; }
  Result<bool> TryLoop(const WhileNode&) { return false; }
  Result<> Check() const { return {}; }
  Result<bool> ReadPredicate(const plan::Slice&) {
    return Unimplemented(
        "A loop of the program goes on as its values say; the host reads them, which cannot be recorded.");
  }
  Result<int32_t> ReadIndex(const plan::Slice&) {
    return Unimplemented(
        "A branch of the program depends on its values; the host reads them, which cannot be recorded.");
  }
  const NodeList& Callee(int number) const { return executable_.callees_[static_cast<std::size_t>(number)]; }
  auto PaceTurns() {
    const int64_t kMostTurns = 1 << 16;
    return [kMostTurns](int64_t turn) -> Result<> {
      if (turn < kMostTurns) return {};
      return Unimplemented("A loop of the program has more than {} turns, too many for a command buffer.", kMostTurns);
    };
  }

 private:
  VulkanExecutable& executable_;
  Recording* bound_ = nullptr;
  const Recording* recording_ = nullptr;
  const VkCommandBuffer commands_ = VK_NULL_HANDLE;
};

Result<std::unique_ptr<VulkanExecutable::Recording>> VulkanExecutable::Bind(Arrays arrays) {
  return WithoutExceptions([&]() -> Result<std::unique_ptr<Recording>> {
    std::lock_guard lock(running_);
    KRAFLA_TRY(PlaceBetween(arrays));
    auto out = std::make_unique<Recording>(device_);
    out->arrays_ = std::move(arrays);
    Recorder binder(*this, *out);
    if (std::ranges::find(copied_, true) != copied_.end()) {
      KRAFLA_ASSIGN(out->copies_, CopiesOfAliased(copied_));
      KRAFLA_TRY(binder.Take(*out->copies_));
    }
    KRAFLA_TRY(plan::RunSteps(nodes_, binder));
    return out;
  });
}

Result<> VulkanExecutable::RecordInto(const Recording& recording, VkCommandBuffer commands) {
  return WithoutExceptions([&]() -> Result<> {
    std::lock_guard lock(running_);
    KRAFLA_TRY(device_->Alive());
    Recorder recorder(*this, recording, commands);
    if (recording.copies_ != nullptr) KRAFLA_TRY(recorder.Take(*recording.copies_));
    KRAFLA_TRY(plan::RunSteps(nodes_, recorder));
    vk::RecordOutcomeBarrier(*device_, commands);
    return {};
  });
}

}  // namespace krafla
