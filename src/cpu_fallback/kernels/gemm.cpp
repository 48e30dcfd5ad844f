// SPDX-License-Identifier: Apache-2.0
// The usual structure: panels of the operands are converted and packed, a register tile of kRows x 3 vectors runs over
// them (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication").
#include "cpu_fallback/kernels/gemm.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/checked_math.h"
#include "base/interruption.h"
#include "cpu_fallback/kernels/block_ops.h"
#include "cpu_fallback/kernels/move.h"
#include "cpu_fallback/kernels/unroll.h"
#include "krafla/status.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/gemm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu_fallback/kernels/narrow_loads-inl.h"

#ifndef KRAFLA_CPU_GEMM_SIZES
#define KRAFLA_CPU_GEMM_SIZES
namespace krafla::cpu {
constexpr int kGemmRows = 8;  // of the register tile
struct GemmTile {
  int64_t column_step = 0;  // columns of the register tile
  // result[rows, columns] (+)= packed lhs * packed rhs over `depth`.
  void (*run)(const void* lhs, const void* rhs, int64_t depth, int64_t rows, int64_t columns, void* result,
              int64_t result_stride, bool add) = nullptr;
};
using WidenRowsFn = void (*)(const void* from, int64_t stride, int64_t rows, int64_t count, float* to);
constexpr int64_t kGemmDepth = 256;  // of a panel, along k
constexpr int64_t kRoundedDepth = 8;
// Of columns so few that each element of the left side is used in one tile alone.
constexpr int64_t kNarrowVectors = 2;
// Rows so few that what the left side lies in, and the right side's rows, are read where they are: to bring both into
// an order of their own takes as long as the product. The columns of a tile then, in vectors.
constexpr int64_t kFewGemmRows = 16, kGemmVectors = 3;
// Matrices so small that they stay in the L1 cache however they are walked.
constexpr int64_t kSmallGemmBytes = 16384;
}  // namespace krafla::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kVectors = 3;
// Rows of a tile whose sums, and what they are made of, the registers hold at once.
#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX3
constexpr int kTileRows = 4;
#else
constexpr int kTileRows = kGemmRows;
#endif

// lhs: groups of kGemmRows rows, each [depth][kGemmRows]; rhs: groups of kVectors vectors of columns, each
// [depth][columns]. Both padded with zeros. kColumns: the vectors that have columns.
template <class T, int kRows, int kColumns>
HWY_INLINE void Tile(const T* HWY_RESTRICT lhs, const T* HWY_RESTRICT rhs, int64_t depth, int64_t rows, int64_t columns,
                     T* HWY_RESTRICT result, int64_t stride, bool add) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const std::size_t lanes = hn::Lanes(d);
  V sum[kRows][kColumns];
  KRAFLA_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    KRAFLA_UNROLL(3)
    for (int v = 0; v < kColumns; ++v) sum[r][v] = hn::Zero(d);
  }
  auto over_depth = [&](auto multiply_add) HWY_ATTR {
    for (int64_t p = 0; p < depth; ++p) {
      V b[3];
      b[0] = hn::LoadU(d, rhs);
      if constexpr (kColumns > 1) b[1] = hn::LoadU(d, rhs + lanes);
      if constexpr (kColumns > 2) b[2] = hn::LoadU(d, rhs + 2 * lanes);
      rhs += kVectors * lanes;
      KRAFLA_UNROLL(8)
      for (int r = 0; r < kRows; ++r) {
        const V a = hn::Set(d, lhs[r]);
        sum[r][0] = multiply_add(a, b[0], sum[r][0]);
        if constexpr (kColumns > 1) sum[r][1] = multiply_add(a, b[1], sum[r][1]);
        if constexpr (kColumns > 2) sum[r][2] = multiply_add(a, b[2], sum[r][2]);
      }
      lhs += kGemmRows;
    }
  };
  // Sums of a few products cost their loads and stores, and cancel: each product is rounded, as in XLA.
  if (depth <= kRoundedDepth) over_depth([](V a, V b, V c) HWY_ATTR { return hn::Add(hn::Mul(a, b), c); });
  else over_depth([](V a, V b, V c) HWY_ATTR { return hn::MulAdd(a, b, c); });
  KRAFLA_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    KRAFLA_UNROLL(3)
    for (int v = 0; v < kColumns; ++v) {
      const int64_t first = v * static_cast<int64_t>(lanes);
      if (r >= rows || first >= columns) continue;  // a break would keep clang from taking the sums apart
      T* to = result + r * stride + first;
      const std::size_t count = std::min(lanes, static_cast<std::size_t>(columns - first));
      const V value = add ? hn::Add(hn::LoadN(d, to, count), sum[r][v]) : sum[r][v];
      hn::StoreN(value, d, to, count);
    }
  }
}

template <class T, int kColumns>
HWY_NOINLINE void RunTilesOf(const T* lhs, const T* rhs, int64_t depth, int64_t rows, int64_t columns, T* result,
                             int64_t stride, bool add) {
  for (int64_t i = 0; i < rows; i += kTileRows) {
    const T* a = lhs + i / kGemmRows * kGemmRows * depth + i % kGemmRows;
    const int64_t left = rows - i;
    T* to = result + i * stride;
    if (kTileRows > 4 && left >= 5) Tile<T, kTileRows, kColumns>(a, rhs, depth, left, columns, to, stride, add);
    else if (left >= 3) Tile<T, 4, kColumns>(a, rhs, depth, left, columns, to, stride, add);
    else Tile<T, 2, kColumns>(a, rhs, depth, left, columns, to, stride, add);
  }
}
template <class T>
void RunTiles(const void* lhs_pointer, const void* rhs_pointer, int64_t depth, int64_t rows, int64_t columns,
              void* result_pointer, int64_t stride, bool add) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d)), step = kVectors * lanes;
  const T* lhs = static_cast<const T*>(lhs_pointer);
  const T* rhs = static_cast<const T*>(rhs_pointer);
  T* result = static_cast<T*>(result_pointer);
  for (int64_t j = 0; j < columns; j += step) {
    const T* b = rhs + j * depth;
    const int64_t left = columns - j;
    if (left > 2 * lanes) RunTilesOf<T, 3>(lhs, b, depth, rows, left, result + j, stride, add);
    else if (left > lanes) RunTilesOf<T, 2>(lhs, b, depth, rows, left, result + j, stride, add);
    else RunTilesOf<T, 1>(lhs, b, depth, rows, left, result + j, stride, add);
  }
}

// Rows of 16-bit floats as rows of f32, each `count` long, one behind the other.
template <class S>
void WidenRowsOf(const void* from_pointer, int64_t stride, int64_t rows, int64_t count, float* to) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const S* from = static_cast<const S*>(from_pointer);
  for (int64_t r = 0; r < rows; ++r, from += stride, to += count)
    for (int64_t i = 0; i < count; i += lanes) hn::StoreU(LoadAs(d, from + i, hn::Lanes(d)), d, to + i);
}
// Null: there is none for these types, or rows of so many elements are not whole vectors.
WidenRowsFn FindWidenRows(ElementType storage, ElementType type, int64_t count) {
  if (type != ElementType::kF32 || count % static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>())) != 0)
    return nullptr;
  if (storage == ElementType::kBF16) return &WidenRowsOf<Bf16>;
  if (storage == ElementType::kF16) return &WidenRowsOf<hwy::float16_t>;
  return nullptr;
}

template <class T>
GemmTile TileOf() {
  const hn::ScalableTag<T> d;
  return {kVectors * static_cast<int64_t>(hn::Lanes(d)), &RunTiles<T>};
}
GemmTile FindTile(ElementType type) {
  if (type == ElementType::kF32) return TileOf<float>();
  if (type == ElementType::kF64) return TileOf<double>();
  // Integers wrap: signs do not matter once widened.
  if (type == ElementType::kS32 || type == ElementType::kU32) return TileOf<uint32_t>();
  if (type == ElementType::kS64 || type == ElementType::kU64) return TileOf<uint64_t>();
  KRAFLA_UNREACHABLE();
}

// As Tile, with rows that lie anywhere, from `first` on.
template <class T, int kRows, int kColumns, bool kIsPacked>
HWY_INLINE void RowsTile(std::span<const RowSegment> segments, int first, int64_t length,
                         const T* HWY_RESTRICT rhs_begin, int64_t count, int64_t columns, T* HWY_RESTRICT result,
                         int64_t stride, bool add) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const std::size_t lanes = hn::Lanes(d);
  V sum[kRows][kColumns];
  auto over_depth = [&](auto multiply_add) HWY_ATTR {
    V sums[kRows][kColumns];  // of its own: clang keeps what outlives the loops in memory
    KRAFLA_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      KRAFLA_UNROLL(3)
      for (int v = 0; v < kColumns; ++v) sums[r][v] = hn::Zero(d);
    }
    for (const RowSegment& s : segments) {
      const T* a[kRows];
      KRAFLA_UNROLL(8)
      for (int r = 0; r < kRows; ++r) a[r] = static_cast<const T*>(s.rows[first + r]);
      const int64_t packed = kColumns * static_cast<int64_t>(lanes), step = kIsPacked ? packed : s.rhs_stride;
      const T* HWY_RESTRICT rhs = rhs_begin + s.number * length * packed;
      const int64_t end = length * s.stride;
      for (int64_t i = 0; i != end; i += s.stride) {
        V b[3];
        b[0] = hn::LoadU(d, rhs);
        if constexpr (kColumns > 1) b[1] = hn::LoadU(d, rhs + lanes);
        if constexpr (kColumns > 2) b[2] = hn::LoadU(d, rhs + 2 * lanes);
        rhs += step;
        KRAFLA_UNROLL(8)
        for (int r = 0; r < kRows; ++r) {
          const V x = hn::Set(d, a[r][i]);
          sums[r][0] = multiply_add(x, b[0], sums[r][0]);
          if constexpr (kColumns > 1) sums[r][1] = multiply_add(x, b[1], sums[r][1]);
          if constexpr (kColumns > 2) sums[r][2] = multiply_add(x, b[2], sums[r][2]);
        }
      }
    }
    KRAFLA_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      KRAFLA_UNROLL(3)
      for (int v = 0; v < kColumns; ++v) sum[r][v] = sums[r][v];
    }
  };
  if (std::ssize(segments) * length <= kRoundedDepth)
    over_depth([](V a, V b, V c) HWY_ATTR { return hn::Add(hn::Mul(a, b), c); });
  else over_depth([](V a, V b, V c) HWY_ATTR { return hn::MulAdd(a, b, c); });
  KRAFLA_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    KRAFLA_UNROLL(3)
    for (int v = 0; v < kColumns; ++v) {
      const int64_t column = v * static_cast<int64_t>(lanes);
      if (r >= count || column >= columns) continue;
      T* to = result + r * stride + column;
      const std::size_t n = std::min(lanes, static_cast<std::size_t>(columns - column));
      const V value = add ? hn::Add(hn::LoadN(d, to, n), sum[r][v]) : sum[r][v];
      hn::StoreN(value, d, to, n);
    }
  }
}

template <class T, bool kIsPacked>
void RunRowsTile(std::span<const RowSegment> segments, int64_t length, const void* rhs_pointer, int64_t vectors,
                 int64_t count, int64_t columns, void* result_pointer, int64_t stride, bool add) {
  const T* rhs = static_cast<const T*>(rhs_pointer);
  T* result = static_cast<T*>(result_pointer);
  const auto run = [&](auto run_columns) HWY_ATTR {
    constexpr int kColumns = decltype(run_columns)::value;
    constexpr int kRows = kColumns == 1 ? kPointerRows : kTileRows;
    for (int64_t first = 0; first < count; first += kRows) {
      const int64_t left = count - first;
      T* to = result + first * stride;
      const int r = static_cast<int>(first);
      if (kRows > 4 && left > 4)
        RowsTile<T, kRows, kColumns, kIsPacked>(segments, r, length, rhs, left, columns, to, stride, add);
      else if (left > 2) RowsTile<T, 4, kColumns, kIsPacked>(segments, r, length, rhs, left, columns, to, stride, add);
      else RowsTile<T, 2, kColumns, kIsPacked>(segments, r, length, rhs, left, columns, to, stride, add);
    }
  };
  if (vectors == 3) run(std::integral_constant<int, 3>());
  else if (vectors == 2) run(std::integral_constant<int, 2>());
  else run(std::integral_constant<int, 1>());
}

template <class T>
PointerTile RowsTileOf() {
  return {static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>())), &RunRowsTile<T, true>, &RunRowsTile<T, false>};
}
PointerTile FindPointerTileHere(ElementType type) {
  if (type == ElementType::kF32) return RowsTileOf<float>();
  if (type == ElementType::kF64) return RowsTileOf<double>();
  if (type == ElementType::kS32 || type == ElementType::kU32) return RowsTileOf<uint32_t>();
  if (type == ElementType::kS64 || type == ElementType::kU64) return RowsTileOf<uint64_t>();
  KRAFLA_UNREACHABLE();
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindTile);
HWY_EXPORT(FindPointerTileHere);
HWY_EXPORT(FindWidenRows);

PointerTile FindPointerTile(ElementType accumulate_type) {
  return HWY_DYNAMIC_DISPATCH(FindPointerTileHere)(accumulate_type);
}

namespace {

struct Operand {
  const std::byte* data = nullptr;
  ElementType storage = ElementType::kF32;
  int64_t outer_stride = 0, depth_stride = 0;
};

// Widens `n` elements of `storage`, dense in `raw`, to the accumulation type.
void Widen(ElementType storage, ElementType type, const std::byte* raw, std::byte* middle, std::byte* to, int64_t n) {
  const ElementType compute = plan::ComputeType(storage);
  ConvertFn widen = FindWiden(storage);
  const std::byte* values = raw;
  if (widen != nullptr) {
    std::byte* target = compute == type ? to : middle;
    widen(raw, target, n);
    values = target;
  }
  if (values == to) return;
  if (compute == type || StorageBytes(compute) == StorageBytes(type)) {
    // s32 and u32 hold the same bits; so do s64 and u64.
    if (IsFloat(compute) == IsFloat(type)) {
      std::memcpy(to, values, static_cast<std::size_t>(n * StorageBytes(type)));
      return;
    }
  }
  BlockFn convert = FindBlockFn({.op = plan::NodeOp::kConvert, .type = type, .operand = compute});
  KRAFLA_CHECK(convert != nullptr);
  convert({to, {values, nullptr, nullptr}, n, 0});
}

}  // namespace

bool CanWiden(ElementType storage, ElementType type) {
  if (IsComplex(storage) || storage == ElementType::kPred) return false;
  const ElementType compute = plan::ComputeType(storage);
  if (compute == type) return true;
  if (StorageBytes(compute) == StorageBytes(type) && IsFloat(compute) == IsFloat(type)) return true;
  return FindBlockFn({.op = plan::NodeOp::kConvert, .type = type, .operand = compute}) != nullptr;
}

void WidenElements(ElementType storage, ElementType type, const std::byte* from, std::byte* to, int64_t n) {
  constexpr int64_t kStrip = 1024;
  alignas(64) std::byte middle[kStrip * 8];
  for (int64_t i = 0; i < n; i += kStrip)
    Widen(storage, type, from + i * StorageBytes(storage), middle, to + i * StorageBytes(type),
          std::min(kStrip, n - i));
}

void WidenLine(ElementType storage, ElementType type, const std::byte* from, int64_t stride, std::byte* to,
               std::byte* raw, int64_t n) {
  if (stride == 1) return WidenElements(storage, type, from, to, n);
  const bool is_wide = storage == type;
  MoveTile(StorageBytes(storage), from, {0, stride}, is_wide ? to : raw, {0, 1}, 1, n);
  if (!is_wide) WidenElements(storage, type, raw, to, n);
}

namespace {

// Packs [outer, depth] into groups of `group` outer indices, each [depth][group], padded with zeros.
void Pack(const Operand& from, ElementType type, int64_t outer, int64_t depth, int64_t group, std::byte* to,
          std::byte* staging) {
  const int width = StorageBytes(type), raw_width = StorageBytes(from.storage);
  const bool same = from.storage == type;
  std::byte* middle = staging + kGemmDepth * 64 * 8;
  const WidenRowsFn widen_rows = HWY_DYNAMIC_DISPATCH(FindWidenRows)(from.storage, type, group);
  for (int64_t o = 0; o < outer; o += group, to += group * depth * width) {
    const int64_t count = std::min(group, outer - o);
    if (count < group) std::memset(to, 0, static_cast<std::size_t>(group * depth * width));
    const std::byte* source = from.data + o * from.outer_stride * raw_width;
    if (same) {
      // Rows of the tile run along depth: to[p, g] = from[g, p].
      MoveTile(width, source, {from.depth_stride, from.outer_stride}, to, {group, 1}, depth, count);
      continue;
    }
    if (count == group && from.outer_stride == 1 && widen_rows != nullptr) {
      widen_rows(source, from.depth_stride, depth, group, reinterpret_cast<float*>(to));
      continue;
    }
    // Converted in strips that fit the staging.
    const int64_t strip = std::max<int64_t>(1, kGemmDepth * 64 / count);
    for (int64_t p = 0; p < depth; p += strip) {
      const int64_t rows = std::min(strip, depth - p);
      std::byte* raw = staging;
      MoveTile(raw_width, source + p * from.depth_stride * raw_width, {from.depth_stride, from.outer_stride}, raw,
               {count, 1}, rows, count);
      if (count == group) {
        Widen(from.storage, type, raw, middle, to + p * group * width, rows * count);
      } else {
        std::byte* wide = middle + kGemmDepth * 64 * 8;
        Widen(from.storage, type, raw, middle, wide, rows * count);
        MoveTile(width, wide, {count, 1}, to + p * group * width, {group, 1}, rows, count);
      }
    }
  }
}

constexpr int64_t kStagingBytes = 3 * kGemmDepth * 64 * 8;

}  // namespace

Gemm::Gemm(const GemmProblem& problem, int threads) : problem_(problem), batches_(BatchCount(problem)) {
  const int64_t step = HWY_DYNAMIC_DISPATCH(FindTile)(problem.accumulate_type).column_step;
  const int width = StorageBytes(problem.accumulate_type);
  // Tasks of about 384 x 384, smaller when there would be too few of them: each packs its part of both operands.
  rows_ = std::min<int64_t>(RoundUp(problem.m, kGemmRows), 384);
  columns_ = std::min<int64_t>(RoundUp(problem.n, step), RoundUp(384 * 4 / width, step));
  auto tasks = [&] { return batches_ * CeilDiv(problem_.m, rows_) * CeilDiv(problem_.n, columns_); };
  const bool reads_rows =
      problem.lhs_type == problem.accumulate_type ||
      (IsIntegral(problem.lhs_type) && IsIntegral(problem.accumulate_type) && StorageBytes(problem.lhs_type) == width);
  const int64_t lanes = FindPointerTile(problem.accumulate_type).lanes, vectors = CeilDiv(problem.n, lanes);
  const bool lie_in_rows =
      reads_rows && problem.lhs_k_stride != 0 && (problem.lhs_k_stride == 1 || problem.lhs_m_stride == 1);
  const bool is_small = problem.k * std::max(problem.m, problem.n) * width <= kSmallGemmBytes;
  reads_columns_ = lie_in_rows && (problem.m <= kFewGemmRows || is_small) &&
                   problem.rhs_type == problem.accumulate_type && problem.rhs_n_stride == 1 &&
                   problem.rhs_k_stride != 0 && problem.n % lanes == 0;
  reads_rows_ = lie_in_rows && (vectors <= kNarrowVectors || reads_columns_);
  const double flops = 2.0 * static_cast<double>(problem.m) * static_cast<double>(problem.n) *
                       static_cast<double>(problem.k) * static_cast<double>(batches_);
  if (threads > 1 && flops > 2e6) {
    while (tasks() < 2 * threads && columns_ > 2 * step) columns_ = RoundUp(columns_ / 2, step);
    while (tasks() < 2 * threads && rows_ > 2 * kGemmRows) rows_ = RoundUp(rows_ / 2, kGemmRows);
  }
  const int64_t depth = std::min(problem.k, kGemmDepth);
  worker_bytes_ = RoundUp(rows_ * depth * width, 64) + RoundUp(columns_ * depth * width, 64) + kStagingBytes;
  scratch_bytes_ = worker_bytes_ * threads;
}

void Gemm::RunRows(const PointerTile& tile, const std::byte* lhs, const std::byte* rhs, int64_t depth, int64_t rows,
                   int64_t columns, std::byte* to, bool add) const {
  const GemmProblem& p = problem_;
  const int width = StorageBytes(p.accumulate_type);
  const int64_t vectors = CeilDiv(columns, tile.lanes);
  const auto run = reads_columns_ ? tile.run_there : tile.run;
  RowSegment segment{.rows = {}, .stride = p.lhs_k_stride, .rhs_stride = p.rhs_k_stride};
  for (int64_t i = 0; i < rows; i += kPointerRows, to += kPointerRows * p.result_m_stride * width) {
    const int64_t count = std::min(kPointerRows, rows - i);
    // Tiles read rows that they do not store.
    for (int64_t r = 0; r < kPointerRows; ++r)
      segment.rows[r] = lhs + (i + std::min(r, count - 1)) * p.lhs_m_stride * width;
    run({&segment, 1}, depth, rhs, vectors, count, columns, to, p.result_m_stride, add);
  }
}

void Gemm::Run(const std::byte* lhs, const std::byte* rhs, std::byte* result, ThreadPool& pool,
               std::byte* scratch) const {
  const GemmProblem& p = problem_;
  const ElementType type = p.accumulate_type;
  const int width = StorageBytes(type), lhs_width = StorageBytes(p.lhs_type), rhs_width = StorageBytes(p.rhs_type);
  const GemmTile tile = HWY_DYNAMIC_DISPATCH(FindTile)(type);
  const PointerTile rows_tile = FindPointerTile(type);
  const int64_t row_tasks = CeilDiv(p.m, rows_), column_tasks = CeilDiv(p.n, columns_);
  const int64_t max_depth = std::min(p.k, kGemmDepth);
  const double task_time = static_cast<double>(rows_ * columns_) * static_cast<double>(p.k) / kProductsPerNanosecond;
  pool.ParallelItems(batches_ * row_tasks * column_tasks, task_time, [&](int64_t begin, int64_t end, int worker) {
    std::byte* memory = scratch + worker * worker_bytes_;
    std::byte* packed_lhs = memory;
    std::byte* packed_rhs = packed_lhs + RoundUp(rows_ * max_depth * width, 64);
    std::byte* staging = packed_rhs + RoundUp(columns_ * max_depth * width, 64);
    for (int64_t task = begin; task < end && !IsInterrupted(); ++task) {
      const int64_t b = task / (row_tasks * column_tasks);
      const int64_t j = task / row_tasks % column_tasks * columns_, i = task % row_tasks * rows_;
      const int64_t rows = std::min(rows_, p.m - i), columns = std::min(columns_, p.n - j);
      std::byte* to = result + (BatchOffset(b, p.batch, p.result_batch_strides) + i * p.result_m_stride + j) * width;
      if (p.k == 0) {
        for (int64_t r = 0; r < rows; ++r)
          std::memset(to + r * p.result_m_stride * width, 0, static_cast<std::size_t>(columns * width));
        continue;
      }
      const std::byte* a = lhs + (BatchOffset(b, p.batch, p.lhs_batch_strides) + i * p.lhs_m_stride) * lhs_width;
      const std::byte* c = rhs + (BatchOffset(b, p.batch, p.rhs_batch_strides) + j * p.rhs_n_stride) * rhs_width;
      for (int64_t k = 0; k < p.k; k += kGemmDepth) {
        const int64_t depth = std::min(kGemmDepth, p.k - k);
        const std::byte* rows_from = a + k * p.lhs_k_stride * lhs_width;
        const Operand rhs_panel{c + k * p.rhs_k_stride * rhs_width, p.rhs_type, p.rhs_n_stride, p.rhs_k_stride};
        if (reads_rows_) {
          for (int64_t first = 0; first < columns; first += kGemmVectors * rows_tile.lanes) {
            const int64_t count = std::min(columns - first, kGemmVectors * rows_tile.lanes);
            Operand panel = rhs_panel;
            panel.data += first * p.rhs_n_stride * rhs_width;
            if (!reads_columns_) Pack(panel, type, count, depth, RoundUp(count, rows_tile.lanes), packed_rhs, staging);
            RunRows(rows_tile, rows_from, reads_columns_ ? panel.data : packed_rhs, depth, rows, count,
                    to + first * width, k > 0);
          }
          continue;
        }
        Pack({rows_from, p.lhs_type, p.lhs_m_stride, p.lhs_k_stride}, type, rows, depth, kGemmRows, packed_lhs,
             staging);
        Pack(rhs_panel, type, columns, depth, tile.column_step, packed_rhs, staging);
        tile.run(packed_lhs, packed_rhs, depth, rows, columns, to, p.result_m_stride, k > 0);
      }
    }
  });
}

}  // namespace krafla::cpu
#endif
