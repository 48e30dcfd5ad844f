// SPDX-License-Identifier: Apache-2.0
// Parts of arrays that begin where the data says, as x[:, i] of a loop's turn i: how large such a part can be is known
// where its end is made of its beginning.
#pragma once

#include <vector>

#include "onnx/call.h"

namespace krafla::onnx {

// Says of the first result of a node, where it is a single number that is not known, what it is made of.
void RelateResult(const Node& node, const std::vector<const Value*>& inputs, Value& result);
// The most that `end` can be above `begin`, both single numbers; nothing where they have nothing to do with each other.
std::optional<int64_t> MostBetween(const Value& begin, const Value& end);

// Slice with one axis and a step of 1, from or to a place that is not known while importing.
XlaOp MovingPart(Call& c);
// Range of integers with a step of 1 between such places. `most`: MostBetween of them.
XlaOp MovingRange(Call& c, int64_t most);

}  // namespace krafla::onnx
