// SPDX-License-Identifier: Apache-2.0
// A connection between each two ranks: a local one where they share a machine, one over the network elsewhere.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "krafla/status.h"
#include "transport/bootstrap.h"

namespace krafla::transport {

// What ranks say of themselves when they come together.
struct RankInfo {
  std::string name;  // "rank 2 on host node1 (process 4711)"
  int64_t process = 0;
  int device_count = 0, slots = 0;
  std::string version, build, host, identity, local_name, devices, token, transport;

  // Whether two connect locally and share memory.
  bool IsNear(const RankInfo& other) const { return !identity.empty() && identity == other.identity; }
};

// By rank; -1 for the own. They are the caller's to close.
Result<std::vector<int>> ConnectRanks(Bootstrap& bootstrap, const std::vector<RankInfo>& ranks,
                                      std::chrono::milliseconds limit);

}  // namespace krafla::transport
