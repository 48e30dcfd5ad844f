// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/window_rows.h"

#include <algorithm>
#include <array>

#include "base/checked_math.h"
#include "base/index.h"
#include "base/interruption.h"
#include "cpu_fallback/executor/iteration.h"
#include "cpu_fallback/kernels/block_ops.h"

namespace krafla::cpu {

namespace {

constexpr int64_t kMostRowVectors = 64, kMostRowElements = 128, kMostRowLoads = 1024;
constexpr int64_t kMostMaskBits = 16384;  // that are looked at to find the loads
constexpr int64_t kPieceRows = 1024;
constexpr int64_t kRowBandBytes = 16 * 1024;  // read for some rows, of which each vector is made in turn
// Measured on a Xeon with AVX-512.
constexpr double kLoadNanoseconds = 0.6, kRangeNanoseconds = 10, kTileCallNanoseconds = 8;
constexpr double kOrderedWords = 1.7, kOrderedBytes = 5;  // plain loads that one in another order is worth

// `constant` and the part of the window's element, of coefficients of rows and then of elements.
int64_t AtElement(const Dims& coefficients, int64_t constant, const Dims& element) {
  const std::size_t rank = coefficients.size() - element.size();
  for (std::size_t e = 0; e < element.size(); ++e) constant += element[e] * coefficients[rank + e];
  return constant;
}

// What WindowFold takes for all of the result.
double FoldNanoseconds(const TileShape& tile, int64_t step, int64_t elements, int64_t sums, int64_t lanes) {
  const auto vectors = static_cast<double>(CeilDiv(tile.columns, lanes));
  const double row = step == 1                ? 1 + kLoadNanoseconds * vectors
                     : step >= 2 && step <= 4 ? 1.5 + 2 * vectors
                                              : 2 + 0.7 * static_cast<double>(tile.columns);
  const auto rows = static_cast<double>(sums / tile.columns);
  return static_cast<double>(elements) * rows * (row + kTileCallNanoseconds / static_cast<double>(tile.rows));
}

}  // namespace

std::optional<WindowRows> WindowRows::Find(const WindowFold& fold, const std::optional<WindowFold::Target>& target,
                                           const WindowFold& other, const plan::Reduction& reduction,
                                           std::span<const int64_t> row_dims) {
  // What it is beside windows of short rows of narrow numbers, for which there are no lanes (WindowFold).
  const double gain = fold.IsOfShortRows() ? 3 : 0.8;
  const ElementType type = fold.lane_ != ElementType::kInvalid ? fold.lane_ : plan::ComputeType(reduction.hlo_type);
  const WindowRowOps ops = FindWindowRowOps(reduction.kind, type);
  if (ops.fold == nullptr || !fold.skips_outside_ || fold.width_ != fold.source_width_ ||
      fold.elements_ > kMostRowElements)
    return std::nullopt;
  const int64_t sums = SaturatingProduct(row_dims);
  double least = gain * FoldNanoseconds(other.tile_, std::abs(other.StrideOf(other.tile_.column_dim)), fold.elements_,
                                        sums, ops.lanes);
  std::optional<WindowRows> out;
  for (std::size_t inner = 1; inner <= row_dims.size(); ++inner) {
    WindowRows rows;
    rows.ops_ = ops;
    if (!rows.FindRow(fold, target, row_dims, inner) || rows.lanes_ > kMostRowVectors * ops.lanes ||
        rows.lanes_ * fold.elements_ > kMostMaskBits)
      break;
    if (!rows.FindLoads(fold, row_dims) || rows.Nanoseconds() >= least) continue;
    least = rows.Nanoseconds();
    out = std::move(rows);
  }
  return out;
}

// A row of the `inner_dims` innermost dimensions of the result, if they are dense there, or of a tile.
bool WindowRows::FindRow(const WindowFold& fold, const std::optional<WindowFold::Target>& target,
                         std::span<const int64_t> row_dims, std::size_t inner_dims) {
  const TileShape& tile = fold.tile_;
  width_ = fold.width_, from_buffer_ = fold.buffer_, elements_ = fold.elements_, from_offset_ = fold.offset_;
  std::vector<int> left;
  for (int d = 0; d < static_cast<int>(row_dims.size()); ++d)
    if (row_dims[At(d)] > 1) left.push_back(d);
  Dims strides(row_dims.size(), 0);
  if (target) {
    to_buffer_ = target->buffer, to_offset_ = target->offset, strides = target->strides;
  } else {
    strides[At(tile.column_dim)] = 1;
    if (tile.row_dim >= 0) strides[At(tile.row_dim)] = tile.columns;
  }
  while (inner_.size() < inner_dims) {
    const auto next = std::ranges::find(left, lanes_, [&](int d) { return strides[At(d)]; });
    if (next == left.end()) return false;
    // A tile that has but part of a dimension has the other parts elsewhere.
    const int64_t extent = row_dims[At(*next)];
    if (!target && extent != (*next == tile.column_dim ? tile.columns : tile.rows)) return false;
    const std::optional<int64_t> lanes = CheckedMul(lanes_, extent);
    if (!lanes) return false;
    lanes_ = *lanes;
    inner_.push_back(*next);
    left.erase(next);
  }
  auto rows = left.end();
  if (target) rows = std::ranges::max_element(left, {}, [&](int d) { return row_dims[At(d)]; });
  else if (tile.row_dim >= 0) rows = std::ranges::find(left, tile.row_dim);
  if (rows != left.end()) {
    row_dim_ = *rows;
    rows_ = row_dims[At(row_dim_)];
    from_stride_ = fold.strides_[At(row_dim_)], to_stride_ = strides[At(row_dim_)];
    left.erase(rows);
  }
  outer_ = std::move(left);
  for (int d : outer_) {
    outer_dims_.push_back(row_dims[At(d)]);
    outer_from_.push_back(fold.strides_[At(d)]);
    outer_to_.push_back(strides[At(d)]);
    outer_count_ *= row_dims[At(d)];
  }
  piece_rows_ = std::min(rows_, kPieceRows);
  pieces_ = CeilDiv(rows_, piece_rows_);
  return true;
}

// The loads of each element of the window, and the bounds that are not of lanes. False where a bound is of both.
bool WindowRows::FindLoads(const WindowFold& fold, std::span<const int64_t> row_dims) {
  std::vector<const WindowFold::Bound*> of_lanes;
  const auto has = [](const WindowFold::Bound& b, int d) { return b.coefficients[At(d)] != 0; };
  for (const WindowFold::Bound& b : fold.bounds_) {
    const bool is_inner = std::ranges::any_of(inner_, [&](int d) { return has(b, d); });
    if (is_inner &&
        ((row_dim_ >= 0 && has(b, row_dim_)) || std::ranges::any_of(outer_, [&](int d) { return has(b, d); })))
      return false;
    if (is_inner) {
      of_lanes.push_back(&b);
      continue;
    }
    Bound bound{{}, row_dim_ < 0 ? 0 : b.coefficients[At(row_dim_)], b.lo, b.hi, {}};
    for (int d : outer_) bound.outer.push_back(b.coefficients[At(d)]);
    bounds_.push_back(std::move(bound));
  }
  Dims element(fold.element_dims_.size(), 0);
  for (int64_t number = 0; number < elements_;
       ++number, NextIndex({element.data(), element.size()}, fold.element_dims_)) {
    std::size_t of_rows = 0;
    for (const WindowFold::Bound& b : fold.bounds_)
      if (std::ranges::find(of_lanes, &b) == of_lanes.end())
        bounds_[of_rows++].at.push_back(AtElement(b.coefficients, b.constant, element));
  }
  alone_ = LoadsOf(1, fold, row_dims, of_lanes);
  const int64_t together = to_stride_ == lanes_ ? std::min(ops_.lanes / lanes_, rows_) : 1;
  if (together > 1) together_ = LoadsOf(together, fold, row_dims, of_lanes);
  return std::max(alone_.loads.size(), together_.loads.size()) <= kMostRowLoads;
}

WindowRows::Loads WindowRows::LoadsOf(int64_t rows, const WindowFold& fold, std::span<const int64_t> row_dims,
                                      std::span<const WindowFold::Bound* const> of_lanes) {
  Loads out;
  out.rows = rows;
  const int64_t lanes = rows * lanes_;
  Dims place(inner_.size(), 0);
  for (int64_t first = 0; first < lanes; first += ops_.lanes) {
    Dims element(fold.element_dims_.size(), 0);
    for (int64_t number = 0; number < elements_;
         ++number, NextIndex({element.data(), element.size()}, fold.element_dims_)) {
      const int64_t corner = AtElement(fold.strides_, 0, element);
      std::vector<std::pair<int64_t, int64_t>> of_vector;  // lanes, and what they take
      for (int64_t lane = first; lane < std::min(lanes, first + ops_.lanes); ++lane) {
        int64_t rest = lane % lanes_, from = corner + lane / lanes_ * from_stride_;
        for (std::size_t i = 0; i < inner_.size(); ++i) {
          place[i] = rest % row_dims[At(inner_[i])];
          rest /= row_dims[At(inner_[i])];
          from += place[i] * fold.strides_[At(inner_[i])];
        }
        const bool is_inside = std::ranges::all_of(of_lanes, [&](const WindowFold::Bound* b) {
          int64_t value = AtElement(b->coefficients, b->constant, element);
          for (std::size_t i = 0; i < inner_.size(); ++i) value += place[i] * b->coefficients[At(inner_[i])];
          return value >= b->lo && value < b->hi;
        });
        if (is_inside) of_vector.emplace_back(lane - first, from);
      }
      AddLoads(of_vector, static_cast<int>(number), out);
    }
    out.ends.push_back(std::ssize(out.loads));
  }
  out.cost += static_cast<double>(out.ends.size());
  return out;
}

// What one element of the window adds to a vector: a load for each run of lanes that take elements side by side, or
// loads of which each is brought into another order.
void WindowRows::AddLoads(std::span<const std::pair<int64_t, int64_t>> lanes, int element, Loads& to) {
  std::vector<WindowLoad> runs, ordered;
  for (const auto& [lane, from] : lanes) {
    if (runs.empty() || runs.back().offset != from - lane) runs.push_back({from - lane, 0, 0, -1});
    runs.back().lanes |= uint64_t{1} << lane;
  }
  std::vector<std::pair<int64_t, int64_t>> sorted(lanes.begin(), lanes.end());
  std::ranges::sort(sorted, {}, [](const auto& l) { return l.second; });
  std::vector<std::array<uint8_t, kWindowOrderBytes>> orders;
  for (const auto& [lane, from] : sorted) {
    if (ordered.empty() || from - ordered.back().offset >= ops_.lanes)
      ordered.push_back({from, 0, 0, 0}), orders.push_back({});
    WindowLoad& load = ordered.back();
    load.lanes |= uint64_t{1} << lane;
    load.read |= uint64_t{1} << (from - load.offset);
    orders.back()[At(lane * width_)] = static_cast<uint8_t>(from - load.offset);
  }
  const double cost = (width_ == 1 ? kOrderedBytes : kOrderedWords) * static_cast<double>(ordered.size());
  const bool is_ordered = cost < static_cast<double>(runs.size());
  to.cost += is_ordered ? cost : static_cast<double>(runs.size());
  for (std::size_t i = 0; is_ordered && i < ordered.size(); ++i) {
    const auto* bytes = reinterpret_cast<const std::byte*>(orders[i].data());
    ordered[i].order = static_cast<int>(orders_.size() / kWindowOrderBytes);
    orders_.insert(orders_.end(), bytes, bytes + kWindowOrderBytes);
  }
  for (const WindowLoad& load : is_ordered ? ordered : runs) to.loads.push_back(load), to.elements.push_back(element);
}

double WindowRows::Nanoseconds() const {
  const double piece = static_cast<double>(elements_ * (1 + std::ssize(bounds_))) * kRangeNanoseconds +
                       static_cast<double>(alone_.ends.size()) * kTileCallNanoseconds;
  const int64_t groups = together_.rows > 1 ? rows_ / together_.rows : 0;
  const double loads =
      static_cast<double>(groups) * together_.cost + static_cast<double>(rows_ - groups * together_.rows) * alone_.cost;
  return static_cast<double>(outer_count_) * (loads * kLoadNanoseconds + static_cast<double>(pieces_) * piece);
}

void WindowRows::Run(std::span<std::byte* const> buffers, const std::byte* initial, ElementType arithmetic,
                     ThreadPool& pool) const {
  const int64_t count = outer_count_ * pieces_;
  pool.ParallelItems(count, Nanoseconds() / static_cast<double>(count), [&](int64_t begin, int64_t end, int) {
    for (int64_t piece = begin; piece < end && !IsInterrupted(); ++piece) RunPiece(piece, buffers, initial, arithmetic);
  });
}

void WindowRows::RunPiece(int64_t piece, std::span<std::byte* const> buffers, const std::byte* initial,
                          ElementType arithmetic) const {
  int64_t rest = piece / pieces_;
  const int64_t first = piece % pieces_ * piece_rows_, last = std::min(rows_, first + piece_rows_);
  Dims outer(outer_dims_.size(), 0);
  int64_t from = from_offset_, to = to_offset_ + first * to_stride_;
  for (std::size_t d = outer.size(); d-- > 0; rest /= outer_dims_[d]) {
    outer[d] = rest % outer_dims_[d];
    from += outer[d] * outer_from_[d], to += outer[d] * outer_to_[d];
  }
  RunRows(outer, first, last, buffers[At(from_buffer_)] + from * width_, buffers[At(to_buffer_)] + to * width_, initial,
          arithmetic);
}

void WindowRows::RunTile(std::span<std::byte* const> buffers, std::span<const int64_t> origin, int64_t rows,
                         const std::byte* initial, std::byte* to) const {
  const int64_t first = row_dim_ < 0 ? 0 : origin[At(row_dim_)];
  Dims outer;
  int64_t from = from_offset_;
  for (std::size_t d = 0; d < outer_.size(); ++d) {
    outer.push_back(origin[At(outer_[d])]);
    from += outer[d] * outer_from_[d];
  }
  RunRows(outer, first, row_dim_ < 0 ? 1 : first + rows, buffers[At(from_buffer_)] + from * width_, to, initial,
          ElementType::kInvalid);
}

// The rows between two places where some element of the window begins or ends to lie inside have the same loads.
void WindowRows::RunRows(std::span<const int64_t> outer, int64_t first, int64_t last, const std::byte* in,
                         std::byte* to, const std::byte* initial, ElementType arithmetic) const {
  std::array<IndexRange, kMostRowElements> inside;
  std::array<int64_t, 2 * kMostRowElements + 2> cuts{first, last};
  std::size_t cut_count = 2;
  for (std::size_t e = 0; e < At(elements_); ++e) {
    IndexRange range{first, last};
    for (const Bound& b : bounds_) {
      int64_t value = b.at[e];
      for (std::size_t d = 0; d < outer.size(); ++d) value += outer[d] * b.outer[d];
      const bool is_all = value >= b.lo && value < b.hi;
      const IndexRange next =
          b.row == 0 ? IndexRange{0, is_all ? rows_ : 0} : RangeInside(value, b.row, b.lo, b.hi, rows_);
      range.begin = std::max(range.begin, next.begin), range.end = std::min(range.end, next.end);
    }
    inside[e] = range;
    if (range.begin >= range.end) continue;
    if (range.begin > first) cuts[cut_count++] = range.begin;
    if (range.end < last) cuts[cut_count++] = range.end;
  }
  std::ranges::sort(cuts.begin(), cuts.begin() + static_cast<std::ptrdiff_t>(cut_count));
  for (std::size_t c = 0; c + 1 < cut_count; ++c) {
    const int64_t begin = cuts[c], end = cuts[c + 1];
    if (begin == end) continue;
    const std::byte* from = in + begin * from_stride_ * width_;
    std::byte* const target = to + (begin - first) * to_stride_ * width_;
    const int64_t groups = together_.rows > 1 ? (end - begin) / together_.rows : 0, grouped = groups * together_.rows;
    if (groups > 0) FoldRows(from, target, groups, together_, inside.data(), begin, end, initial);
    if (begin + grouped < end)
      FoldRows(from + grouped * from_stride_ * width_, target + grouped * to_stride_ * width_, end - begin - grouped,
               alone_, inside.data(), begin, end, initial);
    if (!IsFloat(arithmetic)) continue;
    const bool is_dense = to_stride_ == lanes_;
    for (int64_t row = 0; row < (is_dense ? 1 : end - begin); ++row)
      SettleNans(arithmetic, target + row * to_stride_ * width_, is_dense ? (end - begin) * lanes_ : lanes_);
  }
}

void WindowRows::FoldRows(const std::byte* in, std::byte* to, int64_t count, const Loads& all, const IndexRange* inside,
                          int64_t begin, int64_t end, const std::byte* initial) const {
  std::array<WindowLoad, kMostRowLoads> loads;
  std::array<int64_t, kMostRowVectors> ends;
  std::size_t taken = 0, k = 0;
  for (std::size_t v = 0; v < all.ends.size(); ++v) {
    for (; k < At(all.ends[v]); ++k) {
      const IndexRange& range = inside[all.elements[k]];
      if (range.begin <= begin && range.end >= end) loads[taken++] = all.loads[k];
    }
    ends[v] = static_cast<int64_t>(taken);
  }
  const int64_t from_stride = all.rows * from_stride_, to_stride = all.rows * to_stride_, lanes = all.rows * lanes_;
  const int64_t band =
      all.ends.size() == 1 ? count : std::clamp<int64_t>(kRowBandBytes / (1 + std::abs(from_stride) * width_), 4, 64);
  for (int64_t row = 0; row < count; row += band) {
    const int64_t now = std::min(band, count - row);
    int64_t at = 0;
    for (std::size_t v = 0; v < all.ends.size(); at = ends[v], ++v) {
      const int64_t lane = static_cast<int64_t>(v) * ops_.lanes;
      ops_.fold(in + row * from_stride * width_, from_stride, loads.data() + at, ends[v] - at, orders_.data(), initial,
                to + (row * to_stride + lane) * width_, to_stride, now, std::min(ops_.lanes, lanes - lane));
    }
  }
}

}  // namespace krafla::cpu
