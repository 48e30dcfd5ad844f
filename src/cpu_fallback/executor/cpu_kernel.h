// SPDX-License-Identifier: Apache-2.0
// A KernelPlan made ready to run on the CPU. A kernel is immutable: several threads may run it at once, each with
// buffers and scratch of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "evaluator/evaluator.h"
#include "krafla/status.h"
#include "plan/kernel_plan.h"
#include "plan/program_plan.h"

namespace krafla {

namespace cpu {
class RoutineBlock;
class TapeBuilder;
}  // namespace cpu

struct CpuKernelOptions {
  int threads = 1;             // at most this many workers run the kernel: sizes its scratch
  EvaluatorOptions evaluator;  // for instructions that no kernel takes
  // The kernel is one of so many equal parts of a problem; the algorithm is the one that suits the whole, whose bits it
  // then gives.
  int64_t parts = 1;
  int64_t runs = 1;  // of the kernel in one of its program, roughly: more of them make up for a longer compilation
  // The bindings that lie in constants of the program, the same ones at each launch, so that a kernel may keep what it
  // makes of them. None: any binding may be another one each time.
  std::vector<bool> constants = {};
  // Products with quantised weights may round what they are multiplied with to eight bits (docs/ops.md).
  bool int_dot = false;
  // Products of stored operands by this library's kernels alone, whose sums do not depend on how many rows go together.
  bool own_products = false;
  // The kernel is that of a block of rows: products choose by no number of rows, so that the whole has the same bits.
  bool any_rows = false;
};

class CpuKernel {
 public:
  virtual ~CpuKernel() = default;

  // What the kernel keeps of its constants, at a 64-byte boundary: Keep makes it once for a launch, and Run takes it as
  // one more binding, the last. 0: nothing.
  int64_t kept_bytes() const { return kept_bytes_; }
  virtual Result<> Keep(std::span<std::byte* const> /*bindings*/, ThreadPool& /*pool*/, std::byte* /*scratch*/,
                        std::byte* /*kept*/) const {
    return {};
  }
  // One pointer a binding of the plan. `scratch`: scratch_bytes() at a 64-byte boundary, contents of no matter.
  virtual Result<> Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const = 0;
  // Adds to `tape` what Run does over buffers that lie at `bindings`, where that is little work for one thread. The
  // kernel must live as long as the tape. False, and nothing added: the tape has to call Run.
  virtual bool AppendTo(cpu::TapeBuilder&, std::span<const plan::Slice>) const { return false; }
  // Adds the same to a routine, in lanes, where all of it has lanes and is but a few elements. False, and nothing done.
  virtual Result<bool> AppendTo(cpu::RoutineBlock&, std::span<const plan::Slice>) const { return false; }
  // Where the kernel is a loop over values that another one makes, as over the sums of a product: that one, which takes
  // their place as one more binding, the last, and is not observed. Nothing: it is not, or the values are the results.
  struct Values {
    const CpuKernel* kernel = nullptr;
    int64_t bytes = 0;
  };
  virtual Values MadeFrom() const { return {}; }
  // As AppendTo, of that loop alone; the last binding has the values.
  virtual Result<bool> AppendLoopTo(cpu::RoutineBlock&, std::span<const plan::Slice>) const { return false; }
  int64_t scratch_bytes() const { return scratch_bytes_; }
  // Whether it does what CpuKernelOptions::int_dot allows.
  bool rounds_vectors() const { return rounds_vectors_; }

 protected:
  int64_t scratch_bytes_ = 0, kept_bytes_ = 0;
  bool rounds_vectors_ = false;
};

// UNIMPLEMENTED says what the kernel would have needed.
Result<std::unique_ptr<CpuKernel>> CompileKernel(const plan::KernelPlan& plan, const CpuKernelOptions& options);

}  // namespace krafla
