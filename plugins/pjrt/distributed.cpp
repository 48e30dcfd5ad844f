// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/distributed.h"

#include <optional>

#include "api/group/processes.h"
#include "plugins/pjrt/error.h"
#include "plugins/pjrt/named_values.h"
#include "transport/wire.h"

namespace krafla::pjrt {
namespace {

// Processes compile for minutes before they meet; one that dies is noticed at once all the same.
constexpr int64_t kTimeLimitSeconds = 600;

PJRT_Error* CallbackError(PJRT_Error_Code code, const char* message, std::size_t size) {
  return NewError(StatusFrom(code, message, size));
}
PJRT_CallbackError callback_error = &CallbackError;

Result<> Taken(PJRT_Error* error) {
  if (error == nullptr) return {};
  const char* message = nullptr;
  std::size_t size = 0;
  error->vtable->message(error, &message, &size);
  Status status = StatusFrom(error->vtable->get_code(error), message, size);
  error->vtable->destroy(error);
  return Failure(std::move(status));
}

transport::KeyValueStore StoreOf(const PJRT_Client_Create_Args& args) {
  transport::KeyValueStore out;
  out.put = [put = args.kv_put_callback, user = args.kv_put_user_arg](const std::string& key,
                                                                      std::string_view value) -> Result<> {
    PJRT_KeyValuePutCallback_Args call{};
    call.struct_size = sizeof(call);
    call.key = key.data();
    call.key_size = key.size();
    call.value = value.data();
    call.value_size = value.size();
    call.callback_error = &callback_error;
    call.user_arg = user;
    return Taken(put(&call));
  };
  out.get = [get = args.kv_get_callback, user = args.kv_get_user_arg](
                const std::string& key, std::chrono::milliseconds limit) -> Result<std::string> {
    PJRT_KeyValueGetCallback_Args call{};
    call.struct_size = sizeof(call);
    call.key = key.data();
    call.key_size = key.size();
    call.timeout_in_ms = static_cast<int>(limit.count());
    call.callback_error = &callback_error;
    call.user_arg = user;
    KRAFLA_TRY(Taken(get(&call)));
    std::string value(call.value, call.value_size);
    if (call.value_deleter_callback != nullptr) call.value_deleter_callback(call.value);
    return value;
  };
  return out;
}

std::string Tell(const std::vector<std::shared_ptr<Client>>& members) {
  transport::WireWriter out;
  out.Number(members.size());
  for (const std::shared_ptr<Client>& m : members)
    for (const std::string& text : {m->device().selector, m->device().name, m->device().description}) out.Text(text);
  return out.Take();
}

}  // namespace

Result<Distributed> MeetProcesses(const PJRT_Client_Create_Args& args,
                                  const std::vector<std::shared_ptr<Client>>& members) {
  Distributed out;
  const auto find = [&](std::string_view name) { return FindInteger(args.create_options, args.num_options, name); };
  KRAFLA_ASSIGN(const std::optional<int64_t> node, find("node_id"));
  KRAFLA_ASSIGN(const std::optional<int64_t> nodes, find("num_nodes"));
  KRAFLA_ASSIGN(const std::optional<int64_t> seconds, find("time_limit"));
  KRAFLA_ASSIGN(const auto transport, FindText(args.create_options, args.num_options, "transport"));
  if (seconds && (*seconds < 1 || *seconds > 1'000'000))
    return InvalidArgument("The option 'time_limit' is seconds from 1 to 1000000, not {}.", *seconds);
  if (nodes.value_or(1) <= 1) {
    for (const std::shared_ptr<Client>& m : members)
      out.devices.push_back({0, m->device().selector, m->device().name, m->device().description});
    return out;
  }
  const int64_t rank = node.value_or(0);
  KRAFLA_TRY(transport::CheckRank(rank, *nodes));
  if (args.kv_get_callback == nullptr || args.kv_put_callback == nullptr)
    return InvalidArgument("This is process {} of {}, and the caller gives no store by which they find each other.",
                           rank, *nodes);
  ProcessOptions options;
  options.time_limit = std::chrono::seconds(seconds.value_or(kTimeLimitSeconds));
  if (transport) options.transport = *transport;
  DeviceGroup group(members);
  const auto size = static_cast<int>(*nodes);
  KRAFLA_TRY(JoinProcesses(
      group, transport::BootstrapThrough(StoreOf(args), "krafla", static_cast<int>(rank), size, options.time_limit),
      options));
  out.world = group.world();
  out.process = static_cast<int>(rank);
  std::vector<int> ranks;
  for (int r = 0; r < size; ++r) ranks.push_back(r);
  const transport::Patience patience{transport::Clock::now() + options.time_limit};
  KRAFLA_ASSIGN(const std::vector<std::string> told, out.world->AllGather(ranks, "devices", Tell(members), patience));
  for (int r = 0; r < size; ++r) {
    transport::WireReader in(told[static_cast<std::size_t>(r)]);
    const auto count = static_cast<int>(in.Number());
    if (count != out.world->device_count(r))
      return DataLoss("{} has told of {} devices, not of {}.", out.world->name(r), count, out.world->device_count(r));
    for (int d = 0; d < count; ++d) {
      DistributedDevice device;
      device.process = r;
      for (std::string* text : {&device.selector, &device.name, &device.description}) *text = in.Text();
      out.devices.push_back(std::move(device));
    }
  }
  return out;
}

}  // namespace krafla::pjrt
