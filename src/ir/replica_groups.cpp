// SPDX-License-Identifier: Apache-2.0
#include "ir/replica_groups.h"

#include <algorithm>
#include <numeric>

#include "base/checked_math.h"
#include "krafla/shape.h"

namespace krafla {
namespace {

constexpr std::size_t kMostAxes = 16, kMostParts = 32;

// The product of sizes, which are positive and stay within the limit.
Result<int64_t> DeviceCount(const Dims& dims, int64_t limit) {
  int64_t out = 1;
  for (int64_t d : dims) {
    auto next = d > 0 ? CheckedMul(out, d) : std::nullopt;
    if (!next) return InvalidArgument("The sizes of replica groups must be positive and multiply to 63 bits.");
    out = *next;
  }
  if (out > limit)
    return ResourceExhausted("Replica groups of {} devices are past the limit; {} are left.", out, limit);
  return out;
}

// 0, 1, 2 ... in row-major `dims` of `count` devices, read in `order`, which is a permutation.
std::vector<int64_t> Walk(const Dims& dims, const Dims& order, int64_t count) {
  const Dims strides = RowMajorStrides(dims);
  Dims walked, index(dims.size(), 0);
  for (int64_t p : order) walked.push_back(dims[static_cast<std::size_t>(p)]);
  std::vector<int64_t> out(static_cast<std::size_t>(count));
  for (int64_t& device : out) {
    for (std::size_t d = 0; d < index.size(); ++d) device += index[d] * strides[static_cast<std::size_t>(order[d])];
    NextIndex(std::span<int64_t>(index.data(), index.size()), walked);
  }
  return out;
}

Dims Identity(std::size_t rank) {
  Dims out(rank, 0);
  std::iota(out.begin(), out.end(), int64_t{0});
  return out;
}

// `devices` cut into groups of `size`, which divides them.
ReplicaGroups Cut(const std::vector<int64_t>& devices, int64_t size) {
  ReplicaGroups out;
  for (auto it = devices.begin(); it != devices.end(); it += size) out.emplace_back(it, it + size);
  return out;
}

}  // namespace

Result<std::vector<int64_t>> IotaDevices(const Dims& dims, Dims order, int64_t limit) {
  if (dims.size() > Shape::kMaxRank)
    return InvalidArgument("Devices are numbered in {} dimensions; the limit is {}.", dims.size(), Shape::kMaxRank);
  const Dims identity = Identity(dims.size());
  if (order.empty()) order = identity;
  if (order.size() != dims.size() || !std::is_permutation(order.begin(), order.end(), identity.begin()))
    return InvalidArgument("A permutation must name each of the {} dimensions once.", dims.size());
  KRAFLA_ASSIGN(int64_t count, DeviceCount(dims, limit));
  return Walk(dims, order, count);
}

Result<ReplicaGroups> IotaGroups(int64_t groups, int64_t size, const Dims& dims, Dims order, int64_t limit) {
  KRAFLA_ASSIGN(int64_t members, DeviceCount(Dims{groups, size}, limit));
  KRAFLA_ASSIGN(std::vector<int64_t> devices, IotaDevices(dims, std::move(order), limit));
  if (static_cast<int64_t>(devices.size()) != members)
    return InvalidArgument("{} replica groups of {} are not the {} devices that are numbered.", groups, size,
                           devices.size());
  return Cut(devices, size);
}

Result<ReplicaGroups> MeshGroups(const DeviceMesh& mesh, std::span<const MeshAxisPart> given, int64_t limit) {
  if (mesh.sizes.size() > kMostAxes)
    return InvalidArgument("A mesh has {} axes; the limit is {}.", mesh.sizes.size(), kMostAxes);
  if (given.size() > kMostParts)
    return InvalidArgument("Replica groups name {} parts of axes; the limit is {}.", given.size(), kMostParts);
  KRAFLA_ASSIGN(int64_t count, DeviceCount(mesh.sizes, limit));
  if (!mesh.devices.empty() && static_cast<int64_t>(mesh.devices.size()) != count)
    return InvalidArgument("A mesh of {} devices lists {}.", count, mesh.devices.size());
  std::vector<MeshAxisPart> parts(given.begin(), given.end());
  for (MeshAxisPart& part : parts) {
    if (part.axis < 0 || part.axis >= mesh.sizes.ssize())
      return InvalidArgument("A mesh of {} axes has no axis {}.", mesh.sizes.size(), part.axis);
    const int64_t full = mesh.sizes[static_cast<std::size_t>(part.axis)];
    if (part.size == 0) part.size = full;
    if (part.above < 1 || part.size < 1 || part.above > full || part.size > full / part.above ||
        full % (part.above * part.size) != 0)
      return InvalidArgument("({}){} is not a part of an axis of {}.", part.above, part.size, full);
  }
  // Every axis is cut at the ends of its parts; then the parts are dimensions of their own.
  Dims dims;
  std::vector<int64_t> place(parts.size(), -1);
  for (std::size_t axis = 0; axis < mesh.sizes.size(); ++axis) {
    const int64_t full = mesh.sizes[axis];
    std::vector<int64_t> cuts{1, full};
    for (const MeshAxisPart& part : parts)
      if (part.axis == static_cast<int64_t>(axis)) cuts.insert(cuts.end(), {part.above, part.above * part.size});
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
      if (cuts[c + 1] % cuts[c] != 0) return InvalidArgument("The parts of a mesh axis of {} overlap.", full);
      for (std::size_t p = 0; p < parts.size(); ++p) {
        const MeshAxisPart& part = parts[p];
        if (part.axis != static_cast<int64_t>(axis) || part.above != cuts[c] || part.size == 1) continue;
        if (part.above * part.size != cuts[c + 1] || place[p] >= 0)
          return InvalidArgument("The parts of a mesh axis of {} overlap.", full);
        place[p] = dims.ssize();
      }
      dims.push_back(cuts[c + 1] / cuts[c]);
    }
  }
  Dims order;
  int64_t size = 1;
  for (int64_t d = 0; d < dims.ssize(); ++d)
    if (std::find(place.begin(), place.end(), d) == place.end()) order.push_back(d);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    if (parts[p].size == 1) continue;  // one step has no dimension
    if (place[p] < 0) return InvalidArgument("The parts of a mesh axis overlap.");
    order.push_back(place[p]);
    size *= parts[p].size;
  }
  if (order.size() != dims.size()) return InvalidArgument("Replica groups name a part of an axis twice.");
  std::vector<int64_t> devices = Walk(dims, order, count);
  if (!mesh.devices.empty())
    for (int64_t& device : devices) device = mesh.devices[static_cast<std::size_t>(device)];
  return Cut(devices, size);
}

}  // namespace krafla
