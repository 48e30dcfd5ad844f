// SPDX-License-Identifier: Apache-2.0
// A program on all devices of a group, of which some may be in other processes.
#pragma once

#include <memory>
#include <span>

#include "api/group/device_group.h"
#include "passes/spmd/spmd_partitioner.h"

namespace krafla {

// A device of the program; the client is null where another process has it.
struct Seat {
  GlobalPlace place;
  std::shared_ptr<Client> client;
};

// `world`: null for one process; `program` says what it is there, and has to be the same everywhere. `spare`: what a
// process compiles for that has no device of the program.
Result<std::unique_ptr<GroupExecutable>> MakeGroupProgram(std::span<const Seat> seats, std::shared_ptr<Client> spare,
                                                          std::shared_ptr<transport::World> world, std::string program,
                                                          std::unique_ptr<Module> module, SpmdShardings shardings,
                                                          const CompileOptions& options,
                                                          const GroupOptions& group_options);

}  // namespace krafla
