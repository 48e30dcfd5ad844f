// SPDX-License-Identifier: Apache-2.0
// A CpuPlan as an Executable: arguments and results as literals and buffers of the host.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/client.h"
#include "api/host/host_services.h"
#include "cpu_fallback/executor/cpu_plan.h"

namespace krafla {

class CpuExecutable : public Executable {
 public:
  static Result<std::unique_ptr<Executable>> Create(plan::ProgramPlan plan, EntryInterface interface,
                                                    CompileReport report, const std::string& description,
                                                    std::unique_ptr<HostServices> services,
                                                    const CompileOptions& options);

  const std::vector<Shape>& arguments() const override { return plan_->plan().arguments; }
  const std::vector<Shape>& results() const override { return plan_->plan().results; }
  std::span<const int> result_aliases() const override { return plan_->plan().result_aliases; }
  Result<> SetArguments(std::span<const Literal* const> arguments) override;
  Result<> ShareArguments(std::vector<std::shared_ptr<const Literal>> arguments) override;
  Result<> Execute() override;
  Result<std::vector<Literal>> Results() override;
  Result<std::vector<Literal>> TakeResults() override;
  Result<RunProfile> Profile(int runs) override;
  bool TellsSteps() const override { return true; }
  Result<DeviceBuffers> RunOnBuffers(std::vector<DeviceArgument> arguments) override {
    return RunOnBuffersWithin(std::move(arguments), *limit_);
  }
  Result<DeviceBuffers> RunOnBuffersWithin(std::vector<DeviceArgument> arguments, const RunLimit& limit) override;
  Result<> Join(const EvaluatorHost* host, int64_t devices) override;
  Result<std::unique_ptr<Executable>> Another(const EvaluatorHost* host, int64_t devices) const override;
  const Module* module() const override { return plan_->plan().module.get(); }

 private:
  CpuExecutable(EntryInterface interface, CompileReport report, const std::string& description,
                std::unique_ptr<HostServices> services, std::shared_ptr<ThreadPool> threads)
      : Executable(std::move(interface), std::move(report), description),
        services_(std::move(services)),
        threads_(std::move(threads)) {}
  void SetStepObserver(const StepObserver* observer) override;
  // A row for each step of the plan.
  struct StepRows {
    std::vector<ProfiledStep> rows;
    std::unordered_map<const void*, std::size_t> row_of;
    // Null: the plan has no such step (copies of aliased arguments, where there are none).
    const std::size_t* Find(CpuPlan::ObservedStep step) const;
  };
  const StepRows& step_rows();
  CpuPlan::Options GroupOptions(const HostServices& services, int64_t devices) const;
  // The argument's literal where the run may write to it: donated, and nobody else has it.
  static std::shared_ptr<const Literal> Overwritable(std::span<const DeviceArgument> arguments, std::size_t number);
  Result<> MakeResults();

  // A plan with an arena of its own, for a run beside others.
  struct Lane {
    std::unique_ptr<CpuPlan> own;
    CpuPlan* plan = nullptr;
    std::vector<const std::byte*> arguments;
    std::vector<std::byte*> results;
  };
  Result<> TryRunInPlace(std::span<const std::span<const std::byte>> arguments,
                         std::span<const std::span<std::byte>> results, const RunLimit& limit) override;
  // Calls work(lane) with a lane that nobody else has, main_ or a spare one.
  template <typename Work>
  Result<> OnLane(const RunLimit& limit, Work&& work);
  // Null: there are as many as there may be, and all are in use.
  std::unique_ptr<Lane> TakeSpare();

  std::unique_ptr<HostServices> services_;  // the plan's kernels point to it
  std::shared_ptr<ThreadPool> threads_;     // null: the shared ones
  std::unique_ptr<CpuPlan> plan_;
  std::optional<StepRows> step_rows_;  // once they were asked for
  std::vector<std::shared_ptr<const Literal>> arguments_;
  std::vector<Literal> results_;
  std::vector<const std::byte*> pointers_;
  std::vector<std::byte*> result_pointers_;
  bool has_results_ = false;
  Lane main_;             // with plan_; of who has running_
  int most_spares_ = 0;   // lanes beside main_
  std::mutex spares_in_;  // of what follows
  std::vector<std::unique_ptr<Lane>> spares_;
  int spares_made_ = 0;
};

}  // namespace krafla
