// SPDX-License-Identifier: Apache-2.0
// One array where a device keeps it: what a program leaves for the next one without a trip through the host.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ir/packed_elements.h"
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

// The results of a run, a leaf each.
using DeviceBuffers = std::vector<std::shared_ptr<DeviceBuffer>>;

// An array in the host's memory: the CPU's buffers, and what any client takes as an argument. It is a literal, or bytes
// that somebody else keeps.
class HostBuffer final : public DeviceBuffer {
 public:
  explicit HostBuffer(std::shared_ptr<const Literal> literal)
      : shape_(literal->shape()), view_{literal->bytes(), nullptr}, literal_(std::move(literal)) {}
  HostBuffer(Shape shape, HostView view) : shape_(std::move(shape)), view_(std::move(view)) {}
  const Shape& shape() const override { return shape_; }
  Result<std::shared_ptr<const Literal>> ToLiteral() const override {
    KRAFLA_TRY(Wait());
    if (literal_ != nullptr) return literal_;
    KRAFLA_ASSIGN(Literal copy, Literal::FromBytes(shape_, view_.bytes));
    return std::make_shared<const Literal>(std::move(copy));
  }
  Result<HostView> View() const override {
    KRAFLA_TRY(Wait());
    if (literal_ != nullptr) return HostView{view_.bytes, literal_};
    return view_;
  }
  Result<> Wait() const override {
    if (is_there_) return {};
    return FailedPrecondition("The buffer was donated and no longer has an array.");
  }
  Result<uint64_t> Address() const override {
    KRAFLA_TRY(Wait());
    return reinterpret_cast<std::uintptr_t>(view_.bytes.data());
  }
  void Release() override {
    literal_.reset();
    view_ = {};
    is_there_ = false;
  }

  // Null once donated, and where the bytes are somebody else's.
  const std::shared_ptr<const Literal>& literal() const { return literal_; }

 private:
  Shape shape_;
  HostView view_;                           // without an owner where `literal_` is it
  std::shared_ptr<const Literal> literal_;  // held once: a donated one that nobody else has is written to
  bool is_there_ = true;
};

// One buffer a leaf, and whether the run may overwrite it: then nobody else reads it from here on, and it holds no
// array any more when the run has begun.
struct DeviceArgument {
  std::shared_ptr<DeviceBuffer> buffer;
  bool donated = false;
};

}  // namespace krafla
