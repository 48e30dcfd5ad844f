// SPDX-License-Identifier: Apache-2.0
#include "api/group/processes.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "transport/engine.h"

namespace krafla {
namespace {

// A process with one device may be given several virtual ones of it.
constexpr int64_t kVirtual = 16;
constexpr std::string_view kTransports[] = {"auto", "shared", "sockets", "gloo", "mpi"};
// What mpirun of OpenMPI, and launchers of MPICH and Slurm for it, set.
constexpr const char* kLauncherSizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};

bool IsLaunched() {
  return std::ranges::any_of(kLauncherSizes, [](const char* name) {
    const char* size = std::getenv(name);
    return size != nullptr && std::atoi(size) > 1;
  });
}

Result<> Join(DeviceGroup& group, std::unique_ptr<transport::Bootstrap> bootstrap, const ProcessOptions& options,
              std::shared_ptr<transport::Engine> engine) {
  transport::WorldOptions world;
  world.time_limit = options.time_limit;
  world.transport = options.transport;
  world.devices = group.selector();
  world.device_count = static_cast<int>(group.local_size());
  world.slots = static_cast<int>(std::max(group.local_size(), kVirtual));
  KRAFLA_ASSIGN(auto made, transport::World::Create(std::move(bootstrap), world, std::move(engine)));
  return group.Join(std::move(made));
}

}  // namespace

bool ProcessOptions::AreSeveral() const {
  return !coordinator.empty() || world_size || rank || transport == "mpi" || IsLaunched();
}

Result<> JoinProcesses(DeviceGroup& group, std::unique_ptr<transport::Bootstrap> bootstrap,
                       const ProcessOptions& options) {
  return Join(group, std::move(bootstrap), options, nullptr);
}

Result<> JoinProcesses(DeviceGroup& group, const ProcessOptions& options) {
  if (!std::ranges::contains(kTransports, options.transport))
    return InvalidArgument("There is no transport '{}'; auto, shared, sockets, gloo and mpi are known.",
                           options.transport);
  if (!options.AreSeveral()) return {};
  if (options.coordinator.empty() && !options.world_size && !options.rank) {
    KRAFLA_ASSIGN(auto engine, transport::Engine::Load("mpi"));
    KRAFLA_ASSIGN(auto bootstrap, transport::Engine::BootstrapOf(engine));
    return Join(group, std::move(bootstrap), options, std::move(engine));
  }
  if (options.coordinator.empty() || !options.world_size || !options.rank)
    return InvalidArgument(
        "A program of several processes needs all three of --coordinator, --world-size and --rank, in each of them.");
  KRAFLA_TRY(transport::CheckRank(*options.rank, *options.world_size));
  KRAFLA_ASSIGN(auto bootstrap, transport::BootstrapAt(options.coordinator, static_cast<int>(*options.rank),
                                                       static_cast<int>(*options.world_size), options.time_limit));
  return Join(group, std::move(bootstrap), options, nullptr);
}

}  // namespace krafla
