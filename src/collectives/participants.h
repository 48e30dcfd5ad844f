// SPDX-License-Identifier: Apache-2.0
// Who takes part in a collective: from replica groups, channels and use_global_device_ids to numbers of devices.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ir/module.h"
#include "krafla/status.h"

namespace krafla {

// Device d runs replica d / partitions and partition d % partitions: XLA's flattened id.
struct DeviceGrid {
  int64_t replicas = 1, partitions = 1;

  int64_t size() const { return replicas * partitions; }
  int64_t device(int64_t replica, int64_t partition) const { return replica * partitions + partition; }
  int64_t replica(int64_t d) const { return d / partitions; }
  int64_t partition(int64_t d) const { return d % partitions; }
};

// Whether devices do `opcode` together: the collectives (not their -done), send and recv-done.
bool IsExchange(Opcode opcode);
// Those, and what begins or ends them.
bool IsBetweenDevices(Opcode opcode);

// The devices of each group of an all-*, reduce-scatter, collective-broadcast or ragged-all-to-all, in the order of
// their ranks. XLA: GetParticipatingDevicesGroups in collective_ops_utils.cc.
// INVALID_ARGUMENT for ids that the grid does not have, and for a device in two groups.
Result<std::vector<std::vector<int64_t>>> DeviceGroups(const Instruction& instruction, const DeviceGrid& grid);

// (source, target) of a collective-permute, or of a send, recv or recv-done (there from the frontend attribute
// _xla_send_recv_source_target_pairs; without it two devices send to each other).
Result<std::vector<std::pair<int64_t, int64_t>>> DevicePairs(const Instruction& instruction, const DeviceGrid& grid);

}  // namespace krafla
