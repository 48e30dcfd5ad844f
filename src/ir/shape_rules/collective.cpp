// SPDX-License-Identifier: Apache-2.0
// Ops between devices. XLA: hlo_verifier.cc CheckReplicaGroups and the Handle* functions of the collectives,
// collective_ops_utils.h GetCollectiveOpGroupMode. As in XLA, a count of 1 is not compared with the ids: texts often
// leave the counts of the module out, and whoever compiles it gives them. Who does so sets device_counts_known.
#include <algorithm>

#include "base/checked_math.h"
#include "ir/shape_rules/checks.h"

namespace krafla::shape_rules {
namespace {

Result<CollectiveMode> ModeOf(const ShapeRuleInput& in, const CollectiveAttributes& a) {
  if (!a.channel_id) {
    if (a.use_global_device_ids) return InvalidArgument("use_global_device_ids=true needs a channel_id.");
    return CollectiveMode::kCrossReplica;
  }
  if (*a.channel_id < 0) return InvalidArgument("channel_id must not be negative, it is {}.", *a.channel_id);
  if (a.use_global_device_ids) return CollectiveMode::kFlattenedId;
  // Ops that know use_global_device_ids work across both with it off; for the others a channel means partitions.
  bool knows_global_ids = in.opcode == Opcode::kAllGather || in.opcode == Opcode::kAllGatherStart ||
                          in.opcode == Opcode::kAllReduce || in.opcode == Opcode::kAllReduceStart ||
                          in.opcode == Opcode::kReduceScatter;
  return knows_global_ids ? CollectiveMode::kCrossReplicaAndPartition : CollectiveMode::kCrossPartition;
}

// How many ids there are to name in a mode.
Result<int64_t> IdCount(const ShapeRuleInput& in, CollectiveMode mode) {
  switch (mode) {
    case CollectiveMode::kCrossReplica:
    case CollectiveMode::kCrossReplicaAndPartition: return in.replica_count;
    case CollectiveMode::kCrossPartition: return in.num_partitions;
    case CollectiveMode::kFlattenedId: {
      auto product = CheckedMul(in.replica_count, in.num_partitions);
      if (!product) return InvalidArgument("replica_count times num_partitions does not fit 63 bits.");
      return *product;
    }
  }
  KRAFLA_UNREACHABLE();
}

const char* IdWord(CollectiveMode mode) {
  switch (mode) {
    case CollectiveMode::kCrossReplica:
    case CollectiveMode::kCrossReplicaAndPartition: return "replica";
    case CollectiveMode::kCrossPartition: return "partition";
    case CollectiveMode::kFlattenedId: return "device";
  }
  KRAFLA_UNREACHABLE();
}

// Each id lies in [0, limit), none twice. `ids` is sorted on the way: the work must not grow with the device count.
Result<> CheckIds(const char* what, const char* word, std::vector<int64_t>& ids, int64_t limit) {
  std::sort(ids.begin(), ids.end());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= limit)
      return InvalidArgument("{} names {} {}, the module has {}.", what, word, ids[i], limit);
    if (i > 0 && ids[i] == ids[i - 1]) return InvalidArgument("{} names {} {} twice.", what, word, ids[i]);
  }
  return {};
}

struct GroupRules {
  bool uniform = false;  // all groups of one size
  bool covering = true;  // every id in a group, when there are groups
};

// Checks the groups and returns how many devices one has.
Result<int64_t> CheckGroups(const ShapeRuleInput& in, const CollectiveAttributes& a, GroupRules rules) {
  KRAFLA_ASSIGN(CollectiveMode mode, ModeOf(in, a));
  KRAFLA_ASSIGN(int64_t ids, IdCount(in, mode));
  const char* word = IdWord(mode);
  int64_t size = ids;
  if (a.replica_groups.empty()) {
    if (mode == CollectiveMode::kFlattenedId)
      return InvalidArgument("replica_groups must not be empty with use_global_device_ids=true.");
  } else {
    std::vector<int64_t> all;
    size = static_cast<int64_t>(a.replica_groups[0].size());
    for (const std::vector<int64_t>& group : a.replica_groups) {
      if (group.empty()) return InvalidArgument("A replica group is empty.");
      if (rules.uniform && static_cast<int64_t>(group.size()) != size)
        return InvalidArgument("The replica groups must be of one size; there are groups of {} and {}.", size,
                               group.size());
      all.insert(all.end(), group.begin(), group.end());
    }
    if (ids == 1 && !in.device_counts_known) ids = static_cast<int64_t>(all.size());
    KRAFLA_TRY(CheckIds("replica_groups", word, all, ids));
    if (rules.covering && static_cast<int64_t>(all.size()) != ids)
      return InvalidArgument("replica_groups must name each of the {} {}s; it names {}.", ids, word, all.size());
  }
  if (mode != CollectiveMode::kCrossReplicaAndPartition) return size;
  auto both = CheckedMul(size, in.num_partitions);
  if (!both)
    return InvalidArgument("A group of {} replicas times {} partitions does not fit 63 bits.", size, in.num_partitions);
  return *both;
}

std::vector<ElementType> OneType(const ShapeRuleInput& in) { return {in.operands[0]->element_type()}; }

// Arrays of one element type, and a computation that adds two scalars of it up.
Result<> CheckReduction(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectAtLeast(in, 1));
  KRAFLA_TRY(ExpectAllArrays(in));
  for (const Shape* operand : in.operands)
    if (operand->element_type() != in.operands[0]->element_type())
      return InvalidArgument("The arrays reduced together must have one element type; they are {} and {}.",
                             Brief(*in.operands[0]), Brief(*operand));
  KRAFLA_TRY(ExpectCalled(in, 1));
  return CheckReducer(in, 0, OneType(in));
}

std::vector<Shape> OperandShapes(const ShapeRuleInput& in) {
  std::vector<Shape> out;
  for (const Shape* operand : in.operands) {
    out.push_back(*operand);
    out.back().ClearLayout();
  }
  return out;
}

Result<int64_t> RequiredDimension(const CollectiveAttributes& a) {
  if (!a.dimension) return InvalidArgument("The dimensions must name one dimension.");
  return *a.dimension;
}

// `x` with dimension `d` resized.
Result<Shape> Resized(const Shape& x, int64_t d, int64_t size) {
  DimList dims;
  for (int64_t i = 0; i < x.rank(); ++i) dims.Add(i == d ? size : x.dim(i), x.IsDynamicDim(i));
  return dims.Make(x.element_type());
}

// The operands with the collective's dimension resized: resize(operand, dimension, members of a group).
template <typename Resize>
Result<std::vector<Shape>> ResizedOperands(const ShapeRuleInput& in, Resize resize) {
  const auto& a = Attr<CollectiveAttributes>(in);
  KRAFLA_ASSIGN(int64_t size, CheckGroups(in, a, {.uniform = true}));
  KRAFLA_ASSIGN(int64_t d, RequiredDimension(a));
  std::vector<Shape> out;
  for (const Shape* x : in.operands) {
    KRAFLA_TRY(CheckDimensionNumber("dimensions", d, x->rank()));
    KRAFLA_ASSIGN(int64_t resized, resize(*x, d, size));
    KRAFLA_ASSIGN(Shape shape, Resized(*x, d, resized));
    out.push_back(std::move(shape));
  }
  return out;
}

Result<std::vector<Shape>> GatheredShapes(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectAtLeast(in, 1));
  KRAFLA_TRY(ExpectAllArrays(in));
  return ResizedOperands(in, [](const Shape& x, int64_t d, int64_t size) -> Result<int64_t> {
    if (auto total = CheckedMul(x.dim(d), size)) return *total;
    return InvalidArgument("Dimension {} of {} times {} does not fit 63 bits.", d, Brief(x), size);
  });
}

// The tuple that a -start gives: operands and results, each a shape or a tuple of shapes.
Result<std::vector<Shape>> StartElements(std::vector<Shape> operands, std::vector<Shape> results) {
  KRAFLA_ASSIGN(Shape from, SingleOrTuple(std::move(operands)));
  KRAFLA_ASSIGN(Shape to, SingleOrTuple(std::move(results)));
  std::vector<Shape> out;
  out.push_back(std::move(from));
  out.push_back(std::move(to));
  return out;
}

// Element 1 of what the matching -start gave.
Result<Shape> DoneResult(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectOperands(in, 1));
  const Shape& x = *in.operands[0];
  if (!x.IsTuple() || x.tuple_elements().size() < 2)
    return InvalidArgument("The operand of {} must be the tuple that its start gives, it is {}.", OpcodeName(in.opcode),
                           Brief(x));
  Shape out = x.tuple_elements()[1];
  out.ClearLayout();
  return out;
}

Result<> CheckPairs(const ShapeRuleInput& in, const CollectiveAttributes& a) {
  KRAFLA_ASSIGN(CollectiveMode mode, ModeOf(in, a));
  KRAFLA_ASSIGN(int64_t ids, IdCount(in, mode));
  const char* word = IdWord(mode);
  if (ids == 1 && !in.device_counts_known) ids = kMaxDevices;
  std::vector<int64_t> sources, targets;
  for (auto [source, target] : a.source_target_pairs) {
    sources.push_back(source);
    targets.push_back(target);
  }
  KRAFLA_TRY(CheckIds("source_target_pairs, as a source,", word, sources, ids));
  KRAFLA_TRY(CheckIds("source_target_pairs, as a target,", word, targets, ids));
  return {};
}

}  // namespace

Result<Shape> DeviceId(const ShapeRuleInput&) { return Shape::MakeScalar(ElementType::kU32); }

Result<Shape> AllReduce(const ShapeRuleInput& in) {
  KRAFLA_TRY(CheckReduction(in));
  KRAFLA_TRY(CheckGroups(in, Attr<CollectiveAttributes>(in), {}));
  return SingleOrTuple(OperandShapes(in));
}

Result<Shape> AllReduceDone(const ShapeRuleInput& in) { return SameAsOperand(in); }

Result<Shape> AllGather(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(std::vector<Shape> shapes, GatheredShapes(in));
  return SingleOrTuple(std::move(shapes));
}

Result<Shape> AllGatherStart(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(std::vector<Shape> shapes, GatheredShapes(in));
  KRAFLA_ASSIGN(std::vector<Shape> elements, StartElements(OperandShapes(in), std::move(shapes)));
  return Shape::MakeTuple(std::move(elements));
}

Result<Shape> AllGatherDone(const ShapeRuleInput& in) { return DoneResult(in); }

Result<Shape> ReduceScatter(const ShapeRuleInput& in) {
  KRAFLA_TRY(CheckReduction(in));
  const auto block = [](const Shape& x, int64_t d, int64_t size) -> Result<int64_t> {
    if (x.dim(d) % size == 0) return x.dim(d) / size;
    return InvalidArgument("Dimension {} of {} does not split into {} equal blocks.", d, Brief(x), size);
  };
  KRAFLA_ASSIGN(std::vector<Shape> out, ResizedOperands(in, block));
  return SingleOrTuple(std::move(out));
}

// With a dimension: one array whose blocks are exchanged. Without: an operand for each member of a group.
Result<Shape> AllToAll(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectAtLeast(in, 1));
  KRAFLA_TRY(ExpectAllArrays(in));
  const auto& a = Attr<CollectiveAttributes>(in);
  KRAFLA_ASSIGN(int64_t size, CheckGroups(in, a, {.uniform = true}));
  if (a.dimension) {
    KRAFLA_TRY(ExpectOperands(in, 1));
    const Shape& x = *in.operands[0];
    KRAFLA_TRY(CheckDimensionNumber("dimensions", *a.dimension, x.rank()));
    if (x.dim(*a.dimension) % size != 0)
      return InvalidArgument("Dimension {} of {} does not split into {} equal blocks.", *a.dimension, Brief(x), size);
    return SameAsOperand(in);
  }
  if (static_cast<int64_t>(in.operands.size()) != size)
    return InvalidArgument("all-to-all takes an operand for each of the {} members of a group, {} were given.", size,
                           in.operands.size());
  for (const Shape* x : in.operands)
    if (!Shape::Compatible(*x, *in.operands[0]))
      return InvalidArgument("The operands of all-to-all must have one shape; they are {} and {}.",
                             Brief(*in.operands[0]), Brief(*x));
  return Shape::MakeTuple(OperandShapes(in));
}

// collective-broadcast and collective-permute.
Result<Shape> SameAsOperands(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectAtLeast(in, 1));
  KRAFLA_TRY(ExpectAllArrays(in));
  const auto& a = Attr<CollectiveAttributes>(in);
  if (in.opcode == Opcode::kCollectivePermute) {
    KRAFLA_TRY(CheckPairs(in, a));
  } else {
    KRAFLA_TRY(CheckGroups(in, a, {.covering = false}));
  }
  return SingleOrTuple(OperandShapes(in));
}

// Operands, results, then any scalars of context.
Result<Shape> CollectivePermuteStart(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectAtLeast(in, 1));
  KRAFLA_TRY(ExpectAllArrays(in));
  KRAFLA_TRY(CheckPairs(in, Attr<CollectiveAttributes>(in)));
  KRAFLA_ASSIGN(std::vector<Shape> elements, StartElements(OperandShapes(in), OperandShapes(in)));
  if (in.declared != nullptr && in.declared->IsTuple())
    for (std::size_t i = 2; i < in.declared->tuple_elements().size(); ++i) {
      const Shape& context = in.declared->tuple_elements()[i];
      if (!context.IsScalar() || !IsIntegral(context.element_type()))
        return InvalidArgument("Element {} of the result, its context, must be an integer scalar, it is {}.", i,
                               Brief(context));
      elements.push_back(context);
    }
  return Shape::MakeTuple(std::move(elements));
}

Result<Shape> CollectivePermuteDone(const ShapeRuleInput& in) { return DoneResult(in); }

// Input, output, input offsets, send sizes, output offsets, receive sizes. The result is the output, filled in.
Result<Shape> RaggedAllToAll(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectOperands(in, 6));
  KRAFLA_TRY(ExpectAllArrays(in));
  KRAFLA_ASSIGN(int64_t size, CheckGroups(in, Attr<CollectiveAttributes>(in), {.uniform = true}));
  const Shape& input = *in.operands[0];
  const Shape& output = *in.operands[1];
  const Shape& offsets = *in.operands[2];
  bool rows_fit = input.element_type() == output.element_type() && input.rank() == output.rank() && input.rank() >= 1;
  for (int64_t i = 1; rows_fit && i < input.rank(); ++i) rows_fit = input.dim(i) == output.dim(i);
  if (!rows_fit)
    return InvalidArgument("Input and output must be rows of one kind; they are {} and {}.", Brief(input),
                           Brief(output));
  // As many for each member of the group: a row of several, or one after the other.
  const bool for_each = offsets.rank() == 1   ? offsets.dim(0) >= size && offsets.dim(0) % size == 0
                        : offsets.rank() == 2 ? offsets.dim(0) == size
                                              : false;
  if (!IsIntegral(offsets.element_type()) || !for_each)
    return InvalidArgument(
        "Offsets and sizes must be integers of one dimension or two, as many for each of the {} "
        "members of the group; operand 2 is {}.",
        size, Brief(offsets));
  for (std::size_t i = 3; i < 6; ++i)
    if (!SameTypeAndDims(*in.operands[i], offsets))
      return InvalidArgument("Offsets and sizes must have one shape; operand 2 is {}, operand {} is {}.",
                             Brief(offsets), i, Brief(*in.operands[i]));
  Shape out = output;
  out.ClearLayout();
  return out;
}

}  // namespace krafla::shape_rules
