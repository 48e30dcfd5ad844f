// SPDX-License-Identifier: Apache-2.0
// What is sent is the array as row-major elements of its type, over the connection of the two processes. Keys are
// numbers that callers count up together, each for one array.
#include "plugins/pjrt/cross_host.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "plugins/pjrt/buffer.h"
#include "plugins/pjrt/element_types.h"
#include "plugins/pjrt/entry.h"
#include "plugins/pjrt/event.h"
#include "plugins/pjrt/strided_copy.h"
#include "transport/world.h"

namespace krafla::pjrt {

Arrivals::~Arrivals() {
  for (One& w : waits_) w.thread.request_stop();
  waits_.clear();
}

void Arrivals::Begin(std::function<void(std::stop_token)> wait) {
  std::lock_guard lock(mutex_);
  waits_.remove_if([](const One& w) { return w.done.load(std::memory_order_acquire); });
  One& one = waits_.emplace_back();
  one.thread = std::jthread([&one, wait = std::move(wait)](std::stop_token stop) {
    wait(std::move(stop));
    one.done.store(true, std::memory_order_release);
  });
}

namespace {

template <typename T>
std::optional<int64_t> TheOne(const void* ids, std::size_t count) {
  std::vector<T> numbers(count);
  std::memcpy(numbers.data(), ids, count * sizeof(T));
  if (!std::ranges::all_of(numbers, [&](T n) { return n == numbers[0]; })) return std::nullopt;
  return numbers[0];
}

// The device of all ids. JAX asks for one pair of devices a call, and as all ids are the same, their width shows: of
// one id of 8 bytes the low half comes first, and of several with 4 bytes the second is the first one again, which the
// high half of an id is for device 0 only.
Result<const PJRT_Device*> Other(const PJRT_Client& client, const void* ids, std::size_t count) {
  if (client.world == nullptr) return FailedPrecondition("There is one process, which has all devices.");
  std::optional<int64_t> id = TheOne<int32_t>(ids, count);
  if (!id) id = TheOne<int64_t>(ids, count);
  if (!id) return Unimplemented("Arrays of one call go from one device to one other, and these go to several.");
  const PJRT_Device* const device = client.FindDevice(*id);
  if (device == nullptr) return InvalidArgument("There is no device {}; there are {}.", *id, client.devices.size());
  if (device->lane != nullptr)
    return InvalidArgument("Device {} is of this process; only arrays between processes take this way.", *id);
  return device;
}

// Row-major, with an owner.
Result<HostView> InRows(const Shape& shape, const DeviceBuffer& value) {
  KRAFLA_ASSIGN(HostView view, value.View());
  if (std::ssize(view.bytes) != shape.byte_size())
    return Unimplemented("An array of {} with sizes that a run has found does not go to another process.",
                         shape.ToString(false));
  if (shape.layout().IsRowMajor()) return view;
  auto rows = std::make_shared<std::vector<std::byte>>(view.bytes.size());
  CopyStrided(rows->data(), DenseStrides(shape), view.bytes.data(), StridesInMemory(shape), shape.dims(),
              static_cast<std::size_t>(StorageBytes(shape.element_type())));
  return HostView{*rows, rows};
}

Result<> Send(PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args& args) {
  if (args.num_buffers == 0) return {};
  KRAFLA_ASSIGN(const PJRT_Device* const target, Other(*args.client, args.dst_global_device_ids, args.num_buffers));
  std::vector<std::shared_ptr<Array>> arrays;
  for (std::size_t i = 0; i < args.num_buffers; ++i) { KRAFLA_ASSIGN(arrays.emplace_back(), args.buffers[i]->array()); }
  for (std::size_t i = 0; i < args.num_buffers; ++i) {
    auto promise = std::make_shared<Promise>();
    args.send_events[i] = NewEvent(promise->completion());
    const std::shared_ptr<Array>& array = arrays[i];
    array->ready()->Then([promise, array, shape = args.buffers[i]->shape(), world = args.client->world,
                          rank = target->description.process, key = args.transfer_keys[i]](const Status* error) {
      if (error != nullptr) return promise->Keep(Failure(*error));
      Result<HostView> rows = InRows(shape, *array->value());
      if (!rows) return promise->Keep(Failure(std::move(rows).error()));
      // The array stays as it is while its bytes are on their way: it is no longer given to who would overwrite it.
      auto owner = std::make_shared<std::pair<std::shared_ptr<Array>, HostView>>(array, *rows);
      promise->Keep(world->Send(rank, key, rows->bytes, std::move(owner)));
    });
  }
  return {};
}

// One buffer to come.
struct Coming {
  Shape shape;
  std::shared_ptr<Array> array;
  std::shared_ptr<Promise> promise;
  int64_t key = 0;

  Result<> Receive(transport::World& world, int rank, std::stop_token stop) const {
    KRAFLA_ASSIGN(Literal literal, ReceiveLiteral(world, rank, std::move(stop)));
    array->Set(std::make_shared<HostBuffer>(std::make_shared<const Literal>(std::move(literal))), false);
    return {};
  }
  // Rows come into the literal where it has them in their order.
  Result<Literal> ReceiveLiteral(transport::World& world, int rank, std::stop_token stop) const {
    const transport::Patience patience{transport::Clock::now() + world.time_limit(), std::move(stop)};
    if (!shape.layout().IsRowMajor()) {
      std::vector<std::byte> rows(static_cast<std::size_t>(shape.byte_size()));
      KRAFLA_TRY(world.Receive(rank, key, rows, patience));
      return LiteralFrom(rows.data(), shape, DenseStrides(shape));
    }
    KRAFLA_ASSIGN(const Shape memory, InMemory(shape));
    KRAFLA_ASSIGN(Literal literal, Literal::CreateUninitialized(memory));
    KRAFLA_TRY(world.Receive(rank, key, literal.bytes(), patience));
    Normalize(shape.element_type(), literal.bytes());
    return literal;
  }
};

Result<> Receive(PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args& args) {
  if (args.num_shapes == 0) return {};
  KRAFLA_ASSIGN(const PJRT_Device* const source, Other(*args.client, args.src_global_device_ids, args.num_shapes));
  KRAFLA_ASSIGN(PJRT_Memory* const memory, PlaceOf(args.device, nullptr));
  std::vector<Coming> coming;
  std::vector<std::unique_ptr<PJRT_Buffer>> buffers;
  for (std::size_t i = 0; i < args.num_shapes; ++i) {
    KRAFLA_ASSIGN(Shape shape, ShapeFrom(args.element_types[i], args.num_dims[i], args.shape_num_dims[i]));
    KRAFLA_ASSIGN(shape, WithLayout(std::move(shape), args.layouts == nullptr ? nullptr : args.layouts[i]));
    auto promise = std::make_shared<Promise>();
    buffers.push_back(NewBuffer(memory, shape, promise->completion()));
    KRAFLA_ASSIGN(std::shared_ptr<Array> array, buffers.back()->array());
    coming.push_back({std::move(shape), std::move(array), std::move(promise), args.transfer_keys[i]});
  }
  args.client->arrivals.Begin([coming = std::move(coming), rank = source->description.process,
                               world = args.client->world](const std::stop_token& stop) {
    for (const Coming& c : coming) c.promise->Keep(c.Receive(*world, rank, stop));
  });
  for (std::size_t i = 0; i < args.num_shapes; ++i) args.buffers[i] = buffers[i].release();
  return {};
}

Result<> MakeReceiveBuffers(PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args&) {
  return Unimplemented("Arrays go to other processes by CrossHostSendBuffers and CrossHostReceiveBuffers.");
}

// The caller is told, as nothing is returned. The rest of the struct is different in each version.
void CopyToRemoteDevice(PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice_Args* args) {
  if (args == nullptr || args->on_done == nullptr) return;
  PJRT_Error* const error = NewError(Unimplemented("Arrays go to other processes by CrossHostSendBuffers.").error());
  args->on_done(error, false, args->user_arg);
  error->vtable->destroy(error);
  delete args->event;
}

}  // namespace

PJRT_CrossHostTransfers_Extension* CrossHostExtension() {
  static PJRT_CrossHostTransfers_Extension extension = [] {
    PJRT_CrossHostTransfers_Extension out = {};
    out.base.struct_size = sizeof(out);
    out.base.type = kPjrtCrossHostTransfersExtension;
    using Sends = PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args;
    using Receives = PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args;
    using Makes = PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args;
    out.PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers = [](Makes* args) -> PJRT_Error* {
      return Enter("PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers", args, 0, &MakeReceiveBuffers);
    };
    out.PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice = &CopyToRemoteDevice;
    out.PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers = [](Receives* args) -> PJRT_Error* {
      return Enter("PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers", args,
                   offsetof(Receives, buffers) + sizeof(Receives::buffers), &Receive);
    };
    out.PJRT_Transfers_PJRT_Client_CrossHostSendBuffers = [](Sends* args) -> PJRT_Error* {
      return Enter("PJRT_Transfers_PJRT_Client_CrossHostSendBuffers", args,
                   offsetof(Sends, send_events) + sizeof(Sends::send_events), &Send);
    };
    return out;
  }();
  return &extension;
}

}  // namespace krafla::pjrt
