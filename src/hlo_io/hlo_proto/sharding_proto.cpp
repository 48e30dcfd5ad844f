// SPDX-License-Identifier: Apache-2.0
// OpSharding as HLO text prints it (xla/hlo/ir/hlo_sharding.cc, HloSharding::Print), and back.
#include "hlo_io/hlo_proto/sharding_proto.h"

#include "hlo_io/hlo_proto/fields.h"
#include "hlo_io/hlo_text/lexer.h"

namespace krafla::hlo_proto {
namespace {

enum Type : int64_t {
  kReplicated = 0,
  kMaximal = 1,
  kTuple = 2,
  kOther = 3,
  kManual = 4,
  kUnknown = 5,
  kUnreduced = 6
};
constexpr std::pair<std::string_view, int64_t> kWords[] = {
    {"replicated", kReplicated}, {"manual", kManual}, {"unknown", kUnknown}, {"unreduced", kUnreduced}};

std::string_view WordOf(int64_t type) {
  for (auto [word, value] : kWords)
    if (value == type) return word;
  return {};
}

template <typename List>
std::string Joined(const List& list) {
  std::string out;
  for (auto value : list) out += (out.empty() ? "" : ",") + std::to_string(value);
  return out;
}

Result<> ParseList(hlo_text::Lexer& lex, Dims& out) {
  do {
    KRAFLA_ASSIGN(int64_t value, lex.Int("a number of a sharding"));
    out.push_back(value);
  } while (lex.Accept(','));
  return {};
}

// "[2,1]<=[2]T(0)" or "[2,1]0,1", then what follows devices=.
Result<> WriteTiles(Writer& writer, hlo_text::Lexer& lex) {
  Dims tile, devices, permutation;
  KRAFLA_TRY(lex.Expect('[', "after devices="));
  KRAFLA_TRY(ParseList(lex, tile));
  KRAFLA_TRY(lex.Expect(']', "after the shape of the tile assignment"));
  const bool iota = lex.token().kind == hlo_text::Tok::kLessEqual;
  if (iota) {
    lex.Next();
    KRAFLA_TRY(lex.Expect('[', "after '<='"));
  }
  KRAFLA_TRY(ParseList(lex, devices));
  if (iota) KRAFLA_TRY(lex.Expect(']', "after the dimensions"));
  if (iota && lex.IsWord("T")) {
    lex.Next();
    KRAFLA_TRY(lex.Expect('(', "after T"));
    KRAFLA_TRY(ParseList(lex, permutation));
    KRAFLA_TRY(lex.Expect(')', "after the permutation"));
  } else if (iota) {
    for (int64_t d = 0; d < devices.ssize(); ++d) permutation.push_back(d);
  }
  writer.add_int64(sharding_field::kType, kOther);
  WriteInts(writer, sharding_field::kTileDims, tile);
  WriteInts(writer, iota ? sharding_field::kIotaReshapeDims : sharding_field::kTileDevices, devices);
  if (iota) WriteInts(writer, sharding_field::kIotaTransposePerm, permutation);
  if (lex.IsWord("last_tile_dim_replicate")) {
    lex.Next();
    writer.add_bool(sharding_field::kReplicateOnLastTileDim, true);
  } else if (lex.IsWord("last_tile_dims")) {
    lex.Next();
    KRAFLA_TRY(lex.Expect('=', "after last_tile_dims"));
    KRAFLA_TRY(lex.Expect('{', "after last_tile_dims="));
    Dims types;
    do {
      for (auto [word, value] : kWords)
        if (lex.IsWord(word)) types.push_back(value);
      lex.Next();
    } while (lex.Accept(','));
    KRAFLA_TRY(lex.Expect('}', "after last_tile_dims"));
    WriteInts(writer, sharding_field::kLastTileDims, types);
  }
  return {};
}

Result<> WriteOne(Writer& writer, hlo_text::Lexer& lex) {
  KRAFLA_TRY(lex.Expect('{', "to open a sharding"));
  if (lex.Is('{') || lex.Is('}')) {
    writer.add_int64(sharding_field::kType, kTuple);
    while (!lex.Is('}')) {
      Writer element(writer, sharding_field::kTupleShardings);
      KRAFLA_TRY(WriteOne(element, lex));
      lex.Accept(',');
    }
    lex.Next();
    return {};
  }
  for (auto [word, value] : kWords)
    if (lex.IsWord(word)) {
      lex.Next();
      writer.add_int64(sharding_field::kType, value);  // 0 too: a message without a field would not be written
    }
  if (lex.IsWord("maximal")) {
    lex.Next();
    KRAFLA_TRY(lex.ExpectWord("device"));
    KRAFLA_TRY(lex.Expect('=', "after device"));
    KRAFLA_ASSIGN(int64_t device, lex.Int("the number of a device"));
    writer.add_int64(sharding_field::kType, kMaximal);
    WriteInts(writer, sharding_field::kTileDims, Dims{1});
    WriteInts(writer, sharding_field::kTileDevices, Dims{device});
  } else if (lex.IsWord("devices")) {
    lex.Next();
    KRAFLA_TRY(lex.Expect('=', "after devices"));
    KRAFLA_TRY(WriteTiles(writer, lex));
  }
  if (lex.IsWord("shard_as") || lex.IsWord("shard_like")) {
    const bool like = lex.IsWord("shard_like");
    lex.Next();
    KRAFLA_ASSIGN(int64_t group, lex.Int("the number of a shard group"));
    writer.add_bool(sharding_field::kIsShardGroup, true);
    WriteInt(writer, sharding_field::kShardGroupId, group);
    WriteInt(writer, sharding_field::kShardGroupType, like ? 1 : 0);
  }
  return lex.Expect('}', "to close a sharding");
}

}  // namespace

Result<std::string> ShardingText(Reader reader, int depth) {
  if (depth <= 0) return InvalidArgument("Shardings lie within others deeper than the limit.");
  int64_t type = kReplicated, group = 0, group_type = 0;
  bool replicate_last = false, grouped = false;
  std::vector<int64_t> tile, devices, last_dims, iota, permutation;
  std::string elements;
  while (reader.next()) {
    switch (reader.tag()) {
      case sharding_field::kType: type = Int(reader); break;
      case sharding_field::kTileDims: AppendInts(reader, tile); break;
      case sharding_field::kTileDevices: AppendInts(reader, devices); break;
      case sharding_field::kTupleShardings: {
        KRAFLA_ASSIGN(std::string element, ShardingText(Message(reader), depth - 1));
        elements += (elements.empty() ? "" : ", ") + element;
        break;
      }
      case sharding_field::kReplicateOnLastTileDim: replicate_last = Bool(reader); break;
      case sharding_field::kLastTileDims: AppendInts(reader, last_dims); break;
      case sharding_field::kIotaReshapeDims: AppendInts(reader, iota); break;
      case sharding_field::kIotaTransposePerm: AppendInts(reader, permutation); break;
      case sharding_field::kIsShardGroup: grouped = Bool(reader); break;
      case sharding_field::kShardGroupId: group = Int(reader); break;
      case sharding_field::kShardGroupType: group_type = Int(reader); break;
      case sharding_field::kNamedSharding:
        return Unimplemented("A sharding over the named axes of a mesh cannot be read from a proto yet.");
      default: reader.skip();
    }
  }
  std::string out = "{";
  if (type == kTuple) return out + elements + "}";
  if (type == kMaximal) {
    out += Format("maximal device={}", devices.empty() ? 0 : devices[0]);
  } else if (type == kOther) {
    out += "devices=[" + Joined(tile) + "]";
    if (!iota.empty()) {
      out += "<=[" + Joined(iota) + "]";
      bool identity = true;
      for (std::size_t i = 0; i < permutation.size(); ++i) identity &= permutation[i] == static_cast<int64_t>(i);
      if (!identity) out += "T(" + Joined(permutation) + ")";
    } else {
      out += Joined(devices);
    }
    if (replicate_last) out += " last_tile_dim_replicate";
    if (!last_dims.empty()) {
      out += " last_tile_dims={";
      for (std::size_t i = 0; i < last_dims.size(); ++i) out += Format("{}{}", i > 0 ? ", " : "", WordOf(last_dims[i]));
      out += '}';
    }
  } else if (std::string_view word = WordOf(type); !word.empty()) {
    out += word;
  } else {
    return InvalidArgument("A sharding has the type number {}, which this version does not know.", type);
  }
  if (grouped) out += Format(" {} {}", group_type == 1 ? "shard_like" : "shard_as", group);
  return out + "}";
}

Result<> WriteSharding(Writer writer, std::string_view text) {
  hlo_text::Lexer lex(text, "sharding");
  auto written = WriteOne(writer, lex);
  if (!written || lex.token().kind != hlo_text::Tok::kEnd)
    return Unimplemented("The sharding {} cannot be written as a proto.", text.substr(0, 200));
  return {};
}

}  // namespace krafla::hlo_proto
