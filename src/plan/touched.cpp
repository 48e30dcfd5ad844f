// SPDX-License-Identifier: Apache-2.0
#include "plan/touched.h"

#include <algorithm>
#include <set>
#include <utility>

namespace krafla::plan {
namespace {

void Touch(TouchedElements& to, const Interval& range, double count) {
  to.range = Union(to.range, range);
  to.count += count;
}

// Points of the iteration space that differ in the dimensions of `depends`.
double PointsOf(const Dims& dims, uint64_t depends) {
  double points = 1;
  for (std::size_t d = 0; d < dims.size(); ++d)
    if (((depends >> d) & 1) != 0) points *= static_cast<double>(dims[d]);
  return points;
}

void TouchOperand(TouchedElements& to, int64_t offset, const DotKernel& dot, const Dims& batch_strides, int64_t rows,
                  int64_t row_stride, int64_t k_stride) {
  Interval range{offset, offset};
  double count = 1;
  const auto along = [&](int64_t extent, int64_t stride) {
    range = range + Union({0, 0}, Interval{stride, stride} * (extent - 1));
    if (stride != 0) count *= static_cast<double>(extent);
  };
  for (std::size_t d = 0; d < dot.batch.size(); ++d) along(dot.batch[d], batch_strides[d]);
  along(rows, row_stride);
  along(dot.k, k_stride);
  Touch(to, range, count);
}

// What a part leaves alone keeps its range of nothing.
std::optional<std::vector<TouchedElements>> TouchedByAll(const KernelPlan& kernel, const HorizontalKernel& horizontal) {
  std::vector<TouchedElements> out(kernel.bindings.size());
  for (const KernelPlan& part : PartsOfHorizontal(kernel, horizontal)) {
    const std::optional<std::vector<TouchedElements>> touched = TouchedBy(part);
    if (!touched) return std::nullopt;
    for (std::size_t b = 0; b < out.size(); ++b) {
      out[b].range = Union(out[b].range, (*touched)[b].range);
      out[b].count = std::max(out[b].count, (*touched)[b].count);
    }
  }
  return out;
}

}  // namespace

std::optional<std::vector<TouchedElements>> TouchedBy(const KernelPlan& kernel) {
  if (const auto* horizontal = std::get_if<HorizontalKernel>(&kernel.body)) return TouchedByAll(kernel, *horizontal);
  const auto* dot = std::get_if<DotKernel>(&kernel.body);
  if (dot == nullptr && !std::holds_alternative<LoopKernel>(kernel.body) &&
      !std::holds_alternative<ReduceKernel>(kernel.body))
    return std::nullopt;
  std::vector<TouchedElements> out(kernel.bindings.size());
  bool is_empty = dot != nullptr && dot->k == 0;
  ForEachProgram(kernel.body, [&](const ElementProgram& p) {
    for (int64_t d : p.space.dims()) is_empty = is_empty || d == 0;
    // Stages read what the ones before them have read: that counts once.
    std::vector<TouchedElements> here(kernel.bindings.size());
    std::set<std::pair<int, IndexId>> seen;
    const auto touch = [&](int buffer, IndexId index) {
      if (seen.emplace(buffer, index).second)
        Touch(here[static_cast<std::size_t>(buffer)], p.space.RangeOf(index),
              PointsOf(p.space.dims(), p.space.Depends(index)));
    };
    for (const Node& n : p.nodes)
      if (n.op == NodeOp::kLoad) touch(n.buffer, n.index);
    for (const Store& s : p.stores) touch(s.buffer, s.index);
    for (std::size_t b = 0; b < out.size(); ++b) {
      out[b].range = Union(out[b].range, here[b].range);
      out[b].count = std::max(out[b].count, here[b].count);
    }
  });
  if (is_empty) return std::nullopt;
  if (dot != nullptr) {
    const auto of = [&](int binding) -> TouchedElements& { return out[static_cast<std::size_t>(binding)]; };
    if (!dot->computes_lhs())
      TouchOperand(of(dot->lhs_binding), dot->lhs_offset, *dot, dot->lhs_batch_strides, dot->m, dot->lhs_m_stride,
                   dot->lhs_k_stride);
    if (!dot->computes_rhs())
      TouchOperand(of(dot->rhs_binding), dot->rhs_offset, *dot, dot->rhs_batch_strides, dot->n, dot->rhs_n_stride,
                   dot->rhs_k_stride);
  }
  for (std::size_t b = 0; b < out.size(); ++b) {
    if (out[b].range.lo > out[b].range.hi) continue;
    const Interval whole{0, kernel.bindings[b].element_count - 1};
    const double size = static_cast<double>(std::min(out[b].range.hi, whole.hi)) -
                        static_cast<double>(std::max(out[b].range.lo, whole.lo)) + 1;
    out[b].count = std::clamp(out[b].count, 0.0, std::max(size, 0.0));
  }
  return out;
}

double BytesMoved(const KernelPlan& kernel) {
  const std::optional<std::vector<TouchedElements>> touched = TouchedBy(kernel);
  double bytes = 0;
  for (std::size_t b = 0; b < kernel.bindings.size(); ++b) {
    const Binding& binding = kernel.bindings[b];
    const double elements = touched ? (*touched)[b].count : static_cast<double>(binding.element_count);
    bytes += elements * StorageBytes(binding.storage);
  }
  return bytes;
}

}  // namespace krafla::plan
