// SPDX-License-Identifier: Apache-2.0
#include "api/vulkan/vulkan_tuned.h"

#include <filesystem>

#include "api/vulkan/vulkan_client.h"
#include "vk_runtime/cache_file.h"

namespace krafla {

std::string TunedPath(const DeviceProfile& profile) {
  const std::string folder = vk::DefaultCacheDir();
  return folder.empty() ? "" : Format("{}/tuned-{}.bin", folder, profile.pipeline_cache_uuid);
}

StoredTuned ReadTuned(const DeviceProfile& profile) {
  StoredTuned out;
  const std::string path = TunedPath(profile);
  std::error_code error;
  if (path.empty() || !std::filesystem::exists(std::filesystem::symlink_status(path, error))) return out;
  const auto bytes = vk::ReadCacheFile(path, profile);
  if (!bytes) {
    out.ignored = Format("The file '{}' is damaged, of another driver, or may be written by others.", path);
    return out;
  }
  auto parsed = ParseTuned({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, profile);
  if (parsed) out.tuned = std::move(*parsed);
  else out.ignored = Format("{} ({})", parsed.error().message(), path);
  return out;
}

Result<> WriteTuned(const TunedKernels& tuned, const DeviceProfile& profile) {
  const std::string path = TunedPath(profile);
  if (path.empty())
    return FailedPrecondition("There is no cache folder for what was tuned; set KRAFLA_CACHE_DIR, or HOME.");
  const std::string text = TunedToJson(tuned, profile);
  if (!vk::WriteCacheFile(path, profile, std::as_bytes(std::span(text))))
    return DataLoss("What was tuned cannot be written to '{}': the disk is full, or the folder is not ours.", path);
  return {};
}

Result<DeviceProfile> TestedProfile(std::string_view selector) {
  KRAFLA_ASSIGN(std::shared_ptr<vk::Device> device, OpenTestedDevice(selector));
  return device->profile();
}

}  // namespace krafla
