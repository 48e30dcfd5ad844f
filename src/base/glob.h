// SPDX-License-Identifier: Apache-2.0
// Patterns of shells over names.
#pragma once

#include <string_view>

namespace krafla {

// Whether all of `text` fits: * stands for any letters, ? for one, [a-z] for one of these, [!a-z] for one of the
// others, a backslash for the letter behind it. In time that is the product of both lengths, at most.
bool MatchesGlob(std::string_view pattern, std::string_view text);

}  // namespace krafla
