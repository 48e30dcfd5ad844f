// SPDX-License-Identifier: Apache-2.0
// Memory that several Vulkan devices have: each writes its part there and reads the others', by its own copies and
// kernels. The CPU touches none of the bytes. It is memory of the first device, imported by the others, or pages of the
// host, imported by all.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "api/group/device_links.h"
#include "vk_runtime/program.h"

namespace krafla {

class VulkanWindow {
 public:
  // `bytes` for the devices, of which some may be the same, by kDmaBuf, kOpaqueFd or kHostImport. UNIMPLEMENTED, with
  // the reason, where one of them does not take part.
  static Result<std::unique_ptr<VulkanWindow>> Create(std::span<const std::shared_ptr<vk::Device>> devices,
                                                      uint64_t bytes, PathKind kind);
  // A part of the window as the device of that number has it.
  vk::BufferBinding At(std::size_t device, uint64_t offset) const;
  // Sends bytes from each device through the window to each other one and compares them: nothing, or what is wrong.
  Result<> Probe();

  static constexpr uint64_t kAlignment = 4096;

 private:
  Result<> ShareOfFirst(uint64_t size, vk::SharedBy shared);
  Result<> ImportPages(uint64_t bytes);

  std::vector<std::shared_ptr<vk::Device>> devices_;
  std::vector<std::shared_ptr<vk::Buffer>> buffers_;  // by device
};

}  // namespace krafla
