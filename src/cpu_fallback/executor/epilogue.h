// SPDX-License-Identifier: Apache-2.0
// What follows a dot or a convolution: a program over the sums. Where it only stores them, they are computed in place.
#pragma once

#include <optional>

#include "cpu_fallback/executor/kernel_families.h"

namespace krafla::cpu {

class Epilogue {
 public:
  // Where the sums go when nothing else happens to them.
  struct Direct {
    int binding = 0;
    ElementType storage = ElementType::kF32;
    int64_t offset = 0;  // elements
    Dims strides;        // one a dimension of the iteration space
  };

  // Param 0 of `program` is a sum of `sum_type`. `runs`: as CpuKernelOptions. `dims`: the dimensions that the sums
  // have, row-major; the program's own dimensions are these, or these with neighbours joined.
  static Result<Epilogue> Make(const plan::ElementProgram& program, ElementType sum_type, std::span<const int64_t> dims,
                               int64_t runs);

  const std::optional<Direct>& direct() const { return direct_; }
  // The binding of the size and type of the sums, dense, that nothing but the sums' final values are stored to: the
  // sums may be computed there as long as no binding that is read shares its memory. -1: none.
  int in_place() const { return in_place_; }
  bool SharesMemory(std::span<std::byte* const> bindings, int binding) const;

  int64_t scratch_bytes(int threads) const { return runner_.scratch_bytes(threads); }
  // Runs over all sums, which are dense in `sums`.
  void Run(std::span<std::byte* const> bindings, std::byte* sums, ThreadPool& pool, std::byte* scratch) const;
  // Adds the same to a routine (CpuKernel::AppendLoopTo); the sums are the last binding.
  Result<bool> AppendTo(RoutineBlock& block, std::span<const plan::Slice> bindings) const {
    return runner_.AppendTo(block, bindings);
  }

 private:
  std::optional<Direct> direct_;
  int in_place_ = -1;
  LoopRunner runner_;
  std::vector<plan::ProgramBuffer> buffers_;
};

}  // namespace krafla::cpu
