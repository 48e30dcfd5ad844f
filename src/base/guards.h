// SPDX-License-Identifier: Apache-2.0
// Arrays between pages that nobody may touch. What reads or writes past an array mostly meets memory that is there, and
// nothing is seen; whether it ends the process is luck. With guards it always does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "krafla/status.h"

namespace krafla {

enum class Guards {
  kNone,
  kBefore,  // an array begins at the first byte behind such a page
  kBehind,  // it ends at the last one before such a page, but for what its alignment takes
};

// KRAFLA_GUARD. A word that means nothing is INVALID_ARGUMENT, as what was to be guarded would not be.
Result<Guards> GuardsAskedFor();
// The same, as it was when it was first asked for; kNone for a word that means nothing.
Guards GuardsInUse();

// What lies between two arrays of one block at the least: a multiple of every system's pages.
inline constexpr int64_t kGuardBytes = int64_t{64} << 10;

// The place of an array of `size` bytes within whole pages of kGuardBytes, `alignment` being what it begins at a
// multiple of.
int64_t PlaceBetweenGuards(int64_t size, int64_t alignment, Guards guards);
// The bytes of the pages that an array of so many bytes takes, with the guard behind them.
int64_t BytesBetweenGuards(int64_t size);

struct GuardedRange {
  int64_t offset = 0, size = 0;
};
// Takes away all whole pages of the block, which is of TakeGuardedBlock and whose size is a multiple of kGuardBytes,
// that hold nothing of `arrays`.
void GuardBetween(std::byte* block, int64_t size, std::span<const GuardedRange> arrays);

// A block with guards at both ends, filled with bytes that make large or senseless numbers; null where there is no
// memory. The same size and alignment give it back.
std::byte* TakeGuardedBlock(std::size_t size, std::size_t alignment);
void ReturnGuardedBlock(std::byte* data, std::size_t size) noexcept;

}  // namespace krafla
