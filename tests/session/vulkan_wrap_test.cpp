// SPDX-License-Identifier: Apache-2.0
// Sessions inside an application's own Vulkan device: with only what it has enabled, which the validation layer looks
// after where it is installed; several on one device; and nothing of it destroyed.
#ifdef KRAFLA_HAVE_VULKAN
#define VK_NO_PROTOTYPES
#include "krafla/vulkan.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "krafla/krafla_vulkan.h"
#include "krafla/session.h"
#include "krafla/shape_util.h"

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

  // With addresses and timelines, or with nothing.
  bool MakeDeviceWith(bool features) {
    if (!features) return MakeDevice(VK_API_VERSION_1_1, nullptr);
    twelve_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    twelve_.bufferDeviceAddress = twelve_.timelineSemaphore = VK_TRUE;
    features_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    features_.pNext = &twelve_;
    return MakeDevice(VK_API_VERSION_1_2, &features_);
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
  VkPhysicalDeviceVulkan12Features twelve_ = {};
  VkPhysicalDeviceFeatures2 features_ = {};
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  std::string messages_;
};

// What an application has on its device: a buffer that the host sees, and a command buffer.
class AppWork {
 public:
  static constexpr uint64_t kBytes = 1 << 14;

  AppWork(const VulkanDevice& app, bool addresses) : app_(app) {
    VkBufferCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    info.size = kBytes;
    info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT | (addresses ? VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT : 0);
    EXPECT_EQ(Get<PFN_vkCreateBuffer>("vkCreateBuffer")(app.device, &info, nullptr, &buffer), VK_SUCCESS);
    VkMemoryRequirements needs;
    Get<PFN_vkGetBufferMemoryRequirements>("vkGetBufferMemoryRequirements")(app.device, buffer, &needs);
    VkMemoryAllocateFlagsInfo flags = {};
    flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
    flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
    VkMemoryAllocateInfo allocate = {};
    allocate.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    allocate.pNext = addresses ? &flags : nullptr;
    allocate.allocationSize = needs.size;  // of type 0, which the host sees on the drivers of the tests
    EXPECT_EQ(Get<PFN_vkAllocateMemory>("vkAllocateMemory")(app.device, &allocate, nullptr, &memory_), VK_SUCCESS);
    EXPECT_EQ(Get<PFN_vkBindBufferMemory>("vkBindBufferMemory")(app.device, buffer, memory_, 0), VK_SUCCESS);
    void* mapped = nullptr;
    EXPECT_EQ(Get<PFN_vkMapMemory>("vkMapMemory")(app.device, memory_, 0, kBytes, 0, &mapped), VK_SUCCESS);
    floats = {static_cast<float*>(mapped), kBytes / sizeof(float)};
    std::ranges::fill(floats, -7.0f);
    VkCommandPoolCreateInfo pool = {};
    pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    EXPECT_EQ(Get<PFN_vkCreateCommandPool>("vkCreateCommandPool")(app.device, &pool, nullptr, &pool_), VK_SUCCESS);
    VkCommandBufferAllocateInfo commands_info = {};
    commands_info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    commands_info.commandPool = pool_;
    commands_info.commandBufferCount = 1;
    EXPECT_EQ(Get<PFN_vkAllocateCommandBuffers>("vkAllocateCommandBuffers")(app.device, &commands_info, &commands),
              VK_SUCCESS);
    VkCommandBufferBeginInfo begin = {};
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    EXPECT_EQ(Get<PFN_vkBeginCommandBuffer>("vkBeginCommandBuffer")(commands, &begin), VK_SUCCESS);
  }
  AppWork(const AppWork&) = delete;
  AppWork& operator=(const AppWork&) = delete;
  ~AppWork() {
    Get<PFN_vkDestroyCommandPool>("vkDestroyCommandPool")(app_.device, pool_, nullptr);
    Get<PFN_vkDestroyBuffer>("vkDestroyBuffer")(app_.device, buffer, nullptr);
    Get<PFN_vkFreeMemory>("vkFreeMemory")(app_.device, memory_, nullptr);
  }

  template <typename Function>
  Function Get(const char* name) const {
    return reinterpret_cast<Function>(app_.get_instance_proc_addr(app_.instance, name));
  }
  void End() { EXPECT_EQ(Get<PFN_vkEndCommandBuffer>("vkEndCommandBuffer")(commands), VK_SUCCESS); }
  // To the end.
  void Submit() const {
    VkQueue queue;
    Get<PFN_vkGetDeviceQueue>("vkGetDeviceQueue")(app_.device, 0, 0, &queue);
    VkSubmitInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    info.commandBufferCount = 1;
    info.pCommandBuffers = &commands;
    EXPECT_EQ(Get<PFN_vkQueueSubmit>("vkQueueSubmit")(queue, 1, &info, VK_NULL_HANDLE), VK_SUCCESS);
    EXPECT_EQ(Get<PFN_vkQueueWaitIdle>("vkQueueWaitIdle")(queue), VK_SUCCESS);
  }
  // A matrix of 16 x 16 at byte `offset`.
  Buffer Import(const LocalClient& client, uint64_t offset, int* released = nullptr) const {
    auto made = ImportVulkanBuffer(client, ShapeUtil::MakeShape(ElementType::kF32, {16, 16}).value(),
                                   {buffer, offset, 1024}, [released] {
                                     if (released != nullptr) ++*released;
                                   });
    EXPECT_TRUE(made.has_value()) << made.error().ToString();
    return *std::move(made);
  }

  VkBuffer buffer = VK_NULL_HANDLE;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  std::span<float> floats;

 private:
  const VulkanDevice& app_;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  VkCommandPool pool_ = VK_NULL_HANDLE;
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

// The application's transfer, the run, and the application's transfer again, in one command buffer, submitted twice.
TEST_F(VulkanWrapTest, RecordsIntoTheApplicationsCommands) {
  for (const bool features : {false, true}) {
    if (!MakeDeviceWith(features)) continue;
    int released = 0;
    {
      auto client = WrapVulkanDevice(app_, {.cache_folder = ""});
      ASSERT_TRUE(client.has_value()) << client.error().ToString();
      AppWork work(app_, features);
      {
        std::optional<Session> session = Session::LoadBytes(*client, kProduct).value();
        const Buffer in = work.Import(*client, 1024, &released), out = work.Import(*client, 4096, &released);
        auto recording = VulkanRecording::Create(*session, {&in, 1}, {&out, 1});
        ASSERT_TRUE(recording.has_value()) << recording.error().ToString();
        session.reset();
        const VkBufferCopy there = {8192, 1024, 1024}, back = {4096, 12288, 1024};
        const auto copy = work.Get<PFN_vkCmdCopyBuffer>("vkCmdCopyBuffer");
        copy(work.commands, work.buffer, work.buffer, 1, &there);
        Result<> recorded = recording->Record(work.commands);
        ASSERT_TRUE(recorded.has_value()) << recorded.error().ToString();
        copy(work.commands, work.buffer, work.buffer, 1, &back);
        work.End();
        for (const float scale : {1.0f, 3.0f}) {
          std::ranges::fill(work.floats.subspan(2048, 256), 0.0f);
          for (std::size_t i = 0; i < 16; ++i) work.floats[2048 + i * 17] = scale;
          work.Submit();
          for (std::size_t i = 0; i < 256; ++i)
            ASSERT_EQ(work.floats[3072 + i], i % 17 == 0 ? scale * scale + scale : 0) << i;
        }
        EXPECT_EQ(work.floats[255], -7);
        EXPECT_EQ(work.floats[512], -7);
        std::vector<float> read(256);
        ASSERT_TRUE(out.ReadTo(AsOutput(read)).has_value());
        EXPECT_EQ(read[17], 12);
        EXPECT_EQ(released, 0);
      }
      EXPECT_EQ(released, 2);
    }
    TearDown();
    app_.device = VK_NULL_HANDLE, app_.instance = VK_NULL_HANDLE, messenger_ = VK_NULL_HANDLE;
  }
}

TEST_F(VulkanWrapTest, RunsBetweenSemaphores) {
  if (!MakeDeviceWith(true)) GTEST_SKIP() << "There is no device of Vulkan 1.2.";
  auto client = WrapVulkanDevice(app_, {.cache_folder = ""});
  ASSERT_TRUE(client.has_value()) << client.error().ToString();
  AppWork work(app_, true);
  VkSemaphoreTypeCreateInfo type = {};
  type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
  info.pNext = &type;
  VkSemaphore semaphore = VK_NULL_HANDLE;
  Get<PFN_vkCreateSemaphore>("vkCreateSemaphore")(app_.device, &info, nullptr, &semaphore);
  const auto signal = Get<PFN_vkSignalSemaphore>("vkSignalSemaphore");
  const auto wait = Get<PFN_vkWaitSemaphores>("vkWaitSemaphores");
  {
    auto session = Session::LoadBytes(*client, kProduct);
    ASSERT_TRUE(session.has_value());
    const Buffer in = work.Import(*client, 1024), out = work.Import(*client, 4096);
    for (uint64_t turn = 0; turn < 3; ++turn) {
      const VulkanSemaphore begin = {semaphore, 2 * turn + 1}, end = {semaphore, 2 * turn + 2};
      Result<> submitted = RunOnVulkan(*session, {&in, 1}, {&out, 1}, {&begin, 1}, {&end, 1});
      ASSERT_TRUE(submitted.has_value()) << submitted.error().ToString();
      // Nothing has begun: what the host writes now is what is read.
      const auto x = static_cast<float>(turn + 1);
      for (std::size_t i = 0; i < 256; ++i) work.floats[256 + i] = i % 17 == 0 ? x : 0;
      VkSemaphoreSignalInfo go = {};
      go.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO;
      go.semaphore = semaphore;
      go.value = begin.value;
      signal(app_.device, &go);
      VkSemaphoreWaitInfo until = {};
      until.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
      until.semaphoreCount = 1;
      until.pSemaphores = &semaphore;
      until.pValues = &end.value;
      ASSERT_EQ(wait(app_.device, &until, 10'000'000'000), VK_SUCCESS);
      for (std::size_t i = 0; i < 256; ++i) ASSERT_EQ(work.floats[1024 + i], i % 17 == 0 ? x * x + x : 0);
    }
  }
  Get<PFN_vkDestroySemaphore>("vkDestroySemaphore")(app_.device, semaphore, nullptr);
}

// An output that takes an input's place: the same array, or another that begins as it.
TEST_F(VulkanWrapTest, OutputsTakeInputsPlaces) {
  constexpr std::string_view kCounts = R"(HloModule counts, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY main {
  x = f32[16,16] parameter(0)
  row = f32[1,16] slice(x), slice={[2:3], [0:16]}
  one = f32[] constant(1)
  ones = f32[1,16] broadcast(one), dimensions={}
  next = f32[1,16] add(row, ones)
  i = s32[] constant(2)
  j = s32[] constant(0)
  ROOT s = f32[16,16] dynamic-update-slice(x, next, i, j)
})";
  if (!MakeDeviceWith(false)) GTEST_SKIP() << "There is no device of Vulkan 1.1.";
  auto client = WrapVulkanDevice(app_, {.cache_folder = ""});
  ASSERT_TRUE(client.has_value()) << client.error().ToString();
  AppWork work(app_, false);
  auto session = Session::LoadBytes(*client, kCounts);
  ASSERT_TRUE(session.has_value());
  const Buffer here = work.Import(*client, 1024), there = work.Import(*client, 4096);
  auto in_place = VulkanRecording::Create(*session, {&here, 1}, {&here, 1});
  ASSERT_TRUE(in_place.has_value()) << in_place.error().ToString();
  auto elsewhere = VulkanRecording::Create(*session, {&here, 1}, {&there, 1});
  ASSERT_TRUE(elsewhere.has_value()) << elsewhere.error().ToString();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(in_place->Record(work.commands).has_value());
  ASSERT_TRUE(elsewhere->Record(work.commands).has_value());
  work.End();
  work.Submit();
  for (std::size_t i = 0; i < 256; ++i) {
    ASSERT_EQ(work.floats[256 + i], i / 16 == 2 ? -4 : -7) << i;
    ASSERT_EQ(work.floats[1024 + i], i / 16 == 2 ? -3 : -7) << i;
  }
}

TEST_F(VulkanWrapTest, SaysWhatCannotBeRecordedOrImported) {
  constexpr std::string_view kLoop = R"(HloModule loop
body {
  p = f32[] parameter(0)
  ROOT h = f32[] multiply(p, p)
}
condition {
  p = f32[] parameter(0)
  limit = f32[] constant(100)
  ROOT c = pred[] compare(p, limit), direction=LT
}
ENTRY main {
  x = f32[] parameter(0)
  ROOT w = f32[] while(x), condition=condition, body=body
})";
  if (!MakeDeviceWith(false)) GTEST_SKIP() << "There is no device of Vulkan 1.1.";
  auto client = WrapVulkanDevice(app_, {.cache_folder = ""});
  ASSERT_TRUE(client.has_value()) << client.error().ToString();
  AppWork work(app_, false);
  work.End();
  const Shape scalar = ShapeUtil::MakeScalarShape(ElementType::kF32).value();
  const auto import = [&](uint64_t offset, uint64_t size) {
    return ImportVulkanBuffer(*client, scalar, {work.buffer, offset, size});
  };
  const auto says = [](const Status& error, std::string_view word) {
    EXPECT_NE(error.message().find(word), std::string::npos) << error.ToString();
  };
  says(import(8, 16).error(), "VulkanRange::offset");
  says(import(0, 4).error(), "VulkanRange::size");
  says(ImportVulkanBuffer(*client, scalar, {}).error(), "VulkanRange::buffer");
  auto cpu = LocalClient::Create("cpu");
  says(ImportVulkanBuffer(*cpu, scalar, {work.buffer, 0, 16}).error(), "WrapVulkanDevice");

  auto session = Session::LoadBytes(*client, kLoop);
  ASSERT_TRUE(session.has_value()) << session.error().ToString();
  const Buffer in = *import(0, 16), out = *import(256, 16);
  auto recorded = VulkanRecording::Create(*session, {&in, 1}, {&out, 1});
  ASSERT_FALSE(recorded.has_value());
  EXPECT_EQ(recorded.error().code(), StatusCode::kUnimplemented);
  says(VulkanRecording::Create(*session, {}, {&out, 1}).error(), "inputs");
  // It runs, though.
  work.floats[0] = 2;
  ASSERT_TRUE(RunOnVulkan(*session, {&in, 1}, {&out, 1}).has_value());
  ASSERT_TRUE(out.Wait().has_value());
  EXPECT_EQ(work.floats[64], 256);
  // The same bytes read and written, by a program that was not made for that.
  auto product = Session::LoadBytes(*client, kProduct);
  const Buffer matrix = work.Import(*client, 1024);
  says(VulkanRecording::Create(*product, {&matrix, 1}, {&matrix, 1}).error(), "the same bytes");
  const VulkanSemaphore timeline = {reinterpret_cast<VkSemaphore>(work.buffer), 1};
  says(RunOnVulkan(*session, {&in, 1}, {&out, 1}, {&timeline, 1}).error(), "timelineSemaphore");
}

// The same through C: a run, and one in the application's commands.
TEST_F(VulkanWrapTest, ThroughTheCInterface) {
  if (!MakeDeviceWith(false)) GTEST_SKIP() << "There is no device of Vulkan 1.1.";
  krafla_vulkan_device mine = KRAFLA_INIT(krafla_vulkan_device);
  krafla_client* client = nullptr;
  const auto code_of = [](krafla_status* status) {
    const int32_t code = krafla_status_code(status);
    krafla_status_free(status);
    return code;
  };
  EXPECT_EQ(code_of(krafla_vulkan_wrap(&mine, nullptr, &client)), KRAFLA_INVALID_ARGUMENT);
  mine.instance = app_.instance;
  mine.physical_device = app_.physical_device;
  mine.device = app_.device;
  mine.get_instance_proc_addr = app_.get_instance_proc_addr;
  int locked = 0;
  mine.lock_queue = mine.unlock_queue = [](void* user) { ++*static_cast<int*>(user); };
  mine.lock_user = &locked;
  krafla_client_options options = KRAFLA_INIT(krafla_client_options);
  options.cache_folder = "";
  ASSERT_EQ(code_of(krafla_vulkan_wrap(&mine, &options, &client)), KRAFLA_OK);
  krafla_session* session = nullptr;
  ASSERT_EQ(code_of(krafla_session_load_bytes(client, kProduct.data(), kProduct.size(), nullptr, &session)), KRAFLA_OK);

  AppWork work(app_, false);
  const int64_t dims[] = {16, 16};
  int released = 0;
  const auto release = [](void* user) { ++*static_cast<int*>(user); };
  krafla_buffer *in = nullptr, *out = nullptr;
  krafla_vulkan_range range = {work.buffer, 1024, 1024};
  ASSERT_EQ(code_of(krafla_vulkan_import(client, KRAFLA_F32, dims, 2, &range, release, &released, &in)), KRAFLA_OK);
  range.offset = 4096;
  ASSERT_EQ(code_of(krafla_vulkan_import(client, KRAFLA_F32, dims, 2, &range, release, &released, &out)), KRAFLA_OK);
  EXPECT_EQ(code_of(krafla_vulkan_import(client, 999, dims, 2, &range, release, &released, &out)),
            KRAFLA_INVALID_ARGUMENT);
  EXPECT_EQ(released, 1);

  for (std::size_t i = 0; i < 256; ++i) work.floats[256 + i] = i % 17 == 0 ? 3 : 0;
  EXPECT_EQ(code_of(krafla_vulkan_run(session, &in, 0, &out, 1, nullptr, 0, nullptr, 0, nullptr)),
            KRAFLA_INVALID_ARGUMENT);
  EXPECT_EQ(code_of(krafla_vulkan_run(session, &in, 1, &out, 1, nullptr, 1, nullptr, 0, nullptr)),
            KRAFLA_INVALID_ARGUMENT);
  ASSERT_EQ(code_of(krafla_vulkan_run(session, &in, 1, &out, 1, nullptr, 0, nullptr, 0, nullptr)), KRAFLA_OK);
  ASSERT_EQ(code_of(krafla_buffer_wait(out)), KRAFLA_OK);
  EXPECT_EQ(work.floats[1024], 12);
  EXPECT_GE(locked, 2);

  krafla_vulkan_recording* recording = nullptr;
  ASSERT_EQ(code_of(krafla_vulkan_recording_create(session, &in, 1, &out, 1, &recording)), KRAFLA_OK);
  EXPECT_EQ(code_of(krafla_vulkan_record(recording, nullptr)), KRAFLA_INVALID_ARGUMENT);
  ASSERT_EQ(code_of(krafla_vulkan_record(recording, work.commands)), KRAFLA_OK);
  work.End();
  for (std::size_t i = 0; i < 256; ++i) work.floats[256 + i] = i % 17 == 0 ? 5 : 0;
  work.Submit();
  EXPECT_EQ(work.floats[1024], 30);
  krafla_vulkan_recording_free(recording);
  krafla_buffer_free(in);
  krafla_buffer_free(out);
  krafla_session_free(session);
  krafla_client_free(client);
  EXPECT_EQ(released, 3);
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
