// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/client.h"

#include <cstdlib>
#include <optional>

#include "api/group/device_group.h"
#include "plugins/pjrt/distributed.h"

namespace krafla::pjrt {
namespace {

// Without a wish: every Vulkan device of the best kind, or the CPU where there is no driver at all.
Result<std::vector<std::shared_ptr<Client>>> BestDevices() {
  std::vector<std::shared_ptr<Client>> out;
  std::optional<DeviceType> best;
  KRAFLA_ASSIGN(const std::vector<DeviceDescription> devices, ListDevices());
  for (const DeviceDescription& d : devices) {
    if (!d.profile || (best && d.profile->type != *best)) continue;
    Result<std::shared_ptr<Client>> client = Client::Create(d.selector);
    if (!client) continue;
    best = d.profile->type;
    out.push_back(*std::move(client));
    // One driver that runs on the host's processor is as good as several.
    if (*best == DeviceType::kCpu) break;
  }
  if (out.empty()) {
    KRAFLA_ASSIGN(out.emplace_back(), Client::Create(""));  // which says why, or that Vulkan is there and fails
  }
  return out;
}

Result<std::vector<std::shared_ptr<Client>>> NamedDevices(std::string_view selector) {
  KRAFLA_ASSIGN(std::shared_ptr<DeviceGroup> group, DeviceGroup::Create(selector));
  std::vector<std::shared_ptr<Client>> out;
  for (int64_t d = 0; d < group->size(); ++d) out.push_back(group->member(d));
  return out;
}

void Describe(PJRT_Memory& memory, PJRT_Device& device, std::string_view kind, int32_t kind_id, int32_t id) {
  memory.id = id;
  memory.kind_id = kind_id;
  memory.kind = kind;
  memory.device = &device;
  memory.debug_string = Format("{} memory of {}", kind, device.description.to_string);
  memory.to_string = Format("KraflaMemory(id={}, kind='{}')", id, kind);
}

std::unique_ptr<PJRT_Device> NewDevice(PJRT_Client& client, Lane* lane, int32_t id, int32_t slot,
                                       const DistributedDevice& d) {
  auto device = std::make_unique<PJRT_Device>();
  device->client = &client;
  device->lane = lane;
  device->slot = slot;
  device->description.id = id;
  device->description.process = d.process;
  device->description.kind = d.name;
  device->description.to_string = Format("KraflaDevice(id={})", id);
  device->description.debug_string = Format("KraflaDevice(id={}, process={}, {})", id, d.process, d.description);
  device->description.attributes.Add("selector", d.selector);
  device->description.attributes.Add("description", d.description);
  Describe(device->device_memory, *device, kDeviceMemory, kDeviceMemoryId, 2 * id);
  Describe(device->host_memory, *device, kHostMemory, kHostMemoryId, 2 * id + 1);
  if (lane != nullptr) device->memories = {&device->device_memory, &device->host_memory};
  return device;
}

}  // namespace

Result<> Client_Create(PJRT_Client_Create_Args& args) {
  KRAFLA_ASSIGN(std::optional<std::string> selector, FindText(args.create_options, args.num_options, "device"));
  if (!selector) {
    if (const char* wish = std::getenv("KRAFLA_DEVICE"); wish != nullptr && *wish != '\0') selector = wish;
  }
  std::vector<std::shared_ptr<Client>> members;
  if (selector) {
    KRAFLA_ASSIGN(members, NamedDevices(*selector));
  } else {
    KRAFLA_ASSIGN(members, BestDevices());
  }

  KRAFLA_ASSIGN(Distributed distributed, MeetProcesses(args, members));
  auto client = std::make_unique<PJRT_Client>();
  client->platform_version = Format("krafla {}", KRAFLA_VERSION);
  client->process = distributed.process;
  client->world = std::move(distributed.world);
  client->members = members;
  int32_t slot = 0, process = 0;
  for (const DistributedDevice& d : distributed.devices) {
    if (std::exchange(process, d.process) != d.process) slot = 0;
    Lane* lane = nullptr;
    if (d.process == client->process) {
      const std::shared_ptr<Client>& member = members[static_cast<std::size_t>(slot)];
      std::unique_ptr<Lane>& own = client->lanes[member.get()];
      if (own == nullptr) {
        own = std::make_unique<Lane>(member);
        client->platform_version += Format("\n{}", member->device().description);
      }
      lane = own.get();
    }
    const auto id = static_cast<int32_t>(client->devices.size());
    client->devices.push_back(client->owned_devices.emplace_back(NewDevice(*client, lane, id, slot++, d)).get());
    if (lane != nullptr) client->local.push_back(client->devices.back());
  }
  for (PJRT_Device* device : client->devices) {
    client->memories.insert(client->memories.end(), device->memories.begin(), device->memories.end());
    client->topology.descriptions.push_back(&device->description);
  }
  client->topology.platform_version = client->platform_version;
  args.client = client.release();
  return {};
}

Result<> Client_Destroy(PJRT_Client_Destroy_Args& args) {
  delete args.client;
  return {};
}

Result<> Client_PlatformName(PJRT_Client_PlatformName_Args& args) {
  args.platform_name = kPlatformName.data();
  args.platform_name_size = kPlatformName.size();
  return {};
}

Result<> Client_ProcessIndex(PJRT_Client_ProcessIndex_Args& args) {
  args.process_index = args.client->process;
  return {};
}

// Which processes of a distributed program are alive: they know of each other themselves (transport/mesh.h). jaxlib
// tells it regularly and ends the process where that is an error.
Result<> Client_UpdateGlobalProcessInfo(PJRT_Client_UpdateGlobalProcessInfo_Args&) { return {}; }

Result<> Client_PlatformVersion(PJRT_Client_PlatformVersion_Args& args) {
  args.platform_version = args.client->platform_version.data();
  args.platform_version_size = args.client->platform_version.size();
  return {};
}

Result<> Client_Devices(PJRT_Client_Devices_Args& args) {
  args.devices = args.client->devices.data();
  args.num_devices = args.client->devices.size();
  return {};
}

Result<> Client_AddressableDevices(PJRT_Client_AddressableDevices_Args& args) {
  args.addressable_devices = args.client->local.data();
  args.num_addressable_devices = args.client->local.size();
  return {};
}

Result<> Client_LookupDevice(PJRT_Client_LookupDevice_Args& args) {
  args.device = args.client->FindDevice(args.id);
  if (args.device == nullptr)
    return InvalidArgument("There is no device {}; there are {}.", args.id, args.client->devices.size());
  return {};
}

Result<> Client_LookupAddressableDevice(PJRT_Client_LookupAddressableDevice_Args& args) {
  const std::vector<PJRT_Device*>& local = args.client->local;
  if (args.local_hardware_id < 0 || args.local_hardware_id >= std::ssize(local))
    return InvalidArgument("There is no device {} in this process; there are {}.", args.local_hardware_id,
                           local.size());
  args.addressable_device = local[static_cast<std::size_t>(args.local_hardware_id)];
  return {};
}

Result<> Client_AddressableMemories(PJRT_Client_AddressableMemories_Args& args) {
  args.addressable_memories = args.client->memories.data();
  args.num_addressable_memories = args.client->memories.size();
  return {};
}

Result<> CheckIsHere(const PJRT_Device& device) {
  if (device.lane != nullptr) return {};
  return InvalidArgument("Device {} is of process {}, and this is process {}.", device.description.id,
                         device.description.process, device.client->process);
}

// Replica r, partition p: device r * partitions + p.
Result<> Client_DefaultDeviceAssignment(PJRT_Client_DefaultDeviceAssignment_Args& args) {
  const int64_t replicas = args.num_replicas, partitions = args.num_partitions;
  const auto devices = static_cast<int64_t>(args.client->devices.size());
  if (replicas < 1 || partitions < 1 || replicas * partitions > devices)
    return InvalidArgument("{} replicas of {} partitions do not fit the {} devices.", replicas, partitions, devices);
  if (args.default_assignment_size < static_cast<std::size_t>(replicas * partitions))
    return InvalidArgument("The assignment takes {} numbers, there is room for {}.", replicas * partitions,
                           args.default_assignment_size);
  for (int64_t i = 0; i < replicas * partitions; ++i) args.default_assignment[i] = static_cast<int>(i);
  return {};
}

}  // namespace krafla::pjrt

PJRT_Device* PJRT_Client::FindDevice(int64_t id) const {
  return id >= 0 && id < static_cast<int64_t>(devices.size()) ? devices[static_cast<std::size_t>(id)] : nullptr;
}
