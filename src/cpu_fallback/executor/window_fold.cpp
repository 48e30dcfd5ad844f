// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/window_fold.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>

#include "base/checked_math.h"
#include "base/index.h"
#include "cpu_fallback/executor/iteration.h"
#include "cpu_fallback/executor/reduce_tiling.h"
#include "cpu_fallback/kernels/block_ops.h"
#include "cpu_fallback/kernels/narrow_windows.h"
#include "krafla/shape.h"
#include "numerics/formats.h"

namespace krafla::cpu {

namespace {

using plan::ElementProgram;
using plan::kNoNode;
using plan::Node;
using plan::NodeId;
using plan::NodeOp;

constexpr int64_t kWindowTileElements = 2048;
// Longer sums are better cut into pieces, which other layouts do.
constexpr int64_t kMostWindowElements = 1024;
constexpr int64_t kShortRun = 3, kLongRun = 8;
constexpr int64_t kMostStep = 4;       // elements apart of which vectors take one each
constexpr int64_t kMostDenseStep = 8;  // of windows whose rows are loads in another order
constexpr int64_t kNarrowColumns = 16;

uint64_t OneBits(ElementType type) {
  if (type == ElementType::kF32) return std::bit_cast<uint32_t>(1.0f);
  if (type == ElementType::kF64) return std::bit_cast<uint64_t>(1.0);
  return 1;
}

int64_t CeilDivSigned(int64_t a, int64_t b) { return a / b + (a % b != 0 && (a < 0) == (b < 0) ? 1 : 0); }

}  // namespace

IndexRange RangeInside(int64_t at, int64_t step, int64_t lo, int64_t hi, int64_t count) {
  if (step < 0) {
    // lo <= at + step * i < hi is 1 - hi <= -at - step * i < 1 - lo.
    std::swap(lo, hi);
    lo = 1 - lo, hi = 1 - hi, at = -at, step = -step;
  }
  const int64_t begin = std::clamp<int64_t>(CeilDivSigned(lo - at, step), 0, count);
  return {begin, std::clamp<int64_t>(CeilDivSigned(hi - at, step), begin, count)};
}

std::optional<WindowFold> WindowFold::Find(const plan::ReduceStage& stage, std::span<const int64_t> row_dims,
                                           std::span<const int64_t> element_dims) {
  if (stage.scope != plan::ReduceStage::Scope::kElement || stage.reductions.size() != 1) return std::nullopt;
  const plan::Reduction& reduction = stage.reductions[0];
  if (reduction.inputs.size() != 1 || row_dims.empty()) return std::nullopt;
  const ElementProgram& program = stage.program;
  const auto node = [&](NodeId id) -> const Node& { return program.nodes[At(id)]; };
  int64_t elements = 1;
  for (int64_t d : element_dims) elements *= d;
  if (elements == 0 || elements > kMostWindowElements) return std::nullopt;

  WindowFold out;
  out.row_rank_ = row_dims.size();
  out.element_dims_ = Dims(element_dims.begin(), element_dims.end());
  out.elements_ = elements;
  NodeId value = program.results[At(reduction.inputs[0])], mask = kNoNode;
  if (node(value).op == NodeOp::kHlo && node(value).opcode == Opcode::kSelect) {
    const Node& select = node(value);
    mask = select.operands[0];
    value = select.operands[1];
    const Node& outside = node(select.operands[2]);
    const std::optional<uint64_t> bits = plan::ConstantBits(program, select.operands[2]);
    if (!bits || !out.FindOutside(reduction, outside.type, *bits)) return std::nullopt;
  }
  const Node& load = node(value);
  if (load.op == NodeOp::kLoad && mask == kNoNode && load.mask != kNoNode) {
    // Outside a load gives zero.
    mask = load.mask;
    if (!out.FindOutside(reduction, load.type, 0)) return std::nullopt;
  }
  if (load.op != NodeOp::kLoad || load.storage != reduction.hlo_type) return std::nullopt;
  const bool is_narrow = load.storage != load.type;
  if (is_narrow ? StorageBytes(load.storage) > 2 : StorageBytes(load.type) < 4) return std::nullopt;
  if (load.mask != mask || !out.FindBounds(program, mask)) return std::nullopt;
  // What is computed besides: nothing that is stored.
  if (!program.stores.empty() || program.results.size() != 1) return std::nullopt;
  std::optional<Dims> strides = AffineCoefficients(program.space, load.index);
  if (!strides) return std::nullopt;
  out.strides_ = std::move(*strides);
  out.offset_ = program.space.expr(load.index).constant;
  out.buffer_ = load.buffer;
  out.width_ = out.source_width_ = StorageBytes(load.storage);
  out.tiles_ =
      is_narrow ? FindNarrowTiles(reduction.kind, load.storage) : FindReduceOps(reduction.kind, load.type).tiles;
  // Sums and products of narrow floats are those of the numbers as f32.
  const bool widens = is_narrow && out.tiles_ == nullptr && load.type == ElementType::kF32;
  if (widens) {
    out.tiles_ = FindWideningTiles(reduction.kind, load.storage);
    out.width_ = StorageBytes(load.type);
  }
  if (out.tiles_ == nullptr) return std::nullopt;
  if (is_narrow) {
    if (!widens) out.lane_ = load.storage;
    const uint64_t outside = out.outside_;
    FindNarrow(load.storage)(reinterpret_cast<const std::byte*>(&outside), reinterpret_cast<std::byte*>(&out.outside_),
                             1);
  }
  out.ChooseWindowTile(row_dims);
  if (out.tile_.column_dim < 0) return std::nullopt;
  // Vectors of the narrow type hold little of short rows.
  out.is_of_short_rows_ = is_narrow && !widens && out.tile_.columns < kNarrowColumns;
  // Long runs of a row's own elements are folded vector by vector instead of number by number of many rows, and what is
  // too far apart for vectors is transposed where the order is of no matter.
  const int64_t step = std::abs(out.strides_[At(out.tile_.column_dim)]);
  const bool is_transposed = step > kMostStep && out.bounds_.empty() && !IsRoundedByOrder(reduction);
  for (std::size_t d = out.row_rank_; d < out.strides_.size(); ++d)
    if (out.strides_[d] == 1 && element_dims[d - out.row_rank_] >= (is_transposed ? kShortRun : kLongRun) && step > 2)
      return std::nullopt;
  // A bound over both sides of the tile is no rectangle.
  for (const Bound& b : out.bounds_)
    if (out.tile_.row_dim >= 0 && b.coefficients[At(out.tile_.row_dim)] != 0 &&
        b.coefficients[At(out.tile_.column_dim)] != 0)
      return std::nullopt;
  return out;
}

// Conjunctions of comparisons of indices with constants.
bool WindowFold::IsOfFewSums() const {
  constexpr int64_t kFewSums = 256;
  const int64_t sums = tile_.rows * tile_.columns;
  return elements_ >= kManyWindowElements && sums <= std::min(elements_, kFewSums);
}

bool WindowFold::FindBounds(const ElementProgram& program, NodeId mask) {
  if (mask == kNoNode) return true;
  const Node& n = program.nodes[At(mask)];
  if (n.op == NodeOp::kHlo && n.opcode == Opcode::kAnd)
    return FindBounds(program, n.operands[0]) && FindBounds(program, n.operands[1]);
  if (n.op != NodeOp::kCompare) return false;
  const Node &a = program.nodes[At(n.operands[0])], &b = program.nodes[At(n.operands[1])];
  if (a.op != NodeOp::kIndex || b.op != NodeOp::kConstant || b.type != ElementType::kS32) return false;
  std::optional<Dims> coefficients = AffineCoefficients(program.space, a.index);
  if (!coefficients) return false;
  constexpr int64_t kFar = std::numeric_limits<int64_t>::max() / 4;
  const int64_t limit = static_cast<int32_t>(b.bits);
  Bound bound{std::move(*coefficients), program.space.expr(a.index).constant, -kFar, kFar};
  if (n.direction == ComparisonDirection::kLt) bound.hi = limit;
  else if (n.direction == ComparisonDirection::kGe) bound.lo = limit;
  else return false;
  bounds_.push_back(std::move(bound));
  return true;
}

// What elements outside count as, and whether to leave them out comes to the same.
bool WindowFold::FindOutside(const plan::Reduction& r, ElementType type, uint64_t bits) {
  outside_ = bits;
  const NodeId start = r.init.results.empty() ? kNoNode : r.init.results[0];
  if (start == kNoNode) return false;
  const bool same_as_start = r.init.nodes[At(start)].type == type && plan::ConstantBits(r.init, start) == bits;
  switch (r.kind) {
    // The initial value takes part once; a second time makes no difference.
    case plan::Reduction::Kind::kMax:
    case plan::Reduction::Kind::kMin:
    case plan::Reduction::Kind::kAnd:
    case plan::Reduction::Kind::kOr: skips_outside_ = same_as_start; return true;
    // A sum that begins with +0 is never -0, and adding +0 changes nothing else.
    case plan::Reduction::Kind::kSum:
    case plan::Reduction::Kind::kXor: skips_outside_ = same_as_start && bits == 0; return true;
    case plan::Reduction::Kind::kProduct: skips_outside_ = same_as_start && bits == OneBits(type); return true;
    case plan::Reduction::Kind::kComplexProduct:
    case plan::Reduction::Kind::kOther: return false;
  }
  return false;
}

// Columns along what is dense in memory, or nearest to it; rows along the longest of the others, as a call should have
// many, or of equally long ones along what follows it there.
void WindowFold::ChooseWindowTile(std::span<const int64_t> row_dims) {
  const auto extent = [&](int d) { return row_dims[At(d)]; };
  const auto cost = [&](int d) {
    const int64_t stride = std::abs(StrideOf(d));
    return (stride == 1 ? 1.0 : stride <= 2 ? 1.5 : stride <= 4 ? 2.0 : 4.0) + 8.0 / static_cast<double>(extent(d));
  };
  for (int d = 0; d < static_cast<int>(row_dims.size()); ++d) {
    if (extent(d) == 1) continue;
    if (tile_.column_dim < 0 || cost(d) <= cost(tile_.column_dim)) tile_.column_dim = d;
  }
  if (tile_.column_dim < 0) return;
  tile_.columns = std::min(extent(tile_.column_dim), kWindowTileElements);
  const int64_t left = kWindowTileElements / tile_.columns;
  for (int d = 0; d < static_cast<int>(row_dims.size()); ++d) {
    if (d == tile_.column_dim || extent(d) == 1 || left < 2) continue;
    const int64_t rows = std::min(extent(d), left),
                  best = tile_.row_dim < 0 ? 0 : std::min(extent(tile_.row_dim), left);
    if (rows > best || (rows == best && std::abs(StrideOf(d)) <= std::abs(StrideOf(tile_.row_dim)))) tile_.row_dim = d;
  }
  if (tile_.row_dim >= 0) tile_.rows = std::min(extent(tile_.row_dim), left);
}

WindowFold WindowFold::WithDenseColumns(std::span<const int64_t> row_dims) const {
  WindowFold out = *this;
  TileShape tile;
  for (int d = 0; d < static_cast<int>(row_dims.size()); ++d)
    if (row_dims[At(d)] > 1 && std::abs(StrideOf(d)) <= kMostDenseStep &&
        (tile.column_dim < 0 || std::abs(StrideOf(d)) <= std::abs(StrideOf(tile.column_dim))))
      tile.column_dim = d;
  if (tile.column_dim < 0) return out;
  tile.columns = std::min(row_dims[At(tile.column_dim)], kWindowTileElements);
  for (int d = 0; d < static_cast<int>(row_dims.size()); ++d) {
    if (d == tile.column_dim || row_dims[At(d)] == 1) continue;
    if (tile.row_dim < 0 || std::abs(StrideOf(d)) < std::abs(StrideOf(tile.row_dim))) tile.row_dim = d;
  }
  if (tile.row_dim >= 0) tile.rows = std::min(row_dims[At(tile.row_dim)], kWindowTileElements / tile.columns);
  out.tile_ = tile;
  return out;
}

std::optional<WindowFold::Target> WindowFold::FindTarget(const plan::ReduceStage& stage) const {
  const ElementProgram& p = stage.program;
  if (stage.scope != plan::ReduceStage::Scope::kRow || p.stores.size() != 1 || p.stores[0].mask != kNoNode)
    return std::nullopt;
  const plan::Store& store = p.stores[0];
  const Node& n = p.nodes[At(store.node)];
  if (n.op != NodeOp::kParam || n.bits != 0 || store.buffer == buffer_) return std::nullopt;
  // Floats that are narrow get their NaNs when they are rounded.
  if (lane_ == ElementType::kInvalid ? n.type != store.storage : store.storage != lane_ || IsFloat(lane_))
    return std::nullopt;
  std::optional<Dims> strides = AffineCoefficients(p.space, store.index);
  if (!strides || (*strides)[At(tile_.column_dim)] != 1) return std::nullopt;
  return Target{store.buffer, p.space.expr(store.index).constant, std::move(*strides)};
}

void WindowFold::Run(std::span<std::byte* const> buffers, std::span<const int64_t> origin, int64_t rows,
                     int64_t columns, std::byte* accumulator, int64_t accumulator_stride, int64_t begin,
                     int64_t end) const {
  const std::byte* base = buffers[At(buffer_)];
  const int64_t row_stride = StrideOf(tile_.row_dim), column_stride = StrideOf(tile_.column_dim);
  // Elements of the window with the same rectangle are folded together.
  struct Rectangle {
    IndexRange rows, columns;
    bool operator==(const Rectangle&) const = default;
  };
  Rectangle rectangle;
  const void* arrays[ReduceOps::kMostTiles];
  int64_t count = 0;
  const auto fold = [&](const Rectangle& r, const void* const* from, int64_t n, int64_t from_row, int64_t from_column) {
    const int64_t height = r.rows.end - r.rows.begin, width = r.columns.end - r.columns.begin;
    if (height <= 0 || width <= 0 || n == 0) return;
    tiles_(from, n, from_row, from_column, height, width,
           accumulator + (r.rows.begin * accumulator_stride + r.columns.begin) * width_, accumulator_stride);
  };
  const auto flush = [&] {
    fold(rectangle, arrays, count, row_stride, column_stride);
    count = 0;
  };
  int64_t corner = offset_;
  for (std::size_t d = 0; d < row_rank_; ++d) corner += origin[d] * strides_[d];
  Dims element(element_dims_.size(), 0);
  int64_t rest = begin;
  for (std::size_t e = element.size(); e-- > 0; rest /= element_dims_[e]) element[e] = rest % element_dims_[e];
  for (; begin < end; ++begin, NextIndex({element.data(), element.size()}, element_dims_)) {
    int64_t at = corner;
    for (std::size_t e = 0; e < element.size(); ++e) at += element[e] * strides_[row_rank_ + e];
    IndexRange r{0, rows}, c{0, columns};
    for (const Bound& b : bounds_) {
      int64_t value = b.constant;
      for (std::size_t d = 0; d < row_rank_; ++d) value += origin[d] * b.coefficients[d];
      for (std::size_t e = 0; e < element.size(); ++e) value += element[e] * b.coefficients[row_rank_ + e];
      const int64_t along_rows = tile_.row_dim < 0 ? 0 : b.coefficients[At(tile_.row_dim)];
      const int64_t along_columns = b.coefficients[At(tile_.column_dim)];
      if (along_rows == 0 && along_columns == 0) {
        if (value < b.lo || value >= b.hi) r.end = r.begin;
        continue;
      }
      IndexRange& side = along_rows != 0 ? r : c;
      const IndexRange inside = RangeInside(value, along_rows != 0 ? along_rows : along_columns, b.lo, b.hi,
                                            along_rows != 0 ? rows : columns);
      side.begin = std::max(side.begin, inside.begin);
      side.end = std::max(side.begin, std::min(side.end, inside.end));
    }
    if (r.begin == r.end || c.begin == c.end) r = {0, 0}, c = {0, 0};
    const Rectangle inside{r, c};
    if (count == ReduceOps::kMostTiles || !(inside == rectangle)) flush();
    rectangle = inside;
    arrays[count++] = base + (at + r.begin * row_stride + c.begin * column_stride) * source_width_;
    if (skips_outside_) continue;
    flush();
    const void* outside = &outside_;
    const IndexRange all{0, columns};
    fold({{0, r.begin}, all}, &outside, 1, 0, 0);
    fold({{r.end, rows}, all}, &outside, 1, 0, 0);
    fold({r, {0, c.begin}}, &outside, 1, 0, 0);
    fold({r, {c.end, columns}}, &outside, 1, 0, 0);
  }
  flush();
}

}  // namespace krafla::cpu
