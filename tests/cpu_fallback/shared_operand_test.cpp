// SPDX-License-Identifier: Apache-2.0
// Operands that are computed, and the same for all batches of a product.
#include "cpu_fallback/executor/shared_operand.h"

#include "contraction_cases.h"

namespace krafla {
namespace {

struct SharedCase {
  int64_t batches, m, n, k;
  bool is_lhs;             // which operand is computed
  bool is_across = false;  // its rows are columns of the array that it would be
  bool of_batch = false;   // batches have operands of their own
};

// The computed operand is 2 w + 1.
plan::DotKernel MakeShared(const SharedCase& c, const Dims& dims, std::span<const plan::ProgramBuffer> buffers) {
  plan::DotKernel dot;
  dot.batch = {c.batches};
  dot.m = c.m, dot.n = c.n, dot.k = c.k;
  dot.lhs_batch_strides = {c.m * c.k}, dot.rhs_batch_strides = {c.k * c.n};
  dot.lhs_m_stride = c.k, dot.lhs_k_stride = 1;
  dot.rhs_k_stride = c.n, dot.rhs_n_stride = 1;
  const int64_t outer = c.is_lhs ? c.m : c.k, inner = c.is_lhs ? c.k : c.n;
  if (c.is_across) {
    (c.is_lhs ? dot.lhs_m_stride : dot.rhs_k_stride) = 1;
    (c.is_lhs ? dot.lhs_k_stride : dot.rhs_n_stride) = outer;
  }
  const int64_t operand_dims[] = {c.batches, outer, inner};
  plan::ProgramBuilder b(operand_dims);
  for (const plan::ProgramBuffer& p : buffers) b.AddBuffer(p.storage, p.element_count, p.written);
  auto& s = b.space();
  plan::IndexId at = s.Add(s.Mul(s.Iter(1), inner), s.Iter(2));
  if (c.of_batch) at = s.Add(at, s.Iter(0));
  const plan::NodeId w = b.Load(c.is_lhs ? 0 : 1, ElementType::kF32, at);
  const plan::NodeId two = b.ConstantFloat(ElementType::kF32, 2), one = b.ConstantFloat(ElementType::kF32, 1);
  const plan::NodeId product = b.Hlo(Opcode::kMultiply, ElementType::kF32, {w, two});
  b.AddResult(b.Hlo(Opcode::kAdd, ElementType::kF32, {product, one}));
  (c.is_lhs ? dot.lhs_program : dot.rhs_program) = std::move(b).Finish();
  (c.is_lhs ? dot.lhs_binding : dot.rhs_binding) = -1;
  dot.epilogue = MakeEpilogue(dims, ElementType::kF32, ElementType::kF32, After::kBiasRelu, buffers);
  return dot;
}

void CheckShared(const SharedCase& c) {
  using enum ElementType;
  std::mt19937 random(5);
  const int64_t lhs_count = c.is_lhs ? c.m * c.k + c.batches : c.batches * c.m * c.k;
  const int64_t rhs_count = c.is_lhs ? c.batches * c.k * c.n : c.k * c.n + c.batches;
  const plan::ProgramBuffer buffers[] = {
      {kF32, lhs_count, false}, {kF32, rhs_count, false}, {kF32, c.batches * c.m * c.n, true}, {kF32, c.n, false}};
  plan::KernelPlan plan;
  plan.name = "dot";
  for (const plan::ProgramBuffer& b : buffers)
    plan.bindings.push_back({b.storage, b.element_count, !b.written, b.written});
  plan::DotKernel dot = MakeShared(c, {c.batches, c.m, c.n}, buffers);
  plan::DotKernel taken = dot;
  auto shared = cpu::SharedOperand::TakeOutOf(taken);
  ASSERT_TRUE(shared);
  EXPECT_EQ(shared->has_value(), !c.of_batch && c.batches > 1);
  EXPECT_EQ(taken == dot, !shared->has_value());

  AlignedBytes lhs = WholeNumbers(kF32, lhs_count, random), rhs = WholeNumbers(kF32, rhs_count, random);
  AlignedBytes bias = WholeNumbers(kF32, c.n, random), got = WholeNumbers(kF32, c.batches * c.m * c.n, random),
               want = got;
  for (int64_t b = 0; b < c.batches; ++b)
    for (int64_t i = 0; i < c.m; ++i)
      for (int64_t j = 0; j < c.n; ++j) {
        double sum = ReadNumber(kF32, bias.data(), j);
        for (int64_t p = 0; p < c.k; ++p) {
          const int64_t own = c.of_batch ? b : 0;
          const double x = ReadNumber(kF32, lhs.data(), (c.is_lhs ? own : b * c.m * c.k) + i * c.k + p);
          const double y = ReadNumber(kF32, rhs.data(), (c.is_lhs ? b * c.k * c.n : own) + p * c.n + j);
          sum += c.is_lhs ? (2 * x + 1) * y : x * (2 * y + 1);
        }
        WriteNumber(kF32, want.data(), (b * c.m + i) * c.n + j, std::max(0.0, sum));
      }
  plan.body = std::move(dot);
  std::byte* pointers[] = {lhs.data(), rhs.data(), got.data(), bias.data()};
  RunKernel(plan, pointers);
  ExpectSame(kF32, got, want, Format("{} batches of {}x{}x{}", c.batches, c.m, c.n, c.k));
}

TEST(SharedOperand, IsAnArray) {
  for (bool is_lhs : {false, true})
    for (bool is_across : {false, true})
      for (const auto& [batches, m, n, k] :
           {std::array<int64_t, 4>{7, 96, 3, 64}, {40, 20, 30, 64}, {3, 1, 50, 20}, {5, 9, 1, 33}})
        CheckShared({batches, m, n, k, is_lhs, is_across});
}

TEST(SharedOperand, NotWhereBatchesHaveTheirOwnOrThereIsOne) {
  for (bool is_lhs : {false, true}) {
    CheckShared({7, 9, 11, 13, is_lhs, false, true});
    CheckShared({1, 9, 11, 13, is_lhs});
  }
}

}  // namespace
}  // namespace krafla
