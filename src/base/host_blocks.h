// SPDX-License-Identifier: Apache-2.0
// The blocks that AlignedBytes is made of. The system gives a fresh block page by page, each one an interruption and 4
// KiB of zeros: a result of some megabytes costs more to have than most programs take to compute it. Whether the C
// library keeps what is freed depends on what was freed before. So blocks of kKeptBytesFrom and more are kept for the
// next of their size.
#pragma once

#include <cstddef>
#include <cstdint>

#include "krafla/aligned_bytes.h"

namespace krafla {

inline constexpr std::size_t kKeptBytesFrom = std::size_t{64} << 10;
// All that is kept; the longest unused goes first. Counted blocks (kCountedHostBytes) are never kept.
uint64_t MostKeptBytes();

// Returns what is kept to the system.
void DropKeptBlocks() noexcept;

struct HostBlockCounts {
  uint64_t reused = 0;      // blocks that were kept before, since the process started
  uint64_t kept_bytes = 0;  // now
};
HostBlockCounts CountHostBlocks();

}  // namespace krafla
