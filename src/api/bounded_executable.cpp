// SPDX-License-Identifier: Apache-2.0
#include "api/bounded_executable.h"

#include "base/index.h"

namespace krafla {

namespace {

class BoundedExecutable : public Executable {
 public:
  explicit BoundedExecutable(std::unique_ptr<Executable> inner)
      : Executable(inner->interface(), inner->report(), inner->device_description()), inner_(std::move(inner)) {}

  const std::vector<Shape>& arguments() const override { return interface_.arguments; }
  const std::vector<Shape>& results() const override { return interface_.results; }

  Result<> SetArguments(std::span<const Literal* const> arguments) override {
    std::vector<Literal> made;
    KRAFLA_ASSIGN(std::vector<const Literal*> padded, PadArguments(interface_, arguments, made));
    return inner_->SetArguments(padded);
  }
  // What is as large as its bound, and what has none, is read where it lies.
  Result<> ShareArguments(std::vector<std::shared_ptr<const Literal>> arguments) override {
    std::vector<const Literal*> given;
    for (const auto& a : arguments) given.push_back(a.get());
    std::vector<Literal> made;
    KRAFLA_ASSIGN(const std::vector<const Literal*> padded, PadArguments(interface_, given, made));
    std::vector<std::shared_ptr<const Literal>> out = std::move(arguments);
    out.resize(padded.size());
    for (std::size_t a = 0; a < padded.size(); ++a)
      if (out[a].get() != padded[a])
        out[a] = std::make_shared<const Literal>(std::move(made[At(padded[a] - made.data())]));
    return inner_->ShareArguments(std::move(out));
  }
  bool IsLost() const override { return inner_->IsLost(); }
  DeviceWork device_work() override { return inner_->device_work(); }
  Result<RunProfile> Profile(int runs) override { return inner_->Profile(runs); }
  void SetLimit(const RunLimit* limit) override {
    Executable::SetLimit(limit);
    inner_->SetLimit(limit);
  }
  Result<> Execute() override { return inner_->Execute(); }
  Result<std::vector<Literal>> Results() override {
    KRAFLA_ASSIGN(std::vector<Literal> padded, inner_->Results());
    return CutResults(interface_, std::move(padded));
  }
  Result<std::vector<Literal>> TakeResults() override {
    KRAFLA_ASSIGN(std::vector<Literal> padded, inner_->TakeResults());
    return CutResults(interface_, std::move(padded));
  }
  Result<> Join(const EvaluatorHost* host, int64_t devices) override { return inner_->Join(host, devices); }
  Result<std::unique_ptr<Executable>> Another(const EvaluatorHost* host, int64_t devices) const override {
    KRAFLA_ASSIGN(std::unique_ptr<Executable> inner, inner_->Another(host, devices));
    return std::make_unique<BoundedExecutable>(std::move(inner));
  }
  const Module* module() const override { return inner_->module(); }

 private:
  std::unique_ptr<Executable> inner_;
};

}  // namespace

Result<std::unique_ptr<Executable>> WithRunTimeSizes(std::unique_ptr<Executable> executable) {
  const EntryInterface& declared = executable->interface();
  if (!declared.IsDynamic()) return executable;
  if (executable->arguments().size() != declared.padded_argument_count() ||
      executable->results().size() != declared.padded_result_count())
    return Unimplemented("Dynamic dimensions of parameters and results need the pass dynamic_padder.");
  return std::make_unique<BoundedExecutable>(std::move(executable));
}

}  // namespace krafla
