// SPDX-License-Identifier: Apache-2.0
// Several processes of one program, as jax.distributed starts them: each makes a client with num_nodes, node_id and a
// store of names and values that all see, and gets the devices of all.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/group/device_group.h"
#include "krafla/status.h"
#include "plugins/pjrt/functions.h"

namespace krafla::pjrt {

// What processes tell each other of a device.
struct DistributedDevice {
  int process = 0;
  std::string selector, name, description;
};

struct Distributed {
  std::shared_ptr<transport::World> world;  // null: this is the only process
  int process = 0;
  std::vector<DistributedDevice> devices;  // of all processes, in their order
};

// `members`: this process's devices. UNAVAILABLE, DEADLINE_EXCEEDED, .. where not all processes come.
Result<Distributed> MeetProcesses(const PJRT_Client_Create_Args& args,
                                  const std::vector<std::shared_ptr<Client>>& members);

}  // namespace krafla::pjrt
