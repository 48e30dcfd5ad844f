// SPDX-License-Identifier: Apache-2.0
// Many updates of few places, as a histogram's: invocations that own a place each would leave the device empty. Parts
// of the updates are combined into copies of the operand's places in scratch, which are then combined into the operand.
#pragma once

#include "spirv_codegen/kernels/scatter_windows.h"

namespace krafla::spirv {

class ScatterParts {
 public:
  // `items`: invocations that take all updates of one part.
  ScatterParts(const plan::KernelPlan& plan, const plan::ScatterKernel& s, const Target& target, int64_t items);

  int64_t count() const { return count_; }    // 1: there are no copies
  int64_t length() const { return length_; }  // updates of a part, but for the last
  std::vector<BufferDesc> Scratch() const;
  // The scatter as it is, or into the first copy.
  const plan::ScatterKernel& Into() const { return into_; }
  Value FirstOf(Builder& b, Value part) const { return b.Mul(part, b.U32(static_cast<uint32_t>(places_))); }

  // Before and behind the kernel that combines the parts: places of the copies that nothing was combined into, and what
  // the copies make of the operand.
  Result<> AddStart(EmittedProgram& out) const;
  Result<> AddJoin(EmittedProgram& out) const;

 private:
  int binding() const { return static_cast<int>(plan_.bindings.size()); }
  // Calls body(item) in a kernel of its own.
  Result<> AddLoop(EmittedProgram& out, int64_t items, std::string variant,
                   const std::function<void(KernelWriter&, const ReductionValues&, Value)>& body) const;
  Value Load(KernelWriter& w, int binding, Value at) const;
  void Store(KernelWriter& w, int binding, Value at, Value v) const;

  const plan::KernelPlan& plan_;
  const Target& target_;
  plan::ScatterKernel into_;
  int output_;
  int64_t places_, count_ = 1, length_ = 0;
};

}  // namespace krafla::spirv
