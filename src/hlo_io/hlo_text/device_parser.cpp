// SPDX-License-Identifier: Apache-2.0
// What names devices: replica groups, source-target pairs, shardings; and metadata, whose grammar is like a sharding's.
#include <algorithm>

#include "base/checked_math.h"
#include "hlo_io/hlo_text/parser.h"

namespace krafla::hlo_text {

// "{{0,1},{2,3}}", "{}" or "[2,4]<=[8]".
Result<std::vector<std::vector<int64_t>>> Parser::ParseGroups() {
  if (lex_.Is('[')) return ParseIotaGroups();
  if (lex_.Is('@'))
    return lex_.Error(lex_.token().begin, "groups over the axes of a mesh are not supported; give them as lists",
                      StatusCode::kUnimplemented);
  std::vector<std::vector<int64_t>> out;
  KRAFLA_TRY(lex_.Expect('{', "to open replica_groups"));
  if (lex_.Accept('}')) return out;
  do {
    KRAFLA_ASSIGN(Dims group, ParseDims("a replica group"));
    out.emplace_back(group.begin(), group.end());
  } while (lex_.Accept(','));
  KRAFLA_TRY(lex_.Expect('}', "to close replica_groups"));
  return out;
}

// "[2,4]<=[8]" or "[4,2]<=[2,4]T(1,0)": 0, 1, 2 ... in the shape on the right, its dimensions permuted, then cut into
// groups of the last dimension on the left (XLA: hlo/ir/tile_assignment.h, IotaTileAssignment).
Result<std::vector<std::vector<int64_t>>> Parser::ParseIotaGroups() {
  const std::size_t begin = lex_.token().begin;
  auto list = [&](char close, std::string_view what) -> Result<Dims> {
    Dims out;
    do {
      KRAFLA_ASSIGN(int64_t n, lex_.Int(what));
      if (out.ssize() >= Shape::kMaxRank) return lex_.Error(std::format("{} has too many entries", what));
      out.push_back(n);
    } while (lex_.Accept(','));
    KRAFLA_TRY(lex_.Expect(close, std::format("to close {}", what)));
    return out;
  };
  lex_.Next();
  KRAFLA_ASSIGN(Dims tile, list(']', "the shape of replica groups"));
  if (tile.size() != 2) return lex_.Error(begin, "replica groups in this form have two dimensions: groups and members");
  if (lex_.token().kind != Tok::kLessEqual) return lex_.Unexpected("'<=' after the shape of replica groups");
  lex_.Next();
  KRAFLA_TRY(lex_.Expect('[', "after '<='"));
  KRAFLA_ASSIGN(Dims dims, list(']', "the shape of all devices"));
  Dims permutation;
  for (int64_t i = 0; i < dims.ssize(); ++i) permutation.push_back(i);
  if (lex_.IsWord("T")) {
    lex_.Next();
    KRAFLA_TRY(lex_.Expect('(', "after T"));
    const std::size_t offset = lex_.token().begin;
    KRAFLA_ASSIGN(permutation, list(')', "a permutation"));
    Dims sorted = permutation;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < sorted.size(); ++i)
      if (sorted.size() != dims.size() || sorted[i] != static_cast<int64_t>(i))
        return lex_.Error(offset, std::format("a permutation must name each of the {} dimensions once", dims.size()));
    if (sorted.size() != dims.size())
      return lex_.Error(offset, std::format("a permutation must name each of the {} dimensions once", dims.size()));
  }
  auto product = [](const Dims& d) -> std::optional<int64_t> {
    int64_t out = 1;
    for (int64_t n : d) {
      auto next = n > 0 ? CheckedMul(out, n) : std::nullopt;
      if (!next) return std::nullopt;
      out = *next;
    }
    return out;
  };
  auto devices = product(dims), members = product(tile);
  if (!devices || !members) return lex_.Error(begin, "the shapes of replica groups must be positive and fit 63 bits");
  if (*devices != *members)
    return lex_.Error(begin, std::format("{} groups of {} are not the {} devices on the right of '<='", tile[0], tile[1],
                                         *devices));
  if (*devices > iota_budget_)
    return lex_.Error(begin, std::format("{} devices in replica groups are past the limit of this module, {} are left",
                                         *devices, iota_budget_),
                      StatusCode::kResourceExhausted);
  iota_budget_ -= *devices;
  Dims strides = RowMajorStrides(dims), permuted_dims, permuted_strides;
  for (int64_t p : permutation) {
    permuted_dims.push_back(dims[static_cast<std::size_t>(p)]);
    permuted_strides.push_back(strides[static_cast<std::size_t>(p)]);
  }
  std::vector<std::vector<int64_t>> out(static_cast<std::size_t>(tile[0]));
  Dims index(dims.size(), 0);
  for (auto& group : out) {
    group.reserve(static_cast<std::size_t>(tile[1]));
    for (int64_t n = 0; n < tile[1]; ++n) {
      group.push_back(LinearizeIndex(index, permuted_dims));
      int64_t device = 0;
      for (std::size_t i = 0; i < index.size(); ++i) device += index[i] * permuted_strides[i];
      group.back() = device;
      NextIndex({index.data(), index.size()}, permuted_dims);
    }
  }
  return out;
}

// "{{0,1},{1,2}}"
Result<> Parser::ParsePairs(AttributeSet& out) {
  out.pairs.clear();
  KRAFLA_TRY(lex_.Expect('{', "to open source_target_pairs"));
  if (lex_.Accept('}')) return {};
  do {
    const std::size_t offset = lex_.token().begin;
    KRAFLA_ASSIGN(Dims pair, ParseDims("a source-target pair"));
    if (pair.size() != 2)
      return lex_.Error(offset, std::format("a source-target pair has two members, not {}", pair.size()));
    out.pairs.emplace_back(pair[0], pair[1]);
  } while (lex_.Accept(','));
  return lex_.Expect('}', "to close source_target_pairs");
}

// One sharding, or a tuple of them, kept as written.
Result<std::string_view> Parser::ParseSharding() {
  const std::size_t begin = lex_.token().begin;
  KRAFLA_ASSIGN(std::string_view text, lex_.RawBraces("sharding"));
  // A tuple holds one pair of braces a leaf.
  Lexer inner(text, "");
  inner.Next();
  if (!inner.Is('{')) {
    KRAFLA_TRY(CheckOneSharding(text, begin));
    return text;
  }
  while (!inner.Is('}')) {
    const std::size_t at = inner.token().begin;
    auto one = inner.RawBraces("a sharding");
    if (!one) return lex_.Error(begin + at, "the sharding of a tuple is a list of shardings in braces");
    KRAFLA_TRY(CheckOneSharding(*one, begin + at));
    if (!inner.Accept(',') && !inner.Is('}')) return lex_.Error(begin + inner.token().begin, "expected ',' between shardings");
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
    if (lex.token().kind != Tok::kWord) return bad("expected a word such as devices, replicated or maximal in a sharding");
    std::string_view word = lex.Next().text;
    if (word == "mesh" && !lex.Is('=')) return {};  // a sharding over the axes of a mesh: the text is all that is kept
    if (word == "replicated" || word == "manual" || word == "maximal" || word == "unknown" || word == "unreduced" ||
        word == "last_tile_dim_replicate" || word == "shard_as" || word == "shard_like")
      continue;
    if (lex.token().kind == Tok::kNumber) {  // shard_as 1
      lex.Next();
      continue;
    }
    if (!lex.Accept('=')) return bad(std::format("'{}' is not a word of a sharding", word.substr(0, 60)));
    if (word == "device") {
      Dims one;
      if (!list('\0', one)) return bad("expected the number of a device");
    } else if (word == "devices") {
      Dims tile, devices;
      if (!lex.Accept('[') || !list(']', tile)) return bad("expected the shape of a tile assignment such as [2,1]");
      bool iota = lex.token().kind == Tok::kLessEqual;
      if (iota) lex.Next();
      if (iota && (!lex.Accept('[') || !list(']', devices))) return bad("expected a shape such as [4] after '<='");
      if (!iota && !list('\0', devices)) return bad("expected the numbers of devices");
      if (iota && lex.IsWord("T")) {
        Dims permutation;
        lex.Next();
        if (!lex.Accept('(') || !list(')', permutation) || permutation.size() != devices.size())
          return bad("expected a permutation such as (1,0) after T");
      }
      int64_t tiles = 1, count = iota ? 1 : devices.ssize();
      for (int64_t n : tile) tiles = n < 0 ? -1 : CheckedMul(tiles, n).value_or(-1);
      if (iota)
        for (int64_t n : devices) count = n < 0 ? -2 : CheckedMul(count, n).value_or(-2);
      if (tiles < 0 || count < 0 || tiles != count)
        return bad(std::format("a tile assignment of {} tiles names {} devices", tiles, count));
    } else if (word == "metadata" || word == "last_tile_dims" || word == "mesh" || word == "axes") {
      auto skipped = lex.RawBraces(word);
      if (!skipped) return bad(std::format("expected braces after {}=", word));
    } else {
      return bad(std::format("'{}' is not a word of a sharding", word.substr(0, 60)));
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
    if (lex.token().kind != Tok::kWord) return bad("expected the name of a field in metadata");
    lex.Next();
    if (!lex.Accept('=')) return bad("expected '=' after the name of a field in metadata");
    if (lex.Is('{')) {
      if (!lex.RawBraces("a field")) return bad("a brace in metadata is never closed");
    } else if (lex.Accept('[')) {
      while (!lex.Is(']')) {
        if (lex.token().kind == Tok::kEnd) return bad("a list in metadata is never closed");
        lex.Next();
      }
      lex.Next();
    } else if (lex.token().kind == Tok::kString || lex.token().kind == Tok::kNumber || lex.token().kind == Tok::kWord) {
      lex.Next();
    } else {
      return bad("expected a value in metadata");
    }
    lex.Accept(',');
  }
  return text.substr(1, text.size() - 2);
}

}  // namespace krafla::hlo_text
