// SPDX-License-Identifier: Apache-2.0
// Of krafla/krafla.h: the library, statuses, texts, types, devices and clients.
#include <algorithm>
#include <new>

#include "api/c/handles.h"
#include "krafla/hooks.h"

namespace krafla::capi {
namespace {

// What an error is when there is no memory for one; never freed.
krafla_status* NoMemory() {
  static krafla_status* status =
      new krafla_status{StatusCode::kResourceExhausted, "The host has no memory left, not even for this message."};
  return status;
}
// Made when the library is loaded, as there is memory then.
[[maybe_unused]] krafla_status* const kNoMemory = NoMemory();

static_assert(KRAFLA_F8E8M0FNU + 1 == kElementTypeCount, "enum krafla_type has a line for each element type");

std::optional<ElementType> TypeOf(int32_t type) {
  if (type <= 0 || type >= kElementTypeCount || !IsArrayType(static_cast<ElementType>(type))) return std::nullopt;
  return static_cast<ElementType>(type);
}

}  // namespace

Result<ClientOptions> ToClientOptions(const krafla_client_options* given) {
  KRAFLA_ASSIGN(const krafla_client_options options, Taken(given, "krafla_client_options"));
  ClientOptions out;
  out.threads = options.threads;
  if (options.wait_limit_ms < 0)
    return InvalidArgument("krafla_client_options.wait_limit_ms is {}; it is a number of milliseconds, or 0.",
                           options.wait_limit_ms);
  if (options.wait_limit_ms > 0) out.wait_limit = std::chrono::milliseconds(options.wait_limit_ms);
  if (options.cache_folder != nullptr) out.cache_folder = options.cache_folder;
  out.memory_limit = options.memory_limit;
  if (options.parallel_for != nullptr) {
    out.parallel_for = [call = options.parallel_for, user = options.parallel_for_user](
                           int tasks, const std::function<void(int)>& run) {
      const auto task = [](int32_t index, void* data) { (*static_cast<const std::function<void(int)>*>(data))(index); };
      call(tasks, task, const_cast<void*>(static_cast<const void*>(&run)), user);
    };
  }
  return out;
}

Result<Shape> ToShape(int32_t type, const int64_t* dims, std::size_t rank) {
  if (rank > 0) KRAFLA_NOT_NULL(dims);
  const std::optional<ElementType> known = TypeOf(type);
  if (!known) return InvalidArgument("Unknown element type {}; enum krafla_type lists them.", type);
  return Shape::MakeArray(*known, std::span(dims, rank));
}

krafla_status* ToC(const Status& status) {
  try {
    std::string message = status.message();
    for (const std::string& line : status.context()) message += "\n  " + line;
    return new krafla_status{status.code(), std::move(message)};
  } catch (const std::bad_alloc&) { return NoMemory(); }
}

Result<> FillInfo(const std::string& name, const Shape& shape, krafla_tensor_info* info) {
  KRAFLA_NOT_NULL(info);
  KRAFLA_ASSIGN(krafla_tensor_info out, Taken(info, "krafla_tensor_info"));
  const std::size_t size = std::min(info->struct_size, sizeof(out));
  out.struct_size = info->struct_size;
  out.name = name.c_str();
  out.type = static_cast<int32_t>(shape.element_type());
  out.rank = static_cast<int32_t>(shape.rank());
  out.dims = shape.dims().data();
  out.dynamic = 0;
  for (int64_t d = 0; d < shape.rank(); ++d)
    if (shape.IsDynamicDim(d)) out.dynamic |= uint64_t{1} << d;
  out.bytes = static_cast<size_t>(shape.byte_size());
  std::memcpy(info, &out, size);
  return {};
}

}  // namespace krafla::capi

using namespace krafla;        // NOLINT: C has no namespaces
using namespace krafla::capi;  // NOLINT

uint32_t krafla_abi_version(void) { return KRAFLA_ABI_VERSION; }
const char* krafla_version(void) { return KRAFLA_VERSION_STRING; }

krafla_status* krafla_set_log_sink(krafla_log_sink sink, void* user) {
  return Guarded([&]() -> Result<> {
    if (sink == nullptr) {
      SetLogSink({});
      return {};
    }
    SetLogSink([sink, user](LogLevel level, std::string_view message) {
      const std::string text(message);
      sink(static_cast<int32_t>(level), text.c_str(), text.size(), user);
    });
    return {};
  });
}

krafla_status* krafla_set_allocator(krafla_allocate allocate, krafla_release release, void* user) {
  return Guarded([&] { return SetArrayAllocator({allocate, release, user}); });
}

int32_t krafla_status_code(const krafla_status* status) {
  return status == nullptr ? KRAFLA_OK : static_cast<int32_t>(status->code);
}
const char* krafla_status_message(const krafla_status* status) {
  return status == nullptr ? "" : status->message.c_str();
}
void krafla_status_free(krafla_status* status) {
  if (status != NoMemory()) delete status;
}
const char* krafla_code_name(int32_t code) {
  if (code == KRAFLA_OK) return "OK";
  if (code < KRAFLA_CANCELLED || code > KRAFLA_UNAUTHENTICATED) return "UNKNOWN";
  return StatusCodeName(static_cast<StatusCode>(code)).data();  // of literals, which end in a zero byte
}

const char* krafla_text_data(const krafla_text* text) { return text == nullptr ? "" : text->text.c_str(); }
size_t krafla_text_size(const krafla_text* text) { return text == nullptr ? 0 : text->text.size(); }
void krafla_text_free(krafla_text* text) { delete text; }

const char* krafla_type_name(int32_t type) {
  const std::optional<ElementType> known = TypeOf(type);
  return known ? ElementTypeName(*known).data() : "";  // of literals, which end in a zero byte
}
size_t krafla_type_bytes(int32_t type) {
  const std::optional<ElementType> known = TypeOf(type);
  return known ? static_cast<size_t>(StorageBytes(*known)) : 0;
}

krafla_status* krafla_devices_list(krafla_devices** devices) {
  return Guarded([&]() -> Result<> {
    KRAFLA_NOT_NULL(devices);
    *devices = new krafla_devices{LocalClient::Devices()};
    return {};
  });
}
size_t krafla_devices_count(const krafla_devices* devices) { return devices == nullptr ? 0 : devices->devices.size(); }
const char* krafla_devices_selector(const krafla_devices* devices, size_t i) {
  return i < krafla_devices_count(devices) ? devices->devices[i].selector.c_str() : "";
}
const char* krafla_devices_description(const krafla_devices* devices, size_t i) {
  return i < krafla_devices_count(devices) ? devices->devices[i].description.c_str() : "";
}
void krafla_devices_free(krafla_devices* devices) { delete devices; }

krafla_status* krafla_client_create(const char* selector, const krafla_client_options* options,
                                    krafla_client** client) {
  return Guarded([&]() -> Result<> {
    KRAFLA_NOT_NULL(client);
    KRAFLA_ASSIGN(const ClientOptions taken, ToClientOptions(options));
    KRAFLA_ASSIGN(LocalClient made, LocalClient::Create(selector == nullptr ? "" : selector, taken));
    *client = new krafla_client{std::move(made)};
    return {};
  });
}
const char* krafla_client_selector(const krafla_client* client) {
  return client == nullptr ? "" : client->client.device().selector.c_str();
}
const char* krafla_client_description(const krafla_client* client) {
  return client == nullptr ? "" : client->client.device().description.c_str();
}
void krafla_client_free(krafla_client* client) { delete client; }

krafla_status* krafla_cancel_create(krafla_cancel** cancel) {
  return Guarded([&]() -> Result<> {
    KRAFLA_NOT_NULL(cancel);
    *cancel = new krafla_cancel{};
    return {};
  });
}
void krafla_cancel_request(krafla_cancel* cancel) {
  if (cancel != nullptr) cancel->stop.request_stop();
}
void krafla_cancel_free(krafla_cancel* cancel) { delete cancel; }

krafla_status* krafla_buffer_create(const krafla_client* client, int32_t type, const int64_t* dims, size_t rank,
                                    const void* data, size_t size, int32_t host_memory, void (*release)(void* user),
                                    void* user, krafla_buffer** buffer) {
  std::function<void()> released;
  if (release != nullptr) released = [release, user] { release(user); };
  bool is_handed_over = false;
  krafla_status* status = Guarded([&]() -> Result<> {
    KRAFLA_NOT_NULL(client);
    KRAFLA_NOT_NULL(buffer);
    if (size > 0) KRAFLA_NOT_NULL(data);
    if (host_memory != KRAFLA_COPY && host_memory != KRAFLA_SHARE)
      return InvalidArgument("host_memory is {}; it is KRAFLA_COPY or KRAFLA_SHARE.", host_memory);
    KRAFLA_ASSIGN(const Shape shape, ToShape(type, dims, rank));
    is_handed_over = true;
    KRAFLA_ASSIGN(Buffer made, Buffer::FromHost(client->client, shape, {static_cast<const std::byte*>(data), size},
                                                host_memory == KRAFLA_SHARE ? HostMemory::kShare : HostMemory::kCopy,
                                                std::move(released)));
    *buffer = new krafla_buffer{std::move(made)};
    return {};
  });
  if (!is_handed_over && release != nullptr) release(user);
  return status;
}
krafla_status* krafla_buffer_info(const krafla_buffer* buffer, krafla_tensor_info* info) {
  return Guarded([&]() -> Result<> {
    KRAFLA_NOT_NULL(buffer);
    static const std::string kNoName;
    return FillInfo(kNoName, buffer->buffer.shape(), info);
  });
}
krafla_status* krafla_buffer_wait(const krafla_buffer* buffer) {
  return Guarded([&]() -> Result<> {
    KRAFLA_NOT_NULL(buffer);
    return buffer->buffer.Wait();
  });
}
krafla_status* krafla_buffer_read(const krafla_buffer* buffer, void* data, size_t size) {
  return Guarded([&]() -> Result<> {
    KRAFLA_NOT_NULL(buffer);
    if (size > 0) KRAFLA_NOT_NULL(data);
    return buffer->buffer.ReadTo({static_cast<std::byte*>(data), size});
  });
}
krafla_status* krafla_buffer_view(krafla_buffer* buffer, const void** data, size_t* size) {
  return Guarded([&]() -> Result<> {
    KRAFLA_NOT_NULL(buffer);
    KRAFLA_NOT_NULL(data);
    KRAFLA_NOT_NULL(size);
    // Those who hold a view see the same bytes as the next who asks.
    const std::lock_guard lock(buffer->mutex);
    if (!buffer->view) { KRAFLA_ASSIGN(buffer->view, buffer->buffer.Read()); }
    *data = buffer->view->bytes.data();
    *size = buffer->view->bytes.size();
    return {};
  });
}
void krafla_buffer_free(krafla_buffer* buffer) { delete buffer; }
