// SPDX-License-Identifier: Apache-2.0
#include "hlo_io/hlo_proto/replica_groups.h"

#include <numeric>

#include "base/checked_math.h"
#include "ir/shape.h"

namespace krafla::hlo_proto {
namespace {

// A few bytes stand for many numbers here.
constexpr int64_t kMostDevices = int64_t{1} << 20;

// The product where every factor is positive and it stays within kMostDevices, else 0.
int64_t DeviceCount(const Dims& dims) {
  int64_t out = 1;
  for (int64_t d : dims) {
    if (d <= 0 || d > kMostDevices || out > kMostDevices / d) return 0;
    out *= d;
  }
  return out;
}

bool IsPermutation(const Dims& order, std::size_t rank) {
  if (order.size() != rank) return false;
  std::vector<bool> seen(rank, false);
  for (int64_t p : order) {
    if (p < 0 || p >= static_cast<int64_t>(rank) || seen[static_cast<std::size_t>(p)]) return false;
    seen[static_cast<std::size_t>(p)] = true;
  }
  return true;
}

// 0, 1, 2 ... in row-major `dims`, read with the dimensions in `order`.
std::vector<int64_t> Transposed(const Dims& dims, const Dims& order) {
  const Dims strides = RowMajorStrides(dims);
  Dims walked, index(dims.size(), 0);
  for (int64_t p : order) walked.push_back(dims[static_cast<std::size_t>(p)]);
  std::vector<int64_t> out(static_cast<std::size_t>(DeviceCount(dims)));
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

// `devices` cut into groups of `size`.
Groups Cut(const std::vector<int64_t>& devices, int64_t size) {
  Groups out;
  for (auto it = devices.begin(); it != devices.end(); it += size) out.emplace_back(it, it + size);
  return out;
}

struct Mesh {
  Dims sizes;
  std::vector<int64_t> devices;  // empty: 0, 1, 2 ...
};

Result<Mesh> ReadMesh(Reader reader) {
  Mesh out;
  Dims reshape, order;
  while (reader.next()) {
    if (reader.tag() == 1) {
      int64_t size = 0;
      Reader axis = Message(reader);
      while (axis.next()) {
        if (axis.tag() == 2) size = Int(axis);
        else axis.skip();
      }
      out.sizes.push_back(size);
    } else if (reader.tag() == 2) {
      AppendInts(reader, out.devices);
    } else if (reader.tag() == 3) {
      Reader transform = Message(reader);
      while (transform.next()) {
        if (transform.tag() == 1) AppendInts(transform, reshape);
        else if (transform.tag() == 2) AppendInts(transform, order);
        else transform.skip();
      }
    } else {
      reader.skip();
    }
  }
  const int64_t count = DeviceCount(out.sizes);
  if (count == 0 || out.sizes.size() > 16)
    return InvalidArgument("The axes of a mesh must be at most 16, of positive sizes, with at most {} devices.", kMostDevices);
  if (!reshape.empty()) {
    if (order.empty()) order = Identity(reshape.size());
    if (DeviceCount(reshape) != count || !IsPermutation(order, reshape.size()))
      return InvalidArgument("The order of the devices of a mesh does not fit its {} devices.", count);
    out.devices = Transposed(reshape, order);
  }
  if (!out.devices.empty() && static_cast<int64_t>(out.devices.size()) != count)
    return InvalidArgument("A mesh of {} devices lists {}.", count, out.devices.size());
  return out;
}

// A part of a mesh axis: `size` steps below `above` others.
struct Part {
  int64_t axis = 0, above = 1, size = 0;
};

Part ReadPart(Reader reader) {
  Part out;
  while (reader.next()) {
    if (reader.tag() == 1) {
      out.axis = Int(reader);
    } else if (reader.tag() == 2) {
      Reader sub = Message(reader);
      while (sub.next()) {
        if (sub.tag() == 1) out.above = Int(sub);
        else if (sub.tag() == 2) out.size = Int(sub);
        else sub.skip();
      }
    } else {
      reader.skip();
    }
  }
  return out;
}

}  // namespace

void ReadGroup(Reader reader, Groups& out) {
  std::vector<int64_t> group;
  while (reader.next()) {
    if (reader.tag() == 1) AppendInts(reader, group);
    else reader.skip();
  }
  out.push_back(std::move(group));
}

Result<Groups> ReadIotaGroups(Reader reader) {
  int64_t count = 0, size = 0;
  Dims dims, order;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1: count = Int(reader); break;
      case 2: size = Int(reader); break;
      case 3: AppendInts(reader, dims); break;
      case 4: AppendInts(reader, order); break;
      default: reader.skip();
    }
  }
  if (order.empty()) order = Identity(dims.size());
  const int64_t devices = DeviceCount(Dims{count, size});
  if (devices == 0 || DeviceCount(dims) != devices || !IsPermutation(order, dims.size()))
    return InvalidArgument("{} replica groups of {} members in iota form do not fit their dimensions.", count, size);
  return Cut(Transposed(dims, order), size);
}

Result<Groups> ReadMeshGroups(Reader reader) {
  Mesh mesh;
  std::vector<Part> parts;
  while (reader.next()) {
    if (reader.tag() == 1) {
      KRAFLA_ASSIGN(mesh, ReadMesh(Message(reader)));
    } else if (reader.tag() == 2) {
      parts.push_back(ReadPart(Message(reader)));
    } else {
      reader.skip();
    }
  }
  if (parts.size() > 32) return InvalidArgument("Replica groups name {} parts of axes; the limit is 32.", parts.size());
  // Every axis is split at the ends of its parts; then the parts become dimensions of their own.
  Dims dims;
  std::vector<int64_t> group_dims(parts.size(), -1);
  for (std::size_t axis = 0; axis < mesh.sizes.size(); ++axis) {
    const int64_t full = mesh.sizes[axis];
    std::vector<int64_t> cuts{1, full};
    for (Part& part : parts) {
      if (part.axis != static_cast<int64_t>(axis)) continue;
      if (part.size == 0) part.size = full;
      if (part.above < 1 || part.size < 1 || part.above > full || part.size > full / part.above ||
          full % (part.above * part.size) != 0)
        return InvalidArgument("({}){} is not a part of an axis of {}.", part.above, part.size, full);
      cuts.insert(cuts.end(), {part.above, part.above * part.size});
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
      if (cuts[c + 1] % cuts[c] != 0) return InvalidArgument("The parts of a mesh axis of {} overlap.", full);
      for (std::size_t p = 0; p < parts.size(); ++p) {
        const Part& part = parts[p];
        if (part.axis != static_cast<int64_t>(axis) || part.above != cuts[c]) continue;
        if (part.above * part.size != cuts[c + 1] || group_dims[p] >= 0)
          return InvalidArgument("The parts of a mesh axis of {} overlap.", full);
        group_dims[p] = dims.ssize();
      }
      dims.push_back(cuts[c + 1] / cuts[c]);
    }
  }
  Dims order;
  int64_t size = 1;
  for (int64_t d = 0; d < dims.ssize(); ++d)
    if (std::find(group_dims.begin(), group_dims.end(), d) == group_dims.end()) order.push_back(d);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    if (parts[p].axis < 0 || parts[p].axis >= mesh.sizes.ssize())
      return InvalidArgument("A mesh of {} axes has no axis {}.", mesh.sizes.size(), parts[p].axis);
    if (group_dims[p] < 0) {  // an axis of one device has no dimension
      if (parts[p].size == 1) continue;
      return InvalidArgument("The parts of a mesh axis overlap.");
    }
    order.push_back(group_dims[p]);
    size *= dims[static_cast<std::size_t>(group_dims[p])];
  }
  if (!IsPermutation(order, dims.size())) return InvalidArgument("Replica groups name a part of an axis twice.");
  std::vector<int64_t> devices = Transposed(dims, order);
  if (!mesh.devices.empty())
    for (int64_t& device : devices) device = mesh.devices[static_cast<std::size_t>(device)];
  return Cut(devices, size);
}

}  // namespace krafla::hlo_proto
