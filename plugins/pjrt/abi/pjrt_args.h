// SPDX-License-Identifier: Apache-2.0
// The arguments of every function of PJRT_Api, in the order of its slots. A caller sets struct_size to what it knows;
// nothing behind it is read or written.
#pragma once

#include "plugins/pjrt/abi/pjrt_types.h"

// clang-format off

struct PJRT_Error_Destroy_Args {
  KRAFLA_PJRT_HEAD PJRT_Error* error;
};
struct PJRT_Error_Message_Args {
  KRAFLA_PJRT_HEAD const PJRT_Error* error; const char* message; size_t message_size;
};
struct PJRT_Error_GetCode_Args {
  KRAFLA_PJRT_HEAD const PJRT_Error* error; PJRT_Error_Code code;
};
struct PJRT_Plugin_Initialize_Args {
  KRAFLA_PJRT_HEAD
};
struct PJRT_Plugin_Attributes_Args {
  KRAFLA_PJRT_HEAD const PJRT_NamedValue* attributes; size_t num_attributes;
};
struct PJRT_Event_Destroy_Args {
  KRAFLA_PJRT_HEAD PJRT_Event* event;
};
struct PJRT_Event_IsReady_Args {
  KRAFLA_PJRT_HEAD PJRT_Event* event; bool is_ready;
};
struct PJRT_Event_Error_Args {
  KRAFLA_PJRT_HEAD PJRT_Event* event;
};
struct PJRT_Event_Await_Args {
  KRAFLA_PJRT_HEAD PJRT_Event* event;
};
struct PJRT_Event_OnReady_Args {
  KRAFLA_PJRT_HEAD PJRT_Event* event; PJRT_Event_OnReadyCallback callback; void* user_arg;
};
struct PJRT_KeyValueGetCallback_Args {
  KRAFLA_PJRT_HEAD const char* key; size_t key_size; int timeout_in_ms; PJRT_CallbackError* callback_error;
  void* user_arg; char* value; size_t value_size; void (*value_deleter_callback)(char* value);
};
struct PJRT_KeyValuePutCallback_Args {
  KRAFLA_PJRT_HEAD const char* key; size_t key_size; const char* value; size_t value_size;
  PJRT_CallbackError* callback_error; void* user_arg;
};
struct PJRT_Client_Create_Args {
  KRAFLA_PJRT_HEAD const PJRT_NamedValue* create_options; size_t num_options;
  PJRT_KeyValueGetCallback kv_get_callback; void* kv_get_user_arg; PJRT_KeyValuePutCallback kv_put_callback;
  void* kv_put_user_arg; PJRT_Client* client;
  void* kv_try_get_callback; void* kv_try_get_user_arg;
};
struct PJRT_Client_Destroy_Args {
  KRAFLA_PJRT_HEAD PJRT_Client* client;
};
struct PJRT_Client_PlatformName_Args {
  KRAFLA_PJRT_HEAD PJRT_Client* client; const char* platform_name; size_t platform_name_size;
};
struct PJRT_Client_ProcessIndex_Args {
  KRAFLA_PJRT_HEAD PJRT_Client* client; int32_t process_index;
};
struct PJRT_Client_PlatformVersion_Args {
  KRAFLA_PJRT_HEAD PJRT_Client* client; const char* platform_version; size_t platform_version_size;
};
struct PJRT_Client_Devices_Args {
  KRAFLA_PJRT_HEAD PJRT_Client* client; PJRT_Device* const* devices; size_t num_devices;
};
struct PJRT_Client_AddressableDevices_Args {
  KRAFLA_PJRT_HEAD PJRT_Client* client; PJRT_Device* const* addressable_devices;
  size_t num_addressable_devices;
};
struct PJRT_Client_LookupDevice_Args {
  KRAFLA_PJRT_HEAD PJRT_Client* client; int32_t id; PJRT_Device* device;
};
struct PJRT_Client_LookupAddressableDevice_Args {
  KRAFLA_PJRT_HEAD PJRT_Client* client; int32_t local_hardware_id; PJRT_Device* addressable_device;
};
struct PJRT_Client_AddressableMemories_Args {
  KRAFLA_PJRT_HEAD PJRT_Client* client; PJRT_Memory* const* addressable_memories;
  size_t num_addressable_memories;
};
struct PJRT_Client_Compile_Args {
  KRAFLA_PJRT_HEAD PJRT_Client* client; const PJRT_Program* program; const char* compile_options;
  size_t compile_options_size; PJRT_LoadedExecutable* executable;
};
struct PJRT_Client_DefaultDeviceAssignment_Args {
  KRAFLA_PJRT_HEAD PJRT_Client* client; int32_t num_replicas; int32_t num_partitions;
  size_t default_assignment_size; int* default_assignment;
};
struct PJRT_Client_BufferFromHostBuffer_Args {
  KRAFLA_PJRT_HEAD PJRT_Client* client; const void* data; PJRT_Buffer_Type type; const int64_t* dims;
  size_t num_dims; const int64_t* byte_strides; size_t num_byte_strides;
  PJRT_HostBufferSemantics host_buffer_semantics; PJRT_Device* device; PJRT_Memory* memory;
  PJRT_Buffer_MemoryLayout* device_layout; PJRT_Event* done_with_host_buffer; PJRT_Buffer* buffer;
};
struct PJRT_DeviceDescription_Id_Args {
  KRAFLA_PJRT_HEAD PJRT_DeviceDescription* device_description; int32_t id;
};
struct PJRT_DeviceDescription_ProcessIndex_Args {
  KRAFLA_PJRT_HEAD PJRT_DeviceDescription* device_description; int32_t process_index;
};
struct PJRT_DeviceDescription_Attributes_Args {
  KRAFLA_PJRT_HEAD PJRT_DeviceDescription* device_description; size_t num_attributes;
  const PJRT_NamedValue* attributes;
};
struct PJRT_DeviceDescription_Kind_Args {
  KRAFLA_PJRT_HEAD PJRT_DeviceDescription* device_description; const char* device_kind;
  size_t device_kind_size;
};
struct PJRT_DeviceDescription_DebugString_Args {
  KRAFLA_PJRT_HEAD PJRT_DeviceDescription* device_description; const char* debug_string;
  size_t debug_string_size;
};
struct PJRT_DeviceDescription_ToString_Args {
  KRAFLA_PJRT_HEAD PJRT_DeviceDescription* device_description; const char* to_string; size_t to_string_size;
};
struct PJRT_Device_GetDescription_Args {
  KRAFLA_PJRT_HEAD PJRT_Device* device; PJRT_DeviceDescription* device_description;
};
struct PJRT_Device_IsAddressable_Args {
  KRAFLA_PJRT_HEAD PJRT_Device* device; bool is_addressable;
};
struct PJRT_Device_LocalHardwareId_Args {
  KRAFLA_PJRT_HEAD PJRT_Device* device; int32_t local_hardware_id;
};
struct PJRT_Device_AddressableMemories_Args {
  KRAFLA_PJRT_HEAD PJRT_Device* device; PJRT_Memory* const* memories; size_t num_memories;
};
struct PJRT_Device_DefaultMemory_Args {
  KRAFLA_PJRT_HEAD PJRT_Device* device; PJRT_Memory* memory;
};
struct PJRT_Device_MemoryStats_Args {
  KRAFLA_PJRT_HEAD PJRT_Device* device; int64_t bytes_in_use; int64_t peak_bytes_in_use;
  bool peak_bytes_in_use_is_set; int64_t num_allocs; bool num_allocs_is_set; int64_t largest_alloc_size;
  bool largest_alloc_size_is_set; int64_t bytes_limit; bool bytes_limit_is_set; int64_t bytes_reserved;
  bool bytes_reserved_is_set; int64_t peak_bytes_reserved; bool peak_bytes_reserved_is_set;
  int64_t bytes_reservable_limit; bool bytes_reservable_limit_is_set; int64_t largest_free_block_bytes;
  bool largest_free_block_bytes_is_set; int64_t pool_bytes; bool pool_bytes_is_set; int64_t peak_pool_bytes;
  bool peak_pool_bytes_is_set; int64_t peak_allocated_bytes; bool peak_allocated_bytes_is_set;
};
struct PJRT_Memory_Id_Args {
  KRAFLA_PJRT_HEAD PJRT_Memory* memory; int32_t id;
};
struct PJRT_Memory_Kind_Args {
  KRAFLA_PJRT_HEAD PJRT_Memory* memory; const char* kind; size_t kind_size;
};
struct PJRT_Memory_DebugString_Args {
  KRAFLA_PJRT_HEAD PJRT_Memory* memory; const char* debug_string; size_t debug_string_size;
};
struct PJRT_Memory_ToString_Args {
  KRAFLA_PJRT_HEAD PJRT_Memory* memory; const char* to_string; size_t to_string_size;
};
struct PJRT_Memory_AddressableByDevices_Args {
  KRAFLA_PJRT_HEAD PJRT_Memory* memory; PJRT_Device* const* devices; size_t num_devices;
};
struct PJRT_Executable_Destroy_Args {
  KRAFLA_PJRT_HEAD PJRT_Executable* executable;
};
struct PJRT_Executable_Name_Args {
  KRAFLA_PJRT_HEAD PJRT_Executable* executable; const char* executable_name; size_t executable_name_size;
};
struct PJRT_Executable_NumReplicas_Args {
  KRAFLA_PJRT_HEAD PJRT_Executable* executable; size_t num_replicas;
};
struct PJRT_Executable_NumPartitions_Args {
  KRAFLA_PJRT_HEAD PJRT_Executable* executable; size_t num_partitions;
};
struct PJRT_Executable_NumOutputs_Args {
  KRAFLA_PJRT_HEAD PJRT_Executable* executable; size_t num_outputs;
};
struct PJRT_Executable_SizeOfGeneratedCodeInBytes_Args {
  KRAFLA_PJRT_HEAD PJRT_Executable* executable; int64_t size_in_bytes;
};
struct PJRT_Executable_GetCostAnalysis_Args {
  KRAFLA_PJRT_HEAD PJRT_Executable* executable; size_t num_properties; const PJRT_NamedValue* properties;
};
struct PJRT_Executable_OutputMemoryKinds_Args {
  KRAFLA_PJRT_HEAD PJRT_Executable* executable; size_t num_outputs; const char* const* memory_kinds;
  const size_t* memory_kind_sizes;
};
struct PJRT_Executable_OptimizedProgram_Args {
  KRAFLA_PJRT_HEAD PJRT_Executable* executable; PJRT_Program* program;
};
struct PJRT_Executable_Serialize_Args {
  KRAFLA_PJRT_HEAD PJRT_Executable* executable; const char* serialized_bytes; size_t serialized_bytes_size;
  PJRT_SerializedExecutable* serialized_executable;
  void (*serialized_executable_deleter)(PJRT_SerializedExecutable*);
};
struct PJRT_LoadedExecutable_Destroy_Args {
  KRAFLA_PJRT_HEAD PJRT_LoadedExecutable* executable;
};
struct PJRT_LoadedExecutable_GetExecutable_Args {
  KRAFLA_PJRT_HEAD PJRT_LoadedExecutable* loaded_executable; PJRT_Executable* executable;
};
struct PJRT_LoadedExecutable_AddressableDevices_Args {
  KRAFLA_PJRT_HEAD PJRT_LoadedExecutable* executable; PJRT_Device* const* addressable_devices;
  size_t num_addressable_devices;
};
struct PJRT_LoadedExecutable_Delete_Args {
  KRAFLA_PJRT_HEAD PJRT_LoadedExecutable* executable;
};
struct PJRT_LoadedExecutable_IsDeleted_Args {
  KRAFLA_PJRT_HEAD PJRT_LoadedExecutable* executable; bool is_deleted;
};
struct PJRT_LoadedExecutable_Execute_Args {
  KRAFLA_PJRT_HEAD PJRT_LoadedExecutable* executable; PJRT_ExecuteOptions* options;
  PJRT_Buffer* const* const* argument_lists; size_t num_devices; size_t num_args;
  PJRT_Buffer** const* output_lists; PJRT_Event** device_complete_events; PJRT_Device* execute_device;
};
struct PJRT_Executable_DeserializeAndLoad_Args {
  KRAFLA_PJRT_HEAD PJRT_Client* client; const char* serialized_executable; size_t serialized_executable_size;
  PJRT_LoadedExecutable* loaded_executable; const char* overridden_serialized_compile_options;
  size_t overridden_serialized_compile_options_size; PJRT_LoadOptions* load_options;
};
struct PJRT_LoadedExecutable_Fingerprint_Args {
  KRAFLA_PJRT_HEAD PJRT_LoadedExecutable* executable; const char* executable_fingerprint;
  size_t executable_fingerprint_size;
};
struct PJRT_Buffer_Destroy_Args {
  KRAFLA_PJRT_HEAD PJRT_Buffer* buffer;
};
struct PJRT_Buffer_ElementType_Args {
  KRAFLA_PJRT_HEAD PJRT_Buffer* buffer; PJRT_Buffer_Type type;
};
struct PJRT_Buffer_Dimensions_Args {
  KRAFLA_PJRT_HEAD PJRT_Buffer* buffer; const int64_t* dims; size_t num_dims;
};
struct PJRT_Buffer_UnpaddedDimensions_Args {
  KRAFLA_PJRT_HEAD PJRT_Buffer* buffer; const int64_t* unpadded_dims; size_t num_dims;
};
struct PJRT_Buffer_DynamicDimensionIndices_Args {
  KRAFLA_PJRT_HEAD PJRT_Buffer* buffer; const size_t* dynamic_dim_indices; size_t num_dynamic_dims;
};
struct PJRT_Buffer_GetMemoryLayout_Args {
  KRAFLA_PJRT_HEAD PJRT_Buffer* buffer; PJRT_Buffer_MemoryLayout layout;
};
struct PJRT_Buffer_OnDeviceSizeInBytes_Args {
  KRAFLA_PJRT_HEAD PJRT_Buffer* buffer; size_t on_device_size_in_bytes;
};
struct PJRT_Buffer_Device_Args {
  KRAFLA_PJRT_HEAD PJRT_Buffer* buffer; PJRT_Device* device;
};
struct PJRT_Buffer_Memory_Args {
  KRAFLA_PJRT_HEAD PJRT_Buffer* buffer; PJRT_Memory* memory;
};
struct PJRT_Buffer_Delete_Args {
  KRAFLA_PJRT_HEAD PJRT_Buffer* buffer;
};
struct PJRT_Buffer_IsDeleted_Args {
  KRAFLA_PJRT_HEAD PJRT_Buffer* buffer; bool is_deleted;
};
struct PJRT_Buffer_CopyToDevice_Args {
  KRAFLA_PJRT_HEAD PJRT_Buffer* buffer; PJRT_Device* dst_device; PJRT_Buffer* dst_buffer;
};
struct PJRT_Buffer_ToHostBuffer_Args {
  KRAFLA_PJRT_HEAD PJRT_Buffer* src; PJRT_Buffer_MemoryLayout* host_layout; void* dst; size_t dst_size;
  PJRT_Event* event;
};
struct PJRT_Buffer_IsOnCpu_Args {
  KRAFLA_PJRT_HEAD PJRT_Buffer* buffer; bool is_on_cpu;
};
struct PJRT_Buffer_ReadyEvent_Args {
  KRAFLA_PJRT_HEAD PJRT_Buffer* buffer; PJRT_Event* event;
};
struct PJRT_Buffer_UnsafePointer_Args {
  KRAFLA_PJRT_HEAD PJRT_Buffer* buffer; size_t buffer_pointer;
};
struct PJRT_Buffer_IncreaseExternalReferenceCount_Args {
  KRAFLA_PJRT_HEAD PJRT_Buffer* buffer;
};
struct PJRT_Buffer_DecreaseExternalReferenceCount_Args {
  KRAFLA_PJRT_HEAD PJRT_Buffer* buffer;
};
struct PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args {
  KRAFLA_PJRT_HEAD PJRT_Buffer* buffer; void* device_memory_ptr;
};
struct PJRT_CopyToDeviceStream_Destroy_Args {
  KRAFLA_PJRT_HEAD PJRT_CopyToDeviceStream* stream;
};
struct PJRT_CopyToDeviceStream_AddChunk_Args {
  KRAFLA_PJRT_HEAD PJRT_CopyToDeviceStream* stream; PJRT_Chunk* chunk; PJRT_Event* transfer_complete;
};
struct PJRT_CopyToDeviceStream_TotalBytes_Args {
  KRAFLA_PJRT_HEAD PJRT_CopyToDeviceStream* stream; int64_t total_bytes;
};
struct PJRT_CopyToDeviceStream_GranuleSize_Args {
  KRAFLA_PJRT_HEAD PJRT_CopyToDeviceStream* stream; int64_t granule_size_in_bytes;
};
struct PJRT_CopyToDeviceStream_CurrentBytes_Args {
  KRAFLA_PJRT_HEAD PJRT_CopyToDeviceStream* stream; int64_t current_bytes;
};
struct PJRT_TopologyDescription_Create_Args {
  KRAFLA_PJRT_HEAD const char* topology_name; size_t topology_name_size;
  const PJRT_NamedValue* create_options; size_t num_options; PJRT_TopologyDescription* topology;
};
struct PJRT_TopologyDescription_Destroy_Args {
  KRAFLA_PJRT_HEAD PJRT_TopologyDescription* topology;
};
struct PJRT_TopologyDescription_PlatformName_Args {
  KRAFLA_PJRT_HEAD PJRT_TopologyDescription* topology; const char* platform_name; size_t platform_name_size;
};
struct PJRT_TopologyDescription_PlatformVersion_Args {
  KRAFLA_PJRT_HEAD PJRT_TopologyDescription* topology; const char* platform_version;
  size_t platform_version_size;
};
struct PJRT_TopologyDescription_GetDeviceDescriptions_Args {
  KRAFLA_PJRT_HEAD PJRT_TopologyDescription* topology; PJRT_DeviceDescription* const* descriptions;
  size_t num_descriptions;
};
struct PJRT_TopologyDescription_Serialize_Args {
  KRAFLA_PJRT_HEAD PJRT_TopologyDescription* topology; const char* serialized_bytes;
  size_t serialized_bytes_size; PJRT_SerializedTopology* serialized_topology;
  void (*serialized_topology_deleter)(PJRT_SerializedTopology*);
};
struct PJRT_TopologyDescription_Attributes_Args {
  KRAFLA_PJRT_HEAD PJRT_TopologyDescription* topology; const PJRT_NamedValue* attributes;
  size_t num_attributes;
};
struct PJRT_Compile_Args {
  KRAFLA_PJRT_HEAD PJRT_TopologyDescription* topology; const PJRT_Program* program;
  const char* compile_options; size_t compile_options_size; PJRT_Client* client; PJRT_Executable* executable;
};
struct PJRT_Executable_OutputElementTypes_Args {
  KRAFLA_PJRT_HEAD PJRT_Executable* executable; PJRT_Buffer_Type* output_types; size_t num_output_types;
};
struct PJRT_Executable_OutputDimensions_Args {
  KRAFLA_PJRT_HEAD PJRT_Executable* executable; size_t num_outputs; const int64_t* dims;
  const size_t* dim_sizes;
};
struct PJRT_Buffer_CopyToMemory_Args {
  KRAFLA_PJRT_HEAD PJRT_Buffer* buffer; PJRT_Memory* dst_memory; PJRT_Buffer* dst_buffer;
};
struct PJRT_Client_CreateViewOfDeviceBuffer_Args {
  KRAFLA_PJRT_HEAD PJRT_Client* client; void* device_buffer_ptr; const int64_t* dims; size_t num_dims;
  PJRT_Buffer_Type element_type; PJRT_Buffer_MemoryLayout* layout; PJRT_Device* device;
  void (*on_delete_callback)(void* device_buffer_ptr, void* user_arg); void* on_delete_callback_arg;
  int64_t stream; PJRT_Buffer* buffer; PJRT_Memory* memory;
};
struct PJRT_Executable_Fingerprint_Args {
  KRAFLA_PJRT_HEAD PJRT_Executable* executable; const char* executable_fingerprint;
  size_t executable_fingerprint_size;
};
struct PJRT_Client_TopologyDescription_Args {
  KRAFLA_PJRT_HEAD PJRT_Client* client; PJRT_TopologyDescription* topology;
};
struct PJRT_Executable_GetCompiledMemoryStats_Args {
  KRAFLA_PJRT_HEAD PJRT_Executable* executable; int64_t generated_code_size_in_bytes;
  int64_t argument_size_in_bytes; int64_t output_size_in_bytes; int64_t alias_size_in_bytes;
  int64_t temp_size_in_bytes; int64_t host_generated_code_size_in_bytes; int64_t host_argument_size_in_bytes;
  int64_t host_output_size_in_bytes; int64_t host_alias_size_in_bytes; int64_t host_temp_size_in_bytes;
  int64_t peak_memory_in_bytes; int64_t total_size_in_bytes; int64_t total_allocation_bytes;
  int64_t indefinite_allocations; int64_t peak_unpadded_heap_bytes;
};
struct PJRT_Memory_Kind_Id_Args {
  KRAFLA_PJRT_HEAD PJRT_Memory* memory; int32_t kind_id;
};
struct PJRT_ExecuteContext_Create_Args {
  KRAFLA_PJRT_HEAD PJRT_ExecuteContext* context;
};
struct PJRT_ExecuteContext_Destroy_Args {
  KRAFLA_PJRT_HEAD PJRT_ExecuteContext* context;
};
struct PJRT_Buffer_CopyRawToHost_Args {
  KRAFLA_PJRT_HEAD PJRT_Buffer* buffer; void* dst; int64_t offset; int64_t transfer_size; PJRT_Event* event;
};
struct PJRT_AsyncHostToDeviceTransferManager_Destroy_Args {
  KRAFLA_PJRT_HEAD PJRT_AsyncHostToDeviceTransferManager* transfer_manager;
};
struct PJRT_AsyncHostToDeviceTransferManager_TransferData_Args {
  KRAFLA_PJRT_HEAD PJRT_AsyncHostToDeviceTransferManager* transfer_manager; int32_t buffer_index;
  const void* data; int64_t offset; int64_t transfer_size; bool is_last_transfer;
  PJRT_Event* done_with_h2d_transfer;
};
struct PJRT_Client_CreateBuffersForAsyncHostToDevice_Args {
  KRAFLA_PJRT_HEAD PJRT_Client* client; PJRT_ShapeSpec* shape_specs; size_t num_shape_specs;
  PJRT_Buffer_MemoryLayout** device_layouts; size_t num_device_layouts; PJRT_Memory* memory;
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;
};
struct PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args {
  KRAFLA_PJRT_HEAD PJRT_AsyncHostToDeviceTransferManager* transfer_manager; int32_t buffer_index;
  PJRT_Buffer* buffer_out;
};
struct PJRT_AsyncHostToDeviceTransferManager_Device_Args {
  KRAFLA_PJRT_HEAD PJRT_AsyncHostToDeviceTransferManager* transfer_manager; PJRT_Device* device_out;
};
struct PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args {
  KRAFLA_PJRT_HEAD PJRT_AsyncHostToDeviceTransferManager* transfer_manager; size_t buffer_count;
};
struct PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args {
  KRAFLA_PJRT_HEAD PJRT_AsyncHostToDeviceTransferManager* transfer_manager; int32_t buffer_index;
  size_t buffer_size;
};
struct PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args {
  KRAFLA_PJRT_HEAD PJRT_AsyncHostToDeviceTransferManager* transfer_manager; int32_t buffer_index;
  PJRT_Error_Code error_code; const char* error_message; size_t error_message_size;
};
struct PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args {
  KRAFLA_PJRT_HEAD PJRT_AsyncHostToDeviceTransferManager* transfer_manager;
  const PJRT_NamedValue* transfer_metadata; size_t num_metadata;
};
struct PJRT_Client_DmaMap_Args {
  KRAFLA_PJRT_HEAD PJRT_Client* client; void* data; size_t size;
};
struct PJRT_Client_DmaUnmap_Args {
  KRAFLA_PJRT_HEAD PJRT_Client* client; void* data;
};
struct PJRT_Client_CreateUninitializedBuffer_Args {
  KRAFLA_PJRT_HEAD PJRT_Client* client; const int64_t* shape_dims; size_t shape_num_dims;
  PJRT_Buffer_Type shape_element_type; PJRT_Buffer_MemoryLayout* shape_layout; PJRT_Device* device;
  PJRT_Memory* memory; PJRT_Buffer* buffer;
};
struct PJRT_Client_UpdateGlobalProcessInfo_Args {
  KRAFLA_PJRT_HEAD PJRT_Client* client; PJRT_ProcessInfo* process_infos; size_t num_process_infos;
};
struct PJRT_TopologyDescription_Deserialize_Args {
  KRAFLA_PJRT_HEAD const char* serialized_topology; size_t serialized_topology_size;
  PJRT_TopologyDescription* topology;
};
struct PJRT_Client_CreateAliasBuffer_Args {
  KRAFLA_PJRT_HEAD PJRT_Client* client; PJRT_Memory* memory; const int64_t* shape_dims; size_t shape_num_dims;
  PJRT_Buffer_Type shape_element_type; PJRT_Buffer_MemoryLayout* shape_layout; PJRT_Buffer* alias_buffer;
  PJRT_FulfillAliasBufferCallback* fulfill_alias_buffer_cb;
};
struct PJRT_Client_FulfillAliasBuffer_Args {
  KRAFLA_PJRT_HEAD PJRT_Client* client; PJRT_Buffer* buffer; uint32_t status_code; const char* error_message;
  size_t error_message_size; PJRT_FulfillAliasBufferCallback* fulfill_alias_buffer_cb;
};
struct PJRT_LoadedExecutable_GetDeviceAssignment_Args {
  KRAFLA_PJRT_HEAD PJRT_LoadedExecutable* executable; const char* serialized_bytes;
  size_t serialized_bytes_size; PJRT_DeviceAssignmentSerialized* serialized_device_assignment;
  void (*serialized_device_assignment_deleter)(PJRT_DeviceAssignmentSerialized*);
};
struct PJRT_Client_CreateErrorBuffer_Args {
  KRAFLA_PJRT_HEAD PJRT_Client* client; PJRT_Error_Code error_code; const char* error_message;
  size_t error_message_size; const int64_t* shape_dims; size_t shape_num_dims;
  PJRT_Buffer_Type shape_element_type; PJRT_Buffer_MemoryLayout* shape_layout; PJRT_Memory* memory;
  PJRT_Buffer* buffer; void* payload; size_t num_payload;
};
struct PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args {
  KRAFLA_PJRT_HEAD PJRT_AsyncHostToDeviceTransferManager* transfer_manager; int32_t buffer_index;
  const void* data; const int64_t* shape_dims; size_t shape_num_dims; PJRT_Buffer_Type shape_element_type;
  PJRT_Buffer_MemoryLayout* shape_layout; PJRT_Event* done_with_h2d_transfer;
};
struct PJRT_Buffer_CopyRawToHostFuture_Args {
  KRAFLA_PJRT_HEAD PJRT_Buffer* buffer; int64_t offset; int64_t transfer_size; PJRT_Event* event;
  void* callback_data; void (*future_ready_callback)(PJRT_Buffer_CopyRawToHostFuture_Callback_Args*);
};
struct PJRT_Device_PoisonExecution_Args {
  KRAFLA_PJRT_HEAD PJRT_Device* device; int32_t launch_id; PJRT_Error_Code error_code;
  const char* error_message; size_t error_message_size; bool poisoned; void* payload; size_t num_payload;
};
struct PJRT_Device_CreateAsyncTrackingEvent_Args {
  KRAFLA_PJRT_HEAD PJRT_Device* device; const char* description; size_t description_size;
  PJRT_AsyncTrackingEvent* event;
};
struct PJRT_AsyncTrackingEvent_Destroy_Args {
  KRAFLA_PJRT_HEAD PJRT_AsyncTrackingEvent* event;
};
struct PJRT_Executable_GetCompileOptions_Args {
  KRAFLA_PJRT_HEAD PJRT_Executable* executable; const char* serialized_bytes; size_t serialized_bytes_size;
  PJRT_SerializedCompileOptions* serialized_compile_options;
  void (*serialized_compile_options_deleter)(PJRT_SerializedCompileOptions*);
};
struct PJRT_Buffer_DonateWithControlDependency_Args {
  KRAFLA_PJRT_HEAD PJRT_Buffer* buffer; void* callback_data;
  void (*dependency_ready_callback)(PJRT_Buffer_DonateWithControlDependency_Callback_Args*);
  PJRT_Buffer* out_buffer;
};
struct PJRT_Event_Create_Args {
  KRAFLA_PJRT_HEAD PJRT_Event* event;
};
struct PJRT_Event_Set_Args {
  KRAFLA_PJRT_HEAD PJRT_Event* event; PJRT_Error_Code error_code; const char* error_message;
  size_t error_message_size;
};
struct PJRT_Device_GetAttributes_Args {
  KRAFLA_PJRT_HEAD PJRT_Device* device; const PJRT_NamedValue* attributes; size_t num_attributes;
  PJRT_Device_Attributes* device_attributes; void (*attributes_deleter)(PJRT_Device_Attributes*);
};
struct PJRT_Client_Load_Args {
  KRAFLA_PJRT_HEAD PJRT_Client* client; PJRT_Executable* executable; const char* compile_options;
  size_t compile_options_size; PJRT_LoadedExecutable* loaded_executable;
};
struct PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args {
  KRAFLA_PJRT_HEAD PJRT_LoadedExecutable* executable;
  const PJRT_LogicalDeviceIds* addressable_device_logical_ids; size_t num_addressable_device_logical_ids;
};
struct PJRT_Buffer_Bitcast_Args {
  KRAFLA_PJRT_HEAD PJRT_Buffer* buffer; PJRT_Buffer_Type element_type; const int64_t* dims; size_t num_dims;
  PJRT_Buffer_MemoryLayout* device_layout; PJRT_Buffer* out_buffer;
};
struct PJRT_Error_ForEachPayload_Args {
  KRAFLA_PJRT_HEAD const PJRT_Error* error; PJRT_Error_PayloadVisitor visitor; void* user_arg;
};
struct PJRT_TopologyDescription_Fingerprint_Args {
  KRAFLA_PJRT_HEAD PJRT_TopologyDescription* topology; uint64_t fingerprint;
};
struct PJRT_Executable_ParameterMemoryKinds_Args {
  KRAFLA_PJRT_HEAD PJRT_Executable* executable; size_t num_parameters; const char* const* memory_kinds;
  const size_t* memory_kind_sizes;
};
struct PJRT_Device_ClearMemoryStats_Args {
  KRAFLA_PJRT_HEAD PJRT_Device* device;
};
struct PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args {
  KRAFLA_PJRT_HEAD PJRT_TopologyDescription* topology; int32_t memory_space_kind_id; const int64_t* dims;
  size_t num_dims; PJRT_Buffer_Type element_type; PJRT_Buffer_MemoryLayout* layout;
  const char* serialized_shape; size_t serialized_shape_size; void (*serialized_shape_deleter)(void*);
};
struct PJRT_TopologyDescription_GetMemorySpaceKindIds_Args {
  KRAFLA_PJRT_HEAD PJRT_TopologyDescription* topology; const int32_t* memory_space_kind_ids;
  size_t num_memory_space_kind_ids;
};
// clang-format on
