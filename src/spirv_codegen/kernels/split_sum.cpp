// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/split_sum.h"

#include <algorithm>

#include "base/checked_math.h"
#include "spirv_codegen/kernels/wide_sum.h"

namespace krafla::spirv {
namespace {

constexpr int64_t kMostPartSums = int64_t{1} << 24;

}  // namespace

int64_t PartCount(int64_t depth, int64_t outputs) {
  if (depth < 2 * kPartDepth || outputs == 0) return 1;
  return std::clamp<int64_t>(kMostPartSums / outputs, 1, CeilDiv(depth, kPartDepth));
}

int64_t FillingParts(int64_t depth, int64_t outputs, int64_t least_part, const DotTuning& tuning) {
  if (outputs == 0) return 1;
  const int64_t wanted = std::min(CeilDiv(tuning.wanted_sums, outputs), tuning.most_parts);
  return std::max<int64_t>(std::min(wanted, depth / least_part), 1);
}

plan::KernelPlan WithParts(const plan::KernelPlan& plan, ElementType accumulate, int64_t parts, int64_t outputs) {
  plan::KernelPlan out = plan;
  out.bindings.push_back({accumulate, parts * outputs, true, true});
  return out;
}

plan::ElementProgram PartEpilogue(const plan::KernelPlan& with_parts, std::span<const int64_t> dims,
                                  ElementType accumulate, int64_t first) {
  plan::ProgramBuilder b(dims);
  for (const plan::Binding& binding : with_parts.bindings)
    b.AddBuffer(binding.storage, binding.element_count, binding.written);
  std::vector<plan::IndexId> at;
  for (std::size_t d = 0; d < dims.size(); ++d) at.push_back(b.space().Iter(static_cast<int>(d)));
  const plan::NodeId sum = b.Param(plan::ComputeType(accumulate), 0, ~uint64_t{0} >> (64 - dims.size()));
  plan::Store store;
  store.buffer = static_cast<int>(with_parts.bindings.size()) - 1;
  store.index = b.space().AddConstant(b.space().Linearize(at, dims), first);
  store.node = sum;
  store.storage = accumulate;
  b.AddStore(store);
  return std::move(b).Finish();
}

Result<> AddJoin(EmittedProgram& out, const plan::KernelPlan& plan, const PartSums& sums, const Target& target) {
  const DeviceProfile& profile = target.profile;
  const Dims& dims = sums.epilogue.space.dims();
  const int64_t outputs = Product(dims);
  int inner = static_cast<int>(dims.size()) - 1;
  while (inner > 0 && dims[static_cast<std::size_t>(inner)] == 1) --inner;
  const int width = dims[static_cast<std::size_t>(inner)] % 4 == 0 ? 4 : 1;
  const uint32_t local = WorkgroupSize(profile, target.tuning.dot.join_local);
  const int64_t items = outputs / width;
  KRAFLA_ASSIGN(Grid grid, FoldGrid(CeilDiv(items, local), profile));
  const int scratch = static_cast<int>(plan.bindings.size());
  KernelWriter w(plan, target, {{sums.parts * outputs, StorageBytes(sums.accumulate)}});
  Builder& b = w.b;
  auto u = [&](int64_t v) { return b.U32(static_cast<uint32_t>(v)); };
  const Epilogue epilogue(w, sums.epilogue, sums.accumulate, sums.result);
  const Kind kind = ComputeKind(sums.accumulate);
  const Value item = b.Add(b.Mul(GroupNumber(b, grid), u(local)), b.LocalIndex());
  b.If(b.Compare(Cmp::kULt, item, u(items)), [&] {
    const Value first = b.Mul(item, u(width));
    Values at(dims.size(), u(0));
    Value rest = first;
    for (int d = inner; d >= 0; --d) {
      const auto i = static_cast<std::size_t>(d);
      at[i] = d == 0 ? rest : b.UMod(rest, u(dims[i]));
      if (d != 0) rest = b.UDiv(rest, u(dims[i]));
    }
    const bool wide = IsWideKind(kind);
    const Values total = b.For(
        u(0), u(sums.parts), u(1), Values(wide ? 2 : 1, b.Zero(kind, width)), [&](Value part, const Values& before) {
          const Value entry = b.Add(b.Mul(part, u(outputs)), first);
          const Value more = LoadAs(b, w.buffers, scratch, sums.accumulate, ReadAs{sums.accumulate}, entry, width);
          if (!wide) return Values{IsFloatKind(kind) ? b.FAdd(before[0], more) : b.Add(before[0], more)};
          const WideSum next = AddWide(b, {before[0], before[1]}, more);
          return Values{next.high, next.low};
        });
    epilogue.Emit(at, inner, wide ? RoundWide(b, {total[0], total[1]}) : total[0], {});
  });
  EmittedDispatch dispatch{0, grid.size, {}};
  dispatch.share = static_cast<double>(sums.parts);
  AddKernel(out, w, std::move(dispatch), local, 0, "join", Format("{} parts of the depth", sums.parts));
  return {};
}

void AddParts(EmittedProgram& out, EmittedProgram part, double work) {
  // The scratch of the parts, one of which runs at a time, comes after the sums.
  for (std::size_t i = 0; i < part.scratch_bytes.size(); ++i) {
    if (out.scratch_bytes.size() <= i + 1) out.scratch_bytes.push_back(0);
    out.scratch_bytes[i + 1] = std::max(out.scratch_bytes[i + 1], part.scratch_bytes[i]);
  }
  double shares = 0;
  for (const EmittedDispatch& d : part.dispatches) shares += d.share;
  const auto first = static_cast<int>(out.kernels.size());
  for (EmittedKernel& kernel : part.kernels) out.kernels.push_back(std::move(kernel));
  for (EmittedDispatch& dispatch : part.dispatches) {
    dispatch.kernel += first;
    dispatch.share *= work / shares;
    out.dispatches.push_back(std::move(dispatch));
  }
}

}  // namespace krafla::spirv
