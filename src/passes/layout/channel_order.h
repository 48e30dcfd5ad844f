// SPDX-License-Identifier: Apache-2.0
// Arrays of pictures with their channels in front, [batch, channels.., positions..], and with their channels at the
// end, [batch, positions.., channels..]: which operations work on either, and what each becomes with the channels at
// the end. Groups of channels, as of group normalisation and of shuffles, are two dimensions of channels and more.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/module.h"

namespace krafla {

// How many dimensions of channels arrays have; 0: an array that is read as it is, as of one element.
struct ChannelDims {
  int64_t result = 0;
  std::vector<int64_t> operands;
};

// Dimension i of the array with its channels at the end is dimension result[i] of the one with them in front.
Dims ChannelsToTheEnd(int64_t rank, int64_t channels);

// What the arrays of `op` have if its result has `channels` dimensions of channels, at least one; nothing where the
// operation needs them in front.
std::optional<ChannelDims> FromResult(const Instruction& op, int64_t channels);
// The same if operand `n` has.
std::optional<ChannelDims> FromOperand(const Instruction& op, std::size_t n, int64_t channels);

// `op`, which FromResult took, with the channels at the end, of operands that have them there.
Instruction* WithChannelsAtTheEnd(const Instruction& op, const ChannelDims& channels,
                                  std::vector<Instruction*> operands);

}  // namespace krafla
