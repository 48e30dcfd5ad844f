// SPDX-License-Identifier: Apache-2.0
// Arrays between the caller's memory and buffers, and between devices.
#include <cstring>

#include "plugins/pjrt/buffer.h"
#include "plugins/pjrt/element_types.h"
#include "plugins/pjrt/error.h"
#include "plugins/pjrt/event.h"
#include "plugins/pjrt/strided_copy.h"

namespace krafla::pjrt {
namespace {

// A buffer that holds the literal, which is what lies in memory, already.
std::unique_ptr<PJRT_Buffer> BufferOf(PJRT_Memory* memory, const Shape& shape, Literal literal) {
  std::unique_ptr<PJRT_Buffer> buffer = NewBuffer(memory, shape, Completion::AlreadyDone());
  // Taken to the device by the first run that reads it.
  (*buffer->array())->Set(std::make_shared<HostBuffer>(std::make_shared<const Literal>(std::move(literal))), false);
  return buffer;
}

// Runs `copy` on the array once it is there; the completion is that of the copy.
std::shared_ptr<Completion> WhenThere(const std::shared_ptr<Array>& array,
                                      MoveOnlyFunction<Result<>(const DeviceBuffer& value)> copy) {
  auto promise = std::make_shared<Promise>();
  std::shared_ptr<Completion> done = promise->completion();
  array->ready()->Then([promise, array, copy = std::move(copy)](const Status* error) mutable {
    if (error != nullptr) return promise->Keep(Failure(*error));
    promise->Keep(copy(*array->value()));
  });
  return done;
}

}  // namespace

// The bytes are copied before this returns, whatever the caller would allow: what they become has to outlive any
// promise of the caller's.
Result<> Client_BufferFromHostBuffer(PJRT_Client_BufferFromHostBuffer_Args& args) {
  KRAFLA_ASSIGN(Shape shape, ShapeFrom(args.type, args.dims, args.num_dims));
  KRAFLA_ASSIGN(shape, WithLayout(std::move(shape), args.device_layout));
  KRAFLA_ASSIGN(PJRT_Memory* const memory, PlaceOf(args.device, args.memory));
  Dims strides = DenseStrides(shape);
  if (args.byte_strides != nullptr && args.num_byte_strides > 0) {
    if (args.num_byte_strides != args.num_dims)
      return InvalidArgument("There are {} strides for {} dimensions.", args.num_byte_strides, args.num_dims);
    for (std::size_t d = 0; d < args.num_dims; ++d) strides[d] = args.byte_strides[d];
  }
  KRAFLA_ASSIGN(Literal literal, LiteralFrom(args.data, shape, strides));
  args.buffer = BufferOf(memory, shape, std::move(literal)).release();
  args.done_with_host_buffer = NewEvent(Completion::AlreadyDone());
  return {};
}

Result<> Buffer_ToHostBuffer(PJRT_Buffer_ToHostBuffer_Args& args) {
  const Shape& shape = args.src->shape();
  if (args.dst == nullptr) {
    args.dst_size = static_cast<std::size_t>(shape.byte_size());
    args.event = nullptr;
    return {};
  }
  if (args.dst_size < static_cast<std::size_t>(shape.byte_size()))
    return InvalidArgument("The array takes {} bytes, there is room for {}.", shape.byte_size(), args.dst_size);
  Dims strides = DenseStrides(shape);
  if (args.host_layout != nullptr) { KRAFLA_ASSIGN(strides, StridesOf(*args.host_layout, shape)); }
  KRAFLA_ASSIGN(const std::shared_ptr<Array> array, args.src->array());
  auto* const to = static_cast<std::byte*>(args.dst);
  // What is not row-major has no dynamic dimensions; else the array may be smaller than the buffer's bounds.
  std::optional<Shape> ordered;
  if (!shape.layout().IsRowMajor()) ordered = shape;
  auto copy = [to, strides = std::move(strides), ordered = std::move(ordered)](const DeviceBuffer& value) -> Result<> {
    KRAFLA_ASSIGN(const HostView view, value.View());
    const Shape& own = ordered ? *ordered : value.shape();
    CopyStrided(to, strides, view.bytes.data(), StridesInMemory(own), own.dims(),
                static_cast<std::size_t>(StorageBytes(own.element_type())));
    return {};
  };
  args.event = NewEvent(WhenThere(array, std::move(copy)));
  return {};
}

Result<> Buffer_CopyRawToHost(PJRT_Buffer_CopyRawToHost_Args& args) {
  const int64_t size = args.buffer->shape().byte_size();
  if (args.offset < 0 || args.transfer_size < 0 || args.offset > size || args.transfer_size > size - args.offset)
    return InvalidArgument("{} bytes from {} on are not all within the array's {}.", args.transfer_size, args.offset,
                           size);
  KRAFLA_ASSIGN(const std::shared_ptr<Array> array, args.buffer->array());
  auto copy = [to = args.dst, offset = args.offset, bytes = args.transfer_size](const DeviceBuffer& value) -> Result<> {
    KRAFLA_ASSIGN(const HostView view, value.View());
    if (bytes > 0) std::memcpy(to, view.bytes.data() + offset, static_cast<std::size_t>(bytes));
    return {};
  };
  args.event = NewEvent(WhenThere(array, std::move(copy)));
  return {};
}

// Arrays do not change: devices of one client share them. Others get a copy through the host.
Result<> Buffer_CopyToMemory(PJRT_Buffer_CopyToMemory_Args& args) {
  if (args.dst_memory == nullptr) return InvalidArgument("There is no memory to copy to.");
  KRAFLA_ASSIGN(const std::shared_ptr<Array> from, args.buffer->array());
  const Shape& shape = args.buffer->shape();
  if (args.buffer->device()->lane == args.dst_memory->device->lane) {
    args.dst_buffer = new PJRT_Buffer(args.dst_memory, shape, from);
    return {};
  }
  auto promise = std::make_shared<Promise>();
  std::unique_ptr<PJRT_Buffer> out = NewBuffer(args.dst_memory, shape, promise->completion());
  KRAFLA_ASSIGN(std::shared_ptr<Array> to, out->array());
  from->ready()->Then([promise, from, to](const Status* error) {
    if (error != nullptr) return promise->Keep(Failure(*error));
    Result<std::shared_ptr<const Literal>> literal = from->value()->ToLiteral();
    if (!literal) return promise->Keep(Failure(std::move(literal).error()));
    to->Set(std::make_shared<HostBuffer>(*std::move(literal)), false);
    promise->Keep({});
  });
  args.dst_buffer = out.release();
  return {};
}

Result<> Buffer_CopyToDevice(PJRT_Buffer_CopyToDevice_Args& args) {
  if (args.dst_device == nullptr) return InvalidArgument("There is no device to copy to.");
  PJRT_Buffer_CopyToMemory_Args copy = {};
  copy.struct_size = sizeof(copy);
  copy.buffer = args.buffer;
  copy.dst_memory = args.dst_device->memories[0];
  KRAFLA_TRY(Buffer_CopyToMemory(copy));
  args.dst_buffer = copy.dst_buffer;
  return {};
}

Result<> Client_CreateUninitializedBuffer(PJRT_Client_CreateUninitializedBuffer_Args& args) {
  KRAFLA_ASSIGN(Shape shape, ShapeFrom(args.shape_element_type, args.shape_dims, args.shape_num_dims));
  KRAFLA_ASSIGN(shape, WithLayout(std::move(shape), args.shape_layout));
  KRAFLA_ASSIGN(PJRT_Memory* const memory, PlaceOf(args.device, args.memory));
  KRAFLA_ASSIGN(const Shape own, InMemory(shape));
  KRAFLA_ASSIGN(Literal literal, Literal::Create(own));
  args.buffer = BufferOf(memory, shape, std::move(literal)).release();
  return {};
}

Result<> Client_CreateErrorBuffer(PJRT_Client_CreateErrorBuffer_Args& args) {
  KRAFLA_ASSIGN(const Shape shape, ShapeFrom(args.shape_element_type, args.shape_dims, args.shape_num_dims));
  KRAFLA_ASSIGN(PJRT_Memory* const memory, PlaceOf(nullptr, args.memory));
  auto failed = std::make_shared<Completion>();
  failed->Finish(StatusFrom(args.error_code, args.error_message, args.error_message_size));
  args.buffer = NewBuffer(memory, shape, std::move(failed)).release();
  return {};
}

// A copy of the caller's array in the host's memory, who may have it back at once.
Result<> Client_CreateViewOfDeviceBuffer(PJRT_Client_CreateViewOfDeviceBuffer_Args& args) {
  KRAFLA_ASSIGN(Shape shape, ShapeFrom(args.element_type, args.dims, args.num_dims));
  KRAFLA_ASSIGN(shape, WithLayout(std::move(shape), args.layout));
  KRAFLA_ASSIGN(PJRT_Memory* const memory, PlaceOf(args.device, KRAFLA_PJRT_HAS(args, memory) ? args.memory : nullptr));
  if (!memory->device->lane->device().shares_host_memory)
    return Unimplemented("Arrays of other libraries are taken as views by the CPU only, not by '{}'.",
                         memory->device->lane->device().selector);
  Dims strides = DenseStrides(shape);
  if (args.layout != nullptr) { KRAFLA_ASSIGN(strides, StridesOf(*args.layout, shape)); }
  KRAFLA_ASSIGN(Literal literal, LiteralFrom(args.device_buffer_ptr, shape, strides));
  args.buffer = BufferOf(memory, shape, std::move(literal)).release();
  if (args.on_delete_callback != nullptr) args.on_delete_callback(args.device_buffer_ptr, args.on_delete_callback_arg);
  return {};
}

}  // namespace krafla::pjrt
