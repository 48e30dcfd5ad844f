// SPDX-License-Identifier: Apache-2.0
// Products with an operand that is computed where it is read. Products of few rows (or columns) go through small panels
// of it, each thread through its own, with the loops of products with vectors, or through registers alone: as sums of
// lines side by side, or as reductions of lines that lie along the depth. Others take it in panels of the whole depth,
// one after the other, which all threads compute and then multiply, or read it where it lies in memory.
#pragma once

#include <memory>
#include <optional>

#include "cpu_fallback/executor/computed_operand.h"
#include "cpu_fallback/executor/cpu_kernel.h"
#include "cpu_fallback/executor/matrix_in_memory.h"
#include "cpu_fallback/executor/onednn.h"
#include "cpu_fallback/executor/repeated_batches.h"
#include "cpu_fallback/executor/weight_panels.h"
#include "cpu_fallback/kernels/gemv.h"
#include "plan/kernel_plan.h"

namespace krafla::cpu {

class ComputedProduct {
 public:
  // `problem`: of `kernel`, of whose operands one is computed, with the strides of the result. `result`: another type
  // than that of the sums, which oneDNN alone writes: UNIMPLEMENTED where it does not multiply.
  static Result<ComputedProduct> Make(const plan::DotKernel& kernel, const GemmProblem& problem, int threads,
                                      std::optional<ElementType> result = std::nullopt);

  int64_t scratch_bytes() const { return scratch_bytes_; }
  // `other`: where the operand that is not computed begins.
  Result<> Run(std::span<std::byte* const> bindings, const std::byte* other, std::byte* result, ThreadPool& pool,
               std::byte* scratch) const;

 private:
  // The operand that is not computed, whose rows or columns are vectors, and how the result is written.
  struct Vectors {
    int64_t count = 1, stride = 0, depth_stride = 0;
    ElementType type = ElementType::kF32;
    int64_t line_result_stride = 1, vector_result_stride = 1;
  };
  // A product with a panel, or a matrix, of so many lines, of a batch or of several ones.
  struct PanelProduct {
    std::optional<Gemv> gemv;
    std::unique_ptr<OneDnnProblem> matmul;
    std::optional<Gemm> gemm;

    int64_t scratch_bytes() const;
    Result<> Run(const std::byte* lhs, const std::byte* rhs, std::byte* result, ThreadPool& pool,
                 std::byte* scratch) const;
  };

  Result<> MakeFew();
  bool MakeReductions();
  Result<> MakeMany();
  void MakeWeights(ElementType type);
  bool MakeInMemory();
  void AddProducts(std::vector<PanelProduct>& to, int64_t lines);
  PanelProduct ProductWith(int64_t lines, int64_t batches) const;
  int64_t MostJoined() const;
  Result<> Multiply(const std::vector<PanelProduct>& products, const std::byte* panel, const std::byte* other,
                    int64_t batches, std::byte* result, ThreadPool& pool, std::byte* scratch) const;
  // Widens the vectors to the sums' type, behind each other.
  void WidenVectors(const std::byte* other, std::byte* scratch) const;
  Result<> RunReductions(std::span<std::byte* const> bindings, const std::byte* other, std::byte* result,
                         ThreadPool& pool, std::byte* scratch) const;
  void RunFew(std::span<std::byte* const> bindings, const std::byte* other, std::byte* result, ThreadPool& pool,
              std::byte* scratch) const;
  void AddPanels(std::byte* frame, std::span<const int64_t> batch, const ComputedOperand::Part& lines,
                 const std::byte* vectors, std::byte* sums) const;
  void MakePanel(std::span<std::byte* const> bindings, int64_t batch, const ComputedOperand::Part& lines,
                 std::byte* panel, ThreadPool& pool, std::byte* frames) const;
  Result<> RunMany(std::span<std::byte* const> bindings, const std::byte* other, std::byte* result, ThreadPool& pool,
                   std::byte* scratch) const;
  Result<> RunInMemory(std::span<std::byte* const> bindings, const std::byte* other, std::byte* result,
                       ThreadPool& pool, std::byte* scratch) const;

  GemmProblem problem_;
  ElementType result_type_ = ElementType::kF32;
  plan::ElementProgram program_;
  bool is_rhs_ = true;  // which operand is computed
  int threads_ = 1;
  int64_t batches_ = 1;
  Vectors vectors_;
  ComputedOperand operand_;
  enum class Way : uint8_t { kLargePanels, kInMemory, kSmallPanels, kSums, kReductions } way_ = Way::kLargePanels;
  // Of few vectors.
  GemvLoops::VectorFn loop_ = nullptr;
  int64_t vector_bytes_ = 0, worker_bytes_ = 0;
  std::unique_ptr<CpuKernel> reductions_;
  // Of many, by the kind of lines: of one batch, of two that have a panel in common, of four and so on.
  std::array<std::vector<PanelProduct>, 2> products_;
  std::optional<RepeatedBatches> repeated_;
  std::optional<MatrixInMemory> in_memory_;
  std::optional<WeightPanels> weights_;  // which make the panels instead of `operand_`
  int64_t panel_bytes_ = 0, product_bytes_ = 0, many_frame_bytes_ = 0;
  int64_t scratch_bytes_ = 0;
};

}  // namespace krafla::cpu
