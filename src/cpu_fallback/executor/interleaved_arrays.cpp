// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/interleaved_arrays.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/checked_math.h"
#include "base/index.h"
#include "base/interruption.h"
#include "cpu_fallback/kernels/move.h"

namespace krafla::cpu {

using plan::ElementProgram;
using plan::kNoNode;
using plan::Node;
using plan::NodeOp;

namespace {

// Of fewer, vectors have parts (NativePlanner::FindInterleaved), but for bytes and pairs of them.
constexpr std::size_t kLeastArrays = 5, kLeastNarrowArrays = 2;
constexpr int kNarrowBytes = 2;
constexpr std::size_t kMostArrays = 64;  // their places lie on a run's stack
constexpr int64_t kRowsAtOnce = 256;

}  // namespace

std::optional<InterleavedArrays> InterleavedArrays::Make(const ElementProgram& program, int64_t least) {
  const Dims& dims = program.space.dims();
  const std::size_t count = program.stores.size();
  if (count < kLeastNarrowArrays || count > kMostArrays || dims.size() != 1 || !program.results.empty())
    return std::nullopt;
  InterleavedArrays out;
  out.rows_ = dims[0];
  out.to_ = program.stores[0].buffer;
  out.width_ = StorageBytes(program.stores[0].storage);
  if (count < kLeastArrays && out.width_ > kNarrowBytes) return std::nullopt;
  if (out.rows_ * static_cast<int64_t>(count) * out.width_ < least) return std::nullopt;
  out.offset_ = INT64_MAX;
  for (const plan::Store& s : program.stores) out.offset_ = std::min(out.offset_, program.space.expr(s.index).constant);
  out.arrays_.assign(count, {.buffer = -1});
  for (const plan::Store& s : program.stores) {
    const Node& n = program.nodes[At(s.node)];
    const auto to = program.space.StrideAlong(s.index, 0);
    const int64_t column = program.space.expr(s.index).constant - out.offset_;
    if (s.buffer != out.to_ || s.mask != kNoNode || !to.affine || !std::cmp_equal(to.stride, count) ||
        column >= static_cast<int64_t>(count) || out.arrays_[At(column)].buffer >= 0)
      return std::nullopt;
    if (n.op != NodeOp::kLoad || n.mask != kNoNode || n.storage != s.storage || n.buffer == out.to_)
      return std::nullopt;
    const auto from = program.space.StrideAlong(n.index, 0);
    if (!from.affine || from.stride != 1 || StorageBytes(n.storage) != out.width_) return std::nullopt;
    out.arrays_[At(column)] = {n.buffer, program.space.expr(n.index).constant};
  }
  return out;
}

void InterleavedArrays::Run(std::span<std::byte* const> buffers, ThreadPool& pool) const {
  const int64_t columns = std::ssize(arrays_), blocks = CeilDiv(rows_, kRowsAtOnce);
  const auto address = [&](const Array& a) { return buffers[At(a.buffer)] + a.offset * width_; };
  std::byte* const to = buffers[At(to_)] + offset_ * width_;
  const std::byte* const first = address(arrays_[0]);
  const auto base = reinterpret_cast<std::uintptr_t>(first);
  std::array<int64_t, kMostArrays> places = {};
  bool are_aligned = true;
  for (std::size_t c = 0; c < arrays_.size(); ++c) {
    const auto distance = static_cast<int64_t>(reinterpret_cast<std::uintptr_t>(address(arrays_[c])) - base);
    are_aligned = are_aligned && distance % width_ == 0;
    places[c] = distance / width_;
  }
  std::array<int64_t, static_cast<std::size_t>(kRowsAtOnce)> row_places = {};
  for (std::size_t r = 0; r < row_places.size(); ++r) row_places[r] = static_cast<int64_t>(r) * columns;
  pool.ParallelItems(blocks, static_cast<double>(kRowsAtOnce * columns) * 0.2, [&](int64_t begin, int64_t end, int) {
    for (int64_t block = begin; block < end && !IsInterrupted(); ++block) {
      const int64_t row = block * kRowsAtOnce, rows = std::min(kRowsAtOnce, rows_ - row);
      std::byte* const out = to + row * columns * width_;
      if (are_aligned) {
        TransposeColumns(width_, first + row * width_, places.data(), out, {row_places.data(), columns}, rows, columns);
        continue;
      }
      for (int64_t c = 0; c < columns; ++c)
        MoveTile(width_, address(arrays_[At(c)]) + row * width_, {1, 0}, out + c * width_, {columns, 0}, rows, 1);
    }
  });
}

}  // namespace krafla::cpu
