// SPDX-License-Identifier: Apache-2.0
// Shardings of Shardy, MLIR's dialect sdy (github.com/openxla/shardy; Shardy's
// docs/sharding_representation.md): dimensions are cut along named axes of a mesh. Their text is
// the same in StableHLO and in the frontend attributes that XLA gives to HLO
// (xla/service/spmd/shardy/constants.h): "#sdy.sharding<@mesh, [{\"x\"}, {\"y\":(2)4, ?}],
// replicated={\"z\"}>".
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/sharding.h"

namespace krafla {

struct SdyMesh {
  std::vector<std::pair<std::string, int64_t>> axes;
  std::vector<int64_t> devices;  // by position in the mesh; empty: in order
  friend bool operator==(const SdyMesh&, const SdyMesh&) = default;
};
using SdyMeshes = std::map<std::string, SdyMesh, std::less<>>;

// An axis, or a part of one: of `size` after parts of `pre_size` in all. 0: all of it.
struct SdyAxis {
  std::string name;
  int64_t pre_size = 0, size = 0;
};

struct SdySharding {
  SdyMesh mesh;
  std::vector<std::vector<SdyAxis>> dims;
  std::vector<SdyAxis> unreduced;
  std::vector<bool> open_dims;  // one per dimension: whether it may be sharded further
};

// "#sdy.mesh<[\"a\"=2, \"b\"=4], device_ids=[...]>", or what follows "mesh".
Result<SdyMesh> ParseSdyMesh(std::string_view text);
// Every "name = #sdy.mesh<...>" in a text such as "{mesh = #sdy.mesh<[\"x\"=8]>, ...}".
Result<SdyMeshes> ParseSdyMeshes(std::string_view text);
// "#sdy.sharding<@mesh, [...]>", "<@mesh, [...]>".
Result<SdySharding> ParseSdySharding(std::string_view text, const SdyMeshes& meshes);
// "#sdy.sharding_per_value<[<@mesh, [...]>, ...]>", "[<@mesh, [...]>, ...]".
Result<std::vector<SdySharding>> ParseSdyShardings(std::string_view text, const SdyMeshes& meshes);
// "#sdy<manual_axes{\"x\", \"y\"}>", "{\"x\"}".
Result<std::vector<std::string>> ParseSdyManualAxes(std::string_view text);

// Over `devices` devices; along the axes named in `only` where that is given.
Result<Sharding> ShardingOf(const SdySharding& sdy, int64_t devices, const std::vector<std::string>* only = nullptr);
// The position of each device along an axis.
Result<Split> SplitAlong(const SdyMesh& mesh, const SdyAxis& axis, int64_t devices);

}  // namespace krafla
