// SPDX-License-Identifier: Apache-2.0
#include "api/program_cost.h"

#include <algorithm>
#include <map>

namespace krafla {
namespace {

class Counter {
 public:
  const ProgramCost& Of(const Computation& computation) {
    auto [it, fresh] = known_.try_emplace(&computation);
    if (!fresh) return it->second;
    ProgramCost sum;
    for (const auto& i : computation.instructions()) Add(sum, Of(*i));
    return known_[&computation] = sum;
  }

 private:
  static void Add(ProgramCost& sum, const ProgramCost& more, double times = 1) {
    sum.flops += times * more.flops;
    sum.transcendentals += times * more.transcendentals;
    sum.bytes_accessed += times * more.bytes_accessed;
  }
  static double Count(const Shape& shape) {
    double count = 0;
    for (const Shape* leaf : TupleLeaves(shape)) count += static_cast<double>(leaf->element_count());
    return count;
  }
  static double Bytes(const Instruction& i) {
    double bytes = static_cast<double>(i.shape().byte_size());
    for (const Instruction* o : i.operands()) bytes += static_cast<double>(o->shape().byte_size());
    return bytes;
  }
  static double Product(const Shape& shape, const Dims& dims) {
    double out = 1;
    for (int64_t d : dims) out *= static_cast<double>(shape.dim(d));
    return out;
  }
  // `times` applications of a computation of scalars: its bytes stay in registers.
  void Apply(ProgramCost& cost, const Computation& computation, double times) {
    const ProgramCost& one = Of(computation);
    cost.flops += times * one.flops;
    cost.transcendentals += times * one.transcendentals;
  }

  ProgramCost Of(const Instruction& i) {
    ProgramCost cost;
    const OpInfo& info = GetOpInfo(i.opcode());
    if (HasTrait(i.opcode(), op_trait::kControl)) {
      ProgramCost dearest;
      const bool branches = i.opcode() == Opcode::kConditional;
      for (const Computation* c : i.called()) {
        const ProgramCost& one = Of(*c);
        if (!branches) {
          Add(cost, one);
        } else if (one.flops + one.transcendentals >= dearest.flops + dearest.transcendentals) {
          dearest = one;
        }
      }
      Add(cost, dearest);
      return cost;
    }
    if (info.lowering == Lowering::kStructural || i.opcode() == Opcode::kParameter || i.IsConstant()) return cost;
    cost.bytes_accessed = Bytes(i);
    const double count = Count(i.shape());
    if (const auto* dot = std::get_if<DotAttributes>(&i.attributes())) {
      cost.flops = 2 * count * Product(i.operand(0)->shape(), dot->lhs_contracting);
    } else if (const auto* conv = std::get_if<ConvolutionAttributes>(&i.attributes())) {
      const Shape& kernel = i.operand(1)->shape();
      cost.flops = 2 * count * Product(kernel, conv->kernel_spatial) *
                   static_cast<double>(kernel.dim(conv->kernel_input_feature));
    } else if (IsElementwise(i.opcode())) {
      (info.lowering == Lowering::kFormula ? cost.transcendentals : cost.flops) = count;
    } else if (const auto* window = std::get_if<WindowAttributes>(&i.attributes())) {
      double size = 1;
      for (const auto& d : window->window) size *= static_cast<double>(d.size);
      for (const Computation* c : i.called()) Apply(cost, *c, count * size);
    } else {
      // Reductions, maps, sorts, scatters: once an element of what they read.
      double read = 0;
      for (const Instruction* o : i.operands()) read = std::max(read, Count(o->shape()));
      for (const Computation* c : i.called()) Apply(cost, *c, read);
    }
    return cost;
  }

  std::map<const Computation*, ProgramCost> known_;
};

}  // namespace

ProgramCost CostOf(const Module& module) {
  return module.entry() == nullptr ? ProgramCost{} : Counter().Of(*module.entry());
}

}  // namespace krafla
