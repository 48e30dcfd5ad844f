// SPDX-License-Identifier: Apache-2.0
// Turns dots into DotKernels: dimension numbers become [batch..., m, n, k] with strides, and what follows a dot becomes
// its epilogue.
#include <algorithm>

#include "plan/families/accepts.h"
#include "plan/families/dot_operands.h"
#include "plan/kernel_builder.h"

namespace krafla::plan {
namespace {

// A dimension of the iteration space and how far each operand moves along it.
struct Axis {
  int64_t extent = 1, lhs = 0, rhs = 0;
};

// Joins neighbouring axes along which both operands move as if they were one.
std::vector<Axis> Join(std::vector<Axis> axes) {
  std::vector<Axis> out;
  for (const Axis& a : axes) {
    if (a.extent == 1) continue;
    if (!out.empty() && out.back().lhs == a.lhs * a.extent && out.back().rhs == a.rhs * a.extent) {
      out.back() = {out.back().extent * a.extent, a.lhs, a.rhs};
    } else {
      out.push_back(a);
    }
  }
  return out;
}

struct Axes {
  std::vector<Axis> batch, m, n, k;
};

Axes AxesOf(const Instruction& dot, const StridedOperand& lhs, const StridedOperand& rhs) {
  const auto& a = dot.attr<DotAttributes>();
  const Dims& ldims = dot.operand(0)->shape().dims();
  const Dims& rdims = dot.operand(1)->shape().dims();
  auto at = [](const Dims& d, int64_t i) { return d[static_cast<std::size_t>(i)]; };
  auto has = [](const Dims& d, std::size_t i) {
    return std::find(d.begin(), d.end(), static_cast<int64_t>(i)) != d.end();
  };
  Axes out;
  for (std::size_t b = 0; b < a.lhs_batch.size(); ++b)
    out.batch.push_back({at(ldims, a.lhs_batch[b]), at(lhs.strides, a.lhs_batch[b]), at(rhs.strides, a.rhs_batch[b])});
  for (std::size_t c = 0; c < a.lhs_contracting.size(); ++c)
    out.k.push_back({at(ldims, a.lhs_contracting[c]), at(lhs.strides, a.lhs_contracting[c]),
                     at(rhs.strides, a.rhs_contracting[c])});
  for (std::size_t d = 0; d < ldims.size(); ++d)
    if (!has(a.lhs_batch, d) && !has(a.lhs_contracting, d)) out.m.push_back({ldims[d], lhs.strides[d], 0});
  for (std::size_t d = 0; d < rdims.size(); ++d)
    if (!has(a.rhs_batch, d) && !has(a.rhs_contracting, d)) out.n.push_back({rdims[d], 0, rhs.strides[d]});
  // The order of summation is free, so contracted dimensions are walked in the order in which they lie in the lhs.
  std::stable_sort(out.k.begin(), out.k.end(), [](const Axis& x, const Axis& y) { return x.lhs > y.lhs; });
  out.batch = Join(out.batch);
  out.m = Join(out.m);
  out.n = Join(out.n);
  out.k = Join(out.k);
  return out;
}

bool OneK(const Axes& axes) { return axes.k.size() <= 1; }

StridedOperand Unfolded(const Instruction* operand) {
  return {ResolveValue({operand, 0}, true), 0, RowMajorStrides(operand->shape().dims())};
}

}  // namespace

std::optional<DotOperands> ChooseDotOperands(const Instruction& dot) {
  StridedOperand lhs = FoldStrides(dot.operand(0)), rhs = FoldStrides(dot.operand(1));
  StridedOperand plain_lhs = Unfolded(dot.operand(0)), plain_rhs = Unfolded(dot.operand(1));
  // Several axes of m or n cost an outer loop, which is still cheaper than to copy the operand.
  for (const DotOperands& o : {DotOperands{lhs, rhs}, DotOperands{lhs, plain_rhs}, DotOperands{plain_lhs, rhs},
                               DotOperands{plain_lhs, plain_rhs}})
    if (OneK(AxesOf(dot, o.lhs, o.rhs))) return o;
  return std::nullopt;
}

bool TakesDot(const Instruction& i, int64_t elements) {
  for (const Instruction* o : i.operands())
    if (!o->shape().IsArray() || IsComplex(o->shape().element_type()) || o->shape().IsDynamic() ||
        o->shape().element_type() == ElementType::kPred || o->shape().element_count() > elements)
      return false;
  ElementType result = i.shape().element_type();
  if (result == ElementType::kPred || IsComplex(result) || i.shape().element_count() > elements) return false;
  for (const Instruction* o : i.operands())
    if (IsFloat(o->shape().element_type()) != IsFloat(result)) return false;
  return ChooseDotOperands(i).has_value();
}

// The binding of an operand, or -1 and the program that computes it at each place of `extents`: fusion leaves what has
// no buffer to be computed here. Its elements would lie as `strides` say.
Result<int> KernelBuilder::BindOrEmit(const StridedOperand& operand, const Dims& extents, const Dims& strides,
                                      ElementProgram& program) {
  if (plan_.HasBuffer(operand.base)) return Bind(operand.base, true, false);
  ProgramBuilder builder(extents);
  IndexSpace& space = builder.space();
  IndexId place = space.Constant(operand.offset);
  for (std::size_t d = 0; d < extents.size(); ++d)
    place = space.Add(place, space.Mul(space.Iter(static_cast<int>(d)), strides[d]));
  ProgramEmitter emitter = EmitterOf(builder);
  KRAFLA_ASSIGN(ScalarValue value,
                emitter.Emit(operand.base, space.Delinearize(place, LeafShape(operand.base).dims())));
  builder.AddResult(value.re);
  program = std::move(builder).Finish();
  return -1;
}

Result<BuiltKernel> KernelBuilder::BuildDot() {
  const Instruction& hero = *group_.heroes[0];
  std::optional<DotOperands> operands = ChooseDotOperands(hero);
  if (!operands) return Internal("{} has no strides.", Describe(hero));
  Axes axes = AxesOf(hero, operands->lhs, operands->rhs);
  DotKernel kernel;
  // All axes of m and n but the innermost are walked like axes of the batch.
  auto batch = [&](const Axis& a) {
    kernel.batch.push_back(a.extent);
    kernel.lhs_batch_strides.push_back(a.lhs);
    kernel.rhs_batch_strides.push_back(a.rhs);
  };
  for (const Axis& a : axes.batch) batch(a);
  for (std::size_t d = 0; d + 1 < axes.m.size(); ++d) batch(axes.m[d]);
  std::size_t outer_m = kernel.batch.size();
  for (std::size_t d = 0; d + 1 < axes.n.size(); ++d) batch(axes.n[d]);
  Axis m = axes.m.empty() ? Axis{} : axes.m.back();
  Axis n = axes.n.empty() ? Axis{} : axes.n.back();
  Axis k = axes.k.empty() ? Axis{} : axes.k.back();
  kernel.m = m.extent, kernel.n = n.extent, kernel.k = k.extent;
  // A contraction over no elements gives zeros and reads nothing.
  for (const Instruction* o : hero.operands())
    if (o->shape().element_count() == 0) kernel.k = 0;
  kernel.lhs_m_stride = m.lhs, kernel.lhs_k_stride = k.lhs;
  kernel.rhs_k_stride = k.rhs, kernel.rhs_n_stride = n.rhs;
  kernel.lhs_offset = operands->lhs.offset, kernel.rhs_offset = operands->rhs.offset;
  const auto with = [&](Dims dims, int64_t first, int64_t second) {
    dims.push_back(first), dims.push_back(second);
    return dims;
  };
  KRAFLA_ASSIGN(kernel.lhs_binding, BindOrEmit(operands->lhs, with(kernel.batch, kernel.m, kernel.k),
                                               with(kernel.lhs_batch_strides, kernel.lhs_m_stride, kernel.lhs_k_stride),
                                               kernel.lhs_program));
  KRAFLA_ASSIGN(kernel.rhs_binding, BindOrEmit(operands->rhs, with(kernel.batch, kernel.k, kernel.n),
                                               with(kernel.rhs_batch_strides, kernel.rhs_k_stride, kernel.rhs_n_stride),
                                               kernel.rhs_program));
  kernel.lhs_type = hero.operand(0)->shape().element_type();
  kernel.rhs_type = hero.operand(1)->shape().element_type();
  kernel.result_type = hero.shape().element_type();
  kernel.accumulate_type = AccumulateType(kernel.result_type);
  if (IsFloat(kernel.result_type) && (kernel.lhs_type == ElementType::kF64 || kernel.rhs_type == ElementType::kF64))
    kernel.accumulate_type = ElementType::kF64;
  kernel.precision = hero.attr<DotAttributes>().precision;

  // The iteration space of the epilogue: [batch axes, m, n] with outer n axes among the batch ones.
  Dims space_dims = kernel.batch;
  space_dims.push_back(kernel.m);
  space_dims.push_back(kernel.n);
  // The order in which its dimensions stand in the row-major result: outer axes of n come after m.
  std::vector<int> order;
  for (std::size_t d = 0; d < outer_m; ++d) order.push_back(static_cast<int>(d));
  order.push_back(static_cast<int>(kernel.batch.size()));
  for (std::size_t d = outer_m; d < kernel.batch.size(); ++d) order.push_back(static_cast<int>(d));
  order.push_back(static_cast<int>(kernel.batch.size()) + 1);
  KRAFLA_ASSIGN(kernel.epilogue, EmitEpilogue(hero, kernel.accumulate_type, space_dims, order));
  double points = static_cast<double>(hero.shape().element_count());
  out_.kernel.flops = 2 * points * static_cast<double>(kernel.k);
  out_.kernel.body = std::move(kernel);
  ShareBindings();
  return std::move(out_);
}

}  // namespace krafla::plan
