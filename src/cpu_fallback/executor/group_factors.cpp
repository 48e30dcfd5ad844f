// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/group_factors.h"

#include "base/checked_math.h"
#include "base/index.h"
#include "cpu_fallback/kernels/move.h"

namespace krafla::cpu {

namespace {
constexpr int64_t kFactorBytes = 4;
}  // namespace

std::optional<GroupFactors> GroupFactors::Make(const plan::ElementProgram& program, bool is_rhs, Extents extents,
                                               std::optional<ElementType> type) {
  GroupFactors out;
  out.extents_ = std::move(extents);
  out.type_ = type.value_or(ElementType::kF32);
  if (!type) out.in_memory_ = FindScalesInMemory(program, is_rhs);
  if (out.in_memory_) return out;
  auto made = ComputedOperand::Make(program, {.is_rhs = is_rhs, .type = out.type_, .elements = out.elements()});
  if (!made || made->lines().size() != 1) return std::nullopt;
  out.computed_ = std::move(*made);
  return out;
}

int64_t GroupFactors::scratch_bytes() const {
  if (!computed_) return 0;
  // Where its lines do not lie side by side it is made behind the arrays.
  const int64_t arrays = Product(extents_.batch) + (computed_->line_stride() == 1 ? 0 : 1);
  return arrays * elements() * kFactorBytes;
}

void GroupFactors::Compute(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch,
                           const std::function<std::byte*(int worker)>& frame_of) const {
  if (!computed_) return;
  const ComputedOperand& operand = *computed_;
  const ComputedOperand::Part &lines = operand.lines()[0], &depth = operand.depths()[0];
  const int64_t batches = Product(extents_.batch), groups = extents_.groups;
  for (int64_t b = 0; b < batches; ++b) {
    std::byte* to = scratch + b * elements() * kFactorBytes;
    std::byte* panel = operand.line_stride() == 1 ? to : scratch + batches * elements() * kFactorBytes;
    const Dims batch = BatchIndex(b, extents_.batch);
    pool.ParallelFor(operand.TileCount(lines, depth), 4, [&](int64_t begin, int64_t end, int worker) {
      std::byte* frame = frame_of(worker);
      operand.Start(frame, bindings);
      operand.Compute(frame, batch, lines, depth, panel, begin, end);
    });
    if (panel != to) MoveTile(kFactorBytes, panel, {1, groups}, to, {extents_.lines, 1}, groups, extents_.lines);
  }
}

const std::byte* GroupFactors::Of(std::span<std::byte* const> bindings, const std::byte* scratch, int64_t batch,
                                  int64_t group, int64_t line) const {
  if (computed_) return scratch + ((batch * extents_.groups + group) * extents_.lines + line) * kFactorBytes;
  const ScalesInMemory& m = *in_memory_;
  const int64_t at = m.offset + BatchOffset(batch, extents_.batch, m.batch_strides) + group * m.stride + line;
  return bindings[At(m.buffer)] + at * StorageBytes(m.type);
}

Dims BatchIndex(int64_t b, std::span<const int64_t> dims) {
  Dims out(dims.size(), 0);
  for (std::size_t d = out.size(); d-- > 0;) {
    out[d] = b % dims[d];
    b /= dims[d];
  }
  return out;
}

}  // namespace krafla::cpu
