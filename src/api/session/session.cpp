// SPDX-License-Identifier: Apache-2.0
#include "krafla/session.h"

#include <algorithm>
#include <utility>

#include "api/read_program.h"
#include "api/session/session_state.h"
#include "base/near_words.h"
#include "base/without_exceptions.h"
#include "ir/module.h"
#include "ir/value_names.h"
#include "krafla/custom_call.h"

namespace krafla {
namespace {

// Why a run that nobody asked for could be seen; "" where it could not.
std::string SideEffect(const Module& module) {
  for (const OptimisedModule& optimised : module.optimised)
    if (std::string found = SideEffect(*optimised.module); !found.empty()) return found;
  for (const Opcode opcode : {Opcode::kRng, Opcode::kInfeed, Opcode::kOutfeed, Opcode::kSend, Opcode::kRecv})
    if (module.CountOf(opcode) > 0) return Format("it has the instruction {}", OpcodeName(opcode));
  if (module.CountOf(Opcode::kCustomCall) == 0) return "";
  for (const auto& computation : module.computations())
    for (const auto& instruction : computation->instructions()) {
      if (instruction->opcode() != Opcode::kCustomCall) continue;
      const std::string& target = instruction->attr<CustomCallAttributes>().target;
      if (CustomCallRegistry::Global().FindFunction(target) != nullptr)
        return Format("it calls the function '{}'", target);
    }
  return "";
}

Result<std::size_t> FindName(std::span<const TensorInfo> infos, std::string_view what, std::string_view name) {
  std::string all;
  for (std::size_t i = 0; i < infos.size(); ++i) {
    if (infos[i].name == name) return i;
    if (i < 20) all += Format("{}'{}'", i == 0 ? "" : ", ", infos[i].name);
    if (i == 20) all += ", ...";
  }
  return NotFound("The program has no {} '{}'; its {}s are {}.", what, name, what, all.empty() ? "none" : all);
}

}  // namespace

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}
Session::~Session() { FreeHere(impl_); }

Result<Session> Session::Load(const LocalClient& client, const XlaComputation& program, const SessionOptions& options) {
  return WithoutExceptions([&]() -> Result<Session> {
    if (program.IsNull()) return FailedPrecondition("The program is a null computation.");
    if (options.concurrent_runs < 0 || options.concurrent_runs > ThreadPool::kMaxThreads)
      return InvalidArgument("SessionOptions::concurrent_runs is {}; it is from 1 to {}, or 0 for the default.",
                             options.concurrent_runs, ThreadPool::kMaxThreads);
    const LocalClient::Impl& on = *client.impl_;
    KRAFLA_TRY(on.Check());
    auto impl = std::make_unique<Impl>();
    impl->client = on.client;
    impl->budget = on.budget;
    impl->for_profile = options.for_profile;
    const Module& module = *program.module();
    impl->side_effect = SideEffect(module);
    CompileOptions compile;
    compile.concurrent_runs = options.concurrent_runs;
    if (compile.concurrent_runs == 0 && on.budget->IsLimited()) compile.concurrent_runs = 1;
    compile.progress = options.progress;
    compile.for_profile = options.for_profile;
    KRAFLA_ASSIGN(impl->executable, on.Compile(program, options.build, std::move(compile)));
    KRAFLA_ASSIGN(impl->inputs, SessionTensors::Of(impl->executable->arguments(), ArgumentNames(module)));
    KRAFLA_ASSIGN(impl->outputs, SessionTensors::Of(impl->executable->results(), ResultNames(module)));
    impl->report = ReportOf(*impl->executable);
    const int64_t runs = std::max(options.concurrent_runs, 1);
    const int64_t bytes = impl->report.arena_bytes * runs + impl->executable->report().kept_bytes;
    KRAFLA_ASSIGN(impl->claim, on.budget->Take(bytes, Format("The program '{}'", program.name())));
    return Session(std::move(impl));
  });
}

Result<Session> Session::LoadBytes(const LocalClient& client, std::string_view bytes, const SessionOptions& options) {
  KRAFLA_ASSIGN(const XlaComputation program, ReadComputation(bytes, "<bytes>", {.sizes = options.input_sizes}));
  return Load(client, program, options);
}

Result<Session> Session::LoadFile(const LocalClient& client, const std::string& path, const SessionOptions& options) {
  KRAFLA_ASSIGN(const XlaComputation program, ReadComputationFile(path, options.input_sizes));
  return Load(client, program, options);
}

std::span<const TensorInfo> Session::inputs() const { return impl_->inputs.infos; }
std::span<const TensorInfo> Session::outputs() const { return impl_->outputs.infos; }
const BuildReport& Session::report() const { return impl_->report; }
Result<std::size_t> Session::FindInput(std::string_view name) const {
  return WithoutExceptions([&] { return FindName(impl_->inputs.infos, "input", name); });
}
Result<std::size_t> Session::FindOutput(std::string_view name) const {
  return WithoutExceptions([&] { return FindName(impl_->outputs.infos, "output", name); });
}

Result<> Session::Run(Span<InputBytes> inputs, Span<OutputBytes> outputs, const RunOptions& options) {
  return WithoutExceptions([&] { return impl_->Run(inputs, outputs, {options.deadline, options.stop}); });
}

Result<std::vector<Buffer>> Session::Run(std::span<const BufferInput> inputs, const RunOptions& options) {
  return WithoutExceptions([&]() -> Result<std::vector<Buffer>> {
    KRAFLA_TRY(impl_->CheckProcess());
    KRAFLA_TRY(impl_->CheckCounts(inputs.size(), impl_->outputs.infos.size()));
    std::vector<DeviceArgument> arguments(impl_->inputs.leaf_count);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].buffer.impl_ == nullptr) return InvalidArgument("Input {} is a buffer that was moved from.", i);
      KRAFLA_TRY(inputs[i].buffer.impl_->Check());
      arguments[impl_->inputs.leaves[i]] = {inputs[i].buffer.impl_->buffer, inputs[i].donated};
    }
    if (impl_->inputs.HasTokens()) {
      KRAFLA_ASSIGN(Literal token, Literal::Create(Shape::MakeToken()));
      const auto shared = std::make_shared<HostBuffer>(std::make_shared<const Literal>(std::move(token)));
      for (DeviceArgument& a : arguments)
        if (a.buffer == nullptr) a.buffer = shared;
    }
    std::vector<MemoryBudget::Claim> claims;
    for (const TensorInfo& output : impl_->outputs.infos) {
      KRAFLA_ASSIGN(auto claim, impl_->budget->Take(output.shape.byte_size(), Format("Output '{}'", output.name)));
      claims.push_back(std::move(claim));
    }
    const RunLimit limit{options.deadline, options.stop};
    KRAFLA_ASSIGN(auto made, impl_->executable->RunOnBuffersWithin(std::move(arguments), limit));
    std::vector<Buffer> out;
    for (std::size_t o = 0; o < claims.size(); ++o)
      out.push_back(Buffer(Buffer::Impl::Make(impl_->client->device(), std::move(made[impl_->outputs.leaves[o]]),
                                              std::move(claims[o]))));
    return out;
  });
}

Result<Submission> Session::Submit(Span<InputBytes> inputs, Span<OutputBytes> outputs, const RunOptions& options,
                                   std::function<void(const Result<>&)> done) {
  return WithoutExceptions([&]() -> Result<Submission> {
    KRAFLA_TRY(impl_->made_in.Check("The session"));  // the thread of its queue
    KRAFLA_TRY(impl_->CheckCounts(inputs.size(), outputs.size()));
    auto state = SharedHere(std::make_unique<Submission::State>());
    state->deadline = options.deadline;
    state->Follow(options.stop);
    state->done = std::move(done);
    state->run = [impl = impl_.get(), in = std::vector<InputBytes>(inputs.begin(), inputs.end()),
                  out = std::vector<OutputBytes>(outputs.begin(), outputs.end())](const RunLimit& limit) {
      return impl->Run(in, out, limit);
    };
    KRAFLA_TRY(impl_->queue.Add(state));
    return Submission(std::move(state));
  });
}

Result<> Session::Warm(const RunOptions& options) {
  return WithoutExceptions([&]() -> Result<> {
    KRAFLA_TRY(impl_->CheckProcess());
    KRAFLA_ASSIGN(std::vector<Literal> zeros, impl_->Zeros());
    KRAFLA_TRY(impl_->executable->RunShared(ToShared(std::move(zeros)), {options.deadline, options.stop}));
    return {};
  });
}

Result<SessionProfile> Session::Profile(int runs) {
  return WithoutExceptions([&]() -> Result<SessionProfile> {
    if (!impl_->for_profile)
      return FailedPrecondition("The session was not loaded to be profiled: set SessionOptions::for_profile.");
    KRAFLA_TRY(impl_->CheckProcess());
    KRAFLA_ASSIGN(const std::vector<Literal> zeros, impl_->Zeros());
    std::vector<const Literal*> arguments;
    for (const Literal& z : zeros) arguments.push_back(&z);
    KRAFLA_ASSIGN(const RunProfile measured, impl_->executable->ProfileOn(arguments, runs));
    SessionProfile out;
    out.run_ms = measured.run_ms;
    for (const ProfiledStep& s : measured.steps)
      out.steps.push_back({s.kernel, s.family, s.op_name, s.source, s.place, s.times, s.ms, s.flops, s.bytes});
    return out;
  });
}

}  // namespace krafla
