// SPDX-License-Identifier: Apache-2.0
// What a VulkanExecutable does for collectives: its own steps between devices, and runs on others' arrays.
#include "api/vulkan/vulkan_executable.h"
#include "plan/step_runner.h"

namespace krafla {

Result<vk::Event> VulkanExecutable::RunAt(std::span<const vk::BufferBinding> slots) {
  return WithoutExceptions([&]() -> Result<vk::Event> {
    std::lock_guard lock(running_);
    if (slots.size() != slots_.size())
      return Internal("A program between devices has {} arrays, and was given {}.", slots_.size(), slots.size());
    slots_.assign(slots.begin(), slots.end());
    copied_.assign(plan_.results.size(), false);
    KRAFLA_TRY(RunProgram());
    return last_;
  });
}

const Instruction* VulkanExecutable::ExchangeOf(const HostNode& node) const {
  if (exchange_ == nullptr) return nullptr;
  const auto* host = std::get_if<plan::HostKernel>(&plan_.kernels[static_cast<std::size_t>(node.kernel)].body);
  return host != nullptr && exchange_->Takes(*host->instruction) ? host->instruction : nullptr;
}

Result<> VulkanExecutable::RunExchange(const HostNode& node, const Instruction& instruction) {
  std::vector<DevicePlace> places;
  for (const plan::Slice& slice : node.bindings) {
    auto [buffer, offset] = Place(slice);
    const auto size = static_cast<uint64_t>(slice.size);
    if (size > buffer->size() || offset > buffer->size() - size)
      return Internal("{} has {} bytes from byte {} of a buffer of {}.", Describe(instruction), size, offset,
                      buffer->size());
    places.push_back({buffer, offset, size});
  }
  std::size_t operands = 0;
  for (const Instruction* operand : instruction.operands())
    for (const Shape* leaf : TupleLeaves(operand->shape())) operands += leaf->IsArray() ? 1 : 0;
  if (operands > places.size())
    return Internal("{} has {} operands, but {} arrays.", Describe(instruction), operands, places.size());
  const std::span<const DevicePlace> all = places;
  KRAFLA_TRY(exchange_->Run(instruction, {all.first(operands), all.subspan(operands)}));
  last_ = device_->LastSubmitted();
  return {};
}

}  // namespace krafla
