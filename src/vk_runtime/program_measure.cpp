// SPDX-License-Identifier: Apache-2.0
// Measuring a Program's first runs, for its calibration.
#include <algorithm>

#include "vk_runtime/program.h"

namespace krafla::vk {

Result<> Program::BeginMeasuring() {
  if (!HasTimestamps() || submissions_.empty()) return {};
  auto info = Struct<VkQueryPoolCreateInfo>(VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO);
  info.queryType = VK_QUERY_TYPE_TIMESTAMP;
  info.queryCount = static_cast<uint32_t>(2 * submissions_.size());
  VkResult r = device_->vk().vkCreateQueryPool(device_->handle(), &info, nullptr, &queries_);
  if (r == VK_SUCCESS) return {};
  queries_ = VK_NULL_HANDLE;
  return device_->Fail(r, "create a query pool");
}

// What was measured must be complete. The recording is made again without timestamps.
void Program::EndMeasuring() {
  if (queries_ != VK_NULL_HANDLE) device_->vk().vkDestroyQueryPool(device_->handle(), queries_, nullptr);
  queries_ = VK_NULL_HANDLE;
  if (measured_ != nullptr) {
    measured_->recorded = false;
    measured_->bound.clear();
  }
  measured_ = nullptr;
  is_measure_pending_ = false;
}

void Program::RecordTimestamp(VkCommandBuffer commands, std::size_t number) const {
  device_->vk().vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries_,
                                    static_cast<uint32_t>(number));
}

// Those of submissions that are complete are available. Who waits for a driver that holds them back waits for ever, or
// for as long as the driver likes (turnip's five seconds, where a simulated device executes nothing).
Result<bool> Program::ReadTimestamps(std::span<double> ms) const {
  const DeviceLimits& limits = device_->profile().limits;
  std::vector<uint64_t> ticks(2 * ms.size());
  VkResult r = device_->vk().vkGetQueryPoolResults(device_->handle(), queries_, 0, static_cast<uint32_t>(ticks.size()),
                                                   ticks.size() * sizeof(uint64_t), ticks.data(), sizeof(uint64_t),
                                                   VK_QUERY_RESULT_64_BIT);
  if (r == VK_NOT_READY) return false;
  if (r != VK_SUCCESS) return device_->Fail(r, "read timestamps");
  const uint64_t mask =
      limits.timestamp_valid_bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << limits.timestamp_valid_bits) - 1;
  for (std::size_t i = 0; i < ms.size(); ++i) {
    ms[i] = static_cast<double>((ticks[2 * i + 1] - ticks[2 * i]) & mask) * limits.timestamp_period_ns * 1e-6;
  }
  return true;
}

Result<> Program::TakeMeasures() {
  if (!is_measure_pending_) return {};
  KRAFLA_ASSIGN(bool complete, device_->IsComplete(measured_->last));
  if (!complete) return {};
  is_measure_pending_ = false;
  if (queries_ != VK_NULL_HANDLE) {
    taken_ms_.resize(submissions_.size());
    KRAFLA_ASSIGN(const bool told, ReadTimestamps(taken_ms_));
    if (!told) {  // the next runs are measured by the host's clock
      timestamps_missing_ = true;
      EndMeasuring();
      return {};
    }
  }
  const bool cut = calibration_.Add(submissions_, taken_ms_);
  statistics_.longest_ms = calibration_.longest_ms();
  statistics_.total_ms = calibration_.total_ms();
  if (!cut && calibration_.IsWanted()) return {};
  if (cut) {
    for (Recording& r : recordings_) KRAFLA_TRY(device_->Wait(r.last));
  }
  EndMeasuring();
  if (!cut) return {};
  for (Recording& r : recordings_) Destroy(r);
  Cut();
  return {};
}

}  // namespace krafla::vk
