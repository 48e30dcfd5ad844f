// SPDX-License-Identifier: Apache-2.0
// Collectives on values of bounded dynamic shape. Every device has sizes of its own; where elements travel their sizes
// travel with them, as s32 arrays by collectives of the same kind.
#include <algorithm>

#include "base/index.h"
#include "passes/dynamic/dynamic_values.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

// A channel that no other instruction of the module uses.
int64_t FreeChannel(const Module& module) {
  int64_t free = 1;
  for (const auto& c : module.computations())
    for (const auto& i : c->instructions()) {
      if (const auto* a = std::get_if<CollectiveAttributes>(&i->attributes()); a != nullptr && a->channel_id)
        free = std::max(free, *a->channel_id + 1);
      if (const auto* a = std::get_if<ChannelAttributes>(&i->attributes()); a != nullptr && a->channel_id)
        free = std::max(free, *a->channel_id + 1);
    }
  return free;
}

// The same exchange between the same devices, of sizes.
Result<Instruction*> Exchange(DynamicOp& op, std::vector<Instruction*> sizes, std::optional<int64_t> dimension) {
  CollectiveAttributes a = op.attr<CollectiveAttributes>();
  a.dimension = dimension;
  if (a.channel_id) a.channel_id = FreeChannel(*op.instruction().parent()->parent());
  return op.rewrite().Infer(op.instruction().opcode(), std::move(sizes), a);
}

Instruction* AsVector(DynamicOp& op, Instruction* scalar) { return op.rewrite().Reshape(scalar, {1}); }
Instruction* ElementOf(DynamicOp& op, Instruction* vector, int64_t n) {
  SliceAttributes one;
  one.starts = {n};
  one.limits = {n + 1};
  one.strides = {1};
  return op.rewrite().Reshape(op.rewrite().Slice(vector, one), Dims{});
}

Result<Instruction*> SumOf(DynamicOp& op, Instruction* x, int64_t dimension) {
  return op.rewrite().Reduce(Opcode::kAdd, x, ScalarZero(ElementType::kS32), {&dimension, 1});
}

Instruction* Counting(DynamicOp& op, const Dims& dims, int64_t dimension) {
  return op.rewrite().Add(Opcode::kIota, ArrayShape(ElementType::kS32, dims), {}, IotaAttributes{dimension});
}

// `x` is blocks along `dim`, of which block g has sizes[g] elements that count at its start. They are moved together:
// past the end of each block before it, an element lies as much further on as that block has to spare.
Result<Instruction*> MovedTogether(DynamicOp& op, Instruction* x, int64_t dim, Instruction* sizes) {
  Rewriter& rewrite = op.rewrite();
  const int64_t blocks = sizes->shape().dim(0), total = x->shape().dim(dim), block = total / blocks;
  const Dims square = {blocks, blocks}, each = {total, blocks}, along = {total};
  const Dims second = {1};
  Instruction* none = rewrite.Splat(ScalarZero(ElementType::kS32), square);
  Instruction* before = rewrite.Compare(ComparisonDirection::kLe, Counting(op, square, 1), Counting(op, square, 0));
  KRAFLA_ASSIGN(Instruction * ends,
                SumOf(op, rewrite.Select(before, rewrite.Broadcast(sizes, square, second), none), 1));
  Instruction* spare = rewrite.Binary(
      Opcode::kSubtract, rewrite.Splat(ScalarOfInt(ElementType::kS32, block), sizes->shape().dims()), sizes);
  Instruction* past =
      rewrite.Compare(ComparisonDirection::kGe, Counting(op, each, 0), rewrite.Broadcast(ends, each, second));
  KRAFLA_ASSIGN(Instruction * skipped, SumOf(op,
                                             rewrite.Select(past, rewrite.Broadcast(spare, each, second),
                                                            rewrite.Splat(ScalarZero(ElementType::kS32), each)),
                                             1));
  return TakeAlong(op, x, dim, rewrite.Binary(Opcode::kAdd, Counting(op, along, 0), skipped));
}

// The `size` elements of `x` that count along `dim`, in `blocks` equal parts, each at the start of its block.
Result<Instruction*> InBlocks(DynamicOp& op, Instruction* x, int64_t dim, int64_t blocks, Instruction* part) {
  Rewriter& rewrite = op.rewrite();
  const Dims along = {x->shape().dim(dim)};
  Instruction* block = rewrite.Splat(ScalarOfInt(ElementType::kS32, along[0] / blocks), along);
  Instruction* at = Counting(op, along, 0);
  Instruction* from =
      rewrite.Binary(Opcode::kMultiply, rewrite.Binary(Opcode::kDivide, at, block), rewrite.Broadcast(part, along, {}));
  return TakeAlong(op, x, dim, rewrite.Binary(Opcode::kAdd, from, rewrite.Binary(Opcode::kRemainder, at, block)));
}

// The results are those of the instruction on `values`, element `n` of the tuple if there are several.
Instruction* ResultOf(DynamicOp& op, Instruction* made, std::size_t n) {
  return made->shape().IsTuple() ? op.rewrite().Element(made, static_cast<int64_t>(n)) : made;
}
BoundedValue Together(DynamicOp& op, std::vector<Instruction*> results, std::vector<DimensionSizes> sizes) {
  Instruction* value = op.shape().IsTuple() ? op.rewrite().Tuple(std::move(results)) : results[0];
  return {value, std::move(sizes)};
}

std::vector<DimensionSizes> OwnSizes(DynamicOp& op, std::size_t count) {
  std::vector<DimensionSizes> out;
  for (std::size_t n = 0; n < count; ++n) {
    DimensionSizes sizes(At(op.value(n)->shape().rank()), nullptr);
    for (int64_t d = 0; d < op.value(n)->shape().rank(); ++d) sizes[At(d)] = op.operand(n).size(d);
    out.push_back(std::move(sizes));
  }
  return out;
}

// Sums of values that are equally large on all devices.
Lowered AllReduce(DynamicOp& op) {
  BoundedValue out = op.Same({});
  out.leaves = OwnSizes(op, op.operand_count());
  return out;
}

Lowered AllGather(DynamicOp& op) {
  const int64_t dim = op.attr<CollectiveAttributes>().dimension.value_or(0);
  Instruction* made = op.Same({}).value;
  std::vector<DimensionSizes> sizes = OwnSizes(op, op.operand_count());
  std::vector<Instruction*> results;
  for (std::size_t n = 0; n < op.operand_count(); ++n) {
    Instruction* result = ResultOf(op, made, n);
    if (Instruction* own = op.operand(n).size(dim); own != nullptr && result->shape().element_count() > 0) {
      KRAFLA_ASSIGN(Instruction * all, Exchange(op, {AsVector(op, own)}, 0));
      KRAFLA_ASSIGN(result, MovedTogether(op, result, dim, all));
      KRAFLA_ASSIGN(sizes[n][At(dim)], SumOf(op, all, 0));
    }
    results.push_back(result);
  }
  return Together(op, std::move(results), std::move(sizes));
}

Lowered ReduceScatter(DynamicOp& op) {
  const int64_t dim = op.attr<CollectiveAttributes>().dimension.value_or(0);
  std::vector<DimensionSizes> sizes = OwnSizes(op, op.operand_count());
  std::vector<Instruction*> values = op.Values();
  const Shape& first = op.shape().IsTuple() ? op.shape().tuple_elements()[0] : op.shape();
  for (std::size_t n = 0; n < values.size(); ++n) {
    Instruction*& size = sizes[n][At(dim)];
    if (size == nullptr || first.dim(dim) == 0) continue;
    const int64_t blocks = values[0]->shape().dim(dim) / first.dim(dim);
    size = op.Scalar(Opcode::kDivide, size, op.Number(blocks));
    KRAFLA_ASSIGN(values[n], InBlocks(op, values[n], dim, blocks, size));
  }
  BoundedValue out = op.SameOn(std::move(values), {});
  out.leaves = std::move(sizes);
  return out;
}

// One array, whose blocks are exchanged.
Lowered AllToAllBlocks(DynamicOp& op, int64_t dim, int64_t members) {
  std::vector<DimensionSizes> sizes = OwnSizes(op, 1);
  Instruction* x = op.value(0);
  Instruction* size = sizes[0][At(dim)];
  if (size == nullptr || x->shape().element_count() == 0) return op.Same(std::move(sizes[0]));
  Instruction* part = op.Scalar(Opcode::kDivide, size, op.Number(members));
  KRAFLA_ASSIGN(x, InBlocks(op, x, dim, members, part));
  Instruction* made = op.SameOn({x}, {}).value;
  const Dims each = {members};
  KRAFLA_ASSIGN(Instruction * parts, Exchange(op, {op.rewrite().Broadcast(part, each, {})}, 0));
  KRAFLA_ASSIGN(made, MovedTogether(op, made, dim, parts));
  KRAFLA_ASSIGN(sizes[0][At(dim)], SumOf(op, parts, 0));
  return op.Array(made, std::move(sizes[0]));
}

// Whole arrays, one for each member.
Lowered AllToAllArrays(DynamicOp& op) {
  BoundedValue out = op.Same({});
  out.leaves = OwnSizes(op, op.operand_count());
  for (int64_t d = 0; d < op.value(0)->shape().rank(); ++d) {
    bool sized = false;
    std::vector<Instruction*> own;
    for (std::size_t n = 0; n < op.operand_count(); ++n) {
      sized |= op.operand(n).IsSized(d);
      own.push_back(AsVector(op, op.SizeOr(op.operand(n), d)));
    }
    if (!sized) continue;
    KRAFLA_ASSIGN(Instruction * theirs, Exchange(op, std::move(own), std::nullopt));
    for (std::size_t n = 0; n < op.operand_count(); ++n)
      out.leaves[n][At(d)] = ElementOf(op, ResultOf(op, theirs, n), 0);
  }
  return out;
}

// How many members a group has, which cannot be told from the shapes.
int64_t GroupSize(DynamicOp& op) {
  const auto& a = op.attr<CollectiveAttributes>();
  if (!a.replica_groups.empty() && !a.replica_groups[0].empty())
    return static_cast<int64_t>(a.replica_groups[0].size());
  const Module& module = *op.instruction().parent()->parent();
  if (a.use_global_device_ids) return module.replica_count * module.num_partitions;
  return a.channel_id ? module.num_partitions : module.replica_count;
}

Lowered AllToAll(DynamicOp& op) {
  const auto& a = op.attr<CollectiveAttributes>();
  if (!a.dimension) return AllToAllArrays(op);
  return AllToAllBlocks(op, *a.dimension, GroupSize(op));
}

// Values come whole from one other device, or are zeros as large as one's own. A size travels one larger, so that a
// zero says that nothing came.
Lowered FromOne(DynamicOp& op) {
  BoundedValue out = op.Same({});
  out.leaves = OwnSizes(op, op.operand_count());
  std::vector<Instruction*> own;
  for (const DimensionSizes& sizes : out.leaves)
    for (Instruction* s : sizes)
      if (s != nullptr) own.push_back(AsVector(op, op.Add(s, 1)));
  Instruction* sent = own[0];
  if (own.size() > 1) {
    KRAFLA_ASSIGN(sent, op.rewrite().Infer(Opcode::kConcatenate, std::move(own), DimensionsAttributes{Dims{0}}));
  }
  KRAFLA_ASSIGN(Instruction * received, Exchange(op, {sent}, std::nullopt));
  int64_t next = 0;
  for (DimensionSizes& sizes : out.leaves)
    for (Instruction*& s : sizes) {
      if (s == nullptr) continue;
      Instruction* theirs = ElementOf(op, received, next++);
      Instruction* came = op.rewrite().Compare(ComparisonDirection::kGt, theirs, op.Number(0));
      s = op.rewrite().Select(came, op.Add(theirs, -1), s);
    }
  return out;
}

// Rows of the input go where offsets say in the output, whose size the result has. Nothing comes from behind the size
// of the input, and what offsets and sizes do not have is no row: the number of rows sent says so. What goes behind the
// size of the receiver's output does not count there.
Lowered RaggedAllToAll(DynamicOp& op) {
  Rewriter& rewrite = op.rewrite();
  std::vector<Instruction*> values = op.Values();
  Instruction*& rows = values[3];
  const ElementType type = rows->shape().element_type();
  const Dims dims = rows->shape().dims();
  Instruction* zero = rewrite.Splat(ScalarZero(type), dims);
  if (Instruction* limit = op.operand(0).size(0)) {
    const ElementType wide = ElementType::kS64;
    Instruction* last = rewrite.Broadcast(rewrite.Convert(limit, wide), dims, {});
    Instruction* none = rewrite.Splat(ScalarZero(wide), dims);
    Instruction* from = rewrite.Add(Opcode::kClamp, last->shape(), {none, rewrite.Convert(values[2], wide), last});
    Instruction* left = rewrite.Binary(Opcode::kSubtract, last, from);
    rows = rewrite.Add(Opcode::kClamp, last->shape(), {none, rewrite.Convert(rows, wide), left});
    rows = rewrite.Convert(rows, type);
  }
  for (std::size_t n = 2; n < 5; ++n) {
    if (!op.operand(n).IsSized()) continue;
    Instruction* there = op.Mask(dims, op.operand(n).leaves[0]);
    rows = rewrite.Select(there, rows, zero);
  }
  DimensionSizes sizes = op.SizesIn(op.operand(1), {});
  for (int64_t d = 0; d < op.shape().rank(); ++d) sizes[At(d)] = op.operand(1).size(d);
  return op.SameOn(std::move(values), std::move(sizes));
}

}  // namespace

Lowered LowerDynamicCollective(DynamicOp& op) {
  const Opcode opcode = op.instruction().opcode();
  for (std::size_t n = 0; n < op.operand_count(); ++n)
    if (!op.value(n)->shape().IsArray()) return std::nullopt;
  bool sized = false;
  for (std::size_t n = 0; n < op.operand_count(); ++n) sized |= op.operand(n).IsSized();
  if (opcode == Opcode::kRaggedAllToAll) return RaggedAllToAll(op);
  if (opcode == Opcode::kAllReduce) return AllReduce(op);
  if (opcode == Opcode::kAllGather) return AllGather(op);
  if (opcode == Opcode::kReduceScatter) return ReduceScatter(op);
  if (opcode == Opcode::kAllToAll) return AllToAll(op);
  // The form in place, whose further operands say where to read and write, is not one of these.
  const bool plain =
      op.shape().IsArray() ? op.operand_count() == 1 : op.shape().tuple_elements().size() == op.operand_count();
  if (plain && (opcode == Opcode::kCollectivePermute || opcode == Opcode::kCollectiveBroadcast))
    return sized ? FromOne(op) : op.Same({});
  return std::nullopt;
}

}  // namespace krafla
