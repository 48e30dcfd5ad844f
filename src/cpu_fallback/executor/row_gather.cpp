// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/row_gather.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "cpu_fallback/kernels/block_ops.h"
#include "cpu_fallback/kernels/move.h"
#include "cpu_fallback/kernels/row_copies.h"

namespace krafla::cpu {

using plan::ElementProgram;
using plan::IndexAtom;
using plan::IndexTerm;
using plan::kNoNode;
using plan::Node;
using plan::NodeId;
using plan::NodeOp;

namespace {

// Shorter rows are quicker as elements of tiles: those of narrow elements, which vectors do not gather, have to be
// shorter for that.
constexpr int64_t kLeastRowBytes = 8, kLeastNarrowRow = 3;

bool HasValue(const ElementProgram& program, plan::IndexId index) {
  for (const IndexTerm& t : program.space.expr(index).terms)
    if (program.space.atom(t.atom).kind == IndexAtom::Kind::kValue) return true;
  return false;
}

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
      load.buffer == store.buffer || !HasValue(program, load.index))
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

  ElementProgram places = program;
  places.stores.clear();
  for (plan::IndexId index : {load.index, store.index}) {
    places.nodes.push_back(
        {.op = NodeOp::kIndex, .type = ElementType::kS32, .index = index, .depends = program.space.Depends(index)});
    places.results.push_back(static_cast<NodeId>(places.nodes.size()) - 1);
  }
  if (inside != kNoNode) places.results.push_back(inside);
  int row = -1;
  out.FindWindow(program, column, inside, row);
  const uint64_t outer = ~(uint64_t{1} << column) & (row < 0 ? ~uint64_t{0} : ~(uint64_t{1} << row));
  const TileShape tile = ChooseTile(places, {.column_dims = outer, .row_dims = outer, .max_elements = 512});
  KRAFLA_ASSIGN(out.places_, BlockProgram::Compile(places, {.tile = tile}));
  Dims rows = dims;
  rows.back() = 1;
  if (row >= 0) rows[static_cast<std::size_t>(row)] = 1;
  out.grid_ = TileGrid(rows, tile);
  out.tile_nanoseconds_ = 50 + static_cast<double>(tile.rows * tile.columns * out.rows_) *
                                   (10 + static_cast<double>(out.columns_ * out.width_) * 0.05);
  return out;
}

namespace {

// Rows of up to 64 bytes are a call's time: two moves that overlap.
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

}  // namespace

void RowGather::CopyRows(const std::byte* memory, int64_t n, std::span<std::byte* const> buffers) const {
  const auto from_place = places_.ResultValue(memory, 0), to_place = places_.ResultValue(memory, 1);
  const int64_t from_step = from_place.is_uniform ? 0 : 4, to_step = to_place.is_uniform ? 0 : 4;
  const auto at = [](const std::byte* places, int64_t i, int64_t step) {
    int32_t index;
    std::memcpy(&index, places + i * step, 4);
    return static_cast<int64_t>(index);
  };
  const std::byte* from = buffers[static_cast<std::size_t>(from_)];
  std::byte* to = buffers[static_cast<std::size_t>(to_)];
  const auto bytes = static_cast<std::size_t>(columns_ * width_);
  const auto target = [&](int64_t i) { return to + at(to_place.data, i, to_step) * width_; };
  const auto source = [&](int64_t i) { return from + at(from_place.data, i, from_step) * width_; };
  if (!fill_) {
    const int64_t from_row = from_stride_ * width_, to_row = to_stride_ * width_;
    const auto each = [&](auto copy) {
      if (rows_ == 1) {
        for (int64_t i = 0; i < n; ++i) copy(target(i), source(i));
        return;
      }
      for (int64_t i = 0; i < n; ++i) {
        std::byte* t = target(i);
        const std::byte* f = source(i);
        for (int64_t r = 0; r < rows_; ++r) copy(t + r * to_row, f + r * from_row);
      }
    };
    if (bytes < 4) return each([&](std::byte* t, const std::byte* f) { CopyOverlapping<2>(t, f, bytes); });
    if (bytes < 8) return each([&](std::byte* t, const std::byte* f) { CopyOverlapping<4>(t, f, bytes); });
    if (bytes <= 16) return each([&](std::byte* t, const std::byte* f) { CopyOverlapping<8>(t, f, bytes); });
    if (bytes > 16 && bytes <= 32)
      return each([&](std::byte* t, const std::byte* f) { CopyOverlapping<16>(t, f, bytes); });
    if (bytes > 32 && bytes < kLeastCopiedRow)
      return each([&](std::byte* t, const std::byte* f) { CopyOverlapping<32>(t, f, bytes); });
    if (bytes >= kLeastCopiedRow && bytes <= kMostCopiedRow) {
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
      CopyRows(memory, tile.rows * tile.columns, buffers);
    }
  });
}

}  // namespace krafla::cpu
