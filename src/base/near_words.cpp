// SPDX-License-Identifier: Apache-2.0
#include "base/near_words.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace krafla {

std::size_t WordDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::vector<std::string> NearWords(std::string_view word, std::span<const std::string> words, std::size_t count) {
  std::vector<std::pair<std::size_t, const std::string*>> near;
  for (const std::string& known : words) {
    const std::size_t distance = WordDistance(word, known);
    const bool is_part = word.size() > 2 && known.contains(word);
    if (is_part || distance <= (word.size() + 1) / 2) near.emplace_back(is_part ? 0 : distance, &known);
  }
  std::ranges::stable_sort(near, {}, &std::pair<std::size_t, const std::string*>::first);
  std::vector<std::string> out;
  for (std::size_t n = 0; n < near.size() && n < count; ++n) out.push_back(*near[n].second);
  return out;
}

}  // namespace krafla
