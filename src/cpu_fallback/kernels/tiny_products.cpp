// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/tiny_products.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/interruption.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/tiny_products.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
void RunLine(const TinyProducts::Line& line, int64_t begin, int64_t end, const void* lhs_pointer,
             const void* rhs_pointer, void* result_pointer) {
  const hn::CappedTag<T, 64 / sizeof(T)> d;
  const hn::RebindToSigned<decltype(d)> di;
  using I = hn::TFromD<decltype(di)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const T* lhs = static_cast<const T*>(lhs_pointer);
  const T* rhs = static_cast<const T*>(rhs_pointer);
  T* result = static_cast<T*>(result_pointer);
  HWY_ALIGN I lhs_lanes[kTinyDepth * 16], rhs_lanes[kTinyDepth * 16];
  for (int64_t i = 0; i < line.depth * lanes; ++i) {
    lhs_lanes[i] = line.lhs_lanes[static_cast<std::size_t>(i)];
    rhs_lanes[i] = line.rhs_lanes[static_cast<std::size_t>(i)];
  }
  // Elements of the arrays, that loads may touch, from the first matrix on.
  const int64_t lhs_end = (line.count - 1) * line.lhs_stride + line.lhs_span;
  const int64_t rhs_end = (line.count - 1) * line.rhs_stride + line.rhs_span;
  const auto load = [&](const T* from, int64_t at, int64_t limit) HWY_ATTR {
    return at + lanes <= limit ? hn::LoadU(d, from + at)
                               : hn::LoadN(d, from + at, static_cast<std::size_t>(limit - at));
  };
  for (int64_t i = begin; i < end; i += line.together) {
    const auto a = load(lhs, i * line.lhs_stride, lhs_end), b = load(rhs, i * line.rhs_stride, rhs_end);
    const auto term = [&](int64_t p) HWY_ATTR {
      return hn::Mul(hn::TableLookupLanes(a, hn::SetTableIndices(d, lhs_lanes + p * lanes)),
                     hn::TableLookupLanes(b, hn::SetTableIndices(d, rhs_lanes + p * lanes)));
    };
    // From zero on: a product of -0 alone is +0.
    auto sum = hn::Zero(d);
    for (int64_t p = 0; p < line.depth; ++p) sum = hn::Add(sum, term(p));
    const auto count = static_cast<std::size_t>(std::min(line.together, end - i) * line.size);
    hn::StoreN(sum, d, result + i * line.size, count);
  }
}

int64_t VectorLanes(int width) {
  return width == 4 ? static_cast<int64_t>(hn::Lanes(hn::CappedTag<float, 16>()))
                    : static_cast<int64_t>(hn::Lanes(hn::CappedTag<double, 8>()));
}
void RunTinyLine(ElementType type, const TinyProducts::Line& line, int64_t begin, int64_t end, const void* lhs,
                 const void* rhs, void* result) {
  if (type == ElementType::kF32) RunLine<float>(line, begin, end, lhs, rhs, result);
  else RunLine<double>(line, begin, end, lhs, rhs, result);
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(VectorLanes);
HWY_EXPORT(RunTinyLine);

std::optional<TinyProducts> TinyProducts::Make(const GemmProblem& p) {
  constexpr int64_t kLeastCount = 8;
  if (p.accumulate_type != ElementType::kF32 && p.accumulate_type != ElementType::kF64) return std::nullopt;
  if (p.lhs_type != p.accumulate_type || p.rhs_type != p.accumulate_type) return std::nullopt;
  if (p.k == 0 || p.k > kTinyDepth || p.batch.empty() || p.batch.back() < kLeastCount) return std::nullopt;
  const int64_t lanes = HWY_DYNAMIC_DISPATCH(VectorLanes)(StorageBytes(p.accumulate_type));
  if (p.m > lanes || p.n > lanes || p.m * p.n > lanes) return std::nullopt;
  if (p.result_batch_strides.back() != p.m * p.n || (p.m > 1 && p.result_m_stride != p.n)) return std::nullopt;
  TinyProducts out;
  Line& line = out.line_;
  line.count = p.batch.back();
  line.lhs_stride = p.lhs_batch_strides.back(), line.rhs_stride = p.rhs_batch_strides.back();
  line.size = p.m * p.n, line.depth = p.k;
  for (int64_t s : {line.lhs_stride, line.rhs_stride, p.lhs_m_stride, p.lhs_k_stride, p.rhs_k_stride, p.rhs_n_stride})
    if (s < 0) return std::nullopt;
  // Each bounded by the lanes before they are added up.
  const auto reach = [&](int64_t extent, int64_t stride) {
    return extent > 1 && stride >= lanes ? lanes : (extent - 1) * stride;
  };
  line.lhs_span = reach(p.m, p.lhs_m_stride) + reach(p.k, p.lhs_k_stride) + 1;
  line.rhs_span = reach(p.k, p.rhs_k_stride) + reach(p.n, p.rhs_n_stride) + 1;
  if (line.lhs_span > lanes || line.rhs_span > lanes) return std::nullopt;
  const auto fits = [&](int64_t matrices) {
    return matrices * line.size <= lanes && reach(matrices, line.lhs_stride) + line.lhs_span <= lanes &&
           reach(matrices, line.rhs_stride) + line.rhs_span <= lanes;
  };
  while (fits(line.together + 1)) ++line.together;
  for (int64_t k = 0; k < p.k; ++k) {
    for (int64_t l = 0; l < line.together * line.size; ++l) {
      const int64_t matrix = l / line.size, i = l % line.size / p.n, j = l % p.n;
      const auto at = static_cast<std::size_t>(k * lanes + l);
      line.lhs_lanes[at] = static_cast<int32_t>(matrix * line.lhs_stride + i * p.lhs_m_stride + k * p.lhs_k_stride);
      line.rhs_lanes[at] = static_cast<int32_t>(matrix * line.rhs_stride + k * p.rhs_k_stride + j * p.rhs_n_stride);
    }
  }
  out.problem_ = p;
  for (Dims* dims : {&out.problem_.batch, &out.problem_.lhs_batch_strides, &out.problem_.rhs_batch_strides,
                     &out.problem_.result_batch_strides})
    dims->pop_back();
  return out;
}

void TinyProducts::Run(const std::byte* lhs, const std::byte* rhs, std::byte* result, ThreadPool& pool) const {
  constexpr int64_t kPieceVectors = 1024;
  const GemmProblem& p = problem_;
  const int64_t width = StorageBytes(p.accumulate_type);
  const int64_t piece = kPieceVectors * line_.together, pieces = (line_.count + piece - 1) / piece;
  // The loads and the store of a vector, and two permutations, a multiplication and an addition a term.
  const double vector_time = 1 + 0.8 * static_cast<double>(line_.depth);
  const double piece_time = static_cast<double>(CeilDiv(std::min(piece, line_.count), line_.together)) * vector_time;
  pool.ParallelItems(BatchCount(p) * pieces, piece_time, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end && !IsInterrupted(); ++t) {
      const int64_t b = t / pieces, first = t % pieces * piece;
      HWY_DYNAMIC_DISPATCH(RunTinyLine)(p.accumulate_type, line_, first, std::min(line_.count, first + piece),
                                        lhs + BatchOffset(b, p.batch, p.lhs_batch_strides) * width,
                                        rhs + BatchOffset(b, p.batch, p.rhs_batch_strides) * width,
                                        result + BatchOffset(b, p.batch, p.result_batch_strides) * width);
    }
  });
}

}  // namespace krafla::cpu
#endif
