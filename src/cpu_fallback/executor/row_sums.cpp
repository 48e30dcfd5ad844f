// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/row_sums.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/checked_math.h"
#include "base/index.h"
#include "base/interruption.h"
#include "cpu_fallback/executor/unrolled_program.h"

namespace krafla::cpu {

using plan::ElementProgram;
using plan::kNoNode;
using plan::Node;
using plan::NodeId;
using plan::NodeOp;

namespace {

// Reductions cut sums of more elements into groups (GroupTurns).
constexpr int64_t kMostSummands = 32;
// Shorter rows are as well gathered element by element, but for elements of a byte or two, which native code does not
// gather; longer ones are vectors of its loops.
constexpr int64_t kLeastSummedColumns = 4, kLeastNarrowColumns = 2, kMostSummedBytes = 512;
constexpr int64_t kLeastSummedRows = 32;
constexpr int64_t kLeastSumOfTurn = 8192;  // elements: fewer are instructions of the loop whose turn adds them up
constexpr int64_t kSummedTileRows = 256;

}  // namespace

// The sum as a chain of additions, whose rounding is the last step: what is added, in order.
bool RowSums::FindSum(const ElementProgram& program) {
  const Dims& dims = program.space.dims();
  if (dims.size() < 2 || program.stores.size() != 1 || !program.results.empty() || program.stores[0].mask != kNoNode)
    return false;
  const plan::Store& store = program.stores[0];
  const auto node = [&](NodeId id) -> const Node& { return program.nodes[At(id)]; };
  const int column = static_cast<int>(dims.size()) - 1;
  NodeId at = store.node;
  const bool is_float = IsFloat(plan::ComputeType(store.storage));
  if (node(at).op == NodeOp::kRound && node(at).storage == store.storage) at = node(at).operands[0];
  const auto take = [&](NodeId id) {
    const Node& n = node(id);
    if (n.op != NodeOp::kLoad || n.mask != kNoNode || n.storage != store.storage || n.buffer == store.buffer)
      return false;
    const auto along = program.space.StrideAlong(n.index, column);
    const auto range = program.space.RangeOf(n.index);
    if (!along.affine || along.stride != 1 || range.lo < 0 || range.hi > INT32_MAX) return false;
    terms_.push_back({n.buffer, n.index});
    return true;
  };
  type_ = node(at).type;
  bool has_value = false;
  while (static_cast<int64_t>(terms_.size()) <= kMostSummands) {
    const Node& n = node(at);
    if (n.type != type_) return false;
    // The low bits of a sum are those of the sum of low bits.
    if (n.op == NodeOp::kWrap && !is_float) {
      at = n.operands[0];
      continue;
    }
    if (n.op != NodeOp::kHlo || n.opcode != Opcode::kAdd) break;
    if (!take(n.operands[1])) return false;
    has_value |= program.space.HasValue(terms_.back().index);
    at = n.operands[0];
  }
  if (const std::optional<uint64_t> bits = plan::ConstantBits(program, at)) start_ = *bits;
  else if (!take(at)) return false;
  else has_value |= program.space.HasValue(terms_.back().index);
  std::ranges::reverse(terms_);
  columns_ = dims.back();
  from_width_ = to_width_ = StorageBytes(store.storage);
  if (!has_value || terms_.size() < 2 || static_cast<int64_t>(terms_.size()) > kMostSummands ||
      columns_ < (to_width_ < 4 ? kLeastNarrowColumns : kLeastSummedColumns) || columns_ * to_width_ > kMostSummedBytes)
    return false;
  add_ = FindRowSum(store.storage);
  const bool is_narrow_float = is_float && plan::IsNarrow(store.storage);
  if (is_narrow_float) narrow_ = FindRoundNarrow(store.storage);
  else type_ = store.storage;
  if (add_ == nullptr || (is_narrow_float && narrow_ == nullptr)) return false;
  std::optional<Dims> strides = AffineCoefficients(program.space, store.index);
  if (!strides || strides->back() != 1) return false;
  to_ = store.buffer;
  offset_ = program.space.expr(store.index).constant;
  strides_ = std::move(*strides);
  return true;
}

Result<> RowSums::CompilePlaces(const ElementProgram& program) {
  ElementProgram places = program;
  places.stores.clear();
  for (const Term& term : terms_) {
    places.nodes.push_back({.op = NodeOp::kIndex,
                            .type = ElementType::kS32,
                            .index = term.index,
                            .depends = program.space.Depends(term.index)});
    places.results.push_back(static_cast<NodeId>(places.nodes.size()) - 1);
  }
  Dims rows = program.space.dims();
  rows.back() = 1;
  const uint64_t outer = (uint64_t{1} << (rows.size() - 1)) - 1;
  tile_ = ChooseTile(places, {.column_dims = outer, .row_dims = outer, .max_elements = kSummedTileRows});
  KRAFLA_ASSIGN(places_, BlockProgram::Compile(places, {.tile = tile_, .elements = Product(rows)}));
  grid_ = TileGrid(rows, tile_);
  return {};
}

Result<std::unique_ptr<CpuKernel>> RowSums::Make(const ElementProgram& program, int threads, int64_t runs) {
  std::unique_ptr<CpuKernel> none;
  auto out = std::make_unique<RowSums>();
  if (!out->FindSum(program)) return none;
  const Dims& dims = program.space.dims();
  const int64_t elements = SaturatingProduct(dims);
  if (elements < kLeastSummedRows * dims.back() || (runs > 1 && elements < kLeastSumOfTurn)) return none;
  KRAFLA_TRY(out->CompilePlaces(program));
  const int64_t sums = out->tile_.rows * out->tile_.columns * out->columns_;
  out->sums_ = RoundUp(out->places_.frame_bytes(), 64);
  out->narrowed_ = out->sums_ + RoundUp(sums * StorageBytes(out->type_), 64);
  out->worker_bytes_ = out->narrowed_ + (out->narrow_ != nullptr ? RoundUp(sums * out->to_width_, 64) : 0);
  out->scratch_bytes_ = out->worker_bytes_ * threads;
  out->tile_nanoseconds_ = 50 + static_cast<double>(sums * static_cast<int64_t>(out->terms_.size())) * 0.2;
  return std::unique_ptr<CpuKernel>(std::move(out));
}

Result<std::unique_ptr<CpuKernel>> RowSums::Make(const plan::ReduceKernel& body, int threads, int64_t runs) {
  if (const std::optional<ElementProgram> sum = UnrolledSum(body, kMostSummands)) return Make(*sum, threads, runs);
  return std::unique_ptr<CpuKernel>();
}

void RowSums::RunTile(const TileGrid::Tile& tile, std::span<std::byte* const> bindings, std::byte* memory) const {
  std::array<RowTerm, static_cast<std::size_t>(kMostSummands)> terms;
  std::byte* const sums = memory + sums_;
  const int width = StorageBytes(type_);
  const int64_t rows = tile.rows * tile.columns, count = rows * columns_;
  for (std::size_t t = 0; t < terms_.size(); ++t) {
    const BlockProgram::Value places = places_.ResultValue(memory, t);
    terms[t] = {bindings[At(terms_[t].buffer)],
                {reinterpret_cast<const int32_t*>(places.data), places.is_uniform ? 0 : 1}};
  }
  const auto stride = [&](int dim) { return dim < 0 ? 0 : strides_[At(dim)]; };
  int64_t first = offset_;
  for (std::size_t d = 0; d < tile.origin.size(); ++d) first += tile.origin[d] * strides_[d];
  const int64_t line_step = stride(tile_.row_dim), step = stride(tile_.column_dim);
  std::byte* const to = bindings[At(to_)] + first * to_width_;
  const bool is_dense = step == columns_ && (tile.rows == 1 || line_step == tile.columns * step);
  // Where the result is what is added up, and lies as the sums do, there is no array between them.
  std::byte* const made = is_dense && narrow_ == nullptr ? to : sums;
  add_({{terms.data(), terms_.size()}, start_ ? &*start_ : nullptr, rows, columns_, made});
  SettleNans(type_, made, count);
  if (made == to) return;
  const std::byte* from = sums;
  if (narrow_ != nullptr) {
    std::byte* const narrowed = is_dense ? to : memory + narrowed_;
    narrow_(sums, narrowed, count);
    from = narrowed;
  }
  if (from == to) return;
  const int from_width = narrow_ != nullptr ? to_width_ : width;
  for (int64_t row = 0; row < tile.rows; ++row)
    for (int64_t i = 0; i < tile.columns; ++i, from += columns_ * from_width)
      std::memcpy(to + (row * line_step + i * step) * to_width_, from, At(columns_ * to_width_));
}

Result<> RowSums::Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const {
  pool.ParallelItems(grid_.count(), tile_nanoseconds_, [&](int64_t begin, int64_t end, int worker) {
    std::byte* memory = scratch + worker * worker_bytes_;
    places_.Start(memory, bindings);
    TileGrid::Tile tile;
    grid_.Seek(begin, tile);
    for (int64_t i = begin; i < end && !IsInterrupted(); ++i, grid_.Next(tile)) {
      places_.RunTile(memory, tile.origin, tile.rows, tile.columns);
      RunTile(tile, bindings, memory);
    }
  });
  return {};
}

}  // namespace krafla::cpu
