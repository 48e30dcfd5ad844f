// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/attention_columns.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>

#include "base/checked_math.h"
#include "cpu_fallback/kernels/magnitudes.h"
#include "numerics/formats.h"
#include "plan/reindex.h"

namespace krafla::cpu {

Result<ColumnRangeFinder> ColumnRangeFinder::Make(const plan::ColumnLimits& limits, int bindings) {
  ColumnRangeFinder out;
  // Rows that have the same limits are one row.
  uint64_t depends = 0;
  for (plan::NodeId r : limits.program.results) depends |= limits.program.nodes[static_cast<std::size_t>(r)].depends;
  Dims dims = limits.program.space.dims();
  std::vector<plan::DimImage> images;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const bool is_needed = (depends >> d & 1) != 0;
    images.push_back(is_needed ? plan::DimImage::Of(static_cast<int>(d)) : plan::DimImage{});
    if (!is_needed) dims[d] = 1;
  }
  plan::ElementProgram p = plan::Reindex(limits.program, dims, images);
  out.rows_ = Product(dims);
  out.ends_ = limits.ends;
  out.limits_ = static_cast<int>(p.results.size());
  p.buffers.resize(static_cast<std::size_t>(bindings));
  out.buffers_ = bindings;
  p.buffers.push_back({ElementType::kS32, out.rows_ * out.limits_, true});
  plan::IndexId row = p.space.Constant(0);
  const Dims strides = RowMajorStrides(dims);
  for (std::size_t d = 0; d < dims.size(); ++d)
    row = p.space.Add(row, p.space.Mul(p.space.Iter(static_cast<int>(d)), strides[d]));
  for (int i = 0; i < out.limits_; ++i)
    p.stores.push_back({bindings, p.space.AddConstant(row, i * out.rows_), p.results[static_cast<std::size_t>(i)],
                        ElementType::kS32, plan::kNoNode});
  p.results.clear();
  KRAFLA_ASSIGN(out.loop_, LoopRunner::Make(std::move(p)));
  return out;
}

int64_t ColumnRangeFinder::scratch_bytes(int threads) const {
  return RoundUp(rows_ * limits_ * int64_t{sizeof(int32_t)}, 64) + loop_->scratch_bytes(threads);
}

ColumnRange ColumnRangeFinder::Find(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const {
  std::vector<std::byte*> all(bindings.begin(), bindings.begin() + buffers_);
  all.push_back(scratch);
  const int64_t count = rows_ * limits_;
  loop_->Run(all, pool, scratch + RoundUp(count * int64_t{sizeof(int32_t)}, 64));
  const auto* found = reinterpret_cast<const int32_t*>(scratch);
  ColumnRange out{std::numeric_limits<int64_t>::max(), 0};
  for (int64_t r = 0; r < rows_; ++r) {
    int64_t begin = 0, end = std::numeric_limits<int64_t>::max();
    for (int i = 0; i < limits_; ++i) {
      const int64_t limit = found[i * rows_ + r];
      if (i < ends_) end = std::min(end, limit);
      else begin = std::max(begin, limit);
    }
    out.begin = std::min(out.begin, begin), out.end = std::max(out.end, end);
  }
  return out;
}

std::optional<Magnitudes> Magnitudes::Make(int binding, int64_t offset, ElementType type, std::vector<Walk> others,
                                           Walk columns) {
  if (type != ElementType::kF32 && type != ElementType::kF16 && type != ElementType::kBF16) return std::nullopt;
  Magnitudes out;
  out.type_ = type, out.binding_ = binding, out.offset_ = offset;
  out.walks_ = std::move(others);
  std::erase_if(out.walks_, [](const Walk& w) { return w.extent == 1 || w.stride == 0; });
  out.walks_.push_back(columns);
  std::ranges::stable_sort(out.walks_, std::greater(), &Walk::stride);
  if (out.walks_.back().stride != 1) return std::nullopt;
  for (std::size_t w = 0; w < out.walks_.size(); ++w)
    if (out.walks_[w].stride == columns.stride) out.columns_ = w;
  return out;
}

std::vector<Magnitudes::Walk> Magnitudes::WithBatch(const Dims& batch, const Dims& strides, Walk others) {
  std::vector<Walk> out = {others};
  for (std::size_t d = 0; d < batch.size(); ++d) out.push_back({batch[d], strides[d]});
  return out;
}

std::optional<Magnitudes> Magnitudes::OfRhs(const plan::DotKernel& dot, Walk others, Walk columns) {
  if (dot.computes_rhs()) return std::nullopt;
  return Make(dot.rhs_binding, dot.rhs_offset, dot.rhs_type, WithBatch(dot.batch, dot.rhs_batch_strides, others),
              columns);
}

std::optional<Magnitudes> Magnitudes::OfKeys(const plan::DotKernel& scores) {
  return OfRhs(scores, {scores.k, scores.rhs_k_stride}, {scores.n, scores.rhs_n_stride});
}

std::optional<Magnitudes> Magnitudes::OfValues(const plan::DotKernel& product) {
  return OfRhs(product, {product.n, product.rhs_n_stride}, {product.k, product.rhs_k_stride});
}

// A query has no columns: its elements are all outside of none.
std::optional<Magnitudes> Magnitudes::OfQueries(const plan::DotKernel& scores) {
  if (scores.computes_lhs()) return std::nullopt;
  return Make(scores.lhs_binding, scores.lhs_offset, scores.lhs_type,
              WithBatch(scores.batch, scores.lhs_batch_strides, {scores.m, scores.lhs_m_stride}),
              {scores.k, scores.lhs_k_stride});
}

float Magnitudes::Outside(const ColumnRange& range, std::span<std::byte* const> bindings, ThreadPool& pool) const {
  const std::byte* values = bindings[static_cast<std::size_t>(binding_)] + offset_ * StorageBytes(type_);
  const float behind = Within({range.end, walks_[columns_].extent}, values, pool);
  // What is not finite is no smaller than anything.
  return std::isfinite(behind) ? std::max(Within({0, range.begin}, values, pool), behind) : behind;
}

float Magnitudes::Within(const ColumnRange& range, const std::byte* values, ThreadPool& pool) const {
  if (range.begin >= range.end) return 0;
  std::vector<Walk> walks = walks_;
  walks[columns_].extent = range.end - range.begin;
  values += range.begin * walks[columns_].stride * StorageBytes(type_);
  // Elements side by side, as far as dimensions follow each other.
  int64_t run = walks.back().extent;
  walks.pop_back();
  while (!walks.empty() && walks.back().stride == run) run *= walks.back().extent, walks.pop_back();
  int64_t runs = 1;
  for (const Walk& w : walks) runs *= w.extent;
  constexpr int64_t kPiece = 16384;
  const int64_t pieces = CeilDiv(run, kPiece);
  std::atomic<uint32_t> largest = 0;  // bits, whose order is that of the numbers, NaN behind all of them
  const double nanoseconds = static_cast<double>(std::min(run, kPiece) * StorageBytes(type_)) / 16;
  pool.ParallelItems(runs * pieces, nanoseconds, [&](int64_t first, int64_t last, int) {
    uint32_t mine = 0;
    for (int64_t t = first; t < last; ++t) {
      const int64_t begin = t % pieces * kPiece;
      int64_t number = t / pieces, at = begin;
      for (std::size_t w = walks.size(); w-- > 0; number /= walks[w].extent)
        at += number % walks[w].extent * walks[w].stride;
      const float found = LargestMagnitude(type_, values + at * StorageBytes(type_), std::min(kPiece, run - begin));
      mine = std::max(mine, std::bit_cast<uint32_t>(found));
    }
    uint32_t known = largest.load();
    while (known < mine && !largest.compare_exchange_weak(known, mine)) {}
  });
  return std::bit_cast<float>(largest.load());
}

namespace {

// From the last column on: it is one of those that masks leave.
template <typename T, typename Widen>
bool HasScoreAbove(float least, const ColumnRange& range, const std::byte* row, Widen&& widen) {
  const auto* scores = reinterpret_cast<const T*>(row);
  for (int64_t c = range.end; c-- > range.begin;)
    if (!(widen(scores[c]) <= least)) return true;
  return false;
}

}  // namespace

bool HaveScoresAbove(double least, const ColumnRange& range, const std::byte* scores, ElementType storage, int64_t rows,
                     int64_t stride) {
  const auto low = static_cast<float>(least);
  for (int64_t r = 0; r < rows; ++r, scores += stride * StorageBytes(storage)) {
    const bool has = storage == ElementType::kF32 ? HasScoreAbove<float>(low, range, scores, [](float v) { return v; })
                     : storage == ElementType::kF16
                         ? HasScoreAbove<uint16_t>(low, range, scores, [](uint16_t v) { return F16ToFloat(v); })
                         : HasScoreAbove<uint16_t>(low, range, scores, [](uint16_t v) { return BF16ToFloat(v); });
    if (!has) return false;
  }
  return true;
}

}  // namespace krafla::cpu
