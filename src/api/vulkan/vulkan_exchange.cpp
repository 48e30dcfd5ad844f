// SPDX-License-Identifier: Apache-2.0
// What a VulkanExecutable does for collectives: its own steps between devices, and runs on others' arrays.
#include <utility>

#include "api/vulkan/vulkan_executable.h"
#include "base/without_exceptions.h"
#include "plan/step_runner.h"

namespace krafla {

Result<vk::Event> VulkanExecutable::RunAt(std::span<const vk::BufferBinding> slots, vk::Event after) {
  return WithoutExceptions([&]() -> Result<vk::Event> {
    std::lock_guard lock(running_);
    if (slots.size() != slots_.size())
      return Internal("A program between devices has {} arrays, and was given {}.", slots_.size(), slots.size());
    slots_.assign(slots.begin(), slots.end());
    after_ = after;
    copied_.assign(plan_.results.size(), false);
    KRAFLA_TRY(RunProgram());
    return last_;
  });
}

std::unordered_set<const Instruction*> VulkanExecutable::ExchangesBeside() const {
  std::unordered_set<const Instruction*> out;
  const auto look = [&](const Node& node) {
    const auto* at = std::get_if<HostNode>(&node);
    if (at == nullptr || at->exchange < 0) return;
    const auto* host = std::get_if<plan::HostKernel>(&plan_.kernels[static_cast<std::size_t>(at->kernel)].body);
    if (host != nullptr) out.insert(host->instruction);
  };
  plan::ForEachStep(nodes_, look);
  for (const NodeList& callee : callees_) plan::ForEachStep(callee, look);
  return out;
}

const Instruction* VulkanExecutable::ExchangeOf(const HostNode& node) const {
  if (exchange_ == nullptr) return nullptr;
  const auto* host = std::get_if<plan::HostKernel>(&plan_.kernels[static_cast<std::size_t>(node.kernel)].body);
  return host != nullptr && exchange_->Takes(*host->instruction) ? host->instruction : nullptr;
}

Result<VulkanExecutable::ExchangePlaces> VulkanExecutable::PlacesOf(const HostNode& node,
                                                                    const Instruction& instruction) const {
  ExchangePlaces out;
  for (const plan::Slice& slice : node.bindings) {
    auto [buffer, offset] = Place(slice);
    const auto size = static_cast<uint64_t>(slice.size);
    if (size > buffer->size() || offset > buffer->size() - size)
      return Internal("{} has {} bytes from byte {} of a buffer of {}.", Describe(instruction), size, offset,
                      buffer->size());
    out.all.push_back({buffer, offset, size});
  }
  for (const Instruction* operand : instruction.operands())
    for (const Shape* leaf : TupleLeaves(operand->shape())) out.operands += leaf->IsArray() ? 1 : 0;
  if (out.operands > out.all.size())
    return Internal("{} has {} operands, but {} arrays.", Describe(instruction), out.operands, out.all.size());
  return out;
}

Result<> VulkanExecutable::RunExchange(const HostNode& node, const Instruction& instruction) {
  KRAFLA_ASSIGN(ExchangePlaces places, PlacesOf(node, instruction));
  KRAFLA_TRY(exchange_->Run(instruction, places.At(device_->LastSubmitted())));
  return FollowExchange(places);
}

// The second queue's work counts as no use of its arrays: that they are waited for does.
Result<> VulkanExecutable::FollowExchange(const ExchangePlaces& places) {
  last_ = device_->LastSubmitted();
  if (places.beside == 0) return {};
  KRAFLA_ASSIGN(last_, device_->Follow({places.beside, true}));
  for (const DevicePlace& p : places.all) p.buffer->Use(last_.number);
  return {};
}

ExchangeLane* VulkanExecutable::lane() const {
  const EvaluatorHost* host = services_->evaluator_options().host;
  return host != nullptr ? host->lane : nullptr;
}

// By the host it goes on once the device has come to where it stands. Between the devices, the lane gives the devices
// their work when all members have come; the queue keeps the order, or the second one waits for this place in it. What
// is measured is measured step by step.
Result<bool> VulkanExecutable::StartExchange(const HostNode& node) {
  if (lane() == nullptr || !measured_.empty()) return false;
  uint64_t& number = started_[static_cast<std::size_t>(node.exchange)];
  if (const Instruction* instruction = ExchangeOf(node)) {
    ExchangePlaces& places = placed_[static_cast<std::size_t>(node.exchange)];
    KRAFLA_ASSIGN(places, PlacesOf(node, *instruction));
    number = lane()->Start(
        [this, instruction, at = places.At(device_->LastSubmitted())] { return exchange_->Run(*instruction, at); });
    return true;
  }
  number = lane()->Start([this, &node, after = device_->LastSubmitted()] { return RunHostAfter(node, after); });
  return true;
}

Result<> VulkanExecutable::AwaitExchange(const AwaitNode& node) {
  const uint64_t number = std::exchange(started_[static_cast<std::size_t>(node.exchange)], 0);
  if (number == 0) return {};
  KRAFLA_TRY(lane()->Await(number));
  return FollowExchange(placed_[static_cast<std::size_t>(node.exchange)]);
}

}  // namespace krafla
