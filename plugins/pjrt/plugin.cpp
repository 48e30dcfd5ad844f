// SPDX-License-Identifier: Apache-2.0
// GetPjrtApi: what callers look up first, and the table behind it.
#include "krafla/export.h"
#include "plugins/pjrt/entry.h"
#include "plugins/pjrt/functions.h"
#include "plugins/pjrt/named_values.h"

namespace krafla::pjrt {

PJRT_Error* UnimplementedSlot(const char* name) noexcept {
  return NewError(krafla::Unimplemented("{} is not implemented by krafla.", name).error());
}

Result<> Plugin_Initialize(PJRT_Plugin_Initialize_Args&) { return {}; }

// The versions of StableHLO that are read (src/hlo_io/stablehlo_bytecode/vhlo_ops.h). Callers write programs in the
// current one, if they know it themselves.
constexpr int64_t kStablehloCurrent[] = {1, 20, 0}, kStablehloMinimum[] = {0, 9, 0};

Result<> Plugin_Attributes(PJRT_Plugin_Attributes_Args& args) {
  static const NamedValues& attributes = *[] {
    auto* out = new NamedValues;
    out->Add("krafla_version", KRAFLA_VERSION);
    out->Add("xla_version", int64_t{2});
    out->Add("stablehlo_current_version",
             std::vector<int64_t>(std::begin(kStablehloCurrent), std::end(kStablehloCurrent)));
    out->Add("stablehlo_minimum_version",
             std::vector<int64_t>(std::begin(kStablehloMinimum), std::end(kStablehloMinimum)));
    return out;
  }();
  args.attributes = attributes.data();
  args.num_attributes = attributes.size();
  return {};
}

namespace {

PJRT_Api MakeApi() {
  PJRT_Api api = {};
  api.struct_size = sizeof(PJRT_Api);
  api.extension_start = Extensions();
  api.pjrt_api_version.struct_size = sizeof(PJRT_Api_Version);
  api.pjrt_api_version.major_version = kPjrtApiMajor;
  api.pjrt_api_version.minor_version = kPjrtApiMinor;
  api.PJRT_Error_Destroy = &Error_Destroy;
  api.PJRT_Error_Message = &Error_Message;

  // No slot is null: callers would jump there.
#define KRAFLA_PJRT_STUB(name) \
  api.PJRT_##name = [](PJRT_##name##_Args*) -> PJRT_Error* { return UnimplementedSlot("PJRT_" #name); };
  KRAFLA_PJRT_SLOTS(KRAFLA_PJRT_STUB)
#undef KRAFLA_PJRT_STUB

  // A function, and the last field of its arguments that it needs.
#define KRAFLA_PJRT_FILL(name, last)                                                                                 \
  api.PJRT_##name = [](PJRT_##name##_Args* args) -> PJRT_Error* {                                                    \
    return Enter("PJRT_" #name, args, offsetof(PJRT_##name##_Args, last) + sizeof(PJRT_##name##_Args::last), &name); \
  };
  KRAFLA_PJRT_FILL(Error_GetCode, code)
  KRAFLA_PJRT_FILL(Error_ForEachPayload, user_arg)
  KRAFLA_PJRT_FILL(Plugin_Initialize, extension_start)
  KRAFLA_PJRT_FILL(Plugin_Attributes, num_attributes)

  KRAFLA_PJRT_FILL(Event_Destroy, event)
  KRAFLA_PJRT_FILL(Event_IsReady, is_ready)
  KRAFLA_PJRT_FILL(Event_Error, event)
  KRAFLA_PJRT_FILL(Event_Await, event)
  KRAFLA_PJRT_FILL(Event_OnReady, user_arg)
  KRAFLA_PJRT_FILL(Event_Create, event)
  KRAFLA_PJRT_FILL(Event_Set, error_message_size)

  KRAFLA_PJRT_FILL(Client_Create, client)
  KRAFLA_PJRT_FILL(Client_Destroy, client)
  KRAFLA_PJRT_FILL(Client_PlatformName, platform_name_size)
  KRAFLA_PJRT_FILL(Client_ProcessIndex, process_index)
  KRAFLA_PJRT_FILL(Client_UpdateGlobalProcessInfo, num_process_infos)
  KRAFLA_PJRT_FILL(Client_PlatformVersion, platform_version_size)
  KRAFLA_PJRT_FILL(Client_Devices, num_devices)
  KRAFLA_PJRT_FILL(Client_AddressableDevices, num_addressable_devices)
  KRAFLA_PJRT_FILL(Client_LookupDevice, device)
  KRAFLA_PJRT_FILL(Client_LookupAddressableDevice, addressable_device)
  KRAFLA_PJRT_FILL(Client_AddressableMemories, num_addressable_memories)
  KRAFLA_PJRT_FILL(Client_DefaultDeviceAssignment, default_assignment)
  KRAFLA_PJRT_FILL(Client_Compile, executable)
  KRAFLA_PJRT_FILL(Client_Load, loaded_executable)
  KRAFLA_PJRT_FILL(Client_BufferFromHostBuffer, buffer)
  KRAFLA_PJRT_FILL(Client_CreateUninitializedBuffer, buffer)
  KRAFLA_PJRT_FILL(Client_CreateErrorBuffer, buffer)
  KRAFLA_PJRT_FILL(Client_CreateViewOfDeviceBuffer, buffer)

  KRAFLA_PJRT_FILL(Client_CreateBuffersForAsyncHostToDevice, transfer_manager)
  KRAFLA_PJRT_FILL(AsyncHostToDeviceTransferManager_Destroy, transfer_manager)
  KRAFLA_PJRT_FILL(AsyncHostToDeviceTransferManager_TransferData, done_with_h2d_transfer)
  KRAFLA_PJRT_FILL(AsyncHostToDeviceTransferManager_TransferLiteral, done_with_h2d_transfer)
  KRAFLA_PJRT_FILL(AsyncHostToDeviceTransferManager_RetrieveBuffer, buffer_out)
  KRAFLA_PJRT_FILL(AsyncHostToDeviceTransferManager_Device, device_out)
  KRAFLA_PJRT_FILL(AsyncHostToDeviceTransferManager_BufferCount, buffer_count)
  KRAFLA_PJRT_FILL(AsyncHostToDeviceTransferManager_BufferSize, buffer_size)
  KRAFLA_PJRT_FILL(AsyncHostToDeviceTransferManager_SetBufferError, error_message_size)
  KRAFLA_PJRT_FILL(AsyncHostToDeviceTransferManager_AddMetadata, num_metadata)

  KRAFLA_PJRT_FILL(DeviceDescription_Id, id)
  KRAFLA_PJRT_FILL(DeviceDescription_ProcessIndex, process_index)
  KRAFLA_PJRT_FILL(DeviceDescription_Attributes, attributes)
  KRAFLA_PJRT_FILL(DeviceDescription_Kind, device_kind_size)
  KRAFLA_PJRT_FILL(DeviceDescription_DebugString, debug_string_size)
  KRAFLA_PJRT_FILL(DeviceDescription_ToString, to_string_size)
  KRAFLA_PJRT_FILL(Device_GetDescription, device_description)
  KRAFLA_PJRT_FILL(Device_IsAddressable, is_addressable)
  KRAFLA_PJRT_FILL(Device_LocalHardwareId, local_hardware_id)
  KRAFLA_PJRT_FILL(Device_AddressableMemories, num_memories)
  KRAFLA_PJRT_FILL(Device_DefaultMemory, memory)
  KRAFLA_PJRT_FILL(Device_GetAttributes, attributes_deleter)
  KRAFLA_PJRT_FILL(Device_MemoryStats, peak_pool_bytes_is_set)
  KRAFLA_PJRT_FILL(Device_ClearMemoryStats, device)

  KRAFLA_PJRT_FILL(Memory_Id, id)
  KRAFLA_PJRT_FILL(Memory_Kind, kind_size)
  KRAFLA_PJRT_FILL(Memory_Kind_Id, kind_id)
  KRAFLA_PJRT_FILL(Memory_DebugString, debug_string_size)
  KRAFLA_PJRT_FILL(Memory_ToString, to_string_size)
  KRAFLA_PJRT_FILL(Memory_AddressableByDevices, num_devices)

  KRAFLA_PJRT_FILL(Buffer_Destroy, buffer)
  KRAFLA_PJRT_FILL(Buffer_ElementType, type)
  KRAFLA_PJRT_FILL(Buffer_Dimensions, num_dims)
  KRAFLA_PJRT_FILL(Buffer_UnpaddedDimensions, num_dims)
  KRAFLA_PJRT_FILL(Buffer_DynamicDimensionIndices, num_dynamic_dims)
  KRAFLA_PJRT_FILL(Buffer_GetMemoryLayout, layout)
  KRAFLA_PJRT_FILL(Buffer_OnDeviceSizeInBytes, on_device_size_in_bytes)
  KRAFLA_PJRT_FILL(Buffer_Device, device)
  KRAFLA_PJRT_FILL(Buffer_Memory, memory)
  KRAFLA_PJRT_FILL(Buffer_Delete, buffer)
  KRAFLA_PJRT_FILL(Buffer_IsDeleted, is_deleted)
  KRAFLA_PJRT_FILL(Buffer_CopyToDevice, dst_buffer)
  KRAFLA_PJRT_FILL(Buffer_CopyToMemory, dst_buffer)
  KRAFLA_PJRT_FILL(Buffer_ToHostBuffer, event)
  KRAFLA_PJRT_FILL(Buffer_CopyRawToHost, event)
  KRAFLA_PJRT_FILL(Buffer_IsOnCpu, is_on_cpu)
  KRAFLA_PJRT_FILL(Buffer_ReadyEvent, event)
  KRAFLA_PJRT_FILL(Buffer_UnsafePointer, buffer_pointer)
  KRAFLA_PJRT_FILL(Buffer_IncreaseExternalReferenceCount, buffer)
  KRAFLA_PJRT_FILL(Buffer_DecreaseExternalReferenceCount, buffer)
  KRAFLA_PJRT_FILL(Buffer_OpaqueDeviceMemoryDataPointer, device_memory_ptr)

  KRAFLA_PJRT_FILL(Executable_Destroy, executable)
  KRAFLA_PJRT_FILL(Executable_Name, executable_name_size)
  KRAFLA_PJRT_FILL(Executable_NumReplicas, num_replicas)
  KRAFLA_PJRT_FILL(Executable_NumPartitions, num_partitions)
  KRAFLA_PJRT_FILL(Executable_NumOutputs, num_outputs)
  KRAFLA_PJRT_FILL(Executable_OutputElementTypes, num_output_types)
  KRAFLA_PJRT_FILL(Executable_OutputDimensions, dim_sizes)
  KRAFLA_PJRT_FILL(Executable_OptimizedProgram, program)
  KRAFLA_PJRT_FILL(Executable_OutputMemoryKinds, memory_kind_sizes)
  KRAFLA_PJRT_FILL(Executable_GetCostAnalysis, properties)
  KRAFLA_PJRT_FILL(Executable_GetCompiledMemoryStats, host_temp_size_in_bytes)
  KRAFLA_PJRT_FILL(Executable_SizeOfGeneratedCodeInBytes, size_in_bytes)
  KRAFLA_PJRT_FILL(Executable_Serialize, serialized_executable_deleter)
  KRAFLA_PJRT_FILL(Executable_DeserializeAndLoad, loaded_executable)
  KRAFLA_PJRT_FILL(Executable_Fingerprint, executable_fingerprint_size)
  KRAFLA_PJRT_FILL(Executable_GetCompileOptions, serialized_compile_options_deleter)
  KRAFLA_PJRT_FILL(LoadedExecutable_Destroy, executable)
  KRAFLA_PJRT_FILL(LoadedExecutable_GetExecutable, executable)
  KRAFLA_PJRT_FILL(LoadedExecutable_AddressableDevices, num_addressable_devices)
  KRAFLA_PJRT_FILL(LoadedExecutable_AddressableDeviceLogicalIds, num_addressable_device_logical_ids)
  KRAFLA_PJRT_FILL(LoadedExecutable_GetDeviceAssignment, serialized_device_assignment_deleter)
  KRAFLA_PJRT_FILL(LoadedExecutable_Fingerprint, executable_fingerprint_size)
  KRAFLA_PJRT_FILL(LoadedExecutable_Delete, executable)
  KRAFLA_PJRT_FILL(LoadedExecutable_IsDeleted, is_deleted)
  KRAFLA_PJRT_FILL(LoadedExecutable_Execute, execute_device)
  KRAFLA_PJRT_FILL(ExecuteContext_Create, context)
  KRAFLA_PJRT_FILL(ExecuteContext_Destroy, context)

  KRAFLA_PJRT_FILL(Client_TopologyDescription, topology)
  KRAFLA_PJRT_FILL(TopologyDescription_Create, topology)
  KRAFLA_PJRT_FILL(TopologyDescription_Destroy, topology)
  KRAFLA_PJRT_FILL(TopologyDescription_PlatformName, platform_name_size)
  KRAFLA_PJRT_FILL(TopologyDescription_PlatformVersion, platform_version_size)
  KRAFLA_PJRT_FILL(TopologyDescription_GetDeviceDescriptions, num_descriptions)
  KRAFLA_PJRT_FILL(TopologyDescription_Attributes, num_attributes)
  KRAFLA_PJRT_FILL(TopologyDescription_Fingerprint, fingerprint)
  KRAFLA_PJRT_FILL(TopologyDescription_GetMemorySpaceKindIds, num_memory_space_kind_ids)
#undef KRAFLA_PJRT_FILL
  return api;
}

}  // namespace
}  // namespace krafla::pjrt

extern "C" [[gnu::visibility("default")]] const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api api = krafla::pjrt::MakeApi();
  return &api;
}
