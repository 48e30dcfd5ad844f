// SPDX-License-Identifier: Apache-2.0
// The devices as a description, without the devices. There is none of devices that are not here: compiling asks them
// what they can do.
#include "plugins/pjrt/client.h"
#include "plugins/pjrt/fingerprint.h"

namespace krafla::pjrt {

Result<> Client_TopologyDescription(PJRT_Client_TopologyDescription_Args& args) {
  args.topology = &args.client->topology;
  return {};
}

Result<> TopologyDescription_Create(PJRT_TopologyDescription_Create_Args&) {
  return Unimplemented("topology not implemented: devices that are not here cannot be described.");
}

// Topologies belong to their clients.
Result<> TopologyDescription_Destroy(PJRT_TopologyDescription_Destroy_Args&) { return {}; }

Result<> TopologyDescription_PlatformName(PJRT_TopologyDescription_PlatformName_Args& args) {
  args.platform_name = kPlatformName.data();
  args.platform_name_size = kPlatformName.size();
  return {};
}
Result<> TopologyDescription_PlatformVersion(PJRT_TopologyDescription_PlatformVersion_Args& args) {
  args.platform_version = args.topology->platform_version.data();
  args.platform_version_size = args.topology->platform_version.size();
  return {};
}
Result<> TopologyDescription_GetDeviceDescriptions(PJRT_TopologyDescription_GetDeviceDescriptions_Args& args) {
  args.descriptions = args.topology->descriptions.data();
  args.num_descriptions = args.topology->descriptions.size();
  return {};
}
Result<> TopologyDescription_Attributes(PJRT_TopologyDescription_Attributes_Args& args) {
  args.attributes = args.topology->attributes.data();
  args.num_attributes = args.topology->attributes.size();
  return {};
}

Result<> TopologyDescription_Fingerprint(PJRT_TopologyDescription_Fingerprint_Args& args) {
  uint64_t out = 0;
  const std::string text =
      Fingerprint({args.topology->platform_version, std::to_string(args.topology->descriptions.size())});
  for (char c : text.substr(0, 16)) out = out * 16 + static_cast<uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
  args.fingerprint = out;
  return {};
}

Result<> TopologyDescription_GetMemorySpaceKindIds(PJRT_TopologyDescription_GetMemorySpaceKindIds_Args& args) {
  static constexpr int32_t kKinds[] = {kDeviceMemoryId, kHostMemoryId};
  args.memory_space_kind_ids = kKinds;
  args.num_memory_space_kind_ids = std::size(kKinds);
  return {};
}

}  // namespace krafla::pjrt
