// SPDX-License-Identifier: Apache-2.0
// Rules of movement_simplifier for slices, pads and concatenations, and for reductions, sorts and scatters that move
// elements only.
#include <algorithm>
#include <ranges>
#include <vector>

#include "ir/packed_elements.h"
#include "passes/entry_packing.h"
#include "passes/rewrite.h"
#include "passes/simplify/movement.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

SliceAttributes WholeSlice(const Shape& shape) {
  SliceAttributes out;
  for (int64_t d : shape.dims()) {
    out.starts.push_back(0);
    out.limits.push_back(d);
    out.strides.push_back(1);
  }
  return out;
}

int64_t SliceCount(const SliceAttributes& a, std::size_t d) {
  int64_t extent = a.limits[d] - a.starts[d];
  return extent <= 0 ? 0 : (extent + a.strides[d] - 1) / a.strides[d];
}

bool SameSplat(const Literal* a, const Literal* b) { return a != nullptr && b != nullptr && *a == *b; }

Instruction* SliceOfBroadcast(Instruction* i, const SliceAttributes& slice) {
  Instruction* broadcast = i->operand(0);
  Instruction* x = broadcast->operand(0);
  const Dims& mapping = broadcast->attr<DimensionsAttributes>().dimensions;
  SliceAttributes inner;
  for (int64_t d : mapping) {
    auto k = static_cast<std::size_t>(d);
    inner.starts.push_back(slice.starts[k]);
    inner.limits.push_back(slice.limits[k]);
    inner.strides.push_back(slice.strides[k]);
  }
  Rewriter rewrite(*i);
  return rewrite.Broadcast(rewrite.Slice(x, std::move(inner)), i->shape().dims(), mapping);
}

// A slice that lies within one operand of a concatenation.
Instruction* SliceOfConcatenate(Instruction* i, const SliceAttributes& slice) {
  Instruction* concat = i->operand(0);
  auto d = static_cast<std::size_t>(concat->attr<DimensionsAttributes>().dimensions[0]);
  int64_t last = slice.starts[d] + (SliceCount(slice, d) - 1) * slice.strides[d];
  int64_t begin = 0;
  for (Instruction* x : concat->operands()) {
    int64_t end = begin + x->shape().dims()[d];
    if (slice.starts[d] >= begin && slice.starts[d] < end) {
      if (last >= end) return nullptr;
      SliceAttributes inner = slice;
      inner.starts[d] -= begin;
      inner.limits[d] = last + 1 - begin;
      return Rewriter(*i).Slice(x, std::move(inner));
    }
    begin = end;
  }
  return nullptr;
}

// A slice of a padded array that meets no padding, or nothing but padding.
Instruction* SliceOfPad(Instruction* i, const SliceAttributes& slice) {
  Instruction* pad = i->operand(0);
  const auto& p = pad->attr<PadAttributes>();
  Instruction* x = pad->operand(0);
  SliceAttributes inner = slice;
  Rewriter rewrite(*i);
  for (std::size_t d = 0; d < slice.starts.size(); ++d) {
    int64_t first = slice.starts[d];
    int64_t last = first + (SliceCount(slice, d) - 1) * slice.strides[d];
    int64_t size = x->shape().dims()[d];
    if (p.interior[d] == 0 && (last < p.low[d] || first >= p.low[d] + size))
      return rewrite.Broadcast(pad->operand(1), i->shape().dims(), {});
    if (p.interior[d] != 0) {
      if (p.low[d] != 0 || p.high[d] != 0 || slice.strides[d] != p.interior[d] + 1 || first != 0) return nullptr;
      inner.limits[d] = SliceCount(slice, d);
      inner.strides[d] = 1;
      continue;
    }
    if (first < p.low[d] || last >= p.low[d] + size) return nullptr;
    inner.starts[d] = first - p.low[d];
    inner.limits[d] = last + 1 - p.low[d];
  }
  return rewrite.Slice(x, std::move(inner));
}

// Neighbours in a concatenation that were neighbours in the array they are slices of.
bool Rejoins(const Instruction* a, const Instruction* b, std::size_t dimension) {
  if (a->opcode() != Opcode::kSlice || b->opcode() != Opcode::kSlice || a->operand(0) != b->operand(0)) return false;
  const auto& x = a->attr<SliceAttributes>();
  const auto& y = b->attr<SliceAttributes>();
  if (x.strides[dimension] != 1 || y.strides[dimension] != 1 || x.limits[dimension] != y.starts[dimension])
    return false;
  for (std::size_t d = 0; d < x.starts.size(); ++d) {
    if (d == dimension) continue;
    if (x.starts[d] != y.starts[d] || x.limits[d] != y.limits[d] || x.strides[d] != y.strides[d]) return false;
  }
  return true;
}

// Starts of dynamic-slice and -update-slice are scalars, one per dimension, from operand `first` on (the older form
// with one vector is left alone). Where the slice is as wide as the array the start is clamped to 0 anyway.
Instruction* ClampKnownStarts(Instruction* i, std::size_t first, const Dims& sizes) {
  const Shape& shape = i->operand(0)->shape();
  if (i->operand_count() != first + static_cast<std::size_t>(shape.rank())) return nullptr;
  std::vector<Instruction*> operands(i->operands().begin(), i->operands().end());
  bool changed = false;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    Instruction* start = operands[first + d];
    if (!start->shape().IsScalar()) return nullptr;
    if (sizes[d] != shape.dims()[d] || (SplatOf(start) != nullptr && ScalarInt(*SplatOf(start)) == 0)) continue;
    auto zero = Literal::Create(Shape::MakeScalar(start->shape().element_type()));
    if (!zero) return nullptr;
    operands[first + d] = Rewriter(*i).Constant(std::move(*zero));
    changed = true;
  }
  if (!changed) return nullptr;
  return Rewriter(*i).Add(i->opcode(), i->shape(), std::move(operands), i->attributes());
}

}  // namespace

Instruction* SimplifySlice(Instruction* i) {
  Instruction* x = i->operand(0);
  const auto& slice = i->attr<SliceAttributes>();
  Rewriter rewrite(*i);
  if (Shape::SameDims(x->shape(), i->shape())) return x;
  if (!IsStatic(*x)) return nullptr;
  if (x->opcode() == Opcode::kSlice) {
    const auto& inner = x->attr<SliceAttributes>();
    SliceAttributes composed;
    for (std::size_t d = 0; d < slice.starts.size(); ++d) {
      int64_t start = inner.starts[d] + slice.starts[d] * inner.strides[d];
      int64_t stride = slice.strides[d] * inner.strides[d];
      composed.starts.push_back(start);
      composed.limits.push_back(start + (SliceCount(slice, d) - 1) * stride + 1);
      composed.strides.push_back(stride);
    }
    return rewrite.Slice(x->operand(0), std::move(composed));
  }
  if (x->opcode() == Opcode::kBroadcast) return SliceOfBroadcast(i, slice);
  if (x->opcode() == Opcode::kConcatenate) return SliceOfConcatenate(i, slice);
  if (x->opcode() == Opcode::kPad) return SliceOfPad(i, slice);
  if (x->opcode() == Opcode::kIota) {
    auto d = static_cast<std::size_t>(x->attr<IotaAttributes>().dimension);
    if (slice.starts[d] != 0 || slice.strides[d] != 1) return nullptr;
    return rewrite.Add(Opcode::kIota, ArrayShape(i->shape().element_type(), i->shape().dims()), {}, x->attributes());
  }
  return nullptr;
}

Instruction* SimplifyPad(Instruction* i) {
  Instruction* x = i->operand(0);
  const auto& pad = i->attr<PadAttributes>();
  Rewriter rewrite(*i);
  if (x->shape().element_count() == 0 || SameSplat(SplatOf(x), SplatOf(i->operand(1))))
    return rewrite.Broadcast(i->operand(1), i->shape().dims(), {});
  SliceAttributes slice = WholeSlice(x->shape());
  bool grows = false;
  for (std::size_t d = 0; d < pad.low.size(); ++d) {
    bool interior = pad.interior[d] > 0 && x->shape().dims()[d] > 1;
    grows |= pad.low[d] > 0 || pad.high[d] > 0 || interior;
    slice.starts[d] = std::max<int64_t>(-pad.low[d], 0);
    slice.limits[d] = x->shape().dims()[d] + std::min<int64_t>(pad.high[d], 0);
  }
  return grows ? nullptr : rewrite.Slice(x, std::move(slice));
}

// A concatenate of which another along the same dimension takes the pieces: others that use it too, and the same one
// where it has it twice, would make it be computed twice.
static bool IsPartOfAnother(const Instruction* x, int64_t dimension) {
  return x->opcode() == Opcode::kConcatenate && x->users().size() == 1 &&
         x->attr<DimensionsAttributes>().dimensions[0] == dimension && IsStatic(*x);
}

Instruction* SimplifyConcatenate(Instruction* i) {
  int64_t dimension = i->attr<DimensionsAttributes>().dimensions[0];
  Rewriter rewrite(*i);
  bool changed = false, splat = true;
  std::vector<Instruction*> parts;
  auto add = [&](Instruction* x) {
    if (x->shape().element_count() == 0) {
      changed = true;
      return;
    }
    if (!parts.empty() && Rejoins(parts.back(), x, static_cast<std::size_t>(dimension))) {
      SliceAttributes joined = parts.back()->attr<SliceAttributes>();
      auto d = static_cast<std::size_t>(dimension);
      joined.limits[d] = x->attr<SliceAttributes>().limits[d];
      parts.back() = rewrite.Slice(x->operand(0), std::move(joined));
      changed = true;
      return;
    }
    parts.push_back(x);
  };
  // The outermost of a nest takes all pieces at once; each taking those of the next would copy the innermost's again
  // and again.
  const Instruction* user = i->users().size() == 1 ? i->users()[0] : nullptr;
  const bool is_part = user != nullptr && !i->IsRoot() && user->opcode() == Opcode::kConcatenate &&
                       user->attr<DimensionsAttributes>().dimensions[0] == dimension;
  struct Piece {
    Instruction* x;
    bool is_repeated;  // among the operands of its concatenate
  };
  std::vector<Piece> work;
  const auto push_operands = [&](const Instruction* concatenate) {
    std::vector<Instruction*> sorted(concatenate->operands().begin(), concatenate->operands().end());
    std::ranges::sort(sorted);
    for (Instruction* x : std::views::reverse(concatenate->operands()))
      work.push_back({x, std::ranges::equal_range(sorted, x).size() > 1});
  };
  push_operands(i);
  while (!work.empty()) {
    const auto [x, is_repeated] = work.back();
    work.pop_back();
    if (!is_part && !is_repeated && IsPartOfAnother(x, dimension)) {
      push_operands(x);
      changed = true;
    } else {
      add(x);
    }
  }
  if (parts.size() == 1) return parts[0];
  const Literal* value = SplatOf(parts[0]);
  for (const Instruction* x : parts) splat &= SameSplat(value, SplatOf(x));
  if (splat) return rewrite.Splat(*value, i->shape().dims());
  if (!changed) return nullptr;
  return rewrite.Add(Opcode::kConcatenate, i->shape(), std::move(parts), i->attributes());
}

Instruction* SimplifyDynamicSlice(Instruction* i) {
  Instruction* x = i->operand(0);
  if (Shape::SameDims(x->shape(), i->shape())) return x;
  const Dims& sizes = i->attr<DynamicSliceAttributes>().slice_sizes;
  if (i->operand_count() != 1 + sizes.size()) return nullptr;
  SliceAttributes slice;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const Instruction* start = i->operand(1 + d);
    const Literal* known = start->shape().IsScalar() ? SplatOf(start) : nullptr;
    int64_t most = x->shape().dims()[d] - sizes[d];
    if (known == nullptr && most > 0) return ClampKnownStarts(i, 1, sizes);
    int64_t at = most > 0 ? std::clamp<int64_t>(ScalarInt(*known), 0, most) : 0;
    slice.starts.push_back(at);
    slice.limits.push_back(at + sizes[d]);
    slice.strides.push_back(1);
  }
  return Rewriter(*i).Slice(x, std::move(slice));
}

// Whole bytes of a packed array are updated where they are.
static Instruction* UpdatePacked(Instruction* i) {
  const Shape& shape = i->shape();
  Instruction* source = PackedSourceOf(*i->operand(0));
  const Instruction* update = i->operand(1);
  if (source == nullptr || shape.dims().back() % ElementsPerByte(shape.element_type()) != 0 ||
      i->operand_count() != 2 + shape.dims().size() || update->shape().dims().back() != shape.dims().back() ||
      !Shape::Compatible(source->shape(), PackedShape(shape)))
    return nullptr;
  // The last start is clamped to 0 in both.
  std::vector<Instruction*> operands(i->operands().begin(), i->operands().end());
  operands[0] = source;
  operands[1] = AddPacked(operands[1]);
  return AddUnpacked(Rewriter(*i).Add(Opcode::kDynamicUpdateSlice, source->shape(), std::move(operands)), shape);
}

Instruction* SimplifyDynamicUpdateSlice(Instruction* i) {
  Instruction* update = i->operand(1);
  if (Shape::SameDims(update->shape(), i->shape())) return update;
  if (update->shape().element_count() == 0) return i->operand(0);
  if (Instruction* packed = UpdatePacked(i)) return packed;
  return ClampKnownStarts(i, 2, update->shape().dims());
}

Instruction* SimplifyReduce(Instruction* i) {
  std::size_t arity = i->operand_count() / 2;
  const Dims& dimensions = i->attr<DimensionsAttributes>().dimensions;
  const Shape& input = i->operand(0)->shape();
  bool unit = true, empty = false;
  for (int64_t d : dimensions) {
    unit &= input.dim(d) == 1;
    empty |= input.dim(d) == 0;
  }
  if (!unit && !empty) return nullptr;
  Rewriter rewrite(*i);
  Dims dims;
  for (int64_t d = 0; d < input.rank(); ++d)
    if (std::ranges::find(dimensions, d) == dimensions.end()) dims.push_back(input.dim(d));
  std::vector<Instruction*> results;
  for (std::size_t n = 0; n < arity; ++n) {
    // XLA ignores the init value when one element is reduced (reduce_trivial in algebraic_simplifier.cc), and over
    // none the result is the init value.
    results.push_back(empty ? rewrite.Broadcast(i->operand(arity + n), dims, {})
                            : rewrite.Reshape(i->operand(n), dims));
  }
  return i->shape().IsTuple() ? rewrite.Tuple(std::move(results)) : results[0];
}

Instruction* SimplifySort(Instruction* i) {
  const Shape& input = i->operand(0)->shape();
  if (input.dim(i->attr<SortAttributes>().dimension) > 1 && input.element_count() > 0) return nullptr;
  if (!i->shape().IsTuple()) return i->operand(0);
  return Rewriter(*i).Tuple({i->operands().begin(), i->operands().end()});
}

Instruction* SimplifyScatter(Instruction* i) {
  std::size_t arity = (i->operand_count() - 1) / 2;
  if (i->operand(arity + 1)->shape().element_count() > 0) return nullptr;
  if (!i->shape().IsTuple()) return i->operand(0);
  return Rewriter(*i).Tuple({i->operands().begin(), i->operands().begin() + static_cast<std::ptrdiff_t>(arity)});
}

}  // namespace krafla
