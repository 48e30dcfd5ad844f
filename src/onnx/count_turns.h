// SPDX-License-Identifier: Apache-2.0
// Loops whose condition counts: how many turns they make is known while importing, though nobody says it.
#pragma once

#include <optional>
#include <vector>

#include "onnx/call.h"

namespace krafla::onnx {

// Of a Loop's body and initial state, where the condition holds at the beginning; nothing where the data decides, or
// where there are too many turns to go through.
std::optional<int64_t> CountTurns(Call& c, const Graph& body, const std::vector<Value>& state);

}  // namespace krafla::onnx
