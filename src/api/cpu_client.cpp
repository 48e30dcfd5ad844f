// SPDX-License-Identifier: Apache-2.0
#include "api/cpu_client.h"

#include "api/bounded_executable.h"
#include "api/front_end.h"
#include "cpu_fallback/executor/cpu_executable.h"

namespace krafla {
namespace {

class CpuProgram : public Executable {
 public:
  static Result<std::unique_ptr<Executable>> Create(plan::ProgramPlan plan, CompileReport report,
                                                    const std::string& description) {
    auto out = std::make_unique<CpuProgram>();
    Stopwatch emit;
    KRAFLA_ASSIGN(out->executable_, CpuExecutable::Create(std::move(plan), {}));
    report.emit_ms = emit.Milliseconds();
    report.device_instructions = report.instructions;
    out->report_ = std::move(report);
    out->device_description_ = description;
    return out;
  }

  const std::vector<Shape>& arguments() const override { return executable_->plan().arguments; }
  const std::vector<Shape>& results() const override { return executable_->plan().results; }

  Result<> SetArguments(std::span<const Literal* const> arguments) override {
    KRAFLA_TRY(CheckArguments(arguments, this->arguments()));
    arguments_.clear();
    for (const Literal* a : arguments) arguments_.push_back(*a);
    pointers_.clear();
    for (const Literal& a : arguments_) pointers_.push_back(a.bytes().empty() ? nullptr : a.bytes().data());
    if (results_.empty()) {
      for (const Shape& s : results()) {
        KRAFLA_ASSIGN(Literal made, Literal::Create(s));
        results_.push_back(std::move(made));
      }
      for (Literal& r : results_) result_pointers_.push_back(r.bytes().empty() ? nullptr : r.bytes().data());
    }
    return {};
  }
  Result<> Execute() override { return executable_->Run(pointers_, result_pointers_); }
  Result<std::vector<Literal>> Results() override { return results_; }

 private:
  std::unique_ptr<CpuExecutable> executable_;
  std::vector<Literal> arguments_, results_;
  std::vector<const std::byte*> pointers_;
  std::vector<std::byte*> result_pointers_;
};

}  // namespace

CpuClient::CpuClient() {
  device_.selector = "cpu";
  device_.description = "cpu";
  device_.is_cpu = true;
}

Result<std::unique_ptr<Executable>> CpuClient::Compile(std::unique_ptr<Module> module, const CompileOptions& options) {
  CompileReport report;
  EntryInterface interface = EntryInterface::Of(*module);
  KRAFLA_ASSIGN(plan::ProgramPlan plan, OptimizeAndPlan(std::move(module), options, report));
  KRAFLA_ASSIGN(std::unique_ptr<Executable> out,
                CpuProgram::Create(std::move(plan), std::move(report), device_.description));
  return WithRunTimeSizes(std::move(interface), std::move(out));
}

}  // namespace krafla
