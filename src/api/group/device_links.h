// SPDX-License-Identifier: Apache-2.0
// How the devices of a group reach each other's memory, so that collectives run on them without the host: the best path
// that all members of a collective share, probed before it is used. A back end makes the links of its own devices;
// where there are none, bytes go through the host.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/client.h"
#include "collectives/collective.h"

namespace krafla {

namespace vk {
class Buffer;
}

// In the order in which they are tried. Each may be switched off by name (CompileOptions::disabled).
enum class PathKind : uint8_t {
  kOneDevice,    // virtual devices of one logical device: its kernels and copies reach all of them
  kDeviceGroup,  // linked physical devices (vkEnumeratePhysicalDeviceGroups)
  kDmaBuf,       // one device's memory imported by another (VK_EXT_external_memory_dma_buf)
  kOpaqueFd,     // the same between logical devices of one device and driver (VK_KHR_external_memory_fd)
  kHostImport,   // pages of the host, imported by all (VK_EXT_external_memory_host)
  kHost,         // the CPU copies and sums
};
struct PathName {
  PathKind kind;
  std::string_view name, meaning;
};
inline constexpr std::array<PathName, 6> kPathNames = {{
    {PathKind::kOneDevice, "one-device", "virtual devices of one logical device"},
    {PathKind::kDeviceGroup, "device-group", "linked physical devices"},
    {PathKind::kDmaBuf, "dma-buf", "memory of one device imported by the other, of any driver"},
    {PathKind::kOpaqueFd, "opaque-fd", "memory of one logical device imported by the other"},
    {PathKind::kHostImport, "host_import", "pages of the host imported by both"},
    {PathKind::kHost, "host", "the CPU copies and sums"},
}};
constexpr std::string_view NameOf(PathKind kind) {
  for (const PathName& p : kPathNames)
    if (p.kind == kind) return p.name;
  KRAFLA_UNREACHABLE();
}

// Where a device has an array: a leaf of a collective's operands or results.
struct DevicePlace {
  vk::Buffer* buffer = nullptr;
  uint64_t offset = 0, size = 0;
};
// Contribution::on_device.
struct DevicePlaces {
  std::span<const DevicePlace> operands, results;
  uint64_t after = 0;          // the device's last submission that the collective comes after
  uint64_t* beside = nullptr;  // gets the number of the submission to the device's second queue, where that does it
};

// What an executable asks where an instruction between devices stands.
class DeviceExchange {
 public:
  virtual ~DeviceExchange() = default;
  virtual bool Takes(const Instruction& instruction) const = 0;
  // Returns when what the device was given so far is followed by the collective's work; that may still run.
  virtual Result<> Run(const Instruction& instruction, const DevicePlaces& places) = 0;
};

class DeviceLinks {
 public:
  virtual ~DeviceLinks() = default;

  // Makes a collective ready and says its path; kHost where the devices do not take it. Before any run.
  virtual Result<PathKind> Prepare(const Instruction& instruction, const Collective& collective) = 0;
  // After all were prepared.
  virtual Result<> Finish() = 0;
  // The work of all members of a group, given where their arrays are (Contribution::on_device).
  virtual Result<> Run(const Collective& collective, int group, std::span<const Contribution> members,
                       const RunLimit& limit) = 0;
};

// A pair of devices and a path, and why the path is not there (empty: it is, and bytes that were sent came through).
struct LinkProbe {
  PathKind kind = PathKind::kHost;
  std::string refused;
};

}  // namespace krafla
