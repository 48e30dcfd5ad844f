// SPDX-License-Identifier: Apache-2.0
// Source-target pairs, shardings; and metadata, whose grammar is like a sharding's. Replica groups: groups_parser.cpp.
#include "base/checked_math.h"
#include "hlo_io/hlo_text/parser.h"

namespace krafla::hlo_text {

// "{{0,1},{1,2}}"
Result<> Parser::ParsePairs(AttributeSet& out) {
  out.pairs.clear();
  return ParseList("source_target_pairs", [&]() -> Result<> {
    const std::size_t offset = lex_.token().begin;
    KRAFLA_ASSIGN(Dims pair, ParseDims("a source-target pair"));
    if (pair.size() != 2)
      return lex_.Error(offset, Format("A source-target pair has two members, not {}.", pair.size()));
    out.pairs.emplace_back(pair[0], pair[1]);
    return {};
  });
}

// One sharding, or a tuple of them, kept as written.
Result<std::string_view> Parser::ParseSharding() {
  const std::size_t begin = lex_.token().begin;
  KRAFLA_ASSIGN(std::string_view text, lex_.RawBraces("sharding"));
  // A tuple holds one pair of braces per leaf.
  Lexer inner(text, "");
  inner.Next();
  if (!inner.Is('{')) {
    KRAFLA_TRY(CheckOneSharding(text, begin));
    return text;
  }
  while (!inner.Is('}')) {
    const std::size_t at = inner.token().begin;
    auto one = inner.RawBraces("a sharding");
    if (!one) return lex_.Error(begin + at, "The sharding of a tuple must be a list of shardings in braces.");
    KRAFLA_TRY(CheckOneSharding(*one, begin + at));
    if (!inner.Accept(',') && !inner.Is('}'))
      return lex_.Error(begin + inner.token().begin, "Expected ',' between shardings.");
  }
  return text;
}

// "{devices=[2,1]0,1 last_tile_dim_replicate}", "{devices=[4]<=[2,2]T(1,0)}", "{maximal device=0}", "{replicated}" ...
Result<> Parser::CheckOneSharding(std::string_view text, std::size_t offset) const {
  Lexer lex(text, "");
  auto bad = [&](std::string_view message) { return lex_.Error(offset + lex.token().begin, message); };
  auto list = [&](char close, Dims& out) {
    do {
      if (lex.token().kind != Tok::kNumber) return false;
      auto n = lex.Int("a device");
      if (!n) return false;
      out.push_back(*n);
    } while (lex.Accept(','));
    return close == '\0' || lex.Accept(close);
  };
  lex.Next();
  while (!lex.Is('}')) {
    if (lex.token().kind != Tok::kWord)
      return bad("Expected a word such as devices, replicated or maximal in a sharding.");
    std::string_view word = lex.Next().text;
    if (word == "mesh" && !lex.Is('=')) return {};  // a sharding over the axes of a mesh: the text is all that is kept
    if (word == "replicated" || word == "manual" || word == "maximal" || word == "unknown" || word == "unreduced" ||
        word == "last_tile_dim_replicate" || word == "shard_as" || word == "shard_like")
      continue;
    if (lex.token().kind == Tok::kNumber) {  // shard_as 1
      lex.Next();
      continue;
    }
    if (!lex.Accept('=')) return bad(Format("'{}' is not a word of a sharding.", word.substr(0, 60)));
    if (word == "device") {
      Dims one;
      if (!list('\0', one)) return bad("Expected the number of a device.");
    } else if (word == "devices") {
      Dims tile, devices;
      if (!lex.Accept('[') || !list(']', tile)) return bad("Expected the shape of a tile assignment such as [2,1].");
      bool iota = lex.token().kind == Tok::kLessEqual;
      if (iota) lex.Next();
      if (iota && (!lex.Accept('[') || !list(']', devices))) return bad("Expected a shape such as [4] after '<='.");
      if (!iota && !list('\0', devices)) return bad("Expected the numbers of devices.");
      if (iota && lex.IsWord("T")) {
        Dims permutation;
        lex.Next();
        if (!lex.Accept('(') || !list(')', permutation) || permutation.size() != devices.size())
          return bad("Expected a permutation such as (1,0) after T.");
      }
      int64_t tiles = 1, count = iota ? 1 : devices.ssize();
      for (int64_t n : tile) tiles = n < 0 ? -1 : CheckedMul(tiles, n).value_or(-1);
      if (iota)
        for (int64_t n : devices) count = n < 0 ? -2 : CheckedMul(count, n).value_or(-2);
      if (tiles < 0 || count < 0 || tiles != count)
        return bad(Format("A tile assignment of {} tiles cannot name {} devices.", tiles, count));
    } else if (word == "metadata" || word == "last_tile_dims" || word == "mesh" || word == "axes") {
      auto skipped = lex.RawBraces(word);
      if (!skipped) return bad(Format("Expected braces after {}=.", word));
    } else {
      return bad(Format("'{}' is not a word of a sharding.", word.substr(0, 60)));
    }
    lex.Accept(',');
  }
  return {};
}

// "{op_name="a" source_line=3 ...}": every field is a word, '=' and a string, number, word, list or braces. The text
// without its braces.
Result<std::string_view> Parser::ParseMetadata() {
  const std::size_t begin = lex_.token().begin;
  KRAFLA_ASSIGN(std::string_view text, lex_.RawBraces("metadata"));
  Lexer lex(text, "");
  lex.Next();
  while (!lex.Is('}') || lex.token().end != text.size()) {
    auto bad = [&](std::string_view message) { return lex_.Error(begin + lex.token().begin, message); };
    if (lex.token().kind != Tok::kWord) return bad("Expected the name of a field in metadata.");
    lex.Next();
    if (!lex.Accept('=')) return bad("Expected '=' after the name of a field in metadata.");
    if (lex.Is('{')) {
      if (!lex.RawBraces("a field")) return bad("A brace in metadata is never closed.");
    } else if (lex.Accept('[')) {
      while (!lex.Is(']')) {
        if (lex.token().kind == Tok::kEnd || lex.token().kind == Tok::kBad)
          return bad("A list in metadata is never closed.");
        lex.Next();
      }
      lex.Next();
    } else if (lex.token().kind == Tok::kString || lex.token().kind == Tok::kNumber || lex.token().kind == Tok::kWord) {
      lex.Next();
    } else {
      return bad("Expected a value in metadata.");
    }
    lex.Accept(',');
  }
  return text.substr(1, text.size() - 2);
}

}  // namespace krafla::hlo_text
