// SPDX-License-Identifier: Apache-2.0
// Which known words somebody may have meant.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace krafla {

// How many letters one word is from another (Levenshtein).
std::size_t WordDistance(std::string_view a, std::string_view b);

// At most `count` of `words`, the nearest to `word` first: at most half of its letters apart, or with it as a part.
std::vector<std::string> NearWords(std::string_view word, std::span<const std::string> words, std::size_t count);

}  // namespace krafla
