// SPDX-License-Identifier: Apache-2.0
// Device's memory: buffers, host pages, and the two ways to move bytes.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/guards.h"
#include "base/system.h"
#include "device/workarounds.h"
#include "krafla/aligned_bytes.h"
#include "vk_runtime/buffer_pool.h"
#include "vk_runtime/device.h"
#include "vk_runtime/transfer.h"
#include "vk_runtime/vk_status.h"
#include "vk_runtime/vma.h"

namespace krafla::vk {
namespace {

constexpr uint64_t kCapacityGranule = 16;  // capacities are multiples of it

// Before memory is given back, and after it was got. A driver may give one device what another one had; the thread
// sanitizer, which does not see into it, takes what both threads write there for a race.
void PassMemoryOn() {
#ifdef __SANITIZE_THREAD__
  static std::atomic<int> passed{0};
  passed.fetch_add(1, std::memory_order_acq_rel);
#endif
}

VmaVulkanFunctions FunctionsFor(const InstanceFunctions& i, const VolkDeviceTable& d) {
  VmaVulkanFunctions f = {};
  f.vkGetPhysicalDeviceProperties = i.vkGetPhysicalDeviceProperties;
  f.vkGetPhysicalDeviceMemoryProperties = i.vkGetPhysicalDeviceMemoryProperties;
  f.vkGetPhysicalDeviceMemoryProperties2KHR = i.vkGetPhysicalDeviceMemoryProperties2;
  f.vkAllocateMemory = d.vkAllocateMemory;
  f.vkFreeMemory = d.vkFreeMemory;
  f.vkMapMemory = d.vkMapMemory;
  f.vkUnmapMemory = d.vkUnmapMemory;
  f.vkFlushMappedMemoryRanges = d.vkFlushMappedMemoryRanges;
  f.vkInvalidateMappedMemoryRanges = d.vkInvalidateMappedMemoryRanges;
  f.vkBindBufferMemory = d.vkBindBufferMemory;
  f.vkBindImageMemory = d.vkBindImageMemory;
  f.vkGetBufferMemoryRequirements = d.vkGetBufferMemoryRequirements;
  f.vkGetImageMemoryRequirements = d.vkGetImageMemoryRequirements;
  f.vkCreateBuffer = d.vkCreateBuffer;
  f.vkDestroyBuffer = d.vkDestroyBuffer;
  f.vkCreateImage = d.vkCreateImage;
  f.vkDestroyImage = d.vkDestroyImage;
  f.vkCmdCopyBuffer = d.vkCmdCopyBuffer;
  f.vkGetBufferMemoryRequirements2KHR = d.vkGetBufferMemoryRequirements2;
  f.vkGetImageMemoryRequirements2KHR = d.vkGetImageMemoryRequirements2;
  f.vkBindBufferMemory2KHR = d.vkBindBufferMemory2;
  f.vkBindImageMemory2KHR = d.vkBindImageMemory2;
  return f;
}

VkBufferCreateInfo BufferInfo(uint64_t bytes, VkBufferUsageFlags usage) {
  auto info = Struct<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
  info.size = bytes;
  info.usage = usage;
  return info;
}

Result<> CheckRange(const Buffer& buffer, uint64_t offset, uint64_t bytes) {
  if (bytes <= buffer.size() && offset <= buffer.size() - bytes) return {};
  return InvalidArgument("Bytes {} to {} are outside a buffer of {} bytes.", offset, offset + bytes, buffer.size());
}

}  // namespace

Buffer::~Buffer() {
  if (handle_ != VK_NULL_HANDLE) device_->Retire(*this);
}

Result<> Device::InitMemory(const PhysicalDevice& physical) {
  VmaVulkanFunctions functions = FunctionsFor(instance_->vk(), functions_);
  VmaAllocatorCreateInfo info = {};
  info.physicalDevice = physical_;
  info.device = handle_;
  info.instance = instance_->handle();
  info.vulkanApiVersion = VK_API_VERSION_1_1;
  info.pVulkanFunctions = &functions;
  if (uses_addresses()) info.flags |= VMA_ALLOCATOR_CREATE_BUFFER_DEVICE_ADDRESS_BIT;
  if (profile_.features.memory_budget && physical.extensions.contains("VK_EXT_memory_budget")) {
    info.flags |= VMA_ALLOCATOR_CREATE_EXT_MEMORY_BUDGET_BIT;
  }
  VkResult r = vmaCreateAllocator(&info, &allocator_);
  if (r != VK_SUCCESS) {
    allocator_ = nullptr;
    return Fail(r, "create the memory allocator");
  }
  return {};
}

std::string Device::FreeMemory() {
  VmaBudget budgets[VK_MAX_MEMORY_HEAPS];
  vmaGetHeapBudgets(allocator_, budgets);
  uint64_t budget = 0, usage = 0;
  for (std::size_t i = 0; i < profile_.heaps.size() && i < VK_MAX_MEMORY_HEAPS; ++i) {
    if (!profile_.heaps[i].device_local) continue;
    budget += budgets[i].budget;
    usage += budgets[i].usage;
  }
  return Format("about {} of {} bytes are free on {}, and krafla holds {}", budget > usage ? budget - usage : 0, budget,
                profile_.name, allocated_bytes());
}

Result<> Device::CheckRoom(uint64_t bytes, std::string_view what) {
  uint64_t most = std::min(profile_.limits.max_buffer_size, profile_.limits.max_allocation_size);
  if (bytes > most) {
    return ResourceExhausted("{} of {} bytes was wanted; {} allows at most {} bytes in one buffer.", what, bytes,
                             profile_.name, most);
  }
  if (WorkaroundsFor(profile_).overcommits_memory && bytes >= (uint64_t{1} << 20)) {
    VmaBudget budgets[VK_MAX_MEMORY_HEAPS];
    vmaGetHeapBudgets(allocator_, budgets);
    if (bytes > budgets[0].budget || budgets[0].usage > budgets[0].budget - bytes) {
      return ResourceExhausted("{} of {} bytes was wanted; {}.", what, bytes, FreeMemory());
    }
  }
  return {};
}

Result<std::unique_ptr<Buffer>> Device::AllocateOwned(uint64_t size, MemoryKind kind, std::string_view what) {
  auto made = TryAllocate(size, kind, what);
  if (made || made.error().code() != StatusCode::kResourceExhausted || pool_ == nullptr || !pool_->Clear()) return made;
  // What was kept goes back to the driver once nothing uses it.
  KRAFLA_TRY(Wait(LastSubmitted()));
  return TryAllocate(size, kind, what);
}

Result<std::shared_ptr<Buffer>> Device::AllocateRecycled(uint64_t size, bool idle, std::string_view what) {
  // A kept buffer may be larger, and ends elsewhere.
  if (guards_buffers()) return Allocate(size, MemoryKind::kDevice, what);
  KRAFLA_ASSIGN(std::unique_ptr<Buffer> buffer, pool_->Take(size, idle, what));
  return std::shared_ptr<Buffer>(
      buffer.release(), [device = shared_from_this()](Buffer* b) { device->pool_->Give(std::unique_ptr<Buffer>(b)); });
}

Result<std::unique_ptr<Buffer>> Device::TryAllocate(uint64_t size, MemoryKind kind, std::string_view what) {
  KRAFLA_TRY(Alive());
  Collect();
  if (size > UINT64_MAX - kCapacityGranule) return ResourceExhausted("{} of {} bytes was wanted.", what, size);
  uint64_t capacity = std::max(kCapacityGranule, (size + kCapacityGranule - 1) / kCapacityGranule * kCapacityGranule);
  KRAFLA_TRY(CheckRoom(capacity, what));
  if (guards_buffers()) return AllocateGuarded(size, capacity, kind);
  VkBufferCreateInfo info = BufferInfo(capacity, BufferUsage());
  ShareBetweenQueues(info);
  VmaAllocationCreateInfo wanted = {};
  switch (kind) {
    case MemoryKind::kPredicate: info.usage |= VK_BUFFER_USAGE_CONDITIONAL_RENDERING_BIT_EXT; [[fallthrough]];
    case MemoryKind::kDevice:
      wanted.usage = VMA_MEMORY_USAGE_AUTO_PREFER_DEVICE;
      if (profile_.unified_memory) {
        wanted.flags = VMA_ALLOCATION_CREATE_HOST_ACCESS_RANDOM_BIT | VMA_ALLOCATION_CREATE_MAPPED_BIT;
        wanted.requiredFlags = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
      }
      break;
    case MemoryKind::kUpload:
      wanted.usage = VMA_MEMORY_USAGE_AUTO;
      wanted.flags = VMA_ALLOCATION_CREATE_HOST_ACCESS_SEQUENTIAL_WRITE_BIT | VMA_ALLOCATION_CREATE_MAPPED_BIT;
      wanted.requiredFlags = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
      break;
    case MemoryKind::kReadback:
      wanted.usage = VMA_MEMORY_USAGE_AUTO_PREFER_HOST;
      wanted.flags = VMA_ALLOCATION_CREATE_HOST_ACCESS_RANDOM_BIT | VMA_ALLOCATION_CREATE_MAPPED_BIT;
      break;
  }
  std::unique_ptr<Buffer> buffer(new Buffer());
  VmaAllocationInfo got = {};
  VkResult r = vmaCreateBuffer(allocator_, &info, &wanted, &buffer->handle_, &buffer->allocation_, &got);
  if (r != VK_SUCCESS) {
    buffer->handle_ = VK_NULL_HANDLE;
    if (ResultCode(r) != StatusCode::kResourceExhausted) return Fail(r, Format("allocate {}", what));
    return ResourceExhausted("{} of {} bytes could not be allocated ({}): {}.", what, size, ResultName(r),
                             FreeMemory());
  }
  PassMemoryOn();
  buffer->device_ = this;
  buffer->size_ = size;
  buffer->capacity_ = capacity;
  buffer->kind_ = kind;
  buffer->id_ = next_id_.fetch_add(1, std::memory_order_relaxed);
  buffer->host_ = static_cast<std::byte*>(got.pMappedData);
  VkMemoryPropertyFlags flags = 0;
  vmaGetAllocationMemoryProperties(allocator_, buffer->allocation_, &flags);
  buffer->host_cached_ = buffer->host_ != nullptr && (flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) != 0;
  if (uses_addresses()) buffer->address_ = AddressOf(buffer->handle_);
  uint64_t total = allocated_.fetch_add(capacity, std::memory_order_relaxed) + capacity;
  uint64_t peak = peak_.load(std::memory_order_relaxed);
  while (peak < total && !peak_.compare_exchange_weak(peak, total, std::memory_order_relaxed)) {}
  return buffer;
}

Result<std::shared_ptr<Buffer>> Device::Allocate(uint64_t size, MemoryKind kind, std::string_view what) {
  KRAFLA_ASSIGN(std::shared_ptr<Buffer> buffer, AllocateOwned(size, kind, what));
  buffer->keep_ = shared_from_this();
  return buffer;
}

// Shaders of such a device reach memory as the host does: pages that the host may not touch stop them, too.
bool Device::guards_buffers() const {
  return GuardsInUse() != Guards::kNone && profile_.is_cpu && profile_.features.external_memory_host;
}

Result<std::unique_ptr<Buffer>> Device::AllocateGuarded(uint64_t size, uint64_t capacity, MemoryKind kind) {
  const uint64_t page = std::max<uint64_t>(profile_.limits.host_import_alignment, os::PageBytes());
  const uint64_t bytes = (capacity + page - 1) / page * page;
  auto pages = std::make_shared<AlignedBytes>(static_cast<std::size_t>(bytes), false);
  KRAFLA_ASSIGN(std::unique_ptr<Buffer> buffer,
                Import({pages->data(), bytes, pages}, capacity, GuardsInUse() == Guards::kBehind,
                       kind == MemoryKind::kPredicate ? BufferUsage() | VK_BUFFER_USAGE_CONDITIONAL_RENDERING_BIT_EXT
                                                      : BufferUsage()));
  buffer->size_ = size;
  buffer->kind_ = kind;
  return buffer;
}

Result<std::shared_ptr<Buffer>> Device::ImportHost(void* data, uint64_t size, std::shared_ptr<const void> owner) {
  KRAFLA_ASSIGN(std::shared_ptr<Buffer> buffer, Import({data, size, std::move(owner)}, size, false, BufferUsage()));
  buffer->keep_ = shared_from_this();
  return buffer;
}

Result<std::unique_ptr<Buffer>> Device::Import(ImportedPages pages, uint64_t capacity, bool at_end,
                                               VkBufferUsageFlags usage) {
  auto& [data, size, owner] = pages;
  KRAFLA_TRY(Alive());
  uint32_t alignment = profile_.limits.host_import_alignment;
  if (!profile_.features.external_memory_host || alignment == 0) {
    return Unimplemented("{} cannot import host memory.", profile_.name);
  }
  if (size == 0 || size % alignment != 0 || reinterpret_cast<uintptr_t>(data) % alignment != 0) {
    return InvalidArgument("Host memory at {} of {} bytes cannot be imported: both must be multiples of {}.", data,
                           size, alignment);
  }
  constexpr auto kHandle = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
  auto host = Struct<VkMemoryHostPointerPropertiesEXT>(VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT);
  VkResult r = functions_.vkGetMemoryHostPointerPropertiesEXT(handle_, kHandle, data, &host);
  if (r != VK_SUCCESS) return Fail(r, "look at host memory to import");

  std::unique_ptr<Buffer> buffer(new Buffer());
  VkBufferCreateInfo info = BufferInfo(capacity, usage);
  ShareBetweenQueues(info);
  auto external = Struct<VkExternalMemoryBufferCreateInfo>(VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO);
  external.handleTypes = kHandle;
  info.pNext = &external;
  VkBuffer handle = VK_NULL_HANDLE;
  r = functions_.vkCreateBuffer(handle_, &info, nullptr, &handle);
  if (r != VK_SUCCESS) return Fail(r, "create a buffer for host memory");
  buffer->handle_ = handle;
  buffer->device_ = this;
  VkMemoryRequirements needs;
  functions_.vkGetBufferMemoryRequirements(handle_, handle, &needs);
  VkPhysicalDeviceMemoryProperties memory;
  instance_->vk().vkGetPhysicalDeviceMemoryProperties(physical_, &memory);
  uint32_t types = needs.memoryTypeBits & host.memoryTypeBits, type = 0;
  while (type < memory.memoryTypeCount && ((types >> type & 1) == 0 || (memory.memoryTypes[type].propertyFlags &
                                                                        VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) == 0)) {
    ++type;
  }
  if (type == memory.memoryTypeCount || needs.size > size) {
    return Unimplemented("{} has no coherent memory type for this host memory.", profile_.name);
  }
  const uint64_t offset = at_end ? (size - needs.size) / needs.alignment * needs.alignment : 0;
  auto import = Struct<VkImportMemoryHostPointerInfoEXT>(VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT);
  import.handleType = kHandle;
  import.pHostPointer = data;
  auto flags = Struct<VkMemoryAllocateFlagsInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO);
  flags.pNext = &import;
  flags.flags = uses_addresses() ? VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT : 0;
  auto allocate = Struct<VkMemoryAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO);
  allocate.pNext = &flags;
  allocate.allocationSize = size;
  allocate.memoryTypeIndex = type;
  VkDeviceMemory imported = VK_NULL_HANDLE;
  r = functions_.vkAllocateMemory(handle_, &allocate, nullptr, &imported);
  if (r != VK_SUCCESS) return Fail(r, Format("import {} bytes of host memory", size));
  buffer->imported_ = imported;
  r = functions_.vkBindBufferMemory(handle_, handle, imported, offset);
  if (r != VK_SUCCESS) return Fail(r, "bind host memory to a buffer");
  buffer->pages_ = std::move(owner);
  buffer->size_ = buffer->capacity_ = capacity;
  buffer->id_ = next_id_.fetch_add(1, std::memory_order_relaxed);
  buffer->host_ = static_cast<std::byte*>(data) + offset;
  buffer->host_cached_ = true;
  if (uses_addresses()) buffer->address_ = AddressOf(handle);
  return buffer;
}

VkBufferUsageFlags Device::BufferUsage() const {
  return VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
         (uses_addresses() ? VkBufferUsageFlags{VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT} : 0);
}

uint64_t Device::AddressOf(VkBuffer buffer) const {
  auto info = Struct<VkBufferDeviceAddressInfo>(VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO);
  info.buffer = buffer;
  return functions_.vkGetBufferDeviceAddress != nullptr ? functions_.vkGetBufferDeviceAddress(handle_, &info)
                                                        : functions_.vkGetBufferDeviceAddressKHR(handle_, &info);
}

Result<std::shared_ptr<Buffer>> Device::Borrow(VkBuffer handle, uint64_t size, std::shared_ptr<const void> owner) {
  KRAFLA_TRY(Alive());
  std::shared_ptr<Buffer> buffer(new Buffer());
  buffer->handle_ = handle;
  buffer->device_ = this;
  buffer->keep_ = shared_from_this();
  buffer->pages_ = std::move(owner);
  buffer->is_borrowed_ = true;
  buffer->size_ = buffer->capacity_ = size;
  buffer->id_ = next_id_.fetch_add(1, std::memory_order_relaxed);
  if (uses_addresses()) buffer->address_ = AddressOf(handle);
  return buffer;
}

void Device::Retire(Buffer& buffer) {
  Retired retired = {buffer.handle_,
                     buffer.allocation_,
                     buffer.imported_,
                     buffer.last_use(),
                     buffer.allocation_ != nullptr ? buffer.capacity_ : 0,
                     std::move(buffer.pages_),
                     buffer.is_borrowed_};
  if (retired.last_use <= queue_->known_complete() || is_lost_.load(std::memory_order_acquire)) {
    Destroy(retired);
    return;
  }
  std::lock_guard lock(mutex_);
  retired_.push_back(std::move(retired));
}

void Device::Destroy(const Retired& retired) {
  PassMemoryOn();
  if (retired.allocation != nullptr) {
    vmaDestroyBuffer(allocator_, retired.buffer, retired.allocation);
  } else if (!retired.is_borrowed) {
    functions_.vkDestroyBuffer(handle_, retired.buffer, nullptr);
    if (retired.imported != VK_NULL_HANDLE) functions_.vkFreeMemory(handle_, retired.imported, nullptr);
  }
  allocated_.fetch_sub(retired.bytes, std::memory_order_relaxed);
}

// Frees what was dropped while in use and is not any more.
void Device::Collect() {
  std::vector<std::shared_ptr<const void>> owners;  // let go of without the lock: they may call what they like
  std::lock_guard lock(mutex_);
  if (retired_.empty()) return;
  uint64_t complete = 0;
  if (queue_->Completed(complete) != VK_SUCCESS) return;  // whoever waits next will hear of it
  std::erase_if(retired_, [&](Retired& r) {
    if (r.last_use > complete) return false;
    Destroy(r);
    if (r.pages != nullptr) owners.push_back(std::move(r.pages));
    return true;
  });
}

Result<> Device::Upload(Buffer& to, uint64_t offset, std::span<const std::byte> from) {
  KRAFLA_TRY(Alive());
  KRAFLA_TRY(CheckRange(to, offset, from.size()));
  if (from.empty()) return {};
  if (to.host() == nullptr) return transfer_->Upload(to, offset, from);
  KRAFLA_TRY(WaitFor(to));
  std::memcpy(to.host() + offset, from.data(), from.size());
  if (to.allocation_ == nullptr) return {};
  VkResult r = vmaFlushAllocation(allocator_, to.allocation_, offset, from.size());
  if (r != VK_SUCCESS) return Fail(r, "flush mapped memory");
  return {};
}

Result<> Device::Download(const Buffer& from, uint64_t offset, std::span<std::byte> to) {
  KRAFLA_TRY(Alive());
  KRAFLA_TRY(CheckRange(from, offset, to.size()));
  if (to.empty()) return {};
  if (!from.host_cached()) return transfer_->Download(from, offset, to);
  KRAFLA_TRY(WaitFor(from));
  KRAFLA_TRY(PrepareHostRead(from));
  std::memcpy(to.data(), from.host() + offset, to.size());
  return {};
}

Result<> Device::PrepareHostRead(const Buffer& from) {
  if (from.allocation_ == nullptr) return {};
  VkResult r = vmaInvalidateAllocation(allocator_, from.allocation_, 0, VK_WHOLE_SIZE);
  if (r != VK_SUCCESS) return Fail(r, "read mapped memory");
  return {};
}

Result<uint32_t> Device::DownloadWord(const Buffer& from, uint64_t offset) {
  uint32_t word = 0;
  KRAFLA_TRY(Download(from, offset, std::as_writable_bytes(std::span(&word, 1))));
  return word;
}

}  // namespace krafla::vk
