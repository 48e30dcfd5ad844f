// SPDX-License-Identifier: Apache-2.0
// The block that a device has of an array that every device has whole. What is made of nothing but positions, scalars
// and constants (random bits, masks, initial values) is made block by block instead, however long the chain: nobody
// makes an array to keep a part of it.
#include <algorithm>

#include "base/index.h"
#include "ir/builder.h"
#include "passes/spmd/spmd_emitter.h"

namespace krafla::spmd {
namespace {

// Chains that are longer are cut where they end.
constexpr int kMaxDepth = 400;

}  // namespace

std::optional<std::vector<Split>> ThroughReshape(const Dims& from, const Dims& to, std::span<const Split> dims) {
  if (std::ranges::find(from, 0) != from.end()) return std::nullopt;
  std::vector<Split> out(from.size());
  for (const ReshapeGroup& g : ReshapeGroups(from, to))
    for (std::size_t d = g.to; d < g.to_end; ++d) {
      if (dims[d].whole()) continue;
      const std::size_t p = g.slowest_from;
      if (d != g.slowest_to || p >= g.from_end || !GoesThrough(g, from, to, dims[d])) return std::nullopt;
      out[p] = dims[d];
    }
  return out;
}

bool GoesThrough(const ReshapeGroup& group, const Dims& from, const Dims& to, const Split& split) {
  const auto elements = [&](const Dims& sizes, std::size_t slowest, std::size_t end) {
    int64_t out = BlockSize(sizes[slowest], split);
    for (std::size_t d = slowest + 1; d < end; ++d) out *= sizes[d];
    return out;
  };
  return MayBeCutInto(from[group.slowest_from], split) && MayBeCutInto(to[group.slowest_to], split) &&
         elements(from, group.slowest_from, group.from_end) == elements(to, group.slowest_to, group.to_end);
}

bool AnyCut(std::span<const Split> dims) {
  return std::ranges::any_of(dims, [](const Split& s) { return !s.whole(); });
}

std::vector<ReshapeGroup> ReshapeGroups(const Dims& from, const Dims& to) {
  std::vector<ReshapeGroup> out;
  std::size_t a = 0, b = 0;
  while (a < from.size() || b < to.size()) {
    const std::size_t first_a = a, first_b = b;
    int64_t x = a < from.size() ? from[a++] : 1, y = b < to.size() ? to[b++] : 1;
    while (x != y) {
      if (x < y) x *= from[a++];
      else y *= to[b++];
    }
    const auto slowest = [](const Dims& sizes, std::size_t begin, std::size_t end) {
      while (begin < end && sizes[begin] == 1) ++begin;
      return begin;
    };
    out.push_back({a, slowest(from, first_a, a), first_b, b, slowest(to, first_b, b)});
  }
  return out;
}

bool Emitter::MadeOfNothing(const Instruction* i, int depth) {
  const Shape& shape = i->shape();
  if (!shape.IsArray() || shape.IsDynamic()) return false;
  if (shape.rank() == 0 || i->opcode() == Opcode::kIota || i->opcode() == Opcode::kConstant) return true;
  if (const auto known = of_nothing_.find(i); known != of_nothing_.end()) return known->second;
  bool out = false;
  if (depth < kMaxDepth && (IsElementwise(i->opcode()) || i->opcode() == Opcode::kBroadcast ||
                            i->opcode() == Opcode::kReshape || i->opcode() == Opcode::kTranspose))
    out = std::ranges::all_of(i->operands(), [&](const Instruction* o) {
      const bool fits = !IsElementwise(i->opcode()) || o->shape().rank() == 0 || Shape::SameDims(o->shape(), shape);
      return fits && MadeOfNothing(o, depth + 1);
    });
  of_nothing_[i] = out;
  return out;
}

Result<Instruction*> Emitter::IotaBlock(const Instruction& iota, const Shape& block, const Split& split) {
  const auto along = iota.attr<IotaAttributes>().dimension;
  const ElementType type = iota.shape().element_type();
  KRAFLA_ASSIGN(Instruction * offset, Offset(split, block.dim(along)));
  // Positions are whole numbers, which are then converted: as those of an iota are.
  KRAFLA_ASSIGN(Shape positions, Shape::MakeArray(ElementType::kS32, block.dims()));
  Instruction* within = out_.Add(Opcode::kIota, std::move(positions), {}, iota.attributes());
  SayOrigin(within);
  KRAFLA_ASSIGN(Instruction * start, AddBroadcastScalar(out_, offset, block.dims()));
  KRAFLA_ASSIGN(Instruction * made, Infer(Opcode::kAdd, {within, start}));
  return type == ElementType::kS32 ? made : AddConvert(out_, made, type);
}

// Nothing where `whole` has to be there for its block to be cut out of it.
Result<Instruction*> Emitter::Made(Instruction* whole, const Shape& block, std::span<const Split> dims) {
  const Opcode opcode = whole->opcode();
  if (opcode == Opcode::kIota) {
    const Split& split = dims[At(whole->attr<IotaAttributes>().dimension)];
    if (!split.whole()) {
      const bool exact =
          IsIntegral(whole->shape().element_type()) || whole->shape().element_type() == ElementType::kF32;
      return exact ? IotaBlock(*whole, block, split) : Result<Instruction*>(nullptr);
    }
    Instruction* made = out_.Add(Opcode::kIota, block, {}, whole->attributes());
    SayOrigin(made);
    return made;
  }
  std::vector<Split> of_operand;
  if (opcode == Opcode::kBroadcast) {
    for (int64_t d : whole->attr<DimensionsAttributes>().dimensions) of_operand.push_back(dims[At(d)]);
    if (AnyCut(of_operand) && !MadeOfNothing(whole->operand(0), 0)) return nullptr;
  } else if (!MadeOfNothing(whole, 0)) {
    return nullptr;
  } else if (IsElementwise(opcode)) {
    of_operand.assign(dims.begin(), dims.end());
  } else if (opcode == Opcode::kTranspose) {
    const Dims& permutation = whole->attr<DimensionsAttributes>().dimensions;
    of_operand.resize(dims.size());
    for (std::size_t d = 0; d < dims.size(); ++d) of_operand[At(permutation[d])] = dims[d];
  } else if (opcode == Opcode::kReshape) {
    auto through = ThroughReshape(whole->operand(0)->shape().dims(), whole->shape().dims(), dims);
    if (!through) return nullptr;
    of_operand = std::move(*through);
  } else {
    return nullptr;
  }
  std::vector<Instruction*> operands;
  for (Instruction* o : whole->operands()) {
    if (o->shape().rank() > 0) { KRAFLA_ASSIGN(o, Cut(o, of_operand)); }
    operands.push_back(o);
  }
  Instruction* made = Clone(*whole, block, std::move(operands));
  return made;
}

Result<Instruction*> Emitter::Cut(Instruction* whole, std::span<const Split> dims) {
  if (!AnyCut(dims)) return whole;
  for (const Block& known : blocks_[whole])
    if (std::ranges::equal(known.dims, dims)) return known.made;
  const Shape& shape = whole->shape();
  Dims local = shape.dims();
  for (std::size_t d = 0; d < dims.size(); ++d) local[d] = BlockSize(local[d], dims[d]);
  KRAFLA_ASSIGN(Shape block, Shape::MakeArray(shape.element_type(), local));
  KRAFLA_ASSIGN(Instruction * made, Made(whole, block, dims));
  Instruction* padded = whole;
  if (made == nullptr) {
    for (std::size_t d = 0; d < dims.size(); ++d)
      if (const int64_t more = local[d] * dims[d].count - shape.dims()[d]; more > 0) {
        KRAFLA_ASSIGN(padded, Pad(padded, d, 0, more));
      }
    std::vector<Instruction*> operands{padded};
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (dims[d].whole()) {
        operands.push_back(AddScalarConstant(out_, ElementType::kS32, 0));
      } else {
        KRAFLA_ASSIGN(Instruction * offset, Offset(dims[d], local[d]));
        operands.push_back(offset);
      }
    }
    KRAFLA_ASSIGN(made, Infer(Opcode::kDynamicSlice, std::move(operands), DynamicSliceAttributes{std::move(local)}));
  }
  blocks_[whole].push_back({{dims.begin(), dims.end()}, made, padded});
  return made;
}

}  // namespace krafla::spmd
