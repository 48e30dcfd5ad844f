// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/buffer.h"

#include "plugins/pjrt/element_types.h"
#include "plugins/pjrt/event.h"

using krafla::pjrt::Array;

PJRT_Buffer::PJRT_Buffer(PJRT_Memory* memory, krafla::Shape shape, std::shared_ptr<Array> array)
    : memory_(memory), shape_(std::move(shape)), array_(std::move(array)) {}

krafla::Result<std::shared_ptr<Array>> PJRT_Buffer::array() const {
  std::lock_guard lock(mutex_);
  if (array_ == nullptr) return krafla::InvalidArgument("The buffer has been deleted or donated.");
  return array_;
}

krafla::Result<std::pair<std::shared_ptr<Array>, bool>> PJRT_Buffer::Donate() {
  std::lock_guard lock(mutex_);
  if (array_ == nullptr) return krafla::InvalidArgument("The buffer has been deleted or donated.");
  return std::pair{std::exchange(array_, nullptr), references_ == 0};
}

void PJRT_Buffer::Delete() {
  std::shared_ptr<Array> array;
  std::lock_guard lock(mutex_);
  array.swap(array_);
}

bool PJRT_Buffer::deleted() const {
  std::lock_guard lock(mutex_);
  return array_ == nullptr;
}

krafla::Result<uint64_t> PJRT_Buffer::Address() {
  KRAFLA_ASSIGN(std::shared_ptr<Array> array, this->array());
  array->ready()->Wait();
  if (const krafla::Status* error = array->ready()->error()) return krafla::Failure(*error);
  return array->value()->Address();
}

void PJRT_Buffer::AddReference() {
  std::lock_guard lock(mutex_);
  if (references_++ == 0) pinned_ = array_;
}

krafla::Result<> PJRT_Buffer::DropReference() {
  std::lock_guard lock(mutex_);
  if (references_ == 0) return krafla::FailedPrecondition("The buffer has no external references to give up.");
  if (--references_ == 0) pinned_ = nullptr;
  return {};
}

namespace krafla::pjrt {

std::unique_ptr<PJRT_Buffer> NewBuffer(PJRT_Memory* memory, const Shape& shape, std::shared_ptr<Completion> ready) {
  auto array = std::make_shared<Array>(std::move(ready), DeviceBytes(shape), memory->device->count);
  return std::make_unique<PJRT_Buffer>(memory, shape, std::move(array));
}

Result<PJRT_Memory*> PlaceOf(PJRT_Device* device, PJRT_Memory* memory) {
  if (memory != nullptr) return memory;
  if (device == nullptr) return InvalidArgument("Neither a device nor a memory says where the buffer is to be.");
  KRAFLA_TRY(CheckIsHere(*device));
  return device->memories[0];
}

Result<> Buffer_Destroy(PJRT_Buffer_Destroy_Args& args) {
  delete args.buffer;
  return {};
}

Result<> Buffer_ElementType(PJRT_Buffer_ElementType_Args& args) {
  args.type = ToPjrtType(args.buffer->shape().element_type());
  return {};
}

Result<> Buffer_Dimensions(PJRT_Buffer_Dimensions_Args& args) {
  args.dims = args.buffer->shape().dims().data();
  args.num_dims = args.buffer->shape().dims().size();
  return {};
}

Result<> Buffer_UnpaddedDimensions(PJRT_Buffer_UnpaddedDimensions_Args& args) {
  args.unpadded_dims = args.buffer->shape().dims().data();
  args.num_dims = args.buffer->shape().dims().size();
  return {};
}

// Sizes that a run finds out are not told through this interface: the bounds are.
Result<> Buffer_DynamicDimensionIndices(PJRT_Buffer_DynamicDimensionIndices_Args& args) {
  args.dynamic_dim_indices = nullptr;
  args.num_dynamic_dims = 0;
  return {};
}

// Shapes keep their layout's order as long as they live.
Result<> Buffer_GetMemoryLayout(PJRT_Buffer_GetMemoryLayout_Args& args) {
  const Dims& order = args.buffer->shape().layout().minor_to_major;
  args.layout = {};
  args.layout.struct_size = sizeof(PJRT_Buffer_MemoryLayout);
  args.layout.type = kPjrtTiledLayout;
  args.layout.tiled.struct_size = sizeof(PJRT_Buffer_MemoryLayout_Tiled);
  args.layout.tiled.minor_to_major = order.data();
  args.layout.tiled.minor_to_major_size = order.size();
  return {};
}

Result<> Buffer_OnDeviceSizeInBytes(PJRT_Buffer_OnDeviceSizeInBytes_Args& args) {
  args.on_device_size_in_bytes = static_cast<std::size_t>(DeviceBytes(args.buffer->shape()));
  return {};
}

Result<> Buffer_Device(PJRT_Buffer_Device_Args& args) {
  args.device = args.buffer->device();
  return {};
}

Result<> Buffer_Memory(PJRT_Buffer_Memory_Args& args) {
  args.memory = args.buffer->memory();
  return {};
}

Result<> Buffer_Delete(PJRT_Buffer_Delete_Args& args) {
  args.buffer->Delete();
  return {};
}

Result<> Buffer_IsDeleted(PJRT_Buffer_IsDeleted_Args& args) {
  args.is_deleted = args.buffer->deleted();
  return {};
}

// Whether callers may read the array through its pointer without a copy.
Result<> Buffer_IsOnCpu(PJRT_Buffer_IsOnCpu_Args& args) {
  args.is_on_cpu = args.buffer->device()->lane->device().shares_host_memory;
  return {};
}

Result<> Buffer_ReadyEvent(PJRT_Buffer_ReadyEvent_Args& args) {
  KRAFLA_ASSIGN(std::shared_ptr<Array> array, args.buffer->array());
  args.event = NewEvent(array->ready());
  return {};
}

Result<> Buffer_IncreaseExternalReferenceCount(PJRT_Buffer_IncreaseExternalReferenceCount_Args& args) {
  args.buffer->AddReference();
  return {};
}

Result<> Buffer_DecreaseExternalReferenceCount(PJRT_Buffer_DecreaseExternalReferenceCount_Args& args) {
  return args.buffer->DropReference();
}

Result<> Buffer_OpaqueDeviceMemoryDataPointer(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args& args) {
  KRAFLA_ASSIGN(const uint64_t address, args.buffer->Address());
  args.device_memory_ptr = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
  return {};
}

Result<> Buffer_UnsafePointer(PJRT_Buffer_UnsafePointer_Args& args) {
  KRAFLA_ASSIGN(const uint64_t address, args.buffer->Address());
  args.buffer_pointer = static_cast<std::uintptr_t>(address);
  return {};
}

}  // namespace krafla::pjrt
