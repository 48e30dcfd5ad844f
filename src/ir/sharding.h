// SPDX-License-Identifier: Apache-2.0
// How an array is distributed over the devices of a program: which block of each dimension a device has.
// Shardings of HLO text (xla/hlo/ir/hlo_sharding.h) and of Shardy (sdy_sharding.h) are read into
// this form, which says nothing of how the devices are numbered: any assignment of blocks to
// devices can be told, and two that agree are equal.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "krafla/literal.h"
#include "krafla/status.h"

namespace krafla {

// How one dimension is cut into blocks: block[d] of `count` is that of device d.
struct Split {
  int64_t count = 1;
  std::vector<int32_t> block;  // empty where count is 1

  bool whole() const { return count == 1; }
  int32_t of(int64_t device) const { return whole() ? 0 : block[static_cast<std::size_t>(device)]; }
  friend bool operator==(const Split&, const Split&) = default;
};

// Cut by `major` first, each block then by `minor`.
Split Combine(const Split& major, const Split& minor);

struct Sharding {
  std::vector<Split> dims;       // one per dimension; if there are fewer, the rest are not split
  std::vector<Split> manual;     // the manual axes of a region that these devices are in
  std::vector<Split> unreduced;  // devices that differ in these have parts of a sum
  bool all_manual = false;       // each device by itself
  std::optional<int64_t> only;   // the one device that has the array
  bool unknown = false;          // says nothing: "{unknown}", or {} on a value that may be anywhere

  const Split& dim(int64_t d) const;
  bool IsReplicated() const;
  // Blocks in all.
  int64_t blocks() const;
  // The same without dimensions past the last cut one.
  friend bool operator==(const Sharding& a, const Sharding& b);
};

// "{replicated}", "{maximal device=1}", "{manual}", "{unknown}", "{devices=[2,1,2]<=[4]
// last_tile_dim_replicate}",
// "{devices=[2,2]0,2,1,3}", "{... last_tile_dims={manual, replicated}}"; of a tuple each leaf's.
// `devices`: how many there are. INVALID_ARGUMENT where the text names others, or not all.
Result<std::vector<Sharding>> ParseShardings(std::string_view text, int64_t devices);
// One, where a tuple of one is as good.
Result<Sharding> ParseSharding(std::string_view text, int64_t devices);

// The block of `whole` that a device has; zeros behind the end of a dimension that is not cut
// evenly.
Result<Literal> BlockOf(const Literal& whole, const Sharding& sharding, int64_t device);

// As HLO text, for an array of `rank` dimensions.
std::string ShardingToText(const Sharding& sharding, int64_t rank, int64_t devices);

}  // namespace krafla
