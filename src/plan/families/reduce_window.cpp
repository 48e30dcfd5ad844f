// SPDX-License-Identifier: Apache-2.0
// Turns reduce-windows into ReduceKernels: the elements of a row are the elements of its window.
#include <algorithm>

#include "plan/families/reduce_split.h"
#include "plan/kernel_builder.h"

namespace krafla::plan {

Result<BuiltKernel> KernelBuilder::BuildReduceWindow() {
  const Instruction& hero = *group_.heroes[0];
  const Window& window = hero.attr<WindowAttributes>().window;
  std::vector<const Shape*> leaves = TupleLeaves(hero.shape());
  std::size_t inputs = ReduceInputCount(hero);
  ReduceKernel kernel;
  kernel.row_dims = leaves[0]->dims();
  for (const WindowDim& w : window) kernel.element_dims.push_back(w.size);
  std::size_t rank = window.size();
  Dims all = kernel.row_dims;
  all.append(kernel.element_dims.begin(), kernel.element_dims.end());

  std::vector<ValueRef> inits;
  for (std::size_t n = 0; n < inputs; ++n) inits.push_back({hero.operand(inputs + n), 0});
  KRAFLA_ASSIGN(Reduction reduction, MakeReduction(*hero.called(0), inits, leaves));
  bool round = AccumulatesWide(reduction);

  ReduceStage reducing;
  {
    ProgramBuilder builder(all);
    IndexSpace& space = builder.space();
    ProgramEmitter emitter = EmitterOf(builder);
    const Dims& from = hero.operand(0)->shape().dims();
    std::vector<IndexId> at;
    NodeId inside = kNoNode;
    for (std::size_t d = 0; d < rank; ++d) {
      const WindowDim& w = window[d];
      IndexId t = space.Add(
          space.Mul(space.Iter(static_cast<int>(d)), w.stride),
          space.Mul(space.Iter(static_cast<int>(rank + d)), w.reversal ? -w.window_dilation : w.window_dilation));
      t = space.AddConstant(t, (w.reversal ? (w.size - 1) * w.window_dilation : 0) - w.padding_low);
      int64_t span = from[d] == 0 ? 0 : (from[d] - 1) * w.base_dilation + 1;
      inside = builder.And(inside, builder.InRange(t, 0, span));
      if (w.base_dilation > 1) {
        t = builder.ClampedIndex(builder.Index(t), 0, std::max<int64_t>(span - 1, 0));
        inside = builder.And(inside, builder.InRange(space.Mod(t, w.base_dilation), 0, 1));
        t = space.FloorDiv(t, w.base_dilation);
      }
      at.push_back(t);
    }
    for (std::size_t n = 0; n < inputs; ++n) {
      KRAFLA_ASSIGN(ScalarValue value, emitter.Emit({hero.operand(n), 0}, at, inside));
      if (inside != kNoNode) {
        KRAFLA_ASSIGN(ScalarValue init, emitter.Emit(inits[n], {}));
        value.re = builder.Select(inside, value.re, init.re);
        if (init.im != kNoNode) value.im = builder.Select(inside, value.im, init.im);
      }
      AddResults(builder, value);
      const int count = value.im != kNoNode ? 2 : 1;
      for (int k = 0; k < count; ++k) reduction.inputs.push_back(static_cast<int>(reduction.inputs.size()));
    }
    reducing.program = std::move(builder).Finish();
    reducing.reductions.push_back(std::move(reduction));
  }
  kernel.stages.push_back(std::move(reducing));

  ReduceStage storing;
  storing.scope = ReduceStage::Scope::kRow;
  {
    ProgramBuilder builder(kernel.row_dims);
    ProgramEmitter emitter(builder);
    std::vector<IndexId> at;
    for (std::size_t d = 0; d < rank; ++d) at.push_back(builder.space().Iter(static_cast<int>(d)));
    uint64_t mask = rank == 0 ? 0 : ~uint64_t{0} >> (64 - rank);
    int next = 0;
    for (std::size_t n = 0; n < leaves.size(); ++n) {
      ElementType type = leaves[n]->element_type();
      const ElementType compute = ComputeType(RealPart(type));
      ScalarValue param{builder.Param(compute, next++, mask), kNoNode};
      if (IsComplex(type)) param.im = builder.Param(compute, next++, mask);
      if (round) param.re = builder.Convert(param.re, ElementType::kF32, type);
      emitter.StoreElement(*leaves[n], Bind({&hero, static_cast<int>(n)}, false, true), at, param);
    }
    storing.program = std::move(builder).Finish();
  }
  kernel.stages.push_back(std::move(storing));
  return FinishReduce(std::move(kernel));
}

}  // namespace krafla::plan
