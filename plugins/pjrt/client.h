// SPDX-License-Identifier: Apache-2.0
// Clients, devices and memories: what a process sees of the machine. They live as long as the client.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/client.h"
#include "plugins/pjrt/array.h"
#include "plugins/pjrt/cross_host.h"
#include "plugins/pjrt/functions.h"
#include "plugins/pjrt/lane.h"
#include "plugins/pjrt/named_values.h"
#include "transport/world.h"

struct PJRT_DeviceDescription {
  int32_t id = 0;
  int32_t process = 0;
  std::string kind, debug_string, to_string;
  krafla::pjrt::NamedValues attributes;
};

struct PJRT_Memory {
  const PJRT_Memory_FunctionTable* vtable = nullptr;  // first: callers of later versions look here
  int32_t id = 0;
  int32_t kind_id = 0;
  std::string kind, debug_string, to_string;
  PJRT_Device* device = nullptr;

  struct UserData {
    void* data = nullptr;
    void (*destructor)(void* data) = nullptr;
  };
  std::mutex mutex;
  std::map<const void*, UserData> user_data;

  PJRT_Memory();
  ~PJRT_Memory();
};

struct PJRT_Device {
  PJRT_Client* client = nullptr;
  krafla::pjrt::Lane* lane = nullptr;  // null: another process has it, and it has no memories here
  int32_t slot = 0;                    // its number among its process's devices
  PJRT_DeviceDescription description;
  PJRT_Memory device_memory, host_memory;
  std::vector<PJRT_Memory*> memories;  // the default one first
  std::shared_ptr<krafla::pjrt::MemoryCount> count = std::make_shared<krafla::pjrt::MemoryCount>();
};

struct PJRT_TopologyDescription {
  std::string platform_version;
  std::vector<PJRT_DeviceDescription*> descriptions;
  krafla::pjrt::NamedValues attributes;
};

struct PJRT_Client {
  std::string platform_version;
  // Lanes after devices: they end first, and what they run names devices.
  std::vector<std::unique_ptr<PJRT_Device>> owned_devices;
  std::vector<PJRT_Device*> devices;  // of all processes
  std::vector<PJRT_Device*> local;    // of this one
  std::vector<PJRT_Memory*> memories;
  int process = 0;
  std::vector<std::shared_ptr<krafla::Client>> members;  // of this process's devices
  std::shared_ptr<krafla::transport::World> world;       // null: there is one process
  std::map<krafla::Client*, std::unique_ptr<krafla::pjrt::Lane>> lanes;
  PJRT_TopologyDescription topology;
  krafla::pjrt::Arrivals arrivals;  // the last: its threads end before all else goes

  // Null where there is none.
  PJRT_Device* FindDevice(int64_t id) const;
};

namespace krafla::pjrt {

inline constexpr std::string_view kPlatformName = "vulkan";
inline constexpr std::string_view kDeviceMemory = "device";
inline constexpr std::string_view kHostMemory = "pinned_host";
// INVALID_ARGUMENT for a device of another process.
Result<> CheckIsHere(const PJRT_Device& device);

inline constexpr int32_t kDeviceMemoryId = 0, kHostMemoryId = 1;

}  // namespace krafla::pjrt
