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

std::optional<ZeroPad> ZeroPad::Make(const ElementProgram& program, int64_t least) {
  if (program.stores.size() != 1 || !program.results.empty() || program.stores[0].mask != kNoNode) return std::nullopt;
  const plan::Store& store = program.stores[0];
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
  ZeroPad out;
  out.dims_ = out.end_ = program.space.dims();
  out.begin_ = Dims(out.dims_.size(), 0);
  const std::optional<Dims> from = AffineCoefficients(program.space, load.index),
                            to = AffineCoefficients(program.space, store.index);
  if (out.dims_.size() < 2 || !from || !to || *to != RowMajorStrides(out.dims_) || !out.FindInside(program, load.mask))
    return std::nullopt;
  out.from_strides_ = *from;
  out.from_buffer_ = load.buffer, out.to_buffer_ = store.buffer;
  out.from_offset_ = program.space.expr(load.index).constant;
  out.to_offset_ = program.space.expr(store.index).constant;
  out.width_ = StorageBytes(store.storage);
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
  return out;
}

void ZeroPad::RunBand(int64_t begin, int64_t end, const std::byte* array, std::byte* to) const {
  const std::size_t last = dims_.size() - 1;
  std::memset(to + begin * plane_ * width_, 0, At((end - begin) * plane_ * width_));
  const TileStrides from_strides{from_strides_[last - 1], from_strides_[last]}, to_strides{dims_[last], 1};
  // The offset counts from the pad on: it lies before the array.
  const int64_t first = from_offset_ + begin_[last - 1] * from_strides_[last - 1] + begin_[last] * from_strides_[last];
  const int64_t first_to = begin_[last - 1] * dims_[last] + begin_[last];
  for (int64_t plane = begin; plane < end; ++plane) {
    int64_t at = first, rest = plane;
    bool is_inside = true;
    for (std::size_t d = last - 1; d-- > 0; rest /= dims_[d]) {
      const int64_t i = rest % dims_[d];
      is_inside = is_inside && i >= begin_[d] && i < end_[d];
      at += i * from_strides_[d];
    }
    if (!is_inside) continue;
    MoveTile(width_, array + at * width_, from_strides, to + (plane * plane_ + first_to) * width_, to_strides,
             end_[last - 1] - begin_[last - 1], end_[last] - begin_[last]);
  }
}

void ZeroPad::Run(std::span<std::byte* const> buffers, ThreadPool& pool) const {
  const std::byte* const array = buffers[At(from_buffer_)];
  std::byte* const to = buffers[At(to_buffer_)] + to_offset_ * width_;
  const double time = static_cast<double>(band_ * plane_ * width_) * 0.1;
  pool.ParallelItems(CeilDiv(planes_, band_), time, [&](int64_t first, int64_t end, int) {
    for (int64_t band = first; band < end && !IsInterrupted(); ++band)
      RunBand(band * band_, std::min((band + 1) * band_, planes_), array, to);
  });
}

}  // namespace krafla::cpu
