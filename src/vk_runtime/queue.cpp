// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/queue.h"

#include <algorithm>
#include <utility>

#include "krafla/inline_vector.h"

namespace krafla::vk {

Queue::~Queue() {
  if (semaphore_ != VK_NULL_HANDLE) functions_.vkDestroySemaphore(device_, semaphore_, nullptr);
  for (const Pending& p : pending_) functions_.vkDestroyFence(device_, p.fence, nullptr);
  for (VkFence fence : free_fences_) functions_.vkDestroyFence(device_, fence, nullptr);
}

VkResult Queue::Init(bool timeline, bool watched) {
  is_watched_ = watched;
  if (!timeline) return VK_SUCCESS;
  auto type = Struct<VkSemaphoreTypeCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  auto info = Struct<VkSemaphoreCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO);
  info.pNext = &type;
  VkResult r = functions_.vkCreateSemaphore(device_, &info, nullptr, &semaphore_);
  if (r != VK_SUCCESS) semaphore_ = VK_NULL_HANDLE;
  return r;
}

void Queue::Raise(uint64_t number) {
  uint64_t known = complete_.load(std::memory_order_relaxed);
  while (known < number && !complete_.compare_exchange_weak(known, number, std::memory_order_acq_rel)) {}
}

// The layer (1.4.309, layers/gpuav, Queue::Retire) wakes what waits for a submission, and then looks at what its
// shaders left. What a woken caller destroys meanwhile is told of no more. It takes submissions one after the other, so
// the semaphore or fence of an empty second one comes after the look at the first.
VkResult Queue::SubmitBatch(VkSubmitInfo info, VkFence fence) {
  struct Held {
    const QueueLock& hooks;
    explicit Held(const QueueLock& h) : hooks(h) {
      if (hooks.lock) hooks.lock();
    }
    ~Held() {
      if (hooks.unlock) hooks.unlock();
    }
  } held(lock_);
  if (is_watched_) {
    auto commands = Struct<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO);
    commands.commandBufferCount = std::exchange(info.commandBufferCount, 0);
    commands.pCommandBuffers = std::exchange(info.pCommandBuffers, nullptr);
    if (VkResult r = functions_.vkQueueSubmit(queue_, 1, &commands, VK_NULL_HANDLE); r != VK_SUCCESS) return r;
  }
  const VkResult r = functions_.vkQueueSubmit(queue_, 1, &info, fence);
  if (r != VK_SUCCESS && is_watched_) functions_.vkQueueWaitIdle(queue_);  // nobody else will wait for the first
  return r;
}

VkResult Queue::Submit(VkCommandBuffer commands, uint64_t& number, const SemaphoreValue* wait) {
  auto info = Struct<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO);
  info.commandBufferCount = commands != VK_NULL_HANDLE ? 1 : 0;
  info.pCommandBuffers = &commands;
  constexpr VkPipelineStageFlags kAllCommands = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
  std::lock_guard lock(mutex_);
  uint64_t next = submitted_.load(std::memory_order_relaxed) + 1;
  if (semaphore_ != VK_NULL_HANDLE) {
    auto timeline = Struct<VkTimelineSemaphoreSubmitInfo>(VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
    timeline.signalSemaphoreValueCount = 1;
    timeline.pSignalSemaphoreValues = &next;
    if (wait != nullptr) {
      timeline.waitSemaphoreValueCount = info.waitSemaphoreCount = 1;
      timeline.pWaitSemaphoreValues = &wait->value;
      info.pWaitSemaphores = &wait->semaphore;
      info.pWaitDstStageMask = &kAllCommands;
    }
    info.pNext = &timeline;
    info.signalSemaphoreCount = 1;
    info.pSignalSemaphores = &semaphore_;
    VkResult r = SubmitBatch(info, VK_NULL_HANDLE);
    if (r != VK_SUCCESS) return r;
  } else {
    RecycleFences();
    VkFence fence = VK_NULL_HANDLE;
    if (free_fences_.empty()) {
      auto fence_info = Struct<VkFenceCreateInfo>(VK_STRUCTURE_TYPE_FENCE_CREATE_INFO);
      VkResult r = functions_.vkCreateFence(device_, &fence_info, nullptr, &fence);
      if (r != VK_SUCCESS) return r;
    } else {
      fence = free_fences_.back();
      free_fences_.pop_back();
    }
    VkResult r = SubmitBatch(info, fence);
    if (r != VK_SUCCESS) {
      // A failed submission does not touch its fence.
      free_fences_.push_back(fence);
      return r;
    }
    pending_.push_back({next, fence, 0});
  }
  submitted_.store(next, std::memory_order_release);
  number = next;
  return VK_SUCCESS;
}

// A wait's second scope is all that comes later in submission order, a signal's first one all that came before
// (Vulkan 1.4, 7.4.1 and 7.4.2): an empty batch is enough.
VkResult Queue::SubmitSemaphores(std::span<const SemaphoreValue> waits, std::span<const SemaphoreValue> signals) {
  InlineVector<VkSemaphore, 8> wait_semaphores, signal_semaphores;
  InlineVector<uint64_t, 8> wait_values, signal_values;
  InlineVector<VkPipelineStageFlags, 8> stages;
  for (const SemaphoreValue& s : waits) {
    wait_semaphores.push_back(s.semaphore);
    wait_values.push_back(s.value);
    stages.push_back(VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
  }
  for (const SemaphoreValue& s : signals) {
    signal_semaphores.push_back(s.semaphore);
    signal_values.push_back(s.value);
  }
  auto timeline = Struct<VkTimelineSemaphoreSubmitInfo>(VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
  timeline.waitSemaphoreValueCount = static_cast<uint32_t>(wait_values.size());
  timeline.pWaitSemaphoreValues = wait_values.data();
  timeline.signalSemaphoreValueCount = static_cast<uint32_t>(signal_values.size());
  timeline.pSignalSemaphoreValues = signal_values.data();
  auto info = Struct<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO);
  if (semaphore_ != VK_NULL_HANDLE) info.pNext = &timeline;
  info.waitSemaphoreCount = static_cast<uint32_t>(wait_semaphores.size());
  info.pWaitSemaphores = wait_semaphores.data();
  info.pWaitDstStageMask = stages.data();
  info.signalSemaphoreCount = static_cast<uint32_t>(signal_semaphores.size());
  info.pSignalSemaphores = signal_semaphores.data();
  std::lock_guard lock(mutex_);
  return SubmitBatch(info, VK_NULL_HANDLE);
}

void Queue::RecycleFences() {
  while (!pending_.empty() && pending_.front().waiters == 0 && pending_.front().number <= known_complete()) {
    VkFence fence = pending_.front().fence;
    pending_.pop_front();
    if (functions_.vkResetFences(device_, 1, &fence) == VK_SUCCESS) {
      free_fences_.push_back(fence);
    } else {
      functions_.vkDestroyFence(device_, fence, nullptr);
    }
  }
}

VkResult Queue::WaitForFence(uint64_t number, uint64_t timeout_ns) {
  VkFence fence = VK_NULL_HANDLE;
  {
    std::lock_guard lock(mutex_);
    auto it = std::ranges::find(pending_, number, &Pending::number);
    if (it == pending_.end()) return VK_SUCCESS;  // recycled, so complete
    fence = it->fence;
    ++it->waiters;
  }
  VkResult r = functions_.vkWaitForFences(device_, 1, &fence, VK_TRUE, timeout_ns);
  std::lock_guard lock(mutex_);
  --std::ranges::find(pending_, number, &Pending::number)->waiters;
  if (r == VK_SUCCESS) Raise(number);
  RecycleFences();
  return r;
}

VkResult Queue::Wait(uint64_t number, Clock::time_point deadline) {
  if (number <= known_complete()) return VK_SUCCESS;
  auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - Clock::now()).count();
  uint64_t timeout_ns = left > 0 ? static_cast<uint64_t>(left) : 0;
  if (semaphore_ == VK_NULL_HANDLE) return WaitForFence(number, timeout_ns);
  auto info = Struct<VkSemaphoreWaitInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO);
  info.semaphoreCount = 1;
  info.pSemaphores = &semaphore_;
  info.pValues = &number;
  VkResult r = functions_.vkWaitSemaphores != nullptr ? functions_.vkWaitSemaphores(device_, &info, timeout_ns)
                                                      : functions_.vkWaitSemaphoresKHR(device_, &info, timeout_ns);
  if (r == VK_SUCCESS) Raise(number);
  return r;
}

VkResult Queue::Completed(uint64_t& number) {
  number = known_complete();
  if (number == last_submitted()) return VK_SUCCESS;
  if (is_watched_) {
    // The driver's answer comes before the layer's look: only waits come after it.
    const VkResult r = Wait(number + 1, Clock::now());
    number = known_complete();
    return r == VK_TIMEOUT ? VK_SUCCESS : r;
  }
  if (semaphore_ != VK_NULL_HANDLE) {
    uint64_t value = 0;
    VkResult r = functions_.vkGetSemaphoreCounterValue != nullptr
                     ? functions_.vkGetSemaphoreCounterValue(device_, semaphore_, &value)
                     : functions_.vkGetSemaphoreCounterValueKHR(device_, semaphore_, &value);
    if (r != VK_SUCCESS) return r;
    Raise(value);
  } else {
    std::lock_guard lock(mutex_);
    for (const Pending& p : pending_) {
      if (p.number <= known_complete()) continue;
      VkResult r = functions_.vkGetFenceStatus(device_, p.fence);
      if (r == VK_NOT_READY) break;
      if (r != VK_SUCCESS) return r;
      Raise(p.number);
    }
    RecycleFences();
  }
  number = known_complete();
  return VK_SUCCESS;
}

}  // namespace krafla::vk
