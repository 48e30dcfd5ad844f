// SPDX-License-Identifier: Apache-2.0
// The extension Profiler: jax.profiler makes a profiler for each trace, starts and stops it, and asks for an XSpace.
#include "plugins/pjrt/profiler.h"

#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>

#include "plugins/pjrt/trace.h"

struct PLUGIN_Profiler {
  const std::shared_ptr<krafla::pjrt::Trace> trace = std::make_shared<krafla::pjrt::Trace>();
  std::optional<std::string> data;  // once it was asked for
};

struct PLUGIN_Profiler_Error {
  krafla::Status status;
};

namespace krafla::pjrt {
namespace {

// The border, as Enter (entry.h) is for PJRT's own functions. XLA's tracer leaves the size of the struct for Stop
// unset, so it is not looked at: the fields have been the same since the interface's first version.
template <typename Args>
PLUGIN_Profiler_Error* EnterProfiler(const char* name, Args* args, Result<> (*function)(Args&)) noexcept {
  try {
    Result<> done = args == nullptr ? InvalidArgument("{} was called with no arguments.", name) : function(*args);
    return done ? nullptr : new PLUGIN_Profiler_Error{done.error()};
  } catch (const std::exception& e) {
    return new (std::nothrow) PLUGIN_Profiler_Error{Internal("{} failed: {}.", name, e.what()).error()};
  }
}

Result<> Create(PLUGIN_Profiler_Create_Args& args) {
  args.profiler = new PLUGIN_Profiler;
  return {};
}

Result<> Destroy(PLUGIN_Profiler_Destroy_Args& args) {
  if (args.profiler != nullptr) Trace::Stop(args.profiler->trace);
  delete args.profiler;
  return {};
}

Result<> Start(PLUGIN_Profiler_Start_Args& args) {
  if (args.profiler == nullptr) return InvalidArgument("There is no profiler to start.");
  if (!Trace::Start(args.profiler->trace)) return FailedPrecondition("Another profiler is recording already.");
  return {};
}

Result<> Stop(PLUGIN_Profiler_Stop_Args& args) {
  if (args.profiler == nullptr) return InvalidArgument("There is no profiler to stop.");
  Trace::Stop(args.profiler->trace);
  return {};
}

Result<> CollectData(PLUGIN_Profiler_CollectData_Args& args) {
  if (args.profiler == nullptr) return InvalidArgument("There is no profiler to collect from.");
  std::optional<std::string>& data = args.profiler->data;
  // Kept until the profiler goes: the caller may read it there.
  if (!data) data = args.profiler->trace->Serialize();
  // XLA's tracer calls once, without a buffer, and reads where it is told to; older ones ask for the size first, and
  // call again with a buffer of their own.
  if (args.buffer == nullptr) {
    args.buffer = reinterpret_cast<uint8_t*>(data->data());
  } else {
    if (args.buffer_size_in_bytes < data->size())
      return InvalidArgument("The trace has {} bytes, the buffer {}.", data->size(), args.buffer_size_in_bytes);
    std::memcpy(args.buffer, data->data(), data->size());
  }
  args.buffer_size_in_bytes = data->size();
  return {};
}

PLUGIN_Profiler_Api MakeProfilerApi() {
  PLUGIN_Profiler_Api api = {};
  api.struct_size = sizeof(PLUGIN_Profiler_Api);
  api.error_destroy = [](PLUGIN_Profiler_Error_Destroy_Args* args) { delete args->error; };
  api.error_message = [](PLUGIN_Profiler_Error_Message_Args* args) {
    args->message = args->error->status.message().data();
    args->message_size = args->error->status.message().size();
  };
  api.error_get_code = [](PLUGIN_Profiler_Error_GetCode_Args* args) -> PLUGIN_Profiler_Error* {
    args->code = static_cast<int>(args->error->status.code());
    return nullptr;
  };
  api.create = [](PLUGIN_Profiler_Create_Args* args) { return EnterProfiler("PLUGIN_Profiler_Create", args, &Create); };
  api.destroy = [](PLUGIN_Profiler_Destroy_Args* args) {
    return EnterProfiler("PLUGIN_Profiler_Destroy", args, &Destroy);
  };
  api.start = [](PLUGIN_Profiler_Start_Args* args) { return EnterProfiler("PLUGIN_Profiler_Start", args, &Start); };
  api.stop = [](PLUGIN_Profiler_Stop_Args* args) { return EnterProfiler("PLUGIN_Profiler_Stop", args, &Stop); };
  api.collect_data = [](PLUGIN_Profiler_CollectData_Args* args) {
    return EnterProfiler("PLUGIN_Profiler_CollectData", args, &CollectData);
  };
  return api;
}

}  // namespace

PJRT_Profiler_Extension* ProfilerExtension() {
  static PLUGIN_Profiler_Api api = MakeProfilerApi();
  static PJRT_Profiler_Extension extension = [] {
    PJRT_Profiler_Extension out = {};
    out.base.struct_size = sizeof(PJRT_Profiler_Extension);
    out.base.type = kPjrtProfilerExtension;
    out.profiler_api = &api;
    return out;
  }();
  return &extension;
}

}  // namespace krafla::pjrt
