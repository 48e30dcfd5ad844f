// SPDX-License-Identifier: Apache-2.0
// What any program with Vulkan has: an instance, a device with one queue, a buffer that the host sees, a kernel.
#pragma once

#include <vulkan/vulkan.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

inline void Check(VkResult result, const char* what) {
  if (result == VK_SUCCESS) return;
  std::fprintf(stderr, "%s: VkResult %d\n", what, static_cast<int>(result));
  std::exit(1);
}

template <typename T>
T Vk(VkStructureType type) {
  T out{};
  out.sType = type;
  return out;
}

class AppDevice {
 public:
  // `validate`: with the validation layer, where it is installed, calls and synchronization both.
  explicit AppDevice(bool validate) {
    CreateInstance(validate && HasLayer());
    ChooseDevice();
    CreateDevice();
  }
  AppDevice(const AppDevice&) = delete;
  AppDevice& operator=(const AppDevice&) = delete;
  ~AppDevice() {
    vkDestroyDevice(device, nullptr);
    if (messenger_ != VK_NULL_HANDLE)
      Get<PFN_vkDestroyDebugUtilsMessengerEXT>("vkDestroyDebugUtilsMessengerEXT")(instance, messenger_, nullptr);
    vkDestroyInstance(instance, nullptr);
  }

  VkInstance instance = VK_NULL_HANDLE;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  VkDevice device = VK_NULL_HANDLE;
  VkQueue queue = VK_NULL_HANDLE;
  uint32_t family = 0;
  uint32_t api_version = VK_API_VERSION_1_1;
  VkPhysicalDeviceFeatures2 features = Vk<VkPhysicalDeviceFeatures2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
  std::vector<const char*> extensions;
  bool has_addresses = false;
  std::string name;
  bool is_validated = false;
  int messages = 0;  // of the layer

 private:
  template <typename Function>
  Function Get(const char* function) const {
    return reinterpret_cast<Function>(vkGetInstanceProcAddr(instance, function));
  }
  static bool HasLayer() {
    uint32_t count = 0;
    vkEnumerateInstanceLayerProperties(&count, nullptr);
    std::vector<VkLayerProperties> layers(count);
    vkEnumerateInstanceLayerProperties(&count, layers.data());
    for (const VkLayerProperties& l : layers)
      if (std::strcmp(l.layerName, kLayer) == 0) return true;
    return false;
  }
  static bool Names(const std::vector<VkExtensionProperties>& list, const char* wanted) {
    for (const VkExtensionProperties& e : list)
      if (std::strcmp(e.extensionName, wanted) == 0) return true;
    return false;
  }
  static VKAPI_ATTR VkBool32 VKAPI_CALL OnMessage(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                                  VkDebugUtilsMessageTypeFlagsEXT,
                                                  const VkDebugUtilsMessengerCallbackDataEXT* data, void* self) {
    std::fprintf(stderr, "%s\n", data->pMessage);
    ++static_cast<AppDevice*>(self)->messages;
    return VK_FALSE;
  }

  void CreateInstance(bool validate) {
    is_validated = validate;
    uint32_t version = VK_API_VERSION_1_1;
    vkEnumerateInstanceVersion(&version);
    api_version = version < VK_API_VERSION_1_2 ? VK_API_VERSION_1_1 : VK_API_VERSION_1_2;
    auto application = Vk<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
    application.apiVersion = api_version;
    auto info = Vk<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
    info.pApplicationInfo = &application;
    std::vector<const char*> enabled;
    uint32_t count = 0;
    vkEnumerateInstanceExtensionProperties(nullptr, &count, nullptr);
    std::vector<VkExtensionProperties> offered(count);
    vkEnumerateInstanceExtensionProperties(nullptr, &count, offered.data());
    // Drivers on top of another interface, as MoltenVK, are listed only for who asks.
    if (Names(offered, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME)) {
      enabled.push_back(VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
      info.flags |= VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
    }
    auto messenger = Vk<VkDebugUtilsMessengerCreateInfoEXT>(VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT);
    messenger.messageSeverity =
        VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
    messenger.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
    messenger.pfnUserCallback = &OnMessage;
    messenger.pUserData = this;
    const VkValidationFeatureEnableEXT synchronization = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
    auto checks = Vk<VkValidationFeaturesEXT>(VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT);
    checks.pNext = &messenger;
    checks.enabledValidationFeatureCount = 1;
    checks.pEnabledValidationFeatures = &synchronization;
    const char* layer = kLayer;
    if (validate) {
      enabled.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
      enabled.push_back(VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME);
      info.pNext = &checks;
      info.enabledLayerCount = 1;
      info.ppEnabledLayerNames = &layer;
    }
    info.enabledExtensionCount = static_cast<uint32_t>(enabled.size());
    info.ppEnabledExtensionNames = enabled.data();
    Check(vkCreateInstance(&info, nullptr, &instance), "vkCreateInstance");
    if (validate)
      Check(Get<PFN_vkCreateDebugUtilsMessengerEXT>("vkCreateDebugUtilsMessengerEXT")(instance, &messenger, nullptr,
                                                                                      &messenger_),
            "vkCreateDebugUtilsMessengerEXT");
  }

  // The first with a compute queue.
  void ChooseDevice() {
    uint32_t count = 0;
    vkEnumeratePhysicalDevices(instance, &count, nullptr);
    std::vector<VkPhysicalDevice> devices(count);
    vkEnumeratePhysicalDevices(instance, &count, devices.data());
    for (VkPhysicalDevice candidate : devices) {
      VkPhysicalDeviceProperties properties;
      vkGetPhysicalDeviceProperties(candidate, &properties);
      if (properties.apiVersion < VK_API_VERSION_1_1) continue;
      uint32_t families = 0;
      vkGetPhysicalDeviceQueueFamilyProperties(candidate, &families, nullptr);
      std::vector<VkQueueFamilyProperties> list(families);
      vkGetPhysicalDeviceQueueFamilyProperties(candidate, &families, list.data());
      for (uint32_t f = 0; f < families; ++f) {
        if ((list[f].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0) continue;
        physical = candidate;
        family = f;
        name = properties.deviceName;
        if (properties.apiVersion < api_version) api_version = VK_API_VERSION_1_1;
        return;
      }
    }
    std::fprintf(stderr, "There is no Vulkan 1.1 device with a compute queue.\n");
    std::exit(77);
  }

  void CreateDevice() {
    // Of what krafla can use this program enables two features; the more, the faster.
    if (api_version >= VK_API_VERSION_1_2) {
      auto offered = Vk<VkPhysicalDeviceVulkan12Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
      auto query = Vk<VkPhysicalDeviceFeatures2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
      query.pNext = &offered;
      vkGetPhysicalDeviceFeatures2(physical, &query);
      twelve_.bufferDeviceAddress = offered.bufferDeviceAddress;
      twelve_.timelineSemaphore = offered.timelineSemaphore;
      features.pNext = &twelve_;
      has_addresses = offered.bufferDeviceAddress == VK_TRUE;
    }
    uint32_t count = 0;
    vkEnumerateDeviceExtensionProperties(physical, nullptr, &count, nullptr);
    std::vector<VkExtensionProperties> offered(count);
    vkEnumerateDeviceExtensionProperties(physical, nullptr, &count, offered.data());
    // To be enabled wherever it is offered.
    if (Names(offered, "VK_KHR_portability_subset")) extensions.push_back("VK_KHR_portability_subset");
    const float priority = 1;
    auto queues = Vk<VkDeviceQueueCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
    queues.queueFamilyIndex = family;
    queues.queueCount = 1;
    queues.pQueuePriorities = &priority;
    auto info = Vk<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO);
    info.pNext = &features;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queues;
    info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
    info.ppEnabledExtensionNames = extensions.data();
    Check(vkCreateDevice(physical, &info, nullptr, &device), "vkCreateDevice");
    vkGetDeviceQueue(device, family, 0, &queue);
  }

  static constexpr char kLayer[] = "VK_LAYER_KHRONOS_validation";
  VkPhysicalDeviceVulkan12Features twelve_ =
      Vk<VkPhysicalDeviceVulkan12Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
};

// A buffer in memory that the host sees.
class AppBuffer {
 public:
  AppBuffer(const AppDevice& app, VkDeviceSize bytes) : app_(app) {
    auto info = Vk<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
    info.size = bytes;
    // What krafla asks of buffers that it is given.
    info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT | (app.has_addresses ? VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT : 0);
    Check(vkCreateBuffer(app.device, &info, nullptr, &handle), "vkCreateBuffer");
    VkMemoryRequirements needs;
    vkGetBufferMemoryRequirements(app.device, handle, &needs);
    VkPhysicalDeviceMemoryProperties memory;
    vkGetPhysicalDeviceMemoryProperties(app.physical, &memory);
    constexpr VkMemoryPropertyFlags kWanted =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    auto flags = Vk<VkMemoryAllocateFlagsInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO);
    flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
    auto allocate = Vk<VkMemoryAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO);
    if (app.has_addresses) allocate.pNext = &flags;
    allocate.allocationSize = needs.size;
    // Vulkan promises that there is one of these for buffers.
    while ((needs.memoryTypeBits >> allocate.memoryTypeIndex & 1) == 0 ||
           (memory.memoryTypes[allocate.memoryTypeIndex].propertyFlags & kWanted) != kWanted)
      ++allocate.memoryTypeIndex;
    Check(vkAllocateMemory(app.device, &allocate, nullptr, &memory_), "vkAllocateMemory");
    Check(vkBindBufferMemory(app.device, handle, memory_, 0), "vkBindBufferMemory");
    void* mapped = nullptr;
    Check(vkMapMemory(app.device, memory_, 0, VK_WHOLE_SIZE, 0, &mapped), "vkMapMemory");
    bytes_ = static_cast<std::byte*>(mapped);
  }
  AppBuffer(const AppBuffer&) = delete;
  AppBuffer& operator=(const AppBuffer&) = delete;
  ~AppBuffer() {
    vkDestroyBuffer(app_.device, handle, nullptr);
    vkFreeMemory(app_.device, memory_, nullptr);
  }

  std::span<const float> Floats(VkDeviceSize offset, std::size_t count) const {
    return {reinterpret_cast<const float*>(bytes_ + offset), count};
  }

  VkBuffer handle = VK_NULL_HANDLE;

 private:
  const AppDevice& app_;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  std::byte* bytes_ = nullptr;
};

// One kernel of this program's, on one buffer, with two numbers.
class AppKernel {
 public:
  AppKernel(const AppDevice& app, std::span<const uint32_t> spirv, VkBuffer buffer, VkDeviceSize bytes) : app_(app) {
    const VkDescriptorSetLayoutBinding binding = {0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT,
                                                  nullptr};
    auto set = Vk<VkDescriptorSetLayoutCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO);
    set.bindingCount = 1;
    set.pBindings = &binding;
    Check(vkCreateDescriptorSetLayout(app.device, &set, nullptr, &set_layout_), "vkCreateDescriptorSetLayout");
    const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 8};
    auto layout = Vk<VkPipelineLayoutCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);
    layout.setLayoutCount = 1;
    layout.pSetLayouts = &set_layout_;
    layout.pushConstantRangeCount = 1;
    layout.pPushConstantRanges = &range;
    Check(vkCreatePipelineLayout(app.device, &layout, nullptr, &layout_), "vkCreatePipelineLayout");
    auto module = Vk<VkShaderModuleCreateInfo>(VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
    module.codeSize = spirv.size_bytes();
    module.pCode = spirv.data();
    Check(vkCreateShaderModule(app.device, &module, nullptr, &module_), "vkCreateShaderModule");
    auto pipeline = Vk<VkComputePipelineCreateInfo>(VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
    pipeline.stage = Vk<VkPipelineShaderStageCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO);
    pipeline.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    pipeline.stage.module = module_;
    pipeline.stage.pName = "main";
    pipeline.layout = layout_;
    Check(vkCreateComputePipelines(app.device, VK_NULL_HANDLE, 1, &pipeline, nullptr, &pipeline_),
          "vkCreateComputePipelines");
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1};
    auto pool = Vk<VkDescriptorPoolCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO);
    pool.maxSets = 1;
    pool.poolSizeCount = 1;
    pool.pPoolSizes = &size;
    Check(vkCreateDescriptorPool(app.device, &pool, nullptr, &pool_), "vkCreateDescriptorPool");
    auto sets = Vk<VkDescriptorSetAllocateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO);
    sets.descriptorPool = pool_;
    sets.descriptorSetCount = 1;
    sets.pSetLayouts = &set_layout_;
    Check(vkAllocateDescriptorSets(app.device, &sets, &set_), "vkAllocateDescriptorSets");
    const VkDescriptorBufferInfo bound = {buffer, 0, bytes};
    auto write = Vk<VkWriteDescriptorSet>(VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET);
    write.dstSet = set_;
    write.descriptorCount = 1;
    write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    write.pBufferInfo = &bound;
    vkUpdateDescriptorSets(app.device, 1, &write, 0, nullptr);
  }
  AppKernel(const AppKernel&) = delete;
  AppKernel& operator=(const AppKernel&) = delete;
  ~AppKernel() {
    vkDestroyDescriptorPool(app_.device, pool_, nullptr);
    vkDestroyPipeline(app_.device, pipeline_, nullptr);
    vkDestroyShaderModule(app_.device, module_, nullptr);
    vkDestroyPipelineLayout(app_.device, layout_, nullptr);
    vkDestroyDescriptorSetLayout(app_.device, set_layout_, nullptr);
  }

  void Record(VkCommandBuffer commands, uint32_t count, uint32_t frame) const {
    const uint32_t push[] = {count, frame};
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline_);
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout_, 0, 1, &set_, 0, nullptr);
    vkCmdPushConstants(commands, layout_, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(push), push);
    vkCmdDispatch(commands, (count + 63) / 64, 1, 1);
  }

 private:
  const AppDevice& app_;
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkShaderModule module_ = VK_NULL_HANDLE;
  VkPipeline pipeline_ = VK_NULL_HANDLE;
  VkDescriptorPool pool_ = VK_NULL_HANDLE;
  VkDescriptorSet set_ = VK_NULL_HANDLE;
};
