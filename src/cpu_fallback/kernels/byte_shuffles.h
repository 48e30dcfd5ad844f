// SPDX-License-Identifier: Apache-2.0
// Bytes in another order, the same for many blocks: 16 bytes of what is written come out of a few vectors of what is
// read, each by a permutation that a table has. What moves in words has vectors of 32 or 64 bytes where the processor
// permutes those.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace krafla::cpu {

inline constexpr int64_t kShuffledBytes = 16;

struct ByteShuffles {
  int64_t windows = 1;           // vectors that each 16 bytes come from
  std::vector<int32_t> to;       // where each vector goes
  std::vector<int32_t> from;     // where each window begins, `windows` of them for each of `to`
  std::vector<uint8_t> shuffle;  // 16 for each window: the byte of it; 0x80: of another window
  std::vector<uint32_t> words;   // or ShuffledWords() for each: the word of it; kNoWord: of another window
};
inline constexpr uint32_t kNoWord = uint32_t{1} << 31;

// The words of a vector that are permuted at once; 0: bytes are as fast.
int64_t ShuffledWords();

// One block.
void RunByteShuffles(const ByteShuffles& table, const std::byte* from, std::byte* to);

}  // namespace krafla::cpu
