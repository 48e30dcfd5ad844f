// SPDX-License-Identifier: Apache-2.0
// Buffers whose bytes come in pieces, later: programs may be given them before.
#include <cstring>
#include <utility>

#include "plugins/pjrt/buffer.h"
#include "plugins/pjrt/element_types.h"
#include "plugins/pjrt/error.h"
#include "plugins/pjrt/event.h"
#include "plugins/pjrt/strided_copy.h"

namespace krafla::pjrt {
namespace {

// One buffer, until its last bytes are there.
struct Pending {
  Shape shape;
  std::unique_ptr<PJRT_Buffer> buffer;  // until somebody takes it
  std::shared_ptr<Array> array;
  std::mutex mutex;
  std::optional<Literal> literal;  // none once it is given away
  Promise promise;

  Result<> Write(const void* data, int64_t offset, int64_t size, bool last) {
    std::unique_lock lock(mutex);
    if (!literal) return FailedPrecondition("The buffer has all its bytes, or has failed.");
    const auto room = static_cast<int64_t>(literal->bytes().size());
    if (offset < 0 || size < 0 || offset > room || size > room - offset)
      return InvalidArgument("{} bytes from {} on are not all within the buffer's {}.", size, offset, room);
    if (size > 0) std::memcpy(literal->bytes().data() + offset, data, static_cast<std::size_t>(size));
    if (!last) return {};
    Normalize(literal->shape().element_type(), literal->bytes());
    array->Set(std::make_shared<HostBuffer>(std::make_shared<const Literal>(*std::move(literal))), false);
    literal.reset();
    lock.unlock();
    promise.Keep({});
    return {};
  }
  Result<> Fail(Status status) {
    std::unique_lock lock(mutex);
    if (!literal) return FailedPrecondition("The buffer has all its bytes, or has failed.");
    literal.reset();
    lock.unlock();
    promise.Keep(Failure(std::move(status)));
    return {};
  }
};

}  // namespace
}  // namespace krafla::pjrt

struct PJRT_AsyncHostToDeviceTransferManager {
  PJRT_Device* device = nullptr;
  std::vector<std::unique_ptr<krafla::pjrt::Pending>> pending;
};

namespace krafla::pjrt {
namespace {

template <typename Args>
Result<Pending*> Find(const Args& args) {
  const auto& pending = args.transfer_manager->pending;
  if (args.buffer_index < 0 || args.buffer_index >= std::ssize(pending))
    return InvalidArgument("There is no buffer {}; there are {}.", args.buffer_index, pending.size());
  return pending[static_cast<std::size_t>(args.buffer_index)].get();
}

}  // namespace

Result<> Client_CreateBuffersForAsyncHostToDevice(PJRT_Client_CreateBuffersForAsyncHostToDevice_Args& args) {
  KRAFLA_ASSIGN(PJRT_Memory* const memory, PlaceOf(nullptr, args.memory));
  auto out = std::make_unique<PJRT_AsyncHostToDeviceTransferManager>();
  out->device = memory->device;
  for (std::size_t i = 0; i < args.num_shape_specs; ++i) {
    const PJRT_ShapeSpec& spec = args.shape_specs[i];
    KRAFLA_ASSIGN(Shape shape, ShapeFrom(spec.element_type, spec.dims, spec.num_dims));
    if (i < args.num_device_layouts && args.device_layouts != nullptr) {
      KRAFLA_ASSIGN(shape, WithLayout(std::move(shape), args.device_layouts[i]));
    }
    auto pending = std::make_unique<Pending>();
    pending->shape = shape;
    KRAFLA_ASSIGN(const Shape own, InMemory(shape));
    KRAFLA_ASSIGN(pending->literal, Literal::Create(own));
    pending->buffer = NewBuffer(memory, shape, pending->promise.completion());
    KRAFLA_ASSIGN(pending->array, pending->buffer->array());
    out->pending.push_back(std::move(pending));
  }
  args.transfer_manager = out.release();
  return {};
}

// Buffers that still miss bytes fail.
Result<> AsyncHostToDeviceTransferManager_Destroy(PJRT_AsyncHostToDeviceTransferManager_Destroy_Args& args) {
  if (args.transfer_manager == nullptr) return {};
  for (auto& pending : args.transfer_manager->pending) {
    // Those that are complete refuse to fail.
    (void)pending->Fail(Status(StatusCode::kCancelled, "The transfer was given up before its last bytes."));
  }
  delete args.transfer_manager;
  return {};
}

Result<> AsyncHostToDeviceTransferManager_TransferData(PJRT_AsyncHostToDeviceTransferManager_TransferData_Args& args) {
  KRAFLA_ASSIGN(Pending* const pending, Find(args));
  KRAFLA_TRY(pending->Write(args.data, args.offset, args.transfer_size, args.is_last_transfer));
  args.done_with_h2d_transfer = NewEvent(Completion::AlreadyDone());
  return {};
}

Result<> AsyncHostToDeviceTransferManager_TransferLiteral(
    PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args& args) {
  KRAFLA_ASSIGN(Pending* const pending, Find(args));
  KRAFLA_ASSIGN(const Shape shape, ShapeFrom(args.shape_element_type, args.shape_dims, args.shape_num_dims));
  if (!Shape::SameDims(shape, pending->shape) || shape.element_type() != pending->shape.element_type())
    return InvalidArgument("The literal is {}, the buffer {}.", shape.ToString(false), pending->shape.ToString(false));
  std::vector<std::byte> dense(static_cast<std::size_t>(shape.byte_size()));
  Dims strides = DenseStrides(shape);
  if (args.shape_layout != nullptr) { KRAFLA_ASSIGN(strides, StridesOf(*args.shape_layout, shape)); }
  CopyStrided(dense.data(), StridesInMemory(pending->shape), static_cast<const std::byte*>(args.data), strides,
              shape.dims(), static_cast<std::size_t>(StorageBytes(shape.element_type())));
  KRAFLA_TRY(pending->Write(dense.data(), 0, shape.byte_size(), true));
  args.done_with_h2d_transfer = NewEvent(Completion::AlreadyDone());
  return {};
}

Result<> AsyncHostToDeviceTransferManager_RetrieveBuffer(
    PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args& args) {
  KRAFLA_ASSIGN(Pending* const pending, Find(args));
  std::lock_guard lock(pending->mutex);
  if (pending->buffer == nullptr) return FailedPrecondition("Buffer {} has been taken before.", args.buffer_index);
  args.buffer_out = pending->buffer.release();
  return {};
}

Result<> AsyncHostToDeviceTransferManager_Device(PJRT_AsyncHostToDeviceTransferManager_Device_Args& args) {
  args.device_out = args.transfer_manager->device;
  return {};
}

Result<> AsyncHostToDeviceTransferManager_BufferCount(PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args& args) {
  args.buffer_count = args.transfer_manager->pending.size();
  return {};
}

Result<> AsyncHostToDeviceTransferManager_BufferSize(PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args& args) {
  KRAFLA_ASSIGN(Pending* const pending, Find(args));
  args.buffer_size = static_cast<std::size_t>(pending->array->bytes());
  return {};
}

Result<> AsyncHostToDeviceTransferManager_SetBufferError(
    PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args& args) {
  KRAFLA_ASSIGN(Pending* const pending, Find(args));
  return pending->Fail(StatusFrom(args.error_code, args.error_message, args.error_message_size));
}

// For profilers, which this plugin has none of.
Result<> AsyncHostToDeviceTransferManager_AddMetadata(PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args&) {
  return {};
}

}  // namespace krafla::pjrt
