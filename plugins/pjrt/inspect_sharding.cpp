// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/inspect_sharding.h"

#include <cstddef>
#include <cstring>
#include <string>

#include "api/op_sharding.h"

namespace krafla::pjrt {
namespace {

// Both as JAX has them, JAX_InspectSharding_Callback_Args and JAX_InspectSharding_Callback.
struct CallbackArgs {
  char* sharding;  // serialized OpSharding
  std::size_t sharding_size;
  const char* error;  // set by the function, null without one
  void* scratch;
  void (*free_error)(CallbackArgs* args);
};
struct Callback {
  void (*call)(void* data, CallbackArgs* args);
  void* data;
};

}  // namespace

Result<> TellSharding(std::string_view config, std::string_view sharding) {
  Callback callback;
  if (config.size() != sizeof(callback))
    return InvalidArgument("The backend_config of the custom call 'InspectSharding' has {} bytes, not the {} of JAX's.",
                           config.size(), sizeof(callback));
  std::memcpy(&callback, config.data(), sizeof(callback));
  if (callback.call == nullptr) return InvalidArgument("The custom call 'InspectSharding' names no function.");
  KRAFLA_ASSIGN(std::string bytes, SerializeOpSharding(sharding));
  CallbackArgs args{bytes.data(), bytes.size(), nullptr, nullptr, nullptr};
  callback.call(callback.data, &args);
  if (args.error == nullptr) return {};
  const std::string error = args.error;
  if (args.free_error != nullptr) args.free_error(&args);
  return Internal("The function that inspects a sharding failed: {}.", error);
}

}  // namespace krafla::pjrt
