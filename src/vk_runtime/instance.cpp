// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/instance.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "vk_runtime/device_selector.h"
#include "vk_runtime/driver_symbols.h"
#include "vk_runtime/vk_status.h"

namespace krafla::vk {
namespace {

constexpr char kValidationLayer[] = "VK_LAYER_KHRONOS_validation";
constexpr char kHowToGetADriver[] =
    "Install a driver (Debian: mesa-vulkan-drivers, or the vendor's) or choose the device cpu";

// volk keeps the entry points that need no instance in globals.
Result<> LoadVulkan() {
  static std::mutex mutex;
  static bool loaded = false;
  std::lock_guard lock(mutex);
  if (loaded) return {};
  BindDriversToTheirOwnLlvm();
  if (volkInitialize() != VK_SUCCESS) {
    return NotFound("The Vulkan loader (libvulkan.so.1, vulkan-1.dll on Windows) was not found. {}.", kHowToGetADriver);
  }
  loaded = true;
  return {};
}

bool LayerInstalled(const char* name) {
  uint32_t count = 0;
  if (vkEnumerateInstanceLayerProperties(&count, nullptr) != VK_SUCCESS) return false;
  std::vector<VkLayerProperties> layers(count);
  if (vkEnumerateInstanceLayerProperties(&count, layers.data()) < 0) return false;
  return std::ranges::any_of(layers, [&](const auto& l) { return std::strcmp(l.layerName, name) == 0; });
}

// The layer tells of the features that it switches on for its own shaders: not of us.
bool IsAboutTheLayer(const VkDebugUtilsMessengerCallbackDataEXT& data) {
  return data.pMessageIdName != nullptr && std::strcmp(data.pMessageIdName, "WARNING-GPU-Assisted-Validation") == 0 &&
         (std::strstr(data.pMessage, "Internal Warning: Forcing ") != nullptr ||
          std::strstr(data.pMessage, "Internal Warning: Adding a ") != nullptr);
}

Extensions InstanceExtensions(const char* layer) {
  Extensions out;
  uint32_t count = 0;
  if (vkEnumerateInstanceExtensionProperties(layer, &count, nullptr) != VK_SUCCESS) return out;
  std::vector<VkExtensionProperties> list(count);
  if (vkEnumerateInstanceExtensionProperties(layer, &count, list.data()) < 0) return out;
  for (const auto& e : list) out.emplace(e.extensionName);
  return out;
}

int Rank(DeviceType type) {
  switch (type) {
    case DeviceType::kDiscrete: return 0;
    case DeviceType::kIntegrated: return 1;
    case DeviceType::kVirtual: return 2;
    case DeviceType::kOther: return 3;
    case DeviceType::kCpu: return 4;
  }
  return 5;
}

}  // namespace

Result<std::shared_ptr<Instance>> Instance::Create(InstanceOptions options) {
  std::shared_ptr<Instance> instance(new Instance());
  KRAFLA_TRY(instance->Init(options));
  return instance;
}

Result<std::shared_ptr<Instance>> Instance::Wrap(VulkanDevice device) {
  const auto missing = [](std::string_view what) {
    return InvalidArgument("VulkanDevice::{} is missing: krafla runs on a device that the application has made.", what);
  };
  if (device.instance == VK_NULL_HANDLE) return missing("instance");
  if (device.physical_device == VK_NULL_HANDLE) return missing("physical_device");
  if (device.device == VK_NULL_HANDLE) return missing("device");
  if (device.get_instance_proc_addr == nullptr) return missing("get_instance_proc_addr");
  if (!device.lock_queue != !device.unlock_queue) return missing(device.lock_queue ? "unlock_queue" : "lock_queue");
  if (device.api_version < VK_API_VERSION_1_1) {
    return InvalidArgument("VulkanDevice::api_version is {}.{}; krafla needs an instance of Vulkan 1.1.",
                           VK_API_VERSION_MAJOR(device.api_version), VK_API_VERSION_MINOR(device.api_version));
  }
  std::shared_ptr<Instance> instance(new Instance());
  if (const char* name = instance->functions_.Load(device.get_instance_proc_addr, device.instance)) {
    return InvalidArgument("VulkanDevice::get_instance_proc_addr has no {}, which is of Vulkan 1.1.", name);
  }
  KRAFLA_ASSIGN(std::optional<PhysicalDevice> physical,
                SnapshotDevice(instance->functions_, device.physical_device, &device));
  if (!physical) {
    return InvalidArgument("VulkanDevice::queue_family is {}, which has no compute, or the device is of Vulkan 1.0.",
                           device.queue_family);
  }
  // Programs that switch features off have their own view of the device: they share the queue.
  if (!device.lock_queue) {
    auto mutex = std::make_shared<std::mutex>();
    device.lock_queue = [mutex] { mutex->lock(); };
    device.unlock_queue = [mutex] { mutex->unlock(); };
  }
  device.features = nullptr;
  instance->handle_ = device.instance;
  instance->devices_.push_back(std::move(*physical));
  instance->app_ = std::move(device);
  return instance;
}

Instance::~Instance() {
  if (app_ || handle_ == VK_NULL_HANDLE) return;
  if (messenger_ != VK_NULL_HANDLE) functions_.vkDestroyDebugUtilsMessengerEXT(handle_, messenger_, nullptr);
  if (functions_.vkDestroyInstance == nullptr) return;
  const std::lock_guard lock(LoaderMutex());
  functions_.vkDestroyInstance(handle_, nullptr);
}

Result<> Instance::Init(InstanceOptions options) {
  Validation validation = options.validation;
  if (validation == Validation::kNone) { KRAFLA_ASSIGN(validation, ValidationAskedFor()); }
  Result<> made = Open(validation);
  // Nothing to validate on is not what was asked for.
  if (!made && validation != Validation::kNone && made.error().code() == StatusCode::kNotFound)
    return FailedPrecondition("Validation was asked for. {}", made.error().message());
  return made;
}

Result<> Instance::Open(Validation validation) {
  validation_ = validation;
  const bool validate = validation != Validation::kNone;
  KRAFLA_TRY(LoadVulkan());
  if (volkGetInstanceVersion() < VK_API_VERSION_1_1) {
    return NotFound("The Vulkan loader has only version 1.0; krafla needs 1.1. {}.", kHowToGetADriver);
  }
  if (validate && !LayerInstalled(kValidationLayer)) {
    return FailedPrecondition(
        "Validation was asked for, but the layer {} is not installed (Debian: "
        "vulkan-validationlayers).",
        kValidationLayer);
  }
  std::vector<const char*> layers, extensions;
  VkInstanceCreateFlags flags = 0;
  if (InstanceExtensions(nullptr).contains(VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME)) {
    extensions.push_back(VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
    flags |= VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
  }
  VkDebugUtilsMessengerCreateInfoEXT messenger =
      Struct<VkDebugUtilsMessengerCreateInfoEXT>(VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT);
  messenger.messageSeverity =
      VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  messenger.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
  messenger.pfnUserCallback = &Instance::OnMessage;
  messenger.pUserData = this;
  // Either the one or the other: together they take several times as long, as the layer itself warns. There are no rays
  // to query, and the layer warns where a device has none.
  const VkBool32 on = VK_TRUE, off = VK_FALSE;
  const bool calls = validation == Validation::kCalls;
  const auto setting = [](const char* name, const VkBool32& value) {
    return VkLayerSettingEXT{kValidationLayer, name, VK_LAYER_SETTING_TYPE_BOOL32_EXT, 1, &value};
  };
  const VkLayerSettingEXT settings[] = {
      setting("validate_core", calls ? on : off), setting("validate_sync", calls ? on : off),
      setting("gpuav_enable", calls ? off : on), setting("gpuav_validate_ray_query", off)};
  VkLayerSettingsCreateInfoEXT checks = {VK_STRUCTURE_TYPE_LAYER_SETTINGS_CREATE_INFO_EXT, &messenger,
                                         static_cast<uint32_t>(std::size(settings)), settings};
  if (validate) {
    layers.push_back(kValidationLayer);
    extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
    extensions.push_back(VK_EXT_LAYER_SETTINGS_EXTENSION_NAME);
  }
  VkApplicationInfo application = {
      VK_STRUCTURE_TYPE_APPLICATION_INFO, nullptr, "krafla", 1, "krafla", 1, VK_API_VERSION_1_4};
  VkInstanceCreateInfo info = Struct<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
  info.pNext = validate ? &checks : nullptr;
  info.flags = flags;
  info.pApplicationInfo = &application;
  info.enabledLayerCount = static_cast<uint32_t>(layers.size());
  info.ppEnabledLayerNames = layers.data();
  info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  VkResult r = VK_SUCCESS;
  {
    const std::lock_guard lock(LoaderMutex());
    r = vkCreateInstance(&info, nullptr, &handle_);
  }
  if (r == VK_ERROR_INCOMPATIBLE_DRIVER) {
    handle_ = VK_NULL_HANDLE;
    return NotFound("No Vulkan driver was found. {}.", kHowToGetADriver);
  }
  if (r != VK_SUCCESS) {
    handle_ = VK_NULL_HANDLE;
    return VulkanError(r, "create an instance");
  }
  if (const char* name = functions_.Load(vkGetInstanceProcAddr, handle_)) {
    return Internal("The Vulkan loader has no {}, which is of Vulkan 1.1.", name);
  }
  if (validate) {
    r = functions_.vkCreateDebugUtilsMessengerEXT(handle_, &messenger, nullptr, &messenger_);
    if (r != VK_SUCCESS) return VulkanError(r, "create the messenger of the validation layer");
  }
  return ListDevices();
}

Result<> Instance::ListDevices() {
  uint32_t count = 0;
  VkResult r = VK_SUCCESS;
  std::vector<VkPhysicalDevice> handles;
  {
    const std::lock_guard lock(LoaderMutex());
    r = functions_.vkEnumeratePhysicalDevices(handle_, &count, nullptr);
    handles.resize(count);
    if (r == VK_SUCCESS) r = functions_.vkEnumeratePhysicalDevices(handle_, &count, handles.data());
  }
  // The loader says VK_ERROR_INITIALIZATION_FAILED where no driver has a device.
  if (r != VK_SUCCESS && r != VK_INCOMPLETE && r != VK_ERROR_INITIALIZATION_FAILED) {
    return VulkanError(r, "list the devices");
  }
  handles.resize(r == VK_ERROR_INITIALIZATION_FAILED ? 0 : std::min<std::size_t>(count, handles.size()));
  for (VkPhysicalDevice handle : handles) {
    KRAFLA_ASSIGN(std::optional<PhysicalDevice> device, SnapshotDevice(functions_, handle));
    if (!device) continue;
    const std::string& uuid = device->profile.device_uuid;
    bool known = uuid.find_first_not_of('0') != uuid.npos &&
                 std::ranges::any_of(devices_, [&](const auto& d) { return d.profile.device_uuid == uuid; });
    if (!known) devices_.push_back(std::move(*device));
  }
  if (devices_.empty()) {
    return NotFound("The Vulkan drivers that are installed offer no device with Vulkan 1.1 and a compute queue. {}.",
                    kHowToGetADriver);
  }
  std::ranges::stable_sort(devices_, {}, [](const auto& d) { return Rank(d.profile.type); });
  return {};
}

Result<const PhysicalDevice*> Instance::Select(std::string_view selector) const {
  std::vector<const DeviceProfile*> profiles;
  for (const auto& d : devices_) profiles.push_back(&d.profile);
  KRAFLA_ASSIGN(std::size_t index, SelectDevice(selector, profiles));
  return &devices_[index];
}

std::vector<std::string> Instance::TakeValidationMessages() {
  std::lock_guard lock(mutex_);
  return std::exchange(messages_, {});
}

VkBool32 Instance::OnMessage(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                             const VkDebugUtilsMessengerCallbackDataEXT* data, void* self) {
  if (IsAboutTheLayer(*data)) return VK_FALSE;
  auto* instance = static_cast<Instance*>(self);
  std::lock_guard lock(instance->mutex_);
  instance->messages_.emplace_back(data->pMessage);
  return VK_FALSE;
}

}  // namespace krafla::vk
