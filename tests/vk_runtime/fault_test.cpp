// SPDX-License-Identifier: Apache-2.0
// Every call that the runtime makes is made to fail, one after the other, with each error that matters. Whatever
// fails, the caller gets a Status of the right kind (or the right result), every object is destroyed, and nothing
// hangs. After a lost device no call reaches the driver but destroys.
#include <atomic>
#include <tuple>
#include <type_traits>

#include "test_device.h"

namespace krafla::vk {
namespace {

struct Faults {
  static inline std::atomic<int> calls = 0;
  static inline std::atomic<int> fail_at = -1;  // which call; -1: none
  static inline std::atomic<VkResult> error = VK_SUCCESS;
  static inline std::atomic<bool> hit = false;
  static inline std::atomic<int> calls_after_loss = 0;
  static inline std::atomic<int> live = 0;  // objects created and not destroyed
  static inline std::atomic<const char*> name = "";
  static inline std::atomic<VkDevice> device = VK_NULL_HANDLE;
  static inline PFN_vkDeviceWaitIdle wait_idle = nullptr;

  static void Reset(int at, VkResult result) {
    calls = 0;
    fail_at = at;
    error = result;
    hit = false;
    calls_after_loss = 0;
    live = 0;
    name = "";
  }
  static VkResult Next(const char* function) {
    if (hit && error == VK_ERROR_DEVICE_LOST) ++calls_after_loss;
    if (calls++ != fail_at) return VK_SUCCESS;
    hit = true;
    name = function;
    // A device that is really lost runs nothing any more.
    if (error == VK_ERROR_DEVICE_LOST && wait_idle != nullptr) wait_idle(device);
    return error;
  }
};

template <auto kMember, const char* kName, int kMade>
struct Wrapped;
template <typename... Args, VkResult (VKAPI_PTR* VolkDeviceTable::*kMember)(Args...), const char* kName, int kMade>
struct Wrapped<kMember, kName, kMade> {
  static inline VkResult(VKAPI_PTR* real)(Args...) = nullptr;
  static VKAPI_ATTR VkResult VKAPI_CALL Call(Args... args) {
    if constexpr (std::is_same_v<std::tuple_element_t<0, std::tuple<Args...>>, VkDevice>) {
      Faults::device = std::get<0>(std::tuple(args...));
    }
    VkResult r = Faults::Next(kName);
    if (r == VK_SUCCESS) {
      r = real(args...);
      if (r == VK_SUCCESS) Faults::live += kMade;
    }
    return r;
  }
  static void Install(VolkDeviceTable& table) {
    if (table.*kMember == nullptr) return;
    real = table.*kMember;
    table.*kMember = &Call;
  }
};
template <auto kMember>
struct Destroys;
template <typename Handle, void (VKAPI_PTR* VolkDeviceTable::*kMember)(VkDevice, Handle, const VkAllocationCallbacks*)>
struct Destroys<kMember> {
  static inline void(VKAPI_PTR* real)(VkDevice, Handle, const VkAllocationCallbacks*) = nullptr;
  static VKAPI_ATTR void VKAPI_CALL Call(VkDevice device, Handle handle, const VkAllocationCallbacks* callbacks) {
    if (handle != VK_NULL_HANDLE) --Faults::live;
    real(device, handle, callbacks);
  }
  static void Install(VolkDeviceTable& table) {
    real = table.*kMember;
    table.*kMember = &Call;
  }
};

void InstallFaults(VolkDeviceTable& table) {
  Faults::wait_idle = table.vkDeviceWaitIdle;
#define KRAFLA_CALL(member, made)                                  \
  do {                                                             \
    static const char name[] = #member;                            \
    Wrapped<&VolkDeviceTable::member, name, made>::Install(table); \
  } while (false)
  KRAFLA_CALL(vkCreateSemaphore, 1);
  KRAFLA_CALL(vkCreateFence, 1);
  KRAFLA_CALL(vkAllocateMemory, 1);
  KRAFLA_CALL(vkCreateBuffer, 1);
  KRAFLA_CALL(vkCreateCommandPool, 1);
  KRAFLA_CALL(vkCreateDescriptorPool, 1);
  KRAFLA_CALL(vkCreateDescriptorSetLayout, 1);
  KRAFLA_CALL(vkCreatePipelineLayout, 1);
  KRAFLA_CALL(vkCreateShaderModule, 1);
  KRAFLA_CALL(vkCreateComputePipelines, 1);
  KRAFLA_CALL(vkCreatePipelineCache, 1);
  KRAFLA_CALL(vkCreateQueryPool, 1);
  KRAFLA_CALL(vkQueueSubmit, 0);
  KRAFLA_CALL(vkWaitSemaphores, 0);
  KRAFLA_CALL(vkWaitForFences, 0);
  KRAFLA_CALL(vkGetSemaphoreCounterValue, 0);
  KRAFLA_CALL(vkGetFenceStatus, 0);
  KRAFLA_CALL(vkResetFences, 0);
  KRAFLA_CALL(vkMapMemory, 0);
  KRAFLA_CALL(vkBindBufferMemory, 0);
  KRAFLA_CALL(vkBindBufferMemory2, 0);
  KRAFLA_CALL(vkAllocateCommandBuffers, 0);
  KRAFLA_CALL(vkBeginCommandBuffer, 0);
  KRAFLA_CALL(vkEndCommandBuffer, 0);
  KRAFLA_CALL(vkAllocateDescriptorSets, 0);
  KRAFLA_CALL(vkGetPipelineCacheData, 0);
  KRAFLA_CALL(vkGetQueryPoolResults, 0);
  KRAFLA_CALL(vkDeviceWaitIdle, 0);
#undef KRAFLA_CALL
  Destroys<&VolkDeviceTable::vkDestroySemaphore>::Install(table);
  Destroys<&VolkDeviceTable::vkDestroyFence>::Install(table);
  Destroys<&VolkDeviceTable::vkFreeMemory>::Install(table);
  Destroys<&VolkDeviceTable::vkDestroyBuffer>::Install(table);
  Destroys<&VolkDeviceTable::vkDestroyCommandPool>::Install(table);
  Destroys<&VolkDeviceTable::vkDestroyDescriptorPool>::Install(table);
  Destroys<&VolkDeviceTable::vkDestroyDescriptorSetLayout>::Install(table);
  Destroys<&VolkDeviceTable::vkDestroyPipelineLayout>::Install(table);
  Destroys<&VolkDeviceTable::vkDestroyShaderModule>::Install(table);
  Destroys<&VolkDeviceTable::vkDestroyPipeline>::Install(table);
  Destroys<&VolkDeviceTable::vkDestroyPipelineCache>::Install(table);
  Destroys<&VolkDeviceTable::vkDestroyQueryPool>::Install(table);
}

class FaultTest : public DeviceTest {
 protected:
  // What a program that uses everything does. A wrong result is an error of its own kind.
  Result<> Scenario() {
    KRAFLA_ASSIGN(DeviceProfile profile, physical().profile.WithDisabled(GetParam()));
    DeviceOptions options = {.wait_limit = std::chrono::seconds(20), .cache_dir = folder_, .pipeline_threads = 1};
    options.patch_functions = InstallFaults;
    KRAFLA_ASSIGN(auto device, Device::Create(instance_, physical(), profile, options));
    std::vector<KernelCode> kernels = {AxpyKernel(profile), SpinKernel(profile)};
    KRAFLA_ASSIGN(auto pipelines, device->pipelines().Create(kernels));
    KRAFLA_ASSIGN(auto one, device->Allocate(1024, MemoryKind::kDevice));
    KRAFLA_ASSIGN(auto x, device->Allocate(1024, MemoryKind::kDevice));
    KRAFLA_ASSIGN(auto y, device->Allocate(1024, MemoryKind::kDevice));
    const std::vector<uint32_t> ones = Ramp(256, 1, 0), ramp = Ramp(256);
    KRAFLA_TRY(device->Upload(*one, 0, std::as_bytes(std::span(ones))));
    KRAFLA_TRY(device->Upload(*x, 0, std::as_bytes(std::span(ramp))));
    KRAFLA_ASSIGN(
        auto program,
        Program::Create(device, {ProgramBuffer::Slot(0, 1024), ProgramBuffer::Fixed(one), ProgramBuffer::Slot(1, 1024)},
                        pipelines, {Axpy(0, 1, 2, 256, 2), Copy{{2, 0, 1024}, {0, 0, 1024}}}));
    // Runs that are measured, after which it is cut anew.
    KRAFLA_ASSIGN(auto spare, device->Allocate(1024, MemoryKind::kDevice));
    Launch estimated = Axpy(0, 0, 1, 256, 2);
    estimated.estimated_ms = 1e-6;
    KRAFLA_ASSIGN(auto measured,
                  Program::Create(device, {ProgramBuffer::Fixed(one), ProgramBuffer::Fixed(spare)}, pipelines,
                                  {estimated, estimated}, {.submit_ms = 1e-5, .launch_ms = 1}));
    for (int run = 0; run < 3; ++run) KRAFLA_TRY(measured->Run({}));
    std::vector<BufferBinding> there = {{x.get()}, {y.get()}}, back = {{y.get()}, {x.get()}};
    KRAFLA_TRY(program->Submit(there));
    KRAFLA_TRY(program->Submit(back));
    KRAFLA_TRY(program->Run(there));
    KRAFLA_ASSIGN(Event last, program->Submit(there));
    y.reset();  // in flight
    KRAFLA_TRY(device->IsComplete(last));
    if (profile.limits.timestamp_valid_bits > 0) {
      KRAFLA_ASSIGN(y, device->Allocate(1024, MemoryKind::kDevice));
      there[1].buffer = y.get();
      KRAFLA_TRY(program->Profile(there));
    } else {
      KRAFLA_TRY(device->Wait(last));
    }
    std::vector<uint32_t> got(256);
    KRAFLA_TRY(device->Download(*x, 0, std::as_writable_bytes(std::span(got))));
    bool profiled = profile.limits.timestamp_valid_bits > 0;
    if (got != (profiled ? Ramp(256, 31, 32) : Ramp(256, 15, 16))) return DataLoss("The result is wrong.");
    return {};
  }
  std::string folder_ = FreshFolder("faults");
};
// Between them: both binding models, both kinds of waits, mapped memory and staging.
INSTANTIATE_TEST_SUITE_P(Modes, FaultTest, ::testing::Values(AllModes().front(), Modes{"unified"}, AllModes().back()),
                         ModeName);

TEST_P(FaultTest, EveryCallMayFail) {
  Faults::Reset(-1, VK_SUCCESS);
  ASSERT_OK(Scenario());
  ASSERT_EQ(Faults::live, 0);
  std::filesystem::remove_all(folder_);
  Faults::Reset(-1, VK_SUCCESS);
  ASSERT_OK(Scenario());
  int calls = Faults::calls;
  ASSERT_GT(calls, 30);
  for (VkResult error : {VK_ERROR_DEVICE_LOST, VK_ERROR_OUT_OF_DEVICE_MEMORY, VK_ERROR_OUT_OF_HOST_MEMORY}) {
    // The two kinds of memory take the same way through the runtime: a third of the calls is enough for one of them.
    for (int at = 0; at < calls; at += error == VK_ERROR_OUT_OF_HOST_MEMORY ? 3 : 1) {
      std::filesystem::remove_all(folder_);
      Faults::Reset(at, error);
      auto result = Scenario();
      Faults::fail_at = -1;  // calls that were not made now must not fail later
      std::string where =
          Format("call {} of {} ({}) fails with {}", at, calls, Faults::name.load(), static_cast<int>(error));
      if (!Faults::hit) continue;  // fewer calls than the first time: waits that were not needed
      if (!result) {
        StatusCode expected = error == VK_ERROR_DEVICE_LOST ? StatusCode::kAborted : StatusCode::kResourceExhausted;
        EXPECT_EQ(result.error().code(), expected) << where << ": " << result.error().ToString();
      }
      EXPECT_EQ(Faults::live, 0) << where;
      if (error == VK_ERROR_DEVICE_LOST && !result) { EXPECT_EQ(Faults::calls_after_loss, 0) << where; }
    }
  }
  std::filesystem::remove_all(folder_);
}

// Whatever a run was refused, the next one of the same program has it all.
TEST_P(FaultTest, ARunAfterAFailedOneWorks) {
  ASSERT_NO_FATAL_FAILURE(Open({.cache_dir = "", .patch_functions = InstallFaults}));
  auto x = MakeBuffer(Ramp(64)), y = MakeBuffer(Ramp(64, 0, 0));
  std::vector<KernelCode> kernels = {AxpyKernel(device_->profile())};
  for (VkResult error : {VK_ERROR_OUT_OF_DEVICE_MEMORY, VK_ERROR_OUT_OF_HOST_MEMORY}) {
    for (int at = 0;; ++at) {
      auto program = Program::Create(device_, {ProgramBuffer::Fixed(x), ProgramBuffer::Slot(0, 256)},
                                     MakePipelines(kernels), {Axpy(0, 0, 1, 64, 2)});
      ASSERT_OK(program);
      const BufferBinding slot[] = {{y.get()}};
      Faults::Reset(at, error);
      auto failed = (*program)->Run(slot);
      const bool hit = Faults::hit;
      Faults::fail_at = -1;
      if (!hit) {
        EXPECT_GT(at, 2);
        break;
      }
      const std::string where = Format("after call {} ({}) failed", at, Faults::name.load());
      if (!failed) { EXPECT_EQ(failed.error().code(), StatusCode::kResourceExhausted) << where; }
      auto again = (*program)->Run(slot);
      ASSERT_TRUE(again) << where << ": " << again.error().ToString();
      EXPECT_EQ(Read(*y), Ramp(64, 0, 3)) << where;
    }
  }
}

TEST_P(FaultTest, LossIsStickyAndNamesTheKernels) {
  Faults::Reset(-1, VK_ERROR_DEVICE_LOST);
  ASSERT_NO_FATAL_FAILURE(Open({.cache_dir = "", .patch_functions = InstallFaults}));
  auto x = MakeBuffer(Ramp(64));
  Launch first = Axpy(0, 0, 0, 64, 1), second = first;
  first.name = "fused_tanh.3";
  second.name = "dot.7";
  auto program = Program::Create(device_, {ProgramBuffer::Fixed(x)}, MakePipelines({AxpyKernel(device_->profile())}),
                                 {first, second});
  ASSERT_OK(program);
  ASSERT_OK((*program)->Run({}));
  auto event = (*program)->Submit({});
  ASSERT_OK(event);
  Faults::fail_at = Faults::calls.load();
  auto waited = device_->Wait(*event);
  if (waited) {
    // It was already known to be complete: the next thing asked of the driver fails.
    auto next = (*program)->Run({});
    ASSERT_FALSE(next);
    waited = Failure(next.error());
  }
  EXPECT_EQ(waited.error().code(), StatusCode::kAborted);
  EXPECT_NE(waited.error().message().find("fused_tanh.3, dot.7"), std::string::npos) << waited.error().message();
  Faults::fail_at = -1;
  std::vector<std::byte> bytes(16);
  EXPECT_EQ(device_->Download(*x, 0, bytes).error().code(), StatusCode::kAborted);
  EXPECT_EQ(device_->Upload(*x, 0, bytes).error().code(), StatusCode::kAborted);
  EXPECT_EQ(device_->Allocate(16, MemoryKind::kDevice).error().code(), StatusCode::kAborted);
  EXPECT_EQ((*program)->Run({}).error().code(), StatusCode::kAborted);
  EXPECT_EQ((*program)->Profile({}).error().code(), StatusCode::kAborted);
  EXPECT_EQ(device_->IsComplete(*event).error().code(), StatusCode::kAborted);
  EXPECT_EQ(device_->Wait(*event).error().message(), waited.error().message()) << "the same report every time";
  KernelCode kernel = SpinKernel(device_->profile());
  EXPECT_EQ(device_->pipelines().Create(std::span(&kernel, 1)).error().code(), StatusCode::kAborted);
  EXPECT_EQ(Faults::calls_after_loss, 0);
  program->reset();
  x.reset();
  device_.reset();
  EXPECT_EQ(Faults::calls_after_loss, 0);
  // A new device on the same hardware works.
  ASSERT_NO_FATAL_FAILURE(Open());
  EXPECT_EQ(Read(*MakeBuffer(Ramp(8))), Ramp(8));
}

}  // namespace
}  // namespace krafla::vk
