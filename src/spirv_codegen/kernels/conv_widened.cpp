// SPDX-License-Identifier: Apache-2.0
// A direct convolution of bytes or halves whose elements are read many times: input and kernel are copied first, as
// what they are summed up in, the input with its padding. Then a read is that of a word, and needs no mask.
#include <algorithm>

#include "base/checked_math.h"
#include "krafla/shape.h"
#include "spirv_codegen/kernels/conv_copies.h"

namespace krafla::spirv {
namespace {

// The input's dimensions with their padding, but along what is dilated, which keeps its own.
Dims PaddedDims(const ConvProblem& p) {
  Dims out = p.k.input_dims;
  for (int s = 0; s < p.spatial; ++s) {
    const WindowDim& w = p.a.window[static_cast<std::size_t>(s)];
    if (w.base_dilation == 1)
      out[static_cast<std::size_t>(p.a.input_spatial[static_cast<std::size_t>(s)])] += w.padding_low + w.padding_high;
  }
  return out;
}

// The array `from`, of `dims`, becomes `to`, of `to_dims`, which begins so many elements before it: zeros around it.
plan::LoopKernel WidenedCopy(const plan::KernelPlan& plan, int from, const Dims& dims, int to, const Dims& to_dims,
                             std::span<const int64_t> before) {
  plan::ProgramBuilder b(std::vector<int64_t>(to_dims.begin(), to_dims.end()));
  for (const plan::Binding& binding : plan.bindings)
    b.AddBuffer(binding.storage, binding.element_count, binding.written);
  plan::IndexSpace& s = b.space();
  const Dims strides = RowMajorStrides(dims);
  plan::IndexId source = s.Constant(0);
  plan::NodeId mask = plan::kNoNode;
  std::vector<plan::IndexId> at;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    at.push_back(s.Iter(static_cast<int>(d)));
    const plan::IndexId x = s.AddConstant(at.back(), -before[d]);
    mask = b.And(mask, b.InRange(x, 0, dims[d]));
    source = s.Add(source, s.Mul(x, strides[d]));
  }
  const ElementType type = plan.bindings[static_cast<std::size_t>(from)].storage;
  plan::Store store;
  store.buffer = to;
  store.storage = plan.bindings[static_cast<std::size_t>(to)].storage;
  store.index = s.Linearize(at, std::vector<int64_t>(to_dims.begin(), to_dims.end()));
  store.node = b.Convert(b.Load(from, type, source, mask), plan::ComputeType(type), store.storage);
  b.AddStore(store);
  return {std::move(b).Finish()};
}

}  // namespace

Refusal RefusesWidenedConv(const plan::KernelPlan& plan, const ConvProblem& p, const Target& target) {
  const double least = target.tuning.conv.widen_products;
  if (least == 0) return "slow on this device";
  const ElementType sums = p.k.accumulate_type;
  if (StorageBytes(p.k.input_type) >= 4 && StorageBytes(p.k.kernel_type) >= 4) return "wide elements";
  if (StorageBytes(sums) != 4 || plan::ComputeType(sums) != sums) return "sums of another size";
  if (ProductsOf(p) < least * ElementsOf(plan, p)) return "few products for each element";
  // Of neighbouring channels that have a kernel each the direct form reads words.
  if (ChannelsLast(p) && p.inputs == 1) return "a kernel for each of the last features";
  const Dims padded = PaddedDims(p);
  const int64_t input = plan.bindings[static_cast<std::size_t>(p.k.input_binding)].element_count;
  if (std::ranges::any_of(padded, [](int64_t d) { return d <= 0; }) || SaturatingProduct(padded) / 2 > input)
    return "much padding";
  return std::nullopt;
}

Result<EmittedProgram> EmitWidenedConv(const plan::KernelPlan& plan, const ConvProblem& p, const Target& target) {
  ConvCopies copies(plan);
  plan::ConvKernel k = p.k;
  const auto widen = [&](int& binding, ElementType& type, Dims& dims, Dims to_dims, std::span<const int64_t> before) {
    const int to = copies.AddArray(p.k.accumulate_type, Product(to_dims));
    copies.Add(WidenedCopy(copies.plan(), binding, dims, to, to_dims, before));
    binding = to, type = p.k.accumulate_type, dims = std::move(to_dims);
  };
  std::vector<int64_t> before(static_cast<std::size_t>(p.rank));
  if (StorageBytes(k.kernel_type) < 4) widen(k.kernel_binding, k.kernel_type, k.kernel_dims, k.kernel_dims, before);
  for (int s = 0; s < p.spatial; ++s) {
    WindowDim& w = k.attributes.window[static_cast<std::size_t>(s)];
    if (w.base_dilation != 1) continue;
    before[static_cast<std::size_t>(p.a.input_spatial[static_cast<std::size_t>(s)])] = w.padding_low;
    w.padding_low = w.padding_high = 0;
  }
  widen(k.input_binding, k.input_type, k.input_dims, PaddedDims(p), before);
  KRAFLA_ASSIGN(EmittedProgram sums, EmitDirectConv(copies.plan(), ConvProblem(k), target));
  return copies.Before(std::move(sums), p, "conv.widen", target);
}

}  // namespace krafla::spirv
