// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/short_products.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/interruption.h"
#include "cpu_fallback/kernels/move.h"
#include "cpu_fallback/kernels/tiny_products.h"
#include "cpu_fallback/kernels/unroll.h"

#ifndef KRAFLA_CPU_SHORT_PRODUCTS
#define KRAFLA_CPU_SHORT_PRODUCTS
namespace krafla::cpu {
// `count` products with these distances between their matrices, elements.
struct ShortLine {
  int64_t count = 0, lhs_stride = 0, rhs_stride = 0, result_stride = 0;
};
using ShortProductFn = void (*)(const GemmProblem&, const ShortLine&, const void*, const void*, void*);
}  // namespace krafla::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/short_products.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu_fallback/kernels/narrow_loads-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr bool kHasManyRegisters = !HWY_ARCH_X86 || HWY_TARGET < HWY_AVX2;  // 32: better targets have lower numbers

// The rows of sums that stay in registers beside a row of the right side.
template <int kVectors>
constexpr int kMostSumRows = kVectors == 1       ? 8
                             : kHasManyRegisters ? (kVectors == 2 ? 8 : 4)
                                                 : (kVectors <= 3 ? 4 : 2);

// Of a product: in registers and on the stack, where a store of numbers cannot change them.
struct ShortShape {
  int64_t m, n, k, lhs_m_stride, lhs_k_stride, rhs_k_stride, result_m_stride;
};

// to[r, 0..p.n) = sum over k of lhs[r, k] * rhs[k, 0..p.n), for r < kRows; p.n is at most kVectors vectors, of the last
// of which `last` says which lanes are columns unless all are (`is_full`). kIsExact: products of few terms are rounded
// one by one, as in XLA. `spills`: what lies behind a row of the result is written after it, so a row may be stored
// with all lanes. A store of some lanes takes as long as the product of a row on processors without AVX-512.
template <class D, int kRows, int kVectors, bool kIsExact, class M, class T = hn::TFromD<D>>
HWY_INLINE void RowsTimesShort(D d, const ShortShape& p, M last, bool is_full, bool spills, const T* lhs, const T* rhs,
                               T* to) {
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  using V = hn::Vec<D>;
  V sums[kRows * kVectors];
  KRAFLA_UNROLL(8)
  for (V& sum : sums) sum = hn::Zero(d);
  for (int64_t k = 0; k < p.k; ++k) {
    V b[kVectors];
    KRAFLA_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) {
      const T* at = rhs + k * p.rhs_k_stride + v * kLanes;
      b[v] = v + 1 < kVectors || is_full ? hn::LoadU(d, at) : hn::MaskedLoad(last, d, at);
    }
    KRAFLA_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const V a = hn::Set(d, lhs[r * p.lhs_m_stride + k * p.lhs_k_stride]);
      KRAFLA_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) {
        V& sum = sums[r * kVectors + v];
        if constexpr (kIsExact) sum = hn::Add(sum, hn::Mul(a, b[v]));
        else sum = hn::MulAdd(a, b[v], sum);
      }
    }
  }
  KRAFLA_UNROLL(8)
  for (int r = 0; r < kRows; ++r) KRAFLA_UNROLL(4)
  for (int v = 0; v < kVectors; ++v) {
    T* at = to + r * p.result_m_stride + v * kLanes;
    if (v + 1 < kVectors || spills) hn::StoreU(sums[r * kVectors + v], d, at);
    else hn::BlendedStore(sums[r * kVectors + v], last, d, at);
  }
}
template <class D, int kVectors, bool kIsExact>
void ShortProductsOf(const GemmProblem& problem, const ShortLine& products, const void* lhs, const void* rhs,
                     void* to) {
  using T = hn::TFromD<D>;
  const D d;
  const ShortShape p{problem.m,
                     problem.n,
                     problem.k,
                     problem.lhs_m_stride,
                     problem.lhs_k_stride,
                     problem.rhs_k_stride,
                     problem.result_m_stride};
  const ShortLine line = products;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  const int64_t columns = p.n - (kVectors - 1) * kLanes;
  const bool is_full = columns == kLanes;
  const auto last = hn::FirstN(d, static_cast<std::size_t>(columns));
  const bool is_dense = p.result_m_stride == p.n && line.result_stride == p.m * p.n;
  for (int64_t c = 0; c < line.count; ++c) {
    const T* left = static_cast<const T*>(lhs) + c * line.lhs_stride;
    const T* right = static_cast<const T*>(rhs) + c * line.rhs_stride;
    T* out = static_cast<T*>(to) + c * line.result_stride;
    const bool spills = is_full || (is_dense && c + 1 < line.count && p.m * p.n >= kLanes);
    int64_t i = 0;
    const auto rows = [&]<int kRows>() HWY_ATTR {
      RowsTimesShort<D, kRows, kVectors, kIsExact>(d, p, last, is_full, spills, left + i * p.lhs_m_stride, right,
                                                   out + i * p.result_m_stride);
      i += kRows;
    };
    constexpr int kMost = kMostSumRows<kVectors>;
    while (i + kMost <= p.m) rows.template operator()<kMost>();
    if constexpr (kMost > 4)
      if (i + 4 <= p.m) rows.template operator()<4>();
    if constexpr (kMost > 2)
      if (i + 3 == p.m) rows.template operator()<3>();
    if (i + 2 <= p.m) rows.template operator()<2>();
    if (i < p.m) rows.template operator()<1>();
  }
}

// One row times matrices whose columns lie one behind the other, each column's numbers side by side in kVectors
// vectors: four columns at a time. Sums begin with zero, which a product of -0 leaves as it is.
template <class D, int kVectors>
void LinesTimesVectors(const GemmProblem& problem, const ShortLine& products, const void* lhs, const void* rhs,
                       void* to) {
  using T = hn::TFromD<D>;
  const D d;
  using V = hn::Vec<D>;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  const int64_t n = problem.n, k = problem.k, stride = problem.rhs_n_stride;
  const ShortLine line = products;
  const auto rest = static_cast<std::size_t>(k - (kVectors - 1) * kLanes);  // of the last vector
  [[maybe_unused]] const auto mask = hn::FirstN(d, rest);
  const auto load = [&](const T* at, int v) HWY_ATTR {
    at += v * kLanes;
    if (v + 1 < kVectors) return hn::LoadU(d, at);
    // Others than these have no loads that leave out what the mask does.
    if constexpr (HWY_MAX_BYTES >= 32) return hn::MaskedLoad(mask, d, at);
    else return hn::LoadN(d, at, rest);
  };
  for (int64_t c = 0; c < line.count; ++c) {
    const T* columns = static_cast<const T*>(rhs) + c * line.rhs_stride;
    T* out = static_cast<T*>(to) + c * line.result_stride;
    V x[kVectors];
    KRAFLA_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) x[v] = load(static_cast<const T*>(lhs) + c * line.lhs_stride, v);
    for (int64_t i = 0; i < n; i += 4) {
      V p[4];
      KRAFLA_UNROLL(4)
      for (int64_t r = 0; r < 4; ++r) {
        const T* column = columns + std::min(i + r, n - 1) * stride;
        p[r] = hn::Zero(d);
        KRAFLA_UNROLL(4)
        for (int v = 0; v < kVectors; ++v) p[r] = hn::MulAdd(x[v], load(column, v), p[r]);
      }
      StoreFourSums(d, p, static_cast<std::size_t>(std::min<int64_t>(4, n - i)), out + i);
    }
  }
}
// Null: not so many vectors hold so many numbers.
template <class T>
ShortProductFn PickLineProduct(int64_t depth) {
  constexpr std::size_t kMost = HWY_MAX_BYTES >= 64 ? 64 : HWY_MAX_BYTES >= 32 ? 32 : 16;
  using Widest = hn::CappedTag<T, kMost / sizeof(T)>;
  using Half = hn::CappedTag<T, std::max<std::size_t>(kMost / 2, 16) / sizeof(T)>;
  using Least = hn::CappedTag<T, 16 / sizeof(T)>;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(Widest()));
  if (depth <= static_cast<int64_t>(hn::MaxLanes(Least()))) return &LinesTimesVectors<Least, 1>;
  if (depth <= static_cast<int64_t>(hn::MaxLanes(Half()))) return &LinesTimesVectors<Half, 1>;
  switch ((depth + kLanes - 1) / kLanes) {
    case 1: return &LinesTimesVectors<Widest, 1>;
    case 2: return &LinesTimesVectors<Widest, 2>;
    case 3: return &LinesTimesVectors<Widest, 3>;
    case 4: return &LinesTimesVectors<Widest, 4>;
    default: return nullptr;
  }
}
ShortProductFn FindLineProduct(ElementType type, int64_t depth) {
#if HWY_HAVE_FLOAT64
  if (type == ElementType::kF64) return PickLineProduct<double>(depth);
#endif
  return type == ElementType::kF32 ? PickLineProduct<float>(depth) : nullptr;
}

// The columns of a product are at most two vectors of 64 bytes, as four of what is shorter.
template <class T, bool kIsExact>
ShortProductFn PickShortProduct(int64_t columns) {
  using D = hn::CappedTag<T, 64 / sizeof(T)>;
  using Narrow = hn::CappedTag<T, 16 / sizeof(T)>;
  if (columns > 2 * 64 / static_cast<int64_t>(sizeof(T))) return nullptr;
  if (columns <= static_cast<int64_t>(hn::MaxLanes(Narrow()))) return &ShortProductsOf<Narrow, 1, kIsExact>;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  switch ((columns + kLanes - 1) / kLanes) {
    case 1: return &ShortProductsOf<D, 1, kIsExact>;
    case 2: return &ShortProductsOf<D, 2, kIsExact>;
    case 3: return &ShortProductsOf<D, 3, kIsExact>;
    case 4: return &ShortProductsOf<D, 4, kIsExact>;
    default: return nullptr;
  }
}
template <class T>
ShortProductFn PickFloatProduct(int64_t columns, int64_t depth) {
  return depth <= kTinyDepth ? PickShortProduct<T, true>(columns) : PickShortProduct<T, false>(columns);
}
ShortProductFn FindShortProduct(ElementType type, int64_t columns, int64_t depth) {
  using enum ElementType;
#if HWY_HAVE_FLOAT64
  if (type == kF64) return PickFloatProduct<double>(columns, depth);
#endif
  if (type == kF32) return PickFloatProduct<float>(columns, depth);
  // Integers wrap, whatever their signs.
  if (type == kS32 || type == kU32) return PickShortProduct<int32_t, false>(columns);
  return nullptr;
}
// Up to how many multiplications of f32 our product is the faster one. With AVX-512 oneDNN makes more of large ones.
int64_t MostF32Products() { return kHasManyRegisters ? 1500 : 32768; }

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindShortProduct);
HWY_EXPORT(FindLineProduct);
HWY_EXPORT(MostF32Products);

namespace {

// Matrices that are put in order at a time: so many elements of the larger side, which stay in the nearest cache.
constexpr int64_t kElementsTogether = 1024;
constexpr int64_t kProductsBetweenLooks = 512;
constexpr int64_t kMostSide = 16;  // of a matrix that one row is multiplied with

// Whether a row is multiplied with matrices as they lie, by their columns.
bool IsByLines(const GemmProblem& p) {
  return p.m == 1 && HWY_DYNAMIC_DISPATCH(FindLineProduct)(p.accumulate_type, p.k) != nullptr && p.rhs_n_stride != 1 &&
         p.rhs_k_stride == 1 && p.lhs_k_stride == 1 && p.lhs_type == p.accumulate_type &&
         p.rhs_type == p.accumulate_type && IsFloat(p.accumulate_type);
}
ShortProductFn FindProduct(const GemmProblem& p) {
  return IsByLines(p) ? HWY_DYNAMIC_DISPATCH(FindLineProduct)(p.accumulate_type, p.k)
                      : HWY_DYNAMIC_DISPATCH(FindShortProduct)(p.accumulate_type, p.n, p.k);
}

}  // namespace

bool ShortProducts::Takes(const GemmProblem& p) {
  constexpr int64_t kMostDepth = 64, kMostRows = 64, kLeastCount = 4;
  // Processors multiply narrow floats themselves, which oneDNN makes use of.
  constexpr int64_t kMostNarrowProducts = 600;
  if (p.accumulate_type == ElementType::kF32) {
    const bool is_narrow = p.lhs_type != ElementType::kF32 || p.rhs_type != ElementType::kF32;
    const int64_t most = HWY_DYNAMIC_DISPATCH(MostF32Products)();
    if (p.m * p.n * p.k > (is_narrow ? std::min(most, kMostNarrowProducts) : most)) return false;
  }
  // One row times a matrix that need not be turned; of larger ones memory's time is all that counts.
  const bool is_row = p.m == 1 && p.n <= kMostSide && p.k <= kMostSide && (p.rhs_n_stride == 1 || IsByLines(p));
  return p.n > 1 && (p.m > 1 || is_row) && p.k > 0 && p.k <= kMostDepth && p.m <= kMostRows &&
         BatchCount(p) >= kLeastCount && FindProduct(p) != nullptr && CanWiden(p.lhs_type, p.accumulate_type) &&
         CanWiden(p.rhs_type, p.accumulate_type);
}

ShortProducts::ShortProducts(const GemmProblem& problem, int threads) : problem_(problem) {
  GemmProblem& p = problem_;
  const ElementType sums = p.accumulate_type;
  const int width = StorageBytes(sums);
  // Integers of the same width hold the same bits.
  const auto widens = [&](ElementType type) {
    return type != sums && !(IsIntegral(type) && IsIntegral(sums) && StorageBytes(type) == width);
  };
  const auto stride = [&](const Dims& strides) { return p.batch.empty() ? 0 : strides.back(); };
  lhs_ = {.type = p.lhs_type,
          .lines = p.m,
          .columns = p.k,
          .line_stride = p.lhs_m_stride,
          .column_stride = p.lhs_k_stride,
          .matrix_stride = stride(p.lhs_batch_strides),
          .copies = false,
          .widens = widens(p.lhs_type)};
  rhs_ = {.type = p.rhs_type,
          .lines = p.k,
          .columns = p.n,
          .line_stride = p.rhs_k_stride,
          .column_stride = p.rhs_n_stride,
          .matrix_stride = stride(p.rhs_batch_strides),
          .copies = false,
          .widens = widens(p.rhs_type)};
  lhs_.copies = lhs_.widens;
  rhs_.copies = rhs_.widens || (p.rhs_n_stride != 1 && !IsByLines(p));
  if (lhs_.copies) p.lhs_m_stride = p.k, p.lhs_k_stride = 1;
  if (rhs_.copies) p.rhs_k_stride = p.n, p.rhs_n_stride = 1;
  const int64_t line = p.batch.empty() ? 1 : p.batch.back();
  const bool copies = lhs_.copies || rhs_.copies;
  together_ = copies ? std::clamp<int64_t>(kElementsTogether / (p.k * std::max(p.m, p.n)), 1, line)
                     : std::min(line, kProductsBetweenLooks);
  const int64_t lhs_copy = lhs_.copies ? RoundUp(together_ * p.m * p.k * width, 64) : 0;
  const int64_t rhs_copy = rhs_.copies ? RoundUp(together_ * p.k * p.n * width, 64) : 0;
  const bool widens_any = lhs_.widens || rhs_.widens;
  rhs_copy_ = lhs_copy;
  narrow_ = lhs_copy + rhs_copy;
  worker_bytes_ = narrow_ + (widens_any ? RoundUp(together_ * p.k * std::max(p.m, p.n) * width, 64) : 0);
  scratch_bytes_ = worker_bytes_ * threads;
}

int64_t ShortProducts::Side::stride() const { return copies && matrix_stride != 0 ? lines * columns : matrix_stride; }

const std::byte* ShortProducts::Side::Prepare(const std::byte* from, int64_t count, ElementType sums, std::byte* to,
                                              std::byte* narrow) const {
  if (!copies) return from;
  const int width = StorageBytes(type);
  const int64_t size = lines * columns, matrices = matrix_stride == 0 ? 1 : count;
  const auto put_in_order = [&](std::byte* there) {
    for (int64_t i = 0; i < matrices; ++i)
      MoveTile(width, from + i * matrix_stride * width, {line_stride, column_stride}, there + i * size * width,
               {columns, 1}, lines, columns);
  };
  if (!widens) {
    put_in_order(to);
    return to;
  }
  const bool is_dense = column_stride == 1 && line_stride == columns && (matrices == 1 || matrix_stride == size);
  if (!is_dense) put_in_order(narrow);
  WidenElements(type, sums, is_dense ? from : narrow, to, matrices * size);
  return to;
}

void ShortProducts::Run(const std::byte* lhs, const std::byte* rhs, std::byte* result, ThreadPool& pool,
                        std::byte* scratch) const {
  const GemmProblem& p = problem_;
  const auto run = FindProduct(p);
  const int width = StorageBytes(p.accumulate_type);
  const int64_t batches = BatchCount(p), lhs_width = StorageBytes(p.lhs_type), rhs_width = StorageBytes(p.rhs_type);
  const int64_t line = p.batch.empty() ? 1 : p.batch.back();
  constexpr double kNanosecondsOfProduct = 5;
  const double nanoseconds = kNanosecondsOfProduct + static_cast<double>(p.m * p.n * p.k) / kProductsPerNanosecond;
  pool.ParallelItems(batches, nanoseconds, [&](int64_t begin, int64_t end, int worker) {
    std::byte* memory = scratch + worker * worker_bytes_;
    int64_t lhs_before = -1, rhs_before = -1;  // the matrix that was put in order for all
    const std::byte *left = nullptr, *right = nullptr;
    for (int64_t b = begin, now = 0; b < end && !IsInterrupted(); b += now) {
      now = std::min({together_, end - b, line - b % line});
      const int64_t lhs_at = BatchOffset(b, p.batch, p.lhs_batch_strides) * lhs_width,
                    rhs_at = BatchOffset(b, p.batch, p.rhs_batch_strides) * rhs_width;
      if (lhs_at != lhs_before) left = lhs_.Prepare(lhs + lhs_at, now, p.accumulate_type, memory, memory + narrow_);
      if (rhs_at != rhs_before)
        right = rhs_.Prepare(rhs + rhs_at, now, p.accumulate_type, memory + rhs_copy_, memory + narrow_);
      lhs_before = lhs_.matrix_stride == 0 ? lhs_at : -1, rhs_before = rhs_.matrix_stride == 0 ? rhs_at : -1;
      const ShortLine products{now, lhs_.stride(), rhs_.stride(), p.batch.empty() ? 0 : p.result_batch_strides.back()};
      run(p, products, left, right, result + BatchOffset(b, p.batch, p.result_batch_strides) * width);
    }
  });
}

}  // namespace krafla::cpu
#endif
