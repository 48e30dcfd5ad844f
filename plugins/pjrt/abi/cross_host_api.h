// SPDX-License-Identifier: Apache-2.0
// The binary interface of arrays between processes (openxla/xla,
// xla/pjrt/extensions/cross_host_transfers/pjrt_c_api_cross_host_transfers_extension.h, versions 2 to 8), which the
// extension CrossHostTransfers points to. Names are PJRT's, as the interface is; the declarations are our own.
//
// Numbers of devices have 4 bytes in some versions and 8 in others, and nothing says which: they are bytes here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plugins/pjrt/abi/pjrt_types.h"

struct PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args {
  KRAFLA_PJRT_HEAD
  PJRT_Client* client;
  size_t num_buffers;
  PJRT_Buffer** buffers;
  const void* dst_global_device_ids;
  const int64_t* transfer_keys;
  PJRT_Event** send_events;  // the caller's room
};

struct PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args {
  KRAFLA_PJRT_HEAD
  PJRT_Client* client;
  size_t num_shapes;
  size_t* shape_num_dims;
  const int64_t** num_dims;  // the dimensions, for all that they are called
  PJRT_Buffer_Type* element_types;
  PJRT_Buffer_MemoryLayout** layouts;
  PJRT_Device* device;
  const void* src_global_device_ids;
  const int64_t* transfer_keys;
  PJRT_Buffer** buffers;  // the caller's room
};

// The first form of the interface: the receiver makes a descriptor, which the caller brings to the sender.
struct PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args {
  KRAFLA_PJRT_HEAD
  PJRT_Client* client;
};

struct PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice_Args {
  KRAFLA_PJRT_HEAD
  PJRT_Buffer* buffer;
  PJRT_Event* event;  // the plugin frees it
  char** serialized_descriptor;
  size_t* serialized_descriptor_size;
  void* user_arg;
  void (*on_done)(PJRT_Error* error, bool sends_were_enqueued, void* user_arg);
};

struct PJRT_CrossHostTransfers_Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers)(
      PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args* args);
  void (*PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice)(PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice_Args* args);
  PJRT_Error* (*PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers)(
      PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args* args);
  PJRT_Error* (*PJRT_Transfers_PJRT_Client_CrossHostSendBuffers)(
      PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args* args);
};
