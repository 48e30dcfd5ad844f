// SPDX-License-Identifier: Apache-2.0
// Keys and values that are narrow or computed, as f32 in scratch: many rows read each of their elements.
#include <algorithm>

#include "base/checked_math.h"
#include "spirv_codegen/kernels/attention.h"

namespace krafla::spirv {
namespace {

using plan::DotKernel;

bool IsNarrowRight(const DotKernel& dot) { return dot.computes_rhs() || StorageBytes(dot.rhs_type) < 4; }

// Whether a dimension of the batch has right operands of its own.
bool HasOwnRight(const DotKernel& dot, std::size_t d) { return dot.computes_rhs() || dot.rhs_batch_strides[d] != 0; }

// The dot with the batches alone that have right operands of their own.
DotKernel OfRights(const DotKernel& dot) {
  if (dot.computes_rhs()) return dot;
  DotKernel out = dot;
  out.batch.clear(), out.lhs_batch_strides.clear(), out.rhs_batch_strides.clear();
  for (std::size_t d = 0; d < dot.batch.size(); ++d) {
    if (!HasOwnRight(dot, d)) continue;
    out.batch.push_back(dot.batch[d]);
    out.lhs_batch_strides.push_back(dot.lhs_batch_strides[d]);
    out.rhs_batch_strides.push_back(dot.rhs_batch_strides[d]);
  }
  return out;
}

// The lines of a right operand lie one after the other in scratch: those of the keys, whose depth the first product
// sums over, and those of the values, over whose columns nothing is summed.
struct WideLines {
  int64_t batches = 1, lines = 1, length = 1;  // length: padded to four
  int64_t words() const { return batches * lines * length; }
};
WideLines LinesOf(const DotKernel& dot, bool is_keys) {
  return {Product(OfRights(dot).batch), is_keys ? dot.n : dot.k, RoundUp(is_keys ? dot.k : dot.n, int64_t{4})};
}

// The dot whose right operand lies so in a buffer.
DotKernel WithWideRight(const DotKernel& dot, bool is_keys, int buffer) {
  const WideLines lines = LinesOf(dot, is_keys);
  DotKernel out = dot;
  out.rhs_program = plan::ElementProgram();
  out.rhs_binding = buffer;
  out.rhs_type = ElementType::kF32;
  out.rhs_offset = 0;
  out.rhs_n_stride = is_keys ? lines.length : 1;
  out.rhs_k_stride = is_keys ? 1 : lines.length;
  int64_t stride = lines.lines * lines.length;
  for (std::size_t d = dot.batch.size(); d-- > 0;) {
    out.rhs_batch_strides[d] = HasOwnRight(dot, d) ? stride : 0;
    if (HasOwnRight(dot, d)) stride *= dot.batch[d];
  }
  return out;
}

// An invocation a group of four elements of a line.
Result<EmittedDispatch> EmitWiden(KernelWriter& w, const DotKernel& dot, bool is_keys, int buffer, uint32_t local) {
  Builder& b = w.b;
  const auto u = [&](int64_t v) { return b.U32(static_cast<uint32_t>(v)); };
  const WideLines lines = LinesOf(dot, is_keys);
  const DotKernel rights = OfRights(dot);
  const DotProblem problem(rights, false);
  const int64_t fours = lines.length / 4, items = lines.words() / 4;
  KRAFLA_ASSIGN(const Grid grid, FoldGrid(CeilDiv(items, int64_t{local}), w.profile));
  const Value item = b.Add(b.Mul(GroupNumber(b, grid), u(local)), b.LocalIndex());
  b.If(b.Compare(Cmp::kULt, item, u(items)), [&] {
    const Value line = b.UDiv(item, u(fours)), at = b.Mul(b.UMod(item, u(fours)), u(4));
    const auto which = is_keys ? DotProblem::Which::kTransposedB : DotProblem::Which::kB;
    const auto source = problem.Operand(w, which, b.UDiv(line, u(lines.lines)), {ElementType::kF32, false}, true,
                                        (is_keys ? dot.k : dot.n) % 4 == 0);
    Value four;
    source->Load(b.UMod(line, u(lines.lines)), 1, at, 4, std::span(&four, 1));
    w.buffers.Store(buffer, 4, b.Mul(item, u(4)), b.Bitcast(four, Kind::kU32));
  });
  return EmittedDispatch{0, grid.size, {}};
}

}  // namespace

Result<plan::AttentionKernel> WidenAttention(const plan::KernelPlan& plan, const plan::AttentionKernel& k,
                                             const Target& target, std::vector<BufferDesc>& scratch,
                                             EmittedProgram& out) {
  plan::AttentionKernel wide = k;
  const AttentionTuning& tuning = target.tuning.attention;
  for (DotKernel* dot : {&*wide.scores, &*wide.product}) {
    const bool is_keys = dot == &*wide.scores;
    const WideLines lines = LinesOf(*dot, is_keys);
    // Rows that share a right operand.
    const int64_t rows = Product(dot->batch) * dot->m / std::max<int64_t>(lines.batches, 1);
    if (!IsNarrowRight(*dot) || rows < tuning.widen_rows || 4 * lines.words() > target.tuning.panel.most_packed_bytes)
      continue;
    const int buffer = static_cast<int>(plan.bindings.size() + scratch.size());
    scratch.push_back({lines.words(), 4, true});
    out.scratch_bytes.push_back(4 * lines.words());
    const uint32_t local = WorkgroupSize(target.profile, target.tuning.panel.pack_local);
    KernelWriter w(plan, target, scratch);
    KRAFLA_ASSIGN(EmittedDispatch dispatch, EmitWiden(w, *dot, is_keys, buffer, local));
    dispatch.share = 1.0 / static_cast<double>(rows);
    AddKernel(out, w, std::move(dispatch), local, 0, is_keys ? "attention.keys" : "attention.values");
    scratch.back().written = false;
    *dot = WithWideRight(*dot, is_keys, buffer);
  }
  return wide;
}

}  // namespace krafla::spirv
