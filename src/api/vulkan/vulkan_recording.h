// SPDX-License-Identifier: Apache-2.0
// A run of a VulkanExecutable between certain arrays, for command buffers of others.
#pragma once

#include <map>
#include <memory>

#include "api/vulkan/vulkan_executable.h"

namespace krafla {

class VulkanExecutable::Recording {
 public:
  explicit Recording(std::shared_ptr<vk::Device> device) : device_(std::move(device)) {}

 private:
  friend class VulkanExecutable;
  std::shared_ptr<vk::Device> device_;
  Arrays arrays_;
  vk::Program* copies_ = nullptr;  // of arguments to the results that begin as them; first, if there are any
  std::map<const vk::Program*, std::unique_ptr<vk::Program::Binding>> bindings_;
};

}  // namespace krafla
