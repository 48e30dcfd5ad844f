// SPDX-License-Identifier: Apache-2.0
// A slow and obvious interpreter of kernel plans: what the emitted kernels are compared with. Integers by plain C++,
// f32 functions by numerics/formulas.h on the CPU, sums in f64.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/kernel_plan.h"

namespace krafla::spirv::testing {

using Bytes = std::vector<uint8_t>;
// A value in its compute type, in the low bits.
using Bits = uint64_t;

Bits ReadElement(const Bytes& bytes, ElementType storage, int64_t index);
void WriteElement(Bytes& bytes, ElementType storage, int64_t index, Bits value);

class Interpreter {
 public:
  Interpreter(const plan::ElementProgram& program, const std::vector<Bytes>& memory)
      : program_(program), memory_(memory) {}
  // At one point; params may be empty.
  void SetPoint(std::vector<int64_t> point, std::vector<Bits> params = {});
  Bits Node(plan::NodeId id);
  int64_t Index(plan::IndexId id);
  std::vector<Bits> Results();
  // Stores made at this point.
  void Store(std::vector<Bytes>& memory);

 private:
  const plan::ElementProgram& program_;
  const std::vector<Bytes>& memory_;
  std::vector<int64_t> point_;
  std::vector<Bits> params_;
  std::vector<Bits> values_;
  std::vector<bool> known_;
};

// Runs a kernel on the buffers of its bindings.
void RunKernel(const plan::KernelPlan& plan, std::vector<Bytes>& memory);

}  // namespace krafla::spirv::testing
