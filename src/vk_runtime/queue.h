// SPDX-License-Identifier: Apache-2.0
// One queue and the order of its submissions. Every submission has a number; numbers complete in order. A timeline
// semaphore counts them where the device has one, else a ring of fences does.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "vk_runtime/vk_api.h"

namespace krafla::vk {

using Clock = std::chrono::steady_clock;

// Where others use the VkQueue too: called around each use. Both or neither.
struct QueueLock {
  std::function<void()> lock, unlock;
};

// `value`: of a timeline semaphore.
struct SemaphoreValue {
  VkSemaphore semaphore = VK_NULL_HANDLE;
  uint64_t value = 0;
};

class Queue {
 public:
  Queue(const VolkDeviceTable& functions, VkDevice device, VkQueue queue, QueueLock lock = {})
      : functions_(functions), device_(device), queue_(queue), lock_(std::move(lock)) {}
  ~Queue();  // the device must be idle or lost
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // `watched`: the validation layer looks at what shaders leave behind, so what waits for a submission waits for its
  // look too.
  VkResult Init(bool timeline, bool watched);

  // One vkQueueSubmit. On success `number` is the submission's. It begins once `wait` is signalled, and so does what
  // comes later; VK_NULL_HANDLE as `commands`: it is nothing else. Waits need a timeline, and no watching.
  VkResult Submit(VkCommandBuffer commands, uint64_t& number, const SemaphoreValue* wait = nullptr);
  // Others' semaphores, between what was submitted before and what comes after.
  VkResult SubmitSemaphores(std::span<const SemaphoreValue> waits, std::span<const SemaphoreValue> signals);
  // VK_TIMEOUT once `deadline` has passed.
  VkResult Wait(uint64_t number, Clock::time_point deadline);
  // The last number known to be complete, after asking the driver.
  VkResult Completed(uint64_t& number);
  // The same without asking.
  uint64_t known_complete() const { return complete_.load(std::memory_order_acquire); }
  uint64_t last_submitted() const { return submitted_.load(std::memory_order_acquire); }
  // What is signalled when a submission is complete, for another queue; with a timeline.
  SemaphoreValue SignalOf(uint64_t number) const { return {semaphore_, number}; }

 private:
  struct Pending {
    uint64_t number;
    VkFence fence;
    int waiters;
  };
  void Raise(uint64_t number);  // complete_ = max(complete_, number)
  void RecycleFences();         // with mutex_ held
  VkResult SubmitBatch(VkSubmitInfo info, VkFence fence);
  VkResult WaitForFence(uint64_t number, uint64_t timeout_ns);

  const VolkDeviceTable& functions_;
  VkDevice device_;
  VkQueue queue_;
  QueueLock lock_;
  VkSemaphore semaphore_ = VK_NULL_HANDLE;  // a timeline
  bool is_watched_ = false;
  std::mutex mutex_;  // of the queue, and of the fences
  std::deque<Pending> pending_;
  std::vector<VkFence> free_fences_;
  std::atomic<uint64_t> submitted_ = 0, complete_ = 0;
};

}  // namespace krafla::vk
