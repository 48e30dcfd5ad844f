// SPDX-License-Identifier: Apache-2.0
#include "plan/rows/column_bounds.h"

#include <algorithm>
#include <cmath>

#include "plan/rows/column_limits.h"
#include "plan/rows/column_values.h"
#include "plan/rows/mask_ranges.h"

namespace krafla::plan {

std::vector<int> ArraysBetween(std::span<const RowChain::Member> members, const std::set<int>& shrunk, std::size_t from,
                               std::size_t to) {
  std::vector<int> out;
  for (int allocation : shrunk) {
    bool is_between = true;
    for (std::size_t m = 0; m < members.size(); ++m) {
      const bool touches =
          std::ranges::any_of(members[m].launch.bindings, [&](const Slice& s) { return s.allocation == allocation; });
      is_between = is_between && touches == (m == from || m == to);
    }
    if (is_between) out.push_back(allocation);
  }
  return out;
}

std::optional<int> OnlyBetween(std::span<const RowChain::Member> members, const std::set<int>& shrunk, std::size_t from,
                               std::size_t to) {
  const std::vector<int> found = ArraysBetween(members, shrunk, from, to);
  return found.size() == 1 ? std::optional(found[0]) : std::nullopt;
}

namespace {

std::size_t BoundAt(int64_t i) { return static_cast<std::size_t>(i); }

const Node& NodeAt(const ElementProgram& p, NodeId id) { return p.nodes[BoundAt(id)]; }

// ---- Scores

// The constant that a choice takes wherever it is decided.
std::optional<double> Chosen(const ElementProgram& p, MaskRanges& ranges, NodeId id) {
  const Node& n = NodeAt(p, id);
  if (const auto value = FloatConstant(p, id)) return value;
  if (n.op != NodeOp::kHlo || n.opcode != Opcode::kSelect) return std::nullopt;
  const std::optional<Interval> pred = ranges.Of(n.operands[0]);
  if (!pred || pred->lo != pred->hi) return std::nullopt;
  return Chosen(p, ranges, pred->lo != 0 ? n.operands[1] : n.operands[2]);
}

// The constants that choices of a stored value may take: the last one is what a mask stands for.
std::optional<double> MaskConstant(const ElementProgram& p, NodeId id) {
  const Node& n = NodeAt(p, id);
  if (n.op != NodeOp::kHlo || n.opcode != Opcode::kSelect) return std::nullopt;
  for (NodeId side : {n.operands[1], n.operands[2]})
    if (const auto value = FloatConstant(p, side)) return value;
  return std::nullopt;
}

// ---- The softmax

// Whether masked scores change nothing in the reductions, of which the first is the maximum, and all that is stored of
// them is zeros.
bool MakesZeros(const ReduceKernel& reduce, int scores, double low) {
  const ReducedColumns found = ReduceColumns(reduce, [&](int buffer, bool in_column) {
    return buffer == scores && in_column ? ColumnValue::Score(low) : ColumnValue{};
  });
  if (!found.fits || found.params.empty() || found.params[0].any.kind != ValueRange::Kind::kLargest ||
      reduce.stages[0].reductions.size() != 1)
    return false;
  return std::ranges::all_of(found.stores, [](const auto& s) { return s.second.hidden.IsZero(); });
}

// The binding by which a member reads or writes the allocation, if that is its only one.
std::optional<int> OnlyBinding(const RowChain::Member& m, int allocation) {
  std::optional<int> out;
  for (std::size_t b = 0; b < m.launch.bindings.size(); ++b) {
    if (m.launch.bindings[b].allocation != allocation) continue;
    if (out) return std::nullopt;
    out = static_cast<int>(b);
  }
  return out;
}

// Of the softmax: all that it stores of its elements is the one array. What it stores once a row is what the reductions
// are, to which columns that are left out add nothing.
bool StoresOnly(const ReduceKernel& reduce, int binding) {
  return std::ranges::all_of(reduce.stages, [&](const ReduceStage& stage) {
    return stage.scope == ReduceStage::Scope::kRow ||
           std::ranges::all_of(stage.program.stores, [&](const Store& s) { return s.buffer == binding; });
  });
}

}  // namespace

std::optional<ScoreMask> MaskOfScores(const KernelPlan& scores, bool added) {
  const auto* dot = std::get_if<DotKernel>(&scores.body);
  if (dot == nullptr) return std::nullopt;
  const ElementProgram& epilogue = dot->epilogue;
  if (epilogue.stores.size() != 1 || epilogue.stores[0].mask != kNoNode) return std::nullopt;
  const ElementType kept = epilogue.stores[0].storage;
  if (kept != ElementType::kF32 && kept != ElementType::kBF16 && kept != ElementType::kF16) return std::nullopt;
  const int column_dim = static_cast<int>(epilogue.space.dims().size()) - 1;
  const IndexSpace::Affine column = epilogue.space.StrideAlong(epilogue.stores[0].index, column_dim);
  if (!column.affine || column.stride != 1) return std::nullopt;
  std::optional<double> low = MaskConstant(epilogue, epilogue.stores[0].node);
  const std::optional<AddedMask> mask = added ? FindAddedMask(epilogue) : std::nullopt;
  if (mask) low = mask->low;
  constexpr double kLowEnough = -1000;
  if (!low || !(*low <= kLowEnough)) return std::nullopt;
  // exp(x) is zero for x < -104. The difference of two numbers of such a size is a multiple of their spacing.
  // So is a sum that was rounded to bf16.
  const double spacing = mask ? 0x1p-7 : 0x1p-20;
  const double least = std::isinf(*low) ? *low : *low + std::max(200.0, std::abs(*low) * spacing);
  return ScoreMask{dot->n, *low, least};
}

std::optional<ScoreMask> AttentionMask(std::span<const RowChain::Member> members, const std::set<int>& shrunk,
                                       std::size_t at, bool added) {
  const auto* reduce = std::get_if<ReduceKernel>(&members[at + 1].kernel.body);
  const auto* second = std::get_if<DotKernel>(&members[at + 2].kernel.body);
  const std::optional<ScoreMask> out = MaskOfScores(members[at].kernel, added);
  if (!out || reduce == nullptr || second == nullptr) return std::nullopt;
  const auto& first = std::get<DotKernel>(members[at].kernel.body);
  if (first.computes_lhs() || first.computes_rhs()) return std::nullopt;
  const std::optional<int> scores = OnlyBetween(members, shrunk, at, at + 1);
  // Besides what is multiplied there may be arrays that have an element a row.
  const std::vector<int> behind = ArraysBetween(members, shrunk, at + 1, at + 2);
  const int multiplied =
      second->computes_lhs() ? -1 : members[at + 2].launch.bindings[BoundAt(second->lhs_binding)].allocation;
  const auto parts = std::ranges::find(behind, multiplied);
  if (!scores || parts == behind.end()) return std::nullopt;
  // Columns side by side, all of them in every one of the three.
  if (reduce->element_dims != Dims({out->columns}) || second->k != out->columns || second->lhs_k_stride != 1 ||
      second->computes_lhs() || second->computes_rhs() || !IsFloat(second->rhs_type))
    return std::nullopt;
  const std::optional<int> written = OnlyBinding(members[at], *scores), read = OnlyBinding(members[at + 1], *scores),
                           stored = OnlyBinding(members[at + 1], *parts);
  if (!written || !read || !stored || !StoresOnly(*reduce, *stored) || !MakesZeros(*reduce, *read, out->low))
    return std::nullopt;
  return out;
}

bool IsMasked(const KernelPlan& scores, const ScoreMask& mask, int dim, int64_t begin, int64_t extent,
              const ColumnRange& columns) {
  if (columns.count <= 0) return true;
  const KernelPlan narrow = NarrowFree(scores, dim, begin, extent);
  const ElementProgram& p = std::get<DotKernel>(narrow.body).epilogue;
  Dims dims = p.space.dims();
  std::vector<DimImage> images;
  for (std::size_t d = 0; d < dims.size(); ++d) images.push_back(DimImage::Of(static_cast<int>(d)));
  images.back().constant = columns.first;
  dims.back() = columns.count;
  const ElementProgram behind = Reindex(p, dims, images);
  MaskRanges ranges(behind);
  const std::optional<double> value = Chosen(behind, ranges, behind.stores[0].node);
  return value && *value == mask.low;
}

}  // namespace krafla::plan
