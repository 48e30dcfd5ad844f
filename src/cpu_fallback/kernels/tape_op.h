// SPDX-License-Identifier: Apache-2.0
// One instruction of a tape (executor/tape.h): a function and the addresses that it works on.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu_fallback/kernels/block_ops.h"

namespace krafla::cpu {

struct TapeRun;

struct TapeOp {
  // Does the work and says what comes next; null at the end.
  using Fn = const TapeOp* (*)(const TapeOp* op, TapeRun& run);
  Fn run = nullptr;
  std::byte* out = nullptr;
  const std::byte* in[3] = {nullptr, nullptr, nullptr};
  int64_t n = 0;
  uint64_t bits = 0;
  union What {
    const void* object = nullptr;
    BlockFn block;
    ConvertFn convert;
  } what = {};
};

// The op on single values: the bits of FindBlockFn's function on a block of one. Null: there is none, that one will do.
TapeOp::Fn FindScalarOp(const BlockKey& key);

}  // namespace krafla::cpu
