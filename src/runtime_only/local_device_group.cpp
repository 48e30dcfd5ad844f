// SPDX-License-Identifier: Apache-2.0
// Compiled models are for one device.
#include "krafla/local_client.h"

namespace krafla {

struct LocalDeviceGroup::Impl {};

LocalDeviceGroup::LocalDeviceGroup(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LocalDeviceGroup::LocalDeviceGroup(LocalDeviceGroup&&) noexcept = default;
LocalDeviceGroup& LocalDeviceGroup::operator=(LocalDeviceGroup&&) noexcept = default;
LocalDeviceGroup::~LocalDeviceGroup() = default;

Result<LocalDeviceGroup> LocalDeviceGroup::Create(std::string_view selector, const ClientOptions&) {
  return Unimplemented("'{}' would be a group of devices, and this build of krafla (KRAFLA_RUNTIME_ONLY) has none.",
                       selector);
}

// Of no group, as none can be made.
int64_t LocalDeviceGroup::size() const { return 0; }
Result<std::vector<Literal>> LocalDeviceGroup::Execute(const XlaComputation&, Span<std::vector<Literal>>,
                                                       const BuildOptions&, const RunOptions&) {
  return Unimplemented("This build of krafla (KRAFLA_RUNTIME_ONLY) has no groups of devices.");
}

}  // namespace krafla
