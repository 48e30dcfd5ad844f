// SPDX-License-Identifier: Apache-2.0
// Which devices work together, from the two short ways to say it: as a numbering of all devices in rows (iota), and by
// the axes of a mesh along which the members of a group differ. HLO text, protos and StableHLO have both.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "krafla/inline_vector.h"
#include "krafla/status.h"

namespace krafla {

using ReplicaGroups = std::vector<std::vector<int64_t>>;

// A few bytes can describe many numbers: the limit for them, unless a caller sets a lower one.
inline constexpr int64_t kMostGroupedDevices = int64_t{1} << 20;

struct DeviceMesh {
  Dims sizes;                    // of its axes
  std::vector<int64_t> devices;  // in row-major order; empty: 0, 1, 2 ...
};

// A part of a mesh axis: `size` steps, each of which lies `above` others apart (XLA: hlo/ir/mesh_and_axis.h). A size of
// 0 is the whole axis.
struct MeshAxisPart {
  int64_t axis = 0, above = 1, size = 0;
};

// 0, 1, 2 ... in row-major `dims`, read with the dimensions in `order` (empty: as they are).
Result<std::vector<int64_t>> IotaDevices(const Dims& dims, Dims order, int64_t limit = kMostGroupedDevices);
// "[groups,size]<=[dims]T(order)" (XLA: hlo/ir/tile_assignment.h, IotaTileAssignment).
Result<ReplicaGroups> IotaGroups(int64_t groups, int64_t size, const Dims& dims, Dims order,
                                 int64_t limit = kMostGroupedDevices);
// Members of a group differ along `parts`, the last one fastest (XLA: hlo/ir/replica_group.h).
Result<ReplicaGroups> MeshGroups(const DeviceMesh& mesh, std::span<const MeshAxisPart> parts,
                                 int64_t limit = kMostGroupedDevices);

}  // namespace krafla
