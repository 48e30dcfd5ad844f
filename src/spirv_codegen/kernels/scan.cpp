// SPDX-License-Identifier: Apache-2.0
// ScanKernel: an invocation walks a line from end to end. The order of combination is XLA's, so any computation will do.
#include "base/checked_math.h"
#include "spirv_codegen/kernels/reduction_values.h"

namespace krafla::spirv {

Result<EmittedProgram> EmitScan(const plan::KernelPlan& plan, const plan::ScanKernel& scan,
                                const DeviceProfile& profile, const EmitOptions&) {
  KRAFLA_TRY(CheckProgram(scan.reduction.combiner, profile));
  KRAFLA_TRY(CheckProgram(scan.reduction.init, profile));
  int64_t outer = 1, inner = 1;
  for (std::size_t d = 0; d < scan.dims.size(); ++d) {
    if (static_cast<int>(d) < scan.dimension) outer *= scan.dims[d];
    if (static_cast<int>(d) > scan.dimension) inner *= scan.dims[d];
  }
  const int64_t length = scan.dims[static_cast<std::size_t>(scan.dimension)];
  EmittedProgram out;
  if (outer * inner * length == 0) return out;

  const uint32_t local = WorkgroupSize(profile, profile.is_cpu ? 8 : 64);
  KRAFLA_ASSIGN(Grid grid, FoldGrid(CeilDiv(outer * inner, local), profile));
  KernelWriter w(plan, profile);
  Builder& b = w.b;
  auto u32 = [&](int64_t v) { return b.U32(static_cast<uint32_t>(v)); };
  const int bytes = StorageBytes(scan.type);
  const Kind kind64 = scan.type == ElementType::kF64 ? Kind::kF64 : Kind::kU64;
  const Value line = b.Add(b.Mul(GroupNumber(b, grid), b.U32(local)), b.LocalIndex());
  b.If(b.Compare(Cmp::kULt, line, u32(outer * inner)), [&] {
    const Value before = b.UDiv(line, u32(inner));
    const Value first = b.Add(b.Mul(before, u32(length * inner)), b.Sub(line, b.Mul(before, u32(inner))));
    Values start = RunScalarProgram(b, w.buffers, scan.reduction.init, {});
    if (scan.start >= 0) start = {FromStorage(b, scan.type, w.buffers.Load(scan.start, bytes, line, 1, kind64))};
    const Values end = b.For(b.U32(0), u32(length), b.U32(1), start, [&](Value turn, const Values& carry) {
      const Value e = scan.is_reverse ? b.Sub(u32(length - 1), turn) : turn;
      const Value at = b.Add(first, b.Mul(e, u32(inner)));
      const Value x = FromStorage(b, scan.type, w.buffers.Load(scan.input, bytes, at, 1, kind64));
      const Value operands[] = {carry[0], x};
      const Values next = RunScalarProgram(b, w.buffers, scan.reduction.combiner, operands);
      w.buffers.Store(scan.output, bytes, at, ToStorage(b, scan.type, next[0]));
      return Values{next[0]};
    });
    if (scan.last >= 0) w.buffers.Store(scan.last, bytes, line, ToStorage(b, scan.type, end[0]));
  });
  out.kernels.push_back(w.Finish({local, 1, 1}, "scan.line"));
  out.dispatches.push_back({0, grid.size, {}});
  return out;
}

}  // namespace krafla::spirv
