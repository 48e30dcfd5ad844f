// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/zero_pad.h"

#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "base/index.h"
#include "base/interruption.h"
#include "cpu_fallback/executor/iteration.h"
#include "cpu_fallback/kernels/move.h"

namespace krafla::cpu {

using plan::ElementProgram;
using plan::kNoNode;
using plan::Node;
using plan::NodeId;
using plan::NodeOp;

namespace {

// Longer rows are pieces, which are written once.
constexpr int64_t kMostRowBytes = 512;
constexpr int64_t kBandBytes = 16 * 1024;
// Of less a pad is mostly zeros.
constexpr int64_t kLeastShare = 4;

}  // namespace

// Conjunctions of comparisons of single indices with constants.
bool ZeroPad::FindInside(const ElementProgram& program, NodeId mask) {
  const Node& n = program.nodes[At(mask)];
  if (n.op == NodeOp::kHlo && n.opcode == Opcode::kAnd)
    return FindInside(program, n.operands[0]) && FindInside(program, n.operands[1]);
  if (n.op != NodeOp::kCompare) return false;
  const Node &a = program.nodes[At(n.operands[0])], &b = program.nodes[At(n.operands[1])];
  if (a.op != NodeOp::kIndex || b.op != NodeOp::kConstant || b.type != ElementType::kS32) return false;
  const std::optional<Dims> coefficients = AffineCoefficients(program.space, a.index);
  if (!coefficients || std::ranges::count(*coefficients, 0) + 1 != std::ssize(*coefficients)) return false;
  const auto one = std::ranges::find(*coefficients, 1);
  if (one == coefficients->end()) return false;
  const auto d = static_cast<std::size_t>(one - coefficients->begin());
  const int64_t limit = static_cast<int32_t>(b.bits) - program.space.expr(a.index).constant;
  if (n.direction == ComparisonDirection::kLt) end_[d] = std::min(end_[d], limit);
  else if (n.direction == ComparisonDirection::kGe) begin_[d] = std::max(begin_[d], limit);
  else return false;
  return true;
}

std::optional<ZeroPad::Move> ZeroPad::FindMove(const ElementProgram& program, const plan::Store& store) {
  if (store.mask != kNoNode) return std::nullopt;
  const auto node = [&](NodeId id) -> const Node& { return program.nodes[At(id)]; };
  // A load gives zero outside of its mask.
  NodeId value = store.node, mask = kNoNode;
  if (node(value).op == NodeOp::kHlo && node(value).opcode == Opcode::kSelect) {
    if (plan::ConstantBits(program, node(value).operands[2]) != uint64_t{0}) return std::nullopt;
    mask = node(value).operands[0];
    value = node(value).operands[1];
  }
  const Node& load = node(value);
  if (load.op != NodeOp::kLoad || load.mask == kNoNode || (mask != kNoNode && load.mask != mask) ||
      load.storage != store.storage || load.buffer == store.buffer)
    return std::nullopt;
  std::optional<Dims> from = AffineCoefficients(program.space, load.index),
                      to = AffineCoefficients(program.space, store.index);
  if (!from || !to) return std::nullopt;
  return Move{load.buffer,
              store.buffer,
              StorageBytes(store.storage),
              load.mask,
              std::move(*from),
              std::move(*to),
              program.space.expr(load.index).constant,
              program.space.expr(store.index).constant};
}

std::optional<ZeroPad::Move> ZeroPad::FindMove(const ElementProgram& program) {
  const std::size_t stores = program.stores.size();
  if (stores < 1 || stores > 2 || !program.results.empty()) return std::nullopt;
  std::optional<Move> move = FindMove(program, program.stores[0]);
  if (!move || stores == 1) return move;
  // The parts of complex numbers, which lie side by side on both sides.
  const std::optional<Move> other = FindMove(program, program.stores[1]);
  if (!other || other->from_buffer != move->from_buffer || other->to_buffer != move->to_buffer ||
      other->mask != move->mask || other->width != move->width || move->width > 4 || other->from != move->from ||
      other->to != move->to || other->from_offset != move->from_offset + 1 || other->to_offset != move->to_offset + 1)
    return std::nullopt;
  const auto halve = [](int64_t& number) {
    const bool is_even = number % 2 == 0;
    number /= 2;
    return is_even;
  };
  if (!halve(move->from_offset) || !halve(move->to_offset) || !std::ranges::all_of(move->from, halve) ||
      !std::ranges::all_of(move->to, halve))
    return std::nullopt;
  move->width *= 2;
  return move;
}

std::optional<ZeroPad> ZeroPad::Make(const ElementProgram& program, int64_t least) {
  const std::optional<Move> move = FindMove(program);
  ZeroPad out;
  out.dims_ = out.end_ = program.space.dims();
  out.begin_ = Dims(out.dims_.size(), 0);
  if (!move || out.dims_.size() < 2 || move->to != RowMajorStrides(out.dims_) || !out.FindInside(program, move->mask))
    return std::nullopt;
  out.from_strides_ = move->from;
  out.from_buffer_ = move->from_buffer, out.to_buffer_ = move->to_buffer;
  out.from_offset_ = move->from_offset, out.to_offset_ = move->to_offset;
  out.width_ = move->width;
  const std::size_t last = out.dims_.size() - 1;
  int64_t inside = 1;
  for (std::size_t d = 0; d <= last; ++d) {
    if (out.begin_[d] >= out.end_[d]) return std::nullopt;
    inside *= out.end_[d] - out.begin_[d];
  }
  const int64_t count = Product(out.dims_), bytes = count * out.width_;
  if (bytes < least || out.dims_[last] * out.width_ > kMostRowBytes || inside * kLeastShare < count ||
      out.end_[last] - out.begin_[last] == out.dims_[last])
    return std::nullopt;
  out.plane_ = out.dims_[last] * out.dims_[last - 1];
  out.planes_ = count / out.plane_;
  out.band_ = std::clamp<int64_t>(kBandBytes / (out.plane_ * out.width_), 1, out.planes_);
  out.band_rows_ = out.band_ > 1
                       ? out.dims_[last - 1]
                       : std::clamp<int64_t>(kBandBytes / (out.dims_[last] * out.width_), 1, out.dims_[last - 1]);
  return out;
}

void ZeroPad::RunBand(int64_t begin, int64_t end, int64_t first, int64_t last, const std::byte* array,
                      std::byte* to) const {
  const std::size_t inner = dims_.size() - 1;
  const int64_t columns = dims_[inner];
  std::memset(to + (begin * plane_ + first * columns) * width_, 0,
              At(((end - begin - 1) * plane_ + (last - first) * columns) * width_));
  const TileStrides from_strides{from_strides_[inner - 1], from_strides_[inner]}, to_strides{columns, 1};
  first = std::max(first, begin_[inner - 1]), last = std::min(last, end_[inner - 1]);
  if (first >= last) return;
  // The offset counts from the pad on: it lies before the array.
  const int64_t corner = from_offset_ + first * from_strides_[inner - 1] + begin_[inner] * from_strides_[inner];
  for (int64_t plane = begin; plane < end; ++plane) {
    int64_t at = corner, rest = plane;
    bool is_inside = true;
    for (std::size_t d = inner - 1; d-- > 0; rest /= dims_[d]) {
      const int64_t i = rest % dims_[d];
      is_inside = is_inside && i >= begin_[d] && i < end_[d];
      at += i * from_strides_[d];
    }
    if (!is_inside) continue;
    MoveTile(width_, array + at * width_, from_strides,
             to + (plane * plane_ + first * columns + begin_[inner]) * width_, to_strides, last - first,
             end_[inner] - begin_[inner]);
  }
}

void ZeroPad::Run(std::span<std::byte* const> buffers, ThreadPool& pool) const {
  const std::byte* const array = buffers[At(from_buffer_)];
  std::byte* const to = buffers[At(to_buffer_)] + to_offset_ * width_;
  const int64_t rows = dims_[dims_.size() - 2], parts = CeilDiv(rows, band_rows_);
  const double time = static_cast<double>(band_ * band_rows_ * dims_.back() * width_) * 0.1;
  pool.ParallelItems(CeilDiv(planes_, band_) * parts, time, [&](int64_t from, int64_t until, int) {
    for (int64_t item = from; item < until && !IsInterrupted(); ++item) {
      const int64_t plane = item / parts * band_, row = item % parts * band_rows_;
      RunBand(plane, std::min(plane + band_, planes_), row, std::min(row + band_rows_, rows), array, to);
    }
  });
}

}  // namespace krafla::cpu
