// SPDX-License-Identifier: Apache-2.0
// The three ways in which a proto says which devices work together, each as lists of devices.
#pragma once

#include "hlo_io/hlo_proto/wire.h"
#include "ir/replica_groups.h"

namespace krafla::hlo_proto {

// ReplicaGroup: one more group.
void ReadGroup(Reader reader, ReplicaGroups& out);
// IotaReplicaGroupListProto.
Result<ReplicaGroups> ReadIotaGroups(Reader reader);
// MeshAxesReplicaGroupListProto: the devices that differ only in their place along the axes named.
Result<ReplicaGroups> ReadMeshGroups(Reader reader);

}  // namespace krafla::hlo_proto
