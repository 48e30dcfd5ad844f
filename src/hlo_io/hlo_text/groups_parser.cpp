// SPDX-License-Identifier: Apache-2.0
// Replica groups in the three ways to write them: lists "{{0,1},{2,3}}", iota "[2,4]<=[8]", mesh axes
// "mesh['a'=2,'b'=4] {'b'}". All become lists.
#include <algorithm>

#include "hlo_io/hlo_text/parser.h"

namespace krafla::hlo_text {

Result<ReplicaGroups> Parser::ParseGroups() {
  if (lex_.Is('[')) return ParseIotaGroups();
  if (lex_.IsWord("mesh")) return ParseMeshGroups();
  ReplicaGroups out;
  KRAFLA_TRY(lex_.Expect('{', "to open replica_groups"));
  if (lex_.Accept('}')) return out;
  do {
    KRAFLA_ASSIGN(Dims group, ParseDims("a replica group"));
    out.emplace_back(group.begin(), group.end());
  } while (lex_.Accept(','));
  KRAFLA_TRY(lex_.Expect('}', "to close replica_groups"));
  return out;
}

// "2,4]" with `close` for the bracket.
Result<Dims> Parser::ParseDimList(char close, std::string_view what) {
  Dims out;
  do {
    KRAFLA_ASSIGN(int64_t n, lex_.Int(what));
    if (out.ssize() >= Shape::kMaxRank) return lex_.Error(Format("{} has too many entries.", what));
    out.push_back(n);
  } while (lex_.Accept(','));
  KRAFLA_TRY(lex_.Expect(close, Format("to close {}", what)));
  return out;
}

// Groups from a short form count against what the module may have; where they do not fit, the error has its place.
Result<ReplicaGroups> Parser::Expanded(Result<ReplicaGroups> groups, std::size_t offset) {
  if (!groups) return lex_.Error(offset, groups.error().message(), groups.error().code());
  for (const auto& group : *groups) iota_budget_ -= static_cast<int64_t>(group.size());
  return groups;
}

// "[2,4]<=[8]" or "[4,2]<=[2,4]T(1,0)": groups and members on the left; on the right the shape in which devices are
// counted and how its dimensions are permuted (XLA: hlo/ir/tile_assignment.h, IotaTileAssignment).
Result<ReplicaGroups> Parser::ParseIotaGroups() {
  const std::size_t begin = lex_.token().begin;
  lex_.Next();
  KRAFLA_ASSIGN(Dims tile, ParseDimList(']', "the shape of replica groups"));
  if (tile.size() != 2)
    return lex_.Error(begin, "Replica groups in this form must have two dimensions: groups and members.");
  if (lex_.token().kind != Tok::kLessEqual) return lex_.Unexpected("'<=' after the shape of replica groups");
  lex_.Next();
  KRAFLA_TRY(lex_.Expect('[', "after '<='"));
  KRAFLA_ASSIGN(Dims dims, ParseDimList(']', "the shape of all devices"));
  Dims order;
  if (lex_.IsWord("T")) {
    lex_.Next();
    KRAFLA_TRY(lex_.Expect('(', "after T"));
    KRAFLA_ASSIGN(order, ParseDimList(')', "a permutation"));
  }
  return Expanded(IotaGroups(tile[0], tile[1], dims, std::move(order), iota_budget_), begin);
}

// 'data' or "data" or data
Result<std::string_view> Parser::ParseAxisName() {
  if (lex_.token().kind == Tok::kString) return lex_.Next().text;
  if (!lex_.Is('\'')) return lex_.Name("the name of a mesh axis");
  const std::size_t begin = lex_.token().end, end = lex_.text().substr(0, begin + 1000).find('\'', begin);
  if (end == std::string_view::npos) return lex_.Error("This name of a mesh axis is never closed.");
  lex_.Seek(end + 1);
  return lex_.text().substr(begin, end - begin);
}

// "mesh['a'=2,'b'=4] {'b'}", "mesh['a'=8], device_ids=(7,6,5,4,3,2,1,0) {'a':(2)4}": members of a group differ along
// the axes named, the last one fastest. "a:(p)s" is a part of an axis: p steps of the axis above it, s its own size
// (XLA: hlo/ir/mesh_and_axis.h, replica_group.h).
Result<ReplicaGroups> Parser::ParseMeshGroups() {
  const std::size_t begin = lex_.token().begin;
  std::vector<std::string_view> names;
  DeviceMesh mesh;
  lex_.Next();
  KRAFLA_TRY(lex_.Expect('[', "after mesh"));
  do {
    KRAFLA_ASSIGN(std::string_view name, ParseAxisName());
    KRAFLA_TRY(lex_.Expect('=', "after the name of a mesh axis"));
    KRAFLA_ASSIGN(int64_t size, lex_.Int("the size of a mesh axis"));
    if (names.size() >= 16 || std::find(names.begin(), names.end(), name) != names.end())
      return lex_.Error(begin, "A mesh has at most 16 axes, each with its own name.");
    names.push_back(name);
    mesh.sizes.push_back(size);
  } while (lex_.Accept(','));
  KRAFLA_TRY(lex_.Expect(']', "to close a mesh"));
  if (lex_.Accept(',')) {
    KRAFLA_TRY(lex_.ExpectWord("device_ids"));
    KRAFLA_TRY(lex_.Expect('=', "after device_ids"));
    KRAFLA_TRY(lex_.Expect('(', "after device_ids="));
    do {
      KRAFLA_ASSIGN(int64_t device, lex_.Int("a device"));
      mesh.devices.push_back(device);
    } while (lex_.Accept(','));
    KRAFLA_TRY(lex_.Expect(')', "to close device_ids"));
  }
  KRAFLA_TRY(lex_.Expect('{', "before the axes of replica groups"));
  std::vector<MeshAxisPart> parts;
  if (!lex_.Is('}')) do {
      const std::size_t offset = lex_.token().begin;
      KRAFLA_ASSIGN(std::string_view name, ParseAxisName());
      auto found = std::find(names.begin(), names.end(), name);
      if (found == names.end()) return lex_.Error(offset, Format("The mesh has no axis '{}'.", name.substr(0, 60)));
      MeshAxisPart part;
      part.axis = found - names.begin();
      if (lex_.Accept(':')) {
        KRAFLA_TRY(lex_.Expect('(', "before the steps above a part of an axis"));
        KRAFLA_ASSIGN(part.above, lex_.Int("the steps above a part of an axis"));
        KRAFLA_TRY(lex_.Expect(')', "after the steps above a part of an axis"));
        KRAFLA_ASSIGN(part.size, lex_.Int("the size of a part of an axis"));
        if (part.size < 1) return lex_.Error(offset, "The size of a part of an axis must be positive.");
      }
      if (parts.size() >= 32) return lex_.Error(offset, "Replica groups name more than 32 parts of axes.");
      parts.push_back(part);
    } while (lex_.Accept(','));
  KRAFLA_TRY(lex_.Expect('}', "after the axes of replica groups"));
  return Expanded(MeshGroups(mesh, parts, iota_budget_), begin);
}

}  // namespace krafla::hlo_text
