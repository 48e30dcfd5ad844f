// SPDX-License-Identifier: Apache-2.0
#include "text_steps.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <utility>

namespace llm {
namespace {

using krafla::Result;
using Words = std::vector<std::string>;

// How GPT-2 cuts a text: contractions, words with the space before them, numbers, signs, spaces.
constexpr const char* kGpt2Words = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::string Utf8Of(uint32_t code) {  // below 0x800
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

// Printable bytes of Latin-1 are themselves; the others are the letters from U+0100 on.
const std::array<std::string, 256>& ByteLetters() {
  static const std::array<std::string, 256> letters = [] {
    std::array<std::string, 256> out;
    uint32_t next = 0x100;
    for (uint32_t b = 0; b < 256; ++b) {
      const bool is_itself = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      out[b] = Utf8Of(is_itself ? b : next++);
    }
    return out;
  }();
  return letters;
}

class Pattern {
 public:
  static Result<std::shared_ptr<const Pattern>> Compile(const std::string& text) {
    int error = 0;
    PCRE2_SIZE at = 0;
    pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), PCRE2_UTF | PCRE2_UCP,
                                     &error, &at, nullptr);
    if (code == nullptr) return krafla::Unimplemented("The regular expression '{}' is not understood at {}.", text, at);
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // where it cannot, it is slower
    return std::shared_ptr<const Pattern>(new Pattern(code));
  }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  ~Pattern() { pcre2_code_free(code_); }

  // Where the matches of a text are: from, to.
  Result<std::vector<std::pair<std::size_t, std::size_t>>> Find(const std::string& text) const {
    std::vector<std::pair<std::size_t, std::size_t>> out;
    const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> data(
        pcre2_match_data_create_from_pattern(code_, nullptr), pcre2_match_data_free);
    for (std::size_t at = 0; at < text.size();) {
      const int found =
          pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at, 0, data.get(), nullptr);
      if (found == PCRE2_ERROR_NOMATCH) break;
      if (found < 0)
        return krafla::InvalidArgument("The text is no UTF-8, or too much for its pattern (PCRE2: {}).", found);
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data.get());
      if (range[1] > range[0]) out.emplace_back(range[0], range[1]);
      at = range[1] > range[0] ? range[1] : range[1] + Utf8Size(std::string_view(text).substr(range[1]));
    }
    return out;
  }

 private:
  explicit Pattern(pcre2_code* code) : code_(code) {}
  pcre2_code* code_;
};

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view(R"(\^$.|?*+()[]{}-)").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

// What becomes of matches, as the package tokenizers has it.
enum class Behavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext };

Words SplitAt(const std::string& text, std::vector<std::pair<std::size_t, std::size_t>> matches, Behavior behavior,
              bool is_inverted) {
  // All parts in order, matches and what lies between.
  std::vector<std::pair<std::string, bool>> parts;
  std::size_t at = 0;
  matches.emplace_back(text.size(), text.size());
  for (const auto& [begin, end] : matches) {
    if (begin > at) parts.emplace_back(text.substr(at, begin - at), is_inverted);
    if (end > begin) parts.emplace_back(text.substr(begin, end - begin), !is_inverted);
    at = end;
  }
  Words out;
  bool joins_next = false, was_match = false;
  for (auto& [part, is_match] : parts) {
    const bool joins =
        (behavior == Behavior::kMergedWithPrevious && is_match && !was_match && !out.empty()) || joins_next;
    if (is_match && behavior == Behavior::kRemoved) {
      joins_next = false;
    } else if (joins) {
      out.back() += part;
    } else {
      out.push_back(std::move(part));
    }
    joins_next = behavior == Behavior::kMergedWithNext && is_match && !out.empty();
    was_match = is_match;
  }
  return out;
}

}  // namespace

std::string ToByteLetters(std::string_view bytes) {
  std::string out;
  for (const char b : bytes) out += ByteLetters()[static_cast<unsigned char>(b)];
  return out;
}

std::string FromByteLetters(std::string_view letters) {
  static const std::map<std::string, char, std::less<>> bytes = [] {
    std::map<std::string, char, std::less<>> out;
    for (std::size_t b = 0; b < 256; ++b) out[ByteLetters()[b]] = static_cast<char>(b);
    return out;
  }();
  std::string out;
  while (!letters.empty()) {
    const std::string_view letter = letters.substr(0, Utf8Size(letters));
    if (const auto found = bytes.find(letter); found != bytes.end()) out += found->second;
    else out += letter;
    letters.remove_prefix(letter.size());
  }
  return out;
}

std::size_t Utf8Size(std::string_view text) {
  if (text.empty()) return 1;
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
  return size <= text.size() ? size : 1;
}

std::string Replaced(std::string_view text, std::string_view what, std::string_view by) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (!what.empty() && text.substr(at).starts_with(what)) {
      out += by;
      at += what.size();
    } else {
      out += text[at++];
    }
  }
  return out;
}

Result<TextSteps> TextSteps::Read(const json& normalizer, const json& pre_tokenizer) {
  TextSteps out;
  if (!normalizer.is_null()) KRAFLA_TRY(out.AddNormalizer(normalizer));
  if (!pre_tokenizer.is_null()) KRAFLA_TRY(out.AddSplit(pre_tokenizer));
  return out;
}

Result<> TextSteps::AddNormalizer(const json& step) {
  KRAFLA_ASSIGN(const auto type, Get<std::string>(step, "type"));
  if (type == "Sequence") {
    KRAFLA_ASSIGN(const auto steps, Get<std::vector<json>>(step, "normalizers"));
    for (const json& one : steps) KRAFLA_TRY(AddNormalizer(one));
    return {};
  }
  if (type == "NFC") return {};
  if (type == "Prepend") {
    KRAFLA_ASSIGN(const auto before, Get<std::string>(step, "prepend"));
    normalizers_.emplace_back([before](std::string text, bool) { return before + text; });
    return {};
  }
  if (type == "Replace") {
    KRAFLA_ASSIGN(const auto pattern, Get<json>(step, "pattern"));
    KRAFLA_ASSIGN(const auto what, Get<std::string>(pattern, "String"));
    KRAFLA_ASSIGN(const auto by, Get<std::string>(step, "content"));
    normalizers_.emplace_back([what, by](std::string text, bool) { return Replaced(text, what, by); });
    return {};
  }
  return krafla::Unimplemented("The tokenizer normalises texts by '{}'; NFC, Prepend and Replace are supported.", type);
}

Result<> TextSteps::AddPattern(const json& pattern, const std::string& behavior, bool is_inverted) {
  static const std::map<std::string, Behavior> behaviors = {{"Isolated", Behavior::kIsolated},
                                                            {"Removed", Behavior::kRemoved},
                                                            {"MergedWithPrevious", Behavior::kMergedWithPrevious},
                                                            {"MergedWithNext", Behavior::kMergedWithNext}};
  const auto found = behaviors.find(behavior);
  if (found == behaviors.end()) return krafla::Unimplemented("The tokenizer splits texts by '{}'.", behavior);
  std::string text = GetOr<std::string>(pattern, "Regex", "");
  if (text.empty()) {
    KRAFLA_ASSIGN(const auto plain, Get<std::string>(pattern, "String"));
    text = Escaped(plain);
  }
  KRAFLA_ASSIGN(const std::shared_ptr<const Pattern> compiled, Pattern::Compile(text));
  splits_.emplace_back([compiled, how = found->second, is_inverted](const std::string& word, bool) -> Result<Words> {
    KRAFLA_ASSIGN(auto matches, compiled->Find(word));
    return SplitAt(word, std::move(matches), how, is_inverted);
  });
  return {};
}

Result<> TextSteps::AddByteLevel(const json& step) {
  if (GetOr(step, "add_prefix_space", true))
    splits_.emplace_back([](const std::string& word, bool is_first) -> Result<Words> {
      return Words{is_first && !word.starts_with(' ') ? " " + word : word};
    });
  if (GetOr(step, "use_regex", true)) KRAFLA_TRY(AddPattern({{"Regex", kGpt2Words}}, "Isolated", false));
  splits_.emplace_back([](const std::string& word, bool) -> Result<Words> { return Words{ToByteLetters(word)}; });
  has_byte_letters_ = true;
  return {};
}

Result<> TextSteps::AddMetaspace(const json& step) {
  const auto mark = GetOr<std::string>(step, "replacement", "\u2581");
  const bool had_prefix = GetOr(step, "add_prefix_space", true);
  const auto scheme = GetOr<std::string>(step, "prepend_scheme", had_prefix ? "always" : "never");
  splits_.emplace_back([mark, scheme](const std::string& word, bool is_first) -> Result<Words> {
    std::string out = Replaced(word, " ", mark);
    if (!out.starts_with(mark) && (scheme == "always" || (scheme == "first" && is_first))) out = mark + out;
    return Words{out};
  });
  if (GetOr(step, "split", true)) KRAFLA_TRY(AddPattern({{"String", mark}}, "MergedWithNext", false));
  return {};
}

Result<> TextSteps::AddSplit(const json& step) {
  KRAFLA_ASSIGN(const auto type, Get<std::string>(step, "type"));
  if (type == "Sequence") {
    KRAFLA_ASSIGN(const auto steps, Get<std::vector<json>>(step, "pretokenizers"));
    for (const json& one : steps) KRAFLA_TRY(AddSplit(one));
    return {};
  }
  if (type == "ByteLevel") return AddByteLevel(step);
  if (type == "Metaspace") return AddMetaspace(step);
  if (type == "Digits")
    return AddPattern({{"Regex", GetOr(step, "individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)"}}, "Isolated",
                      false);
  if (type == "Split") {
    KRAFLA_ASSIGN(const auto pattern, Get<json>(step, "pattern"));
    KRAFLA_ASSIGN(const auto behavior, Get<std::string>(step, "behavior"));
    return AddPattern(pattern, behavior, GetOr(step, "invert", false));
  }
  return krafla::Unimplemented(
      "The tokenizer splits texts by '{}'; ByteLevel, Metaspace, Digits and Split are supported.", type);
}

Result<std::vector<std::string>> TextSteps::Cut(std::string_view text, bool is_first) const {
  std::string whole(text);
  for (const Normalize& normalize : normalizers_) whole = normalize(std::move(whole), is_first);
  Words words = {std::move(whole)};
  for (const Split& split : splits_) {
    Words parts;
    for (std::size_t i = 0; i < words.size(); ++i) {
      KRAFLA_ASSIGN(Words made, split(words[i], is_first && i == 0));
      for (std::string& word : made)
        if (!word.empty()) parts.push_back(std::move(word));
    }
    words = std::move(parts);
  }
  return words;
}

}  // namespace llm
