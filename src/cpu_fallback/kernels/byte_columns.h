// SPDX-License-Identifier: Apache-2.0
// Products of rows of signed bytes, which follow each other along the depth, with a vector of bf16. A weight is a byte
// times the scale of its column, or of a group of the column's places, rounded to bf16.
#pragma once

#include "cpu_fallback/kernels/weight_rows.h"
#include "krafla/element_type.h"

namespace krafla::cpu {

// Rows that are read together: there is a multiple of them, in each group too. Rows of a turn at the most, for the
// next lines of as many are fetched at once.
inline constexpr int64_t kByteRows = 2, kByteTurn = 16;

// Without a table and zero points; the vector as it is. For scales of a type: f32, f16 or bf16. Null where there is
// none, or the processor has no products of bf16.
using ByteColumnsFn = void (*)(const WeightRows& product);
ByteColumnsFn FindByteColumns(ElementType scales);

}  // namespace krafla::cpu
