// SPDX-License-Identifier: Apache-2.0
#include "api/cpu/cpu_client.h"

#include <algorithm>
#include <utility>

#include "api/bounded_executable.h"
#include "api/front_end.h"
#include "api/host/host_services.h"
#include "cpu_fallback/executor/cpu_executable.h"

namespace krafla {
namespace {

class CpuProgram : public Executable {
 public:
  static Result<std::unique_ptr<Executable>> Create(plan::ProgramPlan plan, CompileReport report,
                                                    const std::string& description,
                                                    std::unique_ptr<HostServices> services,
                                                    std::shared_ptr<ThreadPool> threads) {
    auto out = std::make_unique<CpuProgram>();
    out->services_ = std::move(services);
    out->threads_ = std::move(threads);
    Stopwatch emit;
    KRAFLA_ASSIGN(out->executable_,
                  CpuExecutable::Create(std::move(plan),
                                        {.pool = out->threads_, .evaluator = out->services_->evaluator_options()}));
    report.emit_ms = emit.Milliseconds();
    report.device_instructions = report.instructions;
    out->report_ = std::move(report);
    out->device_description_ = description;
    return out;
  }

  const std::vector<Shape>& arguments() const override { return executable_->plan().arguments; }
  const std::vector<Shape>& results() const override { return executable_->plan().results; }

  Result<> SetArguments(std::span<const Literal* const> arguments) override {
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
  Result<> ShareArguments(std::vector<std::shared_ptr<const Literal>> arguments) override {
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

  Result<> Execute() override {
    return WithoutExceptions([&]() -> Result<> {
      std::lock_guard lock(running_);
      if (arguments_.empty() && !arguments().empty()) return FailedPrecondition("no arguments have been set");
      KRAFLA_TRY(MakeResults());
      has_results_ = false;
      services_->SetLimit(limit_);
      KRAFLA_TRY(executable_->Run(pointers_, result_pointers_, *limit_));
      has_results_ = true;
      return {};
    });
  }

  Result<std::vector<Literal>> Results() override {
    return WithoutExceptions([&]() -> Result<std::vector<Literal>> {
      if (!has_results_) return FailedPrecondition("there are no results: nothing has run since");
      std::vector<Literal> out;
      for (const Literal& r : results_) {
        KRAFLA_ASSIGN(Literal copy, CopyOf(r));
        out.push_back(std::move(copy));
      }
      return out;
    });
  }
  Result<std::vector<Literal>> TakeResults() override {
    if (!has_results_) return FailedPrecondition("there are no results: nothing has run since");
    has_results_ = false;
    return std::exchange(results_, {});
  }
  Result<std::vector<std::shared_ptr<DeviceBuffer>>> RunOnBuffers(std::vector<DeviceArgument> arguments) override {
    using Buffers = std::vector<std::shared_ptr<DeviceBuffer>>;
    return WithoutExceptions([&]() -> Result<Buffers> {
      std::lock_guard lock(running_);
      KRAFLA_TRY(CheckBuffers(arguments, this->arguments()));
      arguments_.clear();
      results_.clear();
      has_results_ = false;
      // What other devices have; a host's buffers are read where they are.
      std::vector<std::shared_ptr<const Literal>> copies;
      pointers_.clear();
      for (std::size_t a = 0; a < arguments.size(); ++a) {
        const auto* here = dynamic_cast<const HostBuffer*>(arguments[a].buffer.get());
        const Literal* literal = here != nullptr ? here->literal().get() : nullptr;
        if (literal == nullptr) {
          auto copy = arguments[a].buffer->ToLiteral();
          if (!copy) return Failure(std::move(copy).error().WithContext(Format("in argument {}", a)));
          literal = copies.emplace_back(std::move(*copy)).get();
        }
        pointers_.push_back(literal->bytes().empty() ? nullptr : literal->bytes().data());
      }
      std::vector<std::shared_ptr<const Literal>> made;
      result_pointers_.clear();
      for (std::size_t r = 0; r < results().size(); ++r) {
        const int alias = executable_->plan().result_aliases[r];
        std::shared_ptr<const Literal> taken;
        if (alias >= 0) taken = Overwritable(arguments, static_cast<std::size_t>(alias));
        if (taken == nullptr) {
          KRAFLA_ASSIGN(Literal fresh, Literal::CreateUninitialized(results()[r]));
          taken = std::make_shared<const Literal>(std::move(fresh));
        }
        // Literals are constant for those who share them, and nobody shares these.
        result_pointers_.push_back(taken->bytes().empty() ? nullptr : const_cast<std::byte*>(taken->bytes().data()));
        made.push_back(std::move(taken));
      }
      services_->SetLimit(limit_);
      const Result<> run = executable_->Run(pointers_, result_pointers_, *limit_);
      pointers_.clear();
      result_pointers_.clear();
      for (DeviceArgument& a : arguments)
        if (a.donated) a.buffer->Release();
      KRAFLA_TRY(run);
      Buffers out;
      out.reserve(made.size());
      for (auto& literal : made) out.push_back(std::make_shared<HostBuffer>(std::move(literal)));
      return out;
    });
  }
  Result<> Join(const EvaluatorHost* host, int64_t devices) override {
    std::unique_ptr<HostServices> services = services_->For(*host);
    KRAFLA_TRY(executable_->Configure(GroupOptions(*services, devices)));
    services_ = std::move(services);
    return {};
  }
  Result<std::unique_ptr<Executable>> Another(const EvaluatorHost* host, int64_t devices) const override {
    auto out = std::make_unique<CpuProgram>();
    out->services_ = services_->For(*host);
    out->threads_ = threads_;
    KRAFLA_ASSIGN(out->executable_, executable_->Another(GroupOptions(*out->services_, devices)));
    out->report_ = report_;
    out->device_description_ = device_description_;
    return out;
  }
  const Module* module() const override { return executable_->plan().module.get(); }

 private:
  // The threads, shared out evenly. Those of someone else are not ours to share out.
  CpuExecutable::Options GroupOptions(const HostServices& services, int64_t devices) const {
    CpuExecutable::Options out{.pool = threads_, .evaluator = services.evaluator_options()};
    if (devices <= 1 || (threads_ != nullptr && !threads_->owns_threads())) return out;
    const int threads = threads_ != nullptr ? threads_->threads() : ThreadPool::DefaultThreads();
    out.threads = std::max(1, threads / static_cast<int>(devices));
    return out;
  }
  // The argument's literal where the run may write to it: donated, and nobody else has it.
  static std::shared_ptr<const Literal> Overwritable(std::span<const DeviceArgument> arguments, std::size_t number) {
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
  Result<> MakeResults() {
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

  std::unique_ptr<HostServices> services_;  // the executable's kernels point to it
  std::shared_ptr<ThreadPool> threads_;     // null: the shared ones
  std::unique_ptr<CpuExecutable> executable_;
  std::vector<std::shared_ptr<const Literal>> arguments_;
  std::vector<Literal> results_;
  std::vector<const std::byte*> pointers_;
  std::vector<std::byte*> result_pointers_;
  bool has_results_ = false;
};

}  // namespace

CpuClient::CpuClient(std::string why_not_vulkan) : why_not_vulkan_(std::move(why_not_vulkan)) {
  device_.selector = "cpu";
  device_.description =
      why_not_vulkan_.empty() ? "cpu" : Format("cpu, as there is no Vulkan device ({})", why_not_vulkan_);
  device_.is_cpu = true;
}

Result<std::unique_ptr<Executable>> CpuClient::Compile(std::unique_ptr<Module> module, const CompileOptions& options) {
  return WithoutExceptions([&]() -> Result<std::unique_ptr<Executable>> {
    if (options.strict && !why_not_vulkan_.empty())
      return Unavailable("There is no device that could take every step: {} Choose the device cpu, or drop --strict.",
                         why_not_vulkan_);
    CompileReport report;
    FrontEnd front_end(std::move(module), options, report, /*on_vulkan=*/false);
    KRAFLA_TRY(front_end.Optimize());
    KRAFLA_ASSIGN(plan::ProgramPlan plan, front_end.Plan(nullptr));
    auto services = std::make_unique<HostServices>(CustomCallsOf(options),
                                                   options.transfers != nullptr ? options.transfers : transfers_);
    KRAFLA_ASSIGN(std::unique_ptr<Executable> out,
                  CpuProgram::Create(std::move(plan), std::move(report), device_.description, std::move(services),
                                     options.threads));
    return WithRunTimeSizes(front_end.interface(), std::move(out));
  });
}

}  // namespace krafla
