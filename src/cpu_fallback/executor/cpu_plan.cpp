// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/cpu_plan.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

#include "base/host_memory.h"
#include "base/interruption.h"
#include "base/thread_pool.h"
#include "plan/plan_check.h"

namespace krafla {

using plan::Allocation;

namespace {

constexpr int64_t kUnknownTurns = 100;
constexpr int64_t kManyRuns = 1'000'000;

// How often a run of the steps launches each kernel, roughly.
void CountRuns(const plan::StepList& list, int64_t turns, std::vector<int64_t>& runs) {
  for (const plan::Step& step : list.steps) {
    if (const auto* launch = std::get_if<plan::LaunchStep>(&step)) {
      int64_t& count = runs[static_cast<std::size_t>(launch->kernel)];
      count = std::min(count + turns, kManyRuns);
    } else if (const auto* loop = std::get_if<plan::WhileStep>(&step)) {
      const int64_t more = std::clamp<int64_t>(loop->trip_count.value_or(kUnknownTurns), 1, kManyRuns);
      CountRuns(*loop->body, std::min(turns * more, kManyRuns), runs);
      if (!loop->trip_count) CountRuns(*loop->condition, std::min(turns * more, kManyRuns), runs);
    } else if (const auto* conditional = std::get_if<plan::ConditionalStep>(&step)) {
      for (const auto& branch : conditional->branches) CountRuns(*branch, turns, runs);
    }
  }
}

}  // namespace

Result<std::unique_ptr<CpuPlan>> CpuPlan::Create(plan::ProgramPlan plan, const Options& options) {
  KRAFLA_TRY(plan::CheckPlan(plan));
  std::unique_ptr<CpuPlan> out(new CpuPlan(std::make_shared<const plan::ProgramPlan>(std::move(plan))));
  out->kernels_.resize(out->plan_->kernels.size());
  KRAFLA_TRY(out->Configure(options));
  return out;
}

Result<std::unique_ptr<CpuPlan>> CpuPlan::Another(const Options& options) const {
  std::unique_ptr<CpuPlan> out(new CpuPlan(plan_));
  out->kernels_ = kernels_;
  out->kernel_threads_ = kernel_threads_;
  KRAFLA_TRY(out->Configure(options));
  return out;
}

// Makes the kernels that are not there yet, and those that ask the host.
Result<> CpuPlan::Configure(const Options& options) {
  int threads = options.threads;
  if (kernel_threads_ > 0) threads = std::min(threads, kernel_threads_);
  own_pool_ = threads > 0 ? std::make_shared<ThreadPool>(threads) : options.pool;
  pool_ = own_pool_ ? own_pool_.get() : &SharedThreadPool();
  if (kernel_threads_ == 0) kernel_threads_ = pool_->threads();
  if (const EvaluatorHost* host = options.evaluator.host) {
    device_ids_[0] = static_cast<uint32_t>(host->replica);
    device_ids_[1] = static_cast<uint32_t>(host->partition);
  }
  CpuKernelOptions kernel_options{.threads = kernel_threads_, .evaluator = options.evaluator};
  std::vector<int64_t> runs(plan_->kernels.size(), 0);
  CountRuns(plan_->steps, 1, runs);
  int64_t scratch = 0;
  std::size_t most_bindings = 0;
  for (std::size_t k = 0; k < plan_->kernels.size(); ++k) {
    const plan::KernelPlan& kernel = plan_->kernels[k];
    if (kernels_[k] == nullptr || std::holds_alternative<plan::HostKernel>(kernel.body)) {
      kernel_options.runs = std::max<int64_t>(runs[k], 1);
      KRAFLA_ASSIGN(std::unique_ptr<CpuKernel> made, CompileKernel(kernel, kernel_options));
      kernels_[k] = std::move(made);
    }
    scratch = std::max(scratch, kernels_[k]->scratch_bytes());
    most_bindings = std::max(most_bindings, kernel.bindings.size());
  }
  try {
    // Not filled: what no run touches takes no memory, and a large arena would take seconds.
    arena_ = AlignedBytes(static_cast<std::size_t>(plan_->arena_size), false);
    scratch_ = AlignedBytes(static_cast<std::size_t>(scratch), false);
  } catch (const std::bad_alloc&) {
    return ResourceExhausted(
        "The program needs {} bytes for intermediate values and {} for scratch, which the host does "
        "not have (this process may have {} in all).",
        plan_->arena_size, scratch, HostMemoryLimit());
  }
  bindings_.resize(most_bindings);
  bases_.resize(plan_->allocations.size());
  states_ = plan_->states;
  for (std::size_t i = 0; i < bases_.size(); ++i) {
    const Allocation& a = plan_->allocations[i];
    if (a.kind == Allocation::Kind::kArena) {
      bases_[i] = arena_.data() + a.offset;
    } else if (a.kind == Allocation::Kind::kState) {
      bases_[i] = states_[static_cast<std::size_t>(a.number)].data();
    } else if (a.kind == Allocation::Kind::kConstant) {
      // Never written: a plan only reads constants.
      bases_[i] = const_cast<std::byte*>(plan_->constants[static_cast<std::size_t>(a.number)]->bytes().data());
    } else if (a.kind == Allocation::Kind::kDeviceId) {
      bases_[i] = reinterpret_cast<std::byte*>(&device_ids_[a.number]);
    }
  }
  tapes_.clear();
  KRAFLA_TRY(MakeTapes(plan_->steps));
  for (const plan::StepList& callee : plan_->callees) KRAFLA_TRY(MakeTapes(callee));
  return {};
}

Result<> CpuPlan::MakeTapes(const plan::StepList& list) {
  for (const plan::Step& step : list.steps) {
    if (const auto* loop = std::get_if<plan::WhileStep>(&step)) {
      cpu::TapeBuilder builder(*plan_);
      KRAFLA_TRY(builder.AddLoop(*loop, kernels_));
      tapes_.emplace(loop, std::move(builder).Finish());
    } else if (const auto* conditional = std::get_if<plan::ConditionalStep>(&step)) {
      for (const auto& branch : conditional->branches) KRAFLA_TRY(MakeTapes(*branch));
    }
  }
  return {};
}

Result<> CpuPlan::Run(std::span<const std::byte* const> arguments, std::span<std::byte* const> results,
                      const RunLimit& limit) {
  if (arguments.size() != plan_->arguments.size() || results.size() != plan_->results.size()) {
    return InvalidArgument("The program takes {} arguments and gives {} results, but {} and {} buffers came.",
                           plan_->arguments.size(), plan_->results.size(), arguments.size(), results.size());
  }
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i] == nullptr && plan_->arguments[i].byte_size() > 0)
      return InvalidArgument("Argument {} of {} has no buffer.", i, plan_->arguments[i].ToString());
  for (std::size_t i = 0; i < results.size(); ++i)
    if (results[i] == nullptr && plan_->results[i].byte_size() > 0)
      return InvalidArgument("Result {} of {} has no buffer.", i, plan_->results[i].ToString());

  std::lock_guard<std::mutex> lock(in_use_);
  limit_ = &limit;
  for (std::size_t i = 0; i < bases_.size(); ++i) {
    const Allocation& a = plan_->allocations[i];
    const auto number = static_cast<std::size_t>(a.number);
    // Arguments are read only, but for those that a result shares: those are replaced below.
    if (a.kind == Allocation::Kind::kArgument) bases_[i] = const_cast<std::byte*>(arguments[number]);
    if (a.kind == Allocation::Kind::kResult) bases_[i] = results[number];
  }
  for (std::size_t r = 0; r < plan_->result_aliases.size(); ++r) {
    const int argument = plan_->result_aliases[r];
    if (argument < 0) continue;
    const std::byte* from = arguments[static_cast<std::size_t>(argument)];
    const auto size = static_cast<std::size_t>(plan_->results[r].byte_size());
    if (from != results[r] && size > 0) std::memcpy(results[r], from, size);
    for (std::size_t i = 0; i < bases_.size(); ++i) {
      const Allocation& a = plan_->allocations[i];
      if (a.kind == Allocation::Kind::kArgument && a.number == argument) bases_[i] = results[r];
    }
  }
  const LimitedWork work(limit);
  KRAFLA_TRY(RunSteps(plan_->steps));
  return work.Outcome();
}

Result<> CpuPlan::Launch(const plan::LaunchStep& step) {
  KRAFLA_TRY(limit_->Check());
  const auto kernel = static_cast<std::size_t>(step.kernel);
  for (std::size_t i = 0; i < step.bindings.size(); ++i) bindings_[i] = Address(step.bindings[i]);
  const std::span<std::byte* const> bindings(bindings_.data(), step.bindings.size());
  if (!observer_) return kernels_[kernel]->Run(bindings, *pool_, scratch_.data());
  const auto start = std::chrono::steady_clock::now();
  Result<> result = kernels_[kernel]->Run(bindings, *pool_, scratch_.data());
  observer_(step, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return result;
}

// On its tape, but for those inside others, which are there only where each launch is timed.
Result<> CpuPlan::RunLoop(const plan::WhileStep& loop) {
  if (auto tape = tapes_.find(&loop); tape != tapes_.end() && !observer_) {
    cpu::TapeRun run{.pool = *pool_, .scratch = scratch_.data(), .limit = *limit_};
    run.run_steps = [](void* owner, const plan::StepList& steps) {
      return static_cast<CpuPlan*>(owner)->RunSteps(steps);
    };
    run.owner = this;
    return tape->second.Run(bases_, run);
  }
  if (loop.trip_count) {
    for (int64_t i = 0; i < *loop.trip_count; ++i) {
      KRAFLA_TRY(limit_->Check());
      KRAFLA_TRY(RunSteps(*loop.body));
    }
    return {};
  }
  while (true) {
    KRAFLA_TRY(limit_->Check());
    KRAFLA_TRY(RunSteps(*loop.condition));
    if (*Address(loop.predicate) == std::byte{0}) return {};
    KRAFLA_TRY(RunSteps(*loop.body));
  }
}

Result<> CpuPlan::RunSteps(const plan::StepList& list) {
  for (const plan::Step& step : list.steps) {
    if (const auto* launch = std::get_if<plan::LaunchStep>(&step)) {
      KRAFLA_TRY(Launch(*launch));
    } else if (const auto* copy = std::get_if<plan::CopyStep>(&step)) {
      const std::byte* from = Address(copy->from);
      std::byte* to = Address(copy->to);
      const auto size = static_cast<std::size_t>(copy->to.size);
      if (size > 0 && from != to) {
        pool_->ParallelFor(copy->to.size, 256 * 1024, [&](int64_t begin, int64_t end, int) {
          std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
        });
      }
    } else if (const auto* loop = std::get_if<plan::WhileStep>(&step)) {
      KRAFLA_TRY(RunLoop(*loop));
    } else if (const auto* conditional = std::get_if<plan::ConditionalStep>(&step)) {
      const int64_t branches = static_cast<int64_t>(conditional->branches.size());
      int64_t branch;
      if (conditional->index_is_pred) {
        branch = *Address(conditional->index) != std::byte{0} ? 0 : 1;
      } else {
        int32_t index;
        std::memcpy(&index, Address(conditional->index), sizeof(index));
        // An index out of range takes the last branch (XLA: conditional).
        branch = index >= 0 && index < branches ? index : branches - 1;
      }
      KRAFLA_TRY(RunSteps(*conditional->branches[static_cast<std::size_t>(branch)]));
    } else if (const auto* call = std::get_if<plan::CallStep>(&step)) {
      KRAFLA_TRY(RunSteps(plan_->callees[static_cast<std::size_t>(call->callee)]));
    }
  }
  return {};
}

}  // namespace krafla
