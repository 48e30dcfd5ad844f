// SPDX-License-Identifier: Apache-2.0
// The plugin through its C interface, with as little around it as tests can bear.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/pjrt/abi/pjrt_api.h"

namespace krafla::pjrt_test {

inline constexpr PJRT_Buffer_Type kS32 = 4, kF32 = 11, kS4 = 21, kU4 = 22, kPredType = 1;

inline const PJRT_Api& Api() {
  static const PJRT_Api* const api = [] {
    void* library = dlopen(KRAFLA_PJRT_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      ADD_FAILURE() << dlerror();
      std::abort();
    }
    return reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"))();
  }();
  return *api;
}

template <typename Args>
Args Make() {
  Args args = {};
  args.struct_size = sizeof(Args);
  return args;
}

struct Error {
  PJRT_Error_Code code = 0;
  std::string message;
};

// Takes the error apart and destroys it; code 0 for none.
inline Error Take(PJRT_Error* error) {
  Error out;
  if (error == nullptr) return out;
  auto code = Make<PJRT_Error_GetCode_Args>();
  code.error = error;
  EXPECT_EQ(Api().PJRT_Error_GetCode(&code), nullptr);
  out.code = code.code;
  auto message = Make<PJRT_Error_Message_Args>();
  message.error = error;
  Api().PJRT_Error_Message(&message);
  out.message.assign(message.message, message.message_size);
  auto destroy = Make<PJRT_Error_Destroy_Args>();
  destroy.error = error;
  Api().PJRT_Error_Destroy(&destroy);
  return out;
}

#define EXPECT_PJRT_OK(call)                                                         \
  do {                                                                               \
    const ::krafla::pjrt_test::Error krafla_error = ::krafla::pjrt_test::Take(call); \
    EXPECT_EQ(krafla_error.code, 0u) << krafla_error.message;                        \
  } while (false)

// Handles that destroy themselves.
template <typename T, typename Args, auto kSlot, auto kField>
struct Destroy {
  void operator()(T* handle) const {
    auto args = Make<Args>();
    args.*kField = handle;
    EXPECT_EQ((Api().*kSlot)(&args), nullptr);
  }
};
using Event = std::unique_ptr<PJRT_Event, Destroy<PJRT_Event, PJRT_Event_Destroy_Args, &PJRT_Api::PJRT_Event_Destroy,
                                                  &PJRT_Event_Destroy_Args::event>>;
using Client = std::unique_ptr<PJRT_Client, Destroy<PJRT_Client, PJRT_Client_Destroy_Args,
                                                    &PJRT_Api::PJRT_Client_Destroy, &PJRT_Client_Destroy_Args::client>>;
using Buffer = std::unique_ptr<PJRT_Buffer, Destroy<PJRT_Buffer, PJRT_Buffer_Destroy_Args,
                                                    &PJRT_Api::PJRT_Buffer_Destroy, &PJRT_Buffer_Destroy_Args::buffer>>;
using Executable =
    std::unique_ptr<PJRT_Executable,
                    Destroy<PJRT_Executable, PJRT_Executable_Destroy_Args, &PJRT_Api::PJRT_Executable_Destroy,
                            &PJRT_Executable_Destroy_Args::executable>>;
using Loaded =
    std::unique_ptr<PJRT_LoadedExecutable,
                    Destroy<PJRT_LoadedExecutable, PJRT_LoadedExecutable_Destroy_Args,
                            &PJRT_Api::PJRT_LoadedExecutable_Destroy, &PJRT_LoadedExecutable_Destroy_Args::executable>>;

inline Client NewClient(std::string_view device) {
  PJRT_NamedValue option = {};
  option.struct_size = sizeof(option);
  option.name = "device";
  option.name_size = 6;
  option.type = kPjrtString;
  option.string_value = device.data();
  option.value_size = device.size();
  auto args = Make<PJRT_Client_Create_Args>();
  args.create_options = &option;
  args.num_options = 1;
  EXPECT_PJRT_OK(Api().PJRT_Client_Create(&args));
  return Client(args.client);
}

inline std::vector<PJRT_Device*> Devices(const Client& client) {
  auto args = Make<PJRT_Client_AddressableDevices_Args>();
  args.client = client.get();
  EXPECT_PJRT_OK(Api().PJRT_Client_AddressableDevices(&args));
  return {args.addressable_devices, args.addressable_devices + args.num_addressable_devices};
}

// CompileOptionsProto{executable_build_options{num_replicas, num_partitions}}
inline std::string Options(int replicas = 1, int partitions = 1) {
  return {0x1a, 0x04, 0x20, static_cast<char>(replicas), 0x28, static_cast<char>(partitions)};
}

inline std::pair<Loaded, Error> TryCompile(const Client& client, std::string_view code, std::string_view format = "hlo",
                                           const std::string& options = Options()) {
  auto program = Make<PJRT_Program>();
  std::string copy(code);
  program.code = copy.data();
  program.code_size = copy.size();
  program.format = format.data();
  program.format_size = format.size();
  auto args = Make<PJRT_Client_Compile_Args>();
  args.client = client.get();
  args.program = &program;
  args.compile_options = options.data();
  args.compile_options_size = options.size();
  Error error = Take(Api().PJRT_Client_Compile(&args));
  return {Loaded(args.executable), std::move(error)};
}
inline Loaded Compile(const Client& client, std::string_view code, std::string_view format = "hlo",
                      const std::string& options = Options()) {
  auto [loaded, error] = TryCompile(client, code, format, options);
  EXPECT_EQ(error.code, 0u) << error.message;
  return std::move(loaded);
}

// An event's outcome; waits for it.
inline Error Await(const Event& event) {
  auto args = Make<PJRT_Event_Await_Args>();
  args.event = event.get();
  return Take(Api().PJRT_Event_Await(&args));
}
inline Error Ready(const Buffer& buffer) {
  auto args = Make<PJRT_Buffer_ReadyEvent_Args>();
  args.buffer = buffer.get();
  if (Error error = Take(Api().PJRT_Buffer_ReadyEvent(&args)); error.code != 0) return error;
  return Await(Event(args.event));
}

template <typename T>
Buffer FromHost(const Client& client, PJRT_Device* device, PJRT_Buffer_Type type, std::span<const int64_t> dims,
                const T* data, std::span<const int64_t> strides = {}) {
  auto args = Make<PJRT_Client_BufferFromHostBuffer_Args>();
  args.client = client.get();
  args.data = data;
  args.type = type;
  args.dims = dims.data();
  args.num_dims = dims.size();
  args.byte_strides = strides.empty() ? nullptr : strides.data();
  args.num_byte_strides = strides.size();
  args.host_buffer_semantics = kPjrtImmutableZeroCopy;
  args.device = device;
  EXPECT_PJRT_OK(Api().PJRT_Client_BufferFromHostBuffer(&args));
  Event done(args.done_with_host_buffer);
  if (done != nullptr) { EXPECT_EQ(Await(done).code, 0u); }
  return Buffer(args.buffer);
}
inline Buffer Floats(const Client& client, PJRT_Device* device, const std::vector<float>& values) {
  const int64_t dims[] = {static_cast<int64_t>(values.size())};
  return FromHost(client, device, kF32, dims, values.data());
}

template <typename T>
std::vector<T> ToHost(const Buffer& buffer) {
  auto args = Make<PJRT_Buffer_ToHostBuffer_Args>();
  args.src = buffer.get();
  EXPECT_PJRT_OK(Api().PJRT_Buffer_ToHostBuffer(&args));
  std::vector<T> out(args.dst_size / sizeof(T));
  T nothing[1];
  args.dst = out.empty() ? nothing : out.data();
  EXPECT_PJRT_OK(Api().PJRT_Buffer_ToHostBuffer(&args));
  const Error error = Await(Event(args.event));
  EXPECT_EQ(error.code, 0u) << error.message;
  return out;
}

struct Outcome {
  std::vector<std::vector<Buffer>> results;  // by device
  std::vector<Event> done;
  Error error;
};

inline Outcome Execute(const Loaded& loaded, const std::vector<std::vector<PJRT_Buffer*>>& arguments,
                       std::vector<int64_t> not_donated = {}) {
  auto get = Make<PJRT_LoadedExecutable_GetExecutable_Args>();
  get.loaded_executable = loaded.get();
  EXPECT_PJRT_OK(Api().PJRT_LoadedExecutable_GetExecutable(&get));
  Executable executable(get.executable);
  auto count = Make<PJRT_Executable_NumOutputs_Args>();
  count.executable = executable.get();
  EXPECT_PJRT_OK(Api().PJRT_Executable_NumOutputs(&count));

  auto options = Make<PJRT_ExecuteOptions>();
  options.non_donatable_input_indices = not_donated.data();
  options.num_non_donatable_input_indices = not_donated.size();
  std::vector<std::vector<PJRT_Buffer*>> outputs(arguments.size(), std::vector<PJRT_Buffer*>(count.num_outputs));
  std::vector<PJRT_Buffer* const*> argument_lists;
  std::vector<PJRT_Buffer**> output_lists;
  for (const auto& list : arguments) argument_lists.push_back(list.data());
  for (auto& list : outputs) output_lists.push_back(list.data());
  std::vector<PJRT_Event*> events(arguments.size());
  auto args = Make<PJRT_LoadedExecutable_Execute_Args>();
  args.executable = loaded.get();
  args.options = &options;
  args.argument_lists = argument_lists.data();
  args.num_devices = arguments.size();
  args.num_args = arguments.empty() ? 0 : arguments[0].size();
  args.output_lists = output_lists.data();
  args.device_complete_events = events.data();
  Outcome out;
  out.error = Take(Api().PJRT_LoadedExecutable_Execute(&args));
  if (out.error.code != 0) return out;
  for (auto& list : outputs) {
    std::vector<Buffer>& own = out.results.emplace_back();
    for (PJRT_Buffer* b : list) own.emplace_back(b);
  }
  for (PJRT_Event* e : events) out.done.emplace_back(e);
  return out;
}
inline bool IsDeleted(const Buffer& buffer) {
  auto args = Make<PJRT_Buffer_IsDeleted_Args>();
  args.buffer = buffer.get();
  EXPECT_PJRT_OK(Api().PJRT_Buffer_IsDeleted(&args));
  return args.is_deleted;
}

inline constexpr std::string_view kAdd = R"(HloModule add
ENTRY main {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  ROOT sum = f32[4] add(a, b)
})";

}  // namespace krafla::pjrt_test
