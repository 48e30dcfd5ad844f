// SPDX-License-Identifier: Apache-2.0
// A convolution whose arrays lie in an order that no product of matrices reads well: input and kernel are copied first,
// with the features last, which costs little beside the sums. The output keeps its order.
#include <algorithm>

#include "krafla/shape.h"
#include "spirv_codegen/kernels/conv_copies.h"

namespace krafla::spirv {
namespace {

// A kernel that copies binding `from`, of `dims`, to binding `to`: dimension d of the result is order[d].
plan::LoopKernel Reordered(const plan::KernelPlan& plan, int from, int to, const Dims& dims,
                           std::span<const int64_t> order) {
  std::vector<int64_t> result_dims;
  for (int64_t d : order) result_dims.push_back(dims[static_cast<std::size_t>(d)]);
  plan::ProgramBuilder b(result_dims);
  for (const plan::Binding& binding : plan.bindings)
    b.AddBuffer(binding.storage, binding.element_count, binding.written);
  plan::IndexSpace& s = b.space();
  const Dims strides = RowMajorStrides(dims);
  plan::IndexId source = s.Constant(0);
  std::vector<plan::IndexId> at;
  for (std::size_t d = 0; d < order.size(); ++d) {
    at.push_back(s.Iter(static_cast<int>(d)));
    source = s.Add(source, s.Mul(at.back(), strides[static_cast<std::size_t>(order[d])]));
  }
  const ElementType type = plan.bindings[static_cast<std::size_t>(from)].storage;
  plan::Store store;
  store.buffer = to;
  store.index = s.Linearize(at, result_dims);
  store.node = b.Load(from, type, source);
  store.storage = type;
  b.AddStore(store);
  return {std::move(b).Finish()};
}

bool IsInOrder(std::span<const int64_t> order) {
  for (std::size_t d = 0; d < order.size(); ++d)
    if (order[d] != static_cast<int64_t>(d)) return false;
  return true;
}

struct FeaturesLast {
  std::vector<int64_t> input_order, kernel_order;
  plan::ConvKernel k;  // in that order, with the bindings of the whole
};
FeaturesLast WithFeaturesLast(const ConvProblem& p) {
  const ConvolutionAttributes& a = p.a;
  FeaturesLast out{{a.input_batch}, {}, p.k};
  for (int64_t d : a.input_spatial) out.input_order.push_back(d);
  out.input_order.push_back(a.input_feature);
  for (int64_t d : a.kernel_spatial) out.kernel_order.push_back(d);
  out.kernel_order.push_back(a.kernel_input_feature);
  out.kernel_order.push_back(a.kernel_output_feature);
  const auto reorder = [](Dims& dims, std::span<const int64_t> order) {
    const Dims before = dims;
    for (std::size_t d = 0; d < order.size(); ++d) dims[d] = before[static_cast<std::size_t>(order[d])];
  };
  reorder(out.k.input_dims, out.input_order);
  reorder(out.k.kernel_dims, out.kernel_order);
  ConvolutionAttributes& to = out.k.attributes;
  to.input_batch = 0;
  to.input_feature = p.rank - 1;
  to.kernel_input_feature = p.rank - 2;
  to.kernel_output_feature = p.rank - 1;
  for (int d = 0; d < p.spatial; ++d) {
    to.input_spatial[static_cast<std::size_t>(d)] = d + 1;
    to.kernel_spatial[static_cast<std::size_t>(d)] = d;
  }
  return out;
}

}  // namespace

Refusal RefusesReorderedConv(const plan::KernelPlan& plan, const ConvProblem& p, const Target& target) {
  const ConvTuning& tuning = target.tuning.conv;
  if (ChannelsLast(p)) return "the output's features are last";
  if (p.k.input_binding == p.k.kernel_binding) return "input and kernel are one array";
  if (ProductsOf(p) < tuning.reorder_products * ElementsOf(plan, p)) return "few products for each element";
  // A product of matrices stays one where that is as fast, with cooperative matrices, which load any order, and where
  // few features would be side by side.
  if (!RefusesGemm(p, target) && (!tuning.reorder_products_of_matrices || target.options.enable_cooperative_matrix ||
                                  p.inputs < tuning.reorder_features))
    return "a product of matrices as it lies";
  const FeaturesLast reordered = WithFeaturesLast(p);
  ConvProblem problem(reordered.k);
  problem.features_last = true;
  if (const Refusal why = RefusesGemm(problem, target)) return "no product of matrices in any order: " + *why;
  return std::nullopt;
}

Result<EmittedProgram> EmitReorderedConv(const plan::KernelPlan& plan, const ConvProblem& p, const Target& target) {
  FeaturesLast reordered = WithFeaturesLast(p);
  ConvCopies copies(plan);
  const auto move = [&](int& binding, const Dims& dims, std::span<const int64_t> order) {
    if (IsInOrder(order)) return;
    const plan::Binding& moved = plan.bindings[static_cast<std::size_t>(binding)];
    const int to = copies.AddArray(moved.storage, moved.element_count);
    copies.Add(Reordered(copies.plan(), binding, to, dims, order));
    binding = to;
  };
  move(reordered.k.input_binding, p.k.input_dims, reordered.input_order);
  move(reordered.k.kernel_binding, p.k.kernel_dims, reordered.kernel_order);
  ConvProblem problem(reordered.k);
  problem.features_last = true;
  KRAFLA_ASSIGN(EmittedProgram sums, EmitGemmConv(copies.plan(), problem, target));
  return copies.Before(std::move(sums), p, "conv.reorder", target);
}

}  // namespace krafla::spirv
