// SPDX-License-Identifier: Apache-2.0
#include "ir/sharding.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/checked_math.h"
#include "ir/replica_groups.h"
#include "ir/sharding_scanner.h"
#include "krafla/inline_vector.h"

namespace krafla {
namespace {

const Split kWhole;

// A tile assignment: the device of each tile, in row-major order of `dims`.
struct Tiles {
  std::vector<int64_t> dims;
  std::vector<int64_t> devices;
};

Result<std::vector<int64_t>> Numbers(ShardingScanner& s, char close) {
  std::vector<int64_t> out;
  do {
    KRAFLA_ASSIGN(int64_t one, s.Number());
    out.push_back(one);
  } while (s.Accept(','));
  KRAFLA_TRY(s.Expect(close));
  return out;
}

Result<int64_t> Product(const std::vector<int64_t>& dims, int64_t limit) {
  int64_t out = 1;
  for (int64_t d : dims) {
    auto next = d < 1 ? std::nullopt : CheckedMul(out, d);
    if (!next || *next > limit)
      return InvalidArgument("A sharding over tiles of which a dimension is {} does not fit {} devices.", d, limit);
    out = *next;
  }
  return out;
}

// "[2,1]<=[2,2]T(1,0)" or "[2,1]0,1", after "devices=".
Result<Tiles> ParseTiles(ShardingScanner& s, int64_t devices) {
  Tiles out;
  KRAFLA_TRY(s.Expect('['));
  KRAFLA_ASSIGN(out.dims, Numbers(s, ']'));
  KRAFLA_ASSIGN(int64_t tiles, Product(out.dims, devices));
  if (!s.Accept("<=")) {
    do {
      KRAFLA_ASSIGN(int64_t one, s.Number());
      out.devices.push_back(one);
      // A comma is also what ends the list, before words.
    } while (s.Accept(',') && static_cast<int64_t>(out.devices.size()) < tiles);
    return out;
  }
  KRAFLA_TRY(s.Expect('['));
  KRAFLA_ASSIGN(std::vector<int64_t> shape, Numbers(s, ']'));
  Dims order;
  if (s.Accept("T(")) {
    KRAFLA_ASSIGN(std::vector<int64_t> read, Numbers(s, ')'));
    order.assign(read.begin(), read.end());
    if (order.size() != shape.size()) return s.Bad("as many dimensions in the permutation");
  }
  KRAFLA_ASSIGN(int64_t count, Product(shape, devices));
  if (count != tiles) return InvalidArgument("A sharding of {} tiles names {} devices.", tiles, count);
  KRAFLA_ASSIGN(out.devices, IotaDevices(Dims(shape.begin(), shape.end()), std::move(order)));
  return out;
}

Result<Sharding> FromTiles(const Tiles& tiles, const std::vector<std::string>& last, int64_t devices) {
  Sharding out;
  if (last.size() > tiles.dims.size())
    return InvalidArgument("A sharding has more kinds of subgroups than dimensions.");
  if (static_cast<int64_t>(tiles.devices.size()) != devices)
    return InvalidArgument("A sharding names {} devices; the program has {} partitions.", tiles.devices.size(),
                           devices);
  std::vector<bool> seen(static_cast<std::size_t>(devices), false);
  for (int64_t d : tiles.devices) {
    if (d < 0 || d >= devices || seen[static_cast<std::size_t>(d)])
      return InvalidArgument("A sharding names device {} twice, or it is none of the {}.", d, devices);
    seen[static_cast<std::size_t>(d)] = true;
  }
  const std::size_t data = tiles.dims.size() - last.size();
  int64_t inner = devices;
  for (std::size_t k = 0; k < tiles.dims.size(); ++k) {
    inner /= tiles.dims[k];
    Split split;
    split.count = tiles.dims[k];
    if (!split.whole()) {
      split.block.resize(static_cast<std::size_t>(devices));
      for (int64_t t = 0; t < devices; ++t)
        split.block[static_cast<std::size_t>(tiles.devices[static_cast<std::size_t>(t)])] =
            static_cast<int32_t>(t / inner % tiles.dims[k]);
    }
    if (k < data) {
      out.dims.push_back(std::move(split));
    } else if (last[k - data] == "manual") {
      if (!split.whole()) out.manual.push_back(std::move(split));
    } else if (last[k - data] == "unreduced") {
      if (!split.whole()) out.unreduced.push_back(std::move(split));
    } else if (last[k - data] != "replicated") {
      return Unimplemented("Devices that are {} in a sharding are not supported.", last[k - data]);
    }
  }
  return out;
}

Result<Sharding> ParseOne(ShardingScanner& s, int64_t devices) {
  Sharding out;
  std::optional<Tiles> tiles;
  std::vector<std::string> last;
  KRAFLA_TRY(s.Expect('{'));
  out.unknown = s.Is('}');
  while (!s.Accept('}')) {
    const std::string_view word = s.Word();
    if (word == "replicated") {
    } else if (word == "maximal") {
      if (s.Word() != "device") return s.Bad("device");
      KRAFLA_TRY(s.Expect('='));
      KRAFLA_ASSIGN(int64_t device, s.Number());
      if (device < 0 || device >= devices)
        return InvalidArgument("A sharding names device {}; the program has {} partitions.", device, devices);
      out.only = device;
    } else if (word == "manual") {
      out.all_manual = true;
    } else if (word == "unknown") {
      out.unknown = true;
    } else if (word == "devices") {
      KRAFLA_TRY(s.Expect('='));
      KRAFLA_ASSIGN(tiles, ParseTiles(s, devices));
    } else if (word == "last_tile_dim_replicate") {
      last = {"replicated"};
    } else if (word == "last_tile_dims") {
      KRAFLA_TRY(s.Expect('='));
      KRAFLA_TRY(s.Expect('{'));
      while (!s.Accept('}')) {
        last.emplace_back(s.Word());
        if (last.back().empty()) return s.Bad("a kind of subgroup");
        s.Accept(',');
      }
    } else if (word == "shard_as" || word == "shard_like") {
      KRAFLA_TRY(s.Number());
    } else if (word == "metadata") {
      KRAFLA_TRY(s.Expect('='));
      KRAFLA_TRY(s.Expect('{'));
      for (int depth = 1; depth > 0;) {
        if (s.AtEnd()) return s.Bad("'}'");
        if (s.Is('"')) KRAFLA_TRY(s.Quoted());
        else if (s.Accept('{')) ++depth;
        else if (s.Accept('}')) --depth;
        else if (s.Word().empty() && !s.Accept('=') && !s.Accept(',')) return s.Bad("a word of metadata");
      }
    } else if (word == "unreduced") {
      Split each{devices, {}};
      for (int64_t d = 0; d < devices && devices > 1; ++d) each.block.push_back(static_cast<int32_t>(d));
      out.unreduced.push_back(std::move(each));
    } else if (word == "mesh") {
      return Unimplemented("A sharding of the kind '{}' is not supported.", word);
    } else {
      return s.Bad("a word of a sharding");
    }
    s.Accept(',');
  }
  if (!tiles) return out;
  return FromTiles(*tiles, last, devices);
}

std::string Joined(const std::vector<int64_t>& numbers) {
  std::string out;
  for (int64_t n : numbers) out += (out.empty() ? "" : ",") + std::to_string(n);
  return out;
}

// The shortest way to write a list of devices: an iota where it is one, of two transposed
// dimensions where it is that.
std::string DevicesText(const std::vector<int64_t>& devices) {
  const auto n = static_cast<int64_t>(devices.size());
  auto is = [&](int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < n; ++i)
      if (devices[static_cast<std::size_t>(i)] != i % rows * columns + i / rows) return false;
    return true;
  };
  for (int64_t rows = 1; rows < n || rows == 1; ++rows) {
    if (n % rows != 0 || !is(rows, n / rows)) continue;
    return rows == 1 ? Format("<=[{}]", n) : Format("<=[{},{}]T(1,0)", rows, n / rows);
  }
  return Joined(devices);
}

}  // namespace

Split Combine(const Split& major, const Split& minor) {
  if (minor.whole()) return major;
  if (major.whole()) return minor;
  Split out;
  out.count = major.count * minor.count;
  for (std::size_t d = 0; d < major.block.size(); ++d)
    out.block.push_back(static_cast<int32_t>(major.block[d] * minor.count + minor.block[d]));
  return out;
}

const Split& Sharding::dim(int64_t d) const {
  return static_cast<std::size_t>(d) < dims.size() ? dims[static_cast<std::size_t>(d)] : kWhole;
}

bool Sharding::IsReplicated() const {
  return !only && !all_manual && unreduced.empty() &&
         std::ranges::all_of(dims, [](const Split& s) { return s.whole(); });
}

int64_t Sharding::blocks() const {
  int64_t out = 1;
  for (const Split& s : dims) out *= s.count;  // at most the number of devices
  return out;
}

bool operator==(const Sharding& a, const Sharding& b) {
  const auto rank = static_cast<int64_t>(std::max(a.dims.size(), b.dims.size()));
  for (int64_t d = 0; d < rank; ++d)
    if (!(a.dim(d) == b.dim(d))) return false;
  return a.manual == b.manual && a.unreduced == b.unreduced && a.all_manual == b.all_manual && a.only == b.only &&
         a.unknown == b.unknown;
}

Result<std::vector<Sharding>> ParseShardings(std::string_view text, int64_t devices) {
  std::vector<Sharding> out;
  ShardingScanner s(text);
  ShardingScanner ahead(text);
  const bool tuple = ahead.Accept("{{");
  if (tuple) KRAFLA_TRY(s.Expect('{'));
  do {
    KRAFLA_ASSIGN(Sharding one, ParseOne(s, devices));
    out.push_back(std::move(one));
  } while (tuple && s.Accept(','));
  if (tuple) KRAFLA_TRY(s.Expect('}'));
  if (!s.AtEnd()) return s.Bad("the end");
  return out;
}

Result<Sharding> ParseSharding(std::string_view text, int64_t devices) {
  KRAFLA_ASSIGN(std::vector<Sharding> all, ParseShardings(text, devices));
  if (all.size() != 1) return InvalidArgument("A sharding of {} values stands at one value.", all.size());
  return std::move(all[0]);
}

Result<Literal> BlockOf(const Literal& whole, const Sharding& sharding, int64_t device) {
  const Shape& shape = whole.shape();
  const auto rank = static_cast<std::size_t>(shape.rank());
  Dims block, begin, count;
  for (std::size_t d = 0; d < rank; ++d) {
    const Split& split = sharding.dim(static_cast<int64_t>(d));
    const int64_t size = shape.dims()[d] / split.count + (shape.dims()[d] % split.count != 0 ? 1 : 0);
    block.push_back(size);
    begin.push_back(std::min(size * split.of(device), shape.dims()[d]));
    count.push_back(std::min(size, shape.dims()[d] - begin[d]));
  }
  KRAFLA_ASSIGN(Shape local, Shape::MakeArray(shape.element_type(), block));
  KRAFLA_ASSIGN(Literal out, Literal::Create(local));
  if (std::ranges::find(count, int64_t{0}) != count.end()) return out;
  const auto width = static_cast<std::size_t>(StorageBytes(shape.element_type()));
  const auto row = rank == 0 ? width : width * static_cast<std::size_t>(count[rank - 1]);
  const Dims from_strides = RowMajorStrides(shape.dims()), to_strides = RowMajorStrides(block);
  // Row by row of the last dimension.
  Dims rows = count, index(rank, 0);
  if (rank > 0) rows[rank - 1] = 1;
  do {
    int64_t from = 0, to = 0;
    for (std::size_t d = 0; d < rank; ++d) {
      from += (begin[d] + index[d]) * from_strides[d];
      to += index[d] * to_strides[d];
    }
    std::memcpy(out.bytes().data() + static_cast<std::size_t>(to) * width,
                whole.bytes().data() + static_cast<std::size_t>(from) * width, row);
  } while (NextIndex(std::span<int64_t>(index.data(), index.size()), rows));
  return out;
}

std::string ShardingToText(const Sharding& sharding, int64_t rank, int64_t devices) {
  if (sharding.only) return Format("{{maximal device={}}}", *sharding.only);
  if (sharding.all_manual) return "{manual}";
  if (sharding.unknown) return "{unknown}";
  if (sharding.IsReplicated() && sharding.manual.empty()) return "{replicated}";
  // Devices in the order of their tiles; those of one tile in their own order.
  std::vector<int64_t> dims, order(static_cast<std::size_t>(devices)), tile(static_cast<std::size_t>(devices), 0);
  std::iota(order.begin(), order.end(), int64_t{0});
  int64_t tiles = 1;
  auto add = [&](const Split& split) {
    dims.push_back(split.count);
    tiles *= split.count;
    for (int64_t d = 0; d < devices; ++d)
      tile[static_cast<std::size_t>(d)] = tile[static_cast<std::size_t>(d)] * split.count + split.of(d);
  };
  for (int64_t d = 0; d < rank; ++d) add(sharding.dim(d));
  for (const Split& m : sharding.manual) add(m);
  for (const Split& u : sharding.unreduced) add(u);
  const int64_t copies = devices / std::max<int64_t>(tiles, 1);
  std::string last;
  for (std::size_t i = 0; i < sharding.manual.size(); ++i) last += last.empty() ? "manual" : ", manual";
  for (std::size_t i = 0; i < sharding.unreduced.size(); ++i) last += last.empty() ? "unreduced" : ", unreduced";
  if (copies > 1) {
    dims.push_back(copies);
    if (!last.empty()) last += ", replicated";
  }
  std::ranges::stable_sort(order, {}, [&](int64_t d) { return tile[static_cast<std::size_t>(d)]; });
  std::string out = Format("{{devices=[{}]{}", Joined(dims), DevicesText(order));
  if (!last.empty()) out += Format(" last_tile_dims={{{}}}", last);
  else if (copies > 1) out += " last_tile_dim_replicate";
  return out + "}";
}

}  // namespace krafla
