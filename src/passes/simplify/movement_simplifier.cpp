// SPDX-License-Identifier: Apache-2.0
// Rewrites instructions that only move elements into fewer and simpler ones: chains of reshape, broadcast, transpose,
// reverse, slice, pad and concatenate collapse, those that move nothing go. Results keep every bit.
#include "passes/simplify/movement.h"

#include "ir/dims.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

// Runs of dimensions of `from` and `to` with equal products: a reshape moves elements within a run only. Dimensions
// of size 1 are runs of one side alone. No size may be 0.
struct Run {
  std::size_t from_begin, from_end, to_begin, to_end;
};
std::vector<Run> CommonRuns(const Dims& from, const Dims& to) {
  std::vector<Run> out;
  std::size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    Run run = {i, i, j, j};
    if (i < from.size() && from[i] == 1) {
      ++i;
    } else if (j < to.size() && to[j] == 1) {
      ++j;
    } else {
      int64_t a = from[i++], b = to[j++];
      while (a != b) {
        if (a < b) a *= from[i++];
        else b *= to[j++];
      }
    }
    run.from_end = i;
    run.to_end = j;
    out.push_back(run);
  }
  return out;
}

Instruction* ReshapeOfBroadcast(Instruction* reshape) {
  Instruction* broadcast = reshape->operand(0);
  Instruction* x = broadcast->operand(0);
  const Dims& mapping = broadcast->attr<DimensionsAttributes>().dimensions;
  const Dims& from = broadcast->shape().dims();
  const Dims& to = reshape->shape().dims();
  uint64_t mapped = 0;
  for (std::size_t k = 0; k < mapping.size(); ++k) {
    if (k > 0 && mapping[k] <= mapping[k - 1]) return nullptr;
    mapped |= uint64_t{1} << mapping[k];
  }
  Dims dims, new_mapping;
  for (const Run& run : CommonRuns(from, to)) {
    bool some = false, all = true;
    for (std::size_t d = run.from_begin; d < run.from_end; ++d) {
      if (from[d] == 1) continue;
      bool is = (mapped >> d) & 1;
      some |= is;
      all &= is;
    }
    if (!some) continue;
    if (!all) return nullptr;
    for (std::size_t d = run.to_begin; d < run.to_end; ++d) {
      if (to[d] == 1) continue;
      dims.push_back(to[d]);
      new_mapping.push_back(static_cast<int64_t>(d));
    }
  }
  Rewriter rewrite(*reshape);
  return rewrite.Broadcast(rewrite.Reshape(x, dims), to, new_mapping);
}

// Where `dimension` of `from` lies in `to`, if the reshape leaves it whole; -1 if not.
int64_t DimensionAfterReshape(const Dims& from, const Dims& to, int64_t dimension) {
  for (const Run& run : CommonRuns(from, to)) {
    auto d = static_cast<std::size_t>(dimension);
    if (d < run.from_begin || d >= run.from_end) continue;
    for (std::size_t k = run.to_begin; k < run.to_end; ++k) {
      // The dimension must be the only one of its run that is not 1, on both sides.
      if (to[k] != 1) return to[k] == from[d] ? static_cast<int64_t>(k) : -1;
    }
  }
  return -1;
}

Instruction* SimplifyMovement(Instruction* i) {
  if (!i->shape().IsArray()) {
    if (i->opcode() == Opcode::kReduce) return SimplifyReduce(i);
    if (i->opcode() == Opcode::kSort) return SimplifySort(i);
    if (i->opcode() == Opcode::kScatter) return SimplifyScatter(i);
    return nullptr;
  }
  Opcode op = i->opcode();
  if (i->shape().element_count() == 0) {
    // Nothing to compute: no kernel behind here meets an empty array unless a parameter is one.
    if (op == Opcode::kParameter || op == Opcode::kConstant || op == Opcode::kBroadcast || op == Opcode::kCustomCall ||
        op == Opcode::kGetTupleElement ||
        HasTrait(op, op_trait::kSideEffect | op_trait::kCollective | op_trait::kCalls | op_trait::kAsyncDone))
      return nullptr;
    return Rewriter(*i).Splat(ScalarZero(i->shape().element_type()), i->shape().dims());
  }
#define KRAFLA_RULE(Name) \
  if (op == Opcode::k##Name) return Simplify##Name(i)
  KRAFLA_RULE(Broadcast);
  KRAFLA_RULE(Reshape);
  KRAFLA_RULE(Transpose);
  KRAFLA_RULE(Reverse);
  KRAFLA_RULE(Iota);
  KRAFLA_RULE(Slice);
  KRAFLA_RULE(Pad);
  KRAFLA_RULE(Concatenate);
  KRAFLA_RULE(DynamicSlice);
  KRAFLA_RULE(DynamicUpdateSlice);
  KRAFLA_RULE(Reduce);
  KRAFLA_RULE(Sort);
  KRAFLA_RULE(Scatter);
#undef KRAFLA_RULE
  return nullptr;
}

}  // namespace

Instruction* SimplifyReshape(Instruction* i) {
  Instruction* x = i->operand(0);
  if (Shape::SameDims(x->shape(), i->shape())) return x;
  Rewriter rewrite(*i);
  if (!IsStatic(*x)) return nullptr;
  // Of a scalar constant there is one form for all shapes.
  if (x->IsConstant() && x->shape().rank() == 0) return rewrite.Broadcast(x, i->shape().dims(), {});
  if (x->opcode() == Opcode::kReshape) return rewrite.Reshape(x, i->shape().dims());
  if (x->opcode() == Opcode::kBroadcast) return ReshapeOfBroadcast(i);
  if (x->opcode() == Opcode::kIota) {
    int64_t d = DimensionAfterReshape(x->shape().dims(), i->shape().dims(), x->attr<IotaAttributes>().dimension);
    if (d < 0) return nullptr;
    return rewrite.Add(Opcode::kIota, ArrayShape(i->shape().element_type(), i->shape().dims()), {}, IotaAttributes{d});
  }
  return nullptr;
}

Instruction* SimplifyBroadcast(Instruction* i) {
  Instruction* x = i->operand(0);
  const Dims& mapping = i->attr<DimensionsAttributes>().dimensions;
  const Dims& dims = i->shape().dims();
  Rewriter rewrite(*i);
  if (x->opcode() == Opcode::kBroadcast && IsStatic(*x)) {
    Dims composed = x->attr<DimensionsAttributes>().dimensions;
    for (int64_t& d : composed) d = mapping[static_cast<std::size_t>(d)];
    return rewrite.Broadcast(x->operand(0), dims, composed);
  }
  if (!std::ranges::is_sorted(mapping)) {
    Dims permutation;
    for (std::size_t k = 0; k < mapping.size(); ++k) permutation.push_back(static_cast<int64_t>(k));
    std::ranges::sort(permutation, [&](int64_t a, int64_t b) {
      return mapping[static_cast<std::size_t>(a)] < mapping[static_cast<std::size_t>(b)];
    });
    Dims sorted = mapping;
    std::ranges::sort(sorted);
    return rewrite.Broadcast(rewrite.Transpose(x, permutation), dims, sorted);
  }
  if (x->shape().rank() == i->shape().rank()) return x;
  // Only dimensions of size 1 are new.
  if (!x->IsConstant() && x->shape().element_count() == i->shape().element_count()) return rewrite.Reshape(x, dims);
  Dims kept, kept_mapping;
  for (std::size_t k = 0; k < mapping.size(); ++k) {
    if (x->shape().dims()[k] == 1) continue;
    kept.push_back(x->shape().dims()[k]);
    kept_mapping.push_back(mapping[k]);
  }
  if (kept.size() < mapping.size()) return rewrite.Broadcast(rewrite.Reshape(x, kept), dims, kept_mapping);
  return nullptr;
}

namespace {

// Pieces that are stacked and then moved, the stack's dimension alone, are stacked along that one to begin with. Many
// pieces are better written one behind the other and transposed.
Instruction* TransposeOfStack(Instruction* i) {
  constexpr std::size_t kMostPieces = 16;
  Instruction* stack = i->operand(0);
  const int64_t from = stack->attr<DimensionsAttributes>().dimensions[0];
  const bool has_layers = std::ranges::all_of(
      stack->operands(), [&](const Instruction* piece) { return piece->shape().dim(from) == 1 && IsStatic(*piece); });
  if (stack->users().size() != 1 || stack->operand_count() > kMostPieces || !has_layers) return nullptr;
  const Dims& permutation = i->attr<DimensionsAttributes>().dimensions;
  const int64_t to = Inverse(permutation)[static_cast<std::size_t>(from)];
  Dims others;
  for (int64_t d : permutation)
    if (d != from && stack->shape().dim(d) != 1) others.push_back(d);
  if (!std::ranges::is_sorted(others)) return nullptr;
  Rewriter rewrite(*i);
  Dims layer = i->shape().dims();
  layer[static_cast<std::size_t>(to)] = 1;
  std::vector<Instruction*> layers;
  for (Instruction* piece : stack->operands()) layers.push_back(rewrite.Reshape(piece, layer));
  return rewrite.Add(Opcode::kConcatenate, i->shape(), std::move(layers), DimensionsAttributes{{to}});
}

// A reduction of x that is moved as x itself is moved elsewhere reduces what x is moved to: a softmax's maximum then
// has the rows of what it is taken from.
Instruction* TransposeOfReduction(Instruction* i) {
  Instruction* reduce = i->operand(0);
  if (reduce->operand_count() != 2 || reduce->users().size() != 1) return nullptr;
  Instruction* x = reduce->operand(0);
  const Dims& reduced = reduce->attr<DimensionsAttributes>().dimensions;
  Dims kept;
  for (int64_t d = 0; d < x->shape().rank(); ++d)
    if (!Contains(reduced, d)) kept.push_back(d);
  for (Instruction* user : x->users()) {
    if (user->opcode() != Opcode::kTranspose || !IsStatic(*x)) continue;
    const Dims permutation = user->attr<DimensionsAttributes>().dimensions;
    Dims order, dimensions, sources;
    for (std::size_t d = 0; d < permutation.size(); ++d) {
      if (Contains(reduced, permutation[d]))
        dimensions.push_back(static_cast<int64_t>(d)), sources.push_back(permutation[d]);
      else order.push_back(permutation[d]);
    }
    Dims wanted;
    for (int64_t d : i->attr<DimensionsAttributes>().dimensions) wanted.push_back(kept[static_cast<std::size_t>(d)]);
    // What is summed comes in the same order.
    if (order != wanted || !std::ranges::is_sorted(sources)) continue;
    Rewriter rewrite(*i);
    return rewrite.Add(Opcode::kReduce, i->shape(), {rewrite.Transpose(x, permutation), reduce->operand(1)},
                       DimensionsAttributes{dimensions}, {reduce->called(0)});
  }
  return nullptr;
}

}  // namespace

Instruction* SimplifyTranspose(Instruction* i) {
  Instruction* x = i->operand(0);
  const Dims& permutation = i->attr<DimensionsAttributes>().dimensions;
  Rewriter rewrite(*i);
  // Dimensions of size 1 may stand anywhere.
  int64_t last = -1;
  bool in_order = true;
  for (int64_t d : permutation) {
    if (x->shape().dim(d) == 1) continue;
    in_order &= d > last;
    last = d;
  }
  if (in_order) return rewrite.Reshape(x, i->shape().dims());
  if (!IsStatic(*x)) return nullptr;
  if (x->opcode() == Opcode::kTranspose) return rewrite.Transpose(x, permutation);
  if (x->opcode() == Opcode::kBroadcast) {
    Dims inverse = Inverse(permutation), mapping = x->attr<DimensionsAttributes>().dimensions;
    for (int64_t& d : mapping) d = inverse[static_cast<std::size_t>(d)];
    return rewrite.Broadcast(x->operand(0), i->shape().dims(), mapping);
  }
  if (x->opcode() == Opcode::kIota) {
    int64_t d = Inverse(permutation)[static_cast<std::size_t>(x->attr<IotaAttributes>().dimension)];
    return rewrite.Add(Opcode::kIota, ArrayShape(i->shape().element_type(), i->shape().dims()), {}, IotaAttributes{d});
  }
  if (x->opcode() == Opcode::kConcatenate) return TransposeOfStack(i);
  if (x->opcode() == Opcode::kReduce) return TransposeOfReduction(i);
  return nullptr;
}

Instruction* SimplifyReverse(Instruction* i) {
  Instruction* x = i->operand(0);
  const Dims& dimensions = i->attr<DimensionsAttributes>().dimensions;
  uint64_t reversed = 0;
  for (int64_t d : dimensions)
    if (x->shape().dim(d) > 1) reversed |= uint64_t{1} << d;
  if (x->opcode() == Opcode::kReverse && IsStatic(*x)) {
    for (int64_t d : x->attr<DimensionsAttributes>().dimensions)
      if (x->shape().dim(d) > 1) reversed ^= uint64_t{1} << d;
    x = x->operand(0);
  } else if (x->opcode() == Opcode::kBroadcast && IsStatic(*x)) {
    uint64_t mapped = 0;
    for (int64_t d : x->attr<DimensionsAttributes>().dimensions) mapped |= uint64_t{1} << d;
    reversed &= mapped;
  }
  if (reversed == 0) return x;
  Dims kept;
  for (int64_t d = 0; d < x->shape().rank(); ++d)
    if ((reversed >> d) & 1) kept.push_back(d);
  if (x == i->operand(0) && kept == dimensions) return nullptr;
  if (x == i->operand(0) && kept.size() == dimensions.size()) return nullptr;  // the same in another order
  return Rewriter(*i).Add(Opcode::kReverse, i->shape(), {x}, DimensionsAttributes{kept});
}

Instruction* SimplifyIota(Instruction* i) {
  if (i->shape().dim(i->attr<IotaAttributes>().dimension) != 1) return nullptr;
  return Rewriter(*i).Splat(ScalarZero(i->shape().element_type()), i->shape().dims());
}

Result<bool> MovementSimplifier(Module& module, const PassOptions&) { return SweepModule(module, SimplifyMovement); }

}  // namespace krafla
