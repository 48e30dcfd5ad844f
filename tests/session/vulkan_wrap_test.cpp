// SPDX-License-Identifier: Apache-2.0
// Sessions inside an application's own Vulkan device: with only what it has enabled, which the validation layer looks
// after where it is installed; several on one device; and nothing of it destroyed.
#ifdef KRAFLA_HAVE_VULKAN
#define VK_NO_PROTOTYPES
#include "krafla/vulkan.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

#include "krafla/session.h"

namespace krafla::testing {
namespace {

constexpr std::string_view kProduct = R"(HloModule product
ENTRY main {
  x = f32[16,16] parameter(0)
  d = f32[16,16] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT s = f32[16,16] add(d, x)
})";

// An application with one device and one queue.
class VulkanWrapTest : public ::testing::Test {
 protected:
  void SetUp() override {
    library_ = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) GTEST_SKIP() << "There is no Vulkan loader.";
    app_.get_instance_proc_addr = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library_, "vkGetInstanceProcAddr"));
  }

  void TearDown() override {
    if (app_.device != VK_NULL_HANDLE) {
      // What krafla has left of its own the layer would tell of here.
      EXPECT_EQ(Get<PFN_vkDeviceWaitIdle>("vkDeviceWaitIdle")(app_.device), VK_SUCCESS);
      Get<PFN_vkDestroyDevice>("vkDestroyDevice")(app_.device, nullptr);
    }
    if (messenger_ != VK_NULL_HANDLE)
      Get<PFN_vkDestroyDebugUtilsMessengerEXT>("vkDestroyDebugUtilsMessengerEXT")(app_.instance, messenger_, nullptr);
    if (app_.instance != VK_NULL_HANDLE) Get<PFN_vkDestroyInstance>("vkDestroyInstance")(app_.instance, nullptr);
    EXPECT_EQ(messages_, "");
  }

  template <typename Function>
  Function Get(const char* name) {
    return reinterpret_cast<Function>(app_.get_instance_proc_addr(app_.instance, name));
  }

  static VKAPI_ATTR VkBool32 VKAPI_CALL OnMessage(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                                  VkDebugUtilsMessageTypeFlagsEXT,
                                                  const VkDebugUtilsMessengerCallbackDataEXT* data, void* self) {
    static_cast<VulkanWrapTest*>(self)->messages_ += std::string(data->pMessage) + "\n";
    return VK_FALSE;
  }

  bool HasValidation() {
    uint32_t count = 0;
    const auto list = Get<PFN_vkEnumerateInstanceLayerProperties>("vkEnumerateInstanceLayerProperties");
    list(&count, nullptr);
    std::vector<VkLayerProperties> layers(count);
    list(&count, layers.data());
    for (const auto& l : layers)
      if (std::strcmp(l.layerName, "VK_LAYER_KHRONOS_validation") == 0) return true;
    return false;
  }

  // False where there is no device of that version.
  bool MakeDevice(uint32_t api_version, const VkPhysicalDeviceFeatures2* features) {
    const VkApplicationInfo application = {
        VK_STRUCTURE_TYPE_APPLICATION_INFO, nullptr, "an app", 1, "", 0, api_version};
    VkDebugUtilsMessengerCreateInfoEXT messenger = {};
    messenger.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
    messenger.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
    messenger.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
    messenger.pfnUserCallback = &OnMessage;
    messenger.pUserData = this;
    const char* layer = "VK_LAYER_KHRONOS_validation";
    const char* extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
    VkInstanceCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    info.pApplicationInfo = &application;
    const bool validates = HasValidation();
    if (validates) {
      info.enabledLayerCount = info.enabledExtensionCount = 1;
      info.ppEnabledLayerNames = &layer;
      info.ppEnabledExtensionNames = &extension;
    }
    if (Get<PFN_vkCreateInstance>("vkCreateInstance")(&info, nullptr, &app_.instance) != VK_SUCCESS) return false;
    if (validates) {
      Get<PFN_vkCreateDebugUtilsMessengerEXT>("vkCreateDebugUtilsMessengerEXT")(app_.instance, &messenger, nullptr,
                                                                                &messenger_);
    }
    uint32_t one = 1;
    Get<PFN_vkEnumeratePhysicalDevices>("vkEnumeratePhysicalDevices")(app_.instance, &one, &app_.physical_device);
    if (one == 0) return false;
    VkPhysicalDeviceProperties properties;
    Get<PFN_vkGetPhysicalDeviceProperties>("vkGetPhysicalDeviceProperties")(app_.physical_device, &properties);
    if (properties.apiVersion < api_version) return false;
    const float priority = 1;
    VkDeviceQueueCreateInfo queue = {};
    queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queue.queueCount = 1;  // of family 0, which has compute on the drivers of the tests
    queue.pQueuePriorities = &priority;
    VkDeviceCreateInfo device = {};
    device.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    device.pNext = features;
    device.queueCreateInfoCount = 1;
    device.pQueueCreateInfos = &queue;
    app_.api_version = api_version;
    app_.features = features;
    return Get<PFN_vkCreateDevice>("vkCreateDevice")(app_.physical_device, &device, nullptr, &app_.device) ==
           VK_SUCCESS;
  }

  // The unit matrix times itself, plus itself.
  static void RunProduct(const LocalClient& client, int times) {
    auto session = Session::LoadBytes(client, kProduct);
    ASSERT_TRUE(session.has_value()) << session.error().ToString();
    std::vector<float> x(256), y(256);
    for (int i = 0; i < 16; ++i) x[static_cast<std::size_t>(i) * 17] = 1;
    for (int t = 0; t < times; ++t) {
      const InputBytes in = std::as_bytes(std::span(x));
      const OutputBytes out = std::as_writable_bytes(std::span(y));
      auto ran = session->Run(Span<InputBytes>(&in, 1), Span<OutputBytes>(&out, 1));
      ASSERT_TRUE(ran.has_value()) << ran.error().ToString();
      for (std::size_t i = 0; i < 256; ++i) ASSERT_EQ(y[i], 2 * x[i]);
    }
  }

  void* library_ = nullptr;
  VulkanDevice app_;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  std::string messages_;
};

// No addresses, no timeline semaphores, no small types: nothing but Vulkan 1.1.
TEST_F(VulkanWrapTest, RunsWhereNothingIsEnabled) {
  if (!MakeDevice(VK_API_VERSION_1_1, nullptr)) GTEST_SKIP() << "There is no device of Vulkan 1.1.";
  auto client = WrapVulkanDevice(app_, {.cache_folder = ""});
  ASSERT_TRUE(client.has_value()) << client.error().ToString();
  EXPECT_NE(client->device().description.find("the application's"), std::string::npos);
  RunProduct(*client, 3);
}

TEST_F(VulkanWrapTest, TwoClientsBesideOneOfOurs) {
  VkPhysicalDeviceVulkan12Features twelve = {};
  twelve.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  twelve.bufferDeviceAddress = twelve.timelineSemaphore = VK_TRUE;
  VkPhysicalDeviceFeatures2 features = {};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.pNext = &twelve;
  if (!MakeDevice(VK_API_VERSION_1_2, &features)) GTEST_SKIP() << "There is no device of Vulkan 1.2.";
  std::mutex mutex;
  std::atomic<int> uses = 0, users = 0;
  app_.lock_queue = [&] {
    mutex.lock();
    EXPECT_EQ(++users, 1);
    ++uses;
  };
  app_.unlock_queue = [&] {
    --users;
    mutex.unlock();
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      auto client =
          i < 2 ? WrapVulkanDevice(app_, {.cache_folder = ""}) : LocalClient::Create("vulkan", {.cache_folder = ""});
      ASSERT_TRUE(client.has_value()) << client.error().ToString();
      RunProduct(*client, 5);
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_GE(uses, 10);
  EXPECT_EQ(users, 0);
}

TEST_F(VulkanWrapTest, SaysWhatIsMissing) {
  if (!MakeDevice(VK_API_VERSION_1_1, nullptr)) GTEST_SKIP() << "There is no device of Vulkan 1.1.";
  const auto refused = [&](auto change, std::string_view word) {
    VulkanDevice device = app_;
    change(device);
    auto client = WrapVulkanDevice(device);
    ASSERT_FALSE(client.has_value()) << word;
    EXPECT_EQ(client.error().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(client.error().message().find(word), std::string::npos) << client.error().ToString();
  };
  refused([](VulkanDevice& d) { d.instance = VK_NULL_HANDLE; }, "VulkanDevice::instance");
  refused([](VulkanDevice& d) { d.device = VK_NULL_HANDLE; }, "VulkanDevice::device");
  refused([](VulkanDevice& d) { d.get_instance_proc_addr = nullptr; }, "get_instance_proc_addr");
  refused([](VulkanDevice& d) { d.lock_queue = [] {}; }, "unlock_queue");
  refused([](VulkanDevice& d) { d.api_version = VK_API_VERSION_1_0; }, "Vulkan 1.1");
  refused([](VulkanDevice& d) { d.queue_family = 77; }, "queue_family");
}

}  // namespace
}  // namespace krafla::testing
#endif
