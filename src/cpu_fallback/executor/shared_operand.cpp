// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/shared_operand.h"

#include <utility>

#include "base/checked_math.h"
#include "base/index.h"
#include "cpu_fallback/executor/pieces.h"

namespace krafla::cpu {

using plan::ElementProgram;
using plan::IndexId;

namespace {

constexpr int64_t kMostSharedBytes = int64_t{1} << 20;  // what a cache keeps

}  // namespace

Result<std::optional<SharedOperand>> SharedOperand::TakeOutOf(plan::DotKernel& dot) {
  if (dot.computes_lhs() == dot.computes_rhs()) return std::nullopt;
  const bool is_lhs = dot.computes_lhs();
  ElementProgram program = is_lhs ? dot.lhs_program : dot.rhs_program;
  const std::size_t rank = dot.batch.size();
  int64_t batches = 1;
  for (int64_t d : dot.batch) batches *= d;
  // What is only found in memory is read there.
  if (program.nodes[At(program.results[0])].op == plan::NodeOp::kLoad) return std::nullopt;
  const uint64_t differs = program.nodes[At(program.results[0])].depends;
  for (std::size_t d = 0; d < rank; ++d)
    if (dot.batch[d] > 1 && (differs >> d & 1) != 0) return std::nullopt;
  const ElementType type = is_lhs ? dot.lhs_type : dot.rhs_type;
  const int64_t outer = program.space.dims()[rank], inner = program.space.dims()[rank + 1];
  const int64_t bytes = outer * inner * StorageBytes(type);
  if (batches < 2 || bytes > kMostSharedBytes) return std::nullopt;

  for (std::size_t d = 0; d < rank; ++d) program = Restrict(program, static_cast<int>(d), 0, 1);
  const int buffer = static_cast<int>(program.buffers.size());
  program.buffers.push_back({type, outer * inner, true});
  // Beside each other as the kernel's strides have it.
  const int64_t row = is_lhs ? dot.lhs_m_stride : dot.rhs_k_stride,
                column = is_lhs ? dot.lhs_k_stride : dot.rhs_n_stride;
  const bool by_rows = inner == 1 || outer == 1 || column <= row;
  const int64_t next_row = by_rows ? inner : 1, next_column = by_rows ? 1 : outer;
  plan::IndexSpace& space = program.space;
  const IndexId at = space.Add(space.Mul(space.Iter(static_cast<int>(rank)), next_row),
                               space.Mul(space.Iter(static_cast<int>(rank) + 1), next_column));
  program.stores.push_back({buffer, at, program.results[0], type, plan::kNoNode});
  program.results.clear();
  SharedOperand out;
  KRAFLA_ASSIGN(out.runner_, LoopRunner::Make(std::move(program)));
  out.bytes_ = RoundUp(bytes, 64);

  const Dims same(rank, 0);
  if (is_lhs) {
    dot.lhs_program = ElementProgram();
    dot.lhs_binding = buffer, dot.lhs_offset = 0, dot.lhs_batch_strides = same;
    dot.lhs_m_stride = next_row, dot.lhs_k_stride = next_column;
  } else {
    dot.rhs_program = ElementProgram();
    dot.rhs_binding = buffer, dot.rhs_offset = 0, dot.rhs_batch_strides = same;
    dot.rhs_k_stride = next_row, dot.rhs_n_stride = next_column;
  }
  return out;
}

int64_t SharedOperand::scratch_bytes(int threads) const { return bytes_ + RoundUp(runner_.scratch_bytes(threads), 64); }

SharedOperand::Bindings SharedOperand::Compute(std::span<std::byte* const> bindings, ThreadPool& pool,
                                               std::byte* scratch) const {
  Bindings out(bindings.begin(), bindings.end());
  out.push_back(scratch);
  runner_.Run(out, pool, scratch + bytes_);
  return out;
}

}  // namespace krafla::cpu
