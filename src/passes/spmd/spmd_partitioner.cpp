// SPDX-License-Identifier: Apache-2.0
// A program over several devices that is written as one: parameters and results become the blocks
// that one device has, and what lies between is done block by block where there is a rule for it
// (spmd_rules.cpp), and on whole arrays, which the devices put together by an all-gather, where
// there is none. Shardings go from operands to results only; a constraint is followed where it
// stands (docs/collectives.md).
#include "passes/spmd/spmd_partitioner.h"

#include <algorithm>

#include "ir/builder.h"
#include "ir/custom_call.h"
#include "passes/custom_partitioner.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/spmd/spmd_walk.h"

namespace krafla {
namespace {

using spmd::Emitter;
using spmd::Value;
using spmd::Walk;

constexpr std::string_view kMeshes = "frontend_attributes";

// Whether a call says that its module is still to be partitioned. Annotations of layouts and memories do not.
bool IsMark(CustomCallTarget target) {
  switch (target) {
    case CustomCallTarget::kSharding:
    case CustomCallTarget::kFullToShardShape:
    case CustomCallTarget::kShardToFullShape:
    case CustomCallTarget::kInspectSharding:
    case CustomCallTarget::kSdyShardingGroup:
#define KRAFLA_SDY_ANNOTATION(Enum, name) case CustomCallTarget::Enum:
#define KRAFLA_SDY_OTHER(Enum, name) case CustomCallTarget::Enum:
#include "ir/custom_call_targets.def"
      return true;
    case CustomCallTarget::kLayoutConstraint:
    case CustomCallTarget::kDevicePlacement:
    case CustomCallTarget::kMoveToHost:
    case CustomCallTarget::kMoveToDevice:
    case CustomCallTarget::kDceSink:
    case CustomCallTarget::kControlDependency:
#define KRAFLA_COMPUTATION(Enum, name) case CustomCallTarget::Enum:
#define KRAFLA_READER_CALL(Enum, name) case CustomCallTarget::Enum:
#include "ir/custom_call_targets.def"
    case CustomCallTarget::kUnknown: return false;
  }
  KRAFLA_UNREACHABLE();
}

// A module says nowhere whether it has been partitioned. One that has may keep the shardings of its
// parameters, but then it has collectives or knows its partition; one that has not says more, or
// has neither.
bool NeedsPartitioning(const Module& module, const CustomPartitioner* custom) {
  if (module.num_partitions < 2 || module.entry() == nullptr) return false;
  bool marked = !module.entry()->root()->metadata().sharding.empty(), sharded = marked, between_devices = false;
  for (const Instruction* p : module.entry()->parameters()) {
    sharded |= !p->metadata().sharding.empty();
    marked |= !spmd::FrontendAttribute(p->metadata(), "xla.sdy.sharding").empty();
  }
  for (const auto& [key, value] : module.other_attributes)
    marked |= key == kMeshes && value.find("xla.sdy.meshes") != std::string::npos;
  for (const Computation* c : ReachableComputations(module))
    for (const auto& i : c->instructions()) {
      marked |= IsMark(CustomCallTargetOf(*i));
      marked |= custom != nullptr && i->opcode() == Opcode::kCustomCall &&
                custom->Takes(i->attr<CustomCallAttributes>().target);
      between_devices |= i->opcode() == Opcode::kPartitionId || HasTrait(i->opcode(), op_trait::kCollective);
    }
  return marked || (sharded && !between_devices);
}

Result<SdyMeshes> MeshesOf(const Module& module) {
  SdyMeshes out;
  for (const auto& [key, value] : module.other_attributes) {
    if (key != kMeshes) continue;
    KRAFLA_ASSIGN(SdyMeshes more, ParseSdyMeshes(value));
    out.merge(more);
  }
  return out;
}

// The shardings of an instruction's leaves; unknown where it says nothing. One for a tuple is that
// of all its leaves.
Result<std::vector<Sharding>> ShardingsOf(const Instruction& i, const SdyMeshes& meshes, int64_t devices) {
  const std::size_t leaves = LeafCount(i.shape());
  std::vector<Sharding> out;
  if (!i.metadata().sharding.empty()) {
    KRAFLA_ASSIGN(out, ParseShardings(i.metadata().sharding, devices));
  } else if (std::string_view sdy = spmd::FrontendAttribute(i.metadata(), "xla.sdy.sharding");
             i.opcode() == Opcode::kParameter && sdy.starts_with("#sdy.sharding<")) {
    KRAFLA_ASSIGN(SdySharding read, ParseSdySharding(sdy, meshes));
    KRAFLA_ASSIGN(Sharding one, ShardingOf(read, devices));
    out.push_back(std::move(one));
  } else {
    Sharding unknown;
    unknown.unknown = true;
    out.push_back(unknown);
  }
  if (out.size() == 1) out.assign(leaves, Sharding(out[0]));
  if (out.size() != leaves)
    return InvalidArgument("{} has {} leaves, but a sharding of {}.", Describe(i), leaves, out.size());
  return out;
}

class Entry {
 public:
  Entry(Module& module, const PassOptions& options, SdyMeshes meshes)
      : module_(module), meshes_(meshes), walk_(module, options, std::move(meshes)) {}

  Result<SpmdShardings> Partition() {
    const Computation& old = *module_.entry();
    for (Computation* c : ReachableComputations(module_)) KRAFLA_TRY(c->SortTopologically());
    Computation* made = module_.AddComputation(old.name());
    Emitter emitter(module_, *made, walk_.channels());
    std::vector<Value> arguments;
    for (const Instruction* p : old.parameters()) {
      emitter.set_origin(p);
      auto argument = Parameter(*p, emitter);
      if (!argument)
        return Failure(std::move(argument).error().WithContext(Format("while partitioning {}", Describe(*p))));
      arguments.push_back(std::move(*argument));
    }
    KRAFLA_ASSIGN(const std::vector<Sharding> wanted, ShardingsOf(*old.root(), meshes_, module_.num_partitions));
    KRAFLA_ASSIGN(Value result, walk_.Run(old, std::move(arguments), nullptr, emitter, wanted));
    emitter.set_origin(old.root());
    KRAFLA_ASSIGN(Instruction * root, Root(*old.root(), std::move(result), emitter));
    made->set_root(root);
    KRAFLA_TRY(emitter.FinishSums());
    module_.set_entry(made);
    KRAFLA_TRY(Header(old));
    shardings_.gathers = walk_.channels()->gathers;
    return std::move(shardings_);
  }

 private:
  Result<> CheckSharding(const Sharding& sharding, const Shape& shape) const {
    if (sharding.all_manual || !sharding.manual.empty())
      return Unimplemented("A manual sharding of a parameter or result is not supported.");
    if (static_cast<int64_t>(sharding.dims.size()) > shape.rank())
      return InvalidArgument("The sharding of {} has {} dimensions.", shape.ToString(false), sharding.dims.size());
    if (shape.IsDynamic() && !sharding.IsReplicated())
      return Unimplemented("An array with dynamic dimensions, {}, cannot be cut.", shape.ToString(false));
    if (!spmd::Covers(spmd::Together(sharding.dims, sharding.unreduced), nullptr, module_.num_partitions))
      return InvalidArgument("The sharding of {} has blocks that no device has.", shape.ToString(false));
    return {};
  }

  // What a parameter that says nothing may be cut by: what its only use asks for.
  Result<Sharding> FromUse(const Instruction& parameter) const {
    Sharding out;
    if (parameter.users().size() != 1 || !parameter.shape().IsArray()) return out;
    const Instruction& user = *parameter.users()[0];
    if (user.opcode() != Opcode::kCustomCall) return out;
    const CustomCallTarget target = CustomCallTargetOf(user);
    if (target == CustomCallTarget::kSharding && !user.metadata().sharding.empty()) {
      KRAFLA_ASSIGN(out, ParseSharding(user.metadata().sharding, module_.num_partitions));
    } else if (target == CustomCallTarget::kSdyGlobalToLocalShape) {
      KRAFLA_ASSIGN(std::vector<SdySharding> all,
                    ParseSdyShardings(spmd::FrontendAttribute(user.metadata(), "xla.sdy.in_shardings"), meshes_));
      for (std::size_t o = 0; o < user.operand_count() && o < all.size(); ++o)
        if (user.operand(o) == &parameter) { KRAFLA_ASSIGN(out, ShardingOf(all[o], module_.num_partitions)); }
    }
    // Even blocks only, as nobody asked for others.
    bool even = !out.all_manual && !out.unknown && !out.only && out.manual.empty() && out.unreduced.empty() &&
                static_cast<int64_t>(out.dims.size()) <= parameter.shape().rank();
    for (std::size_t d = 0; even && d < out.dims.size(); ++d)
      even = parameter.shape().dims()[d] % out.dims[d].count == 0;
    if (!even || parameter.shape().IsDynamic() || !spmd::Covers(out.dims, nullptr, module_.num_partitions))
      return Sharding();
    return out;
  }

  Result<Shape> LocalShape(const Shape& shape, std::span<const Sharding> shardings, std::size_t* leaf) const {
    if (shape.IsTuple()) {
      std::vector<Shape> elements;
      for (const Shape& e : shape.tuple_elements()) {
        KRAFLA_ASSIGN(Shape one, LocalShape(e, shardings, leaf));
        elements.push_back(std::move(one));
      }
      return Shape::MakeTuple(std::move(elements));
    }
    const Sharding& sharding = shardings[(*leaf)++];
    if (!shape.IsArray() || sharding.IsReplicated() || sharding.only) return shape;
    return spmd::BlockShape(shape, sharding.dims);
  }

  Result<Value> Parameter(const Instruction& p, Emitter& emitter) {
    KRAFLA_ASSIGN(std::vector<Sharding> shardings, ShardingsOf(p, meshes_, module_.num_partitions));
    const std::vector<const Shape*> leaves = TupleLeaves(p.shape());
    for (std::size_t n = 0; n < leaves.size(); ++n) {
      if (!leaves[n]->IsArray()) shardings[n] = Sharding();
      if (shardings[n].unknown) { KRAFLA_ASSIGN(shardings[n], FromUse(p)); }
      KRAFLA_TRY(CheckSharding(shardings[n], *leaves[n]));
      shardings_.parameters.push_back(ShardingToText(shardings[n], leaves[n]->rank(), module_.num_partitions));
      parameters_.push_back(shardings[n]);
    }
    std::size_t leaf = 0;
    KRAFLA_ASSIGN(Shape local, LocalShape(p.shape(), shardings, &leaf));
    Instruction* made = AddParameter(emitter.out(), p.attr<ParameterAttributes>().number, std::move(local), p.name());
    made->set_attributes(p.attributes());
    made->set_location(p.location());
    KRAFLA_ASSIGN(Value out, emitter.TakeApartWhole(made, nullptr));
    std::vector<Value*> values;
    spmd::Leaves(out, values);
    for (std::size_t n = 0; n < values.size(); ++n) {
      Value& v = *values[n];
      if (!v.IsArray()) continue;
      if (shardings[n].only) {
        KRAFLA_ASSIGN(v.local, emitter.Broadcast(v.local, *shardings[n].only));
        continue;
      }
      for (std::size_t d = 0; d < v.dims.size(); ++d) v.dims[d] = shardings[n].dim(static_cast<int64_t>(d));
      v.unreduced = shardings[n].unreduced;
      v.sizes = leaves[n]->dims();
      KRAFLA_ASSIGN(v, WithoutEmpty(std::move(v), emitter));
    }
    return out;
  }

  // Dimensions with fewer rows than blocks are put together.
  Result<Value> WithoutEmpty(Value value, Emitter& emitter) {
    std::vector<Split> dims = value.dims;
    for (std::size_t d = 0; d < dims.size(); ++d)
      if (!spmd::MayBeCutInto(value.size(d), dims[d])) dims[d] = Split();
    return emitter.Reshard(std::move(value), dims);
  }

  Result<Instruction*> Root(const Instruction& root, Value result, Emitter& emitter) {
    KRAFLA_ASSIGN(std::vector<Sharding> shardings, ShardingsOf(root, meshes_, module_.num_partitions));
    // The sharding of a parameter that is returned is the parameter's; that of a constraint has been followed.
    const bool says_nothing = root.opcode() == Opcode::kParameter || root.opcode() == Opcode::kCustomCall;
    std::vector<Value*> values;
    spmd::Leaves(result, values);
    const std::vector<const Shape*> leaves = TupleLeaves(root.shape());
    for (std::size_t n = 0; n < values.size(); ++n) {
      Value& v = *values[n];
      Sharding& sharding = shardings[n];
      if (!v.IsArray() || sharding.only) sharding = Sharding();
      if (sharding.unknown || says_nothing || !v.IsArray()) {
        sharding = Sharding();
        if (v.IsArray()) {
          // Sums come out in parts only where the program says so.
          const bool flat = root.opcode() == Opcode::kTuple && root.operand_count() == values.size();
          const Opcode leaf = flat ? root.operand(n)->opcode() : root.opcode();
          if (leaf != Opcode::kCustomCall && leaf != Opcode::kParameter) {
            KRAFLA_ASSIGN(v, emitter.Settle(std::move(v)));
          }
          // Nor do blocks that are not equal, as XLA has it (EvenlyPartition, xla/service/sharding_propagation.cc).
          sharding.dims = v.dims;
          for (std::size_t d = 0; d < v.dims.size(); ++d)
            if (v.IsPadded(d)) sharding.dims[d] = Split();
          sharding.unreduced = v.unreduced;
        }
      }
      KRAFLA_TRY(CheckSharding(sharding, *leaves[n]));
      shardings_.results.push_back(ShardingToText(sharding, leaves[n]->rank(), module_.num_partitions));
      results_.push_back(sharding);
      if (!v.IsArray()) continue;
      KRAFLA_ASSIGN(v, ResultBlock(std::move(v), sharding, emitter));
    }
    return emitter.Materialize(result);
  }

  Result<Value> ResultBlock(Value value, const Sharding& sharding, Emitter& emitter) {
    std::vector<Split> dims(value.dims.size());
    std::vector<std::size_t> all;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      dims[d] = sharding.dim(static_cast<int64_t>(d));
      all.push_back(d);
    }
    KRAFLA_ASSIGN(value, emitter.ReshardTo(std::move(value), dims, sharding.unreduced));
    return emitter.MaskedWithZeros(std::move(value), all);
  }

  // The entry's layouts and aliases are about whole arrays.
  Result<> Header(const Computation& old) {
    std::size_t leaf = 0;
    if (module_.entry_layout_parameters.size() == old.parameters().size())
      for (Shape& shape : module_.entry_layout_parameters) {
        KRAFLA_ASSIGN(shape, LocalShape(shape, parameters_, &leaf));
      }
    leaf = 0;
    if (module_.entry_layout_result) {
      KRAFLA_ASSIGN(module_.entry_layout_result, LocalShape(*module_.entry_layout_result, results_, &leaf));
    }
    // A result keeps a parameter's place only where their blocks have one size.
    const Computation& entry = *module_.entry();
    std::erase_if(module_.input_output_aliases, [&](const InputOutputAlias& a) {
      const Shape* in = At(entry.parameters()[static_cast<std::size_t>(a.parameter)]->shape(), a.parameter_index);
      const Shape* out = At(entry.root()->shape(), a.output_index);
      return in == nullptr || out == nullptr || in->byte_size() != out->byte_size();
    });
    std::erase_if(module_.other_attributes, [](const auto& a) {
      return a.first == kMeshes && a.second.find("xla.sdy.meshes") != std::string::npos;
    });
    return {};
  }

  static const Shape* At(const Shape& shape, const Dims& index) {
    const Shape* out = &shape;
    for (int64_t i : index) {
      if (!out->IsTuple() || i < 0 || static_cast<std::size_t>(i) >= out->tuple_elements().size()) return nullptr;
      out = &out->tuple_elements()[static_cast<std::size_t>(i)];
    }
    return out;
  }

  Module& module_;
  SdyMeshes meshes_;
  Walk walk_;
  SpmdShardings shardings_;
  std::vector<Sharding> parameters_, results_;  // the same, by leaf
};

}  // namespace

Result<std::optional<SpmdShardings>> PartitionModule(Module& module, const PassOptions& options) {
  constexpr int64_t kMaxPartitions = 4096;
  if (!NeedsPartitioning(module, options.custom_partitioner)) return std::nullopt;
  if (module.num_partitions > kMaxPartitions)
    return Unimplemented("A program for {} partitions cannot be partitioned; the limit is {}.", module.num_partitions,
                         kMaxPartitions);
  KRAFLA_ASSIGN(SdyMeshes meshes, MeshesOf(module));
  return Entry(module, options, std::move(meshes)).Partition();
}

Result<bool> SpmdPartitioner(Module& module, const PassOptions& options) {
  KRAFLA_ASSIGN(std::optional<SpmdShardings> shardings, PartitionModule(module, options));
  return shardings.has_value();
}

}  // namespace krafla
