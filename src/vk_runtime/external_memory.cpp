// SPDX-License-Identifier: Apache-2.0
// Device memory that several logical devices have: exported by one as a file descriptor, imported by the others.
#include "base/system.h"
#include "vk_runtime/device.h"
#include "vk_runtime/vk_status.h"

namespace krafla::vk {
namespace {

VkExternalMemoryHandleTypeFlagBits HandleOf(SharedBy shared) {
  return shared == SharedBy::kDmaBuf ? VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT
                                     : VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
}

}  // namespace

Result<> Device::CheckShares(SharedBy shared) const {
  const bool is_dma = shared == SharedBy::kDmaBuf;
  if (!extensions_.contains("VK_KHR_external_memory_fd"))
    return Unimplemented("{} has no VK_KHR_external_memory_fd.", profile_.name);
  if (is_dma && !extensions_.contains("VK_EXT_external_memory_dma_buf"))
    return Unimplemented("{} has no VK_EXT_external_memory_dma_buf.", profile_.name);
  auto info = Struct<VkPhysicalDeviceExternalBufferInfo>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO);
  info.usage = BufferUsage();
  info.handleType = HandleOf(shared);
  auto out = Struct<VkExternalBufferProperties>(VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES);
  instance_->vk().vkGetPhysicalDeviceExternalBufferProperties(physical_, &info, &out);
  const VkExternalMemoryProperties& p = out.externalMemoryProperties;
  constexpr VkExternalMemoryFeatureFlags kBoth =
      VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT | VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT;
  if ((p.externalMemoryFeatures & kBoth) != kBoth ||
      (p.externalMemoryFeatures & VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT) != 0)
    return Unimplemented("{} neither exports nor imports buffers as {}.", profile_.name,
                         is_dma ? "dma-bufs" : "opaque file descriptors");
  return {};
}

// A buffer of memory that is exported, or imported from `descriptor`, which this takes over.
Result<std::shared_ptr<Buffer>> Device::BindShared(uint64_t size, SharedBy shared, std::optional<int> descriptor) {
  struct Owned {
    std::optional<int> descriptor;
    ~Owned() {
      if (descriptor) os::CloseFile(*descriptor);
    }
  } owned{descriptor};
  KRAFLA_TRY(Alive());
  KRAFLA_TRY(CheckShares(shared));
  std::shared_ptr<Buffer> buffer(new Buffer());
  auto external = Struct<VkExternalMemoryBufferCreateInfo>(VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO);
  external.handleTypes = HandleOf(shared);
  auto info = Struct<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
  info.pNext = &external;
  info.size = size;
  info.usage = BufferUsage();
  ShareBetweenQueues(info);
  VkBuffer handle = VK_NULL_HANDLE;
  VkResult r = functions_.vkCreateBuffer(handle_, &info, nullptr, &handle);
  if (r != VK_SUCCESS) return Fail(r, "create a buffer to share");
  buffer->handle_ = handle;
  buffer->device_ = this;
  buffer->keep_ = shared_from_this();
  VkMemoryRequirements needs;
  functions_.vkGetBufferMemoryRequirements(handle_, handle, &needs);
  uint32_t types = needs.memoryTypeBits;
  if (descriptor && shared == SharedBy::kDmaBuf) {
    auto properties = Struct<VkMemoryFdPropertiesKHR>(VK_STRUCTURE_TYPE_MEMORY_FD_PROPERTIES_KHR);
    r = functions_.vkGetMemoryFdPropertiesKHR(handle_, HandleOf(shared), *descriptor, &properties);
    if (r != VK_SUCCESS) return Fail(r, "look at memory to import");
    types &= properties.memoryTypeBits;
  }
  VkPhysicalDeviceMemoryProperties memory;
  instance_->vk().vkGetPhysicalDeviceMemoryProperties(physical_, &memory);
  // The first one: of one physical device exporter and importer find the same, as the specification demands.
  uint32_t type = 0;
  while (type < memory.memoryTypeCount && ((types >> type & 1) == 0 || (memory.memoryTypes[type].propertyFlags &
                                                                        VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) == 0))
    ++type;
  if (type == memory.memoryTypeCount) return Unimplemented("{} has no memory type to share.", profile_.name);
  auto exported = Struct<VkExportMemoryAllocateInfo>(VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO);
  exported.handleTypes = HandleOf(shared);
  auto imported = Struct<VkImportMemoryFdInfoKHR>(VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR);
  imported.handleType = HandleOf(shared);
  imported.fd = descriptor.value_or(-1);
  auto flags = Struct<VkMemoryAllocateFlagsInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO);
  if (descriptor) flags.pNext = &imported;
  else flags.pNext = &exported;
  flags.flags = uses_addresses() ? VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT : 0;
  auto allocate = Struct<VkMemoryAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO);
  allocate.pNext = &flags;
  allocate.allocationSize = needs.size;
  allocate.memoryTypeIndex = type;
  VkDeviceMemory made = VK_NULL_HANDLE;
  r = functions_.vkAllocateMemory(handle_, &allocate, nullptr, &made);
  if (r != VK_SUCCESS) return Fail(r, Format("allocate {} bytes to share", needs.size));
  owned.descriptor.reset();  // the driver's now
  buffer->imported_ = made;
  r = functions_.vkBindBufferMemory(handle_, handle, made, 0);
  if (r != VK_SUCCESS) return Fail(r, "bind shared memory to a buffer");
  buffer->size_ = buffer->capacity_ = size;
  buffer->id_ = next_id_.fetch_add(1, std::memory_order_relaxed);
  if (uses_addresses()) buffer->address_ = AddressOf(handle);
  return buffer;
}

Result<std::shared_ptr<Buffer>> Device::AllocateShared(uint64_t size, SharedBy shared) {
  return BindShared(size, shared, std::nullopt);
}

Result<std::shared_ptr<Buffer>> Device::ImportShared(const Buffer& from, SharedBy shared) {
  Device& owner = from.device();
  if (shared == SharedBy::kOpaqueFd &&
      (profile_.driver_uuid != owner.profile_.driver_uuid || profile_.device_uuid != owner.profile_.device_uuid))
    return Unimplemented("{} and {} are not one device of one driver.", owner.profile_.name, profile_.name);
  auto info = Struct<VkMemoryGetFdInfoKHR>(VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR);
  info.memory = from.imported_;
  info.handleType = HandleOf(shared);
  int descriptor = -1;
  const VkResult r = owner.functions_.vkGetMemoryFdKHR(owner.handle_, &info, &descriptor);
  if (r != VK_SUCCESS) return owner.Fail(r, "export memory");
  return BindShared(from.size(), shared, descriptor);
}

uint32_t Device::LinkedDevices() const {
  uint32_t count = 0;
  const InstanceFunctions& vk = instance_->vk();
  const std::lock_guard lock(LoaderMutex());
  if (vk.vkEnumeratePhysicalDeviceGroups(instance_->handle(), &count, nullptr) != VK_SUCCESS) return 1;
  std::vector<VkPhysicalDeviceGroupProperties> groups(
      count, Struct<VkPhysicalDeviceGroupProperties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_GROUP_PROPERTIES));
  if (vk.vkEnumeratePhysicalDeviceGroups(instance_->handle(), &count, groups.data()) < 0) return 1;
  for (const VkPhysicalDeviceGroupProperties& g : groups)
    for (uint32_t d = 0; d < g.physicalDeviceCount; ++d)
      if (g.physicalDevices[d] == physical_) return g.physicalDeviceCount;
  return 1;
}

}  // namespace krafla::vk
