// SPDX-License-Identifier: Apache-2.0
// A convolution whose windows are single elements is a product of matrices that lie in memory: what a dot's kernels
// read has no window to be placed in, which is a tenth to a quarter of the instructions in the loop over the features.
#include <algorithm>
#include <optional>

#include "plan/collapse.h"
#include "spirv_codegen/kernels/conv.h"

namespace krafla::spirv {
namespace {

constexpr int64_t kLeastFeatures = 4;  // of fewer a product has no tiles

bool HasSingleElements(const ConvolutionAttributes& a) {
  if (a.feature_group_count != 1 || a.batch_group_count != 1) return false;
  return std::ranges::all_of(
      a.window, [](const WindowDim& w) { return w.size == 1 && w.padding_low == 0 && w.base_dilation == 1; });
}

// Dimensions of the output that are one dimension of the product.
struct Axis {
  bool is_feature = false;
  int64_t extent = 1, input_stride = 0;
};
struct Axes {
  std::vector<Axis> axes;
  std::vector<int> group_of;  // the axis of each dimension of the output
};

// Neighbours that lie in the input as in the output, and that every index of the epilogue walks as one, are one.
Axes AxesOf(const ConvProblem& p) {
  const std::vector<bool> collapsible = plan::CollapsibleBoundaries(p.k.epilogue);
  std::vector<int64_t> stride(static_cast<std::size_t>(p.rank), 0);
  const auto place = [&](int64_t output, int64_t input, int64_t step) {
    stride[static_cast<std::size_t>(output)] = p.input_strides[static_cast<std::size_t>(input)] * step;
  };
  place(p.a.output_batch, p.a.input_batch, 1);
  for (std::size_t s = 0; s < p.a.window.size(); ++s)
    place(p.a.output_spatial[s], p.a.input_spatial[s], p.a.window[s].stride);
  Axes out;
  for (int d = 0; d < p.rank; ++d) {
    const auto i = static_cast<std::size_t>(d);
    const Axis next{d == p.a.output_feature, p.k.output_dims[i], stride[i]};
    const bool is_joinable = d > 0 && collapsible[i - 1];
    const auto lies_behind = [&](const Axis& axis) {
      return !axis.is_feature && !next.is_feature && axis.input_stride == next.input_stride * next.extent;
    };
    if (d > 0 && (next.extent == 1 || (is_joinable && (out.axes.back().extent == 1 || lies_behind(out.axes.back()))))) {
      if (out.axes.back().extent == 1) out.axes.back() = next;
      else if (next.extent > 1) out.axes.back().extent *= next.extent, out.axes.back().input_stride = next.input_stride;
    } else {
      out.axes.push_back(next);
    }
    out.group_of.push_back(static_cast<int>(out.axes.size()) - 1);
  }
  return out;
}

std::optional<plan::DotKernel> AsDot(const ConvProblem& p) {
  const Axes found = AxesOf(p);
  const std::vector<Axis>& axes = found.axes;
  if (axes.size() < 2 || axes.size() > 3) return std::nullopt;
  const Axis &rows = axes[axes.size() - 2], &columns = axes.back();
  if (rows.is_feature == columns.is_feature) return std::nullopt;
  // Of pictures one behind the other, each with its channels first, each is a product. What strides have torn apart is
  // many small ones.
  if (axes.size() == 3 && !rows.is_feature) return std::nullopt;
  const auto kernel_stride = [&](int64_t d) { return p.kernel_strides[static_cast<std::size_t>(d)]; };
  const int64_t input_k = p.input_strides[static_cast<std::size_t>(p.a.input_feature)];
  plan::DotKernel dot;
  dot.precision = p.a.precision;
  dot.m = rows.extent, dot.n = columns.extent, dot.k = p.inputs;
  dot.accumulate_type = p.k.accumulate_type, dot.result_type = p.k.result_type;
  dot.epilogue = plan::JoinDims(p.k.epilogue, found.group_of);
  if (axes.size() == 3) {
    dot.batch = {axes[0].extent};
    dot.lhs_batch_strides = {rows.is_feature ? 0 : axes[0].input_stride};
    dot.rhs_batch_strides = {rows.is_feature ? axes[0].input_stride : 0};
  }
  if (rows.is_feature) {
    dot.lhs_binding = p.k.kernel_binding, dot.rhs_binding = p.k.input_binding;
    dot.lhs_type = p.k.kernel_type, dot.rhs_type = p.k.input_type;
    dot.lhs_m_stride = kernel_stride(p.a.kernel_output_feature);
    dot.lhs_k_stride = kernel_stride(p.a.kernel_input_feature);
    dot.rhs_k_stride = input_k, dot.rhs_n_stride = columns.input_stride;
    if (dot.precision.size() == 2) std::swap(dot.precision[0], dot.precision[1]);
  } else {
    dot.lhs_binding = p.k.input_binding, dot.rhs_binding = p.k.kernel_binding;
    dot.lhs_type = p.k.input_type, dot.rhs_type = p.k.kernel_type;
    dot.lhs_m_stride = rows.input_stride, dot.lhs_k_stride = input_k;
    dot.rhs_k_stride = kernel_stride(p.a.kernel_input_feature);
    dot.rhs_n_stride = kernel_stride(p.a.kernel_output_feature);
  }
  return dot;
}

}  // namespace

Refusal RefusesPointwiseConv(const ConvProblem& p) {
  if (!HasSingleElements(p.a)) return "a window";
  if (p.inputs < kLeastFeatures || p.outputs < kLeastFeatures) return "few features";
  if (!AsDot(p)) return "arrays in another order";
  return std::nullopt;
}

Result<EmittedProgram> EmitPointwiseConv(const plan::KernelPlan& plan, const ConvProblem& p, const Target& target) {
  return EmitDot(plan, *AsDot(p), target);
}

}  // namespace krafla::spirv
