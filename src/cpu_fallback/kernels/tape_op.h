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

// Goes on with `next`: without coming back to the loop that runs a tape, where compilers make a jump of such a call.
// (GCC does from -O2 on; a long tape needs no stack, which a test shows.)
inline const TapeOp* GoTo(const TapeOp* next, TapeRun& run) {
#ifdef KRAFLA_TAIL_CALLS
  return next->run(next, run);
#else
  (void)run;
  return next;
#endif
}

// The op on single values: the bits of FindBlockFn's function on a block of one. Null: there is none, that one will do.
TapeOp::Fn FindScalarOp(const BlockKey& key);
// The same on arrays of a few elements (n), where operands of key.uniform are single values.
TapeOp::Fn FindSmallOp(const BlockKey& key);
inline constexpr int64_t kSmallBytes = 64;  // that each array has at most

}  // namespace krafla::cpu
