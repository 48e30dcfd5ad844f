// SPDX-License-Identifier: Apache-2.0
// Reduce regions and reduce-window: groups around reductions to ReduceKernels.
#include <algorithm>

#include "plan/collapse.h"
#include "plan/kernel_builder.h"

namespace krafla::plan {
namespace {

// The inputs (first half) and inits (second half) of a reduce or reduce-window.
std::size_t InputCount(const Instruction& i) { return i.operand_count() / 2; }

std::vector<const Shape*> ResultLeaves(const Instruction& i) { return TupleLeaves(i.shape()); }

bool StaticArrays(const Instruction& i) {
  for (const Instruction* o : i.operands())
    if (!o->shape().IsArray() || o->shape().IsDynamic()) return false;
  return true;
}

// Whether the combiner can be written as nodes on scalars, cheaply told.
bool EmittableComputation(const Computation& c) {
  for (const auto& i : c.instructions()) {
    if (IsOneOf(i->opcode(), {Opcode::kParameter, Opcode::kTuple})) continue;
    if (!IsEmittable(*i) || i->shape().rank() != 0) return false;
  }
  return true;
}

constexpr int64_t kLongestRegionRow = int64_t{1} << 22;

Dims WithoutOnes(const Dims& dims) {
  Dims out;
  for (int64_t d : dims)
    if (d != 1) out.push_back(d);
  return out;
}

struct Split {
  Dims operand_dims;
  std::vector<int> row, element;  // dimensions of the operand
  Dims row_dims, element_dims;
  int64_t rows = 1, elements = 1;
};

Split SplitOf(const Instruction& reduce) {
  Split out;
  out.operand_dims = reduce.operand(0)->shape().dims();
  const Dims& reduced = reduce.attr<DimensionsAttributes>().dimensions;
  for (std::size_t d = 0; d < out.operand_dims.size(); ++d) {
    int64_t extent = out.operand_dims[d];
    if (std::find(reduced.begin(), reduced.end(), static_cast<int64_t>(d)) == reduced.end()) {
      out.row.push_back(static_cast<int>(d));
      out.row_dims.push_back(extent);
      out.rows *= extent;
    } else {
      out.element.push_back(static_cast<int>(d));
      out.element_dims.push_back(extent);
      out.elements *= extent;
    }
  }
  return out;
}

// Reduced dimensions come last (ones aside), so that a row is contiguous.
bool RowsContiguous(const Split& s) {
  int last_row = -1, first_element = 1 << 20;
  for (int d : s.row)
    if (s.operand_dims[static_cast<std::size_t>(d)] != 1) last_row = std::max(last_row, d);
  for (int d : s.element)
    if (s.operand_dims[static_cast<std::size_t>(d)] != 1) first_element = std::min(first_element, d);
  return last_row < first_element;
}

}  // namespace

bool KernelBuilder::TakesReduce(const Instruction& i) {
  // The zeros of a complex product tell by their signs where the initial value came in, and kernels bring it in last.
  const bool is_complex = IsComplex(i.operand(0)->shape().element_type());
  if (is_complex && i.called(0)->root()->opcode() == Opcode::kMultiply) return false;
  return StaticArrays(i) && i.operand(0)->shape().element_count() < (int64_t{1} << 31) &&
         EmittableComputation(*i.called(0));
}

bool KernelBuilder::TakesReduceWindow(const Instruction& i) {
  if (!StaticArrays(i) || !EmittableComputation(*i.called(0))) return false;
  double work = static_cast<double>(ResultLeaves(i)[0]->element_count());
  for (const WindowDim& w : i.attr<WindowAttributes>().window) work *= static_cast<double>(w.size);
  return work < 1e11;
}

bool KernelBuilder::RegionFits(const FusionGroup& g) {
  if (g.heroes[0]->opcode() != Opcode::kReduce) return false;
  Split first = SplitOf(*g.heroes[0]);
  if (first.rows == 0 || first.elements == 0) return false;
  // Stages that wait for each other are one workgroup's: few or very long rows keep theirs in kernels of their own,
  // which share a row among workgroups.
  const bool is_long = (first.rows < 8 && first.rows * first.elements > 65536) || first.elements > kLongestRegionRow;
  if (g.heroes.size() > 1 && is_long) return false;
  bool contiguous = RowsContiguous(first);
  for (std::size_t n = 1; n < g.heroes.size(); ++n) {
    if (g.heroes[n]->opcode() != Opcode::kReduce) return false;
    Split s = SplitOf(*g.heroes[n]);
    if (WithoutOnes(s.operand_dims) != WithoutOnes(first.operand_dims) ||
        WithoutOnes(s.row_dims) != WithoutOnes(first.row_dims))
      return false;
    // Equal extents may be other dimensions: only where each one's rows come first are they the same.
    if (!contiguous || !RowsContiguous(s)) return false;
  }
  for (const Instruction* root : g.roots) {
    int64_t count = root->shape().element_count();
    if (count == first.rows) continue;
    if (count != first.rows * first.elements) return false;
    // A whole pass over the elements pays where a row is walked in order and there are rows enough to share out.
    if (!contiguous || is_long) return false;
  }
  return true;
}

Result<BuiltKernel> KernelBuilder::BuildReduce() {
  const Split split = SplitOf(*group_.heroes[0]);
  ReduceKernel kernel;
  kernel.row_dims = split.row_dims;
  kernel.element_dims = split.element_dims;
  Dims all = split.row_dims;
  all.append(split.element_dims.begin(), split.element_dims.end());

  // Reductions in stages: one more than the latest reduction that feeds it.
  std::unordered_map<const Instruction*, int> level;
  int levels = 0;
  for (const Instruction* hero : group_.heroes) {
    int mine = 0;
    std::unordered_set<const Instruction*> seen;
    std::vector<const Instruction*> stack(hero->operands().begin(), hero->operands().end());
    while (!stack.empty()) {
      const Instruction* i = stack.back();
      stack.pop_back();
      if (!seen.insert(i).second) continue;
      if (auto it = level.find(i); it != level.end()) {
        mine = std::max(mine, it->second + 1);
        continue;
      }
      if (!IsMember(i) && plan_.HasBuffer({i, 0})) continue;
      stack.insert(stack.end(), i->operands().begin(), i->operands().end());
    }
    level[hero] = mine;
    levels = std::max(levels, mine + 1);
  }

  std::unordered_map<ValueRef, int, ValueRefHash> param_of;
  std::unordered_map<ValueRef, bool, ValueRefHash> round_param;
  int next_param = 0;

  // Emits one stage: `body` is given the emitter and the index of the first hero's operand, or of the rows.
  auto stage = [&](ReduceStage::Scope scope, auto&& body) -> Result<ReduceStage> {
    ReduceStage out;
    out.scope = scope;
    bool element = scope == ReduceStage::Scope::kElement;
    ProgramBuilder builder(element ? all : split.row_dims);
    std::vector<IndexId> rows, operand(split.operand_dims.size(), 0);
    for (std::size_t d = 0; d < split.row.size(); ++d) {
      rows.push_back(builder.space().Iter(static_cast<int>(d)));
      operand[static_cast<std::size_t>(split.row[d])] = rows.back();
    }
    if (element)
      for (std::size_t d = 0; d < split.element.size(); ++d)
        operand[static_cast<std::size_t>(split.element[d])] =
            builder.space().Iter(static_cast<int>(split.row.size() + d));
    uint64_t row_mask = split.row.empty() ? 0 : ~uint64_t{0} >> (64 - split.row.size());
    ProgramEmitter* self = nullptr;
    ProgramEmitter emitter(
        builder,
        [&](const ValueRef& v, std::span<const IndexId> index, NodeId mask) -> Result<std::optional<ScalarValue>> {
          if (auto it = param_of.find(v); it != param_of.end()) {
            std::vector<IndexId> expected = rows;
            if (LeafShape(v).dims() != split.row_dims)
              expected =
                  builder.space().Delinearize(builder.space().Linearize(rows, split.row_dims), LeafShape(v).dims());
            if (!std::equal(index.begin(), index.end(), expected.begin(), expected.end()))
              return Unimplemented("{} is read across rows.", Describe(*v.instruction));
            ElementType type = LeafShape(v).element_type();
            ElementType compute = ComputeType(RealPart(type));
            ScalarValue param{builder.Param(compute, it->second, row_mask), kNoNode};
            if (IsComplex(type)) param.im = builder.Param(compute, it->second + 1, row_mask);
            if (round_param[v]) param.re = builder.Convert(param.re, ElementType::kF32, type);
            return param;
          }
          if (level.contains(v.instruction)) return Internal("{} is read before its stage.", Describe(*v.instruction));
          return Outside(*self, v, index, mask);
        });
    self = &emitter;
    KRAFLA_TRY(body(out, emitter, operand, rows));
    out.program = std::move(builder).Finish();
    return out;
  };

  for (int l = 0; l < levels; ++l) {
    std::vector<std::pair<ValueRef, bool>> made;
    KRAFLA_ASSIGN(ReduceStage reducing,
                  stage(ReduceStage::Scope::kElement,
                        [&](ReduceStage& out, ProgramEmitter& emitter, const std::vector<IndexId>& operand,
                            const std::vector<IndexId>&) -> Result<> {
                          ProgramBuilder& builder = emitter.builder();
                          int results = 0;
                          for (const Instruction* hero : group_.heroes) {
                            if (level[hero] != l) continue;
                            std::size_t inputs = InputCount(*hero);
                            std::vector<ValueRef> inits;
                            for (std::size_t n = 0; n < inputs; ++n) inits.push_back({hero->operand(inputs + n), 0});
                            std::vector<const Shape*> leaves = ResultLeaves(*hero);
                            KRAFLA_ASSIGN(Reduction r, MakeReduction(*hero->called(0), inits, leaves));
                            for (std::size_t n = 0; n < inputs; ++n) {
                              const Dims& dims = hero->operand(n)->shape().dims();
                              std::vector<IndexId> at = operand;
                              if (dims != split.operand_dims)
                                at = builder.space().Delinearize(builder.space().Linearize(operand, split.operand_dims),
                                                                 dims);
                              KRAFLA_ASSIGN(ScalarValue value, emitter.Emit({hero->operand(n), 0}, at));
                              AddResults(builder, value);
                              r.inputs.push_back(results++);
                              if (value.im != kNoNode) r.inputs.push_back(results++);
                              made.push_back({{hero, static_cast<int>(n)}, AccumulatesWide(r)});
                            }
                            out.reductions.push_back(std::move(r));
                          }
                          return {};
                        }));
    kernel.stages.push_back(std::move(reducing));
    for (const auto& [value, round] : made) {
      param_of[value] = next_param;
      next_param += IsComplex(LeafShape(value).element_type()) ? 2 : 1;
      round_param[value] = round;
    }
  }

  // What the kernel leaves behind: row values in one row stage, element values in one element stage.
  auto store = [&](ReduceStage::Scope scope) -> Result<> {
    bool element = scope == ReduceStage::Scope::kElement;
    bool any = false;
    KRAFLA_ASSIGN(ReduceStage storing,
                  stage(scope,
                        [&](ReduceStage&, ProgramEmitter& emitter, const std::vector<IndexId>& operand,
                            const std::vector<IndexId>& rows) -> Result<> {
                          IndexSpace& space = emitter.builder().space();
                          if (!element)
                            for (const Instruction* hero : group_.heroes) {
                              if (group_.internal.contains(hero)) continue;
                              int leaf = 0;
                              for (const Shape* s : ResultLeaves(*hero)) {
                                std::vector<IndexId> at =
                                    s->dims() == split.row_dims
                                        ? rows
                                        : space.Delinearize(space.Linearize(rows, split.row_dims), s->dims());
                                KRAFLA_ASSIGN(ScalarValue value, emitter.Emit({hero, leaf}, at));
                                emitter.StoreElement(*s, Bind({hero, leaf}, false, true), at, value);
                                ++leaf;
                                any = true;
                              }
                            }
                          for (const Instruction* root : group_.roots) {
                            bool root_is_row = root->shape().element_count() == split.rows;
                            if (group_.internal.contains(root) || root_is_row == element) continue;
                            IndexId linear = element ? space.Linearize(operand, split.operand_dims)
                                                     : space.Linearize(rows, split.row_dims);
                            std::vector<IndexId> at = element && root->shape().dims() == split.operand_dims
                                                          ? operand
                                                          : space.Delinearize(linear, root->shape().dims());
                            KRAFLA_ASSIGN(ScalarValue value, emitter.Emit({root, 0}, at));
                            emitter.StoreElement(root->shape(), Bind({root, 0}, false, true), at, value);
                            any = true;
                          }
                          return {};
                        }));
    if (any) kernel.stages.push_back(std::move(storing));
    return {};
  };
  KRAFLA_TRY(store(ReduceStage::Scope::kRow));
  KRAFLA_TRY(store(ReduceStage::Scope::kElement));
  return FinishReduce(std::move(kernel));
}

Result<BuiltKernel> KernelBuilder::FinishReduce(ReduceKernel kernel) {
  std::vector<ElementProgram*> programs;
  for (ReduceStage& s : kernel.stages) programs.push_back(&s.program);
  int border = static_cast<int>(kernel.row_dims.size()) - 1;
  int keep[] = {border};
  std::vector<int> group_of = CollapseTogether(programs, keep);
  Dims rows, elements;
  auto row_rank = static_cast<std::size_t>(border + 1);
  for (std::size_t d = 0; d < group_of.size(); ++d) {
    bool is_row = d < row_rank;
    int64_t extent = is_row ? kernel.row_dims[d] : kernel.element_dims[d - row_rank];
    Dims& list = is_row ? rows : elements;
    bool starts = d == 0 || d == row_rank || group_of[d] != group_of[d - 1];
    if (starts) list.push_back(extent);
    else list.back() *= extent;
  }
  kernel.row_dims = rows;
  kernel.element_dims = elements;
  out_.kernel.body = std::move(kernel);
  ShareBindings();
  return std::move(out_);
}

Result<BuiltKernel> KernelBuilder::BuildReduceWindow() {
  const Instruction& hero = *group_.heroes[0];
  const Window& window = hero.attr<WindowAttributes>().window;
  std::vector<const Shape*> leaves = ResultLeaves(hero);
  std::size_t inputs = InputCount(hero);
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
    ProgramEmitter* self = nullptr;
    ProgramEmitter emitter(builder, [&](const ValueRef& v, std::span<const IndexId> index, NodeId mask) {
      return Outside(*self, v, index, mask);
    });
    self = &emitter;
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
    ProgramEmitter emitter(builder, nullptr);
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
