// SPDX-License-Identifier: Apache-2.0
// One array where a device keeps it: what a program leaves for the next one without a trip through the host.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "ir/literal.h"

namespace krafla {

// Immutable, but for a run that it is donated to. Any thread may read; shared by pointers.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;

  // Row-major. A dynamic dimension has the size that the array has, no bound.
  virtual const Shape& shape() const = 0;
  // The array in the host's memory, after the device is done with it: where it lies if the host can read it there,
  // else a copy.
  virtual Result<std::shared_ptr<const Literal>> ToLiteral() const = 0;
};

// An array in the host's memory: the CPU's buffers, and what any client takes as an argument.
class HostBuffer final : public DeviceBuffer {
 public:
  explicit HostBuffer(std::shared_ptr<const Literal> literal) : literal_(std::move(literal)) {}
  const Shape& shape() const override { return literal_->shape(); }
  Result<std::shared_ptr<const Literal>> ToLiteral() const override { return literal_; }

 private:
  std::shared_ptr<const Literal> literal_;
};

// One buffer a leaf, and whether the run may overwrite it: then nobody else reads it from here on.
struct DeviceArgument {
  std::shared_ptr<DeviceBuffer> buffer;
  bool donated = false;
};

}  // namespace krafla
