// SPDX-License-Identifier: Apache-2.0
// The public face of Client and Executable.
#include "krafla/local_client.h"

#include <fstream>
#include <iterator>

#include "api/client.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "hlo_io/read_module.h"
#include "ir/module.h"
#include "ir/verifier.h"
#include "krafla/shape_util.h"

namespace krafla {
namespace {

DeviceInfo Brief(const DeviceDescription& device) { return {device.selector, device.description, device.is_cpu}; }

BuildReport ReportOf(const Executable& executable) {
  const CompileReport& r = executable.report();
  BuildReport out;
  out.instructions = r.instructions;
  out.device_instructions = r.device_instructions;
  out.kernels = r.kernels;
  out.launches = r.launches;
  out.arena_bytes = r.arena_bytes;
  out.compile_ms = r.compile_ms();
  out.pipeline_ms = r.pipeline_ms;
  for (const CompileReport::Fallback& f : r.fallbacks) out.fallbacks.push_back({f.instruction, f.opcode, f.reason});
  out.placement = executable.PlacementLine();
  return out;
}

// Leaves of an argument, tokens included, as executables take them.
void AppendLeaves(const Literal& literal, std::vector<const Literal*>& out) {
  if (!literal.shape().IsTuple()) {
    out.push_back(&literal);
    return;
  }
  for (const Literal& element : literal.elements()) AppendLeaves(element, out);
}

// Builds a literal of `shape` from leaves, depth first.
Result<Literal> Assemble(const Shape& shape, std::vector<Literal>& leaves, std::size_t& next) {
  if (!shape.IsTuple()) {
    if (next >= leaves.size()) return Internal("The program gave {} results, more were expected.", leaves.size());
    return std::move(leaves[next++]);
  }
  std::vector<Literal> elements;
  for (const Shape& s : shape.tuple_elements()) {
    KRAFLA_ASSIGN(Literal element, Assemble(s, leaves, next));
    elements.push_back(std::move(element));
  }
  return Literal::MakeTuple(std::move(elements));
}

Result<XlaComputation> Finish(Result<std::unique_ptr<Module>> module) {
  if (!module) return Failure(std::move(module).error());
  KRAFLA_TRY(Verify(**module));
  return XlaComputation(std::shared_ptr<const Module>(std::move(*module)));
}

}  // namespace

struct LocalExecutable::Impl {
  std::unique_ptr<Executable> executable;
  ProgramShape shape;
  BuildReport report;
};

LocalExecutable::LocalExecutable(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LocalExecutable::LocalExecutable(LocalExecutable&&) noexcept = default;
LocalExecutable& LocalExecutable::operator=(LocalExecutable&&) noexcept = default;
LocalExecutable::~LocalExecutable() = default;

const ProgramShape& LocalExecutable::program_shape() const { return impl_->shape; }
const BuildReport& LocalExecutable::report() const { return impl_->report; }

Result<Literal> LocalExecutable::Run(std::span<const Literal* const> arguments) {
  if (arguments.size() != impl_->shape.parameters.size())
    return InvalidArgument("The program takes {} arguments, {} were given: it is {}.", impl_->shape.parameters.size(),
                           arguments.size(), impl_->shape.ToString());
  std::vector<const Literal*> leaves;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == nullptr) return InvalidArgument("Argument {} is a null pointer.", i);
    AppendLeaves(*arguments[i], leaves);
  }
  KRAFLA_ASSIGN(std::vector<Literal> results, impl_->executable->Run(leaves));
  std::size_t next = 0;
  return Assemble(impl_->shape.result, results, next);
}

Result<Literal> LocalExecutable::Run(Span<Literal> arguments) {
  std::vector<const Literal*> pointers;
  for (const Literal& argument : arguments) pointers.push_back(&argument);
  return Run(std::span<const Literal* const>(pointers));
}

struct LocalClient::Impl {
  std::shared_ptr<Client> client;
  DeviceInfo device;
};

LocalClient::LocalClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LocalClient::LocalClient(LocalClient&&) noexcept = default;
LocalClient& LocalClient::operator=(LocalClient&&) noexcept = default;
LocalClient::~LocalClient() = default;

std::vector<DeviceInfo> LocalClient::Devices() {
  std::vector<DeviceInfo> out;
  for (const DeviceDescription& device : ListDevices()) out.push_back(Brief(device));
  return out;
}

Result<LocalClient> LocalClient::Create(std::string_view selector) {
  auto impl = std::make_unique<Impl>();
  KRAFLA_ASSIGN(impl->client, Client::Create(selector));
  impl->device = Brief(impl->client->device());
  return LocalClient(std::move(impl));
}

const DeviceInfo& LocalClient::device() const { return impl_->device; }

Result<LocalExecutable> LocalClient::Compile(const XlaComputation& computation, const BuildOptions& options) {
  auto impl = std::make_unique<LocalExecutable::Impl>();
  KRAFLA_ASSIGN(impl->shape, computation.GetProgramShape());
  CompileOptions internal;
  internal.disabled = options.disabled;
  internal.enabled = options.enabled;
  internal.strict = options.strict;
  KRAFLA_ASSIGN(impl->executable, impl_->client->Compile(computation.module()->Clone(), internal));
  impl->report = ReportOf(*impl->executable);
  return LocalExecutable(std::move(impl));
}

Result<Literal> LocalClient::Execute(const XlaComputation& computation, Span<Literal> arguments) {
  KRAFLA_ASSIGN(LocalExecutable executable, Compile(computation));
  return executable.Run(arguments);
}

Result<XlaComputation> LoadHlo(std::string_view bytes, std::string_view name_for_messages) {
  return Finish(ReadModule(bytes, name_for_messages));
}

Result<XlaComputation> LoadHloFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("'{}' cannot be opened.", path);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) return Unavailable("'{}' cannot be read.", path);
  return LoadHlo(text, path);
}

std::string ToHloText(const XlaComputation& computation) {
  return computation.IsNull() ? std::string() : PrintModule(*computation.module());
}

// Here and not with the others, as reading text is not the business of shapes.
Result<Shape> ShapeUtil::ParseShape(std::string_view text) { return krafla::ParseShape(text); }

std::string ToString(const Literal& literal) { return PrintLiteral(literal); }

}  // namespace krafla
