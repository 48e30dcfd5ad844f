// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/cpu_plan.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <mutex>
#include <new>

#include "base/checked_math.h"
#include "base/guards.h"
#include "base/host_memory.h"
#include "base/interruption.h"
#include "base/thread_pool.h"
#include "base/without_exceptions.h"
#include "plan/plan_check.h"
#include "plan/step_runner.h"

namespace krafla {

using plan::Allocation;

namespace {

constexpr int64_t kUnknownTurns = 100;
constexpr int64_t kManyRuns = 1'000'000;
constexpr double kNanosecondsOfFlop = 0.05;
constexpr double kNanosecondsOfKernel = 100'000;  // to make one

int64_t BlocksOf(const plan::RowGroupStep& group) {
  int64_t blocks = 1;
  for (int64_t extent : group.grid) blocks *= extent;
  return blocks;
}

// The blocks of the row groups that run a kernel; 1 for what is launched as a whole.
std::vector<int64_t> PartsOf(const plan::ProgramPlan& plan) {
  std::vector<int64_t> out(plan.kernels.size(), 0);
  plan::ForEachStep(plan, [&](const plan::Step& step) {
    const auto* group = std::get_if<plan::RowGroupStep>(&step);
    plan::ForEachLaunchOf(step, [&](const plan::LaunchStep& launch) {
      int64_t& parts = out[static_cast<std::size_t>(launch.kernel)];
      parts = group == nullptr || parts == 1 ? 1 : std::max(parts, BlocksOf(*group));
    });
  });
  return out;
}

// The kernels that run on blocks of rows.
std::vector<bool> RunOnBlocks(const plan::ProgramPlan& plan) {
  std::vector<bool> out(plan.kernels.size(), false);
  plan::ForEachStep(plan, [&](const plan::Step& step) {
    if (const auto* group = std::get_if<plan::RowGroupStep>(&step))
      for (const plan::BlockLaunch& launch : group->launches) out[static_cast<std::size_t>(launch.kernel)] = true;
  });
  return out;
}

// The bindings of each kernel that lie in constants at each launch; none of kernels that run in loops, branches or row
// groups, where others place the bindings.
std::vector<std::vector<bool>> ConstantsOf(const plan::ProgramPlan& plan) {
  std::vector<std::vector<bool>> out(plan.kernels.size());
  std::vector<int64_t> launches(plan.kernels.size(), 0);
  plan::ForEachLaunch(plan,
                      [&](const plan::LaunchStep& launch) { ++launches[static_cast<std::size_t>(launch.kernel)]; });
  for (const plan::Step& step : plan.steps.steps) {
    const auto* launch = std::get_if<plan::LaunchStep>(&step);
    if (launch == nullptr) continue;
    const auto kernel = static_cast<std::size_t>(launch->kernel);
    --launches[kernel];
    std::vector<bool>& constants = out[kernel];
    if (constants.empty()) constants.assign(launch->bindings.size(), true);
    for (std::size_t i = 0; i < launch->bindings.size(); ++i) {
      const auto allocation = static_cast<std::size_t>(launch->bindings[i].allocation);
      if (plan.allocations[allocation].kind != Allocation::Kind::kConstant) constants[i] = false;
    }
  }
  for (std::size_t k = 0; k < out.size(); ++k)
    if (launches[k] != 0) out[k].clear();
  return out;
}

// How often a run of the steps launches each kernel, roughly.
void CountRuns(const plan::StepList& list, int64_t turns, std::vector<int64_t>& runs) {
  for (const plan::Step& step : list.steps) {
    int64_t blocks = 1;
    if (const auto* group = std::get_if<plan::RowGroupStep>(&step)) blocks = BlocksOf(*group);
    plan::ForEachLaunchOf(step, [&](const plan::LaunchStep& launch) {
      int64_t& count = runs[static_cast<std::size_t>(launch.kernel)];
      count = std::min(count + std::min(turns * std::min(blocks, kManyRuns), kManyRuns), kManyRuns);
    });
    if (const auto* loop = std::get_if<plan::WhileStep>(&step)) {
      const int64_t more = std::clamp<int64_t>(loop->trip_count.value_or(kUnknownTurns), 1, kManyRuns);
      CountRuns(*loop->body, std::min(turns * more, kManyRuns), runs);
      if (!loop->trip_count) CountRuns(*loop->condition, std::min(turns * more, kManyRuns), runs);
    } else if (const auto* conditional = std::get_if<plan::ConditionalStep>(&step)) {
      for (const auto& branch : conditional->branches) CountRuns(*branch, turns, runs);
    }
  }
}

// A subnormal result of f32 may round up to the smallest normal number of bf16, which has f32's exponents, and one that
// is half of an f64 to f32's own.
Subnormals::As SubnormalsIn(const Module& module) {
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      if (!instruction->shape().IsArray()) continue;
      const ElementType type = instruction->shape().element_type();
      if (type == ElementType::kBF16 || type == ElementType::kF8E8M0FNU) return Subnormals::As::kNumbers;
      if (instruction->opcode() != Opcode::kConvert || StorageBytes(type) > 4) continue;
      const ElementType from = instruction->operand(0)->shape().element_type();
      if (IsFloat(type) && from == ElementType::kF64) return Subnormals::As::kNumbers;
    }
  }
  return Subnormals::As::kZeros;
}

}  // namespace

Result<std::unique_ptr<CpuPlan>> CpuPlan::Create(plan::ProgramPlan plan, const Options& options) {
  KRAFLA_TRY(plan::CheckPlan(plan));
  std::unique_ptr<CpuPlan> out(new CpuPlan(std::make_shared<const plan::ProgramPlan>(std::move(plan))));
  out->subnormals_ = SubnormalsIn(*out->plan_->module);
  out->kernels_.resize(out->plan_->kernels.size());
  KRAFLA_TRY(out->Configure(options));
  return out;
}

Result<std::unique_ptr<CpuPlan>> CpuPlan::Another(const Options& options) const {
  std::unique_ptr<CpuPlan> out(new CpuPlan(plan_));
  out->subnormals_ = subnormals_;
  out->kernels_ = kernels_;
  out->kept_ = kept_;
  out->kernel_threads_ = kernel_threads_;
  KRAFLA_TRY(out->Configure(options));
  return out;
}

// On all threads of the pool: oneDNN takes half a millisecond for a convolution.
Result<> CpuPlan::MakeKernels(const Options& options) {
  std::vector<int64_t> runs(plan_->kernels.size(), 0);
  CountRuns(plan_->steps, 1, runs);
  const std::vector<int64_t> parts = PartsOf(*plan_);
  const std::vector<bool> on_blocks = RunOnBlocks(*plan_);
  const std::vector<std::vector<bool>> constants = ConstantsOf(*plan_);
  std::vector<std::size_t> missing;
  for (std::size_t k = 0; k < plan_->kernels.size(); ++k)
    if (kernels_[k] == nullptr || std::holds_alternative<plan::HostKernel>(plan_->kernels[k].body))
      missing.push_back(k);
  std::vector<Result<>> made(missing.size());
  const int total = static_cast<int>(plan_->kernels.size());
  int ready = total - static_cast<int>(missing.size());
  std::mutex one_call;
  const auto make = [&](std::size_t k) -> Result<> {
    CpuKernelOptions kernel_options{.threads = kernel_threads_,
                                    .evaluator = options.evaluator,
                                    .int_dot = options.int_dot,
                                    .own_products = options.own_products};
    kernel_options.constants = constants[k];
    kernel_options.runs = std::max<int64_t>(runs[k], 1);
    // One thread runs all kernels of a block.
    if (parts[k] > 1) kernel_options.threads = 1;
    kernel_options.parts = std::max<int64_t>(parts[k], 1);
    kernel_options.any_rows = options.own_products || on_blocks[k];
    KRAFLA_ASSIGN(std::unique_ptr<CpuKernel> kernel, CompileKernel(plan_->kernels[k], kernel_options));
    kernels_[k] = std::move(kernel);
    if (!options.progress) return {};
    const std::scoped_lock lock(one_call);
    options.progress(++ready, total);
    return {};
  };
  const auto count = static_cast<int64_t>(missing.size());
  pool_->ParallelParts(count, static_cast<double>(count) * kNanosecondsOfKernel, [&](int64_t begin, int64_t end, int) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      made[i] = WithoutExceptions([&] { return make(missing[i]); });
  });
  for (Result<>& result : made) KRAFLA_TRY(std::move(result));
  return {};
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
  KRAFLA_TRY(MakeKernels(options));
  int64_t scratch = 0, block_scratch = 0;
  std::size_t most_bindings = 0;
  for (std::size_t k = 0; k < plan_->kernels.size(); ++k) {
    scratch = std::max(scratch, kernels_[k]->scratch_bytes());
    most_bindings = std::max(most_bindings, plan_->kernels[k].bindings.size());
  }
  plan::ForEachStep(*plan_, [&](const plan::Step& step) {
    if (const auto* group = std::get_if<plan::RowGroupStep>(&step))
      for (const plan::BlockLaunch& launch : group->launches)
        block_scratch = std::max(block_scratch, kernels_[static_cast<std::size_t>(launch.kernel)]->scratch_bytes());
  });
  block_size_ = RoundUp(plan_->block_bytes, 64) + RoundUp(block_scratch, 64);
  try {
    // Not filled: what no run touches takes no memory, and a large arena would take seconds.
    arena_ = AlignedBytes(static_cast<std::size_t>(plan_->arena_size), false);
    if (!plan_->guarded.empty()) GuardBetween(arena_.data(), plan_->arena_size, plan_->guarded);
    scratch_ = AlignedBytes(static_cast<std::size_t>(scratch), false);
    blocks_ = AlignedBytes(static_cast<std::size_t>(block_size_ * kernel_threads_), false);
  } catch (const std::bad_alloc&) {
    return ResourceExhausted(
        "The program needs {} bytes for intermediate values and {} for scratch, which the host does "
        "not have (this process may have {} in all).",
        plan_->arena_size, scratch + block_size_ * kernel_threads_, HostMemoryLimit());
  }
  bindings_.resize(most_bindings + 1);  // and what a kernel keeps
  lane_ = options.evaluator.host != nullptr ? options.evaluator.host->lane : nullptr;
  started_.assign(static_cast<std::size_t>(plan_->exchanges), 0);
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
  return MakeTapes();
}

int CpuPlan::rounding_kernels() const {
  return static_cast<int>(std::ranges::count_if(kernels_, [](const auto& k) { return k->rounds_vectors(); }));
}

int64_t CpuPlan::kept_bytes() const {
  int64_t out = 0;
  plan::ForEachLaunch(*plan_, [&](const plan::LaunchStep& launch) {
    out += kernels_[static_cast<std::size_t>(launch.kernel)]->kept_bytes();
  });
  return out;
}

// Of the loops that are in no other one.
Result<> CpuPlan::MakeTapes() {
  return plan::TryForEachStep(*plan_, [&](const plan::Step& step) -> Result<bool> {
    const auto* loop = std::get_if<plan::WhileStep>(&step);
    if (loop == nullptr) return true;
    cpu::TapeBuilder builder(*plan_);
    KRAFLA_TRY(builder.AddLoop(*loop, kernels_));
    tapes_.emplace(loop, std::move(builder).Finish());
    return false;
  });
}

template <typename Work>
Result<> CpuPlan::Observed(ObservedStep step, Work&& work) {
  if (!observer_) return work();
  const double before = observed_s_;
  const auto start = std::chrono::steady_clock::now();
  Result<> result = work();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const double own = std::max(0.0, took.count() - (observed_s_ - before));
  observed_s_ += own;
  observer_(step, own);
  return result;
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
  KRAFLA_TRY(Observed(std::monostate(), [&]() -> Result<> {
    PlaceAliased(arguments, results);
    return {};
  }));
  const LimitedWork work(limit);
  const Subnormals subnormals(subnormals_);
  Result<> ran = RunSteps();
  if (ran) return work.Outcome();
  // What goes on works in memory that is the caller's.
  if (lane_ != nullptr) lane_->GiveUp(ran);
  return ran;
}

// Results that begin as an argument.
void CpuPlan::PlaceAliased(std::span<const std::byte* const> arguments, std::span<std::byte* const> results) {
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
}

Result<> CpuPlan::Launch(const plan::LaunchStep& step) {
  const auto kernel = static_cast<std::size_t>(step.kernel);
  for (std::size_t i = 0; i < step.bindings.size(); ++i) bindings_[i] = Address(step.bindings[i]);
  std::span<std::byte* const> bindings(bindings_.data(), step.bindings.size());
  if (kernels_[kernel]->kept_bytes() > 0) {
    KRAFLA_ASSIGN(bindings_[step.bindings.size()], KeptOf(step, *kernels_[kernel], bindings));
    bindings = std::span(bindings_.data(), step.bindings.size() + 1);
  }
  return kernels_[kernel]->Run(bindings, *pool_, scratch_.data());
}

Result<std::byte*> CpuPlan::KeptOf(const plan::LaunchStep& step, const CpuKernel& kernel,
                                   std::span<std::byte* const> bindings) {
  const std::scoped_lock lock(kept_->making);
  auto found = kept_->arrays.find(&step);
  if (found == kept_->arrays.end()) {
    AlignedBytes kept;
    try {
      kept = AlignedBytes(static_cast<std::size_t>(kernel.kept_bytes()), false);
    } catch (const std::bad_alloc&) {
      return ResourceExhausted(
          "The program keeps {} bytes of a constant in the order of a kernel, which the host does "
          "not have.",
          kernel.kept_bytes());
    }
    KRAFLA_TRY(kernel.Keep(bindings, *pool_, scratch_.data(), kept.data()));
    KRAFLA_TRY(limit_->Check());  // what was interrupted is no whole array
    found = kept_->arrays.emplace(&step, std::move(kept)).first;
  }
  return found->second.data();
}

Result<> CpuPlan::Start(const plan::LaunchStep& step) {
  if (lane_ == nullptr) return Launch(step);
  std::vector<std::byte*> bindings;
  for (const plan::Slice& slice : step.bindings) bindings.push_back(Address(slice));
  const CpuKernel& kernel = *kernels_[static_cast<std::size_t>(step.kernel)];
  started_[static_cast<std::size_t>(step.exchange)] =
      lane_->Start([this, &kernel, bindings = std::move(bindings)]() -> Result<> {
        const LimitedWork work(*limit_);
        KRAFLA_TRY(kernel.Run(bindings, one_thread_, nullptr));
        return work.Outcome();
      });
  return {};
}

Result<> CpuPlan::Await(const plan::AwaitStep& step) {
  return lane_ == nullptr ? Result<>() : lane_->Await(started_[static_cast<std::size_t>(step.exchange)]);
}

Result<> CpuPlan::RunBlock(const plan::RowGroupStep& group, int64_t number, std::byte* block) {
  std::array<int64_t, plan::RowGroupStep::kMostDims> at{};
  for (std::size_t g = group.grid.size(); g-- > 0; number /= group.grid[g]) at[g] = number % group.grid[g];
  const auto address = [&](const plan::Slice& slice) {
    const Allocation& a = plan_->allocations[static_cast<std::size_t>(slice.allocation)];
    return a.kind == Allocation::Kind::kBlock ? block + a.offset + slice.offset : Address(slice);
  };
  if (group.place.size > 0) {
    auto* place = reinterpret_cast<int32_t*>(address(group.place));
    for (std::size_t g = 0; g < group.grid.size(); ++g) place[g] = static_cast<int32_t>(at[g]);
  }
  std::array<std::byte*, 256> bindings;
  for (const plan::BlockLaunch& launch : group.launches) {
    const std::size_t count = launch.bindings.size();
    KRAFLA_CHECK(count <= bindings.size());
    for (std::size_t b = 0; b < count; ++b) {
      bindings[b] = address(launch.bindings[b]);
      for (std::size_t g = 0; g < group.grid.size(); ++g) bindings[b] += at[g] * launch.strides[b][g];
    }
    const CpuKernel& kernel = *kernels_[static_cast<std::size_t>(launch.kernel)];
    KRAFLA_TRY(kernel.Run(std::span(bindings).first(count), one_thread_, block + RoundUp(plan_->block_bytes, 64)));
  }
  return {};
}

Result<> CpuPlan::RunGroup(const plan::RowGroupStep& group) {
  std::mutex failing;
  Result<> outcome;
  double flops = 0;
  for (const plan::BlockLaunch& launch : group.launches) {
    const plan::KernelPlan& kernel = plan_->kernels[static_cast<std::size_t>(launch.kernel)];
    flops += kernel.flops + kernel.bytes;
  }
  const int64_t blocks = BlocksOf(group);
  int64_t run = 1;  // blocks that run in order
  for (int d = 0; d < group.in_order; ++d) run *= group.grid[group.grid.size() - 1 - static_cast<std::size_t>(d)];
  pool_->ParallelParts(blocks / run, flops * static_cast<double>(blocks) * kNanosecondsOfFlop,
                       [&](int64_t begin, int64_t end, int worker) {
                         for (int64_t b = begin * run; b < end * run; ++b) {
                           Result<> done = limit_->Check();
                           if (done) done = RunBlock(group, b, blocks_.data() + worker * block_size_);
                           if (done) continue;
                           std::lock_guard<std::mutex> lock(failing);
                           if (outcome) outcome = std::move(done);
                           return;
                         }
                       });
  return outcome;
}

void CpuPlan::Copy(const plan::CopyStep& copy) {
  const std::byte* from = Address(copy.from);
  std::byte* to = Address(copy.to);
  if (copy.to.size <= 0 || from == to) return;
  pool_->ParallelFor(copy.to.size, 256 * 1024, [&](int64_t begin, int64_t end, int) {
    std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
  });
}

// What the steps need of the CPU (plan/step_runner.h).
class CpuPlan::Device {
 public:
  explicit Device(CpuPlan& plan) : plan_(plan) {}

  Result<> Run(const plan::LaunchStep& launch) {
    return plan_.Observed(&launch, [&] { return launch.exchange < 0 ? plan_.Launch(launch) : plan_.Start(launch); });
  }
  Result<> Run(const plan::AwaitStep& await) {
    return plan_.Observed(&await, [&] { return plan_.Await(await); });
  }
  Result<> Run(const plan::CopyStep& copy) {
    return plan_.Observed(&copy, [&]() -> Result<> {
      plan_.Copy(copy);
      return {};
    });
  }
  Result<> Run(const plan::RowGroupStep& group) {
    return plan_.Observed(&group, [&] { return plan_.RunGroup(group); });
  }
  // On its tape, which has all loops inside it too.
  Result<bool> TryLoop(const plan::WhileStep& loop) {
    const auto tape = plan_.tapes_.find(&loop);
    if (tape == plan_.tapes_.end()) return false;
    KRAFLA_TRY(plan_.Observed(&loop, [&] { return RunTape(tape->second); }));
    return true;
  }
  Result<> RunTape(cpu::Tape& tape) {
    cpu::TapeRun run{.pool = *plan_.pool_, .scratch = plan_.scratch_.data(), .limit = *plan_.limit_};
    run.run_steps = [](void* owner, const plan::StepList& steps) {
      return plan::RunSteps(steps, *static_cast<Device*>(owner));
    };
    run.run_exchange = [](void* owner, const plan::LaunchStep& launch) {
      return static_cast<Device*>(owner)->Run(launch);
    };
    run.await = [](void* owner, const plan::AwaitStep& await) { return static_cast<Device*>(owner)->Run(await); };
    if (plan_.observer_)
      run.run_launch = [](void* owner, const plan::LaunchStep& launch) {
        return static_cast<Device*>(owner)->Run(launch);
      };
    run.run_group = [](void* owner, const plan::RowGroupStep& group) {
      return static_cast<Device*>(owner)->Run(group);
    };
    run.owner = this;
    return tape.Run(plan_.bases_, run);
  }
  Result<> Check() const { return plan_.limit_->Check(); }
  Result<bool> ReadPredicate(const plan::Slice& slice) const { return *plan_.Address(slice) != std::byte{0}; }
  Result<int32_t> ReadIndex(const plan::Slice& slice) const {
    int32_t index;
    std::memcpy(&index, plan_.Address(slice), sizeof(index));
    return index;
  }
  const plan::StepList& Callee(int number) const { return plan_.plan_->callees[static_cast<std::size_t>(number)]; }
  auto PaceTurns() {
    return [](int64_t) -> Result<> { return {}; };
  }

 private:
  CpuPlan& plan_;
};

Result<> CpuPlan::RunSteps() {
  Device device(*this);
  return plan::RunSteps(plan_->steps, device);
}

}  // namespace krafla
