// SPDX-License-Identifier: Apache-2.0
#include "api/cpu/cpu_executable.h"

#include <algorithm>
#include <utility>

#include "api/feature_names.h"
#include "api/front_end.h"
#include "plan/step_runner.h"

namespace krafla {
namespace {

// How many runs may be under way beside one. Steps on the host ask for things in an order, and call functions that are
// promised one call at a time; random numbers follow one another.
int MostSpares(const plan::ProgramPlan& plan, const CompileOptions& options) {
  const auto is_on_host = [](const plan::KernelPlan& k) { return std::holds_alternative<plan::HostKernel>(k.body); };
  if (!plan.states.empty() || std::ranges::any_of(plan.kernels, is_on_host)) return 0;
  if (options.concurrent_runs > 0) return options.concurrent_runs - 1;
  return (options.threads != nullptr ? options.threads->threads() : ThreadPool::DefaultThreads()) - 1;
}

}  // namespace

Result<std::unique_ptr<Executable>> CpuExecutable::Create(plan::ProgramPlan plan, EntryInterface interface,
                                                          CompileReport report, const std::string& description,
                                                          std::unique_ptr<HostServices> services,
                                                          const CompileOptions& options) {
  std::unique_ptr<CpuExecutable> out(
      new CpuExecutable(std::move(interface), std::move(report), description, std::move(services), options.threads));
  Stopwatch emit;
  KRAFLA_ASSIGN(out->plan_, CpuPlan::Create(std::move(plan), {.pool = out->threads_,
                                                              .evaluator = out->services_->evaluator_options(),
                                                              .int_dot = options.enabled.contains(std::string(kIntDot)),
                                                              .progress = options.progress}));
  out->most_spares_ = MostSpares(out->plan_->plan(), options);
  out->spares_.reserve(static_cast<std::size_t>(out->most_spares_));
  out->report_.emit_ms = emit.Milliseconds();
  out->report_.device_instructions = out->report_.instructions;
  out->report_.rounding_kernels = out->plan_->rounding_kernels();
  out->report_.kept_bytes = out->plan_->kept_bytes();
  return out;
}

Result<> CpuExecutable::SetArguments(std::span<const Literal* const> arguments) {
  return WithoutExceptions([&]() -> Result<> {
    KRAFLA_TRY(CheckArguments(arguments, this->arguments()));
    std::vector<std::shared_ptr<const Literal>> copies;
    for (const Literal* a : arguments) {
      KRAFLA_ASSIGN(Literal copy, CopyOf(*a));
      copies.push_back(std::make_shared<const Literal>(std::move(copy)));
    }
    return ShareArguments(std::move(copies));
  });
}

Result<> CpuExecutable::ShareArguments(std::vector<std::shared_ptr<const Literal>> arguments) {
  return WithoutExceptions([&]() -> Result<> {
    std::vector<const Literal*> literals;
    for (const auto& a : arguments) literals.push_back(a.get());
    KRAFLA_TRY(CheckArguments(literals, this->arguments()));
    pointers_.clear();
    for (const Literal* a : literals) pointers_.push_back(a->bytes().empty() ? nullptr : a->bytes().data());
    arguments_ = std::move(arguments);
    return MakeResults();
  });
}

Result<> CpuExecutable::Execute() {
  return WithoutExceptions([&]() -> Result<> {
    std::lock_guard lock(running_);
    if (arguments_.empty() && !arguments().empty()) return FailedPrecondition("No arguments have been set.");
    KRAFLA_TRY(MakeResults());
    has_results_ = false;
    services_->SetLimit(limit_);
    KRAFLA_TRY(plan_->Run(pointers_, result_pointers_, *limit_));
    has_results_ = true;
    return {};
  });
}

const CpuExecutable::StepRows& CpuExecutable::step_rows() {
  if (step_rows_) return *step_rows_;
  StepRows& out = step_rows_.emplace();
  const auto add = [&](const void* key, ProfiledStep row) {
    row.place = "cpu";
    out.row_of.emplace(key, out.rows.size());
    out.rows.push_back(std::move(row));
  };
  if (ProfiledStep aliased = DescribeAliasedCopies(plan_->plan()); aliased.bytes > 0) add(nullptr, std::move(aliased));
  plan::ForEachStep(plan_->plan(), [&](const plan::Step& step) {
    if (const auto* launch = std::get_if<plan::LaunchStep>(&step)) add(launch, DescribeStep(plan_->plan(), *launch));
    if (const auto* await = std::get_if<plan::AwaitStep>(&step)) add(await, DescribeStep(*await));
    if (const auto* group = std::get_if<plan::RowGroupStep>(&step)) add(group, DescribeStep(plan_->plan(), *group));
    if (const auto* copy = std::get_if<plan::CopyStep>(&step)) add(copy, DescribeStep(*copy));
    if (const auto* loop = std::get_if<plan::WhileStep>(&step)) add(loop, DescribeStep(*loop));
  });
  return out;
}

const std::size_t* CpuExecutable::StepRows::Find(CpuPlan::ObservedStep step) const {
  struct KeyOf {
    const void* operator()(std::monostate) const { return nullptr; }
    const void* operator()(const void* key) const { return key; }
  };
  const auto at = row_of.find(std::visit(KeyOf(), step));
  return at == row_of.end() ? nullptr : &at->second;
}

void CpuExecutable::SetStepObserver(const StepObserver* observer) {
  if (observer == nullptr) return plan_->set_observer({});
  plan_->set_observer([&rows = step_rows(), observer](CpuPlan::ObservedStep step, double seconds) {
    const std::size_t* const row = rows.Find(step);
    if (row == nullptr) return;
    const auto took =
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
    (*observer)(rows.rows[*row], std::chrono::steady_clock::now() - took, seconds * 1e3);
  });
}

Result<RunProfile> CpuExecutable::Profile(int runs) {
  return WithoutExceptions([&]() -> Result<RunProfile> {
    std::lock_guard lock(running_);
    const StepRows& steps = step_rows();
    return ProfileRuns(
        runs, steps.rows, [&] { return Execute(); },
        [&](std::span<ProfiledStep> measured) {
          plan_->set_observer([&](CpuPlan::ObservedStep step, double seconds) {
            const std::size_t* const at = steps.Find(step);
            if (at == nullptr) return;
            ProfiledStep& row = measured[*at];
            ++row.times;
            row.ms += seconds * 1e3;
          });
          Result<> done = Execute();
          plan_->set_observer({});
          return done;
        });
  });
}

Result<std::vector<Literal>> CpuExecutable::Results() {
  return WithoutExceptions([&]() -> Result<std::vector<Literal>> {
    if (!has_results_)
      return FailedPrecondition("There are no results: the program has not run since the arguments were set.");
    std::vector<Literal> out;
    for (const Literal& r : results_) {
      KRAFLA_ASSIGN(Literal copy, CopyOf(r));
      out.push_back(std::move(copy));
    }
    return out;
  });
}

Result<std::vector<Literal>> CpuExecutable::TakeResults() {
  if (!has_results_)
    return FailedPrecondition("There are no results: the program has not run since the arguments were set.");
  has_results_ = false;
  return std::exchange(results_, {});
}

std::unique_ptr<CpuExecutable::Lane> CpuExecutable::TakeSpare() {
  {
    const std::lock_guard lock(spares_in_);
    if (!spares_.empty()) {
      std::unique_ptr<Lane> spare = std::move(spares_.back());
      spares_.pop_back();
      return spare;
    }
    if (spares_made_ == most_spares_) return nullptr;
    ++spares_made_;
  }
  auto made = plan_->Another({.pool = threads_, .evaluator = services_->evaluator_options()});
  if (!made) {  // for want of memory: its turn comes
    const std::lock_guard lock(spares_in_);
    --spares_made_;
    return nullptr;
  }
  auto spare = std::make_unique<Lane>();
  spare->own = std::move(*made);
  spare->plan = spare->own.get();
  return spare;
}

template <typename Work>
Result<> CpuExecutable::OnLane(const RunLimit& limit, Work&& work) {
  std::unique_lock turn(running_, std::try_to_lock);
  if (!turn.owns_lock()) {
    struct Back {
      CpuExecutable& executable;
      std::unique_ptr<Lane> lane;
      ~Back() {
        if (lane == nullptr) return;
        const std::lock_guard lock(executable.spares_in_);
        executable.spares_.push_back(std::move(lane));  // there is room for each
      }
    };
    if (const Back spare{*this, TakeSpare()}; spare.lane != nullptr) return work(*spare.lane);
    KRAFLA_ASSIGN(turn, TakeTurn(limit));
  }
  main_.plan = plan_.get();
  services_->SetLimit(&limit);
  return work(main_);
}

Result<> CpuExecutable::TryRunInPlace(std::span<const std::span<const std::byte>> arguments,
                                      std::span<const std::span<std::byte>> results, const RunLimit& limit) {
  return OnLane(limit, [&](Lane& lane) {
    lane.arguments.clear();
    for (const std::span<const std::byte>& a : arguments) lane.arguments.push_back(a.empty() ? nullptr : a.data());
    lane.results.clear();
    for (const std::span<std::byte>& r : results) lane.results.push_back(r.empty() ? nullptr : r.data());
    return lane.plan->Run(lane.arguments, lane.results, limit);
  });
}

Result<DeviceBuffers> CpuExecutable::RunOnBuffersWithin(std::vector<DeviceArgument> arguments, const RunLimit& limit) {
  return WithoutExceptions([&]() -> Result<DeviceBuffers> {
    KRAFLA_TRY(CheckBuffers(arguments, this->arguments()));
    // What other devices have; a host's buffers are read where they are.
    std::vector<HostView> views;
    for (std::size_t a = 0; a < arguments.size(); ++a) {
      auto view = arguments[a].buffer->View();
      if (!view) return Failure(std::move(view).error().WithContext(Format("in argument {}", a)));
      if (dynamic_cast<const HostBuffer*>(arguments[a].buffer.get()) != nullptr) view->owner = nullptr;
      views.push_back(std::move(*view));
    }
    std::vector<std::shared_ptr<const Literal>> made;
    const Result<> run = OnLane(limit, [&](Lane& lane) -> Result<> {
      if (&lane == &main_) {
        arguments_.clear();
        results_.clear();
        has_results_ = false;
      }
      lane.arguments.clear();
      for (const HostView& v : views) lane.arguments.push_back(v.bytes.empty() ? nullptr : v.bytes.data());
      lane.results.clear();
      for (std::size_t r = 0; r < results().size(); ++r) {
        const int alias = plan_->plan().result_aliases[r];
        std::shared_ptr<const Literal> taken;
        if (alias >= 0) taken = Overwritable(arguments, static_cast<std::size_t>(alias));
        if (taken == nullptr) {
          KRAFLA_ASSIGN(Literal fresh, Literal::CreateUninitialized(results()[r]));
          taken = std::make_shared<const Literal>(std::move(fresh));
        }
        // Literals are constant for those who share them, and nobody shares these.
        lane.results.push_back(taken->bytes().empty() ? nullptr : const_cast<std::byte*>(taken->bytes().data()));
        made.push_back(std::move(taken));
      }
      return lane.plan->Run(lane.arguments, lane.results, limit);
    });
    for (DeviceArgument& a : arguments)
      if (a.donated) a.buffer->Release();
    KRAFLA_TRY(run);
    DeviceBuffers out;
    out.reserve(made.size());
    for (auto& literal : made) out.push_back(std::make_shared<HostBuffer>(std::move(literal)));
    return out;
  });
}

Result<> CpuExecutable::Join(const EvaluatorHost* host, int64_t devices) {
  std::unique_ptr<HostServices> services = services_->For(*host);
  KRAFLA_TRY(plan_->Configure(GroupOptions(*services, devices)));
  services_ = std::move(services);
  return {};
}

Result<std::unique_ptr<Executable>> CpuExecutable::Another(const EvaluatorHost* host, int64_t devices) const {
  std::unique_ptr<CpuExecutable> out(
      new CpuExecutable(interface_, report_, device_description_, services_->For(*host), threads_));
  KRAFLA_ASSIGN(out->plan_, plan_->Another(GroupOptions(*out->services_, devices)));
  return out;
}

// The threads, shared out evenly. Those of someone else are not ours to share out.
CpuPlan::Options CpuExecutable::GroupOptions(const HostServices& services, int64_t devices) const {
  CpuPlan::Options out{.pool = threads_, .evaluator = services.evaluator_options()};
  if (devices <= 1 || (threads_ != nullptr && !threads_->owns_threads())) return out;
  const int threads = threads_ != nullptr ? threads_->threads() : ThreadPool::DefaultThreads();
  out.threads = std::max(1, threads / static_cast<int>(devices));
  return out;
}

std::shared_ptr<const Literal> CpuExecutable::Overwritable(std::span<const DeviceArgument> arguments,
                                                           std::size_t number) {
  const auto literal_of = [&](const DeviceArgument& a) -> const Literal* {
    const auto* host = dynamic_cast<const HostBuffer*>(a.buffer.get());
    return host != nullptr ? host->literal().get() : nullptr;
  };
  const Literal* wanted = literal_of(arguments[number]);
  if (!arguments[number].donated || wanted == nullptr) return nullptr;
  const auto& literal = static_cast<const HostBuffer&>(*arguments[number].buffer).literal();
  const auto is_it = [&](const DeviceArgument& a) { return literal_of(a) == wanted; };
  return literal.use_count() == 1 && std::ranges::count_if(arguments, is_it) == 1 ? literal : nullptr;
}

Result<> CpuExecutable::MakeResults() {
  if (results_.size() == results().size()) return {};
  std::vector<Literal> made;
  for (const Shape& s : results()) {
    KRAFLA_ASSIGN(Literal one, Literal::Create(s));
    made.push_back(std::move(one));
  }
  results_ = std::move(made);
  result_pointers_.clear();
  for (Literal& r : results_) result_pointers_.push_back(r.bytes().empty() ? nullptr : r.bytes().data());
  return {};
}

}  // namespace krafla
