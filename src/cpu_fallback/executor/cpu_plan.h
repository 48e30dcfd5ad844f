// SPDX-License-Identifier: Apache-2.0
// A ProgramPlan made ready to run on the CPU: its kernels compiled, its arena and scratch allocated and kept warm, so
// that a run allocates nothing.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/run_limit.h"
#include "base/subnormals.h"
#include "base/thread_pool.h"
#include "cpu_fallback/executor/cpu_kernel.h"
#include "cpu_fallback/executor/tape.h"
#include "krafla/aligned_bytes.h"
#include "krafla/status.h"
#include "plan/program_plan.h"

namespace krafla {

class CpuPlan {
 public:
  struct Options {
    int threads = 0;                             // else than 0: a pool of its own
    std::shared_ptr<ThreadPool> pool = nullptr;  // null: the one that all executables share
    EvaluatorOptions evaluator = {};             // its host, if any, must outlive the executable
    bool int_dot = false;                        // as CpuKernelOptions; Another's kernels are as they are
    bool own_products = false;                   // the same
    // Told of kernels made ready, the `done`-th of `total`.
    std::function<void(int done, int total)> progress = {};
  };
  static Result<std::unique_ptr<CpuPlan>> Create(plan::ProgramPlan plan, const Options& options);
  // Another executable of the same program, with memory and options of its own. The two may run at once. It uses no
  // more threads than this one was created for.
  Result<std::unique_ptr<CpuPlan>> Another(const Options& options) const;
  // Takes other options. Not during a run.
  Result<> MakeKernels(const Options& options);
  Result<> Configure(const Options& options);

  // One pointer a leaf of the arguments and the results; null for leaves without bytes. A result that shares an
  // argument's buffer may be given that argument's pointer; otherwise the argument is copied to it first.
  // Runs of one executable come one after the other, whatever threads they are called from.
  Result<> Run(std::span<const std::byte* const> arguments, std::span<std::byte* const> results,
               const RunLimit& limit = kUnlimited);

  const plan::ProgramPlan& plan() const { return *plan_; }
  // Kernels that round what they multiply (CpuKernelOptions::int_dot).
  int rounding_kernels() const;
  // What its kernels keep of constants once each has run.
  int64_t kept_bytes() const;

  // What a step took each time: a launch, a copy, a row group with all its blocks, or a loop in no other one, without
  // the steps in it that are told of themselves; or, before the first step, the copies of arguments whose place a
  // result takes. Called by the thread that runs.
  using ObservedStep = std::variant<std::monostate, const plan::LaunchStep*, const plan::AwaitStep*,
                                    const plan::CopyStep*, const plan::RowGroupStep*, const plan::WhileStep*>;
  using Observer = std::function<void(ObservedStep, double seconds)>;
  void set_observer(Observer observer) { observer_ = std::move(observer); }

 private:
  explicit CpuPlan(std::shared_ptr<const plan::ProgramPlan> plan) : plan_(std::move(plan)) {}
  std::byte* Address(const plan::Slice& slice) const {
    return bases_[static_cast<std::size_t>(slice.allocation)] + slice.offset;
  }
  class Device;
  void PlaceAliased(std::span<const std::byte* const> arguments, std::span<std::byte* const> results);
  Result<> RunSteps();
  // Runs `work`, which is what the step does, and tells the observer, if there is one.
  template <typename Work>
  Result<> Observed(ObservedStep step, Work&& work);
  Result<> Launch(const plan::LaunchStep& step);
  // Of a collective that goes on: begins on the lane of the device, where there is one.
  Result<> Start(const plan::LaunchStep& step);
  Result<> Await(const plan::AwaitStep& step);
  void Copy(const plan::CopyStep& copy);
  Result<> RunGroup(const plan::RowGroupStep& group);
  // What the kernel of a launch keeps of its constants: made by the first launch, shared with Another.
  Result<std::byte*> KeptOf(const plan::LaunchStep& step, const CpuKernel& kernel,
                            std::span<std::byte* const> bindings);
  // One block, in the memory `block`.
  Result<> RunBlock(const plan::RowGroupStep& group, int64_t number, std::byte* block);
  Result<> MakeTapes();

  std::shared_ptr<const plan::ProgramPlan> plan_;
  std::shared_ptr<ThreadPool> own_pool_;
  ThreadPool* pool_ = nullptr;
  Subnormals::As subnormals_ = Subnormals::As::kZeros;
  int kernel_threads_ = 0;  // that the kernels have scratch for
  std::vector<std::shared_ptr<const CpuKernel>> kernels_;
  struct KeptArrays {
    std::mutex making;
    std::unordered_map<const plan::LaunchStep*, AlignedBytes> arrays;
  };
  std::shared_ptr<KeptArrays> kept_ = std::make_shared<KeptArrays>();
  uint32_t device_ids_[2] = {0, 0};  // replica, partition
  AlignedBytes arena_, scratch_;
  // For each thread what a block needs: its arrays (ProgramPlan::block_bytes), then scratch for its kernels.
  AlignedBytes blocks_;
  int64_t block_size_ = 0;
  ThreadPool one_thread_{1};  // that runs the kernels of a block
  std::vector<std::vector<std::byte>> states_;
  std::vector<std::byte*> bases_;  // of the allocations, during a run
  std::vector<std::byte*> bindings_;
  ExchangeLane* lane_ = nullptr;
  std::vector<uint64_t> started_;                                // by exchange of the plan: its number on the lane
  std::unordered_map<const plan::WhileStep*, cpu::Tape> tapes_;  // of the loops that are in no other one
  Observer observer_;
  double observed_s_ = 0;                // told to it so far
  const RunLimit* limit_ = &kUnlimited;  // during a run
  std::mutex in_use_;
};

}  // namespace krafla
