// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/array.h"

#include <algorithm>

#include "plugins/pjrt/lane.h"

namespace krafla::pjrt {

void MemoryCount::Add(int64_t bytes) {
  std::lock_guard lock(mutex_);
  figures_.in_use += bytes;
  figures_.arrays += 1;
  figures_.peak = std::max(figures_.peak, figures_.in_use);
  figures_.largest = std::max(figures_.largest, bytes);
}
void MemoryCount::Remove(int64_t bytes) {
  std::lock_guard lock(mutex_);
  figures_.in_use -= bytes;
  figures_.arrays -= 1;
}
MemoryCount::Figures MemoryCount::Read() const {
  std::lock_guard lock(mutex_);
  return figures_;
}
void MemoryCount::Clear() {
  std::lock_guard lock(mutex_);
  figures_.peak = figures_.in_use;
  figures_.largest = 0;
}

Array::Array(std::shared_ptr<Completion> ready, int64_t bytes, std::shared_ptr<MemoryCount> count)
    : ready_(std::move(ready)), bytes_(bytes), count_(std::move(count)) {
  count_->Add(bytes_);
}
Array::~Array() { count_->Remove(bytes_); }

void Array::Set(std::shared_ptr<DeviceBuffer> value, bool on_device) {
  std::lock_guard lock(mutex_);
  value_ = std::move(value);
  on_device_ = on_device;
}

std::shared_ptr<DeviceBuffer> Array::value() const {
  std::lock_guard lock(mutex_);
  return value_;
}

Result<std::shared_ptr<DeviceBuffer>> Array::OnDevice(Lane& lane) {
  std::shared_ptr<DeviceBuffer> value;
  {
    std::lock_guard lock(mutex_);
    if (on_device_) return value_;
    value = value_;
  }
  KRAFLA_ASSIGN(std::shared_ptr<const Literal> literal, value->ToLiteral());
  KRAFLA_ASSIGN(value, lane.client().ToDevice(std::move(literal)));
  Set(value, true);
  return value;
}

std::shared_ptr<DeviceBuffer> Array::Take() {
  std::lock_guard lock(mutex_);
  on_device_ = false;
  return std::exchange(value_, nullptr);
}

}  // namespace krafla::pjrt
