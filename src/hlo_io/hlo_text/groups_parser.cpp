// SPDX-License-Identifier: Apache-2.0
// Replica groups in the three ways to write them: lists "{{0,1},{2,3}}", iota "[2,4]<=[8]", mesh axes
// "mesh['a'=2,'b'=4] {'b'}". All become lists.
#include <algorithm>
#include <numeric>

#include "base/checked_math.h"
#include "hlo_io/hlo_text/parser.h"

namespace krafla::hlo_text {
namespace {

// Product of sizes that must be positive.
std::optional<int64_t> Product(const Dims& dims) {
  int64_t out = 1;
  for (int64_t n : dims) {
    auto next = n > 0 ? CheckedMul(out, n) : std::nullopt;
    if (!next) return std::nullopt;
    out = *next;
  }
  return out;
}

}  // namespace

Result<std::vector<std::vector<int64_t>>> Parser::ParseGroups() {
  if (lex_.Is('[')) return ParseIotaGroups();
  if (lex_.IsWord("mesh")) return ParseMeshGroups();
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

// "2,4]" with `close` for the bracket.
Result<Dims> Parser::ParseDimList(char close, std::string_view what) {
  Dims out;
  do {
    KRAFLA_ASSIGN(int64_t n, lex_.Int(what));
    if (out.ssize() >= Shape::kMaxRank) return lex_.Error(Format("{} has too many entries", what));
    out.push_back(n);
  } while (lex_.Accept(','));
  KRAFLA_TRY(lex_.Expect(close, Format("to close {}", what)));
  return out;
}

// The numbers 0, 1, 2 ... (or `devices`) in row-major `dims`, dimensions taken in `order`, cut into groups.
Result<std::vector<std::vector<int64_t>>> Parser::ExpandGroups(const Dims& dims, const Dims& order, int64_t group_size,
                                                               std::span<const int64_t> devices, std::size_t offset) {
  auto count = Product(dims);
  if (!count || group_size < 1 || *count % group_size != 0)
    return lex_.Error(offset, "the sizes of replica groups must be positive, fit 63 bits and multiply out");
  if (*count > iota_budget_)
    return lex_.Error(offset, Format("{} devices in replica groups are past the limit of this module, {} are left",
                                          *count, iota_budget_),
                      StatusCode::kResourceExhausted);
  iota_budget_ -= *count;
  Dims strides = RowMajorStrides(dims), ordered_dims, ordered_strides;
  for (int64_t d : order) {
    ordered_dims.push_back(dims[static_cast<std::size_t>(d)]);
    ordered_strides.push_back(strides[static_cast<std::size_t>(d)]);
  }
  std::vector<std::vector<int64_t>> out(static_cast<std::size_t>(*count / group_size));
  Dims index(dims.size(), 0);
  for (auto& group : out) {
    group.reserve(static_cast<std::size_t>(group_size));
    for (int64_t n = 0; n < group_size; ++n) {
      int64_t device = 0;
      for (std::size_t i = 0; i < index.size(); ++i) device += index[i] * ordered_strides[i];
      group.push_back(devices.empty() ? device : devices[static_cast<std::size_t>(device)]);
      NextIndex({index.data(), index.size()}, ordered_dims);
    }
  }
  return out;
}

// "[2,4]<=[8]" or "[4,2]<=[2,4]T(1,0)": groups and members on the left; on the right the shape in which devices are
// counted and how its dimensions are permuted (XLA: hlo/ir/tile_assignment.h, IotaTileAssignment).
Result<std::vector<std::vector<int64_t>>> Parser::ParseIotaGroups() {
  const std::size_t begin = lex_.token().begin;
  lex_.Next();
  KRAFLA_ASSIGN(Dims tile, ParseDimList(']', "the shape of replica groups"));
  if (tile.size() != 2) return lex_.Error(begin, "replica groups in this form have two dimensions: groups and members");
  if (lex_.token().kind != Tok::kLessEqual) return lex_.Unexpected("'<=' after the shape of replica groups");
  lex_.Next();
  KRAFLA_TRY(lex_.Expect('[', "after '<='"));
  KRAFLA_ASSIGN(Dims dims, ParseDimList(']', "the shape of all devices"));
  Dims order(dims.size());
  std::iota(order.begin(), order.end(), 0);
  if (lex_.IsWord("T")) {
    lex_.Next();
    KRAFLA_TRY(lex_.Expect('(', "after T"));
    const std::size_t offset = lex_.token().begin;
    Dims identity = order;
    KRAFLA_ASSIGN(order, ParseDimList(')', "a permutation"));
    if (!std::is_permutation(order.begin(), order.end(), identity.begin(), identity.end()))
      return lex_.Error(offset, Format("a permutation must name each of the {} dimensions once", dims.size()));
  }
  auto devices = Product(dims), members = Product(tile);
  if (!devices || !members) return lex_.Error(begin, "the shapes of replica groups must be positive and fit 63 bits");
  if (*devices != *members)
    return lex_.Error(begin, Format("{} groups of {} are not the {} devices on the right of '<='", tile[0], tile[1],
                                         *devices));
  return ExpandGroups(dims, order, tile[1], {}, begin);
}

// 'data' or "data" or data
Result<std::string_view> Parser::ParseAxisName() {
  if (lex_.token().kind == Tok::kString) return lex_.Next().text;
  if (!lex_.Is('\'')) return lex_.Name("the name of a mesh axis");
  const std::size_t begin = lex_.token().end, end = lex_.text().substr(0, begin + 1000).find('\'', begin);
  if (end == std::string_view::npos) return lex_.Error("this name of a mesh axis is never closed");
  lex_.Seek(end + 1);
  return lex_.text().substr(begin, end - begin);
}

// "mesh['a'=2,'b'=4] {'b'}", "mesh['a'=8], device_ids=(7,6,5,4,3,2,1,0) {'a':(2)4}": members of a group differ along the
// axes named, the last one fastest. "a:(p)s" is a part of an axis: p steps of the axis above it, s its own size
// (XLA: hlo/ir/mesh_and_axis.h, replica_group.h).
Result<std::vector<std::vector<int64_t>>> Parser::ParseMeshGroups() {
  const std::size_t begin = lex_.token().begin;
  struct Part {
    int64_t axis = 0, above = 1, size = 0;
  };
  std::vector<std::string_view> names;
  Dims sizes;
  lex_.Next();
  KRAFLA_TRY(lex_.Expect('[', "after mesh"));
  do {
    KRAFLA_ASSIGN(std::string_view name, ParseAxisName());
    KRAFLA_TRY(lex_.Expect('=', "after the name of a mesh axis"));
    KRAFLA_ASSIGN(int64_t size, lex_.Int("the size of a mesh axis"));
    if (names.size() >= 16 || std::find(names.begin(), names.end(), name) != names.end())
      return lex_.Error(begin, "a mesh has at most 16 axes, each with its own name");
    names.push_back(name);
    sizes.push_back(size);
  } while (lex_.Accept(','));
  KRAFLA_TRY(lex_.Expect(']', "to close a mesh"));
  auto count = Product(sizes);
  if (!count) return lex_.Error(begin, "the sizes of mesh axes must be positive and multiply to 63 bits");
  std::vector<int64_t> devices;
  if (lex_.Accept(',')) {
    KRAFLA_TRY(lex_.ExpectWord("device_ids"));
    KRAFLA_TRY(lex_.Expect('=', "after device_ids"));
    KRAFLA_TRY(lex_.Expect('(', "after device_ids="));
    do {
      KRAFLA_ASSIGN(int64_t device, lex_.Int("a device"));
      devices.push_back(device);
    } while (lex_.Accept(','));
    KRAFLA_TRY(lex_.Expect(')', "to close device_ids"));
    if (static_cast<int64_t>(devices.size()) != *count)
      return lex_.Error(begin, Format("a mesh of {} devices lists {}", *count, devices.size()));
  }
  KRAFLA_TRY(lex_.Expect('{', "before the axes of replica groups"));
  std::vector<Part> parts;
  if (!lex_.Is('}')) do {
      const std::size_t offset = lex_.token().begin;
      KRAFLA_ASSIGN(std::string_view name, ParseAxisName());
      auto found = std::find(names.begin(), names.end(), name);
      if (found == names.end())
        return lex_.Error(offset, Format("the mesh has no axis '{}'", name.substr(0, 60)));
      Part part;
      part.axis = found - names.begin();
      const int64_t full = sizes[static_cast<std::size_t>(part.axis)];
      part.size = full;
      if (lex_.Accept(':')) {
        KRAFLA_TRY(lex_.Expect('(', "before the steps above a part of an axis"));
        KRAFLA_ASSIGN(part.above, lex_.Int("the steps above a part of an axis"));
        KRAFLA_TRY(lex_.Expect(')', "after the steps above a part of an axis"));
        KRAFLA_ASSIGN(part.size, lex_.Int("the size of a part of an axis"));
        if (part.above < 1 || part.size < 1 || part.above > full || part.size > full || full % (part.above * part.size) != 0)
          return lex_.Error(offset, Format("({}){} is not a part of an axis of {}", part.above, part.size, full));
      }
      if (parts.size() >= 32) return lex_.Error(offset, "replica groups name more than 32 parts of axes");
      parts.push_back(part);
    } while (lex_.Accept(','));
  KRAFLA_TRY(lex_.Expect('}', "after the axes of replica groups"));

  // Every axis is cut into what lies above, within and below its parts.
  Dims dims, order;
  std::vector<int64_t> place(parts.size(), -1);
  int64_t group_size = 1;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    std::vector<std::size_t> here;
    for (std::size_t p = 0; p < parts.size(); ++p)
      if (parts[p].axis == static_cast<int64_t>(axis)) here.push_back(p);
    std::sort(here.begin(), here.end(), [&](std::size_t a, std::size_t b) { return parts[a].above < parts[b].above; });
    int64_t covered = 1;
    for (std::size_t p : here) {
      if (parts[p].above % covered != 0) return lex_.Error(begin, "the parts of a mesh axis overlap");
      if (parts[p].above / covered > 1) {
        order.push_back(dims.ssize());
        dims.push_back(parts[p].above / covered);
      }
      place[p] = dims.ssize();
      dims.push_back(parts[p].size);
      covered = parts[p].above * parts[p].size;
      group_size *= parts[p].size;
      if (sizes[axis] % covered != 0) return lex_.Error(begin, "the parts of a mesh axis overlap");
    }
    if (sizes[axis] / covered > 1 || here.empty()) {
      order.push_back(dims.ssize());
      dims.push_back(sizes[axis] / covered);
    }
  }
  for (int64_t p : place) order.push_back(p);
  return ExpandGroups(dims, order, group_size, devices, begin);
}

}  // namespace krafla::hlo_text
