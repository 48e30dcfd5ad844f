// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/scatter_parts.h"

#include <algorithm>

#include "base/checked_math.h"

namespace krafla::spirv {
namespace {

// Whether the order of updates is free within the operation's bound, and values are what is stored.
bool MayBeParted(const plan::ScatterKernel& s) {
  using Kind = plan::Reduction::Kind;
  return s.types.size() == 1 && !s.multiplies_complex && s.combiner.kind != Kind::kOther &&
         s.combiner.kind != Kind::kComplexProduct && plan::ComputeType(s.types[0]) == s.types[0] &&
         StorageBytes(s.types[0]) >= 4;
}

}  // namespace

ScatterParts::ScatterParts(const plan::KernelPlan& plan, const plan::ScatterKernel& s, const Target& target,
                           int64_t items)
    : plan_(plan), target_(target), into_(s), output_(s.outputs[0]), places_(Product(s.operand_dims)) {
  const ScatterGeometry geometry(s);
  const int64_t batch = geometry.batch_count();
  length_ = batch;
  if (!MayBeParted(s)) return;
  const ScatterTuning& tuning = target.tuning.scatter;
  // No more copies than updates to be combined into them.
  const int64_t copies = batch * geometry.window_count() / std::max<int64_t>(places_, 1);
  count_ = std::max<int64_t>(std::min({tuning.wanted_invocations / items, batch / tuning.least_part, copies}), 1);
  length_ = CeilDiv(batch, count_);
  count_ = CeilDiv(batch, length_);
  if (count_ > 1) into_.outputs = {binding()};
}

std::vector<BufferDesc> ScatterParts::Scratch() const {
  if (count_ == 1) return {};
  return {{count_ * places_, StorageBytes(into_.types[0])}};
}

Value ScatterParts::Load(KernelWriter& w, int binding, Value at) const {
  const ElementType type = into_.types[0];
  const Kind kind64 = type == ElementType::kF64 ? Kind::kF64 : Kind::kU64;
  return FromStorage(w.b, type, w.buffers.Load(binding, StorageBytes(type), at, 1, kind64));
}

void ScatterParts::Store(KernelWriter& w, int binding, Value at, Value v) const {
  w.buffers.Store(binding, StorageBytes(into_.types[0]), at, ToStorage(w.b, into_.types[0], v));
}

Result<> ScatterParts::AddLoop(EmittedProgram& out, int64_t items, std::string variant,
                               const std::function<void(KernelWriter&, const ReductionValues&, Value)>& body) const {
  KernelWriter w(plan_, target_, Scratch());
  Builder& b = w.b;
  plan::Reduction reduction = into_.combiner;
  reduction.inputs = {0};
  const ReductionValues values(b, w.buffers, std::span(&reduction, 1), /*wide=*/true);
  const uint32_t local = WorkgroupSize(target_.profile, target_.tuning.scatter.apart_local);
  KRAFLA_ASSIGN(Grid grid, FoldGrid(CeilDiv(items, local), target_.profile));
  const Value item = b.Add(b.Mul(GroupNumber(b, grid), b.U32(local)), b.LocalIndex());
  b.If(b.Compare(Cmp::kULt, item, b.U32(static_cast<uint32_t>(items))), [&] { body(w, values, item); });
  AddKernel(out, w, {static_cast<int>(out.kernels.size()), grid.size, {}}, local, 0, std::move(variant),
            Format("{} parts of the updates", count_));
  return {};
}

Result<> ScatterParts::AddStart(EmittedProgram& out) const {
  return AddLoop(out, count_ * places_, "scatter.start",
                 [&](KernelWriter& w, const ReductionValues& values, Value item) {
                   Store(w, binding(), item, values.StartChain(1)[0]);
                 });
}

Result<> ScatterParts::AddJoin(EmittedProgram& out) const {
  return AddLoop(out, places_, "scatter.join", [&](KernelWriter& w, const ReductionValues& values, Value place) {
    Builder& b = w.b;
    const auto u32 = [&](int64_t v) { return b.U32(static_cast<uint32_t>(v)); };
    const Values start = values.Absorb(values.Start(1), {Load(w, output_, place)});
    const Values all = b.For(u32(0), u32(count_), u32(1), start, [&](Value part, const Values& before) {
      return values.Absorb(before, {Load(w, binding(), b.Add(FirstOf(b, part), place))});
    });
    Store(w, output_, place, values.Round(all)[0]);
  });
}

}  // namespace krafla::spirv
