// SPDX-License-Identifier: Apache-2.0
// Rows of weights that follow each other along the depth, and the vector of bf16 that they are multiplied with.
#pragma once

#include <cstddef>
#include <cstdint>

namespace krafla::cpu {

// sums[j] += sum over the places of the depth of vector[k] * weight[k, j].
struct WeightRows {
  const int32_t* table = nullptr;  // of codes of four bits: sixteen numbers of bytes
  const std::byte* codes = nullptr;
  int64_t stride = 0;  // bytes
  // Rows of memory. Where two columns are a byte, there are even columns.
  int64_t rows = 0, columns = 0;
  // Places of the depth, whole rows. The first row begins a group, or all rows are of one.
  int64_t group = 0;
  // The codes that are read after these, so many rows: they are fetched meanwhile.
  const std::byte* next = nullptr;
  int64_t next_rows = 0;
  const std::byte* scales = nullptr;
  int64_t scales_stride = 0;       // elements, from group to group
  const int32_t* zeros = nullptr;  // or none
  int64_t zeros_stride = 0;
  const uint16_t* vector = nullptr;  // bf16
  float* sums = nullptr;
};

}  // namespace krafla::cpu
