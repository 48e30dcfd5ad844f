// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/summed_product.h"

#include <algorithm>
#include <utility>

#include "cpu_fallback/executor/routine_block.h"
#include "cpu_fallback/native/native_code.h"
#include "plan/program_emitter.h"

namespace krafla::cpu {

using plan::NodeId;
using plan::ProgramBuilder;

plan::ReduceStage SumOf(plan::ElementProgram program, ElementType type) {
  plan::ReduceStage out;
  out.program = std::move(program);
  plan::Reduction reduction;
  reduction.kind = plan::Reduction::Kind::kSum;
  reduction.hlo_type = type;
  reduction.inputs = {0};
  ProgramBuilder init({});
  init.AddResult(init.Constant(type, 0));
  reduction.init = std::move(init).Finish();
  out.reductions.push_back(std::move(reduction));
  return out;
}

std::optional<plan::ReduceKernel> SummedProduct(const plan::DotKernel& dot, int64_t runs) {
  constexpr int64_t kLeastRuns = 32;
  const ElementType type = dot.accumulate_type;
  const bool is_one = std::ranges::all_of(dot.batch, [](int64_t d) { return d == 1; }) && dot.m == 1 && dot.n == 1;
  if (!native::HasNativeCode() || runs < kLeastRuns || !is_one || dot.k < 1 || dot.k > MostRoutineElements() ||
      dot.computes_lhs() || dot.computes_rhs() || !IsFloat(type) || dot.lhs_type != type || dot.rhs_type != type ||
      dot.lhs_k_stride != 1 || dot.rhs_k_stride != 1)
    return std::nullopt;
  Dims rows = dot.batch;
  rows.push_back(1);
  rows.push_back(1);
  if (dot.epilogue.space.dims() != rows) return std::nullopt;
  plan::ReduceKernel out{.row_dims = rows, .element_dims = {dot.k}, .stages = {}};
  Dims all = rows;
  all.push_back(dot.k);
  ProgramBuilder b(all);
  for (const plan::ProgramBuffer& buffer : dot.epilogue.buffers)
    b.AddBuffer(buffer.storage, buffer.element_count, buffer.written);
  plan::IndexSpace& s = b.space();
  const auto load = [&](int binding, int64_t offset) {
    return b.Load(binding, type, s.AddConstant(s.Iter(static_cast<int>(rows.size())), offset));
  };
  const NodeId x = load(dot.lhs_binding, dot.lhs_offset), y = load(dot.rhs_binding, dot.rhs_offset);
  b.AddResult(b.Hlo(Opcode::kMultiply, type, {x, y}));
  out.stages.push_back(SumOf(std::move(b).Finish(), type));
  out.stages.push_back({.scope = plan::ReduceStage::Scope::kRow, .program = dot.epilogue, .reductions = {}});
  return out;
}

}  // namespace krafla::cpu
