// SPDX-License-Identifier: Apache-2.0
#include "api/packed_executable.h"

#include <utility>

#include "api/front_end.h"
#include "ir/packed_elements.h"

namespace krafla {
namespace {

class PackedExecutable final : public Executable {
 public:
  PackedExecutable(std::unique_ptr<Executable> inner, PackedEdges edges)
      : Executable(inner->interface(), inner->report(), inner->device_description()),
        inner_(std::move(inner)),
        edges_(std::move(edges)) {}

  const std::vector<Shape>& arguments() const override { return edges_.arguments; }
  const std::vector<Shape>& results() const override { return edges_.results; }
  std::span<const int> result_aliases() const override { return inner_->result_aliases(); }

  Result<> SetArguments(std::span<const Literal* const> arguments) override {
    return WithoutExceptions([&]() -> Result<> {
      KRAFLA_TRY(CheckArguments(arguments, edges_.arguments));
      std::vector<Literal> made;
      made.reserve(arguments.size());  // pointers into it stay valid
      std::vector<const Literal*> packed(arguments.begin(), arguments.end());
      for (std::size_t a = 0; a < packed.size(); ++a) {
        if (!IsPackedArgument(a)) continue;
        KRAFLA_ASSIGN(Literal literal, PackedLiteral(*arguments[a]));
        made.push_back(std::move(literal));
        packed[a] = &made.back();
      }
      return inner_->SetArguments(packed);
    });
  }
  Result<> ShareArguments(std::vector<std::shared_ptr<const Literal>> arguments) override {
    return WithoutExceptions([&]() -> Result<> {
      std::vector<const Literal*> literals;
      for (const auto& a : arguments) literals.push_back(a.get());
      KRAFLA_TRY(CheckArguments(literals, edges_.arguments));
      for (std::size_t a = 0; a < arguments.size(); ++a) {
        if (!IsPackedArgument(a)) continue;
        KRAFLA_ASSIGN(Literal literal, PackedLiteral(*arguments[a]));
        arguments[a] = std::make_shared<const Literal>(std::move(literal));
      }
      return inner_->ShareArguments(std::move(arguments));
    });
  }
  Result<> Execute() override { return inner_->Execute(); }
  Result<std::vector<Literal>> Results() override {
    KRAFLA_ASSIGN(std::vector<Literal> out, inner_->Results());
    return Unpacked(std::move(out));
  }
  Result<std::vector<Literal>> TakeResults() override {
    KRAFLA_ASSIGN(std::vector<Literal> out, inner_->TakeResults());
    return Unpacked(std::move(out));
  }

  void SetLimit(const RunLimit* limit) override { inner_->SetLimit(limit); }
  bool IsLost() const override { return inner_->IsLost(); }
  DeviceWork device_work() override { return inner_->device_work(); }
  Result<RunProfile> Profile(int runs) override { return inner_->Profile(runs); }
  bool TellsSteps() const override { return inner_->TellsSteps(); }

  Result<DeviceBuffers> RunOnBuffers(std::vector<DeviceArgument> arguments) override {
    return WithoutExceptions([&]() -> Result<DeviceBuffers> {
      std::lock_guard lock(running_);
      KRAFLA_TRY(Pack(arguments));
      if (observer_ == nullptr) return Wrapped(inner_->RunOnBuffers(std::move(arguments)));
      return Wrapped(inner_->RunObserved(std::move(arguments), *observer_));
    });
  }
  Result<DeviceBuffers> RunOnBuffersWithin(std::vector<DeviceArgument> arguments, const RunLimit& limit) override {
    return WithoutExceptions([&]() -> Result<DeviceBuffers> {
      KRAFLA_TRY(Pack(arguments));
      return Wrapped(inner_->RunOnBuffersWithin(std::move(arguments), limit));
    });
  }

  Result<> Join(const EvaluatorHost* host, int64_t devices) override { return inner_->Join(host, devices); }
  void SetExchange(DeviceExchange* exchange, std::string path) override {
    inner_->SetExchange(exchange, std::move(path));
  }
  Result<std::unique_ptr<Executable>> Another(const EvaluatorHost* host, int64_t devices) const override {
    KRAFLA_ASSIGN(std::unique_ptr<Executable> inner, inner_->Another(host, devices));
    return std::make_unique<PackedExecutable>(std::move(inner), edges_);
  }
  const Module* module() const override { return inner_->module(); }

 protected:
  void SetStepObserver(const StepObserver* observer) override { observer_ = observer; }

  Result<> TryRunInPlace(std::span<const std::span<const std::byte>> arguments,
                         std::span<const std::span<std::byte>> results, const RunLimit& limit) override {
    std::vector<Literal> made;
    std::vector<std::span<const std::byte>> from(arguments.begin(), arguments.end());
    for (std::size_t a = 0; a < from.size(); ++a) {
      if (!IsPackedArgument(a)) continue;
      KRAFLA_ASSIGN(Literal literal, Literal::CreateUninitialized(inner_->arguments()[a]));
      PackElements(edges_.arguments[a].element_type(), from[a], literal.bytes());
      from[a] = literal.bytes();  // which stay where they are
      made.push_back(std::move(literal));
    }
    std::vector<std::span<std::byte>> to(results.begin(), results.end());
    for (std::size_t r = 0; r < to.size(); ++r) {
      if (!IsPackedResult(r)) continue;
      KRAFLA_ASSIGN(Literal literal, Literal::CreateUninitialized(inner_->results()[r]));
      to[r] = literal.bytes();
      made.push_back(std::move(literal));
    }
    KRAFLA_TRY(inner_->RunInPlace(from, to, limit));
    for (std::size_t r = 0; r < to.size(); ++r)
      if (IsPackedResult(r)) UnpackElements(edges_.results[r].element_type(), to[r], results[r]);
    return {};
  }

 private:
  static bool IsPacked(const Shape& seen, const Shape& kept) { return seen.element_type() != kept.element_type(); }
  bool IsPackedArgument(std::size_t a) const { return IsPacked(edges_.arguments[a], inner_->arguments()[a]); }
  bool IsPackedResult(std::size_t r) const { return IsPacked(edges_.results[r], inner_->results()[r]); }

  Result<std::vector<Literal>> Unpacked(std::vector<Literal> results) const {
    for (std::size_t r = 0; r < results.size(); ++r)
      if (IsPackedResult(r)) { KRAFLA_ASSIGN(results[r], UnpackedLiteral(results[r], edges_.results[r])); }
    return results;
  }

  // What is not packed comes through the host.
  Result<> Pack(std::vector<DeviceArgument>& arguments) const {
    KRAFLA_TRY(CheckBuffers(arguments, edges_.arguments));
    DeviceBuffers given_up;
    for (std::size_t a = 0; a < arguments.size(); ++a) {
      if (!IsPackedArgument(a)) continue;
      if (const auto* packed = dynamic_cast<const PackedBuffer*>(arguments[a].buffer.get())) {
        arguments[a].buffer = packed->packed();
        continue;
      }
      auto literal = arguments[a].buffer->ToLiteral();
      if (!literal) return Failure(std::move(literal).error().WithContext(Format("in argument {}", a)));
      KRAFLA_ASSIGN(Literal made, PackedLiteral(**literal));
      if (arguments[a].donated) given_up.push_back(std::move(arguments[a].buffer));
      arguments[a].buffer = std::make_shared<HostBuffer>(std::make_shared<const Literal>(std::move(made)));
    }
    for (const auto& buffer : given_up) buffer->Release();
    return {};
  }

  Result<DeviceBuffers> Wrapped(Result<DeviceBuffers> run) const {
    if (!run) return run;
    for (std::size_t r = 0; r < run->size(); ++r)
      if (IsPackedResult(r)) (*run)[r] = std::make_shared<PackedBuffer>(edges_.results[r], std::move((*run)[r]));
    return run;
  }

  std::unique_ptr<Executable> inner_;
  const PackedEdges edges_;
  const StepObserver* observer_ = nullptr;
};

}  // namespace

Result<std::shared_ptr<const Literal>> PackedBuffer::ToLiteral() const {
  KRAFLA_ASSIGN(const std::shared_ptr<const Literal> packed, packed_->ToLiteral());
  KRAFLA_ASSIGN(Literal out, UnpackedLiteral(*packed, shape_));
  return std::make_shared<const Literal>(std::move(out));
}

Result<std::unique_ptr<Executable>> WithPackedEdges(std::unique_ptr<Executable> executable, PackedEdges edges) {
  if (edges.IsEmpty()) return executable;
  if (edges.arguments.size() != executable->arguments().size() || edges.results.size() != executable->results().size())
    return Internal("The program has {} arguments and {} results where {} and {} were expected.",
                    executable->arguments().size(), executable->results().size(), edges.arguments.size(),
                    edges.results.size());
  return std::make_unique<PackedExecutable>(std::move(executable), std::move(edges));
}

}  // namespace krafla
