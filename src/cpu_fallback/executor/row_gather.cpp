// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/row_gather.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <vector>

#include "cpu_fallback/kernels/block_ops.h"
#include "cpu_fallback/kernels/move.h"
#include "cpu_fallback/kernels/row_copies.h"

namespace krafla::cpu {

using plan::ElementProgram;
using plan::kNoNode;
using plan::Node;
using plan::NodeId;
using plan::NodeOp;

namespace {

// Shorter rows are quicker as elements of tiles: those of narrow elements, which vectors do not gather, have to be
// shorter for that.
constexpr int64_t kLeastRowBytes = 8, kLeastNarrowRow = 2;
// Of so few bytes many are copied for what a tile costs by itself.
constexpr int64_t kShortRow = 16;

}  // namespace

// The dimension outside of the rows', where they lie at equal distances along it in what is read and in what is
// written.
void RowGather::FindWindow(const ElementProgram& program, int column, NodeId inside, int& row) {
  const Dims& dims = program.space.dims();
  const plan::IndexSpace& space = program.space;
  const plan::Store& store = program.stores[0];
  const auto node = [&](NodeId id) -> const Node& { return program.nodes[static_cast<std::size_t>(id)]; };
  const NodeId value = inside == kNoNode ? store.node : node(store.node).operands[1];
  // Of longer rows the copies are what takes time.
  if (columns_ * width_ >= static_cast<int64_t>(kLeastCopiedRow)) return;
  int d = column - 1;
  while (d >= 0 && dims[static_cast<std::size_t>(d)] == 1) --d;
  if (d < 0 || (inside != kNoNode && ((node(inside).depends >> d) & 1))) return;
  const auto from = space.StrideAlong(node(value).index, d), to = space.StrideAlong(store.index, d);
  if (!from.affine || !to.affine) return;
  row = d;
  rows_ = dims[static_cast<std::size_t>(d)], from_stride_ = from.stride, to_stride_ = to.stride;
}

Result<std::optional<RowGather>> RowGather::Make(const ElementProgram& program) {
  if (program.stores.size() != 1 || !program.results.empty()) return std::nullopt;
  const plan::Store& store = program.stores[0];
  const auto node = [&](NodeId id) -> const Node& { return program.nodes[static_cast<std::size_t>(id)]; };
  RowGather out;
  // The element itself, or a constant where a predicate of the row is false.
  NodeId value = store.node, inside = kNoNode;
  if (const Node& n = node(value); n.op == NodeOp::kHlo && n.opcode == Opcode::kSelect) {
    const Node& other = node(n.operands[2]);
    if (other.op != NodeOp::kConstant) return std::nullopt;
    inside = n.operands[0];
    value = n.operands[1];
    uint64_t fill = other.bits;
    if (const ConvertFn narrow = FindNarrow(store.storage)) narrow(&other.bits, &fill, 1);
    out.fill_ = fill;
  }
  const Node& load = node(value);
  if (load.op != NodeOp::kLoad || load.mask != kNoNode || load.storage != store.storage || store.mask != kNoNode ||
      load.buffer == store.buffer || !program.space.HasValue(load.index))
    return std::nullopt;
  const Dims& dims = program.space.dims();
  const int column = static_cast<int>(dims.size()) - 1;
  if (column < 0) return std::nullopt;
  const auto from = program.space.StrideAlong(load.index, column), to = program.space.StrideAlong(store.index, column);
  if (!from.affine || !to.affine || from.stride != 1 || to.stride != 1) return std::nullopt;
  if (inside != kNoNode && ((node(inside).depends >> column) & 1)) return std::nullopt;
  for (plan::IndexId index : {load.index, store.index}) {
    const auto range = program.space.RangeOf(index);
    if (range.lo < 0 || range.hi > INT32_MAX) return std::nullopt;
  }
  out.from_ = load.buffer;
  out.to_ = store.buffer;
  out.width_ = StorageBytes(store.storage);
  out.columns_ = dims[static_cast<std::size_t>(column)];
  if (out.columns_ * out.width_ < (out.width_ < 4 ? kLeastNarrowRow : kLeastRowBytes)) return std::nullopt;

  out.FindTargets(program);
  ElementProgram places = program;
  places.stores.clear();
  std::vector<plan::IndexId> computed = {load.index};
  if (!out.targets_) computed.push_back(store.index);
  for (plan::IndexId index : computed) {
    places.nodes.push_back(
        {.op = NodeOp::kIndex, .type = ElementType::kS32, .index = index, .depends = program.space.Depends(index)});
    places.results.push_back(static_cast<NodeId>(places.nodes.size()) - 1);
  }
  if (inside != kNoNode) places.results.push_back(inside);
  int row = -1;
  out.FindWindow(program, column, inside, row);
  const uint64_t outer = ~(uint64_t{1} << column) & (row < 0 ? ~uint64_t{0} : ~(uint64_t{1} << row));
  const bool is_short = out.columns_ * out.width_ * out.rows_ <= kShortRow;
  const TileShape tile =
      ChooseTile(places, {.column_dims = outer, .row_dims = outer, .max_elements = is_short ? 2048 : 512});
  KRAFLA_ASSIGN(out.places_, BlockProgram::Compile(places, {.tile = tile}));
  Dims rows = dims;
  rows.back() = 1;
  if (row >= 0) rows[static_cast<std::size_t>(row)] = 1;
  out.grid_ = TileGrid(rows, tile);
  out.tile_ = tile;
  out.tile_nanoseconds_ = 50 + static_cast<double>(tile.rows * tile.columns * out.rows_) *
                                   (10 + static_cast<double>(out.columns_ * out.width_) * 0.05);
  return out;
}

// Where rows go is known without a look where they do so at even distances, as all of a gather do.
void RowGather::FindTargets(const ElementProgram& program) {
  // Others are copied by a function that takes places.
  if (fill_ || columns_ * width_ >= static_cast<int64_t>(kLeastCopiedRow)) return;
  const plan::IndexId index = program.stores[0].index;
  std::optional<Dims> strides = AffineCoefficients(program.space, index);
  if (strides) targets_ = Targets{program.space.expr(index).constant, std::move(*strides)};
}

namespace {

// Rows of up to 64 bytes are a call's time: a move, or two that overlap.
template <std::size_t kBytes>
void CopyOverlapping(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::array<std::byte, kBytes> first, last;
  std::memcpy(first.data(), from, kBytes);
  std::memcpy(last.data(), from + bytes - kBytes, kBytes);
  std::memcpy(to, first.data(), kBytes);
  std::memcpy(to + bytes - kBytes, last.data(), kBytes);
}

constexpr int64_t kRowsAhead = 4;
constexpr std::size_t kPrefetchedBytes = 1024;

int64_t PlaceAt(const std::byte* places, int64_t i, int64_t step) {
  int32_t index;
  std::memcpy(&index, places + i * step, sizeof(index));
  return index;
}
int64_t StepOf(const BlockProgram::Value& places) { return places.is_uniform ? 0 : 4; }

}  // namespace

// use(copy of a row of `bytes` bytes), of which there are kLeastNarrowRow at least and fewer than kLeastCopiedRow.
template <class Use>
void RowGather::WithCopy(std::size_t bytes, Use use) {
  const auto whole = [&]<std::size_t kBytes>(std::integral_constant<std::size_t, kBytes>) {
    use([](std::byte* to, const std::byte* from) { std::memcpy(to, from, kBytes); });
  };
  const auto overlapping = [&]<std::size_t kBytes>(std::integral_constant<std::size_t, kBytes>) {
    use([bytes](std::byte* to, const std::byte* from) { CopyOverlapping<kBytes>(to, from, bytes); });
  };
  switch (bytes) {
    case 4: return whole(std::integral_constant<std::size_t, 4>());
    case 8: return whole(std::integral_constant<std::size_t, 8>());
    case 12: return whole(std::integral_constant<std::size_t, 12>());
    case 16: return whole(std::integral_constant<std::size_t, 16>());
    case 32: return whole(std::integral_constant<std::size_t, 32>());
    // Two moves that overlap take four bytes or more.
    case 2: return whole(std::integral_constant<std::size_t, 2>());
    case 3: return whole(std::integral_constant<std::size_t, 3>());
    default: break;
  }
  if (bytes < 8) return overlapping(std::integral_constant<std::size_t, 4>());
  if (bytes < 16) return overlapping(std::integral_constant<std::size_t, 8>());
  if (bytes < 32) return overlapping(std::integral_constant<std::size_t, 16>());
  return overlapping(std::integral_constant<std::size_t, 32>());
}

void RowGather::CopyEvenly(const std::byte* memory, const TileGrid::Tile& tile,
                           std::span<std::byte* const> buffers) const {
  const auto from_place = places_.ResultValue(memory, 0);
  const int64_t from_step = StepOf(from_place), width = width_;
  const auto stride = [&](int dim) { return dim < 0 ? 0 : targets_->strides[static_cast<std::size_t>(dim)] * width; };
  int64_t first = targets_->offset;
  for (std::size_t d = 0; d < tile.origin.size(); ++d) first += tile.origin[d] * targets_->strides[d];
  std::byte* const to = buffers[static_cast<std::size_t>(to_)] + first * width;
  const std::byte* const from = buffers[static_cast<std::size_t>(from_)];
  const int64_t line_step = stride(tile_.row_dim), step = stride(tile_.column_dim);
  const int64_t from_row = from_stride_ * width, to_row = to_stride_ * width, rows = rows_;
  WithCopy(static_cast<std::size_t>(columns_ * width_), [&](auto copy) {
    for (int64_t line = 0; line < tile.rows; ++line) {
      const std::byte* const places = from_place.data + line * tile.columns * from_step;
      std::byte* target = to + line * line_step;
      if (rows == 1) {
        for (int64_t i = 0; i < tile.columns; ++i, target += step)
          copy(target, from + PlaceAt(places, i, from_step) * width);
        continue;
      }
      for (int64_t i = 0; i < tile.columns; ++i, target += step) {
        const std::byte* const source = from + PlaceAt(places, i, from_step) * width;
        for (int64_t r = 0; r < rows; ++r) copy(target + r * to_row, source + r * from_row);
      }
    }
  });
}

void RowGather::CopyRows(const std::byte* memory, int64_t n, std::span<std::byte* const> buffers) const {
  const auto from_place = places_.ResultValue(memory, 0), to_place = places_.ResultValue(memory, 1);
  const std::byte* from = buffers[static_cast<std::size_t>(from_)];
  std::byte* to = buffers[static_cast<std::size_t>(to_)];
  const auto bytes = static_cast<std::size_t>(columns_ * width_);
  const auto target = [&](int64_t i) { return to + PlaceAt(to_place.data, i, StepOf(to_place)) * width_; };
  const auto source = [&](int64_t i) { return from + PlaceAt(from_place.data, i, StepOf(from_place)) * width_; };
  if (!fill_) {
    if (bytes < kLeastCopiedRow) {
      return WithCopy(bytes, [&](auto copy) {
        for (int64_t i = 0; i < n; ++i)
          for (int64_t r = 0; r < rows_; ++r)
            copy(target(i) + r * to_stride_ * width_, source(i) + r * from_stride_ * width_);
      });
    }
    if (bytes <= kMostCopiedRow) {
      const auto places = [](const BlockProgram::Value& v) {
        return RowPlaces{reinterpret_cast<const int32_t*>(v.data), v.is_uniform ? 0 : 1};
      };
      return CopyShortRows(width_, bytes, n, from, places(from_place), to, places(to_place));
    }
    for (int64_t i = 0; i < n; ++i) {
      // Rows from anywhere are not foreseen by the processor.
      if (i + kRowsAhead < n) {
        const std::byte* next = source(i + kRowsAhead);
        for (std::size_t line = 0; line < std::min(bytes, kPrefetchedBytes); line += 64)
          __builtin_prefetch(next + line);
      }
      std::memcpy(target(i), source(i), bytes);
    }
    return;
  }
  const auto inside = places_.ResultValue(memory, 2);
  for (int64_t i = 0; i < n; ++i) {
    const bool is_inside = inside.data[inside.is_uniform ? 0 : i] != std::byte{0};
    for (int64_t r = 0; r < rows_; ++r) {
      std::byte* row = target(i) + r * to_stride_ * width_;
      if (is_inside) std::memcpy(row, source(i) + r * from_stride_ * width_, bytes);
      else Fill(width_, reinterpret_cast<const std::byte*>(&*fill_), row, columns_);
    }
  }
}

void RowGather::Run(std::span<std::byte* const> buffers, ThreadPool& pool, std::byte* scratch) const {
  pool.ParallelItems(grid_.count(), tile_nanoseconds_, [&](int64_t begin, int64_t end, int worker) {
    std::byte* memory = scratch + worker * places_.frame_bytes();
    places_.Start(memory, buffers);
    TileGrid::Tile tile;
    grid_.Seek(begin, tile);
    for (int64_t i = begin; i < end; ++i, grid_.Next(tile)) {
      places_.RunTile(memory, tile.origin, tile.rows, tile.columns);
      if (targets_) CopyEvenly(memory, tile, buffers);
      else CopyRows(memory, tile.rows * tile.columns, buffers);
    }
  });
}

}  // namespace krafla::cpu
