// SPDX-License-Identifier: Apache-2.0
// The public face of Client and Executable.
#include "krafla/local_client.h"

#include "api/client.h"
#include "api/front_end.h"
#include "api/literal_leaves.h"
#include "api/read_program.h"
#include "api/session/client_state.h"
#include "base/log.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "hlo_io/read_module.h"
#include "ir/module.h"
#include "ir/verifier.h"
#include "krafla/shape_util.h"

namespace krafla {
namespace {

DeviceInfo Brief(const DeviceDescription& device) {
  return {device.selector, device.description, device.runs_on_host_threads};
}

// On the arguments where they are, but for sizes that only the run knows.
Result<std::vector<Literal>> RunLeaves(Executable& executable, std::span<const Literal* const> leaves,
                                       const RunLimit& limit) {
  if (executable.interface().IsDynamic()) return executable.Run(leaves, limit);
  KRAFLA_TRY(CheckArguments(leaves, executable.arguments()));
  std::vector<std::span<const std::byte>> from;
  for (const Literal* leaf : leaves) from.push_back(leaf->bytes());
  std::vector<Literal> out;
  std::vector<std::span<std::byte>> to;
  for (const Shape& shape : executable.results()) {
    KRAFLA_ASSIGN(Literal result, Literal::CreateUninitialized(shape));
    to.push_back(result.bytes());
    out.push_back(std::move(result));
  }
  KRAFLA_TRY(executable.RunInPlace(from, to, limit));
  return out;
}

}  // namespace

struct LocalExecutable::Impl {
  MadeIn made_in;
  bool runs_on_host_threads = false;
  std::unique_ptr<Executable> executable;
  ProgramShape shape;
  BuildReport report;
};

LocalExecutable::LocalExecutable(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LocalExecutable::LocalExecutable(LocalExecutable&&) noexcept = default;
LocalExecutable& LocalExecutable::operator=(LocalExecutable&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}
LocalExecutable::~LocalExecutable() { FreeHere(impl_); }

const ProgramShape& LocalExecutable::program_shape() const { return impl_->shape; }
const BuildReport& LocalExecutable::report() const { return impl_->report; }

Result<Literal> LocalExecutable::Run(std::span<const Literal* const> arguments, const RunOptions& options) {
  return WithoutExceptions([&]() -> Result<Literal> {
    KRAFLA_TRY(CheckProcess(impl_->made_in, impl_->runs_on_host_threads, "The executable"));
    if (arguments.size() != impl_->shape.parameters.size())
      return InvalidArgument("The program takes {} arguments, {} were given: it is {}.", impl_->shape.parameters.size(),
                             arguments.size(), impl_->shape.ToString());
    std::vector<const Literal*> leaves;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i] == nullptr) return InvalidArgument("Argument {} is a null pointer.", i);
      AppendLeaves(*arguments[i], leaves);
    }
    KRAFLA_ASSIGN(std::vector<Literal> results,
                  RunLeaves(*impl_->executable, leaves, {options.deadline, options.stop}));
    std::size_t next = 0;
    return Assemble(impl_->shape.result, results, next);
  });
}

Result<Literal> LocalExecutable::Run(Span<Literal> arguments, const RunOptions& options) {
  return WithoutExceptions([&] {
    std::vector<const Literal*> pointers;
    for (const Literal& argument : arguments) pointers.push_back(&argument);
    return Run(std::span<const Literal* const>(pointers), options);
  });
}

Result<std::shared_ptr<ThreadPool>> ThreadsOf(const ClientOptions& options) {
  if (options.threads < 0 || options.threads > ThreadPool::kMaxThreads)
    return InvalidArgument(
        "ClientOptions::threads is {}; it is from 1 to {}, or 0 for as many as there are processors.", options.threads,
        ThreadPool::kMaxThreads);
  if (options.threads == 0 && !options.parallel_for) return std::shared_ptr<ThreadPool>();
  return std::make_shared<ThreadPool>(
      ThreadPool::Options{.threads = options.threads, .run_tasks = options.parallel_for});
}

LocalClient::LocalClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LocalClient::LocalClient(LocalClient&&) noexcept = default;
LocalClient& LocalClient::operator=(LocalClient&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}
LocalClient::~LocalClient() { FreeHere(impl_); }

std::vector<DeviceInfo> LocalClient::Devices() {
  return WithoutExceptions([]() -> Result<std::vector<DeviceInfo>> {
           std::vector<DeviceInfo> out;
           KRAFLA_ASSIGN(const std::vector<DeviceDescription> devices, ListDevices());
           for (const DeviceDescription& device : devices) out.push_back(Brief(device));
           return out;
         })
      .value_or(std::vector<DeviceInfo>());
}

Result<LocalClient> LocalClient::Impl::Create(const ClientOptions& options,
                                              const std::function<Result<std::shared_ptr<Client>>()>& make) {
  return WithoutExceptions([&]() -> Result<LocalClient> {
    auto impl = std::make_unique<Impl>();
    KRAFLA_ASSIGN(impl->threads, ThreadsOf(options));
    if (options.memory_limit < 0)
      return InvalidArgument("ClientOptions::memory_limit is {}; it is a number of bytes, or 0 for no limit.",
                             options.memory_limit);
    impl->budget = std::make_shared<MemoryBudget>(options.memory_limit);
    KRAFLA_ASSIGN(impl->client, make());
    impl->device = Brief(impl->client->device());
    if (IsLogged()) Log(LogLevel::kInfo, Format("Programs run on {}.", impl->device.description));
    return LocalClient(std::move(impl));
  });
}

Result<LocalClient> LocalClient::Create(std::string_view selector, const ClientOptions& options) {
  return Impl::Create(options, [&] { return Client::Create(selector, options); });
}

const DeviceInfo& LocalClient::device() const { return impl_->device; }

Result<LocalExecutable> LocalClient::Compile(const XlaComputation& computation, const BuildOptions& options) {
  return WithoutExceptions([&]() -> Result<LocalExecutable> {
    KRAFLA_TRY(impl_->Check());
    auto impl = std::make_unique<LocalExecutable::Impl>();
    impl->runs_on_host_threads = impl_->device.is_cpu;
    KRAFLA_ASSIGN(impl->shape, computation.GetProgramShape());
    KRAFLA_ASSIGN(impl->executable, impl_->Compile(computation, options, {}));
    impl->report = ReportOf(*impl->executable);
    return LocalExecutable(std::move(impl));
  });
}

Result<Literal> LocalClient::Execute(const XlaComputation& computation, Span<Literal> arguments,
                                     const RunOptions& run) {
  KRAFLA_ASSIGN(LocalExecutable executable, Compile(computation));
  return executable.Run(arguments, run);
}

Result<XlaComputation> LoadHlo(std::string_view bytes, std::string_view name_for_messages) {
  return ReadComputation(bytes, name_for_messages);
}

Result<XlaComputation> LoadHloFile(const std::string& path) { return ReadComputationFile(path); }

std::string ToHloText(const XlaComputation& computation) {
  if (computation.IsNull()) return {};
  return WithoutExceptions([&] { return Result<std::string>(PrintModule(*computation.module())); }).value_or("");
}

// Here and not with the others, as reading text is not the business of shapes.
Result<Shape> ShapeUtil::ParseShape(std::string_view text) {
  return WithoutExceptions([&] { return krafla::ParseShape(text); });
}

std::string ToString(const Literal& literal) {
  return WithoutExceptions([&] { return Result<std::string>(PrintLiteral(literal)); }).value_or("");
}

}  // namespace krafla
