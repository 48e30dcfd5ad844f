// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "plugins/pjrt/client.h"

struct PJRT_Device_Attributes {};

namespace krafla::pjrt {
namespace {

void SetText(const std::string& text, const char** data, std::size_t* size) {
  *data = text.data();
  *size = text.size();
}

}  // namespace

Result<> DeviceDescription_Id(PJRT_DeviceDescription_Id_Args& args) {
  args.id = args.device_description->id;
  return {};
}
Result<> DeviceDescription_ProcessIndex(PJRT_DeviceDescription_ProcessIndex_Args& args) {
  args.process_index = args.device_description->process;
  return {};
}
Result<> DeviceDescription_Attributes(PJRT_DeviceDescription_Attributes_Args& args) {
  args.attributes = args.device_description->attributes.data();
  args.num_attributes = args.device_description->attributes.size();
  return {};
}
Result<> DeviceDescription_Kind(PJRT_DeviceDescription_Kind_Args& args) {
  SetText(args.device_description->kind, &args.device_kind, &args.device_kind_size);
  return {};
}
Result<> DeviceDescription_DebugString(PJRT_DeviceDescription_DebugString_Args& args) {
  SetText(args.device_description->debug_string, &args.debug_string, &args.debug_string_size);
  return {};
}
Result<> DeviceDescription_ToString(PJRT_DeviceDescription_ToString_Args& args) {
  SetText(args.device_description->to_string, &args.to_string, &args.to_string_size);
  return {};
}

Result<> Device_GetDescription(PJRT_Device_GetDescription_Args& args) {
  args.device_description = &args.device->description;
  return {};
}
Result<> Device_IsAddressable(PJRT_Device_IsAddressable_Args& args) {
  args.is_addressable = args.device->lane != nullptr;
  return {};
}
Result<> Device_LocalHardwareId(PJRT_Device_LocalHardwareId_Args& args) {
  args.local_hardware_id = args.device->lane == nullptr ? -1 : args.device->slot;
  return {};
}
Result<> Device_AddressableMemories(PJRT_Device_AddressableMemories_Args& args) {
  args.memories = args.device->memories.data();
  args.num_memories = args.device->memories.size();
  return {};
}
Result<> Device_DefaultMemory(PJRT_Device_DefaultMemory_Args& args) {
  KRAFLA_TRY(CheckIsHere(*args.device));
  args.memory = args.device->memories[0];
  return {};
}

// The attributes are those of the description, which live as long as the device: there is nothing to delete, but
// callers insist on a deleter.
Result<> Device_GetAttributes(PJRT_Device_GetAttributes_Args& args) {
  args.attributes = args.device->description.attributes.data();
  args.num_attributes = args.device->description.attributes.size();
  args.device_attributes = nullptr;
  args.attributes_deleter = [](PJRT_Device_Attributes*) {};
  return {};
}

Result<> Device_MemoryStats(PJRT_Device_MemoryStats_Args& args) {
  KRAFLA_TRY(CheckIsHere(*args.device));
  const MemoryCount::Figures figures = args.device->count->Read();
  args.bytes_in_use = figures.in_use;
  args.peak_bytes_in_use = figures.peak;
  args.peak_bytes_in_use_is_set = true;
  args.num_allocs = figures.arrays;
  args.num_allocs_is_set = true;
  args.largest_alloc_size = figures.largest;
  args.largest_alloc_size_is_set = true;
  args.bytes_limit = args.device->lane->device().memory_bytes;  // virtual devices share it
  args.bytes_limit_is_set = args.bytes_limit > 0;
  args.bytes_reserved_is_set = false;
  args.peak_bytes_reserved_is_set = false;
  args.bytes_reservable_limit_is_set = false;
  args.largest_free_block_bytes_is_set = false;
  args.pool_bytes_is_set = false;
  args.peak_pool_bytes_is_set = false;
  // Later than version 0.112: only where the caller has room for it.
  if (KRAFLA_PJRT_HAS(args, peak_allocated_bytes_is_set)) args.peak_allocated_bytes_is_set = false;
  return {};
}
Result<> Device_ClearMemoryStats(PJRT_Device_ClearMemoryStats_Args& args) {
  args.device->count->Clear();
  return {};
}

Result<> Memory_Id(PJRT_Memory_Id_Args& args) {
  args.id = args.memory->id;
  return {};
}
Result<> Memory_Kind(PJRT_Memory_Kind_Args& args) {
  SetText(args.memory->kind, &args.kind, &args.kind_size);
  return {};
}
Result<> Memory_Kind_Id(PJRT_Memory_Kind_Id_Args& args) {
  args.kind_id = args.memory->kind_id;
  return {};
}
Result<> Memory_DebugString(PJRT_Memory_DebugString_Args& args) {
  SetText(args.memory->debug_string, &args.debug_string, &args.debug_string_size);
  return {};
}
Result<> Memory_ToString(PJRT_Memory_ToString_Args& args) {
  SetText(args.memory->to_string, &args.to_string, &args.to_string_size);
  return {};
}
Result<> Memory_AddressableByDevices(PJRT_Memory_AddressableByDevices_Args& args) {
  args.devices = &args.memory->device;
  args.num_devices = 1;
  return {};
}

namespace {

void* GetUserData(PJRT_Memory* memory, const void* key) {
  std::lock_guard lock(memory->mutex);
  auto it = memory->user_data.find(key);
  return it == memory->user_data.end() ? nullptr : it->second.data;
}

void SetUserData(PJRT_Memory* memory, const void* key, void* data, void (*destructor)(void* data)) {
  PJRT_Memory::UserData old;
  {
    std::lock_guard lock(memory->mutex);
    old = std::exchange(memory->user_data[key], {data, destructor});
  }
  if (old.destructor != nullptr) old.destructor(old.data);
}

constexpr PJRT_Memory_FunctionTable kMemoryFunctions = {sizeof(PJRT_Memory_FunctionTable), nullptr, sizeof(PJRT_Memory),
                                                        &GetUserData, &SetUserData};

}  // namespace
}  // namespace krafla::pjrt

PJRT_Memory::PJRT_Memory() : vtable(&krafla::pjrt::kMemoryFunctions) {}
PJRT_Memory::~PJRT_Memory() {
  for (auto& [key, kept] : user_data)
    if (kept.destructor != nullptr) kept.destructor(kept.data);
}
