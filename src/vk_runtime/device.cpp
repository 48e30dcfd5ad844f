// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/device.h"

#include <algorithm>
#include <cstring>

#include "vk_runtime/buffer_pool.h"
#include "vk_runtime/pipeline.h"
#include "vk_runtime/transfer.h"
#include "vk_runtime/vk_status.h"
#include "vk_runtime/vma.h"

namespace krafla::vk {
namespace {

// What hands memory to other devices (external_memory.cpp).
constexpr const char* kSharingExtensions[] = {"VK_KHR_external_memory_fd", "VK_EXT_external_memory_dma_buf"};

// What the profile says, as feature structs and extensions.
void Enable(const DeviceProfile& profile, const PhysicalDevice& physical, FeatureChain& chain,
            std::vector<const char*>& extensions) {
  const DeviceFeatures& f = profile.features;
  chain.core.features.shaderInt16 = f.int16;
  chain.core.features.shaderInt64 = f.int64;
  chain.core.features.shaderFloat64 = f.float64;
  chain.float16_int8.shaderInt8 = f.int8;
  chain.float16_int8.shaderFloat16 = f.float16;
  chain.storage8.storageBuffer8BitAccess = f.storage8;
  chain.storage16.storageBuffer16BitAccess = f.storage16;
  chain.bfloat16.shaderBFloat16Type = f.bfloat16;
  chain.bfloat16.shaderBFloat16DotProduct = f.bfloat16_dot;
  chain.bfloat16.shaderBFloat16CooperativeMatrix = f.bfloat16_cooperative_matrix;
  chain.float8.shaderFloat8 = f.float8;
  chain.float8.shaderFloat8CooperativeMatrix = f.float8_cooperative_matrix;
  chain.bda.bufferDeviceAddress = f.buffer_device_address;
  chain.timeline.timelineSemaphore = f.timeline_semaphore;
  chain.sync2.synchronization2 = f.synchronization2;
  chain.memory_model.vulkanMemoryModel = f.vulkan_memory_model;
  chain.memory_model.vulkanMemoryModelDeviceScope = f.vulkan_memory_model && f.vulkan_memory_model_device_scope;
  chain.scalar_layout.scalarBlockLayout = f.scalar_block_layout;
  chain.variable_pointers.variablePointersStorageBuffer = f.variable_pointers_storage_buffer;
  chain.variable_pointers.variablePointers = f.variable_pointers_storage_buffer && f.variable_pointers;
  chain.workgroup_layout.workgroupMemoryExplicitLayout = f.workgroup_memory_explicit_layout;
  chain.zero_workgroup.shaderZeroInitializeWorkgroupMemory = f.zero_initialize_workgroup_memory;
  chain.maintenance4.maintenance4 = f.maintenance4;
  chain.subgroup_size.subgroupSizeControl = f.subgroup_size_control;
  chain.subgroup_size.computeFullSubgroups = f.compute_full_subgroups;
  chain.subgroup_types.shaderSubgroupExtendedTypes = f.subgroup_extended_types;
  chain.uniform_flow.shaderSubgroupUniformControlFlow = f.subgroup_uniform_control_flow;
  chain.reconvergence.shaderMaximalReconvergence = f.maximal_reconvergence;
  chain.rotate.shaderSubgroupRotate = profile.subgroup.rotate;
  chain.float_controls2.shaderFloatControls2 = f.float_controls2;
  chain.cooperative.cooperativeMatrix = f.cooperative_matrix;
  chain.cooperative2.cooperativeMatrixWorkgroupScope = f.matrix_workgroup_scope;
  chain.cooperative2.cooperativeMatrixFlexibleDimensions = f.matrix_flexible_dimensions;
  chain.cooperative2.cooperativeMatrixPerElementOperations = f.matrix_per_element_operations;
  chain.cooperative2.cooperativeMatrixTensorAddressing = f.matrix_tensor_addressing;
  chain.dot.shaderIntegerDotProduct = f.integer_dot_product;
  chain.atomic_int64.shaderBufferInt64Atomics = f.atomic_int64;
  chain.atomic_float.shaderBufferFloat32AtomicAdd = f.atomic_float32_add_buffer;
  chain.atomic_float.shaderBufferFloat32Atomics = f.atomic_float32_add_buffer;
  chain.atomic_float.shaderSharedFloat32AtomicAdd = f.atomic_float32_add_shared;
  chain.atomic_float.shaderSharedFloat32Atomics = f.atomic_float32_add_shared;
  chain.atomic_float.shaderBufferFloat64AtomicAdd = f.atomic_float64_add_buffer;
  chain.atomic_float.shaderBufferFloat64Atomics = f.atomic_float64_add_buffer;
  chain.atomic_float2.shaderBufferFloat16AtomicAdd = f.atomic_float16_add_buffer;
  chain.atomic_float2.shaderBufferFloat16Atomics = f.atomic_float16_add_buffer;
  chain.fault.deviceFault = f.device_fault;
  chain.conditional.conditionalRendering = f.conditional_rendering;
  chain.LinkUsed(physical.api_version, extensions);
  // VK_EXT_shader_atomic_float2 depends on VK_EXT_shader_atomic_float.
  auto named = [&](const char* name) {
    return std::ranges::any_of(extensions, [&](const char* e) { return std::strcmp(e, name) == 0; });
  };
  if (named("VK_EXT_shader_atomic_float2") && !named("VK_EXT_shader_atomic_float")) {
    extensions.push_back("VK_EXT_shader_atomic_float");
  }
  auto add = [&](const char* name, uint32_t core_version) {
    if ((core_version == 0 || physical.api_version < core_version) && physical.extensions.contains(name) &&
        !named(name)) {
      extensions.push_back(name);
    }
  };
  // Extensions without a feature bit.
  add("VK_KHR_shader_float_controls", VK_API_VERSION_1_2);
  add("VK_KHR_spirv_1_4", VK_API_VERSION_1_2);
  add("VK_EXT_pipeline_creation_feedback", VK_API_VERSION_1_3);
  add("VK_KHR_portability_subset", 0);  // to be enabled wherever it is listed
  if (f.external_memory_host) add("VK_EXT_external_memory_host", 0);
  for (const char* name : kSharingExtensions) add(name, 0);
  if (f.memory_budget) add("VK_EXT_memory_budget", 0);
}

}  // namespace

void Abandon(std::shared_ptr<void> object) {
  static std::mutex mutex;
  static auto* abandoned = new std::vector<std::shared_ptr<void>>();
  std::lock_guard lock(mutex);
  abandoned->push_back(std::move(object));
}

Result<std::shared_ptr<Device>> Device::Create(std::shared_ptr<Instance> instance, const PhysicalDevice& physical,
                                               const DeviceProfile& profile, DeviceOptions options) {
  std::shared_ptr<Device> device(new Device());
  KRAFLA_TRY(device->Init(std::move(instance), physical, profile, std::move(options)));
  return device;
}

Result<> Device::CreateHandle(const PhysicalDevice& physical) {
  FeatureChain chain;
  std::vector<const char*> extensions;
  Enable(profile_, physical, chain, extensions);
  constexpr float kPriorities[] = {1, 1};
  std::vector<VkDeviceQueueCreateInfo> queues(
      1, Struct<VkDeviceQueueCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO));
  queues[0].queueFamilyIndex = queue_family();
  queues[0].queueCount = 1;
  queues[0].pQueuePriorities = kPriorities;
  if (side_family() != queue_family()) {
    queues.push_back(queues[0]);
    queues[1].queueFamilyIndex = side_family();
  } else if (HasSideQueue(physical)) {
    queues[0].queueCount = 2;
  }
  auto info = Struct<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO);
  info.pNext = &chain.core;
  info.queueCreateInfoCount = static_cast<uint32_t>(queues.size());
  info.pQueueCreateInfos = queues.data();
  info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  for (const char* name : kSharingExtensions)
    if (physical.extensions.contains(name)) extensions_.insert(name);
  VkResult r = VK_SUCCESS;
  {
    const std::lock_guard lock(LoaderMutex());
    r = instance_->vk().vkCreateDevice(physical_, &info, nullptr, &handle_);
  }
  if (r != VK_SUCCESS) {
    handle_ = VK_NULL_HANDLE;
    return VulkanError(r, Format("create a device on {}", profile_.name));
  }
  return {};
}

// The two meet by timeline semaphores. What the validation layer watches is on one queue (Queue::SubmitBatch).
bool Device::HasSideQueue(const PhysicalDevice& physical) const {
  return physical.side_queue && profile_.features.timeline_semaphore && instance_->validation() != Validation::kShaders;
}

void Device::ShareBetweenQueues(VkBufferCreateInfo& info) const {
  if (side_family() == queue_family()) return;
  info.sharingMode = VK_SHARING_MODE_CONCURRENT;
  info.queueFamilyIndexCount = static_cast<uint32_t>(families_.size());
  info.pQueueFamilyIndices = families_.data();
}

Result<> Device::Init(std::shared_ptr<Instance> instance, const PhysicalDevice& physical, const DeviceProfile& profile,
                      DeviceOptions options) {
  instance_ = std::move(instance);
  profile_ = profile;
  options_ = std::move(options);
  physical_ = physical.handle;
  families_.fill(physical.compute_queue_family);
  if (HasSideQueue(physical)) families_[1] = physical.side_queue->family;

  VkQueue queue = VK_NULL_HANDLE;
  QueueLock lock;
  if (const VulkanDevice* app = instance_->app()) {
    handle_ = app->device;
    queue = app->queue;
    lock = {app->lock_queue, app->unlock_queue};
  } else {
    KRAFLA_TRY(CreateHandle(physical));
  }
  LoadDeviceTable(functions_, handle_, instance_->vk().vkGetDeviceProcAddr);
  if (options_.patch_functions) options_.patch_functions(functions_);
  if (queue == VK_NULL_HANDLE) {
    const uint32_t index = instance_->app() != nullptr ? instance_->app()->queue_index : 0;
    functions_.vkGetDeviceQueue(handle_, queue_family(), index, &queue);
  }
  queue_ = std::make_unique<Queue>(functions_, handle_, queue, std::move(lock));
  VkResult r = queue_->Init(profile_.features.timeline_semaphore, instance_->validation() == Validation::kShaders);
  if (r != VK_SUCCESS) return Fail(r, "create a timeline semaphore");
  if (HasSideQueue(physical)) {
    functions_.vkGetDeviceQueue(handle_, side_family(), physical.side_queue->index, &queue);
    side_ = std::make_unique<Queue>(functions_, handle_, queue);
    r = side_->Init(true, false);
    if (r != VK_SUCCESS) return Fail(r, "create a timeline semaphore");
  }
  KRAFLA_TRY(InitMemory(physical));
  bool feedback =
      HasFeature(physical.extensions, physical.api_version, "VK_EXT_pipeline_creation_feedback", VK_API_VERSION_1_3);
  pipelines_ = std::make_unique<PipelineStore>(*this, feedback);
  transfer_ = std::make_unique<Transfer>(*this);
  pool_ = std::make_unique<BufferPool>(*this);
  return {};
}

Device::~Device() {
  if (handle_ == VK_NULL_HANDLE) return;
  // What may still run must not be freed under it: then all is left to the process's end.
  if (queue_ != nullptr && (!Settle(LastSubmitted()) || !Settle(LastBeside()))) {
    Abandon(std::shared_ptr<PipelineStore>(std::move(pipelines_)));
    Abandon(std::shared_ptr<Transfer>(std::move(transfer_)));
    Abandon(std::shared_ptr<BufferPool>(std::move(pool_)));
    for (Retired& r : retired_) Abandon(std::const_pointer_cast<void>(std::move(r.pages)));
    Abandon(std::shared_ptr<Queue>(std::move(queue_)));
    Abandon(std::shared_ptr<Queue>(std::move(side_)));
    return;
  }
  pool_.reset();
  transfer_.reset();
  pipelines_.reset();
  for (const Retired& r : retired_) Destroy(r);
  if (allocator_ != nullptr) vmaDestroyAllocator(allocator_);
  queue_.reset();
  side_.reset();
  if (instance_->app() != nullptr) return;
  const std::lock_guard lock(LoaderMutex());
  functions_.vkDestroyDevice(handle_, nullptr);
}

Result<> Device::Alive() const {
  if (!is_lost_.load(std::memory_order_acquire)) [[likely]]
    return {};
  std::lock_guard lock(mutex_);
  return Failure(*lost_);
}

Failure Device::Fail(VkResult result, std::string_view what) {
  if (result != VK_ERROR_DEVICE_LOST) return VulkanError(result, what);
  std::lock_guard lock(mutex_);
  if (!lost_) {
    lost_ = Status(StatusCode::kAborted,
                   Format("The device {} was lost; the driver said so when asked to {}. {}{} Its results and "
                          "buffers are gone: compile again what is to run on it, and give it its arrays again.",
                          profile_.name, what, LastKernels(), FaultDescription()));
    is_lost_.store(true, std::memory_order_release);
  }
  return Failure(*lost_);
}

std::string Device::LastKernels() {
  std::vector<const Recent*> unfinished;
  for (const Recent& r : recent_) {
    if (r.names != nullptr && r.number > queue_->known_complete()) unfinished.push_back(&r);
  }
  std::ranges::sort(unfinished, {}, &Recent::number);
  std::vector<std::string_view> names;
  for (const Recent* r : unfinished) names.insert(names.end(), r->names->begin(), r->names->end());
  if (names.empty()) return "No kernel was running.";
  std::size_t first = names.size() > recent_.size() ? names.size() - recent_.size() : 0;
  std::string out;
  for (std::size_t i = first; i < names.size(); ++i) out += (out.empty() ? "" : ", ") + std::string(names[i]);
  return Format("The last kernels given to it, of {} not known to be finished, were: {}.", names.size(), out);
}

std::string Device::FaultDescription() {
  if (!profile_.features.device_fault || functions_.vkGetDeviceFaultInfoEXT == nullptr) return "";
  auto counts = Struct<VkDeviceFaultCountsEXT>(VK_STRUCTURE_TYPE_DEVICE_FAULT_COUNTS_EXT);
  auto info = Struct<VkDeviceFaultInfoEXT>(VK_STRUCTURE_TYPE_DEVICE_FAULT_INFO_EXT);
  if (functions_.vkGetDeviceFaultInfoEXT(handle_, &counts, nullptr) < 0) return "";
  counts.addressInfoCount = counts.vendorInfoCount = 0;  // the description alone
  counts.vendorBinarySize = 0;
  if (functions_.vkGetDeviceFaultInfoEXT(handle_, &counts, &info) < 0) return "";
  info.description[VK_MAX_DESCRIPTION_SIZE - 1] = 0;
  return info.description[0] == 0 ? "" : Format(" The driver's description: {}.", info.description);
}

Result<Event> Device::Submit(VkCommandBuffer commands, const KernelNames& names) {
  KRAFLA_TRY(Alive());
  Event event;
  VkResult r = queue_->Submit(commands, event.number);
  if (r == VK_SUCCESS || r == VK_ERROR_DEVICE_LOST) {
    std::lock_guard lock(mutex_);
    uint64_t number = r == VK_SUCCESS ? event.number : queue_->last_submitted() + 1;
    recent_[number % recent_.size()] = {number, names};
  }
  if (r != VK_SUCCESS) return Fail(r, "submit work");
  return event;
}

Result<Event> Device::SubmitBeside(VkCommandBuffer commands, Event after) {
  KRAFLA_TRY(Alive());
  Event event{0, true};
  const SemaphoreValue wait = queue_->SignalOf(after.number);
  if (VkResult r = side_->Submit(commands, event.number, &wait); r != VK_SUCCESS)
    return Fail(r, "submit work to the second queue");
  return event;
}

Result<Event> Device::Follow(Event beside) {
  KRAFLA_TRY(Alive());
  Event event;
  const SemaphoreValue wait = side_->SignalOf(beside.number);
  if (VkResult r = queue_->Submit(VK_NULL_HANDLE, event.number, &wait); r != VK_SUCCESS)
    return Fail(r, "wait for the second queue");
  return event;
}

Result<> Device::WaitForSemaphores(std::span<const SemaphoreValue> waits) {
  if (waits.empty()) return {};
  KRAFLA_TRY(Alive());
  if (VkResult r = queue_->SubmitSemaphores(waits, {}); r != VK_SUCCESS) return Fail(r, "wait for semaphores");
  return {};
}

Result<> Device::SignalSemaphores(std::span<const SemaphoreValue> signals) {
  if (signals.empty()) return {};
  KRAFLA_TRY(Alive());
  if (VkResult r = queue_->SubmitSemaphores({}, signals); r != VK_SUCCESS) return Fail(r, "signal semaphores");
  return {};
}

Result<> Device::Wait(Event event, const RunLimit& limit) {
  KRAFLA_TRY(Alive());
  if (event.number == 0) return {};
  Queue& queue = QueueOf(event);
  if (event.number <= queue.known_complete()) return {};
  const Clock::time_point end = Clock::now() + options_.wait_limit;
  VkResult r = VK_TIMEOUT;
  while (r == VK_TIMEOUT) {
    r = queue.Wait(event.number, limit.NextLook(end));
    if (r != VK_TIMEOUT) break;
    KRAFLA_TRY(limit.Check());
    if (Clock::now() >= end) break;
  }
  if (r == VK_TIMEOUT) {
    return DeadlineExceeded("{} did not finish its work within {} ms; it goes on. The limit of a wait can be raised.",
                            profile_.name, options_.wait_limit.count());
  }
  if (r != VK_SUCCESS) return Fail(r, "wait for work");
  // Another thread may have met a loss: what a lost device computed is not to be used.
  KRAFLA_TRY(Alive());
  Collect();
  return {};
}

Result<uint64_t> Device::Completed() {
  KRAFLA_TRY(Alive());
  uint64_t number = 0;
  VkResult r = queue_->Completed(number);
  if (r != VK_SUCCESS) return Fail(r, "ask how far the queue is");
  return number;
}

Result<bool> Device::IsComplete(Event event) {
  KRAFLA_TRY(Alive());
  if (event.number == 0) return true;
  Queue& queue = QueueOf(event);
  if (event.number <= queue.known_complete()) return true;
  uint64_t number = 0;
  if (VkResult r = queue.Completed(number); r != VK_SUCCESS) return Fail(r, "ask how far a queue is");
  return event.number <= number;
}

bool Device::Settle(Event event) noexcept {
  if (event.number == 0 || event.number <= QueueOf(event).known_complete()) return true;
  for (int attempt = 0; attempt < 3; ++attempt) {
    // A lost device runs nothing any more, and its objects may be destroyed (Vulkan specification, "Lost Device").
    if (is_lost_.load(std::memory_order_acquire)) return true;
    // Of an application's device only our own work: to wait for all would need all its queues.
    VkResult r = attempt < 2 || instance_->app() != nullptr
                     ? QueueOf(event).Wait(event.number, Clock::now() + options_.wait_limit)
                     : functions_.vkDeviceWaitIdle(handle_);
    if (r == VK_SUCCESS || r == VK_ERROR_DEVICE_LOST) return true;
    if (r == VK_TIMEOUT) return false;
  }
  return false;
}

}  // namespace krafla::vk
