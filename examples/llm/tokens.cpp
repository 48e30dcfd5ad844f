// SPDX-License-Identifier: Apache-2.0
#include "tokens.h"

#include <utility>

#include "byte_pairs.h"

#ifdef LLM_HAS_SENTENCEPIECE
#include <sentencepiece_processor.h>
#endif

namespace llm {
namespace {

using krafla::Result;

#ifdef LLM_HAS_SENTENCEPIECE
class SentencePieces final : public Tokens {
 public:
  static Result<std::unique_ptr<Tokens>> Load(const std::string& path,
                                              std::map<std::string, int32_t, std::less<>> special,
                                              std::vector<int32_t> prefix) {
    auto out = std::make_unique<SentencePieces>();
    if (const auto status = out->model_.Load(path); !status.ok())
      return krafla::InvalidArgument("{} is no model of SentencePiece: {}.", path, status.ToString());
    out->named_ = std::move(special);
    out->prefix_ = std::move(prefix);
    out->hides_first_space_ = true;
    return out;
  }
  std::string BytesOf(int32_t token) const override {
    if (token < 0 || token >= model_.GetPieceSize() || model_.IsControl(token)) return "";
    if (model_.IsUnknown(token)) return " \u2047 ";  // what the library writes for it
    return PieceBytes(model_.IdToPiece(token), model_.IsByte(token));
  }

 private:
  Result<std::vector<int32_t>> EncodePlain(std::string_view text, bool) const override {
    std::vector<int> ids;
    if (const auto status = model_.Encode(std::string(text), &ids); !status.ok())
      return krafla::InvalidArgument("The text cannot be cut into tokens: {}.", status.ToString());
    return std::vector<int32_t>(ids.begin(), ids.end());
  }
  sentencepiece::SentencePieceProcessor model_;
};
#endif

// Of the sequence at text[0]: its bytes; 0 where it may go on after the end; -1 where it is none.
int SequenceBytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const int size = lead < 0x80                   ? 1
                   : lead >= 0xC2 && lead < 0xE0 ? 2
                   : lead >= 0xE0 && lead < 0xF0 ? 3
                   : lead >= 0xF0 && lead < 0xF5 ? 4
                                                 : -1;
  for (int i = 1; i < size; ++i) {
    if (static_cast<std::size_t>(i) == text.size()) return 0;
    const auto next = static_cast<unsigned char>(text[static_cast<std::size_t>(i)]);
    if ((next & 0xC0) != 0x80) return -1;
    if (i > 1) continue;
    // Longer than need be, surrogates, and beyond U+10FFFF.
    if ((lead == 0xE0 && next < 0xA0) || (lead == 0xED && next > 0x9F) || (lead == 0xF0 && next < 0x90) ||
        (lead == 0xF4 && next > 0x8F))
      return -1;
  }
  return size;
}

}  // namespace

std::string Utf8Stream::Add(std::string_view bytes) {
  waiting_ += bytes;
  std::string out;
  std::string_view rest = waiting_;
  while (!rest.empty()) {
    const int size = SequenceBytes(rest);
    if (size == 0) break;
    if (size > 0) out += rest.substr(0, static_cast<std::size_t>(size));
    if (size < 0) out += "\uFFFD";
    rest.remove_prefix(size > 0 ? static_cast<std::size_t>(size) : 1);
  }
  waiting_ = std::string(rest);
  return out;
}

std::string Utf8Stream::Rest() { return std::exchange(waiting_, "").empty() ? "" : "\uFFFD"; }

Result<std::vector<int32_t>> Tokens::Encode(std::string_view text) const {
  std::vector<int32_t> out;
  const auto add = [&](std::string_view plain, bool is_first) -> Result<> {
    if (plain.empty()) return {};
    KRAFLA_ASSIGN(const std::vector<int32_t> tokens, EncodePlain(plain, is_first));
    out.insert(out.end(), tokens.begin(), tokens.end());
    return {};
  };
  std::size_t begin = 0, at = 0;
  while (at < text.size()) {
    // The longest that begins here.
    const std::pair<const std::string, int32_t>* found = nullptr;
    for (const auto& named : named_)
      if (text.substr(at).starts_with(named.first) && (found == nullptr || named.first.size() > found->first.size()))
        found = &named;
    if (found == nullptr) {
      ++at;
      continue;
    }
    KRAFLA_TRY(add(text.substr(begin, at - begin), begin == 0));
    out.push_back(found->second);
    begin = at += found->first.size();
  }
  KRAFLA_TRY(add(text.substr(begin), begin == 0));
  return out;
}

Result<std::unique_ptr<Tokens>> Tokens::Load(const std::string& folder, const json& description) {
  KRAFLA_ASSIGN(const auto kind, Get<std::string>(description, "kind"));
  KRAFLA_ASSIGN(const auto file, Get<std::string>(description, "file"));
  KRAFLA_ASSIGN(auto prefix, Get<std::vector<int32_t>>(description, "prefix"));
  if (kind == "tokenizers") return BytePairs::Load(folder + "/" + file, std::move(prefix));
  if (kind != "sentencepiece") return krafla::Unimplemented("model.json has a tokenizer of the kind '{}'.", kind);
#ifdef LLM_HAS_SENTENCEPIECE
  using Special = std::map<std::string, int32_t, std::less<>>;
  KRAFLA_ASSIGN(auto special, Get<Special>(description, "special"));
  return SentencePieces::Load(folder + "/" + file, std::move(special), std::move(prefix));
#else
  return krafla::Unimplemented(
      "This program was built without SentencePiece (Debian's libsentencepiece-dev), which {} is for.", file);
#endif
}

}  // namespace llm
