// SPDX-License-Identifier: Apache-2.0
// Keys of 32 bits for sorting: unsigned integers in the order that the values have.
#pragma once

#include <cstdint>

namespace krafla::cpu {

struct KeyOrder {
  bool is_float = false, is_signed = false;
  bool equal_zeros = false;  // of floats: -0 is +0
  bool descending = false;
};

// `keys` may be `bits`.
void MakeKeys(const uint32_t* bits, int64_t n, const KeyOrder& order, uint32_t* keys);

// Appends the keys below `limit` to `to`, each above its position, which counts from `first`; returns how many. One
// element behind those may be overwritten.
int64_t AppendBelow(const uint32_t* keys, int64_t n, uint32_t limit, int64_t first, uint64_t* to);

}  // namespace krafla::cpu
