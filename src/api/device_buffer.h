// SPDX-License-Identifier: Apache-2.0
// One array where a device keeps it: what a program leaves for the next one without a trip through the host.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "krafla/literal.h"
#include "krafla/status.h"

namespace krafla {

// Bytes of a device's array, row-major, that the host can read.
struct HostView {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;  // keeps them
};

// Immutable, but for a run that it is donated to. Any thread may read; shared by pointers, dropped on any thread,
// before or after the client and the executables.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;

  // Row-major. A dynamic dimension has the size that the array has, no bound.
  virtual const Shape& shape() const = 0;
  // Returns once the device has made the array. What went wrong meanwhile is an error here, and in all that reads it.
  virtual Result<> Wait() const { return {}; }
  // The array in the host's memory, after the device is done with it: where it lies if it is a literal, else a copy.
  virtual Result<std::shared_ptr<const Literal>> ToLiteral() const = 0;
  // The same as bytes: without a copy where the host can read the device's memory as fast as its own.
  virtual Result<HostView> View() const {
    KRAFLA_ASSIGN(std::shared_ptr<const Literal> literal, ToLiteral());
    const std::span<const std::byte> bytes = literal->bytes();
    return HostView{bytes, std::move(literal)};
  }
  // Where the array lies as long as the buffer holds it: in the host's memory, or by the device's own counting, which
  // only the device can follow. UNIMPLEMENTED on a device without buffer device addresses.
  virtual Result<uint64_t> Address() const = 0;
  // Of the run that it is donated to: it holds no array any more.
  virtual void Release() = 0;
  // Waits as Wait does, for who keeps no hold of the buffer, which may be donated meanwhile. Null: the array is there.
  virtual std::function<Result<>()> Waiter() const { return nullptr; }
};

// An array in the host's memory: the CPU's buffers, and what any client takes as an argument.
class HostBuffer final : public DeviceBuffer {
 public:
  explicit HostBuffer(std::shared_ptr<const Literal> literal)
      : shape_(literal->shape()), literal_(std::move(literal)) {}
  const Shape& shape() const override { return shape_; }
  Result<std::shared_ptr<const Literal>> ToLiteral() const override {
    if (literal_ == nullptr) return FailedPrecondition("The buffer was donated and no longer has an array.");
    return literal_;
  }
  Result<uint64_t> Address() const override {
    KRAFLA_ASSIGN(std::shared_ptr<const Literal> literal, ToLiteral());
    return reinterpret_cast<std::uintptr_t>(literal->bytes().data());
  }
  void Release() override { literal_.reset(); }

  // Null once donated.
  const std::shared_ptr<const Literal>& literal() const { return literal_; }

 private:
  Shape shape_;
  std::shared_ptr<const Literal> literal_;
};

// One buffer a leaf, and whether the run may overwrite it: then nobody else reads it from here on, and it holds no
// array any more when the run has begun.
struct DeviceArgument {
  std::shared_ptr<DeviceBuffer> buffer;
  bool donated = false;
};

}  // namespace krafla
