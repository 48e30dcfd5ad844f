// SPDX-License-Identifier: Apache-2.0
// An executable whose program has packed arguments or results (passes/entry_packing.h), as one that takes and gives the
// arrays which callers know; and such arrays on devices.
#pragma once

#include <memory>
#include <vector>

#include "api/client.h"

namespace krafla {

// An array of elements of fewer than 8 bits where a device keeps them, packed.
class PackedBuffer final : public DeviceBuffer {
 public:
  // `packed`: of PackedShape(shape).
  PackedBuffer(Shape shape, std::shared_ptr<DeviceBuffer> packed)
      : shape_(std::move(shape)), packed_(std::move(packed)) {}
  const Shape& shape() const override { return shape_; }
  const std::shared_ptr<DeviceBuffer>& packed() const { return packed_; }
  Result<> Wait() const override { return packed_->Wait(); }
  Result<std::shared_ptr<const Literal>> ToLiteral() const override;
  Result<uint64_t> Address() const override { return packed_->Address(); }
  void Release() override { packed_->Release(); }
  std::function<Result<>()> Waiter() const override { return packed_->Waiter(); }

 private:
  Shape shape_;
  std::shared_ptr<DeviceBuffer> packed_;
};

// `executable` itself where nothing of `edges` is packed.
Result<std::unique_ptr<Executable>> WithPackedEdges(std::unique_ptr<Executable> executable, PackedEdges edges);

}  // namespace krafla
