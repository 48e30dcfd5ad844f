// SPDX-License-Identifier: Apache-2.0
#include "base/glob.h"

#include <cstddef>

namespace krafla {
namespace {

constexpr std::size_t kNoPlace = std::string_view::npos;

// Where the pattern goes on behind the bracket that opens at `at`; kNoPlace: it does not close, and is a letter.
std::size_t EndOfSet(std::string_view pattern, std::size_t at) {
  std::size_t end = at + 1;
  if (end < pattern.size() && (pattern[end] == '!' || pattern[end] == '^')) ++end;
  const std::size_t close = pattern.find(']', end + 1);  // one that stands first is a letter
  return close == kNoPlace ? kNoPlace : close + 1;
}

// `set`: what lies between the brackets.
bool IsInSet(std::string_view set, char c) {
  const bool others = set.starts_with('!') || set.starts_with('^');
  if (others) set.remove_prefix(1);
  bool found = false;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (i + 2 < set.size() && set[i + 1] == '-') {
      found = found || (set[i] <= c && c <= set[i + 2]);
      i += 2;
    } else {
      found = found || set[i] == c;
    }
  }
  return found != others;
}

// Whether the letter fits the pattern at `at`, which moves behind what stands there.
bool Fits(std::string_view pattern, std::size_t& at, char c) {
  if (pattern[at] == '?') return ++at, true;
  if (pattern[at] == '[')
    if (const std::size_t end = EndOfSet(pattern, at); end != kNoPlace) {
      const std::string_view set = pattern.substr(at + 1, end - at - 2);
      at = end;
      return IsInSet(set, c);
    }
  if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
  return pattern[at++] == c;
}

}  // namespace

bool MatchesGlob(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0;
  // The last star, and the letter up to which it stands for letters.
  std::size_t star = kNoPlace, upto = 0;
  while (t < text.size()) {
    std::size_t next = p;
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      upto = t;
    } else if (p < pattern.size() && Fits(pattern, next, text[t])) {
      p = next;
      ++t;
    } else if (star != kNoPlace) {
      p = star;
      t = ++upto;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace krafla
