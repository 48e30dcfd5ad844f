// SPDX-License-Identifier: Apache-2.0
// 64-bit integers on devices that have none: a value of kind u64 is a struct of two u32 values (low, high) of its
// width. Builder calls these functions where the device lacks shaderInt64.
#pragma once

#include <span>

#include "spirv_codegen/builder.h"

namespace krafla::spirv {

inline bool WordPairs(const Module& m, Kind kind) { return kind == Kind::kU64 && !m.profile().features.int64; }

struct WordPair {
  Value low, high;  // u32
};
WordPair SplitPair(Builder& b, Value v);
Value JoinPair(Builder& b, Value low, Value high);

// `kind` is that of the result: u64 or bool.
Value BinaryOfPairs(Builder& b, spv::Op op, Value x, Value y, Kind kind);
// Conversions from and to u64, and bitwise not.
Value UnaryOfPairs(Builder& b, spv::Op op, Value x, Kind kind);
Value BitcastPairs(Builder& b, Value x, Kind kind, int width);

}  // namespace krafla::spirv
