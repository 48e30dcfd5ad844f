// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "plan/overlap.h"
#include "plan/value_ref.h"

namespace krafla::plan {
namespace {

// Of a loop whose turns nobody knows.
constexpr int64_t kSomeTurns = 8;

double BytesOf(const Shape& shape) {
  double bytes = 0;
  for (const Shape* leaf : TupleLeaves(shape))
    if (leaf->IsArray()) bytes += static_cast<double>(leaf->byte_size());
  return bytes;
}

double ElementsOf(const Shape& shape) { return shape.IsArray() ? static_cast<double>(shape.element_count()) : 0; }

double FlopsOf(const Instruction& i) {
  if (i.opcode() == Opcode::kDot) {
    double depth = 1;
    for (const int64_t d : i.attr<DotAttributes>().lhs_contracting)
      depth *= static_cast<double>(i.operand(0)->shape().dim(d));
    return 2 * ElementsOf(i.shape()) * depth;
  }
  if (i.opcode() == Opcode::kConvolution) {
    const Shape& kernel = i.operand(1)->shape();
    const int64_t outputs = kernel.dim(i.attr<ConvolutionAttributes>().kernel_output_feature);
    return 2 * ElementsOf(i.shape()) * ElementsOf(kernel) / static_cast<double>(std::max<int64_t>(outputs, 1));
  }
  return ElementsOf(i.shape());
}

double TimesOf(const Instruction& i) {
  const auto* loop = std::get_if<WhileAttributes>(&i.attributes());
  return loop == nullptr ? 1 : static_cast<double>(loop->known_trip_count.value_or(kSomeTurns));
}

double EstimatedNs(const Instruction& i, const OverlapOptions& options, int depth) {
  constexpr int kDeepest = 4;  // of loops in loops; what is deeper counts as nothing
  if (i.opcode() == Opcode::kWhile || i.opcode() == Opcode::kCall || i.opcode() == Opcode::kConditional) {
    double ns = 0;
    if (depth < kDeepest)
      for (const Computation* c : i.called())
        for (const auto& inner : c->instructions()) ns += EstimatedNs(*inner, options, depth + 1);
    return ns * TimesOf(i);
  }
  double bytes = BytesOf(i.shape());
  for (const Instruction* o : i.operands()) bytes += BytesOf(o->shape());
  return std::max(FlopsOf(i) * options.ns_per_flop, bytes * options.ns_per_byte);
}

}  // namespace

bool MayGoOn(const Instruction& i) {
  if (!HasTrait(i.opcode(), op_trait::kCollective) || HasTrait(i.opcode(), op_trait::kAsyncStart) ||
      HasTrait(i.opcode(), op_trait::kAsyncDone) || i.shape().IsDynamic())
    return false;
  return std::ranges::none_of(i.operands(), [](const Instruction* o) { return o->shape().IsDynamic(); });
}

double ExchangeNs(const Instruction& i, const OverlapOptions& options) {
  double bytes = 0;
  for (const Instruction* o : i.operands()) bytes += BytesOf(o->shape());
  return options.exchange_ns + bytes * options.exchange_ns_per_byte;
}

double EstimatedNs(const Instruction& i, const OverlapOptions& options) { return EstimatedNs(i, options, 0); }

double EstimatedNs(const KernelPlan& kernel, const OverlapOptions& options) {
  return std::max(kernel.flops * options.ns_per_flop, kernel.bytes * options.ns_per_byte);
}

}  // namespace krafla::plan
