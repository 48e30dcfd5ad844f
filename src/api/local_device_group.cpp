// SPDX-License-Identifier: Apache-2.0
// The public face of DeviceGroup.
#include "api/front_end.h"
#include "api/group/device_group.h"
#include "api/literal_leaves.h"
#include "api/session/client_state.h"
#include "ir/module.h"

namespace krafla {

struct LocalDeviceGroup::Impl {
  MadeIn made_in;
  std::shared_ptr<DeviceGroup> group;
  std::shared_ptr<ThreadPool> threads;
};

LocalDeviceGroup::LocalDeviceGroup(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LocalDeviceGroup::LocalDeviceGroup(LocalDeviceGroup&&) noexcept = default;
LocalDeviceGroup& LocalDeviceGroup::operator=(LocalDeviceGroup&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}
LocalDeviceGroup::~LocalDeviceGroup() { FreeHere(impl_); }

Result<LocalDeviceGroup> LocalDeviceGroup::Create(std::string_view selector, const ClientOptions& options) {
  return WithoutExceptions([&]() -> Result<LocalDeviceGroup> {
    auto impl = std::make_unique<Impl>();
    KRAFLA_ASSIGN(impl->threads, ThreadsOf(options));
    KRAFLA_ASSIGN(impl->group, DeviceGroup::Create(selector, options));
    return LocalDeviceGroup(std::move(impl));
  });
}

int64_t LocalDeviceGroup::size() const { return impl_->group->size(); }

Result<std::vector<Literal>> LocalDeviceGroup::Execute(const XlaComputation& computation,
                                                       Span<std::vector<Literal>> arguments,
                                                       const BuildOptions& options, const RunOptions& run) {
  return WithoutExceptions([&]() -> Result<std::vector<Literal>> {
    KRAFLA_TRY(impl_->made_in.Check("The group of devices"));
    KRAFLA_ASSIGN(ProgramShape shape, computation.GetProgramShape());
    CompileOptions compile = ToInternal(options);
    compile.threads = impl_->threads;
    KRAFLA_ASSIGN(std::unique_ptr<GroupExecutable> executable,
                  impl_->group->Compile(computation.module()->Clone(), compile));
    if (static_cast<int64_t>(arguments.size()) != executable->device_count())
      return InvalidArgument("The program runs on {} devices, arguments for {} were given.", executable->device_count(),
                             arguments.size());
    for (std::size_t d = 0; d < arguments.size(); ++d) {
      if (arguments[d].size() != shape.parameters.size())
        return InvalidArgument("The program takes {} arguments, {} were given for device {}.", shape.parameters.size(),
                               arguments[d].size(), d);
      std::vector<const Literal*> leaves;
      for (const Literal& argument : arguments[d]) AppendLeaves(argument, leaves);
      KRAFLA_TRY(executable->SetArguments(static_cast<int64_t>(d), leaves));
    }
    const RunLimit limit{run.deadline, run.stop};
    executable->SetLimit(&limit);
    KRAFLA_TRY(executable->Execute());
    std::vector<Literal> out;
    for (std::size_t d = 0; d < arguments.size(); ++d) {
      KRAFLA_ASSIGN(std::vector<Literal> results, executable->Results(static_cast<int64_t>(d)));
      std::size_t next = 0;
      KRAFLA_ASSIGN(Literal result, Assemble(shape.result, results, next));
      out.push_back(std::move(result));
    }
    return out;
  });
}

}  // namespace krafla
