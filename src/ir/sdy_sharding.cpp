// SPDX-License-Identifier: Apache-2.0
#include "ir/sdy_sharding.h"

#include <algorithm>

#include "base/checked_math.h"
#include "ir/shape_rules.h"
#include "ir/sharding_scanner.h"

namespace krafla {
namespace {

Result<int64_t> SizeOf(const SdyMesh& mesh) {
  int64_t out = 1;
  for (const auto& [name, size] : mesh.axes) {
    auto next = size < 1 ? std::nullopt : CheckedMul(out, size);
    if (!next || *next > kMaxDevices)
      return InvalidArgument("The axis '{}' of a mesh has the size {}; a mesh has at most {} devices.", name, size,
                             kMaxDevices);
    out = *next;
  }
  return out;
}

// "<["a"=2], device_ids=[1, 0]>"
Result<SdyMesh> MeshBody(ShardingScanner& s) {
  SdyMesh out;
  KRAFLA_TRY(s.Expect('<'));
  KRAFLA_TRY(s.Expect('['));
  while (!s.Accept(']')) {
    KRAFLA_ASSIGN(std::string name, s.Quoted());
    KRAFLA_TRY(s.Expect('='));
    KRAFLA_ASSIGN(int64_t size, s.Number());
    for (const auto& [other, ignored] : out.axes)
      if (other == name) return InvalidArgument("A mesh has two axes '{}'.", name);
    out.axes.emplace_back(std::move(name), size);
    s.Accept(',');
  }
  KRAFLA_ASSIGN(int64_t size, SizeOf(out));
  if (s.Accept(',')) {
    if (s.Word() != "device_ids") return s.Bad("device_ids");
    KRAFLA_TRY(s.Expect('='));
    KRAFLA_TRY(s.Expect('['));
    while (!s.Accept(']')) {
      KRAFLA_ASSIGN(int64_t id, s.Number());
      out.devices.push_back(id);
      s.Accept(',');
    }
    std::vector<int64_t> sorted = out.devices;
    std::ranges::sort(sorted);
    bool each = static_cast<int64_t>(sorted.size()) == size;
    for (std::size_t i = 0; each && i < sorted.size(); ++i)
      each = sorted[i] == static_cast<int64_t>(i) || out.axes.empty();
    if (!each) return InvalidArgument("A mesh of {} devices names others, or not each once.", size);
  }
  KRAFLA_TRY(s.Expect('>'));
  return out;
}

// {"x", "y":(2)4, ?}p1
Result<std::vector<SdyAxis>> AxisList(ShardingScanner& s, bool* open) {
  std::vector<SdyAxis> out;
  KRAFLA_TRY(s.Expect('{'));
  while (!s.Accept('}')) {
    if (s.Accept('?')) {
      if (open != nullptr) *open = true;
    } else {
      SdyAxis axis;
      KRAFLA_ASSIGN(axis.name, s.Quoted());
      if (s.Accept(":(")) {
        KRAFLA_ASSIGN(axis.pre_size, s.Number());
        KRAFLA_TRY(s.Expect(')'));
        KRAFLA_ASSIGN(axis.size, s.Number());
      }
      out.push_back(std::move(axis));
    }
    s.Accept(',');
  }
  if (s.Is('p')) s.Word();  // a priority
  return out;
}

Result<SdySharding> ShardingBody(ShardingScanner& s, const SdyMeshes& meshes) {
  SdySharding out;
  KRAFLA_TRY(s.Expect('<'));
  if (s.Accept('@')) {
    std::string name;
    if (s.Is('"')) {
      KRAFLA_ASSIGN(name, s.Quoted());
    } else {
      name = s.Word();
    }
    auto it = meshes.find(name);
    if (it == meshes.end()) return InvalidArgument("A sharding names the mesh '{}', which is not defined.", name);
    out.mesh = it->second;
  } else if (s.Word() == "mesh") {
    KRAFLA_ASSIGN(out.mesh, MeshBody(s));
  } else {
    return s.Bad("a mesh");
  }
  KRAFLA_TRY(s.Expect(','));
  KRAFLA_TRY(s.Expect('['));
  while (!s.Accept(']')) {
    bool open = false;
    KRAFLA_ASSIGN(std::vector<SdyAxis> axes, AxisList(s, &open));
    out.open_dims.push_back(open);
    out.dims.push_back(std::move(axes));
    s.Accept(',');
  }
  while (s.Accept(',')) {
    const std::string_view word = s.Word();
    KRAFLA_TRY(s.Expect('='));
    const bool sum = s.Accept("sum") || s.Is('{');
    if (!sum && !s.Accept("max") && !s.Accept("min")) return s.Bad("axes");
    KRAFLA_ASSIGN(std::vector<SdyAxis> axes, AxisList(s, nullptr));
    if (word == "unreduced" && !sum)
      return Unimplemented("Parts of a maximum or minimum in a sharding are not supported.");
    if (word == "unreduced") out.unreduced = std::move(axes);
    else if (word != "replicated") return s.Bad("replicated or unreduced");
  }
  KRAFLA_TRY(s.Expect('>'));
  return out;
}

}  // namespace

Result<SdyMesh> ParseSdyMesh(std::string_view text) {
  const std::size_t at = text.find('<');
  ShardingScanner s(text.substr(std::min(at, text.size())));
  return MeshBody(s);
}

Result<SdyMeshes> ParseSdyMeshes(std::string_view text) {
  constexpr std::string_view kMark = "#sdy.mesh";
  SdyMeshes out;
  for (std::size_t at = text.find(kMark); at != text.npos; at = text.find(kMark, at + 1)) {
    std::size_t end = at;
    while (end > 0 && (text[end - 1] == ' ' || text[end - 1] == '=')) --end;
    if (end > 0 && text[end - 1] == '"') --end;
    if (end > 0 && text[end - 1] == '\\') --end;
    std::size_t begin = end;
    auto letter = [](char c) { return c != ' ' && c != '{' && c != ',' && c != '"' && c != '\\' && c != '='; };
    while (begin > 0 && letter(text[begin - 1])) --begin;
    ShardingScanner s(text.substr(at + kMark.size()));
    KRAFLA_ASSIGN(out[std::string(text.substr(begin, end - begin))], MeshBody(s));
  }
  return out;
}

Result<SdySharding> ParseSdySharding(std::string_view text, const SdyMeshes& meshes) {
  ShardingScanner s(text);
  s.Accept("#sdy.sharding");
  KRAFLA_ASSIGN(SdySharding out, ShardingBody(s, meshes));
  if (!s.AtEnd()) return s.Bad("the end");
  return out;
}

Result<std::vector<SdySharding>> ParseSdyShardings(std::string_view text, const SdyMeshes& meshes) {
  std::vector<SdySharding> out;
  ShardingScanner s(text);
  const bool named = s.Accept("#sdy.sharding_per_value");
  if (named) KRAFLA_TRY(s.Expect('<'));
  KRAFLA_TRY(s.Expect('['));
  while (!s.Accept(']')) {
    s.Accept("#sdy.sharding");
    KRAFLA_ASSIGN(SdySharding one, ShardingBody(s, meshes));
    out.push_back(std::move(one));
    s.Accept(',');
  }
  if (named) KRAFLA_TRY(s.Expect('>'));
  if (!s.AtEnd()) return s.Bad("the end");
  return out;
}

Result<std::vector<std::string>> ParseSdyManualAxes(std::string_view text) {
  std::vector<std::string> out;
  ShardingScanner s(text);
  const bool named = s.Accept("#sdy<manual_axes");
  KRAFLA_TRY(s.Expect('{'));
  while (!s.Accept('}')) {
    KRAFLA_ASSIGN(std::string name, s.Quoted());
    out.push_back(std::move(name));
    s.Accept(',');
  }
  if (named) KRAFLA_TRY(s.Expect('>'));
  if (!s.AtEnd()) return s.Bad("the end");
  return out;
}

Result<Split> SplitAlong(const SdyMesh& mesh, const SdyAxis& axis, int64_t devices) {
  KRAFLA_ASSIGN(int64_t total, SizeOf(mesh));
  // Programs keep the shardings over one device that they were exported with; nothing is cut by them.
  if (total == 1 && std::ranges::find(mesh.axes, axis.name, [](const auto& a) { return a.first; }) != mesh.axes.end())
    return Split();
  if (total != devices)
    return InvalidArgument("A sharding is over a mesh of {} devices; the program has {} partitions.", total, devices);
  int64_t inner = total;
  for (const auto& [name, whole] : mesh.axes) {
    inner /= whole;
    if (name != axis.name) continue;
    int64_t size = whole, after = 1;
    if (axis.size != 0 || axis.pre_size != 0) {
      auto used = axis.size < 1 || axis.pre_size < 1 ? std::nullopt : CheckedMul(axis.size, axis.pre_size);
      if (!used || whole % *used != 0)
        return InvalidArgument("The part ({}){} of the axis '{}' does not divide its size of {}.", axis.pre_size,
                               axis.size, name, whole);
      size = axis.size;
      after = whole / *used;
    }
    Split out;
    out.count = size;
    if (out.whole()) return out;
    out.block.resize(static_cast<std::size_t>(devices));
    for (int64_t p = 0; p < devices; ++p) {
      const int64_t device = mesh.devices.empty() ? p : mesh.devices[static_cast<std::size_t>(p)];
      out.block[static_cast<std::size_t>(device)] = static_cast<int32_t>(p / inner % whole / after % size);
    }
    return out;
  }
  return InvalidArgument("A sharding names the axis '{}', which its mesh does not have.", axis.name);
}

Result<Sharding> ShardingOf(const SdySharding& sdy, int64_t devices, const std::vector<std::string>* only) {
  Sharding out;
  // No axes: on one device where it says which, else everywhere.
  if (sdy.mesh.axes.empty()) {
    if (sdy.mesh.devices.size() == 1 && devices > 1) {
      if (sdy.mesh.devices[0] < 0 || sdy.mesh.devices[0] >= devices)
        return InvalidArgument("A mesh names device {}; the program has {} partitions.", sdy.mesh.devices[0], devices);
      out.only = sdy.mesh.devices[0];
    }
    return out;
  }
  for (const std::vector<SdyAxis>& axes : sdy.dims) {
    Split split;
    for (const SdyAxis& axis : axes) {
      if (only != nullptr && std::ranges::find(*only, axis.name) == only->end()) continue;
      KRAFLA_ASSIGN(Split one, SplitAlong(sdy.mesh, axis, devices));
      if (split.count * one.count > devices)
        return InvalidArgument("A sharding cuts a dimension along the axis '{}' twice.", axis.name);
      split = Combine(split, one);
    }
    out.dims.push_back(std::move(split));
  }
  for (const SdyAxis& axis : sdy.unreduced) {
    if (only != nullptr && std::ranges::find(*only, axis.name) == only->end()) continue;
    KRAFLA_ASSIGN(Split one, SplitAlong(sdy.mesh, axis, devices));
    if (!one.whole()) out.unreduced.push_back(std::move(one));
  }
  // Two dimensions cut along one axis would leave blocks without a device.
  int64_t blocks = 1;
  for (const Split& s : out.dims) {
    if (blocks * s.count > devices) return InvalidArgument("A sharding has more blocks than there are devices.");
    blocks *= s.count;
  }
  return out;
}

}  // namespace krafla
