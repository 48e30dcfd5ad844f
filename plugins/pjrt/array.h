// SPDX-License-Identifier: Apache-2.0
// The array behind a buffer: on its way, there, or failed. Several buffers, copies on their way and runs that have not
// begun may share one.
#pragma once

#include <memory>
#include <mutex>

#include "api/device_buffer.h"
#include "plugins/pjrt/completion.h"

namespace krafla::pjrt {

class Lane;

// What lives on one device, in bytes.
class MemoryCount {
 public:
  struct Figures {
    int64_t in_use = 0, peak = 0, largest = 0, arrays = 0;
  };
  void Add(int64_t bytes);
  void Remove(int64_t bytes);
  Figures Read() const;
  // Peaks begin anew.
  void Clear();

 private:
  mutable std::mutex mutex_;
  Figures figures_;
};

class Array {
 public:
  Array(std::shared_ptr<Completion> ready, int64_t bytes, std::shared_ptr<MemoryCount> count);
  ~Array();
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  const std::shared_ptr<Completion>& ready() const { return ready_; }
  int64_t bytes() const { return bytes_; }

  // The lane whose jobs, in their order, give the array its value; null where that comes from elsewhere.
  const Lane* maker() const { return maker_; }
  void set_maker(const Lane* maker) { maker_ = maker; }

  // Before `ready` is finished.
  void Set(std::shared_ptr<DeviceBuffer> value, bool on_device);
  // Null until it is set, or if the array failed. It may be set long before `ready`: the device is still at work
  // then.
  std::shared_ptr<DeviceBuffer> value() const;
  // The value where the lane's device reads it fastest; the first time it is taken there. For who has the lane's turn.
  Result<std::shared_ptr<DeviceBuffer>> OnDevice(Lane& lane);
  // Gives the value away: nobody reads this array any more.
  std::shared_ptr<DeviceBuffer> Take();

 private:
  const std::shared_ptr<Completion> ready_;
  const int64_t bytes_;
  const std::shared_ptr<MemoryCount> count_;
  const Lane* maker_ = nullptr;
  mutable std::mutex mutex_;
  std::shared_ptr<DeviceBuffer> value_;
  bool on_device_ = false;
};

}  // namespace krafla::pjrt
