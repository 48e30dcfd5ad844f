// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "api/session/client_state.h"
#include "base/without_exceptions.h"

namespace krafla {

std::shared_ptr<const Buffer::Impl> Buffer::Impl::Make(const DeviceDescription& device,
                                                       std::shared_ptr<DeviceBuffer> buffer,
                                                       MemoryBudget::Claim claim) {
  return SharedHere(std::make_unique<Impl>(MadeIn(), device.runs_on_host_threads, std::move(buffer), std::move(claim)));
}

Result<Buffer> Buffer::FromHost(const LocalClient& client, const Shape& shape, InputBytes bytes, HostMemory memory,
                                std::function<void()> release) {
  return WithoutExceptions([&]() -> Result<Buffer> {
    std::shared_ptr<const void> owner = OwnerThatCalls(std::move(release));
    if (!shape.IsArray() || shape.IsDynamic())
      return InvalidArgument("A buffer holds an array of a known size, not {}.", shape.ToString(false));
    if (static_cast<int64_t>(bytes.size()) != shape.byte_size())
      return InvalidArgument("{} takes {} bytes, {} were given.", shape.ToString(false), shape.byte_size(),
                             bytes.size());
    if (bytes.data() == nullptr && !bytes.empty())
      return InvalidArgument("The bytes of the buffer are a null pointer.");
    Shape dense = shape;
    dense.ClearLayout();
    const LocalClient::Impl& on = *client.impl_;
    KRAFLA_TRY(on.Check());
    KRAFLA_ASSIGN(auto claim, on.budget->Take(dense.byte_size(), Format("A buffer of {}", dense.ToString(false))));
    const auto alignment = static_cast<std::uintptr_t>(std::min(StorageBytes(dense.element_type()), 8));
    const bool is_aligned = reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment == 0;
    std::shared_ptr<DeviceBuffer> made;
    if (memory == HostMemory::kShare && is_aligned) {
      KRAFLA_ASSIGN(made, on.client->ViewOnDevice(dense, {bytes, std::move(owner)}));
    } else {
      KRAFLA_ASSIGN(made, on.client->CopyToDevice(dense, bytes));
    }
    return Buffer(Impl::Make(on.client->device(), std::move(made), std::move(claim)));
  });
}

const Shape& Buffer::shape() const { return impl_->buffer->shape(); }

Result<> Buffer::Wait() const {
  return WithoutExceptions([&]() -> Result<> {
    KRAFLA_TRY(impl_->Check());
    return impl_->buffer->Wait();
  });
}

Result<Buffer::View> Buffer::Read() const {
  return WithoutExceptions([&]() -> Result<View> {
    KRAFLA_TRY(impl_->Check());
    KRAFLA_ASSIGN(HostView view, impl_->buffer->View());
    return View{view.bytes, std::move(view.owner)};
  });
}

Result<> Buffer::ReadTo(OutputBytes to) const {
  return WithoutExceptions([&]() -> Result<> {
    const auto size = static_cast<std::size_t>(shape().byte_size());
    if (to.size() != size || (to.data() == nullptr && size > 0))
      return InvalidArgument("{} takes {} bytes; there is room for {}.", shape().ToString(false), size,
                             to.data() == nullptr ? 0 : to.size());
    KRAFLA_TRY(impl_->Check());
    KRAFLA_ASSIGN(const HostView view, impl_->buffer->View());
    std::ranges::copy(view.bytes, to.begin());
    return {};
  });
}

}  // namespace krafla
