// SPDX-License-Identifier: Apache-2.0
// One array of one device, in the caller's hands.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "plugins/pjrt/array.h"
#include "plugins/pjrt/client.h"

// Any thread may call anything but the destructor.
struct PJRT_Buffer {
 public:
  PJRT_Buffer(PJRT_Memory* memory, krafla::Shape shape, std::shared_ptr<krafla::pjrt::Array> array);

  PJRT_Device* device() const { return memory_->device; }
  PJRT_Memory* memory() const { return memory_; }
  const krafla::Shape& shape() const { return shape_; }

  // FAILED_PRECONDITION once it is deleted or donated.
  krafla::Result<std::shared_ptr<krafla::pjrt::Array>> array() const;
  // The array, and whether nobody else holds on to this buffer's memory. The buffer is deleted from here on.
  krafla::Result<std::pair<std::shared_ptr<krafla::pjrt::Array>, bool>> Donate();
  void Delete();
  bool deleted() const;

  // Where the array lies (DeviceBuffer::Address). Waits until it is there.
  krafla::Result<uint64_t> Address();
  // The array stays where it lies while there are references.
  void AddReference();
  krafla::Result<> DropReference();

 private:
  PJRT_Memory* const memory_;
  const krafla::Shape shape_;
  mutable std::mutex mutex_;
  std::shared_ptr<krafla::pjrt::Array> array_;  // null once deleted
  std::shared_ptr<krafla::pjrt::Array> pinned_;
  int references_ = 0;
};

namespace krafla::pjrt {

// An array that runs or copies will fill, and its buffer.
std::unique_ptr<PJRT_Buffer> NewBuffer(PJRT_Memory* memory, const Shape& shape, std::shared_ptr<Completion> ready);
// Where `memory` is null, the device's default one. INVALID_ARGUMENT where both are.
Result<PJRT_Memory*> PlaceOf(PJRT_Device* device, PJRT_Memory* memory);

}  // namespace krafla::pjrt
