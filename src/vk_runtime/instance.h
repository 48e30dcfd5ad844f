// SPDX-License-Identifier: Apache-2.0
// The Vulkan instance and the devices behind it.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/validation.h"
#include "krafla/status.h"
#include "vk_runtime/app_device.h"
#include "vk_runtime/device_snapshot.h"

namespace krafla::vk {

struct InstanceOptions {
  // The environment's KRAFLA_VALIDATE (1, true, on or yes; or gpu) asks for it too, where this does not.
  // FAILED_PRECONDITION where the layer is not installed.
  Validation validation = Validation::kNone;
};

class Instance {
 public:
  // NOT_FOUND, with what to install, where there is no loader, no driver or no device at all, and no validation was
  // asked for. Other errors are failures of what is there.
  static Result<std::shared_ptr<Instance>> Create(InstanceOptions options = {});
  // An application's, with its one device; see krafla/vulkan.h.
  static Result<std::shared_ptr<Instance>> Wrap(VulkanDevice device);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  VkInstance handle() const { return handle_; }
  const InstanceFunctions& vk() const { return functions_; }
  // Null but for a wrapped one. Its locks are there, its chain of features is not.
  const VulkanDevice* app() const { return app_ ? &*app_ : nullptr; }
  // Best first: discrete, integrated, virtual, CPU; then as the loader lists them. Each device once, though two
  // drivers may offer it.
  std::span<const PhysicalDevice> devices() const { return devices_; }
  // "vulkan", "vulkan:1", "vulkan:uuid=..", "vulkan:pci=..", "vulkan:type=cpu", "vulkan:name part".
  Result<const PhysicalDevice*> Select(std::string_view selector) const;

  Validation validation() const { return validation_; }
  // Warnings and errors of the validation layer since the last call.
  std::vector<std::string> TakeValidationMessages();

 private:
  Instance() = default;
  Result<> Init(InstanceOptions options);
  Result<> Open(Validation validation);
  Result<> ListDevices();
  static VKAPI_ATTR VkBool32 VKAPI_CALL OnMessage(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                  VkDebugUtilsMessageTypeFlagsEXT types,
                                                  const VkDebugUtilsMessengerCallbackDataEXT* data, void* self);

  VkInstance handle_ = VK_NULL_HANDLE;
  InstanceFunctions functions_;
  std::optional<VulkanDevice> app_;
  Validation validation_ = Validation::kNone;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  std::vector<PhysicalDevice> devices_;
  std::mutex mutex_;
  std::vector<std::string> messages_;
};

}  // namespace krafla::vk
