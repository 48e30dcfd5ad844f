// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/routine_fold.h"

#include <algorithm>
#include <bit>

#include "cpu_fallback/executor/reduce_tiling.h"
#include "cpu_fallback/kernels/reduce_ops.h"

namespace krafla::cpu {

using native::LaneOp;
using plan::Reduction;

namespace {

// The lane operation of `kind` on numbers of `type`. Predicates are combined as the numbers 0 and 1: or is their sum
// and maximum, and their product and minimum.
std::optional<LaneOp> LaneOpOf(Reduction::Kind kind, ElementType type) {
  const bool is_pred = type == ElementType::kPred;
  switch (kind) {
    case Reduction::Kind::kSum: return is_pred ? LaneOp::kOr : LaneOp::kAdd;
    case Reduction::Kind::kProduct: return is_pred ? LaneOp::kAnd : LaneOp::kMul;
    case Reduction::Kind::kMax: return is_pred ? LaneOp::kOr : LaneOp::kMax;
    case Reduction::Kind::kMin: return is_pred ? LaneOp::kAnd : LaneOp::kMin;
    case Reduction::Kind::kAnd: return IsFloat(type) ? std::nullopt : std::optional(LaneOp::kAnd);
    case Reduction::Kind::kOr: return IsFloat(type) ? std::nullopt : std::optional(LaneOp::kOr);
    case Reduction::Kind::kXor: return IsFloat(type) ? std::nullopt : std::optional(LaneOp::kXor);
    case Reduction::Kind::kComplexProduct:
    case Reduction::Kind::kOther: return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::optional<RoutineFold> RoutineFold::Find(RoutineBlock& block, const Reduction& reduction) {
  const ElementType type = plan::ComputeType(reduction.hlo_type);
  const std::optional<LaneOp> op = LaneOpOf(reduction.kind, type);
  if (!op || reduction.inputs.size() != 1 || native::LaneTypeOf(type) != type) return std::nullopt;
  RoutineFold out(block);
  out.op_ = *op;
  out.computed_ = type;
  out.type_ = type == ElementType::kPred ? ElementType::kU32 : type;
  const bool grows = reduction.kind == Reduction::Kind::kSum || reduction.kind == Reduction::Kind::kProduct;
  if (grows && plan::IsNarrow(reduction.hlo_type) && IsIntegral(reduction.hlo_type)) out.wrapped_ = reduction.hlo_type;
  if (IsRoundedByOrder(reduction)) {
    out.vector_lanes_ = FindReduceOps(reduction.kind, type).lanes;
    if (out.vector_lanes_ == 0) return std::nullopt;
  }
  return out;
}

RoutineFold::Value RoutineFold::Enter(Value value, int lanes) const {
  native::LaneBuilder& builder = block_.builder();
  value = block_.Spread(value, lanes);
  builder.UseLanes(lanes);
  value = builder.As(value, computed_);
  if (computed_ != ElementType::kPred) return value;
  return {builder.Select(value.node, builder.Constant(type_, 1), builder.Constant(type_, 0))};
}

std::optional<RoutineFold::Value> RoutineFold::Leave(Value value, int lanes) const {
  native::LaneBuilder& builder = block_.builder();
  builder.UseLanes(lanes);
  if (computed_ == ElementType::kPred) return builder.As(value, computed_);
  if (wrapped_ == ElementType::kInvalid) return value;
  const BlockKey key{.op = plan::NodeOp::kWrap, .type = computed_, .operand = computed_, .storage = wrapped_};
  return builder.Apply(key, 0, std::span<const Value>(&value, 1));
}

RoutineFold::Value RoutineFold::Combine(Value x, Value y, int lanes) const {
  native::LaneBuilder& builder = block_.builder();
  builder.UseLanes(lanes);
  // An extremum is the NaN as it is to be.
  const bool is_arithmetic = IsFloat(type_) && (op_ == LaneOp::kAdd || op_ == LaneOp::kMul);
  return {builder.Add(op_, type_, x.node, y.node),
          is_arithmetic ? native::LaneBuilder::Nans::kPending : native::LaneBuilder::Nans::kRaw};
}

// Halves onto halves: pieces of the same length, then the lanes of what is left.
RoutineFold::Value RoutineFold::FoldLanes(std::vector<Value> pieces, int lanes) const {
  while (pieces.size() > 1) {
    const std::size_t half = pieces.size() / 2;
    for (std::size_t i = 0; i < half; ++i) pieces[i] = Combine(pieces[i], pieces[i + half], lanes);
    pieces.resize(half);
  }
  Value all = pieces[0];
  for (; lanes > 1; lanes /= 2)
    all = Combine(block_.LanesOf(all, 0, lanes / 2), block_.LanesOf(all, lanes / 2, lanes / 2), lanes / 2);
  return all;
}

// As ReduceRows: of pieces that all but the last one have the same number of lanes, of which a vector is a multiple.
void RoutineFold::FoldWhole(std::span<const RoutineLanes> row, int vector_lanes, Value& total) const {
  const int each = row[0].lanes;
  int n = 0;
  for (const RoutineLanes& piece : row) n += piece.lanes;
  const auto at = [&](int element) { return static_cast<std::size_t>(element / each); };
  const auto vector = [&](int element) {
    std::vector<Value> out;
    for (int i = 0; i < vector_lanes; i += each) out.push_back(row[at(element + i)].value);
    return out;
  };
  const auto add = [&](std::vector<Value>& to, const std::vector<Value>& values) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = Combine(to[i], values[i], each);
  };
  int i = 0;
  if (n >= 2 * vector_lanes) {
    std::vector<Value> sum = vector(0);
    i = vector_lanes;
    if (n >= 8 * vector_lanes) {
      std::vector<Value> second = vector(i), third = vector(2 * i), fourth = vector(3 * i);
      for (i = 4 * vector_lanes; i + 4 * vector_lanes <= n; i += 4 * vector_lanes) {
        add(sum, vector(i));
        add(second, vector(i + vector_lanes));
        add(third, vector(i + 2 * vector_lanes));
        add(fourth, vector(i + 3 * vector_lanes));
      }
      add(sum, second), add(third, fourth), add(sum, third);
    }
    for (; i + vector_lanes <= n; i += vector_lanes) add(sum, vector(i));
    total = Combine(total, FoldLanes(std::move(sum), each), 1);
  }
  for (int size = vector_lanes; size > 0; size /= 2) {
    if (n - i < size) continue;
    std::vector<Value> some;
    if (size <= each) some.push_back(block_.LanesOf(row[at(i)].value, i % each, size));
    else
      for (int k = 0; k < size; k += each) some.push_back(row[at(i + k)].value);
    total = Combine(total, FoldLanes(std::move(some), std::min(size, each)), 1);
    i += size;
  }
}

bool RoutineFold::FoldRow(std::span<const RoutineLanes> row, Value& total) const {
  const int each = row[0].lanes;
  const bool is_whole =
      std::ranges::all_of(row.first(row.size() - 1), [&](const RoutineLanes& r) { return r.lanes == each; }) &&
      row.back().lanes <= each && (row.size() == 1 || (each & (each - 1)) == 0);
  if (vector_lanes_ > 0) {
    // A single piece is taken by its own lanes, wherever vectors are longer; shorter vectors divide it.
    const bool is_divided = row.size() > 1 && vector_lanes_ % each != 0;
    if (!is_whole || is_divided || (row.size() == 1 && each > vector_lanes_)) return false;
    FoldWhole(row, vector_lanes_, total);
    return true;
  }
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (is_whole) {
      FoldWhole(row, static_cast<int>(std::bit_ceil(static_cast<unsigned>(each))), total);
      break;
    }
    FoldWhole(row.subspan(i, 1), static_cast<int>(std::bit_ceil(static_cast<unsigned>(row[i].lanes))), total);
  }
  return true;
}

// As ReduceColumns.
RoutineFold::Value RoutineFold::FoldColumns(std::span<const Value> rows, int lanes, Value accumulator) const {
  if (static_cast<int64_t>(rows.size()) <= kRowsInTurn) {
    for (const Value& v : rows) accumulator = Combine(accumulator, v, lanes);
    return accumulator;
  }
  Value even = rows[0], odd = rows[1];
  for (std::size_t r = 2; r < rows.size(); ++r) {
    Value& sum = r % 2 == 0 ? even : odd;
    sum = Combine(sum, rows[r], lanes);
  }
  return Combine(accumulator, Combine(even, odd, lanes), lanes);
}

}  // namespace krafla::cpu
