// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/nest_scatter.h"

#include <algorithm>

#include "spirv_codegen/kernels/scatter_problem.h"
#include "spirv_codegen/kernels/while.h"

namespace krafla::spirv {
namespace {

bool AreApart(const plan::ScatterKernel& s, const ScatterGeometry& geometry, const DeviceProfile& profile) {
  return geometry.batch_count() == 1 || (s.attributes.unique_indices && WritesApart(s, profile));
}

}  // namespace

NestScatterCost CostOfNestScatter(const plan::ScatterKernel& s, const DeviceProfile& profile) {
  const ScatterGeometry geometry(s);
  const double update = OperationsOf(s.combiner.combiner) + 40;
  const int64_t window = geometry.window_count(), batch = geometry.batch_count();
  if (AreApart(s, geometry, profile)) return {window * batch, update};
  return {window, update * static_cast<double>(batch)};
}

void EmitNestScatter(KernelWriter& w, const plan::ScatterKernel& s, uint32_t local) {
  Builder& b = w.b;
  const ScatterGeometry geometry(s);
  ScatterWindows windows(w, geometry);
  const auto u32 = [&](int64_t v) { return b.U32(static_cast<uint32_t>(v)); };
  const int64_t window = geometry.window_count(), batch = geometry.batch_count();
  const Value lane = local > 1 ? b.LocalIndex() : b.U32(0);
  const auto combine = [&](const ScatterWindows::Place& place, const ScatterWindows::Update& update) {
    b.If(update.inside,
         [&] { windows.Combine(b.Add(update.operand, place.operand), b.Add(update.update, place.update)); });
  };
  if (AreApart(s, geometry, w.profile)) {
    b.For(lane, u32(window * batch), u32(local), [&](Value item) {
      const Value n = b.UDiv(item, u32(window));
      combine(windows.WindowPlace(b.Sub(item, b.Mul(n, u32(window))), /*alone=*/true), windows.Locate(n, {}));
    });
    return;
  }
  b.For(lane, u32(window), u32(local), [&](Value element) {
    const ScatterWindows::Place place = windows.WindowPlace(element, /*alone=*/false);
    b.For(b.U32(0), u32(batch), b.U32(1), [&](Value n) { combine(place, windows.Locate(n, place.remainders)); });
  });
}

}  // namespace krafla::spirv
