// SPDX-License-Identifier: Apache-2.0
#include "byte_pairs.h"

#include <algorithm>
#include <queue>
#include <tuple>

namespace llm {
namespace {

using krafla::Result;

constexpr std::string_view kSpaceMark = "\u2581";

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

// Whether a decoder takes a space from the beginning of a text.
bool HidesFirstSpace(const json& decoder) {
  const auto type = GetOr<std::string>(decoder, "type", "");
  if (type == "Metaspace") return GetOr<std::string>(decoder, "prepend_scheme", "always") != "never";
  if (type == "Strip") return GetOr<std::string>(decoder, "content", "") == " " && GetOr(decoder, "start", 0) > 0;
  return std::ranges::any_of(GetOr(decoder, "decoders", json::array()), HidesFirstSpace);
}

std::string ByteToken(unsigned char byte) { return krafla::Format("<0x{:02X}>", static_cast<unsigned>(byte)); }

}  // namespace

std::string PieceBytes(std::string_view piece, bool is_byte) {
  if (is_byte && piece.size() == 6)
    return std::string(1, static_cast<char>(std::stoi(std::string(piece.substr(3, 2)), nullptr, 16)));
  return Replaced(piece, kSpaceMark, " ");
}

Result<std::unique_ptr<Tokens>> BytePairs::Load(const std::string& path, std::vector<int32_t> prefix) {
  KRAFLA_ASSIGN(const json file, ReadJson(path));
  auto out = std::make_unique<BytePairs>();
  out->prefix_ = std::move(prefix);
  const auto with_path = [&](Result<> done) -> Result<> {
    if (done) return {};
    return krafla::Failure(std::move(done).error().WithContext("in " + path));
  };
  KRAFLA_ASSIGN(const auto model, Get<json>(file, "model"));
  KRAFLA_TRY(with_path(out->ReadVocabulary(model)));
  KRAFLA_TRY(with_path(out->ReadAdded(GetOr(file, "added_tokens", json::array()))));
  auto steps = TextSteps::Read(GetOr(file, "normalizer", json()), GetOr(file, "pre_tokenizer", json()));
  if (!steps) return krafla::Failure(std::move(steps).error().WithContext("in " + path));
  out->steps_ = *std::move(steps);
  out->hides_first_space_ = HidesFirstSpace(GetOr(file, "decoder", json()));
  out->has_byte_letters_ = out->steps_.has_byte_letters();
  return out;
}

Result<> BytePairs::ReadVocabulary(const json& model) {
  if (const auto type = GetOr<std::string>(model, "type", "BPE"); type != "BPE")
    return krafla::Unimplemented("The vocabulary is of the kind '{}'; BPE is supported.", type);
  using Vocabulary = std::unordered_map<std::string, int32_t>;
  KRAFLA_ASSIGN(vocabulary_, Get<Vocabulary>(model, "vocab"));
  const auto limit = static_cast<int32_t>(2 * vocabulary_.size() + 65536);
  for (const auto& [name, token] : vocabulary_) {
    if (token < 0 || token > limit) return krafla::InvalidArgument("The token '{}' has the number {}.", name, token);
    if (static_cast<std::size_t>(token) >= names_.size()) names_.resize(static_cast<std::size_t>(token) + 1);
    names_[static_cast<std::size_t>(token)] = name;
  }
  has_byte_tokens_ = GetOr(model, "byte_fallback", false);
  takes_whole_words_ = GetOr(model, "ignore_merges", false);
  if (const auto unknown = vocabulary_.find(GetOr<std::string>(model, "unk_token", "")); unknown != vocabulary_.end())
    unknown_ = unknown->second;
  KRAFLA_ASSIGN(const auto merges, Get<json>(model, "merges"));
  int32_t rank = 0;
  for (const json& merge : merges) {
    std::string left, right;
    if (merge.is_string()) {  // "a b"
      const auto text = merge.get<std::string>();
      const std::size_t space = text.find(' ');
      left = text.substr(0, space);
      right = space == std::string::npos ? "" : text.substr(space + 1);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      left = merge[0].get<std::string>();
      right = merge[1].get<std::string>();
    }
    const auto a = vocabulary_.find(left), b = vocabulary_.find(right), made = vocabulary_.find(left + right);
    if (a == vocabulary_.end() || b == vocabulary_.end() || made == vocabulary_.end())
      return krafla::InvalidArgument("The merge {} of '{}' and '{}' makes no token.", rank, left, right);
    merges_.try_emplace(PairKey(a->second, b->second), Merge{rank++, made->second});
  }
  return {};
}

Result<> BytePairs::ReadAdded(const json& tokens) {
  is_special_.resize(names_.size());
  is_added_.resize(names_.size());
  for (const json& token : tokens) {
    KRAFLA_ASSIGN(const auto id, Get<int32_t>(token, "id"));
    KRAFLA_ASSIGN(const auto content, Get<std::string>(token, "content"));
    const auto limit = static_cast<int32_t>(2 * vocabulary_.size() + 65536);
    if (id < 0 || id > limit || content.empty())
      return krafla::InvalidArgument("The added token '{}' has the number {}.", content, id);
    const auto at = static_cast<std::size_t>(id);
    if (at >= names_.size()) {
      names_.resize(at + 1);
      is_special_.resize(at + 1);
      is_added_.resize(at + 1);
    }
    names_[at] = content;
    is_special_[at] = GetOr(token, "special", false);
    is_added_[at] = true;
    named_[content] = id;
  }
  return {};
}

std::string BytePairs::BytesOf(int32_t token) const {
  const auto at = static_cast<std::size_t>(token);
  if (token < 0 || at >= names_.size() || is_special_[at]) return "";
  if (is_added_[at]) return names_[at];
  if (has_byte_letters_) return FromByteLetters(names_[at]);
  const bool is_byte = has_byte_tokens_ && names_[at].size() == 6 && names_[at].starts_with("<0x");
  return PieceBytes(names_[at], is_byte);
}

Result<std::vector<int32_t>> BytePairs::Letters(std::string_view word) const {
  std::vector<int32_t> out;
  bool was_unknown = false;
  for (std::size_t i = 0; i < word.size();) {
    const std::size_t size = Utf8Size(word.substr(i));
    const std::string letter(word.substr(i, size));
    i += size;
    if (const auto known = vocabulary_.find(letter); known != vocabulary_.end()) {
      out.push_back(known->second);
      was_unknown = false;
      continue;
    }
    std::vector<int32_t> bytes;
    if (has_byte_tokens_)
      for (const char byte : letter)
        if (const auto known = vocabulary_.find(ByteToken(static_cast<unsigned char>(byte)));
            known != vocabulary_.end())
          bytes.push_back(known->second);
    if (bytes.size() == letter.size()) {
      out.insert(out.end(), bytes.begin(), bytes.end());
    } else if (unknown_ >= 0) {  // one for all that follow one another
      if (!was_unknown) out.push_back(unknown_);
      was_unknown = true;
    }
  }
  return out;
}

std::vector<int32_t> BytePairs::Merged(std::vector<int32_t> tokens) const {
  // A list whose links are numbers; the queue may name pairs that are gone, which their tokens show.
  const auto count = static_cast<int32_t>(tokens.size());
  std::vector<int32_t> next(tokens.size()), before(tokens.size());
  for (int32_t i = 0; i < count; ++i) {
    next[static_cast<std::size_t>(i)] = i + 1 < count ? i + 1 : -1;
    before[static_cast<std::size_t>(i)] = i - 1;
  }
  struct Candidate {
    int32_t rank, at, left, right, made;
    bool operator>(const Candidate& o) const { return std::tie(rank, at) > std::tie(o.rank, o.at); }
  };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto offer = [&](int32_t at) {
    if (at < 0 || next[static_cast<std::size_t>(at)] < 0) return;
    const int32_t left = tokens[static_cast<std::size_t>(at)];
    const int32_t right = tokens[static_cast<std::size_t>(next[static_cast<std::size_t>(at)])];
    if (const auto found = merges_.find(PairKey(left, right)); found != merges_.end())
      queue.push({found->second.rank, at, left, right, found->second.made});
  };
  for (int32_t i = 0; i < count; ++i) offer(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    const auto at = static_cast<std::size_t>(best.at);
    const int32_t second = next[at];
    if (tokens[at] != best.left || second < 0 || tokens[static_cast<std::size_t>(second)] != best.right) continue;
    tokens[at] = best.made;
    tokens[static_cast<std::size_t>(second)] = -1;
    next[at] = next[static_cast<std::size_t>(second)];
    if (next[at] >= 0) before[static_cast<std::size_t>(next[at])] = best.at;
    offer(before[at]);
    offer(best.at);
  }
  std::erase(tokens, -1);
  return tokens;
}

Result<> BytePairs::AddWord(std::string_view word, std::vector<int32_t>& out) const {
  if (takes_whole_words_) {
    if (const auto whole = vocabulary_.find(std::string(word)); whole != vocabulary_.end()) {
      out.push_back(whole->second);
      return {};
    }
  }
  KRAFLA_ASSIGN(std::vector<int32_t> letters, Letters(word));
  letters = Merged(std::move(letters));
  out.insert(out.end(), letters.begin(), letters.end());
  return {};
}

Result<std::vector<int32_t>> BytePairs::EncodePlain(std::string_view text, bool is_first) const {
  KRAFLA_ASSIGN(const std::vector<std::string> words, steps_.Cut(text, is_first));
  std::vector<int32_t> out;
  for (const std::string& word : words) KRAFLA_TRY(AddWord(word, out));
  return out;
}

}  // namespace llm
