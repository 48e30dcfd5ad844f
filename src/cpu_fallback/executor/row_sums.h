// SPDX-License-Identifier: Apache-2.0
// A loop that adds up rows whose places are computed, as bags of embeddings are: table[i[0], :] + table[i[1], :] + ..
// The places are found once a row by a block program of their own, and rows are added by whole vectors.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "cpu_fallback/executor/block_program.h"
#include "cpu_fallback/executor/cpu_kernel.h"
#include "cpu_fallback/executor/iteration.h"
#include "cpu_fallback/kernels/block_ops.h"
#include "cpu_fallback/kernels/row_copies.h"
#include "plan/kernel_plan.h"

namespace krafla::cpu {

class RowSums final : public CpuKernel {
 public:
  // runs: as CpuKernelOptions. Null where the program does something else, or what native code does as well.
  static Result<std::unique_ptr<CpuKernel>> Make(const plan::ElementProgram& program, int threads, int64_t runs);
  // The same of a reduction.
  static Result<std::unique_ptr<CpuKernel>> Make(const plan::ReduceKernel& body, int threads, int64_t runs);

  Result<> Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const override;

 private:
  bool FindSum(const plan::ElementProgram& program);
  Result<> CompilePlaces(const plan::ElementProgram& program);
  void RunTile(const TileGrid::Tile& tile, std::span<std::byte* const> bindings, std::byte* memory) const;

  struct Term {
    int buffer = 0;
    plan::IndexId index = 0;
  };
  std::vector<Term> terms_;
  RowSumFn add_ = nullptr;
  std::optional<uint64_t> start_;
  ElementType type_ = ElementType::kF32;  // of the sums
  ConvertFn narrow_ = nullptr;            // what stores them in another type
  int to_ = 0, from_width_ = 1, to_width_ = 1;
  int64_t columns_ = 1, offset_ = 0;
  Dims strides_;  // of the result, in elements
  BlockProgram places_;
  TileShape tile_;
  TileGrid grid_;
  int64_t sums_ = 0, narrowed_ = 0, worker_bytes_ = 0;
  double tile_nanoseconds_ = 0;
};

}  // namespace krafla::cpu
