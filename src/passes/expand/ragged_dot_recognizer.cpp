// SPDX-License-Identifier: Apache-2.0
// A dot over groups and depth whose left side is zero outside each group's rows becomes a ragged-dot: what jax.lax's
// ragged_dot is made of where a platform has no operation for it. It reads every group's matrix for every row; each row
// needs one of them. That holds where the groups' rows follow each other, which is known of running sums of counts:
//
//   ends = running sum of sizes;  starts = 0 and all ends but the last
//   dot(select(starts[g] <= m && m < ends[g], x[m, k], 0), w[g, k, n]), contracting g and k
//
// As with ragged-dot, an infinity in one group's matrix does not reach the rows of another, which zero times it would.
#include <algorithm>
#include <optional>

#include "ir/dims.h"
#include "passes/lift.h"
#include "passes/loops/cumulation.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/simplify/integer_range.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

// An array whose elements differ along one dimension only: `values` along it, or, where that is null, 0, 1, ..
struct Along {
  const Instruction* values = nullptr;
  int64_t dimension = 0;
};

std::optional<Along> AlongOne(const Instruction* x) {
  if (x->opcode() == Opcode::kIota) return Along{nullptr, x->attr<IotaAttributes>().dimension};
  if (x->opcode() != Opcode::kBroadcast) return std::nullopt;
  const Dims& mapping = x->attr<DimensionsAttributes>().dimensions;
  if (x->operand(0)->shape().rank() == 1 && x->operand(0)->opcode() != Opcode::kIota)
    return Along{x->operand(0), mapping[0]};
  std::optional<Along> inner = AlongOne(x->operand(0));
  if (inner) inner->dimension = mapping[static_cast<std::size_t>(inner->dimension)];
  return inner;
}

// Rows and groups that a mask compares: whether a row is not before a group's start, or before its end.
struct Side {
  const Instruction* bounds = nullptr;  // [groups]
  bool is_start = false;
  int64_t group = 0, row = 0;  // dimensions
};

std::optional<Side> SideOf(const Instruction* compare) {
  if (compare->opcode() != Opcode::kCompare || !IsIntegral(compare->operand(0)->shape().element_type()))
    return std::nullopt;
  const std::optional<Along> a = AlongOne(compare->operand(0)), b = AlongOne(compare->operand(1));
  if (!a || !b || a->dimension == b->dimension || (a->values == nullptr) == (b->values == nullptr)) return std::nullopt;
  const bool is_row_first = a->values == nullptr;
  const Along &row = is_row_first ? *a : *b, &group = is_row_first ? *b : *a;
  Side out{group.values, false, group.dimension, row.dimension};
  switch (compare->attr<CompareAttributes>().direction) {
    case ComparisonDirection::kGe: out.is_start = is_row_first; return is_row_first ? std::optional(out) : std::nullopt;
    case ComparisonDirection::kLe: out.is_start = true; return is_row_first ? std::nullopt : std::optional(out);
    case ComparisonDirection::kLt: return is_row_first ? std::optional(out) : std::nullopt;
    case ComparisonDirection::kGt: return is_row_first ? std::nullopt : std::optional(out);
    case ComparisonDirection::kEq:
    case ComparisonDirection::kNe: return std::nullopt;
  }
  return std::nullopt;
}

// The sizes of which `ends` is the running sum, if they are at least 0 and their sum is a number of its type.
Instruction* SizesOf(const Instruction* ends) {
  if (ends->opcode() != Opcode::kReduceWindow || ends->operand_count() != 2 || ends->shape().rank() != 1 ||
      BinaryOpcode(*ends->called(0)) != Opcode::kAdd)
    return nullptr;
  const Literal* init = SplatOf(ends->operand(1));
  if (init == nullptr || !IsPositiveZero(*init)) return nullptr;
  const std::optional<Cumulation> run = FindCumulation(*ends);
  if (!run || run->reverse) return nullptr;
  const int64_t groups = ends->shape().dim(0);
  const std::optional<uint64_t> most = UpperBound(*ends->operand(0));
  const uint64_t largest = LargestOf(ends->shape().element_type());
  return most && *most <= largest / static_cast<uint64_t>(groups) ? ends->operand(0) : nullptr;
}

// Whether `starts` is 0 and then all of `ends` but the last.
bool AreStartsOf(const Instruction* starts, const Instruction* ends) {
  const auto is_all_but_last = [&](const Instruction* x) {
    if (x->opcode() != Opcode::kSlice || x->operand(0) != ends) return false;
    const SliceAttributes& s = x->attr<SliceAttributes>();
    return s.starts[0] == 0 && s.strides[0] == 1 && s.limits[0] == ends->shape().dim(0) - 1;
  };
  const auto is_zero = [](const Instruction* x) {
    while (x->opcode() == Opcode::kSlice || x->opcode() == Opcode::kReshape) x = x->operand(0);
    // Arrays of one number are splats only where a pass has seen them.
    if (x->opcode() == Opcode::kConstant)
      return std::ranges::all_of(x->literal().bytes(), [](std::byte b) { return b == std::byte{0}; });
    const Literal* value = SplatOf(x);
    return value != nullptr && IsPositiveZero(*value);
  };
  if (starts->shape().dims() != ends->shape().dims()) return false;
  if (starts->opcode() == Opcode::kConcatenate)
    return starts->operand_count() == 2 && is_zero(starts->operand(0)) && is_all_but_last(starts->operand(1));
  if (starts->opcode() != Opcode::kPad) return false;
  const PadAttributes& p = starts->attr<PadAttributes>();
  return p.low[0] == 1 && p.high[0] == 0 && p.interior[0] == 0 && is_all_but_last(starts->operand(0)) &&
         is_zero(starts->operand(1));
}

// What a mask says where it is one of groups whose rows follow each other.
struct Groups {
  Instruction* sizes = nullptr;
  int64_t group = 0, row = 0;  // dimensions
};

std::optional<Groups> GroupsOf(const Instruction* mask) {
  if (mask->opcode() == Opcode::kBroadcast) {
    std::optional<Groups> inner = GroupsOf(mask->operand(0));
    if (!inner) return std::nullopt;
    const Dims& mapping = mask->attr<DimensionsAttributes>().dimensions;
    inner->group = mapping[static_cast<std::size_t>(inner->group)];
    inner->row = mapping[static_cast<std::size_t>(inner->row)];
    return inner;
  }
  if (mask->opcode() != Opcode::kAnd) return std::nullopt;
  std::optional<Side> start = SideOf(mask->operand(0)), end = SideOf(mask->operand(1));
  if (!start || !end) return std::nullopt;
  if (end->is_start) std::swap(start, end);
  if (!start->is_start || end->is_start || start->group != end->group || start->row != end->row ||
      !AreStartsOf(start->bounds, end->bounds))
    return std::nullopt;
  Instruction* sizes = SizesOf(end->bounds);
  return sizes != nullptr ? std::optional(Groups{sizes, start->group, start->row}) : std::nullopt;
}

// The array that `x` repeats along its dimension `group`.
Instruction* RepeatedAlong(const Instruction* x, int64_t group) {
  if (x->opcode() != Opcode::kBroadcast || x->operand(0)->shape().rank() != x->shape().rank() - 1) return nullptr;
  const Dims& mapping = x->attr<DimensionsAttributes>().dimensions;
  for (std::size_t d = 0; d < mapping.size(); ++d)
    if (mapping[d] != static_cast<int64_t>(d) + (static_cast<int64_t>(d) >= group ? 1 : 0)) return nullptr;
  return x->operand(0);
}

Result<Instruction*> ToRaggedDot(Instruction* i) {
  const Instruction* lhs = i->operand(0);
  if (!IsStatic(*i) || lhs->opcode() != Opcode::kSelect || !lhs->operand(0)->shape().IsArray()) return nullptr;
  const DotAttributes& dot = i->attr<DotAttributes>();
  const Literal* outside = SplatOf(lhs->operand(2));
  if (!dot.lhs_batch.empty() || outside == nullptr || !IsPositiveZero(*outside)) return nullptr;
  const std::optional<Groups> groups = GroupsOf(lhs->operand(0));
  if (!groups || Contains(dot.lhs_contracting, groups->row) || !Contains(dot.lhs_contracting, groups->group))
    return nullptr;
  Instruction* x = RepeatedAlong(lhs->operand(1), groups->group);
  // The groups' number alone differs between rows where rows are the only dimension that stays.
  if (x == nullptr || lhs->shape().rank() != dot.lhs_contracting.ssize() + 1) return nullptr;

  RaggedDotAttributes out;
  out.dot = dot;
  out.dot.lhs_contracting.clear();
  out.dot.rhs_contracting.clear();
  for (std::size_t d = 0; d < dot.lhs_contracting.size(); ++d) {
    const int64_t mine = dot.lhs_contracting[d];
    if (mine == groups->group) {
      out.rhs_group_dims.push_back(dot.rhs_contracting[d]);
      continue;
    }
    out.dot.lhs_contracting.push_back(mine - (mine > groups->group ? 1 : 0));
    out.dot.rhs_contracting.push_back(dot.rhs_contracting[d]);
  }
  out.lhs_ragged_dims.push_back(groups->row - (groups->row > groups->group ? 1 : 0));
  return Rewriter(*i).Add(Opcode::kRaggedDot, i->shape(), {x, i->operand(1), groups->sizes}, std::move(out));
}

}  // namespace

Result<bool> RaggedDotRecognizer(Module& module, const PassOptions&) {
  return RewriteAll(module, Opcode::kDot, ToRaggedDot);
}

}  // namespace krafla
