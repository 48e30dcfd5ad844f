// SPDX-License-Identifier: Apache-2.0
#include "ir/sdy_rule.h"

#include "ir/sharding_scanner.h"

namespace krafla {
namespace {

// "ijz_2": i, j, and the factor after z.
std::vector<std::string> Factors(std::string_view word) {
  std::vector<std::string> out;
  for (const char c : word) {
    const bool begins = c >= 'a' && c <= 'z';
    if (begins) out.emplace_back(1, c);
    else if (!out.empty()) out.back() += c;
  }
  return out;
}

// "[i, jk], [j]" up to the closing parenthesis.
Result<std::vector<SdyRule::Dimensions>> Tensors(ShardingScanner& s) {
  std::vector<SdyRule::Dimensions> out;
  KRAFLA_TRY(s.Expect('('));
  while (!s.Accept(')')) {
    KRAFLA_TRY(s.Expect('['));
    SdyRule::Dimensions& dims = out.emplace_back();
    while (!s.Accept(']')) {
      const std::string_view word = s.Word();
      if (word.empty()) return s.Bad("a factor");
      dims.push_back(Factors(word));
      s.Accept(',');
    }
    s.Accept(',');
  }
  return out;
}

}  // namespace

Result<SdyRule> ParseSdyRule(std::string_view text) {
  SdyRule out;
  ShardingScanner s(text);
  if (!s.Accept("#sdy.op_sharding_rule")) return s.Bad("'#sdy.op_sharding_rule'");
  KRAFLA_TRY(s.Expect('<'));
  KRAFLA_ASSIGN(out.operands, Tensors(s));
  if (!s.Accept("->")) return s.Bad("'->'");
  KRAFLA_ASSIGN(out.results, Tensors(s));
  // The sizes of the factors, which the shapes say too, and lists of factors by name.
  while (!s.Accept('>')) {
    if (s.Accept(',')) continue;
    const std::string_view key = s.Word();
    s.Accept('=');
    if (key.empty() && !s.Is('{')) return s.Bad("'{'");
    if (!s.Accept('{')) continue;  // "custom"
    while (!s.Accept('}')) {
      const std::string_view word = s.Word();
      if (word.empty()) return s.Bad("a factor");
      if (key == "need_replication") out.whole.emplace_back(word);
      if (s.Accept('=')) KRAFLA_TRY(s.Number());
      s.Accept(',');
    }
  }
  return out;
}

}  // namespace krafla
