// SPDX-License-Identifier: Apache-2.0
#include "hlo_io/hlo_proto/replica_groups.h"

namespace krafla::hlo_proto {
namespace {

Result<DeviceMesh> ReadMesh(Reader reader) {
  DeviceMesh out;
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
  if (!reshape.empty()) { KRAFLA_ASSIGN(out.devices, IotaDevices(reshape, std::move(order))); }
  return out;
}

MeshAxisPart ReadPart(Reader reader) {
  MeshAxisPart out;
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

void ReadGroup(Reader reader, ReplicaGroups& out) {
  std::vector<int64_t> group;
  while (reader.next()) {
    if (reader.tag() == 1) AppendInts(reader, group);
    else reader.skip();
  }
  out.push_back(std::move(group));
}

Result<ReplicaGroups> ReadIotaGroups(Reader reader) {
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
  return IotaGroups(count, size, dims, std::move(order));
}

Result<ReplicaGroups> ReadMeshGroups(Reader reader) {
  DeviceMesh mesh;
  std::vector<MeshAxisPart> parts;
  while (reader.next()) {
    if (reader.tag() == 1) {
      KRAFLA_ASSIGN(mesh, ReadMesh(Message(reader)));
    } else if (reader.tag() == 2) {
      parts.push_back(ReadPart(Message(reader)));
    } else {
      reader.skip();
    }
  }
  return MeshGroups(mesh, parts);
}

}  // namespace krafla::hlo_proto
