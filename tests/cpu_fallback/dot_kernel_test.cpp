// SPDX-License-Identifier: Apache-2.0
// Dots of small whole numbers, exact in every order, against plain loops.
#include "contraction_cases.h"

namespace krafla {
namespace {

struct DotCase {
  Dims batch;
  int64_t m, n, k;
  ElementType lhs, rhs, sum, result;
  bool lhs_transposed = false, rhs_transposed = false, share_rhs = false;
  After after = After::kStore;
};

void CheckDot(const DotCase& c) {
  std::mt19937 random(3);
  const int64_t batches = Product(c.batch), m = c.m, n = c.n, k = c.k;
  plan::DotKernel dot;
  dot.batch = c.batch;
  dot.m = m, dot.n = n, dot.k = k;
  dot.lhs_m_stride = c.lhs_transposed ? 1 : k, dot.lhs_k_stride = c.lhs_transposed ? m : 1;
  dot.rhs_k_stride = c.rhs_transposed ? 1 : n, dot.rhs_n_stride = c.rhs_transposed ? k : 1;
  dot.lhs_offset = 5, dot.rhs_offset = 3;
  for (std::size_t d = 0; d < c.batch.size(); ++d) {
    const int64_t inner = Product(std::span<const int64_t>(c.batch).subspan(d + 1));
    dot.lhs_batch_strides.push_back(inner * m * k);
    dot.rhs_batch_strides.push_back(c.share_rhs ? 0 : inner * k * n);
  }
  dot.lhs_type = c.lhs, dot.rhs_type = c.rhs, dot.accumulate_type = c.sum, dot.result_type = c.result;
  const int64_t lhs_count = batches * m * k + 5, rhs_count = (c.share_rhs ? 1 : batches) * k * n + 3;
  const plan::ProgramBuffer buffers[] = {
      {c.lhs, lhs_count, false}, {c.rhs, rhs_count, false}, {c.result, batches * m * n, true}, {c.result, n, false}};
  Dims dims = c.batch;
  dims.push_back(m), dims.push_back(n);
  dot.epilogue = MakeEpilogue(dims, c.sum, c.result, c.after, buffers);
  plan::KernelPlan plan;
  plan.name = "dot";
  for (const plan::ProgramBuffer& b : buffers)
    plan.bindings.push_back({b.storage, b.element_count, !b.written, b.written});
  AlignedBytes lhs = WholeNumbers(c.lhs, lhs_count, random), rhs = WholeNumbers(c.rhs, rhs_count, random);
  AlignedBytes bias = WholeNumbers(c.result, n, random), got = WholeNumbers(c.result, batches * m * n, random),
               want = got;
  for (int64_t b = 0; b < batches; ++b)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t p = 0; p < k; ++p)
          sum += ReadNumber(c.lhs, lhs.data(), 5 + b * m * k + i * dot.lhs_m_stride + p * dot.lhs_k_stride) *
                 ReadNumber(c.rhs, rhs.data(),
                            3 + (c.share_rhs ? 0 : b * k * n) + p * dot.rhs_k_stride + j * dot.rhs_n_stride);
        if (c.after == After::kBiasRelu) sum = std::max(0.0, sum + ReadNumber(c.result, bias.data(), j));
        const int64_t at = c.after == After::kTransposedStore ? b * m * n + j * m + i : (b * m + i) * n + j;
        WriteNumber(c.result, want.data(), at, sum);
      }
  plan.body = std::move(dot);
  std::byte* pointers[] = {lhs.data(), rhs.data(), got.data(), bias.data()};
  RunKernel(plan, pointers);
  ExpectSame(c.result, got, want,
             Format("dot {}x{}x{} batch {} {} {} -> {}{}{}{} after {}", m, n, k, batches, ElementTypeName(c.lhs),
                    ElementTypeName(c.rhs), ElementTypeName(c.result), c.lhs_transposed ? " lhs^T" : "",
                    c.rhs_transposed ? " rhs^T" : "", c.share_rhs ? " shared" : "", static_cast<int>(c.after)));
}

TEST(DotKernelTest, ShapesStridesAndEpilogues) {
  using enum ElementType;
  struct Size {
    int64_t m, n, k;
  };
  for (const Size& s : {Size{1, 1, 1},
                        {1, 37, 53},
                        {41, 1, 29},
                        {5, 7, 3},
                        {64, 64, 64},
                        {33, 100, 300},
                        {130, 90, 70},
                        {1, 3000, 65},
                        {1, 5, 5000},
                        {8, 48, 0}})
    for (bool lt : {false, true})
      for (bool rt : {false, true})
        for (After after : {After::kStore, After::kBiasRelu, After::kTransposedStore})
          CheckDot({{}, s.m, s.n, s.k, kF32, kF32, kF32, kF32, lt, rt, false, after});
}

TEST(DotKernelTest, Batches) {
  using enum ElementType;
  for (bool share : {false, true})
    for (const Dims& batch : {Dims{3}, Dims{2, 5}, Dims{1}})
      for (int64_t m : {1, 20, 65})
        for (After after : {After::kStore, After::kBiasRelu, After::kTransposedStore})
          CheckDot({batch, m, 70, 50, kF32, kF32, kF32, kF32, false, share, share, after});
}

TEST(DotKernelTest, BatchesOfTinyMatrices) {
  using enum ElementType;
  struct Size {
    int64_t m, n, k;
  };
  for (const Size& s :
       {Size{2, 2, 2}, {3, 3, 3}, {4, 4, 4}, {1, 3, 2}, {3, 1, 5}, {2, 2, 8}, {2, 3, 9}, {1, 1, 1}, {5, 2, 3}})
    for (const Dims& batch : {Dims{37}, Dims{3, 21}, Dims{7}})
      for (bool lt : {false, true})
        for (bool rt : {false, true})
          for (ElementType t : {kF32, kF64}) {
            CheckDot({batch, s.m, s.n, s.k, t, t, t, t, lt, rt});
            CheckDot({batch, s.m, s.n, s.k, t, t, t, t, lt, rt, true, After::kTransposedStore});
          }
}

// Rows by rows, and small matrices of f64: lines of a vector, of two, and ends of them.
TEST(DotKernelTest, BatchesOfShortMatrices) {
  using enum ElementType;
  struct Size {
    int64_t m, n, k;
  };
  for (const Size& s : {Size{8, 8, 8},
                        {1, 1, 64},
                        {1, 1, 7},
                        {6, 1, 6},
                        {9, 5, 17},
                        {13, 16, 33},
                        {2, 11, 3},
                        {4, 9, 8},
                        {3, 3, 3},
                        {4, 4, 4},
                        {16, 16, 16},
                        {24, 30, 32}})
    for (const Dims& batch : {Dims{37}, Dims{3, 21}, Dims{5}, Dims{130}})
      for (bool transposed : {false, true})
        for (ElementType t : {kF32, kF64}) {
          CheckDot({batch, s.m, s.n, s.k, t, t, t, t, transposed, false});
          CheckDot({batch, s.m, s.n, s.k, t, t, t, t, false, transposed, true, After::kTransposedStore});
        }
  // Both sides in any order, up to two vectors of columns, of narrow types, and rounded.
  struct Types {
    ElementType lhs, rhs, sum, result;
  };
  for (const Types& t : {Types{kF32, kF32, kF32, kF32},
                         {kF64, kF64, kF64, kF64},
                         {kS32, kS32, kS32, kS32},
                         {kU32, kU32, kU32, kU32},
                         {kBF16, kBF16, kF32, kBF16},
                         {kF16, kF32, kF32, kF32},
                         {kS8, kU8, kS32, kS32},
                         {kU16, kU16, kU32, kU16}})
    for (const Size& s : {Size{5, 7, 4}, {24, 4, 9}, {4, 32, 16}, {33, 20, 50}, {3, 17, 2}, {64, 31, 64}, {2, 33, 9}})
      for (bool transposed : {false, true})
        for (bool share : {false, true})
          CheckDot({{2, 5},
                    s.m,
                    s.n,
                    s.k,
                    t.lhs,
                    t.rhs,
                    t.sum,
                    t.result,
                    transposed,
                    !transposed,
                    share,
                    share ? After::kStore : After::kBiasRelu});
}

// A row each, times matrices that lie by rows or by columns.
TEST(DotKernelTest, BatchesOfRowsTimesMatrices) {
  using enum ElementType;
  for (int64_t n : {2, 3, 5, 8, 16, 17})
    for (int64_t k : {1, 2, 3, 4, 5, 8, 9, 16, 17})
      for (const Dims& batch : {Dims{37}, Dims{3, 5}})
        for (bool transposed : {false, true})
          for (ElementType t : {kF32, kF64}) {
            CheckDot({batch, 1, n, k, t, t, t, t, false, transposed});
            CheckDot({batch, 1, n, k, t, t, t, t, false, transposed, true, After::kBiasRelu});
          }
}

TEST(DotKernelTest, ProductsOfDepthOne) {
  using enum ElementType;
  for (const Dims& batch : {Dims{}, Dims{5}, Dims{2, 3}})
    for (const auto& [m, n] : {std::pair<int64_t, int64_t>{37, 50}, {3, 1000}, {300, 20}})
      for (ElementType t : {kF32, kF64})
        for (After after : {After::kStore, After::kBiasRelu, After::kTransposedStore})
          for (bool transposed : {false, true})
            CheckDot({batch, m, n, 1, t, t, t, t, transposed, transposed, transposed, after});
}

TEST(DotKernelTest, VectorsOfEveryType) {
  using enum ElementType;
  struct Types {
    ElementType lhs, rhs, sum, result;
  };
  for (const Types& t : {Types{kF64, kF64, kF64, kF64},
                         {kS32, kS32, kS32, kS32},
                         {kS8, kS8, kS32, kS8},
                         {kU8, kS8, kS32, kS32},
                         {kS8, kU8, kS32, kS32},
                         {kU8, kU8, kU32, kU8},
                         {kS16, kS16, kS32, kS16},
                         {kU16, kS8, kS32, kS32},
                         {kBF16, kF32, kF32, kF32},
                         {kF32, kF16, kF32, kF32}})
    for (bool transposed : {false, true})
      for (int64_t k : {3, 53, 3000}) {
        CheckDot({{}, 1, 37, k, t.lhs, t.rhs, t.sum, t.result, transposed, transposed});
        CheckDot({{3}, 41, 1, k, t.lhs, t.rhs, t.sum, t.result, transposed, transposed});
      }
}

TEST(DotKernelTest, Types) {
  using enum ElementType;
  struct Types {
    ElementType lhs, rhs, sum, result;
  };
  for (const Types& t : {Types{kBF16, kBF16, kF32, kBF16},
                         {kBF16, kBF16, kF32, kF32},
                         {kF16, kF16, kF32, kF16},
                         {kF16, kF16, kF32, kF32},
                         {kF32, kBF16, kF32, kF32},
                         {kF64, kF64, kF64, kF64},
                         {kF32, kF32, kF64, kF64},
                         {kS8, kS8, kS32, kS32},
                         {kU8, kS8, kS32, kS32},
                         {kU8, kU8, kU32, kU32},
                         {kS8, kS8, kS32, kS8},
                         {kS32, kS32, kS32, kS32},
                         {kS64, kS64, kS64, kS64},
                         {kU64, kU64, kU64, kU64},
                         {kS4, kS4, kS32, kS32},
                         {kF8E4M3FN, kF8E5M2, kF32, kF32}})
    for (int64_t m : {1, 3, 70})
      for (bool rt : {false, true}) {
        CheckDot({{}, m, 130, 90, t.lhs, t.rhs, t.sum, t.result, false, rt, false, After::kStore});
        if (t.result != kS8)
          CheckDot({{}, m, 130, 90, t.lhs, t.rhs, t.sum, t.result, rt, false, false, After::kBiasRelu});
      }
}

// Products that oneDNN gets in parts: over the batch, the rows or the columns.
TEST(DotKernelTest, Parts) {
  using enum ElementType;
  for (ElementType type : {kF32, kBF16})
    for (After after : {After::kStore, After::kTransposedStore}) {
      CheckDot({{}, 37, 500, 150, type, type, kF32, kF32, false, false, false, after});
      CheckDot({{}, 37, 500, 150, type, type, kF32, kF32, true, true, false, after});
      CheckDot({{}, 700, 50, 70, type, type, kF32, kF32, false, true, false, after});
      CheckDot({{9}, 60, 70, 70, type, type, kF32, kF32, false, false, false, after});
      CheckDot({{2, 9}, 40, 70, 70, type, type, kF32, kF32, false, false, true, after});
    }
}

// Both sides are read where they lie: tiles of one to three vectors of columns, of whole rows and parts of them, and
// depths that are added to what is there.
TEST(DotKernelTest, FewRowsWhereTheyLie) {
  using enum ElementType;
  for (ElementType t : {kF32, kF64, kS32, kU32, kS64})
    for (int64_t m : {2, 3, 7, 8, 11, 16, 17})
      for (int64_t n : {8, 16, 40, 64, 80, 90})
        for (int64_t k : {5, 33, 300})
          for (bool transposed : {false, true}) CheckDot({{}, m, n, k, t, t, t, t, transposed, false});
}

TEST(DotKernelTest, LongSums) {
  using enum ElementType;
  for (bool transposed : {false, true})
    for (After after : {After::kStore, After::kBiasRelu, After::kTransposedStore}) {
      CheckDot({{}, 20, 33, 2500, kF32, kF32, kF32, kF32, transposed, transposed, false, after});
      CheckDot({{3}, 20, 33, 1100, kBF16, kBF16, kF32, kF32, false, transposed, false, after});
      CheckDot({{}, 20, 33, 5000, kF16, kF16, kF32, kF16, false, transposed, false, after});
    }
}

}  // namespace
}  // namespace krafla
