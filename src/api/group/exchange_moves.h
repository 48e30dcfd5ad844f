// SPDX-License-Identifier: Apache-2.0
// Collectives that compute nothing, as copies of contiguous bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ir/module.h"

namespace krafla {

// Arrays are numbered as the arguments and results of ExchangeModule (exchange_modules.h).
struct ExchangeMove {
  std::size_t from = 0, to = 0;            // an operand, a result
  int64_t from_offset = 0, to_offset = 0;  // bytes
  int64_t bytes = 0;
};

// None where the collective computes, somebody gets zeros, an array is empty, or the bytes lie in more than a few
// pieces a member, which a kernel gathers faster.
std::optional<std::vector<ExchangeMove>> MovesOf(const Instruction& instruction, int64_t members,
                                                 std::span<const int64_t> ranks, std::span<const int64_t> sources);

}  // namespace krafla
