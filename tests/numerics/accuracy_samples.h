// SPDX-License-Identifier: Apache-2.0
// Operands where all cannot be tried: the same for a block number on every machine. Pairs are of many kinds: any bits,
// moderate numbers, whole numbers, near each other, powers over the whole range of results and near 1.
#pragma once

#include <cstdint>

namespace krafla::accuracy {

void MakePairs(uint64_t block, float* x, float* y, int64_t n);
void MakeDoubles(uint64_t block, double* x, int64_t n);
void MakeDoublePairs(uint64_t block, double* x, double* y, int64_t n);

}  // namespace krafla::accuracy
