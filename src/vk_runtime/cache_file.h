// SPDX-License-Identifier: Apache-2.0
// Files that may be thrown away. What is read back was written by us, for this driver and device, and is whole: drivers
// parse what we give them (a stale pipeline cache has crashed more than one), so our own header is checked first.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/device_profile.h"

namespace krafla::vk {

// $KRAFLA_CACHE_DIR, else $XDG_CACHE_HOME/krafla, else $HOME/.cache/krafla; empty if none is set.
std::string DefaultCacheDir();

// Nothing if the file is not there, not ours (another owner, or writable by others), of another device, driver or
// version, or damaged.
std::optional<std::vector<std::byte>> ReadCacheFile(const std::string& path, const DeviceProfile& device);
// By a temporary file and a rename; folders are made with mode 0700. False if it could not be written, which is never
// an error. Temporary files that others left there are removed after ten minutes.
bool WriteCacheFile(const std::string& path, const DeviceProfile& device, std::span<const std::byte> payload);

}  // namespace krafla::vk
