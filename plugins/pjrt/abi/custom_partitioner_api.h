// SPDX-License-Identifier: Apache-2.0
// The binary interface by which callers say how custom calls of theirs are cut (openxla/xla,
// xla/pjrt/c/pjrt_c_api_custom_partitioner_extension.h, version 1). Names are PJRT's and JAX's, as the interface is;
// the declarations are our own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plugins/pjrt/abi/pjrt_types.h"

struct JAX_CustomCallPartitioner_string {
  const char* data;
  size_t size;
};

struct JAX_CustomCallPartitioner_aval {
  JAX_CustomCallPartitioner_string shape;  // ShapeProto
  bool has_sharding;
  JAX_CustomCallPartitioner_string sharding;  // OpSharding
};

// What every struct of arguments begins with. Results live until cleanup_fn has been called.
struct JAX_CustomCallPartitioner_version_and_error {
  int64_t api_version;
  void* data;
  void (*cleanup_fn)(void* data);
  bool has_error;
  PJRT_Error_Code code;
  JAX_CustomCallPartitioner_string error_msg;
};

struct JAX_CustomCallPartitioner_Partition_Args {
  JAX_CustomCallPartitioner_version_and_error header;
  size_t num_args;
  JAX_CustomCallPartitioner_aval* op_args;
  JAX_CustomCallPartitioner_aval op_result;
  JAX_CustomCallPartitioner_string backend_config;
  // Results.
  JAX_CustomCallPartitioner_string mlir_module;
  JAX_CustomCallPartitioner_string* args_sharding;
  JAX_CustomCallPartitioner_string result_sharding;
};

struct JAX_CustomCallPartitioner_InferShardingFromOperands_Args {
  JAX_CustomCallPartitioner_version_and_error header;
  size_t num_args;
  JAX_CustomCallPartitioner_aval* op_args;
  JAX_CustomCallPartitioner_string result_shape;
  JAX_CustomCallPartitioner_string backend_config;
  // Results.
  bool has_result_sharding;
  JAX_CustomCallPartitioner_string result_sharding;
};

struct JAX_CustomCallPartitioner_PropagateUserSharding_Args;

struct JAX_CustomCallPartitioner_Callbacks {
  int64_t version;
  void* private_data;
  void (*dtor)(JAX_CustomCallPartitioner_Callbacks* self);
  void (*partition)(JAX_CustomCallPartitioner_Callbacks* self, JAX_CustomCallPartitioner_Partition_Args* args);
  void (*infer_sharding)(JAX_CustomCallPartitioner_Callbacks* self,
                         JAX_CustomCallPartitioner_InferShardingFromOperands_Args* args);
  void (*propagate_user_sharding)(JAX_CustomCallPartitioner_Callbacks* self,
                                  JAX_CustomCallPartitioner_PropagateUserSharding_Args* args);
  bool can_side_effecting_have_replicated_sharding;
};

struct PJRT_Register_Custom_Partitioner_Args {
  size_t struct_size;
  const char* name;
  size_t name_size;
  JAX_CustomCallPartitioner_Callbacks* callbacks;  // the plugin's from here on
};

struct PJRT_Register_Batch_Partitionable_Args {
  size_t struct_size;
  const char* name;
  size_t name_size;
};

struct PJRT_Custom_Partitioner_Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*register_custom_partitioner)(PJRT_Register_Custom_Partitioner_Args* args);
  PJRT_Error* (*register_batch_partitionable)(PJRT_Register_Batch_Partitionable_Args* args);
};
