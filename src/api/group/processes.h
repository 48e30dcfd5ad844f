// SPDX-License-Identifier: Apache-2.0
// Makes a group of devices one of several processes, each of which has called this for its own devices.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "api/group/device_group.h"
#include "transport/bootstrap.h"

namespace krafla {

struct ProcessOptions {
  // Where rank 0 listens ("node1:12345"), how many processes there are, and which one this is. Empty: as the launcher
  // of MPI says, where this was started by one; else there is one process.
  std::string coordinator;
  std::optional<int64_t> world_size, rank;
  // "auto", "shared", "sockets", "gloo", "mpi" (transport/world.h).
  std::string transport = "auto";
  // How long they wait for each other.
  std::chrono::milliseconds time_limit = std::chrono::seconds(60);

  // Whether there are several: by these options, or by a launcher.
  bool AreSeveral() const;
};

// INVALID_ARGUMENT for options that do not go together, and for processes of other builds or of another number.
Result<> JoinProcesses(DeviceGroup& group, const ProcessOptions& options);
// The same for processes that have met already.
Result<> JoinProcesses(DeviceGroup& group, std::unique_ptr<transport::Bootstrap> bootstrap,
                       const ProcessOptions& options);

}  // namespace krafla
