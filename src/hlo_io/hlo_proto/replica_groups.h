// SPDX-License-Identifier: Apache-2.0
// The three ways in which a proto says which devices work together, each as lists of devices.
#pragma once

#include <vector>

#include "hlo_io/hlo_proto/wire.h"

namespace krafla::hlo_proto {

using Groups = std::vector<std::vector<int64_t>>;

// ReplicaGroup: one more group.
void ReadGroup(Reader reader, Groups& out);
// IotaReplicaGroupListProto.
Result<Groups> ReadIotaGroups(Reader reader);
// MeshAxesReplicaGroupListProto: the devices that differ only in their place along the axes named.
Result<Groups> ReadMeshGroups(Reader reader);

}  // namespace krafla::hlo_proto
