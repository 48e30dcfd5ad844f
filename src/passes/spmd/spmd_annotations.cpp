// SPDX-License-Identifier: Apache-2.0
// The custom calls by which a program says where its arrays lie: GSPMD's
// (xla/service/spmd/spmd_partitioner.cc, HandleCustomCall) and Shardy's
// (xla/service/spmd/shardy/constants.h).
#include <algorithm>

#include "ir/builder.h"
#include "ir/custom_call.h"
#include "ir/sharding_scanner.h"
#include "passes/spmd/spmd_walk.h"

namespace krafla::spmd {
namespace {

constexpr std::string_view kInShardings = "xla.sdy.in_shardings", kOutShardings = "xla.sdy.out_shardings",
                           kManualAxes = "xla.sdy.manual_axes", kSdySharding = "xla.sdy.sharding";

// Along the axes that the region is manual in, the part of a dimension's split that makes `whole`
// into `part`.
Result<Split> ManualPart(const Split& split, int64_t whole, int64_t part) {
  const int64_t ratio = part > 0 ? whole / part : 1;
  Split out;
  if (ratio == 1 && whole == part) return out;
  if (part <= 0 || whole % part != 0 || split.count % ratio != 0)
    return InvalidArgument("A dimension of {} elements that is cut into {} has {} in a manual computation.", whole,
                           split.count, part);
  out.count = ratio;
  const auto inner = static_cast<int32_t>(split.count / ratio);
  for (int32_t b : split.block) out.block.push_back(b / inner);
  return out;
}

// Whether `local` is an even block of `global`.
bool IsBlock(const Shape& local, const Shape& global, const Sharding& sharding) {
  if (local.element_type() != global.element_type() || local.rank() != global.rank()) return false;
  for (int64_t d = 0; d < global.rank(); ++d)
    if (global.dim(d) % sharding.dim(d).count != 0 || global.dim(d) / sharding.dim(d).count != local.dim(d))
      return false;
  return true;
}

// The array that an annotation passes on, of the same type and as many dimensions; of the same bounds too unless the
// annotation turns arrays into their blocks or back, which it does to arrays of static bounds only.
Result<> CheckPassedOn(const Instruction& i, bool resizes) {
  const Shape &from = i.operand(0)->shape(), &to = i.shape();
  const bool fixed = !to.IsArray() || to.IsDynamic() || from.IsDynamic();
  if (from.element_type() == to.element_type() && from.rank() == to.rank() &&
      ((resizes && !fixed) || Shape::Compatible(to, from)))
    return {};
  return InvalidArgument("{0} cannot turn {2} into {1}.", Describe(i), to.ToString(false), from.ToString(false));
}

// "unspecified_dims=[0,2]": the dimensions that a constraint leaves open.
std::vector<int64_t> UnspecifiedDims(std::string_view config) {
  std::vector<int64_t> out;
  constexpr std::string_view kKey = "unspecified_dims";
  const std::size_t at = config.find(kKey);
  if (at == config.npos) return out;
  ShardingScanner s(config.substr(at + kKey.size()));
  if (!s.Accept('=') || !s.Accept('[')) return out;
  while (!s.Accept(']')) {
    auto one = s.Number();
    if (!one) return {};
    out.push_back(*one);
    s.Accept(',');
  }
  return out;
}

}  // namespace

std::string_view FrontendAttribute(const InstructionMetadata& metadata, std::string_view key) {
  const std::string_view all = metadata.frontend_attributes;
  for (std::size_t at = all.find(key); at != all.npos; at = all.find(key, at + 1)) {
    std::size_t begin = at + key.size();
    if (all.substr(begin, 2) != "=\"" || (at > 0 && all[at - 1] != ',' && all[at - 1] != ' ')) continue;
    begin += 2;
    std::size_t end = begin;
    while (end < all.size() && all[end] != '"') end += all[end] == '\\' ? 2 : 1;
    return all.substr(begin, std::min(end, all.size()) - begin);
  }
  return {};
}

const Region* Walk::RegionAlong(const Region* parent, const std::vector<Split>& splits) {
  std::vector<Split> all = parent != nullptr ? parent->splits : std::vector<Split>();
  for (const Split& s : splits)
    if (!s.whole()) all.push_back(s);
  for (const Region& r : regions_)
    if (r.parent == parent && r.splits == all) return &r;
  regions_.push_back({parent, DepthOf(parent) + 1, std::move(all)});
  return &regions_.back();
}

Result<const Region*> Walk::ManualRegion(const Instruction& annotation, const Region* parent,
                                         std::vector<std::string>* axes) {
  KRAFLA_ASSIGN(*axes, ParseSdyManualAxes(FrontendAttribute(annotation.metadata(), kManualAxes)));
  std::string_view shardings = FrontendAttribute(annotation.metadata(), kInShardings);
  if (shardings.empty()) shardings = FrontendAttribute(annotation.metadata(), kOutShardings);
  KRAFLA_ASSIGN(std::vector<SdySharding> read, ParseSdyShardings(shardings, meshes_));
  std::vector<Split> splits;
  // Of all shardings: those of scalars may name no axis, but all are over one mesh.
  for (const SdySharding& one : read) {
    if (one.mesh.axes.empty()) continue;
    for (const std::string& axis : *axes) {
      KRAFLA_ASSIGN(Split split, SplitAlong(one.mesh, {axis, 0, 0}, devices()));
      splits.push_back(std::move(split));
    }
    break;
  }
  return RegionAlong(parent, splits);
}

Result<const Region*> Walk::RegionOfBody(const Instruction& call, const Region* parent) {
  std::vector<std::string> axes;
  if (!FrontendAttribute(call.metadata(), kInShardings).empty() && call.operand_count() > 0)
    return ManualRegion(call, parent, &axes);
  std::vector<const Instruction*> users(call.users().begin(), call.users().end());
  for (std::size_t n = 0; n < users.size(); ++n) {
    if (users[n]->opcode() == Opcode::kGetTupleElement)
      users.insert(users.end(), users[n]->users().begin(), users[n]->users().end());
    else if (!FrontendAttribute(users[n]->metadata(), kOutShardings).empty())
      return ManualRegion(*users[n], parent, &axes);
  }
  return parent;
}

Result<std::optional<Value>> Walk::Annotation(const Instruction& i, Scope& scope) {
  switch (CustomCallTargetOf(i)) {
    case CustomCallTarget::kSdyGlobalToLocalShape: return GlobalToLocal(i, scope);
    case CustomCallTarget::kSdyLocalToGlobalShape: return LocalToGlobal(i, scope);
    case CustomCallTarget::kSdyShardingGroup:
    case CustomCallTarget::kControlDependency: {
      if (!i.shape().IsTuple() || !i.shape().tuple_elements().empty()) return std::nullopt;
      Value nothing;
      nothing.is_tuple = true;
      return nothing;
    }
    // Of layouts and memories: the value itself.
    case CustomCallTarget::kLayoutConstraint:
    case CustomCallTarget::kMoveToHost:
    case CustomCallTarget::kMoveToDevice:
    case CustomCallTarget::kDevicePlacement:
      if (i.operand_count() != 1 || !Shape::Compatible(i.shape(), i.operand(0)->shape())) return std::nullopt;
      return scope.values.at(i.operand(0));
    case CustomCallTarget::kInspectSharding:
      if (i.operand_count() != 1 || !Shape::Compatible(i.shape(), i.operand(0)->shape())) return std::nullopt;
      KRAFLA_TRY(Inspect(i, scope.values.at(i.operand(0)), scope));
      return scope.values.at(i.operand(0));
    case CustomCallTarget::kSharding:
    case CustomCallTarget::kSdyFuncResultSharding: {
      if (i.operand_count() != 1) return std::nullopt;
      KRAFLA_TRY(CheckPassedOn(i, false));
      return Constrain(i, scope.values.at(i.operand(0)), scope.emitter);
    }
    case CustomCallTarget::kFullToShardShape: {
      if (i.operand_count() != 1) return std::nullopt;
      KRAFLA_TRY(CheckPassedOn(i, true));
      return FullToShard(i, scope.values.at(i.operand(0)), scope);
    }
    case CustomCallTarget::kShardToFullShape: {
      if (i.operand_count() != 1) return std::nullopt;
      KRAFLA_TRY(CheckPassedOn(i, true));
      return ShardToFull(i, scope.values.at(i.operand(0)), scope);
    }
    case CustomCallTarget::kDceSink:
#define KRAFLA_SDY_OTHER(Enum, name) case CustomCallTarget::Enum:
#define KRAFLA_COMPUTATION(Enum, name) case CustomCallTarget::Enum:
#define KRAFLA_READER_CALL(Enum, name) case CustomCallTarget::Enum:
#include "ir/custom_call_targets.def"
    case CustomCallTarget::kUnknown: return std::nullopt;
  }
  KRAFLA_UNREACHABLE();
}

// What lies in a region of manual axes is each device's own, as XLA's partitioner says of it.
Result<> Walk::Inspect(const Instruction& i, const Value& value, const Scope& scope) const {
  if (!options_.inspect_sharding || tried_loops_ != 0 || !value.IsArray()) return {};
  Sharding sharding;
  sharding.all_manual = scope.region != nullptr;
  if (!sharding.all_manual) sharding.dims = value.dims;
  const std::string text = ShardingToText(sharding, i.shape().rank(), devices());
  return options_.inspect_sharding(i.metadata().backend_config, text);
}

Result<std::optional<Sharding>> Walk::ConstraintOf(const Instruction& i) const {
  if (!i.metadata().sharding.empty()) return ParseSharding(i.metadata().sharding, devices());
  const std::string_view sdy = FrontendAttribute(i.metadata(), kSdySharding);
  if (sdy.empty()) return std::nullopt;
  std::vector<SdySharding> read;
  if (sdy.starts_with("#sdy.sharding_per_value")) {
    KRAFLA_ASSIGN(read, ParseSdyShardings(sdy, meshes_));
  } else {
    KRAFLA_ASSIGN(SdySharding one, ParseSdySharding(sdy, meshes_));
    read.push_back(std::move(one));
  }
  if (read.size() != 1) return InvalidArgument("A value has {} shardings.", read.size());
  return ShardingOf(read[0], devices());
}

namespace {

// The constraint that is all that reads an array.
const Instruction* OnlyConstraint(const Instruction& i) {
  if (i.users().size() != 1 || i.users()[0]->opcode() != Opcode::kCustomCall || !i.shape().IsArray()) return nullptr;
  const CustomCallTarget target = CustomCallTargetOf(*i.users()[0]);
  const bool is_one = target == CustomCallTarget::kSharding || target == CustomCallTarget::kSdyFuncResultSharding;
  return is_one ? i.users()[0] : nullptr;
}

}  // namespace

Result<std::vector<Split>> Walk::PartsWanted(const Instruction& i) const {
  const Instruction* user = OnlyConstraint(i);
  if (user == nullptr) return std::vector<Split>();
  KRAFLA_ASSIGN(std::optional<Sharding> want, ConstraintOf(*user));
  return want ? std::move(want->unreduced) : std::vector<Split>();
}

std::vector<int64_t> Walk::OpenDims(const Instruction& i) {
  const Instruction* user = OnlyConstraint(i);
  return user == nullptr ? std::vector<int64_t>() : UnspecifiedDims(user->metadata().backend_config);
}

// It says nothing about results.
Result<Value> Walk::Constrain(const Instruction& i, Value value, Emitter& emitter) {
  if (!value.IsArray() || value.local->shape().IsDynamic()) return value;
  KRAFLA_ASSIGN(std::optional<Sharding> given, ConstraintOf(i));
  if (!given) return value;
  const Sharding& want = *given;
  if (want.all_manual || want.unknown || want.only) return value;
  const Shape& shape = i.shape();
  if (want.dims.size() > value.dims.size())
    return InvalidArgument("A sharding has {} dimensions, its value {}.", want.dims.size(), value.dims.size());
  std::vector<Split> dims = WholeDims(shape.rank());
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const Split& split = want.dim(static_cast<int64_t>(d));
    if (MayBeCutInto(shape.dims()[d], split)) dims[d] = split;
  }
  for (int64_t d : UnspecifiedDims(i.metadata().backend_config))
    if (d >= 0 && d < shape.rank() && dims[static_cast<std::size_t>(d)].whole()) {
      dims[static_cast<std::size_t>(d)] = value.dims[static_cast<std::size_t>(d)];
      if (!Covers(dims, value.region, devices())) dims[static_cast<std::size_t>(d)] = Split();
    }
  if (!Covers(Together(dims, want.unreduced), value.region, devices())) return value;
  return emitter.ReshardTo(std::move(value), dims, want.unreduced);
}

// A region that is manual in some axes only: how a value that goes in or out may stay cut along the others. Those
// dimensions that the sharding leaves open and does not cut, as far as every block is somewhere, in the region and out
// of it.
std::vector<Split> Walk::FreeSplits(const Value& value, const SdySharding& sdy, const Sharding& manual,
                                    const Region* inside, const Region* outside) const {
  std::vector<Split> free = WholeDims(static_cast<int64_t>(value.dims.size()));
  std::vector<Split> all = Together(manual.dims, manual.unreduced);
  for (std::size_t d = 0; d < free.size(); ++d) {
    if (d >= sdy.open_dims.size() || !sdy.open_dims[d] || !manual.dim(static_cast<int64_t>(d)).whole()) continue;
    free[d] = value.dims[d];
    all[d] = value.dims[d];
    if (Covers(free, inside, devices()) && Covers(all, outside, devices())) continue;
    free[d] = all[d] = Split();
  }
  return free;
}

Result<Value> Walk::GlobalToLocal(const Instruction& i, Scope& scope) {
  std::vector<std::string> axes;
  KRAFLA_ASSIGN(const Region* region, ManualRegion(i, scope.region, &axes));
  KRAFLA_ASSIGN(std::vector<SdySharding> shardings,
                ParseSdyShardings(FrontendAttribute(i.metadata(), kInShardings), meshes_));
  const bool tuple = i.shape().IsTuple();
  if (shardings.size() != i.operand_count() || (!tuple && i.operand_count() != 1) ||
      (tuple && i.shape().tuple_elements().size() != i.operand_count()))
    return InvalidArgument("A manual computation has {} shardings for {} operands.", shardings.size(),
                           i.operand_count());
  Value out;
  out.is_tuple = true;
  for (std::size_t o = 0; o < i.operand_count(); ++o) {
    const Shape& local = tuple ? i.shape().tuple_elements()[o] : i.shape();
    Value value = scope.values.at(i.operand(o));
    if (!value.IsArray() || value.local->shape().IsDynamic()) {
      if (!Shape::Compatible(local, i.operand(o)->shape()))
        return InvalidArgument("Operand {} of a manual computation is {}; it cannot be cut into {}.", o,
                               i.operand(o)->shape().ToString(false), local.ToString(false));
      KRAFLA_ASSIGN(value, InRegion(std::move(value), region, scope.emitter));
    } else {
      KRAFLA_ASSIGN(Sharding sharding, ShardingOf(shardings[o], devices(), &axes));
      sharding.dims.resize(value.dims.size());
      if (!IsBlock(local, i.operand(o)->shape(), sharding))
        return InvalidArgument("Operand {} of a manual computation is {}; cut into {} blocks it is not {}.", o,
                               i.operand(o)->shape().ToString(false), sharding.blocks(), local.ToString(false));
      const std::vector<Split> free = FreeSplits(value, shardings[o], sharding, region, scope.region);
      std::vector<Split> cut = sharding.dims;
      for (std::size_t d = 0; d < cut.size(); ++d)
        if (!free[d].whole()) cut[d] = free[d];
      KRAFLA_ASSIGN(value, scope.emitter.ReshardTo(std::move(value), cut, sharding.unreduced));
      value.unreduced.clear();  // within, each device has a value of its own
      value.dims = free;
    }
    value.region = region;
    out.elements.push_back(std::move(value));
  }
  if (!tuple) return std::move(out.elements[0]);
  return out;
}

Result<Value> Walk::LocalToGlobal(const Instruction& i, Scope& scope) {
  std::vector<std::string> axes;
  KRAFLA_ASSIGN(const Region* region, ManualRegion(i, scope.region, &axes));
  KRAFLA_ASSIGN(std::vector<SdySharding> shardings,
                ParseSdyShardings(FrontendAttribute(i.metadata(), kOutShardings), meshes_));
  const bool tuple = i.shape().IsTuple();
  if (shardings.size() != i.operand_count() || (!tuple && i.operand_count() != 1) ||
      (tuple && i.shape().tuple_elements().size() != i.operand_count()))
    return InvalidArgument("A manual computation has {} shardings for {} results.", shardings.size(),
                           i.operand_count());
  Value out;
  out.is_tuple = true;
  for (std::size_t o = 0; o < i.operand_count(); ++o) {
    const Shape& global = tuple ? i.shape().tuple_elements()[o] : i.shape();
    KRAFLA_ASSIGN(Value value, InRegion(scope.values.at(i.operand(o)), region, scope.emitter));
    if (!value.IsArray() || value.local->shape().IsDynamic()) {
      KRAFLA_ASSIGN(value, scope.emitter.Whole(std::move(value)));
      if (!Shape::Compatible(global, i.operand(o)->shape()))
        return InvalidArgument("Result {} of a manual computation is {}; it cannot be put together to {}.", o,
                               i.operand(o)->shape().ToString(false), global.ToString(false));
    } else {
      KRAFLA_ASSIGN(Sharding sharding, ShardingOf(shardings[o], devices(), &axes));
      sharding.dims.resize(value.dims.size());
      if (!IsBlock(i.operand(o)->shape(), global, sharding))
        return InvalidArgument("Result {} of a manual computation is {}; {} blocks of it are not {}.", o,
                               i.operand(o)->shape().ToString(false), sharding.blocks(), global.ToString(false));
      KRAFLA_ASSIGN(value, scope.emitter.Settle(std::move(value)));
      const std::vector<Split> free = FreeSplits(value, shardings[o], sharding, region, scope.region);
      KRAFLA_ASSIGN(value, scope.emitter.Reshard(std::move(value), free));
      value.dims = std::move(sharding.dims);
      for (std::size_t d = 0; d < value.dims.size(); ++d)
        if (!free[d].whole()) value.dims[d] = free[d];
      value.unreduced = std::move(sharding.unreduced);
      if (!Covers(Together(value.dims, value.unreduced), scope.region, devices()))
        return InvalidArgument("Result {} of a manual computation has blocks that no device has.", o);
    }
    value.region = scope.region;
    out.elements.push_back(std::move(value));
  }
  if (!tuple) return std::move(out.elements[0]);
  return out;
}

Result<Value> Walk::FullToShard(const Instruction& i, Value value, Scope& scope) {
  KRAFLA_ASSIGN(Sharding own,
                ParseSharding(i.metadata().sharding.empty() ? "{manual}" : i.metadata().sharding, devices()));
  KRAFLA_ASSIGN(
      Sharding given,
      ParseSharding(i.operand(0)->metadata().sharding.empty() ? "{replicated}" : i.operand(0)->metadata().sharding,
                    devices()));
  std::vector<Split> along = own.manual;
  if (own.all_manual || along.empty()) {
    along = {Split()};
    along[0].count = devices();
    for (int64_t d = 0; d < devices(); ++d) along[0].block.push_back(static_cast<int32_t>(d));
  }
  const Region* region = RegionAlong(scope.region, along);
  if (value.IsArray()) {
    std::vector<Split> dims;
    for (int64_t d = 0; d < i.shape().rank(); ++d) {
      KRAFLA_ASSIGN(Split part, ManualPart(given.dim(d), i.operand(0)->shape().dim(d), i.shape().dim(d)));
      dims.push_back(std::move(part));
    }
    KRAFLA_ASSIGN(value, scope.emitter.Settle(std::move(value)));
    KRAFLA_ASSIGN(value, scope.emitter.Reshard(std::move(value), dims));
    value.dims = WholeDims(i.shape().rank());
  }
  value.region = region;
  return value;
}

Result<Value> Walk::ShardToFull(const Instruction& i, Value value, Scope& scope) {
  KRAFLA_ASSIGN(value, scope.emitter.Whole(std::move(value)));
  if (value.IsArray()) {
    KRAFLA_ASSIGN(Sharding given,
                  ParseSharding(i.metadata().sharding.empty() ? "{replicated}" : i.metadata().sharding, devices()));
    std::vector<Split> dims;
    for (int64_t d = 0; d < i.shape().rank(); ++d) {
      KRAFLA_ASSIGN(Split part, ManualPart(given.dim(d), i.shape().dim(d), i.operand(0)->shape().dim(d)));
      dims.push_back(std::move(part));
    }
    if (!Covers(dims, scope.region, devices()))
      return InvalidArgument("The result of a manual computation has blocks that no device has.");
    value.dims = std::move(dims);
  }
  value.region = scope.region;
  return value;
}

}  // namespace krafla::spmd
