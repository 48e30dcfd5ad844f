// SPDX-License-Identifier: Apache-2.0
// Matrix products of our own: any strides, any storage type, of any size. What oneDNN does not take and what is too
// small for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "krafla/element_type.h"
#include "krafla/inline_vector.h"

namespace krafla::cpu {

// result[b, i, j] = sum over k of lhs * rhs, for every batch index b. Strides in elements. The result is dense along j,
// in the accumulation type: f32, f64, s32, u32, s64 or u64.
struct GemmProblem {
  Dims batch, lhs_batch_strides, rhs_batch_strides, result_batch_strides;
  int64_t m = 1, n = 1, k = 1;
  int64_t lhs_m_stride = 0, lhs_k_stride = 0, rhs_k_stride = 0, rhs_n_stride = 0, result_m_stride = 0;
  ElementType lhs_type = ElementType::kF32, rhs_type = ElementType::kF32;
  ElementType accumulate_type = ElementType::kF32;
};

// What our own loops make of a problem's m n k products, about, on one thread.
inline constexpr double kProductsPerNanosecond = 20;

inline int64_t BatchCount(const GemmProblem& p) {
  int64_t out = 1;
  for (int64_t d : p.batch) out *= d;
  return out;
}
// Where batch `b` begins in an operand with these strides along `dims`.
inline int64_t BatchOffset(int64_t b, std::span<const int64_t> dims, std::span<const int64_t> strides) {
  if (dims.size() == 1) return b * strides[0];
  int64_t out = 0;
  for (std::size_t d = dims.size(); d-- > 0;) {
    out += b % dims[d] * strides[d];
    b /= dims[d];
  }
  return out;
}

// The inner loop of products whose left rows are not one matrix, as those of a convolution. A segment is a part of the
// depth, `length` products long, over which each row lies with one stride:
//   result[r, 0..columns) (+)= sum over segments s and i < length of
//       s.rows[r][i * s.stride] * rhs[(s.number * length + i) * vectors * lanes + 0..columns)
// for r < count, at most kPointerRows; `columns` is at most vectors * lanes, vectors 1 to 3.
constexpr int64_t kPointerRows = 8;
struct RowSegment {
  const void* rows[kPointerRows];
  int64_t stride = 1, number = 0;
  int64_t rhs_stride = 0;  // of PointerTile::run_there
};
struct PointerTile {
  int64_t lanes = 0;
  using Run = void (*)(std::span<const RowSegment> segments, int64_t length, const void* rhs, int64_t vectors,
                       int64_t count, int64_t columns, void* result, int64_t result_stride, bool add);
  Run run = nullptr;
  Run run_there = nullptr;  // the right side's rows where they lie, RowSegment::rhs_stride apart
};
PointerTile FindPointerTile(ElementType accumulate_type);

// Whether rows, `row` elements apart, of several of a batch's matrices lie between each other, as those of heads in a
// cache of tokens.
inline bool RowsLieBetween(std::span<const int64_t> batch, std::span<const int64_t> strides, int64_t row) {
  for (std::size_t d = 0; d < batch.size(); ++d)
    if (batch[d] > 1 && strides[d] > 0 && strides[d] < row) return true;
  return false;
}

// Whether there is a way from a storage type to an accumulation type, and that way: `n` elements, dense.
bool CanWiden(ElementType storage, ElementType type);
void WidenElements(ElementType storage, ElementType type, const std::byte* from, std::byte* to, int64_t n);
// The same of elements that lie `stride` apart. `raw`: memory for them side by side, where they do not lie so and are
// not of `type`.
void WidenLine(ElementType storage, ElementType type, const std::byte* from, int64_t stride, std::byte* to,
               std::byte* raw, int64_t n);

class Gemm {
 public:
  Gemm(const GemmProblem& problem, int threads);
  int64_t scratch_bytes() const { return scratch_bytes_; }
  void Run(const std::byte* lhs, const std::byte* rhs, std::byte* result, ThreadPool& pool, std::byte* scratch) const;

 private:
  // The left side's rows where they lie, and the right side's if reads_columns_, else packed: of few columns or rows,
  // packing them takes longer than the product. As many columns as a tile has at the most.
  void RunRows(const PointerTile& tile, const std::byte* lhs, const std::byte* rhs, int64_t depth, int64_t rows,
               int64_t columns, std::byte* to, bool add) const;

  GemmProblem problem_;
  int64_t batches_ = 1;
  bool reads_rows_ = false, reads_columns_ = false;  // where they lie, not packed: the left side, and the right one
  int64_t rows_ = 1, columns_ = 1;                   // of a task
  int64_t scratch_bytes_ = 0, worker_bytes_ = 0;
};

}  // namespace krafla::cpu
