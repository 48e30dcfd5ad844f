// SPDX-License-Identifier: Apache-2.0
// Arrays of which a dimension has a size that depends on the data, as NonMaxSuppression makes them: which operators
// take them, and what is known of integers that are made of such sizes.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "onnx/call.h"

namespace krafla::onnx {

// What an operator takes.
enum class OperandSizes : uint8_t {
  kKnown,   // arrays without run-time sizes
  kTaken,   // any: XlaBuilder gives its results such dimensions, and it asks for no size
  kImages,  // what it makes along the first dimension depends on its first operand there alone, so it makes as many as
            // there can be, of which there are as many as of these
  kRows,    // the same, where its axes, and the shapes of its other operands, leave the first dimension alone
};
// Whether a node gets all rows or images that there can be in place of its first operand, whose number is known at run
// time.
bool CountsRows(const Node& node, int64_t opset, OperandSizes takes, const std::vector<const Value*>& inputs);
// Throws where an operator is not right for what it is given.
void RefuseRunTimeSizes(const Node& node, int64_t opset, OperandSizes takes, const std::vector<const Value*>& inputs);

// The node's results of other inputs, all of them known; nothing where it asks for more work than is done at once.
using FoldedNode = std::function<std::optional<std::vector<Value>>(const std::vector<const Value*>&)>;
// Gives the first result of a node, which is not known, the least and the most that it can be where it is made of
// run-time sizes, and its value where these are one. Sizes are no less than 0.
void BoundResult(const Node& node, const std::vector<const Value*>& inputs, const FoldedNode& fold, Value& result);

}  // namespace krafla::onnx
