// SPDX-License-Identifier: Apache-2.0
// What the handles of krafla/krafla.h are, and what its functions share.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/without_exceptions.h"
#include "krafla/krafla.h"
#include "krafla/session.h"

struct krafla_status {
  krafla::StatusCode code;
  std::string message;
};
struct krafla_text {
  std::string text;
};
struct krafla_devices {
  std::vector<krafla::DeviceInfo> devices;
};
struct krafla_client {
  krafla::LocalClient client;
};
struct krafla_session {
  krafla::Session session;
};
struct krafla_buffer {
  krafla::Buffer buffer;
  std::mutex mutex = {};  // of what follows
  std::optional<krafla::Buffer::View> view = {};
};
struct krafla_submission {
  std::optional<krafla::Submission> submission;  // always, once the caller has it
};
struct krafla_cancel {
  std::stop_source stop;
};

namespace krafla::capi {

// A status for the caller; one that needs no memory where there is none.
krafla_status* ToC(const Status& status);

// f(), which gives a Result<>, as functions of the C interface end.
template <typename F>
krafla_status* Guarded(F&& f) {
  const Result<> result = WithoutExceptions([&]() -> Result<> { return f(); });
  return result ? nullptr : ToC(result.error());
}

inline Failure NullPointer(std::string_view what) { return InvalidArgument("{} is a null pointer.", what); }

#define KRAFLA_NOT_NULL(pointer) \
  if ((pointer) == nullptr) return ::krafla::capi::NullPointer(#pointer)

// A struct of the caller's, as this library knows it: fields that the caller's header did not have are zero. `first`:
// the bytes of the first version. INVALID_ARGUMENT for fewer, and for fields set that are not known here.
template <typename T>
Result<T> Taken(const T* given, std::string_view what, std::size_t first = sizeof(T)) {
  T out{};
  out.struct_size = sizeof(T);
  if (given == nullptr) return out;
  std::size_t size = 0;
  std::memcpy(&size, given, sizeof(size));
  constexpr std::size_t kMost = 4096;  // what no header of ours comes to
  if (size < first || size > kMost)
    return InvalidArgument("{}.struct_size is {}; set it to sizeof, which is {} here.", what, size, sizeof(T));
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t i = sizeof(T); i < size; ++i)
    if (bytes[i] != 0)
      return InvalidArgument("{} has a field that krafla {} does not know: byte {} is not zero.", what,
                             KRAFLA_VERSION_STRING, i);
  std::memcpy(&out, given, std::min(size, sizeof(T)));
  return out;
}

Result<ClientOptions> ToClientOptions(const krafla_client_options* options);
Result<Shape> ToShape(int32_t type, const int64_t* dims, std::size_t rank);
Result<RunOptions> ToRunOptions(const krafla_run_options* options);
Result<> FillInfo(const std::string& name, const Shape& shape, krafla_tensor_info* info);

}  // namespace krafla::capi
