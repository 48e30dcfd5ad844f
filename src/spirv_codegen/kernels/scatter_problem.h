// SPDX-License-Identifier: Apache-2.0
// A scatter that variants are asked to take.
#pragma once

#include <algorithm>
#include <vector>

#include "spirv_codegen/kernels/scatter_windows.h"
#include "spirv_codegen/kernels/variant.h"

namespace krafla::spirv {

// Whether neighbours in memory may be written at the same time.
inline bool WritesApart(const plan::ScatterKernel& s, const DeviceProfile& profile) {
  return std::ranges::all_of(s.types, [&](ElementType type) {
    return BitWidth(type) >= 8 && StoresAlone(profile.features, StorageBytes(type));
  });
}

struct ScatterProblem {
  const plan::KernelPlan& plan;
  const plan::ScatterKernel& s;
  const Target& target;
  ScatterGeometry geometry{s};
  int64_t window = geometry.window_count(), batch = geometry.batch_count();

  const ScatterTuning& tuning() const { return target.tuning.scatter; }
  bool WritesApart() const { return spirv::WritesApart(s, target.profile); }
};

// Of updates in stretches, a dispatch each, where there are many: then a push word is the first of the dispatch.
struct Stretches {
  const int64_t batch;
  // The most updates that an invocation looks at in a dispatch.
  const int64_t most = int64_t{1} << 16;

  int push_words() const { return batch > most ? 1 : 0; }
  Value First(KernelWriter& w) const { return push_words() > 0 ? w.buffers.PushWord(0) : w.b.U32(0); }
  // `all_end`: where the updates end.
  Value End(Builder& b, Value first, Value all_end) const {
    return b.Min(b.Add(first, b.U32(static_cast<uint32_t>(most))), all_end);
  }
  void AddDispatches(EmittedProgram& out, int kernel, const Grid& grid) const {
    for (int64_t first = 0; first < batch; first += most)
      out.dispatches.push_back(
          {kernel, grid.size, push_words() > 0 ? std::vector{static_cast<uint32_t>(first)} : std::vector<uint32_t>{}});
  }
};

}  // namespace krafla::spirv
