// SPDX-License-Identifier: Apache-2.0
// The custom calls that the evaluator knows without a hook.
#pragma once

#include <span>
#include <string_view>

namespace krafla {

// Names that end in '*' stand for all that begin so.
std::span<const std::string_view> BuiltInCustomCalls();
bool IsBuiltInCustomCall(std::string_view target);

}  // namespace krafla
