// SPDX-License-Identifier: Apache-2.0
// The binary interface of PJRT plugins (openxla/xla, xla/pjrt/c/pjrt_c_api.h), version 0.112, on 64-bit machines:
// enumerations and the structs that callers and plugins share. Names are PJRT's, as the interface is; the declarations
// are our own. tests/pjrt checks every offset against the tables of the PyPI package pypjrt.
//
// Handles (PJRT_Client, PJRT_Buffer, ...) are the plugin's own types, defined beside their functions.
#pragma once

#include <cstddef>
#include <cstdint>

inline constexpr int32_t kPjrtApiMajor = 0;
inline constexpr int32_t kPjrtApiMinor = 112;

struct PJRT_AsyncHostToDeviceTransferManager;
struct PJRT_AsyncTrackingEvent;
struct PJRT_Buffer;
struct PJRT_Client;
struct PJRT_CopyToDeviceStream;
struct PJRT_Device;
struct PJRT_DeviceAssignmentSerialized;
struct PJRT_DeviceDescription;
struct PJRT_Device_Attributes;
struct PJRT_Error;
struct PJRT_Event;
struct PJRT_Executable;
struct PJRT_ExecuteContext;
struct PJRT_FulfillAliasBufferCallback;
struct PJRT_Layouts_MemoryLayout;
struct PJRT_Layouts_SerializedLayout;
struct PJRT_LoadedExecutable;
struct PJRT_Memory;
struct PJRT_SerializedCompileOptions;
struct PJRT_SerializedExecutable;
struct PJRT_SerializedTopology;
struct PJRT_TopologyDescription;

// absl's status codes.
using PJRT_Error_Code = uint32_t;

// How a caller's functions make errors that the plugin understands, and the store of names and values that processes
// share.
struct PJRT_KeyValueGetCallback_Args;
struct PJRT_KeyValuePutCallback_Args;
using PJRT_CallbackError = PJRT_Error* (*)(PJRT_Error_Code code, const char* message, size_t message_size);
using PJRT_KeyValueGetCallback = PJRT_Error* (*)(PJRT_KeyValueGetCallback_Args* args);
using PJRT_KeyValuePutCallback = PJRT_Error* (*)(PJRT_KeyValuePutCallback_Args* args);

// Element types; those that krafla knows have their own names in element_types.cpp.
using PJRT_Buffer_Type = uint32_t;
inline constexpr PJRT_Buffer_Type kPjrtInvalidType = 0;

enum PJRT_HostBufferSemantics : uint32_t {
  kPjrtImmutableOnlyDuringCall = 0,
  kPjrtImmutableUntilTransferCompletes = 1,
  kPjrtImmutableZeroCopy = 2,
  kPjrtMutableZeroCopy = 3,
};

enum PJRT_Extension_Type : uint32_t {
  kPjrtProfilerExtension = 1,
  kPjrtCustomPartitionerExtension = 2,
  kPjrtLayoutsExtension = 4,
  kPjrtCrossHostTransfersExtension = 12,
  kPjrtShardingsExtension = 19,
};

struct PJRT_Extension_Base {
  size_t struct_size;
  PJRT_Extension_Type type;
  PJRT_Extension_Base* next;
};

// What every struct that crosses the border begins with.
#define KRAFLA_PJRT_HEAD \
  size_t struct_size;    \
  PJRT_Extension_Base* extension_start;

enum PJRT_NamedValue_Type : uint32_t {
  kPjrtString = 0,
  kPjrtInt64 = 1,
  kPjrtInt64List = 2,
  kPjrtFloat = 3,
  kPjrtBool = 4,
};

struct PJRT_NamedValue {
  KRAFLA_PJRT_HEAD
  const char* name;
  size_t name_size;
  PJRT_NamedValue_Type type;
  union {
    const char* string_value;
    int64_t int64_value;
    const int64_t* int64_array_value;
    float float_value;
    bool bool_value;
  };
  size_t value_size;  // characters, or numbers of a list; 1 for the others
};

struct PJRT_Program {
  KRAFLA_PJRT_HEAD
  char* code;
  size_t code_size;
  const char* format;
  size_t format_size;
};

enum PJRT_Buffer_MemoryLayout_Type : uint32_t { kPjrtTiledLayout = 0, kPjrtStridesLayout = 1 };

struct PJRT_Buffer_MemoryLayout_Tiled {
  KRAFLA_PJRT_HEAD
  const int64_t* minor_to_major;
  size_t minor_to_major_size;
  const int64_t* tile_dims;
  const size_t* tile_dim_sizes;
  size_t num_tiles;
};

struct PJRT_Buffer_MemoryLayout_Strides {
  KRAFLA_PJRT_HEAD
  const int64_t* byte_strides;
  size_t num_byte_strides;
};

struct PJRT_Buffer_MemoryLayout {
  KRAFLA_PJRT_HEAD
  union {
    PJRT_Buffer_MemoryLayout_Tiled tiled;
    PJRT_Buffer_MemoryLayout_Strides strides;
  };
  PJRT_Buffer_MemoryLayout_Type type;
};

struct PJRT_ShapeSpec {
  KRAFLA_PJRT_HEAD
  const int64_t* dims;
  size_t num_dims;
  PJRT_Buffer_Type element_type;
};

struct PJRT_ExecuteOptions {
  KRAFLA_PJRT_HEAD
  void** send_callbacks;
  void** recv_callbacks;
  size_t num_send_ops;
  size_t num_recv_ops;
  int32_t launch_id;
  const int64_t* non_donatable_input_indices;
  size_t num_non_donatable_input_indices;
  PJRT_ExecuteContext* context;
  const char* call_location;
  size_t num_tasks;
  int* task_ids;
  int64_t* incarnation_ids;
  const char* multi_slice_config;
  bool use_major_to_minor_data_layout_for_callbacks;
  void* hlo_output_callbacks;
  size_t num_hlo_output_callbacks;
};

struct PJRT_LogicalDeviceIds {
  int32_t replica;
  int32_t partition;
};

struct PJRT_LoadOptions {
  size_t struct_size;
  void* computation_origin;
  size_t computation_origin_size;
  const char* multi_slice_config;
};

struct PJRT_ProcessInfo {
  size_t struct_size;
  int32_t task_id;
  uint64_t incarnation_id;
  uint32_t state;
  int32_t error_code;
  const char* error_message;
  size_t error_message_size;
};

struct PJRT_Chunk {
  void* data;
  size_t size;
  void (*deleter)(void* data, void* deleter_arg);
  void* deleter_arg;
};

// The callee owns the error, which is null for success.
using PJRT_Event_OnReadyCallback = void (*)(PJRT_Error* error, void* user_arg);
using PJRT_Error_PayloadVisitor = void (*)(const char* key, size_t key_size, const char* value, size_t value_size,
                                           void* user_arg);

// Errors and memories begin with a pointer to one of these.
struct PJRT_Error_FunctionTable {
  size_t struct_size;
  size_t instance_size;
  PJRT_Extension_Base* extension_start;
  void (*destroy)(PJRT_Error* error);
  void (*message)(const PJRT_Error* error, const char** message, size_t* message_size);
  PJRT_Error_Code (*get_code)(const PJRT_Error* error);
  void (*for_each_payload)(const PJRT_Error* error, PJRT_Error_PayloadVisitor visitor, void* user_arg);
};

struct PJRT_Memory_FunctionTable {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  size_t instance_struct_size;
  void* (*get_user_data)(PJRT_Memory* memory, const void* key);
  void (*set_user_data)(PJRT_Memory* memory, const void* key, void* data, void (*destructor)(void* data));
};

struct PJRT_Buffer_CopyRawToHostFuture_Callback_Args {
  size_t struct_size;
  void* callback_data;
  PJRT_Error_Code error_code;
  const char* error_message;
  size_t error_message_size;
  void* dst;
};

struct PJRT_Buffer_DonateWithControlDependency_Callback_Args {
  size_t struct_size;
  void* callback_data;
  PJRT_Error_Code error_code;
  const char* error_message;
  size_t error_message_size;
};

struct PJRT_Layouts_MemoryLayout_Destroy_Args {
  KRAFLA_PJRT_HEAD
  PJRT_Layouts_MemoryLayout* layout;
};

struct PJRT_Layouts_MemoryLayout_Serialize_Args {
  KRAFLA_PJRT_HEAD
  PJRT_Layouts_MemoryLayout* layout;
  const char* serialized_bytes;
  size_t serialized_bytes_size;
  PJRT_Layouts_SerializedLayout* serialized_layout;  // owns the bytes, until the caller deletes it
  void (*serialized_layout_deleter)(PJRT_Layouts_SerializedLayout* layout);
};

struct PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args {
  KRAFLA_PJRT_HEAD
  PJRT_Client* client;
  PJRT_Buffer_Type type;
  const int64_t* dims;
  size_t num_dims;
  PJRT_Layouts_MemoryLayout* layout;  // the caller's
};

struct PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args {
  KRAFLA_PJRT_HEAD
  PJRT_Buffer* buffer;
  PJRT_Layouts_MemoryLayout* layout;  // the caller's
};

struct PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args {
  KRAFLA_PJRT_HEAD
  PJRT_TopologyDescription* topology_description;
  PJRT_Buffer_Type type;
  const int64_t* dims;
  size_t num_dims;
  PJRT_Layouts_MemoryLayout* layout;  // the caller's
};

struct PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args {
  KRAFLA_PJRT_HEAD
  PJRT_Executable* executable;
  size_t num_outputs;
  PJRT_Layouts_MemoryLayout** layouts;  // the executable's
};

struct PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args {
  KRAFLA_PJRT_HEAD
  PJRT_Executable* executable;
  size_t num_parameters;
  PJRT_Layouts_MemoryLayout** layouts;  // the executable's
};

struct PJRT_Layouts_Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*PJRT_Layouts_MemoryLayout_Destroy)(PJRT_Layouts_MemoryLayout_Destroy_Args* args);
  PJRT_Error* (*PJRT_Layouts_MemoryLayout_Serialize)(PJRT_Layouts_MemoryLayout_Serialize_Args* args);
  PJRT_Error* (*PJRT_Layouts_PJRT_Client_GetDefaultLayout)(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args* args);
  PJRT_Error* (*PJRT_Layouts_PJRT_Buffer_MemoryLayout)(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args* args);
  PJRT_Error* (*PJRT_Layouts_PJRT_Topology_GetDefaultLayout)(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args* args);
  PJRT_Error* (*PJRT_Layouts_PJRT_Executable_GetOutputLayouts)(
      PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args* args);
  PJRT_Error* (*PJRT_Layouts_PJRT_Executable_GetParameterLayouts)(
      PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args* args);
};

struct PJRT_Shardings_PJRT_Executable_ParameterShardings_Args {
  KRAFLA_PJRT_HEAD
  PJRT_Executable* executable;
  size_t num_parameters;
  const char* const* shardings;  // one serialized OpSharding a parameter
  const size_t* sharding_sizes;
};

struct PJRT_Shardings_PJRT_Executable_OutputShardings_Args {
  KRAFLA_PJRT_HEAD
  PJRT_Executable* executable;
  size_t num_outputs;
  const char* const* shardings;
  const size_t* sharding_sizes;
};

struct PJRT_Shardings_Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*PJRT_Shardings_PJRT_Executable_ParameterShardings)(
      PJRT_Shardings_PJRT_Executable_ParameterShardings_Args* args);
  PJRT_Error* (*PJRT_Shardings_PJRT_Executable_OutputShardings)(
      PJRT_Shardings_PJRT_Executable_OutputShardings_Args* args);
};
